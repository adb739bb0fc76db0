//! A run of a plan: steps become kernels, which are submitted together.

use std::sync::{Arc, MutexGuard, PoisonError};

use cotan::aval::Aval;
use cotan::kernels::Value;
use cotan::prim::Kernel;
use cotan::sched::{DevicePlan, DeviceStep, Task, note};
use cotan::{Error, Result};

use crate::context::Context;
use crate::epilogue::{Held, reader_of};
use crate::group::Group;
use crate::memory::Memory;
use crate::primitives::Family;
use crate::recorded::{Layout, Recorded, Steps};
use crate::shader::{Dispatch, Source};
use crate::submission::submit;
use crate::types::Type;

/// So many dispatches are submitted at once at most: what comes later need not wait for all to be written.
const MANY: usize = 512;

/// A run that goes on.
pub struct Run<'c> {
    pub context: &'c Arc<Context>,
    pub waiting: Vec<Dispatch>,
    turn: Option<MutexGuard<'c, ()>>,
}

/// Whether numbers of elements do not fit a kernel.
pub fn is_long(aval: &Aval) -> bool {
    aval.size() > i32::MAX as usize
}

/// Runs a plan.
pub fn run(
    context: &Arc<Context>,
    plan: &DevicePlan,
    inputs: Vec<Value>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    context.check()?;
    let mut run = Run {
        context,
        waiting: Vec::new(),
        turn: Some(context.turn.lock().unwrap_or_else(PoisonError::into_inner)),
    };
    let mut slots: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
    slots.resize(plan.num_arrays(), None);
    for (slot, value) in plan.constants() {
        slots[*slot as usize] = Some(value.clone());
    }
    let steps = plan.compiled(context.id, Steps::default);
    let mut held: Option<Held> = None;
    let mut next = 0;
    while next < plan.num_steps() {
        let number = next;
        next += 1;
        if let Some(last) = run.rows(plan, &steps, number, &mut slots)? {
            next = last + 1;
            run.go_on(interrupted)?;
            continue;
        }
        let step = plan.step(number);
        run.try_units(&step)?;
        if let Some(reader) = reader_of(plan, number) {
            let args = args_of(&step, &slots)?;
            held = Some(Held {
                number,
                reader,
                args,
            });
            forget(&step, &mut slots);
            continue;
        }
        if let Some(product) = held.take_if(|held| held.reader == number) {
            let first = plan.step(product.number);
            if let Some(results) =
                run.product_and_group(&steps, (number, &first), &product.args, &step, &slots)?
            {
                keep(&step, results, &mut slots);
                continue;
            }
            let results = run.results(plan, &steps, product.number, &product.args)?;
            slots[first.outputs[0].0 as usize] = results.into_iter().next();
        }
        let args = args_of(&step, &slots)?;
        let results = run.results(plan, &steps, number, &args)?;
        keep(&step, results, &mut slots);
        run.go_on(interrupted)?;
    }
    let mut outs = Vec::with_capacity(plan.outs().len());
    for &slot in plan.outs() {
        let value = slots[slot as usize]
            .clone()
            .ok_or_else(|| Error::Program("a run left no value".into()))?;
        let has = Type::of(value.dtype(), context.features).is_some();
        outs.push(if has { run.put(&value)? } else { value });
    }
    run.submit()?;
    Ok(outs)
}

/// What a step reads.
pub fn args_of(step: &DeviceStep<'_>, slots: &[Option<Value>]) -> Result<Vec<Value>> {
    (step.inputs.iter())
        .map(|&s| slots[s as usize].clone())
        .collect::<Option<_>>()
        .ok_or_else(|| Error::Program("a step runs before what it reads".into()))
}

/// Lets go of what nothing reads after a step.
fn forget(step: &DeviceStep<'_>, slots: &mut [Option<Value>]) {
    for &slot in step.dying {
        slots[slot as usize] = None;
    }
}

/// Keeps the results of a step.
pub fn keep(step: &DeviceStep<'_>, results: Vec<Value>, slots: &mut [Option<Value>]) {
    forget(step, slots);
    for ((slot, _), value) in step.outputs.iter().zip(results) {
        slots[*slot as usize] = Some(value);
    }
    for &slot in step.unread {
        slots[slot as usize] = None;
    }
}

impl Run<'_> {
    /// The results of a step, here or on the processor.
    fn results(
        &mut self,
        plan: &DevicePlan,
        steps: &Steps,
        number: usize,
        args: &[Value],
    ) -> Result<Vec<Value>> {
        let step = plan.step(number);
        if let Some(results) = self.step(steps, number, &step, args)? {
            return Ok(results);
        }
        self.submit()?;
        if matches!(step.task, Task::Host) {
            // What is called may use the device itself.
            self.turn = None;
        } else if step.outputs.iter().any(|(_, aval)| aval.size() > 0) {
            // A loop counts as one: profiles name the equations of its body where it runs.
            let is_loop = plan.prims(number).next().is_none();
            let whole = is_loop.then_some(step.prim);
            note(|counts| counts.add_on_processor(plan.prims(number).chain(whole)));
        }
        let results = plan.take_here(number, args.to_vec());
        self.take_turn();
        results
    }

    fn take_turn(&mut self) {
        if self.turn.is_none() {
            let turn = self.context.turn.lock();
            self.turn = Some(turn.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Sends what waits, if that is much.
    fn go_on(&mut self, interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        if self.waiting.len() >= MANY {
            self.submit()?;
            if interrupted() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Sends what waits to the device.
    pub fn submit(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        submit(self.context, &waiting)
    }

    /// The results of kernels that were written before for arguments of the same layouts, or else of those that `make`
    /// writes now, which are kept.
    pub fn again(
        &mut self,
        steps: &Steps,
        (number, outputs): (usize, &[(u32, Aval)]),
        args: &[Value],
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Option<Vec<Value>>>,
    ) -> Result<Option<Vec<Value>>> {
        let mut sent = Vec::with_capacity(args.len());
        let (mut memories, mut words) = (Vec::new(), Vec::new());
        for arg in args {
            if self.kind(arg.dtype()).is_none() {
                return make(self, args);
            }
            match self.source(arg)? {
                Source::Array(value, memory) => {
                    sent.push(value);
                    memories.push(Some(memory));
                    words.push(Vec::new());
                }
                Source::Number(bits) => {
                    sent.push(arg.clone());
                    memories.push(None);
                    words.push(bits);
                }
                // A source is one of these two.
                Source::Given(_) => return Ok(None),
            }
        }
        let layout = Layout::of(&sent, &memories, &words);
        if let Some(known) = steps.find(self.context, number, &layout) {
            let Some((values, results)) = self.room(outputs)? else {
                return Ok(None);
            };
            let dispatches = known.dispatches(self.context, &memories, &results)?;
            self.waiting.extend(dispatches);
            return Ok(Some(values));
        }
        let before = self.waiting.len();
        let made = make(self, &sent)?;
        if let Some(values) = &made
            && self.waiting.len() > before
        {
            let results: Vec<Arc<Memory>> = (values.iter())
                .map(|v| self.memory(v))
                .collect::<Result<_>>()?;
            let own = &self.waiting[before..];
            steps.keep(
                number,
                Recorded::new(self.context, layout, own, &memories, &results),
            );
        }
        Ok(made)
    }

    /// The results of a step, or nothing where the device has no kernel for it.
    fn step(
        &mut self,
        steps: &Steps,
        number: usize,
        step: &DeviceStep<'_>,
        args: &[Value],
    ) -> Result<Option<Vec<Value>>> {
        let is_empty = args.iter().any(|a| a.aval().size() == 0)
            || step.outputs.iter().any(|(_, a)| a.size() == 0);
        if args.iter().any(|a| is_long(a.aval())) || step.outputs.iter().any(|(_, a)| is_long(a)) {
            return Err(Error::Device(format!(
                "{}: {}: arrays of more than {} elements are too large for a kernel; compute with parts of them",
                self.context.name,
                step.prim.name(),
                i32::MAX
            )));
        }
        match step.task {
            Task::View => self.view(step, &args[0]).map(Some),
            Task::Host => Ok(None),
            _ if is_empty => Ok(None),
            Task::Group(recipe) => self.again(steps, (number, step.outputs), args, |run, args| {
                let mut sources = Vec::with_capacity(args.len());
                for arg in args {
                    if run.kind(arg.dtype()).is_none() {
                        return Ok(None);
                    }
                    sources.push(run.source(arg)?);
                }
                let Some(group) = Group::new(run.context, recipe, sources) else {
                    return Ok(None);
                };
                run.group(&group, step)
            }),
            Task::Call => {
                // Nothing is copied to the device for what it cannot do.
                let Some(family) = Family::of(step.prim) else {
                    return Ok(None);
                };
                let (prim, aval) = ((step.prim, step.params), &step.outputs[0].1);
                if family.reads_indices() {
                    return self.call(family, prim, args, aval);
                }
                let args = if family.binds_arguments() {
                    self.all_put(args)?
                } else {
                    args.to_vec()
                };
                self.again(steps, (number, step.outputs), &args, |run, args| {
                    run.call(family, prim, args, aval)
                })
            }
        }
    }

    fn group(&mut self, group: &Group<'_>, step: &DeviceStep<'_>) -> Result<Option<Vec<Value>>> {
        let Some((values, memories)) = self.room(step.outputs)? else {
            return Ok(None);
        };
        let most = self.context.most_bound();
        let Some(dispatches) = group.dispatches(self.context, &memories, most)? else {
            return Ok(None);
        };
        self.waiting.extend(dispatches);
        Ok(Some(values))
    }

    pub fn view(&mut self, step: &DeviceStep<'_>, source: &Value) -> Result<Vec<Value>> {
        if let Some(value) = layout(step, source)? {
            return Ok(vec![value]);
        }
        let plain = if source.is_remote() {
            self.plain(source)?.0
        } else {
            cotan::sched::copied(source)?
        };
        let value = layout(step, &plain)?
            .ok_or_else(|| Error::Program(format!("{}: has no layout", step.prim.name())))?;
        Ok(vec![value])
    }
}

/// Another layout of a value; `None` where its elements have to be copied first.
pub fn layout(step: &DeviceStep<'_>, source: &Value) -> Result<Option<Value>> {
    let Some(Kernel::View(layout)) = step.prim.kernel_ref() else {
        return Err(Error::Program(format!("{}: is no view", step.prim.name())));
    };
    Ok(layout(step.params, source, &step.outputs[0].1))
}

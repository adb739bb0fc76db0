//! The memory of a run, all of it in its place before the run begins.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::arena::{Arena, Held};
use super::bodies::PATIENCE;
use super::plan::{Compiled, Plan, Step, Work};
use super::profile::{Origin, Phase, Stopwatch, note, timed};
use super::run::run_part;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::{self, BoundCode, Ctx, Value};
use crate::prim::Kernel;

/// The buffers of one run of a small plan, each in its place: inputs are written into it, results read
/// from it, and nothing is allocated in between.
#[derive(Debug)]
pub struct Frame {
    plan: Arc<Plan>,
    /// What it was made for: the same until the frame is dropped.
    more: Arc<[Value]>,
    acts: Acts,
}

#[derive(Debug)]
enum Acts {
    Kernels(Arena),
    Code(Code),
}

/// Machine code, and what is none between it.
#[derive(Debug)]
struct Code {
    held: Held,
    inputs: Vec<Value>,
    acts: Vec<Act>,
    outs: Vec<Value>,
}

#[derive(Debug)]
enum Act {
    /// A part that is no code.
    Part(usize, Vec<Value>, Vec<Value>),
    /// One that is a loop, before which somebody may want to stop.
    Loop(usize, Vec<Value>, Vec<Value>),
    /// Elements side by side, for code that wants them so.
    Copy(Value, Value),
    Code(BoundCode, Arc<[Origin]>),
}

impl Frame {
    /// The memory for a plan, or for its machine code; `None` where a step needs some that is not known before, or
    /// they need too much.
    pub(super) fn new(
        plan: &Arc<Plan>,
        compiled: Option<&Compiled>,
        inputs: &[Aval],
        more: &Arc<[Value]>,
    ) -> Result<Option<Frame>> {
        let acts = match compiled {
            Some(compiled) => Code::new(plan, compiled, inputs, more)?.map(Acts::Code),
            None => Arena::new(plan, inputs, more)?.map(Acts::Kernels),
        };
        Ok(acts.map(|acts| Frame {
            plan: Arc::clone(plan),
            more: Arc::clone(more),
            acts,
        }))
    }

    /// Whether it was made for this plan.
    pub(super) fn is_of(&self, plan: &Arc<Plan>) -> bool {
        Arc::ptr_eq(&self.plan, plan)
    }

    /// Whether it was made with these inputs behind the others.
    pub(super) fn has(&self, more: &Arc<[Value]>) -> bool {
        Arc::ptr_eq(&self.more, more) || (self.more.is_empty() && more.is_empty())
    }

    /// Runs it on what has been written into it.
    pub(super) fn run(&mut self, interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        let plan = &*self.plan;
        note(|counts| {
            counts.runs += 1;
            counts.add_equations(&plan.counts);
        });
        let _timed = timed(Phase::Run);
        let mut stopwatch = Stopwatch::new();
        let cancel = AtomicBool::new(false);
        self.advance(&mut stopwatch, &Ctx::new(&cancel, 1), interrupted)?;
        stopwatch.tell();
        Ok(())
    }

    /// The same as a part of a run that goes on.
    pub(super) fn advance(
        &mut self,
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        match &mut self.acts {
            Acts::Kernels(arena) => arena.run(stopwatch, ctx, interrupted),
            Acts::Code(code) => code.run(&self.plan, stopwatch, ctx, interrupted),
        }
    }

    /// Runs it on these inputs, and gives the first results, so many, in their own memory.
    pub(super) fn run_on(
        &mut self,
        inputs: &[Value],
        targets: &[Option<Value>],
        read: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Value>> {
        for (i, input) in inputs.iter().enumerate() {
            self.write(i, input)?;
        }
        self.run(interrupted)?;
        let cancel = AtomicBool::new(false);
        let ctx = Ctx::new(&cancel, 1);
        let mut targets = targets.iter();
        let outs = self.outs().iter().take(read);
        let results = outs.map(|out| match targets.next() {
            Some(Some(target)) => {
                kernels::copy_into(target, out, &ctx)?;
                Ok(target.clone())
            }
            _ => kernels::copy(out, &ctx),
        });
        results.collect()
    }

    /// How many bytes its buffers have.
    pub(super) fn nbytes(&self) -> usize {
        match &self.acts {
            Acts::Kernels(arena) => arena.nbytes(),
            Acts::Code(code) => code.held.nbytes(),
        }
    }

    /// The buffers of the inputs, contiguous, to be written before a run.
    pub fn inputs(&self) -> &[Value] {
        match &self.acts {
            Acts::Kernels(arena) => arena.inputs(),
            Acts::Code(code) => &code.inputs,
        }
    }

    /// Writes an input.
    ///
    /// # Errors
    /// When it has another dtype or shape, or there is no such input.
    pub fn write(&mut self, i: usize, value: &Value) -> Result<()> {
        let to = self.inputs().get(i).filter(|to| to.aval() == value.aval());
        let Some(to) = to else {
            return Err(Error::Shape(format!(
                "a frame: input {i} is not {}",
                value.aval()
            )));
        };
        let cancel = AtomicBool::new(false);
        kernels::copy_into(to, value, &Ctx::new(&cancel, 1))
    }

    /// The results of the last run, to be read before the frame is given back. Some may share memory.
    pub fn outs(&self) -> &[Value] {
        match &self.acts {
            Acts::Kernels(arena) => arena.outs(),
            Acts::Code(code) => &code.outs,
        }
    }
}

impl Code {
    fn new(
        plan: &Plan,
        compiled: &Compiled,
        inputs: &[Aval],
        more: &[Value],
    ) -> Result<Option<Code>> {
        let own = &inputs[..inputs.len() - more.len()];
        let made = compiled.plan.steps.iter().flat_map(|s| &s.outputs);
        let made = made.map(|(_, aval)| aval.nbytes()).sum::<usize>();
        let read = own.iter().map(Aval::nbytes).sum::<usize>();
        let Some(held) = Held::new(made + read) else {
            return Ok(None);
        };
        let inputs = (own.iter().cloned())
            .map(Value::empty)
            .collect::<Result<Vec<_>>>()?;
        let mut slots: Vec<Option<Value>> = vec![None; plan.num_slots];
        for (slot, value) in slots.iter_mut().zip(inputs.iter().chain(more)) {
            *slot = Some(value.clone());
        }
        for (slot, value) in &plan.constants {
            slots[*slot as usize] = Some(value.clone());
        }
        let acts = code_acts(compiled, &mut slots)?;
        let outs = plan.outs.iter().map(|&s| slots[s as usize].clone());
        let (Some(acts), Some(outs)) = (acts, outs.collect::<Option<Vec<Value>>>()) else {
            return Ok(None);
        };
        Ok(Some(Code {
            held,
            inputs,
            acts,
            outs,
        }))
    }

    fn run(
        &mut self,
        plan: &Plan,
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        for (number, act) in self.acts.iter_mut().enumerate() {
            let is_due = number % PATIENCE == PATIENCE - 1 || matches!(act, Act::Loop(..));
            if is_due && interrupted() {
                return Err(Error::Interrupted);
            }
            let start = stopwatch.start();
            let origins: &[Origin] = match act {
                Act::Part(k, args, outs) | Act::Loop(k, args, outs) => {
                    let watch = std::mem::take(stopwatch);
                    *stopwatch = run_part(&plan.steps[*k], args, outs, watch, ctx)?;
                    continue;
                }
                Act::Copy(from, to) => {
                    kernels::copy_into(to, from, ctx)?;
                    &[]
                }
                Act::Code(bound, origins) => {
                    bound.run()?;
                    origins
                }
            };
            stopwatch.stop(start, origins);
        }
        Ok(())
    }
}

/// Another layout of a value, where strides describe it.
fn view(step: &Step, arg: &Value) -> Option<Value> {
    let Some(Kernel::View(layout)) = step.prim.kernel_ref() else {
        return None;
    };
    layout(&step.params, arg, &step.outputs[0].1)
}

/// What the steps of a plan are, with machine code for some; `None` where one needs memory that is not known before.
fn code_acts(compiled: &Compiled, slots: &mut [Option<Value>]) -> Result<Option<Vec<Act>>> {
    let plan = &compiled.plan;
    // Results side by side, so that the caches hold what the next step reads.
    let wanted: Vec<Aval> = plan
        .steps
        .iter()
        .flat_map(|s| s.outputs.iter().map(|(_, aval)| aval.clone()))
        .collect();
    let mut room = kernels::carve(&wanted)?.into_iter();
    let mut acts = Vec::with_capacity(plan.steps.len());
    for (k, (step, code)) in plan.steps.iter().zip(&compiled.code).enumerate() {
        let outs: Vec<Value> = room.by_ref().take(step.outputs.len()).collect();
        let read = step.inputs.iter().map(|&s| slots[s as usize].clone());
        let Some(mut args) = read.collect::<Option<Vec<Value>>>() else {
            return Ok(None);
        };
        let Work::Part(part) = &step.work else {
            return Ok(None);
        };
        if code.is_none()
            && let Some(views) = views(part, &args)
        {
            for ((slot, _), value) in step.outputs.iter().zip(views) {
                slots[*slot as usize] = Some(value);
            }
            continue;
        }
        for ((slot, _), value) in step.outputs.iter().zip(&outs) {
            slots[*slot as usize] = Some(value.clone());
        }
        let Some((code, origins)) = code else {
            let is_loop = (part.steps.iter()).any(|s| matches!(s.work, Work::Loop(_)));
            acts.push(if is_loop {
                Act::Loop(k, args, outs)
            } else {
                Act::Part(k, args, outs)
            });
            continue;
        };
        for arg in &mut args {
            if !arg.is_contiguous() || !arg.address().is_multiple_of(arg.dtype().size()) {
                let dense = Value::empty(arg.aval().clone())?;
                acts.push(Act::Copy(std::mem::replace(arg, dense.clone()), dense));
            }
        }
        acts.push(Act::Code(
            BoundCode::new(code, &args, &outs)?,
            Arc::clone(origins),
        ));
    }
    Ok(Some(acts))
}

/// The results of a part that is nothing but layouts.
fn views(part: &Plan, args: &[Value]) -> Option<Vec<Value>> {
    if !part.steps.iter().all(|s| matches!(s.work, Work::View)) {
        return None;
    }
    let mut slots: Vec<Option<Value>> = vec![None; part.num_slots];
    for (slot, arg) in slots.iter_mut().zip(args) {
        *slot = Some(arg.clone());
    }
    for (slot, value) in &part.constants {
        slots[*slot as usize] = Some(value.clone());
    }
    for step in &part.steps {
        let view = view(step, slots[step.inputs[0] as usize].as_ref()?)?;
        slots[step.outputs[0].0 as usize] = Some(view);
    }
    part.outs
        .iter()
        .map(|&s| slots[s as usize].clone())
        .collect()
}

//! Running a plan.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;

use super::plan::{LoopPlan, Plan, Slot, Step, Strips, Work};
use super::profile::{Phase, Stopwatch, note, timed};
use super::threads::{num_threads, pool, together};
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::{self, Ctx, Fused, Value};
use crate::prim::Kernel;

/// Work below this many estimated nanoseconds stays on the calling thread: waking others costs some 50 µs.
pub(super) const WORTH_THREADS: f64 = 100_000.0;
/// Work above this many is done by others alone, while the calling thread looks whether the user wants to stop.
const LONG: f64 = 20e6;
/// How many dying inputs are considered for reuse.
const MANY: usize = 64;
/// How often the calling thread looks whether the user wants to stop.
const PATIENCE: Duration = Duration::from_millis(20);

/// Runs a plan on the processor. `interrupted` is asked now and then, on the calling thread, whether to stop. There
/// may be memory for the first results: contiguous values that share nothing with the inputs. What is computed
/// elsewhere all the same is not copied into it.
pub(super) fn run_to(
    plan: &Plan,
    inputs: Vec<Value>,
    targets: &[Option<Value>],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    note(|counts| {
        counts.runs += 1;
        counts.add_equations(&plan.counts);
    });
    let _timed = timed(Phase::Run);
    let mut state = State::new(plan, inputs, Stopwatch::new());
    for (&slot, target) in plan.outs.iter().zip(targets) {
        if let Some(target) = target {
            state.targets.add(slot, target);
        }
    }
    loop {
        state = advance(plan, state, interrupted)?;
        let Some(step) = plan.steps.get(state.next) else {
            state.stopwatch.tell();
            return Ok(results(plan, state.slots));
        };
        // Nothing is held here and no thread of the pool waits: what is called may run programs too.
        let slots = &mut state.slots;
        state
            .stopwatch
            .calling(&step.origins, || call_back(step, slots))?;
        state.next += 1;
    }
}

/// What the slots of the outputs hold; one that is an output twice is there twice.
fn results(plan: &Plan, slots: Slots) -> Vec<Value> {
    let Slots(mut slots) = slots;
    let mut outs: Vec<Value> = Vec::with_capacity(plan.outs.len());
    for slot in &plan.outs {
        let out = slots[*slot as usize].take().unwrap_or_else(|| {
            let first = plan.outs.iter().position(|s| s == slot);
            outs[first.expect("a slot is taken for an output")].clone()
        });
        outs.push(out);
    }
    outs
}

/// What the buffers of a run hold.
struct Slots(Vec<Option<Value>>);

impl Slots {
    fn get(&self, slot: Slot) -> &Value {
        self.0[slot as usize]
            .as_ref()
            .expect("a step runs after what it reads")
    }

    /// What a step reads.
    fn read<C: FromIterator<Value>>(&self, step: &Step) -> C {
        step.inputs.iter().map(|&s| self.get(s).clone()).collect()
    }

    /// Lets go of what no later step reads: a kernel may write to it that is handed the last reference.
    fn release(&mut self, slots: &[Slot]) {
        for slot in slots {
            self.0[*slot as usize] = None;
        }
    }

    /// Keeps the results of a step that something reads.
    fn put(&mut self, step: &Step, results: impl IntoIterator<Item = Value>) {
        for ((slot, _), value) in step.outputs.iter().zip(results) {
            self.0[*slot as usize] = Some(value);
        }
        self.release(&step.unread);
    }
}

/// Memory for the results of some buffers.
struct Targets(Vec<(Slot, Value)>);

impl Targets {
    /// One for a buffer that has none.
    fn add(&mut self, slot: Slot, target: &Value) {
        if self.get(slot).is_none() {
            self.0.push((slot, target.clone()));
        }
    }

    fn get(&self, slot: Slot) -> Option<&Value> {
        self.0.iter().find(|(s, _)| *s == slot).map(|(_, t)| t)
    }
}

/// A run between two steps.
struct State {
    slots: Slots,
    /// The next step to take.
    next: usize,
    /// Where some results are to lie.
    targets: Targets,
    stopwatch: Stopwatch,
}

impl State {
    fn new(plan: &Plan, inputs: Vec<Value>, stopwatch: Stopwatch) -> State {
        let mut slots: Vec<Option<Value>> = Vec::with_capacity(plan.num_slots);
        slots.extend(inputs.into_iter().map(Some));
        slots.resize_with(plan.num_slots, || None);
        for (slot, value) in &plan.constants {
            slots[*slot as usize] = Some(value.clone());
        }
        State {
            slots: Slots(slots),
            next: 0,
            targets: Targets(Vec::new()),
            stopwatch,
        }
    }
}

/// Takes all steps up to the next one that calls back, or the end: on this thread, with others that help when that is
/// worth it, or on others alone.
fn advance(plan: &Plan, state: State, interrupted: &mut dyn FnMut() -> bool) -> Result<State> {
    let cancel = AtomicBool::new(false);
    let cost = if plan.calls_back {
        let steps = plan.steps[state.next..].iter();
        let steps = steps.take_while(|s| !matches!(s.work, Work::Host(..)));
        steps.map(|s| s.cost).sum()
    } else {
        plan.cost
    };
    if cost < WORTH_THREADS {
        return execute(plan, state, &Ctx::new(&cancel, 1));
    }
    if cost < LONG && plan.is_estimated() {
        // Over before the user would be asked whether to stop. To wake a thread that takes the steps, and to be woken by it,
        // takes longer than many of them.
        return caught(|| together(&cancel, |ctx| execute(plan, state, ctx)));
    }
    let Some(pool) = pool() else {
        return execute(plan, state, &Ctx::new(&cancel, 1));
    };
    let done: (Mutex<Option<Result<State>>>, Condvar) = (Mutex::new(None), Condvar::new());
    pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            let run = || execute(plan, state, &Ctx::new(&cancel, num_threads()));
            // A panic must not leave the calling thread waiting.
            let result = caught(run);
            *done.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            done.1.notify_one();
        });
        let mut guard = done.0.lock().unwrap_or_else(PoisonError::into_inner);
        while guard.is_none() {
            guard = done
                .1
                .wait_timeout(guard, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if guard.is_none() && interrupted() {
                cancel.store(true, Ordering::Relaxed);
                break;
            }
        }
    });
    done.0
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .unwrap_or(Err(Error::Interrupted))
}

/// The result of a run; an error for one that panics.
fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Error::Program("a kernel panicked".into())))
}

/// Takes steps up to the next one that calls back.
fn execute(plan: &Plan, mut state: State, ctx: &Ctx<'_>) -> Result<State> {
    let (slots, targets) = (&mut state.slots, &state.targets);
    for step in &plan.steps[state.next..] {
        ctx.check()?;
        let start = state.stopwatch.start();
        match &step.work {
            Work::Host(..) => break,
            Work::View => view(step, slots, ctx)?,
            Work::Call => call(step, slots, ctx)?,
            Work::Fused(kernel) => fused(step, kernel, slots, targets, ctx)?,
            Work::Part(inner) => {
                let stopwatch = &mut state.stopwatch;
                part(step, inner, slots, targets, stopwatch, ctx)?;
            }
            Work::Strips(inner) => strips(step, inner, slots, targets, ctx)?,
            Work::Loop(inner) => {
                looped(step, inner, slots, targets, &mut state.stopwatch, ctx)?;
            }
        }
        state.stopwatch.stop(start, &step.origins);
        state.next += 1;
    }
    Ok(state)
}

/// Takes one step on the processor, for a device that cannot; its results.
pub(super) fn take_step(plan: &Plan, number: usize, args: Vec<Value>) -> Result<Vec<Value>> {
    let step = &plan.steps[number];
    let mut slots = Slots(vec![None; plan.num_slots]);
    for (&slot, value) in step.inputs.iter().zip(args) {
        slots.0[slot as usize] = Some(value);
    }
    if matches!(step.work, Work::Host(..)) {
        call_back(step, &mut slots)?;
    } else {
        let cancel = AtomicBool::new(false);
        let none = Targets(Vec::new());
        let mut take = |ctx: &Ctx<'_>| match &step.work {
            Work::View => view(step, &mut slots, ctx),
            Work::Fused(kernel) => fused(step, kernel, &mut slots, &none, ctx),
            Work::Loop(inner) => {
                let stopwatch = &mut Stopwatch::default();
                looped(step, inner, &mut slots, &none, stopwatch, ctx)
            }
            _ => call(step, &mut slots, ctx),
        };
        if step.cost >= WORTH_THREADS {
            together(&cancel, take)?;
        } else {
            take(&Ctx::new(&cancel, 1))?;
        }
    }
    let result = |(slot, aval): &(Slot, Aval)| match slots.0[*slot as usize].take() {
        Some(value) => Ok(value),
        // Nothing reads it.
        None => Value::empty(aval.clone()),
    };
    step.outputs.iter().map(result).collect()
}

/// A pass over memory.
fn fused(
    step: &Step,
    kernel: &Fused,
    slots: &mut Slots,
    targets: &Targets,
    ctx: &Ctx<'_>,
) -> Result<()> {
    let outputs = allocate(step, slots, targets)?;
    let inputs: SmallVec<[Value; 4]> = slots.read(step);
    slots.release(&step.dying);
    // Nothing to write is nothing to do.
    if outputs.iter().any(|o| o.aval().size() > 0) {
        kernel.run(&inputs, &outputs, ctx)?;
    }
    drop(inputs);
    slots.put(step, outputs);
    Ok(())
}

/// The steps of a plan inside of this one. Such a plan has no such steps itself.
fn part(
    step: &Step,
    plan: &Plan,
    slots: &mut Slots,
    targets: &Targets,
    stopwatch: &mut Stopwatch,
    ctx: &Ctx<'_>,
) -> Result<()> {
    let mut state = State::new(plan, slots.read(step), std::mem::take(stopwatch));
    // What dies here may be written to inside.
    slots.release(&step.dying);
    for ((slot, _), &inner) in step.outputs.iter().zip(&plan.outs) {
        if let Some(target) = targets.get(*slot) {
            state.targets.add(inner, target);
        }
    }
    let state = execute(plan, state, ctx)?;
    *stopwatch = state.stopwatch;
    slots.put(step, results(plan, state.slots));
    Ok(())
}

/// A part by itself: its results are copied into memory that is there.
pub(super) fn run_part(
    step: &Step,
    args: &[Value],
    outs: &[Value],
    stopwatch: Stopwatch,
    ctx: &Ctx<'_>,
) -> Result<Stopwatch> {
    let Work::Part(plan) = &step.work else {
        return Err(Error::Program(format!("{}: is no part", step.prim.name())));
    };
    let mut state = State::new(plan, args.to_vec(), stopwatch);
    for (&slot, out) in plan.outs.iter().zip(outs) {
        state.targets.add(slot, out);
    }
    let state = execute(plan, state, ctx)?;
    for (value, out) in results(plan, state.slots).iter().zip(outs) {
        if value.as_ptr() != out.as_ptr() {
            kernels::copy_into(out, value, ctx)?;
        }
    }
    Ok(state.stopwatch)
}

/// A program that is repeated.
fn looped(
    step: &Step,
    looped: &LoopPlan,
    slots: &mut Slots,
    targets: &Targets,
    stopwatch: &mut Stopwatch,
    ctx: &Ctx<'_>,
) -> Result<()> {
    // A carry that dies here may be written to.
    let args: Vec<Value> = slots.read(step);
    slots.release(&step.dying);
    let targets = step.outputs.iter().map(|(slot, _)| targets.get(*slot));
    let outs = looped.run(args, &targets.collect::<Vec<_>>(), stopwatch, ctx)?;
    slots.put(step, outs);
    Ok(())
}

/// All steps of a plan that calls nothing back, with memory for some results.
pub(super) fn take_all(
    plan: &Plan,
    inputs: Vec<Value>,
    targets: &[(usize, Value)],
    stopwatch: &mut Stopwatch,
    ctx: &Ctx<'_>,
) -> Result<Vec<Value>> {
    let mut state = State::new(plan, inputs, std::mem::take(stopwatch));
    for (out, target) in targets {
        state.targets.add(plan.outs[*out], target);
    }
    let state = execute(plan, state, ctx)?;
    *stopwatch = state.stopwatch;
    Ok(results(plan, state.slots))
}

/// A product and what reads it, strip by strip.
fn strips(
    step: &Step,
    strips: &Strips,
    slots: &mut Slots,
    targets: &Targets,
    ctx: &Ctx<'_>,
) -> Result<()> {
    let inputs: Vec<Value> = slots.read(step);
    let given = (step.outputs.iter()).map(|(slot, _)| targets.get(*slot).cloned());
    let outs = strips.run(&inputs, &given.collect::<Vec<_>>(), run_strip, ctx)?;
    drop(inputs);
    slots.release(&step.dying);
    slots.put(step, outs);
    Ok(())
}

/// Runs the plan of a strip, with memory for all of its results.
fn run_strip(plan: &Plan, inputs: Vec<Value>, targets: &[Value], ctx: &Ctx<'_>) -> Result<()> {
    let mut state = State::new(plan, inputs, Stopwatch::default());
    for (&slot, target) in plan.outs.iter().zip(targets) {
        state.targets.add(slot, target);
    }
    let state = execute(plan, state, ctx)?;
    for (value, target) in results(plan, state.slots).iter().zip(targets) {
        if value.as_ptr() != target.as_ptr() {
            kernels::copy_into(target, value, ctx)?;
        }
    }
    Ok(())
}

/// A step that calls back. What it gives is checked: later steps rely on dtypes and shapes.
fn call_back(step: &Step, slots: &mut Slots) -> Result<()> {
    let Work::Host(host, used) = &step.work else {
        return Err(Error::Program(format!(
            "{}: does not call back",
            step.prim.name()
        )));
    };
    let cancel = AtomicBool::new(false);
    let ctx = Ctx::new(&cancel, 1);
    let args: Vec<Value> = (step.inputs.iter())
        .map(|&s| {
            let value = slots.get(s);
            // What is called may keep it; borrowed memory is not ours to give away.
            if value.is_contiguous() && !value.storage().is_borrowed() {
                Ok(value.clone())
            } else {
                kernels::copy(value, &ctx)
            }
        })
        .collect::<Result<_>>()?;
    slots.release(&step.dying);
    let name = host.name();
    let outs = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| host.call(&args)))
        .unwrap_or_else(|_| Err(Error::Program(format!("{name}: panicked"))))?;
    let checked = (step.outputs.iter().zip(used)).map(|((_, aval), &output)| {
        let value = outs.get(output).filter(|v| v.aval() == aval).cloned();
        value.ok_or_else(|| Error::Program(format!("{name}: output {output} is not {aval}")))
    });
    slots.put(step, checked.collect::<Result<Vec<_>>>()?);
    Ok(())
}

fn view(step: &Step, slots: &mut Slots, ctx: &Ctx<'_>) -> Result<()> {
    let Some(Kernel::View(layout)) = step.prim.kernel_ref() else {
        return Err(Error::Program(format!("{}: is no view", step.prim.name())));
    };
    let (_, aval) = &step.outputs[0];
    let source = slots.get(step.inputs[0]);
    let value = match layout(&step.params, source, aval) {
        Some(value) => value,
        // No strides describe it: in row-major order they do.
        None => layout(&step.params, &kernels::copy(source, ctx)?, aval)
            .ok_or_else(|| Error::Program(format!("{}: has no layout", step.prim.name())))?,
    };
    slots.release(&step.dying);
    slots.put(step, [value]);
    Ok(())
}

fn call(step: &Step, slots: &mut Slots, ctx: &Ctx<'_>) -> Result<()> {
    // A buffer that dies here is handed over, so that the kernel may write to it.
    let mut args: SmallVec<[Value; 4]> = slots.read(step);
    slots.release(&step.dying);
    let (_, aval) = &step.outputs[0];
    let result = kernel(step, &mut args, aval, ctx)?;
    slots.put(step, [result]);
    Ok(())
}

/// The result of a kernel of its own, or of a reduction that no group took.
pub(super) fn kernel(step: &Step, args: &mut [Value], aval: &Aval, ctx: &Ctx<'_>) -> Result<Value> {
    match step.prim.kernel_ref() {
        Some(Kernel::Reduce(_)) if aval.size() == 0 => Value::empty(aval.clone()),
        Some(Kernel::Reduce(op)) => kernels::reduce(*op, &args[0], step.params.axes(), ctx),
        _ => {
            let missing = || Error::Program(format!("{}: has no kernel", step.prim.name()));
            (step.prim.call(&step.params, args, aval, ctx)).unwrap_or_else(|| Err(missing()))
        }
    }
}

/// Memory for the results of a fused step: that of an input which dies here and that nobody else
/// refers to, where the step allows it, else fresh.
fn allocate(step: &Step, slots: &mut Slots, targets: &Targets) -> Result<SmallVec<[Value; 2]>> {
    // Among very many inputs the search would cost more than it saves.
    let mut donors: SmallVec<[Slot; 8]> = step.dying.iter().copied().take(MANY).collect();
    if !step.in_place {
        donors.clear();
    }
    let mut outputs = SmallVec::new();
    for (out, aval) in &step.outputs {
        if let Some(target) = targets.get(*out) {
            outputs.push(target.clone());
            continue;
        }
        let fits = |value: &mut Value| {
            value.aval().shape == aval.shape
                && value.dtype().size() == aval.dtype.size()
                && value.is_contiguous()
                && value.is_unique()
        };
        let donor = donors
            .iter()
            .position(|&s| slots.0[s as usize].as_mut().is_some_and(fits));
        outputs.push(match donor {
            Some(i) => {
                let slot = donors.swap_remove(i);
                slots.get(slot).reinterpreted(aval.dtype)
            }
            None => Value::empty(aval.clone())?,
        });
    }
    Ok(outputs)
}

//! Runs loops: the plan of a body, again and again. A small body runs in the buffers of one frame, so that
//! steps allocate nothing.

use std::sync::Arc;

use super::compilation::{self, Compilation};
use super::compiled;
use super::frame::Frame;
use super::plan::{Again, LoopCode, LoopPlan, Plan, Turns, Work};
use super::profile::Stopwatch;
use super::run::{WORTH_THREADS, take_all};
use super::turns::LoopDraft;
use crate::aval::{Aval, SliceDim};
use crate::error::{Error, Result};
use crate::kernels::{self, BoundTurns, Ctx, Surroundings, Value};
use crate::prim::Var;
use crate::program::{End, Loop, LoopOutput};

/// What a step costs besides its equations, in nanoseconds.
const STEP: f64 = 100.0;
/// Bodies whose buffers take up to so many bytes have all of them at once.
const SMALL: usize = 256 << 10;
/// As many steps are expected where nobody knows.
const UNKNOWN: usize = 100;
/// So many turns of code are taken before somebody looks whether to stop.
const PATIENCE: usize = 4096;
/// A loop that may never end is so much work, in nanoseconds, that others run meanwhile and can stop it.
const ENDLESS: f64 = 1e9;

impl Plan {
    /// Makes machine code of its loops now; whether there is some.
    pub(super) fn compile_loops(&self) -> Result<bool> {
        let mut is_code = false;
        for step in &self.steps {
            is_code |= match &step.work {
                Work::Part(part) => part.compile_loops()?,
                Work::Loop(looped) => looped.compile()?,
                _ => false,
            };
        }
        Ok(is_code)
    }
}

impl LoopPlan {
    /// Makes machine code of it now; whether there is some.
    fn compile(&self) -> Result<bool> {
        let Some(again) = &self.again else {
            let attempt = |runs| LoopDraft::attempt(&self.plan, &self.of, &self.outputs, runs);
            return self.compiled.now(attempt);
        };
        let pieces = |of: &LoopPlan| of.compiled.now(|runs| LoopDraft::of_pieces(&of.plan, runs));
        Ok(pieces(&again.forward)? | pieces(self)?)
    }

    /// Plans a loop for these outputs, and says which arguments it reads.
    pub fn new(of: &Loop, outputs: &[usize]) -> Result<(LoopPlan, Vec<usize>)> {
        let (of, inputs, outputs) = of.slim(outputs)?;
        let mut plan = LoopPlan::of_steps(of)?;
        plan.outputs = outputs.iter().filter_map(|&o| plan.of.output(o)).collect();
        Ok((plan, inputs))
    }

    /// Plans the steps of a loop of which no output is asked for.
    pub(super) fn of_steps(of: Loop) -> Result<LoopPlan> {
        if let Some(name) = of.body().host_calls().first() {
            return Err(Error::Program(format!(
                "loop: its body calls {name} back, which only steps that are written out can do; use a Python loop"
            )));
        }
        let plan = Arc::new(Plan::new(of.body())?);
        let first = of.carries + of.scanned;
        let own = (0..first).map(|i| of.body().aval(i as Var).nbytes());
        let made = plan.steps.iter().flat_map(|s| &s.outputs);
        let bytes: usize = own.chain(made.map(|(_, aval)| aval.nbytes())).sum();
        let fits_frame = bytes <= SMALL && plan.cost < WORTH_THREADS;
        Ok(LoopPlan {
            plan,
            of,
            outputs: Vec::new(),
            again: None,
            fits_frame,
            compiled: Compilation::default(),
        })
    }

    /// Estimated nanoseconds of all steps.
    pub fn cost(&self) -> f64 {
        let own = match (self.of.end, self.compiled.known()) {
            (End::Length, Some(code)) => code.cost() * self.of.length as f64,
            (End::Length, None) => (self.plan.cost + STEP) * self.of.length as f64,
            (End::Count | End::False, _) => ENDLESS,
        };
        let again = |again: &Again| (again.forward.plan.cost + STEP) * again.repeated() as f64;
        own + self.again.as_deref().map_or(0.0, again)
    }

    /// How many steps there are, for estimates.
    pub fn expected(&self) -> usize {
        match self.of.end {
            End::Length => self.of.length,
            End::Count => self.of.length.min(UNKNOWN),
            End::False => UNKNOWN,
        }
    }

    /// The outputs that are asked for. Those that are stacked lie where there is memory for them.
    pub fn run(
        &self,
        mut args: Vec<Value>,
        targets: &[Option<&Value>],
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<Value>> {
        if let Some(again) = &self.again {
            return self.run_backwards(again, args, targets, stopwatch, ctx);
        }
        let of = &self.of;
        let shared = args.split_off(of.carries + of.scanned);
        let scanned = args.split_off(of.carries);
        let mut carried = args;
        let stacks = self.stacks(targets)?;
        let most = self.most(&shared)?;
        if of.end != End::Length {
            for stack in stacks.iter().flatten() {
                clear_behind(stack, most, ctx)?;
            }
        }
        if most > 0
            && let Some(turns) = self.turns(most)?
        {
            let scanned = side_by_side(scanned, ctx)?;
            let shared = side_by_side(shared, ctx)?;
            let around = Surroundings {
                scanned: &scanned,
                shared: &shared,
                stacks: &stacks.iter().flatten().collect::<Vec<_>>(),
                length: self.of.length,
            };
            let bound = BoundTurns::new(&turns.code, &carried, &around, ctx)?;
            carried = self.take_turns(turns, bound, most, stopwatch, ctx)?;
        } else if most > 0 {
            let scanned = self.in_order(scanned, ctx)?;
            let mut running = Running::new(self, carried, &shared, most)?;
            let (scanned, stacked) = (
                scanned.iter().map(Scanned::Array).collect::<Vec<_>>(),
                self.stacked(&stacks),
            );
            carried = self.compiled.timed_turns(|| {
                let mut n = 0;
                while self.goes_on(n, most, running.carried())? {
                    ctx.check()?;
                    running.step(self.place(n, most), &scanned, &stacked, stopwatch, ctx)?;
                    n += 1;
                }
                Ok((running.into_carried(), n))
            })?;
        }
        self.results(&carried, stacks)
    }

    /// The code of turns, if there is some: before a loop is run that may have so many.
    fn turns(&self, most: usize) -> Result<Option<&Turns>> {
        let attempt = |runs| LoopDraft::attempt(&self.plan, &self.of, &self.outputs, runs);
        let next = self.next(self.expected().min(most));
        Ok(
            match self.compiled.get_for(self.plan.weight, next, attempt)? {
                Some(LoopCode::Turns(turns)) => Some(turns),
                Some(LoopCode::Pieces(_)) | None => None,
            },
        )
    }

    /// Roughly how many nanoseconds the kernels will take for so many steps.
    fn next(&self, steps: usize) -> u64 {
        let each = self.plan.cost as u64
            + compilation::CALL
            + compiled::STEP * self.plan.num_passes() as u64;
        each.saturating_mul(steps as u64)
    }

    /// Takes all turns, so many at most; what is carried after the last one.
    fn take_turns(
        &self,
        turns: &Turns,
        mut bound: BoundTurns,
        most: usize,
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<Value>> {
        let start = stopwatch.start();
        let mut taken = 0;
        while self.goes_on(taken, most, bound.carried())? {
            if taken.is_multiple_of(PATIENCE) {
                ctx.check()?;
            }
            // A condition is looked at before each turn.
            let next = match self.of.end {
                End::False => taken + 1,
                End::Length | End::Count => most.min(taken + PATIENCE),
            };
            let slices = if self.of.reverse {
                most - next..most - taken
            } else {
                taken..next
            };
            bound.take(slices, self.of.reverse)?;
            taken = next;
        }
        stopwatch.stop_after(start, &turns.origins, taken);
        Ok(bound.carried().to_vec())
    }

    /// Memory for what is stacked, by output.
    pub(super) fn stacks(&self, targets: &[Option<&Value>]) -> Result<Vec<Option<Value>>> {
        let targets = targets.iter().copied().chain(std::iter::repeat(None));
        let stacks = self.outputs.iter().zip(targets).map(|(&output, target)| {
            let Some(of_step) = self.of.of_step(output) else {
                return Ok(None);
            };
            let aval = crate::program::stacked(self.of.body().aval(of_step), self.of.length);
            match target.filter(|target| *target.aval() == aval) {
                Some(target) => Ok(Some(target.clone())),
                None => Value::empty(aval).map(Some),
            }
        });
        stacks.collect()
    }

    /// Scanned arrays whose slices lie in order.
    pub(super) fn in_order(&self, scanned: Vec<Value>, ctx: &Ctx<'_>) -> Result<Vec<Value>> {
        let is_empty = self.of.length == 0;
        (scanned.into_iter())
            .map(|x| {
                if is_empty || slices_lie_in_order(&x) {
                    Ok(x)
                } else {
                    kernels::copy(&x, ctx)
                }
            })
            .collect()
    }

    /// The outputs that are asked for, once the last step is done.
    pub(super) fn results(
        &self,
        carried: &[Value],
        stacks: Vec<Option<Value>>,
    ) -> Result<Vec<Value>> {
        let outs = self.outputs.iter().zip(stacks);
        outs.map(|(output, stack)| match (output, stack) {
            (_, Some(stack)) => Ok(stack),
            (LoopOutput::Last(j), None) => Ok(carried[*j].clone()),
            _ => Err(Error::Program("loop: no place for an output".into())),
        })
        .collect()
    }

    /// How many steps there are at most; so many exactly, unless the first carry says when they end.
    fn most(&self, shared: &[Value]) -> Result<usize> {
        let of = &self.of;
        match of.end {
            End::Length => Ok(of.length),
            End::False if of.length == 0 => Ok(usize::MAX),
            End::False => Ok(of.length),
            End::Count => {
                let count = shared.last().and_then(Value::item);
                let count =
                    count.ok_or_else(|| Error::Program("loop: no number of steps".into()))?;
                let count = count.re.max(0.0) as usize;
                if count > of.length {
                    return Err(Error::Program(
                        "while_loop: more steps were taken than its reverse pass is made for; say how many there \
                         may be at most: while_loop(..., max_steps=n)"
                            .into(),
                    ));
                }
                Ok(count)
            }
        }
    }

    /// Whether step `n` is taken, by what is carried so far.
    fn goes_on(&self, n: usize, most: usize, carried: &[Value]) -> Result<bool> {
        if self.of.end != End::False {
            return Ok(n < most);
        }
        let goes_on = carried[0].item().is_some_and(|is| is.re != 0.0);
        if goes_on && n >= most {
            return Err(Error::Program(format!(
                "while_loop: the condition still holds after {most} steps, and max_steps={most}"
            )));
        }
        Ok(goes_on)
    }

    /// The slice that step `n` reads.
    fn place(&self, n: usize, most: usize) -> usize {
        if self.of.reverse { most - 1 - n } else { n }
    }

    /// Where a value of each step goes that is stacked: what it is and where it goes.
    pub(super) fn stacked<'s>(&self, stacks: &'s [Option<Value>]) -> Vec<(LoopOutput, &'s Value)> {
        let stacks = self.outputs.iter().zip(stacks);
        stacks
            .filter_map(|(&output, stack)| Some((output, stack.as_ref()?)))
            .collect()
    }

    fn frame(&self, shared: &[Value], most: usize) -> Result<Option<Frame>> {
        let body = self.of.body();
        let inputs: Vec<Aval> = (0..body.num_inputs() as Var)
            .map(|v| body.aval(v).clone())
            .collect();
        let shared = Arc::from(shared);
        let attempt = |runs| LoopDraft::of_pieces(&self.plan, runs);
        let next = self.next(self.expected().min(most));
        if let Some(LoopCode::Pieces(compiled)) =
            self.compiled.get_for(self.plan.weight, next, attempt)?
        {
            let frame = Frame::new(&compiled.plan, Some(compiled), &inputs, &shared)?;
            if frame.is_some() {
                return Ok(frame);
            }
        }
        if !self.fits_frame {
            return Ok(None);
        }
        Frame::new(&self.plan, None, &inputs, &shared)
    }

    /// A step that takes its buffers from the pool.
    fn step_in_pool(
        &self,
        (carried, shared): (&mut Vec<Value>, &[Value]),
        i: usize,
        scanned: &[Scanned<'_>],
        stacked: &[(LoopOutput, &Value)],
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<()> {
        let carries = self.of.carries;
        let mut targets = Vec::new();
        for &(output, stack) in stacked {
            match output {
                LoopOutput::Before(j) => kernels::copy_into(&slice(stack, i)?, &carried[j], ctx)?,
                LoopOutput::Stacked(k) => targets.push((carries + k, slice(stack, i)?)),
                LoopOutput::Last(_) => {}
            }
        }
        let mut inputs = std::mem::take(carried);
        for x in scanned {
            inputs.push(match x {
                Scanned::Array(x) => slice(x, i)?,
                Scanned::Slice(x) => (*x).clone(),
            });
        }
        inputs.extend(shared.iter().cloned());
        let mut outs = take_all(&self.plan, inputs, &targets, stopwatch, ctx)?;
        for (out, target) in &targets {
            if outs[*out].as_ptr() != target.as_ptr() {
                kernels::copy_into(target, &outs[*out], ctx)?;
            }
        }
        outs.truncate(carries);
        *carried = outs;
        Ok(())
    }
}

/// A loop whose steps are being taken.
pub(super) struct Running<'l> {
    looped: &'l LoopPlan,
    memory: Memory,
}

/// Where the carries of a loop are.
enum Memory {
    /// All steps go on in the same buffers.
    Frame {
        frame: Box<Frame>,
        /// Carries that are copied to where the next step reads them.
        moves: Vec<usize>,
        /// The same for those that may be what a step got, or lie where something else does that it got: they
        /// wait here.
        spare: Vec<(usize, Value)>,
    },
    /// Steps take their buffers from the pool.
    Pool {
        carried: Vec<Value>,
        /// What is the same in all steps.
        shared: Vec<Value>,
    },
}

/// What a step gets of a scanned array.
#[derive(Clone, Copy)]
pub(super) enum Scanned<'v> {
    /// The slice of its number.
    Array(&'v Value),
    /// This.
    Slice(&'v Value),
}

impl<'l> Running<'l> {
    /// What is carried, what is the same in all steps, and how many there may be.
    pub fn new(
        looped: &'l LoopPlan,
        carried: Vec<Value>,
        shared: &[Value],
        most: usize,
    ) -> Result<Running<'l>> {
        let Some(mut frame) = looped.frame(shared, most)? else {
            let shared = shared.to_vec();
            let memory = Memory::Pool { carried, shared };
            return Ok(Running { looped, memory });
        };
        let carries = looped.of.carries;
        for (j, value) in carried.iter().enumerate() {
            frame.write(j, value)?;
        }
        let (mut moves, mut spare) = (Vec::new(), Vec::new());
        for j in 0..carries {
            let (from, to) = (&frame.outs()[j], &frame.inputs()[j]);
            if from.is_contiguous() && from.as_ptr() == to.as_ptr() {
                continue;
            }
            let is_input = |x: &Value| {
                let (start, bytes) = (x.address(), x.aval().nbytes());
                (start..start + bytes).contains(&from.address())
            };
            if frame.inputs()[..carries].iter().any(is_input) || !from.is_contiguous() {
                spare.push((j, Value::empty(to.aval().clone())?));
            } else {
                moves.push(j);
            }
        }
        Ok(Running {
            looped,
            memory: Memory::Frame {
                frame: Box::new(frame),
                moves,
                spare,
            },
        })
    }

    /// What is carried to the next step.
    pub fn carried(&self) -> &[Value] {
        match &self.memory {
            Memory::Frame { frame, .. } => &frame.inputs()[..self.looped.of.carries],
            Memory::Pool { carried, .. } => carried,
        }
    }

    pub fn into_carried(self) -> Vec<Value> {
        match self.memory {
            Memory::Frame { frame, .. } => frame.inputs()[..self.looped.of.carries].to_vec(),
            Memory::Pool { carried, .. } => carried,
        }
    }

    /// The carries as they are now, in memory that no step writes to.
    pub fn kept(&self, ctx: &Ctx<'_>) -> Result<Vec<Value>> {
        match &self.memory {
            Memory::Frame { .. } => self
                .carried()
                .iter()
                .map(|x| kernels::copy(x, ctx))
                .collect(),
            Memory::Pool { carried, .. } => Ok(carried.clone()),
        }
    }

    /// Goes on with other carries.
    pub fn set(&mut self, carried: &[Value]) -> Result<()> {
        match &mut self.memory {
            Memory::Frame { frame, .. } => {
                for (j, value) in carried.iter().enumerate() {
                    frame.write(j, value)?;
                }
            }
            Memory::Pool { carried: own, .. } => *own = carried.to_vec(),
        }
        Ok(())
    }

    /// Takes a step: it reads the slices of this number, and writes to those of the stacks.
    pub fn step(
        &mut self,
        i: usize,
        scanned: &[Scanned<'_>],
        stacked: &[(LoopOutput, &Value)],
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<()> {
        let carries = self.looped.of.carries;
        let (frame, moves, spare) = match &mut self.memory {
            Memory::Frame {
                frame,
                moves,
                spare,
            } => (frame, moves, spare),
            Memory::Pool { carried, shared } => {
                let given = (carried, &**shared);
                return self
                    .looped
                    .step_in_pool(given, i, scanned, stacked, stopwatch, ctx);
            }
        };
        for (to, from) in frame.inputs()[carries..].iter().zip(scanned) {
            match from {
                Scanned::Array(from) => kernels::read_slice(to, from, i),
                Scanned::Slice(from) => kernels::copy_into(to, from, ctx)?,
            }
        }
        for &(output, stack) in stacked {
            if let LoopOutput::Before(j) = output {
                kernels::write_slice(stack, i, &frame.inputs()[j]);
            }
        }
        frame.advance(stopwatch, &ctx.alone(), &mut || false)?;
        for &(output, stack) in stacked {
            if let LoopOutput::Stacked(k) = output {
                let value = &frame.outs()[carries + k];
                if value.is_contiguous() {
                    kernels::write_slice(stack, i, value);
                } else {
                    kernels::copy_into(&slice(stack, i)?, value, ctx)?;
                }
            }
        }
        for (j, value) in &*spare {
            kernels::copy_into(value, &frame.outs()[*j], ctx)?;
        }
        for &j in &*moves {
            kernels::copy_whole(&frame.inputs()[j], &frame.outs()[j]);
        }
        for (j, value) in &*spare {
            kernels::copy_whole(&frame.inputs()[*j], value);
        }
        Ok(())
    }
}

/// Values that code can read.
fn side_by_side(values: Vec<Value>, ctx: &Ctx<'_>) -> Result<Vec<Value>> {
    let in_order = |x: Value| {
        let is_aligned = x.address().is_multiple_of(x.dtype().size());
        if x.is_contiguous() && is_aligned {
            Ok(x)
        } else {
            kernels::copy(&x, ctx)
        }
    };
    values.into_iter().map(in_order).collect()
}

/// Puts zeros behind the slices that steps write to.
fn clear_behind(stack: &Value, steps: usize, ctx: &Ctx<'_>) -> Result<()> {
    let rest = stack.shape()[0].saturating_sub(steps);
    if rest == 0 || stack.aval().size() == 0 {
        return Ok(());
    }
    let mut dims: Vec<SliceDim> = (stack.shape().iter())
        .map(|&len| SliceDim {
            start: 0,
            len,
            step: 1,
        })
        .collect();
    (dims[0].start, dims[0].len) = (steps, rest);
    let behind = stack.sliced(&dims);
    let zero = Value::number(stack.dtype(), num_complex::Complex::default())?;
    kernels::copy_into(&behind, &zero.broadcast_to(behind.shape()), ctx)
}

/// Whether each slice along the first axis is contiguous.
fn slices_lie_in_order(x: &Value) -> bool {
    slice(x, 0).is_ok_and(|first| first.is_contiguous())
}

/// A slice along the first axis.
fn slice(x: &Value, i: usize) -> Result<Value> {
    let slice = x.slice_at(i);
    slice.ok_or_else(|| Error::Program("loop: a slice has no layout".into()))
}

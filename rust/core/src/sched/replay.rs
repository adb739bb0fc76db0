//! A plan that is run again and again, with the memory of earlier runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::placement::run_to;
use super::plan::{Plan, Work};
use super::profile::{Phase, Stopwatch, note, timed};
use super::run::WORTH_THREADS;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::{self, BoundFused, Ctx, Value};
use crate::prim::Kernel;

/// Plans whose buffers need up to so many bytes have all of them at once, in frames.
const SMALL: usize = 256 << 10;
/// So many frames are kept: as many threads can run a plan at once without making new ones.
const FRAMES: usize = 16;

/// A plan and what its runs leave for later ones.
#[derive(Debug)]
pub struct Replay {
    plan: Arc<Plan>,
    /// Dtypes and shapes of the inputs.
    inputs: Vec<Aval>,
    /// Whether frames can be had: not known to be false.
    is_small: AtomicBool,
    frames: Mutex<Vec<Frame>>,
}

/// The buffers of one run of a small plan, each in its place: inputs are written into it, results read
/// from it, and nothing is allocated in between.
#[derive(Debug)]
pub struct Frame {
    inputs: Vec<Value>,
    /// What it was made for: the same until the frame is dropped.
    more: Arc<[Value]>,
    acts: Vec<Act>,
    outs: Vec<Value>,
}

#[derive(Debug)]
enum Act {
    Fused(usize, Box<BoundFused>),
    Call(usize, Vec<Value>, Value),
}

impl Replay {
    /// A plan that has not been run yet, for a program with these inputs.
    pub fn new(plan: Arc<Plan>, inputs: Vec<Aval>) -> Replay {
        let bytes: usize = (inputs.iter().map(Aval::nbytes))
            .chain(
                plan.steps
                    .iter()
                    .flat_map(|s| &s.outputs)
                    .map(|(_, a)| a.nbytes()),
            )
            .sum();
        let is_small =
            AtomicBool::new(bytes <= SMALL && plan.cost < WORTH_THREADS && !plan.calls_back);
        Replay {
            plan,
            inputs,
            is_small,
            frames: Mutex::default(),
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs it on `inputs` and, behind them, `more`. Results are written into `targets`, where there are
    /// any: contiguous values that share no memory with the inputs.
    ///
    /// # Errors
    /// Those of the steps, and [`Error::Interrupted`].
    pub fn run(
        &self,
        inputs: &[Value],
        more: &[Value],
        targets: &[Option<Value>],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Value>> {
        let all = inputs.iter().chain(more).cloned().collect();
        run_to(&self.plan, all, targets, interrupted)
    }

    /// The buffers for a run with `more` behind the inputs, if the plan is small.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn frame(&self, more: &Arc<[Value]>) -> Result<Option<Frame>> {
        if !self.is_small.load(Ordering::Relaxed) || more.iter().any(Value::is_remote) {
            return Ok(None);
        }
        let kept = self.lock().pop();
        if let Some(frame) = kept
            && Arc::ptr_eq(&frame.more, more)
        {
            return Ok(Some(frame));
        }
        let frame = Frame::new(&self.plan, &self.inputs, more)?;
        if frame.is_none() {
            self.is_small.store(false, Ordering::Relaxed);
        }
        Ok(frame)
    }

    /// Keeps the buffers for another run.
    pub fn give_back(&self, frame: Frame) {
        let mut frames = self.lock();
        if frames.len() < FRAMES {
            frames.push(frame);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Frame>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs it on what has been written into a frame.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn run_in(&self, frame: &mut Frame) -> Result<()> {
        let plan = &*self.plan;
        note(|counts| {
            counts.runs += 1;
            counts.add_equations(&plan.counts);
        });
        let _timed = timed(Phase::Run);
        let mut stopwatch = Stopwatch::new();
        let cancel = AtomicBool::new(false);
        let ctx = Ctx::new(&cancel, 1);
        for act in &mut frame.acts {
            let start = stopwatch.start();
            let (Act::Fused(k, _) | Act::Call(k, ..)) = &*act;
            let step = &plan.steps[*k];
            match act {
                Act::Fused(_, bound) => {
                    if let Work::Fused(fused) = &step.work {
                        fused.run_again(bound, &ctx)?;
                    }
                }
                Act::Call(_, args, out) => {
                    let mut args: smallvec::SmallVec<[Value; 4]> = args.iter().cloned().collect();
                    let value = super::run::kernel(step, &mut args, out.aval(), &ctx)?;
                    kernels::copy_into(out, &value, &ctx)?;
                }
            }
            stopwatch.stop(start, &step.origins);
        }
        stopwatch.tell();
        Ok(())
    }
}

impl Frame {
    fn new(plan: &Plan, inputs: &[Aval], more: &Arc<[Value]>) -> Result<Option<Frame>> {
        let own = inputs.len() - more.len();
        let inputs = (inputs[..own].iter().cloned())
            .map(Value::empty)
            .collect::<Result<Vec<_>>>()?;
        let mut slots: Vec<Option<Value>> = vec![None; plan.num_slots];
        for (slot, value) in slots.iter_mut().zip(inputs.iter().chain(more.iter())) {
            *slot = Some(value.clone());
        }
        for (slot, value) in &plan.constants {
            slots[*slot as usize] = Some(value.clone());
        }
        let mut acts = Vec::with_capacity(plan.steps.len());
        for (k, step) in plan.steps.iter().enumerate() {
            let read = step.inputs.iter().map(|&s| slots[s as usize].clone());
            let Some(args) = read.collect::<Option<Vec<Value>>>() else {
                return Ok(None);
            };
            if let (Work::View, Some(Kernel::View(layout))) = (&step.work, step.prim.kernel_ref()) {
                let (slot, aval) = &step.outputs[0];
                // What no strides describe has to be copied in each run.
                let Some(view) = layout(&step.params, &args[0], aval) else {
                    return Ok(None);
                };
                slots[*slot as usize] = Some(view);
                continue;
            }
            let outs = (step.outputs.iter())
                .map(|(_, aval)| Value::empty(aval.clone()))
                .collect::<Result<Vec<_>>>()?;
            for ((slot, _), value) in step.outputs.iter().zip(&outs) {
                slots[*slot as usize] = Some(value.clone());
            }
            acts.push(match &step.work {
                Work::Fused(fused) => Act::Fused(k, Box::new(fused.bind(args, outs)?)),
                Work::Call => Act::Call(k, args, outs[0].clone()),
                Work::View | Work::Host(..) | Work::Part(_) | Work::MatmulEpilogue(_) => {
                    return Ok(None);
                }
            });
        }
        let outs = plan.outs.iter().map(|&s| slots[s as usize].clone());
        let Some(outs) = outs.collect::<Option<Vec<Value>>>() else {
            return Ok(None);
        };
        Ok(Some(Frame {
            inputs,
            more: Arc::clone(more),
            acts,
            outs,
        }))
    }

    /// The buffers of the inputs, contiguous, to be written before a run.
    pub fn inputs(&mut self) -> &[Value] {
        &self.inputs
    }

    /// Writes an input.
    ///
    /// # Errors
    /// When it has another dtype or shape, or there is no such input.
    pub fn write(&mut self, i: usize, value: &Value) -> Result<()> {
        let to = self.inputs.get(i).filter(|to| to.aval() == value.aval());
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
        &self.outs
    }
}

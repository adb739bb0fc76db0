//! A plan that is run again and again, with the memory of earlier runs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use super::arena::LARGEST;
use super::compilation::Compilation;
use super::compiled::PiecesDraft;
use super::frame::Frame;
use super::placement::{Place, run_to};
use super::plan::{Compiled, Plan};
use super::run::WORTH_THREADS;
use super::threads::num_threads;
use crate::aval::Aval;
use crate::error::Result;
use crate::kernels::Value;

/// Steps that take so many nanoseconds are shared by threads, but not in frames.
const SHORT: f64 = 40_000.0;
/// Copying inputs and results of so many bytes together is always less than taking buffers from the pool;
const SMALL: usize = 256 << 10;
/// beyond, a frame has to save more: estimated nanoseconds for copying a byte, and saved in each step.
const COPIED: f64 = 0.1;
const SAVED: f64 = 300.0;
/// The first runs take buffers from the pool: there may be no others.
const FIRST: u32 = 2;
/// So many frames are kept: as many threads can run a plan at once without making new ones.
const FRAMES: usize = 16;
/// Several of them have at most so many bytes together.
const KEPT: usize = 16 << 20;

/// A plan and what its runs leave for later ones.
#[derive(Debug)]
pub struct Replay {
    plan: Arc<Plan>,
    /// Dtypes and shapes of the inputs.
    inputs: Vec<Aval>,
    /// Bytes of the results.
    results: usize,
    /// How many of the first results are read; the others are computed for the errors that they may raise.
    read: usize,
    /// Whether frames can be had: not known to be false.
    has_frames: AtomicBool,
    /// How many runs there were, up to `FIRST`.
    runs: AtomicU32,
    /// What lay behind the inputs when there was no frame for it.
    without: Mutex<Option<Weak<[Value]>>>,
    /// Frames of kernels, and of machine code.
    frames: Kept,
    code_frames: Kept,
    compiled: Compilation<Compiled>,
}

/// Frames that are not in use.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Frame>>);

/// A lock is held for some instructions only: who does not get it after so many looks is the child of a `fork` that
/// happened meanwhile, and never will.
const LOOKS: usize = 1000;

fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..LOOKS {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}

/// What is kept.
enum Found {
    Frame(Frame),
    Nothing,
    /// Nobody can tell.
    Unknown,
}

impl Kept {
    /// One that was made with these inputs behind the others.
    fn take(&self, more: &Arc<[Value]>) -> Found {
        let Some(mut frames) = lock(&self.0) else {
            return Found::Unknown;
        };
        let frame = frames.pop().filter(|frame| frame.has(more));
        frame.map_or(Found::Nothing, Found::Frame)
    }

    fn put(&self, frame: Frame) {
        let Some(mut frames) = lock(&self.0) else {
            return;
        };
        let bytes = frames.iter().map(Frame::nbytes).sum::<usize>();
        let is_small = frames.is_empty() || bytes + frame.nbytes() <= KEPT;
        if frames.len() < FRAMES && is_small {
            frames.push(frame);
        }
    }
}

impl Replay {
    /// A plan that has not been run yet, for a program with these inputs.
    pub fn new(plan: Arc<Plan>, inputs: Vec<Aval>) -> Replay {
        let bytes: usize = inputs.iter().map(Aval::nbytes).sum();
        let results = plan.result_bytes(&inputs);
        let has_frames = bytes <= LARGEST && !plan.calls_back;
        Replay {
            plan,
            inputs,
            results,
            read: usize::MAX,
            has_frames: AtomicBool::new(has_frames),
            runs: AtomicU32::new(0),
            without: Mutex::new(None),
            frames: Kept::default(),
            code_frames: Kept::default(),
            compiled: Compilation::default(),
        }
    }

    /// The same where only the first results are read, so many: runs may leave out the others.
    #[must_use]
    pub fn reading(self, read: usize) -> Replay {
        Replay { read, ..self }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The same, to be kept.
    pub fn shared_plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    /// Makes machine code of it and of its loops now, and not after some runs, and even where it gains nothing. False where
    /// nothing of it can be compiled, and where the crate has no feature `machine-code`.
    ///
    /// # Errors
    /// When it cannot be planned in pieces.
    pub fn compile(&self) -> Result<bool> {
        let is_code = self
            .compiled
            .now(|runs| PiecesDraft::attempt(&self.plan, runs))?;
        let plan = match self.compiled.known() {
            Some(compiled) => &compiled.plan,
            None => &self.plan,
        };
        Ok(plan.compile_loops()? || is_code)
    }

    /// Roughly how many nanoseconds a run takes on one thread.
    pub fn cost(&self) -> f64 {
        // The next run drafts code first.
        if self.compiled.is_due(self.plan.weight, 0) {
            return f64::INFINITY;
        }
        if let Some(compiled) = self.compiled.known() {
            return compiled.cost;
        }
        self.plan.cost
    }

    /// Runs it on `inputs` and, behind them, `more`. Results are written into `targets`, where there are
    /// any: contiguous values that share no memory with the inputs.
    ///
    /// # Errors
    /// Those of the steps, and [`Error::Interrupted`].
    pub fn run(
        &self,
        inputs: &[Value],
        more: &Arc<[Value]>,
        targets: &[Option<Value>],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Value>> {
        let anywhere = |v: &Value| Place::of(v) == Place::Anywhere;
        if inputs.iter().chain(&**more).all(anywhere) {
            if let Some(mut frame) = self.code_frame(more)? {
                let results = frame.run_on(inputs, targets, self.read, interrupted);
                self.give_back(frame);
                return results;
            }
            if let Some(mut frame) = self.kernel_frame(more)? {
                let run = || frame.run_on(inputs, targets, self.read, interrupted);
                let results = self.compiled.timed(run);
                self.give_back(frame);
                return results;
            }
        }
        let all = inputs.iter().chain(&**more).cloned().collect();
        let run = || run_to(&self.plan, all, targets, interrupted);
        self.compiled.timed(run)
    }

    /// The buffers for a run of kernels, once there were some runs.
    fn kernel_frame(&self, more: &Arc<[Value]>) -> Result<Option<Frame>> {
        if !self.has_frames.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if self.runs.load(Ordering::Relaxed) < FIRST {
            self.runs.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        self.take_kernel_frame(more)
    }

    /// A frame for kernels: one that is kept, or a new one where it may be used again.
    fn take_kernel_frame(&self, more: &Arc<[Value]>) -> Result<Option<Frame>> {
        match self.frames.take(more) {
            Found::Frame(frame) => return Ok(Some(frame)),
            Found::Nothing => {}
            Found::Unknown => return Ok(None),
        }
        if !self.stays(more) {
            return Ok(None);
        }
        let frame = if self.gains(more.len()) {
            Frame::new(&self.plan, None, &self.inputs, more)?
        } else {
            None
        };
        if frame.is_none() {
            self.has_frames.store(false, Ordering::Relaxed);
        }
        Ok(frame)
    }

    /// Whether runs have the same behind their inputs again and again, and not in each run something else that a frame
    /// would be made for.
    fn stays(&self, more: &Arc<[Value]>) -> bool {
        if more.is_empty() {
            return true;
        }
        let Some(mut without) = lock(&self.without) else {
            return false;
        };
        let before = without.replace(Arc::downgrade(more));
        before.is_none_or(|before| std::ptr::addr_eq(before.as_ptr(), Arc::as_ptr(more)))
    }

    /// Whether a frame saves more than it costs, with so many inputs that stay in it: inputs and results are copied,
    /// and all is done by one thread.
    fn gains(&self, more: usize) -> bool {
        let own = &self.inputs[..self.inputs.len() - more];
        let copied = own.iter().map(Aval::nbytes).sum::<usize>() + self.results;
        let copying = if copied <= SMALL {
            0.0
        } else {
            copied as f64 * COPIED
        };
        let alone = self.plan.cost_from(SHORT) * (1.0 - 1.0 / num_threads() as f64);
        copying + alone == 0.0 || copying + alone < self.plan.num_passes() as f64 * SAVED
    }

    /// The buffers for a run of machine code, if there is any.
    fn code_frame(&self, more: &Arc<[Value]>) -> Result<Option<Frame>> {
        let attempt = |runs| PiecesDraft::attempt(&self.plan, runs);
        match self.compiled.get(self.plan.weight, attempt)? {
            Some(compiled) => self.take_frame(compiled, more),
            None => Ok(None),
        }
    }

    /// A frame for machine code: one that is kept, or a new one.
    fn take_frame(&self, compiled: &Compiled, more: &Arc<[Value]>) -> Result<Option<Frame>> {
        match self.code_frames.take(more) {
            Found::Frame(frame) => return Ok(Some(frame)),
            Found::Nothing => {}
            Found::Unknown => return Ok(None),
        }
        Frame::new(&compiled.plan, Some(compiled), &self.inputs, more)
    }

    /// The buffers for a run with `more` behind the inputs, if the plan is small.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn frame(&self, more: &Arc<[Value]>) -> Result<Option<Frame>> {
        if more.iter().any(Value::is_remote) {
            return Ok(None);
        }
        if let Some(compiled) = self.compiled.known() {
            // What runs longer does so without the caller, and in its code all the same.
            if compiled.cost >= WORTH_THREADS {
                return Ok(None);
            }
            if let Some(frame) = self.take_frame(compiled, more)? {
                return Ok(Some(frame));
            }
        } else if self.compiled.is_due(self.plan.weight, 0) {
            // Which takes long: `run` does it.
            return Ok(None);
        }
        // The caller waits for such a run with all that it holds.
        if !self.has_frames.load(Ordering::Relaxed) || self.plan.cost >= WORTH_THREADS {
            return Ok(None);
        }
        self.take_kernel_frame(more)
    }

    /// Keeps the buffers for another run.
    pub fn give_back(&self, frame: Frame) {
        if frame.is_of(&self.plan) {
            self.frames.put(frame);
        } else {
            self.code_frames.put(frame);
        }
    }

    /// Runs it on what has been written into a frame.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn run_in(&self, frame: &mut Frame) -> Result<()> {
        if frame.is_of(&self.plan) {
            return self.compiled.timed(|| frame.run(&mut || false));
        }
        frame.run(&mut || false)
    }
}

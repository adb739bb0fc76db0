//! Programs that are run again and again on new values.

use std::sync::Arc;

use super::pullback::{keep, trace};
use crate::array::Array;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::Value;
use crate::opt::{self, Passes};
use crate::prim::{Host, Var};
use crate::program::Program;
use crate::sched::{self, Frame, Phase, Plan, Replay, timed};
use crate::tape::Recording;
use crate::transform::split;

/// A recorded program in the form in which it is run again: what depends on inputs that are held
/// constant is divided from the rest, so that it need not be computed each time, and the memory of one
/// run serves the next.
///
/// It can be run by several threads at once.
#[derive(Debug)]
pub struct Prepared {
    program: Program,
    /// What each input of the program is: whether it is held constant.
    held: Vec<bool>,
    early: Option<Arc<Plan>>,
    late: Replay,
}

/// What follows from the inputs that are held constant.
#[derive(Debug, Clone)]
pub struct Constants {
    residuals: Arc<[Value]>,
}

impl Constants {
    /// Where runs read a value that was held constant as it is.
    pub fn places_of<'a>(&'a self, value: &'a Value) -> impl Iterator<Item = usize> + 'a {
        let is_it = |other: &Value| {
            other.address() == value.address()
                && other.aval() == value.aval()
                && other.strides() == value.strides()
        };
        (self.residuals.iter().enumerate()).filter_map(move |(i, v)| is_it(v).then_some(i))
    }

    /// The same with other values at some places: memory that has the same elements, or nothing until a run needs it.
    #[must_use]
    pub fn with(&self, others: impl IntoIterator<Item = (usize, Value)>) -> Constants {
        let mut residuals = self.residuals.to_vec();
        for (at, value) in others {
            residuals[at] = value;
        }
        Constants {
            residuals: residuals.into(),
        }
    }
}

impl Prepared {
    /// Prepares a program. `held` says for each input whether its value mostly stays the same; a
    /// program that calls back is run as a whole each time.
    ///
    /// # Errors
    /// When the program cannot be planned.
    pub fn new(program: &Program, held: &[bool]) -> Result<Prepared> {
        Prepared::reading(program, held, usize::MAX)
    }

    /// The same where only the first outputs are read, so many: a run may leave out the others, which are computed
    /// for the errors that they may raise.
    fn reading(program: &Program, held: &[bool], read: usize) -> Result<Prepared> {
        if held.len() != program.num_inputs() {
            return Err(Error::Program(format!(
                "prepared: {} inputs are marked of {}",
                held.len(),
                program.num_inputs()
            )));
        }
        let _timed = timed(Phase::Derive);
        let calls_back = program.has_host_calls();
        let mut program = program.clone();
        if calls_back {
            // What only remembers the last call belongs to the recording. Pure calls are what they are, so that those
            // which the function and its derivative have in common become one.
            program.renew_calls(|call| {
                let bare = call.bare().unwrap_or_else(|| Arc::clone(call));
                if bare.is_pure() {
                    bare
                } else {
                    Arc::new(Again(bare))
                }
            });
        }
        let program = opt::optimize(&program, Passes::ALL)?;
        let held: Vec<bool> = held.iter().map(|&h| h && !calls_back).collect();
        let (early, late) = if held.contains(&true) {
            let is_late: Vec<bool> = held.iter().map(|&h| !h).collect();
            let halves = split(&program, &is_late, 0);
            (Some(sched::plan(&halves.early)?), halves.late)
        } else {
            (None, program.clone())
        };
        let late = sched::for_replays(late, read)?;
        let inputs = (0..late.num_inputs()).map(|i| late.aval(i as Var).clone());
        let inputs = inputs.collect();
        Ok(Prepared {
            program,
            held,
            early,
            late: Replay::new(sched::plan_optimized(&late)?, inputs).reading(read),
        })
    }

    /// Prepares what was recorded between leaves and outputs; also gives the values of what else the
    /// program reads, which are its inputs behind the leaves and held constant. Only the first outputs are read, so many;
    /// the others are computed for the errors that they may raise.
    ///
    /// # Errors
    /// When an input cannot be computed, or the program not be planned.
    pub fn of(
        recording: &Recording,
        outputs: &[&Array],
        leaves: &[Array],
        held: &[bool],
        read: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(Prepared, Vec<Value>)> {
        let (program, others) = trace(recording, outputs, leaves)?;
        let mut held = held.to_vec();
        held.resize(program.num_inputs(), true);
        let values = crate::array::force::values(&others, interrupted)?;
        Ok((Prepared::reading(&program, &held, read)?, values))
    }

    /// Dtype and shape of an output.
    pub fn out_aval(&self, i: usize) -> &Aval {
        self.program.aval(self.program.outs()[i])
    }

    /// Some of its outputs alone, with nothing held constant.
    ///
    /// # Errors
    /// When the program cannot be planned.
    pub fn part(&self, first: usize, count: usize) -> Result<Prepared> {
        let inputs: Vec<Var> = (0..self.program.num_inputs() as Var).collect();
        let outs = &self.program.outs()[first..first + count];
        let held = vec![false; inputs.len()];
        Prepared::new(&self.program.extract(&inputs, outs), &held)
    }

    /// The program that it runs.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// For each input of the program, whether it belongs to what [`Prepared::hold`] takes.
    pub fn is_held(&self) -> &[bool] {
        &self.held
    }

    /// Whether a run calls back.
    pub fn calls_back(&self) -> bool {
        self.late.plan().calls_back()
    }

    /// Whether a run calls back nothing but what is exact.
    pub fn calls_exactly(&self) -> bool {
        !self.calls_back() || self.program.calls_exactly()
    }

    /// Computes what follows from the inputs that are held constant, given in their order.
    ///
    /// # Errors
    /// Those of the computation.
    pub fn hold(
        &self,
        held: Vec<Value>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Constants> {
        self.fits(&held, true)?;
        let residuals = match &self.early {
            Some(plan) => sched::run(plan, held, interrupted)?,
            None => Vec::new(),
        };
        let residuals: Vec<Value> = residuals.into_iter().map(keep).collect::<Result<_>>()?;
        Ok(Constants {
            residuals: residuals.into(),
        })
    }

    /// Runs it on the inputs that are not held constant, given in their order. Results are written into
    /// `targets` where that is possible: for some of the first outputs a contiguous value that shares no
    /// memory with an input.
    ///
    /// # Errors
    /// Those of the computation.
    pub fn run(
        &self,
        held: &Constants,
        inputs: &[Value],
        targets: &[Option<Value>],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Value>> {
        self.fits(inputs, false)?;
        self.late.run(inputs, &held.residuals, targets, interrupted)
    }

    /// For a small program, memory that runs can share: the inputs that are not held constant are written
    /// into it, the results read from it.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn frame(&self, held: &Constants) -> Result<Option<Frame>> {
        self.late.frame(&held.residuals)
    }

    /// Runs it on what has been written into such memory.
    ///
    /// # Errors
    /// Those of the computation.
    pub fn run_in(&self, frame: &mut Frame) -> Result<()> {
        self.late.run_in(frame)
    }

    /// Keeps such memory for a later run.
    pub fn give_back(&self, frame: Frame) {
        self.late.give_back(frame);
    }

    /// Makes machine code of it now, and not after some runs; see [`Replay::compile`].
    ///
    /// # Errors
    /// When it cannot be planned in pieces.
    pub fn compile(&self) -> Result<bool> {
        self.late.compile()
    }

    /// Roughly how many nanoseconds a run takes on one thread.
    pub fn cost(&self) -> f64 {
        self.late.cost()
    }

    fn fits(&self, values: &[Value], held: bool) -> Result<()> {
        let wanted = (0..self.held.len()).filter(|&i| self.held[i] == held);
        let mut count = 0;
        for (i, value) in wanted.zip(values) {
            count += 1;
            if value.aval() != self.program.aval(i as Var) {
                return Err(Error::Shape(format!(
                    "prepared: input {i} is {}, not {}",
                    self.program.aval(i as Var),
                    value.aval()
                )));
            }
        }
        if count != values.len() || count != self.held.iter().filter(|&&h| h == held).count() {
            let message = format!("prepared: {} values are too few or too many", values.len());
            return Err(Error::Shape(message));
        }
        Ok(())
    }
}

/// A call that is not pure: it is made each time, and is not the same call as another one of the same function.
struct Again(Arc<dyn Host>);

impl Host for Again {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn outputs(&self) -> &[Aval] {
        self.0.outputs()
    }

    fn call(&self, x: &[Value]) -> Result<Vec<Value>> {
        self.0.call(x)
    }

    fn is_exact(&self) -> bool {
        self.0.is_exact()
    }

    fn derivative(&self, x: &[Aval]) -> Result<Arc<dyn Host>> {
        self.0.derivative(x)
    }

    fn bare(&self) -> Option<Arc<dyn Host>> {
        Some(Arc::clone(&self.0))
    }
}

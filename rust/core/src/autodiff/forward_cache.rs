//! What follows from the structure of a recorded program in forward mode: values and tangents together, the two halves
//! of a linearised function, and plans, kept for the next program that is like it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::known_values::cut;
use crate::error::Result;
use crate::interrupt::room_for;
use crate::opt::{self, Passes};
use crate::prim::Var;
use crate::program::Program;
use crate::sched::{self, Phase, Plan, timed};
use crate::tape::close::ClosedProgram;
use crate::transform::{jvp, split};
use crate::util::Lru;

/// A program, optimised, with the plan of its run, which is made when it runs.
pub(super) struct Planned {
    pub program: Arc<Program>,
    plan: OnceLock<Arc<Plan>>,
}

impl Planned {
    fn new(program: Program) -> Planned {
        Planned {
            program: Arc::new(program),
            plan: OnceLock::new(),
        }
    }

    pub fn plan(&self) -> Result<&Plan> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan);
        }
        let plan = sched::plan_optimized(&self.program)?;
        Ok(self.plan.get_or_init(|| plan))
    }
}

/// A linearised function: its values and what is kept of them, and the map from tangents to tangents.
pub(super) struct ForwardHalves {
    /// From the inputs to the outputs and the residuals.
    pub early: Planned,
    /// Its inputs, as numbered in the joint program.
    pub early_inputs: Vec<usize>,
    /// From the tangents and the residuals to the tangents of the outputs.
    pub late: Arc<Program>,
}

/// All that follows from the structure of a recorded program in forward mode.
pub(super) struct ForwardPrograms {
    primal: Program,
    wrt: Vec<bool>,
    heads: usize,
    known: Vec<Var>,
    /// Inputs: those of the primal, tangents, known values. Outputs: those of the primal, tangents.
    pub joint: Program,
    /// For each leaf, which input of the joint program is its tangent.
    pub tangents: Vec<Option<usize>>,
    /// For each output that is differentiated, which output of the joint program is its tangent.
    pub results: Vec<Option<usize>>,
    whole: OnceLock<Planned>,
    alone: OnceLock<Planned>,
    halves: OnceLock<ForwardHalves>,
}

static FORWARD: Mutex<Option<Lru<ForwardPrograms>>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<Lru<ForwardPrograms>>> {
    FORWARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the table still while a `fork` copies it.
pub(super) fn lock() -> impl Sized {
    table()
}

/// Forgets all of it.
pub(super) fn clear() {
    *table() = None;
}

impl ForwardPrograms {
    /// For a program of which these inputs have tangents and the first `heads` outputs are differentiated.
    pub fn of(closed: &ClosedProgram, wrt: &[bool], heads: usize) -> Result<Arc<ForwardPrograms>> {
        let primal = &closed.program;
        let known: Vec<Var> = closed.known.iter().map(|(v, _)| *v).collect();
        // What calls back is equal to nothing else, and errors name the lines of the program at hand.
        let keep = !primal.has_host_calls() && !primal.has_sites();
        let bits = (wrt.iter()).fold(0u64, |bits, &w| bits.rotate_left(1) ^ u64::from(w));
        let hash = primal.structural_hash() ^ bits.wrapping_mul(0x9e37_79b9);
        let is_it = |f: &ForwardPrograms| {
            f.wrt == wrt && f.heads == heads && f.known == known && f.primal.same_structure(primal)
        };
        if keep && let Some(found) = table().get_or_insert_default().get(hash, is_it) {
            return Ok(found);
        }
        let _timed = timed(Phase::Derive);
        room_for(primal.eqns().len())?;
        let pushed = jvp(primal, wrt)?;
        let program = pushed.program;
        let values = primal.outs().len();
        // Tangents of the outputs behind the first ones are not asked for.
        let results: Vec<Option<usize>> = pushed.results[..heads].to_vec();
        let last = results
            .iter()
            .flatten()
            .max()
            .map_or(values, |&last| last + 1);
        let forward = Arc::new(ForwardPrograms {
            joint: cut(
                &program,
                &program.outs()[..last],
                primal.num_inputs(),
                &known,
            ),
            primal: primal.clone(),
            wrt: wrt.to_vec(),
            heads,
            known,
            tangents: pushed.tangents,
            results,
            whole: OnceLock::new(),
            alone: OnceLock::new(),
            halves: OnceLock::new(),
        });
        if keep {
            let weight = forward.joint.eqns().len() + 16;
            table()
                .get_or_insert_default()
                .insert(hash, Arc::clone(&forward), weight);
        }
        Ok(forward)
    }

    /// Values and tangents in one program.
    pub fn whole(&self) -> Result<&Planned> {
        if let Some(found) = self.whole.get() {
            return Ok(found);
        }
        let _timed = timed(Phase::Derive);
        let program = opt::optimize(&self.joint, Passes::ALL)?;
        Ok(self.whole.get_or_init(|| Planned::new(program)))
    }

    /// The tangents of outputs, as far as they are not zero, without the values.
    pub fn alone(&self) -> Result<&Planned> {
        if let Some(found) = self.alone.get() {
            return Ok(found);
        }
        let _timed = timed(Phase::Derive);
        let joint = &self.joint;
        let inputs: Vec<Var> = (0..joint.num_inputs() as Var).collect();
        let outs = self.results.iter().flatten().map(|&i| joint.outs()[i]);
        let program = joint.extract(&inputs, &outs.collect::<Vec<_>>());
        let program = opt::optimize(&program, Passes::ALL)?;
        Ok(self.alone.get_or_init(|| Planned::new(program)))
    }

    /// Values and residuals, and tangents from these.
    pub fn halves(&self) -> Result<&ForwardHalves> {
        if let Some(found) = self.halves.get() {
            return Ok(found);
        }
        let _timed = timed(Phase::Derive);
        let is_tangent: Vec<bool> = (0..self.joint.num_inputs())
            .map(|i| self.tangents.contains(&Some(i)))
            .collect();
        let joint = opt::optimize(&self.joint, Passes::ALL)?;
        let halves = split(&joint, &is_tangent, self.primal.outs().len());
        Ok(self.halves.get_or_init(|| ForwardHalves {
            early: Planned::new(halves.early),
            early_inputs: halves.early_inputs,
            late: Arc::new(halves.late),
        }))
    }
}

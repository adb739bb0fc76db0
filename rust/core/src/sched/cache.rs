//! Plans of programs that were run before, found by structure, with what runs leave for later ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::plan::Plan;
use super::profile::{Phase, timed};
use super::replay::Replay;
use crate::error::Result;
use crate::kernels;
use crate::prim::Var;
use crate::program::Program;
use crate::util::Lru;

static PLANS: Mutex<Option<Lru<Replay>>> = Mutex::new(None);

fn plans() -> MutexGuard<'static, Option<Lru<Replay>>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the plans and the pool still while a `fork` copies them.
pub fn lock_plans() -> impl Sized {
    (
        super::device::lock_backends(),
        super::threads::lock(),
        plans(),
    )
}

/// How many plans are kept at the moment.
pub fn num_plans() -> usize {
    plans().as_ref().map_or(0, Lru::len)
}

/// Forgets all plans.
pub fn clear_plans() {
    *plans() = None;
}

/// The plan of a program: an earlier one, or a new one.
pub fn plan(program: &Program) -> Result<Arc<Plan>> {
    Ok(find(program, Plan::new)?.shared_plan())
}

/// The plan of a program that is run as it is, with the memory of earlier runs and their machine code.
pub fn replay(program: &Program) -> Result<Arc<Replay>> {
    find(program, Plan::new)
}

/// The plan of a program that has been through the optimiser.
pub fn plan_optimized(program: &Program) -> Result<Arc<Plan>> {
    Ok(find(program, Plan::of_optimized)?.shared_plan())
}

/// Bytes of what a program is given and gives.
fn arrays_of(program: &Program) -> usize {
    let given = 0..program.num_inputs() as Var;
    given
        .chain(program.outs().iter().copied())
        .fold(0, |sum, v| program.aval(v).nbytes().saturating_add(sum))
}

fn find(program: &Program, make: fn(&Program) -> Result<Plan>) -> Result<Arc<Replay>> {
    let inputs = (0..program.num_inputs() as Var).map(|v| program.aval(v).clone());
    let replay = |plan: Plan| Arc::new(Replay::new(Arc::new(plan), inputs.collect()));
    if program.has_host_calls() {
        let _timed = timed(Phase::Plan);
        return Ok(replay(make(program)?));
    }
    let hash = program.structural_hash();
    // Steps name the lines that they come from.
    let is_it = |known: &Replay| {
        (known.plan().source.as_ref())
            .is_some_and(|p| p.same_structure(program) && p.sites() == program.sites())
    };
    if let Some(found) = plans().get_or_insert_default().get(hash, is_it) {
        return Ok(found);
    }
    kernels::kept_beside(arrays_of(program));
    let _timed = timed(Phase::Plan);
    // Planning may take long: not under the lock.
    let made = replay(make(program)?);
    plans()
        .get_or_insert_default()
        .insert(hash, Arc::clone(&made), made.plan().weight);
    Ok(made)
}

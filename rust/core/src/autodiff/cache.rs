//! What follows from the structure of a recorded program: its reverse pass, forward and backward programs, and plans, kept for
//! the next program that is like it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::known_values::cut;
use crate::error::Result;
use crate::interrupt::room_for;
use crate::kernels::{self, Value};
use crate::opt::{self, Passes};
use crate::prim::{Prim, Var};
use crate::program::{Builder, Program};
use crate::sched::{self, Phase, Plan, Replay, timed};
use crate::tape::close::ClosedProgram;
use crate::transform::defer::{Deferred, defer};
use crate::transform::{split, vjp_of_first};
use crate::util::Lru;

/// All that follows from the structure of a recorded program.
pub(super) struct DerivedPrograms {
    pub primal: Program,
    leaves: usize,
    /// How many of the outputs are differentiated; the others are auxiliary.
    heads: usize,
    known: Vec<Var>,
    /// As the reverse pass wrote it. What is made of it is optimised once, when it is made.
    pub joint: Program,
    pub cotangents: Vec<Option<usize>>,
    pub gradients: Vec<Option<usize>>,
    pub skipped: Vec<(Prim, u64)>,
    pullback: OnceLock<PullbackPrograms>,
    value_and_gradient: OnceLock<SeededGradient>,
    gradient: OnceLock<SeededGradient>,
    /// The same for programs that differ in sites only.
    sited: Mutex<Vec<Arc<DerivedPrograms>>>,
}

/// So many of these are kept.
const MAX_SITED: usize = 8;

/// The forward and the backward program of a pullback, and how the forward one is run.
pub(super) struct PullbackPrograms {
    /// From the inputs to the outputs and the residuals.
    pub forward: Arc<Program>,
    /// Its inputs, as numbered in the joint program.
    pub forward_inputs: Vec<usize>,
    /// From the cotangents and the residuals to the cotangents of the leaves.
    pub backward: Arc<Program>,
    /// How the forward program is run where residuals wait.
    pub deferred: Option<Deferred>,
    /// Of what is run: the forward program, or what is left of it.
    pub plan: Arc<Plan>,
}

/// Gradients as a function of the primal inputs: the cotangent of the only output is 1.
pub(super) struct SeededGradient {
    pub program: Arc<Program>,
    /// Its plan, and what runs leave for later ones. Made when it is run; a nested one only becomes a part of other
    /// programs.
    replay: OnceLock<Replay>,
}

impl SeededGradient {
    /// The values and gradients for these inputs.
    pub fn run(
        &self,
        inputs: &[Value],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Value>> {
        let replay = if let Some(replay) = self.replay.get() {
            replay
        } else {
            let plan = sched::plan_optimized(&self.program)?;
            let avals = (0..self.program.num_inputs()).map(|i| self.program.aval(i as Var).clone());
            // Outside of the cell, which the child of a fork must not meet half made.
            let replay = Replay::new(plan, avals.collect());
            self.replay.get_or_init(|| replay)
        };
        replay.run(inputs, &Arc::default(), &[], interrupted)
    }
}

static DERIVED: Mutex<Option<Lru<DerivedPrograms>>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<Lru<DerivedPrograms>>> {
    DERIVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds everything global in this crate still while a `fork` copies it.
pub fn lock_for_fork() -> impl Sized {
    // Tables that are made once must not be half made in the child.
    crate::ops::by_name("add");
    kernels::make_tables();
    kernels::know_caches();
    (
        crate::tape::recording::lock(),
        crate::tape::call_once::lock_waiting(),
        table(),
        super::forward_cache::lock(),
        sched::lock_plans(),
        #[cfg(feature = "fft")]
        kernels::lock_plans(),
        kernels::lock_products(),
        kernels::lock_pool(),
        crate::prim::lock_sites(),
        // The compiler takes none of the others.
        sched::lock_compiler(),
    )
}

/// Forgets all derived programs and plans.
pub fn clear_caches() {
    *table() = None;
    super::forward_cache::clear();
    sched::clear_plans();
}

impl DerivedPrograms {
    pub fn of(closed: &ClosedProgram, leaves: usize, heads: usize) -> Result<Arc<DerivedPrograms>> {
        let known: Vec<Var> = closed.known.iter().map(|(v, _)| *v).collect();
        let primal = &closed.program;
        let hash = primal.structural_hash() ^ (leaves as u64).wrapping_mul(0x9e37_79b9);
        let is_it = |d: &DerivedPrograms| {
            d.leaves == leaves
                && d.heads == heads
                && d.known == known
                && d.primal.same_structure(primal)
        };
        // What calls back is not kept, nor looked for: nothing else is equal to it.
        let keep = !primal.has_host_calls();
        if keep && let Some(found) = table().get_or_insert_default().get(hash, is_it) {
            return found.with_sites(closed, leaves);
        }
        let derived = DerivedPrograms::new(closed, (leaves, heads), known)?;
        if keep {
            let weight = derived.joint.eqns().len() + 16;
            table()
                .get_or_insert_default()
                .insert(hash, Arc::clone(&derived), weight);
        }
        Ok(derived)
    }

    /// This one, or one with the sites of this program: none, where lines are not recorded.
    fn with_sites(
        self: Arc<DerivedPrograms>,
        closed: &ClosedProgram,
        leaves: usize,
    ) -> Result<Arc<DerivedPrograms>> {
        let sites = closed.program.sites();
        let fits = |d: &DerivedPrograms| d.primal.sites() == sites;
        if fits(&self) {
            return Ok(self);
        }
        let all = || self.sited.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all().iter().find(|d| fits(d)) {
            return Ok(Arc::clone(found));
        }
        let new = DerivedPrograms::new(closed, (leaves, self.heads), self.known.clone())?;
        let mut all = all();
        if all.len() >= MAX_SITED {
            all.remove(0);
        }
        all.push(Arc::clone(&new));
        Ok(new)
    }

    fn new(
        closed: &ClosedProgram,
        (leaves, heads): (usize, usize),
        known: Vec<Var>,
    ) -> Result<Arc<DerivedPrograms>> {
        let _timed = timed(Phase::Derive);
        let primal = &closed.program;
        let wrt: Vec<bool> = (0..primal.num_inputs()).map(|i| i < leaves).collect();
        room_for(primal.eqns().len())?;
        let derived = vjp_of_first(primal, &wrt, heads)?;
        let program = &derived.program;
        let joint = cut(program, program.outs(), primal.num_inputs(), &known);
        Ok(Arc::new(DerivedPrograms {
            primal: primal.clone(),
            leaves,
            heads,
            known,
            joint,
            cotangents: derived.cotangents,
            gradients: derived.gradients[..leaves].to_vec(),
            skipped: derived.skipped,
            pullback: OnceLock::new(),
            value_and_gradient: OnceLock::new(),
            gradient: OnceLock::new(),
            sited: Mutex::default(),
        }))
    }

    /// Value and gradients, or gradients only.
    pub fn seeded(&self, with_value: bool) -> Result<&SeededGradient> {
        let cell = if with_value {
            &self.value_and_gradient
        } else {
            &self.gradient
        };
        if let Some(found) = cell.get() {
            return Ok(found);
        }
        let _timed = timed(Phase::Derive);
        room_for(self.joint.eqns().len())?;
        // Nested gradients differentiate this again: what is common now would double with every level.
        let program = self.seed(&self.joint, with_value)?;
        let program = Arc::new(opt::optimize(&program, Passes::ALL)?);
        let replay = OnceLock::new();
        Ok(cell.get_or_init(|| SeededGradient { program, replay }))
    }

    /// A joint program with 1 for the cotangent of its first output, as it is written.
    pub fn seed(&self, joint: &Program, with_value: bool) -> Result<Program> {
        let builder = Builder::new();
        let first_known = self.primal.num_inputs() + 1;
        let mut inputs: Vec<Var> = Vec::with_capacity(joint.num_inputs());
        for (i, name) in joint.input_names().iter().enumerate() {
            let is_ct = self.cotangents[0] == Some(i);
            inputs.push(if is_ct {
                Var::MAX
            } else {
                builder.input(name, joint.aval(i as Var))
            });
        }
        debug_assert!(self.cotangents[0].is_none_or(|c| c + 1 == first_known));
        if let Some(slot) = self.cotangents[0] {
            inputs[slot] = builder.number(joint.aval(slot as Var).dtype, 1.0);
        }
        let mut wanted = vec![true; joint.outs().len()];
        wanted[0] = with_value;
        let outs = builder
            .inline(joint, &inputs, &wanted)
            .into_iter()
            .flatten()
            .collect();
        builder.finish(outs)
    }

    /// The joint program's values, as they were recorded, without the cotangents among its inputs.
    pub fn forward(&self) -> Program {
        let is_cotangent = |v: &Var| self.cotangents.contains(&Some(*v as usize));
        let inputs: Vec<Var> = (0..self.joint.num_inputs() as Var)
            .filter(|v| !is_cotangent(v))
            .collect();
        (self.joint).extract(&inputs, &self.joint.outs()[..self.primal.outs().len()])
    }

    /// The forward program with its plan, and the backward program.
    pub fn pullback_programs(&self) -> Result<&PullbackPrograms> {
        if let Some(found) = self.pullback.get() {
            return Ok(found);
        }
        let _timed = timed(Phase::Derive);
        let is_cotangent: Vec<bool> = (0..self.joint.num_inputs())
            .map(|i| self.cotangents.contains(&Some(i)))
            .collect();
        let joint = opt::optimize(&self.joint, Passes::ALL)?;
        room_for(joint.eqns().len())?;
        let halves = split(&joint, &is_cotangent, self.primal.outs().len());
        let deferred = defer(&halves, self.primal.outs().len());
        let early = deferred.as_ref().map_or(&halves.early, |d| &d.early);
        let plan = sched::plan_optimized(early)?;
        Ok(self.pullback.get_or_init(|| PullbackPrograms {
            forward: Arc::new(halves.early),
            forward_inputs: halves.early_inputs,
            backward: Arc::new(halves.late),
            deferred,
            plan,
        }))
    }
}

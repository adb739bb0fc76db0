//! The steps of a run, and which buffers are alive between them.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::compilation::Compilation;
use super::profile::Origin;
use crate::aval::Aval;
use crate::kernels::{Code, Fused, ReduceOp, TurnsCode, Value};
use crate::ops;
use crate::prim::{Cost, Host, Params, Prim};
use crate::program::{Loop, LoopOutput, Program};

/// Number of a buffer: inputs first, then what steps produce.
pub(super) type Slot = u32;

/// One pass over memory, or none.
pub(super) enum Work {
    /// Another layout of a buffer.
    View,
    /// A kernel of its own, or a reduction that no group took.
    Call,
    /// Elementwise equations and reductions, in one pass.
    Fused(Box<Fused>),
    /// A function that is called back, and which of its outputs are used.
    Host(Arc<dyn Host>, SmallVec<[usize; 2]>),
    /// The steps of a plan that other such steps share: a body of a loop.
    Part(Arc<Plan>),
    /// A matrix product and the group that reads it.
    Strips(Box<Strips>),
    /// A program that is repeated.
    Loop(Box<LoopPlan>),
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::View => "View",
            Work::Call => "Call",
            Work::Fused(_) => "Fused",
            Work::Host(call, _) => call.name(),
            Work::Part(_) => "Part",
            Work::Strips(_) => "Strips",
            Work::Loop(_) => "Loop",
        })
    }
}

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    pub work: Work,
    /// The equation, for a view or a call.
    pub prim: Prim,
    pub params: Params,
    /// The equations that it computes, for profiles.
    pub origins: Box<[Origin]>,
    pub inputs: SmallVec<[Slot; 4]>,
    /// What it produces, with dtypes and shapes.
    pub outputs: SmallVec<[(Slot, Aval); 2]>,
    /// Inputs that nothing reads after this step.
    pub dying: SmallVec<[Slot; 4]>,
    /// Outputs that nothing reads at all.
    pub unread: SmallVec<[Slot; 1]>,
    /// Whether the result may be written over an input that dies here. Fused steps read and write
    /// where the arrays lie, so only the last thing written may overwrite, and no reduction, which
    /// has another shape than what it reads.
    pub in_place: bool,
    /// Estimated nanoseconds on one thread.
    pub cost: f64,
}

impl Step {
    /// A step of a primitive or a group of them, before it is known where buffers die.
    pub fn new(
        work: Work,
        prim: Prim,
        origins: Box<[Origin]>,
        inputs: SmallVec<[Slot; 4]>,
        outputs: SmallVec<[(Slot, Aval); 2]>,
        cost: f64,
    ) -> Step {
        Step {
            work,
            prim,
            params: Params::None,
            origins,
            inputs,
            outputs,
            dying: SmallVec::new(),
            unread: SmallVec::new(),
            in_place: false,
            cost,
        }
    }
}

/// How to run a program.
#[derive(Debug)]
pub struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) num_slots: usize,
    /// Literals, computed once.
    pub(super) constants: Vec<(Slot, Value)>,
    pub(super) outs: Vec<Slot>,
    pub(super) counts: Vec<(Prim, u64)>,
    /// Estimated nanoseconds on one thread.
    pub(super) cost: f64,
    /// Whether a step calls back.
    pub(super) calls_back: bool,
    /// Number of equations planned, as a measure of the plan's own size.
    pub(super) weight: usize,
    /// The program, unless the plan is that of a strip of a product.
    pub(super) source: Option<Program>,
    /// How devices run it, once one does.
    pub(super) for_devices: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Plan {
    /// How many equations of each primitive a run computes.
    pub fn counts(&self) -> &[(Prim, u64)] {
        &self.counts
    }

    /// Roughly how many nanoseconds a run takes on one thread.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// Roughly how many nanoseconds the steps that take so many, or more, take together on one thread.
    pub(super) fn cost_from(&self, least: f64) -> f64 {
        let each = self.steps.iter().map(|step| match &step.work {
            Work::Part(part) => part.cost_from(least),
            _ if step.cost >= least => step.cost,
            _ => 0.0,
        });
        each.sum()
    }

    /// How many bytes its results have, with inputs of these dtypes and shapes.
    pub(super) fn result_bytes(&self, inputs: &[Aval]) -> usize {
        let mut bytes = vec![0; self.num_slots];
        for (bytes, aval) in bytes.iter_mut().zip(inputs) {
            *bytes = aval.nbytes();
        }
        for (slot, value) in &self.constants {
            bytes[*slot as usize] = value.aval().nbytes();
        }
        for (slot, aval) in self.steps.iter().flat_map(|step| &step.outputs) {
            bytes[*slot as usize] = aval.nbytes();
        }
        self.outs.iter().map(|&slot| bytes[slot as usize]).sum()
    }

    /// Whether a run calls back.
    pub fn calls_back(&self) -> bool {
        self.calls_back
    }

    /// The equations of all steps, for what computes them at once.
    pub(super) fn origins(&self) -> Arc<[Origin]> {
        let equations = self.steps.iter().flat_map(|step| {
            let cost = step.cost.max(1.0);
            let each = step.origins.iter();
            each.map(move |o| (o.prim, o.site, f64::from(o.share) * cost))
        });
        Origin::shares(equations).into()
    }

    /// Whether estimates say about how long a run takes: decompositions and sorts take as long as they take.
    pub(super) fn is_estimated(&self) -> bool {
        self.steps.iter().all(|step| match &step.work {
            Work::Call => {
                let is_product = [ops::MATMUL, ops::CONV].contains(&step.prim);
                is_product || step.prim.0.cost != Cost::Heavy
            }
            Work::Part(part) => part.is_estimated(),
            Work::Loop(looped) => looped.plan.is_estimated(),
            Work::View | Work::Fused(_) | Work::Host(..) | Work::Strips(_) => true,
        })
    }

    /// How many passes over memory a run makes.
    pub fn num_passes(&self) -> usize {
        let passes = |step: &Step| match &step.work {
            Work::View => 0,
            Work::Part(part) => part.num_passes(),
            Work::Loop(looped) => looped.plan.num_passes() * looped.expected(),
            _ => 1,
        };
        self.steps.iter().map(passes).sum()
    }
}

/// Equations that are computed together in strips of rows.
#[derive(Debug)]
pub(super) struct Strips {
    /// The plan of a strip, and that of the last one, where it is shorter.
    pub main: Plan,
    pub last: Option<Plan>,
    /// How many rows there are, and how many a strip has.
    pub rows: usize,
    pub height: usize,
    /// For each input whether a strip reads its own rows of it only.
    pub by_rows: Vec<bool>,
    pub outputs: Vec<StripOutput>,
    /// The plan of all rows for a matrix, the first input, or weights that lie in another way than strips of them are
    /// multiplied in; `None` where any will do.
    pub otherwise: Option<Plan>,
}

/// A program that is repeated.
#[derive(Debug)]
pub(super) struct LoopPlan {
    /// How to run a step.
    pub plan: Arc<Plan>,
    pub of: Loop,
    /// Those that are asked for.
    pub outputs: Vec<LoopOutput>,
    /// The loop that it goes backwards through, where that is taken again.
    pub again: Option<Box<Again>>,
    /// Whether a step may have all of its buffers at once.
    pub fits_frame: bool,
    pub compiled: Compilation<LoopCode>,
}

/// The loop that is taken again by one that goes backwards through it.
#[derive(Debug)]
pub(super) struct Again {
    pub forward: LoopPlan,
    /// Which scanned arrays of the other loop are what carries of this one were, and of which carry each is.
    pub reads: Vec<(usize, usize)>,
    /// There is room for so many states.
    pub slots: usize,
}

/// A program as steps, some of which are machine code.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    /// The steps; all are parts.
    pub plan: Arc<Plan>,
    /// The function of a step, where it has one, and what equations it computes.
    pub code: Vec<Option<(Arc<Code>, Arc<[Origin]>)>>,
    /// Roughly how many nanoseconds a run takes.
    pub cost: f64,
}

/// The machine code of a loop.
#[derive(Debug)]
pub(super) enum LoopCode {
    Turns(Turns),
    /// A body in pieces, some of which are code.
    Pieces(Compiled),
}

impl LoopCode {
    /// Roughly how many nanoseconds a turn takes.
    pub fn cost(&self) -> f64 {
        match self {
            LoopCode::Turns(turns) => turns.cost,
            LoopCode::Pieces(compiled) => compiled.cost,
        }
    }
}

/// Code that takes turns.
#[derive(Debug)]
pub(super) struct Turns {
    pub code: TurnsCode,
    /// The equations that a turn computes.
    pub origins: Arc<[Origin]>,
    /// Roughly how many nanoseconds it takes.
    pub cost: f64,
}

/// How an output comes from the strips.
#[derive(Debug, Clone)]
pub(super) struct StripOutput {
    pub aval: Aval,
    pub over: Over,
}

/// What puts the results of strips together.
#[derive(Debug, Clone, Copy)]
pub(super) enum Over {
    /// Each one writes rows of its own.
    Rows,
    /// A reduction.
    Reduction(ReduceOp),
    /// They are sums of some terms of a product, which are added in the order of its kernel.
    Terms,
}

/// Notes where buffers are read last.
pub(super) fn note_deaths(
    steps: &mut [Step],
    num_slots: usize,
    outs: &[Slot],
    constants: &[(Slot, Value)],
) {
    let mut kept = vec![false; num_slots];
    for &out in outs {
        kept[out as usize] = true;
    }
    for (slot, _) in constants {
        kept[*slot as usize] = true;
    }
    for step in steps.iter_mut().rev() {
        for (slot, _) in &step.outputs {
            if !kept[*slot as usize] {
                step.unread.push(*slot);
            }
        }
        for &slot in &step.inputs {
            if !std::mem::replace(&mut kept[slot as usize], true) {
                step.dying.push(slot);
            }
        }
    }
}

/// Estimated nanoseconds of steps on one thread.
pub(super) fn cost_of(steps: &[Step]) -> f64 {
    steps.iter().map(|s| s.cost).sum()
}

/// How many equations of each primitive there are.
pub(super) fn counts(program: &Program) -> Vec<(Prim, u64)> {
    let mut counts: Vec<(Prim, u64)> = Vec::new();
    for eqn in program.eqns() {
        match counts.iter_mut().find(|(p, _)| *p == eqn.prim) {
            Some((_, n)) => *n += 1,
            None => counts.push((eqn.prim, 1)),
        }
    }
    counts
}

/// Adds what the loops of a plan are: equations of their bodies, once for each step, and the size of their plans.
pub(super) fn add_loops(steps: &[Step], counts: &mut Vec<(Prim, u64)>, weight: &mut usize) {
    for step in steps {
        let Work::Loop(looped) = &step.work else {
            continue;
        };
        let own = (&looped.plan, looped.expected());
        let again = looped.again.as_deref();
        let again = again.map(|again| (&again.forward.plan, again.repeated()));
        let all = std::iter::once(own).chain(again);
        let each = all.flat_map(|(plan, times)| {
            *weight += plan.weight;
            plan.counts
                .iter()
                .map(move |&(prim, n)| (prim, n * times as u64))
        });
        for (prim, n) in each {
            match counts.iter_mut().find(|(p, _)| *p == prim) {
                Some((_, sum)) => *sum += n,
                None => counts.push((prim, n)),
            }
        }
    }
}

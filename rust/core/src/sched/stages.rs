//! From a program to its plan: optimised, lowered, in pieces where it repeats itself, and without the barriers of
//! checkpoints where these save no memory.

use super::loop_detection::pieces;
use super::loop_plans::around;
use super::matrix_passes;
use super::plan::{Again, Plan, Work};
use super::scalars::is_scalar;
use crate::error::Result;
use crate::prim::Var;
use crate::program::Program;
use crate::{ops, opt};

/// Shorter programs are run as they are written.
const LONG: usize = 2048;
/// One equation in so many that code cannot take apart is as long as the others together.
const SELDOM: usize = 100;
/// Loops of single elements have so many equations for each other one.
const MOSTLY: usize = 4;

/// A program that is run again and again, in the form in which that is fastest.
///
/// A loop over single elements becomes machine code as it was written out, with the elements in registers from turn to
/// turn. Where each turn reads a row of a large array, or does something else that code cannot take apart, kernels would be called
/// in between; there it is a loop again, which reads the row where it lies. Loops over longer arrays stay written out, since one pass takes
/// all turns.
///
/// Only the first outputs are read, so many; the others are computed for the errors that they may raise.
///
/// # Errors
/// When the user stops it, or memory ends.
pub fn for_replays(program: Program, read: usize) -> Result<Program> {
    if program.eqns().len() < LONG || program.has_host_calls() {
        return Ok(program);
    }
    let lowered = if opt::has_composites(&program) {
        lowered(&program)?
    } else {
        program.clone()
    };
    let count = lowered.eqns().len();
    let others = (0..count).filter(|&k| !is_scalar(&lowered, k)).count();
    if others * SELDOM < count || others * MOSTLY > count {
        return Ok(program);
    }
    let rolled = without_views(&opt::roll(&program)?, read);
    let is_shorter = rolled.eqns().len() * MOSTLY < count;
    Ok(if is_shorter { rolled } else { program })
}

/// The program with what the outputs that nobody reads are views of, once, in their place: the stack of all turns in place
/// of what each turn of a loop has computed.
fn without_views(program: &Program, read: usize) -> Program {
    let (first, rest) = program.outs().split_at(read.min(program.outs().len()));
    let mut outs = first.to_vec();
    for &out in rest {
        let mut root = out;
        while let Some(eqn) = program.definition(root).filter(|eqn| eqn.prim.is_view()) {
            root = program.args(eqn)[0];
        }
        if !outs[first.len()..].contains(&root) {
            outs.push(root);
        }
    }
    let inputs: Vec<Var> = (0..program.num_inputs() as Var).collect();
    program.extract(&inputs, &outs)
}

/// A program without composites, optimised, and without reductions over scattered axes.
fn lowered(program: &Program) -> Result<Program> {
    let lowered = opt::lower(program.clone())?;
    let lowered = opt::optimize(&lowered, opt::Passes::ALL)?;
    Ok(opt::in_neighbouring_axes(&lowered)?.unwrap_or(lowered))
}

/// What devices plan: without composites, and without barriers, which save memory that tiles need.
pub(super) fn for_devices(program: &Program) -> Result<Program> {
    opt::without_barriers(&lowered(&opt::optimize(program, opt::Passes::ALL)?)?)
}

impl Plan {
    /// Plans a program.
    pub fn new(program: &Program) -> Result<Plan> {
        let plan = Plan::of_composites(&opt::optimize(program, opt::Passes::ALL)?)?;
        Ok(plan.with_source(program))
    }

    /// Plans a program that has been through the optimiser.
    pub fn of_optimized(program: &Program) -> Result<Plan> {
        Ok(Plan::of_composites(program)?.with_source(program))
    }

    pub(super) fn with_source(self, program: &Program) -> Plan {
        Plan {
            source: Some(program.clone()),
            ..self
        }
    }

    fn of_composites(program: &Program) -> Result<Plan> {
        if opt::has_composites(program) {
            return Plan::of_lowered(&lowered(program)?);
        }
        match opt::in_neighbouring_axes(program)? {
            Some(program) => Plan::of_lowered(&program),
            None => Plan::of_lowered(program),
        }
    }

    /// Plans a program whose equations are primitives, in parts where it repeats itself, or reads a matrix in one pass.
    pub(super) fn as_written(program: &Program) -> Result<Plan> {
        let pieces = match pieces(program)? {
            None => around(program, matrix_passes::find(program)),
            pieces => pieces,
        };
        match pieces {
            Some(pieces) => Plan::of_pieces(program, &pieces),
            None => Plan::as_a_whole(program),
        }
    }

    /// Plans a program without composites.
    ///
    /// Checkpoints cost computations and are there to save memory. Where a run without them needs no more
    /// of it, because what would be kept stays in the tiles of one pass, that run is the better one.
    pub(super) fn of_lowered(program: &Program) -> Result<Plan> {
        let columns = opt::in_columns(program)?;
        let program = columns.as_ref().unwrap_or(program);
        let plan = Plan::as_written(program)?;
        let has_barriers = program.eqns().iter().any(|e| e.prim == ops::BARRIER);
        if !has_barriers || plan.calls_back {
            return Ok(plan);
        }
        let open = Plan::as_written(&opt::without_barriers(program)?)?;
        Ok(if open.peak() <= plan.peak() {
            open
        } else {
            plan
        })
    }

    /// The most bytes that a run holds at a time beyond its inputs, but for what kernels need for themselves.
    pub(super) fn peak(&self) -> usize {
        let mut sizes = vec![0usize; self.num_slots];
        let (mut now, mut most) = (0usize, 0);
        for step in &self.steps {
            let dying: usize = step.dying.iter().map(|&s| sizes[s as usize]).sum();
            if matches!(step.work, Work::View) {
                // The memory of what is seen, which a view keeps.
                sizes[step.outputs[0].0 as usize] = dying;
                continue;
            }
            let inside = match &step.work {
                Work::Part(part) => part.peak(),
                // On each thread; how many there are must not matter here.
                Work::Strips(strips) => strips.peak(),
                Work::Loop(looped) => {
                    let again = looped.again.as_deref().map_or(0, Again::peak);
                    looped.plan.peak().saturating_add(again)
                }
                _ => 0,
            };
            most = most.max(now.saturating_add(inside));
            for (slot, aval) in &step.outputs {
                sizes[*slot as usize] = aval.nbytes();
                now = now.saturating_add(aval.nbytes());
            }
            most = most.max(if step.in_place {
                now.saturating_sub(dying)
            } else {
                now
            });
            let unread = step.unread.iter().map(|&s| sizes[s as usize]);
            now = now.saturating_sub(dying + unread.sum::<usize>());
        }
        most
    }
}

//! Machine code for programs of numbers and small arrays, which kernels spend more time on calling than on computing.
//!
//! A program is cut into pieces, the bodies of its loops and stretches of straight-line code; those that are alike
//! share a function. What code cannot do stays a step of its own kind between them. Whether a program is worth it is
//! seen from its equations, and when, from how long it has been run (`Replay`).

use std::sync::Arc;

use super::compilation::{Attempt, CALL, Draft, Runs};
use super::loop_detection::{Piece, pieces_of_code};
use super::plan::{Compiled, LoopPlan, Plan, Step, Work};
use super::profile::Origin;
use super::scalars::{is_scalar, is_small_system, lines_of, scalar_code};
use super::stages::for_devices;
use crate::error::Result;
use crate::kernels::{Code, ScalarCode, long_cost};
use crate::ops;
use crate::prim::{Kernel, Params, Var};
use crate::program::Program;
use crate::util::FastMap;

/// Programs of fewer equations are run in less time than it takes to choose between two ways.
const FEW: usize = 8;
/// What stays between pieces of code has at most so many elements: what is larger has better kernels.
const LARGE: usize = 4096;
/// A function computes at least so many elements, where the program goes on for so long.
const LINES: usize = 1200;
/// All functions have at most so many lines together.
const ALL_LINES: usize = 1 << 18;
/// An operation on larger arrays that becomes a step of its own counts as so many steps: its neighbours do, too.
const FUSED: usize = 8;
/// Estimated nanoseconds of a step besides what it computes.
pub(super) const STEP: u64 = 100;
/// What the kernels of small systems of equations cost besides.
const SYSTEM: f64 = 150.0;
/// Estimated nanoseconds of a loop, and of a step of it, that runs as a piece.
const LONG_LOOP: f64 = 20e6;
const LONG_STEP: f64 = 20e3;
/// Estimated nanoseconds for copying a byte.
const COPIED: f64 = 0.1;
/// Its buffers have at most so many bytes.
const LARGEST_FRAME: usize = 16 << 20;

/// A program in pieces, and the code of each kind of them, before it is compiled.
pub(super) struct PiecesDraft {
    plan: Plan,
    codes: Vec<ScalarCode>,
    /// The code of each step of the plan, where it has one.
    numbers: Vec<Option<usize>>,
    cost: f64,
}

impl PiecesDraft {
    /// What comes of the program of a plan: a draft, if its runs say that it pays; any that can be compiled, where there is
    /// nothing known of them.
    pub fn attempt(plan: &Plan, runs: Option<Runs>) -> Result<Attempt<PiecesDraft>> {
        let Some(program) = plan.source.as_ref().filter(|program| is_known(program)) else {
            return Ok(Attempt::Nothing);
        };
        let program = for_devices(program)?;
        let mut scalar: Vec<bool> = (0..program.eqns().len())
            .map(|k| is_scalar(&program, k))
            .collect();
        if runs.is_some() && !is_worth_it(&program, &scalar) {
            return Ok(Attempt::Nothing);
        }
        leave_views(&program, &mut scalar);
        let pieces = refined(&program, pieces_of_code(&program)?, &scalar);
        let pieces = Plan::of_pieces(&program, &pieces)?;
        let made = pieces.steps.iter().flat_map(|s| &s.outputs);
        let given = (0..program.num_inputs()).map(|i| program.aval(i as Var).nbytes());
        let given = given.sum::<usize>();
        let bytes = given + made.map(|(_, aval)| aval.nbytes()).sum::<usize>();
        if bytes > LARGEST_FRAME || pieces.steps.iter().any(is_long_loop) {
            return Ok(Attempt::Nothing);
        }
        let Some((codes, numbers)) = write(&pieces) else {
            return Ok(Attempt::Nothing);
        };
        let costs: Vec<f64> = codes.iter().map(ScalarCode::cost).collect();
        let cost = (pieces.steps.iter().zip(&numbers)).map(|(step, number)| match number {
            Some(number) => costs[*number],
            // Which memory a layout is, is known before the first run.
            None if matches!(step.work, Work::View) => 0.0,
            None if is_loop(step) => STEP as f64,
            None => step.cost + STEP as f64,
        });
        let mut cost: f64 = cost.sum();
        let kernels = cost_of_kernels(&program) + (STEP * passes(plan) as u64 + CALL) as f64;
        if pieces.steps.iter().any(is_loop)
            && let Some(runs) = runs
        {
            // What loops take, they take in any case; what they read is copied.
            cost += runs.beyond(kernels) + COPIED * given as f64;
        }
        let draft = PiecesDraft {
            plan: pieces.with_source(&program),
            codes,
            numbers,
            cost,
        };
        Ok(Attempt::weighed(draft, runs, || kernels))
    }
}

/// Whether nothing in a program is called that its plan looks into, but loops that keep all that they carry.
fn is_known(program: &Program) -> bool {
    program.eqns().iter().all(|eqn| match program.params(eqn) {
        Params::Loop { of, .. } => of.budget.is_none() && !of.body().has_host_calls(),
        params => params.call().is_none(),
    })
}

/// The loop that a piece is.
fn loop_of(step: &Step) -> Option<&LoopPlan> {
    let Work::Part(part) = &step.work else {
        return None;
    };
    part.steps.iter().find_map(|step| match &step.work {
        Work::Loop(looped) => Some(&**looped),
        _ => None,
    })
}

fn is_loop(step: &Step) -> bool {
    loop_of(step).is_some()
}

/// Whether a piece is a loop that somebody may want to stop, or whose steps threads share.
fn is_long_loop(step: &Step) -> bool {
    loop_of(step).is_some_and(|looped| looped.cost() > LONG_LOOP || looped.plan.cost > LONG_STEP)
}

/// How many passes over memory a run makes, those inside of loops left out.
fn passes(plan: &Plan) -> usize {
    let passes = plan.steps.iter().map(|step| match &step.work {
        Work::View => 0,
        Work::Part(part) => passes(part),
        _ => 1,
    });
    passes.sum()
}

impl Draft for PiecesDraft {
    type Code = Compiled;

    fn cost(&self) -> f64 {
        self.cost + CALL as f64
    }

    fn lines(&self) -> usize {
        self.codes.iter().map(ScalarCode::len).sum()
    }

    fn compile(self) -> Option<Compiled> {
        let functions = Code::compile(&self.codes)?;
        let mut origins: FastMap<usize, Arc<[Origin]>> = FastMap::default();
        let code = (self.plan.steps.iter().zip(self.numbers)).map(|(step, number)| {
            let (Some(number), Work::Part(part)) = (number, &step.work) else {
                return None;
            };
            let origins = (origins.entry(number)).or_insert_with(|| part.origins());
            Some((Arc::clone(&functions[number]), Arc::clone(origins)))
        });
        Some(Compiled {
            code: code.collect(),
            plan: Arc::new(self.plan),
            cost: self.cost,
        })
    }
}

/// Estimated nanoseconds that groups take for the equations of a program, without what each pass costs.
pub(super) fn cost_of_kernels(program: &Program) -> f64 {
    let equation = |k: usize| {
        let prim = program.eqns()[k].prim;
        let size = program.aval(program.result(k)).size();
        if prim.is_view() || prim == ops::LITERAL || prim == ops::LOOP {
            return 0.0;
        }
        let long = prim.lane().map_or(0.0, |op| long_cost(op, size));
        let short = if size == 1 {
            3.0
        } else {
            10.0 + 0.08 * size as f64
        };
        let system = if is_small_system(program, k) {
            SYSTEM
        } else {
            0.0
        };
        short + long + system
    };
    (0..program.eqns().len()).map(equation).sum()
}

/// Whether a program computes with single elements for the most part, and with nothing that is large: what loops scan and
/// stack does not count.
fn is_worth_it(program: &Program, scalar: &[bool]) -> bool {
    let (mut taken_apart, mut others) = (0, 0);
    let has_loops = program.eqns().iter().any(|eqn| eqn.prim == ops::LOOP);
    for (k, &is_scalar) in scalar.iter().enumerate() {
        let eqn = &program.eqns()[k];
        if is_scalar {
            taken_apart += usize::from(eqn.prim != ops::LITERAL && !eqn.prim.is_view());
            continue;
        }
        let large = |&v: &u32| program.aval(v).size() > LARGE;
        if !has_loops && (large(&program.result(k)) || program.args(eqn).iter().any(large)) {
            return false;
        }
        // Elementwise operations are better off in one pass with their neighbours.
        let fused =
            eqn.prim.is_elementwise() || matches!(eqn.prim.kernel_ref(), Some(Kernel::Reduce(_)));
        if eqn.prim != ops::LOOP {
            others += if fused { FUSED } else { 1 };
        }
    }
    taken_apart >= FEW && taken_apart >= 4 * others
}

/// Leaves views that kernels read as they are: code would write them out, and kernels that add many terms add in an order
/// that depends on how their arguments lie.
fn leave_views(program: &Program, scalar: &mut [bool]) {
    let inputs = program.num_inputs();
    let mut is_read = vec![false; program.num_vars()];
    for (k, eqn) in program.eqns().iter().enumerate().rev() {
        scalar[k] &= !(eqn.prim.is_view() && is_read[inputs + k]);
        if !scalar[k] {
            for &arg in program.args(eqn) {
                is_read[arg as usize] = true;
            }
        }
    }
}

/// Pieces that are code, or have one equation that is none; all outputs of a loop are one piece.
fn refined(program: &Program, pieces: Vec<Piece>, scalar: &[bool]) -> Vec<Piece> {
    let mut refined: Vec<Piece> = Vec::new();
    let calls = program.calls();
    for piece in pieces {
        let (mut run, mut lines) = (Vec::new(), 0);
        let mut end = |run: &mut Vec<usize>| {
            if !run.is_empty() {
                refined.push(Piece {
                    varies: piece.varies,
                    ..Piece::once(std::mem::take(run))
                });
            }
        };
        for &k in &piece.eqns {
            if !scalar[k] {
                let mut outputs = calls.members(k).iter().map(|&(k, _)| k).collect::<Vec<_>>();
                if outputs.is_empty() {
                    outputs.push(k);
                }
                if outputs[0] == k {
                    end(&mut run);
                    end(&mut outputs);
                    lines = 0;
                }
                continue;
            }
            run.push(k);
            lines += lines_of(program, k);
            if lines >= LINES && !piece.varies {
                end(&mut run);
                lines = 0;
            }
        }
        end(&mut run);
    }
    refined
}

/// The code of the parts of a plan, each once, and which of them belongs to each step; `None` where that is too much, or
/// too little.
fn write(plan: &Plan) -> Option<(Vec<ScalarCode>, Vec<Option<usize>>)> {
    let mut codes: Vec<ScalarCode> = Vec::new();
    let mut known: FastMap<*const Plan, Option<usize>> = FastMap::default();
    let mut lines = 0;
    let mut numbers = Vec::with_capacity(plan.steps.len());
    let mut steps = 0;
    for step in &plan.steps {
        let Work::Part(part) = &step.work else {
            numbers.push(None);
            continue;
        };
        let number = *known.entry(Arc::as_ptr(part)).or_insert_with(|| {
            // Layouts alone are the same memory.
            let computes = part.steps.iter().any(|s| !matches!(s.work, Work::View));
            let code = scalar_code(part.source.as_ref().filter(|_| computes)?)?;
            lines += code.len();
            codes.push(code);
            Some(codes.len() - 1)
        });
        if lines > ALL_LINES {
            return None;
        }
        steps += usize::from(number.is_some());
        numbers.push(number);
    }
    (steps > 0).then_some((codes, numbers))
}

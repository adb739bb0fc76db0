//! Machine code for programs of numbers and small arrays, which kernels spend more time on calling than on computing.
//!
//! A program is cut into pieces, the bodies of its loops and stretches of straight-line code; those that are alike
//! share a function. What code cannot do stays a step of its own kind between them. Whether a program is worth it is
//! seen from its equations, and when, from how long it has been run (`Replay`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::loop_detection::{Piece, pieces_of_code};
use super::plan::{Compilation, Compiled, Plan, Work};
use super::profile::{Origin, Phase, timed};
use super::scalars::{is_scalar, scalar_code};
use super::stages::for_devices;
use crate::error::{Error, Result};
use crate::kernels::{Code, ScalarCode, long_cost};
use crate::ops;
use crate::prim::Kernel;
use crate::program::Program;
use crate::util::FastMap;

/// Programs of fewer equations are run in less time than it takes to choose between two ways.
const FEW: usize = 8;
/// What stays between pieces of code has at most so many elements: what is larger has better kernels.
const LARGE: usize = 4096;
/// A function computes at least so many elements, where the program goes on for so long.
const LINES: usize = 1200;
/// All functions have at most so many lines together.
const ALL_LINES: usize = 1 << 16;
/// Estimated nanoseconds of cutting an equation, and of compiling a line,
const CUTTING: u64 = 1000;
const COMPILING: u64 = 10_000;
/// of a run besides what its steps cost, and of a step besides what it computes.
const CALL: u64 = 300;
const STEP: u64 = 100;
/// Code is made that takes less than this part of what kernels take.
const GAIN: f64 = 0.8;

/// What comes of a program.
enum Attempt {
    Code(Compiled),
    /// It gains nothing, or cannot be compiled.
    Nothing,
    /// It will have been run often enough when it has taken so many nanoseconds.
    Later(u64),
}

impl Compiled {
    /// Compiles a program that has taken so many nanoseconds; any that can be, where that is not said.
    fn attempt(program: &Program, passes: usize, spent: Option<u64>) -> Result<Attempt> {
        if program.has_calls() || program.has_host_calls() {
            return Ok(Attempt::Nothing);
        }
        let program = for_devices(program)?;
        let scalar: Vec<bool> = (0..program.eqns().len())
            .map(|k| is_scalar(&program, k))
            .collect();
        if spent.is_some() && !is_worth_it(&program, &scalar) {
            return Ok(Attempt::Nothing);
        }
        let pieces = refined(&program, pieces_of_code(&program)?, &scalar);
        let plan = Plan::of_pieces(&program, &pieces)?;
        let Some((codes, numbers)) = write(&plan) else {
            return Ok(Attempt::Nothing);
        };
        let costs: Vec<f64> = codes.iter().map(ScalarCode::cost).collect();
        let cost = (plan.steps.iter().zip(&numbers)).map(|(step, number)| match number {
            Some(number) => costs[*number],
            None => step.cost + STEP as f64,
        });
        let cost: f64 = cost.sum();
        if let Some(spent) = spent {
            let kernels = cost_of_kernels(&program) + (STEP * passes as u64) as f64;
            if cost > GAIN * kernels {
                return Ok(Attempt::Nothing);
            }
            let price = COMPILING * codes.iter().map(ScalarCode::len).sum::<usize>() as u64;
            if spent < price {
                return Ok(Attempt::Later(price));
            }
        }
        let Some(functions) = Code::compile(&codes) else {
            return Ok(Attempt::Nothing);
        };
        let mut origins: FastMap<usize, Arc<[Origin]>> = FastMap::default();
        let code = (plan.steps.iter().zip(numbers)).map(|(step, number)| {
            let (Some(number), Work::Part(part)) = (number, &step.work) else {
                return None;
            };
            let all = || {
                let all = part.steps.iter().flat_map(|s| &s.origins);
                all.copied().collect()
            };
            let origins = origins.entry(number).or_insert_with(all);
            Some((Arc::clone(&functions[number]), Arc::clone(origins)))
        });
        let code = code.collect();
        let plan = Arc::new(plan.with_source(&program));
        Ok(Attempt::Code(Compiled { plan, code, cost }))
    }
}

/// Estimated nanoseconds that groups take for the equations of a program, without what each pass costs.
fn cost_of_kernels(program: &Program) -> f64 {
    let equation = |k: usize| {
        let prim = program.eqns()[k].prim;
        let size = program.aval(program.result(k)).size();
        if prim.is_view() || prim == ops::LITERAL {
            return 0.0;
        }
        let long = prim.lane().map_or(0.0, |op| long_cost(op, size));
        let short = if size == 1 {
            3.0
        } else {
            10.0 + 0.08 * size as f64
        };
        short + long
    };
    (0..program.eqns().len()).map(equation).sum()
}

/// When machine code is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// The environment variable `COTAN_MACHINE_CODE` is 0.
    Never,
    /// When the runs before have taken as long as compiling does, and where it gains something.
    Paid,
    /// Before the first run, even where it gains nothing, for tests: `COTAN_MACHINE_CODE=always`.
    Always,
}

fn when() -> When {
    static WHEN: OnceLock<When> = OnceLock::new();
    *WHEN.get_or_init(|| match std::env::var("COTAN_MACHINE_CODE").as_deref() {
        Ok("0") => When::Never,
        Ok("always") => When::Always,
        _ => When::Paid,
    })
}

impl Compilation {
    /// The code, if it is there.
    pub fn known(&self) -> Option<&Compiled> {
        let compiled = self.done.get()?.as_ref();
        compiled.filter(|_| !self.given_up.load(Ordering::Relaxed))
    }

    /// Notes that a plan is about to be run so many times; the time of all runs with these.
    pub fn note(&self, plan: &Plan, times: usize) -> u64 {
        let each = || plan.cost as u64 + CALL + STEP * plan.num_passes() as u64;
        let now = self.each.get_or_init(each).saturating_mul(times as u64);
        let before = self.spent.fetch_add(now, Ordering::Relaxed);
        before.saturating_add(now)
    }

    /// Whether it is time to make the code.
    pub fn is_due(&self, plan: &Plan) -> bool {
        if self.done.get().is_some() || self.begun.load(Ordering::Relaxed) {
            return false;
        }
        match when() {
            When::Never => false,
            When::Paid => {
                let price = self.price.get().copied();
                let price = price.unwrap_or(CUTTING * plan.weight as u64);
                self.spent.load(Ordering::Relaxed) > price
            }
            When::Always => true,
        }
    }

    /// The code, if it is there or it is time to make it: a plan is about to be run so many times.
    pub fn get(&self, plan: &Plan, times: usize) -> Result<Option<&Compiled>> {
        if self.done.get().is_some() {
            return Ok(self.known());
        }
        let spent = self.note(plan, times);
        if !self.is_due(plan) || self.begun.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        let spent = Some(spent).filter(|_| when() != When::Always);
        self.compile(plan, spent)
    }

    /// Makes the code.
    fn compile(&self, plan: &Plan, spent: Option<u64>) -> Result<Option<&Compiled>> {
        let Some(program) = &plan.source else {
            return Ok(None);
        };
        let _timed = timed(Phase::Plan);
        let compiled = match Compiled::attempt(program, plan.num_passes(), spent) {
            Ok(Attempt::Code(compiled)) => Some(compiled),
            Ok(Attempt::Later(price)) => {
                self.price.get_or_init(|| price);
                self.begun.store(false, Ordering::Relaxed);
                return Ok(None);
            }
            Err(Error::Interrupted) => {
                self.done.get_or_init(|| None);
                return Err(Error::Interrupted);
            }
            // The kernels do without.
            Ok(Attempt::Nothing) | Err(_) => None,
        };
        Ok(self.done.get_or_init(|| compiled).as_ref())
    }

    /// Makes the code now, whether it is worth it or not; whether there is some.
    pub fn now(&self, plan: &Plan) -> Result<bool> {
        if self.begun.swap(true, Ordering::Relaxed) {
            return Ok(self.known().is_some());
        }
        Ok(self.compile(plan, None)?.is_some())
    }

    /// Forgets the code.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// Whether a program computes with single elements for the most part, and with nothing that is large.
fn is_worth_it(program: &Program, scalar: &[bool]) -> bool {
    let mut taken_apart = 0;
    for (k, &is_scalar) in scalar.iter().enumerate() {
        let eqn = &program.eqns()[k];
        if is_scalar {
            taken_apart += usize::from(eqn.prim != ops::LITERAL && !eqn.prim.is_view());
            continue;
        }
        // Elementwise operations are better off in one pass with their neighbours.
        let large = |&v: &u32| program.aval(v).size() > LARGE;
        let fused =
            eqn.prim.is_elementwise() || matches!(eqn.prim.kernel_ref(), Some(Kernel::Reduce(_)));
        if fused || large(&program.result(k)) || program.args(eqn).iter().any(large) {
            return false;
        }
    }
    let others = scalar.iter().filter(|&&is_scalar| !is_scalar).count();
    taken_apart >= FEW && taken_apart >= 4 * others
}

/// Pieces that are code, or have one equation that is none.
fn refined(program: &Program, pieces: Vec<Piece>, scalar: &[bool]) -> Vec<Piece> {
    let mut refined: Vec<Piece> = Vec::new();
    for piece in pieces {
        let (mut run, mut lines) = (Vec::new(), 0);
        let mut end = |run: &mut Vec<usize>| {
            if !run.is_empty() {
                refined.push(Piece {
                    eqns: std::mem::take(run),
                    varies: piece.varies,
                });
            }
        };
        for &k in &piece.eqns {
            if !scalar[k] {
                end(&mut run);
                end(&mut vec![k]);
                lines = 0;
                continue;
            }
            run.push(k);
            if !program.eqns()[k].prim.is_view() {
                lines += program.aval(program.result(k)).size();
            }
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

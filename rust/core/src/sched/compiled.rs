//! Machine code for programs of numbers and small arrays, which kernels spend more time on calling than on computing.
//!
//! A program is cut into pieces, the bodies of its loops and stretches of straight-line code; those that are alike
//! share a function. What code cannot do stays a step of its own kind between them. Whether a program is worth it is
//! seen from its equations, and when, from how long it has been run (`Replay`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::loop_detection::{Piece, pieces_of_code};
use super::plan::{Compilation, Compiled, Plan, Progress, Work};
use super::profile::{Origin, Phase, timed};
use super::scalars::{is_scalar, is_small_system, lines_of, scalar_code};
use super::stages::for_devices;
use crate::error::{Error, Result};
use crate::kernels::machine_code::{When, when};
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
const ALL_LINES: usize = 1 << 18;
/// An operation on larger arrays that becomes a step of its own counts as so many steps: its neighbours do, too.
const FUSED: usize = 8;
/// Estimated nanoseconds of cutting an equation, and of compiling a line,
const CUTTING: u64 = 1000;
const COMPILING: u64 = 10_000;
/// of a run besides what its steps cost, and of a step besides what it computes.
const CALL: u64 = 300;
const STEP: u64 = 100;
/// What the kernels of small systems of equations cost besides.
const SYSTEM: f64 = 150.0;
/// Code is made beside the runs when it would have saved them this part of what it costs.
const PART: f64 = 0.5;
/// Its buffers have at most so many bytes.
const LARGEST_FRAME: usize = 16 << 20;
/// Code is made that saves at least this part of what kernels take.
const GAIN: f64 = 0.2;

/// Locks the compiler until the guard is dropped. Programs are compiled one after the other, since their runs need the
/// processor, too, and a `fork` must not copy one that is half done.
pub fn lock_compiler() -> impl Sized {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes of a program.
enum Attempt {
    Draft(Box<Draft>),
    /// It gains nothing, or cannot be compiled.
    Nothing,
    /// It will have been run often enough when its runs have taken so many nanoseconds.
    Later(u64),
}

/// What is known of the runs of a program.
#[derive(Debug, Clone, Copy)]
struct Runs {
    /// How many nanoseconds they take, or have taken.
    spent: u64,
    /// How many the fastest one has taken.
    fastest: Option<u64>,
    /// Whether they wait for the code: then it has to be worth more.
    wait: bool,
}

/// A program in pieces, and the code of each kind of them, before it is compiled.
struct Draft {
    plan: Plan,
    codes: Vec<ScalarCode>,
    /// The code of each step of the plan, where it has one.
    numbers: Vec<Option<usize>>,
    cost: f64,
}

impl Draft {
    /// Drafts the code of a program, if its runs say that it pays; of any that can be compiled, where there is nothing
    /// known of them.
    fn attempt(program: &Program, passes: usize, runs: Option<Runs>) -> Result<Attempt> {
        if program.has_calls() || program.has_host_calls() {
            return Ok(Attempt::Nothing);
        }
        let program = for_devices(program)?;
        let scalar: Vec<bool> = (0..program.eqns().len())
            .map(|k| is_scalar(&program, k))
            .collect();
        if runs.is_some() && !is_worth_it(&program, &scalar) {
            return Ok(Attempt::Nothing);
        }
        let pieces = refined(&program, pieces_of_code(&program)?, &scalar);
        let plan = Plan::of_pieces(&program, &pieces)?;
        let made = plan.steps.iter().flat_map(|s| &s.outputs);
        if made.map(|(_, aval)| aval.nbytes()).sum::<usize>() > LARGEST_FRAME {
            return Ok(Attempt::Nothing);
        }
        let Some((codes, numbers)) = write(&plan) else {
            return Ok(Attempt::Nothing);
        };
        let costs: Vec<f64> = codes.iter().map(ScalarCode::cost).collect();
        let cost = (plan.steps.iter().zip(&numbers)).map(|(step, number)| match number {
            Some(number) => costs[*number],
            // Which memory a layout is, is known before the first run.
            None if matches!(step.work, Work::View) => 0.0,
            None => step.cost + STEP as f64,
        });
        let cost: f64 = cost.sum();
        if let Some(runs) = runs {
            let estimate = || cost_of_kernels(&program) + (STEP * passes as u64 + CALL) as f64;
            let kernels = runs.fastest.map_or_else(estimate, |fastest| fastest as f64);
            let saved = 1.0 - (cost + CALL as f64) / kernels;
            if saved < GAIN {
                return Ok(Attempt::Nothing);
            }
            let lines = codes.iter().map(ScalarCode::len).sum::<usize>();
            let part = if runs.wait { 1.0 } else { PART };
            let price = part * COMPILING as f64 * lines as f64 / saved;
            if (runs.spent as f64) < price {
                return Ok(Attempt::Later(price as u64));
            }
        }
        Ok(Attempt::Draft(Box::new(Draft {
            plan: plan.with_source(&program),
            codes,
            numbers,
            cost,
        })))
    }

    /// Compiles it; `None` where that is not possible.
    fn compile(self) -> Option<Compiled> {
        let _turn = lock_compiler();
        let functions = Code::compile(&self.codes)?;
        let mut origins: FastMap<usize, Arc<[Origin]>> = FastMap::default();
        let code = (self.plan.steps.iter().zip(self.numbers)).map(|(step, number)| {
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
        Some(Compiled {
            code: code.collect(),
            plan: Arc::new(self.plan),
            cost: self.cost,
        })
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
        let system = if is_small_system(program, k) {
            SYSTEM
        } else {
            0.0
        };
        short + long + system
    };
    (0..program.eqns().len()).map(equation).sum()
}

/// No more attempts.
const UNDER_WAY: u64 = u64::MAX;

impl Compilation {
    /// The code, if it is there.
    pub fn known(&self) -> Option<&Compiled> {
        self.0.done.get()?.as_ref()
    }

    /// Whether the time of runs is of interest.
    fn is_open(&self) -> bool {
        when() != When::Never && self.0.price.load(Ordering::Relaxed) != UNDER_WAY
    }

    /// So many runs of kernels, whose time counts.
    pub fn timed<T>(&self, times: usize, runs: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.is_open() {
            return runs();
        }
        let start = Instant::now();
        let result = runs()?;
        let took = start.elapsed().as_nanos() as u64;
        let Progress { spent, fastest, .. } = &*self.0;
        spent.fetch_add(took, Ordering::Relaxed);
        let each = (took / times.max(1) as u64).max(1);
        let before = fastest.load(Ordering::Relaxed);
        if before == 0 || each < before {
            fastest.store(each, Ordering::Relaxed);
        }
        Ok(result)
    }

    /// What is known of the runs, with some that are to come; nothing where that does not count.
    fn runs(&self, next: u64, wait: bool) -> Option<Runs> {
        let spent = self.0.spent.load(Ordering::Relaxed).saturating_add(next);
        let fastest = Some(self.0.fastest.load(Ordering::Relaxed)).filter(|&f| f > 0);
        let runs = Runs {
            spent,
            fastest,
            wait,
        };
        Some(runs).filter(|_| when() == When::Paid)
    }

    /// Whether it is time for an attempt, if the next run takes so many nanoseconds.
    pub fn is_due(&self, plan: &Plan, next: u64) -> bool {
        let price = match self.0.price.load(Ordering::Relaxed) {
            UNDER_WAY => return false,
            0 => CUTTING * plan.weight as u64,
            price => price,
        };
        match when() {
            When::Never => false,
            When::Paid => {
                let spent = self.0.spent.load(Ordering::Relaxed);
                spent.saturating_add(next) > price
            }
            When::Always => true,
        }
    }

    /// The code, if it is there; an attempt to make it, if it is time: a plan is about to be run.
    pub fn get(&self, plan: &Arc<Plan>) -> Result<Option<&Compiled>> {
        if self.is_due(plan, 0) {
            self.make(plan, self.runs(0, false))?;
        }
        Ok(self.known())
    }

    /// The same for a plan that is about to be run so many times, which it is worth waiting for.
    pub fn get_for(&self, plan: &Arc<Plan>, times: usize) -> Result<Option<&Compiled>> {
        let each = plan.cost as u64 + CALL + STEP * plan.num_passes() as u64;
        let next = each.saturating_mul(times as u64);
        if self.is_due(plan, next) {
            self.make(plan, self.runs(next, true))?;
        }
        Ok(self.known())
    }

    /// Makes the code now, whether it is worth it or not; whether there is some.
    pub fn now(&self, plan: &Arc<Plan>) -> Result<bool> {
        self.make(plan, None)?;
        Ok(self.known().is_some())
    }

    /// Makes the code, unless somebody does. Where nothing is said of the runs, or that they wait, this thread compiles.
    fn make(&self, plan: &Arc<Plan>, runs: Option<Runs>) -> Result<()> {
        let Progress { done, price, .. } = &*self.0;
        let before = price.swap(UNDER_WAY, Ordering::Relaxed);
        if before == UNDER_WAY {
            return Ok(());
        }
        let _timed = timed(Phase::Plan);
        let attempt = match &plan.source {
            Some(program) => Draft::attempt(program, plan.num_passes(), runs),
            None => Ok(Attempt::Nothing),
        };
        match attempt {
            Ok(Attempt::Draft(draft)) if runs.is_some_and(|runs| !runs.wait) => {
                let progress = Arc::clone(&self.0);
                // Where there are no threads, the kernels do without.
                let thread = std::thread::Builder::new().name("cotan-compile".into());
                let _ =
                    thread.spawn(move || progress.done.get_or_init(|| draft.compile()).is_some());
            }
            Ok(Attempt::Draft(draft)) => {
                done.get_or_init(|| draft.compile());
            }
            Ok(Attempt::Later(later)) => price.store(later.max(1), Ordering::Relaxed),
            Err(Error::Interrupted) => {
                // The next run tries again.
                price.store(before, Ordering::Relaxed);
                return Err(Error::Interrupted);
            }
            // The kernels do without.
            Ok(Attempt::Nothing) | Err(_) => {
                done.get_or_init(|| None);
            }
        }
        Ok(())
    }
}

/// Whether a program computes with single elements for the most part, and with nothing that is large.
fn is_worth_it(program: &Program, scalar: &[bool]) -> bool {
    let (mut taken_apart, mut others) = (0, 0);
    for (k, &is_scalar) in scalar.iter().enumerate() {
        let eqn = &program.eqns()[k];
        if is_scalar {
            taken_apart += usize::from(eqn.prim != ops::LITERAL && !eqn.prim.is_view());
            continue;
        }
        let large = |&v: &u32| program.aval(v).size() > LARGE;
        if large(&program.result(k)) || program.args(eqn).iter().any(large) {
            return false;
        }
        // Elementwise operations are better off in one pass with their neighbours.
        let fused =
            eqn.prim.is_elementwise() || matches!(eqn.prim.kernel_ref(), Some(Kernel::Reduce(_)));
        others += if fused { FUSED } else { 1 };
    }
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

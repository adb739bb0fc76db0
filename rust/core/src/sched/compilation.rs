//! Decides when machine code is made: when the runs of the kernels have taken as long as it would save.
//!
//! Making it takes milliseconds, and nobody knows how often a program will be run. So the first runs are those of the
//! kernels, and so are those while a thread of its own compiles: nobody waits for code that may not be used again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::profile::{Phase, timed};
use crate::error::{Error, Result};
use crate::kernels::machine_code::{When, when};

/// Estimated nanoseconds of cutting an equation, and of compiling a line,
const CUTTING: u64 = 1000;
const COMPILING: u64 = 10_000;
/// of a run besides what its steps cost.
pub(super) const CALL: u64 = 300;
/// Code is made beside the runs when it would have saved them this part of what it costs.
const PART: f64 = 0.5;
/// Code is made that saves at least this part of what kernels take.
const GAIN: f64 = 0.2;
/// No more attempts.
const UNDER_WAY: u64 = u64::MAX;

/// Locks the compiler until the guard is dropped. Programs are compiled one after the other, since their runs need the
/// processor, too, and a `fork` must not copy one that is half done.
pub fn lock_compiler() -> impl Sized {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Code before it is compiled.
pub(super) trait Draft: Send + 'static {
    /// What becomes of it.
    type Code: Send + Sync + 'static;

    /// Roughly how many nanoseconds a run will take.
    fn cost(&self) -> f64;

    /// How many lines there are to compile.
    fn lines(&self) -> usize;

    /// Compiles it; `None` where that is not possible.
    fn compile(self) -> Option<Self::Code>;
}

/// What comes of a program.
pub(super) enum Attempt<D> {
    Draft(Box<D>),
    /// It gains nothing, or cannot be compiled.
    Nothing,
    /// It will have been run often enough when its runs have taken so many nanoseconds.
    Later(u64),
}

/// What is known of the runs of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    /// How many nanoseconds they take, or have taken.
    spent: u64,
    /// How many the fastest one has taken.
    fastest: Option<u64>,
    /// Whether they wait for the code: then it has to be worth more.
    wait: bool,
}

impl Runs {
    /// How much longer than so many nanoseconds the fastest run has taken.
    pub fn beyond(self, nanoseconds: f64) -> f64 {
        let fastest = self.fastest.unwrap_or_default() as f64;
        (fastest - nanoseconds).max(0.0)
    }
}

impl<D: Draft> Attempt<D> {
    /// A draft, if the runs say that it pays, `kernels` being an estimate of what the kernels take; any draft where
    /// nothing is known of them.
    pub fn weighed(draft: D, runs: Option<Runs>, kernels: impl FnOnce() -> f64) -> Attempt<D> {
        let Some(runs) = runs else {
            return Attempt::Draft(Box::new(draft));
        };
        let kernels = runs.fastest.map_or_else(kernels, |fastest| fastest as f64);
        let saved = 1.0 - draft.cost() / kernels;
        if saved < GAIN {
            return Attempt::Nothing;
        }
        let part = if runs.wait { 1.0 } else { PART };
        let price = part * COMPILING as f64 * draft.lines() as f64 / saved;
        if (runs.spent as f64) < price {
            return Attempt::Later(price as u64);
        }
        Attempt::Draft(Box::new(draft))
    }
}

/// The machine code of a program that is run again and again, once that pays.
#[derive(Debug)]
pub(super) struct Compilation<C>(Arc<Progress<C>>);

#[derive(Debug)]
struct Progress<C> {
    /// What came of it.
    done: OnceLock<Option<C>>,
    /// How many nanoseconds the runs have taken so far, and how many the fastest one; zero for none.
    spent: AtomicU64,
    fastest: AtomicU64,
    /// How many they have to take before the next attempt: zero when nothing is known yet, the largest number while there
    /// is an attempt and after the last one.
    price: AtomicU64,
}

impl<C> Default for Compilation<C> {
    fn default() -> Self {
        Compilation(Arc::new(Progress {
            done: OnceLock::new(),
            spent: AtomicU64::new(0),
            fastest: AtomicU64::new(0),
            price: AtomicU64::new(0),
        }))
    }
}

impl<C: Send + Sync + 'static> Compilation<C> {
    /// The code, if it is there.
    pub fn known(&self) -> Option<&C> {
        self.0.done.get()?.as_ref()
    }

    /// Whether the time of runs is of interest.
    fn is_open(&self) -> bool {
        when() != When::Never && self.0.price.load(Ordering::Relaxed) != UNDER_WAY
    }

    /// A run of kernels, whose time counts.
    pub fn timed<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        self.timed_turns(|| Ok((run()?, 1)))
    }

    /// The same for several runs: what they give, and how many there were.
    pub fn timed_turns<T>(&self, runs: impl FnOnce() -> Result<(T, usize)>) -> Result<T> {
        if !self.is_open() {
            return Ok(runs()?.0);
        }
        let start = Instant::now();
        let (result, times) = runs()?;
        let took = start.elapsed().as_nanos() as u64;
        let Progress { spent, fastest, .. } = &*self.0;
        spent.fetch_add(took, Ordering::Relaxed);
        let each = (took / times.max(1) as u64).max(1);
        let before = fastest.load(Ordering::Relaxed);
        if times > 0 && (before == 0 || each < before) {
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

    /// Whether it is time for an attempt with so many equations, if the next run takes so many nanoseconds.
    pub fn is_due(&self, equations: usize, next: u64) -> bool {
        let price = match self.0.price.load(Ordering::Relaxed) {
            UNDER_WAY => return false,
            0 => CUTTING * equations as u64,
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

    /// The code, if it is there; an attempt to make it beside the runs, if it is time.
    pub fn get<D: Draft<Code = C>>(
        &self,
        equations: usize,
        attempt: impl FnOnce(Option<Runs>) -> Result<Attempt<D>>,
    ) -> Result<Option<&C>> {
        if self.is_due(equations, 0) {
            self.make(self.runs(0, false), attempt)?;
        }
        Ok(self.known())
    }

    /// The same before runs that will take so many nanoseconds with the kernels, which it is worth waiting for.
    pub fn get_for<D: Draft<Code = C>>(
        &self,
        equations: usize,
        next: u64,
        attempt: impl FnOnce(Option<Runs>) -> Result<Attempt<D>>,
    ) -> Result<Option<&C>> {
        if self.is_due(equations, next) {
            self.make(self.runs(next, true), attempt)?;
        }
        Ok(self.known())
    }

    /// Makes the code now, whether it is worth it or not; whether there is some.
    pub fn now<D: Draft<Code = C>>(
        &self,
        attempt: impl FnOnce(Option<Runs>) -> Result<Attempt<D>>,
    ) -> Result<bool> {
        self.make(None, attempt)?;
        Ok(self.known().is_some())
    }

    /// Makes the code, unless somebody does. Where nothing is said of the runs, or that they wait, this thread compiles.
    fn make<D: Draft<Code = C>>(
        &self,
        runs: Option<Runs>,
        attempt: impl FnOnce(Option<Runs>) -> Result<Attempt<D>>,
    ) -> Result<()> {
        let Progress { done, price, .. } = &*self.0;
        let before = price.swap(UNDER_WAY, Ordering::Relaxed);
        if before == UNDER_WAY {
            return Ok(());
        }
        let _timed = timed(Phase::Plan);
        let compile = |draft: Box<D>| {
            let _turn = lock_compiler();
            draft.compile()
        };
        match attempt(runs) {
            Ok(Attempt::Draft(draft)) if runs.is_some_and(|runs| !runs.wait) => {
                let progress = Arc::clone(&self.0);
                // Where there are no threads, the kernels do without.
                let thread = std::thread::Builder::new().name("cotan-compile".into());
                let _ =
                    thread.spawn(move || progress.done.get_or_init(|| compile(draft)).is_some());
            }
            Ok(Attempt::Draft(draft)) => {
                done.get_or_init(|| compile(draft));
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

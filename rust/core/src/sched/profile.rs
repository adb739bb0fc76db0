//! Counting and timing what a thread computes, on request.
//!
//! Each step of a plan knows the equations that it computes and the lines that they come from; its time is divided
//! among them by what they are estimated to cost. Nothing of this is looked at while no profile is active.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::prim::{Lines, Prim, Site};
use crate::util::FastMap;

/// What cotan does besides the caller's own code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Derivative programs are written and optimised.
    Derive,
    /// Programs are optimised and planned.
    Plan,
    /// Plans run.
    Run,
}

/// What one primitive computed for one line.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Work {
    /// Seconds of the thread that waited for it, by estimate where it shared a pass over memory.
    pub seconds: f64,
    /// How often an equation was computed.
    pub equations: u64,
}

/// What has been counted.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    /// Equations that were computed, by primitive.
    pub equations: Vec<(Prim, u64)>,
    /// Cotangents that a full reverse pass would have computed and nobody asked for, by the primitive
    /// that would have computed them.
    pub skipped: Vec<(Prim, u64)>,
    /// Runs of the executor.
    pub runs: u64,
    /// Equations of runs on devices that the processor computed, because the device has no kernel for them.
    pub on_processor: Vec<(Prim, u64)>,
    /// Bytes that were copied because somebody could have written to them later.
    pub bytes_copied: u64,
    /// What runs computed, by primitive and line.
    pub work: FastMap<(Prim, Site), Work>,
    /// Seconds of each phase, without those that it contains.
    pub phases: [f64; 3],
}

impl Counts {
    fn add(list: &mut Vec<(Prim, u64)>, prim: Prim, n: u64) {
        match list.iter_mut().find(|(p, _)| *p == prim) {
            Some((_, count)) => *count += n,
            None => list.push((prim, n)),
        }
    }

    /// Counts equations that were computed.
    pub fn add_equations(&mut self, counts: &[(Prim, u64)]) {
        for &(prim, n) in counts {
            Counts::add(&mut self.equations, prim, n);
        }
    }

    /// Counts equations that a device left to the processor.
    pub fn add_on_processor(&mut self, prims: impl Iterator<Item = Prim>) {
        for prim in prims {
            Counts::add(&mut self.on_processor, prim, 1);
        }
    }

    /// Counts cotangents that were not.
    pub fn add_skipped(&mut self, counts: &[(Prim, u64)]) {
        for &(prim, n) in counts {
            Counts::add(&mut self.skipped, prim, n);
        }
    }

    /// Seconds of a phase, without those of phases inside of it.
    pub fn seconds(&self, phase: Phase) -> f64 {
        self.phases[phase as usize]
    }
}

thread_local! {
    static ACTIVE: RefCell<Vec<Active>> = const { RefCell::new(Vec::new()) };
    /// Time of the phases that ended inside of the innermost one.
    static INSIDE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A profile that counts on this thread, for which lines are recorded.
struct Active(Arc<Mutex<Counts>>, #[allow(dead_code)] Lines);

/// Counts what this thread computes while it is active.
#[derive(Debug, Default, Clone)]
pub struct Profile {
    counts: Arc<Mutex<Counts>>,
}

impl Profile {
    /// Starts counting on this thread.
    pub fn enter(&self) {
        let active = Active(Arc::clone(&self.counts), Lines::new());
        ACTIVE.with_borrow_mut(|all| all.push(active));
    }

    /// Stops.
    pub fn exit(&self) {
        ACTIVE.with_borrow_mut(|all| {
            if let Some(i) = all.iter().rposition(|a| Arc::ptr_eq(&a.0, &self.counts)) {
                all.remove(i);
            }
        });
    }

    /// What has been counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Tells every active profile of this thread something.
pub fn note(write: impl Fn(&mut Counts)) {
    ACTIVE.with_borrow(|active| {
        for (i, Active(counts, _)) in active.iter().enumerate() {
            // One that was entered inside of itself counts once.
            if active[..i].iter().any(|a| Arc::ptr_eq(&a.0, counts)) {
                continue;
            }
            write(&mut counts.lock().unwrap_or_else(PoisonError::into_inner));
        }
    });
}

/// Whether this thread is profiled.
pub fn is_profiled() -> bool {
    ACTIVE.with_borrow(|active| !active.is_empty())
}

/// Times a phase until it is dropped, if this thread is profiled.
#[must_use]
pub fn timed(phase: Phase) -> Option<Timed> {
    is_profiled().then(|| Timed {
        phase,
        start: Instant::now(),
        before: INSIDE.take(),
    })
}

/// A phase that goes on.
#[derive(Debug)]
pub struct Timed {
    phase: Phase,
    start: Instant,
    /// The value of `INSIDE` when it began: time of earlier phases of the same block.
    before: Duration,
}

impl Drop for Timed {
    fn drop(&mut self) {
        let elapsed = self.start.elapsed();
        let own = elapsed.saturating_sub(INSIDE.replace(self.before + elapsed));
        let phase = self.phase as usize;
        note(|counts| counts.phases[phase] += own.as_secs_f64());
    }
}

/// An equation that a step computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub prim: Prim,
    pub site: Site,
    /// Its part of the time of the step.
    pub share: f32,
}

impl Origin {
    /// Equations with estimates of what they cost, of which only ratios count.
    pub fn shares(equations: impl Iterator<Item = (Prim, Site, f64)> + Clone) -> Box<[Origin]> {
        let whole: f64 = equations.clone().map(|(_, _, cost)| cost).sum();
        let count = equations.clone().count() as f64;
        let share = |cost: f64| {
            if whole > 0.0 {
                cost / whole
            } else {
                count.recip()
            }
        };
        equations
            .map(|(prim, site, cost)| Origin {
                prim,
                site,
                share: share(cost) as f32,
            })
            .collect()
    }
}

/// The times of a run, while it goes on; nothing, where nobody profiles it.
#[derive(Debug, Default)]
pub(super) struct Stopwatch(Option<FastMap<(Prim, Site), Work>>);

impl Stopwatch {
    /// One for a run of this thread.
    pub fn new() -> Stopwatch {
        Stopwatch(is_profiled().then(FastMap::default))
    }

    /// The time at which a step begins.
    #[inline]
    pub fn start(&self) -> Option<Instant> {
        self.0.is_some().then(Instant::now)
    }

    /// Notes a step that has ended.
    #[inline]
    pub fn stop(&mut self, start: Option<Instant>, step: &[Origin]) {
        self.stop_after(start, step, 1);
    }

    /// Notes that a step has been taken so many times.
    #[inline]
    pub fn stop_after(&mut self, start: Option<Instant>, step: &[Origin], times: usize) {
        if let Some(start) = start {
            self.add(start.elapsed(), step, times);
        }
    }

    /// Runs a step that calls back. What is run meanwhile has its own times.
    pub fn calling<T>(&mut self, step: &[Origin], call: impl FnOnce() -> T) -> T {
        let Some(start) = self.start() else {
            return call();
        };
        let before = INSIDE.get();
        let result = call();
        let inside = INSIDE.get().saturating_sub(before);
        self.add(start.elapsed().saturating_sub(inside), step, 1);
        result
    }

    #[cold]
    fn add(&mut self, elapsed: Duration, step: &[Origin], times: usize) {
        let Some(work) = &mut self.0 else { return };
        let seconds = elapsed.as_secs_f64();
        for origin in step {
            let work = work.entry((origin.prim, origin.site)).or_default();
            work.seconds += seconds * f64::from(origin.share);
            work.equations += times as u64;
        }
    }

    /// Tells the profiles of this thread, when the run is over.
    pub fn tell(self) {
        let Some(run) = self.0 else { return };
        note(|counts| {
            #[expect(clippy::iter_over_hash_type, reason = "each key has a sum of its own")]
            for (key, work) in &run {
                let sum = counts.work.entry(*key).or_default();
                sum.seconds += work.seconds;
                sum.equations += work.equations;
            }
        });
    }
}

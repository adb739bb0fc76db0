//! Keeps the process from aborting when the interpreter ends while daemon threads are inside a call.
//!
//! Up to Python 3.13 a thread that asks for the interpreter lock when that happens is ended on the spot, by
//! unwinding its stack; frames of Rust cannot be unwound like that, and the process would abort. So threads
//! that are inside of a call into cotan lie down at the next opportunity, without the lock, and the end of the
//! interpreter waits for them, for a while. Should the process go on after all (a function registered with
//! `atexit` may wait for such a thread), so do they.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::runtime::exports::exports;
use pyo3::prelude::*;

exports!(before_exit);

static ENDING: AtomicBool = AtomicBool::new(false);
/// Threads that are inside of a call into cotan, and those of them that lie down.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static RESTING: AtomicUsize = AtomicUsize::new(0);

/// How long the end of the interpreter waits for threads,
const PATIENCE: Duration = Duration::from_millis(500);
/// and how long they wait for it.
const REST: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(1);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The thread that ends the interpreter computes as ever, and one that has waited in vain goes on.
    static AWAKE: Cell<bool> = const { Cell::new(false) };
}

/// Called by `atexit`.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn before_exit(py: Python<'_>) {
    AWAKE.set(true);
    ENDING.store(true, Ordering::SeqCst);
    let others = || INSIDE.load(Ordering::SeqCst) - usize::from(DEPTH.get() > 0);
    let moving = || RESTING.load(Ordering::SeqCst) < others();
    // A second interpreter may end within the end of the first, and then nobody gets the lock back.
    if !moving() {
        return;
    }
    py.detach(|| {
        let start = Instant::now();
        while moving() && start.elapsed() < PATIENCE {
            sleep(STEP);
        }
    });
}

/// In the child of a `fork` there is only this thread.
pub fn after_fork_in_child() {
    INSIDE.store(usize::from(DEPTH.get() > 0), Ordering::SeqCst);
    RESTING.store(0, Ordering::SeqCst);
}

/// Marks the thread as being inside of a call into cotan.
pub fn enter() {
    if DEPTH.replace(DEPTH.get() + 1) == 0 {
        INSIDE.fetch_add(1, Ordering::SeqCst);
    }
}

/// The call is over.
pub fn leave() {
    if DEPTH.replace(DEPTH.get().saturating_sub(1)) == 1 {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// `enter`, and `leave` when it is dropped.
pub struct Inside(());

impl Inside {
    pub fn new() -> Inside {
        enter();
        Inside(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        leave();
    }
}

/// An opportunity to lie down, with the interpreter lock held.
#[inline]
pub fn rest(py: Python<'_>) {
    if ENDING.load(Ordering::Relaxed) {
        py.detach(rest_detached);
    }
}

/// The same without the lock.
pub fn rest_detached() {
    if !ENDING.load(Ordering::Relaxed) || AWAKE.get() {
        return;
    }
    let counts = DEPTH.get() > 0;
    if counts {
        RESTING.fetch_add(1, Ordering::SeqCst);
    }
    sleep(REST);
    AWAKE.set(true);
    if counts {
        RESTING.fetch_sub(1, Ordering::SeqCst);
    }
}

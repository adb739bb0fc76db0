//! Keeps the process from aborting when the interpreter ends while daemon threads are inside a call.
//!
//! Up to Python 3.13 a thread that asks for the interpreter lock when that happens is ended on the spot, by
//! unwinding its stack; frames of Rust cannot be unwound like that, and the process would abort. So threads
//! that are inside of a call into cotan lie down at the next opportunity, without the lock, and the end of the
//! interpreter waits for them, for a while. Should the process go on after all (a function registered with
//! `atexit` may wait for such a thread), so do they. Threads that have not lain down by then are in Python code
//! that a call runs, a loop of the user or an import. `SystemExit` is raised there, which passes frames of Rust as
//! any exception does.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

use crate::runtime::exports::exports;
use crate::runtime::threads::ThreadNumber;

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
/// How often a thread asks for the list of callers.
const ATTEMPTS: usize = 1000;

/// A thread that has called into cotan.
struct Caller {
    number: ThreadNumber,
    /// Whether it is inside of a call, and does not lie down.
    moves: AtomicBool,
}

impl Caller {
    fn here() -> Arc<Caller> {
        let caller = Arc::new(Caller {
            number: ThreadNumber::here(),
            moves: AtomicBool::new(false),
        });
        // The lock is held for a moment only. In the child of a fork it may be held by a thread that is not there.
        let list = (0..ATTEMPTS).find_map(|_| {
            let lock = CALLERS.try_lock().ok();
            if lock.is_none() {
                yield_now();
            }
            lock
        });
        if let Some(mut all) = list {
            all.retain(|other| other.strong_count() > 0);
            all.push(Arc::downgrade(&caller));
        }
        caller
    }

    fn set_moves(moves: bool) {
        // A thread that is about to end has given it up.
        let _ = CALLER.try_with(|caller| caller.moves.store(moves, Ordering::SeqCst));
    }
}

static CALLERS: Mutex<Vec<Weak<Caller>>> = Mutex::new(Vec::new());

thread_local! {
    static CALLER: Arc<Caller> = Caller::here();
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
    let wait = || {
        let start = Instant::now();
        while moving() && start.elapsed() < PATIENCE {
            sleep(STEP);
        }
    };
    py.detach(wait);
    if moving() {
        stop_callers(py);
        py.detach(wait);
    }
}

/// Raises `SystemExit` in threads that are in Python code inside of a call. They would be ended in any case.
fn stop_callers(py: Python<'_>) {
    let own = ThreadNumber::here();
    // Whoever holds this lock gives it back at once, or was lost in a fork.
    let Ok(all) = CALLERS.try_lock() else {
        return;
    };
    let exit = py.get_type::<PySystemExit>();
    for caller in all.iter().filter_map(Weak::upgrade) {
        if caller.number != own && caller.moves.load(Ordering::SeqCst) {
            caller.number.raise(&exit);
        }
    }
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
        Caller::set_moves(true);
    }
}

/// The call is over.
pub fn leave() {
    if DEPTH.replace(DEPTH.get().saturating_sub(1)) == 1 {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
        Caller::set_moves(false);
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
        Caller::set_moves(false);
    }
    sleep(REST);
    AWAKE.set(true);
    if counts {
        RESTING.fetch_sub(1, Ordering::SeqCst);
        Caller::set_moves(true);
    }
}

//! The private thread pools. Made at the first large run, made anew in a child after `fork` (where the
//! parent's threads do not exist). One helps the thread that calls; one takes long runs, while that thread looks whether the
//! user wants to stop.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder, Yield};

use crate::error::{Error, Result};
use crate::kernels::{self, Ctx, Value};

/// A pool, and the process that made it.
type Made = Option<(u32, Arc<ThreadPool>)>;

struct State {
    /// For runs that the caller takes no part in.
    pool: Made,
    /// For those in which it does: one thread less.
    helpers: Made,
    threads: usize,
}

static STATE: Mutex<State> = Mutex::new(State {
    pool: None,
    helpers: None,
    threads: 0,
});

/// How long a thread that helps waits awake for the next piece of a run.
const AWAKE: Duration = Duration::from_micros(200);

/// More threads than this are not asked for, whatever is wished: each takes memory of the process.
const MOST_THREADS: usize = 1024;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn default_threads() -> usize {
    let wanted = std::env::var("COTAN_NUM_THREADS")
        .ok()
        .and_then(|t| t.parse().ok());
    wanted
        .filter(|&n| n > 0)
        .unwrap_or_else(cores)
        .min(MOST_THREADS)
}

/// How many threads a large run uses.
pub fn num_threads() -> usize {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if state.threads == 0 {
        state.threads = default_threads();
    }
    state.threads
}

/// Changes how many threads large runs use from now on; 0 goes back to the default (the environment
/// variable `COTAN_NUM_THREADS`, else the number of cores).
pub fn set_num_threads(threads: usize) {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.threads = if threads == 0 {
        default_threads()
    } else {
        threads.min(MOST_THREADS)
    };
    state.pool = None;
    state.helpers = None;
}

/// The pool, if threads can be had.
pub(super) fn pool() -> Option<Arc<ThreadPool>> {
    let threads = num_threads();
    // Where each run has one thread, callers on several threads must not wait for each other.
    let workers = if threads == 1 { cores() } else { threads };
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    made(&mut state.pool, workers)
}

/// The threads that help a caller, if there are to be several, and can be had; and how many they are with the caller.
fn helpers() -> Option<(Arc<ThreadPool>, usize)> {
    let threads = num_threads();
    if threads == 1 {
        return None;
    }
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let helpers = made(&mut state.helpers, threads - 1)?;
    let threads = helpers.current_num_threads() + 1;
    Some((helpers, threads))
}

/// A pool of this process.
fn made(pool: &mut Made, workers: usize) -> Option<Arc<ThreadPool>> {
    let pid = std::process::id();
    if let Some((owner, pool)) = pool
        && *owner == pid
    {
        return Some(Arc::clone(pool));
    }
    // The threads of another process stayed there; waiting for them to end would never end.
    std::mem::forget(pool.take());
    let new = ThreadPoolBuilder::new()
        .num_threads(workers)
        .thread_name(|i| format!("cotan-{i}"))
        .build()
        .ok()?;
    let new = Arc::new(new);
    *pool = Some((pid, Arc::clone(&new)));
    Some(new)
}

/// What a run does on this thread and on those that help it, which stay awake from piece to piece; on this one alone where
/// there are no others.
pub(super) fn together<R>(cancel: &AtomicBool, run: impl FnOnce(&Ctx<'_>) -> R) -> R {
    let Some((helpers, threads)) = helpers() else {
        return run(&Ctx::new(cancel, 1));
    };
    let ctx = Ctx::beside(cancel, &helpers, pool, threads);
    let done = AtomicBool::new(false);
    helpers.in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| stay_awake(&done));
        }
        // A panic must not leave them waiting.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&ctx)));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Takes what comes, until the run is done or nothing has come for a while: to wake a thread for each step takes longer than
/// many steps.
fn stay_awake(done: &AtomicBool) {
    thread_local! {
        /// Whether this thread does so for another run, whose end does not wait for that of this one.
        static IS_AWAKE: Cell<bool> = const { Cell::new(false) };
    }
    if IS_AWAKE.replace(true) {
        return;
    }
    let mut since = Instant::now();
    while !done.load(Ordering::Relaxed) {
        match rayon::yield_now() {
            Some(Yield::Executed) => since = Instant::now(),
            _ if since.elapsed() > AWAKE => break,
            _ => std::thread::yield_now(),
        }
    }
    IS_AWAKE.set(false);
}

/// A copy of so many bytes is worth the pool: some 200 µs of one thread's work.
pub const WIDE_COPY: usize = 1 << 20;

/// So many bytes one thread compares before it looks whether another one has found a difference.
pub(super) const COMPARED: usize = 1 << 18;

/// A copy in row-major order, made by all threads when it is large. The caller holds no lock that a run waits for.
pub fn copied(value: &Value) -> Result<Value> {
    let cancel = AtomicBool::new(false);
    match value.aval().nbytes() {
        0..WIDE_COPY => kernels::copy(value, &Ctx::new(&cancel, 1)),
        _ => together(&cancel, |ctx| kernels::copy(value, ctx)),
    }
}

/// Whether `f` is true of all pieces of some bytes, which all threads look at where there are many. The caller holds no
/// lock that a run waits for.
pub(super) fn all_pieces(len: usize, f: impl Fn(usize, Range<usize>) -> bool + Sync) -> bool {
    let count = len.div_ceil(COMPARED);
    let look = |i: usize| f(i, i * COMPARED..len.min((i + 1) * COMPARED));
    // Any error ends it.
    let or_stop = |i: usize| look(i).then_some(()).ok_or(Error::Interrupted);
    match (len >= WIDE_COPY).then(helpers).flatten() {
        Some((helpers, threads)) => kernels::share(&helpers, threads, count, &or_stop).is_ok(),
        None => (0..count).all(look),
    }
}

/// Whether two pieces of memory have the same bytes, which all threads compare where there are many. The caller holds no
/// lock that a run waits for.
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && all_pieces(a.len(), |_, piece| a[piece.clone()] == b[piece])
}

/// Holds the pool's state still while a `fork` copies it.
pub(super) fn lock() -> impl Sized {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

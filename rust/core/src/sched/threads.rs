//! The private thread pool. Made at the first large run, made anew in a child after `fork` (where the
//! parent's threads do not exist), entered once for each run.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};
use crate::kernels::{self, Ctx, Value};

struct State {
    pool: Option<(u32, Arc<ThreadPool>)>,
    threads: usize,
}

static STATE: Mutex<State> = Mutex::new(State {
    pool: None,
    threads: 0,
});

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
}

/// The pool, if threads can be had.
pub(super) fn pool() -> Option<Arc<ThreadPool>> {
    let threads = num_threads();
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    if let Some((owner, pool)) = &state.pool {
        if *owner == pid {
            return Some(Arc::clone(pool));
        }
        // The threads stayed in the parent; waiting for them to end would never end.
        std::mem::forget(state.pool.take());
    }
    // Where each run has one thread, callers on several threads must not wait for each other.
    let workers = if threads == 1 { cores() } else { threads };
    let pool = ThreadPoolBuilder::new()
        .num_threads(workers)
        .thread_name(|i| format!("cotan-{i}"))
        .build()
        .ok()?;
    let pool = Arc::new(pool);
    state.pool = Some((pid, Arc::clone(&pool)));
    Some(pool)
}

/// A copy of so many bytes is worth the pool: some 200 µs of one thread's work.
pub const WIDE_COPY: usize = 1 << 20;

/// So many bytes one thread compares before it looks whether another one has found a difference.
pub(super) const COMPARED: usize = 1 << 18;

/// A copy in row-major order, made by all threads when it is large. The caller holds no lock that a run waits for.
pub fn copied(value: &Value) -> Result<Value> {
    let cancel = AtomicBool::new(false);
    match pool_for(value.aval().nbytes()) {
        Some(pool) => kernels::copy(value, &Ctx::beside(&cancel, &pool, num_threads())),
        None => kernels::copy(value, &Ctx::new(&cancel, 1)),
    }
}

/// The threads, where there are several, and reading so many bytes is worth them.
fn pool_for(bytes: usize) -> Option<Arc<ThreadPool>> {
    (bytes >= WIDE_COPY && num_threads() > 1)
        .then(pool)
        .flatten()
}

/// Whether `f` is true of all pieces of some bytes, which all threads look at where there are many. The caller holds no
/// lock that a run waits for.
pub(super) fn all_pieces(len: usize, f: impl Fn(usize, Range<usize>) -> bool + Sync) -> bool {
    let count = len.div_ceil(COMPARED);
    let look = |i: usize| f(i, i * COMPARED..len.min((i + 1) * COMPARED));
    let or_stop = |i: usize| look(i).then_some(()).ok_or(Error::Interrupted);
    match pool_for(len) {
        Some(pool) => kernels::share(&pool, num_threads(), count, &or_stop).is_ok(),
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

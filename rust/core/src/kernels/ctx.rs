//! What a kernel knows about the run it is part of: how wide it may go, and whether to stop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::interrupt::enough;

/// How long a thread waits awake for the last pieces of the others: to sleep and to be woken takes as long.
const AWAKE: Duration = Duration::from_micros(50);

/// A pool of all threads, if they can be had.
type Whole = fn() -> Option<Arc<ThreadPool>>;

/// Handed to every kernel call.
#[derive(Debug, Clone, Copy)]
pub struct Ctx<'a> {
    cancel: &'a AtomicBool,
    threads: usize,
    /// Whose threads help, when the caller is none of them; and the pool for what needs to be inside of one.
    beside: Option<(&'a ThreadPool, Whole)>,
}

impl<'a> Ctx<'a> {
    /// `threads > 1` promises that the caller runs inside a rayon pool.
    pub fn new(cancel: &'a AtomicBool, threads: usize) -> Ctx<'a> {
        Ctx {
            cancel,
            threads: threads.max(1),
            beside: None,
        }
    }

    /// For a caller outside of a pool, which works together with threads of it: so many with itself. What uses rayon by itself is done
    /// inside of another one.
    pub fn beside(
        cancel: &'a AtomicBool,
        helpers: &'a ThreadPool,
        whole: Whole,
        threads: usize,
    ) -> Ctx<'a> {
        Ctx {
            beside: Some((helpers, whole)),
            ..Ctx::new(cancel, threads)
        }
    }

    /// The same run, for work that stays on the calling thread.
    #[must_use]
    pub fn alone(&self) -> Ctx<'a> {
        Ctx {
            threads: 1,
            ..*self
        }
    }

    /// How many threads a kernel may use.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The error that ends a run when the user asked to stop, or memory has ended.
    pub fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(Error::Interrupted)
        } else {
            enough()
        }
    }

    /// Calls `f(0) .. f(n - 1)`, on several threads when there are any, and stops early when the run
    /// is cancelled. What each index does must not depend on the number of threads: that is what
    /// keeps results the same bits everywhere.
    pub fn for_each(&self, n: usize, f: impl Fn(usize) + Sync + Send) -> Result<()> {
        self.call_each(n, &f)
    }

    /// One copy for all kernels: with one for each, rayon's functions were a quarter of the compiled core. A call through
    /// a pointer is nothing next to what an index does.
    fn call_each(&self, n: usize, f: &(dyn Fn(usize) + Sync)) -> Result<()> {
        let call = |i| {
            self.check()?;
            f(i);
            Ok(())
        };
        match self.beside {
            _ if self.threads == 1 || n <= 1 => (0..n).try_for_each(call),
            Some((helpers, _)) => share(helpers, self.threads, n, &call),
            None => (0..n).into_par_iter().try_for_each(call),
        }
    }

    /// Calls `f` in a pool, for what takes the current rayon pool by itself; with `false` where threads for that cannot be had.
    pub fn inside<R: Send>(&self, f: impl FnOnce(bool) -> R + Send) -> R {
        match self.beside {
            None => f(true),
            Some((_, whole)) => match whole() {
                Some(pool) => pool.install(|| f(true)),
                None => f(false),
            },
        }
    }
}

/// Calls `f(0) .. f(n - 1)` on the calling thread, which begins at once, and on others of a pool, up to the first error.
pub fn share(
    pool: &ThreadPool,
    threads: usize,
    n: usize,
    f: &(dyn Fn(usize) -> Result<()> + Sync),
) -> Result<()> {
    let helpers = threads.min(n).saturating_sub(1);
    let next = AtomicUsize::new(0);
    let working = AtomicUsize::new(helpers);
    let failed = OnceLock::new();
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                break;
            }
            if let Err(error) = f(i) {
                // Nobody begins another piece.
                next.store(n, Ordering::Relaxed);
                let _ = failed.set(error);
            }
        }
    };
    pool.in_place_scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|_| {
                work();
                working.fetch_sub(1, Ordering::Release);
            });
        }
        work();
        let start = Instant::now();
        while working.load(Ordering::Acquire) > 0 && start.elapsed() < AWAKE {
            std::thread::yield_now();
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> ThreadPool {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(3);
        threads.build().unwrap()
    }

    fn whole() -> Option<Arc<ThreadPool>> {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(3);
        threads.build().ok().map(Arc::new)
    }

    fn refuse() -> Error {
        Error::Program("refused".into())
    }

    #[test]
    fn a_caller_outside_of_the_pool_shares_its_work() {
        let (pool, cancel) = (pool(), AtomicBool::new(false));
        let ctx = Ctx::beside(&cancel, &pool, whole, 3);
        for n in [0, 1, 2, 100] {
            let calls: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            let call = |i: usize| {
                // Pieces may be shared once more.
                let inner = ctx.for_each(3, |_| {
                    calls[i].fetch_add(1, Ordering::Relaxed);
                });
                inner.unwrap();
            };
            ctx.for_each(n, call).unwrap();
            let seen: Vec<usize> = calls.into_iter().map(AtomicUsize::into_inner).collect();
            assert_eq!(seen, vec![3; n]);
        }
        assert_eq!(
            ctx.inside(|is_there| (is_there, rayon::current_num_threads())),
            (true, 3)
        );
    }

    #[test]
    fn nothing_is_begun_after_an_error_or_a_cancellation() {
        let (pool, cancel) = (pool(), AtomicBool::new(false));
        let begun = AtomicUsize::new(0);
        let refused = share(&pool, 3, 10_000, &|_| {
            begun.fetch_add(1, Ordering::Relaxed);
            Err(refuse())
        });
        assert_eq!(refused.unwrap_err().to_string(), refuse().to_string());
        assert!(begun.into_inner() <= 3);
        let ctx = Ctx::beside(&cancel, &pool, whole, 3);
        let done = ctx.for_each(10_000, |_| cancel.store(true, Ordering::Relaxed));
        assert!(matches!(done, Err(Error::Interrupted)));
    }

    #[test]
    fn a_panic_of_any_thread_is_one_of_the_caller() {
        let pool = pool();
        let outer = std::thread::current().id();
        for helper in [false, true] {
            let call = |_: usize| {
                let is_helper = std::thread::current().id() != outer;
                assert!(is_helper != helper, "on purpose");
                // So that the others have a turn.
                std::thread::sleep(Duration::from_millis(1));
                Ok(())
            };
            let run = || share(&pool, 3, 50, &call);
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
            // The pool goes on.
            assert!(share(&pool, 3, 50, &|_| Ok(())).is_ok());
        }
    }
}

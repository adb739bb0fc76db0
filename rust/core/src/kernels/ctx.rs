//! What a kernel knows about the run it is part of: how wide it may go, and whether to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::interrupt::enough;

/// Handed to every kernel call.
#[derive(Debug, Clone, Copy)]
pub struct Ctx<'a> {
    cancel: &'a AtomicBool,
    threads: usize,
}

impl<'a> Ctx<'a> {
    /// `threads > 1` promises that the caller runs inside a rayon pool.
    pub fn new(cancel: &'a AtomicBool, threads: usize) -> Ctx<'a> {
        Ctx {
            cancel,
            threads: threads.max(1),
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
        if self.threads > 1 && n > 1 {
            (0..n).into_par_iter().try_for_each(call)
        } else {
            (0..n).try_for_each(call)
        }
    }
}

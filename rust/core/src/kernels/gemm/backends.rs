//! Products of `f32`, `f64` and their complex numbers: which crate does them, and in what parts.

use std::sync::OnceLock;

use super::super::Ctx;
use super::super::shared_pointer::Shared;
#[cfg(target_arch = "x86_64")]
use super::crates::x86;
use super::crates::{Dense, native};
use super::fallback;
use super::matrix::{Dims, Mat, spread};
use super::matvec::{self, Real};
#[cfg(target_arch = "x86_64")]
use super::packing_memory;
use crate::error::{Error, Result};

/// # Safety
/// As for `Product::product`.
pub(super) unsafe fn real<T: Dense + Real>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        if d.n == 1 {
            return matvec::matvec(d.m, d.k, a, b.at, b.rs, c, wide, ctx);
        }
        if d.m == 1 {
            return matvec::matvec(d.n, d.k, b.transposed(), a.at, a.cs, c, wide, ctx);
        }
        general(d, a, b, c, wide, native(), ctx)
    }
}

/// # Safety
/// As for `Product::product`.
pub(super) unsafe fn complex<T: Dense>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        if d.m == 1 || d.n == 1 {
            return fallback::product(d, a, b, c, wide, ctx);
        }
        general(d, a, b, c, wide, native(), ctx)
    }
}

/// A product in strips of at most about twenty milliseconds, so that it can be cancelled and spread.
/// Both crates sum every element in the same order wherever a strip begins.
///
/// # Safety
/// As for `Product::product`; `fast` only when [`native`] says so.
pub(super) unsafe fn general<T: Dense>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    fast: bool,
    ctx: &Ctx,
) -> Result<()> {
    let Dims { m, k, n } = d;
    let threads = if wide { ctx.threads() } else { 1 };
    let least = (d.work() >> 30) + 1;
    // Columns of `b` are packed by the strip that they are in, rows of `a` are not packed at all:
    // columns are the cheaper ones to cut.
    let across = n >= 64 * threads || n >= m;
    let len = if across { n } else { m };
    let strips = if threads == 1 {
        1
    } else {
        (len / 256).clamp(threads, 4 * threads)
    }
    .max(least);
    let part = len.div_ceil(strips).next_multiple_of(32);
    let failed = OnceLock::<Error>::new();
    spread(ctx, threads > 1, len.div_ceil(part), |i| {
        let start = i * part;
        let len = part.min(len - start);
        let (d, a, b, c) = if across {
            (
                Dims { m, k, n: len },
                a,
                b.from(0, start),
                c.at(start as isize),
            )
        } else {
            (
                Dims { m: len, k, n },
                a.from(start, 0),
                b,
                c.at((start * n) as isize),
            )
        };
        #[cfg(target_arch = "x86_64")]
        if fast {
            return match packing_memory::take() {
                // SAFETY: the caller's promise; strips are disjoint.
                Ok(()) => unsafe { x86(d, a, b, c, n as isize) },
                Err(e) => drop(failed.set(e)),
            };
        }
        // SAFETY: as above.
        unsafe { T::portable(d, a, b, c, n as isize) };
    })?;
    failed.into_inner().map_or(Ok(()), Err)
}

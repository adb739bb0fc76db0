//! The way of a product of `f32` or `f64` matrices.

use super::super::Ctx;
use super::super::reduce::Number;
use super::super::strided::Shared;
use super::{Dims, Mat, matvec, spread};
use crate::error::Result;

/// `f32` and `f64`.
pub(super) trait Real: Number<Wide = Self> + std::ops::Sub<Output = Self> {
    fn fma(self, x: Self, y: Self) -> Self;
    /// `matrixmultiply`'s product: `c` = `a` `b`.
    ///
    /// # Safety
    /// As for `Product::product`.
    unsafe fn general(d: Dims, a: Mat<Self>, b: Mat<Self>, c: *mut Self, row: isize);
    /// The AVX-512 engine; false where there is none.
    ///
    /// # Safety
    /// As for `Product::product`.
    unsafe fn engine(
        d: Dims,
        a: Mat<Self>,
        b: Mat<Self>,
        c: Shared<Self>,
        wide: bool,
        ctx: &Ctx,
    ) -> Result<bool>;
}

macro_rules! reals {
    ($($t:ident $general:ident),*) => {$(
        impl Real for $t {
            #[inline(always)]
            fn fma(self, x: $t, y: $t) -> $t {
                self.mul_add(x, y)
            }

            unsafe fn general(d: Dims, a: Mat<$t>, b: Mat<$t>, c: *mut $t, row: isize) {
                let Dims { m, k, n } = d;
                let (pa, pb) = (a.at.at(0), b.at.at(0));
                // SAFETY: the caller's promise; with a factor of zero `c` is not read.
                unsafe {
                    matrixmultiply::$general(
                        m, k, n, 1.0, pa, a.rs, a.cs, pb, b.rs, b.cs, 0.0, c, row, 1,
                    );
                }
            }

            unsafe fn engine(
                d: Dims,
                a: Mat<$t>,
                b: Mat<$t>,
                c: Shared<$t>,
                wide: bool,
                ctx: &Ctx,
            ) -> Result<bool> {
                #[cfg(target_arch = "x86_64")]
                if std::arch::is_x86_feature_detected!("avx512f") {
                    // SAFETY: the caller's promise, and the instructions are there.
                    unsafe { super::engine::product(d, a, b, c, wide, ctx)? };
                    return Ok(true);
                }
                let _ = (d, a, b, c, wide, ctx);
                Ok(false)
            }
        }
    )*};
}
reals!(f32 sgemm, f64 dgemm);

/// # Safety
/// As for `Product::product`.
pub(super) unsafe fn product<T: Real>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    // SAFETY (all blocks): the caller's promise.
    unsafe {
        if d.n == 1 {
            return matvec::matvec(d.m, d.k, a, b.at, b.rs, c, wide, ctx);
        }
        if d.m == 1 {
            return matvec::matvec(d.n, d.k, b.transposed(), a.at, a.cs, c, wide, ctx);
        }
        if T::engine(d, a, b, c, wide, ctx)? {
            return Ok(());
        }
        general(d, a, b, c, wide, ctx)
    }
}

/// The crate's product in strips of about ten milliseconds, so that it can be cancelled and spread.
///
/// # Safety
/// As for `Product::product`.
pub(super) unsafe fn general<T: Real>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    let Dims { m, k, n } = d;
    let wide = wide && ctx.threads() > 1;
    let strips = (d.work() >> 29) + if wide { 2 * ctx.threads() } else { 1 };
    let (down, len) = if m >= n { (true, m) } else { (false, n) };
    // Whole tiles of any of its kernels.
    let part = len.div_ceil(strips).next_multiple_of(96);
    spread(ctx, wide, len.div_ceil(part), |i| {
        let start = i * part;
        let len = part.min(len - start);
        // SAFETY: the caller's promise; strips are disjoint.
        unsafe {
            if down {
                let to = c.at((start * n) as isize);
                T::general(Dims { m: len, k, n }, a.from(start, 0), b, to, n as isize);
            } else {
                let to = c.at(start as isize);
                T::general(Dims { m, k, n: len }, a, b.from(0, start), to, n as isize);
            }
        }
    })
}

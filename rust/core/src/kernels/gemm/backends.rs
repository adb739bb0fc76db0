//! Products of `f32`, `f64` and their complex numbers: which crate does them, and in what parts.

use std::sync::OnceLock;

use num_complex::Complex;

use super::super::Ctx;
use super::super::reduce::Number;
use super::super::strided::Shared;
#[cfg(target_arch = "x86_64")]
use super::packing_memory;
use super::{Dims, Mat, fallback, matvec, spread};
use crate::error::{Error, Result};

/// `f32` and `f64`.
pub(super) trait Real: Number<Wide = Self> {
    /// `self * x + y`, rounded once.
    fn fma(self, x: Self, y: Self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn fma(self, x: f32, y: f32) -> f32 {
        self.mul_add(x, y)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn fma(self, x: f64, y: f64) -> f64 {
        self.mul_add(x, y)
    }
}

/// A type that the crates have kernels for.
pub(super) trait Dense: Number<Wide = Self> {
    /// `private-gemm-x86`'s name for it.
    #[cfg(target_arch = "x86_64")]
    const KIND: private_gemm_x86::DType;
    /// `matrixmultiply`'s product: `c` = `a` `b`, rows of `c` being `row` apart.
    ///
    /// # Safety
    /// As for `Product::product`.
    unsafe fn portable(d: Dims, a: Mat<Self>, b: Mat<Self>, c: *mut Self, row: isize);
}

macro_rules! dense {
    ($($t:ty, $kind:ident, $function:ident($($how:ident)?), $one:expr;)*) => {$(
        impl Dense for $t {
            #[cfg(target_arch = "x86_64")]
            const KIND: private_gemm_x86::DType = private_gemm_x86::DType::$kind;

            unsafe fn portable(d: Dims, a: Mat<$t>, b: Mat<$t>, c: *mut $t, row: isize) {
                let Dims { m, k, n } = d;
                let (x, y) = (a.at.at(0), b.at.at(0));
                // SAFETY: the caller's promise; with a factor of zero `c` is not read. A complex
                // number has the layout of an array of two.
                unsafe {
                    matrixmultiply::$function(
                        $(matrixmultiply::CGemmOption::$how, matrixmultiply::CGemmOption::$how,)?
                        m, k, n, $one, x.cast(), a.rs, a.cs, y.cast(), b.rs, b.cs,
                        <$t as Number>::ZERO.into_parts(), c.cast(), row, 1,
                    );
                }
            }
        }
    )*};
}

/// A number as `matrixmultiply` takes it.
trait Parts {
    type Parts;
    fn into_parts(self) -> Self::Parts;
}

macro_rules! parts {
    ($($t:ident),*) => {$(
        impl Parts for $t {
            type Parts = $t;
            fn into_parts(self) -> $t {
                self
            }
        }
        impl Parts for Complex<$t> {
            type Parts = [$t; 2];
            fn into_parts(self) -> [$t; 2] {
                [self.re, self.im]
            }
        }
    )*};
}
parts!(f32, f64);
dense! {
    f32, F32, sgemm(), 1.0;
    f64, F64, dgemm(), 1.0;
    Complex<f32>, C32, cgemm(Standard), [1.0, 0.0];
    Complex<f64>, C64, zgemm(Standard), [1.0, 0.0];
}

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

/// Whether this processor has instructions that `private-gemm-x86` has kernels for.
pub(super) fn native() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("avx512f") || (has!("avx2") && has!("fma"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
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

/// `private-gemm-x86`'s product: `c` = `a` `b`, rows of `c` being `row` apart.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn x86<T: Dense>(d: Dims, a: Mat<T>, b: Mat<T>, c: *mut T, row: isize) {
    use private_gemm_x86::{Accum, DstKind, IType, InstrSet, gemm};
    let wide = std::arch::is_x86_feature_detected!("avx512f");
    let instructions = if wide {
        InstrSet::Avx512
    } else {
        InstrSet::Avx256
    };
    let one = T::ONE;
    let none = std::ptr::null::<()>();
    // SAFETY: the caller's promise; there is no list of indices and no diagonal, and `Replace` does
    // not read `c`.
    unsafe {
        gemm(
            T::KIND,
            IType::U64,
            instructions,
            d.m,
            d.n,
            d.k,
            c.cast(),
            row,
            1,
            none,
            none,
            DstKind::Full,
            Accum::Replace,
            a.at.at(0).cast_const().cast(),
            a.rs,
            a.cs,
            false,
            none,
            0,
            b.at.at(0).cast_const().cast(),
            b.rs,
            b.cs,
            false,
            (&raw const one).cast(),
            1,
        );
    }
}

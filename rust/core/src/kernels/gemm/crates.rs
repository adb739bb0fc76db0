//! The two crates that have kernels for floats and complex numbers, behind one trait: `private-gemm-x86` and
//! `matrixmultiply`.

use num_complex::Complex;

use super::super::arithmetic::Number;
#[cfg(target_arch = "x86_64")]
use super::super::simd_level::empty_upper_halves;
use super::matrix::{Dims, Mat};

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
    empty_upper_halves();
}

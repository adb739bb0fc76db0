//! What the generic loops need to know of an element type: its arithmetic and its order.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;

use super::Element;

/// How many elements the loops handle at a time when they have to convert or gather.
pub(crate) const BLOCK: usize = 256;

/// An element type with its arithmetic; integers wrap, bool adds by *or* and multiplies by *and*.
pub(crate) trait Number: Element + PartialEq {
    /// What this type is computed in: `f32` for the half types, otherwise the type itself.
    type Wide: Number<Wide = Self::Wide>;
    /// Whether `Wide` is this type.
    const NATIVE: bool = true;
    const ZERO: Self;
    const ONE: Self;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
    /// Less, by NumPy's order for numbers without NaN: lexicographic for complex ones.
    fn less(self, other: Self) -> bool;
    /// The larger of two, NaN if one is.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if other.less(self) || self.is_nan() {
            self
        } else {
            other
        }
    }
    /// The smaller of two, NaN if one is.
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if self.less(other) || self.is_nan() {
            self
        } else {
            other
        }
    }
    /// Widens `dst.len()` elements (at most [`BLOCK`]) that lie `step` apart.
    ///
    /// # Safety
    /// They must be readable, aligned or not.
    #[inline(always)]
    unsafe fn widen_line(src: *const Self, step: isize, dst: &mut [Self::Wide]) {
        for (i, d) in dst.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *d = unsafe { src.offset(i as isize * step).read_unaligned() }.widen();
        }
    }
    /// Narrows a line.
    fn narrow_line(src: &[Self::Wide], dst: &mut [Self]) {
        for (d, &s) in dst.iter_mut().zip(src) {
            *d = Self::narrow(s);
        }
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Wide = $t;
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> $t { wide }
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
            #[inline(always)]
            fn is_nan(self) -> bool { false }
            #[inline(always)]
            fn less(self, other: $t) -> bool { self < other }
        }
    )*};
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Wide = $t;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(wide: $t) -> $t { wide }
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self + other }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self * other }
            #[inline(always)]
            fn is_nan(self) -> bool { self != self }
            #[inline(always)]
            fn less(self, other: $t) -> bool { self < other }
            // Written so that it becomes the processor's maximum, and a mask for NaN.
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                let x = if self > other { self } else { other };
                if self != self { self } else { x }
            }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                let x = if self < other { self } else { other };
                if self != self { self } else { x }
            }
        }

        impl Number for Complex<$t> {
            type Wide = Complex<$t>;
            const ZERO: Complex<$t> = Complex::new(0.0, 0.0);
            const ONE: Complex<$t> = Complex::new(1.0, 0.0);
            #[inline(always)]
            fn widen(self) -> Complex<$t> { self }
            #[inline(always)]
            fn narrow(wide: Complex<$t>) -> Complex<$t> { wide }
            #[inline(always)]
            fn plus(self, other: Complex<$t>) -> Complex<$t> { self + other }
            #[inline(always)]
            fn times(self, other: Complex<$t>) -> Complex<$t> { self * other }
            #[inline(always)]
            fn is_nan(self) -> bool { self != self }
            #[inline(always)]
            fn less(self, other: Complex<$t>) -> bool {
                self.re < other.re || (self.re == other.re && self.im < other.im)
            }
            // Equal parts must not decide between a number and a NaN in its other part.
            #[inline(always)]
            fn larger(self, other: Complex<$t>) -> Complex<$t> {
                if self.is_nan() || (!other.is_nan() && !self.less(other)) { self } else { other }
            }
            #[inline(always)]
            fn smaller(self, other: Complex<$t>) -> Complex<$t> {
                if self.is_nan() || (!other.is_nan() && !other.less(self)) { self } else { other }
            }
        }
    )*};
}
floats!(f32, f64);

macro_rules! halves {
    ($($t:ty),*) => {$(
        impl Number for $t {
            type Wide = f32;
            const NATIVE: bool = false;
            const ZERO: $t = <$t>::ZERO;
            const ONE: $t = <$t>::ONE;
            #[inline(always)]
            fn widen(self) -> f32 { self.to_f32() }
            #[inline(always)]
            fn narrow(wide: f32) -> $t { <$t>::from_f32(wide) }
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self + other }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self * other }
            #[inline(always)]
            fn is_nan(self) -> bool { self != self }
            #[inline(always)]
            fn less(self, other: $t) -> bool { self < other }
            unsafe fn widen_line(src: *const $t, step: isize, dst: &mut [f32]) {
                let mut line = [Self::ZERO; BLOCK];
                let line = &mut line[..dst.len()];
                for (i, x) in line.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *x = unsafe { src.offset(i as isize * step).read_unaligned() };
                }
                // The conversion of a slice looks for the instruction set once.
                line.convert_to_f32_slice(dst);
            }
            fn narrow_line(src: &[f32], dst: &mut [$t]) {
                dst.convert_from_f32_slice(src);
            }
        }
    )*};
}
halves!(f16, bf16);

impl Number for bool {
    type Wide = bool;
    const ZERO: bool = false;
    const ONE: bool = true;
    #[inline(always)]
    fn widen(self) -> bool {
        self
    }
    #[inline(always)]
    fn narrow(wide: bool) -> bool {
        wide
    }
    #[inline(always)]
    fn plus(self, other: bool) -> bool {
        self | other
    }
    #[inline(always)]
    fn times(self, other: bool) -> bool {
        self & other
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn less(self, other: bool) -> bool {
        !self & other
    }
    #[inline(always)]
    fn larger(self, other: bool) -> bool {
        self | other
    }
    #[inline(always)]
    fn smaller(self, other: bool) -> bool {
        self & other
    }
}

/// Runs `$body` with `$t` standing for the element type of `$dtype`.
macro_rules! with_number {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use $crate::aval::DType;
        macro_rules! arm {
            ($ty:ty) => {{
                type $t = $ty;
                $body
            }};
        }
        match $dtype {
            DType::Bool => arm!(bool),
            DType::I8 => arm!(i8),
            DType::U8 => arm!(u8),
            DType::I16 => arm!(i16),
            DType::U16 => arm!(u16),
            DType::I32 => arm!(i32),
            DType::U32 => arm!(u32),
            DType::I64 => arm!(i64),
            DType::U64 => arm!(u64),
            DType::F16 => arm!(half::f16),
            DType::Bf16 => arm!(half::bf16),
            DType::F32 => arm!(f32),
            DType::F64 => arm!(f64),
            DType::C64 => arm!(num_complex::Complex<f32>),
            DType::C128 => arm!(num_complex::Complex<f64>),
        }
    }};
}
pub(crate) use with_number;

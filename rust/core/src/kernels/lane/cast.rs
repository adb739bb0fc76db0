//! Conversions between all pairs of dtypes.

use num_complex::Complex;

use super::Lane;
use super::half_bits::{Bf16Bits, F16Bits, f32_to_bf16, f32_to_f16, round_to_odd};
use super::loops::{self, Any, Machines, Unary};
use crate::aval::DType;
use crate::kernels::simd_level::Level;

/// A bool as it lies in memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Flag(u8);

/// What an element is as each of the types that it may become.
trait Source: Copy {
    fn truth(self) -> bool;
    fn i8(self) -> i8;
    fn u8(self) -> u8;
    fn i16(self) -> i16;
    fn u16(self) -> u16;
    fn i32(self) -> i32;
    fn u32(self) -> u32;
    fn i64(self) -> i64;
    fn u64(self) -> u64;
    fn f32(self) -> f32;
    fn f64(self) -> f64;
    /// An `f32` that rounds to the right number of a narrower type.
    fn narrow(self) -> f32;
    fn c64(self) -> Complex<f32> {
        Complex::new(self.f32(), 0.0)
    }
    fn c128(self) -> Complex<f64> {
        Complex::new(self.f64(), 0.0)
    }
}

macro_rules! source {
    ($ty:ty, |$x:ident| $value:expr, $narrow:expr $(, $more:item)*) => {
        impl Source for $ty {
            #[inline(always)]
            fn truth(self) -> bool {
                let $x = self;
                let zero = Default::default();
                $value != zero
            }
            source!(@ $x, $value, f32 f64);
            source!(# $x, $value, i8 u8 i16 u16 i32 u32 i64 u64);
            #[inline(always)]
            fn narrow(self) -> f32 {
                let $x = self;
                $narrow
            }
        }
    };
    (# $x:ident, $value:expr, $($to:ident)*) => {
        $(
            #[inline(always)]
            fn $to(self) -> $to {
                let $x = self;
                Number::$to($value)
            }
        )*
    };
    (@ $x:ident, $value:expr, $($to:ident)*) => {
        $(
            #[inline(always)]
            fn $to(self) -> $to {
                let $x = self;
                $value as $to
            }
        )*
    };
}

/// Truncation to integers, saturating, with 0 for NaN, as `as` does; without branches.
macro_rules! truncation {
    ($name:ident, $float:ident => $int:ident) => {
        #[inline(always)]
        fn $name(x: $float) -> $int {
            // The largest value may round up to the first that is out of range.
            const LOW: $float = $int::MIN as $float;
            const END: $float = ($int::MAX / 2 + 1) as $float * 2.0;
            let fits = (LOW..END).contains(&x);
            // SAFETY: the value is finite and its integral part is in range.
            let whole: $int = unsafe { (if fits { x } else { 0.0 }).to_int_unchecked() };
            let whole = if x >= END { $int::MAX } else { whole };
            if x < LOW { $int::MIN } else { whole }
        }
    };
}
truncation!(f32_to_i32, f32 => i32);
truncation!(f32_to_i64, f32 => i64);
truncation!(f64_to_i32, f64 => i32);
truncation!(f64_to_i64, f64 => i64);

/// Numbers as they are after `as`, except for truncation.
trait Number: Copy {
    fn i8(self) -> i8;
    fn u8(self) -> u8;
    fn i16(self) -> i16;
    fn u16(self) -> u16;
    fn i32(self) -> i32;
    fn u32(self) -> u32;
    fn i64(self) -> i64;
    fn u64(self) -> u64;
}

macro_rules! integer_numbers {
    ($($t:ident)*) => {
        $(impl Number for $t {
            integer_numbers!(@ i8 u8 i16 u16 i32 u32 i64 u64);
        })*
    };
    (@ $($to:ident)*) => {
        $(
            #[inline(always)]
            fn $to(self) -> $to {
                self as $to
            }
        )*
    };
}
integer_numbers!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! float_numbers {
    ($($t:ident: $i32:ident, $i64:ident;)*) => {
        $(impl Number for $t {
            float_numbers!(@ i32, $i32, i8 u8 i16 u16);
            float_numbers!(@ i64, $i64, u32);
            #[inline(always)]
            fn i32(self) -> i32 {
                $i32(self)
            }
            #[inline(always)]
            fn i64(self) -> i64 {
                $i64(self)
            }
            #[inline(always)]
            fn u64(self) -> u64 {
                if self < 0.0 { $i64(self) as u64 } else { self as u64 }
            }
        })*
    };
    // As NumPy's on the commonest machines: what does not fit wraps around, and is 0 beyond the wider type.
    (@ $wide:ident, $whole:ident, $($to:ident)*) => {
        $(
            #[inline(always)]
            fn $to(self) -> $to {
                let whole = $whole(self);
                if whole == $wide::MAX { 0 } else { whole as $to }
            }
        )*
    };
}
float_numbers! {
    f32: f32_to_i32, f32_to_i64;
    f64: f64_to_i32, f64_to_i64;
}

source!(Flag, |x| u8::from(x.0 != 0), f32::from(u8::from(x.0 != 0)));
source!(i8, |x| x, f32::from(x));
source!(u8, |x| x, f32::from(x));
source!(i16, |x| x, f32::from(x));
source!(u16, |x| x, f32::from(x));
source!(i32, |x| x, round_to_odd(f64::from(x)));
source!(u32, |x| x, round_to_odd(f64::from(x)));
source!(i64, |x| x, round_to_odd(x as f64));
source!(u64, |x| x, round_to_odd(x as f64));
source!(F16Bits, |x| x.to_f32(), x.to_f32());
source!(Bf16Bits, |x| x.to_f32(), x.to_f32());
source!(f32, |x| x, x);
source!(f64, |x| x, round_to_odd(x));

macro_rules! complex_source {
    ($part:ty) => {
        impl Source for Complex<$part> {
            #[inline(always)]
            fn truth(self) -> bool {
                (self.re != 0.0) | (self.im != 0.0)
            }
            complex_source!(@ i8 u8 i16 u16 i32 u32 i64 u64 f32 f64 narrow -> f32);
            #[inline(always)]
            fn c64(self) -> Complex<f32> {
                Complex::new(self.re as f32, self.im as f32)
            }
            #[inline(always)]
            fn c128(self) -> Complex<f64> {
                Complex::new(self.re as f64, self.im as f64)
            }
        }
    };
    (@ $($name:ident)* -> f32) => {
        $(complex_source!(# $name);)*
    };
    (# narrow) => {
        #[inline(always)]
        fn narrow(self) -> f32 {
            Source::narrow(self.re)
        }
    };
    (# $name:ident) => {
        #[inline(always)]
        fn $name(self) -> $name {
            Source::$name(self.re)
        }
    };
}

complex_source!(f32);
complex_source!(f64);

/// An element that every source can become.
trait Target: Copy {
    fn of<S: Source>(x: S) -> Self;
}

macro_rules! target {
    ($($ty:ty: |$x:ident| $body:expr;)*) => {
        $(impl Target for $ty {
            #[inline(always)]
            fn of<S: Source>($x: S) -> $ty {
                $body
            }
        })*
    };
}

target! {
    Flag: |x| Flag(u8::from(x.truth()));
    i8: |x| x.i8();
    u8: |x| x.u8();
    i16: |x| x.i16();
    u16: |x| x.u16();
    i32: |x| x.i32();
    u32: |x| x.u32();
    i64: |x| x.i64();
    u64: |x| x.u64();
    F16Bits: |x| F16Bits(f32_to_f16(x.narrow()));
    Bf16Bits: |x| Bf16Bits(f32_to_bf16(x.narrow()));
    f32: |x| x.f32();
    f64: |x| x.f64();
    Complex<f32>: |x| x.c64();
    Complex<f64>: |x| x.c128();
}

struct Cast<S, T>(std::marker::PhantomData<(S, T)>);

impl<S: Source, T: Target> Unary for Cast<S, T> {
    type A = S;
    type R = T;
    const LONG: bool = false;
    #[inline(always)]
    fn call(a: S) -> T {
        T::of(a)
    }
}

/// Conversions from a type, for these machines, and for any into types that are rarely computed with.
fn from<S: Source>(machines: impl Machines<Function = Lane>, to: DType) -> Lane {
    match to {
        DType::Bool => machines.unary::<Cast<S, Flag>>(),
        DType::I8 => Any.unary::<Cast<S, i8>>(),
        DType::U8 => machines.unary::<Cast<S, u8>>(),
        DType::I16 => Any.unary::<Cast<S, i16>>(),
        DType::U16 => Any.unary::<Cast<S, u16>>(),
        DType::I32 => machines.unary::<Cast<S, i32>>(),
        DType::U32 => Any.unary::<Cast<S, u32>>(),
        DType::I64 => machines.unary::<Cast<S, i64>>(),
        DType::U64 => Any.unary::<Cast<S, u64>>(),
        DType::F16 => machines.unary::<Cast<S, F16Bits>>(),
        DType::Bf16 => machines.unary::<Cast<S, Bf16Bits>>(),
        DType::F32 => machines.unary::<Cast<S, f32>>(),
        DType::F64 => machines.unary::<Cast<S, f64>>(),
        DType::C64 => machines.unary::<Cast<S, Complex<f32>>>(),
        DType::C128 => machines.unary::<Cast<S, Complex<f64>>>(),
    }
}

/// [`super::cast_lane`] at a level that the machine supports.
pub(super) fn cast_at(level: Level, source: DType, to: DType) -> Lane {
    if source == to {
        return match to.size() {
            1 => loops::copy::<u8>,
            2 => loops::copy::<u16>,
            4 => loops::copy::<u32>,
            8 => loops::copy::<u64>,
            _ => loops::copy::<[u64; 2]>,
        };
    }
    match source {
        DType::Bool => from::<Flag>(level, to),
        DType::I8 => from::<i8>(Any, to),
        DType::U8 => from::<u8>(level, to),
        DType::I16 => from::<i16>(Any, to),
        DType::U16 => from::<u16>(Any, to),
        DType::I32 => from::<i32>(level, to),
        DType::U32 => from::<u32>(Any, to),
        DType::I64 => from::<i64>(level, to),
        DType::U64 => from::<u64>(Any, to),
        DType::F16 => from::<F16Bits>(level, to),
        DType::Bf16 => from::<Bf16Bits>(level, to),
        DType::F32 => from::<f32>(level, to),
        DType::F64 => from::<f64>(level, to),
        DType::C64 => from::<Complex<f32>>(level, to),
        DType::C128 => from::<Complex<f64>>(level, to),
    }
}

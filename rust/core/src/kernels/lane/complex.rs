//! Lanes of `c64` and `c128`.

use num_complex::Complex;

use super::loops::{binary, unary};
use super::{Lane, LaneOp, cmath};
use crate::kernels::simd_level::Level;

type C64 = Complex<f32>;
type C128 = Complex<f64>;

#[inline(always)]
fn widen(z: C64) -> C128 {
    Complex::new(f64::from(z.re), f64::from(z.im))
}

#[inline(always)]
fn narrow(z: C128) -> C64 {
    Complex::new(z.re as f32, z.im as f32)
}

#[inline(always)]
fn same(z: C128) -> C128 {
    z
}

macro_rules! complex_lanes {
    ($(#[$meta:meta])* $name:ident, $t:ident, $c:ident, $up:ident, $down:ident) => {
        $(#[$meta])*
        #[allow(clippy::redundant_closure)]
        pub(super) fn $name(level: Level, op: LaneOp) -> Option<Lane> {
            macro_rules! function {
                ($f:path) => { unary!(level, $c => $c, |z| $down($f($up(z)))) };
            }
            match op {
                LaneOp::Neg => unary!(level, $c => $c, |z| Complex::new(-z.re, -z.im)),
                LaneOp::Abs => unary!(level, $c => $t, |z| cmath::abs($up(z)) as $t),
                LaneOp::Sign => function!(cmath::sign),
                LaneOp::Round => unary!(level, $c => $c, |z| {
                    Complex::new(z.re.round_ties_even(), z.im.round_ties_even())
                }),
                LaneOp::Exp => function!(cmath::exp),
                LaneOp::Exp2 => function!(cmath::exp2),
                LaneOp::Expm1 => function!(cmath::expm1),
                LaneOp::Log => function!(cmath::log),
                LaneOp::Log2 => function!(cmath::log2),
                LaneOp::Log10 => function!(cmath::log10),
                LaneOp::Log1p => function!(cmath::log1p),
                LaneOp::Sqrt => function!(cmath::sqrt),
                LaneOp::Reciprocal => function!(cmath::reciprocal),
                LaneOp::Square => unary!(level, $c => $c, |z| {
                    Complex::new((z.re - z.im) * (z.re + z.im), 2.0 * (z.re * z.im))
                }),
                LaneOp::Sin => function!(cmath::sin),
                LaneOp::Cos => function!(cmath::cos),
                LaneOp::Tan => function!(cmath::tan),
                LaneOp::Asin => function!(cmath::asin),
                LaneOp::Acos => function!(cmath::acos),
                LaneOp::Atan => function!(cmath::atan),
                LaneOp::Sinh => function!(cmath::sinh),
                LaneOp::Cosh => function!(cmath::cosh),
                LaneOp::Tanh => function!(cmath::tanh),
                LaneOp::Asinh => function!(cmath::asinh),
                LaneOp::Acosh => function!(cmath::acosh),
                LaneOp::Atanh => function!(cmath::atanh),
                LaneOp::Sigmoid => function!(cmath::sigmoid),
                LaneOp::Softplus => function!(cmath::softplus),
                LaneOp::Conj => unary!(level, $c => $c, |z| Complex::new(z.re, -z.im)),
                LaneOp::Real => unary!(level, $c => $t, |z| z.re),
                LaneOp::Imag => unary!(level, $c => $t, |z| z.im),
                LaneOp::Not => {
                    unary!(level, $c => u8, |z| u8::from((z.re == 0.0) & (z.im == 0.0)))
                }
                LaneOp::IsNan => {
                    unary!(level, $c => u8, |z| u8::from(z.re.is_nan() | z.im.is_nan()))
                }
                LaneOp::IsInf => unary!(level, $c => u8, |z| {
                    u8::from((z.re.abs() == $t::INFINITY) | (z.im.abs() == $t::INFINITY))
                }),
                LaneOp::IsFinite => unary!(level, $c => u8, |z| {
                    u8::from((z.re.abs() < $t::INFINITY) & (z.im.abs() < $t::INFINITY))
                }),
                LaneOp::Add => {
                    binary!(level, $c, $c => $c, |x, y| Complex::new(x.re + y.re, x.im + y.im))
                }
                LaneOp::Sub => {
                    binary!(level, $c, $c => $c, |x, y| Complex::new(x.re - y.re, x.im - y.im))
                }
                LaneOp::Mul => binary!(level, $c, $c => $c, |x, y| {
                    Complex::new(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)
                }),
                LaneOp::Div => {
                    binary!(level, $c, $c => $c, |x, y| $down(cmath::div($up(x), $up(y))))
                }
                LaneOp::Pow => {
                    binary!(level, $c, $c => $c, |x, y| $down(cmath::pow($up(x), $up(y))))
                }
                LaneOp::Maximum => binary!(level, $c, $c => $c, |x, y| {
                    let nan = x.re.is_nan() | x.im.is_nan();
                    let first = nan | cmath::less_equal(y, x);
                    Complex::new(if first { x.re } else { y.re }, if first { x.im } else { y.im })
                }),
                LaneOp::Minimum => binary!(level, $c, $c => $c, |x, y| {
                    let nan = x.re.is_nan() | x.im.is_nan();
                    let first = nan | cmath::less_equal(x, y);
                    Complex::new(if first { x.re } else { y.re }, if first { x.im } else { y.im })
                }),
                LaneOp::Fmax => binary!(level, $c, $c => $c, |x, y| {
                    let nan = y.re.is_nan() | y.im.is_nan();
                    let first = nan | cmath::less_equal(y, x);
                    Complex::new(if first { x.re } else { y.re }, if first { x.im } else { y.im })
                }),
                LaneOp::Fmin => binary!(level, $c, $c => $c, |x, y| {
                    let nan = y.re.is_nan() | y.im.is_nan();
                    let first = nan | cmath::less_equal(x, y);
                    Complex::new(if first { x.re } else { y.re }, if first { x.im } else { y.im })
                }),
                LaneOp::Eq => {
                    binary!(level, $c, $c => u8, |x, y| u8::from((x.re == y.re) & (x.im == y.im)))
                }
                LaneOp::Ne => {
                    binary!(level, $c, $c => u8, |x, y| u8::from((x.re != y.re) | (x.im != y.im)))
                }
                LaneOp::Lt => binary!(level, $c, $c => u8, |x, y| u8::from(cmath::less(x, y))),
                LaneOp::Le => {
                    binary!(level, $c, $c => u8, |x, y| u8::from(cmath::less_equal(x, y)))
                }
                LaneOp::Gt => binary!(level, $c, $c => u8, |x, y| u8::from(cmath::less(y, x))),
                LaneOp::Ge => {
                    binary!(level, $c, $c => u8, |x, y| u8::from(cmath::less_equal(y, x)))
                }
                LaneOp::And => binary!(level, $c, $c => u8, |x, y| {
                    u8::from(((x.re != 0.0) | (x.im != 0.0)) & ((y.re != 0.0) | (y.im != 0.0)))
                }),
                LaneOp::Or => binary!(level, $c, $c => u8, |x, y| {
                    u8::from((x.re != 0.0) | (x.im != 0.0) | (y.re != 0.0) | (y.im != 0.0))
                }),
                LaneOp::Xor => binary!(level, $c, $c => u8, |x, y| {
                    u8::from(((x.re != 0.0) | (x.im != 0.0)) != ((y.re != 0.0) | (y.im != 0.0)))
                }),
                _ => None,
            }
        }
    };
}

complex_lanes!(
    /// The lanes of `c64`.
    c64_lane, f32, C64, widen, narrow
);
complex_lanes!(
    /// The lanes of `c128`.
    c128_lane, f64, C128, same, same
);

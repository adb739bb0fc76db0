//! Lanes of `f32` and `f64`.

use num_complex::Complex;

use super::LaneOp;
use super::loops::{Machines, binary, copy, unary};
use super::table::for_each_lane_op;
use crate::kernels::math;

macro_rules! vector_lane {
    (1 $t:ident $function:ident, $level:ident) => {
        unary!($level, $t => $t, long |x| math::$t::$function(x))
    };
    (2 $t:ident $function:ident, $level:ident) => {
        binary!($level, $t, $t => $t, long |x, y| math::$t::$function(x, y))
    };
}

macro_rules! vector_lanes {
    ($($(#[$meta:meta])* $op:ident $arity:tt $weight:literal $result:ident $($function:ident)?,)*) => {
        /// The lanes that are a vector function and nothing else.
        mod vector {
            use super::{LaneOp, Machines, binary, math, unary};

            pub(super) fn f32<M: Machines>(level: M, op: LaneOp) -> Option<M::Function> {
                match op {
                    $($(LaneOp::$op => vector_lane!($arity f32 $function, level),)?)*
                    _ => None,
                }
            }

            pub(super) fn f64<M: Machines>(level: M, op: LaneOp) -> Option<M::Function> {
                match op {
                    $($(LaneOp::$op => vector_lane!($arity f64 $function, level),)?)*
                    _ => None,
                }
            }
        }
    };
}
for_each_lane_op!(vector_lanes);

macro_rules! real_lanes {
    ($(#[$meta:meta])* $name:ident, $t:ident) => {
        $(#[$meta])*
        pub(super) fn $name<M: Machines>(level: M, op: LaneOp) -> Option<M::Function> {
            use math::$t as m;
            match op {
                LaneOp::Neg => unary!(level, $t => $t, |x| -x),
                LaneOp::Abs => unary!(level, $t => $t, |x| x.abs()),
                LaneOp::Sign => unary!(level, $t => $t, |x| m::sign(x)),
                LaneOp::Floor => unary!(level, $t => $t, |x| x.floor()),
                LaneOp::Ceil => unary!(level, $t => $t, |x| x.ceil()),
                LaneOp::Round => unary!(level, $t => $t, |x| x.round_ties_even()),
                LaneOp::Trunc => unary!(level, $t => $t, |x| x.trunc()),
                LaneOp::Sqrt => unary!(level, $t => $t, |x| x.sqrt()),
                LaneOp::Reciprocal => unary!(level, $t => $t, |x| 1.0 / x),
                LaneOp::Square => unary!(level, $t => $t, |x| x * x),
                LaneOp::Sin => unary!(level, $t => $t, long |x| m::sin(x), m::sin_slow, m::needs_fixup),
                LaneOp::Cos => unary!(level, $t => $t, long |x| m::cos(x), m::cos_slow, m::needs_fixup),
                LaneOp::Tan => unary!(level, $t => $t, long |x| m::tan(x), m::tan_slow, m::needs_fixup),
                LaneOp::Relu => unary!(level, $t => $t, |x| if x > 0.0 || x.is_nan() { x } else { 0.0 }),
                LaneOp::Conj | LaneOp::Real => Some(level.other(|_| copy::<$t>)),
                LaneOp::Imag => unary!(level, $t => $t, |_x| 0.0),
                LaneOp::Not => unary!(level, $t => u8, |x| u8::from(x == 0.0)),
                LaneOp::IsNan => unary!(level, $t => u8, |x| u8::from(x.is_nan())),
                LaneOp::IsInf => unary!(level, $t => u8, |x| u8::from(x.abs() == $t::INFINITY)),
                LaneOp::IsFinite => unary!(level, $t => u8, |x| u8::from(x.abs() < $t::INFINITY)),
                LaneOp::Add => binary!(level, $t, $t => $t, |x, y| x + y),
                LaneOp::Sub => binary!(level, $t, $t => $t, |x, y| x - y),
                LaneOp::Mul => binary!(level, $t, $t => $t, |x, y| x * y),
                LaneOp::Div => binary!(level, $t, $t => $t, |x, y| x / y),
                LaneOp::Maximum => binary!(level, $t, $t => $t, |x, y| m::maximum(x, y)),
                LaneOp::Minimum => binary!(level, $t, $t => $t, |x, y| m::minimum(x, y)),
                LaneOp::Fmax => binary!(level, $t, $t => $t, |x, y| m::fmax(x, y)),
                LaneOp::Fmin => binary!(level, $t, $t => $t, |x, y| m::fmin(x, y)),
                LaneOp::FloorDivide => {
                    binary!(level, $t, $t => $t, |x, y| m::floor_divide(x, y))
                }
                LaneOp::Remainder => binary!(level, $t, $t => $t, |x, y| m::remainder(x, y)),
                LaneOp::Fmod => binary!(level, $t, $t => $t, |x, y| m::fmod(x, y)),
                LaneOp::Copysign => binary!(level, $t, $t => $t, |x, y| x.copysign(y)),
                LaneOp::Pow => super::powers::$t(level),
                LaneOp::Complex => {
                    binary!(level, $t, $t => Complex<$t>, |x, y| Complex::new(x, y))
                }
                LaneOp::Eq => binary!(level, $t, $t => u8, |x, y| u8::from(x == y)),
                LaneOp::Ne => binary!(level, $t, $t => u8, |x, y| u8::from(x != y)),
                LaneOp::Lt => binary!(level, $t, $t => u8, |x, y| u8::from(x < y)),
                LaneOp::Le => binary!(level, $t, $t => u8, |x, y| u8::from(x <= y)),
                LaneOp::Gt => binary!(level, $t, $t => u8, |x, y| u8::from(x > y)),
                LaneOp::Ge => binary!(level, $t, $t => u8, |x, y| u8::from(x >= y)),
                LaneOp::And => {
                    binary!(level, $t, $t => u8, |x, y| u8::from((x != 0.0) & (y != 0.0)))
                }
                LaneOp::Or => {
                    binary!(level, $t, $t => u8, |x, y| u8::from((x != 0.0) | (y != 0.0)))
                }
                LaneOp::Xor => {
                    binary!(level, $t, $t => u8, |x, y| u8::from((x != 0.0) != (y != 0.0)))
                }
                _ => vector::$t(level, op),
            }
        }
    };
}

real_lanes!(
    /// The lanes of `f32`.
    f32_lane, f32
);
real_lanes!(
    /// The lanes of `f64`.
    f64_lane, f64
);

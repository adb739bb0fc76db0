//! Lanes of bool and of the integers. Arithmetic wraps; division by zero gives zero, as in NumPy.

use super::loops::{Any, binary, copy, unary};
use super::{Lane, LaneOp};
use crate::kernels::simd_level::Level;

/// `base` to a power that is not negative, wrapping.
macro_rules! power {
    ($x:ident, $y:ident) => {{
        let (mut base, mut exponent, mut result) = ($x, $y, 1);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = base.wrapping_mul(result);
            }
            base = base.wrapping_mul(base);
            exponent >>= 1;
        }
        result
    }};
}

macro_rules! integer_lanes {
    ($(#[$meta:meta])* $name:ident, $t:ident, $signed:literal, $machines:ident) => {
        $(#[$meta])*
        #[allow(unused_comparisons, clippy::absurd_extreme_comparisons)]
        pub(super) fn $name(level: $machines, op: LaneOp) -> Option<Lane> {
            match op {
                LaneOp::Neg => unary!(level, $t => $t, |x| x.wrapping_neg()),
                LaneOp::Abs => {
                    unary!(level, $t => $t, |x| if x < 0 { x.wrapping_neg() } else { x })
                }
                LaneOp::Sign => unary!(level, $t => $t, |x| {
                    (x > 0) as $t - (if $signed { (x < 0) as $t } else { 0 })
                }),
                LaneOp::Relu => unary!(level, $t => $t, |x| if x > 0 { x } else { 0 }),
                LaneOp::Floor
                | LaneOp::Ceil
                | LaneOp::Round
                | LaneOp::Trunc
                | LaneOp::Conj
                | LaneOp::Real => Some(copy::<$t>),
                LaneOp::Imag => unary!(level, $t => $t, |_x| 0),
                LaneOp::Square => unary!(level, $t => $t, |x| x.wrapping_mul(x)),
                LaneOp::Not => unary!(level, $t => u8, |x| u8::from(x == 0)),
                LaneOp::Invert => unary!(level, $t => $t, |x| !x),
                LaneOp::IsNan | LaneOp::IsInf => unary!(level, $t => u8, |_x| 0),
                LaneOp::IsFinite => unary!(level, $t => u8, |_x| 1),
                LaneOp::Add => binary!(level, $t, $t => $t, |x, y| x.wrapping_add(y)),
                LaneOp::Sub => binary!(level, $t, $t => $t, |x, y| x.wrapping_sub(y)),
                LaneOp::Mul => binary!(level, $t, $t => $t, |x, y| x.wrapping_mul(y)),
                LaneOp::Pow => binary!(level, $t, $t => $t, |x, y| power!(x, y)),
                LaneOp::Maximum | LaneOp::Fmax => {
                    binary!(level, $t, $t => $t, |x, y| if x > y { x } else { y })
                }
                LaneOp::Minimum | LaneOp::Fmin => {
                    binary!(level, $t, $t => $t, |x, y| if x < y { x } else { y })
                }
                LaneOp::FloorDivide => binary!(level, $t, $t => $t, |x, y| {
                    if y == 0 {
                        0
                    } else {
                        let inexact = x.wrapping_rem(y) != 0;
                        let down = inexact & ((x < 0) != (y < 0));
                        x.wrapping_div(y) - down as $t
                    }
                }),
                LaneOp::Remainder => binary!(level, $t, $t => $t, |x, y| {
                    if y == 0 {
                        0
                    } else {
                        let r = x.wrapping_rem(y);
                        if (r != 0) & ((r < 0) != (y < 0)) { r + y } else { r }
                    }
                }),
                LaneOp::Fmod => binary!(level, $t, $t => $t, |x, y| {
                    if y == 0 { 0 } else { x.wrapping_rem(y) }
                }),
                LaneOp::Eq => binary!(level, $t, $t => u8, |x, y| u8::from(x == y)),
                LaneOp::Ne => binary!(level, $t, $t => u8, |x, y| u8::from(x != y)),
                LaneOp::Lt => binary!(level, $t, $t => u8, |x, y| u8::from(x < y)),
                LaneOp::Le => binary!(level, $t, $t => u8, |x, y| u8::from(x <= y)),
                LaneOp::Gt => binary!(level, $t, $t => u8, |x, y| u8::from(x > y)),
                LaneOp::Ge => binary!(level, $t, $t => u8, |x, y| u8::from(x >= y)),
                LaneOp::And => {
                    binary!(level, $t, $t => u8, |x, y| u8::from((x != 0) & (y != 0)))
                }
                LaneOp::Or => {
                    binary!(level, $t, $t => u8, |x, y| u8::from((x != 0) | (y != 0)))
                }
                LaneOp::Xor => {
                    binary!(level, $t, $t => u8, |x, y| u8::from((x != 0) != (y != 0)))
                }
                LaneOp::BitAnd => binary!(level, $t, $t => $t, |x, y| x & y),
                LaneOp::BitOr => binary!(level, $t, $t => $t, |x, y| x | y),
                LaneOp::BitXor => binary!(level, $t, $t => $t, |x, y| x ^ y),
                // As in NumPy, a shift by the width or more shifts every bit out.
                LaneOp::ShiftLeft => binary!(level, $t, $t => $t, |x, y| {
                    if (y as u64) < $t::BITS as u64 { x.wrapping_shl(y as u32) } else { 0 }
                }),
                LaneOp::ShiftRight => binary!(level, $t, $t => $t, |x, y| {
                    let all = $t::BITS - 1;
                    if (y as u64) < $t::BITS as u64 {
                        x.wrapping_shr(y as u32)
                    } else if $signed {
                        x.wrapping_shr(all)
                    } else {
                        0
                    }
                }),
                _ => None,
            }
        }
    };
}

integer_lanes!(
    /// The lanes of `u8`.
    u8_lane, u8, false, Level
);
integer_lanes!(
    /// The lanes of `i32`.
    i32_lane, i32, true, Level
);
integer_lanes!(
    /// The lanes of `i64`.
    i64_lane, i64, true, Level
);
integer_lanes!(
    /// The lanes of `i8`.
    i8_lane, i8, true, Any
);
integer_lanes!(
    /// The lanes of `i16`.
    i16_lane, i16, true, Any
);
integer_lanes!(
    /// The lanes of `u16`.
    u16_lane, u16, false, Any
);
integer_lanes!(
    /// The lanes of `u32`.
    u32_lane, u32, false, Any
);
integer_lanes!(
    /// The lanes of `u64`.
    u64_lane, u64, false, Any
);

/// The lanes of bool, whose elements are the bytes 0 and 1.
pub(super) fn bool_lane(level: Level, op: LaneOp) -> Option<Lane> {
    match op {
        LaneOp::Abs
        | LaneOp::Floor
        | LaneOp::Ceil
        | LaneOp::Round
        | LaneOp::Trunc
        | LaneOp::Conj
        | LaneOp::Real => Some(copy::<u8>),
        LaneOp::Imag | LaneOp::IsNan | LaneOp::IsInf => unary!(level, u8 => u8, |_x| 0),
        LaneOp::IsFinite => unary!(level, u8 => u8, |_x| 1),
        LaneOp::Not | LaneOp::Invert => unary!(level, u8 => u8, |x| x ^ 1),
        LaneOp::Add | LaneOp::Or | LaneOp::BitOr | LaneOp::Maximum | LaneOp::Fmax => {
            binary!(level, u8, u8 => u8, |x, y| x | y)
        }
        LaneOp::Mul | LaneOp::And | LaneOp::BitAnd | LaneOp::Minimum | LaneOp::Fmin => {
            binary!(level, u8, u8 => u8, |x, y| x & y)
        }
        LaneOp::Xor | LaneOp::BitXor | LaneOp::Ne => binary!(level, u8, u8 => u8, |x, y| x ^ y),
        LaneOp::Eq => binary!(level, u8, u8 => u8, |x, y| x ^ y ^ 1),
        LaneOp::Lt => binary!(level, u8, u8 => u8, |x, y| (x ^ 1) & y),
        LaneOp::Le => binary!(level, u8, u8 => u8, |x, y| (x ^ 1) | y),
        LaneOp::Gt => binary!(level, u8, u8 => u8, |x, y| x & (y ^ 1)),
        LaneOp::Ge => binary!(level, u8, u8 => u8, |x, y| x | (y ^ 1)),
        _ => None,
    }
}

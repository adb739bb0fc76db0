//! Lanes: one operation on contiguous elements, compiled for every instruction level.
//!
//! The interpreter of fused programs calls one lane per operation and tile. Lanes are found by
//! operation and dtype in a table that is filled once, for the level of the machine.

mod cast;
mod cmath;
mod complex;
mod half;
mod integer;
mod pair;
mod real;
mod run;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use crate::aval::DType;
use crate::kernels::level::Level;

pub(in crate::kernels) use half::{Bf16Bits, F16Bits};
pub(in crate::kernels) use pair::pair;

/// A call over `n` contiguous elements: `out[i] = op(a[i], b[i], c[i])`.
///
/// All pointers are aligned to the size of their elements (8 bytes suffice) and valid for `n` of
/// them; operands that the operation lacks are null. `out` may be exactly equal to an operand whose elements have the size
/// of the result's; otherwise it does not overlap them.
pub type Lane = unsafe fn(out: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);

macro_rules! lane_ops {
    ($($(#[$meta:meta])* $name:ident $arity:literal,)*) => {
        /// An elementwise operation, named as in NumPy.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum LaneOp {
            $($(#[$meta])* $name,)*
        }

        impl LaneOp {
            /// Every operation, in the order of the discriminants.
            pub const ALL: &[LaneOp] = &[$(LaneOp::$name,)*];

            /// The number of operands.
            pub const fn arity(self) -> usize {
                match self {
                    $(LaneOp::$name => $arity,)*
                }
            }
        }
    };
}

lane_ops! {
    Neg 1, Abs 1, Sign 1, Floor 1, Ceil 1,
    /// To the nearest integer, halves to the even one.
    Round 1,
    Trunc 1, Exp 1, Exp2 1, Expm1 1, Log 1, Log2 1, Log10 1, Log1p 1, Sqrt 1, Cbrt 1,
    Reciprocal 1, Square 1, Sin 1, Cos 1, Tan 1, Asin 1, Acos 1, Atan 1, Sinh 1, Cosh 1, Tanh 1,
    Asinh 1, Acosh 1, Atanh 1,
    /// `1 / (1 + exp(-x))`.
    Sigmoid 1,
    /// `log(1 + exp(x))`.
    Softplus 1,
    Erf 1, Erfc 1, Conj 1, Real 1, Imag 1,
    /// Logical.
    Not 1,
    /// Bitwise; logical for bool.
    Invert 1,
    IsNan 1, IsInf 1, IsFinite 1,
    Add 2, Sub 2, Mul 2, Div 2, Pow 2,
    /// NaN when an operand is NaN.
    Maximum 2,
    /// NaN when an operand is NaN.
    Minimum 2,
    /// The other operand when one is NaN.
    Fmax 2,
    /// The other operand when one is NaN.
    Fmin 2,
    Atan2 2, Hypot 2, Logaddexp 2, FloorDivide 2,
    /// With the sign of the divisor.
    Remainder 2,
    /// With the sign of the dividend.
    Fmod 2,
    Copysign 2,
    /// A complex number of a real and an imaginary part.
    Complex 2,
    Eq 2, Ne 2, Lt 2, Le 2, Gt 2, Ge 2,
    /// Logical.
    And 2,
    /// Logical.
    Or 2,
    /// Logical.
    Xor 2,
    BitAnd 2, BitOr 2, BitXor 2, ShiftLeft 2, ShiftRight 2,
    /// `a` where it is a bool mask, selecting from `b` and `c`.
    Where 3,
}

const DTYPES: usize = DType::ALL.len();

/// The lane of an operation on inputs of this dtype (for `Where`, the dtype of the two values);
/// `None` when the operation does not exist for it.
pub fn lane(op: LaneOp, dtype: DType) -> Option<Lane> {
    static TABLE: OnceLock<Vec<[Option<Lane>; DTYPES]>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let row = |&op: &LaneOp| DType::ALL.map(|d| lane_at(Level::best(), op, d));
        LaneOp::ALL.iter().map(row).collect()
    });
    table[op as usize][dtype as usize]
}

/// Makes the tables of lanes now, and not when the first is asked for.
pub fn make_tables() {
    lane(LaneOp::Neg, DType::F64);
    cast_lane(DType::F64, DType::F64);
}

/// The result of an operation on single elements of a dtype of at most eight bytes, all as bits; `None` when
/// the operation does not exist for it.
pub fn number(op: LaneOp, dtype: DType, args: [u64; 3]) -> Option<u64> {
    let lane =
        lane(op, dtype).filter(|_| dtype.size() <= 8 && result_dtype(op, dtype).size() <= 8)?;
    let mut out = 0u64;
    let at = |i: usize| {
        if i < op.arity() {
            (&raw const args[i]).cast::<u8>()
        } else {
            std::ptr::null()
        }
    };
    // SAFETY: each operand is one element of at most eight bytes, aligned to eight, and so is the result.
    unsafe { lane((&raw mut out).cast(), at(0), at(1), at(2), 1) };
    Some(out)
}

/// The lane that converts elements as NumPy's `astype` does: bool is "not zero", floats are
/// truncated to integers (and saturate, NaN becoming 0), the imaginary part is dropped.
pub fn cast_lane(from: DType, to: DType) -> Lane {
    static TABLE: OnceLock<[[Lane; DTYPES]; DTYPES]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        DType::ALL.map(|from| DType::ALL.map(|to| cast::cast_at(Level::best(), from, to)))
    });
    table[from as usize][to as usize]
}

/// The dtype of an operation's result, given the dtype of its inputs.
pub const fn result_dtype(op: LaneOp, dtype: DType) -> DType {
    match op {
        LaneOp::Not
        | LaneOp::IsNan
        | LaneOp::IsInf
        | LaneOp::IsFinite
        | LaneOp::Eq
        | LaneOp::Ne
        | LaneOp::Lt
        | LaneOp::Le
        | LaneOp::Gt
        | LaneOp::Ge
        | LaneOp::And
        | LaneOp::Or
        | LaneOp::Xor => DType::Bool,
        LaneOp::Abs | LaneOp::Real | LaneOp::Imag => dtype.real(),
        LaneOp::Complex => dtype.complex(),
        _ => dtype,
    }
}

/// Whether an operation costs more than a few instructions per vector.
pub(super) const fn is_long(op: LaneOp) -> bool {
    weight(op) >= 4.0
}

/// Roughly how many times longer an operation takes than an addition.
#[allow(clippy::match_same_arms)]
pub(super) const fn weight(op: LaneOp) -> f64 {
    match op {
        LaneOp::Sqrt | LaneOp::Div | LaneOp::Reciprocal => 3.0,
        LaneOp::Exp | LaneOp::Exp2 | LaneOp::Sigmoid | LaneOp::Expm1 | LaneOp::Log => 10.0,
        LaneOp::Log2 | LaneOp::Log10 | LaneOp::Log1p | LaneOp::Cbrt | LaneOp::Hypot => 12.0,
        LaneOp::Sin | LaneOp::Cos => 8.0,
        LaneOp::Tanh | LaneOp::Asin | LaneOp::Acos => 15.0,
        LaneOp::Atan | LaneOp::Sinh | LaneOp::Cosh | LaneOp::Softplus => 15.0,
        LaneOp::Tan | LaneOp::Asinh | LaneOp::Acosh | LaneOp::Atanh | LaneOp::Atan2 => 20.0,
        LaneOp::Erf | LaneOp::Erfc | LaneOp::Logaddexp => 25.0,
        LaneOp::Pow => 40.0,
        LaneOp::FloorDivide | LaneOp::Remainder | LaneOp::Fmod => 60.0,
        _ => 1.0,
    }
}

/// [`lane`] at a level that the machine supports.
fn lane_at(level: Level, op: LaneOp, dtype: DType) -> Option<Lane> {
    match (op, dtype) {
        (LaneOp::Where, d) => Some(match d.size() {
            1 => run::select::<u8>(level),
            2 => run::select::<u16>(level),
            4 => run::select::<u32>(level),
            8 => run::select::<u64>(level),
            _ => run::select::<[u64; 2]>(level),
        }),
        (op, DType::Bool) => integer::bool_lane(level, op),
        (op, DType::I8) => integer::i8_lane(run::Any, op),
        (op, DType::U8) => integer::u8_lane(level, op),
        (op, DType::I16) => integer::i16_lane(run::Any, op),
        (op, DType::U16) => integer::u16_lane(run::Any, op),
        (op, DType::I32) => integer::i32_lane(level, op),
        (op, DType::U32) => integer::u32_lane(run::Any, op),
        (op, DType::I64) => integer::i64_lane(level, op),
        (op, DType::U64) => integer::u64_lane(run::Any, op),
        (op, DType::F16) => half::f16_lane(level, op),
        (op, DType::Bf16) => half::bf16_lane(level, op),
        (op, DType::F32) => real::f32_lane(level, op),
        (op, DType::F64) => real::f64_lane(level, op),
        (op, DType::C64) => complex::c64_lane(level, op),
        (op, DType::C128) => complex::c128_lane(level, op),
    }
}

//! Lanes: one operation on contiguous elements, compiled for every instruction level.
//!
//! The interpreter of fused programs calls one lane per operation and tile. Lanes are found by
//! operation and dtype in a table that is filled once, for the level of the machine.

mod cast;
mod cmath;
mod complex;
mod half;
mod half_bits;
mod integer;
mod loops;
mod powers;
mod real;
mod sincos;
mod table;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use crate::aval::DType;
use crate::kernels::simd_level::Level;

pub(in crate::kernels) use half_bits::{Bf16Bits, F16Bits};
pub use loops::Lane;
pub(in crate::kernels) use sincos::pair;
#[cfg(feature = "machine-code")]
pub(in crate::kernels) use sincos::pair_of_one;
pub use table::{LaneOp, result_dtype};

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

/// The address of a function that does a long operation to one float in a register, as C calls it; `None` where there is
/// none. It gives what the lane gives.
#[cfg_attr(not(feature = "machine-code"), allow(dead_code))]
pub(in crate::kernels) fn function_of_one(op: LaneOp, dtype: DType) -> Option<usize> {
    let registers = loops::Registers(Level::best());
    match dtype {
        DType::F32 => real::f32_lane(registers, op).flatten(),
        DType::F64 => real::f64_lane(registers, op).flatten(),
        _ => None,
    }
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

/// [`lane`] at a level that the machine supports.
fn lane_at(level: Level, op: LaneOp, dtype: DType) -> Option<Lane> {
    match (op, dtype) {
        (LaneOp::Where, d) => Some(match d.size() {
            1 => loops::select::<u8>(level),
            2 => loops::select::<u16>(level),
            4 => loops::select::<u32>(level),
            8 => loops::select::<u64>(level),
            _ => loops::select::<[u64; 2]>(level),
        }),
        (op, DType::Bool) => integer::bool_lane(level, op),
        (op, DType::I8) => integer::i8_lane(loops::Any, op),
        (op, DType::U8) => integer::u8_lane(level, op),
        (op, DType::I16) => integer::i16_lane(loops::Any, op),
        (op, DType::U16) => integer::u16_lane(loops::Any, op),
        (op, DType::I32) => integer::i32_lane(level, op),
        (op, DType::U32) => integer::u32_lane(loops::Any, op),
        (op, DType::I64) => integer::i64_lane(level, op),
        (op, DType::U64) => integer::u64_lane(loops::Any, op),
        (op, DType::F16) => half::f16_lane(level, op),
        (op, DType::Bf16) => half::bf16_lane(level, op),
        (op, DType::F32) => real::f32_lane(level, op),
        (op, DType::F64) => real::f64_lane(level, op),
        (op, DType::C64) => complex::c64_lane(level, op),
        (op, DType::C128) => complex::c128_lane(level, op),
    }
}

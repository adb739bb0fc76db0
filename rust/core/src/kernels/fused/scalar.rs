//! Groups over a single element: a straight line of numbers, without a call for what is one instruction of
//! the machine.
// Addresses are of aligned elements.
#![allow(clippy::cast_ptr_alignment)]

use crate::aval::DType;
use crate::kernels::lane::LaneOp;

/// How an operation on a single element is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Code {
    /// By its lane.
    Lane,
    Add64,
    Sub64,
    Mul64,
    Div64,
    Neg64,
    Square64,
    Sqrt64,
    Add32,
    Sub32,
    Mul32,
    Div32,
}

/// The code of an operation on elements of this dtype.
pub(super) fn code(op: LaneOp, dtype: DType) -> Code {
    match (op, dtype) {
        (LaneOp::Add, DType::F64) => Code::Add64,
        (LaneOp::Sub, DType::F64) => Code::Sub64,
        (LaneOp::Mul, DType::F64) => Code::Mul64,
        (LaneOp::Div, DType::F64) => Code::Div64,
        (LaneOp::Neg, DType::F64) => Code::Neg64,
        (LaneOp::Square, DType::F64) => Code::Square64,
        (LaneOp::Sqrt, DType::F64) => Code::Sqrt64,
        (LaneOp::Add, DType::F32) => Code::Add32,
        (LaneOp::Sub, DType::F32) => Code::Sub32,
        (LaneOp::Mul, DType::F32) => Code::Mul32,
        (LaneOp::Div, DType::F32) => Code::Div32,
        _ => Code::Lane,
    }
}

/// Does an operation on one element; false for one that its lane does.
///
/// # Safety
/// The addresses are those of aligned elements of the dtype that the code is for.
#[inline(always)]
pub(super) unsafe fn step(code: Code, out: *mut u8, a: *const u8, b: *const u8) -> bool {
    macro_rules! two {
        ($t:ty, $b:expr, $op:tt) => {
            // SAFETY: the caller's contract.
            unsafe { out.cast::<$t>().write(a.cast::<$t>().read() $op $b.cast::<$t>().read()) }
        };
    }
    match code {
        Code::Lane => return false,
        Code::Add64 => two!(f64, b, +),
        Code::Sub64 => two!(f64, b, -),
        Code::Mul64 => two!(f64, b, *),
        Code::Div64 => two!(f64, b, /),
        Code::Square64 => two!(f64, a, *),
        // SAFETY: the caller's contract.
        Code::Neg64 => unsafe { out.cast::<f64>().write(-a.cast::<f64>().read()) },
        // SAFETY: the caller's contract.
        Code::Sqrt64 => unsafe { out.cast::<f64>().write(a.cast::<f64>().read().sqrt()) },
        Code::Add32 => two!(f32, b, +),
        Code::Sub32 => two!(f32, b, -),
        Code::Mul32 => two!(f32, b, *),
        Code::Div32 => two!(f32, b, /),
    }
    true
}

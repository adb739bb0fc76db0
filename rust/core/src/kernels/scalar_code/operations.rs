//! The elementwise operations that are an instruction or a few; the others are calls of their lanes.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

use crate::aval::DType;
use crate::kernels::LaneOp;

/// The type of the register that holds an element. Half floats are bits, which only lanes compute with.
pub(super) fn register(dtype: DType) -> Type {
    match dtype {
        DType::F64 => types::F64,
        DType::F32 => types::F32,
        _ => match dtype.size() {
            1 => types::I8,
            2 => types::I16,
            4 => types::I32,
            _ => types::I64,
        },
    }
}

/// An element with these bits.
pub(super) fn number(b: &mut FunctionBuilder<'_>, dtype: DType, bits: u64) -> Value {
    match dtype {
        DType::F64 => b.ins().f64const(f64::from_bits(bits)),
        DType::F32 => b.ins().f32const(f32::from_bits(bits as u32)),
        _ => {
            let ty = register(dtype);
            // Constants narrower than 64 bits have no bits above.
            let mask = u64::MAX >> (64 - ty.bits());
            b.ins().iconst(ty, (bits & mask) as i64)
        }
    }
}

/// Whether [`inline`] has instructions for an operation on elements of a dtype.
pub(super) fn is_inline(op: LaneOp, dtype: DType) -> bool {
    use LaneOp as L;
    #[rustfmt::skip]
    let found = match dtype {
        _ if op == L::Where => true,
        DType::F32 | DType::F64 => matches!(op,
            L::Abs | L::Floor | L::Ceil | L::Round | L::Trunc | L::Sqrt | L::Reciprocal | L::Square | L::Conj | L::Real
            | L::Imag | L::Relu | L::Not | L::IsNan | L::IsFinite | L::IsInf | L::Add | L::Sub | L::Mul | L::Div
            | L::Maximum | L::Minimum | L::Fmax | L::Fmin | L::Copysign
            | L::Eq | L::Ne | L::Lt | L::Le | L::Gt | L::Ge),
        DType::Bool => matches!(op,
            L::Not | L::Invert | L::And | L::BitAnd | L::Mul | L::Minimum | L::Or | L::BitOr | L::Add | L::Maximum
            | L::Xor | L::BitXor | L::Ne | L::Conj | L::Real | L::Abs),
        DType::F16 | DType::Bf16 => false,
        _ => matches!(op,
            L::Neg | L::Square | L::Add | L::Sub | L::Mul | L::BitAnd | L::BitOr | L::BitXor | L::Conj | L::Real | L::Not
            | L::Eq | L::Ne | L::Lt | L::Le | L::Gt | L::Ge),
    };
    found
}

/// The operation on elements of a dtype; `None` for one that its lane has to do.
pub(super) fn inline(
    b: &mut FunctionBuilder<'_>,
    op: LaneOp,
    dtype: DType,
    x: [Value; 3],
) -> Option<Value> {
    if op == LaneOp::Where {
        return Some(b.ins().select(x[0], x[1], x[2]));
    }
    match dtype {
        DType::F32 | DType::F64 => float(b, op, dtype, x[0], x[1]),
        DType::Bool => logical(b, op, x[0], x[1]),
        DType::F16 | DType::Bf16 => None,
        _ => integer(b, op, dtype, x[0], x[1]),
    }
}

/// The operation on vectors: one of those that `vectors` chooses.
pub(super) fn side_by_side(b: &mut FunctionBuilder<'_>, op: LaneOp, x: &[Value]) -> Value {
    match op {
        LaneOp::Add => b.ins().fadd(x[0], x[1]),
        LaneOp::Sub => b.ins().fsub(x[0], x[1]),
        LaneOp::Mul => b.ins().fmul(x[0], x[1]),
        LaneOp::Div => b.ins().fdiv(x[0], x[1]),
        LaneOp::Square => b.ins().fmul(x[0], x[0]),
        LaneOp::Abs => b.ins().fabs(x[0]),
        LaneOp::Sqrt => b.ins().sqrt(x[0]),
        _ => unreachable!("no operation on vectors"),
    }
}

fn float(
    b: &mut FunctionBuilder<'_>,
    op: LaneOp,
    dtype: DType,
    x: Value,
    y: Value,
) -> Option<Value> {
    let constant = |b: &mut FunctionBuilder<'_>, z: f64| match dtype {
        DType::F64 => b.ins().f64const(z),
        _ => b.ins().f32const(z as f32),
    };
    // The first where the condition holds of the two, or where `nan` is NaN.
    let chosen = |b: &mut FunctionBuilder<'_>, cc: FloatCC, nan: Value| {
        let holds = b.ins().fcmp(cc, x, y);
        let is_nan = b.ins().fcmp(FloatCC::Unordered, nan, nan);
        let first = b.ins().bor(holds, is_nan);
        b.ins().select(first, x, y)
    };
    let compare = |b: &mut FunctionBuilder<'_>, cc: FloatCC| b.ins().fcmp(cc, x, y);
    Some(match op {
        LaneOp::Abs => b.ins().fabs(x),
        LaneOp::Floor => b.ins().floor(x),
        LaneOp::Ceil => b.ins().ceil(x),
        LaneOp::Round => b.ins().nearest(x),
        LaneOp::Trunc => b.ins().trunc(x),
        LaneOp::Sqrt => b.ins().sqrt(x),
        LaneOp::Reciprocal => {
            let one = constant(b, 1.0);
            b.ins().fdiv(one, x)
        }
        LaneOp::Square => b.ins().fmul(x, x),
        LaneOp::Conj | LaneOp::Real => x,
        LaneOp::Imag => constant(b, 0.0),
        LaneOp::Relu => {
            let zero = constant(b, 0.0);
            let positive = b.ins().fcmp(FloatCC::GreaterThan, x, zero);
            let is_nan = b.ins().fcmp(FloatCC::Unordered, x, x);
            let first = b.ins().bor(positive, is_nan);
            b.ins().select(first, x, zero)
        }
        LaneOp::Not => {
            let zero = constant(b, 0.0);
            b.ins().fcmp(FloatCC::Equal, x, zero)
        }
        LaneOp::IsNan => b.ins().fcmp(FloatCC::Unordered, x, x),
        LaneOp::IsFinite | LaneOp::IsInf => {
            let infinity = constant(b, f64::INFINITY);
            let size = b.ins().fabs(x);
            let cc = if op == LaneOp::IsInf {
                FloatCC::Equal
            } else {
                FloatCC::LessThan
            };
            b.ins().fcmp(cc, size, infinity)
        }
        LaneOp::Add => b.ins().fadd(x, y),
        LaneOp::Sub => b.ins().fsub(x, y),
        LaneOp::Mul => b.ins().fmul(x, y),
        LaneOp::Div => b.ins().fdiv(x, y),
        LaneOp::Maximum => chosen(b, FloatCC::GreaterThan, x),
        LaneOp::Minimum => chosen(b, FloatCC::LessThan, x),
        LaneOp::Fmax => chosen(b, FloatCC::GreaterThanOrEqual, y),
        LaneOp::Fmin => chosen(b, FloatCC::LessThanOrEqual, y),
        LaneOp::Copysign => b.ins().fcopysign(x, y),
        LaneOp::Eq => compare(b, FloatCC::Equal),
        LaneOp::Ne => compare(b, FloatCC::NotEqual),
        LaneOp::Lt => compare(b, FloatCC::LessThan),
        LaneOp::Le => compare(b, FloatCC::LessThanOrEqual),
        LaneOp::Gt => compare(b, FloatCC::GreaterThan),
        LaneOp::Ge => compare(b, FloatCC::GreaterThanOrEqual),
        _ => return None,
    })
}

fn logical(b: &mut FunctionBuilder<'_>, op: LaneOp, x: Value, y: Value) -> Option<Value> {
    Some(match op {
        LaneOp::Not | LaneOp::Invert => b.ins().bxor_imm(x, 1),
        LaneOp::And | LaneOp::BitAnd | LaneOp::Mul | LaneOp::Minimum => b.ins().band(x, y),
        LaneOp::Or | LaneOp::BitOr | LaneOp::Add | LaneOp::Maximum => b.ins().bor(x, y),
        LaneOp::Xor | LaneOp::BitXor | LaneOp::Ne => b.ins().bxor(x, y),
        LaneOp::Conj | LaneOp::Real | LaneOp::Abs => x,
        _ => return None,
    })
}

fn integer(
    b: &mut FunctionBuilder<'_>,
    op: LaneOp,
    dtype: DType,
    x: Value,
    y: Value,
) -> Option<Value> {
    let order = |signed: IntCC| {
        if dtype.is_unsigned() {
            signed.unsigned()
        } else {
            signed
        }
    };
    Some(match op {
        LaneOp::Neg => b.ins().ineg(x),
        LaneOp::Square => b.ins().imul(x, x),
        LaneOp::Add => b.ins().iadd(x, y),
        LaneOp::Sub => b.ins().isub(x, y),
        LaneOp::Mul => b.ins().imul(x, y),
        LaneOp::BitAnd => b.ins().band(x, y),
        LaneOp::BitOr => b.ins().bor(x, y),
        LaneOp::BitXor => b.ins().bxor(x, y),
        LaneOp::Conj | LaneOp::Real => x,
        LaneOp::Not => b.ins().icmp_imm(IntCC::Equal, x, 0),
        LaneOp::Eq => b.ins().icmp(IntCC::Equal, x, y),
        LaneOp::Ne => b.ins().icmp(IntCC::NotEqual, x, y),
        LaneOp::Lt => b.ins().icmp(order(IntCC::SignedLessThan), x, y),
        LaneOp::Le => b.ins().icmp(order(IntCC::SignedLessThanOrEqual), x, y),
        LaneOp::Gt => b.ins().icmp(order(IntCC::SignedGreaterThan), x, y),
        LaneOp::Ge => b.ins().icmp(order(IntCC::SignedGreaterThanOrEqual), x, y),
        _ => return None,
    })
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// Whether [`cast`] has instructions for two dtypes: not for half floats, nor for floats as integers, which are saturated.
pub(super) fn is_cast_inline(from: DType, to: DType) -> bool {
    let is_half = |d: DType| matches!(d, DType::F16 | DType::Bf16);
    let saturates = is_float(from) && !is_float(to) && to != DType::Bool;
    !is_half(from) && !is_half(to) && !saturates
}

/// The element as another dtype, as NumPy's `astype` has it; `None` for what a lane has to do.
pub(super) fn cast(b: &mut FunctionBuilder<'_>, x: Value, from: DType, to: DType) -> Option<Value> {
    if !is_cast_inline(from, to) {
        return None;
    }
    // Any byte but zero is true.
    let x = if from == DType::Bool {
        b.ins().icmp_imm(IntCC::NotEqual, x, 0)
    } else {
        x
    };
    let (a, z) = (register(from), register(to));
    let unsigned = from.is_unsigned() || from == DType::Bool;
    Some(match (is_float(from), is_float(to)) {
        (true, true) if z.bits() > a.bits() => b.ins().fpromote(z, x),
        (true, true) => b.ins().fdemote(z, x),
        (true, false) if to == DType::Bool => {
            let zero = number(b, from, 0);
            b.ins().fcmp(FloatCC::NotEqual, x, zero)
        }
        (true, false) => return None,
        (false, true) => {
            let wide = match a.bits() {
                32 | 64 => x,
                _ if unsigned => b.ins().uextend(types::I32, x),
                _ => b.ins().sextend(types::I32, x),
            };
            if unsigned {
                b.ins().fcvt_from_uint(z, wide)
            } else {
                b.ins().fcvt_from_sint(z, wide)
            }
        }
        (false, false) if to == DType::Bool => b.ins().icmp_imm(IntCC::NotEqual, x, 0),
        (false, false) if z.bits() > a.bits() && unsigned => b.ins().uextend(z, x),
        (false, false) if z.bits() > a.bits() => b.ins().sextend(z, x),
        (false, false) if z.bits() < a.bits() => b.ins().ireduce(z, x),
        (false, false) => x,
    })
}

/// The processor's multiplication and addition in one, where the kernels of products use it.
pub(super) fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::Function;
    use cranelift_frontend::FunctionBuilderContext;

    use super::*;
    use crate::kernels::lane::lane;

    #[test]
    fn there_are_instructions_where_it_is_said() {
        let (mut function, mut context) = (Function::new(), FunctionBuilderContext::new());
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let block = b.create_block();
        b.switch_to_block(block);
        b.seal_block(block);
        for &dtype in DType::ALL.iter().filter(|d| !d.is_complex()) {
            let x = [number(&mut b, dtype, 0); 3];
            for &op in LaneOp::ALL.iter().filter(|&&op| op != LaneOp::Where) {
                if lane(op, dtype).is_some() {
                    let found = inline(&mut b, op, dtype, x).is_some();
                    assert_eq!(found, is_inline(op, dtype), "{op:?} of {dtype}");
                }
            }
            for &to in DType::ALL.iter().filter(|d| !d.is_complex()) {
                let found = cast(&mut b, x[0], dtype, to).is_some();
                assert_eq!(found, is_cast_inline(dtype, to), "{dtype} as {to}");
            }
        }
    }
}

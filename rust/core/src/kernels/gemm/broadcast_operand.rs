//! Products with an operand that repeats itself along an axis, as the cotangent of a sum does: its
//! stride there is zero. `sum_k a_ik b_j` is the sum of a row times a number, and equal rows have equal
//! products, so nothing of the work of a matrix product is left.

use super::super::fused::{FusedBuilder, ReduceOp};
use super::super::lane::LaneOp;
use super::super::reduce::reduce;
use super::super::strided::copy;
use super::super::{Ctx, Value};
use crate::aval::{Aval, DType, Shape, Strides, broadcast_strides};
use crate::error::Result;

/// `a` `b`, a result of this aval, when an operand has a stride of zero in one of its last two axes.
/// `matmul` makes the products of what is left.
pub(super) fn repeated(
    a: &Value,
    b: &Value,
    aval: &Aval,
    matmul: fn(&Value, &Value, &Ctx) -> Result<Value>,
    ctx: &Ctx,
) -> Result<Option<Value>> {
    if !matches!(aval.dtype, DType::F32 | DType::F64) {
        return Ok(None);
    }
    // Axes counted from the last.
    let repeats = |v: &Value, axis: usize| {
        let at = v.shape().len() - 1 - axis;
        v.shape()[at] > 1 && v.strides()[at] == 0
    };
    if repeats(b, 1) || repeats(a, 0) {
        return summed(a, b, aval, repeats(b, 1), ctx);
    }
    // Broadcasting is a layout: the product of what is repeated is made once, and then spread.
    if repeats(a, 1) {
        let row = matmul(&cut(a, 1), b, ctx)?;
        return spread(&row, aval, ctx).map(Some);
    }
    if repeats(b, 0) {
        let column = matmul(a, &cut(b, 0), ctx)?;
        return spread(&column, aval, ctx).map(Some);
    }
    Ok(None)
}

/// The product where `b` (or else `a`) is the same all along the summed axis. `None` when a sum or a factor
/// is not finite: then it depends on the single products what comes out.
fn summed(a: &Value, b: &Value, aval: &Aval, b_repeats: bool, ctx: &Ctx) -> Result<Option<Value>> {
    let (many, one) = if b_repeats {
        (a, cut(b, 1))
    } else {
        (b, cut(a, 0))
    };
    // The summed axis is kept with a length of one, so that shapes broadcast as they are.
    let axis = many.shape().len() - 1 - usize::from(!b_repeats);
    let sums = reduce(ReduceOp::Sum, many, &[axis], ctx)?;
    if !is_finite(&sums) || !is_finite(&copy(&one, ctx)?) {
        return Ok(None);
    }
    let mut shape = Shape::from_slice(sums.shape());
    let mut strides = Strides::from_slice(sums.strides());
    shape.insert(axis, 1);
    strides.insert(axis, 0);
    // SAFETY: one more axis of length one reaches no further.
    let sums = unsafe { sums.view(shape, strides, 0) };
    let mut product = FusedBuilder::new(&aval.shape);
    let (x, y) = (product.input(aval.dtype), product.input(aval.dtype));
    let z = product.op(LaneOp::Mul, &[x, y])?;
    product.output(z);
    let out = Value::empty(aval.clone())?;
    product
        .finish()
        .run(&[sums, one], std::slice::from_ref(&out), ctx)?;
    Ok(Some(out))
}

/// Whether a contiguous value has finite elements only.
fn is_finite(v: &Value) -> bool {
    match v.dtype() {
        DType::F32 => (v.as_slice::<f32>()).is_some_and(|x| x.iter().all(|x| x.is_finite())),
        _ => (v.as_slice::<f64>()).is_some_and(|x| x.iter().all(|x| x.is_finite())),
    }
}

/// The first element along an axis, counted from the last.
fn cut(v: &Value, axis: usize) -> Value {
    let mut shape = Shape::from_slice(v.shape());
    let at = shape.len() - 1 - axis;
    shape[at] = 1;
    // SAFETY: a part of what the value covers, from its first element on.
    unsafe { v.view(shape, Strides::from_slice(v.strides()), 0) }
}

/// A copy with what has a length of one repeated.
fn spread(v: &Value, aval: &Aval, ctx: &Ctx) -> Result<Value> {
    let strides = broadcast_strides(v.shape(), v.strides(), &aval.shape);
    // SAFETY: repeated axes have a stride of zero, the others are those of the value.
    let wide = unsafe { v.view(aval.shape.clone(), strides, 0) };
    copy(&wide, ctx)
}

//! Arrays that become parts of another one: along an axis that they have, along a new one, or between zeros.

use super::super::{Ctx, LaidOut, Value};
use super::moves::{Moved, laid_out};
use super::{copy_into, fill};
use crate::aval::{Shape, Strides, row_major, tuple};
use crate::error::{Error, Result};

/// The regions of `out` for arrays one after the other along `axis`.
fn joined(out: &Value, parts: &[Value], axis: usize) -> Result<Vec<Value>> {
    let mut start = 0;
    let mut regions = Vec::with_capacity(parts.len());
    for part in parts {
        let same = part.dtype() == out.dtype()
            && part.shape().len() == out.shape().len()
            && axis < out.shape().len()
            && (0..out.shape().len()).all(|i| i == axis || part.shape()[i] == out.shape()[i])
            && part.shape()[axis] <= out.shape()[axis] - start;
        if !same {
            return Err(Error::Shape(format!(
                "concatenate: {} does not fit into {} along axis {axis}",
                part.aval(),
                out.aval()
            )));
        }
        let shift = start as isize * out.strides()[axis] * out.dtype().size() as isize;
        let shape = Shape::from_slice(part.shape());
        // SAFETY: `start` and the length of the part stay within the axis, as just checked.
        regions.push(unsafe { out.view(shape, Strides::from_slice(out.strides()), shift) });
        start += part.shape()[axis];
    }
    if start == out.shape().get(axis).copied().unwrap_or(0) {
        return Ok(regions);
    }
    Err(Error::Shape(format!(
        "concatenate: the parts have length {start} along axis {axis}, the result {}",
        tuple(out.shape())
    )))
}

/// Writes the arrays one after the other along `axis` into `out`: a view, of the right shape, of a storage that
/// nobody reads yet.
pub fn concatenate_into(out: &Value, parts: &[Value], axis: usize, ctx: &Ctx) -> Result<()> {
    let regions = joined(out, parts, axis)?;
    copy_all(&regions, parts, ctx)
}

/// The same for short arrays, wherever they lie.
pub fn concatenate_laid_out(parts: &[Value], out: &Value, axis: usize) -> Option<LaidOut> {
    laid_out(parts, out, &joined(out, parts, axis).ok()?, Moved::Copied)
}

fn copy_all(regions: &[Value], parts: &[Value], ctx: &Ctx) -> Result<()> {
    (regions.iter().zip(parts)).try_for_each(|(region, part)| copy_into(region, part, ctx))
}

/// The regions of `out` for arrays of one shape and dtype along a new first axis.
fn stacked(out: &Value, parts: &[Value]) -> Result<Vec<Value>> {
    let Some(first) = parts.first() else {
        return Err(Error::Shape("stack: there is no array to stack".into()));
    };
    let (size, step) = (first.aval().size(), first.dtype().size());
    let fits = out.dtype() == first.dtype()
        && out.is_contiguous()
        && (out.shape().split_first())
            .is_some_and(|(&n, rest)| n == parts.len() && rest == first.shape());
    if !fits {
        return Err(Error::Shape(format!(
            "stack: {} arrays {} do not fit into {}",
            parts.len(),
            first.aval(),
            out.aval()
        )));
    }
    let region = |(i, part): (usize, &Value)| {
        if part.aval() != first.aval() {
            return Err(Error::Shape(format!(
                "stack: {} and {} differ",
                first.aval(),
                part.aval()
            )));
        }
        let shape = Shape::from_slice(part.shape());
        let strides = row_major(part.shape());
        // SAFETY: part `i` of so many of this size.
        Ok(unsafe { out.view(shape, strides, (i * size * step) as isize) })
    };
    parts.iter().enumerate().map(region).collect()
}

/// Writes arrays of one shape and dtype along a new first axis into `out`, which is row-major and the caller's alone.
pub fn stack_into(out: &Value, parts: &[Value], ctx: &Ctx) -> Result<()> {
    let regions = stacked(out, parts)?;
    copy_all(&regions, parts, ctx)
}

/// The same for short arrays, wherever they lie.
pub fn stack_laid_out(parts: &[Value], out: &Value) -> Option<LaidOut> {
    laid_out(parts, out, &stacked(out, parts).ok()?, Moved::Copied)
}

/// The region of `out` whose elements are `start + i * step` along every axis.
fn padded(out: &Value, src: &Value, start: &[usize], step: &[isize]) -> Result<Value> {
    let rank = out.shape().len();
    let mut shift = 0isize;
    let mut strides = Strides::new();
    let mut fits = [src.shape().len(), start.len(), step.len()] == [rank; 3];
    fits &= src.dtype() == out.dtype();
    if fits {
        for axis in 0..rank {
            let (n, len) = (src.shape()[axis] as isize, out.shape()[axis] as isize);
            if n > 0 {
                let first = start[axis] as isize;
                let last = first + (n - 1) * step[axis];
                fits &= first < len && (0..len).contains(&last) && (n == 1 || step[axis] != 0);
                shift += first * out.strides()[axis];
            }
            strides.push(out.strides()[axis] * step[axis]);
        }
    }
    if !fits {
        return Err(Error::Shape(format!(
            "pad: {} with start {start:?} and step {step:?} does not fit into {}",
            src.aval(),
            out.aval()
        )));
    }
    let shape = Shape::from_slice(src.shape());
    let shift = if src.aval().size() == 0 { 0 } else { shift };
    // SAFETY: the first and the last element of every axis lie inside `out`, as just checked.
    Ok(unsafe { out.view(shape, strides, shift * out.dtype().size() as isize) })
}

/// Writes zeros with `src` embedded into `out`, a view of a storage that nobody reads yet: element `i` of every axis
/// goes to `start + i * step`. A step may be negative, not zero.
pub fn pad_into(
    out: &Value,
    src: &Value,
    start: &[usize],
    step: &[isize],
    ctx: &Ctx,
) -> Result<()> {
    let region = padded(out, src, start, step)?;
    if out.aval().size() != src.aval().size() {
        fill(out, &[0; 16][..out.dtype().size()], ctx)?;
    }
    copy_into(&region, src, ctx)
}

/// The same for short arrays, wherever they lie.
pub fn pad_laid_out(
    src: &[Value],
    out: &Value,
    start: &[usize],
    step: &[isize],
) -> Option<LaidOut> {
    let [x] = src else { return None };
    let region = padded(out, x, start, step).ok()?;
    laid_out(src, out, &[region], Moved::CopiedToZeros)
}

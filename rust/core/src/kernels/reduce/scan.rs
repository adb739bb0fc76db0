//! Running sums and extrema and linear recurrences, from the first element to the last as NumPy does it.
// Elements are read and written unaligned wherever they may be foreign.
#![allow(clippy::cast_ptr_alignment)]

use super::super::arithmetic::{BLOCK, Number, with_number};
use super::super::shared_pointer::Shared;
use super::super::strided::contiguous;
use super::super::{Ctx, Value};
use super::TASK;
use crate::error::Result;

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident $step:ident;)*) => { $(
        $(#[doc = $doc])*
        pub fn $name(src: &Value, axis: usize, reverse: bool, ctx: &Ctx) -> Result<Value> {
            // SAFETY: `T` is the type of the dtype.
            with_number!(src.dtype(), T => unsafe { scan::<T>(src, axis, reverse, ctx, Number::$step) })
        }
    )* };
}
scans! {
    /// Running sums along `axis`, from its end when `reverse`. Half types are accumulated in `f32`.
    cumsum plus;
    /// Running maxima along `axis`, from its end when `reverse`; NaN from the first one on.
    cummax larger;
    /// Running minima along `axis`, from its end when `reverse`; NaN from the first one on.
    cummin smaller;
}

/// `y[i] = a[i] * y[i - 1] + b[i]` along `axis`, beginning with `b`, from its end when `reverse`. Every step is
/// rounded to the dtype.
pub fn linear_recurrence(
    a: &Value,
    b: &Value,
    axis: usize,
    reverse: bool,
    ctx: &Ctx,
) -> Result<Value> {
    // SAFETY: `T` is the type of the dtype, which both have.
    with_number!(a.dtype(), T => unsafe { recurrence::<T>(a, b, axis, reverse, ctx) })
}

unsafe fn recurrence<T: Number>(
    a: &Value,
    b: &Value,
    axis: usize,
    reverse: bool,
    ctx: &Ctx,
) -> Result<Value> {
    let (a, b) = (contiguous(a, ctx)?, contiguous(b, ctx)?);
    let out = Value::empty(b.aval().clone())?;
    let len = b.shape()[axis];
    let inner: usize = b.shape()[axis + 1..].iter().product();
    if b.aval().size() == 0 {
        return Ok(out);
    }
    let outer = b.aval().size() / (len * inner);
    // A task takes a strip of at most a block's width of one row, or several.
    let strips = inner.div_ceil(BLOCK);
    let group = TASK.div_ceil(len * inner.min(BLOCK));
    let factors = Shared::new(a.as_ptr().cast_mut().cast::<T>());
    let terms = Shared::new(b.as_ptr().cast_mut().cast::<T>());
    let to = Shared::new(out.as_mut_ptr().cast::<T>());
    ctx.for_each((outer * strips).div_ceil(group), |task| {
        for unit in task * group..(outer * strips).min((task + 1) * group) {
            let (row, strip) = (unit / strips, unit % strips * BLOCK);
            let n = BLOCK.min(inner - strip);
            let first = row * len * inner + strip;
            for j in 0..n {
                let mut y = T::Wide::ZERO;
                for k in 0..len {
                    let i = if reverse { len - 1 - k } else { k };
                    let at = (first + i * inner + j) as isize;
                    // SAFETY: `at` lies within the arrays, which have one shape; tasks write different strips.
                    unsafe {
                        let term = terms.at(at).read_unaligned().widen();
                        y = if k == 0 {
                            term
                        } else {
                            factors.at(at).read_unaligned().widen().times(y).plus(term)
                        };
                        let rounded = T::narrow(y);
                        to.at(at).write(rounded);
                        y = rounded.widen();
                    }
                }
            }
        }
    })?;
    Ok(out)
}

unsafe fn scan<T: Number>(
    src: &Value,
    axis: usize,
    reverse: bool,
    ctx: &Ctx,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide + Copy + Send + Sync,
) -> Result<Value> {
    let src = contiguous(src, ctx)?;
    let out = Value::empty(src.aval().clone())?;
    let len = src.shape()[axis];
    let inner: usize = src.shape()[axis + 1..].iter().product();
    if src.aval().size() == 0 {
        return Ok(out);
    }
    let outer = src.aval().size() / (len * inner);
    // A task takes a strip of at most a block's width, so that its accumulators stay near.
    let strips = inner.div_ceil(BLOCK);
    let (tasks, group) = {
        let group = TASK.div_ceil(len * inner.min(BLOCK));
        ((outer * strips).div_ceil(group), group)
    };
    let from = Shared::new(src.as_ptr().cast_mut().cast::<T>());
    let to = Shared::new(out.as_mut_ptr().cast::<T>());
    ctx.for_each(tasks, |task| {
        for unit in task * group..(outer * strips).min((task + 1) * group) {
            let (row, strip) = (unit / strips, unit % strips * BLOCK);
            let n = BLOCK.min(inner - strip);
            let first = (row * len * inner + strip) as isize;
            if n == 1 {
                // SAFETY: as below.
                unsafe { line::<T>(from.at(first), to.at(first), len, inner, reverse, f) };
                continue;
            }
            let mut folded = [T::Wide::ZERO; BLOCK];
            let mut next = [T::Wide::ZERO; BLOCK];
            for i in 0..len {
                let i = if reverse { len - 1 - i } else { i };
                let at = first + (i * inner) as isize;
                // SAFETY: `at + n` stays within the strip's rows; tasks have different strips.
                unsafe {
                    T::widen_line(from.at(at), 1, &mut next[..n]);
                    let start = if reverse { i + 1 == len } else { i == 0 };
                    if start {
                        folded[..n].copy_from_slice(&next[..n]);
                    } else {
                        for (x, &y) in folded[..n].iter_mut().zip(&next[..n]) {
                            *x = f(*x, y);
                        }
                    }
                    // Fresh memory of ours is aligned.
                    for (j, &x) in folded[..n].iter().enumerate() {
                        to.at(at + j as isize).write(T::narrow(x));
                    }
                }
            }
        }
    })?;
    Ok(out)
}

/// One line of `len > 0` elements `step` apart.
unsafe fn line<T: Number>(
    from: *const T,
    to: *mut T,
    len: usize,
    step: usize,
    reverse: bool,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide,
) {
    let at = |i: usize| step * if reverse { len - 1 - i } else { i };
    // SAFETY: the caller vouches for the line on both sides.
    unsafe {
        let mut folded = from.add(at(0)).read_unaligned().widen();
        to.add(at(0)).write(T::narrow(folded));
        for i in 1..len {
            folded = f(folded, from.add(at(i)).read_unaligned().widen());
            to.add(at(i)).write(T::narrow(folded));
        }
    }
}

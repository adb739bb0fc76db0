//! Positions of extremes, and sorting.
// Elements are read and written unaligned wherever they may be foreign.
#![allow(clippy::cast_ptr_alignment)]

use rayon::prelude::*;
use smallvec::SmallVec;

use super::super::arithmetic::{BLOCK, Number, with_number};
use super::super::shared_pointer::Shared;
use super::super::strided::contiguous;
use super::super::{Ctx, Value, spare};
use super::{Axis, CHUNK, TASK, fold_block, locate};
use crate::aval::{Aval, DType, Shape, row_major, tuple};
use crate::error::{Error, Result};

/// The index of the largest (`max`) or smallest element along `axis`, or of the whole array in
/// row-major order; the first of equals, and a NaN before any number. The result is `i64` and
/// lacks the axis.
pub fn argreduce(max: bool, src: &Value, axis: Option<usize>, ctx: &Ctx) -> Result<Value> {
    let mut shape = Shape::from_slice(src.shape());
    let len = match axis {
        Some(axis) => shape.remove(axis),
        None => std::mem::take(&mut shape).iter().product(),
    };
    let out = Value::empty(Aval {
        dtype: DType::I64,
        shape,
    })?;
    if out.aval().size() == 0 {
        return Ok(out);
    }
    if len == 0 {
        let name = if max { "argmax" } else { "argmin" };
        return Err(Error::Shape(format!(
            "{name}: there is no largest or smallest of no elements (shape {})",
            tuple(src.shape())
        )));
    }
    with_number!(src.dtype(), T => {
        // SAFETY: `T` is the type of the dtype, the result is fresh.
        unsafe {
            if max {
                positions::<T>(src, axis, len, &out, ctx, Number::larger)?;
            } else {
                positions::<T>(src, axis, len, &out, ctx, Number::smaller)?;
            }
        }
    });
    Ok(out)
}

/// An element and where it is.
#[derive(Debug, Clone, Copy)]
struct Best<T>(T, usize);

impl<T: Number> Best<T> {
    /// The better of this and a later one, by a rule that returns its first argument on a tie.
    #[inline(always)]
    fn or(self, x: T, at: usize, f: impl Fn(T, T) -> T) -> Best<T> {
        // A NaN stays; otherwise the later one wins only if it differs from the earlier one.
        if self.0.is_nan() || self.0 == x {
            return self;
        }
        let y = f(self.0, x);
        if y == self.0 { self } else { Best(x, at) }
    }
}

/// Best of `n > 0` elements `step` apart, `first` being the index of the first of them.
unsafe fn best<T: Number>(
    p: *const T,
    step: isize,
    n: usize,
    first: usize,
    f: impl Fn(T, T) -> T + Copy,
) -> Best<T> {
    // SAFETY (all blocks): offsets are below `n`.
    let at = |i: usize| unsafe { p.offset(i as isize * step).read_unaligned() };
    let mut best = Best(at(0), first);
    if step != 1 || !T::NATIVE {
        for i in 1..n {
            best = best.or(at(i), first + i, f);
        }
        return best;
    }
    // The best of a block costs one instruction for several elements; only a block that holds a
    // better one is looked through.
    for start in (0..n).step_by(BLOCK) {
        let block = BLOCK.min(n - start);
        let x = unsafe { fold_block(p.add(start), block, f) };
        if start > 0 && best.or(x, usize::MAX, f).1 != usize::MAX {
            continue;
        }
        if let Some(i) = (start..start + block).find(|&i| at(i) == x || at(i).is_nan()) {
            best = Best(at(i), first + i);
        }
        if best.0.is_nan() {
            return best;
        }
    }
    best
}

unsafe fn positions<T: Number>(
    src: &Value,
    axis: Option<usize>,
    len: usize,
    out: &Value,
    ctx: &Ctx,
    f: impl Fn(T, T) -> T + Copy + Send + Sync,
) -> Result<()> {
    let to = Shared::new(out.as_mut_ptr().cast::<i64>());
    let Some(axis) = axis else {
        let src = contiguous(src, ctx)?;
        let from = Shared::new(src.as_ptr().cast_mut().cast::<T>());
        let chunks = len.div_ceil(CHUNK);
        spare(chunks.saturating_mul(size_of::<Best<T>>()))?;
        let mut found = vec![Best(T::ZERO, 0); chunks];
        let slots = Shared::new(found.as_mut_ptr());
        ctx.for_each(chunks, |c| {
            let (first, n) = (c * CHUNK, CHUNK.min(len - c * CHUNK));
            // SAFETY: chunks are disjoint parts of the array, slots of the list.
            unsafe {
                slots
                    .at(c as isize)
                    .write(best(from.at(first as isize), 1, n, first, f));
            };
        })?;
        let first = found[0];
        let best = found.iter().skip(1).fold(first, |a, b| a.or(b.0, b.1, f));
        // SAFETY: the result has one element.
        unsafe { to.at(0).write(best.1 as i64) };
        return Ok(());
    };
    // Neighbouring results are found together, so that each cache line is read once.
    let outs = row_major(out.shape());
    let mut kept: SmallVec<[Axis; 4]> = SmallVec::new();
    for (a, (&len, &step)) in src.shape().iter().zip(src.strides()).enumerate() {
        if a != axis {
            kept.push(Axis {
                len,
                src: step,
                out: outs[kept.len()],
            });
        }
    }
    let step = src.strides()[axis];
    let across = match kept.last() {
        Some(a) if a.src.abs() < step.abs() => kept.pop(),
        _ => None,
    }
    .unwrap_or(Axis {
        len: 1,
        src: 0,
        out: 0,
    });
    let outer: usize = kept.iter().map(|a| a.len).product();
    let strips = across.len.div_ceil(BLOCK);
    let group = TASK.div_ceil(len * across.len.min(BLOCK));
    let from = Shared::new(src.as_ptr().cast_mut().cast::<T>());
    ctx.for_each((outer * strips).div_ceil(group), |task| {
        for unit in task * group..(outer * strips).min((task + 1) * group) {
            let (s, o) = locate(&kept, unit / strips);
            let j0 = unit % strips * BLOCK;
            let n = BLOCK.min(across.len - j0);
            let (s, o) = (s + j0 as isize * across.src, o + j0 as isize * across.out);
            // SAFETY: all indices stay within their axes; units have different results.
            unsafe {
                if n == 1 {
                    to.at(o).write(best(from.at(s), step, len, 0, f).1 as i64);
                    continue;
                }
                let mut found = [Best(T::ZERO, 0); BLOCK];
                for (j, x) in found[..n].iter_mut().enumerate() {
                    *x = Best(from.at(s + j as isize * across.src).read_unaligned(), 0);
                }
                for i in 1..len {
                    let row = s + i as isize * step;
                    for (j, x) in found[..n].iter_mut().enumerate() {
                        let y = from.at(row + j as isize * across.src).read_unaligned();
                        *x = x.or(y, i, f);
                    }
                }
                for (j, x) in found[..n].iter().enumerate() {
                    to.at(o + j as isize * across.out).write(x.1 as i64);
                }
            }
        }
    })
}

/// A key whose unsigned order is the order of the elements, equal for equal ones, NaN last.
trait Key: Number {
    /// Bits that the key takes.
    const BITS: u32;
    fn key(self) -> u128;
}

macro_rules! integer_keys {
    ($($t:ty => $u:ty),*) => {$(
        impl Key for $t {
            const BITS: u32 = <$u>::BITS;
            #[inline(always)]
            fn key(self) -> u128 {
                ((self as $u) ^ (<$t>::MIN as $u)) as u128
            }
        }
    )*};
}
integer_keys!(
    i8 => u8, u8 => u8, i16 => u16, u16 => u16, i32 => u32, u32 => u32, i64 => u64, u64 => u64
);

impl Key for bool {
    const BITS: u32 = 1;
    #[inline(always)]
    fn key(self) -> u128 {
        self as u128
    }
}

macro_rules! float_keys {
    ($($t:ty => $u:ty),*) => {$(
        impl Key for $t {
            const BITS: u32 = <$u>::BITS;
            #[inline(always)]
            fn key(self) -> u128 {
                if self.is_nan() {
                    return <$u>::MAX as u128;
                }
                // Both zeros are equal; negative numbers run the other way.
                let bits = if self == Self::ZERO { 0 } else { self.to_bits() };
                let sign = 1 << (<$u>::BITS - 1);
                (if bits & sign == 0 { bits | sign } else { !bits }) as u128
            }
        }
    )*};
}
float_keys!(f32 => u32, f64 => u64, half::f16 => u16, half::bf16 => u16);

/// The indices that sort `src` along `axis`: stable, NaN last, complex numbers lexicographically
/// (and those with a NaN after all others, as NumPy does it). The result is `i64` of `src`'s shape.
pub fn argsort(src: &Value, axis: usize, ctx: &Ctx) -> Result<Value> {
    let out = Value::empty(src.aval().with_dtype(DType::I64))?;
    if out.aval().size() == 0 {
        return Ok(out);
    }
    /// The index in the low half, the key above it: a plain sort is stable.
    macro_rules! packed {
        ($t:ty, $p:ty) => {
            // SAFETY: `$t` is the type of the dtype.
            unsafe {
                lanes::<$t, $p>(src, axis, &out, ctx, |x, i| {
                    (x.key() as $p) << (<$p>::BITS - <$t as Key>::BITS) | i as $p
                })?
            }
        };
    }
    /// NumPy's four classes of complex numbers, then real and imaginary part, then the index.
    macro_rules! complex {
        ($t:ty) => {
            // SAFETY: `$t` is the type of the dtype's parts.
            unsafe {
                lanes::<num_complex::Complex<$t>, (u8, u128, u128, u64)>(
                    src,
                    axis,
                    &out,
                    ctx,
                    |z, i| {
                        let class = u8::from(z.im.is_nan()) + 2 * u8::from(z.re.is_nan());
                        (class, z.re.key(), z.im.key(), i as u64)
                    },
                )?
            }
        };
    }
    // Two elements differ in the upper bits or in the index, which has room enough: an axis of
    // 2^32 elements of 4 bytes goes the wide way.
    let short = u32::try_from(src.shape()[axis]).is_ok();
    match src.dtype() {
        DType::Bool => packed!(bool, u64),
        DType::I8 => packed!(i8, u64),
        DType::U8 => packed!(u8, u64),
        DType::I16 => packed!(i16, u64),
        DType::U16 => packed!(u16, u64),
        DType::I32 if short => packed!(i32, u64),
        DType::I32 => packed!(i32, u128),
        DType::U32 if short => packed!(u32, u64),
        DType::U32 => packed!(u32, u128),
        DType::I64 => packed!(i64, u128),
        DType::U64 => packed!(u64, u128),
        DType::F16 => packed!(half::f16, u64),
        DType::Bf16 => packed!(half::bf16, u64),
        DType::F32 if short => packed!(f32, u64),
        DType::F32 => packed!(f32, u128),
        DType::F64 => packed!(f64, u128),
        DType::C64 => complex!(f32),
        DType::C128 => complex!(f64),
    }
    Ok(out)
}

/// What is sorted: something that ends in an index.
trait Packed: Copy + Ord + Send {
    /// The index, given how many bits of the packing the key takes.
    fn index(self, key_bits: u32) -> i64;
}

impl Packed for u64 {
    #[inline(always)]
    fn index(self, key_bits: u32) -> i64 {
        (self << key_bits >> key_bits) as i64
    }
}

impl Packed for u128 {
    #[inline(always)]
    fn index(self, key_bits: u32) -> i64 {
        (self << key_bits >> key_bits) as i64
    }
}

impl Packed for (u8, u128, u128, u64) {
    #[inline(always)]
    fn index(self, _: u32) -> i64 {
        self.3 as i64
    }
}

macro_rules! no_keys {
    ($($t:ty),*) => {$(
        impl Key for num_complex::Complex<$t> {
            const BITS: u32 = 0;
            fn key(self) -> u128 { 0 }
        }
    )*};
}
no_keys!(f32, f64);

/// Sorts every line along `axis`.
unsafe fn lanes<T: Key, P: Packed>(
    src: &Value,
    axis: usize,
    out: &Value,
    ctx: &Ctx,
    pack: impl Fn(T, usize) -> P + Sync + Send,
) -> Result<()> {
    let mut kept: SmallVec<[Axis; 4]> = SmallVec::new();
    let steps = row_major(out.shape());
    for (a, &len) in src.shape().iter().enumerate() {
        if a != axis {
            kept.push(Axis {
                len,
                src: src.strides()[a],
                out: steps[a],
            });
        }
    }
    let (len, from_step, to_step) = (src.shape()[axis], src.strides()[axis], steps[axis]);
    let count: usize = kept.iter().map(|a| a.len).product();
    let group = TASK.div_ceil(len * 8);
    let from = Shared::new(src.as_ptr().cast_mut().cast::<T>());
    let to = Shared::new(out.as_mut_ptr().cast::<i64>());
    // With fewer lines than threads the sort itself is spread; keys differ, so that the order does
    // not depend on how.
    let wide = ctx.threads() > 1 && count < ctx.threads() && len >= TASK;
    let at_once = if wide { 1 } else { ctx.threads().min(count) };
    spare(len.saturating_mul(size_of::<P>()).saturating_mul(at_once))?;
    let sort =
        |task: usize| {
            let mut line: Vec<P> = Vec::with_capacity(len);
            for unit in task * group..count.min((task + 1) * group) {
                let (s, o) = locate(&kept, unit);
                line.clear();
                // SAFETY: indices stay below the axis' length; units have different lines.
                line.extend((0..len).map(|i| unsafe {
                    pack(from.at(s + i as isize * from_step).read_unaligned(), i)
                }));
                if wide {
                    ctx.inside(|is_there| {
                        if is_there {
                            line.par_sort_unstable();
                        } else {
                            line.sort_unstable();
                        }
                    });
                } else {
                    line.sort_unstable();
                }
                for (i, x) in line.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { to.at(o + i as isize * to_step).write(x.index(T::BITS)) };
                }
            }
        };
    if wide {
        for task in 0..count.div_ceil(group) {
            ctx.check()?;
            sort(task);
        }
        return Ok(());
    }
    ctx.for_each(count.div_ceil(group), sort)
}

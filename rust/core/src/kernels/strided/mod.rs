//! Moving elements between layouts: copies, fills, concatenation and padding.
//!
//! Every operation here is one *nest*: the axes of the destination, each with a step in the
//! destination and one in the source, flipped, sorted and merged until the innermost loop is as long
//! as it can be. Elements are moved by size and never looked at, so a step of zero in the source is a
//! broadcast and a fill is a copy from one element. Where source and destination disagree on the
//! innermost axis the nest is a transposition, and goes tile by tile so that each cache line is
//! fetched once.
// Elements are read and written unaligned wherever they may be foreign.
#![allow(clippy::cast_ptr_alignment)]

use smallvec::SmallVec;

use super::shared_pointer::Shared;
use super::{Ctx, Value};
use crate::aval::{Aval, Strides};
use crate::error::Result;

mod add;
mod moves;
mod parts;
mod transpose;
pub use add::add_into;
pub(super) use add::add_row;
pub use moves::{Moved, laid_out};
pub use parts::{
    concatenate_into, concatenate_laid_out, pad_into, pad_laid_out, stack_into, stack_laid_out,
};
pub(super) use transpose::Loop;
use transpose::TILE;
pub(super) use transpose::transpose;
#[cfg(feature = "fft")]
pub(super) use transpose::turn;

/// From this many bytes on a copy is spread over the threads (about 50 µs of work).
const PARALLEL: usize = 1 << 20;
/// A copy looks for a cancellation after this many bytes.
const PIECE: usize = 64 << 20;

/// Runs `$body` with `$t` standing for the unsigned integer of `$size` bytes.
macro_rules! by_size {
    ($size:expr, $t:ident => $body:expr) => {
        match $size {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            8 => {
                type $t = u64;
                $body
            }
            _ => {
                type $t = u128;
                $body
            }
        }
    };
}
pub(crate) use by_size;

/// The loops that visit every element of two layouts of one shape, outermost first.
#[derive(Debug, Clone)]
pub(crate) struct Nest {
    loops: SmallVec<[Loop; 4]>,
    /// Where the loops start, relative to element `[0, 0, ...]`.
    dst_shift: isize,
    src_shift: isize,
    size: usize,
}

impl Nest {
    /// The shortest nest for this shape: axes of length 1 dropped, destination steps made positive
    /// and put in descending order, neighbours merged.
    pub(crate) fn new(shape: &[usize], dst: &[isize], src: &[isize]) -> Nest {
        let size = shape.iter().product();
        let mut nest = Nest {
            loops: SmallVec::new(),
            dst_shift: 0,
            src_shift: 0,
            size,
        };
        if size == 0 {
            return nest;
        }
        for ((&len, &dst), &src) in shape.iter().zip(dst).zip(src) {
            if len == 1 {
                continue;
            }
            if dst < 0 {
                nest.dst_shift += dst * (len as isize - 1);
                nest.src_shift += src * (len as isize - 1);
                nest.loops.push(Loop {
                    len,
                    dst: -dst,
                    src: -src,
                });
            } else {
                nest.loops.push(Loop { len, dst, src });
            }
        }
        if !nest.loops.is_sorted_by(|a, b| a.dst >= b.dst) {
            nest.loops.sort_by_key(|l| std::cmp::Reverse(l.dst));
        }
        let mut merged = 0;
        for i in 1..nest.loops.len() {
            let (outer, inner) = (nest.loops[merged], nest.loops[i]);
            let n = inner.len as isize;
            if outer.dst == inner.dst * n && outer.src == inner.src * n {
                nest.loops[merged] = Loop {
                    len: outer.len * inner.len,
                    ..inner
                };
            } else {
                merged += 1;
                nest.loops[merged] = inner;
            }
        }
        nest.loops.truncate(merged + 1);
        nest
    }

    /// Copies every element, on this thread.
    ///
    /// # Safety
    /// The layouts must lie in memory valid for writes (`dst`) and reads (`src`) of `T`s, not
    /// overlapping; nobody else may use the destination meanwhile.
    pub(crate) unsafe fn run<T: Copy>(&self, dst: *mut T, src: *const T) {
        // SAFETY: the caller's promise.
        unsafe { self.run_with(dst, src, run) }
    }

    /// The same with other work than copying.
    ///
    /// # Safety
    /// As for [`Nest::run`]; `run` keeps inside the loops.
    unsafe fn run_with<T: Copy>(
        &self,
        dst: *mut T,
        src: *const T,
        run: unsafe fn(&[Loop], *mut T, *const T),
    ) {
        if self.size > 0 {
            // SAFETY: the shifts lead to the first element visited.
            unsafe {
                run(
                    &self.loops,
                    dst.offset(self.dst_shift),
                    src.offset(self.src_shift),
                );
            };
        }
    }

    /// Whether no element is visited.
    fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The same, on as many threads as pay.
    ///
    /// # Safety
    /// As for [`Nest::run`].
    unsafe fn run_wide<T: Copy>(&self, dst: *mut T, src: *const T, ctx: &Ctx) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.run_wide_with(dst, src, run, ctx) }
    }

    /// The same with other work than copying.
    ///
    /// # Safety
    /// As for [`Nest::run`]; `run` keeps inside the loops.
    unsafe fn run_wide_with<T: Copy>(
        &self,
        dst: *mut T,
        src: *const T,
        run: unsafe fn(&[Loop], *mut T, *const T),
        ctx: &Ctx,
    ) -> Result<()> {
        if self.size == 0 {
            return Ok(());
        }
        let bytes = self.size * size_of::<T>();
        let wide = ctx.threads() > 1 && bytes >= PARALLEL;
        if !wide && bytes <= PIECE {
            // SAFETY: the shifts lead to the first element visited.
            unsafe {
                run(
                    &self.loops,
                    dst.offset(self.dst_shift),
                    src.offset(self.src_shift),
                );
            };
            return Ok(());
        }
        let pieces = if wide { 4 * ctx.threads() } else { 1 }.max(bytes / PIECE);
        // The outermost loop that is long enough, or else the longest, is cut.
        let enough = self.loops.iter().position(|l| l.len >= pieces);
        let longest = || (0..self.loops.len()).max_by_key(|&i| self.loops[i].len);
        let Some(cut) = enough.or_else(longest) else {
            return Ok(());
        };
        let whole = self.loops[cut];
        let part = whole.len.div_ceil(pieces);
        let part = if part > TILE {
            part.next_multiple_of(TILE)
        } else {
            part
        };
        let (dst, src) = (Shared::new(dst), Shared::new(src.cast_mut()));
        ctx.for_each(whole.len.div_ceil(part), |i| {
            let start = i * part;
            let mut loops = self.loops.clone();
            loops[cut].len = part.min(whole.len - start);
            let start = start as isize;
            // SAFETY: the caller's promise; pieces write disjoint elements.
            unsafe {
                run(
                    &loops,
                    dst.at(self.dst_shift + start * whole.dst),
                    src.at(self.src_shift + start * whole.src),
                );
            }
        })
    }
}

/// Visits every index of the loops but calls `f` with the offsets only.
#[inline(always)]
fn walk(loops: &[Loop], mut f: impl FnMut(isize, isize)) {
    let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, loops.len());
    let (mut dst, mut src) = (0, 0);
    loop {
        f(dst, src);
        let mut axis = loops.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            let l = loops[axis];
            index[axis] += 1;
            dst += l.dst;
            src += l.src;
            if index[axis] < l.len {
                break;
            }
            index[axis] = 0;
            dst -= l.dst * l.len as isize;
            src -= l.src * l.len as isize;
        }
    }
}

/// An innermost loop of fewer elements takes longer to begin than to run.
const SHORT: usize = 8;
/// So many rows of such elements stay in the first-level cache while they are gone through column by column.
const ROWS: usize = 512;

/// Visits lines that make up the loops: those of the innermost one, or, where they are short, of the one around it.
#[inline(always)]
fn walk_lines(inner: Loop, outer: &[Loop], mut f: impl FnMut(Loop, isize, isize)) {
    let Some((&rows, rest)) = outer
        .split_last()
        .filter(|(rows, _)| inner.len < SHORT && rows.len > inner.len)
    else {
        return walk(outer, |d, s| f(inner, d, s));
    };
    walk(rest, |d, s| {
        for start in (0..rows.len).step_by(ROWS) {
            let column = Loop {
                len: ROWS.min(rows.len - start),
                ..rows
            };
            let start = start as isize;
            for i in 0..inner.len as isize {
                let d = d + start * rows.dst + i * inner.dst;
                let s = s + start * rows.src + i * inner.src;
                f(column, d, s);
            }
        }
    });
}

/// Runs non-empty loops.
unsafe fn run<T: Copy>(loops: &[Loop], dst: *mut T, src: *const T) {
    let Some((&inner, outer)) = loops.split_last() else {
        // SAFETY: one element, valid on both sides.
        unsafe { dst.write_unaligned(src.read_unaligned()) };
        return;
    };
    // The axis along which the source is densest; a transposition when it is not the inner one.
    let dense = (0..outer.len())
        .filter(|&i| outer[i].src != 0)
        .min_by_key(|&i| outer[i].src.unsigned_abs());
    match dense {
        Some(p) if inner.src != 0 && outer[p].src.unsigned_abs() < inner.src.unsigned_abs() => {
            let rows = outer[p];
            let mut rest: SmallVec<[Loop; 4]> = SmallVec::from_slice(outer);
            rest.remove(p);
            // SAFETY: the walked offsets and the two loops together stay inside both layouts.
            walk(&rest, |d, s| unsafe {
                transpose(rows, inner, dst.offset(d), src.offset(s));
            });
        }
        // SAFETY: as above.
        _ => walk_lines(inner, outer, |l, d, s| unsafe {
            line(l, dst.offset(d), src.offset(s));
        }),
    }
}

/// One innermost loop.
#[inline(always)]
unsafe fn line<T: Copy>(l: Loop, dst: *mut T, src: *const T) {
    // SAFETY (all blocks): offsets stay inside the loop's layout, which the caller vouches for.
    match (l.dst, l.src) {
        (1, 1) if l.len * size_of::<T>() >= 64 => unsafe {
            std::ptr::copy_nonoverlapping(src.cast::<u8>(), dst.cast(), l.len * size_of::<T>());
        },
        (1, 0) => unsafe {
            let x = src.read_unaligned();
            for i in 0..l.len {
                dst.add(i).write_unaligned(x);
            }
        },
        (1, step) => unsafe {
            for i in 0..l.len {
                dst.add(i)
                    .write_unaligned(src.offset(i as isize * step).read_unaligned());
            }
        },
        (to, from) => unsafe {
            for i in 0..l.len as isize {
                dst.offset(i * to)
                    .write_unaligned(src.offset(i * from).read_unaligned());
            }
        },
    }
}

/// A fresh row-major array with the elements of `src`, whatever its strides.
pub fn copy(src: &Value, ctx: &Ctx) -> Result<Value> {
    let out = Value::empty(src.aval().clone())?;
    copy_into(&out, src, ctx)?;
    Ok(out)
}

/// `src` itself when it lies in row-major order, or else a copy that does.
pub fn contiguous(src: &Value, ctx: &Ctx) -> Result<Value> {
    if src.is_contiguous() {
        Ok(src.clone())
    } else {
        copy(src, ctx)
    }
}

/// Writes `src` into `dst`, a view (of any non-overlapping layout) of a storage that nobody reads
/// yet. A stride of zero in `src` repeats an element.
///
/// # Panics
/// When dtypes or shapes differ.
pub fn copy_into(dst: &Value, src: &Value, ctx: &Ctx) -> Result<()> {
    assert_eq!(
        dst.aval(),
        src.aval(),
        "copy_into: different dtypes or shapes"
    );
    let nest = Nest::new(src.shape(), dst.strides(), src.strides());
    let (to, from) = (dst.as_mut_ptr(), src.as_ptr());
    // SAFETY: both values vouch for their layouts, the destination is the caller's alone.
    by_size!(src.dtype().size(), T => unsafe { nest.run_wide::<T>(to.cast(), from.cast(), ctx) })
}

/// Copies slice `i` of `src` along its first axis to `dst`; both are contiguous.
///
/// # Panics
/// When they are not, or the shapes do not fit.
pub fn read_slice(dst: &Value, src: &Value, i: usize) {
    let bytes = slice_bytes(src, dst, i);
    assert!(dst.is_contiguous(), "read_slice: not contiguous");
    let first = src.strides()[0] * (i * src.dtype().size()) as isize;
    // SAFETY: the slice lies inside, in row-major order, and the destination is the caller's alone.
    unsafe { std::ptr::copy_nonoverlapping(src.as_ptr().offset(first), dst.as_mut_ptr(), bytes) }
}

/// Copies `src` to slice `i` of `dst` along its first axis; both are contiguous.
///
/// # Panics
/// When they are not, or the shapes do not fit.
pub fn write_slice(dst: &Value, i: usize, src: &Value) {
    let bytes = slice_bytes(dst, src, i);
    assert!(src.is_contiguous(), "write_slice: not contiguous");
    let first = dst.strides()[0] * (i * dst.dtype().size()) as isize;
    // SAFETY: the slice lies inside, in row-major order, and the destination is the caller's alone.
    unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), dst.as_mut_ptr().offset(first), bytes) }
}

/// The bytes of a slice of `many`, which has to lie in row-major order and look like `one`.
fn slice_bytes(many: &Value, one: &Value, i: usize) -> usize {
    if one.aval().size() == 0 {
        return 0;
    }
    let mut step = 1;
    let inner = many.shape().iter().zip(many.strides()).skip(1).rev();
    for (&n, &stride) in inner {
        assert!(n <= 1 || stride == step, "a slice is not contiguous");
        step *= n as isize;
    }
    let fits = many.shape().first().is_some_and(|&n| i < n)
        && many.shape()[1..] == *one.shape()
        && many.dtype() == one.dtype();
    assert!(fits, "no slice {i} of {} is {}", many.aval(), one.aval());
    one.aval().nbytes()
}

/// Copies all elements; both are contiguous.
///
/// # Panics
/// When they are not, or differ in dtype or shape.
pub fn copy_whole(dst: &Value, src: &Value) {
    let fits = dst.aval() == src.aval() && dst.is_contiguous() && src.is_contiguous();
    assert!(fits, "copy_whole: {} to {}", src.aval(), dst.aval());
    // SAFETY: both have this many bytes in row-major order, and the destination is the caller's alone. They may be
    // parts of one buffer.
    unsafe { std::ptr::copy(src.as_ptr(), dst.as_mut_ptr(), src.aval().nbytes()) }
}

/// Writes one element, given by its bytes, everywhere into `dst`, a view of a storage that nobody
/// reads yet.
///
/// # Panics
/// When `element` has not the size of the dtype.
pub fn fill(dst: &Value, element: &[u8], ctx: &Ctx) -> Result<()> {
    assert_eq!(
        element.len(),
        dst.dtype().size(),
        "fill: an element of another size"
    );
    let still: Strides = SmallVec::from_elem(0, dst.shape().len());
    let nest = Nest::new(dst.shape(), dst.strides(), &still);
    let (to, from) = (dst.as_mut_ptr(), element.as_ptr());
    // SAFETY: the value vouches for its layout and is the caller's alone; the source is one element
    // of the right size that all steps of zero stay on.
    by_size!(element.len(), T => unsafe { nest.run_wide::<T>(to.cast(), from.cast(), ctx) })
}

/// A fresh array with one element, given by its bytes, everywhere.
pub fn full(aval: Aval, element: &[u8], ctx: &Ctx) -> Result<Value> {
    let out = Value::empty(aval)?;
    fill(&out, element, ctx)?;
    Ok(out)
}

/// A fresh array of zeros (`false` for bool).
pub fn zeros(aval: Aval, ctx: &Ctx) -> Result<Value> {
    let size = aval.dtype.size();
    full(aval, &[0; 16][..size], ctx)
}

#[cfg(test)]
mod tests;

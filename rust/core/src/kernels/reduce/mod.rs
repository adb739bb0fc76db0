//! Reductions, scans and orders over any axes, strides and dtypes.
//!
//! The fused interpreter reduces the layouts that matter most by itself; these loops take all the
//! others. A reduction cuts its axes into blocks of fixed size, folds each block, and combines the
//! blocks pairwise; blocks are a matter of shape and strides only, so the result has the same bits on
//! any number of threads, and the error of a sum grows with the logarithm of its length.
// Elements are read and written unaligned wherever they may be foreign.
#![allow(clippy::cast_ptr_alignment)]

mod order;
mod scan;

use smallvec::SmallVec;

use super::arithmetic::{BLOCK, Number, with_number};
use super::shared_pointer::Shared;
use super::{Ctx, ReduceOp, Value, spare};
use crate::aval::{Aval, DType, Shape, row_major, tuple};
use crate::error::{Error, Result};
pub use order::{argreduce, argsort};
pub use scan::*;

/// Elements that one unit of work folds before units are combined.
const CHUNK: usize = 1 << 16;
/// Elements that a task should at least be worth.
const TASK: usize = 1 << 15;
/// Rows that are folded one after the other before rows are combined pairwise.
const ROWS: usize = 16;

/// One axis: its length, and its steps in elements.
#[derive(Debug, Clone, Copy)]
struct Axis {
    len: usize,
    src: isize,
    out: isize,
}

type Axes = SmallVec<[Axis; 4]>;

/// The source offset of element `index` of the row-major order over these axes, and the out offset.
fn locate(axes: &[Axis], mut index: usize) -> (isize, isize) {
    let (mut src, mut out) = (0, 0);
    for axis in axes.iter().rev() {
        let i = (index % axis.len) as isize;
        index /= axis.len;
        src += i * axis.src;
        out += i * axis.out;
    }
    (src, out)
}

/// A walk along the reduced axes in row-major order.
struct Cursor<'a> {
    axes: &'a [Axis],
    index: SmallVec<[usize; 4]>,
    offset: isize,
}

impl<'a> Cursor<'a> {
    fn new(axes: &'a [Axis], start: usize) -> Cursor<'a> {
        let mut index = SmallVec::from_elem(0, axes.len());
        let mut rest = start;
        for (i, axis) in index.iter_mut().zip(axes).rev() {
            *i = rest % axis.len;
            rest /= axis.len;
        }
        Cursor {
            axes,
            index,
            offset: locate(axes, start).0,
        }
    }

    /// How many elements follow, the next one included, before the innermost axis ends.
    fn run(&self) -> usize {
        self.axes
            .last()
            .map_or(1, |a| a.len - self.index[self.axes.len() - 1])
    }

    /// Goes `n` elements on, at most to the end of the innermost axis.
    #[inline(always)]
    fn advance(&mut self, n: usize) {
        let Some(last) = self.axes.len().checked_sub(1) else {
            return;
        };
        self.index[last] += n;
        self.offset += n as isize * self.axes[last].src;
        let mut axis = last;
        while self.index[axis] == self.axes[axis].len {
            self.index[axis] = 0;
            self.offset -= self.axes[axis].len as isize * self.axes[axis].src;
            if axis == 0 {
                return;
            }
            axis -= 1;
            self.index[axis] += 1;
            self.offset += self.axes[axis].src;
        }
    }
}

/// Combines what is pushed as a balanced tree.
struct Pairwise<T> {
    stack: Vec<T>,
    count: usize,
}

impl<T> Pairwise<T> {
    fn new() -> Pairwise<T> {
        Pairwise {
            stack: Vec::new(),
            count: 0,
        }
    }

    #[inline(always)]
    fn push(&mut self, mut item: T, mut f: impl FnMut(T, T) -> T) {
        for _ in 0..self.count.trailing_ones() {
            if let Some(before) = self.stack.pop() {
                item = f(before, item);
            }
        }
        self.stack.push(item);
        self.count += 1;
    }

    fn finish(mut self, mut f: impl FnMut(T, T) -> T) -> Option<T> {
        let mut item = self.stack.pop()?;
        while let Some(before) = self.stack.pop() {
            item = f(before, item);
        }
        Some(item)
    }
}

/// The reduction of `src` over `axes` (in any order, each once); the result lacks these axes and
/// has the dtype of `src`. Half types are accumulated in `f32`; integers wrap; for bool `Sum` and
/// `Max` are *any*, `Prod` and `Min` *all*; NaN wins in `Max` and `Min`.
pub fn reduce(op: ReduceOp, src: &Value, axes: &[usize], ctx: &Ctx) -> Result<Value> {
    let kept: Shape = (0..src.shape().len())
        .filter(|a| !axes.contains(a))
        .map(|a| src.shape()[a])
        .collect();
    let out = Value::empty(Aval {
        dtype: src.dtype(),
        shape: kept,
    })?;
    let empty = axes.iter().any(|&a| src.shape()[a] == 0);
    let orderless = matches!(op, ReduceOp::Max | ReduceOp::Min);
    if empty && orderless && src.dtype() != DType::Bool && out.aval().size() > 0 {
        let name = if op == ReduceOp::Max { "max" } else { "min" };
        return Err(Error::Shape(format!(
            "{name}: an axis of shape {} is empty, and there is no {name} of no elements",
            tuple(src.shape())
        )));
    }
    with_number!(src.dtype(), T => {
        if empty || out.aval().size() == 0 {
            let nothing = matches!(op, ReduceOp::Sum | ReduceOp::Max);
            let element = if nothing { T::ZERO } else { T::ONE };
            // SAFETY: the result is fresh and holds this many elements.
            unsafe { fill(out.as_mut_ptr().cast(), out.aval().size(), element) };
        } else {
            // SAFETY: the result is fresh, and both values vouch for their layouts.
            unsafe {
                match op {
                    ReduceOp::Sum => fold::<T>(src, axes, &out, ctx, Number::plus)?,
                    ReduceOp::Prod => fold::<T>(src, axes, &out, ctx, Number::times)?,
                    ReduceOp::Max => fold::<T>(src, axes, &out, ctx, Number::larger)?,
                    ReduceOp::Min => fold::<T>(src, axes, &out, ctx, Number::smaller)?,
                }
            }
        }
    });
    Ok(out)
}

unsafe fn fill<T: Copy>(out: *mut T, n: usize, element: T) {
    for i in 0..n {
        // SAFETY: the caller vouches for `n` elements.
        unsafe { out.add(i).write_unaligned(element) };
    }
}

/// Sorts the axes of a non-empty source into kept and reduced ones, and chooses the loop order.
unsafe fn fold<T: Number>(
    src: &Value,
    axes: &[usize],
    out: &Value,
    ctx: &Ctx,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide + Copy + Send + Sync,
) -> Result<()> {
    let (mut kept, mut reduced) = (Axes::new(), Axes::new());
    let mut outs = row_major(out.shape()).into_iter();
    let mut base = src.as_ptr().cast::<T>();
    for (axis, (&len, &step)) in src.shape().iter().zip(src.strides()).enumerate() {
        if axes.contains(&axis) {
            // The order within a reduction is ours to choose: upwards.
            if step < 0 {
                base = base.wrapping_offset(step * (len as isize - 1));
            }
            reduced.push(Axis {
                len,
                src: step.abs(),
                out: 0,
            });
        } else {
            kept.push(Axis {
                len,
                src: step,
                out: outs.next().unwrap_or(0),
            });
        }
    }
    reduced.sort_by_key(|a| std::cmp::Reverse(a.src));
    merge(&mut kept);
    merge(&mut reduced);
    let near = reduced.last().map_or(isize::MAX, |a| a.src);
    let wide = (0..kept.len())
        .filter(|&i| kept[i].len >= 8 && kept[i].src.abs() < near)
        .min_by_key(|&i| kept[i].src.abs());
    let (base, to) = (
        Shared::new(base.cast_mut()),
        Shared::new(out.as_mut_ptr().cast::<T>()),
    );
    match wide {
        Some(i) => {
            let across = kept.remove(i);
            // SAFETY: the caller's promise.
            unsafe { fold_across::<T>(base, to, &kept, across, &reduced, ctx, f) }
        }
        // SAFETY: the caller's promise.
        None => unsafe { fold_along::<T>(base, to, &kept, &reduced, ctx, f) },
    }
}

/// Drops axes of length 1 and merges neighbours.
fn merge(axes: &mut Axes) {
    axes.retain(|a| a.len != 1);
    let mut merged = 0;
    for i in 1..axes.len() {
        let (outer, inner) = (axes[merged], axes[i]);
        let n = inner.len as isize;
        if outer.src == inner.src * n && outer.out == inner.out * n {
            axes[merged] = Axis {
                len: outer.len * inner.len,
                ..inner
            };
        } else {
            merged += 1;
            axes[merged] = inner;
        }
    }
    axes.truncate(merged + 1);
}

/// The elements in the source's densest direction belong to one result: fold blocks of them.
unsafe fn fold_along<T: Number>(
    base: Shared<T>,
    out: Shared<T>,
    kept: &[Axis],
    reduced: &[Axis],
    ctx: &Ctx,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide + Copy + Send + Sync,
) -> Result<()> {
    let results: usize = kept.iter().map(|a| a.len).product();
    let size: usize = reduced.iter().map(|a| a.len).product();
    let chunks = size.div_ceil(CHUNK);
    // SAFETY (both blocks): indices stay below the axes' lengths; tasks write different results.
    if chunks == 1 {
        let group = TASK.div_ceil(size);
        return ctx.for_each(results.div_ceil(group), |task| {
            for i in task * group..results.min((task + 1) * group) {
                let (s, o) = locate(kept, i);
                unsafe {
                    let x = fold_chunk::<T>(base.at(s), reduced, 0, size, f);
                    out.at(o).write_unaligned(T::narrow(x));
                }
            }
        });
    }
    spare(chunks.saturating_mul(size_of::<T::Wide>()))?;
    let mut partial = vec![T::Wide::ZERO; chunks];
    for i in 0..results {
        let (s, o) = locate(kept, i);
        let to = Shared::new(partial.as_mut_ptr());
        ctx.for_each(chunks, |c| unsafe {
            let n = CHUNK.min(size - c * CHUNK);
            to.at(c as isize)
                .write(fold_chunk::<T>(base.at(s), reduced, c * CHUNK, n, f));
        })?;
        let mut tree = Pairwise::new();
        for &x in &partial {
            tree.push(x, f);
        }
        if let Some(x) = tree.finish(f) {
            // SAFETY: as above.
            unsafe { out.at(o).write_unaligned(T::narrow(x)) };
        }
    }
    Ok(())
}

/// Folds `n` elements of the walk along `reduced`, from the one at `start`.
unsafe fn fold_chunk<T: Number>(
    base: *const T,
    reduced: &[Axis],
    start: usize,
    n: usize,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide + Copy,
) -> T::Wide {
    let step = reduced.last().map_or(0, |a| a.src);
    let mut cursor = Cursor::new(reduced, start);
    let mut tree = Pairwise::new();
    let mut buffer = [T::Wide::ZERO; BLOCK];
    let mut left = n;
    while left > 0 {
        let block = left.min(BLOCK);
        // SAFETY: the cursor stays on elements of the source.
        unsafe {
            let x = if T::NATIVE && step == 1 && cursor.run() >= block {
                let x = fold_block(base.offset(cursor.offset).cast(), block, f);
                cursor.advance(block);
                x
            } else {
                let mut done = 0;
                while done < block {
                    let run = cursor.run().min(block - done);
                    let line = &mut buffer[done..done + run];
                    T::widen_line(base.offset(cursor.offset), step, line);
                    cursor.advance(run);
                    done += run;
                }
                fold_block(buffer.as_ptr(), block, f)
            };
            tree.push(x, f);
        }
        left -= block;
    }
    tree.finish(f).unwrap_or(T::Wide::ZERO)
}

/// Folds `n > 0` neighbouring elements, at most a block: a full one in 64 lanes of four, a shorter
/// one in sixteen lanes.
#[inline(always)]
unsafe fn fold_block<W: Copy>(p: *const W, n: usize, f: impl Fn(W, W) -> W + Copy) -> W {
    const LANES: usize = BLOCK / 4;
    // SAFETY: all offsets are below `n`.
    unsafe {
        let at = |i: usize| p.add(i).read_unaligned();
        if n < 16 {
            return (1..n).fold(at(0), |x, i| f(x, at(i)));
        }
        if n == BLOCK {
            let mut lanes = [at(0); LANES];
            for (i, x) in lanes.iter_mut().enumerate() {
                let (low, high) = (
                    f(at(i), at(i + LANES)),
                    f(at(i + 2 * LANES), at(i + 3 * LANES)),
                );
                *x = f(low, high);
            }
            let mut sixteen = [lanes[0]; 16];
            for (i, x) in sixteen.iter_mut().enumerate() {
                *x = f(f(lanes[i], lanes[i + 16]), f(lanes[i + 32], lanes[i + 48]));
            }
            return halve(sixteen, f);
        }
        let mut lanes = p.cast::<[W; 16]>().read_unaligned();
        let mut i = 16;
        while i + 16 <= n {
            for (j, x) in lanes.iter_mut().enumerate() {
                *x = f(*x, at(i + j));
            }
            i += 16;
        }
        for (x, i) in lanes.iter_mut().zip(i..n) {
            *x = f(*x, at(i));
        }
        halve(lanes, f)
    }
}

/// Folds sixteen lanes.
#[inline(always)]
fn halve<W: Copy>(mut lanes: [W; 16], f: impl Fn(W, W) -> W) -> W {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] = f(lanes[i], lanes[i + half]);
        }
    }
    lanes[0]
}

/// The densest direction runs across results: fold rows of them.
unsafe fn fold_across<T: Number>(
    base: Shared<T>,
    out: Shared<T>,
    kept: &[Axis],
    across: Axis,
    reduced: &[Axis],
    ctx: &Ctx,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide + Copy + Send + Sync,
) -> Result<()> {
    let outer: usize = kept.iter().map(|a| a.len).product();
    let rows: usize = reduced.iter().map(|a| a.len).product();
    let width = across.len.min(BLOCK);
    let tiles = outer * across.len.div_ceil(BLOCK);
    let per_chunk = (CHUNK / width).max(ROWS);
    let chunks = rows.div_ceil(per_chunk);
    let locate_tile = |tile: usize| {
        let (s, o) = locate(kept, tile % outer);
        let j = tile / outer * BLOCK;
        let (s, o) = (s + j as isize * across.src, o + j as isize * across.out);
        (s, o, BLOCK.min(across.len - j))
    };
    // SAFETY (all blocks): tiles and rows stay within the axes; tasks write different results.
    let store = |o: isize, tile: &[T::Wide]| {
        for (j, &x) in tile.iter().enumerate() {
            unsafe {
                out.at(o + j as isize * across.out)
                    .write_unaligned(T::narrow(x));
            }
        }
    };
    if chunks == 1 {
        let group = TASK.div_ceil(rows * width);
        return ctx.for_each(tiles.div_ceil(group), |task| {
            for i in task * group..tiles.min((task + 1) * group) {
                let (s, o, n) = locate_tile(i);
                let x = unsafe { fold_rows::<T>(base.at(s), across.src, n, reduced, 0, rows, f) };
                store(o, &x[..n]);
            }
        });
    }
    spare(chunks.saturating_mul(size_of::<Tile<T::Wide>>()))?;
    let mut partial = vec![Tile([T::Wide::ZERO; BLOCK]); chunks];
    for i in 0..tiles {
        let (s, o, n) = locate_tile(i);
        let to = Shared::new(partial.as_mut_ptr());
        ctx.for_each(chunks, |c| unsafe {
            let count = per_chunk.min(rows - c * per_chunk);
            let start = c * per_chunk;
            let x = fold_rows::<T>(base.at(s), across.src, n, reduced, start, count, f);
            to.at(c as isize).write(Tile(x));
        })?;
        let mut tree = Pairwise::new();
        for x in &partial {
            tree.push(x.0, |a, b| zip(a, &b, n, f));
        }
        if let Some(x) = tree.finish(|a, b| zip(a, &b, n, f)) {
            store(o, &x[..n]);
        }
    }
    Ok(())
}

/// A row of results.
#[derive(Clone, Copy)]
struct Tile<W>([W; BLOCK]);

#[inline(always)]
fn zip<W: Copy>(mut a: [W; BLOCK], b: &[W; BLOCK], n: usize, f: impl Fn(W, W) -> W) -> [W; BLOCK] {
    for (x, &y) in a[..n].iter_mut().zip(&b[..n]) {
        *x = f(*x, y);
    }
    a
}

/// Folds `count` rows of `n` elements, `step` apart, from row `start` of the walk along `reduced`.
unsafe fn fold_rows<T: Number>(
    base: *const T,
    step: isize,
    n: usize,
    reduced: &[Axis],
    start: usize,
    count: usize,
    f: impl Fn(T::Wide, T::Wide) -> T::Wide + Copy,
) -> [T::Wide; BLOCK] {
    let mut cursor = Cursor::new(reduced, start);
    let mut tree = Pairwise::new();
    let mut buffer = [T::Wide::ZERO; BLOCK];
    let mut left = count;
    while left > 0 {
        let block = left.min(ROWS);
        let mut rows = [T::Wide::ZERO; BLOCK];
        // SAFETY (all blocks): the cursor stays on rows of the source, `j` below their length.
        unsafe { T::widen_line(base.offset(cursor.offset), step, &mut rows[..n]) };
        cursor.advance(1);
        let mut done = 1;
        if T::NATIVE && step == 1 {
            // Four rows at a time spare three of four trips of the accumulators to memory.
            while done + 4 <= block {
                let next = [0; 4].map(|_| {
                    let p = unsafe { base.offset(cursor.offset) }.cast::<T::Wide>();
                    cursor.advance(1);
                    p
                });
                let [p0, p1, p2, p3] = next;
                let at = |p: *const T::Wide, j: usize| unsafe { p.add(j).read_unaligned() };
                for (j, x) in rows[..n].iter_mut().enumerate() {
                    let (low, high) = (f(at(p0, j), at(p1, j)), f(at(p2, j), at(p3, j)));
                    *x = f(*x, f(low, high));
                }
                done += 4;
            }
        }
        for _ in done..block {
            unsafe { T::widen_line(base.offset(cursor.offset), step, &mut buffer[..n]) };
            cursor.advance(1);
            rows = zip(rows, &buffer, n, f);
        }
        tree.push(rows, |a, b| zip(a, &b, n, f));
        left -= block;
    }
    tree.finish(|a, b| zip(a, &b, n, f))
        .unwrap_or([T::Wide::ZERO; BLOCK])
}

#[cfg(test)]
mod tests;

//! Convolutions as products of matrices whose patches are gathered tile by tile, into memory that
//! stays in the second-level cache: the large matrix of all patches is never there.
//!
//! With `n` images, `g` groups, `c` channels of a group, `o` results of a group, `k` taps and `p` places
//! the result is `(o, ck) @ (ck, np)` for each group. Where there are more places than taps (forward,
//! and back to the images) a tile has all of `ck` and some of `np`. Where there are more taps than
//! places (back to the kernel: the taps are the places of the forward product) the sum is long, so a
//! tile has a part of `ck` too, and partial sums are added up in an order that depends on shapes only.
#![allow(clippy::cast_ptr_alignment)]

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::gemm::matmul;
use super::simd_level::{Level, leveled};
use super::strided::{add_into, contiguous, copy_into, zeros};
use super::{Ctx, Value};
use crate::aval::{Aval, Shape, SliceDim, WindowDim};
use crate::error::Result;

/// Bytes of a tile of patches.
const TILE: usize = 1 << 18;
/// Products that make spreading the tiles over threads worth while.
const WIDE: usize = 1 << 20;
/// From this many taps on, a part of the sum is taken from one channel, with the kernel where it lies.
const MANY: usize = 128;
/// Into how many tasks a long sum is cut, however many threads there are.
const PARTS: usize = 16;

/// An element that is moved and never looked at, but for zero.
trait Bits: Copy {
    const ZERO: Self;
}
impl Bits for u32 {
    const ZERO: u32 = 0;
}
impl Bits for u64 {
    const ZERO: u64 = 0;
}
impl Bits for u128 {
    const ZERO: u128 = 0;
}

/// One axis of an image, seen by an outer and an inner index: element `(i * inner + j * outer - pad) /
/// expansion`, steps in elements.
#[derive(Debug, Clone, Copy)]
struct Axis {
    size: isize,
    step: isize,
    pad: isize,
    expansion: isize,
    outer: isize,
    inner: isize,
}

impl Axis {
    /// Where a position lies, if it is an element.
    #[inline(always)]
    fn find(&self, at: isize) -> Option<isize> {
        if self.expansion == 1 {
            return (at >= 0 && at < self.size).then(|| at * self.step);
        }
        let index = at / self.expansion;
        (at >= 0 && at % self.expansion == 0 && index < self.size).then(|| index * self.step)
    }
}

/// How the rows of a tile are gathered: a row has one outer index, an element of it one inner index.
#[derive(Debug, Clone, Copy)]
struct Lines {
    axes: [Axis; 3],
    outer: [usize; 3],
    inner: [usize; 3],
    /// From one plane to the next; a plane has rows for each outer index.
    plane: isize,
}

#[inline(always)]
fn ceil(a: isize, by: isize) -> isize {
    if by == 1 { a } else { (a + by - 1) / by }
}

/// A run along the last axis: `to[j]` is what inner index `j` sees from position `at`.
#[inline(always)]
unsafe fn run<T: Bits>(axis: &Axis, from: *const T, at: isize, to: *mut T, len: usize) {
    let by = axis.inner;
    // SAFETY: indices are checked against the length of the axis; `to` has `len` elements.
    unsafe {
        if axis.expansion == 1 {
            let len = len as isize;
            let lead = if at >= 0 { 0 } else { ceil(-at, by).min(len) };
            let stop = ceil((axis.size - at).max(0), by).min(len).max(lead);
            for j in 0..lead {
                to.offset(j).write(T::ZERO);
            }
            if by * axis.step == 1 {
                let count = (stop - lead) as usize;
                from.offset(at + lead)
                    .cast::<u8>()
                    .copy_to(to.offset(lead).cast(), count * size_of::<T>());
            } else {
                for j in lead..stop {
                    let element = from.offset((at + j * by) * axis.step);
                    to.offset(j).write(element.read_unaligned());
                }
            }
            for j in stop..len {
                to.offset(j).write(T::ZERO);
            }
        } else {
            for j in 0..len {
                let found = axis.find(at + j as isize * by);
                let element = found.map_or(T::ZERO, |by| from.offset(by).read_unaligned());
                to.add(j).write(element);
            }
        }
    }
}

#[inline(always)]
unsafe fn clear<T: Bits>(to: *mut T, range: Range<isize>) {
    for q in range {
        // SAFETY: the caller's promise: there is room.
        unsafe { to.offset(q).write(T::ZERO) };
    }
}

/// A plane of the last two axes as it is seen from another place: the rows of the result are as long as those
/// of the image and lie one behind the other, so that what is seen is one run of memory, but for the elements
/// beside the image. `to[q]` for `within` is what inner index `q` sees.
#[inline(always)]
unsafe fn shifted<T: Bits>(
    [rows, columns]: [&Axis; 2],
    from: *const T,
    [down, right]: [isize; 2],
    to: *mut T,
    within: Range<isize>,
) {
    let (n, width) = (rows.size, columns.size);
    // The rows that see rows of the image.
    let seen = (-down * width).max(within.start)..((n - down) * width).min(within.end);
    let shift = down * width + right;
    let copied = seen.start.max(-shift)..seen.end.min(n * width - shift);
    // SAFETY: the caller's promise: `to` has room for `within`; what is copied lies inside of the plane.
    unsafe {
        let start = to.wrapping_offset(-within.start);
        if seen.is_empty() {
            return clear(start, within);
        }
        clear(start, within.start..seen.start);
        clear(start, seen.end..within.end);
        if copied.is_empty() {
            return clear(start, seen);
        }
        clear(start, seen.start..copied.start);
        clear(start, copied.end..seen.end);
        from.offset(copied.start + shift).cast::<u8>().copy_to(
            to.offset(copied.start - within.start).cast(),
            copied.len() * size_of::<T>(),
        );
        // What lies beside a row of the image lies in another row of its memory.
        let beside = if right < 0 {
            0..(-right).min(width)
        } else {
            (width - right).max(0)..width
        };
        if !beside.is_empty() {
            for row in seen.start / width..(seen.end + width - 1) / width {
                let first = row * width;
                clear(
                    start,
                    (first + beside.start).max(seen.start)..(first + beside.end).min(seen.end),
                );
            }
        }
    }
}

leveled! {
    /// Rows `rows` of a tile, inner indices `within`, to rows `pitch` elements apart.
    fn gather[T: Bits](
        lines: &Lines,
        from: *const T,
        rows: Range<usize>,
        within: Range<usize>,
        to: *mut T,
        pitch: usize,
    ) {
        let [a, b, c] = &lines.axes;
        let [_, n1, n2] = lines.outer;
        let [_, m1, m2] = lines.inner;
        let planes = lines.outer.iter().product::<usize>();
        let alike = b.expansion == 1 && c.expansion == 1 && b.inner == 1 && c.inner == 1
            && c.step == 1 && b.step == c.size && c.size == m2 as isize && lines.inner[0] == 1;
        for (row, r) in rows.enumerate() {
            let (plane, rest) = (r / planes, r % planes);
            let (j0, j1, j2) = (rest / n2 / n1, rest / n2 % n1, rest % n2);
            let from = from.wrapping_offset(plane as isize * lines.plane);
            let (at0, at1) = (j0 as isize * a.outer - a.pad, j1 as isize * b.outer - b.pad);
            let at2 = j2 as isize * c.outer - c.pad;
            if alike {
                let to = to.wrapping_add(row * pitch);
                let within = within.start as isize..within.end as isize;
                // SAFETY: as below.
                unsafe {
                    match a.find(at0) {
                        Some(s0) => shifted([b, c], from.wrapping_offset(s0), [at1, at2], to, within),
                        None => for j in 0..within.len() {
                            to.add(j).write(T::ZERO);
                        },
                    }
                }
                continue;
            }
            let mut i = within.start;
            let (mut i0, mut i1, mut i2) = (i / m2 / m1, i / m2 % m1, i % m2);
            while i < within.end {
                let len = (m2 - i2).min(within.end - i);
                let to = to.wrapping_add(row * pitch + i - within.start);
                let place = a.find(at0 + i0 as isize * a.inner)
                    .zip(b.find(at1 + i1 as isize * b.inner));
                // SAFETY: the caller's promise: the steps reach the image's elements, and there is
                // room for a row of `within`.
                unsafe {
                    match place {
                        Some((s0, s1)) => {
                            let at = at2 + i2 as isize * c.inner;
                            run(c, from.wrapping_offset(s0 + s1), at, to, len);
                        }
                        None => for j in 0..len {
                            to.add(j).write(T::ZERO);
                        },
                    }
                }
                i += len;
                i2 = 0;
                i1 += 1;
                if i1 == m1 {
                    (i0, i1) = (i0 + 1, 0);
                }
            }
        }
    }
}

/// Shapes of a convolution; lengths of at most three axes, filled up with ones in front.
#[derive(Debug, Clone, Copy)]
struct Job<'a> {
    x: &'a Value,
    n: usize,
    g: usize,
    c: usize,
    o: usize,
    taps: [usize; 3],
    places: [usize; 3],
    windows: [WindowDim; 3],
}

impl Job<'_> {
    /// `along` places: rows of taps, elements of places; otherwise the other way round.
    fn lines(&self, along: bool) -> Lines {
        let shift = 3 - (self.x.shape().len() - 3);
        let axis = |i: usize| {
            let d = self.windows[i];
            let (size, step) = if i < shift {
                (1, 0)
            } else {
                let at = 3 + i - shift;
                (self.x.shape()[at] as isize, self.x.strides()[at])
            };
            let (stride, dilation) = (d.stride as isize, d.dilation as isize);
            Axis {
                size,
                step,
                pad: d.pad,
                expansion: d.expansion as isize,
                outer: if along { dilation } else { stride },
                inner: if along { stride } else { dilation },
            }
        };
        Lines {
            axes: [axis(0), axis(1), axis(2)],
            outer: if along { self.taps } else { self.places },
            inner: if along { self.places } else { self.taps },
            plane: self.x.strides()[if along { 2 } else { 0 }],
        }
    }

    /// Gathers rows of a tile from a group, and from image `at` (`along`) or channel `at`.
    fn gather(
        &self,
        lines: &Lines,
        from: (usize, usize, bool),
        rows: Range<usize>,
        within: Range<usize>,
        to: &Value,
        shift: usize,
    ) {
        let (group, at, along) = from;
        let strides = self.x.strides();
        let start = group as isize * strides[1] + at as isize * strides[if along { 0 } else { 2 }];
        let pitch = to.shape()[1];
        macro_rules! of {
            ($t:ty) => {{
                let source = self.x.as_ptr().cast::<$t>().wrapping_offset(start);
                let target = to.as_mut_ptr().cast::<$t>().wrapping_add(shift);
                // SAFETY: the machine has this level; rows and columns lie in the tile, which is this
                // task's alone, and the strides are the image's.
                unsafe { gather::<$t>(Level::best())(lines, source, rows, within, target, pitch) }
            }};
        }
        match self.x.dtype().size() {
            4 => of!(u32),
            8 => of!(u64),
            _ => of!(u128),
        }
    }

    /// Writes columns `columns` (of images and places) of the product of a group.
    fn store(
        &self,
        out: &Value,
        group: usize,
        columns: &Range<usize>,
        y: &Value,
        ctx: &Ctx,
    ) -> Result<()> {
        let p = count(&self.places);
        for (image, part) in cut(columns, p) {
            let shift = image * p + part.start - columns.start;
            let len = part.len();
            let (rows, all) = (one(0, self.o), one(group, 1));
            let dims = [one(image, 1), all, rows, one(part.start, len)];
            let to = out
                .sliced(&dims)
                .reshaped(&[self.o, len])
                .expect("axes of length one take no part");
            copy_into(&to, &y.sliced(&[rows, one(shift, len)]), ctx)?;
        }
        Ok(())
    }
}

fn one(start: usize, len: usize) -> SliceDim {
    SliceDim {
        start,
        len,
        step: 1,
    }
}

fn count(axes: &[usize; 3]) -> usize {
    axes.iter().product()
}

/// A view of another shape, or a copy where there is none.
fn flat(x: &Value, shape: &[usize], ctx: &Ctx) -> Result<Value> {
    match x.reshaped(shape) {
        Some(view) => Ok(view),
        None => Ok(contiguous(x, ctx)?
            .reshaped(shape)
            .expect("a row-major array has every shape of its size")),
    }
}

/// The parts of a range that lie in one block of `len`, each with the number of its block.
fn cut(range: &Range<usize>, len: usize) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
    let (start, end) = (range.start, range.end);
    (start / len..end.div_ceil(len)).map(move |block| {
        let first = block * len;
        (
            block,
            start.max(first) - first..end.min(first + len) - first,
        )
    })
}

/// Pieces of `0..n`, `len` long but for the last.
fn pieces(n: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n)
        .step_by(len.max(1))
        .map(move |start| start..n.min(start + len))
}

/// Calls `f(0) .. f(n - 1)`, perhaps on several threads, and gives the first error.
fn each(
    ctx: &Ctx,
    wide: bool,
    n: usize,
    f: impl Fn(usize) -> Result<()> + Sync + Send,
) -> Result<()> {
    let failed = Mutex::new(None);
    let ctx = if wide { *ctx } else { ctx.alone() };
    ctx.for_each(n, |i| {
        if let Err(error) = f(i) {
            failed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error);
        }
    })?;
    failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

/// The convolution (without turning the kernel round) of images `x`, `(n, g, c, ...)`, with kernels `w`,
/// `(g, o, c, ...)`, to `(n, g, o, ...)`. Shapes and windows, of one to three axes, have been checked.
pub fn conv(x: &Value, w: &Value, windows: &[WindowDim], out: &Aval, ctx: &Ctx) -> Result<Value> {
    if out.size() == 0 {
        return Value::empty(out.clone());
    }
    if w.aval().size() == 0 || x.aval().size() == 0 {
        return zeros(out.clone(), ctx);
    }
    let mut job = Job {
        x,
        n: x.shape()[0],
        g: x.shape()[1],
        c: x.shape()[2],
        o: w.shape()[1],
        taps: [1; 3],
        places: [1; 3],
        windows: [WindowDim {
            size: 1,
            len: 1,
            pad: 0,
            stride: 1,
            dilation: 1,
            expansion: 1,
        }; 3],
    };
    let shift = 3 - windows.len();
    for (i, d) in windows.iter().enumerate() {
        job.windows[shift + i] = *d;
        job.taps[shift + i] = d.len;
        job.places[shift + i] = d.size;
    }
    let (k, p) = (count(&job.taps), count(&job.places));
    if k == 1
        && windows
            .iter()
            .zip(&x.shape()[3..])
            .all(|(d, &n)| is_whole(d, n))
    {
        return pointwise(&job, w, out, ctx);
    }
    let shape = [job.n, job.g, job.o, p];
    let result = Value::empty(Aval {
        dtype: out.dtype,
        shape: Shape::from_slice(&shape),
    })?;
    if k > p {
        long(&job, w, &result, ctx)?;
    } else {
        short(&job, w, &result, ctx)?;
    }
    flat(&result, &out.shape, ctx)
}

/// Whether a window of one tap sees each element at its own place.
fn is_whole(d: &WindowDim, length: usize) -> bool {
    d.pad == 0 && d.stride == 1 && d.expansion == 1 && d.size == length
}

/// One tap: a product of matrices, of the images as they are.
fn pointwise(job: &Job, w: &Value, out: &Aval, ctx: &Ctx) -> Result<Value> {
    let images = flat(job.x, &[job.n, job.g, job.c, count(&job.places)], ctx)?;
    let kernels = flat(w, &[job.g, job.o, job.c], ctx)?;
    flat(&matmul(&kernels, &images, ctx)?, &out.shape, ctx)
}

/// Tiles with the whole sum and some of the columns.
fn short(job: &Job, w: &Value, out: &Value, ctx: &Ctx) -> Result<()> {
    let (k, p) = (count(&job.taps), count(&job.places));
    let (terms, columns) = (job.c * k, job.n * p);
    let w = flat(&contiguous(w, ctx)?, &[job.g, job.o, terms], ctx)?;
    let size = out.dtype().size();
    // Long runs, and a multiple of what vectors hold.
    let tile = (TILE / (terms * size)).clamp(64, 2048).next_multiple_of(32);
    let tiles: Vec<_> = pieces(columns, tile).collect();
    let lines = job.lines(true);
    let alone = ctx.alone();
    let wide = terms * columns * job.o * job.g >= WIDE;
    each(ctx, wide, job.g * tiles.len(), |task| {
        let (group, columns) = (task / tiles.len(), &tiles[task % tiles.len()]);
        let patches = Value::empty(Aval {
            dtype: out.dtype(),
            shape: Shape::from_slice(&[terms, columns.len()]),
        })?;
        for (image, part) in cut(columns, p) {
            let shift = image * p + part.start - columns.start;
            job.gather(
                &lines,
                (group, image, true),
                0..terms,
                part,
                &patches,
                shift,
            );
        }
        let dims = [one(group, 1), one(0, job.o), one(0, terms)];
        let kernels = flat(&w.sliced(&dims), &[job.o, terms], &alone)?;
        let y = matmul(&kernels, &patches, &alone)?;
        job.store(out, group, columns, &y, &alone)
    })
}

/// Tiles with some of the sum and some of the columns.
fn long(job: &Job, w: &Value, out: &Value, ctx: &Ctx) -> Result<()> {
    let (k, p) = (count(&job.taps), count(&job.places));
    let (terms, columns) = (job.c * k, job.n * p);
    let whole = [job.g, job.o, job.c, k];
    // With many taps a part of the sum stays in one channel, whose kernel may lie anywhere.
    let by_channel = k >= MANY;
    let w = match w.reshaped(&whole) {
        Some(view) if by_channel => view,
        _ => flat(&contiguous(w, ctx)?, &whole, ctx)?,
    };
    let size = out.dtype().size();
    let across: Vec<_> = pieces(columns, 512).collect();
    let depth = (TILE / (columns.min(512) * size))
        .clamp(64, 2048)
        .next_multiple_of(16);
    let down: Vec<_> = if by_channel {
        (0..job.c)
            .flat_map(|c| pieces(k, depth).map(move |r| c * k + r.start..c * k + r.end))
            .collect()
    } else {
        pieces(terms, depth).collect()
    };
    let cells = job.g * across.len();
    let parts = (PARTS / cells).clamp(1, down.len());
    let lines = job.lines(false);
    let alone = ctx.alone();
    let sums: Vec<Mutex<Option<Value>>> = (0..cells * parts).map(|_| Mutex::new(None)).collect();
    let wide = terms * columns * job.o * job.g >= WIDE;
    each(ctx, wide, cells * parts, |task| {
        let (cell, part) = (task / parts, task % parts);
        let (group, columns) = (cell / across.len(), &across[cell % across.len()]);
        let mut sum: Option<Value> = None;
        for range in &down[part * down.len() / parts..(part + 1) * down.len() / parts] {
            ctx.check()?;
            let patches = Value::empty(Aval {
                dtype: out.dtype(),
                shape: Shape::from_slice(&[columns.len(), range.len()]),
            })?;
            for (channel, taps) in cut(range, k) {
                let shift = channel * k + taps.start - range.start;
                let from = (group, channel, false);
                job.gather(&lines, from, columns.clone(), taps, &patches, shift);
            }
            let rows = one(0, job.o);
            let kernels = if by_channel {
                let dims = [
                    one(group, 1),
                    rows,
                    one(range.start / k, 1),
                    one(range.start % k, range.len()),
                ];
                w.sliced(&dims)
            } else {
                let rows_of_terms = flat(&w, &[job.g, job.o, terms], &alone)?;
                rows_of_terms.sliced(&[one(group, 1), rows, one(range.start, range.len())])
            };
            let kernels = flat(&kernels, &[job.o, range.len()], &alone)?;
            let y = matmul(&kernels, &patches.transposed(&[1, 0]), &alone)?;
            match &sum {
                None => sum = Some(y),
                Some(sum) => add_into(sum, &y, &alone)?,
            }
        }
        *sums[task].lock().unwrap_or_else(PoisonError::into_inner) = sum;
        Ok(())
    })?;
    for (cell, parts) in sums.chunks(parts).enumerate() {
        let mut total: Option<Value> = None;
        for part in parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner).take();
            match (&total, part) {
                (Some(total), Some(part)) => add_into(total, &part, ctx)?,
                (None, part) => total = part,
                _ => {}
            }
        }
        if let Some(total) = total {
            let (group, columns) = (cell / across.len(), &across[cell % across.len()]);
            job.store(out, group, columns, &total, ctx)?;
        }
    }
    Ok(())
}

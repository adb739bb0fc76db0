//! Inputs that do not lie contiguously: a walk over their elements, a tile at a time.

use smallvec::SmallVec;

use super::row_kernels::{equal_rows, expand};
use crate::kernels::Value;

/// How a tile of an input is found.
#[derive(Debug)]
pub(super) enum Source {
    /// Contiguous, at this address.
    Direct(*const u8),
    /// One element for the whole space.
    Splat(*const u8),
    /// The same elements, so many and contiguous, again and again: a tile inside them is read where it
    /// lies.
    Periodic(Strided, usize),
    /// Anything else.
    Strided(Strided),
}

/// A layout with as few axes as it takes: each is its length and its stride in elements.
#[derive(Debug)]
pub(super) struct Strided {
    ptr: *const u8,
    axes: SmallVec<[(usize, isize); 4]>,
}

// SAFETY: the pointers are only read, from memory that outlives the run and is not written.
unsafe impl Sync for Source {}
// SAFETY: as above.
unsafe impl Send for Source {}

impl Source {
    /// How the elements of a value, broadcast to `shape`, are read. A contiguous one is gathered all
    /// the same when `gather` says so or when its memory is not aligned.
    pub(super) fn new(value: &Value, shape: &[usize], gather: bool) -> Source {
        let ptr = value.as_ptr();
        let aligned = ptr.addr() & (value.dtype().size().min(8) - 1) == 0;
        if value.shape() == shape && aligned && !gather && value.is_contiguous() {
            return Source::Direct(ptr);
        }
        let missing = shape.len() - value.shape().len();
        let mut axes: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for (i, &d) in shape.iter().enumerate().filter(|&(_, &d)| d != 1) {
            let stride = match i.checked_sub(missing) {
                Some(j) if value.shape()[j] != 1 => value.strides()[j],
                _ => 0,
            };
            match axes.last_mut() {
                // Neighbours that one stride covers are one axis.
                Some((length, outer)) if *outer == stride * d as isize => {
                    *length *= d;
                    *outer = stride;
                }
                _ => axes.push((d, stride)),
            }
        }
        match axes.as_slice() {
            [] | [(_, 0)] => Source::Splat(ptr),
            [(_, 1)] if aligned && !gather => Source::Direct(ptr),
            &[(_, 0), (period, 1)] if aligned && !gather => {
                Source::Periodic(Strided { ptr, axes }, period)
            }
            _ => Source::Strided(Strided { ptr, axes }),
        }
    }
}

impl Source {
    /// The same layout at another address.
    pub(super) fn at(&self, ptr: *const u8) -> Source {
        let moved = |strided: &Strided| Strided {
            ptr,
            axes: SmallVec::from_slice(&strided.axes),
        };
        match self {
            Source::Direct(_) => Source::Direct(ptr),
            Source::Splat(_) => Source::Splat(ptr),
            Source::Periodic(strided, period) => Source::Periodic(moved(strided), *period),
            Source::Strided(strided) => Source::Strided(moved(strided)),
        }
    }
}

/// Writes `n` copies of the element at `ptr`, which may be unaligned.
pub(super) unsafe fn splat(ptr: *const u8, size: usize, out: *mut u8, n: usize) {
    // SAFETY: the caller passes an element of this size, and room for `n` aligned ones.
    unsafe {
        match size {
            1 => run::<u8>(ptr, 0, out, n),
            2 => run::<u16>(ptr, 0, out, n),
            4 => run::<u32>(ptr, 0, out, n),
            8 => run::<u64>(ptr, 0, out, n),
            _ => run::<[u64; 2]>(ptr, 0, out, n),
        }
    }
}

/// Copies `n` elements that lie `stride` apart.
#[inline(always)]
unsafe fn run<T: Copy>(ptr: *const u8, stride: isize, out: *mut u8, n: usize) {
    let (x, out) = (ptr.cast::<T>(), out.cast::<T>());
    // SAFETY: the caller passes `n` elements, perhaps unaligned, and room for `n` aligned ones.
    unsafe {
        match stride {
            1 => std::ptr::copy_nonoverlapping(ptr, out.cast::<u8>(), n * size_of::<T>()),
            0 => {
                let x = x.read_unaligned();
                std::slice::from_raw_parts_mut(out.cast::<std::mem::MaybeUninit<T>>(), n)
                    .fill(std::mem::MaybeUninit::new(x));
            }
            _ => {
                for i in 0..n {
                    out.add(i)
                        .write(x.offset(i as isize * stride).read_unaligned());
                }
            }
        }
    }
}

/// Copies the first `filled` bytes of `out` again and again, until there are `all`.
unsafe fn repeat_bytes(out: *mut u8, mut filled: usize, all: usize) {
    while filled < all {
        let bytes = filled.min(all - filled);
        // SAFETY: the caller passes room for `all` bytes, of which the first `filled` are there.
        unsafe { std::ptr::copy_nonoverlapping(out, out.add(filled), bytes) };
        filled += bytes;
    }
}

/// The longest rows that are copied many at a time: a call of `run` for each takes longer than the copy.
const SHORT: usize = 16;

/// Copies `rows` rows of `length` elements: rows lie `outer` apart, their elements `inner`.
#[inline(always)]
unsafe fn short_rows<T: Copy>(
    ptr: *const u8,
    rows: usize,
    length: usize,
    (outer, inner): (isize, isize),
    out: *mut u8,
) {
    let (x, out) = (ptr.cast::<T>(), out.cast::<T>());
    for row in 0..rows {
        for i in 0..length {
            // SAFETY: the caller passes so many elements, perhaps unaligned, and room for as many aligned ones.
            unsafe {
                let at = row as isize * outer + i as isize * inner;
                out.add(row * length + i)
                    .write(x.offset(at).read_unaligned());
            }
        }
    }
}

/// From so many equal rows on the first one is copied, then what is there already.
const EQUAL_ROWS: usize = 8;

/// The same, with loops for the lengths of points and pairs, and for rows that are equal or repeat one element.
unsafe fn rows_of<T: Copy>(
    ptr: *const u8,
    rows: usize,
    length: usize,
    strides: (isize, isize),
    out: *mut u8,
) {
    let size = size_of::<T>();
    // SAFETY: the caller's contract; kernels get aligned elements.
    unsafe {
        if strides == (0, 1) && rows > 1 && size == 8 && (2..=SHORT).contains(&length) {
            return equal_rows(length)(ptr, rows, length, out);
        }
        if strides == (0, 1) && (rows >= EQUAL_ROWS || length > SHORT) {
            std::ptr::copy_nonoverlapping(ptr, out, length * size);
            return repeat_bytes(out, length * size, rows * length * size);
        }
        if strides == (1, 0) && matches!(size, 4 | 8) && ptr.addr() & (size - 1) == 0 {
            return expand(size, length)(ptr, rows, length, out);
        }
        match length {
            2 => short_rows::<T>(ptr, rows, 2, strides, out),
            3 => short_rows::<T>(ptr, rows, 3, strides, out),
            4 => short_rows::<T>(ptr, rows, 4, strides, out),
            _ => short_rows::<T>(ptr, rows, length, strides, out),
        }
    }
}

impl Strided {
    /// Whether elements that lie so many positions apart in the space are the same, for all positions.
    pub(super) fn is_same_every(&self, step: usize) -> bool {
        let [(_, 0), rest @ ..] = self.axes.as_slice() else {
            return false;
        };
        let period: usize = rest.iter().map(|axis| axis.0).product();
        step > 0 && step.is_multiple_of(period.max(1))
    }

    /// Where elements from `start` on lie, if they are those of one period.
    pub(super) fn inside(
        &self,
        size: usize,
        start: usize,
        n: usize,
        period: usize,
    ) -> Option<*const u8> {
        let first = start % period;
        (first + n <= period).then(|| self.ptr.wrapping_add(first * size))
    }

    /// Copies elements `start .. start + n` of the space to `out`.
    ///
    /// # Safety
    /// They lie in the space, the value is alive, and `out` has room for them.
    pub(super) unsafe fn gather(&self, size: usize, start: usize, n: usize, out: *mut u8) {
        // SAFETY: the caller's contract.
        unsafe {
            match size {
                1 => self.gather_as::<u8>(start, n, out),
                2 => self.gather_as::<u16>(start, n, out),
                4 => self.gather_as::<u32>(start, n, out),
                8 => self.gather_as::<u64>(start, n, out),
                _ => self.gather_as::<[u64; 2]>(start, n, out),
            }
        }
    }

    unsafe fn gather_as<T: Copy>(&self, start: usize, n: usize, out: *mut u8) {
        // Where the outermost axis repeats the others, one period is walked and then copied.
        let (mut axes, mut first, mut left) = (self.axes.as_slice(), start, n);
        if let [(_, 0), rest @ ..] = axes {
            let period: usize = rest.iter().map(|a| a.0).product();
            if n > period {
                axes = rest;
                first = start % period;
                left = period;
            }
        }
        let period = left;
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, axes.len());
        let mut position = 0isize;
        let mut rest = first;
        for (i, &(length, stride)) in index.iter_mut().zip(axes).rev() {
            *i = rest % length;
            rest /= length;
            position += *i as isize * stride;
        }
        let Some((&(length, stride), outer)) = axes.split_last() else {
            return;
        };
        let item = size_of::<T>() as isize;
        let mut to = out;
        // SAFETY: positions stay inside the layout, because every index stays below its length (the
        // outermost wraps only where the walk is periodic); `out` has room for `n` elements.
        unsafe {
            loop {
                let done = index[outer.len()];
                let from = self.ptr.offset(position * item);
                let rows = match outer.last() {
                    Some(&(all, between))
                        if done == 0 && (length <= SHORT || (stride, between) == (1, 0)) =>
                    {
                        (left / length).min(all - index[outer.len() - 1])
                    }
                    _ => 0,
                };
                let m = if let (2.., Some(&(_, between))) = (rows, outer.last()) {
                    rows_of::<T>(from, rows, length, (between, stride), to);
                    // The last of them is left below.
                    index[outer.len() - 1] += rows - 1;
                    position += (rows - 1) as isize * between;
                    rows * length
                } else {
                    let m = left.min(length - done);
                    run::<T>(from, stride, to, m);
                    m
                };
                to = to.add(m * size_of::<T>());
                left -= m;
                if left == 0 {
                    break;
                }
                position -= done as isize * stride;
                index[outer.len()] = 0;
                for (i, &(length, stride)) in index.iter_mut().zip(outer).rev() {
                    *i += 1;
                    position += stride;
                    if *i < length {
                        break;
                    }
                    position -= length as isize * stride;
                    *i = 0;
                }
            }
            repeat_bytes(out, period * size_of::<T>(), n * size_of::<T>());
        }
    }
}

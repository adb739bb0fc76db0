//! Copies and adds short rows, the rows of an embedding or of a table of knots, in vectors and without calls.
//!
//! A row of sixteen numbers is one or two vectors. A call that copies it, or a loop for any length, takes several times as
//! long as the vectors themselves.

use std::ops::Range;

use crate::kernels::arithmetic::Number;
use crate::kernels::simd_level::leveled;
use crate::kernels::strided::add_row;

/// Elements that are read, and then written, together.
const LANES: usize = 8;
/// Bytes of a row from which on a call of the C library copies it faster.
const LONG: usize = 1 << 10;

/// Which of the updates a task makes: those of some rows of the table, in some columns.
pub(super) struct Part {
    pub rows: Range<i64>,
    pub columns: Range<usize>,
}

leveled! {
    /// Copies rows of `len` elements that lie side by side, those at `list` of a table whose rows are `step` apart, one
    /// after the other.
    ///
    /// The rows are there, and the two memories do not overlap.
    pub(super) fn gather_rows[T: Copy](to: *mut T, from: *const T, list: &[i64], len: usize, step: isize) {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            // With a known length there are no loops.
            if len == 1 {
                for (i, &k) in list.iter().enumerate() {
                    copy_row(to.add(i), from.offset(k as isize * step), 1);
                }
                return;
            }
            for (i, &k) in list.iter().enumerate() {
                copy_row(to.add(i * len), from.offset(k as isize * step), len);
            }
        }
    }
}

leveled! {
    /// Adds rows of `len` elements, one after the other, to those at `list` of a table, as far as they are in a part.
    ///
    /// The rows are there, and the two memories do not overlap.
    pub(super) fn add_rows[T: Number](to: *mut T, from: *const T, list: &[i64], len: usize, part: &Part) {
        // SAFETY: the caller vouches for the rows.
        unsafe {
            // With a known length there are no loops.
            if len == 1 {
                return update_rows(to, from, list, 1, part, |to, from, _| add_row(to, from, 1));
            }
            update_rows(to, from, list, len, part, |to, from, len| add_row(to, from, len));
        }
    }
}

leveled! {
    /// The same, in the place of what was there.
    pub(super) fn replace_rows[T: Copy](to: *mut T, from: *const T, list: &[i64], len: usize, part: &Part) {
        // SAFETY: the caller vouches for the rows.
        unsafe { update_rows(to, from, list, len, part, |to, from, len| copy_row(to, from, len)) }
    }
}

/// # Safety
///
/// The rows are there, and the two memories do not overlap.
#[inline(always)]
unsafe fn update_rows<T: Copy>(
    to: *mut T,
    from: *const T,
    list: &[i64],
    len: usize,
    part: &Part,
    update: impl Fn(*mut T, *const T, usize),
) {
    let Part { rows, columns } = part;
    for (i, &k) in list.iter().enumerate() {
        if rows.contains(&k) {
            // SAFETY: says the caller.
            unsafe {
                let to = to.add(k as usize * len + columns.start);
                update(to, from.add(i * len + columns.start), columns.len());
            }
        }
    }
}

/// # Safety
///
/// There are `len` elements on both sides, which do not overlap.
#[inline(always)]
unsafe fn copy_row<T: Copy>(to: *mut T, from: *const T, len: usize) {
    // SAFETY: says the caller; the offsets stay below `len`.
    unsafe {
        if len * size_of::<T>() >= LONG {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast(), len * size_of::<T>());
            return;
        }
        let mut at = 0;
        while at + LANES <= len {
            let new = from.add(at).cast::<[T; LANES]>().read_unaligned();
            to.add(at).cast::<[T; LANES]>().write_unaligned(new);
            at += LANES;
        }
        while at < len {
            to.add(at).write_unaligned(from.add(at).read_unaligned());
            at += 1;
        }
    }
}

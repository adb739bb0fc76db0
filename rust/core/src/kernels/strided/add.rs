//! Adds the elements of one layout to those of another: in vectors where they lie side by side.
// Elements are read and written unaligned wherever they may be foreign.
#![allow(clippy::cast_ptr_alignment)]

use super::super::arithmetic::{Number, with_number};
use super::super::simd_level::{Level, leveled};
use super::super::{Ctx, Value};
use super::{Loop, Nest, walk_lines};
use crate::error::Result;

/// Elements that are read, and then written, together.
const LANES: usize = 8;

/// Adds `src` to `dst`, a view (of any non-overlapping layout) of a storage that nobody else uses.
///
/// # Panics
/// When dtypes or shapes differ.
pub fn add_into(dst: &Value, src: &Value, ctx: &Ctx) -> Result<()> {
    assert_eq!(
        dst.aval(),
        src.aval(),
        "add_into: different dtypes or shapes"
    );
    let nest = Nest::new(src.shape(), dst.strides(), src.strides());
    let (to, from) = (dst.as_mut_ptr(), src.as_ptr());
    // SAFETY: both values vouch for their layouts, the destination is the caller's alone.
    with_number!(src.dtype(), T => unsafe {
        nest.run_wide_with::<T>(to.cast(), from.cast(), add::<T>, ctx)
    })
}

/// Adds along non-empty loops.
pub(super) unsafe fn add<T: Number>(loops: &[Loop], dst: *mut T, src: *const T) {
    let one = Loop {
        len: 1,
        dst: 1,
        src: 1,
    };
    let (inner, outer) = match loops.split_last() {
        Some((&inner, outer)) => (inner, outer),
        None => (one, loops),
    };
    let dense = add_line::<T>(Level::best());
    walk_lines(inner, outer, |l, d, s| {
        // SAFETY: the walked offsets and the line together stay inside both layouts, which do not overlap.
        unsafe {
            let (to, from) = (dst.offset(d), src.offset(s));
            if (l.dst, l.src) == (1, 1) {
                return dense(to, from, l.len);
            }
            for i in 0..l.len as isize {
                let to = to.offset(i * l.dst);
                let from = from.offset(i * l.src);
                to.write_unaligned(to.read_unaligned().plus(from.read_unaligned()));
            }
        }
    });
}

leveled! {
    fn add_line[T: Number](to: *mut T, from: *const T, len: usize) {
        // SAFETY: the caller vouches for the lines.
        unsafe { add_row(to, from, len) }
    }
}

/// Adds elements that lie side by side.
///
/// # Safety
///
/// There are `len` elements on both sides, which do not overlap.
#[inline(always)]
pub(in crate::kernels) unsafe fn add_row<T: Number>(to: *mut T, from: *const T, len: usize) {
    let mut at = 0;
    // SAFETY: says the caller; the offsets stay below `len`.
    unsafe {
        while at + LANES <= len {
            let place = to.add(at).cast::<[T; LANES]>();
            let old = place.read_unaligned();
            let new = from.add(at).cast::<[T; LANES]>().read_unaligned();
            place.write_unaligned(std::array::from_fn(|i| old[i].plus(new[i])));
            at += LANES;
        }
        while at < len {
            let sum = (to.add(at).read_unaligned()).plus(from.add(at).read_unaligned());
            to.add(at).write_unaligned(sum);
            at += 1;
        }
    }
}

//! Copies and sums whose loops are known before it is known where their operands lie.

use super::super::LaidOut;
use super::super::Value;
use super::super::arithmetic::{Number, with_number};
use super::add::add;
use super::{Nest, by_size, run};

/// What becomes of the elements that are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// They take the place of what was there.
    Copied,
    /// The same, and where nothing comes there are zeros.
    CopiedToZeros,
    /// They are added to it.
    Added,
}

/// One operand that goes to a region of what is written.
struct Move {
    nest: Nest,
    /// Where the region begins, in bytes behind the first element of what is written.
    shift: isize,
    run: unsafe fn(&Nest, *mut u8, *const u8),
}

unsafe fn copied<T: Copy>(nest: &Nest, dst: *mut u8, src: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { nest.run_with::<T>(dst.cast(), src.cast(), run::<T>) }
}

unsafe fn added<T: Number>(nest: &Nest, dst: *mut u8, src: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { nest.run_with::<T>(dst.cast(), src.cast(), add::<T>) }
}

/// A kernel that moves each of `read` to the region of this number, a view of `written`; `None` where one does not fit, or
/// they are long. What is written has to be row-major where there are zeros in it.
pub fn laid_out(read: &[Value], written: &Value, regions: &[Value], how: Moved) -> Option<LaidOut> {
    let fits = |(x, region): (&Value, &Value)| x.aval() == region.aval();
    let is_cleared = how == Moved::CopiedToZeros;
    if read.len() != regions.len()
        || !read.iter().zip(regions).all(fits)
        || (is_cleared && !written.is_contiguous())
    {
        return None;
    }
    let moves = read.iter().zip(regions).map(|(x, region)| Move {
        nest: Nest::new(x.shape(), region.strides(), x.strides()),
        shift: region.address() as isize - written.address() as isize,
        run: match how {
            Moved::Added => with_number!(x.dtype(), T => added::<T>),
            _ => by_size!(x.dtype().size(), T => copied::<T>),
        },
    });
    let moves: Box<[Move]> = moves.filter(|m| !m.nest.is_empty()).collect();
    if moves.len() != read.len() {
        return None;
    }
    let bytes = written.aval().nbytes();
    // SAFETY: the loops stay inside the operands and the regions, and those inside of what is written.
    unsafe {
        LaidOut::new(read, written, move |at| {
            if let Some((&to, from)) = at.split_last() {
                if is_cleared {
                    to.write_bytes(0, bytes);
                }
                for (one, &from) in moves.iter().zip(from) {
                    (one.run)(&one.nest, to.wrapping_offset(one.shift), from);
                }
            }
            Ok(())
        })
    }
}

//! What is set aside for the time when memory ends.
//!
//! Recording and planning take small pieces of memory in a thousand places, and where one cannot be had Rust ends the
//! process. So a range of addresses is set aside; when the allocator has nothing left, it gets that back and is asked
//! again. The next place that may fail sets it aside again, and fails where that cannot be done in full
//! (`interrupt::enough`), long before the reserve is used up.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::spare;
use crate::interrupt::{Memory, Reserve, memory_ended, set_memory};

/// What is tried to set aside, in bytes; less where memory is scarce. Nothing of it is touched, so it costs
/// addresses alone.
const SIZES: [usize; 4] = [64 << 20, 32 << 20, 16 << 20, 8 << 20];
/// Blocks are aligned to this, which leaves room beside an address for its place in [`SIZES`].
const ALIGN: usize = 16;

/// The address of what is set aside, plus its place in [`SIZES`] counted from one; zero for nothing.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a reserve behind it, for `#[global_allocator]`: too little memory for a list of
/// equations or a part of a plan is [`Error::Memory`](crate::error::Error::Memory) then, and does not end the process.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: cotan::kernels::Allocator = cotan::kernels::Allocator;
///
/// # fn main() {
/// cotan::kernels::set_aside();
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Allocator;

/// What the system's allocator gives, asked once more where it has nothing until the reserve is given up.
#[inline]
fn asked_again(wanted: usize, ask: impl Fn() -> *mut u8) -> *mut u8 {
    let block = ask();
    if block.is_null() && give_up(wanted) {
        return ask();
    }
    block
}

// SAFETY: what the system's allocator gives is handed on as it is.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, here and below.
        asked_again(layout.size(), || unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        asked_again(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; the old block is as it was where there is no new one.
        asked_again(size, || unsafe { System.realloc(old, layout, size) })
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }
}

fn reserve(place: usize) -> Layout {
    Layout::from_size_align(SIZES[place], ALIGN).expect("a power of two")
}

/// Sets the reserve aside, once at the start. Without [`Allocator`] as the process's allocator it serves nobody.
pub fn set_aside() {
    set_memory(Memory {
        spare,
        set_aside: renew,
    });
    renew();
}

/// Sets it aside, if there is none.
fn renew() -> Reserve {
    let reserved = RESERVED.load(Ordering::Relaxed);
    if reserved != 0 {
        return of_size(place_of(reserved));
    }
    for place in 0..SIZES.len() {
        // SAFETY: the size is not zero.
        let block = unsafe { System.alloc(reserve(place)) };
        if block.is_null() {
            continue;
        }
        let reserved = block as usize + place + 1;
        let taken = RESERVED.compare_exchange(0, reserved, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_err() {
            // SAFETY: it is ours; another thread was faster.
            unsafe { System.dealloc(block, reserve(place)) };
        }
        return of_size(place);
    }
    Reserve::Nothing
}

/// The place in [`SIZES`] of the size that is reserved.
fn place_of(reserved: usize) -> usize {
    reserved % ALIGN - 1
}

fn of_size(place: usize) -> Reserve {
    if place == 0 {
        Reserve::Whole
    } else {
        Reserve::Part
    }
}

/// Gives the reserve back to the system, for a piece of so many bytes: whether there is a point in asking again.
#[cold]
fn give_up(wanted: usize) -> bool {
    if wanted > SIZES[0] {
        return false;
    }
    let reserved = RESERVED.swap(0, Ordering::AcqRel);
    if reserved != 0 {
        memory_ended(wanted);
        let layout = reserve(place_of(reserved));
        // SAFETY: it was set aside with this layout, and whoever swaps it out owns it.
        unsafe { System.dealloc((reserved & !(ALIGN - 1)) as *mut u8, layout) };
    }
    // Without one, another thread may have given it back just now.
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::enough;

    #[test]
    fn memory_that_is_there_again_fails_nobody() {
        set_aside();
        assert!(give_up(1));
        assert_eq!(enough(), Ok(()));
        assert!(matches!(renew(), Reserve::Whole));
    }
}

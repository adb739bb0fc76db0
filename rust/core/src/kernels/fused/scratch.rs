//! Memory for the registers of a thread, which it keeps.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;

use crate::kernels::ALIGN;

/// Scratch memory up to this size stays with its thread.
const KEPT: usize = 4 << 20;

/// Memory for the registers of one thread.
pub(super) struct Scratch {
    pub(super) ptr: *mut u8,
    bytes: usize,
}

impl Scratch {
    const EMPTY: Scratch = Scratch {
        ptr: std::ptr::null_mut(),
        bytes: 0,
    };

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGN).expect("registers fit into memory")
    }

    /// That of this thread, with room for so many bytes.
    pub(super) fn taken(bytes: usize) -> Scratch {
        let mut scratch = SCRATCH.replace(Scratch::EMPTY);
        scratch.reserve(bytes);
        scratch
    }

    /// Leaves it to the thread, if it is not too large.
    pub(super) fn kept(self) {
        if self.bytes <= KEPT {
            SCRATCH.set(self);
        }
    }

    fn reserve(&mut self, bytes: usize) {
        if self.bytes < bytes {
            *self = Scratch::EMPTY;
            let layout = Scratch::layout(bytes.next_power_of_two().max(64 << 10));
            // SAFETY: the layout has a non-zero size.
            let ptr = unsafe { alloc(layout) };
            if ptr.is_null() {
                handle_alloc_error(layout);
            }
            *self = Scratch {
                ptr,
                bytes: layout.size(),
            };
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated with this layout in `reserve`.
            unsafe { dealloc(self.ptr, Scratch::layout(self.bytes)) };
        }
    }
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::EMPTY) };
}

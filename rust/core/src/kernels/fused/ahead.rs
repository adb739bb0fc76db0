//! Asking for the memory of the next tile while this one is computed.
//!
//! The processor fetches ahead by itself, but not across pages, and a tile has about the length of one: without
//! this, every tile begins by waiting. What is asked for is spread over the instructions, because only so many
//! lines can be on their way at a time.

use smallvec::SmallVec;

use super::plan::Walk;
use crate::kernels::strided::fetch;

/// Below so many bytes of inputs and outputs a program's memory is in a cache near enough.
const FAR: usize = 2 << 20;

/// Programs of more instructions compute for so long that asking would only cost.
const FEW: usize = 32;

/// Whether it is worth it for a program that reads and writes so many bytes.
pub(super) fn pays(walk: &Walk, bytes: usize, instrs: usize) -> bool {
    // In long slices the next tile is not the next in memory.
    !matches!(walk, Walk::Long { .. }) && bytes > FAR && instrs <= FEW
}

/// A cache line.
const LINE: usize = 64;

/// Parts of inputs and outputs that the next tile reads and writes.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    parts: SmallVec<[Part; 8]>,
}

#[derive(Debug)]
struct Part {
    at: *const u8,
    left: usize,
    /// Bytes that are asked for with each instruction.
    step: usize,
}

impl Ahead {
    /// Forgets what has not been asked for.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    /// So many bytes from here, over so many instructions.
    pub(super) fn add(&mut self, at: *const u8, bytes: usize, instrs: usize) {
        let step = bytes.div_ceil(instrs.max(1)).next_multiple_of(LINE);
        self.parts.push(Part {
            at,
            left: bytes,
            step,
        });
    }

    /// Asks for the next share.
    #[inline]
    pub(super) fn step(&mut self) {
        for part in &mut self.parts {
            let bytes = part.step.min(part.left);
            fetch(part.at, bytes);
            part.at = part.at.wrapping_add(bytes);
            part.left -= bytes;
        }
    }
}

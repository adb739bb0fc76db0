//! Asking for the memory of the next tile while this one is computed.
//!
//! The processor fetches ahead by itself, but not across pages, and a tile has about the length of one: without
//! this, every tile begins by waiting. What is asked for is spread over the instructions, because only so many
//! lines can be on their way at a time.

use smallvec::SmallVec;

use super::bound::Bound;
use super::plan::Walk;
use super::program::Fused;
use super::strided_input::Source;
use crate::kernels::cache::fetch;

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
    /// From now on it is about the elements from `start`, up to `n` of them: what lies there without gaps.
    pub(super) fn begin(&mut self, fused: &Fused, bound: &Bound, start: usize, n: usize) {
        self.parts.clear();
        let n = n.min(fused.size - start);
        let mut add = |address: *const u8, size: usize| {
            let bytes = n * size;
            self.parts.push(Part {
                at: address.wrapping_add(start * size),
                left: bytes,
                step: (bytes.div_ceil(fused.instrs.len().max(1))).next_multiple_of(LINE),
            });
        };
        for (input, source) in fused.inputs.iter().zip(&bound.sources) {
            if let (Source::Direct(ptr), None) = (source, &input.row) {
                add(*ptr, input.dtype.size());
            }
        }
        for (output, address) in fused.outputs.iter().zip(&bound.outputs) {
            if output.written.is_some() && !output.row && output.staged.is_none() {
                add(address.0, output.dtype.size());
            }
        }
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

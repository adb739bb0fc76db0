//! Runs of one tile, whose operands are read where they lie: most of what small programs do.
//!
//! Between the addresses of its operands and its instructions there is nothing to look at, and a group of two hundred
//! elements computes for less time than it takes to prepare tiles, chunks and reductions.

use smallvec::SmallVec;

use super::plan::Walk;
use super::program::Fused;
use super::run::execute;
use super::scratch::Scratch;
use super::strided_input::{Source, splat};
use crate::error::Result;

impl Fused {
    /// Whether a run is one tile, of these inputs.
    pub(super) fn is_short<'s>(&self, mut sources: impl Iterator<Item = &'s Source>) -> bool {
        self.plan.walk == Walk::Flat
            && self.plan.chunks == 1
            && self.size > 0
            && self.size <= self.plan.tile
            && self.reductions.is_empty()
            && self.tile_code.is_none()
            && !self.far
            && self.inputs.iter().all(|input| input.row.is_none())
            && (self.outputs.iter())
                .all(|out| out.written.is_some() && out.staged.is_none() && !out.row)
            && sources.all(|s| matches!(s, Source::Direct(_) | Source::Splat(_)))
    }

    /// Runs it; `operands` are the addresses of the inputs, with how they are read, and then those of the outputs.
    ///
    /// # Safety
    /// The run is short, and the operands were checked against the program.
    pub(super) unsafe fn run_short<'s>(
        &self,
        operands: impl Iterator<Item = Result<(Option<&'s Source>, *mut u8)>>,
    ) -> Result<()> {
        let scratch = Scratch::taken(self.scratch);
        let mut table: SmallVec<[*mut u8; 32]> = SmallVec::new();
        table.push(std::ptr::null_mut());
        for (k, operand) in operands.enumerate() {
            let (source, ptr) = operand?;
            table.push(match source {
                Some(Source::Splat(_)) => {
                    let input = &self.inputs[k];
                    let register = scratch.ptr.wrapping_add(input.offset);
                    // SAFETY: there is an element of this dtype, and the register holds a tile.
                    unsafe { splat(ptr, input.dtype.size(), register, self.size) };
                    register
                }
                _ => ptr,
            });
        }
        table.extend(self.slots.iter().map(|&s| scratch.ptr.wrapping_add(s)));
        // SAFETY: the operands were checked, and the scratch memory is as large as the program asks for.
        unsafe {
            let all = 0..self.instrs.len();
            execute(self, &table, scratch.ptr, all, self.size, None);
        }
        scratch.kept();
        Ok(())
    }
}

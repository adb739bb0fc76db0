//! Machine code for the arithmetic of tiles: what it computes stays in registers from one operation to the next.
//!
//! Sums, products and their like that wait for nothing else are a *segment*, one instruction of the program. Its code takes
//! [`assembler::BLOCK`] bytes of each operand at a time through all operations. Every operation is rounded as if it stood
//! alone: the bits are the same. There is code for processors with AVX-512; others have chains.

mod assembler;
mod memory;
mod recompute;
mod segments;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::OnceLock;

use smallvec::SmallVec;

use self::assembler::{Assembler, BLOCK};
use self::memory::Executable;
pub(super) use self::segments::{Segment, form};
use self::writer::{Places, Written};
use crate::kernels::machine_code::{When, when};
use crate::kernels::simd_level::Level;

/// Writing code takes about as long as so many operations on elements.
const LEAST: f64 = 500_000.0;

/// Whether it is worth it for so many operations on so many elements.
pub(super) fn pays(ops: usize, size: usize) -> bool {
    ops as f64 * size as f64 >= LEAST && is_possible()
}

/// Whether the machine has the instructions, and the system lets code be written.
pub(super) fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        Executable::POSSIBLE
            && Level::best() == Level::Avx512
            && when() != When::Never
            && Executable::new(&[0xc3]).is_some()
    })
}

/// Code that is being written for the segments of a program.
#[derive(Debug, Default)]
pub(super) struct Writing {
    code: Assembler,
    pieces: Vec<Piece>,
}

/// The function of a segment.
#[derive(Debug)]
pub(super) struct Piece {
    written: Written,
    /// Addresses that it reads and writes, numbers left out.
    reads: Vec<u32>,
    results: Vec<u32>,
    size: usize,
}

impl Writing {
    /// Writes the code of the next segment, given the address of each value, whether it is a number, and which addresses
    /// are inputs and outputs.
    pub(super) fn add(
        &mut self,
        segment: &Segment,
        address: &dyn Fn(u32) -> u32,
        is_number: &dyn Fn(u32) -> bool,
        is_input: &dyn Fn(u32) -> bool,
        is_output: &dyn Fn(u32) -> bool,
    ) {
        let places = Places {
            address,
            is_number,
            is_input,
            is_output,
        };
        let written = writer::write(&mut self.code, segment, &places);
        let reads = segment.reads.iter().filter(|&&x| !is_number(x));
        self.pieces.push(Piece {
            written,
            reads: reads.map(|&x| address(x)).collect(),
            results: segment.results.iter().map(|&x| address(x)).collect(),
            size: segment.dtype.size(),
        });
    }

    /// What can run; `None` where the system has no memory for it.
    pub(super) fn finish(self) -> Option<TileCode> {
        Some(TileCode {
            memory: Executable::new(&self.code.bytes)?,
            pieces: self.pieces,
        })
    }
}

/// The machine code of a program.
#[derive(Debug)]
pub(super) struct TileCode {
    memory: Executable,
    pieces: Vec<Piece>,
}

impl Piece {
    /// Bytes of memory that a call needs: local values, and copies of what does not fill a block.
    fn scratch(&self) -> usize {
        (self.written.locals + self.reads.len() + self.results.len()) * BLOCK
    }
}

impl TileCode {
    /// Bytes of memory that a call needs.
    pub(super) fn scratch(&self) -> usize {
        self.pieces.iter().map(Piece::scratch).max().unwrap_or(0)
    }

    /// The addresses that a piece reads, and whether it may have written an output by then.
    pub(super) fn reads(&self, piece: u32) -> impl Iterator<Item = (u32, bool)> + '_ {
        let piece = &self.pieces[piece as usize];
        let reads = piece.reads.iter().copied();
        reads.map(|a| (a, piece.written.late.contains(&a)))
    }

    /// Runs a piece on the first `n` elements of tiles, in a table of addresses.
    ///
    /// # Safety
    /// The addresses are those of `n` elements, or of one for numbers; those of results lie apart from each other, and from what is read
    /// after they are written. `scratch` has as many bytes as the code needs.
    pub(super) unsafe fn run(&self, piece: u32, table: &[*mut u8], scratch: *mut u8, n: usize) {
        let piece = &self.pieces[piece as usize];
        let entry = piece.written.entry;
        let bytes = n * piece.size;
        let whole = bytes / BLOCK * BLOCK;
        let rest = bytes - whole;
        // SAFETY: the caller's contract; what does not fill a block is copied into one that is as long as the code takes.
        unsafe {
            if whole > 0 {
                self.memory.call(entry, table.as_ptr(), scratch, whole);
            }
            if rest == 0 {
                return;
            }
            let mut copies: SmallVec<[*mut u8; 32]> = SmallVec::from_slice(table);
            let mut block = scratch.add(piece.written.locals * BLOCK);
            for &a in &piece.reads {
                let a = a as usize;
                block.write_bytes(0, BLOCK);
                std::ptr::copy_nonoverlapping(table[a].add(whole), block, rest);
                copies[a] = block;
                block = block.add(BLOCK);
            }
            for &a in &piece.results {
                copies[a as usize] = block;
                block = block.add(BLOCK);
            }
            self.memory.call(entry, copies.as_ptr(), scratch, BLOCK);
            for &a in &piece.results {
                let a = a as usize;
                std::ptr::copy_nonoverlapping(copies[a].cast_const(), table[a].add(whole), rest);
            }
        }
    }
}

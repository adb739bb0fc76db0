//! A finished fused program: instructions over registers, and where in memory everything lies.

use super::node::Work;
use super::op_chains::Chain;
use super::plan::Plan;
use super::reduce::Reduction;
use super::scalar;
use super::tile_code::TileCode;
use crate::aval::{DType, Shape};

/// An operation with its operands as positions in the table of addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instr {
    pub(super) work: Work,
    /// How it is done for a single element.
    pub(super) code: scalar::Code,
    pub(super) out: u32,
    pub(super) args: [u32; 3],
}

/// An input of a finished program.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) dtype: DType,
    /// Where in the scratch memory a tile of it is gathered.
    pub(super) offset: usize,
    /// Position after the last instruction that reads it.
    pub(super) last_read: usize,
    /// The shape that it broadcasts to, when it has one element for each row.
    pub(super) row: Option<Shape>,
}

/// An output of a finished program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    pub(super) dtype: DType,
    pub(super) elements: usize,
    /// Position of the instruction that writes it; `None` for reductions.
    pub(super) written: Option<usize>,
    /// Whether it has one element for each row.
    pub(super) row: bool,
    /// Where in the scratch memory a tile of it waits until it is written past the caches.
    pub(super) staged: Option<usize>,
}

/// A program that is ready to run, any number of times and from any thread.
#[derive(Debug)]
pub struct Fused {
    pub(super) shape: Shape,
    pub(super) size: usize,
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    pub(super) instrs: Vec<Instr>,
    pub(super) chains: Vec<Chain>,
    pub(super) tile_code: Option<TileCode>,
    /// Where in the scratch memory machine code has its own.
    pub(super) locals: usize,
    pub(super) reductions: Vec<Reduction>,
    /// Where in the scratch memory the registers lie.
    pub(super) slots: Vec<usize>,
    /// Length of the rows that tiles are made of; the whole tile where they are not.
    pub(super) row: usize,
    /// Where in the scratch memory rows are folded.
    pub(super) folds: usize,
    pub(super) scratch: usize,
    pub(super) plan: Plan,
    /// Whether tiles are asked for before their turn.
    pub(super) far: bool,
    pub(super) cost: f64,
}

impl Fused {
    /// Roughly how many nanoseconds a run takes on one thread.
    pub fn cost(&self) -> f64 {
        self.cost * self.size as f64 + 50.0
    }

    /// Whether it runs over no elements.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The number of elements of a tile.
    pub fn tile(&self) -> usize {
        self.plan.tile
    }

    /// The number of registers.
    pub fn registers(&self) -> usize {
        self.slots.len()
    }
}

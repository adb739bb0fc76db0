//! How long tiles are, and where registers, inputs and outputs have theirs.

use super::builder::FusedBuilder;
use super::node::Node;
use super::program::{Input, Output};
use super::reduce::Reduction;
use crate::kernels::{ALIGN, cache};

/// The bytes that a tile of all registers and streams may take: a good half of a first-level cache.
const CACHE: usize = 28 << 10;
/// The shortest and the longest tile of a large space, in elements.
const MIN_TILE: usize = 64;
const MAX_TILE: usize = 8192;
/// With many registers a tile that fits into the first-level cache is so short that calling the lanes
/// takes longer than running them: then a tile of the widest elements has so many bytes, within a part of
/// the second-level cache.
const SHORT_TILE: usize = 4096;
const SECOND_CACHE: usize = 384 << 10;
/// An output of so many bytes has left the caches before anybody reads it: it is written past them.
const LARGE: usize = 32 << 20;

impl FusedBuilder {
    /// The length of the rows that tiles are made of, where they are.
    pub(super) fn row(&self) -> Option<usize> {
        let split = self.split.filter(|_| self.rows);
        split.map(|s| s.reduced.max(1))
    }
}

/// Allots registers: one free list for each size of element, and for tiles and rows.
#[derive(Default)]
pub(super) struct Registers {
    /// Size class of every register, and whether it holds rows.
    pub(super) classes: Vec<(u32, bool)>,
    free: [[Vec<u32>; 5]; 2],
}

impl Registers {
    pub(super) fn take(&mut self, node: &Node) -> u32 {
        let class = node.dtype.size().trailing_zeros();
        let free = &mut self.free[usize::from(node.row)][class as usize];
        free.pop().unwrap_or_else(|| {
            self.classes.push((class, node.row));
            (self.classes.len() - 1) as u32
        })
    }

    pub(super) fn give(&mut self, register: u32) {
        let (class, row) = self.classes[register as usize];
        self.free[usize::from(row)][class as usize].push(register);
    }
}

/// Areas of the scratch memory.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) bytes: usize,
}

impl Scratch {
    /// The offset of a new area. Areas are cache lines apart, so that tiles of a power of two do
    /// not compete for the same lines of the cache.
    pub(super) fn add(&mut self, bytes: usize) -> usize {
        let offset = self.bytes;
        let gap = if bytes >= 1024 { 2 * ALIGN } else { 0 };
        self.bytes = (offset + bytes + gap).next_multiple_of(ALIGN);
        offset
    }
}

/// Bytes of inputs and outputs that an element of the space streams through the caches; elements of rows are few.
pub(super) fn streamed_bytes(builder: &FusedBuilder) -> usize {
    let wide = |&x: &u32| {
        let node = &builder.nodes[x as usize];
        (!node.row).then(|| node.dtype.size())
    };
    let streams = builder.inputs.iter().filter_map(wide);
    let stored = builder.requests.iter().filter(|r| r.reduce.is_none());
    streams.chain(stored.filter_map(|r| wide(&r.reg))).sum()
}

/// How long tiles are.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) elements: usize,
    /// The most rows that one holds.
    pub(super) rows: usize,
}

impl Tile {
    /// The length of a register for elements, or for elements of rows.
    pub(super) fn length(self, row: bool) -> usize {
        if row { self.rows } else { self.elements }
    }
}

/// A tile of everything at once has to stay in the cache.
pub(super) fn tile_length(
    builder: &FusedBuilder,
    size: usize,
    registers: &Registers,
    reductions: &[Reduction],
) -> Tile {
    let folded = reductions.iter().map(|r| r.kernels.acc.size());
    let slots = registers.classes.iter();
    let slots = slots.filter_map(|&(class, row)| (!row).then_some(1usize << class));
    let bytes = streamed_bytes(builder) + folded.chain(slots).sum::<usize>();
    let fitting = |cache: usize| (cache / bytes.max(1)).clamp(MIN_TILE, MAX_TILE);
    let widest = builder.nodes.iter().map(|n| n.dtype.size()).max();
    let short = fitting(SECOND_CACHE).min(SHORT_TILE / widest.unwrap_or(1));
    let tile = fitting(CACHE).max(short) / MIN_TILE * MIN_TILE;
    let tile = tile.min(size).max(1);
    match builder.row() {
        // As many rows as fit, at least one.
        Some(row) => {
            let rows = builder.over.rows_together((tile / row).max(1));
            Tile {
                elements: rows * row,
                rows,
            }
        }
        None => Tile {
            elements: tile,
            rows: 1,
        },
    }
}

pub(super) fn lay_out_inputs(
    builder: &FusedBuilder,
    last_read: &[usize],
    tile: Tile,
    scratch: &mut Scratch,
) -> Vec<Input> {
    (builder.inputs.iter().zip(last_read))
        .map(|(&x, &last_read)| {
            let Node { dtype, row, .. } = builder.nodes[x as usize];
            let shape = builder.row_inputs.iter().find(|(reg, _)| *reg == x);
            Input {
                dtype,
                offset: scratch.add(tile.length(row) * dtype.size()),
                last_read,
                row: shape.map(|(_, shape)| shape.clone()),
            }
        })
        .collect()
}

pub(super) fn lay_out_outputs(
    builder: &FusedBuilder,
    written: &[Option<usize>],
    size: usize,
    tile: Tile,
    scratch: &mut Scratch,
) -> Vec<Output> {
    let num_rows = builder.split.map_or(0, |s| s.outer);
    (builder.requests.iter().zip(written))
        .map(|(r, &written)| {
            let Node { dtype, row, .. } = builder.nodes[r.reg as usize];
            let all = if row { num_rows } else { size };
            let is_large = !row && size.saturating_mul(dtype.size()) >= LARGE;
            let is_staged = cache::WRITES_PAST && is_large && written.is_some();
            Output {
                dtype,
                elements: r.reduce.map_or(all, |(_, s)| s.outer * s.inner),
                written,
                row,
                staged: is_staged.then(|| scratch.add(tile.elements * dtype.size())),
            }
        })
        .collect()
}

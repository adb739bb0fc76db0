//! How a program's space is cut into tiles, and the tiles into chunks that threads take.

/// A chunk takes about this long, in nanoseconds: long enough to hide what starting one costs,
/// short enough to keep many threads busy.
const CHUNK: f64 = 40_000.0;
/// There is no use for more parts of one reduced row than this.
const MAX_PARTS: f64 = 256.0;
/// A chunk that leaves results for the elements of a slice takes so many of them, or these are as much as it reads.
const SLICES: usize = 4;

/// A row-major space as (outer, reduced, inner): the reduction runs over the one in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// How many slices.
    pub outer: usize,
    /// How many elements become one.
    pub reduced: usize,
    /// How many results a slice has.
    pub inner: usize,
}

impl Split {
    /// The split of a shape; `None` when other axes lie between the reduced ones.
    pub fn of(shape: &[usize], axes: &[usize]) -> Option<Split> {
        let mut split = Split {
            outer: 1,
            reduced: 1,
            inner: 1,
        };
        let (mut seen, mut past) = (false, false);
        for (axis, &d) in shape.iter().enumerate().filter(|&(_, &d)| d != 1) {
            match (axes.contains(&axis), seen) {
                (true, _) if past => return None,
                (true, _) => {
                    seen = true;
                    split.reduced *= d;
                }
                (false, true) => {
                    past = true;
                    split.inner *= d;
                }
                (false, false) => split.outer *= d,
            }
        }
        Some(split)
    }

    /// Whether there is a single result.
    pub(super) fn is_full(self) -> bool {
        self.outer == 1 && self.inner == 1
    }
}

/// The order in which tiles are run. The numbers depend on the program and its shape only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Walk {
    /// Tiles one after the other.
    Flat,
    /// Tiles that hold `slices` whole (reduced, inner) slices each.
    Slices { split: Split, slices: usize },
    /// Slices larger than a tile. A unit of work is a part of the reduced rows and a block of the
    /// inner ones, and its tiles hold `rows` rows each.
    Long {
        split: Split,
        rows: usize,
        block: usize,
        blocks: usize,
        part: usize,
        parts: usize,
    },
}

/// The whole division of a space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    /// Most elements of a tile.
    pub(super) tile: usize,
    pub(super) walk: Walk,
    /// Tiles or, in long slices, units of work.
    pub(super) units: usize,
    pub(super) units_per_chunk: usize,
    pub(super) chunks: usize,
}

impl Plan {
    /// Divides `size` elements that take `cost` nanoseconds each. With `whole` every chunk leaves results for the
    /// elements of a slice.
    pub(super) fn new(
        size: usize,
        split: Option<Split>,
        tile: usize,
        cost: f64,
        whole: bool,
    ) -> Plan {
        // Nothing is to be divided where there is nothing.
        let split = split.filter(|_| size > 0);
        let (walk, units, unit_elements) = match split {
            None => (Walk::Flat, size.div_ceil(tile), tile),
            Some(split) if split.reduced * split.inner <= tile => {
                let slices = tile / (split.reduced * split.inner).max(1);
                let elements = slices * split.reduced * split.inner;
                (
                    Walk::Slices { split, slices },
                    split.outer.div_ceil(slices),
                    elements,
                )
            }
            Some(split) => {
                let block = split.inner.min(tile);
                let blocks = split.inner.div_ceil(block);
                let rows = if blocks == 1 { tile / split.inner } else { 1 };
                let wanted = (size as f64 * cost / CHUNK).clamp(1.0, MAX_PARTS) as usize;
                let parts = if whole {
                    1
                } else {
                    wanted.div_ceil(split.outer * blocks)
                };
                let part = split.reduced.div_ceil(parts).next_multiple_of(rows);
                let parts = split.reduced.div_ceil(part);
                let units = split.outer * parts * blocks;
                (
                    Walk::Long {
                        split,
                        rows,
                        block,
                        blocks,
                        part,
                        parts,
                    },
                    units,
                    part * block,
                )
            }
        };
        let slices = match walk {
            Walk::Slices { slices, .. } if whole => slices,
            _ if whole => 1,
            _ => SLICES,
        };
        let least = SLICES.div_ceil(slices);
        let units_per_chunk = ((CHUNK / (unit_elements as f64 * cost)) as usize).max(least);
        let chunks = units.div_ceil(units_per_chunk);
        // The last chunk may be short; even chunks waste less, and so does an even number of them.
        let chunks = if chunks > 1 { chunks + chunks % 2 } else { 1 };
        let units_per_chunk = units.div_ceil(chunks).max(1);
        let chunks = units.div_ceil(units_per_chunk);
        Plan {
            tile,
            walk,
            units,
            units_per_chunk,
            chunks,
        }
    }

    /// The most tiles of a chunk.
    pub(super) fn tiles_per_chunk(&self) -> usize {
        let of_unit = match self.walk {
            Walk::Long { rows, part, .. } => part.div_ceil(rows).max(1),
            _ => 1,
        };
        self.units_per_chunk * of_unit
    }
}

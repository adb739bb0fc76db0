//! Reductions over axes in front of those of the rows that tiles are made of: over the middle one of three axes, or
//! over the first one, beside a reduction over the last one.
//!
//! Rows are taken together in *slices*, and tiles begin where slices do, or are parts of one slice. A reduction over
//! axes inside of slices is complete when its slice is; one over the slices keeps accumulators for a whole slice.

use super::plan::Split;

/// Results that stay side by side in a reduction have so many bytes at most: a tile holds them all.
const WIDEST: usize = 4096;
/// Accumulators for a slice have so many bytes at most: some of them have to stay in the second-level cache.
const SLICE: usize = 128 << 10;
/// Every chunk leaves a slice of partial results: with fewer slices, chunks would be few, or leave as much as they read.
const LEAST_SLICES: usize = 32;
/// Smaller spaces are one chunk.
const SMALL: usize = 1 << 14;
/// Arrays of up to so many elements are reduced in a single tile wherever that is done, so machine code knows the order.
const ONE_TILE: usize = 64;

/// A space of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    /// Elements of each.
    pub(super) length: usize,
}

/// What a reduction reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    /// How it splits that.
    pub(super) split: Split,
    /// Bytes of an element.
    pub(super) size: usize,
    /// Whether there is one element for each row.
    pub(super) is_row: bool,
}

/// How the rows of a space are taken together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Over {
    /// The slices, and what is reduced in each, both in rows; `None` where nothing asks for slices.
    split: Option<Split>,
    /// Whether a reduction over the slices keeps all elements of one.
    pub(super) whole: bool,
}

impl Over {
    /// Whether tiles of rows can follow a reduction, from now on: over all rows, over slices of which tiles hold a few
    /// or which hold a few tiles, or over axes in these.
    pub(super) fn takes(&mut self, read: Read, rows: Rows) -> bool {
        let (split, size) = (read.split, rows.count * rows.length);
        if read.is_row && rows.count <= ONE_TILE && size > ONE_TILE {
            return false;
        }
        if split.is_full() {
            return true;
        }
        let of_row = if read.is_row { 1 } else { rows.length };
        if size == 0 || !split.inner.is_multiple_of(of_row) {
            return false;
        }
        let by_rows = Split {
            inner: split.inner / of_row,
            ..split
        };
        let bytes = by_rows.inner * rows.length * read.size;
        if by_rows.outer > 1 {
            return bytes <= WIDEST && *self.split.get_or_insert(by_rows) == by_rows;
        }
        if by_rows.inner == 1 {
            return true;
        }
        let few = by_rows.reduced < LEAST_SLICES && size > SMALL;
        !few && bytes <= SLICE && self.takes_slices(by_rows.inner, rows.count)
    }

    /// Whether there can be a reduction over slices of so many of the rows.
    fn takes_slices(&mut self, length: usize, count: usize) -> bool {
        let split = self.split.get_or_insert(Split {
            outer: count / length,
            reduced: length,
            inner: 1,
        });
        if split.inner.is_multiple_of(length) {
            return true;
        }
        let is_slice = split.reduced * split.inner == length;
        self.whole |= is_slice;
        is_slice
    }

    /// How many rows a tile holds, where it has room for about so many: whole slices, or even parts of one.
    pub(super) fn rows_together(&self, room: usize) -> usize {
        let Some(Split { reduced, inner, .. }) = self.split else {
            return room;
        };
        let length = reduced * inner;
        if 2 * room >= length {
            return ((2 * room + length) / (2 * length)).max(1) * length;
        }
        let parts = reduced.div_ceil((room / inner).max(1));
        reduced.div_ceil(parts) * inner
    }

    /// The split that tiles follow instead of that into rows, in elements.
    pub(super) fn walked(&self, rows: Rows) -> Option<Split> {
        self.split.map(|split| Split {
            inner: split.inner * rows.length,
            ..split
        })
    }
}

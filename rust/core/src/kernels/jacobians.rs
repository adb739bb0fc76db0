//! Derivatives of a right side with respect to the state, at the points of a run: whole matrices, some of their entries, or
//! products with them only.

use std::fmt;

use super::dense::dot;
use super::simd_level::{Level, leveled};
use crate::error::Result;

/// Which entries of a matrix are given, row by row.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    /// Where rows begin among the columns, and where the last one ends.
    pub starts: &'a [usize],
    /// The columns of all rows, one row after the other.
    pub columns: &'a [u32],
}

impl Entries<'_> {
    /// The columns and values of a row, which begins and ends there.
    #[inline(always)]
    fn row<'v>(&self, ends: &[usize], values: &'v [f64]) -> (&[u32], &'v [f64]) {
        (&self.columns[ends[0]..ends[1]], &values[ends[0]..ends[1]])
    }
}

/// Products of the derivatives with vectors.
pub trait Products: fmt::Debug + Send + Sync {
    /// Puts the products at consecutive points, from this one on, with a vector for each, one after the other.
    fn forth(&self, first: usize, vectors: &[f64], found: &mut [f64]) -> Result<()>;

    /// As `forth`, with rows from the left.
    fn back(&self, first: usize, rows: &[f64], found: &mut [f64]) -> Result<()>;
}

/// Matrices with entries in the same places.
#[derive(Debug, Clone, Copy)]
pub struct Jacobians<'a> {
    /// How many there are.
    pub count: usize,
    /// How many rows and columns they have.
    pub n: usize,
    /// Which entries are given, where these are not all.
    pub entries: Option<Entries<'a>>,
    /// Their values, one matrix after the other.
    pub values: &'a [f64],
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Jacobian<'a> {
    n: usize,
    entries: Option<Entries<'a>>,
    values: &'a [f64],
}

impl<'a> Jacobians<'a> {
    /// How many entries of each are given.
    pub fn size(&self) -> usize {
        (self.entries).map_or(self.n * self.n, |entries| entries.columns.len())
    }

    /// The matrix at a point.
    #[inline(always)]
    pub fn at(&self, point: usize) -> Jacobian<'a> {
        let size = self.size();
        Jacobian {
            n: self.n,
            entries: self.entries,
            values: &self.values[point * size..][..size],
        }
    }

    /// Puts the products at consecutive points, from this one on, with a vector for each, one after the other.
    ///
    /// # Panics
    ///
    /// Where there are not so many points, or the slices have other lengths.
    pub fn forth(&self, first: usize, vectors: &[f64], found: &mut [f64]) {
        assert_eq!(vectors.len(), found.len(), "as many numbers");
        // SAFETY: the machine supports its best level.
        unsafe { forth(Level::best())(self, first, vectors, found) };
    }

    /// As `forth`, with rows from the left.
    ///
    /// # Panics
    ///
    /// As `forth`.
    pub fn back(&self, first: usize, rows: &[f64], found: &mut [f64]) {
        assert_eq!(rows.len(), found.len(), "as many numbers");
        found.fill(0.0);
        // SAFETY: the machine supports its best level.
        unsafe { back(Level::best())(self, first, rows, found) };
    }

    /// Which entries differ from zero at any point, or may: where rows begin, and the columns of all rows.
    pub fn nonzero(&self) -> (Vec<usize>, Vec<u32>) {
        if let Some(entries) = self.entries {
            return (entries.starts.to_vec(), entries.columns.to_vec());
        }
        let n = self.n;
        let mut is_there = vec![false; n * n];
        for matrix in self.values.chunks_exact((n * n).max(1)) {
            for (is_there, value) in is_there.iter_mut().zip(matrix) {
                *is_there |= *value != 0.0;
            }
        }
        let (mut starts, mut columns) = (vec![0], Vec::new());
        for row in is_there.chunks_exact(n.max(1)) {
            columns.extend((0..n as u32).filter(|&j| row[j as usize]));
            starts.push(columns.len());
        }
        (starts, columns)
    }
}

impl Jacobian<'_> {
    /// Calls a function with row, column and value of each entry.
    #[inline(always)]
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize, f64)) {
        match self.entries {
            None => {
                for (row, values) in self.values.chunks_exact(self.n.max(1)).enumerate() {
                    for (column, value) in values.iter().enumerate() {
                        visit(row, column, *value);
                    }
                }
            }
            Some(entries) => {
                for (row, ends) in entries.starts.windows(2).enumerate() {
                    for at in ends[0]..ends[1] {
                        visit(row, entries.columns[at] as usize, self.values[at]);
                    }
                }
            }
        }
    }

    /// Adds the products with `count` columns, which are those of a row-major matrix.
    #[inline(always)]
    pub fn add_product(&self, columns: &[f64], count: usize, sum: &mut [f64]) {
        self.for_each(|row, column, value| {
            if value != 0.0 {
                let from = &columns[column * count..][..count];
                for (x, y) in sum[row * count..][..count].iter_mut().zip(from) {
                    *x += value * y;
                }
            }
        });
    }

    /// Adds the product with a row, from the left.
    #[inline(always)]
    pub fn add_row_product(&self, row: &[f64], sum: &mut [f64]) {
        if let Some(entries) = self.entries {
            for (weight, ends) in row.iter().zip(entries.starts.windows(2)) {
                // What is not asked for does not count, were it infinite.
                if *weight != 0.0 {
                    let (columns, values) = entries.row(ends, self.values);
                    for (&j, x) in columns.iter().zip(values) {
                        sum[j as usize] += x * weight;
                    }
                }
            }
            return;
        }
        for (weight, values) in row.iter().zip(self.values.chunks_exact(self.n.max(1))) {
            if *weight != 0.0 {
                for (x, y) in sum.iter_mut().zip(values) {
                    *x += weight * y;
                }
            }
        }
    }
}

leveled! {
    fn forth[](matrices: &Jacobians<'_>, first: usize, vectors: &[f64], found: &mut [f64]) {
        let vectors = vectors.chunks_exact(matrices.n);
        for (point, (vector, found)) in vectors.zip(found.chunks_exact_mut(matrices.n)).enumerate() {
            let matrix = matrices.at(first + point);
            let Some(entries) = matrix.entries else {
                for (found, row) in found.iter_mut().zip(matrix.values.chunks_exact(matrices.n)) {
                    *found = dot(row, vector);
                }
                continue;
            };
            for (found, ends) in found.iter_mut().zip(entries.starts.windows(2)) {
                let (columns, values) = entries.row(ends, matrix.values);
                let products = columns.iter().zip(values).map(|(&j, x)| x * vector[j as usize]);
                *found = products.sum();
            }
        }
    }
}

leveled! {
    fn back[](matrices: &Jacobians<'_>, first: usize, rows: &[f64], found: &mut [f64]) {
        let rows = rows.chunks_exact(matrices.n);
        for (point, (row, found)) in rows.zip(found.chunks_exact_mut(matrices.n)).enumerate() {
            matrices.at(first + point).add_row_product(row, found);
        }
    }
}

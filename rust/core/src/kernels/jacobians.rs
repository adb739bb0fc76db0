//! Derivatives of a right side with respect to the state, at the points of a run: whole matrices, or the entries of a pattern.

use crate::sparsity::Pattern;

/// Matrices of the same pattern.
#[derive(Debug, Clone, Copy)]
pub struct Jacobians<'a> {
    /// How many there are.
    pub count: usize,
    /// How many rows and columns they have.
    pub n: usize,
    /// Which entries are given; all, row by row, where there is none.
    pub pattern: Option<&'a Pattern>,
    /// The entries, one matrix after the other.
    pub values: &'a [f64],
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Jacobian<'a> {
    n: usize,
    pattern: Option<&'a Pattern>,
    values: &'a [f64],
}

impl<'a> Jacobians<'a> {
    /// How many entries of each are given.
    pub fn size(&self) -> usize {
        self.pattern.map_or(self.n * self.n, Pattern::num_entries)
    }

    /// The matrix at a point.
    #[inline(always)]
    pub fn at(&self, point: usize) -> Jacobian<'a> {
        let size = self.size();
        Jacobian {
            n: self.n,
            pattern: self.pattern,
            values: &self.values[point * size..][..size],
        }
    }

    /// Which entries differ from zero at any point, or may.
    pub fn places(&self) -> Pattern {
        if let Some(pattern) = self.pattern {
            return pattern.clone();
        }
        let n = self.n;
        let mut is_there = vec![false; n * n];
        for matrix in self.values.chunks_exact((n * n).max(1)) {
            for (is_there, value) in is_there.iter_mut().zip(matrix) {
                *is_there |= *value != 0.0;
            }
        }
        let (mut starts, mut indices) = (vec![0], Vec::new());
        for row in is_there.chunks_exact(n.max(1)) {
            indices.extend((0..n as u32).filter(|&j| row[j as usize]));
            starts.push(indices.len());
        }
        Pattern::new(n, starts, indices).expect("columns ascend in each row")
    }
}

impl Jacobian<'_> {
    /// Calls a function with row, column and value of each entry.
    #[inline(always)]
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize, f64)) {
        match self.pattern {
            None => {
                for (row, values) in self.values.chunks_exact(self.n.max(1)).enumerate() {
                    for (column, value) in values.iter().enumerate() {
                        visit(row, column, *value);
                    }
                }
            }
            Some(pattern) => {
                for (row, ends) in pattern.starts().windows(2).enumerate() {
                    for at in ends[0]..ends[1] {
                        visit(row, pattern.indices()[at] as usize, self.values[at]);
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
        if self.pattern.is_some() {
            self.for_each(|i, j, value| {
                // What is not asked for does not count, were it infinite.
                if row[i] != 0.0 {
                    sum[j] += value * row[i];
                }
            });
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

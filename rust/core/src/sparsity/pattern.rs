//! The places of a matrix that may differ from zero, row by row (CSR).

use crate::error::{Error, Result};

/// Which elements of a matrix may differ from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    columns: usize,
    starts: Vec<usize>,
    indices: Vec<u32>,
}

impl Pattern {
    /// A pattern of so many columns. The columns of row `i` are `indices[starts[i]..starts[i + 1]]`, in
    /// ascending order.
    pub fn new(columns: usize, starts: Vec<usize>, indices: Vec<u32>) -> Result<Pattern> {
        let ordered = starts.first() == Some(&0)
            && starts.last() == Some(&indices.len())
            && starts.is_sorted()
            && starts.windows(2).all(|row| {
                let row = &indices[row[0]..row[1]];
                row.is_sorted_by(|a, b| a < b) && row.last().is_none_or(|&c| (c as usize) < columns)
            });
        if ordered {
            return Ok(Pattern {
                columns,
                starts,
                indices,
            });
        }
        Err(Error::Shape(format!(
            "sparsity: the columns of each row have to ascend, without duplicates, below {columns}"
        )))
    }

    /// A pattern with these columns in each row.
    pub fn from_rows(columns: usize, rows: &[&[u32]]) -> Result<Pattern> {
        let mut starts = vec![0];
        let mut indices = Vec::new();
        for row in rows {
            indices.extend_from_slice(row);
            starts.push(indices.len());
        }
        Pattern::new(columns, starts, indices)
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of columns.
    pub fn num_columns(&self) -> usize {
        self.columns
    }

    /// Number of places that may differ from zero.
    pub fn num_entries(&self) -> usize {
        self.indices.len()
    }

    /// Where rows begin among the indices, and where the last one ends.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The columns of all rows, one row after the other.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The columns of a row.
    #[inline]
    pub fn row(&self, i: usize) -> &[u32] {
        &self.indices[self.starts[i]..self.starts[i + 1]]
    }

    /// Number of entries of the fullest row.
    pub fn max_row(&self) -> usize {
        self.starts
            .windows(2)
            .map(|r| r[1] - r[0])
            .max()
            .unwrap_or(0)
    }

    /// With rows and columns exchanged.
    #[must_use]
    pub fn transposed(&self) -> Pattern {
        self.transposed_where(|_| true)
    }

    /// The columns of the rows for which `taken` holds, as rows; the other rows count as empty.
    pub(super) fn transposed_where(&self, taken: impl Fn(usize) -> bool) -> Pattern {
        let mut starts = vec![0; self.columns + 1];
        let rows = || (0..self.num_rows()).filter(|&i| taken(i));
        for i in rows() {
            for &c in self.row(i) {
                starts[c as usize + 1] += 1;
            }
        }
        for c in 0..self.columns {
            starts[c + 1] += starts[c];
        }
        let mut next = starts.clone();
        let mut indices = vec![0; starts[self.columns]];
        for i in rows() {
            for &c in self.row(i) {
                let at = &mut next[c as usize];
                indices[*at] = i as u32;
                *at += 1;
            }
        }
        Pattern {
            columns: self.num_rows(),
            starts,
            indices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_twice_gives_the_pattern_back() {
        let p = Pattern::from_rows(4, &[&[0, 3], &[], &[1, 2, 3]]).unwrap();
        let t = p.transposed();
        assert_eq!(
            t,
            Pattern::from_rows(3, &[&[0], &[2], &[2], &[0, 2]]).unwrap()
        );
        assert_eq!(t.transposed(), p);
    }

    #[test]
    fn rows_out_of_order_are_refused() {
        assert!(Pattern::from_rows(4, &[&[3, 0]]).is_err());
        assert!(Pattern::from_rows(4, &[&[1, 1]]).is_err());
        assert!(Pattern::from_rows(4, &[&[4]]).is_err());
        assert!(Pattern::new(4, vec![0, 2, 1], vec![0, 1]).is_err());
    }
}

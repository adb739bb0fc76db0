//! Solves systems whose matrices have their entries near the diagonal, in float64: time and memory grow with the width of the
//! band, not with the number of equations squared.

use super::dense::{dot, in_lanes, take, take_lanes, without};
use super::simd_level::{Level, leveled};

/// A square matrix of so many entries left and right of the diagonal, row by row, with room for what pivoting adds.
#[derive(Debug, Clone)]
pub struct Band {
    order: usize,
    left: usize,
    /// How many entries a row has room for: `left`, the diagonal, and twice what may be right of it.
    width: usize,
    /// Entry `j` of row `i` is at `i · width + left + j - i`.
    entries: Vec<f64>,
}

impl Band {
    /// The matrix of zeros.
    pub fn zeros(order: usize, left: usize, right: usize) -> Band {
        let width = 2 * left + right + 1;
        Band {
            order,
            left,
            width,
            entries: vec![0.0; order * width],
        }
    }

    /// An entry.
    ///
    /// # Panics
    ///
    /// Where it is not in the band.
    pub fn entry(&mut self, row: usize, column: usize) -> &mut f64 {
        let place = self.left + column - row;
        assert!(place < self.width, "an entry of the band");
        &mut self.entries[row * self.width + place]
    }
}

/// Such a matrix as `L` and `U`, by partial pivoting: unblocked, as LAPACK's `dgbtf2`.
#[derive(Debug, Clone)]
pub struct BandFactors {
    /// `U`, on and right of the diagonal.
    upper: Band,
    /// Of each column the factors of the rows below, as many as there are left of the diagonal.
    lower: Vec<f64>,
    /// How many rows below each row it was exchanged with.
    exchanged: Vec<usize>,
}

impl BandFactors {
    /// Factors a matrix. Of a singular one solutions hold infinities or NaN.
    pub fn of(matrix: Band) -> BandFactors {
        let mut made = BandFactors {
            lower: vec![0.0; matrix.order * matrix.left],
            exchanged: vec![0; matrix.order],
            upper: matrix,
        };
        // SAFETY: the machine supports its best level.
        unsafe { factor(Level::best())(&mut made.upper, &mut made.lower, &mut made.exchanged) };
        made
    }

    /// Solves for `count` right sides, which are columns of a row-major matrix, with the transposed matrix if asked for.
    ///
    /// # Panics
    ///
    /// Where the slice does not have `order · count` elements.
    pub fn solve(&self, count: usize, sides: &mut [f64], transposed: bool) {
        assert_eq!(
            sides.len(),
            self.upper.order * count,
            "right sides as columns"
        );
        if sides.is_empty() {
            return;
        }
        // SAFETY: the machine supports its best level.
        unsafe {
            if transposed {
                solve_transposed(Level::best())(self, count, sides);
            } else {
                solve(Level::best())(self, count, sides);
            }
        }
    }
}

leveled! {
    fn factor[](matrix: &mut Band, lower: &mut [f64], exchanged: &mut [usize]) {
        let (order, left, width) = (matrix.order, matrix.left, matrix.width);
        for j in 0..order {
            let below = left.min(order - 1 - j);
            // Row `j + k`, from column `j` on.
            let from = |k: usize| (j + k) * width + left - k;
            let size = |k: usize| matrix.entries[from(k)].abs();
            let pivot = (1..=below).fold(0, |best, k| if size(k) > size(best) { k } else { best });
            exchanged[j] = pivot;
            let length = (width - left).min(order - j);
            let (head, rest) = matrix.entries.split_at_mut((j + 1) * width);
            let row = &mut head[from(0)..][..length];
            if pivot > 0 {
                row.swap_with_slice(&mut rest[from(pivot) - (j + 1) * width..][..length]);
            }
            for k in 1..=below {
                let other = &mut rest[from(k) - (j + 1) * width..][..length];
                let factor = other[0] / row[0];
                lower[j * left + k - 1] = factor;
                // A factor of zero leaves a row as it is, whatever stands in the other one.
                if factor != 0.0 {
                    take(&mut other[1..], factor, &row[1..]);
                }
            }
        }
    }
}

impl BandFactors {
    /// What stands right of the diagonal in a row of `U`, and the diagonal.
    #[inline(always)]
    fn row(&self, j: usize) -> (f64, &[f64]) {
        let Band {
            order, left, width, ..
        } = self.upper;
        let row = &self.upper.entries[j * width + left..][..(width - left).min(order - j)];
        (row[0], &row[1..])
    }

    /// The factors of the rows below one.
    #[inline(always)]
    fn below(&self, j: usize) -> &[f64] {
        let left = self.upper.left;
        &self.lower[j * left..][..left.min(self.upper.order - 1 - j)]
    }
}

leveled! {
    fn solve[](factors: &BandFactors, count: usize, sides: &mut [f64]) {
        let order = factors.upper.order;
        if count == 1 {
            for j in 0..order {
                sides.swap(j, j + factors.exchanged[j]);
                let (own, rest) = sides[j..].split_at_mut(1);
                take(rest, own[0], factors.below(j));
            }
            for j in (0..order).rev() {
                let (diagonal, row) = factors.row(j);
                sides[j] = (sides[j] - dot(row, &sides[j + 1..][..row.len()])) / diagonal;
            }
            return;
        }
        in_lanes(count, sides, |sides| {
            for j in 0..order {
                sides.swap(j, j + factors.exchanged[j]);
                let own = sides[j];
                take_lanes(&mut sides[j + 1..], factors.below(j), &own);
            }
            for j in (0..order).rev() {
                let (diagonal, row) = factors.row(j);
                let inverse = 1.0 / diagonal;
                sides[j] = without(sides[j], row, &sides[j + 1..]).map(|x| x * inverse);
            }
        });
    }
}

leveled! {
    fn solve_transposed[](factors: &BandFactors, count: usize, sides: &mut [f64]) {
        let order = factors.upper.order;
        if count == 1 {
            for j in 0..order {
                let (diagonal, row) = factors.row(j);
                let (own, rest) = sides[j..].split_at_mut(1);
                own[0] /= diagonal;
                take(rest, own[0], row);
            }
            for j in (0..order).rev() {
                let below = factors.below(j);
                sides[j] -= dot(below, &sides[j + 1..][..below.len()]);
                sides.swap(j, j + factors.exchanged[j]);
            }
            return;
        }
        in_lanes(count, sides, |sides| {
            for j in 0..order {
                let (diagonal, row) = factors.row(j);
                let inverse = 1.0 / diagonal;
                let own = sides[j].map(|x| x * inverse);
                sides[j] = own;
                take_lanes(&mut sides[j + 1..], row, &own);
            }
            for j in (0..order).rev() {
                sides[j] = without(sides[j], factors.below(j), &sides[j + 1..]);
                sides.swap(j, j + factors.exchanged[j]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::dense::Factors;
    use super::{Band, BandFactors};

    /// A matrix in both forms; its diagonal is small, so that rows are exchanged.
    fn matrices(order: usize, left: usize, right: usize) -> (Vec<f64>, Band) {
        let (mut dense, mut band) = (vec![0.0; order * order], Band::zeros(order, left, right));
        for i in 0..order {
            for j in i.saturating_sub(left)..(i + right + 1).min(order) {
                let x = ((i * 7 + j * 13) as f64 * 0.61).sin() + if i == j { 0.1 } else { 0.0 };
                dense[i * order + j] = x;
                *band.entry(i, j) = x;
            }
        }
        (dense, band)
    }

    #[test]
    fn solutions_are_those_of_the_dense_matrix() {
        for (order, left, right) in [(1, 0, 0), (7, 1, 1), (30, 3, 1), (30, 0, 4), (41, 5, 6)] {
            let (dense, band) = matrices(order, left, right);
            let (dense, band) = (Factors::of(order, dense), BandFactors::of(band));
            for count in [1, 3] {
                for transposed in [false, true] {
                    let side: Vec<f64> = (0..order * count).map(|i| (i as f64).cos()).collect();
                    let (mut expected, mut found) = (side.clone(), side);
                    dense.solve(count, &mut expected, transposed);
                    band.solve(count, &mut found, transposed);
                    let scale = expected.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
                    for (a, b) in found.iter().zip(&expected) {
                        assert!((a - b).abs() <= 1e-11 * scale, "{order} {left} {right}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_exchanged() {
        let mut band = Band::zeros(2, 1, 1);
        *band.entry(0, 1) = 2.0;
        *band.entry(1, 0) = 4.0;
        let mut side = [6.0, 8.0];
        BandFactors::of(band).solve(1, &mut side, false);
        assert_eq!(side, [2.0, 3.0]);
    }

    #[test]
    fn singular_matrices_have_no_finite_solution() {
        let mut band = Band::zeros(2, 1, 1);
        *band.entry(0, 0) = 1.0;
        let mut side = [1.0, 1.0];
        BandFactors::of(band).solve(1, &mut side, false);
        assert!(!side.iter().all(|x| x.is_finite()));
    }
}

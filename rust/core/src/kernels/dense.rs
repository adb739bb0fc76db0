//! Solves hundreds of systems of a few dozen equations each, in float64: plain loops over rows.
//!
//! A library of blocked algorithms, called for each of them, takes longer than the work.

use super::simd_level::{Level, leveled};

/// A square matrix as `L` and `U`, by partial pivoting, row-major.
#[derive(Debug, Clone, Default)]
pub struct Factors {
    order: usize,
    /// `L` below the diagonal, `U` on and above it.
    lu: Vec<f64>,
    /// Which row of the matrix a row is.
    rows: Vec<usize>,
}

impl Factors {
    /// Factors a matrix. Of a singular one solutions hold infinities or NaN.
    ///
    /// # Panics
    ///
    /// Where the slice does not have `order²` elements.
    pub fn of(order: usize, matrix: Vec<f64>) -> Factors {
        assert_eq!(matrix.len(), order * order, "a square matrix");
        let mut made = Factors {
            order,
            lu: matrix,
            rows: (0..order).collect(),
        };
        // SAFETY: the machine supports its best level, and the slices have these lengths.
        unsafe { factor(Level::best())(order, &mut made.lu, &mut made.rows) };
        made
    }

    /// Solves for `count` right sides, which are columns of a row-major matrix, with the transposed matrix if asked for.
    ///
    /// # Panics
    ///
    /// Where the slice does not have `order · count` elements.
    pub fn solve(&self, count: usize, sides: &mut [f64], transposed: bool) {
        assert_eq!(sides.len(), self.order * count, "right sides as columns");
        if count == 0 {
            return;
        }
        let mut given = sides.to_vec();
        // SAFETY: the machine supports its best level, and the slices have these lengths.
        unsafe {
            if transposed {
                solve_transposed(Level::best())(self.order, count, &self.lu, &mut given);
                for (row, &to) in given.chunks_exact(count).zip(&self.rows) {
                    sides[to * count..][..count].copy_from_slice(row);
                }
            } else {
                for (row, &from) in sides.chunks_exact_mut(count).zip(&self.rows) {
                    row.copy_from_slice(&given[from * count..][..count]);
                }
                solve(Level::best())(self.order, count, &self.lu, sides);
            }
        }
    }
}

/// The inverse of a row-major matrix that is far from a singular one: `‖A‖ ‖A⁻¹‖` is less than `most`, in the 1-norm.
pub fn regular_inverse(order: usize, matrix: &[f64], most: f64) -> Option<Vec<f64>> {
    let mut inverse = vec![0.0; order * order];
    inverse.iter_mut().step_by(order + 1).for_each(|x| *x = 1.0);
    Factors::of(order, matrix.to_vec()).solve(order, &mut inverse, false);
    // NaN fails the comparison.
    let is_far = norm(order, matrix) * norm(order, &inverse) < most;
    is_far.then_some(inverse)
}

/// The largest sum of absolute values in a column; NaN where there is one.
fn norm(order: usize, matrix: &[f64]) -> f64 {
    let sum = |j: usize| (0..order).map(|i| matrix[i * order + j].abs()).sum::<f64>();
    (0..order)
        .map(sum)
        .fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
}

/// Takes a multiple of a row from another one.
#[inline(always)]
fn take(row: &mut [f64], factor: f64, other: &[f64]) {
    for (x, y) in row.iter_mut().zip(other) {
        *x -= factor * y;
    }
}

/// Two rows of a matrix, the first of which is written to.
#[inline(always)]
fn pair(matrix: &mut [f64], width: usize, to: usize, from: usize) -> (&mut [f64], &[f64]) {
    if to > from {
        let (low, high) = matrix.split_at_mut(to * width);
        (&mut high[..width], &low[from * width..][..width])
    } else {
        let (low, high) = matrix.split_at_mut(from * width);
        (&mut low[to * width..][..width], &high[..width])
    }
}

leveled! {
    fn factor[](order: usize, lu: &mut [f64], rows: &mut [usize]) {
        for k in 0..order {
            let size = |i: usize| lu[i * order + k].abs();
            let pivot = (k + 1..order).fold(k, |best, i| if size(i) > size(best) { i } else { best });
            if pivot != k {
                rows.swap(pivot, k);
                let (low, high) = lu.split_at_mut(pivot * order);
                low[k * order..][..order].swap_with_slice(&mut high[..order]);
            }
            let inverse = 1.0 / lu[k * order + k];
            for i in k + 1..order {
                let (row, above) = pair(lu, order, i, k);
                let factor = row[k] * inverse;
                row[k] = factor;
                if factor != 0.0 {
                    take(&mut row[k + 1..], factor, &above[k + 1..]);
                }
            }
        }
    }
}

leveled! {
    fn solve[](order: usize, count: usize, lu: &[f64], sides: &mut [f64]) {
        for i in 0..order {
            for j in 0..i {
                let (row, above) = pair(sides, count, i, j);
                take(row, lu[i * order + j], above);
            }
        }
        for i in (0..order).rev() {
            for j in i + 1..order {
                let (row, below) = pair(sides, count, i, j);
                take(row, lu[i * order + j], below);
            }
            let inverse = 1.0 / lu[i * order + i];
            sides[i * count..][..count].iter_mut().for_each(|x| *x *= inverse);
        }
    }
}

leveled! {
    fn solve_transposed[](order: usize, count: usize, lu: &[f64], sides: &mut [f64]) {
        for i in 0..order {
            let inverse = 1.0 / lu[i * order + i];
            sides[i * count..][..count].iter_mut().for_each(|x| *x *= inverse);
            for j in i + 1..order {
                let (row, above) = pair(sides, count, j, i);
                take(row, lu[i * order + j], above);
            }
        }
        for i in (0..order).rev() {
            for j in 0..i {
                let (row, below) = pair(sides, count, j, i);
                take(row, lu[i * order + j], below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Factors, regular_inverse};

    /// Numbers without a pattern, between -1 and 1.
    fn numbers(count: usize) -> Vec<f64> {
        let mut state = 7_u64;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as f64 / f64::from(1 << 30) - 1.0
        };
        (0..count).map(next).collect()
    }

    fn times(order: usize, count: usize, a: &[f64], x: &[f64], transposed: bool) -> Vec<f64> {
        let at = |i: usize, j: usize| {
            if transposed {
                a[j * order + i]
            } else {
                a[i * order + j]
            }
        };
        let element = |e: usize| {
            let (i, c) = (e / count, e % count);
            (0..order).map(|j| at(i, j) * x[j * count + c]).sum()
        };
        (0..order * count).map(element).collect()
    }

    fn farthest(a: &[f64], b: &[f64]) -> f64 {
        a.iter()
            .zip(b)
            .map(|(x, y)| (x - y).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn solutions_solve() {
        for order in [1, 2, 3, 10, 37] {
            let matrix = numbers(order * order);
            let factors = Factors::of(order, matrix.clone());
            for (count, transposed) in [(1, false), (5, false), (1, true), (4, true)] {
                let sides = numbers(order * count);
                let mut found = sides.clone();
                factors.solve(count, &mut found, transposed);
                let back = times(order, count, &matrix, &found, transposed);
                assert!(
                    farthest(&back, &sides) < 1e-10,
                    "{order} {count} {transposed}"
                );
            }
        }
    }

    #[test]
    fn a_first_pivot_of_zero_is_exchanged() {
        let inverse = regular_inverse(2, &[0.0, 2.0, 4.0, 0.0], 1e8).unwrap();
        assert_eq!(inverse, [0.0, 0.25, 0.5, 0.0]);
    }

    #[test]
    fn singular_matrices_have_no_inverse() {
        for matrix in [[1.0, 2.0, 2.0, 4.0], [0.0; 4], [f64::NAN, 1.0, 1.0, 0.0]] {
            assert_eq!(regular_inverse(2, &matrix, 1e8), None);
        }
        assert_eq!(regular_inverse(2, &[1.0, 1.0, 1.0, 1.0 + 1e-12], 1e8), None);
    }
}

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
        if count == 0 || self.order == 0 {
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

/// How the solution `x` of equations moves with numbers that these depend on: row by row, after the implicit function
/// theorem. `inverse` is that of the derivatives of the equations with respect to the solution, `rest` what they leave
/// there, and each of `parts` has their derivatives with respect to some of the numbers, all row-major.
///
/// `None` where a step of Newton's method would move the solution by more than `far` times its size, and where a
/// derivative is infinite or NaN.
///
/// # Panics
///
/// Where the slices do not have these lengths.
pub fn slopes_of_solution(
    x: &[f64],
    rest: &[f64],
    inverse: &[f64],
    parts: &[&[f64]],
    far: f64,
) -> Option<Vec<f64>> {
    let order = x.len();
    assert_eq!(inverse.len(), order * order, "a square matrix");
    assert_eq!(rest.len(), order, "as many equations as unknowns");
    let rows = || inverse.chunks_exact(order.max(1));
    let size = x.iter().map(|x| x.abs()).fold(0.1, f64::max);
    // NaN fails the comparison.
    let is_there = rows().all(|row| {
        let step: f64 = row.iter().zip(rest).map(|(a, b)| a * b).sum();
        step.abs() <= far * size
    });
    if !is_there {
        return None;
    }
    let mut slopes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    for row in rows() {
        for part in parts {
            let width = part.len() / order;
            assert_eq!(part.len(), width * order, "derivatives of each equation");
            let start = slopes.len();
            slopes.resize(start + width, 0.0);
            for (k, factor) in row.iter().enumerate() {
                take(&mut slopes[start..], *factor, &part[k * width..][..width]);
            }
        }
    }
    slopes.iter().all(|x| x.is_finite()).then_some(slopes)
}

/// The largest sum of absolute values in a column; NaN where there is one.
fn norm(order: usize, matrix: &[f64]) -> f64 {
    let sum = |j: usize| (0..order).map(|i| matrix[i * order + j].abs()).sum::<f64>();
    (0..order)
        .map(sum)
        .fold(0.0, |a, b| if b > a || b.is_nan() { b } else { a })
}

/// Subtracts a multiple of a row from another one.
#[inline(always)]
pub(super) fn take(row: &mut [f64], factor: f64, other: &[f64]) {
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

const LANES: usize = 8;

/// The sum of products of elements.
#[inline(always)]
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// So many columns are eliminated together from what is behind them.
const TOGETHER: usize = 8;

/// Subtracts multiples of rows from another one, one after the other: the same as [`take`] for each.
#[inline(always)]
fn take_together(row: &mut [f64], factors: &[f64; TOGETHER], others: &[f64], width: usize) {
    let length = row.len();
    let others: [&[f64]; TOGETHER] = std::array::from_fn(|k| &others[k * width..][..length]);
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    let behind = length - rest.len();
    for (i, chunk) in chunks.iter_mut().enumerate() {
        let mut sums = *chunk;
        for (factor, other) in factors.iter().zip(others) {
            let other: &[f64; LANES] = (&other[i * LANES..][..LANES]).try_into().expect("lanes");
            for lane in 0..LANES {
                sums[lane] -= factor * other[lane];
            }
        }
        *chunk = sums;
    }
    for (factor, other) in factors.iter().zip(others) {
        take(rest, *factor, &other[behind..]);
    }
}

leveled! {
    fn factor[](order: usize, lu: &mut [f64], rows: &mut [usize]) {
        for begin in (0..order).step_by(TOGETHER) {
            let end = (begin + TOGETHER).min(order);
            for k in begin..end {
                let size = |i: usize| lu[i * order + k].abs();
                let pivot = (k + 1..order).fold(k, |best, i| if size(i) > size(best) { i } else { best });
                if pivot != k {
                    rows.swap(pivot, k);
                    let (low, high) = lu.split_at_mut(pivot * order);
                    low[k * order..][..order].swap_with_slice(&mut high[..order]);
                }
                let (above, below) = lu.split_at_mut((k + 1) * order);
                let own = &above[k * order + begin..k * order + end];
                let (column, inverse) = (k - begin, 1.0 / own[k - begin]);
                // Nothing is taken from the columns up to this one.
                let mut taken = [0.0; TOGETHER];
                taken[column + 1..own.len()].copy_from_slice(&own[column + 1..]);
                for row in below.chunks_exact_mut(order) {
                    let row = &mut row[begin..end];
                    let factor = row[column] * inverse;
                    row[column] = factor;
                    // What is not coupled stays finite beside infinities.
                    if factor == 0.0 {
                        continue;
                    }
                    if let Ok(row) = <&mut [f64; TOGETHER]>::try_from(&mut *row) {
                        for lane in 0..TOGETHER {
                            row[lane] -= factor * taken[lane];
                        }
                    } else {
                        take(row, factor, &taken);
                    }
                }
            }
            for i in begin + 1..end {
                for k in begin..i {
                    let (row, above) = pair(lu, order, i, k);
                    let factor = row[k];
                    if factor != 0.0 {
                        take(&mut row[end..], factor, &above[end..]);
                    }
                }
            }
            let (above, below) = lu.split_at_mut(end * order);
            for row in below.chunks_exact_mut(order) {
                let (factors, rest) = row.split_at_mut(end);
                // Columns behind these are there only if there are that many.
                if let Ok(factors) = <&[f64; TOGETHER]>::try_from(&factors[begin..])
                    && factors.iter().any(|factor| *factor != 0.0)
                {
                    take_together(rest, factors, &above[begin * order + end..], order);
                }
            }
        }
    }
}

leveled! {
    fn solve[](order: usize, count: usize, lu: &[f64], sides: &mut [f64]) {
        if count == 1 {
            for (i, row) in lu.chunks_exact(order).enumerate() {
                sides[i] -= dot(&row[..i], &sides[..i]);
            }
            for (i, row) in lu.chunks_exact(order).enumerate().rev() {
                sides[i] = (sides[i] - dot(&row[i + 1..], &sides[i + 1..])) / row[i];
            }
            return;
        }
        in_lanes(count, sides, |sides| {
            for (i, row) in lu.chunks_exact(order).enumerate() {
                sides[i] = without(sides[i], &row[..i], &sides[..i]);
            }
            for (i, row) in lu.chunks_exact(order).enumerate().rev() {
                let inverse = 1.0 / row[i];
                sides[i] = without(sides[i], &row[i + 1..], &sides[i + 1..]).map(|x| x * inverse);
            }
        });
    }
}

leveled! {
    fn solve_transposed[](order: usize, count: usize, lu: &[f64], sides: &mut [f64]) {
        if count == 1 {
            for (i, row) in lu.chunks_exact(order).enumerate() {
                let (own, rest) = sides[i..].split_at_mut(1);
                own[0] /= row[i];
                take(rest, own[0], &row[i + 1..]);
            }
            for (i, row) in lu.chunks_exact(order).enumerate().rev() {
                let (rest, own) = sides.split_at_mut(i);
                take(rest, own[0], &row[..i]);
            }
            return;
        }
        in_lanes(count, sides, |sides| {
            for (i, row) in lu.chunks_exact(order).enumerate() {
                let inverse = 1.0 / row[i];
                let own = sides[i].map(|x| x * inverse);
                sides[i] = own;
                take_lanes(&mut sides[i + 1..], &row[i + 1..], &own);
            }
            for (i, row) in lu.chunks_exact(order).enumerate().rev() {
                let own = sides[i];
                take_lanes(&mut sides[..i], &row[..i], &own);
            }
        });
    }
}

/// Runs `work` on the columns of a row-major matrix, [`LANES`] at a time.
#[inline(always)]
pub(super) fn in_lanes(
    count: usize,
    matrix: &mut [f64],
    mut work: impl FnMut(&mut [[f64; LANES]]),
) {
    let mut lanes = vec![[0.0; LANES]; matrix.len() / count];
    for begin in (0..count).step_by(LANES) {
        let width = LANES.min(count - begin);
        for (lanes, row) in lanes.iter_mut().zip(matrix.chunks_exact(count)) {
            lanes[..width].copy_from_slice(&row[begin..][..width]);
        }
        work(&mut lanes);
        for (lanes, row) in lanes.iter().zip(matrix.chunks_exact_mut(count)) {
            row[begin..][..width].copy_from_slice(&lanes[..width]);
        }
    }
}

/// A row without multiples of others.
#[inline(always)]
pub(super) fn without(
    mut row: [f64; LANES],
    factors: &[f64],
    others: &[[f64; LANES]],
) -> [f64; LANES] {
    for (factor, other) in factors.iter().zip(others) {
        for lane in 0..LANES {
            row[lane] -= factor * other[lane];
        }
    }
    row
}

/// Subtracts multiples of a row from others.
#[inline(always)]
pub(super) fn take_lanes(rows: &mut [[f64; LANES]], factors: &[f64], other: &[f64; LANES]) {
    for (row, factor) in rows.iter_mut().zip(factors) {
        for lane in 0..LANES {
            row[lane] -= factor * other[lane];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Factors, regular_inverse, slopes_of_solution};

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
        for order in [1, 2, 3, 8, 10, 16, 17, 37] {
            let matrix = numbers(order * order);
            let factors = Factors::of(order, matrix.clone());
            for (count, transposed) in [1, 4, 8, 9, 17]
                .into_iter()
                .flat_map(|count| [(count, false), (count, true)])
            {
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
    fn no_equations_have_a_solution() {
        Factors::of(0, Vec::new()).solve(3, &mut [], false);
    }

    #[test]
    fn infinities_stay_in_their_block() {
        // Two systems of one and of nine equations.
        let order = 10;
        let mut matrix = vec![0.0; order * order];
        for i in 1..order {
            for j in 1..order {
                matrix[i * order + j] = 1.0 / (i + j) as f64 + f64::from(u8::from(i == j));
            }
        }
        matrix[0] = f64::INFINITY;
        let mut found = vec![1.0; order];
        Factors::of(order, matrix).solve(1, &mut found, false);
        assert!(found[1..].iter().all(|x| x.is_finite()), "{found:?}");
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

    #[test]
    fn solutions_move_with_what_equations_depend_on() {
        // x² = a and x y = b at a = 4, b = 6, of which b stands twice.
        let inverse = regular_inverse(2, &[4.0, 0.0, 3.0, 2.0], 1e8).unwrap();
        let parts: [&[f64]; 2] = [&[-1.0, 0.0], &[0.0, 0.0, -1.0, -1.0]];
        let found = slopes_of_solution(&[2.0, 3.0], &[1e-9, 0.0], &inverse, &parts, 0.01);
        let expected = [0.25, 0.0, 0.0, -0.375, 0.5, 0.5];
        assert_eq!(found.as_deref(), Some(&expected[..]));
        let far = |rest: &[f64]| slopes_of_solution(&[2.0, 3.0], rest, &inverse, &parts, 0.01);
        assert_eq!(far(&[1.0, 0.0]), None);
        assert_eq!(far(&[0.0, f64::NAN]), None);
        let parts: [&[f64]; 1] = [&[f64::INFINITY, 0.0]];
        let infinite = slopes_of_solution(&[2.0, 3.0], &[0.0; 2], &inverse, &parts, 0.01);
        assert_eq!(infinite, None);
    }
}

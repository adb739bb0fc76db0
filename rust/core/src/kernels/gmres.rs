//! Solves linear systems of which products with the matrix are all that is known: GMRES (Saad, Schultz, *GMRES: a
//! generalized minimal residual algorithm*, 1986).

use super::dense::dot;
use super::simd_level::{Level, leveled};
use crate::error::Result;

/// When a system counts as solved.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// Of each equation the residual may be so large, in parts of its right side and of its unknown.
    pub left: f64,
    /// In each cycle there may be so many products.
    pub most: usize,
}

impl Goal {
    /// By how much a cycle is to make the residual smaller.
    fn smaller(&self) -> f64 {
        0.1 * self.left
    }

    /// Where equations differ so much in size that not each of them is solved, all of them together are left with so much.
    fn left_of_all(&self) -> f64 {
        0.01 * self.left
    }
}

/// More cycles do not make the residual smaller than rounding.
const CYCLES: usize = 3;

/// Puts the product with a vector into another one.
pub type Product<'a> = dyn FnMut(&[f64], &mut [f64]) -> Result<()> + 'a;

/// Solves a system in place: `side` is the right side, and then the solution.
///
/// False, with the right side as it was, where that takes more products, or a number is not finite.
pub fn gmres(product: &mut Product<'_>, side: &mut [f64], goal: Goal) -> Result<bool> {
    let largest = side.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    if largest == 0.0 {
        return Ok(true);
    }
    if !side.iter().all(|x| x.is_finite()) {
        return Ok(false);
    }
    let given: Vec<f64> = side.iter().map(|x| x / largest).collect();
    let whole = norm(&given);
    let (mut solution, mut rest) = (vec![0.0; side.len()], given.clone());
    let mut image = vec![0.0; side.len()];
    let mut is_solved = false;
    for _ in 0..CYCLES {
        let before = norm(&rest);
        add_change(product, &rest, before, goal, &mut solution)?;
        product(&solution, &mut image)?;
        for ((rest, side), image) in rest.iter_mut().zip(&given).zip(&image) {
            *rest = side - image;
        }
        let mut equations = rest.iter().zip(&given).zip(&solution);
        is_solved =
            equations.all(|((rest, side), x)| rest.abs() <= goal.left * (side.abs() + x.abs()));
        // NaN is not smaller.
        let is_smaller = norm(&rest) < 0.1 * before;
        if is_solved || !is_smaller {
            break;
        }
    }
    is_solved |= norm(&rest) <= goal.left_of_all() * whole;
    if is_solved {
        for (side, x) in side.iter_mut().zip(&solution) {
            *side = x * largest;
        }
    }
    Ok(is_solved)
}

/// One cycle: adds to the solution what makes the residual smallest, among the products of powers of the matrix with it.
fn add_change(
    product: &mut Product<'_>,
    rest: &[f64],
    size: f64,
    goal: Goal,
    solution: &mut [f64],
) -> Result<()> {
    let mut basis = vec![scaled(rest, 1.0 / size)];
    // Columns of a triangle, what is left of the right side, and the rotations that have made them.
    let (mut columns, mut sides): (Vec<Vec<f64>>, _) = (Vec::new(), vec![size]);
    let mut rotations: Vec<(f64, f64)> = Vec::new();
    while columns.len() < goal.most && sides[columns.len()].abs() > goal.smaller() * size {
        let mut next = vec![0.0; rest.len()];
        product(&basis[columns.len()], &mut next)?;
        let mut column = vec![0.0; basis.len() + 1];
        // SAFETY: the machine supports its best level.
        unsafe { orthogonalize(Level::best())(&basis, &mut next, &mut column) };
        let length = norm(&next);
        for (i, (c, s)) in rotations.iter().enumerate() {
            let (x, y) = (column[i], column[i + 1]);
            (column[i], column[i + 1]) = (c * x + s * y, c * y - s * x);
        }
        let x = column[basis.len() - 1];
        let both = x.hypot(length);
        if both.is_nan() || both == 0.0 {
            break;
        }
        let (c, s) = (x / both, length / both);
        column.truncate(basis.len());
        column[basis.len() - 1] = both;
        let left = sides[columns.len()];
        sides[columns.len()] = c * left;
        sides.push(-s * left);
        rotations.push((c, s));
        columns.push(column);
        if length == 0.0 {
            break;
        }
        basis.push(scaled(&next, 1.0 / length));
    }
    for i in (0..columns.len()).rev() {
        sides[i] /= columns[i][i];
        let weight = sides[i];
        for (side, x) in sides.iter_mut().zip(&columns[i][..i]) {
            *side -= weight * x;
        }
    }
    // SAFETY: the machine supports its best level.
    unsafe { add(Level::best())(&basis[..columns.len()], &sides, solution) };
    Ok(())
}

leveled! {
    /// Adds vectors, times a number each.
    fn add[](vectors: &[Vec<f64>], weights: &[f64], sum: &mut [f64]) {
        for (vector, weight) in vectors.iter().zip(weights) {
            for (x, y) in sum.iter_mut().zip(vector) {
                *x += weight * y;
            }
        }
    }
}

leveled! {
    /// Takes from a vector what it has of others, which are orthogonal, and notes how much that was.
    fn orthogonalize[](basis: &[Vec<f64>], vector: &mut [f64], found: &mut [f64]) {
        for (other, found) in basis.iter().zip(found) {
            *found = dot(vector, other);
            for (x, y) in vector.iter_mut().zip(other) {
                *x -= *found * y;
            }
        }
    }
}

fn scaled(vector: &[f64], scale: f64) -> Vec<f64> {
    vector.iter().map(|x| scale * x).collect()
}

fn norm(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}

#[cfg(test)]
mod tests {
    use super::{Goal, gmres};

    fn within(most: usize) -> Goal {
        Goal { left: 1e-10, most }
    }

    fn product_of(matrix: &[f64]) -> impl FnMut(&[f64], &mut [f64]) -> crate::Result<()> {
        |x: &[f64], found: &mut [f64]| {
            for (found, row) in found.iter_mut().zip(matrix.chunks_exact(x.len())) {
                *found = row.iter().zip(x).map(|(a, x)| a * x).sum();
            }
            Ok(())
        }
    }

    /// The unit matrix and something smaller.
    fn near_one(n: usize) -> Vec<f64> {
        let entry = |e: usize| 0.7 * (e as f64 * 1.3).sin() / n as f64;
        let one = |e: usize| if e.is_multiple_of(n + 1) { 1.0 } else { 0.0 };
        (0..n * n).map(|e| one(e) + entry(e)).collect()
    }

    #[test]
    fn systems_are_solved() {
        for n in [1, 2, 7, 40] {
            let matrix = near_one(n);
            let mut product = product_of(&matrix);
            let expected: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5).cos()).collect();
            let mut side = vec![0.0; n];
            product(&expected, &mut side).unwrap();
            assert!(gmres(&mut product, &mut side, within(30)).unwrap());
            for (x, y) in side.iter().zip(&expected) {
                assert!((x - y).abs() < 1e-9 * y.abs(), "{n}: {x} {y}");
            }
        }
    }

    #[test]
    fn equations_of_other_sizes_are_solved_too() {
        // Unknowns that are 1e-9 of others, which hardly depend on them, and numbers whose squares are none.
        let matrix = [1.0, 0.3, 1e8, 0.2, 1.0, 1e7, 1e-10, 1e-11, 1.2];
        for scale in [1.0, 1e-250, 1e250] {
            let expected = [1.0 * scale, -2.0 * scale, 3e-9 * scale];
            let mut product = product_of(&matrix);
            let mut side = [0.0; 3];
            product(&expected, &mut side).unwrap();
            assert!(gmres(&mut product, &mut side, within(30)).unwrap());
            for (x, y) in side.iter().zip(expected) {
                assert!((x - y).abs() <= 1e-8 * y.abs(), "{x} {y}");
            }
        }
    }

    #[test]
    fn what_does_not_converge_is_left_as_it_was() {
        // A shift of ten places takes ten products.
        let shift: Vec<f64> = (0..100)
            .map(|e| {
                if (e / 10 + 1) % 10 == e % 10 {
                    1.0
                } else {
                    0.0
                }
            })
            .collect();
        let mut side = [0.0; 10];
        side[0] = 2.0;
        let given = side;
        assert!(!gmres(&mut product_of(&shift), &mut side, within(9)).unwrap());
        assert_eq!(side, given);
        assert!(gmres(&mut product_of(&shift), &mut side, within(10)).unwrap());
        assert!(
            side.iter()
                .zip(0..)
                .all(|(x, i)| (x - if i == 1 { 2.0 } else { 0.0 }).abs() < 1e-12)
        );
        for bad in [f64::NAN, f64::INFINITY] {
            let mut side = [1.0, bad];
            assert!(!gmres(&mut product_of(&[1.0, 0.0, 0.0, 1.0]), &mut side, within(5)).unwrap());
            let mut side = [1.0, 1.0];
            assert!(!gmres(&mut product_of(&[1.0, bad, 0.0, 1.0]), &mut side, within(5)).unwrap());
        }
        let mut zeros = [0.0; 2];
        assert!(gmres(&mut product_of(&[0.0; 4]), &mut zeros, within(5)).unwrap());
    }
}

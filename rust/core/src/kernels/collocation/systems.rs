//! The linear system of a step of collocation, factored or solved by products.
//!
//! With `a` how much slopes at stages count, `h` the length of the step and `J` the derivatives of the right side with respect
//! to the state at the stages, changes `Y` of the states at the stages solve `(I - h a ⊗ J) Y = rhs`. To factor the matrix takes
//! the cube of the number of equations, or the square of the width of its band. Where steps are short for the equations, as
//! those of methods for problems that are not stiff, a dozen or two of products solve it.

use std::sync::Arc;

use super::super::band::{Band, BandFactors};
use super::super::dense::Factors;
use super::super::gmres::{Goal, Product, gmres};
use super::super::jacobians::{Jacobians, Products};
use super::super::simd_level::{Level, leveled};
use crate::error::Result;

/// Systems are solved by products where so few bring them near to the solution.
const FEW: usize = 10;
/// So many products a right side takes: where those for all of them are more than the equations, the matrix is formed.
const PRODUCTS: usize = 16;
/// To come near to the solution.
const NEAR: Goal = Goal {
    left: 1e-2,
    most: FEW,
};
/// To be there but for what solvers' tolerances are.
const THERE: Goal = Goal {
    left: 1e-10,
    most: 5 * FEW,
};

/// The system of a step.
#[derive(Debug)]
pub(super) enum StepFactors {
    Dense(Factors),
    /// With the place of each unknown in it.
    Band(BandFactors, Arc<[usize]>),
    /// Where products with the derivatives are to be had, and which of these points its first stage is.
    Products(Arc<dyn Products>, usize),
}

/// Of what products with the system of a step are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct System<'a> {
    pub length: f64,
    pub a: &'a [f64],
    pub transposed: bool,
}

impl System<'_> {
    /// Puts the product with a vector into another one.
    fn product(
        &self,
        products: &dyn Products,
        first: usize,
        vector: &[f64],
        found: &mut [f64],
    ) -> Result<()> {
        let stages = self.a.len().isqrt();
        let n = vector.len() / stages;
        let mut slopes = vec![0.0; vector.len()];
        if self.transposed {
            mix(self.a, n, self.length, true, vector, &mut slopes);
            products.back(first, &slopes, found)?;
            for (found, x) in found.iter_mut().zip(vector) {
                *found = x - *found;
            }
        } else {
            products.forth(first, vector, &mut slopes)?;
            found.copy_from_slice(vector);
            mix(self.a, n, -self.length, false, &slopes, found);
        }
        Ok(())
    }
}

/// Solves about the system of the step whose first stage is at this point, where few products do; says whether they did.
pub(super) fn solve_about(
    system: System<'_>,
    products: &dyn Products,
    first: usize,
    side: &mut [f64],
) -> Result<bool> {
    let mut product = |x: &[f64], found: &mut [f64]| system.product(products, first, x, found);
    gmres(&mut product, side, NEAR)
}

impl StepFactors {
    pub fn solve(&self, system: System<'_>, count: usize, sides: &mut [f64]) -> Result<()> {
        match self {
            StepFactors::Dense(factors) => factors.solve(count, sides, system.transposed),
            StepFactors::Band(factors, places) => {
                let mut ordered = vec![0.0; sides.len()];
                let rows = |place: &usize| place * count..(place + 1) * count;
                for (place, side) in places.iter().zip(sides.chunks_exact(count.max(1))) {
                    ordered[rows(place)].copy_from_slice(side);
                }
                factors.solve(count, &mut ordered, system.transposed);
                for (place, side) in places.iter().zip(sides.chunks_exact_mut(count.max(1))) {
                    side.copy_from_slice(&ordered[rows(place)]);
                }
            }
            StepFactors::Products(products, first) => {
                let mut product =
                    |x: &[f64], found: &mut [f64]| system.product(&**products, *first, x, found);
                if count * PRODUCTS > sides.len() / count.max(1) {
                    return directly(&mut product, count, sides);
                }
                for column in 0..count {
                    let mut side: Vec<f64> =
                        sides.iter().skip(column).step_by(count).copied().collect();
                    if !side.iter().all(|x| x.is_finite()) {
                        // Nothing finite is to be expected where everything depends on everything.
                        side.fill(f64::NAN);
                    } else if !gmres(&mut product, &mut side, THERE)? {
                        directly(&mut product, 1, &mut side)?;
                    }
                    let to = sides.iter_mut().skip(column).step_by(count);
                    to.zip(side).for_each(|(to, x)| *to = x);
                }
            }
        }
        Ok(())
    }
}

/// Solves a system for `count` right sides by its matrix, which products with the unit vectors give.
fn directly(product: &mut Product<'_>, count: usize, sides: &mut [f64]) -> Result<()> {
    let m = sides.len() / count.max(1);
    let (mut unit, mut column, mut matrix) = (vec![0.0; m], vec![0.0; m], vec![0.0; m * m]);
    for j in 0..m {
        unit[j] = 1.0;
        product(&unit, &mut column)?;
        unit[j] = 0.0;
        for (row, x) in matrix.chunks_exact_mut(m).zip(&column) {
            row[j] = *x;
        }
    }
    Factors::of(m, matrix).solve(count, sides, false);
    Ok(())
}

/// Adds what is at stages, `n` numbers each, times how much it counts at others and a number.
pub(super) fn mix(a: &[f64], n: usize, scale: f64, transposed: bool, from: &[f64], to: &mut [f64]) {
    // SAFETY: the machine supports its best level.
    unsafe { mix_in_lanes(Level::best())(a, n, scale, transposed, from, to) };
}

leveled! {
    fn mix_in_lanes[](
        a: &[f64],
        n: usize,
        scale: f64,
        transposed: bool,
        from: &[f64],
        to: &mut [f64],
    ) {
        let stages = a.len().isqrt();
        for (i, to) in to.chunks_exact_mut(n.max(1)).enumerate() {
            for (k, from) in from.chunks_exact(n.max(1)).enumerate() {
                let weight = scale * a[if transposed { k * stages + i } else { i * stages + k }];
                to.iter_mut().zip(from).for_each(|(x, y)| *x += weight * y);
            }
        }
    }
}

/// Matrices are factored as bands where the products of so many times the entries left of the diagonal with those on both
/// sides of it are less than the square of the order.
const WIDE: usize = 9;
/// Where factoring takes so many times the operations of one product and its part of the rest of GMRES, that is tried.
const OPERATIONS: usize = 40;

/// What factors the systems of steps.
#[derive(Debug)]
pub(super) struct Factoring<'a> {
    derivatives: Jacobians<'a>,
    a: &'a [f64],
    /// The place of each unknown in a band.
    places: Arc<[usize]>,
    /// How far entries are left and right of the diagonal.
    widths: [usize; 2],
}

impl<'a> Factoring<'a> {
    /// Takes a place for each equation, and how far entries are left and right of the diagonal then.
    pub fn new(
        derivatives: Jacobians<'a>,
        a: &'a [f64],
        order: &[u32],
        (left, right): (usize, usize),
    ) -> Factoring<'a> {
        let (n, stages) = (derivatives.n, a.len().isqrt());
        assert_eq!(order.len(), n, "a place for each equation");
        // All stages of an unknown are neighbours.
        let places = (0..stages * n).map(|e| order[e % n] as usize * stages + e / n);
        Factoring {
            derivatives,
            a,
            places: places.collect(),
            widths: [left, right].map(|width| (width + 1) * stages - 1),
        }
    }

    fn order(&self) -> usize {
        self.places.len()
    }

    fn is_band(&self) -> bool {
        let [left, right] = self.widths;
        WIDE * left * (left + right) < self.order() * self.order()
    }

    /// How many numbers the factors of a step are.
    pub fn num_numbers(&self) -> usize {
        let [left, right] = self.widths;
        let width = if self.is_band() {
            3 * left + right + 1
        } else {
            self.order()
        };
        self.order() * width
    }

    /// Whether to factor a matrix takes longer than some products with it.
    pub fn takes_long(&self) -> bool {
        let ([left, right], m) = (self.widths, self.order());
        let operations = if self.is_band() {
            2 * m * left * (left + right)
        } else {
            m * m * m * 2 / 3
        };
        let stages = self.a.len().isqrt();
        operations > OPERATIONS * (2 * stages * self.derivatives.size() + 2 * FEW * m)
    }

    /// The factors of the system of a step.
    pub fn factors(&self, step: usize, length: f64) -> StepFactors {
        let m = self.order();
        if self.is_band() {
            let [left, right] = self.widths;
            let mut band = Band::zeros(m, left, right);
            entries(&self.derivatives, step, length, self.a, |i, j, x| {
                *band.entry(self.places[i], self.places[j]) = x;
            });
            (0..m).for_each(|i| *band.entry(i, i) += 1.0);
            StepFactors::Band(BandFactors::of(band), Arc::clone(&self.places))
        } else {
            let mut dense = vec![0.0; m * m];
            entries(&self.derivatives, step, length, self.a, |i, j, x| {
                dense[i * m + j] = x;
            });
            (0..m).for_each(|i| dense[i * m + i] += 1.0);
            StepFactors::Dense(Factors::of(m, dense))
        }
    }
}

/// Calls a function with each entry of the matrix of a step but for the unit matrix.
#[inline(always)]
fn entries(
    derivatives: &Jacobians<'_>,
    step: usize,
    length: f64,
    a: &[f64],
    mut add: impl FnMut(usize, usize, f64),
) {
    let (n, stages) = (derivatives.n, a.len().isqrt());
    for k in 0..stages {
        derivatives.at(step * stages + k).for_each(|p, q, x| {
            // Most entries of whole matrices may be zero.
            if x != 0.0 {
                for i in 0..stages {
                    add(i * n + p, k * n + q, -length * a[i * stages + k] * x);
                }
            }
        });
    }
}

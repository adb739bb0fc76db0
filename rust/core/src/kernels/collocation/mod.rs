//! The linearised equation along the steps of a solver, by collocation: what changes of slopes and of the initial state do
//! to states, and back.
//!
//! The system of each step is that of [`systems`].

mod systems;

use std::sync::Arc;

use super::jacobians::{Jacobians, Products};
use crate::error::{Error, Result};
use systems::{Factoring, StepFactors, System, mix, solve_about};

/// States that are wanted: the numbers of the steps they lie in, and how much the stages count, row by row.
#[derive(Debug, Clone, Copy)]
pub struct Outputs<'a> {
    /// The number of the step of each.
    pub steps: &'a [i64],
    /// As many weights for each as there are stages; the rest is that of the state at the beginning of the step.
    pub weights: &'a [f64],
}

/// The steps of a run.
#[derive(Debug)]
pub struct Collocation {
    /// How many equations there are.
    n: usize,
    lengths: Vec<f64>,
    /// How much slopes at stages count for states there, row-major.
    a: Vec<f64>,
    stages: usize,
    factors: Vec<Arc<StepFactors>>,
}

/// After so many steps one after the other that products do not solve, they are tried no more.
const FAILURES: usize = 2;
/// Numbers in the factors of a run.
const MOST_NUMBERS: usize = 1 << 25;

/// What is known of the steps of a run.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    /// Their lengths.
    pub lengths: &'a [f64],
    /// How much slopes at stages count for states there, row-major.
    pub a: &'a [f64],
    /// States before each step and at its stages, and slopes at the stages, where these states only are near to those of
    /// collocation.
    pub near: Option<[&'a [f64]; 2]>,
}

/// Where the derivatives of the right side at all stages are to be had.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// As matrices, and products with them.
    Matrices {
        /// Those of all stages.
        derivatives: Jacobians<'a>,
        /// The same.
        products: &'a Arc<dyn Products>,
        /// The place of each equation.
        order: &'a [u32],
        /// How far entries are left and right of the diagonal, with equations in these places.
        widths: (usize, usize),
    },
    /// Products only, of so many equations.
    Products(usize, &'a Arc<dyn Products>),
}

impl Collocation {
    /// Takes the steps of a run; gives by how much a step of Newton's method would move states that are near, too.
    ///
    /// Where entries are near the diagonal, as for cells of a mesh, the matrices are factored as bands. Large systems of
    /// short steps are solved by products alone. Nothing where the factors are too many numbers, or where there are products
    /// only and steps are too long for them. `interrupted` is asked before each step.
    ///
    /// # Panics
    ///
    /// Where the lengths of the slices do not fit.
    pub fn new(
        steps: Steps<'_>,
        source: Source<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<(Collocation, Vec<f64>)>> {
        let (n, products, factoring) = match source {
            Source::Products(n, products) => (n, products, None),
            Source::Matrices {
                derivatives,
                products,
                order,
                widths,
            } => {
                let all = steps.a.len().isqrt() * steps.lengths.len();
                assert_eq!(derivatives.count, all, "all stages");
                let factoring = Factoring::new(derivatives, steps.a, order, widths);
                (derivatives.n, products, Some(factoring))
            }
        };
        let stages = steps.a.len().isqrt();
        let mut made = Collocation {
            n,
            lengths: steps.lengths.to_vec(),
            a: steps.a.to_vec(),
            stages,
            factors: Vec::with_capacity(steps.lengths.len()),
        };
        let is_tried = factoring.as_ref().is_none_or(Factoring::takes_long);
        let (mut num_failed, mut num_numbers) = (0, 0);
        let mut off = Vec::new();
        for (step, &length) in steps.lengths.iter().enumerate() {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            let system = System {
                length,
                a: steps.a,
                transposed: false,
            };
            let side = match steps.near {
                Some([known, slopes]) => made.newton_side(step, known, slopes),
                // Something of everything.
                None => (0..made.order()).map(|i| 1.0 + (i as f64).sin()).collect(),
            };
            let mut found = None;
            if is_tried && num_failed < FAILURES {
                let first = step * stages;
                let mut moved = side.clone();
                if solve_about(system, &**products, first, &mut moved)? {
                    found = Some((StepFactors::Products(Arc::clone(products), first), moved));
                    num_failed = 0;
                } else {
                    num_failed += 1;
                }
            }
            let (factors, moved) = match (found, &factoring) {
                (Some(found), _) => found,
                (None, None) => return Ok(None),
                (None, Some(factoring)) => {
                    num_numbers += factoring.num_numbers();
                    if num_numbers > MOST_NUMBERS {
                        return Ok(None);
                    }
                    let factors = factoring.factors(step, length);
                    let mut moved = side;
                    if steps.near.is_some() {
                        factors.solve(system, 1, &mut moved)?;
                    }
                    (factors, moved)
                }
            };
            if steps.near.is_some() {
                off.extend(moved);
            }
            made.factors.push(Arc::new(factors));
        }
        Ok(Some((made, off)))
    }

    /// The right side of Newton's method for the states at the stages of a step, from known ones, the first of each step
    /// before its stages.
    fn newton_side(&self, step: usize, known: &[f64], slopes: &[f64]) -> Vec<f64> {
        let (n, m) = (self.n, self.order());
        let states = &known[step * (m + n)..][..m + n];
        let mut side = self.added(step, &slopes[step * m..][..m], n);
        for (e, x) in side.iter_mut().enumerate() {
            *x += states[e % n] - states[n + e];
        }
        side
    }

    /// How many equations there are, and how many stages a step has.
    pub fn sizes(&self) -> [usize; 2] {
        [self.n, self.stages]
    }

    /// The steps with these numbers: of this run, and behind its last one of others with the same stages.
    ///
    /// # Panics
    ///
    /// Where a number is too large.
    #[must_use]
    pub fn joined(&self, others: &Collocation, numbers: &[usize]) -> Collocation {
        let factors: Vec<_> = self.factors.iter().chain(&others.factors).collect();
        let lengths: Vec<f64> = self
            .lengths
            .iter()
            .chain(&others.lengths)
            .copied()
            .collect();
        Collocation {
            n: self.n,
            lengths: numbers.iter().map(|&i| lengths[i]).collect(),
            a: self.a.clone(),
            stages: self.stages,
            factors: numbers.iter().map(|&i| Arc::clone(factors[i])).collect(),
        }
    }

    /// Solves the system of a step for `count` right sides, which are columns of a row-major matrix.
    fn solve(&self, step: usize, count: usize, sides: &mut [f64], transposed: bool) -> Result<()> {
        let system = System {
            length: self.lengths[step],
            a: &self.a,
            transposed,
        };
        self.factors[step].solve(system, count, sides)
    }

    /// How many steps there are.
    pub fn num_steps(&self) -> usize {
        self.factors.len()
    }

    fn order(&self) -> usize {
        self.stages * self.n
    }

    /// Sums of slopes at the stages of a step, times its length: for stages with `width` numbers each.
    fn added(&self, step: usize, slopes: &[f64], width: usize) -> Vec<f64> {
        let mut found = vec![0.0; self.stages * width];
        mix(
            &self.a,
            width,
            self.lengths[step],
            false,
            slopes,
            &mut found,
        );
        found
    }

    /// Changes of states for columns of changes of slopes, at all stages, and of the initial state: `count` columns.
    ///
    /// `interrupted` is asked before each step.
    pub fn columns(
        &self,
        outputs: Outputs<'_>,
        slopes: &[f64],
        start: &[f64],
        count: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<f64>> {
        let (n, m) = (self.n, self.order());
        let (size, width) = (m * count, n * count);
        let mut state = start.to_vec();
        // The state before each step, and behind it those at its stages.
        let mut all = Vec::with_capacity(self.factors.len() * (width + size));
        for step in 0..self.num_steps() {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            let mut stages = self.added(step, &slopes[step * size..][..size], width);
            for stage in stages.chunks_exact_mut(width.max(1)) {
                stage.iter_mut().zip(&state).for_each(|(x, y)| *x += y);
            }
            self.solve(step, count, &mut stages, false)?;
            all.extend_from_slice(&state);
            state.copy_from_slice(&stages[size - width..]);
            all.extend(stages);
        }
        let mut found = Vec::with_capacity(outputs.steps.len() * width);
        for (step, weights) in self.outputs(outputs) {
            let known = &all[step * (width + size)..][..width + size];
            let rest = 1.0 - weights.iter().sum::<f64>();
            let mut sum: Vec<f64> = known[..width].iter().map(|x| rest * x).collect();
            for (weight, stage) in weights
                .iter()
                .zip(known[width..].chunks_exact(width.max(1)))
            {
                sum.iter_mut()
                    .zip(stage)
                    .for_each(|(x, y)| *x += weight * y);
            }
            found.extend(sum);
        }
        Ok(found)
    }

    /// Cotangents of slopes at all stages and, behind them, of the initial state, for rows of cotangents of states.
    ///
    /// `interrupted` is asked before each step.
    pub fn adjoint(
        &self,
        outputs: Outputs<'_>,
        cts: &[f64],
        rows: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<f64>> {
        let (n, m) = (self.n, self.order());
        let (size, width) = (m * rows, n * rows);
        // Of each step those of its stages, with the rows as columns, and of the state before it.
        let mut stages = vec![0.0; self.factors.len() * size];
        let mut direct = vec![0.0; self.factors.len() * width];
        for (j, (step, weights)) in self.outputs(outputs).enumerate() {
            let rest = 1.0 - weights.iter().sum::<f64>();
            for p in 0..n {
                for r in 0..rows {
                    let ct = cts[(r * outputs.steps.len() + j) * n + p];
                    direct[step * width + p * rows + r] += rest * ct;
                    for (i, weight) in weights.iter().enumerate() {
                        stages[step * size + (i * n + p) * rows + r] += weight * ct;
                    }
                }
            }
        }
        let total = self.factors.len() * m + n;
        let mut found = vec![0.0; rows * total];
        let mut state = vec![0.0; width];
        for step in (0..self.num_steps()).rev() {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            let own = &mut stages[step * size..][..size];
            own[size - width..]
                .iter_mut()
                .zip(&state)
                .for_each(|(x, y)| *x += y);
            state.copy_from_slice(&direct[step * width..][..width]);
            self.solve(step, rows, own, true)?;
            // A change of the first state is one at all stages.
            for stage in own.chunks_exact(width.max(1)) {
                state.iter_mut().zip(stage).for_each(|(x, y)| *x += y);
            }
            let mut slopes = vec![0.0; size];
            mix(&self.a, width, self.lengths[step], true, own, &mut slopes);
            for (e, turned) in slopes.chunks_exact(rows.max(1)).enumerate() {
                for (r, ct) in turned.iter().enumerate() {
                    found[r * total + step * m + e] = *ct;
                }
            }
        }
        for (r, row) in found.chunks_exact_mut(total).enumerate() {
            for (p, x) in row[total - n..].iter_mut().enumerate() {
                *x = state[p * rows + r];
            }
        }
        Ok(found)
    }

    fn outputs<'a>(&self, outputs: Outputs<'a>) -> impl Iterator<Item = (usize, &'a [f64])> {
        let weights = outputs.weights.chunks_exact(self.stages);
        outputs.steps.iter().map(|&step| step as usize).zip(weights)
    }
}

#[cfg(test)]
mod tests;

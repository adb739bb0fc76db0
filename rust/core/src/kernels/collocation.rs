//! The linearised equation along the steps of a solver, by collocation: what changes of slopes and of the initial state do
//! to states, and back.
//!
//! With stages at `c`, `a` how much slopes there count, `h` the length of a step and `J` the derivatives of the right side
//! with respect to the state at the stages, changes `Y` of the states at the stages solve `(I - h a ⊗ J) Y = rhs`.

use std::sync::Arc;

use super::band::{Band, BandFactors};
use super::dense::Factors;
use super::jacobians::Jacobians;
use crate::error::{Error, Result};

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

/// The system of a step.
#[derive(Debug)]
enum StepFactors {
    Dense(Factors),
    /// With the place of each unknown in it.
    Band(BandFactors, Arc<[usize]>),
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

/// Matrices are factored as bands where the products of so many times the entries left of the diagonal with those on both
/// sides of it are less than the square of the order.
const WIDE: usize = 9;
/// Numbers in the factors of a run.
const MOST_NUMBERS: usize = 1 << 25;

impl Collocation {
    /// Takes lengths of steps, how much slopes count, and for each stage of each step derivatives.
    ///
    /// In this `order`, which gives each equation a place, entries are so far left and right of the diagonal. Where that is
    /// near, as for cells of a mesh, the matrices are factored as bands. Nothing where the factors are too many numbers. `interrupted` is asked before each step.
    ///
    /// # Panics
    ///
    /// Where the lengths of the slices do not fit.
    pub fn new(
        lengths: &[f64],
        a: &[f64],
        derivatives: Jacobians<'_>,
        (order, widths): (&[u32], (usize, usize)),
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Collocation>> {
        let (n, stages) = (derivatives.n, a.len().isqrt());
        let m = stages * n;
        assert_eq!(derivatives.count, stages * lengths.len(), "all stages");
        assert_eq!(order.len(), n, "a place for each equation");
        // All stages of an unknown are neighbours.
        let wide = |width: usize| (width + 1) * stages - 1;
        let (left, right) = (wide(widths.0), wide(widths.1));
        let is_band = WIDE * left * (left + right) < m * m;
        let numbers = if is_band {
            m * (3 * left + right + 1)
        } else {
            m * m
        };
        if numbers * lengths.len() > MOST_NUMBERS {
            return Ok(None);
        }
        let unknowns = (0..m).map(|e| order[e % n] as usize * stages + e / n);
        let places: Arc<[usize]> = unknowns.collect();
        let factored = |step: usize| {
            if is_band {
                let mut band = Band::zeros(m, left, right);
                entries(&derivatives, step, lengths[step], a, |i, j, x| {
                    *band.entry(places[i], places[j]) = x;
                });
                (0..m).for_each(|i| *band.entry(i, i) += 1.0);
                StepFactors::Band(BandFactors::of(band), Arc::clone(&places))
            } else {
                let mut dense = vec![0.0; m * m];
                entries(&derivatives, step, lengths[step], a, |i, j, x| {
                    dense[i * m + j] = x;
                });
                (0..m).for_each(|i| dense[i * m + i] += 1.0);
                StepFactors::Dense(Factors::of(m, dense))
            }
        };
        let mut factors = Vec::with_capacity(lengths.len());
        for step in 0..lengths.len() {
            if interrupted() {
                return Err(Error::Interrupted);
            }
            factors.push(Arc::new(factored(step)));
        }
        Ok(Some(Collocation {
            n,
            lengths: lengths.to_vec(),
            a: a.to_vec(),
            stages,
            factors,
        }))
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
    fn solve(factors: &StepFactors, count: usize, sides: &mut [f64], transposed: bool) {
        let (factors, places) = match factors {
            StepFactors::Dense(factors) => return factors.solve(count, sides, transposed),
            StepFactors::Band(factors, places) => (factors, places),
        };
        let mut ordered = vec![0.0; sides.len()];
        let rows = |place: &usize| place * count..(place + 1) * count;
        for (place, side) in places.iter().zip(sides.chunks_exact(count.max(1))) {
            ordered[rows(place)].copy_from_slice(side);
        }
        factors.solve(count, &mut ordered, transposed);
        for (place, side) in places.iter().zip(sides.chunks_exact_mut(count.max(1))) {
            side.copy_from_slice(&ordered[rows(place)]);
        }
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
        for (i, row) in found.chunks_exact_mut(width.max(1)).enumerate() {
            for (k, slope) in slopes.chunks_exact(width).enumerate() {
                let scale = self.lengths[step] * self.a[i * self.stages + k];
                row.iter_mut().zip(slope).for_each(|(x, f)| *x += scale * f);
            }
        }
        found
    }

    /// A step of Newton's method for the states at the stages, from known ones, the first of each step before its stages.
    pub fn off(&self, known: &[f64], slopes: &[f64]) -> Vec<f64> {
        let (n, m) = (self.n, self.order());
        let mut found = Vec::with_capacity(slopes.len());
        for (step, factors) in self.factors.iter().enumerate() {
            let states = &known[step * (m + n)..][..m + n];
            let mut rest = self.added(step, &slopes[step * m..][..m], n);
            for (e, x) in rest.iter_mut().enumerate() {
                *x += states[e % n] - states[n + e];
            }
            Self::solve(factors, 1, &mut rest, false);
            found.extend(rest);
        }
        found
    }

    /// Changes of states for columns of changes of slopes, at all stages, and of the initial state: `count` columns.
    pub fn columns(
        &self,
        outputs: Outputs<'_>,
        slopes: &[f64],
        start: &[f64],
        count: usize,
    ) -> Vec<f64> {
        let (n, m) = (self.n, self.order());
        let (size, width) = (m * count, n * count);
        let mut state = start.to_vec();
        // The state before each step, and behind it those at its stages.
        let mut all = Vec::with_capacity(self.factors.len() * (width + size));
        for (step, factors) in self.factors.iter().enumerate() {
            let mut stages = self.added(step, &slopes[step * size..][..size], width);
            for stage in stages.chunks_exact_mut(width.max(1)) {
                stage.iter_mut().zip(&state).for_each(|(x, y)| *x += y);
            }
            Self::solve(factors, count, &mut stages, false);
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
        found
    }

    /// Cotangents of slopes at all stages and, behind them, of the initial state, for rows of cotangents of states.
    pub fn adjoint(&self, outputs: Outputs<'_>, cts: &[f64], rows: usize) -> Vec<f64> {
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
        for (step, factors) in self.factors.iter().enumerate().rev() {
            let own = &mut stages[step * size..][..size];
            own[size - width..]
                .iter_mut()
                .zip(&state)
                .for_each(|(x, y)| *x += y);
            state.copy_from_slice(&direct[step * width..][..width]);
            Self::solve(factors, rows, own, true);
            // A change of the first state is one at all stages.
            for stage in own.chunks_exact(width.max(1)) {
                state.iter_mut().zip(stage).for_each(|(x, y)| *x += y);
            }
            for k in 0..self.stages {
                for i in 0..self.stages {
                    let scale = self.lengths[step] * self.a[i * self.stages + k];
                    for p in 0..n {
                        let turned = &own[(i * n + p) * rows..][..rows];
                        for (r, ct) in turned.iter().enumerate() {
                            found[r * total + step * m + k * n + p] += scale * ct;
                        }
                    }
                }
            }
        }
        for (r, row) in found.chunks_exact_mut(total).enumerate() {
            for (p, x) in row[total - n..].iter_mut().enumerate() {
                *x = state[p * rows + r];
            }
        }
        found
    }

    fn outputs<'a>(&self, outputs: Outputs<'a>) -> impl Iterator<Item = (usize, &'a [f64])> {
        let weights = outputs.weights.chunks_exact(self.stages);
        outputs.steps.iter().map(|&step| step as usize).zip(weights)
    }
}

#[cfg(test)]
mod tests {
    use super::super::jacobians::Entries;
    use super::{Collocation, Jacobians, Outputs, StepFactors};

    fn made(lengths: &[f64], a: &[f64], derivatives: Jacobians<'_>) -> Collocation {
        let found = Collocation::new(lengths, a, derivatives, natural(derivatives.n), &mut || {
            false
        });
        found.unwrap().expect("few numbers")
    }

    /// No order in which entries are near the diagonal.
    fn natural(n: usize) -> (&'static [u32], (usize, usize)) {
        const ORDER: [u32; 700] = {
            let mut order = [0; 700];
            let mut i = 0;
            while i < order.len() {
                order[i] = i as u32;
                i += 1;
            }
            order
        };
        (&ORDER[..n], (n.saturating_sub(1), n.saturating_sub(1)))
    }

    fn whole(n: usize, values: &[f64]) -> Jacobians<'_> {
        Jacobians {
            count: values.len() / (n * n),
            n,
            entries: None,
            values,
        }
    }

    /// Two steps of Radau's method with two stages, for two equations.
    fn run() -> (Collocation, Vec<f64>, Vec<f64>) {
        let a = [5.0 / 12.0, -1.0 / 12.0, 0.75, 0.25];
        let j: Vec<f64> = (0..16).map(|i| (f64::from(i) * 1.7).sin()).collect();
        let slopes: Vec<f64> = (0..8).map(|i| (f64::from(i) * 2.3).cos()).collect();
        (made(&[0.1, 0.3], &a, whole(2, &j)), j, slopes)
    }

    #[test]
    fn one_equation_is_a_formula() {
        // With one stage at the end of the step, a change of the slope by f moves the state by h f / (1 - h j).
        let steps = made(&[0.5], &[1.0], whole(1, &[0.4]));
        let end = Outputs {
            steps: &[0],
            weights: &[1.0],
        };
        let found = steps.columns(end, &[2.0], &[3.0], 1);
        assert!((found[0] - (0.5 * 2.0 + 3.0) / (1.0 - 0.5 * 0.4)).abs() < 1e-14);
    }

    #[test]
    fn back_is_the_transpose_of_forth() {
        let (steps, _, slopes) = run();
        let outputs = Outputs {
            steps: &[0, 1, 1],
            weights: &[0.3, 0.2, 0.0, 1.0, 0.5, 0.1],
        };
        let start = [0.7, -0.4];
        let moved = steps.columns(outputs, &slopes, &start, 1);
        let cts = [0.3, -1.0, 0.5, 0.25, 2.0, 1.0];
        let back = steps.adjoint(outputs, &cts, 1);
        let forth: f64 = moved.iter().zip(cts).map(|(x, y)| x * y).sum();
        let given = slopes.iter().chain(&start);
        let other: f64 = back.iter().zip(given).map(|(x, y)| x * y).sum();
        assert!((forth - other).abs() < 1e-13 * forth.abs());
    }

    #[test]
    fn columns_and_rows_are_independent() {
        let (steps, _, slopes) = run();
        let outputs = Outputs {
            steps: &[1],
            weights: &[0.25, 0.5],
        };
        let twice: Vec<f64> = slopes.iter().flat_map(|x| [*x, 2.0 * x]).collect();
        let one = steps.columns(outputs, &slopes, &[0.0; 2], 1);
        let two = steps.columns(outputs, &twice, &[0.0; 4], 2);
        let expected = [one[0], 2.0 * one[0], one[1], 2.0 * one[1]];
        for (x, y) in two.iter().zip(expected) {
            assert!((x - y).abs() < 1e-15, "{x} {y}");
        }
    }

    #[test]
    fn states_that_solve_are_not_off() {
        let (steps, j, _) = run();
        // Slopes of a linear equation at states that nothing is known of: one step of Newton's method gives the solution.
        let at = |states: &[f64], step: usize| -> Vec<f64> {
            (0..4)
                .map(|e| {
                    let (k, p) = (e / 2, e % 2);
                    let row = &j[step * 8 + (k * 2 + p) * 2..][..2];
                    row[0] * states[2 + k * 2] + row[1] * states[3 + k * 2]
                })
                .collect()
        };
        let mut known = vec![1.0, 2.0, 0.3, 0.1, 0.2, 0.5, 1.5, 0.5, 1.0, 1.0, 1.0, 1.0];
        let slopes = |known: &[f64]| [at(&known[..6], 0), at(&known[6..], 1)].concat();
        let off = steps.off(&known, &slopes(&known));
        for (e, x) in off.iter().enumerate() {
            known[e / 4 * 6 + 2 + e % 4] += x;
        }
        let rest = steps.off(&known, &slopes(&known));
        assert!(rest.iter().all(|x| x.abs() < 1e-14), "{rest:?}");
    }

    #[test]
    fn large_systems_are_refused_and_work_is_interrupted() {
        let values = vec![1.0; 90 * 90 * 300];
        let new = |lengths: &[f64], stop: bool| {
            let derivatives = whole(90, &values[..90 * 90 * 3 * lengths.len()]);
            Collocation::new(lengths, &[1.0; 9], derivatives, natural(90), &mut || stop)
        };
        assert!(new(&[0.1; 100], false).unwrap().is_some());
        assert!(new(&[0.1; 1], true).is_err());
        let values = vec![1.0; 700 * 700 * 24];
        let derivatives = whole(700, &values);
        let found = Collocation::new(&[0.1; 8], &[1.0; 9], derivatives, natural(700), &mut || {
            false
        });
        assert!(found.unwrap().is_none());
    }

    #[test]
    fn steps_are_joined() {
        let (steps, j, slopes) = run();
        let a = [5.0 / 12.0, -1.0 / 12.0, 0.75, 0.25];
        let first = made(&[0.7, 0.1], &a, whole(2, &[&j[8..], &j[..8]].concat()));
        let second = made(&[0.3], &a, whole(2, &j[8..]));
        let joined = first.joined(&second, &[1, 2]);
        let outputs = Outputs {
            steps: &[0, 1],
            weights: &[0.3, 0.2, 0.0, 1.0],
        };
        let of = |steps: &Collocation| steps.columns(outputs, &slopes, &[0.7, -0.4], 1);
        assert_eq!(of(&joined), of(&steps));
    }

    #[test]
    fn bands_give_what_whole_matrices_give() {
        // Two chains of cells that are coupled cell by cell, one behind the other.
        let n = 24;
        let is_next =
            |p: usize, q: usize| (p / 12 == q / 12 && p.abs_diff(q) <= 1) || p.abs_diff(q) == 12;
        let places = || (0..4 * n * n).map(|e| (e, e / n % n, e % n));
        let values = |far: f64| -> Vec<f64> {
            let of = |(e, p, q)| {
                if is_next(p, q) {
                    (e as f64 * 0.7).sin()
                } else {
                    far
                }
            };
            places().map(of).collect()
        };
        let (a, lengths) = ([5.0 / 12.0, -1.0 / 12.0, 0.75, 0.25], [0.2, 0.1]);
        // Numbers that count for nothing, but are there.
        let (sparse, dense) = (values(0.0), values(1e-300));
        let rows: Vec<Vec<u32>> = (0..n)
            .map(|p| (0..n as u32).filter(|&q| is_next(p, q as usize)).collect())
            .collect();
        let mut starts = vec![0];
        starts.extend(rows.iter().scan(0, |end, row| {
            *end += row.len();
            Some(*end)
        }));
        let columns = rows.concat();
        let given: Vec<f64> = (places().zip(&sparse))
            .filter_map(|((_, p, q), x)| is_next(p, q).then_some(*x))
            .collect();
        let of_entries = Jacobians {
            count: 4,
            n,
            entries: Some(Entries {
                starts: &starts,
                columns: &columns,
            }),
            values: &given,
        };
        // One cell of each chain after the other.
        let order: Vec<u32> = (0..24).map(|p| 2 * (p % 12) + p / 12).collect();
        let near: (&[u32], _) = (&order, (2, 2));
        let runs = [
            (whole(n, &dense), natural(n)),
            (whole(n, &sparse), near),
            (of_entries, near),
        ]
        .map(|(jacobians, order)| {
            let found = Collocation::new(&lengths, &a, jacobians, order, &mut || false);
            found.unwrap().expect("few numbers")
        });
        assert!(matches!(*runs[0].factors[0], StepFactors::Dense(_)));
        assert!(matches!(*runs[1].factors[0], StepFactors::Band(..)));
        let outputs = Outputs {
            steps: &[0, 1],
            weights: &[0.3, 0.2, 0.0, 1.0],
        };
        let numbers = |count: usize| (0..count).map(|i| (i as f64).cos()).collect::<Vec<_>>();
        let found = runs.map(|run| {
            let columns = run.columns(outputs, &numbers(4 * n * 3), &numbers(n * 3), 3);
            let rows = run.adjoint(outputs, &numbers(2 * 2 * n), 2);
            [columns, rows, run.off(&numbers(6 * n), &numbers(4 * n))].concat()
        });
        for other in &found[1..] {
            for (x, y) in other.iter().zip(&found[0]) {
                assert!((x - y).abs() < 1e-12, "{x} {y}");
            }
        }
    }
}

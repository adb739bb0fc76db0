//! The linearised equation along the steps of an explicit Runge-Kutta method: what changes of slopes and of the initial
//! state do to states.
//!
//! With `h` the length of a step, `a` how much slopes count at its stages and `J` the derivatives of the right side with
//! respect to the state there, a change `y` of the state before the step and `f` of the right side give changes of the slopes
//! `k_i = J_i (y + h Σ_j a_ij k_j) + f_i` (Hairer, Nørsett, Wanner, *Solving Ordinary Differential Equations I*, II.6).

use super::collocation::Outputs;
use super::jacobians::{Jacobians, Products};
use super::simd_level::{Level, leveled};
use crate::error::Result;

/// The steps of a run, whose stages are at points that they may share.
#[derive(Debug, Clone, Copy)]
pub struct RungeKutta<'a> {
    /// The lengths of the steps.
    pub lengths: &'a [f64],
    /// How much slopes count at stages, row-major: of the stages before only.
    pub a: &'a [f64],
    /// How much they count at the end of a step.
    pub b: &'a [f64],
    /// The points of the stages of each step.
    pub points: &'a [i64],
    /// Derivatives of the right side at all points.
    pub derivatives: Derivatives<'a>,
}

/// Derivatives of a right side, at points.
#[derive(Debug, Clone, Copy)]
pub enum Derivatives<'a> {
    /// All of them are there.
    Known(Jacobians<'a>),
    /// Products with them are computed where they are asked for.
    Computed {
        /// How many equations there are.
        n: usize,
        /// How many points there are.
        count: usize,
        /// What computes them.
        products: &'a dyn Products,
    },
}

impl Derivatives<'_> {
    /// How many equations there are.
    pub fn n(&self) -> usize {
        match self {
            Derivatives::Known(known) => known.n,
            Derivatives::Computed { n, .. } => *n,
        }
    }

    /// How many points there are.
    pub fn count(&self) -> usize {
        match self {
            Derivatives::Known(known) => known.count,
            Derivatives::Computed { count, .. } => *count,
        }
    }

    /// Adds the products at a point with `count` columns, which are those of a row-major matrix.
    #[inline(always)]
    fn add_product(
        &self,
        point: usize,
        columns: &[f64],
        count: usize,
        sum: &mut [f64],
    ) -> Result<()> {
        match self {
            Derivatives::Known(known) => known.at(point).add_product(columns, count, sum),
            Derivatives::Computed { n, products, .. } => {
                let mut found = vec![0.0; *n];
                for at in 0..count {
                    let column: Vec<f64> = columns[at..].iter().step_by(count).copied().collect();
                    products.forth(point, &column, &mut found)?;
                    let to = sum[at..].iter_mut().step_by(count);
                    to.zip(&found).for_each(|(x, y)| *x += y);
                }
            }
        }
        Ok(())
    }

    /// Puts the product with a row, from the left, into another one.
    #[inline(always)]
    fn row_product(&self, point: usize, row: &[f64], found: &mut [f64]) -> Result<()> {
        match self {
            Derivatives::Known(known) => {
                found.fill(0.0);
                known.at(point).add_row_product(row, found);
                Ok(())
            }
            Derivatives::Computed { products, .. } => products.back(point, row, found),
        }
    }
}

impl<'a> RungeKutta<'a> {
    /// Changes of states for columns of changes of slopes, at all points, and of the initial state: `count` columns.
    ///
    /// # Panics
    ///
    /// Where the lengths of the slices do not fit, or a number of a point or a step is too large.
    pub fn columns(
        &self,
        outputs: Outputs<'_>,
        slopes: &[f64],
        start: &[f64],
        count: usize,
    ) -> Result<Vec<f64>> {
        let width = self.derivatives.n() * count;
        self.expect_fitting();
        assert_eq!(slopes.len(), self.derivatives.count() * width, "slopes");
        assert_eq!(start.len(), width, "the initial state");
        let mut found = vec![0.0; outputs.steps.len() * width];
        if width > 0 && !self.b.is_empty() {
            // SAFETY: the machine supports its best level.
            unsafe { columns(Level::best())(self, outputs, slopes, start, count, &mut found)? };
        }
        Ok(found)
    }

    /// Cotangents of slopes, at all points, and behind them of the initial state, for rows of cotangents of states.
    ///
    /// # Panics
    ///
    /// As `columns`.
    pub fn adjoint(&self, outputs: Outputs<'_>, cts: &[f64], rows: usize) -> Result<Vec<f64>> {
        self.expect_fitting();
        let n = self.derivatives.n();
        assert_eq!(cts.len(), rows * outputs.steps.len() * n, "cotangents");
        let size = (self.derivatives.count() + 1) * n;
        let mut found = vec![0.0; rows * size];
        if n > 0 && rows > 0 && !self.b.is_empty() {
            // SAFETY: the machine supports its best level.
            unsafe { adjoint(Level::best())(self, outputs, cts, &mut found)? };
        }
        Ok(found)
    }

    fn expect_fitting(&self) {
        let stages = self.b.len();
        assert_eq!(self.a.len(), stages * stages, "how much slopes count");
        assert_eq!(self.points.len(), self.lengths.len() * stages, "stages");
    }

    /// How much slopes count at a stage, and its point.
    #[inline(always)]
    fn stage(&self, step: usize, i: usize) -> (&'a [f64], usize) {
        let stages = self.b.len();
        let point = self.points[step * stages + i] as usize;
        (&self.a[i * stages..][..i], point)
    }
}

leveled! {
    fn columns[](
        run: &RungeKutta<'_>,
        outputs: Outputs<'_>,
        slopes: &[f64],
        start: &[f64],
        count: usize,
        found: &mut [f64],
    ) -> Result<()> {
        let (stages, width) = (run.b.len(), run.derivatives.n() * count);
        // Of each step the state before it, and behind it the slopes of its stages.
        let size = (stages + 1) * width;
        let mut all = vec![0.0; run.lengths.len() * size];
        let mut state = start.to_vec();
        let mut inner = vec![0.0; width];
        for (step, (known, &h)) in all.chunks_exact_mut(size).zip(run.lengths).enumerate() {
            let (before, known) = known.split_at_mut(width);
            before.copy_from_slice(&state);
            for i in 0..stages {
                let (weights, point) = run.stage(step, i);
                let (earlier, own) = known.split_at_mut(i * width);
                inner.copy_from_slice(before);
                add_weighted(&mut inner, h, weights, earlier);
                let own = &mut own[..width];
                own.copy_from_slice(&slopes[point * width..][..width]);
                run.derivatives.add_product(point, &inner, count, own)?;
            }
            add_weighted(&mut state, h, run.b, known);
        }
        let wanted = outputs.steps.iter().zip(outputs.weights.chunks_exact(stages));
        for (row, (&step, weights)) in found.chunks_exact_mut(width).zip(wanted) {
            let (before, known) = all[step as usize * size..][..size].split_at(width);
            row.copy_from_slice(before);
            add_weighted(row, run.lengths[step as usize], weights, known);
        }
        Ok(())
    }
}

leveled! {
    fn adjoint[](
        run: &RungeKutta<'_>,
        outputs: Outputs<'_>,
        cts: &[f64],
        found: &mut [f64],
    ) -> Result<()> {
        let (n, stages, count) = (run.derivatives.n(), run.b.len(), outputs.steps.len());
        let size = (run.derivatives.count() + 1) * n;
        // What is wanted of each step, from the last step to the first one.
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_unstable_by_key(|&j| std::cmp::Reverse(outputs.steps[j]));
        let (mut known, mut slope) = (vec![0.0; stages * n], vec![0.0; n]);
        for (row, found) in found.chunks_exact_mut(size).enumerate() {
            let (of_points, state) = found.split_at_mut(size - n);
            let mut wanted = order.iter().peekable();
            for (step, &h) in run.lengths.iter().enumerate().rev() {
                known.fill(0.0);
                spread(&mut known, h, run.b, state);
                while let Some(&j) = wanted.next_if(|&&j| outputs.steps[j] as usize == step) {
                    let ct = &cts[(row * count + j) * n..][..n];
                    spread(&mut known, h, &outputs.weights[j * stages..][..stages], ct);
                    add_weighted(state, 1.0, &[1.0], ct);
                }
                for i in (0..stages).rev() {
                    let (weights, point) = run.stage(step, i);
                    let (earlier, own) = known.split_at_mut(i * n);
                    let own = &mut own[..n];
                    if own.iter().all(|x| *x == 0.0) {
                        // Most steps end in a slope of which nothing is asked.
                        continue;
                    }
                    add_weighted(&mut of_points[point * n..][..n], 1.0, &[1.0], own);
                    // From the slope to the state where it was computed, which has the place of the slope's now.
                    slope.copy_from_slice(own);
                    run.derivatives.row_product(point, &slope, own)?;
                    add_weighted(state, 1.0, &[1.0], own);
                    spread(earlier, h, weights, own);
                }
            }
        }
        Ok(())
    }
}

/// Adds a row, times a number and the weight of each, to rows.
#[inline(always)]
fn spread(rows: &mut [f64], scale: f64, weights: &[f64], row: &[f64]) {
    for (weight, sum) in weights.iter().zip(rows.chunks_exact_mut(row.len())) {
        if *weight != 0.0 {
            add_weighted(sum, scale, &[*weight], row);
        }
    }
}

/// Adds rows, times their weights and a number.
#[inline(always)]
fn add_weighted(sum: &mut [f64], scale: f64, weights: &[f64], rows: &[f64]) {
    for (weight, row) in weights.iter().zip(rows.chunks_exact(sum.len())) {
        if *weight != 0.0 {
            let factor = scale * weight;
            for (x, y) in sum.iter_mut().zip(row) {
                *x += factor * y;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::collocation::Outputs;
    use super::super::jacobians::Jacobians;
    use super::{Derivatives, Products, Result, RungeKutta};

    fn known(derivatives: &[f64]) -> Jacobians<'_> {
        Jacobians {
            count: derivatives.len() / 4,
            n: 2,
            entries: None,
            values: derivatives,
        }
    }

    /// Two steps of Heun's method, for two equations; the end of the first one is the beginning of the second.
    fn run<'a>(lengths: &'a [f64], derivatives: &'a [f64]) -> RungeKutta<'a> {
        RungeKutta {
            lengths,
            a: &[0.0, 0.0, 1.0, 0.0],
            b: &[0.5, 0.5],
            points: &[0, 1, 1, 2],
            derivatives: Derivatives::Known(known(derivatives)),
        }
    }

    fn times(matrix: &[f64], x: [f64; 2]) -> [f64; 2] {
        [
            matrix[0] * x[0] + matrix[1] * x[1],
            matrix[2] * x[0] + matrix[3] * x[1],
        ]
    }

    #[test]
    fn changes_are_those_of_the_method() {
        let derivatives: Vec<f64> = (0..12).map(|i| (f64::from(i) * 1.7).sin()).collect();
        let slopes: Vec<f64> = (0..6).map(|i| (f64::from(i) * 2.3).cos()).collect();
        let lengths = [0.1, 0.3];
        let mut state = [0.7, -0.4];
        let mut expected = Vec::new();
        for (step, h) in lengths.iter().enumerate() {
            let at = |stage: usize, y: [f64; 2]| {
                let point = step + stage;
                let k = times(&derivatives[4 * point..][..4], y);
                [k[0] + slopes[2 * point], k[1] + slopes[2 * point + 1]]
            };
            let first = at(0, state);
            let second = at(1, [state[0] + h * first[0], state[1] + h * first[1]]);
            for i in 0..2 {
                state[i] += h * (0.5 * first[i] + 0.5 * second[i]);
            }
            expected.extend(state);
        }
        let outputs = Outputs {
            steps: &[0, 1],
            weights: &[0.5, 0.5, 0.5, 0.5],
        };
        let found = run(&lengths, &derivatives)
            .columns(outputs, &slopes, &[0.7, -0.4], 1)
            .unwrap();
        for (x, y) in found.iter().zip(&expected) {
            assert!((x - y).abs() < 1e-15, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn back_is_the_transpose_of_forth() {
        let derivatives: Vec<f64> = (0..12).map(|i| (f64::from(i) * 0.7).sin()).collect();
        let slopes: Vec<f64> = (0..6).map(|i| (f64::from(i) * 2.3).cos()).collect();
        let (lengths, start) = ([0.2, 0.1], [0.3, -0.8]);
        let run = run(&lengths, &derivatives);
        // Two of the last step, out of order.
        let outputs = Outputs {
            steps: &[1, 0, 1],
            weights: &[0.25, 0.5, 0.5, 0.5, 0.1, 0.0],
        };
        let cts: Vec<f64> = (0..12).map(|i| (f64::from(i) * 1.3).cos()).collect();
        let forth = run.columns(outputs, &slopes, &start, 1).unwrap();
        let back = run.adjoint(outputs, &cts, 2).unwrap();
        for (row, cts) in back.chunks_exact(8).zip(cts.chunks_exact(6)) {
            let given = slopes.iter().chain(&start);
            let first: f64 = row.iter().zip(given).map(|(a, b)| a * b).sum();
            let second: f64 = forth.iter().zip(cts).map(|(a, b)| a * b).sum();
            assert!((first - second).abs() < 1e-14, "{first} {second}");
        }
    }

    #[test]
    fn columns_are_independent() {
        let derivatives: Vec<f64> = (0..12).map(|i| (f64::from(i) * 0.9).cos()).collect();
        let slopes: Vec<f64> = (0..6).map(|i| (f64::from(i) * 2.3).cos()).collect();
        let twice: Vec<f64> = slopes.iter().flat_map(|x| [*x, 2.0 * x]).collect();
        let outputs = Outputs {
            steps: &[1],
            weights: &[0.25, 0.5],
        };
        let lengths = [0.2, 0.1];
        let run = run(&lengths, &derivatives);
        let one = run.columns(outputs, &slopes, &[1.0, 0.5], 1).unwrap();
        let two = run
            .columns(outputs, &twice, &[1.0, 2.0, 0.5, 1.0], 2)
            .unwrap();
        assert_eq!([two[0], two[2]], [one[0], one[1]]);
        assert_eq!([two[1], two[3]], [2.0 * one[0], 2.0 * one[1]]);
    }

    /// Products with matrices that are known.
    #[derive(Debug)]
    struct Given(Vec<f64>);

    impl Products for Given {
        fn forth(&self, first: usize, vectors: &[f64], found: &mut [f64]) -> Result<()> {
            known(&self.0).forth(first, vectors, found);
            Ok(())
        }

        fn back(&self, first: usize, rows: &[f64], found: &mut [f64]) -> Result<()> {
            known(&self.0).back(first, rows, found);
            Ok(())
        }
    }

    #[test]
    fn products_do_what_matrices_do() {
        let derivatives: Vec<f64> = (0..12).map(|i| (f64::from(i) * 0.9).cos()).collect();
        let slopes: Vec<f64> = (0..12).map(|i| (f64::from(i) * 2.3).cos()).collect();
        let outputs = Outputs {
            steps: &[1, 0],
            weights: &[0.25, 0.5, 1.0, 0.0],
        };
        let lengths = [0.2, 0.1];
        let run = run(&lengths, &derivatives);
        let other = RungeKutta {
            derivatives: Derivatives::Computed {
                n: 2,
                count: 3,
                products: &Given(derivatives.clone()),
            },
            ..run
        };
        let start = [1.0, 2.0, 0.5, 1.0];
        let [one, two] = [run, other].map(|run| {
            let columns = run.columns(outputs, &slopes, &start, 2).unwrap();
            [columns, run.adjoint(outputs, &slopes[..8], 2).unwrap()].concat()
        });
        for (x, y) in one.iter().zip(&two) {
            assert!((x - y).abs() < 1e-15, "{x} {y}");
        }
    }
}

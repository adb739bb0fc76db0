//! The linear map of steps next to formulas, to its transpose, and to whole matrices.

use super::super::jacobians::Entries;
use std::sync::Arc;

use super::{Collocation, Error, Jacobians, Outputs, Products, Result, Source, StepFactors, Steps};

type Order<'a> = (&'a [u32], (usize, usize));

/// Takes steps with matrices, and products of which there may be none.
fn taken(
    lengths: &[f64],
    a: &[f64],
    (derivatives, products): (Jacobians<'_>, &Arc<dyn Products>),
    (order, widths): Order<'_>,
    stop: bool,
) -> Result<Option<Collocation>> {
    let source = Source::Matrices {
        derivatives,
        products,
        order,
        widths,
    };
    let near = None;
    let found = Collocation::new(Steps { lengths, a, near }, source, &mut || stop)?;
    Ok(found.map(|(steps, _)| steps))
}

fn made(lengths: &[f64], a: &[f64], derivatives: Jacobians<'_>) -> Collocation {
    let order = natural(derivatives.n);
    let found = taken(lengths, a, (derivatives, &none()), order, false);
    found.unwrap().expect("few numbers")
}

/// By how much a step of Newton's method moves states.
fn off(lengths: &[f64], a: &[f64], source: Source<'_>, known: &[f64], slopes: &[f64]) -> Vec<f64> {
    let near = Some([known, slopes]);
    let steps = Steps { lengths, a, near };
    let found = Collocation::new(steps, source, &mut || false).unwrap();
    found.expect("few numbers").1
}

/// Products with whole matrices, of which there may be none.
#[derive(Debug)]
struct Whole(usize, Vec<f64>);

impl Products for Whole {
    fn forth(&self, first: usize, vectors: &[f64], found: &mut [f64]) -> Result<()> {
        whole(self.0, &self.1).forth(first, vectors, found);
        Ok(())
    }

    fn back(&self, first: usize, rows: &[f64], found: &mut [f64]) -> Result<()> {
        whole(self.0, &self.1).back(first, rows, found);
        Ok(())
    }
}

/// Products that solve no system.
fn none() -> Arc<dyn Products> {
    #[derive(Debug)]
    struct NoNumbers;
    impl Products for NoNumbers {
        fn forth(&self, _: usize, _: &[f64], found: &mut [f64]) -> Result<()> {
            found.fill(f64::NAN);
            Ok(())
        }

        fn back(&self, _: usize, _: &[f64], found: &mut [f64]) -> Result<()> {
            found.fill(f64::NAN);
            Ok(())
        }
    }
    Arc::new(NoNumbers)
}

/// No order in which entries are near the diagonal.
fn natural(n: usize) -> Order<'static> {
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
    let found = steps
        .columns(end, &[2.0], &[3.0], 1, &mut || false)
        .unwrap();
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
    let moved = steps
        .columns(outputs, &slopes, &start, 1, &mut || false)
        .unwrap();
    let cts = [0.3, -1.0, 0.5, 0.25, 2.0, 1.0];
    let back = steps.adjoint(outputs, &cts, 1, &mut || false).unwrap();
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
    let one = steps
        .columns(outputs, &slopes, &[0.0; 2], 1, &mut || false)
        .unwrap();
    let two = steps
        .columns(outputs, &twice, &[0.0; 4], 2, &mut || false)
        .unwrap();
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
    let (order, widths) = natural(2);
    let off = |known: &[f64]| {
        let source = Source::Matrices {
            derivatives: whole(2, &j),
            products: &none(),
            order,
            widths,
        };
        off(&[0.1, 0.3], &steps.a, source, known, &slopes(known))
    };
    for (e, x) in off(&known).iter().enumerate() {
        known[e / 4 * 6 + 2 + e % 4] += x;
    }
    let rest = off(&known);
    assert!(rest.iter().all(|x| x.abs() < 1e-14), "{rest:?}");
}

#[test]
fn large_systems_are_refused_and_work_is_interrupted() {
    let values = vec![1.0; 90 * 90 * 300];
    let new = |lengths: &[f64], stop: bool| {
        let derivatives = whole(90, &values[..90 * 90 * 3 * lengths.len()]);
        taken(
            lengths,
            &[1.0; 9],
            (derivatives, &none()),
            natural(90),
            stop,
        )
    };
    assert!(new(&[0.1; 100], false).unwrap().is_some());
    assert!(new(&[0.1; 1], true).is_err());
    let (steps, _, slopes) = run();
    let end = Outputs {
        steps: &[1],
        weights: &[0.0, 1.0],
    };
    let columns = steps.columns(end, &slopes, &[0.0; 2], 1, &mut || true);
    assert!(matches!(columns, Err(Error::Interrupted)));
    let rows = steps.adjoint(end, &[1.0, 0.0], 1, &mut || true);
    assert!(matches!(rows, Err(Error::Interrupted)));
    let values = vec![1.0; 700 * 700 * 24];
    let derivatives = whole(700, &values);
    let given = (derivatives, &none());
    let found = taken(&[0.1; 8], &[1.0; 9], given, natural(700), false);
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
    let of = |steps: &Collocation| {
        steps
            .columns(outputs, &slopes, &[0.7, -0.4], 1, &mut || false)
            .unwrap()
    };
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
        let found = taken(&lengths, &a, (jacobians, &none()), order, false);
        (found.unwrap().expect("few numbers"), jacobians, order)
    });
    assert!(matches!(*runs[0].0.factors[0], StepFactors::Dense(_)));
    assert!(matches!(*runs[1].0.factors[0], StepFactors::Band(..)));
    let outputs = Outputs {
        steps: &[0, 1],
        weights: &[0.3, 0.2, 0.0, 1.0],
    };
    let numbers = |count: usize| (0..count).map(|i| (i as f64).cos()).collect::<Vec<_>>();
    let found = runs.map(|(run, derivatives, (order, widths))| {
        let columns = run.columns(
            outputs,
            &numbers(4 * n * 3),
            &numbers(n * 3),
            3,
            &mut || false,
        );
        let rows = run.adjoint(outputs, &numbers(2 * 2 * n), 2, &mut || false);
        let source = Source::Matrices {
            derivatives,
            products: &none(),
            order,
            widths,
        };
        let off = off(&lengths, &a, source, &numbers(6 * n), &numbers(4 * n));
        [columns.unwrap(), rows.unwrap(), off].concat()
    });
    for other in &found[1..] {
        for (x, y) in other.iter().zip(&found[0]) {
            assert!((x - y).abs() < 1e-12, "{x} {y}");
        }
    }
}

/// Derivatives of many equations that all depend on each other, at the stages of three steps.
fn many() -> (usize, Vec<f64>) {
    let n = 40;
    (
        n,
        (0..9 * n * n)
            .map(|e| ((e * e % 1009) as f64).sin())
            .collect(),
    )
}

const RADAU: [f64; 9] = [
    0.1968, -0.0655, 0.0238, 0.3944, 0.2921, -0.0415, 0.3764, 0.5125, 0.1111,
];

#[test]
fn short_steps_are_solved_by_products() {
    let (n, values) = many();
    let (derivatives, outputs) = (
        whole(n, &values),
        Outputs {
            steps: &[0, 2],
            weights: &[0.3, 0.2, 0.0, 0.0, 0.0, 1.0],
        },
    );
    let products: Arc<dyn Products> = Arc::new(Whole(n, values.clone()));
    let numbers = |count: usize| (0..count).map(|i| (i as f64).cos()).collect::<Vec<_>>();
    let found = |run: &Collocation| {
        let columns = run.columns(
            outputs,
            &numbers(9 * n * 2),
            &numbers(n * 2),
            2,
            &mut || false,
        );
        let rows = run.adjoint(outputs, &numbers(2 * 2 * n), 2, &mut || false);
        [columns.unwrap(), rows.unwrap()].concat()
    };
    // The last step is too long.
    let lengths = [0.05, 0.1, 20.0];
    let tried = |products: &Arc<dyn Products>| {
        let found = taken(&lengths, &RADAU, (derivatives, products), natural(n), false);
        found.unwrap().expect("few numbers")
    };
    let (direct, mixed) = (tried(&none()), tried(&products));
    let by_products = |run: &Collocation| {
        let is = |step: &Arc<StepFactors>| matches!(**step, StepFactors::Products(..));
        run.factors.iter().map(is).collect::<Vec<_>>()
    };
    assert_eq!(by_products(&direct), [false; 3]);
    assert_eq!(by_products(&mixed), [true, true, false]);
    for (x, y) in found(&mixed).iter().zip(found(&direct)) {
        assert!((x - y).abs() < 1e-8 * y.abs().max(1.0), "{x} {y}");
    }
}

#[test]
fn steps_with_products_only_are_short() {
    let (n, values) = many();
    let products: Arc<dyn Products> = Arc::new(Whole(n, values.clone()));
    let numbers = |count: usize| (0..count).map(|i| (i as f64).cos()).collect::<Vec<_>>();
    let taken_by_products = |lengths: &[f64]| {
        let (a, near) = (&RADAU[..], None);
        let source = Source::Products(n, &products);
        let found = Collocation::new(Steps { lengths, a, near }, source, &mut || false);
        found.unwrap().map(|(run, _)| run)
    };
    assert!(taken_by_products(&[0.05, 0.1, 20.0]).is_none());
    // Solved by products at first, and then, since these steps are too long, by the matrix that they give.
    let mut long = taken_by_products(&[0.05, 0.1]).expect("short steps");
    long.lengths = vec![20.0, 30.0];
    let known = made(&long.lengths, &RADAU, whole(n, &values[..6 * n * n]));
    let outputs = Outputs {
        steps: &[1],
        weights: &[0.1, 0.2, 0.3],
    };
    let [one, two] = [&long, &known].map(|run| {
        let found = run.columns(outputs, &numbers(6 * n), &numbers(n), 1, &mut || false);
        found.unwrap()
    });
    for (x, y) in one.iter().zip(&two) {
        assert!((x - y).abs() < 1e-8 * y.abs().max(1.0), "{x} {y}");
    }
    // By how much states are off is known about.
    let given = (numbers(8 * n), numbers(6 * n));
    let (order, widths) = natural(n);
    let matrices = Source::Matrices {
        derivatives: whole(n, &values[..6 * n * n]),
        products: &none(),
        order,
        widths,
    };
    let [about, exactly] = [Source::Products(n, &products), matrices]
        .map(|source| off(&[0.05, 0.1], &RADAU, source, &given.0, &given.1));
    for (x, y) in about.iter().zip(&exactly) {
        assert!((x - y).abs() < 0.1 * y.abs().max(0.1), "{x} {y}");
    }
}

//! Reductions over axes in front of rows, in the pass that makes the rows, against loops over the elements.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::aval::{Aval, DType};
use crate::kernels::lane::LaneOp;
use crate::kernels::{Ctx, Value};

fn number(i: usize) -> f64 {
    ((i * 7919 + 13) % 1009) as f64 / 504.5 - 1.0
}

/// What is reduced: elements of rows or one for each, over which axes; whether the group takes it.
type Reduced = (bool, &'static [usize], bool);

/// Squares of `x * y` whose rows are summed, and these reductions; `y` has one row for all.
fn check(shape: &[usize], reduced: &[Reduced]) {
    let kept = shape.len() - 1;
    let mut f = FusedBuilder::with_rows(shape, kept);
    let (x, y) = (f.input(DType::F64), f.input(DType::F64));
    let z = f.op(LaneOp::Mul, &[x, y]).unwrap();
    let sums = f.fold_rows(ReduceOp::Sum, z).unwrap();
    let wide = f.expand(sums);
    let w = f.op(LaneOp::Add, &[z, wide]).unwrap();
    f.output(w);
    let mut taken = Vec::new();
    for &(of_rows, axes, takes) in reduced {
        let source = if of_rows { sums } else { w };
        let took = f.reduce(ReduceOp::Sum, source, axes);
        assert_eq!(took, takes, "{shape:?} over {axes:?}");
        if takes {
            taken.push((of_rows, axes));
        }
    }
    let fused = f.finish();

    let size: usize = shape.iter().product();
    let row = shape[kept];
    let xs: Vec<f64> = (0..size).map(number).collect();
    // Repeated along the first axis, or along all but the last one.
    let period = if shape.len() > 2 {
        size / shape[0]
    } else {
        row
    };
    let ys: Vec<f64> = (0..period).map(|i| number(i + 5)).collect();
    let y_shape = if period == row {
        &shape[kept..]
    } else {
        &shape[1..]
    };
    let inputs = [
        Value::from_slice(shape, &xs).unwrap(),
        Value::from_slice(y_shape, &ys).unwrap(),
    ];
    let z: Vec<f64> = (0..size).map(|i| xs[i] * ys[i % period]).collect();
    let sums: Vec<f64> = z.chunks(row).map(|r| r.iter().sum()).collect();
    let w: Vec<f64> = (0..size).map(|i| z[i] + sums[i / row]).collect();

    let left = |(of_rows, axes): (bool, &[usize])| -> Vec<usize> {
        let all = if of_rows { kept } else { kept + 1 };
        (0..all).filter(|a| !axes.contains(a)).collect()
    };
    let run = |threads: usize| {
        let mut outs = vec![Value::empty(Aval::new(DType::F64, shape)).unwrap()];
        for &reduction in &taken {
            let shape: Vec<usize> = left(reduction).into_iter().map(|a| shape[a]).collect();
            outs.push(Value::empty(Aval::new(DType::F64, &shape)).unwrap());
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let stop = AtomicBool::new(false);
        pool.install(|| fused.run(&inputs, &outs, &Ctx::new(&stop, threads)))
            .unwrap();
        outs
    };
    let outs = run(1);
    for (a, b) in outs.iter().zip(&run(3)) {
        assert!(a.same_bits(b), "threads change {shape:?}");
    }
    for (out, &(of_rows, axes)) in outs[1..].iter().zip(&taken) {
        let (source, all) = if of_rows {
            (&sums, kept)
        } else {
            (&w, kept + 1)
        };
        let kept_axes = left((of_rows, axes));
        let mut want = vec![(0.0, 0.0); out.shape().iter().product()];
        for (i, &v) in source.iter().enumerate() {
            let (mut rest, mut index) = (i, vec![0; all]);
            for a in (0..all).rev() {
                index[a] = rest % shape[a];
                rest /= shape[a];
            }
            let to = kept_axes.iter().fold(0, |to, &a| to * shape[a] + index[a]);
            want[to].0 += v;
            want[to].1 += v.abs();
        }
        for (k, (&got, (sum, size))) in out.as_slice::<f64>().unwrap().iter().zip(want).enumerate()
        {
            assert!(
                (got - sum).abs() <= 1e-13 * size,
                "{shape:?} over {axes:?} of rows {of_rows}: {got} is not {sum} at {k}"
            );
        }
    }
}

const INSIDE: Reduced = (false, &[1], true);
const OVER: Reduced = (false, &[0], true);
const ROWS_OVER: Reduced = (true, &[0], true);
const ALL_ROWS: Reduced = (true, &[0, 1], true);

#[test]
fn slices_of_rows_are_reduced_both_ways() {
    // Several slices in a tile, one, parts of one, odd ones, and a last tile that is short.
    for shape in [
        [5, 3, 4],
        [100, 100, 3],
        [33, 51, 7],
        [40, 700, 2],
        [65, 333, 20],
        [3, 5, 2],
    ] {
        check(&shape, &[INSIDE, OVER, ROWS_OVER, ALL_ROWS]);
        check(&shape, &[OVER, INSIDE]);
        check(&shape, &[(false, &[0, 1], true), INSIDE, ALL_ROWS]);
        check(&shape, &[ROWS_OVER, (false, &[0, 1, 2], true)]);
    }
}

#[test]
fn long_slices_are_reduced_in_parts() {
    check(&[3, 40_000, 3], &[INSIDE, (false, &[0], false), ALL_ROWS]);
    check(&[1, 90_000, 3], &[(false, &[1], true)]);
    check(&[40, 900, 3], &[OVER, ROWS_OVER, INSIDE]);
}

#[test]
fn reductions_of_other_slices_are_refused() {
    check(
        &[9, 5, 6, 3],
        &[
            (false, &[1], true),
            (false, &[2], false),
            (false, &[0], true),
        ],
    );
    check(
        &[9, 5, 6, 3],
        &[
            (false, &[1, 2], true),
            (false, &[0], true),
            (false, &[0, 1], false),
        ],
    );
    check(
        &[9, 5, 6, 3],
        &[
            (false, &[1], true),
            (false, &[0, 1], true),
            (false, &[0, 1, 2], true),
        ],
    );
    // Results that are wide, and slices of which there are few.
    check(&[40, 5, 600, 2], &[(false, &[1], false)]);
    check(&[4, 5000, 2], &[(false, &[0], false), (true, &[0], false)]);
}

#[test]
fn rows_without_elements_have_sums() {
    let mut f = FusedBuilder::with_rows(&[3, 0, 2], 2);
    let x = f.input(DType::F64);
    f.fold_rows(ReduceOp::Sum, x).unwrap();
    assert!(!f.reduce(ReduceOp::Sum, x, &[0]));
}

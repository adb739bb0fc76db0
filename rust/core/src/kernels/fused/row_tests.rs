//! Tiles of whole rows against loops over the elements in `f64`.

use std::sync::atomic::AtomicBool;

use super::node::Work;
use super::*;
use crate::aval::{Aval, DType, Shape, Strides};
use crate::kernels::lane::LaneOp;
use crate::kernels::{Ctx, Element, Value};
use crate::testing::random::Random;

/// Numbers between -2 and 2 that look random.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f64 / f64::from(1 << 22) - 2.0
        })
        .collect()
}

/// A sum of many numbers whose own error is that of a few.
#[derive(Clone, Copy, Default)]
struct Sum(f64, f64);

impl Sum {
    fn add(&mut self, x: f64) {
        let total = self.0 + x;
        let rounded = if self.0.abs() >= x.abs() {
            (self.0 - total) + x
        } else {
            (x - total) + self.0
        };
        *self = Sum(total, self.1 + rounded);
    }

    fn of(x: impl IntoIterator<Item = f64>) -> f64 {
        let mut sum = Sum::default();
        x.into_iter().for_each(|x| sum.add(x));
        sum.0 + sum.1
    }
}

/// Everything that a program of rows can do: a softmax over rows that are scaled, with a number for each row
/// in its denominator; the denominators, the sums of columns and the whole sum are results too.
fn program(dtype: DType, outer: usize, length: usize) -> Fused {
    let mut f = FusedBuilder::with_rows(&[outer, length], 1);
    let (x, scale) = (f.input(dtype), f.input(dtype));
    let extra = f.row_input(dtype, &[outer]);
    let number = f.row_input(dtype, &[outer]);
    let y = f.op(LaneOp::Mul, &[x, scale]).unwrap();
    let most = f.fold_rows(ReduceOp::Max, y).unwrap();
    let most = f.expand(most);
    let z = f.op(LaneOp::Sub, &[y, most]).unwrap();
    let e = f.op(LaneOp::Exp, &[z]).unwrap();
    let total = f.fold_rows(ReduceOp::Sum, e).unwrap();
    let extra = f.op(LaneOp::Mul, &[extra, number]).unwrap();
    let total = f.op(LaneOp::Add, &[total, extra]).unwrap();
    let wide = f.expand(total);
    let p = f.op(LaneOp::Div, &[e, wide]).unwrap();
    f.output(p);
    f.output(total);
    assert!(f.reduce(ReduceOp::Sum, p, &[0]));
    assert!(f.reduce(ReduceOp::Sum, p, &[0, 1]));
    assert!(
        f.op(LaneOp::Add, &[e, total]).is_err(),
        "rows beside the space"
    );
    f.finish()
}

fn check<T: Element>(outer: usize, length: usize, to: fn(f64) -> T, from: fn(T) -> f64, eps: f64) {
    let dtype = T::DTYPE;
    let fused = program(dtype, outer, length);
    let value = |shape: &[usize], seed| {
        let elements: Vec<T> =
            (numbers(shape.iter().product(), seed).into_iter().map(to)).collect();
        Value::from_slice(shape, &elements).unwrap()
    };
    let (x, scale) = (value(&[outer, length], 1), value(&[length], 2));
    let (extra, number) = (value(&[outer], 3), value(&[], 4));
    // The numbers of rows lie backwards.
    let last = (outer as isize - 1) * dtype.size() as isize;
    // SAFETY: the same elements from the last to the first.
    let backwards = unsafe {
        extra.view(
            Shape::from_slice(&[outer]),
            Strides::from_slice(&[-1]),
            last,
        )
    };
    let list = |v: &Value| -> Vec<f64> {
        v.as_slice::<T>()
            .unwrap()
            .iter()
            .map(|&x| from(x))
            .collect()
    };
    let (xs, scales, mut extras, one) = (list(&x), list(&scale), list(&extra), list(&number)[0]);
    extras.reverse();

    let inputs = [x, scale, backwards, number];
    let run = |threads: usize| {
        let shapes: [&[usize]; 4] = [&[outer, length], &[outer], &[length], &[]];
        let outs = shapes.map(|s| Value::empty(Aval::new(dtype, s)).unwrap());
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
    for (a, b) in outs.iter().zip(&run(5)) {
        assert!(a.same_bits(b), "threads change {dtype} ({outer}, {length})");
    }

    let [p, totals, columns, whole] = outs.each_ref().map(list);
    let mut want_columns = vec![Sum::default(); length];
    let mut sizes = vec![0.0f64; length];
    for row in 0..outer {
        let y: Vec<f64> = (0..length)
            .map(|j| from(to(xs[row * length + j] * scales[j])))
            .collect();
        let most = y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let e: Vec<f64> = y.iter().map(|y| (y - most).exp()).collect();
        let sum = Sum::of(e.iter().copied());
        let total = sum + extras[row] * one;
        // What the extra number cancels is lost whoever adds.
        let bound = eps * (sum + (extras[row] * one).abs());
        assert!(
            (totals[row] - total).abs() <= 8.0 * bound,
            "total {row} of ({outer}, {length})"
        );
        for j in 0..length {
            let (got, want) = (p[row * length + j], e[j] / total);
            let error = 16.0 * want.abs() * (eps + bound / total.abs());
            assert!(
                (got - want).abs() <= error,
                "{got} is not {want} in ({outer}, {length})"
            );
            want_columns[j].add(got);
            sizes[j] += got.abs();
        }
    }
    for j in 0..length {
        let error = (columns[j] - want_columns[j].0 - want_columns[j].1).abs();
        assert!(
            error <= 16.0 * eps * sizes[j],
            "column {j} of ({outer}, {length}): {error}"
        );
    }
    let error = (whole[0] - Sum::of(want_columns.iter().map(|s| s.0 + s.1))).abs();
    assert!(error <= 16.0 * eps * sizes.iter().sum::<f64>());
}

#[test]
fn results_of_rows_are_read_in_their_pass() {
    for (outer, length) in [
        (2, 2),
        (2, 700),
        (3, 5),
        (100, 1),
        (64, 64),
        (1000, 33),
        (37, 1024),
        (9, 5000),
        (500, 300),
        // More than is in a cache, so that tiles are asked for ahead.
        (601, 1000),
    ] {
        check::<f64>(outer, length, |x| x, |x| x, f64::EPSILON);
        check::<f32>(
            outer,
            length,
            |x| x as f32,
            f64::from,
            f64::from(f32::EPSILON),
        );
    }
}

/// `op(x, y)` and `op(y, x)` where `y` has one element for each row.
fn check_along<T: Element>(length: usize, to: fn(f64) -> T, ops: &[(LaneOp, fn(T, T) -> T)]) {
    let rows = 5;
    let elements = |count, seed| -> Vec<T> { numbers(count, seed).into_iter().map(to).collect() };
    let (xs, ys) = (elements(rows * length, 1), elements(rows, 2));
    for &(op, exact) in ops {
        for turned in [false, true] {
            let mut f = FusedBuilder::with_rows(&[rows, length], 1);
            let x = f.input(T::DTYPE);
            let y = f.row_input(T::DTYPE, &[rows]);
            let wide = f.expand(y);
            // Once from an input and once in the place of an operand that dies.
            let order = |x: Reg| if turned { [wide, x] } else { [x, wide] };
            let first = f.op(op, &order(x)).unwrap();
            let negated = f.op(LaneOp::Neg, &[first]).unwrap();
            let second = f.op(op, &order(negated)).unwrap();
            f.output(second);
            let fused = f.finish();
            let repeats = fused
                .instrs
                .iter()
                .any(|i| matches!(i.work, Work::Expand(_)));
            assert_eq!(repeats, length < 64);
            let out = Value::empty(Aval::new(T::DTYPE, &[rows, length])).unwrap();
            let inputs = [
                Value::from_slice(&[rows, length], &xs).unwrap(),
                Value::from_slice(&[rows], &ys).unwrap(),
            ];
            let stop = AtomicBool::new(false);
            let outs = std::slice::from_ref(&out);
            fused.run(&inputs, outs, &Ctx::new(&stop, 1)).unwrap();
            let call = |x: T, y: T| if turned { exact(y, x) } else { exact(x, y) };
            let want: Vec<T> = (xs.chunks(length).zip(&ys))
                .flat_map(|(row, &y)| row.iter().map(move |&x| (x, y)))
                .map(|(x, y)| {
                    let [zero, first] = [to(0.0), call(x, y)];
                    call(ops[1].1(zero, first), y)
                })
                .collect();
            let want = Value::from_slice(&[rows, length], &want).unwrap();
            assert!(out.same_bits(&want), "{op:?} {turned} {length}");
        }
    }
}

#[test]
fn operations_read_the_elements_of_rows() {
    for length in [10, 63, 64, 100, 1024] {
        check_along::<f32>(
            length,
            |x| x as f32,
            &[
                (LaneOp::Add, |x, y| x + y),
                (LaneOp::Sub, |x, y| x - y),
                (LaneOp::Mul, |x, y| x * y),
                (LaneOp::Div, |x, y| x / y),
            ],
        );
        check_along::<f64>(
            length,
            |x| x,
            &[
                (LaneOp::Add, |x, y| x + y),
                (LaneOp::Sub, |x, y| x - y),
                (LaneOp::Mul, |x, y| x * y),
                (LaneOp::Div, |x, y| x / y),
            ],
        );
    }
}

/// The bits of all elements, where every NaN is one: which of two goes on is up to the processor.
fn bits(v: &Value) -> Vec<u64> {
    let of = |x: f64| if x.is_nan() { 1 } else { x.to_bits() };
    let narrow = v.as_slice::<f32>();
    let wide = v.as_slice::<f64>().unwrap_or_default().iter().copied();
    let all = narrow
        .unwrap_or_default()
        .iter()
        .map(|&x| f64::from(x))
        .chain(wide);
    all.map(of).collect()
}

/// Random programs of operations on tiles and on elements of rows, with and without rows that are long: the same
/// bits, where the second way repeats every element.
#[test]
fn elements_of_rows_are_as_if_repeated() {
    const OPS: [LaneOp; 8] = [
        LaneOp::Add,
        LaneOp::Sub,
        LaneOp::Mul,
        LaneOp::Div,
        LaneOp::Eq,
        LaneOp::Lt,
        LaneOp::Ge,
        LaneOp::Where,
    ];
    let mut r = Random::new(11);
    for turn in 0..300 {
        let (rows, length) = (
            [1, 3, 40][r.below(3)],
            [5, 64, 200, 256, 700, 1024][r.below(6)],
        );
        let dtype = [DType::F32, DType::F64][r.below(2)];
        let shape = [rows, length];
        // Numbers that are often equal, and some with rules of their own.
        let value = |shape: &[usize], r: &mut Random| {
            let count = shape.iter().product();
            let elements: Vec<f64> = (0..count)
                .map(|_| match r.below(30) {
                    0 => [f64::NAN, f64::INFINITY, -0.0][r.below(3)],
                    _ => (r.below(9) as f64 - 4.0) / 2.0,
                })
                .collect();
            if dtype == DType::F64 {
                return Value::from_slice(shape, &elements).unwrap();
            }
            let narrow: Vec<f32> = elements.iter().map(|&x| x as f32).collect();
            Value::from_slice(shape, &narrow).unwrap()
        };
        let inputs = [&shape[..], &shape, &shape[..1], &shape[..1]].map(|s| value(s, &mut r));
        // The same program twice: with elements of rows, and with inputs that lie repeated in memory.
        let repeated = |v: &Value| {
            let own = Strides::from_slice(&[1, 0]);
            // SAFETY: an element for every row.
            unsafe { v.view(Shape::from_slice(&shape), own, 0) }
        };
        let flat = [
            inputs[0].clone(),
            inputs[1].clone(),
            repeated(&inputs[2]),
            repeated(&inputs[3]),
        ];
        let choices: Vec<[usize; 4]> = (0..=r.below(9))
            .map(|_| [r.below(OPS.len()), r.below(100), r.below(100), r.below(100)])
            .collect();
        let run = |of_rows: bool| {
            let mut f = FusedBuilder::with_rows(&shape, 1);
            let mut tiles = vec![f.input(dtype), f.input(dtype)];
            for _ in 0..2 {
                let reg = if of_rows {
                    f.row_input(dtype, &shape[..1])
                } else {
                    f.input(dtype)
                };
                tiles.push(f.expand(reg));
            }
            let mut masks = Vec::new();
            for &[op, i, j, k] in &choices {
                let op = OPS[op];
                let (x, y) = (tiles[i % tiles.len()], tiles[j % tiles.len()]);
                match op {
                    LaneOp::Where if masks.is_empty() => {}
                    LaneOp::Where => {
                        let mask = masks[k % masks.len()];
                        tiles.push(f.op(op, &[mask, x, y]).unwrap());
                    }
                    LaneOp::Eq | LaneOp::Lt | LaneOp::Ge => {
                        masks.push(f.op(op, &[x, y]).unwrap());
                    }
                    _ => tiles.push(f.op(op, &[x, y]).unwrap()),
                }
            }
            let mut outs = Vec::new();
            // What leaves is not part of a chain.
            for (&x, &[.., k]) in tiles[4..].iter().zip(&choices) {
                if k % 3 == 0 || Some(&x) == tiles.last() {
                    f.output(x);
                    outs.push(Value::empty(Aval::new(dtype, &shape)).unwrap());
                }
            }
            // How many of a mask are true, as a number for each row.
            for &mask in &masks {
                let mask = f.cast(mask, dtype);
                let count = f.fold_rows(ReduceOp::Sum, mask).unwrap();
                f.output(count);
                outs.push(Value::empty(Aval::new(dtype, &shape[..1])).unwrap());
            }
            let inputs = if of_rows { &inputs } else { &flat };
            let stop = AtomicBool::new(false);
            let fused = f.finish();
            fused.run(inputs, &outs, &Ctx::new(&stop, 1)).unwrap();
            outs
        };
        let (rows_read, repeated) = (run(true), run(false));
        for (a, b) in rows_read.iter().zip(&repeated) {
            assert_eq!(bits(a), bits(b), "program {turn}: {choices:?}");
        }
    }
}

/// Rows as long as points and pairs have loops of their own, which add in the order of all short rows.
#[test]
fn short_rows_add_one_element_after_the_other() {
    let stop = AtomicBool::new(false);
    for length in 2..=5 {
        for outer in [1, 7, 500] {
            let mut f = FusedBuilder::with_rows(&[outer, length], 1);
            let x = f.input(DType::F64);
            let total = f.fold_rows(ReduceOp::Sum, x).unwrap();
            let wide = f.expand(total);
            let y = f.op(LaneOp::Mul, &[x, wide]).unwrap();
            f.output(y);
            f.output(total);
            let fused = f.finish();
            let x = numbers(outer * length, 5);
            let value = Value::from_slice(&[outer, length], &x).unwrap();
            let shapes: [&[usize]; 2] = [&[outer, length], &[outer]];
            let outs = shapes.map(|s| Value::empty(Aval::new(DType::F64, s)).unwrap());
            fused.run(&[value], &outs, &Ctx::new(&stop, 1)).unwrap();
            let [y, totals] = outs.each_ref().map(|v| v.as_slice::<f64>().unwrap());
            for (row, &total) in totals.iter().enumerate() {
                let x = &x[row * length..][..length];
                assert_eq!(total.to_bits(), x.iter().fold(0.0, |s, x| s + x).to_bits());
                for (&y, x) in y[row * length..].iter().zip(x) {
                    assert_eq!(y.to_bits(), (x * total).to_bits());
                }
            }
        }
    }
}

/// Points that are the same for many neighbours, and numbers that are the same for a point.
#[test]
fn short_rows_are_gathered_wherever_they_lie() {
    let stop = AtomicBool::new(false);
    for length in [2usize, 3, 4, 5, 16, 17] {
        for (a, b) in [(1, 9), (9, 1), (5, 3), (40, 31)] {
            let shapes = [
                [a, 1, length],
                [1, b, length],
                [a, b, 1],
                [1, b, 1],
                [a, 1, 1],
            ];
            let mut f = FusedBuilder::new(&[a, b, length]);
            let read: Vec<Reg> = shapes.iter().map(|_| f.input(DType::F32)).collect();
            for &x in &read {
                f.output(x);
            }
            let fused = f.finish();
            let lists: Vec<Vec<f32>> = (shapes.iter().zip(1..))
                .map(|(s, seed)| {
                    numbers(s.iter().product(), seed)
                        .iter()
                        .map(|&x| x as f32)
                        .collect()
                })
                .collect();
            let inputs: Vec<Value> = (shapes.iter().zip(&lists))
                .map(|(shape, list)| Value::from_slice(shape, list).unwrap())
                .collect();
            let outs =
                shapes.map(|_| Value::empty(Aval::new(DType::F32, &[a, b, length])).unwrap());
            fused.run(&inputs, &outs, &Ctx::new(&stop, 1)).unwrap();
            for ((shape, list), out) in shapes.iter().zip(&lists).zip(&outs) {
                let at = |i: usize, d: usize| if d == 1 { 0 } else { i };
                let got = out.as_slice::<f32>().unwrap();
                for (k, &got) in got.iter().enumerate() {
                    let (i, j, c) = (k / length / b, k / length % b, k % length);
                    let want =
                        (at(i, shape[0]) * shape[1] + at(j, shape[1])) * shape[2] + at(c, shape[2]);
                    assert_eq!(got, list[want], "{shape:?} at {k}");
                }
            }
        }
    }
}

/// Inputs whose rows are repeated along an axis before the last one, for short rows and long ones, and some that lie
/// unaligned to anything but their elements.
#[test]
fn rows_are_repeated() {
    for (length, times) in (1..=20).flat_map(|l| [1, 2, 3, 9].map(|t| (l, t))) {
        let outer = 7;
        let shape = [outer, times, length];
        let mut f = FusedBuilder::new(&shape);
        let (x, y) = (f.input(DType::F64), f.input(DType::F64));
        let z = f.op(LaneOp::Sub, &[x, y]).unwrap();
        f.output(z);
        let fused = f.finish();
        let xs = numbers(outer * length, 1);
        let ys = numbers(outer * times * length, 2);
        let inputs = [
            Value::from_slice(&[outer, 1, length], &xs).unwrap(),
            Value::from_slice(&shape, &ys).unwrap(),
        ];
        let outs = [Value::empty(Aval::new(DType::F64, &shape)).unwrap()];
        let stop = AtomicBool::new(false);
        fused.run(&inputs, &outs, &Ctx::new(&stop, 1)).unwrap();
        for (i, &z) in outs[0].as_slice::<f64>().unwrap().iter().enumerate() {
            let x = xs[i / (times * length) * length + i % length];
            assert_eq!(z, x - ys[i], "{shape:?} at {i}");
        }
    }
}

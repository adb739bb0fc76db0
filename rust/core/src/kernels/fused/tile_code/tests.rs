//! Machine code for tiles against the same operations one by one: the same bits, whatever the numbers are.

use std::sync::atomic::AtomicBool;

use super::super::build;
use super::super::test_floats::{Float, SPECIAL};
use super::super::*;
use super::is_possible;
use crate::aval::{Aval, Shape, Strides};
use crate::kernels::lane::LaneOp;
use crate::kernels::{Ctx, Value};
use crate::testing::random::Random;

const OPS: [LaneOp; 12] = [
    LaneOp::Add,
    LaneOp::Sub,
    LaneOp::Mul,
    LaneOp::Add,
    LaneOp::Sub,
    LaneOp::Mul,
    LaneOp::Div,
    LaneOp::Neg,
    LaneOp::Abs,
    LaneOp::Sqrt,
    LaneOp::Square,
    LaneOp::Reciprocal,
];
const SHAPES: [[usize; 2]; 8] = [
    [1, 2],
    [3, 5],
    [1, 64],
    [8, 17],
    [16, 64],
    [7, 301],
    [5, 1000],
    [3, 4096],
];

/// The program with machine code, where that is possible and there is something for it.
fn with_code(builder: FusedBuilder) -> Fused {
    let plain = builder.clone().finish();
    if !is_possible() {
        return plain;
    }
    build::with_code(builder, &plain).unwrap_or(plain)
}

/// An array of that shape, and its elements.
fn array<T: Float>(shape: &[usize], is_special: bool, r: &mut Random) -> (Value, Vec<T>) {
    let count: usize = shape.iter().product();
    let elements: Vec<T> = (0..count)
        .map(|_| match r.below(4) {
            0 if is_special => T::of(SPECIAL[r.below(SPECIAL.len())]),
            _ => T::of(4.0 * r.unit() - 2.0),
        })
        .collect();
    (Value::from_slice(shape, &elements).unwrap(), elements)
}

/// An input of a layout at random, and its elements.
fn input<T: Float>([rows, width]: [usize; 2], r: &mut Random) -> (Value, Vec<T>) {
    match r.below(5) {
        // A row for all rows, or an element for each.
        0 => {
            let (value, own) = array::<T>(&[width], true, r);
            let all = (0..rows * width).map(|i| own[i % width]).collect();
            (value, all)
        }
        1 => {
            let (value, own) = array::<T>(&[rows, 1], true, r);
            let all = (0..rows * width).map(|i| own[i / width]).collect();
            (value, all)
        }
        // Every second element, or columns.
        2 => {
            let (value, own) = array::<T>(&[rows * width * 2], true, r);
            let strides = Strides::from_slice(&[2 * width as isize, 2]);
            // SAFETY: every element lies in the array.
            let value = unsafe { value.view(Shape::from_slice(&[rows, width]), strides, 0) };
            (value, own.into_iter().step_by(2).collect())
        }
        3 => {
            let (value, own) = array::<T>(&[width, rows], true, r);
            let strides = Strides::from_slice(&[1, rows as isize]);
            // SAFETY: every element lies in the array.
            let value = unsafe { value.view(Shape::from_slice(&[rows, width]), strides, 0) };
            let all = (0..rows * width).map(|i| own[i % width * rows + i / width]);
            (value, all.collect())
        }
        _ => array::<T>(&[rows, width], true, r),
    }
}

/// Programs of tiles, numbers and operations at random, some of whose results are read often, or after something that
/// is no arithmetic; outputs may lie in the place of an input.
fn check<T: Float>(seed: u64) {
    let mut r = Random::new(seed);
    let shape = SHAPES[r.below(SHAPES.len())];
    let size = shape[0] * shape[1];
    let mut builder = FusedBuilder::new(&shape);
    let (mut values, mut naive, mut regs) = (Vec::new(), Vec::new(), Vec::new());
    let tiles = 1 + r.below(4);
    for k in 0..tiles + 2 {
        let (value, elements) = if k == 0 {
            array::<T>(&shape, true, &mut r)
        } else if k < tiles {
            input::<T>(shape, &mut r)
        } else {
            let (value, own) = array::<T>(&[1], true, &mut r);
            (value, vec![own[0]; size])
        };
        values.push(value);
        naive.push(elements);
        regs.push(if k < tiles {
            builder.input(T::DTYPE)
        } else {
            builder.number(T::DTYPE)
        });
    }
    let first = regs.len();
    for _ in 0..3 + r.below(if seed.is_multiple_of(8) { 150 } else { 30 }) {
        let op = match r.below(20) {
            0 => LaneOp::Floor,
            _ => OPS[r.below(OPS.len())],
        };
        // Mostly what was made last, and in some programs much that waits.
        let back = if seed.is_multiple_of(3) { 20 } else { 3 };
        let mut pick = || match r.below(3) {
            0 => r.below(regs.len()),
            _ => regs.len() - 1 - r.below(back.min(regs.len())),
        };
        let (x, y) = (pick(), pick());
        let args = [regs[x], regs[y]];
        regs.push(builder.op(op, &args[..op.arity()]).unwrap());
        let made = (naive[x].iter().zip(&naive[y])).map(|(&x, &y)| T::call(op, x, y));
        let made = made.collect::<Vec<_>>();
        naive.push(made);
    }
    let mut wanted = vec![regs.len() - 1];
    for _ in 0..r.below(3) {
        wanted.push(first + r.below(regs.len() - first));
    }
    wanted.dedup();
    for &k in &wanted {
        builder.output(regs[k]);
    }
    // A sum of all elements, computed by the same kernels either way.
    let reduced = regs[first + r.below(regs.len() - first)];
    assert!(builder.reduce(ReduceOp::Max, reduced, &[0, 1]));
    let fused = with_code(builder);
    let in_place = r.below(2) == 0;
    let out = |k: usize| {
        if k == 0 && in_place {
            return values[0].clone();
        }
        Value::empty(Aval::new(T::DTYPE, &shape)).unwrap()
    };
    let mut outputs: Vec<Value> = (0..wanted.len()).map(out).collect();
    outputs.push(Value::empty(Aval::new(T::DTYPE, &[])).unwrap());
    fused
        .run(&values, &outputs, &Ctx::new(&AtomicBool::new(false), 1))
        .unwrap();
    for (&k, out) in wanted.iter().zip(&outputs) {
        let got = out.as_slice::<T>().unwrap();
        for (i, (a, b)) in got.iter().zip(&naive[k]).enumerate() {
            assert_eq!(
                a.bits(),
                b.bits(),
                "seed {seed}, {shape:?}, value {k}, element {i}"
            );
        }
    }
}

#[test]
fn code_rounds_like_its_operations() {
    for seed in 0..1500 {
        check::<f64>(seed);
        check::<f32>(seed);
    }
}

#[test]
fn values_that_wait_lie_in_local_memory() {
    if !is_possible() {
        return;
    }
    // A loop and its reverse pass: a hundred values wait, and one register of a tile has the result.
    let mut builder = FusedBuilder::new(&[5000]);
    let mut x = builder.input(crate::aval::DType::F32);
    let c = builder.number(crate::aval::DType::F32);
    let mut kept = Vec::new();
    for _ in 0..100 {
        kept.push(x);
        let t = builder.op(LaneOp::Mul, &[c, x]).unwrap();
        x = builder.op(LaneOp::Add, &[x, t]).unwrap();
    }
    let mut d = x;
    for x in kept.into_iter().rev() {
        let t = builder.op(LaneOp::Mul, &[d, x]).unwrap();
        d = builder.op(LaneOp::Sub, &[d, t]).unwrap();
    }
    builder.output(d);
    let fused = with_code(builder);
    assert_eq!(fused.registers(), 0);
}

//! Chains against the same operations one by one: the same bits, whatever the numbers are.

use std::sync::atomic::AtomicBool;

use super::test_floats::{Float, number};
use super::*;
use crate::aval::{Aval, DType};
use crate::kernels::lane::LaneOp;
use crate::kernels::{Ctx, Value};
use crate::testing::random::Random;

const OPS: [LaneOp; 4] = [LaneOp::Add, LaneOp::Sub, LaneOp::Mul, LaneOp::Div];

/// Programs of tiles, numbers and operations at random, some of whose results are read often.
fn check<T: Float>(seed: u64) {
    let mut r = Random::new(seed);
    let size = [2, 3, 17, 64, 1000, 5000][r.below(6)];
    let mut builder = FusedBuilder::new(&[size]);
    let mut values: Vec<Value> = Vec::new();
    let mut naive: Vec<Vec<T>> = Vec::new();
    let mut regs: Vec<Reg> = Vec::new();
    for k in 0..4 {
        let is_number = k >= 2;
        let own = if is_number { 1 } else { size };
        let elements: Vec<T> = (0..own).map(|_| T::of(number(&mut r))).collect();
        values.push(Value::from_slice(&[own], &elements).unwrap());
        naive.push((0..size).map(|i| elements[i % own]).collect());
        regs.push(if is_number {
            builder.number(T::DTYPE)
        } else {
            builder.input(T::DTYPE)
        });
    }
    let mut refs: Vec<usize> = Vec::new();
    for _ in 0..3 + r.below(25) {
        let op = OPS[r.below(10) % 4];
        // Mostly what was made last, so that there are chains.
        let mut pick = || match r.below(3) {
            0 => r.below(regs.len()),
            _ => regs.len() - 1 - r.below(3),
        };
        let (x, y) = (pick(), pick());
        regs.push(builder.op(op, &[regs[x], regs[y]]).unwrap());
        let made = (naive[x].iter().zip(&naive[y])).map(|(&x, &y)| T::call(op, x, y));
        naive.push(made.collect());
    }
    refs.push(regs.len() - 1);
    if r.below(2) == 0 {
        refs.push(4 + r.below(regs.len() - 4));
    }
    for &k in &refs {
        builder.output(regs[k]);
    }
    let outputs = refs.iter().map(|_| {
        let aval = Aval::new(T::DTYPE, &[size]);
        Value::empty(aval).unwrap()
    });
    let outputs: Vec<Value> = outputs.collect();
    let fused = builder.finish();
    fused
        .run(&values, &outputs, &Ctx::new(&AtomicBool::new(false), 1))
        .unwrap();
    for (&k, out) in refs.iter().zip(&outputs) {
        let got = out.as_slice::<T>().unwrap();
        for (i, (a, b)) in got.iter().zip(&naive[k]).enumerate() {
            assert_eq!(a.bits(), b.bits(), "seed {seed}, value {k}, element {i}");
        }
    }
}

#[test]
fn chains_round_like_their_operations() {
    for seed in 0..1500 {
        check::<f64>(seed);
        check::<f32>(seed);
    }
}

#[test]
fn what_a_number_makes_of_a_tile_that_is_there_is_not_kept() {
    // A loop and its reverse pass, in which every step reads `1 - x` and `c * x` again.
    let mut builder = FusedBuilder::new(&[5000]);
    let mut x = builder.input(DType::F32);
    let (c, one) = (builder.number(DType::F32), builder.number(DType::F32));
    let mut kept = Vec::new();
    for _ in 0..50 {
        let t = builder.op(LaneOp::Mul, &[c, x]).unwrap();
        let u = builder.op(LaneOp::Sub, &[one, x]).unwrap();
        let product = builder.op(LaneOp::Mul, &[t, u]).unwrap();
        kept.push((t, u));
        x = builder.op(LaneOp::Add, &[x, product]).unwrap();
    }
    let mut d = x;
    for (t, u) in kept.into_iter().rev() {
        let one = builder.op(LaneOp::Mul, &[d, t]).unwrap();
        let rest = builder.op(LaneOp::Sub, &[d, one]).unwrap();
        let other = builder.op(LaneOp::Mul, &[d, u]).unwrap();
        let other = builder.op(LaneOp::Mul, &[other, c]).unwrap();
        d = builder.op(LaneOp::Add, &[rest, other]).unwrap();
    }
    builder.output(d);
    let registers = builder.finish().registers();
    // Without chains there are two of each step.
    let most = if op_chains::has_turns() { 60 } else { 110 };
    assert!(registers < most, "{registers}");
}

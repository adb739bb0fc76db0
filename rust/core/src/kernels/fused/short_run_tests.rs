//! Runs of one tile in one memory give what other runs give.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::lane::LaneOp;
use super::*;
use crate::aval::{DType, SliceDim};
use crate::kernels::{ALIGN, Ctx, Form, Storage, Value, copy_into};

static STOP: AtomicBool = AtomicBool::new(false);

fn line(n: usize, from: usize) -> Value {
    let special = [f64::NAN, -0.0, 0.1, f64::INFINITY, -2.5, 1e300, 3.0];
    let all: Vec<f64> = (0..n)
        .map(|i| special[(i + from) % 7] - (i / 7) as f64)
        .collect();
    Value::from_slice(&[n], &all).unwrap()
}

/// `exp(x * y) + z` and `x * y`, or with a sum of the latter.
fn group(n: usize, with_sum: bool) -> Fused {
    let mut fused = FusedBuilder::new(&[n]);
    let x = fused.input(DType::F64);
    let y = fused.input(DType::F64);
    let z = fused.input(DType::F64);
    let product = fused.op(LaneOp::Mul, &[x, y]).unwrap();
    let exp = fused.op(LaneOp::Exp, &[product]).unwrap();
    let sum = fused.op(LaneOp::Add, &[exp, z]).unwrap();
    fused.output(sum);
    fused.output(product);
    if with_sum {
        assert!(fused.reduce(ReduceOp::Sum, product, &[0]));
    }
    fused.finish()
}

fn compared(fused: &Fused, inputs: &[Value], outputs: usize, is_short: bool) {
    let n = inputs[0].shape()[0];
    let ctx = Ctx::new(&STOP, 1);
    let fresh = |k: usize| {
        let shape: &[usize] = if k < 2 { &[n] } else { &[] };
        Value::from_slice(shape, &vec![7.0; if k < 2 { n } else { 1 }]).unwrap()
    };
    let wanted: Vec<Value> = (0..outputs).map(fresh).collect();
    fused.run(inputs, &wanted, &ctx).unwrap();
    let layout = fused.layout(inputs, &wanted).unwrap();
    let sources: Vec<_> = (inputs.iter().zip(&fused.inputs))
        .map(|(v, input)| strided_input::Source::new(v, fused.space(input), false))
        .collect();
    assert_eq!(fused.is_short(sources.iter()), is_short);
    let memory = Arc::new(Storage::allocate(1 << 17).unwrap());
    let mut next = 0;
    let mut places = Vec::new();
    let mut there = Vec::new();
    for value in inputs
        .iter()
        .chain(&(0..outputs).map(fresh).collect::<Vec<_>>())
    {
        let form = Form::of(value);
        next = (next + form.reach().before).next_multiple_of(ALIGN);
        let at = form.at(&memory, next).unwrap();
        copy_into(&at, value, &ctx).unwrap();
        places.push(next);
        there.push(at);
        next += form.reach().behind;
    }
    for _ in 0..2 {
        fused
            .run_at(&layout, &memory, places.iter().copied(), &ctx)
            .unwrap();
        for (found, wanted) in there[inputs.len()..].iter().zip(&wanted) {
            assert_eq!(found.bytes_in_order(), wanted.bytes_in_order(), "{n}");
        }
    }
    places[0] = memory.len();
    assert!(
        fused
            .run_at(&layout, &memory, places.into_iter(), &ctx)
            .is_err()
    );
}

#[test]
fn short_runs_give_what_others_give() {
    for n in [1, 2, 7, 16, 200, 511] {
        let (x, y, z) = (line(n, 0), line(n, 3), line(n, 5));
        let one = Value::from_slice(&[], &[1.5]).unwrap();
        let back = [SliceDim {
            start: n - 1,
            len: n,
            step: -1,
        }];
        let turned = y.sliced(&back);
        let plain = group(n, false);
        compared(&plain, &[x.clone(), y.clone(), z.clone()], 2, true);
        compared(&plain, &[x.clone(), one.clone(), z.clone()], 2, true);
        // Operands that have to be gathered, and reductions, take the usual way.
        compared(&plain, &[x.clone(), turned, z.clone()], 2, n == 1);
        compared(&group(n, true), &[x, one, z], 3, false);
    }
}

//! Pairs against their parts: the same bits.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::aval::{Aval, DType};
use crate::kernels::lane::{self, LaneOp};
use crate::kernels::{Ctx, Element, Value};
use crate::testing::random::Random;

/// The sine and the cosine of `elements`, made in one program, which are as those made alone; a result may be
/// written where the operand lies.
fn sine_beside_cosine<T: Element + Copy + std::fmt::Debug>(elements: &[T], first: LaneOp) {
    let ops = match first {
        LaneOp::Sin => [LaneOp::Sin, LaneOp::Cos],
        _ => [LaneOp::Cos, LaneOp::Sin],
    };
    let bytes = |v: &Value| format!("{:?}", v.as_slice::<T>().unwrap());
    let shape = [elements.len()];
    let wanted = ops.map(|op| {
        let out = Value::empty(Aval::new(T::DTYPE, &shape)).unwrap();
        let x = elements.as_ptr().cast();
        let (null, lane) = (std::ptr::null(), lane::lane(op, T::DTYPE).unwrap());
        // SAFETY: as many elements there as here.
        unsafe { lane(out.as_mut_ptr(), x, null, null, elements.len()) };
        bytes(&out)
    });
    for donated in 0..3 {
        let mut builder = FusedBuilder::new(&shape);
        let x = builder.input(T::DTYPE);
        let results = ops.map(|op| builder.op(op, &[x]).unwrap());
        let sum = builder.op(LaneOp::Add, &results).unwrap();
        for result in [results[0], results[1], sum] {
            builder.output(result);
        }
        let fused = builder.finish();
        assert_eq!(fused.instrs.len(), if elements.len() == 1 { 3 } else { 2 });
        let x = [Value::from_slice(&shape, elements).unwrap()];
        let outputs: Vec<Value> = (0..3)
            .map(|k| {
                if k == donated {
                    x[0].clone()
                } else {
                    Value::empty(Aval::new(T::DTYPE, &shape)).unwrap()
                }
            })
            .collect();
        fused
            .run(&x, &outputs, &Ctx::new(&AtomicBool::new(false), 1))
            .unwrap();
        assert_eq!([0, 1].map(|k| bytes(&outputs[k])), wanted);
    }
}

#[test]
fn sines_beside_cosines() {
    let mut r = Random::new(5);
    for size in [1, 2, 15, 16, 33, 1000, 20_000] {
        let mut x: Vec<f64> = (0..size).map(|_| r.unit() * 200.0 - 100.0).collect();
        for (at, special) in [(0, 1e22), (7, -0.0), (size - 1, f64::NAN), (size / 2, -3e7)] {
            if let Some(x) = x.get_mut(at) {
                *x = special;
            }
        }
        let narrow: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        for first in [LaneOp::Sin, LaneOp::Cos] {
            sine_beside_cosine(&x, first);
            sine_beside_cosine(&narrow, first);
        }
    }
}

#[test]
fn a_sine_without_its_cosine() {
    // What nothing needs is not made, and takes no register.
    let mut builder = FusedBuilder::new(&[100]);
    let x = builder.input(DType::F64);
    let sine = builder.op(LaneOp::Sin, &[x]).unwrap();
    let cosine = builder.op(LaneOp::Cos, &[x]).unwrap();
    builder.op(LaneOp::Neg, &[cosine]).unwrap();
    builder.output(sine);
    let fused = builder.finish();
    assert_eq!((fused.instrs.len(), fused.registers()), (1, 0));
}

//! Fused programs against evaluation one element at a time.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::aval::{Aval, DType, Shape, Strides, row_major, size_of};
use crate::error::Error;
use crate::kernels::lane::{self, LaneOp};
use crate::kernels::{Ctx, Element, Value};
use crate::testing::random::Random;

fn one_thread<R>(f: impl FnOnce(&Ctx) -> R) -> R {
    f(&Ctx::new(&AtomicBool::new(false), 1))
}

fn many_threads<R: Send>(f: impl FnOnce(&Ctx) -> R + Send) -> R {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(7)
        .build()
        .unwrap();
    pool.install(|| f(&Ctx::new(&AtomicBool::new(false), 7)))
}

/// A value that broadcasts to `shape`, in a layout at random, and its elements at that shape.
fn random_value(shape: &[usize], r: &mut Random) -> (Value, Vec<f64>) {
    let dropped = if r.below(3) == 0 {
        r.below(shape.len() + 1)
    } else {
        0
    };
    let own: Shape = shape[dropped..]
        .iter()
        .map(|&d| if r.below(4) == 0 { 1 } else { d })
        .collect();
    // Axes lie in memory in any order, some backwards, some with gaps.
    let mut order: Vec<usize> = (0..own.len()).collect();
    if r.below(2) == 0 {
        for i in (1..order.len()).rev() {
            order.swap(i, r.below(i + 1));
        }
    }
    let mut strides = Strides::from_elem(0, own.len());
    let (mut step, mut first) = (1isize, 0isize);
    for &axis in order.iter().rev() {
        if r.below(6) == 0 {
            step *= 2;
        }
        strides[axis] = step;
        step *= own[axis].max(1) as isize;
        if r.below(5) == 0 && own[axis] > 0 {
            first += (own[axis] - 1) as isize * strides[axis];
            strides[axis] = -strides[axis];
        }
    }
    let memory: Vec<f64> = (0..=step as usize).map(|_| r.unit() * 4.0 - 2.0).collect();
    let base = Value::from_slice(&[memory.len()], &memory).unwrap();
    let wide = crate::aval::broadcast_strides(&own, &strides, shape);
    let mut elements = Vec::new();
    for i in 0..size_of(shape) {
        let mut rest = i;
        let mut at = first;
        for (&d, &s) in shape.iter().zip(&wide).rev() {
            at += (rest % d) as isize * s;
            rest /= d;
        }
        elements.push(memory[at as usize]);
    }
    // SAFETY: the layout reaches elements of `memory` only.
    (unsafe { base.view(own, strides, first * 8) }, elements)
}

fn scalar(op: LaneOp, dtype: DType, args: [f64; 2]) -> f64 {
    let mut out = [0f64; 1];
    let [a, b] = &args;
    let (a, b) = (std::ptr::from_ref(a).cast(), std::ptr::from_ref(b).cast());
    // SAFETY: one element each.
    unsafe {
        lane::lane(op, dtype).unwrap()(out.as_mut_ptr().cast(), a, b, std::ptr::null(), 1);
    }
    out[0]
}

const OPS: [LaneOp; 9] = [
    LaneOp::Add,
    LaneOp::Sub,
    LaneOp::Mul,
    LaneOp::Maximum,
    LaneOp::Sin,
    LaneOp::Cos,
    LaneOp::Exp,
    LaneOp::Neg,
    LaneOp::Atan2,
];

fn random_shape(r: &mut Random) -> Shape {
    let rank = r.below(5);
    (0..rank)
        .map(|_| [1, 2, 3, 5, 16, 40, 97][r.below(7)])
        .collect()
}

#[test]
fn random_programs() {
    let mut r = Random::new(0x1234_5678_9abc_def1);
    for _ in 0..200 {
        let shape = random_shape(&mut r);
        if size_of(&shape) > 60_000 {
            continue;
        }
        let mut builder = FusedBuilder::new(&shape);
        let (mut values, mut registers, mut naive) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=r.below(3) {
            let (value, elements) = random_value(&shape, &mut r);
            values.push(value);
            naive.push(elements);
            registers.push(builder.input(DType::F64));
        }
        for _ in 0..=r.below(12) {
            let op = OPS[r.below(OPS.len())];
            let (i, j) = (r.below(registers.len()), r.below(registers.len()));
            let args = [registers[i], registers[j]];
            registers.push(builder.op(op, &args[..op.arity()]).unwrap());
            let pairs = naive[i].iter().zip(&naive[j]);
            let elements = pairs.map(|(&x, &y)| scalar(op, DType::F64, [x, y]));
            naive.push(elements.collect());
        }
        let mut wanted = Vec::new();
        let mut outputs = Vec::new();
        for _ in 0..=r.below(3) {
            let i = r.below(registers.len());
            builder.output(registers[i]);
            wanted.push((naive[i].clone(), 0.0));
            outputs.push(Value::empty(Aval::new(DType::F64, &shape)).unwrap());
        }
        // Reductions over any axes; those that do not fit are refused.
        for _ in 0..r.below(4) {
            let i = r.below(registers.len());
            let axes: Vec<usize> = (0..shape.len()).filter(|_| r.below(2) == 0).collect();
            let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][r.below(3)];
            if !builder.reduce(op, registers[i], &axes) {
                continue;
            }
            let (result, elements, scale) = reduce_naively(op, &shape, &naive[i], &axes);
            wanted.push((elements, scale));
            outputs.push(Value::empty(Aval::new(DType::F64, &result)).unwrap());
        }
        let fused = builder.finish();
        one_thread(|ctx| fused.run(&values, &outputs, ctx)).unwrap();
        for ((want, scale), out) in wanted.iter().zip(&outputs) {
            let got = out.as_slice::<f64>().unwrap();
            for (&g, &w) in got.iter().zip(want) {
                let close = g == w || g.is_nan() && w.is_nan() || (g - w).abs() <= 1e-13 * scale;
                assert!(close, "{g} is not {w}, shape {shape:?}");
            }
        }
        let again: Vec<Value> = outputs
            .iter()
            .map(|o| Value::empty(o.aval().clone()).unwrap())
            .collect();
        many_threads(|ctx| fused.run(&values, &again, ctx)).unwrap();
        for (a, b) in outputs.iter().zip(&again) {
            assert!(same_bits(a, b));
        }
    }
}

fn same_bits(a: &Value, b: &Value) -> bool {
    let (a, b) = (a.as_slice::<f64>().unwrap(), b.as_slice::<f64>().unwrap());
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

fn reduce_naively(
    op: ReduceOp,
    shape: &[usize],
    x: &[f64],
    axes: &[usize],
) -> (Shape, Vec<f64>, f64) {
    let kept: Vec<usize> = (0..shape.len()).filter(|a| !axes.contains(a)).collect();
    let result: Shape = kept.iter().map(|&a| shape[a]).collect();
    let strides = row_major(&result);
    let start = match op {
        ReduceOp::Sum => 0.0,
        ReduceOp::Prod => 1.0,
        ReduceOp::Max => f64::NEG_INFINITY,
        ReduceOp::Min => f64::INFINITY,
    };
    let mut out = vec![start; size_of(&result)];
    let mut scale = 0.0;
    for (i, &v) in x.iter().enumerate() {
        let (mut rest, mut at) = (i, 0);
        for (axis, &d) in shape.iter().enumerate().rev() {
            if let Some(k) = kept.iter().position(|&a| a == axis) {
                at += (rest % d) * strides[k] as usize;
            }
            rest /= d;
        }
        let o = &mut out[at];
        *o = match op {
            ReduceOp::Sum => *o + v,
            ReduceOp::Prod => *o * v,
            ReduceOp::Max => {
                if v > *o || v.is_nan() {
                    v
                } else {
                    *o
                }
            }
            ReduceOp::Min => {
                if v < *o || v.is_nan() {
                    v
                } else {
                    *o
                }
            }
        };
        scale += v.abs();
    }
    (result, out, scale)
}

/// Reduces `x` over `axes` in one program, on one thread and on many.
fn reduced<T: Element + PartialEq + std::fmt::Debug>(
    op: ReduceOp,
    shape: &[usize],
    x: &[T],
    axes: &[usize],
) -> Vec<T> {
    let mut builder = FusedBuilder::new(shape);
    let r = builder.input(T::DTYPE);
    assert!(builder.reduce(op, r, axes));
    let fused = builder.finish();
    let result: Shape = (0..shape.len())
        .filter(|a| !axes.contains(a))
        .map(|a| shape[a])
        .collect();
    let value = [Value::from_slice(shape, x).unwrap()];
    let outs = [(); 2].map(|()| [Value::empty(Aval::new(T::DTYPE, &result)).unwrap()]);
    one_thread(|ctx| fused.run(&value, &outs[0], ctx)).unwrap();
    many_threads(|ctx| fused.run(&value, &outs[1], ctx)).unwrap();
    let [a, b] = outs.map(|[o]| o.as_slice::<T>().unwrap().to_vec());
    assert_eq!(a, b);
    a
}

#[test]
fn large_reductions_of_every_pattern() {
    let mut r = Random::new(77);
    let cases: [(&[usize], &[usize]); 12] = [
        (&[1_000_003], &[0]),
        (&[3, 400_000], &[1]),
        (&[400_000, 3], &[1]),
        (&[400_000, 3], &[0]),
        (&[3, 400_000], &[0]),
        (&[200, 200, 30], &[1]),
        (&[2, 30_000, 20], &[1]),
        (&[2, 50, 12_000], &[1]),
        (&[900, 1100], &[0]),
        (&[900, 1100], &[1]),
        (&[100, 7, 5, 200], &[1, 2]),
        (&[50, 1, 3000], &[1]),
    ];
    for (shape, axes) in cases {
        let x: Vec<f64> = (0..size_of(shape)).map(|_| r.unit() - 0.5).collect();
        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min] {
            let got = reduced(op, shape, &x, axes);
            let (_, want, _) = reduce_naively(op, shape, &x, axes);
            for (g, w) in got.iter().zip(&want) {
                assert!((g - w).abs() <= 1e-9, "{op:?} {shape:?} {axes:?}: {g} {w}");
            }
        }
        let ints: Vec<i64> = x.iter().map(|v| (v * 1000.0) as i64).collect();
        let got = reduced(ReduceOp::Sum, shape, &ints, axes);
        let exact: Vec<f64> = ints.iter().map(|&v| v as f64).collect();
        let (_, want, _) = reduce_naively(ReduceOp::Sum, shape, &exact, axes);
        assert!(got.iter().zip(&want).all(|(&g, &w)| g as f64 == w));
        let floats: Vec<f32> = x.iter().map(|&v| v as f32 + 0.5).collect();
        let got = reduced(ReduceOp::Sum, shape, &floats, axes);
        let exact: Vec<f64> = floats.iter().map(|&v| f64::from(v)).collect();
        let (_, want, _) = reduce_naively(ReduceOp::Sum, shape, &exact, axes);
        for (&g, w) in got.iter().zip(&want) {
            assert!(
                (f64::from(g) - w).abs() <= 1e-6 * w,
                "f32 {shape:?} {axes:?}: {g} {w}"
            );
        }
        let halves: Vec<half::f16> = x.iter().map(|&v| half::f16::from_f64(v * 0.01)).collect();
        let got = reduced(ReduceOp::Sum, shape, &halves, axes);
        let exact: Vec<f64> = halves.iter().map(|v| v.to_f64()).collect();
        let (_, want, _) = reduce_naively(ReduceOp::Sum, shape, &exact, axes);
        for (g, w) in got.iter().zip(&want) {
            assert!(
                (g.to_f64() - w).abs() <= 6e-4 * w.abs() + 1e-4,
                "f16 {shape:?}: {g} {w}"
            );
        }
        let bools: Vec<bool> = x.iter().map(|&v| v > 0.499).collect();
        let got = reduced(ReduceOp::Max, shape, &bools, axes);
        let exact: Vec<f64> = bools.iter().map(|&v| f64::from(u8::from(v))).collect();
        let (_, want, _) = reduce_naively(ReduceOp::Max, shape, &exact, axes);
        assert!(got.iter().zip(&want).all(|(&g, &w)| g == (w == 1.0)));
        let complex: Vec<_> = x
            .iter()
            .map(|&v| num_complex::Complex::new(v, -2.0 * v))
            .collect();
        let got = reduced(ReduceOp::Sum, shape, &complex, axes);
        let (_, want, _) = reduce_naively(ReduceOp::Sum, shape, &x, axes);
        for (g, w) in got.iter().zip(&want) {
            assert!((g.re - w).abs() <= 1e-9 && (g.im + 2.0 * w).abs() <= 1e-9);
        }
    }
}

#[test]
fn products_and_nan() {
    let x: Vec<f64> = (0..1000)
        .map(|i| 1.0 + f64::from(i % 7 - 3) * 1e-3)
        .collect();
    let want: f64 = x.iter().product();
    let got = reduced(ReduceOp::Prod, &[10, 100], &x, &[0, 1])[0];
    assert!((got / want - 1.0).abs() < 1e-12);
    let mut x = vec![1.0f32; 5000];
    x[4321] = f32::NAN;
    for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min] {
        for axes in [&[0, 1][..], &[0], &[1]] {
            let mut builder = FusedBuilder::new(&[50, 100]);
            let r = builder.input(DType::F32);
            assert!(builder.reduce(op, r, axes));
            let result: &[usize] = match axes {
                [0] => &[100],
                [1] => &[50],
                _ => &[],
            };
            let out = [Value::empty(Aval::new(DType::F32, result)).unwrap()];
            let value = [Value::from_slice(&[50, 100], &x).unwrap()];
            one_thread(|ctx| builder.finish().run(&value, &out, ctx)).unwrap();
            let got = out[0].as_slice::<f32>().unwrap();
            assert_eq!(got.iter().filter(|v| v.is_nan()).count(), 1);
        }
    }
}

#[test]
fn sums_err_like_pairwise_ones() {
    let mut r = Random::new(5);
    for shape in [[1, 4_000_000], [4_000_000, 1], [500_000, 8]] {
        let x: Vec<f32> = (0..4_000_000).map(|_| r.unit() as f32).collect();
        let axis = usize::from(shape[0] == 1);
        let got = reduced(ReduceOp::Sum, &shape, &x, &[axis]);
        for (column, &g) in got.iter().enumerate() {
            let exact: f64 = x
                .iter()
                .skip(column)
                .step_by(got.len())
                .map(|&v| f64::from(v))
                .sum();
            assert!(
                (f64::from(g) / exact - 1.0).abs() < 3e-7,
                "{shape:?} {g} {exact}"
            );
        }
    }
}

#[test]
fn outputs_may_lie_in_dead_inputs() {
    for n in [10, 1000, 300_000] {
        for order in 0..2 {
            let x: Vec<f64> = (0..n).map(|i| f64::from(i) * 1e-3).collect();
            let mut builder = FusedBuilder::new(&[n as usize]);
            let (a, b) = (builder.input(DType::F64), builder.input(DType::F64));
            let sum = builder.op(LaneOp::Add, &[a, b]).unwrap();
            // The first input is read again after the place of the result was written.
            let product = builder.op(LaneOp::Mul, &[sum, a]).unwrap();
            let outs = if order == 0 {
                [sum, product]
            } else {
                [product, sum]
            };
            for o in outs {
                builder.output(o);
            }
            let fused = builder.finish();
            let first = Value::from_slice(&[n as usize], &x).unwrap();
            let second = Value::from_slice(&[n as usize], &x).unwrap();
            let outputs = [first.clone(), second.clone()];
            many_threads(|ctx| fused.run(&[first, second], &outputs, ctx)).unwrap();
            let [s, p] = if order == 0 { [0, 1] } else { [1, 0] };
            for (i, &x) in x.iter().enumerate() {
                assert_eq!(outputs[s].as_slice::<f64>().unwrap()[i], x + x);
                assert_eq!(outputs[p].as_slice::<f64>().unwrap()[i], (x + x) * x);
            }
        }
    }
}

#[test]
fn mixed_dtypes_and_masks() {
    let shape = [37, 53];
    let n = 37 * 53;
    let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.01 - 5.0).collect();
    let mut builder = FusedBuilder::new(&shape);
    let a = builder.input(DType::F32);
    let zero = builder.input(DType::F32);
    let mask = builder.op(LaneOp::Gt, &[a, zero]).unwrap();
    let relu = builder.op(LaneOp::Where, &[mask, a, zero]).unwrap();
    let wide = builder.cast(relu, DType::C128);
    let size = builder.op(LaneOp::Abs, &[wide]).unwrap();
    let count = builder.cast(mask, DType::I64);
    builder.output(relu);
    builder.output(mask);
    builder.output(size);
    builder.output(relu);
    builder.output(a);
    assert!(builder.reduce(ReduceOp::Sum, count, &[0, 1]));
    assert!(builder.reduce(ReduceOp::Max, mask, &[0]));
    assert!(!builder.reduce(ReduceOp::Max, mask, &[1]));
    assert!(!builder.reduce(ReduceOp::Sum, mask, &[0]));
    assert!(!builder.reduce(ReduceOp::Max, wide, &[0]));
    let fused = builder.finish();
    let full = |d| Value::empty(Aval::new(d, &shape)).unwrap();
    let outs = [
        full(DType::F32),
        full(DType::Bool),
        full(DType::F64),
        full(DType::F32),
        full(DType::F32),
        Value::empty(Aval::scalar(DType::I64)).unwrap(),
        Value::empty(Aval::new(DType::Bool, &[53])).unwrap(),
    ];
    let inputs = [
        Value::from_slice(&shape, &x).unwrap(),
        Value::scalar(0f32).unwrap(),
    ];
    one_thread(|ctx| fused.run(&inputs, &outs, ctx)).unwrap();
    for (i, &x) in x.iter().enumerate() {
        assert_eq!(outs[0].as_slice::<f32>().unwrap()[i], x.max(0.0));
        assert_eq!(outs[1].as_slice::<bool>().unwrap()[i], x > 0.0);
        assert_eq!(outs[2].as_slice::<f64>().unwrap()[i], f64::from(x.max(0.0)));
        assert_eq!(outs[3].as_slice::<f32>().unwrap()[i], x.max(0.0));
        assert_eq!(outs[4].as_slice::<f32>().unwrap()[i], x);
    }
    let positive = x.iter().filter(|&&v| v > 0.0).count();
    assert_eq!(outs[5].as_slice::<i64>().unwrap()[0], positive as i64);
    assert!(outs[6].as_slice::<bool>().unwrap().iter().all(|&b| b));
}

#[test]
fn a_million_operations() {
    let mut builder = FusedBuilder::new(&[100]);
    let x = builder.input(DType::F64);
    let mut y = x;
    for i in 0..1_000_000 {
        let op = if i % 2 == 0 { LaneOp::Add } else { LaneOp::Sub };
        y = builder.op(op, &[y, x]).unwrap();
    }
    builder.output(y);
    let fused = builder.finish();
    assert!(fused.registers() <= 2);
    let value = Value::from_slice(&[100], &[1.0; 100]).unwrap();
    let out = Value::empty(Aval::new(DType::F64, &[100])).unwrap();
    let (inputs, outs) = ([value], [out]);
    one_thread(|ctx| fused.run(&inputs, &outs, ctx)).unwrap();
    assert_eq!(outs[0].as_slice::<f64>().unwrap(), &[1.0; 100]);
}

#[test]
fn many_values_alive_at_once() {
    let n = 1000;
    let mut builder = FusedBuilder::new(&[n]);
    let x = builder.input(DType::F64);
    let mut values = vec![x];
    for i in 0..500 {
        values.push(builder.op(LaneOp::Add, &[values[i], x]).unwrap());
    }
    let mut sum = x;
    for &v in values.iter().rev() {
        sum = builder.op(LaneOp::Add, &[sum, v]).unwrap();
    }
    builder.output(sum);
    let fused = builder.finish();
    assert_eq!(fused.tile(), 64);
    let (inputs, outs) = (
        [Value::from_slice(&[n], &vec![1.0; n]).unwrap()],
        [Value::empty(Aval::new(DType::F64, &[n])).unwrap()],
    );
    one_thread(|ctx| fused.run(&inputs, &outs, ctx)).unwrap();
    let want = 1.0 + (1..=501).sum::<u32>() as f64;
    assert!(
        outs[0]
            .as_slice::<f64>()
            .unwrap()
            .iter()
            .all(|&v| v == want)
    );
}

#[test]
fn empty_spaces_and_refusals() {
    let mut builder = FusedBuilder::new(&[0, 3]);
    let x = builder.input(DType::F32);
    builder.output(x);
    assert!(builder.reduce(ReduceOp::Sum, x, &[0]));
    assert!(builder.reduce(ReduceOp::Prod, x, &[0]));
    assert!(builder.op(LaneOp::Sin, &[x, x]).is_err());
    let y = builder.cast(x, DType::I32);
    assert!(builder.op(LaneOp::Sin, &[y]).is_err());
    assert!(builder.op(LaneOp::Add, &[x, y]).is_err());
    assert!(builder.op(LaneOp::Where, &[x, x, x]).is_err());
    let fused = builder.finish();
    let outs = [
        Value::empty(Aval::new(DType::F32, &[0, 3])).unwrap(),
        Value::empty(Aval::new(DType::F32, &[3])).unwrap(),
        Value::empty(Aval::new(DType::F32, &[3])).unwrap(),
    ];
    let value = Value::empty(Aval::new(DType::F32, &[0, 3])).unwrap();
    one_thread(|ctx| {
        fused.run(&[value], &outs, ctx).unwrap();
        let wrong = Value::from_slice(&[2], &[1f32, 2.0]).unwrap();
        assert!(fused.run(&[wrong], &outs, ctx).is_err());
        assert!(fused.run(&[], &outs, ctx).is_err());
    });
    assert_eq!(outs[1].as_slice::<f32>().unwrap(), &[0.0; 3]);
    assert_eq!(outs[2].as_slice::<f32>().unwrap(), &[1.0; 3]);
}

#[test]
fn unaligned_memory_is_gathered() {
    let bytes: Vec<u8> = (0..=8 * 101).map(|i| (i % 251) as u8).collect();
    let base = Value::from_slice(&[bytes.len()], &bytes).unwrap();
    let want: Vec<i64> = (0..100)
        .map(|i| i64::from_le_bytes(bytes[8 * i + 1..8 * i + 9].try_into().unwrap()))
        .collect();
    let storage = std::sync::Arc::clone(base.storage());
    let aval = Aval::new(DType::I64, &[100]);
    // SAFETY: the elements lie inside the storage.
    let value = unsafe { Value::from_parts(aval.clone(), Strides::from_slice(&[1]), 1, storage) };
    let mut builder = FusedBuilder::new(&[100]);
    let x = builder.input(DType::I64);
    let y = builder.op(LaneOp::Invert, &[x]).unwrap();
    builder.output(y);
    let outs = [Value::empty(aval).unwrap()];
    one_thread(|ctx| builder.finish().run(&[value], &outs, ctx)).unwrap();
    assert!(
        outs[0]
            .as_slice::<i64>()
            .unwrap()
            .iter()
            .zip(&want)
            .all(|(&g, &w)| g == !w)
    );
}

#[test]
fn a_cancelled_run_stops() {
    let mut builder = FusedBuilder::new(&[1000]);
    let x = builder.input(DType::F64);
    builder.output(x);
    let value = Value::from_slice(&[1000], &[1.0; 1000]).unwrap();
    let out = Value::empty(Aval::new(DType::F64, &[1000])).unwrap();
    let cancel = AtomicBool::new(true);
    let result = builder
        .finish()
        .run(&[value], &[out], &Ctx::new(&cancel, 1));
    assert_eq!(result, Err(Error::Interrupted));
}

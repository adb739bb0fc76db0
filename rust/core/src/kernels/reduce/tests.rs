//! Reductions, scans and sorts of every dtype and layout, compared with loops over the elements.

use std::sync::atomic::AtomicBool;

use half::{bf16, f16};
use num_complex::Complex;

use super::*;
use crate::aval::Strides;
use crate::testing::random::Random;

static STOP: AtomicBool = AtomicBool::new(false);

fn ctx() -> Ctx<'static> {
    Ctx::new(&STOP, 1)
}

fn wide<R: Send>(f: impl FnOnce(&Ctx) -> R + Send) -> R {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    pool.install(|| f(&Ctx::new(&STOP, 2)))
}

/// A random layout of rank 1 to 4 over a storage filled by `element`, with its size.
fn layout<T: Number>(random: &mut Random, element: impl Fn(&mut Random) -> T) -> Value {
    let rank = 1 + random.below(4);
    let most = [0, 5000, 90, 24, 9][rank];
    let shape: Shape = (0..rank).map(|_| 1 + random.below(most)).collect();
    let step: Vec<isize> = (0..rank)
        .map(|_| [1, 1, 2, -1, 0][random.below(5)])
        .collect();
    let mut order: Vec<usize> = (0..rank).collect();
    (0..rank).for_each(|i| order.swap(i, random.below(rank)));
    let (mut strides, mut room, mut shift) = (Strides::from_elem(0, rank), 1usize, 0isize);
    for &axis in &order {
        strides[axis] = room as isize * step[axis];
        let reach = (shape[axis] - 1) * room * step[axis].unsigned_abs();
        if step[axis] < 0 {
            shift += reach as isize;
        }
        room += reach;
    }
    let data: Vec<T> = (0..room).map(|_| element(random)).collect();
    let v = Value::from_slice(&[room], &data).unwrap();
    // SAFETY: the storage has room for the farthest element.
    unsafe { v.view(shape, strides, shift * T::DTYPE.size() as isize) }
}

fn at<T: Copy>(v: &Value, index: &[usize]) -> T {
    let offset: isize = index
        .iter()
        .zip(v.strides())
        .map(|(&i, &s)| i as isize * s)
        .sum();
    // SAFETY: the index lies inside the shape.
    unsafe { v.as_ptr().cast::<T>().offset(offset).read_unaligned() }
}

fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let steps = row_major(shape);
    let n: usize = shape.iter().product();
    (0..n)
        .map(|i| {
            (0..shape.len())
                .map(|a| i / steps[a] as usize % shape[a])
                .collect()
        })
        .collect()
}

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];

/// Reduces one element after the other.
fn naive<T: Number>(op: ReduceOp, v: &Value, axes: &[usize]) -> Vec<T::Wide> {
    let kept: Vec<usize> = (0..v.shape().len()).filter(|a| !axes.contains(a)).collect();
    let shape: Vec<usize> = kept.iter().map(|&a| v.shape()[a]).collect();
    let steps = row_major(&shape);
    let mut out: Vec<Option<T::Wide>> = vec![None; shape.iter().product()];
    for index in indices(v.shape()) {
        let flat: usize = kept
            .iter()
            .zip(&steps)
            .map(|(&a, &s)| index[a] * s as usize)
            .sum();
        let y = at::<T>(v, &index).widen();
        out[flat] = Some(match (out[flat], op) {
            (None, _) => y,
            (Some(x), ReduceOp::Sum) => x.plus(y),
            (Some(x), ReduceOp::Prod) => x.times(y),
            (Some(x), ReduceOp::Max) => x.larger(y),
            (Some(x), ReduceOp::Min) => x.smaller(y),
        });
    }
    out.into_iter()
        .map(|x| x.unwrap_or(T::Wide::ZERO))
        .collect()
}

fn check<T: Number>(
    seed: u64,
    element: impl Fn(&mut Random) -> T,
    near: impl Fn(T, T::Wide, usize) -> bool,
) {
    let mut random = Random::new(seed);
    for _ in 0..60 {
        let v = layout(&mut random, &element);
        let mut axes: Vec<usize> = (0..v.shape().len())
            .filter(|_| random.below(2) == 0)
            .collect();
        axes.reverse();
        for op in OPS {
            let one = reduce(op, &v, &axes, &ctx()).unwrap();
            let two = wide(|ctx| reduce(op, &v, &axes, ctx)).unwrap();
            let (one, two) = (one.as_slice::<T>().unwrap(), two.as_slice::<T>().unwrap());
            let count: usize = axes.iter().map(|&a| v.shape()[a]).product();
            for ((&x, &y), z) in one.iter().zip(two).zip(naive::<T>(op, &v, &axes)) {
                assert!(
                    x == y || (x.is_nan() && y.is_nan()),
                    "threads change the result"
                );
                assert!(near(x, z, count), "{op:?} over {axes:?} of {v:?}");
            }
        }
    }
}

#[test]
fn reductions_of_every_dtype() {
    check(1, |r| r.bits() as u8, |x, y, _| x == y);
    check(2, |r| r.bits() as i32, |x, y, _| x == y);
    check(3, |r| r.bits() as i64, |x, y, _| x == y);
    check(4, |r| r.below(9) != 0, |x, y, _| x == y);
    let close = |x: f64, y: f64, n: usize, eps: f64| {
        (x - y).abs() <= eps * (n as f64) * (1.0 + y.abs()) || (x.is_nan() && y.is_nan()) || x == y
    };
    check(
        5,
        |r| r.centred() as f32,
        |x, y, n| close(x.into(), y.into(), n, 1e-7),
    );
    check(6, Random::centred, |x, y, n| close(x, y, n, 1e-15));
    check(
        7,
        |r| f16::from_f64(r.centred()),
        |x, y, n| close(x.into(), y.into(), n.max(9), 1e-3),
    );
    check(
        8,
        |r| bf16::from_f64(r.centred()),
        |x, y, n| close(x.into(), y.into(), n.max(9), 1e-2),
    );
    check(
        9,
        |r| Complex::new(r.centred(), r.centred()),
        |x, y, n| close(x.re, y.re, n, 1e-15) && close(x.im, y.im, n, 1e-15),
    );
    let coarse = |r: &mut Random| {
        let part = |r: &mut Random| {
            if r.below(300) == 0 {
                f32::NAN
            } else {
                r.below(3) as f32
            }
        };
        Complex::new(part(r), part(r))
    };
    check(10, coarse, |_, _, _| true);
}

#[test]
fn nan_wins_and_order_is_lexicographic() {
    let mut x = vec![1.0f64; 1000];
    x[777] = f64::NAN;
    let v = Value::from_slice(&[1000], &x).unwrap();
    for op in [ReduceOp::Max, ReduceOp::Min] {
        assert!(
            reduce(op, &v, &[0], &ctx())
                .unwrap()
                .item()
                .unwrap()
                .re
                .is_nan()
        );
    }
    assert_eq!(
        argreduce(true, &v, None, &ctx())
            .unwrap()
            .item()
            .unwrap()
            .re,
        777.0
    );
    assert_eq!(
        argreduce(false, &v, Some(0), &ctx())
            .unwrap()
            .item()
            .unwrap()
            .re,
        777.0
    );
    let z: Vec<Complex<f64>> = [(1.0, 5.0), (2.0, -1.0), (2.0, 3.0), (0.0, 9.0)]
        .map(|(a, b)| Complex::new(a, b))
        .into();
    let v = Value::from_slice(&[4], &z).unwrap();
    assert_eq!(
        reduce(ReduceOp::Max, &v, &[0], &ctx())
            .unwrap()
            .item()
            .unwrap(),
        z[2]
    );
    assert_eq!(
        reduce(ReduceOp::Min, &v, &[0], &ctx())
            .unwrap()
            .item()
            .unwrap(),
        z[3]
    );
}

#[test]
fn empty_reductions() {
    let v = Value::from_slice::<f32>(&[0, 3], &[]).unwrap();
    let sum = reduce(ReduceOp::Sum, &v, &[0], &ctx()).unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap(), &[0.0; 3]);
    assert_eq!(
        reduce(ReduceOp::Prod, &v, &[0, 1], &ctx())
            .unwrap()
            .item()
            .unwrap()
            .re,
        1.0
    );
    assert!(reduce(ReduceOp::Max, &v, &[0], &ctx()).is_err());
    assert_eq!(
        reduce(ReduceOp::Max, &v, &[1], &ctx()).unwrap().shape(),
        &[0]
    );
    let v = Value::from_slice::<bool>(&[0], &[]).unwrap();
    assert_eq!(
        reduce(ReduceOp::Max, &v, &[0], &ctx())
            .unwrap()
            .item()
            .unwrap()
            .re,
        0.0
    );
    assert_eq!(
        reduce(ReduceOp::Min, &v, &[0], &ctx())
            .unwrap()
            .item()
            .unwrap()
            .re,
        1.0
    );
    assert!(argreduce(true, &v, None, &ctx()).is_err());
    // The sign of a zero survives.
    let v = Value::from_slice(&[2], &[-0.0f64, -0.0]).unwrap();
    let sum = reduce(ReduceOp::Sum, &v, &[0], &ctx()).unwrap();
    assert!(sum.as_slice::<f64>().unwrap()[0].is_sign_negative());
}

#[test]
fn large_sums_are_exact_and_the_same_on_all_threads() {
    let n = 1 << 20;
    let x: Vec<f32> = (0..n)
        .map(|i| ((i * 37 % 101) as f32) * 0.01 + 0.1)
        .collect();
    let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
    for shape in [[1, n], [n / 64, 64], [64, n / 64], [n / 2, 2], [n, 1]] {
        let v = Value::from_slice(&shape, &x).unwrap();
        for axes in [&[0usize, 1][..], &[0], &[1]] {
            let one = reduce(ReduceOp::Sum, &v, axes, &ctx()).unwrap();
            let two = wide(|ctx| reduce(ReduceOp::Sum, &v, axes, ctx)).unwrap();
            assert_eq!(one.as_slice::<f32>(), two.as_slice::<f32>());
            let total: f64 = one
                .as_slice::<f32>()
                .unwrap()
                .iter()
                .map(|&x| f64::from(x))
                .sum();
            assert!((total - exact).abs() < 2e-6 * exact, "{shape:?} {axes:?}");
        }
    }
}

#[test]
fn positions_of_extremes() {
    let mut random = Random::new(11);
    for round in 0..60 {
        let v = layout(&mut random, |r| {
            if r.below(200) == 0 {
                f32::NAN
            } else {
                r.below(40) as f32
            }
        });
        let better = |max: bool, x: f32, y: f32| {
            !x.is_nan() && (y.is_nan() || if max { y > x } else { y < x })
        };
        for max in [true, false] {
            for axis in (0..v.shape().len()).map(Some).chain([None]) {
                let one = argreduce(max, &v, axis, &ctx()).unwrap();
                let two = wide(|ctx| argreduce(max, &v, axis, ctx)).unwrap();
                let mut kept = v.shape().to_vec();
                let len = match axis {
                    Some(a) => kept.remove(a),
                    None => std::mem::take(&mut kept).iter().product(),
                };
                let all = indices(v.shape());
                for (out, index) in indices(&kept).into_iter().enumerate() {
                    let get = |i: usize| match axis {
                        Some(a) => {
                            let mut index = index.clone();
                            index.insert(a, i);
                            at::<f32>(&v, &index)
                        }
                        None => at::<f32>(&v, &all[i]),
                    };
                    let best =
                        (1..len).fold(0, |b, i| if better(max, get(b), get(i)) { i } else { b });
                    assert_eq!(
                        one.as_slice::<i64>().unwrap()[out],
                        best as i64,
                        "{round} {v:?}"
                    );
                    assert_eq!(two.as_slice::<i64>().unwrap()[out], best as i64);
                }
            }
        }
    }
}

#[test]
fn scans_follow_the_axis() {
    let mut random = Random::new(12);
    for _ in 0..40 {
        let v = layout(&mut random, Random::centred);
        for axis in 0..v.shape().len() {
            for reverse in [false, true] {
                let sum = wide(|ctx| cumsum(&v, axis, reverse, ctx)).unwrap();
                let top = wide(|ctx| cummax(&v, axis, reverse, ctx)).unwrap();
                let low = wide(|ctx| cummin(&v, axis, reverse, ctx)).unwrap();
                let steps = row_major(v.shape());
                for index in indices(v.shape()) {
                    let range: Vec<usize> = if reverse {
                        (index[axis]..v.shape()[axis]).rev().collect()
                    } else {
                        (0..=index[axis]).collect()
                    };
                    if range.len() > 100 && random.below(50) > 0 {
                        continue;
                    }
                    let get = |i: usize| {
                        let mut index = index.clone();
                        index[axis] = i;
                        at::<f64>(&v, &index)
                    };
                    let fold = |f: fn(f64, f64) -> f64| {
                        range[1..].iter().fold(get(range[0]), |s, &i| f(s, get(i)))
                    };
                    let flat: usize = index
                        .iter()
                        .zip(&steps)
                        .map(|(&i, &s)| i * s as usize)
                        .sum();
                    assert_eq!(sum.as_slice::<f64>().unwrap()[flat], fold(|s, x| s + x));
                    assert_eq!(top.as_slice::<f64>().unwrap()[flat], fold(f64::max));
                    assert_eq!(low.as_slice::<f64>().unwrap()[flat], fold(f64::min));
                }
            }
        }
    }
    let v = Value::from_slice(&[3], &[f16::ONE; 3]).unwrap();
    let sum = cumsum(&v, 0, true, &ctx()).unwrap();
    assert_eq!(sum.as_slice::<f16>().unwrap()[0].to_f32(), 3.0);
    let none = Value::from_slice::<i32>(&[0, 2], &[]).unwrap();
    assert_eq!(cumsum(&none, 0, false, &ctx()).unwrap().shape(), &[0, 2]);
}

fn sorts<T: Number>(seed: u64, element: impl Fn(&mut Random) -> T, less: impl Fn(T, T) -> bool) {
    let mut random = Random::new(seed);
    for _ in 0..12 {
        let v = layout(&mut random, &element);
        for axis in 0..v.shape().len() {
            let out = argsort(&v, axis, &ctx()).unwrap();
            for index in indices(v.shape()) {
                if index[axis] == 0 {
                    continue;
                }
                let place = |i: usize| {
                    let mut index = index.clone();
                    index[axis] = i;
                    let place = at::<i64>(&out, &index) as usize;
                    index[axis] = place;
                    (at::<T>(&v, &index), place)
                };
                let ((x, i), (y, j)) = (place(index[axis] - 1), place(index[axis]));
                assert!(!less(y, x) && (less(x, y) || i < j), "{v:?}");
            }
        }
    }
}

#[test]
fn sorting_is_stable_with_nan_last() {
    let last = |x: f64, y: f64| x < y || (!x.is_nan() && y.is_nan());
    sorts(20, |r| r.bits() as u8, |x, y| x < y);
    sorts(21, |r| r.bits() as i32, |x, y| x < y);
    sorts(22, |r| r.below(50) as i64 - 25, |x, y| x < y);
    sorts(23, |r| r.below(2) == 0, |x, y| !x & y);
    let coarse = |r: &mut Random| match r.below(20) {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::NEG_INFINITY,
        n => n as f64 - 10.0,
    };
    sorts(24, coarse, last);
    sorts(25, |r| coarse(r) as f32, |x, y| last(x.into(), y.into()));
    sorts(
        26,
        |r| f16::from_f64(coarse(r)),
        |x, y| last(x.into(), y.into()),
    );
    sorts(
        27,
        |r| bf16::from_f64(coarse(r)),
        |x, y| last(x.into(), y.into()),
    );
    let class = |z: Complex<f64>| (z.re.is_nan(), z.im.is_nan());
    sorts(
        28,
        |r| Complex::new(coarse(r), coarse(r)),
        |x, y| match class(x).cmp(&class(y)) {
            std::cmp::Ordering::Equal => {
                last(x.re, y.re) || (!last(y.re, x.re) && last(x.im, y.im))
            }
            order => order.is_lt(),
        },
    );
    let many: Vec<f32> = (0..100_000).map(|i| (i * 7919 % 1000) as f32).collect();
    let v = Value::from_slice(&[100_000], &many).unwrap();
    let two = wide(|ctx| argsort(&v, 0, ctx)).unwrap();
    assert_eq!(
        argsort(&v, 0, &ctx()).unwrap().as_slice::<i64>(),
        two.as_slice::<i64>()
    );
}

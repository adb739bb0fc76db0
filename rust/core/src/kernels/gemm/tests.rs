//! Matrix products of every dtype and layout, compared with a product written as a loop.

use std::sync::atomic::AtomicBool;

use half::{bf16, f16};

use super::*;
use crate::aval::row_major;
use crate::kernels::simd_level::leaves_upper_halves_empty;
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

/// A matrix (or batch) in one of several layouts: rows or columns dense, gaps, backwards, repeated.
fn matrix<T: Number>(
    r: &mut Random,
    shape: &[usize],
    element: &impl Fn(&mut Random) -> T,
) -> Value {
    let rank = shape.len();
    let mut order: Vec<usize> = (0..rank).collect();
    if r.below(2) == 0 {
        order.swap(rank - 1, rank - 2);
    }
    if r.below(4) == 0 {
        order.reverse();
    }
    let (mut strides, mut room, mut shift) = (Strides::from_elem(0, rank), 1, 0);
    for &axis in order.iter().rev() {
        let step = [1, 1, 1, 1, 2, -1, 0][r.below(7)];
        strides[axis] = room as isize * step;
        if step < 0 {
            shift += (shape[axis].max(1) - 1) * room;
        }
        room *= shape[axis].max(1) * if step == 2 { 2 } else { 1 };
    }
    let data: Vec<T> = (0..room).map(|_| element(r)).collect();
    let v = Value::from_slice(&[room], &data).unwrap();
    // SAFETY: the storage has room for the farthest element.
    unsafe {
        v.view(
            Shape::from_slice(shape),
            strides,
            (shift * T::DTYPE.size()) as isize,
        )
    }
}

fn at<T: Copy>(v: &Value, head: &[usize], i: usize, j: usize) -> T {
    let rank = v.shape().len();
    let mut offset = i as isize * v.strides()[rank - 2] + j as isize * v.strides()[rank - 1];
    let skip = head.len() + 2 - rank;
    for (axis, &h) in head[skip..].iter().enumerate() {
        offset += if v.shape()[axis] == 1 {
            0
        } else {
            h as isize * v.strides()[axis]
        };
    }
    // SAFETY: the index lies inside the shape.
    unsafe { v.as_ptr().cast::<T>().offset(offset).read_unaligned() }
}

/// Multiplies on one and on two threads, and compares with the sums as they are written.
fn check<T: Number>(
    a: &Value,
    b: &Value,
    times: impl Fn(T, T) -> T::Wide,
    near: impl Fn(T, T::Wide, usize) -> bool,
) {
    let one = matmul(a, b, &ctx()).unwrap();
    let two = wide(|ctx| matmul(a, b, ctx)).unwrap();
    let (ra, rb) = (a.shape().len(), b.shape().len());
    let (m, k, n) = (a.shape()[ra - 2], a.shape()[ra - 1], b.shape()[rb - 1]);
    let head = broadcast(&a.shape()[..ra - 2], &b.shape()[..rb - 2]).unwrap();
    let steps = row_major(&head);
    let (one, two) = (one.as_slice::<T>().unwrap(), two.as_slice::<T>().unwrap());
    assert_eq!(one.len(), head.iter().product::<usize>() * m * n);
    for flat in 0..one.len() {
        assert!(one[flat] == two[flat], "threads change the result");
        let (batch, i, j) = (flat / (m * n), flat / n % m, flat % n);
        let index: Vec<usize> = (0..head.len())
            .map(|a| batch / steps[a] as usize % head[a])
            .collect();
        let sum = (0..k)
            .map(|l| times(at::<T>(a, &index, i, l), at::<T>(b, &index, l, j)))
            .fold(T::Wide::ZERO, Number::plus);
        assert!(near(one[flat], sum, k), "{:?} {:?}", a.aval(), b.aval());
    }
}

fn shapes(r: &mut Random) -> (Vec<usize>, Vec<usize>) {
    let mut length = || match r.below(8) {
        0 => 1,
        1 => r.below(3),
        2 => 60 + r.below(80),
        _ => 1 + r.below(30),
    };
    let (m, k, n) = (length(), length(), length());
    match r.below(7) {
        0 => (vec![3, m, k], vec![k, n]),
        1 => (vec![2, 1, m, k], vec![3, k, n]),
        2 => (vec![m, k], vec![2, k, n]),
        3 => (vec![m, k], vec![7, k, 1]),
        4 => (vec![1, m, k], vec![2, 3, k, 1]),
        _ => (vec![m, k], vec![k, n]),
    }
}

fn every_layout<T: Number>(
    seed: u64,
    element: impl Fn(&mut Random) -> T,
    near: impl Fn(T, T::Wide, usize) -> bool,
) {
    let mut r = Random::new(seed);
    for _ in 0..90 {
        let (a, b) = shapes(&mut r);
        let (a, b) = (matrix(&mut r, &a, &element), matrix(&mut r, &b, &element));
        check::<T>(&a, &b, |x, y| x.widen().times(y.widen()), &near);
    }
}

/// Where both operands repeat themselves, equal products are added: the sum grows with their number, and
/// so do the errors of adding them one by one, as the reference does.
fn close(x: f64, y: f64, k: usize, eps: f64) -> bool {
    let k = k as f64;
    (x - y).abs() <= eps * (k + 1.0) * (1.0 + k / 8.0)
}

#[test]
fn products_of_every_dtype_and_layout() {
    every_layout(1, |r| r.bits() as u8, |x, y, _| x == y);
    every_layout(2, |r| r.bits() as i32, |x, y, _| x == y);
    every_layout(3, |r| (r.bits() << 40) as i64, |x, y, _| x == y);
    every_layout(4, |r| r.below(8) == 0, |x, y, _| x == y);
    every_layout(
        5,
        |r| r.centred() as f32,
        |x, y, k| close(x.into(), y.into(), k, 1e-7),
    );
    every_layout(6, Random::centred, |x, y, k| close(x, y, k, 2e-16));
    every_layout(
        7,
        |r| f16::from_f64(r.centred()),
        |x, y, k| close(x.into(), y.into(), k, 1e-3),
    );
    every_layout(
        8,
        |r| bf16::from_f64(r.centred()),
        |x, y, k| close(x.into(), y.into(), k, 1e-2),
    );
    every_layout(
        9,
        |r| Complex::new(r.centred(), r.centred()),
        |x, y, k| close(x.re, y.re, k, 4e-16) && close(x.im, y.im, k, 4e-16),
    );
    every_layout(
        10,
        |r| Complex::new(r.centred() as f32, r.centred() as f32),
        |x, y, k| {
            close(x.re.into(), y.re.into(), k, 3e-7) && close(x.im.into(), y.im.into(), k, 3e-7)
        },
    );
}

#[test]
fn blocks_and_edges() {
    let mut r = Random::new(11);
    for (m, k, n) in [
        (25, 300, 45),
        (257, 513, 70),
        (1, 700, 2100),
        (300, 900, 1),
        // Parts of the terms have sums of their own.
        (1, 5000, 130),
        (2, 600_000, 1),
        (2100, 3, 40),
        (13, 600, 2100),
    ] {
        for flip in 0..4 {
            let mut operand = |rows: usize, cols: usize, flip: bool| {
                let data: Vec<f32> = (0..rows * cols).map(|_| r.centred() as f32).collect();
                let v = Value::from_slice(&[rows, cols], &data).unwrap();
                let strides = if flip {
                    [1, rows as isize]
                } else {
                    [cols as isize, 1]
                };
                // SAFETY: both layouts reach the same elements.
                unsafe {
                    v.view(
                        Shape::from_slice(&[rows, cols]),
                        Strides::from_slice(&strides),
                        0,
                    )
                }
            };
            let (a, b) = (operand(m, k, flip & 1 > 0), operand(k, n, flip & 2 > 0));
            check::<f32>(
                &a,
                &b,
                |x, y| x * y,
                |x, y, k| close(x.into(), y.into(), k, 1e-7),
            );
        }
    }
}

#[test]
fn wide_products_are_the_same_bits() {
    let mut r = Random::new(12);
    for shape in [
        [200, 300, 250],
        [30, 600, 2200],
        [2200, 600, 30],
        [500, 1000, 1],
        [1, 9000, 60],
        [3, 600_000, 1],
    ] {
        let [m, k, n] = shape;
        let mut data = |len: usize| (0..len).map(|_| r.centred()).collect::<Vec<_>>();
        let a = Value::from_slice(&[m, k], &data(m * k)).unwrap();
        let b = Value::from_slice(&[k, n], &data(k * n)).unwrap();
        let one = matmul(&a, &b, &ctx()).unwrap();
        let two = wide(|ctx| matmul(&a, &b, ctx)).unwrap();
        assert_eq!(one.as_slice::<f64>(), two.as_slice::<f64>());
        // The crate's product, which other processors get, is right and the same on two threads.
        let other = |ctx: &Ctx| {
            let out = Value::empty(one.aval().clone()).unwrap();
            let mat = |v: &Value| Mat {
                at: Shared::new(v.as_mut_ptr().cast::<f64>()),
                rs: v.strides()[0],
                cs: v.strides()[1],
            };
            // SAFETY: the result is fresh.
            unsafe {
                backends::general(
                    Dims { m, k, n },
                    mat(&a),
                    mat(&b),
                    mat(&out).at,
                    true,
                    false,
                    ctx,
                )
            }
            .unwrap();
            out
        };
        let (x, y) = (other(&ctx()), wide(other));
        assert_eq!(x.as_slice::<f64>(), y.as_slice::<f64>());
        for (x, y) in x
            .as_slice::<f64>()
            .unwrap()
            .iter()
            .zip(one.as_slice::<f64>().unwrap())
        {
            assert!((x - y).abs() < 1e-12);
        }
    }
}

#[test]
fn empty_and_wrong_operands() {
    let v = |shape: &[usize]| zeros(Aval::new(DType::F32, shape), &ctx()).unwrap();
    let sum = matmul(&v(&[2, 0]), &v(&[0, 3]), &ctx()).unwrap();
    assert_eq!(sum.as_slice::<f32>().unwrap(), &[0.0; 6]);
    assert_eq!(
        matmul(&v(&[0, 2]), &v(&[2, 3]), &ctx()).unwrap().shape(),
        &[0, 3]
    );
    assert_eq!(
        matmul(&v(&[0, 4, 2]), &v(&[2, 3]), &ctx()).unwrap().shape(),
        &[0, 4, 3]
    );
    assert!(matches!(
        matmul(&v(&[2, 3]), &v(&[2, 3]), &ctx()),
        Err(Error::Shape(_))
    ));
    assert!(matmul(&v(&[2]), &v(&[2, 3]), &ctx()).is_err());
    assert!(matmul(&v(&[2, 4, 3]), &v(&[3, 3, 2]), &ctx()).is_err());
    let other = zeros(Aval::new(DType::F64, &[3, 2]), &ctx()).unwrap();
    assert!(matches!(
        matmul(&v(&[2, 3]), &other, &ctx()),
        Err(Error::DType(_))
    ));
    let stop = AtomicBool::new(true);
    let large = v(&[300, 300]);
    assert_eq!(
        matmul(&large, &large, &Ctx::new(&stop, 1)).err(),
        Some(Error::Interrupted)
    );
}

#[test]
fn products_leave_vector_registers_as_others_expect_them() {
    for n in [2, 5, 16, 100] {
        let x: Vec<f64> = (0..n * n).map(|i| (i as f64).sin()).collect();
        let x = Value::from_slice(&[n, n], &x).unwrap();
        assert!(
            leaves_upper_halves_empty(|| drop(matmul(&x, &x, &ctx()).unwrap())),
            "{n}"
        );
    }
}

/// A matrix that many vectors share gives each of them what it gives that vector alone.
fn shared_by_vectors<T: Number>(
    r: &mut Random,
    [m, k, count]: [usize; 3],
    element: &impl Fn(&mut Random) -> T,
) {
    let outer = 1 + r.below(3);
    let a = matrix(r, &[outer, 1, m, k], element);
    let b = matrix(r, &[2, count, k, 1], element);
    let b = if outer == 2 { b } else { part(&b, 0, 0) };
    // Rows that repeat an element are made in another way.
    if a.strides()[2..].contains(&0) || b.strides()[b.shape().len() - 2] == 0 {
        return;
    }
    let all = wide(|ctx| matmul(&a, &b, ctx)).unwrap();
    assert_eq!(all.shape(), [outer, count, m, 1]);
    for i in 0..outer {
        for j in 0..count {
            let of_b = if outer == 2 {
                part(&b, 0, i)
            } else {
                b.clone()
            };
            let (a, b) = (part(&part(&a, 0, i), 0, 0), part(&of_b, 0, j));
            let alone = matmul(&a, &b, &ctx()).unwrap();
            let one = part(&part(&all, 0, i), 0, j);
            assert!(
                one.same_bits(&alone),
                "{m} {k} {count} {:?} {:?}",
                a.strides(),
                b.strides()
            );
        }
    }
}

/// The element `i` of an axis.
fn part(v: &Value, axis: usize, i: usize) -> Value {
    let (mut shape, mut strides) = (
        Shape::from_slice(v.shape()),
        Strides::from_slice(v.strides()),
    );
    let step = strides.remove(axis) * i as isize * v.dtype().size() as isize;
    shape.remove(axis);
    // SAFETY: it is a part of the value.
    unsafe { v.view(shape, strides, step) }
}

#[test]
fn vectors_that_share_a_matrix_have_their_own_products() {
    let mut r = Random::new(31);
    // Zeros, and numbers whose products are below the smallest ones: they tell how a sum of nothing is begun.
    let number = |r: &mut Random| match r.below(8) {
        0 => 0.0,
        1 => -0.0,
        2 => -1e-200,
        3 => 1e-200,
        _ => r.centred(),
    };
    let tiny = |r: &mut Random| if r.below(2) == 0 { -1e-200 } else { 1e-200 };
    let lengths = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 24, 33, 64, 100, 300];
    let counts = [4, 5, 8, 11, 33, 50];
    for _ in 0..1500 {
        let size = [
            lengths[r.below(13)],
            lengths[r.below(15)],
            counts[r.below(6)],
        ];
        shared_by_vectors(&mut r, size, &number);
        shared_by_vectors(&mut r, size, &|r| number(r) as f32);
        shared_by_vectors(&mut r, size, &tiny);
    }
    // Shared out by rows, by vectors, and with more vectors than stay in the cache.
    for size in [
        [500, 300, 40],
        [40, 300, 500],
        [5, 9, 70_000],
        [9, 9_000, 7],
        [2, 32_768, 8],
        [3, 32_769, 9],
        [4, 70_000, 8],
    ] {
        for _ in 0..6 {
            shared_by_vectors(&mut r, size, &number);
            shared_by_vectors(&mut r, size, &|r| number(r) as f32);
        }
    }
}

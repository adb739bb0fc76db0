//! Copies of strided views, compared with loops over the elements.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::aval::{Shape, row_major};
use crate::error::Error;

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

fn counting(shape: &[usize]) -> Value {
    let n: usize = shape.iter().product();
    Value::from_slice(shape, &(0..n as i32).collect::<Vec<_>>()).unwrap()
}

fn view(v: &Value, shape: &[usize], strides: &[isize], shift: isize) -> Value {
    let size = v.dtype().size() as isize;
    // SAFETY: the tests ask for layouts that stay inside.
    unsafe {
        v.view(
            Shape::from_slice(shape),
            Strides::from_slice(strides),
            shift * size,
        )
    }
}

/// Every element by its index, the slow way.
fn naive(v: &Value) -> Vec<i32> {
    let shape = v.shape();
    let steps = row_major(shape);
    (0..v.aval().size() as isize)
        .map(|flat| {
            let offset: isize = (0..shape.len())
                .map(|a| flat / steps[a] % shape[a] as isize * v.strides()[a])
                .sum();
            // SAFETY: the offset belongs to an index inside the shape.
            unsafe { v.as_ptr().cast::<i32>().offset(offset).read() }
        })
        .collect()
}

#[test]
fn copies_follow_any_strides() {
    let v = counting(&[5, 7, 11]);
    let views = [
        view(&v, &[11, 7, 5], &[1, 11, 77], 0),
        view(&v, &[7, 5, 11], &[11, 77, 1], 0),
        view(&v, &[5, 11, 7], &[77, -1, 11], 10),
        view(&v, &[3, 4, 4], &[-154, -22, -3], 384),
        view(&v, &[5, 3, 7, 2], &[77, 0, 11, 0], 0),
        view(&v, &[1, 1], &[9, 9], 3),
        view(&v, &[0, 4], &[1, 1], 0),
        view(&v, &[], &[], 17),
    ];
    for v in &views {
        let out = copy(v, &ctx()).unwrap();
        assert_eq!(out.as_slice::<i32>().unwrap(), naive(v).as_slice(), "{v:?}");
        // And back into a layout of that kind.
        if v.strides().iter().all(|&s| s != 0) && v.aval().size() > 0 {
            let room = zeros(Aval::new(v.dtype(), &[5, 7, 11]), &ctx()).unwrap();
            let shift = v.as_ptr() as isize - v.storage().as_ptr() as isize;
            let back = view(&room, v.shape(), v.strides(), shift / 4);
            copy_into(&back, &out, &ctx()).unwrap();
            assert_eq!(naive(&back), naive(v));
        }
    }
}

#[test]
fn transposes_of_all_sizes_and_threads() {
    for size in [1usize, 2, 4, 8, 16] {
        let (m, n) = (83, 1031);
        let dtype = match size {
            1 => crate::aval::DType::U8,
            2 => crate::aval::DType::F16,
            4 => crate::aval::DType::F32,
            8 => crate::aval::DType::F64,
            _ => crate::aval::DType::C128,
        };
        let v = zeros(Aval::new(dtype, &[m, n]), &ctx()).unwrap();
        for i in 0..m * n * size {
            // SAFETY: the storage is fresh; the byte lies inside.
            unsafe { v.as_mut_ptr().add(i).write((i * 7 + i / 251) as u8) };
        }
        let t = view(&v, &[n, m], &[1, n as isize], 0);
        let one = copy(&t, &ctx()).unwrap();
        let two = wide(|ctx| copy(&t, ctx)).unwrap();
        for (i, j) in [(0, 0), (n - 1, m - 1), (7, 80), (1030, 3), (512, 41)] {
            for b in 0..size {
                // SAFETY: the indices lie inside both.
                unsafe {
                    let x = one.as_ptr().add((i * m + j) * size + b).read();
                    assert_eq!(x, v.as_ptr().add((j * n + i) * size + b).read());
                }
            }
        }
        for b in 0..m * n * size {
            // SAFETY: both hold that many bytes.
            unsafe { assert_eq!(one.as_ptr().add(b).read(), two.as_ptr().add(b).read()) };
        }
    }
}

#[test]
fn wide_copies_are_the_same() {
    let v = counting(&[3, 300, 700]);
    for v in [
        view(&v, &[700, 3, 300], &[1, 210_000, 700], 0),
        view(&v, &[3, 700, 300], &[-210_000, -1, 700], 420_699),
        view(&v, &[3, 5, 210_000], &[210_000, 0, 1], 0),
    ] {
        let one = copy(&v, &ctx()).unwrap();
        let two = wide(|ctx| copy(&v, ctx)).unwrap();
        assert_eq!(one.as_slice::<i32>().unwrap(), naive(&v).as_slice());
        assert_eq!(one.as_slice::<i32>(), two.as_slice::<i32>());
    }
    let stop = AtomicBool::new(true);
    let many = full(
        Aval::new(v.dtype(), &[20 << 20]),
        &[0; 4],
        &Ctx::new(&stop, 1),
    );
    assert_eq!(many.err(), Some(Error::Interrupted));
}

#[test]
fn concatenates_and_pads() {
    let (a, b) = (counting(&[2, 3]), counting(&[2, 1]));
    let empty = |shape: &[usize]| Value::empty(Aval::new(a.dtype(), shape)).unwrap();
    let joined = |shape: &[usize], parts: &[&Value], axis| {
        let parts: Vec<Value> = parts.iter().map(|&p| p.clone()).collect();
        let out = empty(shape);
        concatenate_into(&out, &parts, axis, &ctx()).map(|()| out)
    };
    let c = joined(&[2, 7], &[&a, &b, &a], 1).unwrap();
    assert_eq!(
        c.as_slice::<i32>().unwrap(),
        &[0, 1, 2, 0, 0, 1, 2, 3, 4, 5, 1, 3, 4, 5]
    );
    assert!(joined(&[4, 3], &[&a, &b], 0).is_err());
    assert!(joined(&[2, 3], &[], 0).is_err());
    assert!(joined(&[2, 3], &[&a], 2).is_err());
    let padded = |shape: &[usize], x: &Value, start: &[usize], step: &[isize]| {
        let out = empty(shape);
        pad_into(&out, x, start, step, &ctx()).map(|()| out)
    };
    let p = padded(&[3, 6], &a, &[1, 5], &[1, -2]).unwrap();
    assert_eq!(
        p.as_slice::<i32>().unwrap(),
        &[0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 5, 0, 4, 0, 3]
    );
    assert!(padded(&[3, 6], &a, &[1, 3], &[1, -2]).is_err());
    assert!(padded(&[3, 6], &a, &[2, 0], &[1, 1]).is_err());
    assert!(padded(&[3, 6], &a, &[0], &[1, 1]).is_err());
    let p = padded(&[2, 3], &counting(&[0, 3]), &[0, 0], &[1, 1]).unwrap();
    assert_eq!(p.as_slice::<i32>().unwrap(), &[0; 6]);
    let stacked = empty(&[2, 2, 3]);
    stack_into(&stacked, &[a.clone(), a.clone()], &ctx()).unwrap();
    assert_eq!(stacked.as_slice::<i32>().unwrap()[6..], naive(&a));
    assert!(stack_into(&stacked, &[a.clone(), b], &ctx()).is_err());
    assert!(stack_into(&stacked, std::slice::from_ref(&a), &ctx()).is_err());
    let all = full(Aval::new(p.dtype(), &[2, 2]), &7i32.to_ne_bytes(), &ctx()).unwrap();
    assert_eq!(all.as_slice::<i32>().unwrap(), &[7; 4]);
}

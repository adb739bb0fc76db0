//! Finds by bisection where elements belong in sorted arrays.
//!
//! Comparing each element with all of a table would take as many comparisons as the table has elements, in place of their
//! logarithm.
// Elements are read unaligned wherever they may be foreign.
#![allow(clippy::cast_ptr_alignment)]

use super::TASK;
use crate::aval::DType;
use crate::error::{Error, Result};
use crate::kernels::arithmetic::{Number, with_number};
use crate::kernels::shared_pointer::Shared;
use crate::kernels::strided::contiguous;
use crate::kernels::{Ctx, Value};

/// Writes for each element of `x` (`[batch..., k]`) how many elements of the sorted array `sorted` (`[batch..., n]`) come
/// before it, and with `right` those equal to it, too, into `out`, which is `i64`, row-major and the caller's alone. NaN
/// comes last, as in NumPy.
pub fn searchsorted_into(
    out: &Value,
    sorted: &Value,
    x: &Value,
    right: bool,
    ctx: &Ctx,
) -> Result<()> {
    let (Some((&n, batch)), Some((&k, others))) =
        (sorted.shape().split_last(), x.shape().split_last())
    else {
        return Err(Error::Shape(
            "searchsorted: a scalar has no elements to search".into(),
        ));
    };
    let fits = out.aval() == &x.aval().with_dtype(DType::I64) && out.is_contiguous();
    if batch != others || sorted.dtype() != x.dtype() || !fits {
        return Err(Error::Shape(format!(
            "searchsorted: {} cannot be searched for {}, with places in {}",
            sorted.aval(),
            x.aval(),
            out.aval()
        )));
    }
    let size = x.aval().size();
    if size == 0 {
        return Ok(());
    }
    let (sorted, x) = (contiguous(sorted, ctx)?, contiguous(x, ctx)?);
    // What a task does is worth the comparisons of a bisection for each element.
    let steps = n.max(1).ilog2() as usize + 1;
    let group = (TASK / (2 * steps)).max(1);
    with_number!(x.dtype(), T => {
        let table = Shared::new(sorted.as_ptr().cast_mut().cast::<T>());
        let from = Shared::new(x.as_ptr().cast_mut().cast::<T>());
        let to = Shared::new(out.as_mut_ptr().cast::<i64>());
        ctx.for_each(size.div_ceil(group), |task| {
            let start = task * group;
            for i in start..size.min(start + group) {
                // SAFETY: `i` is an element, each of one task, and its table has `n` elements.
                unsafe {
                    let table = table.at((i / k * n) as isize).cast_const();
                    let key = from.at(i as isize).read_unaligned();
                    to.at(i as isize).write_unaligned(place(table, n, key, right) as i64);
                }
            }
        })
    })
}

/// How many of `n` sorted elements come before a key.
///
/// # Safety
///
/// They are readable, aligned or not.
#[inline(always)]
unsafe fn place<T: Number>(table: *const T, n: usize, key: T, right: bool) -> usize {
    let comes_before = |a: T, b: T| a.less(b) || (b.is_nan() && !a.is_nan());
    // SAFETY: says the caller.
    let is_before = |i: usize| unsafe {
        let element = table.add(i).read_unaligned();
        if right {
            !comes_before(key, element)
        } else {
            comes_before(element, key)
        }
    };
    // Without a branch on what is compared, which nobody can foresee.
    let (mut base, mut left) = (0, n);
    while left > 1 {
        let half = left / 2;
        base += if is_before(base + half - 1) { half } else { 0 };
        left -= half;
    }
    base + usize::from(left == 1 && is_before(base))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::aval::Aval;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn found(sorted: &[f64], x: &[f64], right: bool) -> Vec<i64> {
        let sorted = Value::from_slice(&[sorted.len()], sorted).unwrap();
        let x = Value::from_slice(&[x.len()], x).unwrap();
        let out = Value::empty(Aval::new(DType::I64, x.shape())).unwrap();
        searchsorted_into(&out, &sorted, &x, right, &Ctx::new(&STOP, 1)).unwrap();
        out.as_slice::<i64>().unwrap().to_vec()
    }

    #[test]
    fn counts_what_comes_before() {
        for n in 0..40 {
            let sorted: Vec<f64> = (0..n).map(|i| f64::from(i / 3)).collect();
            let keys: Vec<f64> = (-2..30).map(|i| f64::from(i) / 2.0).collect();
            let count = |f: &dyn Fn(f64, f64) -> bool| -> Vec<i64> {
                let before = |&k: &f64| sorted.iter().filter(|&&s| f(s, k)).count() as i64;
                keys.iter().map(before).collect()
            };
            assert_eq!(found(&sorted, &keys, false), count(&|s, k| s < k));
            assert_eq!(found(&sorted, &keys, true), count(&|s, k| s <= k));
        }
    }

    #[test]
    fn nan_comes_last() {
        let sorted = [-1.0, f64::INFINITY, f64::NAN, f64::NAN];
        let keys = [f64::NAN, f64::INFINITY, -0.0];
        assert_eq!(found(&sorted, &keys, false), [2, 1, 1]);
        assert_eq!(found(&sorted, &keys, true), [4, 2, 1]);
    }

    #[test]
    fn each_example_has_a_table() {
        let sorted = Value::from_slice(&[2, 3], &[1i32, 2, 3, 10, 20, 30]).unwrap();
        let x = Value::from_slice(&[2, 2], &[2i32, 5, 5, 20]).unwrap();
        let out = Value::empty(Aval::new(DType::I64, &[2, 2])).unwrap();
        let ctx = Ctx::new(&STOP, 1);
        searchsorted_into(&out, &sorted, &x, true, &ctx).unwrap();
        assert_eq!(out.as_slice::<i64>().unwrap(), &[2, 3, 0, 2]);
        let wrong = Value::from_slice(&[3, 1], &[2i32, 5, 5]).unwrap();
        assert!(searchsorted_into(&out, &sorted, &wrong, true, &ctx).is_err());
    }
}

//! Products of integers and bool, and those of complex numbers with a vector.

use super::super::Ctx;
use super::super::arithmetic::Number;
use super::super::shared_pointer::Shared;
use super::matrix::{Dims, Mat, spread};
use crate::error::Result;

/// Columns and summed elements that are worked on at a time, so that the part of `b` stays near.
const TILE: usize = 128;

/// # Safety
/// As for `Product::product`.
pub(super) unsafe fn product<T: Number>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    let Dims { m, k, n } = d;
    let dense: Vec<T>;
    let b = if b.cs == 1 || m < 4 || n < 4 {
        b
    } else {
        // SAFETY: indices stay below the lengths of the axes.
        let get = |i: usize| unsafe { b.from(i / n, i % n).at.at(0).read() };
        dense = (0..k * n).map(get).collect();
        Mat {
            at: Shared::new(dense.as_ptr().cast_mut()),
            rs: n as isize,
            cs: 1,
        }
    };
    // A dense `b` with rows, for one row of `a`, is cut into columns; otherwise `a` into rows.
    let (across, len) = if m == 1 { (true, n) } else { (false, m) };
    let part = (1usize << 20)
        .div_ceil(k * (d.m * n / len))
        .next_multiple_of(64);
    spread(ctx, wide, len.div_ceil(part), |i| {
        let start = i * part;
        let len = part.min(len - start);
        let (d, a, b, to) = if across {
            (
                Dims { m, k, n: len },
                a,
                b.from(0, start),
                c.at(start as isize),
            )
        } else {
            (
                Dims { m: len, k, n },
                a.from(start, 0),
                b,
                c.at((start * n) as isize),
            )
        };
        // SAFETY: the caller's promise; parts are disjoint.
        unsafe { dispatch(d, a, b, to, n) };
    })
}

/// Chooses the instruction set.
unsafe fn dispatch<T: Number>(d: Dims, a: Mat<T>, b: Mat<T>, c: *mut T, row: usize) {
    // SAFETY (all blocks): the caller's promise; instructions were looked for.
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            return unsafe { v4(d, a, b, c, row) };
        }
        if has!("avx2") {
            return unsafe { v3(d, a, b, c, row) };
        }
    }
    unsafe { body(d, a, b, c, row) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn v4<T: Number>(d: Dims, a: Mat<T>, b: Mat<T>, c: *mut T, row: usize) {
    // SAFETY: the caller's promise.
    unsafe { body(d, a, b, c, row) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn v3<T: Number>(d: Dims, a: Mat<T>, b: Mat<T>, c: *mut T, row: usize) {
    // SAFETY: the caller's promise.
    unsafe { body(d, a, b, c, row) }
}

#[inline(always)]
unsafe fn body<T: Number>(d: Dims, a: Mat<T>, b: Mat<T>, c: *mut T, row: usize) {
    let Dims { m, k, n } = d;
    // SAFETY (all blocks): indices stay below the lengths of the axes.
    let get = |p: Mat<T>, i: usize, j: usize| unsafe { p.from(i, j).at.at(0).read() };
    if n < 4 || b.cs != 1 {
        // Where `b` is not dense along its rows, elements are dot products.
        for i in 0..m {
            for j in 0..n {
                let term = |l: usize| get(a, i, l).times(get(b, l, j));
                let sum = (1..k).fold(term(0), |sum, l| sum.plus(term(l)));
                unsafe { c.add(i * row + j).write(sum) };
            }
        }
        return;
    }
    for j0 in (0..n).step_by(TILE) {
        let width = TILE.min(n - j0);
        for l0 in (0..k).step_by(TILE) {
            let l1 = k.min(l0 + TILE);
            for i in 0..m {
                let to = unsafe { c.add(i * row + j0) };
                let mut sums = [T::ZERO; TILE];
                let sums = &mut sums[..width];
                let mut l = l0;
                if l == 0 {
                    let (x, y) = (get(a, i, 0), b.from(0, j0).at.at(0));
                    for (j, s) in sums.iter_mut().enumerate() {
                        *s = x.times(unsafe { y.add(j).read() });
                    }
                    l = 1;
                } else {
                    for (j, s) in sums.iter_mut().enumerate() {
                        *s = unsafe { to.add(j).read() };
                    }
                }
                // Four rows of `b` for each trip over the sums.
                while l + 4 <= l1 {
                    let x = [0, 1, 2, 3].map(|r| get(a, i, l + r));
                    let y = [0, 1, 2, 3].map(|r| b.from(l + r, j0).at.at(0).cast_const());
                    for (j, s) in sums.iter_mut().enumerate() {
                        for r in 0..4 {
                            *s = s.plus(x[r].times(unsafe { y[r].add(j).read() }));
                        }
                    }
                    l += 4;
                }
                for l in l..l1 {
                    let (x, y) = (get(a, i, l), b.from(l, j0).at.at(0));
                    for (j, s) in sums.iter_mut().enumerate() {
                        *s = s.plus(x.times(unsafe { y.add(j).read() }));
                    }
                }
                for (j, &s) in sums.iter().enumerate() {
                    unsafe { to.add(j).write(s) };
                }
            }
        }
    }
}

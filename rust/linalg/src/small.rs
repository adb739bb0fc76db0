//! Systems of a few equations, for which calling a blocked algorithm takes longer than computing.
//!
//! Each product and each difference is rounded, in the order that stands here. The core writes the same operations out
//! in machine code (`sched/scalar_systems.rs`) and gives the same bits.

use faer::traits::ComplexField;
use faer::traits::math_utils::{
    abs2, conj, from_real, mul, mul_real, real, recip, sqrt, sub, zero,
};

use crate::Failure;

/// The largest order that is small.
pub const ORDER: usize = 8;

/// Solves with a triangle of a matrix in place; `a(i, j)` is its element.
pub fn solve_triangular<'a, T: ComplexField + 'a>(
    n: usize,
    a: impl Fn(usize, usize) -> &'a T,
    b: &mut [T],
    lower: bool,
    unit: bool,
) {
    for x in b.chunks_exact_mut(n.max(1)) {
        for step in 0..n {
            let j = if lower { step } else { n - 1 - step };
            if !unit {
                x[j] = mul(&x[j], &recip(a(j, j)));
            }
            let known = x[j].clone();
            for i in if lower { j + 1..n } else { 0..j } {
                x[i] = sub(&x[i], &mul(a(i, j), &known));
            }
        }
    }
}

/// Solves with LU factors in place.
pub fn lu_solve<T: ComplexField>(
    n: usize,
    lu: &[T],
    perm: &[usize],
    b: &mut [T],
    transposed: bool,
) {
    let mut row: [T; ORDER] = std::array::from_fn(|_| zero());
    if transposed {
        solve_triangular(n, |i, j| &lu[i * n + j], b, true, false);
        solve_triangular(n, |i, j| &lu[i * n + j], b, false, true);
        for column in b.chunks_exact_mut(n.max(1)) {
            for (&p, x) in perm.iter().zip(column.iter()) {
                row[p] = x.clone();
            }
            column.clone_from_slice(&row[..n]);
        }
        return;
    }
    for column in b.chunks_exact_mut(n.max(1)) {
        for (x, &p) in row.iter_mut().zip(perm) {
            *x = column[p].clone();
        }
        column.clone_from_slice(&row[..n]);
    }
    solve_triangular(n, |i, j| &lu[j * n + i], b, true, true);
    solve_triangular(n, |i, j| &lu[j * n + i], b, false, false);
}

/// The Cholesky factor in place, from the lower triangle; the rest stays.
pub fn cholesky<T: ComplexField>(n: usize, a: &mut [T]) -> Result<(), Failure> {
    for j in 0..n {
        let mut square = real(&a[j * n + j]);
        for k in 0..j {
            square = sub(&square, &abs2(&a[k * n + j]));
        }
        // A NaN is not positive.
        let is_positive = square > zero();
        if !is_positive {
            return Err(Failure::NotPositive(j + 1));
        }
        let root = sqrt(&square);
        let inverse = recip(&root);
        a[j * n + j] = from_real(&root);
        for i in j + 1..n {
            let mut x = a[j * n + i].clone();
            for k in 0..j {
                x = sub(&x, &mul(&a[k * n + i], &conj(&a[k * n + j])));
            }
            a[j * n + i] = mul_real(&x, &inverse);
        }
    }
    Ok(())
}

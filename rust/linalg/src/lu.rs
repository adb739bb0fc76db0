//! LU by partial pivoting.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor as faer_lu;
use faer::linalg::triangular_solve as tri;
use faer::traits::ComplexField;
use faer::traits::math_utils::{abs1, is_finite, mul, recip, sub, zero};
use faer::{Conj, MatMut, MatRef, Par, Spec};

use crate::small;

/// Matrices up to this order are done by the plain loop.
const SMALL: usize = 12;

pub fn factor<T: ComplexField>(m: usize, n: usize, a: &mut [T], perm: &mut [usize]) {
    assert!(a.len() == m * n && perm.len() == m, "slices fit the sizes");
    if m.min(n) <= SMALL {
        return plain(m, n, a, perm);
    }
    let kept = a.to_vec();
    let mut inverse = vec![0usize; m];
    let mut memory = MemBuffer::new(faer_lu::lu_in_place_scratch::<usize, T>(
        m,
        n,
        Par::Seq,
        Spec::default(),
    ));
    faer_lu::lu_in_place(
        MatMut::from_column_major_slice_mut(a, m, n),
        perm,
        &mut inverse,
        Par::Seq,
        MemStack::new(&mut memory),
        Spec::default(),
    );
    // Behind a pivot that is exactly zero it leaves NaN; LAPACK goes on with the next column.
    if !a.iter().all(is_finite) && kept.iter().all(is_finite) {
        a.clone_from_slice(&kept);
        plain(m, n, a, perm);
    }
}

/// Column by column, from the left.
fn plain<T: ComplexField>(m: usize, n: usize, a: &mut [T], perm: &mut [usize]) {
    for (i, p) in perm.iter_mut().enumerate() {
        *p = i;
    }
    for j in 0..m.min(n) {
        let column = &a[j * m..(j + 1) * m];
        let mut largest = j;
        for i in j + 1..m {
            if abs1(&column[i]) > abs1(&column[largest]) {
                largest = i;
            }
        }
        if largest != j {
            perm.swap(largest, j);
            for c in 0..n {
                a.swap(c * m + largest, c * m + j);
            }
        }
        if a[j * m + j] == zero() {
            continue;
        }
        let inverse = recip(&a[j * m + j]);
        for x in &mut a[j * m + j + 1..(j + 1) * m] {
            *x = mul(x, &inverse);
        }
        let (left, right) = a.split_at_mut((j + 1) * m);
        let pivots = &left[j * m + j + 1..];
        for column in right.chunks_exact_mut(m) {
            let factor = column[j].clone();
            if factor == zero() {
                continue;
            }
            for (x, l) in column[j + 1..].iter_mut().zip(pivots) {
                *x = sub(x, &mul(l, &factor));
            }
        }
    }
}

pub fn solve<T: ComplexField>(
    n: usize,
    k: usize,
    lu: &[T],
    perm: &[usize],
    b: &mut [T],
    transposed: bool,
) {
    assert!(
        lu.len() == n * n && perm.len() == n && b.len() == n * k,
        "slices fit the sizes"
    );
    if n <= small::ORDER {
        return small::lu_solve(n, lu, perm, b, transposed);
    }
    let mat = MatRef::from_column_major_slice(lu, n, n);
    let mut row = vec![zero::<T>(); n];
    if transposed {
        let mut rhs = MatMut::from_column_major_slice_mut(b, n, k);
        let (l, u) = (mat.transpose(), mat.transpose());
        tri::solve_lower_triangular_in_place_with_conj(u, Conj::No, rhs.as_mut(), Par::Seq);
        tri::solve_unit_upper_triangular_in_place_with_conj(l, Conj::No, rhs, Par::Seq);
        for column in b.chunks_exact_mut(n.max(1)) {
            for (&p, x) in perm.iter().zip(column.iter()) {
                row[p] = x.clone();
            }
            column.clone_from_slice(&row);
        }
    } else {
        for column in b.chunks_exact_mut(n.max(1)) {
            for (x, &p) in row.iter_mut().zip(perm) {
                *x = column[p].clone();
            }
            column.clone_from_slice(&row);
        }
        let mut rhs = MatMut::from_column_major_slice_mut(b, n, k);
        tri::solve_unit_lower_triangular_in_place_with_conj(mat, Conj::No, rhs.as_mut(), Par::Seq);
        tri::solve_upper_triangular_in_place_with_conj(mat, Conj::No, rhs, Par::Seq);
    }
}

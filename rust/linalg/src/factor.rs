//! Cholesky, triangular systems, QR.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj,
};
use faer::linalg::qr::no_pivoting::factor as qr_factor;
use faer::linalg::triangular_solve as tri;
use faer::traits::{ComplexField, math_utils as math};
use faer::{Conj, Mat, MatMut, MatRef, Par, Spec};

use crate::scale::{scale, times};
use crate::{Failure, small};

pub fn cholesky<T: ComplexField>(n: usize, a: &mut [T]) -> Result<(), Failure> {
    assert!(a.len() == n * n, "a slice fits the sizes");
    // As in LAPACK, the imaginary part of the diagonal is not read.
    for i in 0..n {
        a[i * n + i] = math::from_real(&math::real(&a[i * n + i]));
    }
    if n <= small::ORDER {
        small::cholesky(n, a)?;
        clear_upper(n, a);
        return Ok(());
    }
    let mut mat = MatMut::from_column_major_slice_mut(a, n, n);
    let mut memory = MemBuffer::new(llt::cholesky_in_place_scratch::<T>(
        n,
        Par::Seq,
        Spec::default(),
    ));
    let done = llt::cholesky_in_place(
        mat.as_mut(),
        llt::LltRegularization::default(),
        Par::Seq,
        MemStack::new(&mut memory),
        Spec::default(),
    );
    if let Err(llt::LltError::NonPositivePivot { index }) = done {
        return Err(Failure::NotPositive(index + 1));
    }
    clear_upper(n, a);
    Ok(())
}

/// Zeros above the diagonal.
fn clear_upper<T: ComplexField>(n: usize, a: &mut [T]) {
    for j in 1..n {
        a[j * n..j * n + j].fill(T::zero_impl());
    }
}

pub fn solve_triangular<T: ComplexField>(
    n: usize,
    k: usize,
    a: &[T],
    b: &mut [T],
    (lower, transposed, unit): (bool, bool, bool),
) {
    assert!(a.len() == n * n && b.len() == n * k, "slices fit the sizes");
    if n <= small::ORDER {
        let element = |i: usize, j: usize| {
            if transposed {
                &a[i * n + j]
            } else {
                &a[j * n + i]
            }
        };
        return small::solve_triangular(n, element, b, lower != transposed, unit);
    }
    let mat = MatRef::from_column_major_slice(a, n, n);
    let rhs = MatMut::from_column_major_slice_mut(b, n, k);
    if transposed {
        solve(mat.transpose(), rhs, !lower, unit);
    } else {
        solve(mat, rhs, lower, unit);
    }
}

fn solve<T: ComplexField>(a: MatRef<'_, T>, b: MatMut<'_, T>, lower: bool, unit: bool) {
    match (lower, unit) {
        (true, false) => {
            tri::solve_lower_triangular_in_place_with_conj(a, Conj::No, b, Par::Seq);
        }
        (true, true) => {
            tri::solve_unit_lower_triangular_in_place_with_conj(a, Conj::No, b, Par::Seq);
        }
        (false, false) => {
            tri::solve_upper_triangular_in_place_with_conj(a, Conj::No, b, Par::Seq);
        }
        (false, true) => {
            tri::solve_unit_upper_triangular_in_place_with_conj(a, Conj::No, b, Par::Seq);
        }
    }
}

pub fn qr<T: ComplexField>(m: usize, n: usize, a: &mut [T], q: &mut [T], r: &mut [T]) {
    let k = m.min(n);
    let columns = q.len().checked_div(m).unwrap_or(0);
    let rows = r.len().checked_div(n).unwrap_or(0);
    let mut q_mat = MatMut::from_column_major_slice_mut(q, m, columns);
    let mut r_mat = MatMut::from_column_major_slice_mut(r, rows, n);
    q_mat.fill(T::zero_impl());
    for i in 0..columns {
        q_mat[(i, i)] = T::one_impl();
    }
    r_mat.fill(T::zero_impl());
    if k == 0 {
        return;
    }
    let factor = scale(a.iter());
    if let Some(factor) = &factor {
        a.clone_from_slice(&times(a, factor));
    }
    let block = qr_factor::recommended_block_size::<T>(m, n);
    let mut mat = MatMut::from_column_major_slice_mut(a, m, n);
    let mut coeff = Mat::<T>::zeros(block, k);
    let mut memory = MemBuffer::new(qr_factor::qr_in_place_scratch::<T>(
        m,
        n,
        block,
        Par::Seq,
        Spec::default(),
    ));
    qr_factor::qr_in_place(
        mat.as_mut(),
        coeff.as_mut(),
        Par::Seq,
        MemStack::new(&mut memory),
        Spec::default(),
    );
    for j in 0..n {
        for i in 0..(j + 1).min(k) {
            r_mat[(i, j)] = mat[(i, j)].clone();
        }
    }
    let mut memory = MemBuffer::new(
        apply_block_householder_sequence_on_the_left_in_place_scratch::<T>(m, block, columns),
    );
    apply_block_householder_sequence_on_the_left_in_place_with_conj(
        mat.as_ref().subcols(0, k),
        coeff.as_ref(),
        Conj::No,
        q_mat.as_mut(),
        Par::Seq,
        MemStack::new(&mut memory),
    );
    // A complex diagonal of R becomes real, as LAPACK has it, by the phases of columns of Q.
    for i in 0..k {
        let pivot = r_mat[(i, i)].clone();
        if math::imag(&pivot) == math::zero() {
            continue;
        }
        let size = math::abs(&pivot);
        // A last row has no other to be reflected with; LAPACK turns its sign, too.
        let negative = math::real(&pivot) < math::zero();
        let sign = if negative == (i + 1 == m) {
            size.clone()
        } else {
            math::neg(&size)
        };
        let turn = math::mul_real(&math::conj(&pivot), &math::recip(&sign));
        for j in i..n {
            r_mat[(i, j)] = math::mul(&r_mat[(i, j)], &turn);
        }
        r_mat[(i, i)] = math::from_real(&sign);
        let back = math::conj(&turn);
        for j in 0..m {
            q_mat[(j, i)] = math::mul(&q_mat[(j, i)], &back);
        }
    }
    if let Some(back) = factor.as_ref().map(math::recip) {
        for j in 0..n {
            for i in 0..(j + 1).min(k) {
                r_mat[(i, j)] = math::mul_real(&r_mat[(i, j)], &back);
            }
        }
    }
}

//! Eigenvalues of Hermitian matrices: small ones as a whole, others by way of a tridiagonal matrix.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors, tridiag};
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch as apply_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj as apply,
};
use faer::linalg::qr::no_pivoting::factor::recommended_block_size;
use faer::traits::ComplexField;
use faer::traits::math_utils::{
    abs, from_f64, from_real, min_positive, mul_real, one, real, recip, zero,
};
use faer::{Conj, Mat, MatMut, MatRef, Par, Spec};

use crate::Failure;
use crate::parallel::{Spread, each};
use crate::scale::scale;
use crate::spectral::check;
use crate::tridiagonal::{self, COLUMNS, WIDE};

/// Up to this size the way by a tridiagonal matrix of its own is longer.
const SMALL: usize = 48;

/// Eigenvalues, ascending, and eigenvectors, from the lower triangle of a matrix. As in LAPACK, the imaginary part of
/// the diagonal is not read.
pub fn eigh<T: ComplexField<Real: Into<f64>>>(
    n: usize,
    a: &[T],
    w: &mut [T::Real],
    v: Option<&mut [T]>,
    spread: Spread,
) -> Result<(), Failure> {
    let lower = |j: usize| &a[j * n + j..(j + 1) * n];
    (0..n).try_for_each(|j| check(lower(j)))?;
    if n == 0 {
        return Ok(());
    }
    let factor = scale((0..n).flat_map(lower));
    let mut scaled = Mat::<T>::zeros(n, n);
    for j in 0..n {
        let column = &mut scaled.col_as_slice_mut(j)[j..];
        column.clone_from_slice(lower(j));
        column[0] = from_real(&real(&column[0]));
        if let Some(factor) = &factor {
            for x in column {
                *x = mul_real(x, factor);
            }
        }
    }
    if n <= SMALL {
        let v = v.map(|v| MatMut::from_column_major_slice_mut(v, n, n));
        whole(scaled.as_ref(), w, v)?;
    } else {
        by_tridiagonal(scaled.as_mut(), w, v, spread)?;
    }
    if let Some(back) = factor.as_ref().map(recip) {
        for w in w {
            *w *= back.clone();
        }
    }
    Ok(())
}

/// By an iteration on the whole.
fn whole<T: ComplexField>(
    a: MatRef<'_, T>,
    w: &mut [T::Real],
    v: Option<MatMut<'_, T>>,
) -> Result<(), Failure> {
    let n = a.nrows();
    let wanted = if v.is_some() {
        ComputeEigenvectors::Yes
    } else {
        ComputeEigenvectors::No
    };
    let need = evd::self_adjoint_evd_scratch::<T>(n, wanted, Par::Seq, Spec::default());
    let mut values = vec![zero::<T>(); n];
    evd::self_adjoint_evd(
        a,
        DiagMut::from_slice_mut(&mut values),
        v,
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(need)),
        Spec::default(),
    )
    .map_err(|_| Failure::NoConvergence)?;
    for (w, value) in w.iter_mut().zip(&values) {
        *w = real(value);
    }
    Ok(())
}

fn by_tridiagonal<T: ComplexField<Real: Into<f64>>>(
    mut a: MatMut<'_, T>,
    w: &mut [T::Real],
    v: Option<&mut [T]>,
    spread: Spread,
) -> Result<(), Failure> {
    let n = a.nrows();
    let block = recommended_block_size::<T>(n, n);
    let mut reflections = Mat::<T>::zeros(block, n - 1);
    let need = tridiag::tridiag_in_place_scratch::<T>(n, Par::Seq, Spec::default());
    tridiag::tridiag_in_place(
        a.as_mut(),
        reflections.as_mut(),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(need)),
        Spec::default(),
    );

    // What is beside the diagonal may be complex; turned by phases it is real.
    let mut d: Vec<f64> = (0..n).map(|i| real(&a[(i, i)]).into()).collect();
    let mut e: Vec<f64> = (1..n)
        .map(|i| {
            let x = &a[(i, i - 1)];
            if T::IS_REAL {
                real(x).into()
            } else {
                length(x).into()
            }
        })
        .collect();
    let Some(v) = v else {
        tridiagonal::eigenvalues(&mut d, &mut e)?;
        write(&d, w);
        return Ok(());
    };
    let mut q = vec![0.0; n * n];
    tridiagonal::eigenvectors(&mut d, &mut e, &mut q, spread)?;
    write(&d, w);
    let mut phases = vec![one::<T>(); n];
    for i in 1..n {
        if !T::IS_REAL {
            let x = a[(i, i - 1)].clone() * phases[i - 1].clone();
            let size = length(&x);
            phases[i] = if size == zero() {
                one()
            } else {
                mul_real(&x, &recip(&size))
            };
        }
    }
    let reflected = a.as_ref().submatrix(1, 0, n - 1, n - 1);
    let columns = v.chunks_mut(n * COLUMNS).zip(q.chunks(n * COLUMNS));
    each((n >= WIDE).then_some(spread), columns, |(v, q)| {
        for (v, q) in v.chunks_exact_mut(n).zip(q.chunks_exact(n)) {
            for ((v, &x), phase) in v.iter_mut().zip(q).zip(&phases) {
                *v = mul_real(phase, &from_f64(x));
            }
        }
        let count = q.len() / n;
        apply(
            reflected,
            reflections.as_ref(),
            Conj::No,
            MatMut::from_column_major_slice_mut(v, n, count).subrows_mut(1, n - 1),
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(apply_scratch::<T>(n - 1, block, count))),
        );
    });
    Ok(())
}

/// The absolute value of what is left beside the diagonal; nothing where it has no reciprocal.
fn length<T: ComplexField>(x: &T) -> T::Real {
    let size = abs(x);
    if size < min_positive() { zero() } else { size }
}

fn write<R: ComplexField>(values: &[f64], w: &mut [R]) {
    for (w, &value) in w.iter_mut().zip(values) {
        *w = from_f64(value);
    }
}

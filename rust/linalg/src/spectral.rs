//! Singular values, and eigenvalues of matrices that need not be Hermitian.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self as svd_imp, ComputeSvdVectors};
use faer::traits::ext::ComplexFieldExt;
use faer::traits::math_utils::{abs2, from_real, is_finite, real, recip, zero};
use faer::traits::{ComplexField, RealField};
use faer::{Mat, MatMut, MatRef, Par, Spec};
use num_complex::Complex;

use crate::Failure;
use crate::balance::balance;
use crate::scale::{scale, times};

/// Refuses infinities and NaN, for which iterations come to no end.
pub fn check<T: ComplexField>(a: &[T]) -> Result<(), Failure> {
    if a.iter().all(is_finite) {
        Ok(())
    } else {
        Err(Failure::NoConvergence)
    }
}

pub fn svd<T: ComplexField>(
    m: usize,
    n: usize,
    a: &[T],
    s: &mut [T::Real],
    uv: Option<(&mut [T], &mut [T])>,
) -> Result<(), Failure> {
    check(a)?;
    let k = m.min(n);
    if k == 0 {
        if let Some((u, v)) = uv {
            identity(m, u);
            identity(n, v);
        }
        return Ok(());
    }
    let wanted = match &uv {
        None => ComputeSvdVectors::No,
        Some((u, v)) if u.len() == m * k && v.len() == n * k => ComputeSvdVectors::Thin,
        Some(_) => ComputeSvdVectors::Full,
    };
    let factor = scale(a.iter());
    let scaled = factor.as_ref().map(|factor| times(a, factor));
    let a = scaled.as_deref().unwrap_or(a);
    let mat = MatRef::from_column_major_slice(a, m, n);
    let mut memory = MemBuffer::new(svd_imp::svd_scratch::<T>(
        m,
        n,
        wanted,
        wanted,
        Par::Seq,
        Spec::default(),
    ));
    let mut values = vec![zero::<T>(); k];
    let (u, v) = match uv {
        None => (None, None),
        Some((u, v)) => {
            let (p, q) = (u.len() / m, v.len() / n);
            (
                Some(MatMut::from_column_major_slice_mut(u, m, p)),
                Some(MatMut::from_column_major_slice_mut(v, n, q)),
            )
        }
    };
    svd_imp::svd(
        mat,
        DiagMut::from_slice_mut(&mut values),
        u,
        v,
        Par::Seq,
        MemStack::new(&mut memory),
        Spec::default(),
    )
    .map_err(|_| Failure::NoConvergence)?;
    for (s, value) in s.iter_mut().zip(&values) {
        *s = real(value);
        if let Some(factor) = &factor {
            *s = s.clone() * recip(factor);
        }
    }
    Ok(())
}

fn identity<T: ComplexField>(n: usize, a: &mut [T]) {
    a.fill(T::zero_impl());
    for (i, x) in a.iter_mut().enumerate() {
        if n > 0 && i / n == i % n {
            *x = T::one_impl();
        }
    }
}

/// For a real matrix: eigenvalues come in conjugate pairs, the one with the positive imaginary part first.
pub fn eig_real<T: RealField>(
    n: usize,
    a: &[T],
    w: &mut [Complex<T>],
    v: Option<&mut [Complex<T>]>,
) -> Result<(), Failure> {
    check(a)?;
    if n == 0 {
        return Ok(());
    }
    let factor = scale(a.iter());
    let scaled = factor.as_ref().map(|factor| times(a, factor));
    let a = scaled.as_deref().unwrap_or(a);
    let wanted = if v.is_some() {
        ComputeEigenvectors::Yes
    } else {
        ComputeEigenvectors::No
    };
    let mut memory = MemBuffer::new(evd::evd_scratch::<T>(
        n,
        ComputeEigenvectors::No,
        wanted,
        Par::Seq,
        Spec::default(),
    ));
    let mut re = vec![zero::<T>(); n];
    let mut im = vec![zero::<T>(); n];
    let mut vectors = v.as_ref().map(|_| Mat::<T>::zeros(n, n));
    let mut a = a.to_vec();
    let scales = balance(n, &mut a);
    evd::evd_real(
        MatRef::from_column_major_slice(&a, n, n),
        DiagMut::from_slice_mut(&mut re),
        DiagMut::from_slice_mut(&mut im),
        None,
        vectors.as_mut().map(Mat::as_mut),
        Par::Seq,
        MemStack::new(&mut memory),
        Spec::default(),
    )
    .map_err(|_| Failure::NoConvergence)?;
    for (i, w) in w.iter_mut().enumerate() {
        *w = Complex::new(re[i].clone(), im[i].clone());
    }
    divided(w, factor.as_ref());
    let (Some(v), Some(vectors)) = (v, vectors) else {
        return Ok(());
    };
    let mut j = 0;
    while j < n {
        let paired = im[j] != zero() && j + 1 < n;
        for i in 0..n {
            let x = vectors[(i, j)].clone();
            if paired {
                let y = vectors[(i, j + 1)].clone();
                v[j * n + i] = Complex::new(x.clone(), y.clone());
                v[(j + 1) * n + i] = Complex::new(x, -y);
            } else {
                v[j * n + i] = Complex::new(x, zero());
            }
        }
        j += if paired { 2 } else { 1 };
    }
    unbalance(n, scales.as_deref(), v);
    normalize(n, v);
    Ok(())
}

pub fn eig_complex<T: RealField>(
    n: usize,
    a: &[Complex<T>],
    w: &mut [Complex<T>],
    v: Option<&mut [Complex<T>]>,
) -> Result<(), Failure>
where
    Complex<T>: ComplexField<Real = T>,
{
    check(a)?;
    if n == 0 {
        return Ok(());
    }
    let factor = scale(a.iter());
    let scaled = factor.as_ref().map(|factor| times(a, factor));
    let a = scaled.as_deref().unwrap_or(a);
    let wanted = if v.is_some() {
        ComputeEigenvectors::Yes
    } else {
        ComputeEigenvectors::No
    };
    let mut memory = MemBuffer::new(evd::evd_scratch::<Complex<T>>(
        n,
        ComputeEigenvectors::No,
        wanted,
        Par::Seq,
        Spec::default(),
    ));
    let mut vectors = v.as_ref().map(|_| Mat::<Complex<T>>::zeros(n, n));
    let mut a = a.to_vec();
    let scales = balance(n, &mut a);
    evd::evd_cplx(
        MatRef::from_column_major_slice(&a, n, n),
        DiagMut::from_slice_mut(w),
        None,
        vectors.as_mut().map(Mat::as_mut),
        Par::Seq,
        MemStack::new(&mut memory),
        Spec::default(),
    )
    .map_err(|_| Failure::NoConvergence)?;
    divided(w, factor.as_ref());
    if let (Some(v), Some(vectors)) = (v, vectors) {
        for j in 0..n {
            for i in 0..n {
                v[j * n + i] = vectors[(i, j)].clone();
            }
        }
        unbalance(n, scales.as_deref(), v);
        normalize(n, v);
    }
    Ok(())
}

fn divided<T: RealField>(w: &mut [Complex<T>], factor: Option<&T>) {
    let Some(back) = factor.map(recip) else {
        return;
    };
    for z in w {
        *z = Complex::new(z.re.clone() * back.clone(), z.im.clone() * back.clone());
    }
}

/// Eigenvectors of a matrix from those of what balancing has made of it; of any length.
fn unbalance<T: RealField>(n: usize, scales: Option<&[T]>, v: &mut [Complex<T>]) {
    let Some(scales) = scales else { return };
    for column in v.chunks_exact_mut(n) {
        // By the largest product, so that none is out of range.
        let size = |(z, s): (&Complex<T>, &T)| s.clone() * (z.re.abs1() + z.im.abs1());
        let largest = (column.iter().zip(scales).map(size))
            .fold(zero::<T>(), |a, b| if a > b { a } else { b });
        if largest == zero() || !is_finite(&largest) {
            continue;
        }
        for (z, s) in column.iter_mut().zip(scales) {
            let s = s.clone() / largest.clone();
            *z = Complex::new(z.re.clone() * s.clone(), z.im.clone() * s);
        }
    }
}

/// Each column to length 1, with a largest component that is real, as LAPACK has them. (It may be negative
/// when the column is real: the sign is left as it came.)
fn normalize<T: RealField>(n: usize, v: &mut [Complex<T>])
where
    Complex<T>: ComplexField<Real = T>,
{
    for column in v.chunks_exact_mut(n) {
        let mut total = zero::<T>();
        let (mut largest, mut size) = (0, zero::<T>());
        for (i, z) in column.iter().enumerate() {
            let square = abs2(z);
            if square > size {
                largest = i;
                size = square.clone();
            }
            total += square;
        }
        if size == zero() {
            continue;
        }
        let length = total.sqrt();
        let real_column = column.iter().all(|z| z.im == zero());
        let turn = if real_column {
            from_real::<Complex<T>>(&length.recip())
        } else {
            let z = &column[largest];
            let scale = (size.sqrt() * length).recip();
            Complex::new(z.re.clone() * scale.clone(), -z.im.clone() * scale)
        };
        for z in column.iter_mut() {
            *z = faer::traits::math_utils::mul(z, &turn);
        }
        if !real_column {
            column[largest].im = zero();
        }
    }
}

//! Decompositions of the matrices in the last two axes, one after the other or on several threads.
//!
//! What a decomposition gives is packed along one axis, since a primitive has one result: its parts are
//! read as views. Matrices in there are column-major. The numerical work is done in a crate of its own
//! (`cotan-linalg`), which is left out of builds without the feature `linalg`.
// Elements are checked for alignment before they are read.
#![allow(clippy::cast_ptr_alignment)]

use std::ops::{Add, Div, Mul, Sub};
use std::sync::{Mutex, OnceLock, PoisonError};

use cotan_linalg::{Failure, Linalg, Spread};
use num_complex::Complex;

use super::simd_level::empty_upper_halves;
use super::{Breakdown, Ctx, Element, Value, copy, gemm};
use crate::aval::{Aval, DType};
use crate::error::{Error, Result};

/// What to decompose a matrix into. The length of the packed result for an `m × n` matrix, with `k` the
/// smaller of the two, stands behind each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Factor {
    /// Factors, permutation, its sign: `m n + m + 1`.
    Lu,
    /// The same; a matrix with a pivot that is zero is an error.
    NonsingularLu,
    /// `Q` with `k` columns, `R` with `k` rows: `m k + k n`.
    Qr,
    /// `Q` with `m` columns, `R` with `m` rows: `m m + m n`.
    FullQr,
    /// Eigenvalues and eigenvectors of a Hermitian matrix: `n + n n`.
    Eigh,
    /// Eigenvalues of a Hermitian matrix: `n`.
    EighValues,
    /// Eigenvalues and eigenvectors, complex: `n + n n`.
    Eig,
    /// Eigenvalues, complex: `n`.
    EigValues,
    /// Singular values, `U` with `k` columns, the conjugate of `V` with `k`: `k + m k + n k`.
    Svd,
    /// Singular values, `U` with `m` columns, the conjugate of `V` with `n`: `k + m m + n n`.
    FullSvd,
    /// Singular values: `k`.
    SvdValues,
}

impl Factor {
    /// The length of the packed result of an `m × n` matrix.
    pub fn packed(self, m: usize, n: usize) -> usize {
        let k = m.min(n);
        match self {
            Factor::Lu | Factor::NonsingularLu => m * n + m + 1,
            Factor::Qr => m * k + k * n,
            Factor::FullQr => m * m + m * n,
            Factor::Eigh | Factor::Eig => n + n * n,
            Factor::EighValues | Factor::EigValues => n,
            Factor::Svd => k + (m + n) * k,
            Factor::FullSvd => k + m * m + n * n,
            Factor::SvdValues => k,
        }
    }
}

/// How a system is solved: with the lower triangle of the matrix as given, with the transposed matrix, with
/// ones on the diagonal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// The triangle.
    pub lower: bool,
    /// Whether the matrix is transposed.
    pub transposed: bool,
    /// Whether the diagonal is ones.
    pub unit: bool,
}

/// Batches with less work than this, in multiplications, stay on one thread.
const WIDE: usize = 1 << 15;

/// What has more elements than this is decomposed by way of matrix products, which need room.
const PLAIN: usize = 256;

/// The element types.
trait Field:
    Element
    + Linalg
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    fn from_real(x: Self::Real) -> Self;
    fn number(x: f64) -> Self;
    fn real_part(self) -> f64;
    fn conjugate(self) -> Self;
    fn magnitude(self) -> f64;
    fn real_zero() -> Self::Real;
}

macro_rules! fields {
    ($($real:ident),*) => { $(
        impl Field for $real {
            fn from_real(x: $real) -> $real { x }
            fn number(x: f64) -> $real { x as $real }
            fn real_part(self) -> f64 { self as f64 }
            fn conjugate(self) -> $real { self }
            fn magnitude(self) -> f64 { self.abs() as f64 }
            fn real_zero() -> $real { 0.0 }
        }
        impl Field for Complex<$real> {
            fn from_real(x: $real) -> Self { Complex::new(x, 0.0) }
            fn number(x: f64) -> Self { Complex::new(x as $real, 0.0) }
            fn real_part(self) -> f64 { self.re as f64 }
            fn conjugate(self) -> Self { self.conj() }
            fn magnitude(self) -> f64 { self.norm() as f64 }
            fn real_zero() -> $real { 0.0 }
        }
    )* };
}
fields!(f32, f64);

/// Runs a function for the element type of a dtype.
macro_rules! with_field {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            $crate::aval::DType::F32 => $f::<f32>($($arg),*),
            $crate::aval::DType::F64 => $f::<f64>($($arg),*),
            $crate::aval::DType::C64 => $f::<num_complex::Complex<f32>>($($arg),*),
            $crate::aval::DType::C128 => $f::<num_complex::Complex<f64>>($($arg),*),
            other => Err($crate::error::Error::DType(format!(
                "decompositions of matrices take float32, float64, complex64 and complex128, not {other}"
            ))),
        }
    };
}

// Behind the macro that they use.
mod banded;
mod systems;

pub use banded::solve_banded;
pub use systems::{adjugate, cholesky, lu_solve, solve_triangular, sylvester};

/// An argument whose last `inner` axes lie without gaps; those before may have any strides, so what is
/// repeated is not copied.
struct Items {
    value: Value,
    inner: usize,
}

impl Items {
    fn new<T: Element>(x: &Value, inner: usize, ctx: &Ctx) -> Result<Items> {
        let rank = x.shape().len();
        let mut step = 1isize;
        let dense = (x.shape()[rank - inner..].iter())
            .zip(&x.strides()[rank - inner..])
            .rev()
            .all(|(&d, &s)| {
                let fits = d <= 1 || s == step;
                step *= d as isize;
                fits
            });
        let size = size_of::<T>();
        let aligned = (x.as_ptr() as usize).is_multiple_of(align_of::<T>());
        let value = if dense && aligned && x.dtype().size() == size {
            x.clone()
        } else {
            copy(x, ctx)?
        };
        Ok(Items { value, inner })
    }

    /// The matrices in column-major order.
    fn columns<T: Element>(x: &Value, ctx: &Ctx) -> Result<Items> {
        Items::new::<T>(&swapped(x), 2, ctx)
    }

    fn len(&self) -> usize {
        let shape = self.value.shape();
        shape[shape.len() - self.inner..].iter().product()
    }

    fn item<T: Element>(&self, mut at: usize) -> &[T] {
        let rank = self.value.shape().len() - self.inner;
        let mut offset = 0isize;
        for axis in (0..rank).rev() {
            let n = self.value.shape()[axis];
            offset += (at % n) as isize * self.value.strides()[axis];
            at /= n;
        }
        if self.len() == 0 {
            return &[];
        }
        assert_eq!(self.value.dtype(), T::DTYPE, "elements of another dtype");
        // SAFETY: the offset is that of a valid index, from which `len` elements of this dtype follow
        // without gaps, aligned (`new` has seen to both); nobody writes to a shared storage.
        unsafe {
            let start = self.value.as_ptr().cast::<T>().offset(offset);
            std::slice::from_raw_parts(start, self.len())
        }
    }
}

/// A fresh result, whose items are written by one task each.
struct Output<T> {
    start: *mut T,
    item: usize,
    total: usize,
}

// SAFETY: tasks write to disjoint items.
unsafe impl<T: Send> Sync for Output<T> {}

impl<T: Element> Output<T> {
    fn new(value: &Value, item: usize) -> Output<T> {
        assert_eq!(value.dtype(), T::DTYPE, "elements of another dtype");
        let total = value.aval().size();
        if total > 0 {
            // SAFETY: fresh memory of this many bytes; every bit pattern of zeros is a number, and a
            // slice must not be made of memory that was never written.
            unsafe { std::ptr::write_bytes(value.as_mut_ptr(), 0, value.aval().nbytes()) };
        }
        Output {
            start: value.as_mut_ptr().cast(),
            item,
            total,
        }
    }

    /// # Safety
    /// No two tasks may ask for the same item.
    #[allow(clippy::mut_from_ref)]
    unsafe fn item(&self, at: usize) -> &mut [T] {
        assert!((at + 1) * self.item <= self.total, "an item outside");
        if self.item == 0 {
            return &mut [];
        }
        // SAFETY: inside the result, initialised, and by the contract nobody else's.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at * self.item), self.item) }
    }
}

/// Calls `f` with the place of each item and that item of the result, the first error by place wins.
fn each<T: Element>(
    out: &Value,
    inner: usize,
    ctx: &Ctx,
    f: impl Fn(usize, &mut [T]) -> Result<()> + Sync + Send,
) -> Result<()> {
    let rank = out.shape().len() - inner;
    let batch: usize = out.shape()[..rank].iter().product();
    let item: usize = out.shape()[rank..].iter().product();
    // What the decompositions work in, a few matrices of the size of a result, they allocate on their own.
    super::spare(item.saturating_mul(8 * size_of::<T>()))?;
    let output = Output::<T>::new(out, item);
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let run = |i: usize| {
        // SAFETY: each place is asked for once.
        let part = unsafe { output.item(i) };
        let ready = if item > PLAIN { gemm::ready() } else { Ok(()) };
        let done = ready.and_then(|()| f(i, part));
        empty_upper_halves();
        if let Err(error) = done {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if failed.as_ref().is_none_or(|(first, _)| i < *first) {
                *failed = Some((i, error));
            }
        }
    };
    if batch > 1 && batch * item >= WIDE {
        ctx.for_each(batch, run)?;
    } else {
        for i in 0..batch {
            ctx.check()?;
            run(i);
        }
    }
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Calls `f` with what hands its pieces of work to threads. What a piece could not do fails the whole.
fn in_pieces<R>(ctx: &Ctx, f: impl FnOnce(Spread) -> R) -> Result<R> {
    let failed = OnceLock::new();
    let done = f(&|count, piece| {
        let run = |i| match gemm::ready() {
            Ok(()) => {
                piece(i);
                empty_upper_halves();
            }
            Err(error) => drop(failed.set(error)),
        };
        if let Err(error) = ctx.for_each(count, run) {
            drop(failed.set(error));
        }
    });
    failed.into_inner().map_or(Ok(done), Err)
}

/// With the last two axes exchanged: row-major memory seen as column-major, and back.
fn swapped(x: &Value) -> Value {
    let mut perm: Vec<usize> = (0..x.shape().len()).collect();
    let n = perm.len();
    perm.swap(n - 1, n - 2);
    x.transposed(&perm)
}

fn swapped_aval(aval: &Aval) -> Aval {
    let mut aval = aval.clone();
    let n = aval.shape.len();
    aval.shape.swap(n - 1, n - 2);
    aval
}

fn matrix(x: &Value) -> (usize, usize) {
    let shape = x.shape();
    (shape[shape.len() - 2], shape[shape.len() - 1])
}

fn failed(what: &str, failure: Failure) -> Error {
    match failure {
        Failure::NotPositive(_) => Breakdown::NotPositive.error(),
        Failure::NoConvergence => Error::LinAlg(format!("{what} did not converge")),
    }
}

/// A decomposition of the matrices in the last two axes, packed along one.
pub fn factor(what: Factor, a: &Value, out: &Aval, ctx: &Ctx) -> Result<Value> {
    let value = Value::empty(out.clone())?;
    if value.aval().size() == 0 {
        return Ok(value);
    }
    match (what, a.dtype()) {
        (Factor::Eig | Factor::EigValues, DType::F32 | DType::C64) => {
            eigen::<f32>(what, a, &value, ctx)?;
        }
        (Factor::Eig | Factor::EigValues, DType::F64 | DType::C128) => {
            eigen::<f64>(what, a, &value, ctx)?;
        }
        (_, dtype) => with_field!(dtype, factor_of(what, a, &value, ctx))?,
    }
    Ok(value)
}

fn factor_of<T: Field>(what: Factor, a: &Value, out: &Value, ctx: &Ctx) -> Result<()> {
    let (m, n) = matrix(a);
    let k = m.min(n);
    let a = Items::columns::<T>(a, ctx)?;
    // Either many matrices on several threads, or the work on one.
    let single = out.shape()[..out.shape().len() - 1]
        .iter()
        .product::<usize>()
        == 1;
    let within = if single { *ctx } else { ctx.alone() };
    each::<T>(out, 1, ctx, |i, out| {
        let a = a.item::<T>(i);
        match what {
            Factor::Lu | Factor::NonsingularLu => {
                let (factors, rest) = out.split_at_mut(m * n);
                factors.copy_from_slice(a);
                let mut perm = vec![0; m];
                T::lu(m, n, factors, &mut perm);
                for (to, &p) in rest.iter_mut().zip(&perm) {
                    *to = T::number(p as f64);
                }
                rest[m] = T::number(sign(&perm));
                let zero = T::number(0.0);
                if what == Factor::NonsingularLu && (0..k).any(|j| factors[j * m + j] == zero) {
                    return Err(Breakdown::Singular.error());
                }
            }
            Factor::Qr | Factor::FullQr => {
                let rows = if what == Factor::Qr { k } else { m };
                let (q, r) = out.split_at_mut(m * rows);
                T::qr(m, n, &mut a.to_vec(), q, r);
            }
            Factor::Eigh | Factor::EighValues => {
                let (values, vectors) = out.split_at_mut(n);
                let mut w = reals::<T>(n);
                let vectors = (what == Factor::Eigh).then_some(vectors);
                in_pieces(&within, |spread| T::eigh(n, a, &mut w, vectors, spread))?
                    .map_err(|f| failed("Eigenvalues", f))?;
                write_reals(values, &w);
            }
            Factor::Svd | Factor::FullSvd | Factor::SvdValues => {
                let (p, q) = if what == Factor::Svd { (k, k) } else { (m, n) };
                let (values, vectors) = out.split_at_mut(k);
                let mut s = reals::<T>(k);
                if what == Factor::SvdValues {
                    T::svd(m, n, a, &mut s, None).map_err(|f| failed("SVD", f))?;
                } else {
                    let (u, v) = vectors.split_at_mut(m * p);
                    let v = &mut v[..n * q];
                    T::svd(m, n, a, &mut s, Some((u, &mut *v))).map_err(|f| failed("SVD", f))?;
                    for x in v {
                        *x = x.conjugate();
                    }
                }
                write_reals(values, &s);
            }
            Factor::Eig | Factor::EigValues => {
                return Err(Error::Program("eig: has a kernel of its own".into()));
            }
        }
        Ok(())
    })
}

/// Storage for real numbers of the element type's precision.
fn reals<T: Field>(n: usize) -> Vec<T::Real> {
    vec![T::real_zero(); n]
}

fn write_reals<T: Field>(out: &mut [T], values: &[T::Real]) {
    for (to, &x) in out.iter_mut().zip(values) {
        *to = T::from_real(x);
    }
}

/// The sign of a permutation.
fn sign(perm: &[usize]) -> f64 {
    let mut seen = vec![false; perm.len()];
    let mut sign = 1.0;
    for start in 0..perm.len() {
        let (mut at, mut length) = (start, 0);
        while !std::mem::replace(&mut seen[at], true) {
            at = perm[at];
            length += 1;
        }
        if length > 0 && length % 2 == 0 {
            sign = -sign;
        }
    }
    sign
}

fn eigen<R>(what: Factor, a: &Value, out: &Value, ctx: &Ctx) -> Result<()>
where
    R: Field + Linalg<Real = R>,
    Complex<R>: Field + Linalg<Real = R>,
{
    if a.dtype().is_complex() {
        eigen_of::<R, Complex<R>>(what, a, out, ctx)
    } else {
        eigen_of::<R, R>(what, a, out, ctx)
    }
}

fn eigen_of<R, T>(what: Factor, a: &Value, out: &Value, ctx: &Ctx) -> Result<()>
where
    R: Field + Linalg<Real = R>,
    Complex<R>: Field + Linalg<Real = R>,
    T: Field + Linalg<Real = R>,
{
    let n = matrix(a).1;
    let a = Items::columns::<T>(a, ctx)?;
    each::<Complex<R>>(out, 1, ctx, |i, out| {
        let (values, vectors) = out.split_at_mut(n);
        let vectors = (what == Factor::Eig).then_some(vectors);
        T::eig(n, a.item(i), values, vectors).map_err(|f| failed("Eigenvalues", f))
    })
}

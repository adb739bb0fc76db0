//! Decompositions of matrices, and what their rules share.
//!
//! A decomposition with several parts is one primitive, which packs them along one axis and has no
//! derivative; it is given its matrix without a gradient. Its parts, and what is made of them, are
//! primitives of the matrix *and* the packed decomposition: they read their value from the second
//! argument and are differentiated with respect to the first.
//!
//! Where a derivative does not exist - vectors that belong to eigenvalues or singular values which are
//! equal to rounding, vectors of a singular value that is zero - rules give NaN: what a finite number would
//! have to be depends on what the vectors are used for, which nobody knows here.

mod eigen;
mod factor;
mod matrix;
mod qr;
mod svd;
mod sylvester;

pub use eigen::*;
pub use factor::*;
pub use qr::*;
pub use svd::*;
pub use sylvester::*;

use self::matrix::{matrix, shaped, square};
use crate::aval::{Aval, DType, tuple};
use crate::error::{Error, Result};
use crate::kernels::linalg::Factor;
use crate::ops::*;
use crate::prim::{Onnx, Params, Prim, Samples, V};

/// The primitives of these files.
pub(super) fn entries() -> Vec<Prim> {
    let tables = [
        factor::entries(),
        qr::entries(),
        eigen::entries(),
        svd::entries(),
        sylvester::entries(),
    ];
    tables.concat()
}

/// What the tables say of operators that other formats do not have.
const NONE: Onnx = Onnx::None("ONNX has no decompositions of matrices");

/// The linear algebra of NumPy and SciPy is made of these primitives; its tests check them.
const UNSAMPLED: Samples =
    Samples::None("its arguments belong together, as a matrix and its decomposition do");

/// A decomposition, packed: no derivative of its own.
macro_rules! packed {
    ($factor:ident, $infer:expr) => {
        Class::General {
            infer: |name, _, x| $infer(name, Factor::$factor, x[0]),
            kernel: Kernel::Call(|_, x, aval, ctx| {
                linalg::factor(Factor::$factor, &x[0], aval, ctx)
            }),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        }
    };
}
use packed;

/// Parts of a decomposition, from the arguments of one of its parts.
fn part<'e>(prim: Prim, x: &[V<'e>]) -> V<'e> {
    x[0].apply(prim, Params::None, &[x[1]])
}

/// Which vectors a cotangent asks about: it is not zero in all of one. What is not known of how the others
/// move, since they belong to equal values, does not matter then.
fn asked(ct: V<'_>, axis: usize) -> V<'_> {
    let first = ct.shape().len() - 2;
    let size = ct.abs().reduce(SUM, &[first + axis]);
    let none = size.combine(EQ, size.number(0.0));
    none.not()
}

/// Zero where no cotangent asks.
fn where_asked<'e>(asked: V<'e>, x: V<'e>) -> V<'e> {
    asked.broadcast_to(&x.shape()).select(x, x.zeros())
}

/// Differences below this many units of rounding, compared with the largest value, say nothing.
const NOISE: f64 = 16.0;

fn rounding(dtype: DType) -> f64 {
    NOISE
        * match dtype.real() {
            DType::F32 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        }
}

/// `1 / gaps` with zeros on the diagonal, NaN where a gap is noise beside the largest of `size`.
fn safe_inverse<'e>(gaps: V<'e>, size: V<'e>) -> V<'e> {
    let last = size.shape().len() - 1;
    let largest = size.abs().reduce(MAX, &[last]).as_matrix();
    let noise = largest * rounding(size.dtype());
    let equal = gaps.abs().combine(LE, noise.broadcast_to(&gaps.shape()));
    let diagonal = gaps.rows_to_columns(EQ);
    let divisor = diagonal.select(gaps.number(1.0), gaps);
    let inverse = equal.select(gaps.number(f64::NAN), divisor.reciprocal());
    diagonal.select(gaps.number(0.0), inverse)
}

fn misfit(name: &str, x: &[&Aval]) -> Error {
    let shapes: Vec<String> = x
        .iter()
        .map(|x| format!("{} {}", x.dtype, tuple(&x.shape)))
        .collect();
    Error::Shape(format!("{name}: {} do not fit", shapes.join(" and ")))
}

fn infer_factor(name: &str, what: Factor, x: &Aval) -> Result<Aval> {
    let (batch, m, n) = matrix(name, x)?;
    Ok(shaped(x, batch, &[what.packed(m, n)]))
}

fn infer_square(name: &str, what: Factor, x: &Aval) -> Result<Aval> {
    square(name, x)?;
    infer_factor(name, what, x)
}

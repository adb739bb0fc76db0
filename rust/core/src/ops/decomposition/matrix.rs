//! What rules of matrix decompositions share: triangles, diagonals, adjoints, shape rules, and the forms of entries.

use crate::aval::{Aval, DType, Shape, SliceDim, tuple};
use crate::error::{Error, Result};
use crate::kernels::linalg::Factor;
use crate::ops::*;
use crate::prim::{Onnx, Params, Prim, Samples, V};

/// What the tables say of operators that other formats do not have.
pub(super) const NONE: Onnx = Onnx::None("ONNX has no decompositions of matrices");

/// The linear algebra of NumPy and SciPy is made of these primitives; its tests check them.
pub(super) const UNSAMPLED: Samples =
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

/// The forward rule of a primitive of a matrix and its decomposition: given the matrix's tangent, which is there.
macro_rules! matrix_jvp {
    (|$r:ident, $t:ident| $body:expr) => {
        Some(|$r, $t| match $t[0] {
            Some($t) => $body,
            None => $r.out.zeros(),
        })
    };
}

/// The reverse rule of such a primitive: the decomposition, which was given without a gradient, gets zeros.
macro_rules! matrix_vjp {
    (|$r:ident, $ct:ident| $body:expr) => {
        Some(|$r, $ct, i| {
            if i == 1 {
                return $r.x[1].zeros();
            }
            $body
        })
    };
}
pub(super) use {matrix_jvp, matrix_vjp, packed};

impl<'e> V<'e> {
    /// The conjugate transpose of the last two axes.
    #[must_use]
    pub fn adjoint(self) -> V<'e> {
        self.swap_last().conj_if_complex()
    }

    /// The Hermitian matrix that is meant by the lower triangle of this one.
    pub(super) fn mirrored(self) -> V<'e> {
        let lower = self.triangle(GT);
        lower + lower.adjoint() + self.real_diagonal()
    }

    /// The transposed map of [`V::mirrored`]: what a cotangent of the whole matrix means for the elements
    /// that are read.
    pub(super) fn onto_lower(self) -> V<'e> {
        (self + self.adjoint()).triangle(GT) + self.real_diagonal()
    }

    /// The real part of the diagonal, zero elsewhere.
    fn real_diagonal(self) -> V<'e> {
        let real = if self.dtype().is_complex() {
            self.real().cast(self.dtype())
        } else {
            self
        };
        real.triangle(EQ)
    }

    /// Row and column numbers of a matrix, to be compared.
    fn numbers(self, size: usize) -> V<'e> {
        self.with(self.to.emit(IOTA, Params::Size(size), &[]))
    }

    /// A bool for each element of a matrix like this one: its row number compared with its column
    /// number.
    pub(super) fn rows_to_columns(self, prim: Prim) -> V<'e> {
        let (m, n) = self.sizes();
        let rows = self.numbers(m).reshape(&[m, 1]);
        rows.combine(prim, self.numbers(n))
    }

    /// The two lengths of a matrix.
    pub(super) fn sizes(self) -> (usize, usize) {
        let shape = self.shape();
        (shape[shape.len() - 2], shape[shape.len() - 1])
    }

    /// The elements whose row number compares like this with their column number, zero elsewhere.
    pub(super) fn triangle(self, prim: Prim) -> V<'e> {
        self.rows_to_columns(prim).select(self, self.number(0.0))
    }

    /// The lower triangle with half the diagonal: what a Hermitian matrix is made of by adding its adjoint.
    pub(super) fn lower_half(self) -> V<'e> {
        let halved = self.rows_to_columns(EQ).select(self * 0.5, self);
        halved.triangle(GE)
    }

    /// With ones on the diagonal.
    pub(super) fn unit_diagonal(self) -> V<'e> {
        self.rows_to_columns(EQ).select(self.number(1.0), self)
    }

    /// The diagonals of square matrices.
    pub(super) fn diagonal(self) -> V<'e> {
        let mut shape = self.shape();
        let n = shape.pop().unwrap_or(1);
        shape.pop();
        shape.push(n * n);
        let flat = self.reshape(&shape);
        let mut dims = whole(&shape);
        let last = shape.len() - 1;
        dims[last] = SliceDim {
            start: 0,
            len: n,
            step: n as isize + 1,
        };
        flat.slice(&dims)
    }

    /// The trace of square matrices.
    pub(super) fn trace(self) -> V<'e> {
        let diagonal = self.diagonal();
        diagonal.reduce(SUM, &[diagonal.shape().len() - 1])
    }

    /// Vectors as matrices of one row: they scale columns.
    pub(super) fn as_row(self) -> V<'e> {
        let mut shape = self.shape();
        shape.insert(shape.len() - 1, 1);
        self.reshape(&shape)
    }

    /// Vectors as matrices of one column: they scale rows.
    pub(super) fn as_column(self) -> V<'e> {
        let mut shape = self.shape();
        shape.push(1);
        self.reshape(&shape)
    }

    /// One number for each matrix, to multiply it with.
    pub(super) fn as_matrix(self) -> V<'e> {
        let mut shape = self.shape();
        shape.extend([1, 1]);
        self.reshape(&shape)
    }

    /// `start .. start + len` of the last axis, as a matrix or vector of this shape.
    pub(super) fn part(self, start: usize, core: &[usize]) -> V<'e> {
        let shape = self.shape();
        let batch = &shape[..shape.len() - 1];
        let mut dims = whole(&shape);
        dims[batch.len()] = SliceDim {
            start,
            len: core.iter().product(),
            step: 1,
        };
        let all: Shape = batch.iter().chain(core).copied().collect();
        self.slice(&dims).reshape(&all)
    }

    /// The real part; nothing for a real variable.
    pub(super) fn real_part(self) -> V<'e> {
        if self.dtype().is_complex() {
            self.real()
        } else {
            self
        }
    }

    /// `i` times the imaginary part; `None` for a real variable.
    pub(super) fn imaginary_part(self) -> Option<V<'e>> {
        self.dtype()
            .is_complex()
            .then(|| (self - self.conj()) * 0.5)
    }

    /// A sum of two, of which one may be missing.
    pub(super) fn plus(self, other: Option<V<'e>>) -> V<'e> {
        other.map_or(self, |other| self + other)
    }

    /// Zeros like this one: the cotangent of what has no influence.
    pub(super) fn zeros(self) -> V<'e> {
        self.full_like(0.0)
    }
}

/// A whole array as a region of itself.
pub(super) fn whole(shape: &[usize]) -> Vec<SliceDim> {
    let all = |&len: &usize| SliceDim {
        start: 0,
        len,
        step: 1,
    };
    shape.iter().map(all).collect()
}

/// The axes before the last two, and the lengths of those, of a float or complex argument.
pub(super) fn matrix<'a>(name: &str, x: &'a Aval) -> Result<(&'a [usize], usize, usize)> {
    let [batch @ .., m, n] = &x.shape[..] else {
        return Err(Error::LinAlg(format!(
            "{name}: {}-dimensional array given. Array must be at least two-dimensional",
            x.rank()
        )));
    };
    if !matches!(x.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        return Err(Error::DType(format!(
            "{name}: takes float32, float64, complex64 and complex128, not {}",
            x.dtype.numpy_name()
        )));
    }
    Ok((batch, *m, *n))
}

/// The same of a square matrix.
pub(super) fn square<'a>(name: &str, x: &'a Aval) -> Result<(&'a [usize], usize)> {
    let (batch, m, n) = matrix(name, x)?;
    if m != n {
        return Err(Error::LinAlg(format!(
            "{name}: last 2 dimensions of the array must be square, not {}",
            tuple(&x.shape)
        )));
    }
    Ok((batch, n))
}

/// A result of this shape behind the axes of a batch.
pub(super) fn shaped(x: &Aval, batch: &[usize], core: &[usize]) -> Aval {
    Aval {
        dtype: x.dtype,
        shape: batch.iter().chain(core).copied().collect(),
    }
}

/// That a packed decomposition belongs to its matrix.
pub(super) fn check_packed(
    name: &str,
    batch: &[usize],
    packed: &Aval,
    lengths: &[usize],
) -> Result<()> {
    match &packed.shape[..] {
        [own @ .., length] if own == batch && lengths.contains(length) => Ok(()),
        _ => Err(Error::Shape(format!(
            "{name}: a decomposition of shape {} does not belong to its matrix",
            tuple(&packed.shape)
        ))),
    }
}

/// Parts of a decomposition, from the arguments of one of its parts.
pub(super) fn part<'e>(prim: Prim, x: &[V<'e>]) -> V<'e> {
    x[0].apply(prim, Params::None, &[x[1]])
}

/// Which vectors a cotangent asks about: it is not zero in all of one. What is not known of how the others
/// move, since they belong to equal values, does not matter then.
pub(super) fn asked(ct: V<'_>, axis: usize) -> V<'_> {
    let first = ct.shape().len() - 2;
    let size = ct.abs().reduce(SUM, &[first + axis]);
    let none = size.combine(EQ, size.number(0.0));
    none.not()
}

/// Zero where no cotangent asks.
pub(super) fn where_asked<'e>(asked: V<'e>, x: V<'e>) -> V<'e> {
    asked.broadcast_to(&x.shape()).select(x, x.zeros())
}

/// Differences below this many units of rounding, compared with the largest value, say nothing.
const NOISE: f64 = 16.0;

pub(super) fn rounding(dtype: DType) -> f64 {
    NOISE
        * match dtype.real() {
            DType::F32 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        }
}

/// `1 / gaps` with zeros on the diagonal, NaN where a gap is noise beside the largest of `size`.
pub(super) fn safe_inverse<'e>(gaps: V<'e>, size: V<'e>) -> V<'e> {
    let last = size.shape().len() - 1;
    let largest = size.abs().reduce(MAX, &[last]).as_matrix();
    let noise = largest * rounding(size.dtype());
    let equal = gaps.abs().combine(LE, noise.broadcast_to(&gaps.shape()));
    let diagonal = gaps.rows_to_columns(EQ);
    let divisor = diagonal.select(gaps.number(1.0), gaps);
    let inverse = equal.select(gaps.number(f64::NAN), divisor.reciprocal());
    diagonal.select(gaps.number(0.0), inverse)
}

pub(super) fn misfit(name: &str, x: &[&Aval]) -> Error {
    let shapes: Vec<String> = x
        .iter()
        .map(|x| format!("{} {}", x.dtype, tuple(&x.shape)))
        .collect();
    Error::Shape(format!("{name}: {} do not fit", shapes.join(" and ")))
}

pub(super) fn infer_factor(name: &str, what: Factor, x: &Aval) -> Result<Aval> {
    let (batch, m, n) = matrix(name, x)?;
    Ok(shaped(x, batch, &[what.packed(m, n)]))
}

pub(super) fn infer_square(name: &str, what: Factor, x: &Aval) -> Result<Aval> {
    square(name, x)?;
    infer_factor(name, what, x)
}

//! Eigenvalues and eigenvectors, of Hermitian matrices and of others.

use super::factor::solve_anew;
use super::matrix::*;
use crate::aval::{Aval, DType};
use crate::error::Result;
use crate::kernels::linalg::{self, Factor};
use crate::ops::*;
use crate::prim::{Batching, Class, Cost, Kernel, Params, Prim, PrimDef, V, Wgsl};

primitives! {
    /// Eigenvalues (ascending) and eigenvectors of a Hermitian matrix, from its lower triangle, packed.
    EIGH eigh("x") {
        class: packed!(Eigh, infer_square),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// Eigenvalues of a Hermitian matrix (ascending, of its dtype), from its lower triangle.
    EIGVALSH eigvalsh("x") {
        class: packed!(EighValues, infer_square),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The eigenvalues of a Hermitian matrix. The cotangent of the upper triangle, which is not read, is zero.
    EIGH_VALUES eigh_values("x", "eigh") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, n) = infer_eigen(name, x)?;
                Ok(shaped(x[0], &batch, &[n]).with_dtype(x[0].dtype.real()))
            },
            kernel: Kernel::Lower(|x, _| x[1].part(0, &[x[0].sizes().1]).real_part()),
            // Giles 2008, where the inverse of the vectors is their adjoint.
            jvp: matrix_jvp!(|r, t| {
                let v = eigh_vectors(r.x);
                let last = v.shape().len() - 2;
                (v.conj_if_complex() * t.mirrored().matmul(v)).reduce(SUM, &[last]).real_part()
            }),
            vjp: matrix_vjp!(|r, ct| {
                let v = eigh_vectors(r.x);
                (v * ct.cast(v.dtype()).as_row()).matmul(v.adjoint()).onto_lower()
            }),
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The eigenvectors of a Hermitian matrix, as columns. The cotangent is NaN when eigenvalues are equal to
    /// rounding, and zero in the upper triangle, which is not read.
    EIGH_VECTORS eigh_vectors("x", "eigh") {
        class: Class::General {
            infer: |name, _, x| infer_eigen(name, x).map(|_| x[0].clone()),
            kernel: Kernel::Lower(|x, _| {
                let n = x[0].sizes().1;
                x[1].part(n, &[n, n]).swap_last()
            }),
            // Giles 2008, where the inverse of the vectors is their adjoint.
            jvp: matrix_jvp!(|r, t| {
                let v = r.out;
                let change = v.adjoint().matmul(t.mirrored().matmul(v));
                v.matmul(change * inverse_gaps(eigh_values(r.x)).cast(v.dtype()))
            }),
            vjp: matrix_vjp!(|r, ct| {
                let v = r.out;
                let gaps = inverse_gaps(eigh_values(r.x)).cast(v.dtype());
                let gaps = where_asked(asked(ct, 0).as_row(), gaps);
                let inner = v.adjoint().matmul(ct) * gaps;
                v.matmul(inner).matmul(v.adjoint()).onto_lower()
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// Eigenvalues and eigenvectors of a matrix, packed; complex.
    EIG eig("x") {
        class: packed!(Eig, infer_complex),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// Eigenvalues of a matrix; complex.
    EIGVALS eigvals("x") {
        class: packed!(EigValues, infer_complex),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The eigenvalues of a matrix.
    EIG_VALUES eig_values("x", "eig") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, n) = infer_eigen(name, x)?;
                Ok(shaped(x[1], &batch, &[n]))
            },
            kernel: Kernel::Lower(|x, _| x[1].part(0, &[x[0].sizes().1])),
            // Giles 2008.
            jvp: matrix_jvp!(|r, t| {
                let v = eig_vectors(r.x);
                solve_anew(v, t.cast(v.dtype()).matmul(v), false).diagonal()
            }),
            vjp: matrix_vjp!(|r, ct| {
                let v = eig_vectors(r.x);
                solve_anew(v, ct.as_column() * v.adjoint(), true)
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The eigenvectors of a matrix as columns, of length 1 and with a real largest component. The
    /// cotangent is NaN when eigenvalues are equal to rounding.
    EIG_VECTORS eig_vectors("x", "eig") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, n) = infer_eigen(name, x)?;
                Ok(shaped(x[1], &batch, &[n, n]))
            },
            kernel: Kernel::Lower(|x, _| {
                let n = x[0].sizes().1;
                x[1].part(n, &[n, n]).swap_last()
            }),
            // Giles 2008, and a multiple of each vector that keeps the length and the phase that LAPACK gives it.
            jvp: matrix_jvp!(|r, t| {
                let v = r.out;
                let change = solve_anew(v, t.cast(v.dtype()).matmul(v), false);
                let free = v.matmul(change * inverse_gaps(eig_values(r.x)));
                // Of all multiples of the columns that could be added: those that keep the length and the
                // phase of the largest component.
                let rows = v.shape().len() - 2;
                let along = (v.conj() * free).reduce(SUM, &[rows]);
                let along = along - along.imaginary_part().unwrap_or(along);
                let (chosen, largest) = largest_component(v);
                let turn = chosen.select(free, free.zeros()).reduce(SUM, &[rows]);
                let turn = turn.imaginary_part().unwrap_or(turn) / largest;
                free - v * (along + turn).as_row()
            }),
            vjp: matrix_vjp!(|r, ct| {
                let v = r.out;
                let rows = v.shape().len() - 2;
                let along = (v.conj() * ct).reduce(SUM, &[rows]);
                let turn = along.imaginary_part().unwrap_or(along);
                let (chosen, largest) = largest_component(v);
                let turned = (turn / largest).as_row().broadcast_to(&v.shape());
                let free = ct - v * (along - turn).as_row()
                    - chosen.select(turned, turned.zeros());
                let gaps = inverse_gaps(eig_values(r.x)).conj();
                let inner = v.adjoint().matmul(free) * where_asked(asked(ct, 0).as_row(), gaps);
                solve_anew(v, inner.matmul(v.adjoint()), true)
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }
}

fn eigh_values<'e>(x: &[V<'e>]) -> V<'e> {
    part(EIGH_VALUES, x)
}

fn eigh_vectors<'e>(x: &[V<'e>]) -> V<'e> {
    part(EIGH_VECTORS, x)
}

fn eig_values<'e>(x: &[V<'e>]) -> V<'e> {
    part(EIG_VALUES, x)
}

fn eig_vectors<'e>(x: &[V<'e>]) -> V<'e> {
    part(EIG_VECTORS, x)
}

/// `1 / (w[j] - w[i])` at row `i` and column `j`, zero on the diagonal; NaN where two are equal to rounding.
fn inverse_gaps(w: V<'_>) -> V<'_> {
    let gaps = w.as_row() - w.as_column();
    let size = if w.dtype().is_complex() { w.abs() } else { w };
    safe_inverse(gaps, size)
}

/// For each column the place of its largest component, and that component. It is real.
fn largest_component(v: V<'_>) -> (V<'_>, V<'_>) {
    let rows = v.shape().len() - 2;
    let imaginary = v.imaginary_part().unwrap_or(v).abs();
    let is_real = imaginary.combine(EQ, imaginary.number(0.0));
    let size = v.abs();
    let size = is_real.select(size, size.number(-1.0));
    let at = size.apply(ARGMAX, Params::Axis(rows), &[]);
    let n = v.sizes().0;
    let numbers = v
        .with(v.to.emit(IOTA, Params::Size(n), &[]))
        .reshape(&[n, 1]);
    let chosen = numbers
        .broadcast_to(&v.shape())
        .combine(EQ, at.as_row().broadcast_to(&v.shape()));
    (chosen, chosen.select(v, v.zeros()).reduce(SUM, &[rows]))
}

fn infer_complex(name: &str, what: Factor, x: &Aval) -> Result<Aval> {
    let complex = match x.dtype.real() {
        DType::F32 => DType::C64,
        _ => DType::C128,
    };
    Ok(infer_square(name, what, x)?.with_dtype(complex))
}

fn infer_eigen(name: &str, x: &[&Aval]) -> Result<(crate::aval::Shape, usize)> {
    let (batch, n) = square(name, x[0])?;
    check_packed(name, batch, x[1], &[n + n * n])?;
    Ok((batch.iter().copied().collect(), n))
}

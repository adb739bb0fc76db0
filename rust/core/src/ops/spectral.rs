//! QR, eigenvalues, singular values, and what follows from them.
//!
//! As in `factor`, a decomposition is packed, and its parts are functions of the matrix and the packed
//! decomposition. Where a derivative does not exist - vectors that belong to eigenvalues or singular
//! values which are equal to rounding, vectors of a singular value that is zero - rules give NaN: what a
//! finite number would have to be depends on what the vectors are used for, which nobody knows here.

use super::factor::{UNSAMPLED, infer_factor, solve_anew};
use super::matrix::{check_packed, matrix, shaped, square};
use super::*;
use crate::aval::{Aval, DType, tuple};
use crate::error::{Error, Result};
use crate::kernels::linalg::{self, Factor};
use crate::prim::{Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, V, Wgsl};

const NONE: Onnx = Onnx::None("ONNX has no decompositions of matrices");

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

primitives! {
    /// The QR decomposition, packed in column-major order: `Q` with as many columns as the shorter side of
    /// `x`, then `R`.
    QR qr("x") {
        class: packed!(Qr, infer_factor),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The same with a square `Q`.
    FULL_QR full_qr("x") {
        class: packed!(FullQr, infer_factor),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// `Q` of a QR decomposition of a matrix with no more columns than rows.
    QR_Q qr_q("x", "qr") {
        class: Class::General {
            infer: |name, _, x| infer_tall(name, x).map(|_| x[0].clone()),
            kernel: Kernel::Lower(|x, _| {
                let (m, n) = x[0].sizes();
                x[1].part(0, &[n, m]).swap_last()
            }),
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let (q, upper) = (r.out, qr_r(r.x));
                let right = upper.solve_right(t);
                let inner = q.adjoint().matmul(right);
                right - q.matmul(inner) + q.matmul(turned(inner))
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
                let (q, upper) = (r.out, qr_r(r.x));
                let inner = q.adjoint().matmul(ct);
                let kept = (inner - inner.adjoint()).lower_half() - inner;
                upper.solve_right_adjoint(ct + q.matmul(kept))
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// `R` of a QR decomposition of a matrix with no more columns than rows.
    QR_R qr_r("x", "qr") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, n) = infer_tall(name, x)?;
                Ok(shaped(x[0], &batch, &[n, n]))
            },
            kernel: Kernel::Lower(|x, _| {
                let (m, n) = x[0].sizes();
                x[1].part(m * n, &[n, n]).swap_last()
            }),
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let (q, upper) = (qr_q(r.x), r.out);
                let inner = q.adjoint().matmul(upper.solve_right(t));
                (inner - turned(inner)).matmul(upper)
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
                let (q, upper) = (qr_q(r.x), r.out);
                let inner = ct.triangle(LE).matmul(upper.adjoint());
                let kept = inner - (inner - inner.adjoint()).lower_half();
                q.matmul(upper.solve_right_adjoint(kept))
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

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
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let v = eigh_vectors(r.x);
                let last = v.shape().len() - 2;
                (v.conj_if_complex() * t.mirrored().matmul(v)).reduce(SUM, &[last]).real_part()
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
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
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let v = r.out;
                let change = v.adjoint().matmul(t.mirrored().matmul(v));
                v.matmul(change * inverse_gaps(eigh_values(r.x)).cast(v.dtype()))
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
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
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let v = eig_vectors(r.x);
                solve_anew(v, t.cast(v.dtype()).matmul(v), false).diagonal()
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
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
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
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
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
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

    /// Singular values (descending), left and right singular vectors, packed.
    SVD svd("x") {
        class: packed!(Svd, infer_factor),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The same with square matrices of vectors.
    FULL_SVD full_svd("x") {
        class: packed!(FullSvd, infer_factor),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// Singular values (descending, of the dtype of the matrix).
    SVDVALS svdvals("x") {
        class: packed!(SvdValues, infer_factor),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The singular values.
    SVD_VALUES svd_values("x", "svd") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, m, n) = infer_svd(name, x)?;
                Ok(shaped(x[0], &batch, &[m.min(n)]).with_dtype(x[0].dtype.real()))
            },
            kernel: Kernel::Lower(|x, _| {
                let (m, n) = x[0].sizes();
                x[1].part(0, &[m.min(n)]).real_part()
            }),
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let (u, vh) = (svd_left(r.x), svd_right(r.x));
                let rows = u.shape().len() - 2;
                (u.conj_if_complex() * t.matmul(vh.adjoint())).reduce(SUM, &[rows]).real_part()
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
                let (u, vh) = (svd_left(r.x), svd_right(r.x));
                (u * ct.cast(u.dtype()).as_row()).matmul(vh)
            }),
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The left singular vectors, as columns. The cotangent is NaN when singular values are equal to
    /// rounding, or when there are more rows than columns and one is zero.
    SVD_LEFT svd_left("x", "svd") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, m, n) = infer_svd(name, x)?;
                Ok(shaped(x[0], &batch, &[m, m.min(n)]))
            },
            kernel: Kernel::Lower(|x, _| {
                let (m, n) = x[0].sizes();
                let k = m.min(n);
                x[1].part(k, &[k, m]).swap_last()
            }),
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let (u, parts) = (r.out, Triple::new(r.x));
                let right = t.matmul(parts.vh.adjoint());
                let inner = u.adjoint().matmul(right);
                let change = u.matmul(parts.left_change(inner));
                if parts.m == parts.k {
                    return change;
                }
                change + (right - u.matmul(inner)) * parts.inverse().as_row()
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
                let (u, parts) = (r.out, Triple::new(r.x).asked(ct, 0));
                let inner = u.adjoint().matmul(ct);
                let core = (inner - inner.adjoint()) * parts.gaps() * parts.s.as_row();
                let core = core.plus(parts.phase(inner, 0.5));
                let left = u.matmul(core);
                if parts.m == parts.k {
                    return left.matmul(parts.vh);
                }
                let outside = (ct - u.matmul(inner)) * parts.inverse().as_row();
                (left + outside).matmul(parts.vh)
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The conjugated right singular vectors, as rows. The cotangent is NaN when singular values are equal
    /// to rounding, or when there are more columns than rows and one is zero.
    SVD_RIGHT svd_right("x", "svd") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, m, n) = infer_svd(name, x)?;
                Ok(shaped(x[0], &batch, &[m.min(n), n]))
            },
            kernel: Kernel::Lower(|x, _| {
                let (m, n) = x[0].sizes();
                let k = m.min(n);
                x[1].part(k + m * k, &[k, n])
            }),
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let (vh, parts) = (r.out, Triple::new(r.x));
                let left = parts.u.adjoint().matmul(t);
                let inner = left.matmul(vh.adjoint());
                let change = -parts.right_change(inner).matmul(vh);
                if parts.n == parts.k {
                    return change;
                }
                change + (left - inner.matmul(vh)) * parts.inverse().as_column()
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
                let (vh, parts) = (r.out, Triple::new(r.x).asked(ct, 1));
                let inner = vh.matmul(ct.adjoint());
                let core = (inner - inner.adjoint()) * parts.gaps() * parts.s.as_column();
                let core = core.plus(parts.phase(inner, -0.5));
                let right = core.matmul(vh);
                if parts.n == parts.k {
                    return parts.u.matmul(right);
                }
                let outside = (ct - inner.adjoint().matmul(vh)) * parts.inverse().as_column();
                parts.u.matmul(right + outside)
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The pseudoinverse of a matrix, whose value is the second argument; differentiated at constant rank
    /// (Golub and Pereyra 1973).
    PSEUDOINVERSE pseudoinverse("x", "value") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, m, n) = matrix(name, x[0])?;
                let out = shaped(x[0], batch, &[n, m]);
                if *x[1] == out { Ok(out) } else { Err(misfit(name, x)) }
            },
            kernel: Kernel::Lower(|x, _| x[1]),
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                let (a, p, th) = (r.x[0], r.out, t.adjoint());
                let inside = -p.matmul(t).matmul(p);
                let ph = p.adjoint();
                let rows = p.matmul(ph).matmul(th);
                let columns = th.matmul(ph).matmul(p);
                inside + rows - rows.matmul(a).matmul(p) + columns - p.matmul(a).matmul(columns)
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
                let (a, p, ph, cth) = (r.x[0], r.out, r.out.adjoint(), ct.adjoint());
                let inside = -ph.matmul(ct).matmul(ph);
                let rows = cth.matmul(p).matmul(ph);
                let columns = ph.matmul(p).matmul(cth);
                inside + rows - a.matmul(p.matmul(rows)) + columns - columns.matmul(p).matmul(a)
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The square root of a matrix, whose value is the second argument.
    MATRIX_SQRT matrix_sqrt("x", "value") {
        class: Class::General {
            infer: |name, _, x| {
                square(name, x[0])?;
                if x[0] == x[1] { Ok(x[0].clone()) } else { Err(misfit(name, x)) }
            },
            kernel: Kernel::Lower(|x, _| x[1]),
            jvp: Some(|r, t| {
                let Some(t) = t[0] else { return r.out.zeros() };
                r.out.apply(SYLVESTER, Params::None, &[r.out, t])
            }),
            vjp: Some(|r, ct, i| {
                if i == 1 {
                    return r.x[1].zeros();
                }
                let root = r.out.adjoint();
                root.apply(SYLVESTER, Params::None, &[root, ct])
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The solution `y` of Sylvester's equation `a y + y b = c`.
    SYLVESTER sylvester("a", "b", "c") {
        class: Class::General {
            infer: |name, _, x| {
                let (first, m) = square(name, x[0])?;
                let (second, n) = square(name, x[1])?;
                let (batch, rows, columns) = matrix(name, x[2])?;
                let fits = first == batch && second == batch && (m, n) == (rows, columns);
                if fits && x[0].dtype == x[2].dtype && x[1].dtype == x[2].dtype {
                    Ok(x[2].clone())
                } else {
                    Err(misfit(name, x))
                }
            },
            kernel: Kernel::Call(|_, x, _, ctx| linalg::sylvester(&x[0], &x[1], &x[2], ctx)),
            jvp: Some(|r, t| {
                let left = t[0].map(|t| t.matmul(r.out));
                let right = t[1].map(|t| r.out.matmul(t));
                let mut change = t[2].unwrap_or(r.out.zeros());
                for part in [left, right].into_iter().flatten() {
                    change = change - part;
                }
                r.x[0].apply(SYLVESTER, Params::None, &[r.x[1], change])
            }),
            vjp: Some(|r, ct, i| {
                let (a, b) = (r.x[0].adjoint(), r.x[1].adjoint());
                let back = a.apply(SYLVESTER, Params::None, &[b, ct]);
                match i {
                    0 => -back.matmul(r.out.adjoint()),
                    1 => -r.out.adjoint().matmul(back),
                    _ => back,
                }
            }),
            batching: Batching::Leading,
        },
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a system of equations"),
        numpy: "",
        samples: UNSAMPLED,
    }
}

/// Parts of a decomposition, from the arguments of one of its parts.
fn part<'e>(prim: Prim, x: &[V<'e>]) -> V<'e> {
    x[0].apply(prim, Params::None, &[x[1]])
}

fn qr_q<'e>(x: &[V<'e>]) -> V<'e> {
    part(QR_Q, x)
}

fn qr_r<'e>(x: &[V<'e>]) -> V<'e> {
    part(QR_R, x)
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

fn svd_left<'e>(x: &[V<'e>]) -> V<'e> {
    part(SVD_LEFT, x)
}

fn svd_right<'e>(x: &[V<'e>]) -> V<'e> {
    part(SVD_RIGHT, x)
}

impl<'e> V<'e> {
    /// `b r⁻¹` with this upper triangle.
    fn solve_right(self, b: V<'e>) -> V<'e> {
        let how = linalg::System {
            lower: false,
            transposed: true,
            unit: false,
        };
        self.solve_with(how, b.swap_last()).swap_last()
    }

    /// `b r⁻ᴴ` with this upper triangle.
    fn solve_right_adjoint(self, b: V<'e>) -> V<'e> {
        let how = linalg::System {
            lower: false,
            transposed: false,
            unit: false,
        };
        self.solve_with(how, b.adjoint()).adjoint()
    }
}

/// How `Q` turns: the skew-Hermitian matrix whose lower triangle is that of `inner`.
fn turned(inner: V<'_>) -> V<'_> {
    let lower = inner.triangle(GT);
    let skew = lower - lower.adjoint();
    skew.plus(inner.imaginary_part().map(|i| i.triangle(EQ)))
}

/// Which vectors a cotangent asks about: it is not zero in all of one. What is not known of how the others
/// move, since they belong to equal values, does not matter then.
fn asked(ct: V<'_>, axis: usize) -> V<'_> {
    let first = ct.shape().len() - 2;
    let size = ct.abs().reduce(SUM, &[first + axis]);
    let none = size.compare(EQ, size.number(0.0));
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

/// `1 / (w[j] - w[i])` at row `i` and column `j`, zero on the diagonal; NaN where two are equal to rounding.
fn inverse_gaps(w: V<'_>) -> V<'_> {
    let gaps = w.as_row() - w.as_column();
    let size = if w.dtype().is_complex() { w.abs() } else { w };
    safe_inverse(gaps, size)
}

/// `1 / gaps` with zeros on the diagonal, NaN where a gap is noise beside the largest of `size`.
fn safe_inverse<'e>(gaps: V<'e>, size: V<'e>) -> V<'e> {
    let last = size.shape().len() - 1;
    let largest = size.abs().reduce(MAX, &[last]).as_matrix();
    let noise = largest * rounding(size.dtype());
    let equal = gaps.abs().compare(LE, noise.broadcast_to(&gaps.shape()));
    let diagonal = gaps.rows_to_columns(EQ);
    let divisor = diagonal.select(gaps.number(1.0), gaps);
    let inverse = equal.select(gaps.number(f64::NAN), divisor.reciprocal());
    diagonal.select(gaps.number(0.0), inverse)
}

/// For each column the place of its largest component, and that component. It is real.
fn largest_component(v: V<'_>) -> (V<'_>, V<'_>) {
    let rows = v.shape().len() - 2;
    let imaginary = v.imaginary_part().unwrap_or(v).abs();
    let is_real = imaginary.compare(EQ, imaginary.number(0.0));
    let size = v.abs();
    let size = is_real.select(size, size.number(-1.0));
    let at = size.apply(ARGMAX, Params::Axis(rows), &[]);
    let n = v.sizes().0;
    let numbers = v
        .with(v.emit.emit(IOTA, Params::Size(n), &[]))
        .reshape(&[n, 1]);
    let chosen = numbers
        .broadcast_to(&v.shape())
        .compare(EQ, at.as_row().broadcast_to(&v.shape()));
    (chosen, chosen.select(v, v.zeros()).reduce(SUM, &[rows]))
}

/// A singular value decomposition in a rule.
struct Triple<'e> {
    u: V<'e>,
    /// In the dtype of the matrix.
    s: V<'e>,
    vh: V<'e>,
    real: V<'e>,
    /// Which vectors are asked about, in the reverse pass.
    asked: Option<V<'e>>,
    m: usize,
    n: usize,
    k: usize,
}

impl<'e> Triple<'e> {
    fn new(x: &[V<'e>]) -> Triple<'e> {
        let (m, n) = x[0].sizes();
        let real = part(SVD_VALUES, x);
        Triple {
            u: svd_left(x),
            s: real.cast(x[0].dtype()),
            vh: svd_right(x),
            real,
            asked: None,
            m,
            n,
            k: m.min(n),
        }
    }

    /// Leaves out vectors that no cotangent asks about; they lie along the other axis of a matrix.
    fn asked(self, ct: V<'e>, axis: usize) -> Triple<'e> {
        Triple {
            asked: Some(asked(ct, axis)),
            ..self
        }
    }

    /// `1 / (s[j]² - s[i]²)`, as [`safe_inverse`].
    fn gaps(&self) -> V<'e> {
        let s = self.real;
        let differences = safe_inverse(s.as_row() - s.as_column(), s);
        let sums = s.as_row() + s.as_column();
        // The diagonal is zero already.
        let sums = sums.rows_to_columns(EQ).select(sums.number(1.0), sums);
        let gaps = (differences / sums).cast(self.s.dtype());
        let Some(asked) = self.asked else { return gaps };
        // A pair counts as soon as one of the two does.
        let rows = where_asked(asked.as_column(), gaps);
        asked
            .as_row()
            .broadcast_to(&gaps.shape())
            .select(gaps, rows)
    }

    /// `1 / s`; NaN where a singular value is noise beside the largest.
    fn inverse(&self) -> V<'e> {
        let s = self.real;
        let last = s.shape().len() - 1;
        let noise = s.reduce(MAX, &[last]).as_column() * rounding(s.dtype());
        let zero = s.compare(LE, noise.broadcast_to(&s.shape()));
        let inverse = zero.select(s.number(f64::NAN), s.reciprocal());
        let inverse = inverse.cast(self.s.dtype());
        match self.asked {
            Some(asked) => where_asked(asked, inverse),
            None => inverse,
        }
    }

    /// How the phases of complex vectors move: left and right ones by halves, against each other.
    fn phase(&self, inner: V<'e>, sign: f64) -> Option<V<'e>> {
        let imaginary = inner.imaginary_part()?.triangle(EQ);
        Some(imaginary * self.inverse().as_row() * sign)
    }

    /// `uᴴ du`, given `uᴴ da v`.
    fn left_change(&self, inner: V<'e>) -> V<'e> {
        let s = self.s;
        let change = (inner * s.as_row() + inner.adjoint() * s.as_column()) * self.gaps();
        change.plus(self.phase(inner, 0.5))
    }

    /// `vᴴ dv`.
    fn right_change(&self, inner: V<'e>) -> V<'e> {
        let s = self.s;
        let change = (inner * s.as_column() + inner.adjoint() * s.as_row()) * self.gaps();
        change.plus(self.phase(inner, -0.5))
    }
}

fn misfit(name: &str, x: &[&Aval]) -> Error {
    let shapes: Vec<String> = x
        .iter()
        .map(|x| format!("{} {}", x.dtype, tuple(&x.shape)))
        .collect();
    Error::Shape(format!("{name}: {} do not fit", shapes.join(" and ")))
}

fn infer_square(name: &str, what: Factor, x: &Aval) -> Result<Aval> {
    square(name, x)?;
    infer_factor(name, what, x)
}

fn infer_complex(name: &str, what: Factor, x: &Aval) -> Result<Aval> {
    let complex = match x.dtype.real() {
        DType::F32 => DType::C64,
        _ => DType::C128,
    };
    Ok(infer_square(name, what, x)?.with_dtype(complex))
}

fn infer_tall(name: &str, x: &[&Aval]) -> Result<(crate::aval::Shape, usize)> {
    let (batch, m, n) = matrix(name, x[0])?;
    check_packed(name, batch, x[1], &[m * n + n * n])?;
    if m < n {
        return Err(misfit(name, x));
    }
    Ok((batch.iter().copied().collect(), n))
}

fn infer_eigen(name: &str, x: &[&Aval]) -> Result<(crate::aval::Shape, usize)> {
    let (batch, n) = square(name, x[0])?;
    check_packed(name, batch, x[1], &[n + n * n])?;
    Ok((batch.iter().copied().collect(), n))
}

fn infer_svd(name: &str, x: &[&Aval]) -> Result<(crate::aval::Shape, usize, usize)> {
    let (batch, m, n) = matrix(name, x[0])?;
    let k = m.min(n);
    check_packed(name, batch, x[1], &[k + (m + n) * k])?;
    Ok((batch.iter().copied().collect(), m, n))
}

//! Singular values and vectors, and the pseudoinverse.

use super::matrix::*;
use crate::aval::Aval;
use crate::error::Result;
use crate::kernels::linalg::{self, Factor};
use crate::ops::*;
use crate::prim::{Batching, Class, Cost, Kernel, Prim, PrimDef, V, Wgsl};

primitives! {
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
            // Giles 2008; Townsend 2016.
            jvp: matrix_jvp!(|r, t| {
                let (u, vh) = (svd_left(r.x), svd_right(r.x));
                let rows = u.shape().len() - 2;
                (u.conj_if_complex() * t.matmul(vh.adjoint())).reduce(SUM, &[rows]).real_part()
            }),
            vjp: matrix_vjp!(|r, ct| {
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
            // Townsend 2016; the phases of complex vectors as `Triple::phase` says.
            jvp: matrix_jvp!(|r, t| {
                let (u, parts) = (r.out, Triple::new(r.x));
                let right = t.matmul(parts.vh.adjoint());
                let inner = u.adjoint().matmul(right);
                let change = u.matmul(parts.left_change(inner));
                if parts.m == parts.k {
                    return change;
                }
                change + (right - u.matmul(inner)) * parts.inverse().as_row()
            }),
            vjp: matrix_vjp!(|r, ct| {
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
            // Townsend 2016; the phases of complex vectors as `Triple::phase` says.
            jvp: matrix_jvp!(|r, t| {
                let (vh, parts) = (r.out, Triple::new(r.x));
                let left = parts.u.adjoint().matmul(t);
                let inner = left.matmul(vh.adjoint());
                let change = -parts.right_change(inner).matmul(vh);
                if parts.n == parts.k {
                    return change;
                }
                change + (left - inner.matmul(vh)) * parts.inverse().as_column()
            }),
            vjp: matrix_vjp!(|r, ct| {
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
            // Golub and Pereyra 1973, and its transposed map.
            jvp: matrix_jvp!(|r, t| {
                let (a, p, th) = (r.x[0], r.out, t.adjoint());
                let inside = -p.matmul(t).matmul(p);
                let ph = p.adjoint();
                let rows = p.matmul(ph).matmul(th);
                let columns = th.matmul(ph).matmul(p);
                inside + rows - rows.matmul(a).matmul(p) + columns - p.matmul(a).matmul(columns)
            }),
            vjp: matrix_vjp!(|r, ct| {
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
}

fn svd_left<'e>(x: &[V<'e>]) -> V<'e> {
    part(SVD_LEFT, x)
}

fn svd_right<'e>(x: &[V<'e>]) -> V<'e> {
    part(SVD_RIGHT, x)
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
        let zero = s.combine(LE, noise.broadcast_to(&s.shape()));
        let inverse = zero.select(s.number(f64::NAN), s.reciprocal());
        let inverse = inverse.cast(self.s.dtype());
        match self.asked {
            Some(asked) => where_asked(asked, inverse),
            None => inverse,
        }
    }

    /// How the phases of complex vectors move: left and right ones by halves, against each other. How the motion is
    /// shared is a choice; what does not depend on it has the gradient of Wan and Zhang (2019).
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

fn infer_svd(name: &str, x: &[&Aval]) -> Result<(crate::aval::Shape, usize, usize)> {
    let (batch, m, n) = matrix(name, x[0])?;
    let k = m.min(n);
    check_packed(name, batch, x[1], &[k + (m + n) * k])?;
    Ok((batch.iter().copied().collect(), m, n))
}

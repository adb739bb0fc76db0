//! QR decompositions.

use super::matrix::*;
use crate::aval::Aval;
use crate::error::Result;
use crate::kernels::linalg::{self, Factor};
use crate::ops::*;
use crate::prim::{Batching, Class, Cost, Kernel, Prim, PrimDef, V, Wgsl};

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
            // Walter and Lehmann 2010, in both modes, split into what Q and what R asks for.
            jvp: matrix_jvp!(|r, t| {
                let (q, upper) = (r.out, qr_r(r.x));
                let right = upper.solve_right(t);
                let inner = q.adjoint().matmul(right);
                right - q.matmul(inner) + q.matmul(turned(inner))
            }),
            vjp: matrix_vjp!(|r, ct| {
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
            // Walter and Lehmann 2010.
            jvp: matrix_jvp!(|r, t| {
                let (q, upper) = (qr_q(r.x), r.out);
                let inner = q.adjoint().matmul(upper.solve_right(t));
                (inner - turned(inner)).matmul(upper)
            }),
            vjp: matrix_vjp!(|r, ct| {
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
}

fn qr_q<'e>(x: &[V<'e>]) -> V<'e> {
    part(QR_Q, x)
}

fn qr_r<'e>(x: &[V<'e>]) -> V<'e> {
    part(QR_R, x)
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

fn infer_tall(name: &str, x: &[&Aval]) -> Result<(crate::aval::Shape, usize)> {
    let (batch, m, n) = matrix(name, x[0])?;
    check_packed(name, batch, x[1], &[m * n + n * n])?;
    if m < n {
        return Err(misfit(name, x));
    }
    Ok((batch.iter().copied().collect(), n))
}

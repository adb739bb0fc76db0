//! Sylvester's equation, and square roots of matrices, which are differentiated by it.

use super::matrix::*;
use crate::kernels::linalg;
use crate::prim::{Batching, Class, Cost, Kernel, Params, Prim, PrimDef, Wgsl};

primitives! {
    /// The square root of a matrix, whose value is the second argument.
    MATRIX_SQRT matrix_sqrt("x", "value") {
        class: Class::General {
            infer: |name, _, x| {
                square(name, x[0])?;
                if x[0] == x[1] { Ok(x[0].clone()) } else { Err(misfit(name, x)) }
            },
            kernel: Kernel::Lower(|x, _| x[1]),
            // Higham 2008: y dy + dy y = dx, and its transposed map.
            jvp: matrix_jvp!(|r, t| {
                r.out.apply(SYLVESTER, Params::None, &[r.out, t])
            }),
            vjp: matrix_vjp!(|r, ct| {
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
            // Kao and Hennequin 2020.
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

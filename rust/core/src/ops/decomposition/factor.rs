//! Cholesky and LU factors, and systems of equations.

use super::matrix::*;
use crate::aval::{Aval, tuple};
use crate::error::{Error, Result};
use crate::kernels::linalg::{self, Factor, System};
use crate::ops::*;
use crate::prim::{Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Rule, V, Wgsl};

primitives! {
    /// The lower Cholesky factor `L` of a Hermitian matrix, `x = L Lᴴ`, from its lower triangle: the
    /// cotangent of the upper one is zero.
    CHOLESKY cholesky("x") {
        class: Class::General {
            infer: |name, _, x| square(name, x[0]).map(|_| x[0].clone()),
            kernel: Kernel::Call(|_, x, _, ctx| linalg::cholesky(&x[0], ctx)),
            // Murray 2016: dL = L P(L⁻¹ dx L⁻ᴴ), where P halves the diagonal of the lower triangle, and its transposed
            // map.
            jvp: Some(|r, t| {
                let (l, t) = (r.out, t[0].map_or(r.out.zeros(), V::mirrored));
                let half = l.solve_lower(t);
                l.matmul(l.solve_lower(half.adjoint()).lower_half())
            }),
            vjp: Some(|r, ct, _| {
                let l = r.out;
                let middle = l.adjoint().matmul(ct).lower_half();
                let half = l.solve_lower_adjoint(middle);
                l.solve_lower_adjoint(half.adjoint()).onto_lower()
            }),
            batching: Batching::Leading,
        },
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The solution `y` of `a y = b` with a triangle of `a`: the lower or the upper one, perhaps of the
    /// transposed matrix, perhaps with ones on the diagonal.
    SOLVE_TRIANGULAR triangular_solve("a", "b") {
        class: Class::General {
            infer: |name, _, x| infer_system(name, x[0], x[1]),
            kernel: Kernel::Call(|params, x, _, ctx| {
                linalg::solve_triangular(&x[0], &x[1], system(params), ctx)
            }),
            // Giles 2008: a dy = db - da y, and its transposed map; here onto the elements that are read.
            jvp: Some(|r, t| {
                let how = system(r.params);
                let change = t[0].map(|t| {
                    let t = triangle_of(t, how);
                    -(if how.transposed { t.swap_last() } else { t }).matmul(r.out)
                });
                let right = t[1].map_or_else(|| change.unwrap_or(r.out.zeros()), |t| t.plus(change));
                r.x[0].apply(SOLVE_TRIANGULAR, r.params.clone(), &[right])
            }),
            vjp: Some(|r, ct, i| {
                let how = system(r.params);
                let params = parameters(System { transposed: !how.transposed, ..how });
                let back = r.x[0].apply(SOLVE_TRIANGULAR, params, &[ct.conj_if_complex()]);
                let back = back.conj_if_complex();
                if i == 1 { back } else { triangle_of(outer(r, back, how.transposed), how) }
            }),
            batching: Batching::Leading,
        },
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a system of equations"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The solution `y` of `a y = b`, or of `aᵀ y = b`, for a band matrix: `bands` has an odd number of rows,
    /// the main diagonal in the middle and those above it first, each element in its own column.
    SOLVE_BANDED banded_solve("bands", "b") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, bands, n) = matrix(name, x[0])?;
                let (other, m, _) = matrix(name, x[1])?;
                if batch == other && bands % 2 == 1 && m == n && x[0].dtype == x[1].dtype {
                    return Ok(x[1].clone());
                }
                Err(Error::Shape(format!(
                    "{name}: bands of shape {} and right-hand sides of shape {} do not fit",
                    tuple(&x[0].shape),
                    tuple(&x[1].shape)
                )))
            },
            kernel: Kernel::Call(|params, x, _, ctx| {
                linalg::solve_banded(&x[0], &x[1], system(params).transposed, ctx)
            }),
            // Giles 2008, onto the bands.
            jvp: Some(|r, t| {
                let change = t[0].map(|t| -band_times(t, r.out, system(r.params).transposed));
                let right = t[1].map_or_else(|| change.unwrap_or(r.out.zeros()), |t| t.plus(change));
                r.x[0].apply(SOLVE_BANDED, r.params.clone(), &[right])
            }),
            vjp: Some(|r, ct, i| {
                let how = system(r.params);
                let params = parameters(System { transposed: !how.transposed, ..how });
                let back = r.x[0].apply(SOLVE_BANDED, params, &[ct.conj_if_complex()]);
                let (back, out) = (back.conj_if_complex(), r.out.conj_if_complex());
                match (i, how.transposed) {
                    (1, _) => back,
                    (_, false) => -band_outer(r.x[0], back, out),
                    (_, true) => -band_outer(r.x[0], out, back),
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

    /// The LU decomposition by partial pivoting, packed: the factors in column-major order, for each row
    /// which row of `x` it was, and the sign of that permutation.
    LU lu("x") {
        class: packed!(Lu, infer_factor),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The same; a matrix that is exactly singular is an error.
    NONSINGULAR_LU nonsingular_lu("x") {
        class: packed!(NonsingularLu, infer_factor),
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The solution `y` of `a y = b`, or of `aᵀ y = b`, by the LU decomposition of `a`.
    LU_SOLVE lu_solve("a", "lu", "b") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, n) = square(name, x[0])?;
                check_packed(name, batch, x[1], &[n * n + n + 1])?;
                infer_system(name, x[0], x[2])
            },
            kernel: Kernel::Call(|params, x, _, ctx| {
                linalg::lu_solve(&x[1], &x[2], system(params).transposed, ctx)
            }),
            // Giles 2008: a dy = db - da y, and its transposed map.
            jvp: Some(|r, t| {
                let transposed = system(r.params).transposed;
                let change = t[0].map(|t| {
                    -(if transposed { t.swap_last() } else { t }).matmul(r.out)
                });
                let right = t[2].map_or_else(|| change.unwrap_or(r.out.zeros()), |t| t.plus(change));
                lu_solve(r.x[0], r.x[1], right, transposed)
            }),
            vjp: Some(|r, ct, i| {
                let transposed = system(r.params).transposed;
                if i == 1 {
                    return r.x[1].zeros();
                }
                let ct = ct.conj_if_complex();
                let back = lu_solve(r.x[0], r.x[1], ct, !transposed).conj_if_complex();
                if i == 2 { back } else { outer(r, back, transposed) }
            }),
            batching: Batching::Leading,
        },
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a system of equations"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// `L` below the diagonal and `U` on and above it, of a square matrix whose rows are in the order of
    /// the pivots already. The second argument is the value.
    LU_FACTORS lu_factors("x", "value") {
        class: Class::General {
            infer: |name, _, x| square(name, x[0]).map(|_| x[0].clone()),
            kernel: Kernel::Lower(|x, _| x[1]),
            // In L⁻¹ dx U⁻¹ = L⁻¹ dL + dU U⁻¹ the first term is strictly lower and the second upper triangular.
            jvp: Some(|r, t| {
                let f = r.out;
                let Some(t) = t[0] else { return f.zeros() };
                let lower = System { lower: true, transposed: false, unit: true };
                let upper = System { lower: false, transposed: true, unit: false };
                let middle = f.solve_with(lower, t);
                let middle = f.solve_with(upper, middle.swap_last()).swap_last();
                let l = f.triangle(GT).unit_diagonal();
                l.matmul(middle.triangle(GT)) + middle.triangle(LE).matmul(f.triangle(LE))
            }),
            vjp: matrix_vjp!(|r, ct| {
                let f = r.out;
                let (l, u) = (f.triangle(GT).unit_diagonal(), f.triangle(LE));
                let middle = l.adjoint().matmul(ct.triangle(GT)).triangle(GT)
                    + ct.triangle(LE).matmul(u.adjoint()).triangle(LE);
                let lower = System { lower: true, transposed: true, unit: true };
                let upper = System { lower: false, transposed: false, unit: false };
                let left = f.solve_with(lower, middle.conj_if_complex()).conj_if_complex();
                f.solve_with(upper, left.adjoint()).adjoint()
            }),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: NONE,
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The determinant, from the LU decomposition. Its cotangent is made of cofactors, which singular
    /// matrices have too.
    DET det("x", "lu") {
        class: Class::General {
            infer: |name, _, x| infer_number(name, x).map(|(batch, _)| shaped(x[0], &batch, &[])),
            kernel: Kernel::Lower(|x, _| {
                let (pivots, sign) = pivots(x);
                let last = pivots.shape().len() - 1;
                sign * pivots.reduce(PROD, &[last])
            }),
            // Jacobi's formula: the differential is trace(adjugate(x) dx). Giles 2008 has it with the inverse.
            jvp: matrix_jvp!(|r, t| {
                trace_of_product(r.x[0].apply(ADJUGATE, Params::None, &[r.x[1]]), t)
            }),
            vjp: matrix_vjp!(|r, ct| {
                let adjugate = r.x[0].apply(ADJUGATE, Params::None, &[r.x[1]]);
                adjugate.adjoint() * ct.as_matrix()
            }),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("det"),
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The adjugate: the transposed matrix of cofactors, `det(x)` times the inverse where there is one.
    /// Its derivative needs the inverse.
    ADJUGATE adjugate("x", "lu") {
        class: Class::General {
            infer: |name, _, x| infer_number(name, x).map(|_| x[0].clone()),
            kernel: Kernel::Call(|_, x, _, ctx| linalg::adjugate(&x[0], &x[1], ctx)),
            // Of det(x) x⁻¹, by the product rule.
            jvp: matrix_jvp!(|r, t| {
                let change = lu_solve(r.x[0], r.x[1], t, false);
                let trace = change.trace().as_matrix();
                r.out * trace - change.matmul(r.out)
            }),
            vjp: matrix_vjp!(|r, ct| {
                let product = ct.matmul(r.out.adjoint());
                let trace = product.trace();
                let trace = scaled_identity(trace, product);
                solve_adjoint(r.x[0], r.x[1], trace - product)
            }),
            batching: Batching::Leading,
        },
        cost: Heavy,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The logarithm of the absolute value of the determinant, from the LU decomposition.
    LOGABSDET logabsdet("x", "lu") {
        class: Class::General {
            infer: |name, _, x| {
                let (batch, _) = infer_number(name, x)?;
                let aval = shaped(x[0], &batch, &[]);
                Ok(aval.with_dtype(x[0].dtype.real()))
            },
            kernel: Kernel::Lower(|x, _| {
                let (pivots, _) = pivots(x);
                let last = pivots.shape().len() - 1;
                pivots.abs().log().reduce(SUM, &[last])
            }),
            // Giles 2008: the real part of trace(x⁻¹ dx).
            jvp: matrix_jvp!(|r, t| {
                let change = lu_solve(r.x[0], r.x[1], t, false);
                change.trace().real_part()
            }),
            vjp: matrix_vjp!(|r, ct| {
                solve_adjoint(r.x[0], r.x[1], scaled_identity(ct, r.x[0]))
            }),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }

    /// The sign of the determinant (a number of absolute value 1 for a complex matrix; 0 for a singular
    /// one), from the LU decomposition.
    SIGNDET signdet("x", "lu") {
        class: Class::General {
            infer: |name, _, x| infer_number(name, x).map(|(batch, _)| shaped(x[0], &batch, &[])),
            kernel: Kernel::Lower(|x, _| {
                let (pivots, sign) = pivots(x);
                let last = pivots.shape().len() - 1;
                let signs = if pivots.dtype().is_complex() {
                    let size = pivots.abs();
                    let zero = size.combine(EQ, size.number(0.0));
                    let size = zero.select(size.number(1.0), size).cast(pivots.dtype());
                    pivots / size
                } else {
                    pivots.sign()
                };
                sign * signs.reduce(PROD, &[last])
            }),
            // Of det(x) / |det(x)|: what turns it is the imaginary part of trace(x⁻¹ dx).
            jvp: Some(|r, t| {
                let Some(t) = t[0].filter(|_| r.out.dtype().is_complex()) else {
                    return r.out.zeros();
                };
                let change = lu_solve(r.x[0], r.x[1], t, false);
                let trace = change.trace();
                r.out * trace.imaginary_part().unwrap_or(trace)
            }),
            vjp: Some(|r, ct, i| {
                let turned = ct * r.out.conj_if_complex();
                match turned.imaginary_part().filter(|_| i == 0) {
                    Some(turned) => {
                        solve_adjoint(r.x[0], r.x[1], scaled_identity(turned, r.x[0]))
                    }
                    None => r.x[i].zeros(),
                }
            }),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: NONE,
        wgsl: Wgsl::None("a decomposition"),
        numpy: "",
        samples: UNSAMPLED,
    }
}

impl<'e> V<'e> {
    /// The solution of a system with a triangle of this matrix.
    pub(super) fn solve_with(self, how: System, b: V<'e>) -> V<'e> {
        self.apply(SOLVE_TRIANGULAR, parameters(how), &[b])
    }

    fn solve_lower(self, b: V<'e>) -> V<'e> {
        let how = System {
            lower: true,
            transposed: false,
            unit: false,
        };
        self.solve_with(how, b)
    }

    /// With the adjoint of the lower triangle.
    fn solve_lower_adjoint(self, b: V<'e>) -> V<'e> {
        let how = System {
            lower: true,
            transposed: true,
            unit: false,
        };
        self.solve_with(how, b.conj_if_complex()).conj_if_complex()
    }
}

/// Rows `start .. start + len` of matrices that have `before` rows of zeros put in front and as many behind.
fn shifted(x: V<'_>, before: usize, start: usize, len: usize) -> V<'_> {
    let (mut padded, mut dims) = (x.shape(), whole(&x.shape()));
    let axis = dims.len() - 2;
    padded[axis] += 2 * before;
    dims[axis].start = before;
    let wide = x.pad(&padded, &dims);
    let mut dims = whole(&padded);
    (dims[axis].start, dims[axis].len) = (start, len);
    wide.slice(&dims)
}

/// One diagonal of a band matrix, as a column.
fn diagonal_of(bands: V<'_>, r: usize) -> V<'_> {
    let mut dims = whole(&bands.shape());
    let axis = dims.len() - 2;
    (dims[axis].start, dims[axis].len) = (r, 1);
    bands.slice(&dims).swap_last()
}

/// A band matrix, perhaps transposed, times a matrix.
fn band_times<'e>(bands: V<'e>, x: V<'e>, transposed: bool) -> V<'e> {
    let (rows, n) = bands.sizes();
    let width = rows / 2;
    let term = |r: usize| {
        let diagonal = diagonal_of(bands, r);
        if transposed {
            diagonal * shifted(x, width, r, n)
        } else {
            // Element j of the diagonal belongs to row j + r - width.
            shifted(diagonal * x, width, rows - 1 - r, n)
        }
    };
    (1..rows).fold(term(0), |sum, r| sum + term(r))
}

/// The elements of `p qᵀ` inside the bands of a matrix.
fn band_outer<'e>(bands: V<'e>, p: V<'e>, q: V<'e>) -> V<'e> {
    let (rows, n) = bands.sizes();
    let shape = bands.shape();
    let last = shape.len() - 1;
    let row = |r: usize| {
        let products = shifted(p, rows / 2, r, n) * q;
        let mut dims = whole(&shape);
        (dims[last - 1].start, dims[last - 1].len) = (r, 1);
        products.reduce(SUM, &[last]).as_row().pad(&shape, &dims)
    };
    (1..rows).fold(row(0), |sum, r| sum + row(r))
}

/// The factors in compact form, as the decomposition holds them.
fn compact(packed: V<'_>, m: usize, n: usize) -> V<'_> {
    packed.part(0, &[n, m]).swap_last()
}

/// The pivots and the sign of the permutation, from a packed decomposition.
fn pivots<'e>(x: &[V<'e>]) -> (V<'e>, V<'e>) {
    let n = x[0].sizes().1;
    (compact(x[1], n, n).diagonal(), x[1].part(n * n + n, &[]))
}

fn lu_solve<'e>(a: V<'e>, lu: V<'e>, b: V<'e>, transposed: bool) -> V<'e> {
    let how = System {
        lower: false,
        transposed,
        unit: false,
    };
    a.apply(LU_SOLVE, parameters(how), &[lu, b])
}

/// `a⁻ᴴ b`.
fn solve_adjoint<'e>(a: V<'e>, lu: V<'e>, b: V<'e>) -> V<'e> {
    lu_solve(a, lu, b.conj_if_complex(), true).conj_if_complex()
}

/// `a⁻¹ b` and `a⁻ᴴ b` in a rule, with a decomposition of its own.
pub(super) fn solve_anew<'e>(a: V<'e>, b: V<'e>, adjoint: bool) -> V<'e> {
    let lu = a
        .apply(DROPGRAD, Params::None, &[])
        .apply(LU, Params::None, &[]);
    if adjoint {
        solve_adjoint(a, lu, b)
    } else {
        lu_solve(a, lu, b, false)
    }
}

/// Identity matrices like `like`, times these numbers.
fn scaled_identity<'e>(numbers: V<'e>, like: V<'e>) -> V<'e> {
    let wide = numbers.cast(like.dtype()).as_matrix();
    wide.broadcast_to(&like.shape()).triangle(EQ)
}

/// `trace(a b)`.
fn trace_of_product<'e>(a: V<'e>, b: V<'e>) -> V<'e> {
    let product = a.swap_last() * b;
    let last = product.shape().len();
    product.reduce(SUM, &[last - 2, last - 1])
}

/// What a cotangent of the right-hand side means for the matrix: `-back outᴴ`.
fn outer<'e>(r: &Rule<'_, 'e>, back: V<'e>, transposed: bool) -> V<'e> {
    -(if transposed {
        r.out.conj_if_complex().matmul(back.swap_last())
    } else {
        back.matmul(r.out.adjoint())
    })
}

/// The elements of a matrix that a triangular system reads.
fn triangle_of(x: V<'_>, how: System) -> V<'_> {
    x.triangle(match (how.lower, how.unit) {
        (true, false) => GE,
        (true, true) => GT,
        (false, false) => LE,
        (false, true) => LT,
    })
}

fn system(params: &Params) -> System {
    match *params {
        Params::System {
            lower,
            transposed,
            unit,
        } => System {
            lower,
            transposed,
            unit,
        },
        _ => System {
            lower: false,
            transposed: false,
            unit: false,
        },
    }
}

fn parameters(how: System) -> Params {
    Params::System {
        lower: how.lower,
        transposed: how.transposed,
        unit: how.unit,
    }
}

/// The packed form of a decomposition.
fn infer_number(name: &str, x: &[&Aval]) -> Result<(crate::aval::Shape, usize)> {
    let (batch, n) = square(name, x[0])?;
    check_packed(name, batch, x[1], &[n * n + n + 1])?;
    Ok((batch.iter().copied().collect(), n))
}

/// A system of equations: the result is like the right-hand side.
fn infer_system(name: &str, a: &Aval, b: &Aval) -> Result<Aval> {
    let (batch, n) = square(name, a)?;
    let (other, m, _) = matrix(name, b)?;
    if batch != other || m != n || a.dtype != b.dtype {
        return Err(Error::Shape(format!(
            "{name}: a matrix {} {} and right-hand sides {} {} do not fit",
            a.dtype,
            tuple(&a.shape),
            b.dtype,
            tuple(&b.shape)
        )));
    }
    Ok(b.clone())
}

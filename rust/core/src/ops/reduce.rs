//! Reductions over axes, which the result then lacks, and accumulations along an axis.

use super::*;
use crate::aval::{Aval, Axes, DType, SliceDim, inverse, tuple};
use crate::error::{Error, Result};
use crate::kernels::{
    Ctx, ReduceOp, Value, argreduce, argsort, cummax, cummin, cumsum, linear_recurrence,
};
use crate::prim::{
    Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Rule, Sample, Samples, V, Wgsl,
};

primitives! {
    /// The sum over axes.
    SUM sum("x") {
        class: Class::Linear {
            infer: infer_reduce,
            kernel: Kernel::Reduce(ReduceOp::Sum),
            transpose: |r, ct, _| ct.expand(r.params.axes(), &r.x[0].shape()),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Op("ReduceSum", 13),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.sum({0}, axis={axes})",
        samples: Samples::List(reduce_samples),
    }

    /// The mean over axes.
    MEAN mean("x") {
        class: Class::Linear {
            infer: infer_reduce,
            kernel: Kernel::Lower(|x, params| {
                x[0].reduce(SUM, params.axes()) / count(x[0], params.axes())
            }),
            transpose: |r, ct, _| {
                let n = count(r.x[0], r.params.axes());
                (ct / n).expand(r.params.axes(), &r.x[0].shape())
            },
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("mean"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.mean({0}, axis={axes})",
        samples: Samples::List(reduce_samples),
    }

    /// The product over axes. The derivative is exact with zeros among the factors, to any order:
    /// it multiplies all other factors (a balanced tree) instead of dividing by one.
    PROD prod("x") {
        class: Class::General {
            infer: infer_reduce,
            kernel: Kernel::Reduce(ReduceOp::Prod),
            jvp: Some(|r, t| {
                let t = t[0].expect("one argument, so its tangent is there");
                (t * other_factors(r.x[0], r.params.axes())).reduce(SUM, r.params.axes())
            }),
            vjp: Some(|r, ct, _| {
                let others = other_factors(r.x[0], r.params.axes());
                ct.expand(r.params.axes(), &r.x[0].shape()) * others.conj_if_complex()
            }),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Op("ReduceProd", 18),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.prod({0}, axis={axes})",
        samples: Samples::List(reduce_samples),
    }

    /// The largest element over axes; of bools, whether any holds. NaN when one of them is.
    /// Elements that tie for it share the cotangent equally.
    MAX max("x") {
        class: Class::General {
            infer: infer_reduce,
            kernel: Kernel::Reduce(ReduceOp::Max),
            jvp: Some(|r, t| extremum_jvp(r, t, MAX)),
            vjp: Some(|r, ct, _| extremum_vjp(r, ct, MAX)),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("max"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.max({0}, axis={axes})",
        samples: Samples::List(reduce_samples),
    }

    /// The smallest element over axes; of bools, whether all hold. NaN when one of them is.
    /// Elements that tie for it share the cotangent equally.
    MIN min("x") {
        class: Class::General {
            infer: infer_reduce,
            kernel: Kernel::Reduce(ReduceOp::Min),
            jvp: Some(|r, t| extremum_jvp(r, t, MIN)),
            vjp: Some(|r, ct, _| extremum_vjp(r, ct, MIN)),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("min"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.min({0}, axis={axes})",
        samples: Samples::List(reduce_samples),
    }

    /// `log(sum(exp(x)))` over axes, without overflow. The derivative is the softmax.
    LOGSUMEXP logsumexp("x") {
        class: Class::General {
            infer: |name, params, x| {
                float_only(name, x[0])?;
                infer_reduce(name, params, x)
            },
            kernel: Kernel::Lower(|x, params| {
                let axes = params.axes();
                let top = x[0].reduce(MAX, axes);
                // An infinite maximum is not subtracted: inf - inf is not a number.
                let top = top.map(ISFINITE).select(top, top.number(0.0));
                let shifted = (x[0] - top.expand(axes, &x[0].shape())).exp();
                shifted.reduce(SUM, axes).log() + top
            }),
            jvp: Some(|r, t| {
                let t = t[0].expect("one argument, so its tangent is there");
                (t * softmax(r)).reduce(SUM, r.params.axes())
            }),
            vjp: Some(|r, ct, _| ct.expand(r.params.axes(), &r.x[0].shape()) * softmax(r)),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Op("ReduceLogSumExp", 18),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.log(np.sum(np.exp({0}), axis={axes}))",
        samples: Samples::List(reduce_samples),
    }

    /// The sums of all elements up to each one along an axis; from its end when reversed.
    CUMSUM cumsum("x") {
        class: Class::Linear {
            infer: infer_scan,
            kernel: Kernel::Call(|params, x, _, ctx| {
                let (axis, reverse) = scanned("cumsum", params)?;
                cumsum(&x[0], axis, reverse, ctx)
            }),
            transpose: |r, ct, _| {
                let Params::Scan { axis, reverse } = *r.params else { return ct };
                ct.apply(CUMSUM, Params::Scan { axis, reverse: !reverse }, &[])
            },
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Op("CumSum", 14),
        wgsl: Wgsl::None("a scan"),
        numpy: "",
        samples: Samples::List(scan_samples),
    }

    /// The largest of all elements up to each one along an axis; from its end when reversed. NaN from the first
    /// one on. Of elements that tie the last one has the derivative.
    CUMMAX cummax("x") {
        class: Class::General {
            infer: infer_scan,
            kernel: Kernel::Call(|params, x, _, ctx| {
                let (axis, reverse) = scanned("cummax", params)?;
                cummax(&x[0], axis, reverse, ctx)
            }),
            jvp: Some(|r, t| running_jvp(r, t, CUMMAX)),
            vjp: Some(|r, ct, _| running_vjp(r, ct, CUMMAX)),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("cummax"),
        wgsl: Wgsl::None("a scan"),
        numpy: "",
        samples: Samples::List(scan_samples),
    }

    /// The smallest of all elements up to each one along an axis; from its end when reversed. NaN from the first
    /// one on. Of elements that tie the last one has the derivative.
    CUMMIN cummin("x") {
        class: Class::General {
            infer: infer_scan,
            kernel: Kernel::Call(|params, x, _, ctx| {
                let (axis, reverse) = scanned("cummin", params)?;
                cummin(&x[0], axis, reverse, ctx)
            }),
            jvp: Some(|r, t| running_jvp(r, t, CUMMIN)),
            vjp: Some(|r, ct, _| running_vjp(r, ct, CUMMIN)),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("cummin"),
        wgsl: Wgsl::None("a scan"),
        numpy: "",
        samples: Samples::List(scan_samples),
    }

    /// The sequence `y[i] = a[i] * y[i-1] + b[i]` along an axis, which begins with `b`; from its end when reversed.
    /// Running products are one: with the first factor as the first term and no others. The derivative is such
    /// a recurrence in the other direction, so it is exact with zeros among the factors, to any order.
    LINEAR_RECURRENCE linear_recurrence("a", "b") {
        class: Class::General {
            infer: |name, params, x| {
                if x[0] != x[1] {
                    return Err(Error::Shape(format!(
                        "{name}: arguments of different dtypes or shapes, {} and {}",
                        x[0], x[1]
                    )));
                }
                infer_scan(name, params, x)
            },
            kernel: Kernel::Call(|params, x, _, ctx| {
                let (axis, reverse) = scanned("linear_recurrence", params)?;
                linear_recurrence(&x[0], &x[1], axis, reverse, ctx)
            }),
            jvp: Some(|r, t| {
                let factors = t[0].map(|t| t * beside(r.out, r.params, false));
                let terms = match (factors, t[1]) {
                    (Some(a), Some(b)) => a + b,
                    (Some(t), None) | (None, Some(t)) => t,
                    (None, None) => r.out.full_like(0.0),
                };
                r.x[0].apply(LINEAR_RECURRENCE, r.params.clone(), &[terms])
            }),
            vjp: Some(|r, ct, i| {
                let Params::Scan { axis, reverse } = *r.params else { return ct };
                let back = Params::Scan { axis, reverse: !reverse };
                let factors = beside(r.x[0], r.params, true).conj_if_complex();
                let terms = factors.apply(LINEAR_RECURRENCE, back, &[ct]);
                if i == 1 {
                    return terms;
                }
                terms * beside(r.out, r.params, false).conj_if_complex()
            }),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("linear_recurrence"),
        wgsl: Wgsl::None("a scan"),
        numpy: "",
        samples: Samples::List(recurrence_samples),
    }

    /// The index of the first largest element along an axis; that of a NaN when there is one.
    ARGMAX argmax("x") {
        class: Class::General {
            infer: infer_arg,
            kernel: Kernel::Call(|params, x, _, ctx| arg(true, params, x, ctx)),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("argmax"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.argmax({0}, axis={axis})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::Axis(1))]),
    }

    /// The index of the first smallest element along an axis; that of a NaN when there is one.
    ARGMIN argmin("x") {
        class: Class::General {
            infer: infer_arg,
            kernel: Kernel::Call(|params, x, _, ctx| arg(false, params, x, ctx)),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("argmin"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "np.argmin({0}, axis={axis})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::Axis(0))]),
    }

    /// The indices that sort along an axis: stable, NaN last.
    ARGSORT argsort("x") {
        class: Class::General {
            infer: |name, params, x| {
                let Params::Axis(axis) = params else { return Err(missing(name, "axis")) };
                check_axis(name, *axis, x[0])?;
                Ok(x[0].with_dtype(DType::I64))
            },
            kernel: Kernel::Call(|params, x, _, ctx| {
                let Params::Axis(axis) = params else { return Err(missing("argsort", "axis")) };
                argsort(&x[0], *axis, ctx)
            }),
            jvp: None,
            vjp: None,
            batching: Batching::Leading,
        },
        cost: Heavy,
        onnx: Onnx::Recipe("argsort"),
        wgsl: Wgsl::None("a sort"),
        numpy: "np.argsort({0}, axis={axis}, kind='stable')",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::Axis(1))]),
    }
}

fn sample(shape: &[usize], params: Params) -> Sample {
    Sample {
        inputs: vec![(shape.to_vec(), -2.0, 2.0)],
        params,
    }
}

fn reduce_samples() -> Vec<Sample> {
    let axes = |axes: &[usize]| Params::Axes(Axes::from_slice(axes));
    vec![
        sample(&[3, 4], axes(&[0, 1])),
        sample(&[3, 4], axes(&[1])),
        sample(&[3, 4], axes(&[0])),
        sample(&[2, 3, 4], axes(&[1])),
        sample(&[2, 3, 4], axes(&[0, 2])),
        sample(&[5], axes(&[0])),
    ]
}

fn scan_samples() -> Vec<Sample> {
    let scan = |axis, reverse| sample(&[3, 4], Params::Scan { axis, reverse });
    vec![scan(1, false), scan(1, true), scan(0, false)]
}

fn recurrence_samples() -> Vec<Sample> {
    let two = |axis, reverse| Sample {
        inputs: vec![(vec![3, 4], -1.5, 1.5), (vec![3, 4], -2.0, 2.0)],
        params: Params::Scan { axis, reverse },
    };
    vec![two(1, false), two(1, true), two(0, false)]
}

/// For each element of an accumulation the one before it, or behind it; 0 where there is none.
fn beside<'e>(x: V<'e>, params: &Params, behind: bool) -> V<'e> {
    let Params::Scan { axis, reverse } = *params else {
        return x;
    };
    let shape = x.shape();
    let part = |start: usize| -> Vec<SliceDim> {
        (shape.iter().enumerate())
            .map(|(i, &n)| SliceDim {
                start: if i == axis { start.min(n) } else { 0 },
                len: if i == axis { n.saturating_sub(1) } else { n },
                step: 1,
            })
            .collect()
    };
    // Towards the end or the beginning of the axis.
    let (from, to) = if behind == reverse { (0, 1) } else { (1, 0) };
    x.slice(&part(from)).pad(&shape, &part(to))
}

fn missing(name: &str, what: &str) -> Error {
    Error::Program(format!("{name}: the parameter {what} is missing"))
}

fn check_axis(name: &str, axis: usize, x: &Aval) -> Result<()> {
    if axis < x.rank() {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "{name}: axis {axis} is out of bounds for shape {}",
        tuple(&x.shape)
    )))
}

fn float_only(name: &str, x: &Aval) -> Result<()> {
    if x.dtype.is_inexact() && !x.dtype.is_complex() {
        return Ok(());
    }
    Err(Error::DType(format!(
        "{name}: takes floats, not {}",
        x.dtype.numpy_name()
    )))
}

fn infer_reduce(name: &str, params: &Params, x: &[&Aval]) -> Result<Aval> {
    let Params::Axes(axes) = params else {
        return Err(missing(name, "axes"));
    };
    for (i, &axis) in axes.iter().enumerate() {
        check_axis(name, axis, x[0])?;
        if axes[..i].contains(&axis) {
            return Err(Error::Shape(format!(
                "{name}: axis {axis} stands twice in the axes"
            )));
        }
    }
    if x[0].dtype == DType::Bool && !matches!(name, "max" | "min") {
        return Err(Error::DType(format!(
            "{name}: takes numbers, not bool; cast to int64 first"
        )));
    }
    if matches!(name, "max" | "min")
        && axes.iter().any(|&a| x[0].shape[a] == 0)
        && x[0].dtype != DType::Bool
    {
        return Err(Error::Shape(format!(
            "{name}: no element to choose from: axes {} of shape {}",
            tuple(axes),
            tuple(&x[0].shape)
        )));
    }
    let kept = (0..x[0].rank())
        .filter(|i| !axes.contains(i))
        .map(|i| x[0].shape[i]);
    Ok(Aval {
        dtype: x[0].dtype,
        shape: kept.collect(),
    })
}

/// The axis of an accumulation, and whether it starts at its end.
fn scanned(name: &str, params: &Params) -> Result<(usize, bool)> {
    match *params {
        Params::Scan { axis, reverse } => Ok((axis, reverse)),
        _ => Err(missing(name, "axis")),
    }
}

fn infer_scan(name: &str, params: &Params, x: &[&Aval]) -> Result<Aval> {
    let (axis, _) = scanned(name, params)?;
    check_axis(name, axis, x[0])?;
    Ok(x[0].clone())
}

fn infer_arg(name: &str, params: &Params, x: &[&Aval]) -> Result<Aval> {
    let Params::Axis(axis) = params else {
        return Err(missing(name, "axis"));
    };
    check_axis(name, *axis, x[0])?;
    if x[0].shape[*axis] == 0 {
        return Err(Error::Shape(format!(
            "{name}: no element to choose from: axis {axis} of shape {}",
            tuple(&x[0].shape)
        )));
    }
    let mut shape = x[0].shape.clone();
    shape.remove(*axis);
    Ok(Aval {
        dtype: DType::I64,
        shape,
    })
}

fn arg(max: bool, params: &Params, x: &[Value], ctx: &Ctx) -> Result<Value> {
    let Params::Axis(axis) = params else {
        return Err(missing("argmax", "axis"));
    };
    argreduce(max, &x[0], Some(*axis), ctx)
}

/// How many elements a reduction combines, as a number of the array's dtype.
fn count<'e>(x: V<'e>, axes: &[usize]) -> V<'e> {
    let shape = x.shape();
    x.number(axes.iter().map(|&a| shape[a] as f64).product())
}

/// Where the extremum is taken, and by how many elements.
///
/// It is not the result that elements are compared with: that may have been computed before, from
/// sums that have other last digits when they are computed again for this.
fn winners<'e>(r: &Rule<'_, 'e>, extremum: Prim) -> (V<'e>, V<'e>) {
    let (x, axes) = (r.x[0], r.params.axes());
    let top = x.reduce(extremum, axes);
    let wins = x.combine(EQ, top.expand(axes, &x.shape()));
    (wins, wins.cast(x.dtype()).reduce(SUM, axes))
}

fn extremum_vjp<'e>(r: &Rule<'_, 'e>, ct: V<'e>, extremum: Prim) -> V<'e> {
    let (x, axes) = (r.x[0], r.params.axes());
    let (wins, ties) = winners(r, extremum);
    wins.select((ct / ties).expand(axes, &x.shape()), x.number(0.0))
}

fn extremum_jvp<'e>(r: &Rule<'_, 'e>, t: &[Option<V<'e>>], extremum: Prim) -> V<'e> {
    let t = t[0].expect("one argument, so its tangent is there");
    let (wins, ties) = winners(r, extremum);
    wins.select(t, t.number(0.0)).reduce(SUM, r.params.axes()) / ties
}

/// For each place of a running extremum the index, in the flattened array, of the last element that attains it so
/// far; of NaN, which nothing compares with, the last one so far.
fn running_index<'e>(r: &Rule<'_, 'e>, extremum: Prim) -> V<'e> {
    let (x, shape) = (r.x[0], r.x[0].shape());
    let Params::Scan { axis, reverse } = *r.params else {
        unreachable!("inference has seen the parameters")
    };
    let count = |n: usize| x.with(x.to.emit(IOTA, Params::Size(n), &[]));
    let along: Vec<usize> = (0..shape.len())
        .map(|i| if i == axis { shape[i] } else { 1 })
        .collect();
    let own = count(shape[axis]).reshape(&along).broadcast_to(&shape);
    let top = x.apply(extremum, r.params.clone(), &[]);
    let mut attains = x.combine(EQ, top);
    if x.dtype().is_inexact() {
        attains = attains.combine(LOGICAL_OR, x.map(ISNAN));
    }
    // The first element attains it, so the filling is never the last word.
    let (latest, filling) = if reverse {
        (CUMMIN, shape[axis].saturating_sub(1))
    } else {
        (CUMMAX, 0)
    };
    let found =
        attains
            .select(own, own.number(filling as f64))
            .apply(latest, r.params.clone(), &[]);
    let stride: usize = shape[axis + 1..].iter().product();
    let flat = count(shape.iter().product()).reshape(&shape);
    flat + (found - own) * own.number(stride as f64)
}

fn running_jvp<'e>(r: &Rule<'_, 'e>, t: &[Option<V<'e>>], extremum: Prim) -> V<'e> {
    let t = t[0].expect("one argument, so its tangent is there");
    t.reshape(&[t.shape().iter().product()]).apply(
        GATHER,
        Params::None,
        &[running_index(r, extremum)],
    )
}

fn running_vjp<'e>(r: &Rule<'_, 'e>, ct: V<'e>, extremum: Prim) -> V<'e> {
    let shape = ct.shape();
    let size = [shape.iter().product()];
    let index = running_index(r, extremum).reshape(&size);
    ct.number(0.0)
        .broadcast_to(&size)
        .apply(SCATTER_ADD, Params::None, &[index, ct.reshape(&size)])
        .reshape(&shape)
}

/// The derivative of a log-sum-exp: `exp(x - out)`, and 0 where all elements are minus infinity.
fn softmax<'e>(r: &Rule<'_, 'e>) -> V<'e> {
    let x = r.x[0];
    let is_nothing = r.out.combine(EQ, r.out.number(f64::NEG_INFINITY));
    let out = is_nothing.select(r.out.number(0.0), r.out);
    (x - out.expand(r.params.axes(), &x.shape())).exp()
}

/// For each element the product of all others that it is reduced with: up a tree of pairwise
/// products, then down it, handing each half the product of everything outside.
fn other_factors<'e>(x: V<'e>, axes: &[usize]) -> V<'e> {
    let shape = x.shape();
    let rank = shape.len();
    let kept: Vec<usize> = (0..rank).filter(|i| !axes.contains(i)).collect();
    let perm: Vec<usize> = kept.iter().chain(axes).copied().collect();
    let rows: usize = kept.iter().map(|&i| shape[i]).product();
    let n: usize = axes.iter().map(|&i| shape[i]).product();
    if rows * n == 0 {
        return x;
    }
    let every_second = |v: V<'e>, start: usize, len: usize| {
        v.slice(&[
            SliceDim {
                start: 0,
                len: rows,
                step: 1,
            },
            SliceDim {
                start,
                len,
                step: 2,
            },
        ])
    };
    // Each level: both halves of the pairs, and the length before it was made even.
    let mut levels = Vec::new();
    let mut level = x.transpose(&perm).reshape(&[rows, n]);
    let mut len = n;
    while len > 1 {
        if len % 2 == 1 {
            let one = x.number(1.0).broadcast_to(&[rows, 1]);
            level = level.apply(CONCATENATE, Params::Axis(1), &[one]);
        }
        let half = len.div_ceil(2);
        let (left, right) = (every_second(level, 0, half), every_second(level, 1, half));
        levels.push((left, right, len));
        level = left * right;
        len = half;
    }
    let mut others = x.number(1.0).broadcast_to(&[rows, 1]);
    for (left, right, len) in levels.into_iter().rev() {
        let half = len.div_ceil(2);
        let place = |v: V<'e>, start: usize| {
            v.pad(
                &[rows, 2 * half],
                &[
                    SliceDim {
                        start: 0,
                        len: rows,
                        step: 1,
                    },
                    SliceDim {
                        start,
                        len: half,
                        step: 2,
                    },
                ],
            )
        };
        others = (place(others * right, 0) + place(others * left, 1)).slice(&[
            SliceDim {
                start: 0,
                len: rows,
                step: 1,
            },
            SliceDim {
                start: 0,
                len,
                step: 1,
            },
        ]);
    }
    let moved: Vec<usize> = perm.iter().map(|&i| shape[i]).collect();
    others.reshape(&moved).transpose(&inverse(&perm))
}

//! Primitives that move elements without changing them, and changes of dtype. All are linear.

use std::iter;

use crate::aval::{
    Aval, Axes, DType, Shape, SliceDim, broadcast, checked_size, inverse, size_of, tuple,
};
use crate::error::{Error, Result};
use crate::kernels::{
    LaneOp, concatenate_into, concatenate_laid_out, pad_into, pad_laid_out, stack_into,
    stack_laid_out,
};
use crate::prim::{
    Batch, Batching, Class, Cost, Kernel, Onnx, Own, Params, Prim, PrimDef, Sample, Samples, V,
    Wgsl,
};

primitives! {
    /// The same numbers in another dtype. A float becomes an integer by truncation, a complex number
    /// a float by its real part.
    CAST cast("x") {
        class: Class::Linear {
            infer: |name, params, x| match params {
                Params::DType(dtype) => Ok(x[0].with_dtype(*dtype)),
                _ => Err(missing(name, "dtype")),
            },
            kernel: Kernel::Cast,
            transpose: |r, ct, _| ct.cast(r.x[0].dtype()),
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::Op("Cast", 13),
        wgsl: Wgsl::Expr("{type}({0})"),
        numpy: "np.asarray({0}).astype({dtype})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::DType(DType::F32))]),
    }

    /// The complex conjugate.
    CONJ conj("x") {
        class: Class::Linear {
            infer: |_, _, x| Ok(x[0].clone()),
            kernel: Kernel::Lane(LaneOp::Conj),
            transpose: |_, ct, _| ct.conj(),
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::None("ONNX has no complex numbers"),
        wgsl: Wgsl::None("WGSL has no complex numbers"),
        numpy: "np.conj({0})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::None)]),
    }

    /// The real part of a complex number.
    REAL real("z") {
        class: Class::Linear {
            infer: |name, _, x| part(name, x[0]),
            kernel: Kernel::Lane(LaneOp::Real),
            transpose: |_, ct, _| ct.apply(COMPLEX, Params::None, &[ct.number(0.0)]),
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::None("ONNX has no complex numbers"),
        wgsl: Wgsl::None("WGSL has no complex numbers"),
        numpy: "np.real({0})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::None)]),
    }

    /// The imaginary part of a complex number.
    IMAG imag("z") {
        class: Class::Linear {
            infer: |name, _, x| part(name, x[0]),
            kernel: Kernel::Lane(LaneOp::Imag),
            transpose: |_, ct, _| ct.number(0.0).apply(COMPLEX, Params::None, &[ct]),
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::None("ONNX has no complex numbers"),
        wgsl: Wgsl::None("WGSL has no complex numbers"),
        numpy: "np.imag({0})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::None)]),
    }

    /// The complex number `re + i * im`.
    COMPLEX complex("re", "im") {
        class: Class::Linear {
            infer: |name, _, x| {
                let dtype = x[0].dtype;
                if dtype != x[1].dtype || !matches!(dtype, DType::F32 | DType::F64) {
                    return Err(Error::DType(format!(
                        "{name}: takes two float32 or two float64, not {} and {}",
                        dtype.numpy_name(),
                        x[1].dtype.numpy_name()
                    )));
                }
                let shape = broadcast(&x[0].shape, &x[1].shape).ok_or_else(|| {
                    Error::Shape(format!(
                        "{name}: shapes {} and {} do not broadcast together",
                        tuple(&x[0].shape),
                        tuple(&x[1].shape)
                    ))
                })?;
                Ok(Aval { dtype: dtype.complex(), shape })
            },
            kernel: Kernel::Lane(LaneOp::Complex),
            transpose: |r, ct, i| {
                let part = ct.map(if i == 0 { REAL } else { IMAG });
                part.sum_to(&r.x[i].shape())
            },
            batching: Batching::Aligned,
        },
        cost: Cheap,
        onnx: Onnx::None("ONNX has no complex numbers"),
        wgsl: Wgsl::None("WGSL has no complex numbers"),
        numpy: "({0} + 1j * {1})",
        samples: Samples::List(|| vec![
            Sample { inputs: vec![(vec![3, 4], -2.0, 2.0), (vec![3, 4], -2.0, 2.0)], params: Params::None },
            Sample { inputs: vec![(vec![2, 3], -2.0, 2.0), (vec![3], -2.0, 2.0)], params: Params::None },
        ]),
    }

    /// The same elements, in row-major order, in another shape.
    RESHAPE reshape("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Shape(shape) = params else { return Err(missing(name, "shape")) };
                checked_size(name, shape)?;
                if size_of(shape) != x[0].size() {
                    return Err(Error::Shape(format!(
                        "{name}: cannot bring shape {} into shape {}",
                        tuple(&x[0].shape),
                        tuple(shape)
                    )));
                }
                Ok(Aval { dtype: x[0].dtype, shape: shape.clone() })
            },
            kernel: Kernel::View(|_, x, out| x.reshaped(&out.shape)),
            transpose: |r, ct, _| ct.reshape(&r.x[0].shape()),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: Onnx::Op("Reshape", 13),
        wgsl: Wgsl::None("a layout"),
        numpy: "np.reshape({0}, {shape})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::Shape(Shape::from_slice(&[2, 6])))]),
    }

    /// Axes in another order: axis `i` of the result is axis `axes[i]` of `x`.
    TRANSPOSE transpose("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Axes(perm) = params else { return Err(missing(name, "axes")) };
                let mut seen = vec![false; x[0].rank()];
                for &p in perm {
                    if p < seen.len() {
                        seen[p] = true;
                    }
                }
                if perm.len() != x[0].rank() || seen.contains(&false) {
                    return Err(Error::Shape(format!(
                        "{name}: {} is no order of the axes of shape {}",
                        tuple(perm),
                        tuple(&x[0].shape)
                    )));
                }
                Ok(Aval { dtype: x[0].dtype, shape: perm.iter().map(|&p| x[0].shape[p]).collect() })
            },
            kernel: Kernel::View(|params, x, _| Some(x.transposed(params.axes()))),
            transpose: |r, ct, _| ct.transpose(&inverse(r.params.axes())),
            batching: Batching::Rule(transpose_batch),
        },
        cost: Free,
        onnx: Onnx::Op("Transpose", 13),
        wgsl: Wgsl::None("a layout"),
        numpy: "np.transpose({0}, {axes})",
        samples: Samples::List(|| vec![
            sample(&[3, 4], Params::Axes(Axes::from_slice(&[1, 0]))),
            sample(&[2, 3, 4], Params::Axes(Axes::from_slice(&[2, 0, 1]))),
        ]),
    }

    /// Repeated to a larger shape, as NumPy broadcasts.
    BROADCAST broadcast("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Shape(shape) = params else { return Err(missing(name, "shape")) };
                checked_size(name, shape)?;
                if broadcast(&x[0].shape, shape).as_deref() != Some(shape) {
                    return Err(Error::Shape(format!(
                        "{name}: shape {} does not broadcast to {}",
                        tuple(&x[0].shape),
                        tuple(shape)
                    )));
                }
                Ok(Aval { dtype: x[0].dtype, shape: shape.clone() })
            },
            kernel: Kernel::View(|_, x, out| Some(x.broadcast_to(&out.shape))),
            transpose: |r, ct, _| ct.sum_to(&r.x[0].shape()),
            batching: Batching::Aligned,
        },
        cost: Free,
        onnx: Onnx::Op("Expand", 13),
        wgsl: Wgsl::None("a layout"),
        numpy: "np.broadcast_to({0}, {shape})",
        samples: Samples::List(|| vec![
            sample(&[3, 1], Params::Shape(Shape::from_slice(&[2, 3, 4]))),
            sample(&[], Params::Shape(Shape::from_slice(&[5]))),
        ]),
    }

    /// A strided region: along each axis `start`, `start + step`, ..., `len` elements.
    SLICE slice("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Slice(dims) = params else { return Err(missing(name, "start")) };
                check_region(name, dims, &x[0].shape)?;
                Ok(Aval { dtype: x[0].dtype, shape: dims.iter().map(|d| d.len).collect() })
            },
            kernel: Kernel::View(|params, x, _| match params {
                Params::Slice(dims) => Some(x.sliced(dims)),
                _ => None,
            }),
            transpose: |r, ct, _| match r.params {
                Params::Slice(dims) => ct.pad(&r.x[0].shape(), dims),
                _ => ct,
            },
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: Onnx::Op("Slice", 13),
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: Samples::List(|| vec![
            sample(&[5, 4], Params::Slice(Box::new([dim(1, 2, 2), dim(3, 4, -1)]))),
            sample(&[5], Params::Slice(Box::new([dim(1, 3, 1)]))),
        ]),
    }

    /// Zeros of a larger shape, with `x` as a strided region of it: the transpose of a slice.
    PAD pad("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Region { shape, dims } = params else { return Err(missing(name, "start")) };
                checked_size(name, shape)?;
                check_region(name, dims, shape)?;
                if !dims.iter().map(|d| d.len).eq(x[0].shape.iter().copied()) {
                    return Err(Error::Shape(format!(
                        "{name}: the region is not of shape {}",
                        tuple(&x[0].shape)
                    )));
                }
                Ok(Aval { dtype: x[0].dtype, shape: shape.clone() })
            },
            kernel: Kernel::Write(Own {
                run: |params, x, out, ctx| {
                    let (start, step) = places(params).ok_or_else(|| missing("pad", "start"))?;
                    pad_into(out, &x[0], &start, &step, ctx)
                },
                lay_out: Some(|params, x, out| {
                    let (start, step) = places(params)?;
                    pad_laid_out(x, out, &start, &step)
                }),
            }),
            transpose: |r, ct, _| match r.params {
                Params::Region { dims, .. } => ct.slice(dims),
                _ => ct,
            },
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::Recipe("pad"),
        wgsl: Wgsl::None("a layout"),
        numpy: "",
        samples: Samples::List(|| vec![
            sample(&[2, 3], Params::Region {
                shape: Shape::from_slice(&[4, 6]),
                dims: Box::new([dim(1, 2, 1), dim(4, 3, -2)]),
            }),
        ]),
    }

    /// Arrays one after the other along an axis.
    CONCATENATE concatenate("x...") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Axis(axis) = params else { return Err(missing(name, "axis")) };
                let mut out = x[0].clone();
                if *axis >= out.rank() {
                    return Err(Error::Shape(format!(
                        "{name}: axis {axis} is out of bounds for shape {}",
                        tuple(&out.shape)
                    )));
                }
                for a in &x[1..] {
                    let fits = a.rank() == out.rank()
                        && (0..a.rank()).all(|i| i == *axis || a.shape[i] == out.shape[i]);
                    if !fits {
                        return Err(Error::Shape(format!(
                            "{name}: shapes {} and {} differ in another axis than {axis}",
                            tuple(&x[0].shape),
                            tuple(&a.shape)
                        )));
                    }
                    if a.dtype != out.dtype {
                        return Err(Error::DType(format!(
                            "{name}: arguments of different dtypes {} and {}",
                            out.dtype, a.dtype
                        )));
                    }
                    out.shape[*axis] += a.shape[*axis];
                }
                checked_size(name, &out.shape)?;
                Ok(out)
            },
            kernel: Kernel::Write(Own {
                run: |params, x, out, ctx| match params {
                    Params::Axis(axis) => concatenate_into(out, x, *axis, ctx),
                    _ => Err(missing("concatenate", "axis")),
                },
                lay_out: Some(|params, x, out| match params {
                    Params::Axis(axis) => concatenate_laid_out(x, out, *axis),
                    _ => None,
                }),
            }),
            transpose: |r, ct, i| {
                let Params::Axis(axis) = *r.params else { return ct };
                let starts = r.starts.get_or_init(|| {
                    let lengths = r.x.iter().map(|v| v.shape()[axis]);
                    lengths.scan(0, |end, n| Some(std::mem::replace(end, *end + n))).collect()
                });
                let start = starts[i];
                let dims: Vec<SliceDim> = (r.x[i].shape().iter().enumerate())
                    .map(|(k, &len)| dim(if k == axis { start } else { 0 }, len, 1))
                    .collect();
                ct.slice(&dims)
            },
            batching: Batching::Leading,
        },
        cost: Cheap,
        onnx: Onnx::Op("Concat", 13),
        wgsl: Wgsl::None("a layout"),
        numpy: "np.concatenate([{0}, {1}], axis={axis})",
        samples: Samples::List(|| vec![Sample {
            inputs: vec![(vec![2, 3], -2.0, 2.0), (vec![2, 2], -2.0, 2.0)],
            params: Params::Axis(1),
        }]),
    }

    /// Arrays of one shape along a new first axis.
    STACK stack("x...") {
        class: Class::Linear {
            infer: |name, _, x| {
                if let Some(other) = x[1..].iter().find(|a| a.shape != x[0].shape) {
                    return Err(Error::Shape(format!(
                        "{name}: all arrays must have the same shape, these are {} and {}",
                        tuple(&x[0].shape),
                        tuple(&other.shape)
                    )));
                }
                for other in &x[1..] {
                    same_dtype(name, x[0], other)?;
                }
                let mut out = x[0].clone();
                out.shape.insert(0, x.len());
                checked_size(name, &out.shape)?;
                Ok(out)
            },
            kernel: Kernel::Write(Own {
                run: |_, x, out, ctx| stack_into(out, x, ctx),
                lay_out: Some(|_, x, out| stack_laid_out(x, out)),
            }),
            transpose: |r, ct, i| {
                let shape = r.x[i].shape();
                let whole = shape.iter().map(|&len| dim(0, len, 1));
                let dims: Vec<SliceDim> = iter::once(dim(i, 1, 1)).chain(whole).collect();
                ct.slice(&dims).reshape(&shape)
            },
            batching: Batching::Rule(stack_batch),
        },
        cost: Cheap,
        onnx: Onnx::Recipe("stack"),
        wgsl: Wgsl::None("a layout"),
        numpy: "np.stack([{0}, {1}])",
        samples: Samples::List(|| vec![Sample {
            inputs: vec![(vec![2, 3], -2.0, 2.0), (vec![2, 3], -2.0, 2.0)],
            params: Params::None,
        }]),
    }

    /// The order of elements reversed along axes.
    FLIP flip("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Axes(axes) = params else { return Err(missing(name, "axes")) };
                if let Some(axis) = axes.iter().find(|&&a| a >= x[0].rank()) {
                    return Err(Error::Shape(format!(
                        "{name}: axis {axis} is out of bounds for shape {}",
                        tuple(&x[0].shape)
                    )));
                }
                Ok(x[0].clone())
            },
            kernel: Kernel::View(|params, x, _| {
                let axes = params.axes();
                let dims: Vec<SliceDim> = (x.shape().iter().enumerate())
                    .map(|(i, &n)| if axes.contains(&i) { dim(n.saturating_sub(1), n, -1) } else { dim(0, n, 1) })
                    .collect();
                Some(x.sliced(&dims))
            }),
            transpose: |r, ct, _| ct.apply(FLIP, r.params.clone(), &[]),
            batching: Batching::Leading,
        },
        cost: Free,
        onnx: Onnx::Recipe("flip"),
        wgsl: Wgsl::None("a layout"),
        numpy: "np.flip({0}, {axes})",
        samples: Samples::List(|| vec![sample(&[3, 4], Params::Axes(Axes::from_slice(&[1])))]),
    }
}

/// The axis of examples stays in front.
fn transpose_batch<'e>(b: &Batch<'_, 'e>) -> V<'e> {
    let behind = b.params.axes().iter().map(|a| a + 1);
    b.x[0].transpose(&iter::once(0).chain(behind).collect::<Axes>())
}

/// The new axis comes behind that of examples.
fn stack_batch<'e>(b: &Batch<'_, 'e>) -> V<'e> {
    let x: Vec<V<'e>> = (0..b.x.len()).map(|i| b.full(i)).collect();
    let out = x[0].apply(STACK, Params::None, &x[1..]);
    let mut axes: Axes = (0..out.shape().len()).collect();
    axes.swap(0, 1);
    out.transpose(&axes)
}

fn sample(shape: &[usize], params: Params) -> Sample {
    Sample {
        inputs: vec![(shape.to_vec(), -2.0, 2.0)],
        params,
    }
}

fn dim(start: usize, len: usize, step: isize) -> SliceDim {
    SliceDim { start, len, step }
}

pub(super) fn same_dtype(name: &str, a: &Aval, b: &Aval) -> Result<()> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    Err(Error::DType(format!(
        "{name}: arguments of different dtypes {} and {}",
        a.dtype, b.dtype
    )))
}

/// Where a region starts, and its steps.
fn places(params: &Params) -> Option<(Vec<usize>, Vec<isize>)> {
    match params {
        Params::Region { dims, .. } => Some(dims.iter().map(|d| (d.start, d.step)).unzip()),
        _ => None,
    }
}

fn missing(name: &str, what: &str) -> Error {
    Error::Program(format!("{name}: the parameter {what} is missing"))
}

fn part(name: &str, x: &Aval) -> Result<Aval> {
    if x.dtype.is_complex() {
        return Ok(x.with_dtype(x.dtype.real()));
    }
    Err(Error::DType(format!(
        "{name}: takes complex numbers, not {}",
        x.dtype.numpy_name()
    )))
}

/// Whether a strided region lies inside a shape.
pub(super) fn check_region(name: &str, dims: &[SliceDim], shape: &[usize]) -> Result<()> {
    let inside = |d: &SliceDim, n: usize| {
        let last = (d.len as isize - 1)
            .checked_mul(d.step)
            .and_then(|s| s.checked_add_unsigned(d.start));
        d.len == 0 || (d.start < n && last.is_some_and(|l| l >= 0 && (l as usize) < n))
    };
    if dims.len() == shape.len()
        && dims
            .iter()
            .zip(shape)
            .all(|(d, &n)| d.step != 0 && inside(d, n))
    {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "{name}: the region {dims:?} does not lie inside shape {}",
        tuple(shape)
    )))
}

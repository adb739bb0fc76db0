//! Windows that move along the last axes: convolutions, sums and maxima.
//!
//! A group axis and the expansion of a window close convolutions under differentiation: both backward
//! passes of one are again one. `docs/design/convolution.md` derives that.

use crate::aval::{Aval, DType, Shape, WindowDim, checked_size, tuple};
use crate::error::{Error, Result};
use crate::kernels::{conv, window_max, window_pick, window_sum, window_unpick};
use crate::prim::{
    Batch, Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Rule, Sample, Samples, V,
    Wgsl,
};

primitives! {
    /// The convolution, without turning the kernel round, of images `(n, g, c, ...)` with kernels `(g, o, c, ...)`: `(n, g, o, ...)`, for `g` groups of `c` channels. Each of the last axes has a window.
    CONV conv("x", "y") {
        class: Class::General {
            infer: infer_conv,
            kernel: Kernel::Call(|params, x, out, ctx| conv(&x[0], &x[1], windows("conv", params)?, out, ctx)),
            jvp: Some(|r, t| {
                let left = t[0].map(|t| t.apply(CONV, r.params.clone(), &[r.x[1]]));
                let right = t[1].map(|t| r.x[0].apply(CONV, r.params.clone(), &[t]));
                match (left, right) {
                    (Some(a), Some(b)) => a + b,
                    (Some(a), None) | (None, Some(a)) => a,
                    (None, None) => r.out.full_like(0.0),
                }
            }),
            vjp: Some(conv_vjp),
            batching: Batching::Rule(conv_batch),
        },
        cost: Heavy,
        onnx: Onnx::Recipe("conv"),
        wgsl: Wgsl::None("a product"),
        numpy: "",
        samples: Samples::List(|| vec![
            both(&[2, 1, 3, 5, 4], &[1, 2, 3, 3, 2], &[dim(5, 3, 1, 1, 1, 1), dim(3, 2, 0, 1, 1, 1)]),
            both(&[2, 2, 1, 6], &[2, 3, 1, 2], &[dim(3, 2, 1, 2, 3, 1)]),
            both(&[1, 1, 2, 3, 2, 3], &[1, 1, 2, 2, 1, 2], &[
                dim(6, 2, 1, 1, 1, 2), dim(2, 1, 0, 1, 1, 1), dim(2, 2, -1, 1, 1, 1),
            ]),
            both(&[3, 1, 2, 1, 2], &[1, 2, 2, 3, 3], &[dim(1, 3, 1, 1, 1, 1), dim(2, 3, 1, 1, 1, 1)]),
            both(&[2, 2, 3, 2, 2], &[2, 2, 3, 1, 1], &[dim(2, 1, 0, 1, 1, 1), dim(2, 1, 0, 1, 1, 1)]),
        ]),
    }

    /// The sums over windows that move along the last axes.
    WINDOW_SUM window_sum("x") {
        class: Class::Linear {
            infer: |name, params, x| infer_window(name, params, x, true),
            kernel: Kernel::Call(|params, x, out, ctx| {
                window_sum(&x[0], windows("window_sum", params)?, out, ctx)
            }),
            transpose: |r, ct, _| {
                let Params::Windows(dims) = r.params else { return ct };
                let shape = r.x[0].shape();
                let lead = shape.len() - dims.len();
                let back = dims.iter().zip(&shape[lead..]).map(|(d, &n)| d.transposed(n)).collect();
                ct.apply(WINDOW_SUM, Params::Windows(back), &[])
            },
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("window_sum"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "",
        samples: Samples::List(|| vec![
            single(&[2, 5, 6], &[dim(3, 2, 0, 2, 1, 1), dim(3, 3, 1, 2, 1, 1)]),
            single(&[3, 5], &[dim(4, 2, 1, 1, 3, 1)]),
            single(&[2, 3], &[dim(6, 3, 1, 1, 1, 2)]),
        ]),
    }

    /// The greatest elements of windows that move along the last axes.
    WINDOW_MAX window_max("x") {
        class: Class::General {
            infer: |name, params, x| infer_window(name, params, x, false),
            kernel: Kernel::Call(|params, x, out, ctx| {
                window_max(&x[0], windows("window_max", params)?, out, ctx)
            }),
            jvp: Some(|r, t| match t[0] {
                Some(t) => r.x[0].apply(WINDOW_PICK, r.params.clone(), &[t]),
                None => r.out.full_like(0.0),
            }),
            vjp: Some(|r, ct, _| r.x[0].apply(WINDOW_UNPICK, r.params.clone(), &[ct])),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::Recipe("window_max"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "",
        samples: Samples::List(|| vec![
            single(&[2, 4, 6], &[dim(2, 2, 0, 2, 1, 1), dim(3, 2, 0, 2, 1, 1)]),
            single(&[3, 7], &[dim(4, 3, 1, 2, 1, 1)]),
        ]),
    }

    /// The elements of `y` at the places where windows of `x` have their greatest elements, the first of equal ones.
    WINDOW_PICK window_pick("x", "y") {
        class: Class::General {
            infer: |name, params, x| {
                same(name, x[0], x[1])?;
                infer_window(name, params, x, false)
            },
            kernel: Kernel::Call(|params, x, out, ctx| {
                window_pick(&x[0], &x[1], windows("window_pick", params)?, out, ctx)
            }),
            jvp: Some(|r, t| match t[1] {
                Some(t) => r.x[0].apply(WINDOW_PICK, r.params.clone(), &[t]),
                None => r.out.full_like(0.0),
            }),
            vjp: Some(|r, ct, i| match i {
                0 => r.x[0].full_like(0.0),
                _ => r.x[0].apply(WINDOW_UNPICK, r.params.clone(), &[ct]),
            }),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::None("the operators of ONNX give no tap of a window"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "",
        samples: Samples::List(|| vec![
            both(&[2, 4, 6], &[2, 4, 6], &[dim(2, 2, 0, 2, 1, 1), dim(3, 2, 0, 2, 1, 1)]),
            both(&[3, 7], &[3, 7], &[dim(4, 3, 1, 2, 1, 1)]),
        ]),
    }

    /// Zeros like `x` to which the elements of `y`, one for each window, are added where windows of `x` have their greatest elements, the first of equal ones.
    WINDOW_UNPICK window_unpick("x", "y") {
        class: Class::General {
            infer: |name, params, x| {
                let places = infer_window(name, params, x, false)?;
                same(name, &places, x[1])?;
                Ok(x[0].clone())
            },
            kernel: Kernel::Call(|params, x, _, ctx| {
                window_unpick(&x[0], &x[1], windows("window_unpick", params)?, ctx)
            }),
            jvp: Some(|r, t| match t[1] {
                Some(t) => r.x[0].apply(WINDOW_UNPICK, r.params.clone(), &[t]),
                None => r.out.full_like(0.0),
            }),
            vjp: Some(|r, ct, i| match i {
                0 => r.x[0].full_like(0.0),
                _ => r.x[0].apply(WINDOW_PICK, r.params.clone(), &[ct]),
            }),
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::None("the operators of ONNX give no tap of a window"),
        wgsl: Wgsl::None("a reduction"),
        numpy: "",
        samples: Samples::List(|| vec![
            both(&[2, 4, 6], &[2, 2, 3], &[dim(2, 2, 0, 2, 1, 1), dim(3, 2, 0, 2, 1, 1)]),
            both(&[3, 7], &[3, 4], &[dim(4, 3, 1, 2, 1, 1)]),
        ]),
    }
}

fn windows<'a>(name: &str, params: &'a Params) -> Result<&'a [WindowDim]> {
    match params {
        Params::Windows(dims) => Ok(dims),
        _ => Err(Error::Program(format!(
            "{name}: the parameter size is missing"
        ))),
    }
}

/// The windows that fit an array of this rank, the first `lead` axes of which have none.
fn checked<'a>(name: &str, params: &'a Params, x: &Aval, lead: usize) -> Result<&'a [WindowDim]> {
    let dims = windows(name, params)?;
    if dims.is_empty() || dims.len() > 3 {
        return Err(Error::Shape(format!(
            "{name}: windows along one, two or three axes, not {}",
            dims.len()
        )));
    }
    if x.rank() < dims.len() + lead {
        return Err(Error::Shape(format!(
            "{name}: windows along {} axes and {lead} axes before them do not fit shape {}",
            dims.len(),
            tuple(&x.shape)
        )));
    }
    // Places are computed with as signed numbers: all of them have to fit.
    let small = |n: usize| n < 1 << 31;
    for d in dims {
        let positive = d.stride >= 1 && d.dilation >= 1 && d.expansion >= 1;
        let fits = [
            d.size,
            d.len,
            d.stride,
            d.dilation,
            d.expansion,
            d.pad.unsigned_abs(),
        ]
        .into_iter()
        .all(small);
        if !positive || !fits {
            return Err(Error::Shape(format!(
                "{name}: strides and dilations are 1 or more, and lengths below 2**31: {d:?}"
            )));
        }
    }
    Ok(dims)
}

fn infer_conv(name: &str, params: &Params, x: &[&Aval]) -> Result<Aval> {
    let (image, kernel) = (x[0], x[1]);
    let dims = checked(name, params, image, 3)?;
    if image.dtype != kernel.dtype {
        return Err(Error::DType(format!(
            "{name}: arguments of different dtypes {} and {}; cast one of them",
            image.dtype, kernel.dtype
        )));
    }
    inexact(name, image.dtype, true)?;
    let fits = image.rank() == dims.len() + 3
        && kernel.rank() == dims.len() + 3
        && image.shape[1] == kernel.shape[0]
        && image.shape[2] == kernel.shape[2]
        && dims
            .iter()
            .zip(&kernel.shape[3..])
            .all(|(d, &n)| d.len == n);
    if !fits {
        return Err(Error::Shape(format!(
            "{name}: images of shape {}, that is (n, groups, channels, ...), and kernels of shape {}, \
             that is (groups, results, channels, ...), do not fit",
            tuple(&image.shape),
            tuple(&kernel.shape)
        )));
    }
    let lead = [image.shape[0], image.shape[1], kernel.shape[1]];
    let shape: Shape = lead
        .into_iter()
        .chain(dims.iter().map(|d| d.size))
        .collect();
    checked_size(name, &shape)?;
    Ok(Aval {
        dtype: image.dtype,
        shape,
    })
}

fn infer_window(name: &str, params: &Params, x: &[&Aval], expanded: bool) -> Result<Aval> {
    let dims = checked(name, params, x[0], 0)?;
    inexact(name, x[0].dtype, expanded)?;
    if !expanded && dims.iter().any(|d| d.expansion != 1) {
        return Err(Error::Shape(format!(
            "{name}: there are no windows of expanded arrays"
        )));
    }
    let lead = x[0].rank() - dims.len();
    let places = dims.iter().map(|d| d.size);
    let shape: Shape = x[0].shape[..lead].iter().copied().chain(places).collect();
    checked_size(name, &shape)?;
    Ok(Aval {
        dtype: x[0].dtype,
        shape,
    })
}

fn inexact(name: &str, dtype: DType, complex: bool) -> Result<()> {
    let real = matches!(dtype, DType::F32 | DType::F64);
    if real || (complex && matches!(dtype, DType::C64 | DType::C128)) {
        return Ok(());
    }
    let also = if complex {
        ", complex64 and complex128"
    } else {
        ""
    };
    Err(Error::DType(format!(
        "{name}: takes float32, float64{also}, not {}; cast it first",
        dtype.numpy_name()
    )))
}

fn same(name: &str, x: &Aval, y: &Aval) -> Result<()> {
    if x == y {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "{name}: the second argument has to be of shape {} and dtype {}, not {} and {}",
        tuple(&x.shape),
        x.dtype,
        tuple(&y.shape),
        y.dtype
    )))
}

/// Back to the images: the transposed windows over the cotangent, with kernels turned round. Back to the
/// kernels: images as `c` images of `n` channels, the cotangent as their kernels, taps as places.
fn conv_vjp<'e>(r: &Rule<'_, 'e>, ct: V<'e>, i: usize) -> V<'e> {
    let Params::Windows(dims) = r.params else {
        return ct;
    };
    let (x, y) = (r.x[0], r.x[1]);
    let last: Vec<usize> = (3..3 + dims.len()).collect();
    let perm = |lead: [usize; 3]| {
        lead.into_iter()
            .chain(last.iter().copied())
            .collect::<Vec<_>>()
    };
    if i == 0 {
        let shape = x.shape();
        let turned = y
            .conj_if_complex()
            .transpose(&perm([0, 2, 1]))
            .turned(&last);
        let back = dims
            .iter()
            .zip(&shape[3..])
            .map(|(d, &n)| d.transposed(n))
            .collect();
        return ct.apply(CONV, Params::Windows(back), &[turned]);
    }
    let images = x.conj_if_complex().transpose(&perm([2, 1, 0]));
    let back = dims.iter().map(|d| d.swapped()).collect();
    let kernels = ct.transpose(&perm([1, 2, 0]));
    images
        .apply(CONV, Params::Windows(back), &[kernels])
        .transpose(&perm([1, 2, 0]))
}

/// Images of examples that share their kernels are more images; kernels of examples are more groups.
fn conv_batch<'e>(b: &Batch<'_, 'e>) -> V<'e> {
    let x = b.full(0);
    let (shape, rank) = (x.shape(), x.shape().len());
    let together = |first: usize, rest: &[usize]| -> Shape {
        std::iter::once(first).chain(rest.iter().copied()).collect()
    };
    if !b.batched[1] {
        let images = x.reshape(&together(shape[0] * shape[1], &shape[2..]));
        let out = images.apply(CONV, b.params.clone(), &[b.x[1]]);
        return out.reshape(&b.shape(&b.out.shape));
    }
    let mut exchanged: Vec<usize> = (0..rank).collect();
    exchanged.swap(0, 1);
    let (images, y) = (shape[1], b.x[1].shape());
    let groups = shape[0] * shape[2];
    let wide = together(images, &together(groups, &shape[3..]));
    let x = x.transpose(&exchanged).reshape(&wide);
    let kernels = b.x[1].reshape(&together(groups, &y[2..]));
    let out = x.apply(CONV, b.params.clone(), &[kernels]);
    let split = together(images, &together(b.size, &b.out.shape[1..]));
    out.reshape(&split).transpose(&exchanged)
}

impl<'e> V<'e> {
    /// With axes from back to front.
    fn turned(self, axes: &[usize]) -> V<'e> {
        let shape = self.shape();
        let axes: Vec<usize> = axes.iter().copied().filter(|&a| shape[a] > 1).collect();
        if axes.is_empty() {
            return self;
        }
        self.apply(super::FLIP, Params::Axes(axes.as_slice().into()), &[])
    }
}

fn dim(
    size: usize,
    len: usize,
    pad: isize,
    stride: usize,
    dilation: usize,
    expansion: usize,
) -> WindowDim {
    WindowDim {
        size,
        len,
        pad,
        stride,
        dilation,
        expansion,
    }
}

fn single(x: &[usize], dims: &[WindowDim]) -> Sample {
    Sample {
        inputs: vec![(x.to_vec(), -2.0, 2.0)],
        params: Params::Windows(dims.into()),
    }
}

fn both(x: &[usize], y: &[usize], dims: &[WindowDim]) -> Sample {
    Sample {
        inputs: vec![(x.to_vec(), -2.0, 2.0), (y.to_vec(), -2.0, 2.0)],
        params: Params::Windows(dims.into()),
    }
}

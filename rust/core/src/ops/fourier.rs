//! Fourier transforms. All are linear; the transpose of each is another one.

use crate::aval::{Aval, Axes, tuple};
use crate::error::{Error, Result};
use crate::kernels::{Value, fourier, fourier_real, real_fourier};
use crate::prim::{
    Batching, Class, Cost, Kernel, Onnx, Params, Prim, PrimDef, Sample, Samples, V, VjpFn, Wgsl,
};

primitives! {
    /// The discrete Fourier transform along axes, `sum(x[k] * exp(-2j * pi * k * m / n))`, with the other sign when `inverse`, times `scale`. The result is complex.
    FFT fft("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::Fourier { axes, .. } = params else { return Err(missing(name, "axes")) };
                check_axes(name, axes, x[0])?;
                float_only(name, x[0])?;
                Ok(x[0].with_dtype(x[0].dtype.complex()))
            },
            kernel: Kernel::Call(|params, x, out, ctx| match params {
                _ if out.size() == 0 => Value::empty(out.clone()),
                Params::Fourier { axes, inverse, scale } => {
                    fourier(&mut x[0], axes, *inverse, *scale, ctx)
                }
                _ => Err(missing("fft", "axes")),
            }),
            transpose: |r, ct, _| match r.params {
                Params::Fourier { axes, inverse, scale } => ct.apply(
                    FFT,
                    Params::Fourier { axes: axes.clone(), inverse: !inverse, scale: *scale },
                    &[],
                ),
                _ => ct,
            },
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::None("ONNX has no complex numbers"),
        wgsl: Wgsl::None("a transform"),
        numpy: "",
        samples: Samples::List(|| vec![
            complex(&[3, 4], &[1], false, 1.0),
            complex(&[5, 3], &[0], true, 0.2),
            complex(&[2, 3, 4], &[0, 2], false, 0.5),
        ]),
    }

    /// The first `n // 2 + 1` values of the transform of `n` real numbers along an axis, times `scale`; the others are their conjugates. When `folded`, values that have such a partner are doubled.
    RFFT rfft("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::RealFourier { axis, length, .. } = params else {
                    return Err(missing(name, "axis"));
                };
                check_axes(name, &[*axis], x[0])?;
                float_only(name, x[0])?;
                if x[0].dtype.is_complex() {
                    return Err(Error::DType(format!(
                        "{name}: takes real numbers, not {}; fft takes complex ones",
                        x[0].dtype.numpy_name()
                    )));
                }
                expect_length(name, x[0], *axis, *length)?;
                let mut out = x[0].with_dtype(x[0].dtype.complex());
                out.shape[*axis] = length / 2 + 1;
                Ok(out)
            },
            kernel: Kernel::Call(|params, x, out, ctx| match params {
                _ if out.size() == 0 => Value::empty(out.clone()),
                Params::RealFourier { axis, folded, scale, .. } => {
                    real_fourier(&x[0], *axis, *folded, *scale, ctx)
                }
                _ => Err(missing("rfft", "axis")),
            }),
            transpose: TO_IRFFT,
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::None("ONNX has no complex numbers"),
        wgsl: Wgsl::None("a transform"),
        numpy: "",
        samples: Samples::List(|| vec![
            real(&[3, 4], 1, 4, false, 1.0),
            real(&[5, 3], 0, 5, true, 0.2),
            real(&[1, 3], 0, 1, false, 1.0),
        ]),
    }

    /// The real numbers, `length` along an axis, of which `x` has the first half of the spectrum, times `scale`: the inverse of `rfft` but for a factor. When `folded`, values that have a partner count once instead of twice.
    IRFFT irfft("x") {
        class: Class::Linear {
            infer: |name, params, x| {
                let Params::RealFourier { axis, length, .. } = params else {
                    return Err(missing(name, "axis"));
                };
                check_axes(name, &[*axis], x[0])?;
                if !x[0].dtype.is_complex() {
                    return Err(Error::DType(format!(
                        "{name}: takes complex numbers, not {}",
                        x[0].dtype.numpy_name()
                    )));
                }
                if *length == 0 {
                    return Err(Error::Shape(format!("{name}: length 0 along axis {axis}")));
                }
                expect_length(name, x[0], *axis, length / 2 + 1)?;
                let mut out = x[0].with_dtype(x[0].dtype.real());
                out.shape[*axis] = *length;
                Ok(out)
            },
            kernel: Kernel::Call(|params, x, out, ctx| match params {
                _ if out.size() == 0 => Value::empty(out.clone()),
                Params::RealFourier { axis, length, folded, scale } => {
                    fourier_real(&x[0], *axis, *length, *folded, *scale, ctx)
                }
                _ => Err(missing("irfft", "axis")),
            }),
            transpose: TO_RFFT,
            batching: Batching::Leading,
        },
        cost: Dear,
        onnx: Onnx::None("ONNX has no complex numbers"),
        wgsl: Wgsl::None("a transform"),
        numpy: "",
        samples: Samples::List(|| vec![
            real(&[3, 4], 1, 6, false, 0.5),
            real(&[3, 4], 1, 7, true, 0.5),
            real(&[3, 4], 0, 4, true, 0.5),
            real(&[3, 4], 0, 5, false, 0.5),
            real(&[1, 3], 0, 1, false, 1.0),
        ]),
    }
}

const TO_IRFFT: VjpFn = |r, ct, _| transposed(IRFFT, r.params, ct);
const TO_RFFT: VjpFn = |r, ct, _| transposed(RFFT, r.params, ct);

/// Both ways have one matrix, but for the weight of what stands for two values.
fn transposed<'e>(prim: Prim, params: &Params, ct: V<'e>) -> V<'e> {
    match *params {
        Params::RealFourier {
            axis,
            length,
            folded,
            scale,
        } => {
            let params = Params::RealFourier {
                axis,
                length,
                folded: !folded,
                scale,
            };
            ct.apply(prim, params, &[])
        }
        _ => ct,
    }
}

fn complex(shape: &[usize], axes: &[usize], inverse: bool, scale: f64) -> Sample {
    Sample {
        inputs: vec![(shape.to_vec(), -2.0, 2.0)],
        params: Params::Fourier {
            axes: Axes::from_slice(axes),
            inverse,
            scale,
        },
    }
}

fn real(shape: &[usize], axis: usize, length: usize, folded: bool, scale: f64) -> Sample {
    Sample {
        inputs: vec![(shape.to_vec(), -2.0, 2.0)],
        params: Params::RealFourier {
            axis,
            length,
            folded,
            scale,
        },
    }
}

fn missing(name: &str, what: &str) -> Error {
    Error::Program(format!("{name}: the parameter {what} is missing"))
}

fn check_axes(name: &str, axes: &[usize], x: &Aval) -> Result<()> {
    if axes.is_empty() {
        return Err(Error::Shape(format!("{name}: no axes")));
    }
    for (i, &axis) in axes.iter().enumerate() {
        if axis >= x.rank() || axes[..i].contains(&axis) {
            return Err(Error::Shape(format!(
                "{name}: axes {} do not fit shape {}",
                tuple(axes),
                tuple(&x.shape)
            )));
        }
        if x.shape[axis] == 0 {
            return Err(Error::Shape(format!(
                "{name}: nothing to transform along axis {axis} of shape {}",
                tuple(&x.shape)
            )));
        }
    }
    Ok(())
}

fn expect_length(name: &str, x: &Aval, axis: usize, length: usize) -> Result<()> {
    if x.shape[axis] == length {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "{name}: needs {length} along axis {axis} of shape {}",
        tuple(&x.shape)
    )))
}

fn float_only(name: &str, x: &Aval) -> Result<()> {
    use crate::aval::DType;
    if matches!(x.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        return Ok(());
    }
    Err(Error::DType(format!(
        "{name}: takes float32, float64 or complex numbers, not {}; cast it first",
        x.dtype.numpy_name()
    )))
}

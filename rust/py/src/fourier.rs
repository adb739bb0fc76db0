//! Fourier transforms as Python functions; what `numpy.fft` and `scipy.fft` are made of.

use cotan::aval::Axes;
use cotan::prim::Params;
use cotan::{Array, ops};
use pyo3::prelude::*;

use crate::array::wrap_result;
use crate::error::OrRaise;
use crate::scalar::Operand;

/// The transform along axes, with a positive exponent when `inverse`, times `scale`.
#[pyfunction]
#[pyo3(signature = (x, axes, inverse=false, scale=1.0))]
pub fn fourier<'py>(
    x: &Bound<'py, PyAny>,
    axes: Vec<usize>,
    inverse: bool,
    scale: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Operand::expect("fft", x)?.array()?;
    let params = Params::Fourier {
        axes: Axes::from_vec(axes),
        inverse,
        scale,
    };
    wrap_result(
        x.py(),
        Array::apply(ops::FFT, params, &[&array]).or_raise()?,
    )
}

/// The first half of the spectrum of real numbers along an axis, times `scale`.
#[pyfunction]
#[pyo3(signature = (x, axis, scale=1.0))]
pub fn real_fourier<'py>(
    x: &Bound<'py, PyAny>,
    axis: usize,
    scale: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Operand::expect("rfft", x)?.array()?;
    let params = Params::RealFourier {
        axis,
        length: array.shape().get(axis).copied().unwrap_or(0),
        folded: false,
        scale,
    };
    wrap_result(
        x.py(),
        Array::apply(ops::RFFT, params, &[&array]).or_raise()?,
    )
}

/// The `length` real numbers along an axis that have this half of a spectrum, times `scale`.
#[pyfunction]
#[pyo3(signature = (x, axis, length, scale=1.0))]
pub fn fourier_real<'py>(
    x: &Bound<'py, PyAny>,
    axis: usize,
    length: usize,
    scale: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let array = Operand::expect("irfft", x)?.array()?;
    let params = Params::RealFourier {
        axis,
        length,
        folded: false,
        scale,
    };
    wrap_result(
        x.py(),
        Array::apply(ops::IRFFT, params, &[&array]).or_raise()?,
    )
}

//! Exports the Fourier transforms that `numpy.fft` and `scipy.fft` are made of.

use cotan::aval::{Axes, DType};
use cotan::prim::Params;
use cotan::{Array, ops};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::array::cell::{PyArray, wrap_result};
use crate::array::operand::Operand;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;

exports!(usual_fourier, fourier, real_fourier, fourier_real);

/// The transform along one axis that is met most: of all that is there, unscaled, the half spectrum of real numbers
/// when `half`. `None` for what has to be looked at more closely.
///
/// In one step, since a short transform takes less time than to look.
#[pyfunction]
#[pyo3(signature = (x: "object", axis: "object", half: "bool") -> "Array | None")]
pub fn usual_fourier<'py>(
    x: &Bound<'py, PyAny>,
    axis: &Bound<'py, PyAny>,
    half: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = x.py();
    if !x.is_instance_of::<PyArray>() || !axis.is_exact_instance_of::<PyInt>() {
        return Ok(None);
    }
    let array = Operand::expect("fft", x)?.array()?;
    let ndim = array.shape().len() as isize;
    let at = axis
        .extract::<isize>()
        .ok()
        .map(|at| if at < 0 { at + ndim } else { at });
    let Some(at) = at.filter(|at| (0..ndim).contains(at)) else {
        return Ok(None);
    };
    let (axis, length) = (at as usize, array.shape()[at as usize]);
    let is_real = matches!(array.dtype(), DType::F32 | DType::F64);
    if length == 0 || !(is_real || !half && array.dtype().is_complex()) {
        return Ok(None);
    }
    let (prim, params) = if half {
        let params = Params::RealFourier {
            axis,
            length,
            folded: false,
            scale: 1.0,
        };
        (ops::RFFT, params)
    } else {
        let params = Params::Fourier {
            axes: Axes::from_slice(&[axis]),
            inverse: false,
            scale: 1.0,
        };
        (ops::FFT, params)
    };
    wrap_result(py, Array::apply(prim, params, &[&array]).or_raise()?).map(Some)
}

/// The transform along axes, with a positive exponent when `inverse`, times `scale`.
#[pyfunction]
#[pyo3(signature = (
    x: "_Values",
    axes: "Sequence[int]",
    inverse: "bool" = false,
    scale: "float" = 1.0
) -> "Array")]
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
#[pyo3(signature = (x: "_Values", axis: "int", scale: "float" = 1.0) -> "Array")]
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
#[pyo3(signature = (x: "_Values", axis: "int", length: "int", scale: "float" = 1.0) -> "Array")]
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

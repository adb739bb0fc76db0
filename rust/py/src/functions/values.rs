//! Hands values of arrays to rules in Python: for what has no derivative, and for errors that depend on them.

use cotan::DType;
use pyo3::prelude::*;

use crate::array::cell::PyArray;
use crate::array::escapes::{compute, force};
use crate::array::traced::expect_no_variable;
use crate::ndarray::export::to_ndarray;
use crate::ndarray::memory::original;
use crate::runtime::exports::exports;

exports!(value, peek, peek_float);

/// The plain ndarray value of anything array-like. Detaches: for integers, bools and indices.
#[pyfunction]
#[pyo3(signature = (x: "object") -> "NDArray")]
pub fn value<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    match x.cast::<PyArray>() {
        Ok(array) => {
            let array = array.get().read()?;
            expect_no_variable(&array)?;
            to_ndarray(py, force(py, &array)?)
        }
        Err(_) => original(py, "numpy", "asarray")?.call1((x,)),
    }
}

/// The value of anything array-like for the errors that it leads to: nothing that is recorded may depend
/// on it.
#[pyfunction]
#[pyo3(signature = (x: "object") -> "NDArray")]
pub fn peek<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match x.cast::<PyArray>() {
        Ok(array) => {
            let value = compute(x.py(), &array.get().read()?)?;
            to_ndarray(x.py(), value)
        }
        Err(_) => value(x),
    }
}

/// The same as a Python float, of a scalar of float64; None for anything else.
#[pyfunction]
#[pyo3(signature = (x: "object") -> "float | None")]
pub fn peek_float(x: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    let Ok(array) = x.cast::<PyArray>() else {
        return Ok(None);
    };
    let array = array.get().read()?;
    if array.dtype() != DType::F64 || !array.shape().is_empty() {
        return Ok(None);
    }
    Ok(compute(x.py(), &array)?.item().map(|number| number.re))
}

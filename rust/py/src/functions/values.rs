//! Hands values of arrays to rules in Python: for what has no derivative, and for errors that depend on them.

use cotan::DType;
use pyo3::exceptions::{PyArithmeticError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};
use smallvec::SmallVec;

use crate::array::cell::PyArray;
use crate::array::escapes::{self, force};
use crate::array::traced::expect_no_variable;
use crate::functions::creation::number;
use crate::ndarray::export::to_ndarray;
use crate::ndarray::memory::original;
use crate::runtime::exports::exports;

exports!(value, peek, function_of_numbers);

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
            let value = escapes::compute(x.py(), &array.get().read()?)?;
            to_ndarray(x.py(), value)
        }
        Err(_) => value(x),
    }
}

/// What a function of Python's numbers gives where some of them are float64 `Array`s: `compute` of them, once `original` has
/// taken the values.
///
/// None where the original refuses them, for other arguments, and while a function is prepared: the general rule raises the
/// error, or records the guard.
#[pyfunction]
#[pyo3(signature = (original: "Callable[..., object]", compute: "Callable[..., Any]", args: "tuple[object, ...]") -> "Array | None")]
pub fn function_of_numbers<'py>(
    original: &Bound<'py, PyAny>,
    compute: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = args.py();
    if escapes::is_on() {
        return Ok(None);
    }
    let mut values: SmallVec<[Bound<'_, PyAny>; 2]> = SmallVec::new();
    for x in args.iter_borrowed() {
        let Ok(array) = x.cast::<PyArray>() else {
            if !(x.is_exact_instance_of::<PyFloat>() || x.is_exact_instance_of::<PyInt>()) {
                return Ok(None);
            }
            values.push(x.to_owned());
            continue;
        };
        let array = array.get().read()?;
        if array.dtype() != DType::F64 || !array.shape().is_empty() {
            return Ok(None);
        }
        let Some(number) = escapes::compute(py, &array)?.item() else {
            return Ok(None);
        };
        values.push(PyFloat::new(py, number.re).into_any());
    }
    let asked = match values.as_slice() {
        [x] => original.call1((x,)),
        _ => original.call1(PyTuple::new(py, values)?),
    };
    if let Err(error) = asked {
        let is_refusal = error.is_instance_of::<PyArithmeticError>(py)
            || error.is_instance_of::<PyValueError>(py);
        return if is_refusal { Ok(None) } else { Err(error) };
    }
    number(&compute.call1(args)?, None).map(Some)
}

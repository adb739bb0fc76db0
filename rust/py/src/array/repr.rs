//! Formats arrays: `repr`, `str` and format specifications.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::cell::{PyArray, ScalarKind};
use crate::array::escapes;
use crate::array::escapes::compute;
use crate::array::to_host::number;
use crate::ndarray::export::{to_ndarray, to_numpy_scalar};
use crate::runtime::recording_state::is_lifting;
use crate::runtime::text;

/// As NumPy shows one, under the name `Array`.
pub fn repr(cell: &PyArray, py: Python<'_>) -> PyResult<String> {
    let array = cell.read()?;
    escapes::shown(py, &array, "repr(x)")?;
    let value = compute(py, &array)?;
    if is_lifting() && !escapes::loses_derivative(&array) {
        // User code evaluates such texts, and knows of NumPy only.
        let shown = match cell.scalar_kind() {
            ScalarKind::Array => to_ndarray(py, value)?,
            ScalarKind::NumpyScalar => to_numpy_scalar(py, &value)?,
            ScalarKind::PythonNumber => number(py, &array)?,
        };
        return text::repr(&shown);
    }
    let plain = to_ndarray(py, value)?;
    let numpy = py.import("numpy")?;
    let text: String = numpy.call_method1("array_repr", (plain,))?.extract()?;
    // The continuation lines are indented for a name as long as this one.
    Ok(format!(
        "Array{}",
        text.strip_prefix("array").unwrap_or(&text)
    ))
}

/// The same without a name.
pub fn str(cell: &PyArray, py: Python<'_>) -> PyResult<String> {
    let array = cell.read()?;
    escapes::shown(py, &array, "str(x) or print(x)")?;
    if array.shape().is_empty() {
        return text::text(&scalar(cell, py, &array)?);
    }
    text::text(&to_ndarray(py, compute(py, &array)?)?)
}

/// What NumPy has in the place of a number: its text is that of its precision.
fn scalar<'py>(
    cell: &PyArray,
    py: Python<'py>,
    array: &cotan::Array,
) -> PyResult<Bound<'py, PyAny>> {
    match cell.scalar_kind() {
        ScalarKind::PythonNumber => number(py, array),
        _ => to_numpy_scalar(py, &compute(py, array)?),
    }
}

/// A number by a format, as a Python number is.
pub fn format(cell: &PyArray, py: Python<'_>, spec: &str) -> PyResult<String> {
    let array = cell.read()?;
    escapes::shown(py, &array, "formatting x")?;
    if array.shape().is_empty() {
        return scalar(cell, py, &array)?
            .call_method1("__format__", (spec,))?
            .extract();
    }
    if spec.is_empty() {
        return str(cell, py);
    }
    Err(PyTypeError::new_err(
        "unsupported format string passed to Array.__format__",
    ))
}

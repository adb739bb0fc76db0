//! Reads the axes and shapes that a caller names: integers, tuples, `None`, and lengths of -1.

use cotan::Array;
use cotan::aval::{Axes, Shape, normalize_axes, normalize_axis, tuple};
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use crate::array::cell::PyArray;
use crate::runtime::text;

/// The axes that a user names: none for all, one, or several.
pub fn axes_of(name: &str, axis: Option<&Bound<'_, PyAny>>, rank: usize) -> PyResult<Axes> {
    let Some(axis) = axis.filter(|a| !a.is_none()) else {
        return Ok((0..rank).collect());
    };
    let list: Vec<isize> = if let Ok(items) = axis.cast::<PyTuple>() {
        items
            .iter()
            .map(|i| integer(name, "axis", &i))
            .collect::<PyResult<_>>()?
    } else {
        vec![integer(name, "axis", axis)?]
    };
    normalize_axes(name, &list, rank).map_err(|e| axis_error(axis.py(), &e.to_string()))
}

/// Whether an axis is the one that NumPy lets a zero-dimensional array have.
pub fn names_only_axis(axis: Option<&Bound<'_, PyAny>>) -> bool {
    axis.and_then(|a| a.extract::<isize>().ok())
        .is_some_and(is_only_axis)
}

/// The same of a number.
pub fn is_only_axis(axis: isize) -> bool {
    axis == 0 || axis == -1
}

/// An axis, counted from the front.
pub fn axis_of(py: Python<'_>, name: &str, axis: isize, rank: usize) -> PyResult<usize> {
    normalize_axis(name, axis, rank).map_err(|e| axis_error(py, &e.to_string()))
}

/// NumPy's own exception for axes, which is a `ValueError` and an `IndexError`.
pub fn axis_error(py: Python<'_>, message: &str) -> PyErr {
    let class = py
        .import("numpy.exceptions")
        .and_then(|m| m.getattr("AxisError"));
    match class.and_then(|c| c.call1((message,))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// What is an integer to Python.
fn integer(name: &str, what: &str, object: &Bound<'_, PyAny>) -> PyResult<isize> {
    if object.is_exact_instance_of::<PyInt>() {
        return object.extract();
    }
    let error = match object.call_method0("__index__") {
        Ok(index) => return index.extract(),
        Err(error) => error,
    };
    // What an array says against it names a way out, and other exceptions are not about the type.
    let has_none = error.is_instance_of::<PyAttributeError>(object.py())
        || error.is_instance_of::<PyTypeError>(object.py());
    if !has_none || object.is_instance_of::<PyArray>() {
        return Err(error);
    }
    Err(PyTypeError::new_err(format!(
        "{name}: {what} must be an integer, not {}",
        text::class_of(object)
    )))
}

/// The lengths in a shape, or the only one.
pub fn sizes(name: &str, shape: &Bound<'_, PyAny>) -> PyResult<Vec<isize>> {
    if shape.is_instance_of::<PyInt>()
        || !shape.is_exact_instance_of::<PyTuple>()
            && shape.hasattr("__index__")?
            && !shape.hasattr("__len__")?
    {
        return Ok(vec![integer(name, "shape", shape)?]);
    }
    shape
        .try_iter()?
        .map(|i| integer(name, "shape", &i?))
        .collect()
}

/// A shape with at most one -1 resolved.
fn resolve_shape(array: &Array, wanted: &[isize]) -> PyResult<Shape> {
    let size = array.aval().size();
    let mut unknown = None;
    let mut known = 1usize;
    for (i, &d) in wanted.iter().enumerate() {
        if d == -1 && unknown.is_none() {
            unknown = Some(i);
        } else if d < 0 {
            let message = if d == -1 {
                "can only specify one unknown dimension"
            } else {
                "negative dimensions are not allowed"
            };
            return Err(PyValueError::new_err(format!("reshape: {message}")));
        } else {
            known = known.saturating_mul(d as usize);
        }
    }
    let mut shape: Shape = wanted.iter().map(|&d| d.max(0) as usize).collect();
    if let Some(i) = unknown {
        if known == 0 || !size.is_multiple_of(known) {
            return Err(misfit(array, wanted));
        }
        shape[i] = size / known;
    } else if known != size {
        return Err(misfit(array, wanted));
    }
    Ok(shape)
}

fn misfit(array: &Array, wanted: &[isize]) -> PyErr {
    let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    let comma = if wanted.len() == 1 { "," } else { "" };
    PyValueError::new_err(format!(
        "reshape: cannot reshape array of size {} and shape {} into shape ({}{comma})",
        array.aval().size(),
        tuple(array.shape()),
        wanted.join(", ")
    ))
}

/// The shape that a user asks for, with a -1 resolved.
pub fn shape_for(array: &Array, shape: &Bound<'_, PyAny>) -> PyResult<Shape> {
    resolve_shape(array, &sizes("reshape", shape)?)
}

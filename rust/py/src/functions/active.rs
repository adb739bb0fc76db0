//! Tells whether an argument holds an array that is being differentiated, also inside of collections.

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::cell::PyArray;
use crate::array::escapes::loses_derivative;
use crate::runtime::exports::exports;

exports!(contains_active, is_active);

/// Whether something in nested arguments is active: an array, or what dictionaries, lists and tuples hold.
#[pyfunction]
#[pyo3(signature = (tree: "object") -> "bool")]
pub fn contains_active(tree: &Bound<'_, PyAny>) -> PyResult<bool> {
    is_active_within(tree, 0)
}

/// So many levels are looked into; what holds itself has more.
const MAX_LEVELS: usize = 900;

fn is_active_within(tree: &Bound<'_, PyAny>, level: usize) -> PyResult<bool> {
    if level > MAX_LEVELS {
        return Err(PyRecursionError::new_err(
            "too many collections in each other",
        ));
    }
    if let Ok(array) = tree.cast::<PyArray>() {
        // Integers and booleans carry no derivative.
        let array = array.get();
        return Ok(array.own_dtype().is_inexact() && loses_derivative(&array.read()?));
    }
    if let Ok(items) = tree.cast::<PyTuple>() {
        return any_is_active(items.iter(), level);
    }
    if let Ok(items) = tree.cast::<PyList>() {
        return any_is_active(items.iter(), level);
    }
    (tree.cast::<PyDict>()).map_or(Ok(false), |items| {
        any_is_active(items.values().iter(), level)
    })
}

fn any_is_active<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    level: usize,
) -> PyResult<bool> {
    for item in items {
        if is_active_within(&item, level + 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `x` is active in a gradient that is being recorded.
#[pyfunction]
#[pyo3(signature = (x: "object") -> "bool")]
pub fn is_active(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    match x.cast::<PyArray>() {
        Ok(array) => Ok(loses_derivative(&array.get().read()?)),
        Err(_) => Ok(false),
    }
}

//! Tells integers of Python that are numbers, like floats, from those that are data, such as a size.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyComplex, PyFloat, PyInt, PyList, PyTuple, PyType};

use crate::array::cell::{PyArray, ScalarKind};
use crate::runtime::once_cell::OnceImported;

/// What an integer of Python is, where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Integers {
    /// Data.
    Data,
    /// Data, unless the whole argument turns out to have no other numbers.
    Unclear,
    /// A number like a float.
    Numbers,
}

/// Whether there are integers and floats of Python in a sequence, or in sequences inside it.
pub fn beside_floats(entries: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    let (mut integer, mut float) = (false, false);
    let mut seen = HashSet::new();
    let mut work = entries.to_vec();
    while let Some(item) = work.pop() {
        if item.is_exact_instance_of::<PyInt>() {
            integer = true;
        } else if !float {
            float = is_float(&item)?;
        }
        if integer && float {
            return Ok(true);
        }
        if is_plain_sequence(&item) && seen.insert(item.as_ptr()) {
            match item.cast::<PyList>() {
                Ok(list) => work.extend(list.iter()),
                Err(_) => work.extend(item.cast::<PyTuple>().map_err(PyErr::from)?.iter()),
            }
        }
    }
    Ok(false)
}

/// Whether something is a sequence that [`beside_floats`] looks into.
pub fn is_plain_sequence(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyTuple>() || object.is_exact_instance_of::<PyList>()
}

/// Whether something is a number of a floating or complex type, recorded or not.
fn is_float(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static INEXACT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if let Ok(array) = object.cast::<PyArray>() {
        let array = array.get();
        return Ok(array.scalar_kind() != ScalarKind::Array && array.read()?.dtype().is_inexact());
    }
    Ok(object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyComplex>()
        || object.is_instance(INEXACT.found(object.py(), "numpy", "inexact")?)?)
}

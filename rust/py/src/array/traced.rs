//! Tells whether an array is a variable of a program that is being traced, whose value nobody may read.

use cotan::Array;
use cotan::aval::Kind;
use cotan::tape::keeps_history;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::cell::PyArray;
use crate::runtime::exports::exports;
use crate::runtime::recording_state::{is_mapping, is_tracing};

exports!(is_traced, is_mapped);

/// Whether a program is being traced and an object may be a variable of it.
#[pyfunction]
#[pyo3(signature = (x: "object") -> "bool")]
pub fn is_traced(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    match x.cast::<PyArray>() {
        Ok(array) if is_tracing() => Ok(array.get().read()?.tag() != 0),
        _ => Ok(false),
    }
}

/// Refuses to read, for what is computed with them, the values of an array that a program being traced
/// computes: those of this call would be a part of it. Booleans and single integers decide what is
/// recorded.
pub fn expect_no_variable(array: &Array) -> PyResult<()> {
    let decides = match array.dtype().kind() {
        Kind::Bool => true,
        Kind::Integer => array.shape().is_empty(),
        _ => false,
    };
    if !is_tracing() || decides || !keeps_history(array) {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "trace: this function looks at the values of an array ({}) that the program computes, and those of \
         this call would become a part of the program; hold constant with ct.const what it depends on, or \
         write the function with others, which are recorded",
        array.aval()
    )))
}

/// Whether a function is being mapped and an array may differ between examples, so that nobody knows its
/// value.
#[pyfunction]
#[pyo3(signature = (x: "Array") -> "bool")]
pub fn is_mapped(x: &Bound<'_, PyArray>) -> PyResult<bool> {
    if !is_mapping() {
        return Ok(false);
    }
    let array = x.get().read()?;
    Ok(array.value().is_none() && array.tag() != 0)
}

//! Finds the frame of the Python code that runs.
#![allow(unsafe_code)]

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The innermost frame that is complete: a function whose code asks a hook before it begins has none yet.
///
/// Raises `RuntimeError` in a thread without Python code.
pub fn frame(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the thread is attached; the reference is borrowed from the interpreter.
    let found = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    found.ok_or_else(|| PyRuntimeError::new_err("no Python code runs in this thread"))
}

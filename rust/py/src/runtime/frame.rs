//! Finds the frame of the Python code that runs, and the code of a frame, without running any.
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

/// The code that runs in a frame. Reading the attribute would tell audit hooks, whose Python code a signal could interrupt.
pub fn code_of<'py>(frame: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    // SAFETY: the frame is one, by `frame` above or as another's `f_back`; the reference that comes is ours.
    unsafe {
        let code = ffi::PyFrame_GetCode(frame.as_ptr().cast());
        Bound::from_owned_ptr(frame.py(), code.cast())
    }
}

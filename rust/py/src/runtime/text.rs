//! Texts of Python objects that lose no signal: `Display` of what the bindings hold calls `str`, which runs the handlers
//! of signals, and drops what they raise.

use pyo3::prelude::*;
use pyo3::types::PyString;

/// What `str` gives.
pub fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(owned(&object.str()?))
}

/// What `repr` gives.
pub fn repr(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(owned(&object.repr()?))
}

/// The text of a string that is there already.
pub fn owned(string: &Bound<'_, PyString>) -> String {
    string.to_string_lossy().into_owned()
}

/// What an exception says of itself.
pub fn message(py: Python<'_>, error: &PyErr) -> PyResult<String> {
    text(error.value(py))
}

/// The class of an object as errors name it: `<class 'list'>`.
pub fn class_of(object: &Bound<'_, PyAny>) -> String {
    let class = object.get_type();
    let part = |name: &str| -> Option<String> {
        Some(owned(class.getattr(name).ok()?.cast::<PyString>().ok()?))
    };
    let name = part("__qualname__").unwrap_or_else(|| "?".into());
    match part("__module__") {
        Some(module) if module != "builtins" => format!("<class '{module}.{name}'>"),
        _ => format!("<class '{name}'>"),
    }
}

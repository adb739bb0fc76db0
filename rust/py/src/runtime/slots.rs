//! Reads and fills the fields of an object without running code of its class.
#![allow(unsafe_code)]

use std::ptr;

use pyo3::exceptions::PyAttributeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The instance dictionary of an object whose class has one (`__dictoffset__` is not 0). Unlike reading
/// `__dict__` this runs no code of the class.
pub fn instance_dict<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    // SAFETY: the object is alive, and the function gives a new reference or sets an exception.
    let dict = unsafe {
        let dict = ffi::PyObject_GenericGetDict(object.as_ptr(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(object.py(), dict)
    }?;
    Ok(dict.cast_into()?)
}

/// What a slot of an object holds, without code of the class (`__getattribute__`, `__getattr__`).
pub fn slot_value<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: both are alive, and the function gives a new reference or sets an exception.
    let value = unsafe {
        let value = ffi::PyObject_GenericGetAttr(object.as_ptr(), name.as_ptr());
        Bound::from_owned_ptr_or_err(object.py(), value)
    };
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fills a slot of an object, without code of the class (`__setattr__`).
pub fn set_slot(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    // SAFETY: all three are alive, and the function sets an exception when it fails.
    let failed = unsafe {
        ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value.as_ptr()) != 0
    };
    if failed {
        return Err(PyErr::fetch(object.py()));
    }
    Ok(())
}

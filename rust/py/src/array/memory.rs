//! Shows the memory of constants to other libraries: by the buffer protocol, and as `__array_interface__` says.
//!
//! An array that NumPy made in a recording, and that was left in a cache or a global, serves there like the ndarray that it
//! would have been. What is shown is a copy, as `numpy.asarray` gives one: an `Array` itself cannot be written to from
//! outside. All others have no memory: NumPy asks for it first, forgets why it did not get it, and goes on to `__array__`,
//! which computes, and refuses with a remedy.
#![allow(unsafe_code)]

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::ffi::Py_buffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::cell::PyArray;
use crate::array::to_host::given_out;
use crate::ndarray::memory::fill_buffer;
use crate::runtime::error::NotDifferentiableError;

/// The memory of a constant that NumPy made, as an ndarray; `None` for any other array.
fn host<'py>(slf: &Bound<'py, PyArray>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let array = slf.get();
    if !array.is_made() || array.read()?.is_active() {
        return Ok(None);
    }
    given_out(slf, None, None).map(Some)
}

/// What `__array_interface__` gives. The memory lives as long as the object that the description names.
pub fn interface<'py>(slf: &Bound<'py, PyArray>) -> PyResult<Bound<'py, PyAny>> {
    let host = host(slf)?.ok_or_else(|| {
        PyAttributeError::new_err("__array_interface__: an Array has no memory of its own")
    })?;
    let described = host.getattr("__array_interface__")?.cast_into::<PyDict>()?;
    described.set_item("data", &host)?;
    described.set_item("strides", slf.py().None())?;
    Ok(described.into_any())
}

/// Fills a buffer of the buffer protocol.
///
/// # Safety
///
/// `view` is a buffer to fill, as the interpreter hands it over.
pub unsafe fn fill(slf: &Bound<'_, PyArray>, view: *mut Py_buffer, flags: i32) -> PyResult<()> {
    let Some(host) = host(slf)? else {
        return Err(if slf.get().read()?.is_active() {
            NotDifferentiableError::new_err(
                "an Array has no memory to share, and the values of an active one would drop the gradient; compute with \
                 x itself, or use ct.dropgrad(x) to drop it on purpose",
            )
        } else {
            PyTypeError::new_err("an Array has no memory to share; x.__array__() of a constant has")
        });
    };
    // SAFETY: says the caller.
    unsafe { fill_buffer(&host, view, flags) }
}

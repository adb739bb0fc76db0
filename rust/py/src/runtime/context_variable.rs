//! Keeps one value for each context: for each thread, asyncio task and greenlet, and for threads that run in a copy.
//!
//! It is a `contextvars.ContextVar`. The functions by which C code reads and sets one are part of every `CPython`, but
//! not of its stable ABI: they are looked up by name, and where they are missing the methods of the object serve.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::runtime::once_cell::{Once, intern};

type Get = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut *mut PyObject) -> c_int;
type Set = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

/// A context variable.
pub struct ContextVariable(&'static str, PyOnceLock<Py<PyAny>>);

impl ContextVariable {
    pub const fn new(name: &'static str) -> ContextVariable {
        ContextVariable(name, PyOnceLock::new())
    }

    fn variable<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let made = self.1.made(py, || {
            let class = py.import("contextvars")?.getattr("ContextVar")?;
            Ok(class.call1((self.0,))?.unbind())
        })?;
        Ok(made.bind(py))
    }

    /// The value in the running context, if there is one.
    pub fn get<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let variable = self.variable(py)?;
        let Some((get, _)) = functions() else {
            let value = variable.call_method1(intern!(py, "get"), (py.None(),))?;
            return Ok((!value.is_none()).then_some(value));
        };
        let mut value = ptr::null_mut();
        // SAFETY: this is a context variable, and the thread is attached.
        if unsafe { get(variable.as_ptr(), ptr::null_mut(), &raw mut value) } < 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference, or null where there is no value.
        Ok(unsafe { Bound::from_owned_ptr_or_opt(py, value) }.filter(|value| !value.is_none()))
    }

    /// Sets the value in the running context.
    pub fn set(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let variable = self.variable(py)?;
        let Some((_, set)) = functions() else {
            return variable
                .call_method1(intern!(py, "set"), (value,))
                .map(drop);
        };
        // SAFETY: as above; the result is a token, which nobody needs, or null with an error set.
        unsafe { Bound::from_owned_ptr_or_err(py, set(variable.as_ptr(), value.as_ptr())) }
            .map(drop)
    }
}

/// `PyContextVar_Get` and `PyContextVar_Set`.
fn functions() -> Option<(Get, Set)> {
    static FOUND: OnceLock<Option<(Get, Set)>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let (get, set) = (symbol(c"PyContextVar_Get")?, symbol(c"PyContextVar_Set")?);
        // SAFETY: they have had these signatures since Python 3.7.
        Some(unsafe {
            (
                std::mem::transmute::<*mut std::ffi::c_void, Get>(get),
                std::mem::transmute::<*mut std::ffi::c_void, Set>(set),
            )
        })
    })
}

/// A function of the interpreter, by its name.
pub fn symbol(name: &std::ffi::CStr) -> Option<*mut std::ffi::c_void> {
    #[cfg(unix)]
    {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
    #[cfg(not(unix))]
    {
        let _ = name;
        None
    }
}

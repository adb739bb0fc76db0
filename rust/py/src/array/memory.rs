//! Shows the memory of constants to other libraries: by the buffer protocol, and as `__array_interface__` says.
//!
//! An array without a derivative serves like the ndarray that it would have been. Code that wants to write, and
//! `memoryview(x)`, which may, get the memory that the elements live in from then on (`lend.rs`). Whoever only reads
//! gets a copy, as `numpy.asarray` gives one. All others have no memory: NumPy asks for it first, forgets why it did not
//! get it, and goes on to `__array__`, which refuses with a remedy, and which knows dtypes that buffers do not.
#![allow(unsafe_code)]

use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::ffi::Py_buffer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView, PyString, PyTuple};

use crate::array::cell::PyArray;
use crate::array::lend::{is_showable, lend_memory};
use crate::array::to_host::given_out;
use crate::ndarray::memory::fill_buffer;
use crate::runtime::error::NotDifferentiableError;
use crate::runtime::frame::{code_of, frame};
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;

/// A copy of the memory of a constant that a recording left behind, as an ndarray; `None` for any other array, of which
/// NumPy makes its own copies, or says that it cannot do without one.
fn host<'py>(slf: &Bound<'py, PyArray>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !slf.get().is_recorded() || !is_showable(slf.get(), &slf.get().read()?) {
        return Ok(None);
    }
    given_out(slf, None, None).map(Some)
}

/// What `__array_interface__` gives. The memory lives as long as the array.
pub fn interface<'py>(slf: &Bound<'py, PyArray>) -> PyResult<Bound<'py, PyAny>> {
    if slf.get().is_recorded()
        && let Some(memory) = lend_memory(slf, true)?
    {
        return memory.getattr("__array_interface__");
    }
    let host = host(slf)?.ok_or_else(|| {
        PyAttributeError::new_err("__array_interface__: this Array has no memory to share")
    })?;
    // The copy lives as long as the object that the description names.
    let described = host.getattr("__array_interface__")?.cast_into::<PyDict>()?;
    described.set_item("data", &host)?;
    described.set_item("strides", slf.py().None())?;
    Ok(described.into_any())
}

/// Asked for by NumPy where it keeps the array alive, and no buffer: `np.ndarray(3, buffer=x)`.
const KEEPS_NO_BUFFER: i32 = 0x80;
/// `PyBUF_WRITABLE` and `PyBUF_FORMAT`.
const WRITABLE: i32 = 0x1;
const FORMAT: i32 = 0x4;

/// Fills a buffer of the buffer protocol.
///
/// # Safety
///
/// `view` is a buffer to fill, as the interpreter hands it over.
pub unsafe fn fill(slf: &Bound<'_, PyArray>, view: *mut Py_buffer, flags: i32) -> PyResult<()> {
    let pin = flags & KEEPS_NO_BUFFER != 0 && flags & FORMAT == 0;
    let writes = flags & WRITABLE != 0;
    if slf.get().read()?.is_active() {
        return Err(NotDifferentiableError::new_err(
            "an Array has no memory to share, and the values of an active one would drop the gradient; compute with \
             x itself, or use ct.dropgrad(x) to drop it on purpose",
        ));
    }
    let shares = writes || pin || is_viewed(slf.py())?;
    if !shares && !slf.get().is_recorded() {
        return Err(no_memory());
    }
    let memory = if shares { lend_memory(slf, pin)? } else { None };
    let memory = match memory {
        Some(memory) => memory,
        None if writes || pin => {
            return Err(PyBufferError::new_err(
                "this Array has no memory that could be written to; use numpy.array(x)",
            ));
        }
        None => host(slf)?.ok_or_else(no_memory)?,
    };
    // SAFETY: says the caller.
    unsafe { fill_buffer(&memory, view, flags) }
}

fn no_memory() -> PyErr {
    PyTypeError::new_err("this Array has no memory to share; use numpy.asarray(x)")
}

/// Whether the running code makes a `memoryview`, or something of `ctypes`, which asks as if it only read. Only code that
/// names these is looked at.
fn is_viewed(py: Python<'_>) -> PyResult<bool> {
    let Ok(frame) = frame(py) else {
        return Ok(false);
    };
    let code = code_of(&frame);
    let names = code
        .getattr(intern!(py, "co_names"))?
        .cast_into::<PyTuple>()?;
    // Names of code are interned.
    let has = |name: &Bound<'_, PyString>| names.iter_borrowed().any(|n| n.is(name));
    if has(intern!(py, "from_buffer")) {
        return Ok(true);
    }
    if !has(intern!(py, "memoryview")) {
        return Ok(false);
    }
    let class = py.get_type::<PyMemoryView>();
    let asked = hooks::IS_CALL_OF.get(py)?.call1((frame, class))?;
    asked.get_item(0)?.is_truthy()
}

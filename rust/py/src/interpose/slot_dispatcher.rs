//! Leads calls of functions that NumPy dispatches to their overrides: `reduce([x, y])` where `reduce = np.mean` was bound
//! before.
//!
//! NumPy asks arrays among the arguments of such a function what to do, not those in lists. The entry by which the
//! interpreter calls it follows the head of the object, and is one for all of these functions, by which it is known.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::PyObject;
use pyo3::prelude::*;

use crate::interpose::entry::find;
use crate::interpose::slot::{Arguments, HAVE_VECTORCALL, Vectorcall};

/// The beginning of a function that NumPy dispatches.
#[repr(C)]
struct Dispatcher {
    head: PyObject,
    entry: *mut c_void,
    names: *mut PyObject,
}

/// NumPy's own entry, the same for all of them.
static ENTRY: OnceLock<Vectorcall> = OnceLock::new();

/// Whether an object is a function that NumPy dispatches.
pub fn is_one(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(function.get_type().name()? == "_ArrayFunctionDispatcher")
}

/// Its entry; `None` when that is not where it is taken to be.
pub fn own(function: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let class = function.get_type();
    let names: usize = class.getattr("__dictoffset__")?.extract()?;
    let flags: u64 = class.getattr("__flags__")?.extract()?;
    if names != std::mem::offset_of!(Dispatcher, names) || flags & HAVE_VECTORCALL == 0 {
        return Ok(None);
    }
    // SAFETY: it is a function of NumPy's, of at least this size.
    let found = unsafe { *entry(function.as_ptr()) };
    if found.is_null() {
        return Ok(None);
    }
    // SAFETY: NumPy keeps a function of this signature there.
    let own = unsafe { std::mem::transmute::<*mut c_void, Vectorcall>(found) };
    let is_it = ptr::fn_addr_eq(*ENTRY.get_or_init(|| own), own);
    Ok(is_it.then_some(found as usize))
}

/// Lets a function be called here from now on.
pub fn install(function: &Bound<'_, PyAny>) {
    // SAFETY: its entry keeps it alive, and the field is an aligned pointer. Threads that read it meanwhile find one entry or
    // the other, and either may be called.
    unsafe { AtomicPtr::from_ptr(entry(function.as_ptr())) }
        .store(call as *mut c_void, Ordering::Release);
}

/// Where a function keeps its entry.
fn entry(function: *mut PyObject) -> *mut *mut c_void {
    // SAFETY: it is one of NumPy's; no reference to it is made.
    unsafe { &raw mut (*function.cast::<Dispatcher>()).entry }
}

/// What the interpreter calls in the place of NumPy's own entry.
unsafe extern "C" fn call(
    function: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
    let given = unsafe { Arguments::new(Python::assume_attached(), args, count, names) };
    if let Some(answer) = find(function).and_then(|entry| entry.answer(given)) {
        return answer;
    }
    let Some(own) = ENTRY.get() else {
        return ptr::null_mut(); // Not reached: it is set before this function is put in place.
    };
    // SAFETY: as we were called ourselves.
    unsafe { own(function, args, count, names) }
}

//! Leads calls of compiled functions to their overrides, wherever a program keeps them: the `math.sin` in
//! `{"sin": math.sin}`.
//!
//! The entry by which the interpreter calls such a function is a field of the object (`PyCFunctionObject.vectorcall`).
//! Interpreters know a shorter way to call functions whose definition has certain flags, and that goes past the entry; so
//! the function gets a copy of its definition, which has one more flag. What it computes by is the same, since a function is
//! found in a dictionary by that. Functions that Cython made begin like compiled ones, and have no shorter way. The fields have
//! their places in all versions of `CPython`, which are compared with what the interpreter says before they are relied on.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyMethodDef, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use crate::interpose::entry::{Entry, find};
use crate::interpose::slot::{
    Arguments, HAVE_VECTORCALL, Vectorcall, call_by_class, definition_of,
};

/// A flag that means something for the methods of classes only, when these are made.
const MARK: c_int = ffi::METH_COEXIST;

/// The beginning of `PyCFunctionObject`.
#[repr(C)]
struct Fields {
    head: PyObject,
    definition: *mut PyMethodDef,
    this: *mut PyObject,
    module: *mut PyObject,
    weak: *mut PyObject,
    entry: *mut c_void,
}

/// Whether an object is a compiled function, or one that Cython made.
pub fn is_one(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(function.is_exact_instance_of::<PyCFunction>() || is_cython(function)?)
}

fn is_cython(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(function.get_type().name()? == "cython_function_or_method")
}

/// The entry that a function has, 0 where the interpreter calls it without one. `None` when its fields are not where they
/// are taken to be.
pub fn own(function: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let class = function.get_type();
    let size: usize = class.getattr("__basicsize__")?.extract()?;
    let flags: u64 = class.getattr("__flags__")?.extract()?;
    if size < size_of::<Fields>() || flags & HAVE_VECTORCALL == 0 {
        return Ok(None);
    }
    let object = function.as_ptr().cast::<Fields>();
    // SAFETY: it is a function of at least this size; no reference is made.
    let (definition, entry) = unsafe {
        (
            (&raw const (*object).definition).read(),
            (&raw const (*object).entry).read(),
        )
    };
    if is_cython(function)? {
        // SAFETY: such a function points to a definition, too.
        let flags = unsafe { definition.as_ref() }.map_or(0, |d| d.ml_flags);
        let is_known = !entry.is_null() || flags == ffi::METH_VARARGS | ffi::METH_KEYWORDS;
        return Ok(is_known.then_some(entry as usize));
    }
    let weak: usize = class.getattr("__weakrefoffset__")?.extract()?;
    if size != size_of::<Fields>() || weak != std::mem::offset_of!(Fields, weak) {
        return Ok(None);
    }
    let name: String = function.getattr("__name__")?.extract()?;
    // SAFETY: functions point to a definition.
    let Some(found) = (unsafe { definition_of(definition, &name) }) else {
        return Ok(None);
    };
    // SAFETY: it is a compiled function.
    let computes = unsafe { ffi::PyCFunction_GetFunction(function.as_ptr()) };
    let is_it = computes.is_some_and(|f| f as *mut c_void == found.ml_meth.as_ptr())
        && found.ml_flags & (MARK | ffi::METH_CLASS | ffi::METH_STATIC) == 0
        && entry.is_null() == (found.ml_flags & ffi::METH_VARARGS != 0);
    Ok(is_it.then_some(entry as usize))
}

/// Calls a function whose entry was null, which takes a tuple.
///
/// # Safety
///
/// It is a compiled function, or one that Cython made.
pub unsafe fn call_slowly<'py>(
    py: Python<'py>,
    function: *mut PyObject,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: it is alive.
    let is_cython = is_cython(&unsafe { Bound::from_borrowed_ptr(py, function) })?;
    // SAFETY: says the caller.
    unsafe {
        if is_cython {
            let kwargs = kwargs.map_or(ptr::null_mut(), Bound::as_ptr);
            call_cython(py, function, args, kwargs)
        } else {
            call_by_class(py, function, args, kwargs)
        }
    }
}

/// Calls a function or method that Cython made and that takes a tuple. Its class would call the entry again.
///
/// # Safety
///
/// It is one, with an entry that was null.
unsafe fn call_cython<'py>(
    py: Python<'py>,
    function: *mut PyObject,
    args: &Bound<'py, PyTuple>,
    kwargs: *mut PyObject,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: it is alive.
    let name = unsafe { Bound::from_borrowed_ptr(py, function) }.getattr("__qualname__")?;
    let name: String = name.extract()?;
    let owner = name.rsplit_once('.').map(|(owner, _)| owner);
    // SAFETY: its definition says that it has this signature. A method gets its object first, a function what it keeps.
    unsafe {
        let fields = function.cast::<Fields>();
        let own = (*(*fields).definition).ml_meth.PyCFunctionWithKeywords;
        let result = if owner.is_some_and(|owner| !owner.ends_with("<locals>")) {
            let this = args.get_item(0)?;
            own(
                this.as_ptr(),
                args.get_slice(1, args.len()).as_ptr(),
                kwargs,
            )
        } else {
            own((*fields).this, args.as_ptr(), kwargs)
        };
        Bound::from_owned_ptr_or_err(py, result)
    }
}

/// Lets a function be called here from now on.
pub fn install(function: &Bound<'_, PyAny>, entry: &'static Entry) -> PyResult<()> {
    let fields = function.as_ptr().cast::<Fields>();
    let is_cython = is_cython(function)?;
    debug_assert!(entry.callable.is(function));
    // SAFETY: the object is kept alive by its entry, the fields are aligned pointers, and the copy is never freed. Whoever
    // reads them meanwhile finds one definition or the other, and one entry or the other, which all serve.
    unsafe {
        let field = AtomicPtr::from_ptr(&raw mut (*fields).entry);
        field.store(call as *mut c_void, Ordering::Release);
        if !is_cython {
            let definition = AtomicPtr::from_ptr(&raw mut (*fields).definition);
            let found = &*definition.load(Ordering::Acquire);
            let copy = PyMethodDef {
                ml_flags: found.ml_flags | MARK,
                ..*found
            };
            definition.store(Box::into_raw(Box::new(copy)), Ordering::Release);
        }
    }
    Ok(())
}

/// What the interpreter calls in the place of the function's own entry.
unsafe extern "C" fn call(
    function: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
    let given = unsafe { Arguments::new(Python::assume_attached(), args, count, names) };
    let Some(entry) = find(function) else {
        return ptr::null_mut(); // Not reached: functions that lead here have an entry.
    };
    if let Some(answer) = entry.answer(given) {
        return answer;
    }
    if entry.own == 0 {
        return entry.call_by_tuple(given);
    }
    // SAFETY: the interpreter keeps a function of this signature there, and it is called as we were.
    unsafe { std::mem::transmute::<usize, Vectorcall>(entry.own)(function, args, count, names) }
}

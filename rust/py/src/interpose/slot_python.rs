//! Leads calls of functions that are written in Python to their overrides.
//!
//! From Python 3.12 on, such a function has an entry that the interpreter respects wherever the function is kept
//! (`PyFunctionObject.vectorcall`). Python 3.11 calls functions from Python code past it: there the code of the function
//! begins with a call of the hook that is made here (`interpose/prologue.py`), before the function's frame is complete, so
//! that the hook sees the caller's frame; and it goes on as it was where the hook declines.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyMethodDef, PyMethodDefPointer, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::interpose::entry::{Entry, find};
use crate::interpose::slot::{Arguments, Vectorcall};
use crate::interpose::slot_class::{allocate_here, vectorcall_field};
use crate::runtime::context_variable::symbol;
use crate::runtime::hooks;
use crate::runtime::recording_state::is_anything_recorded;
use crate::runtime::type_object::is_layout_known;

type SetVectorcall = unsafe extern "C" fn(*mut PyObject, Vectorcall);

/// `PyFunction_SetVectorcall`, where the interpreter respects it.
fn set_vectorcall(py: Python<'_>) -> Option<SetVectorcall> {
    if py.version_info() < (3, 12) {
        return None;
    }
    let found = symbol(c"PyFunction_SetVectorcall")?;
    // SAFETY: it has this signature since Python 3.12.
    Some(unsafe { std::mem::transmute::<*mut c_void, SetVectorcall>(found) })
}

/// The entry of a function, 0 where it is its code that leads here.
pub fn own(function: &Bound<'_, PyAny>) -> PyResult<usize> {
    if set_vectorcall(function.py()).is_none() {
        return Ok(0);
    }
    let py = function.py();
    if !is_layout_known(py) {
        return Err(PyTypeError::new_err(
            "the classes of this interpreter have another layout",
        ));
    }
    // SAFETY: the layout of classes is known, and theirs says where its objects keep their entry.
    Ok(unsafe { *vectorcall_field(function.as_ptr()) })
}

/// Lets a function be called here from now on.
pub fn install(function: &Bound<'_, PyAny>, entry: &'static Entry) -> PyResult<()> {
    let py = function.py();
    if let Some(set) = set_vectorcall(py) {
        hooks::ADD_PROLOGUE
            .get(py)?
            .call1((function, py.None(), py.None()))?;
        let is_init = function.getattr("__name__")?.eq("__init__")?;
        let call = if is_init && py.version_info() >= (3, 13) {
            call_init
        } else {
            call
        };
        // SAFETY: it is a function, which its entry keeps alive.
        unsafe { set(function.as_ptr(), call) };
        return Ok(());
    }
    let flag = made(py, entry, &raw mut MAY_ANSWER)?;
    let hook = made(py, entry, &raw mut ANSWER)?;
    hooks::ADD_PROLOGUE.get(py)?.call1((function, flag, hook))?;
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
    // SAFETY: the interpreter keeps a function of this signature there, and it is called as we were.
    unsafe { std::mem::transmute::<usize, Vectorcall>(entry.own)(function, args, count, names) }
}

/// The same for an `__init__`: of a class that was made since overrides were installed, too, each call has to come here.
unsafe extern "C" fn call_init(
    function: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments; the layout of classes is known, or
    // the function would have no entry.
    unsafe {
        let given = Arguments::new(Python::assume_attached(), args, count, names);
        if let Some(&object) = given.pointers().first() {
            allocate_here(ffi::Py_TYPE(object));
        }
        call(function, args, count, names)
    }
}

/// Gives what overrides of an entry compute, and `NotImplemented` where the call is the library's own.
static mut ANSWER: PyMethodDef = PyMethodDef {
    ml_name: c"override".as_ptr(),
    ml_meth: PyMethodDefPointer {
        PyCFunctionFastWithKeywords: answer,
    },
    ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
    ml_doc: ptr::null(),
};

/// Says whether an override may compute a call at all: asked before each call, so without what pyo3 does around one.
static mut MAY_ANSWER: PyMethodDef = PyMethodDef {
    ml_name: c"may_override".as_ptr(),
    ml_meth: PyMethodDefPointer {
        PyCFunctionFast: may_answer,
    },
    ml_flags: ffi::METH_FASTCALL,
    ml_doc: ptr::null(),
};

/// A function of an entry's.
fn made<'py>(
    py: Python<'py>,
    entry: &'static Entry,
    definition: *mut PyMethodDef,
) -> PyResult<Bound<'py, PyAny>> {
    let address = ptr::from_ref(entry) as usize;
    let capsule = PyCapsule::new_with_value(py, address, c"cotan.entry")?;
    // SAFETY: the definition is never written to, and its function has the signature that the flags say.
    unsafe {
        let made = ffi::PyCFunction_NewEx(definition, capsule.as_ptr(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}

/// The entry that a capsule holds; `None` with an error set.
///
/// # Safety
///
/// It is one that `made` made, and the thread is attached.
unsafe fn entry_in(capsule: *mut PyObject) -> Option<&'static Entry> {
    // SAFETY: says the caller; the capsule holds the address of an entry, which is never freed.
    unsafe {
        let held = ffi::PyCapsule_GetPointer(capsule, c"cotan.entry".as_ptr()).cast::<usize>();
        held.as_ref().map(|address| &*(*address as *const Entry))
    }
}

unsafe extern "C" fn answer(
    capsule: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
    let (py, given, entry) = unsafe {
        let py = Python::assume_attached();
        let given = Arguments::new(py, args, usize::try_from(count).unwrap_or(0), names);
        (py, given, entry_in(capsule))
    };
    let Some(entry) = entry else {
        return ptr::null_mut();
    };
    entry
        .answer(given)
        .unwrap_or_else(|| py.NotImplemented().into_ptr())
}

unsafe extern "C" fn may_answer(
    capsule: *mut PyObject,
    _args: *mut *mut PyObject,
    _count: isize,
) -> *mut PyObject {
    // SAFETY: the interpreter called us, so this thread is attached.
    unsafe {
        let may = is_anything_recorded()
            && match entry_in(capsule) {
                Some(entry) => entry.may_answer(Python::assume_attached()),
                None => return ptr::null_mut(),
            };
        let answer = if may { ffi::Py_True() } else { ffi::Py_False() };
        ffi::Py_INCREF(answer);
        answer
    }
}

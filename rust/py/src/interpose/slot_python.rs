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
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use smallvec::SmallVec;

use crate::interpose::entry::{Entry, find};
use crate::interpose::slot::{Arguments, Vectorcall, guarded};
use crate::interpose::slot_class::{is_layout_known, vectorcall_field};
use crate::runtime::context_variable::symbol;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::runtime::recording_state::is_anything_recorded;

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
        hooks::ADD_PROLOGUE.get(py)?.call1((function, py.None()))?;
        // SAFETY: it is a function, which its entry keeps alive.
        unsafe { set(function.as_ptr(), call) };
        return Ok(());
    }
    let hook = hook(py, entry)?;
    hooks::ADD_PROLOGUE.get(py)?.call1((function, hook))?;
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

/// A function that gives what overrides of an entry compute, and `NotImplemented` where the call is the library's own.
fn hook<'py>(py: Python<'py>, entry: &'static Entry) -> PyResult<Bound<'py, PyAny>> {
    static mut DEFINITION: PyMethodDef = PyMethodDef {
        ml_name: c"override".as_ptr(),
        ml_meth: PyMethodDefPointer {
            PyCFunctionFastWithKeywords: answer,
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: ptr::null(),
    };
    let address = ptr::from_ref(entry) as usize;
    let capsule = PyCapsule::new_with_value(py, address, c"cotan.entry")?;
    // SAFETY: the definition is never written to, and its function has the signature that the flags say.
    unsafe {
        let made = ffi::PyCFunction_NewEx(&raw mut DEFINITION, capsule.as_ptr(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}

unsafe extern "C" fn answer(
    capsule: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments; the capsule holds the address of
    // an entry, which is never freed.
    let (py, given, entry) = unsafe {
        let py = Python::assume_attached();
        let held = ffi::PyCapsule_GetPointer(capsule, c"cotan.entry".as_ptr()).cast::<usize>();
        if held.is_null() {
            return ptr::null_mut();
        }
        let given = Arguments::new(py, args, usize::try_from(count).unwrap_or(0), names);
        (py, given, &*(*held as *const Entry))
    };
    if !is_anything_recorded() {
        return py.NotImplemented().into_ptr();
    }
    let Some(kept) = guarded(py, || without_defaults(entry.callable.bind(py), given)) else {
        return ptr::null_mut();
    };
    let pointers: SmallVec<[*mut PyObject; 8]> = kept.values.iter().map(Bound::as_ptr).collect();
    let names = kept.names.as_ref().map_or(ptr::null_mut(), Bound::as_ptr);
    // SAFETY: as many arguments as are said, alive until the call is over.
    let given = unsafe { Arguments::new(py, pointers.as_ptr(), kept.positional, names) };
    entry
        .answer(given)
        .unwrap_or_else(|| py.NotImplemented().into_ptr())
}

/// The arguments that a caller gave.
struct Given<'py> {
    values: SmallVec<[Bound<'py, PyAny>; 8]>,
    positional: usize,
    names: Option<Bound<'py, PyTuple>>,
}

/// The arguments of a call whose code has filled in the defaults, without those at the end that are defaults: an override
/// need not know what nobody gave.
fn without_defaults<'py>(
    function: &Bound<'py, PyAny>,
    given: Arguments<'py>,
) -> PyResult<Given<'py>> {
    let py = given.py();
    let mut values: SmallVec<[Bound<'py, PyAny>; 8]> = given.by_position().collect();
    let code = function.getattr(intern!(py, "__code__"))?;
    let count: usize = code.getattr(intern!(py, "co_argcount"))?.extract()?;
    let defaults = function.getattr(intern!(py, "__defaults__"))?;
    if values.len() == count
        && let Ok(defaults) = defaults.cast::<PyTuple>()
    {
        for default in defaults.iter().rev() {
            if values.last().is_none_or(|last| !last.is(&default)) {
                break;
            }
            values.pop();
        }
    }
    let positional = values.len();
    let Some(named) = given.by_keyword()? else {
        return Ok(Given {
            values,
            positional,
            names: None,
        });
    };
    let defaults = function.getattr(intern!(py, "__kwdefaults__"))?;
    if let Ok(defaults) = defaults.cast::<PyDict>() {
        for (name, default) in defaults.iter() {
            if named
                .get_item(&name)?
                .is_some_and(|value| value.is(&default))
            {
                named.del_item(&name)?;
            }
        }
    }
    values.extend(named.values());
    let names = (!named.is_empty()).then(|| named.keys().to_tuple());
    Ok(Given {
        values,
        positional,
        names,
    })
}

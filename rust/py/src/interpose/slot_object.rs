//! Leads calls of objects that are called through their class to overrides: the routines that f2py wraps, and functions of
//! `scipy.fft`.
//!
//! Such an object has no entry of its own. Its class has one (`tp_call`), which leads here for all of its objects; those
//! without an override go on to the class's own.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::interpose::entry::{Entry, find, find_for_objects};
use crate::interpose::slot::{Arguments, HAVE_VECTORCALL, TupleCall};
use crate::runtime::text;
use crate::runtime::type_object::{TypeObject, is_layout_known};

/// Classes whose objects are called here, and what called them before.
static CLASSES: [[AtomicUsize; 2]; MOST] =
    [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; MOST];
const MOST: usize = 32;

/// Whether an object is called through its class, and the class is compiled.
pub fn is_one(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = object.get_type();
    let flags: u64 = class.getattr("__flags__")?.extract()?;
    // Classes written in Python have a method that can be overridden itself.
    let name = class.name()?;
    let is_known = name == "fortran" || name == "_Function";
    Ok(is_known && flags & HAVE_VECTORCALL == 0 && is_layout_known(object.py()))
}

/// Lets the objects of a class be called here from now on.
///
/// Raises `TypeError` for a class whose objects have entries of their own.
pub fn install_class(class: &Bound<'_, PyType>) -> PyResult<()> {
    let flags: u64 = class.getattr("__flags__")?.extract()?;
    if flags & HAVE_VECTORCALL != 0 || !is_layout_known(class.py()) {
        return Err(PyTypeError::new_err(format!(
            "calls of objects of {} cannot be overridden",
            text::repr(class)?
        )));
    }
    lead(class)
}

/// Lets the objects of a class be called here from now on, whose layout is known.
///
/// Raises `TypeError` where there are too many such classes.
pub fn lead(class: &Bound<'_, PyType>) -> PyResult<()> {
    let name = class;
    let class = class.as_type_ptr();
    if own_of(class).is_some() {
        return Ok(());
    }
    let Some(free) = CLASSES.iter().find(|c| c[0].load(Ordering::Acquire) == 0) else {
        return Err(PyTypeError::new_err(format!(
            "calls of objects of {} cannot be overridden: MOST in slot_object.rs, {MOST} classes, has to be larger",
            text::repr(name)?
        )));
    };
    // SAFETY: the layout of classes has been compared with what the interpreter says, and the field is an aligned pointer.
    let field = unsafe { AtomicPtr::from_ptr(&raw mut (*class.cast::<TypeObject>()).call) };
    free[1].store(field.load(Ordering::Acquire) as usize, Ordering::Release);
    free[0].store(class as usize, Ordering::Release);
    // The class stays: it is compiled into its module.
    // SAFETY: a reference more, which is never given back.
    unsafe { ffi::Py_INCREF(class.cast()) };
    field.store(call as *mut std::ffi::c_void, Ordering::Release);
    Ok(())
}

fn own_of(class: *mut ffi::PyTypeObject) -> Option<TupleCall> {
    let found = CLASSES
        .iter()
        .find(|c| c[0].load(Ordering::Acquire) == class as usize)?;
    // SAFETY: the interpreter kept a function of this signature there.
    Some(unsafe { std::mem::transmute::<usize, TupleCall>(found[1].load(Ordering::Acquire)) })
}

/// What the interpreter calls in the place of the class's own function.
unsafe extern "C" fn call(
    object: *mut PyObject,
    args: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the object is alive.
    let Some(own) = own_of(unsafe { ffi::Py_TYPE(object) }) else {
        return ptr::null_mut(); // Not reached: it is entered before this function is put in place.
    };
    // SAFETY: the object and the arguments are alive, and the interpreter called us, so this thread is attached.
    let may_answer =
        |entry: &Entry| unsafe { entry.may_answer_tuple(Python::assume_attached(), args, named) };
    // SAFETY: the object is alive.
    let for_all = find_for_objects(unsafe { ffi::Py_TYPE(object) });
    if let Some(entry) = for_all.filter(|entry| may_answer(entry)) {
        // SAFETY: as below; the object itself comes first.
        let answer = unsafe {
            let py = Python::assume_attached();
            with_object(py, object, args, named, |given| entry.answer(given))
        };
        match answer {
            Ok(Some(answer)) => return answer,
            Ok(None) => {}
            Err(()) => return ptr::null_mut(),
        }
    }
    if let Some(entry) = find(object).filter(|entry| may_answer(entry)) {
        // SAFETY: the interpreter called us, so this thread is attached, with a tuple and a dictionary or null.
        let answer = unsafe {
            let py = Python::assume_attached();
            with_arguments(py, args, named, |given| entry.answer(given))
        };
        match answer {
            Ok(Some(answer)) => return answer,
            Ok(None) => {}
            Err(()) => return ptr::null_mut(),
        }
    }
    // SAFETY: as we were called ourselves.
    unsafe { own(object, args, named) }
}

/// The same with an object before the arguments.
///
/// # Safety
///
/// As for `with_arguments`; the object is alive.
unsafe fn with_object<T>(
    py: Python<'_>,
    object: *mut PyObject,
    args: *mut PyObject,
    named: *mut PyObject,
    then: impl FnOnce(Arguments<'_>) -> T,
) -> Result<T, ()> {
    // SAFETY: says the caller.
    let (object, args) = unsafe {
        (
            Bound::from_borrowed_ptr(py, object),
            Bound::from_borrowed_ptr(py, args),
        )
    };
    let longer = args
        .cast_into::<PyTuple>()
        .map_err(PyErr::from)
        .and_then(|args| {
            let all: Vec<_> = std::iter::once(object).chain(args.iter()).collect();
            PyTuple::new(py, all)
        });
    match longer {
        // SAFETY: says the caller.
        Ok(longer) => unsafe { with_arguments(py, longer.as_ptr(), named, then) },
        Err(error) => {
            error.restore(py);
            Err(())
        }
    }
}

/// The arguments of a call that come in a tuple and a dictionary, side by side. An error is set where there is one.
///
/// # Safety
///
/// They are a tuple, and a dictionary or null, alive for the call.
pub unsafe fn with_arguments<T>(
    py: Python<'_>,
    args: *mut PyObject,
    named: *mut PyObject,
    then: impl FnOnce(Arguments<'_>) -> T,
) -> Result<T, ()> {
    let listed = || -> PyResult<_> {
        // SAFETY: says the caller.
        let (args, named) = unsafe {
            (
                Bound::from_borrowed_ptr(py, args).cast_into::<PyTuple>()?,
                Bound::from_borrowed_ptr_or_opt(py, named),
            )
        };
        let mut values: Vec<Bound<'_, PyAny>> = args.iter().collect();
        let mut names = None;
        if let Some(named) = named {
            let named = named.cast_into::<PyDict>()?;
            if !named.is_empty() {
                values.extend(named.values());
                names = Some(named.keys().to_tuple());
            }
        }
        Ok((values, args.len(), names))
    };
    match listed() {
        Ok((values, positional, names)) => {
            let pointers: Vec<*mut PyObject> = values.iter().map(Bound::as_ptr).collect();
            let names = names.as_ref().map_or(ptr::null_mut(), Bound::as_ptr);
            // SAFETY: as many as are said, alive while the call goes on.
            Ok(then(unsafe {
                Arguments::new(py, pointers.as_ptr(), positional, names)
            }))
        }
        Err(error) => {
            error.restore(py);
            Err(())
        }
    }
}

/// Calls an object in the way of its class, past the entries of ours.
///
/// # Safety
///
/// It can be called so.
pub unsafe fn call_slowly<'py>(
    py: Python<'py>,
    object: *mut PyObject,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let kwargs = kwargs.map_or(ptr::null_mut(), Bound::as_ptr);
    // SAFETY: says the caller; its class led here, so what it kept before is known.
    unsafe {
        let own = own_of(ffi::Py_TYPE(object))
            .ok_or_else(|| PyTypeError::new_err("this object has no entry"))?;
        Bound::from_owned_ptr_or_err(py, own(object, args.as_ptr(), kwargs))
    }
}

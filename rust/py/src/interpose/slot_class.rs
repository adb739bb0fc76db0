//! Leads calls of classes to overrides: `float(x)`, `np.float64(x)`, `np.matrix(x)`.
//!
//! A class has a field by which the interpreter calls it (`tp_vectorcall`), mostly empty: it makes an object in the slow way
//! then, and so do we. Subclasses do not inherit it. Newer interpreters know a shorter way into a class whose `__init__` is
//! written in Python, unless that has an entry of its own (`interpose/install.py`). The layout of classes is compared with
//! what the interpreter says before it is relied on.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use crate::interpose::entry::find;
use crate::interpose::slot::{Arguments, HAVE_VECTORCALL, Vectorcall};
use crate::runtime::type_object::{TypeObject, is_layout_known};

/// Where an object of a class with the flag `HAVE_VECTORCALL` keeps its entry.
///
/// # Safety
///
/// The object is alive, and the layout of classes is known.
pub unsafe fn vectorcall_field(object: *mut PyObject) -> *const usize {
    // SAFETY: says the caller.
    unsafe {
        let class = ffi::Py_TYPE(object).cast::<TypeObject>();
        object
            .byte_offset((*class).vectorcall_offset)
            .cast::<usize>()
    }
}

/// The entry of a class, 0 where there is none; `None` where it cannot be overridden.
pub fn own(class: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let metaclass_flags: u64 = class.get_type().getattr("__flags__")?.extract()?;
    if !is_layout_known(class.py()) || metaclass_flags & HAVE_VECTORCALL == 0 {
        return Ok(None);
    }
    // SAFETY: it is a class, of the known layout.
    Ok(Some(
        unsafe { (*class.as_ptr().cast::<TypeObject>()).vectorcall } as usize,
    ))
}

/// Lets a class be called here from now on.
pub fn install(class: &Bound<'_, PyAny>) {
    let object = class.as_ptr().cast::<TypeObject>();
    // SAFETY: it is a class of the known layout, which is kept alive by its entry; the fields are aligned pointers.
    unsafe {
        AtomicPtr::from_ptr(&raw mut (*object).vectorcall)
            .store(call as *mut c_void, Ordering::Release);
        // What the interpreter has cached of the class would go past it.
        ffi::PyType_Modified(object.cast());
    }
}

/// What the interpreter calls in the place of the class's own entry.
unsafe extern "C" fn call(
    class: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
    let given = unsafe { Arguments::new(Python::assume_attached(), args, count, names) };
    let Some(entry) = find(class) else {
        return ptr::null_mut(); // Not reached: classes that lead here have an entry.
    };
    if let Some(answer) = entry.answer(given) {
        return answer;
    }
    if entry.own == 0 {
        return entry.call_by_tuple(given);
    }
    // SAFETY: the interpreter keeps a function of this signature there, and it is called as we were.
    unsafe { std::mem::transmute::<usize, Vectorcall>(entry.own)(class, args, count, names) }
}

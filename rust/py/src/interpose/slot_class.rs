//! Leads calls of classes to overrides: `float(x)`, `np.float64(x)`, `np.matrix(x)`.
//!
//! A class has a field by which the interpreter calls it (`tp_vectorcall`), mostly empty: it makes an object in the slow way
//! then, and so do we. Subclasses do not inherit it. Newer interpreters know a shorter way into a class whose `__init__` is
//! written in Python, unless that has an entry of its own (`interpose/install.py`). The layout of classes is compared with
//! what the interpreter says before it is relied on.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject, PyVarObject};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyType};

use crate::interpose::entry::find;
use crate::interpose::slot::{Arguments, HAVE_VECTORCALL, Vectorcall};

/// `PyTypeObject`, of which pyo3 shows nothing with the stable ABI.
#[repr(C)]
pub struct TypeObject {
    head: PyVarObject,
    name: *const c_char,
    sizes: [isize; 2],
    dealloc: *mut c_void,
    vectorcall_offset: isize,
    early: [*mut c_void; 8],
    pub call: *mut c_void,
    conversions: [*mut c_void; 4],
    flags: c_ulong,
    middle: [*mut c_void; 4],
    weaklist_offset: isize,
    iteration: [*mut c_void; 5],
    base: *mut c_void,
    dict: *mut c_void,
    descriptors: [*mut c_void; 2],
    dict_offset: isize,
    init: *mut c_void,
    alloc: *mut c_void,
    new: *mut c_void,
    late: [*mut c_void; 7],
    del: *mut c_void,
    version: c_int,
    finalize: *mut c_void,
    vectorcall: *mut c_void,
}

/// Whether classes are laid out as `TypeObject` says: compared for several fields up to the last one but one.
pub fn is_layout_known(py: Python<'_>) -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let generator = py
            .import("types")
            .and_then(|types| types.getattr("GeneratorType"));
        let Ok(generator) = generator.and_then(|g| Ok(g.cast_into::<PyType>()?)) else {
            return false;
        };
        let float = py.get_type::<PyFloat>();
        [float, py.get_type::<PyType>(), generator]
            .iter()
            .all(|class| {
                let class = class.as_type_ptr();
                let found = class.cast::<TypeObject>();
                // SAFETY: a class is at least as large as a `PyTypeObject`, which ends with the field that is never read here.
                unsafe {
                    let slot = |which: c_int| ffi::PyType_GetSlot(class, which);
                    (*found).flags & 0xFFFF_FFFF == ffi::PyType_GetFlags(class) & 0xFFFF_FFFF
                        && (*found).call == slot(ffi::Py_tp_call)
                        && (*found).dealloc == slot(ffi::Py_tp_dealloc)
                        && (*found).init == slot(ffi::Py_tp_init)
                        && (*found).alloc == slot(ffi::Py_tp_alloc)
                        && (*found).new == slot(ffi::Py_tp_new)
                        && (*found).finalize == slot(ffi::Py_tp_finalize)
                        && (*found).base == slot(ffi::Py_tp_base)
                }
            })
    })
}

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

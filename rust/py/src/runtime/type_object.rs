//! Shows the fields of class objects that the stable ABI hides, after comparing their layout with what the interpreter
//! reports.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::sync::OnceLock;

use pyo3::ffi::{self, PyVarObject};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyType};

/// `PyTypeObject`, of which pyo3 shows nothing with the stable ABI.
#[repr(C)]
pub struct TypeObject {
    head: PyVarObject,
    pub name: *const c_char,
    sizes: [isize; 2],
    pub dealloc: *mut c_void,
    pub vectorcall_offset: isize,
    early: [*mut c_void; 8],
    pub call: *mut c_void,
    conversions: [*mut c_void; 4],
    pub flags: c_ulong,
    middle: [*mut c_void; 4],
    weaklist_offset: isize,
    iteration: [*mut c_void; 5],
    base: *mut c_void,
    dict: *mut c_void,
    descriptors: [*mut c_void; 2],
    dict_offset: isize,
    init: *mut c_void,
    pub alloc: *mut c_void,
    new: *mut c_void,
    late: [*mut c_void; 7],
    del: *mut c_void,
    version: c_int,
    finalize: *mut c_void,
    pub vectorcall: *mut c_void,
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

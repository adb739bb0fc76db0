//! Leads calls of classes to overrides: `float(x)`, `np.float64(x)`, `np.matrix(x)`.
//!
//! A class has a field by which the interpreter calls it (`tp_vectorcall`), mostly empty: it makes an object in the slow way
//! then, and so do we. Subclasses do not inherit it. From Python 3.13 on, the interpreter knows a shorter way into a class
//! whose `__init__` is written in Python, past the entries of both; it takes it where objects are allocated in the common way
//! alone, so overridden classes allocate theirs by a function of ours. The layout of classes is compared with what the
//! interpreter says before it is relied on.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyType;

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

/// Whether a class is made at run time, and may be changed (`Py_TPFLAGS_HEAPTYPE`, `Py_TPFLAGS_IMMUTABLETYPE`).
const KIND: u64 = 1 << 9 | 1 << 8;
const CHANGEABLE: u64 = 1 << 9;

/// Lets every call of a class, and of the classes that derive from it, run the entry of its `__init__`.
///
/// Those that are made later are met when they are called for the first time.
pub fn keep_entries(class: &Bound<'_, PyType>) -> PyResult<()> {
    let py = class.py();
    if py.version_info() < (3, 13) || !is_layout_known(py) {
        return Ok(());
    }
    // SAFETY: it is a class of the known layout, which cannot be deallocated meanwhile.
    unsafe { allocate_here(class.as_type_ptr()) };
    let derived = py
        .get_type::<PyType>()
        .call_method1("__subclasses__", (class,))?;
    for one in derived.try_iter()? {
        keep_entries(&one?.cast_into::<PyType>()?)?;
    }
    Ok(())
}

/// Lets a class allocate its objects by `allocate`, if it does so in the common way.
///
/// # Safety
///
/// It is a class of the known layout, and the thread is attached.
#[inline]
pub unsafe fn allocate_here(class: *mut PyTypeObject) {
    // SAFETY: says the caller; the field is an aligned pointer, and either function serves whoever reads it.
    unsafe {
        let field = AtomicPtr::from_ptr(&raw mut (*class.cast::<TypeObject>()).alloc);
        if field.load(Ordering::Relaxed) != common_way() {
            return;
        }
        if ffi::PyType_GetFlags(class) as u64 & KIND == CHANGEABLE {
            field.store(allocate as *mut c_void, Ordering::Release);
            ffi::PyType_Modified(class);
        }
    }
}

/// What allocates an object of `object`.
fn common_way() -> *mut c_void {
    // SAFETY: the interpreter's own class has the known layout, and is never changed.
    unsafe { (*(&raw const ffi::PyBaseObject_Type).cast::<TypeObject>()).alloc }
}

unsafe extern "C" fn allocate(class: *mut PyTypeObject, count: isize) -> *mut PyObject {
    // SAFETY: as we were called ourselves.
    unsafe { ffi::PyType_GenericAlloc(class, count) }
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

//! Exchanges the classes of modules, before and after each gradient, in a few nanoseconds each.
//!
//! An assignment to `__class__` takes some 25 ns, which dozens of modules add up to more than a small gradient.
//! Whether a class fits is what takes the time, and that is found out once, by such assignments. After that
//! the module is given the other class as the interpreter does it in the end: the field is written, and the
//! references are counted (`object_set_class` in `CPython`; the field is a part of the stable ABI).
#![allow(unsafe_code)]

use pyo3::ffi::{self, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::runtime::once_cell::intern;

/// A module, its class while something is recorded, and otherwise.
pub struct Module {
    object: Py<PyAny>,
    lifted: Class,
    plain: Class,
}

struct Class {
    class: Py<PyType>,
    /// Whether objects hold a reference to it, which they do unless it is static.
    counts: bool,
}

impl Class {
    fn new(class: Bound<'_, PyType>) -> Class {
        // SAFETY: it is a class.
        let flags = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) };
        Class {
            class: class.unbind(),
            counts: flags & ffi::Py_TPFLAGS_HEAPTYPE != 0,
        }
    }

    fn as_ptr(&self) -> *mut PyTypeObject {
        self.class.as_ptr().cast()
    }
}

impl Module {
    /// An error where the module cannot have such a class.
    pub fn new(object: &Bound<'_, PyAny>, lifted: Bound<'_, PyType>) -> PyResult<Module> {
        let plain = object.get_type();
        let name = intern!(object.py(), "__class__");
        object.setattr(name, &lifted)?;
        object.setattr(name, &plain)?;
        Ok(Module {
            object: object.clone().unbind(),
            lifted: Class::new(lifted),
            plain: Class::new(plain),
        })
    }

    pub fn is(&self, object: &Bound<'_, PyAny>) -> bool {
        self.object.is(object)
    }

    /// Its class while something is recorded.
    pub fn lifted(&self, py: Python<'_>) -> Py<PyType> {
        self.lifted.class.clone_ref(py)
    }

    /// Gives it the one class in the place of the other; one that somebody else gave it stays.
    pub fn set(&self, _py: Python<'_>, lifted: bool) {
        let (from, to) = if lifted {
            (&self.plain, &self.lifted)
        } else {
            (&self.lifted, &self.plain)
        };
        let object = self.object.as_ptr();
        // SAFETY: this thread is attached, the module is alive, and both classes have been its class, so its
        // memory is as either wants it. Each keeps the count of references that it would have after an
        // assignment; the last one to the class before is not given up, since `self` holds another.
        unsafe {
            if (*object).ob_type != from.as_ptr() {
                return;
            }
            if to.counts {
                ffi::Py_INCREF(to.as_ptr().cast());
            }
            (*object).ob_type = to.as_ptr();
            if from.counts {
                ffi::Py_DECREF(from.as_ptr().cast());
            }
        }
    }
}

//! NumPy's classes of numbers, called with traced values: `dtype(x)` for a `dtype = np.float64` of before.
//!
//! On the module a stand-in is found; where a program keeps the class, what makes objects of it
//! (`PyTypeObject.tp_new`) leads here while something is recorded. The field has its place in all versions of
//! `CPython`, and is compared with what the interpreter says before it is relied on.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::lift::{follows, is_lifting};

type New = unsafe extern "C" fn(*mut PyTypeObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// How many fields of the size of a pointer are before the one that makes objects, after the head.
const BEFORE: usize = 36;

/// A class whose objects are made here, where a gradient follows what they are made of.
struct Known {
    class: Py<PyType>,
    own: New,
    rule: Py<PyAny>,
}

const MOST: usize = 8;
static KNOWN: [OnceLock<Known>; MOST] = [const { OnceLock::new() }; MOST];
static CALLS: [New; MOST] = [
    call::<0>, call::<1>, call::<2>, call::<3>, call::<4>, call::<5>, call::<6>, call::<7>,
];

/// How many classes are made here while something is recorded.
pub struct Numbers(usize);

impl Numbers {
    pub const fn new() -> Numbers {
        Numbers(0)
    }

    /// Adds a class; false when it is of another kind.
    pub fn add(&mut self, class: &Bound<'_, PyType>, rule: Py<PyAny>, lifted: bool) -> bool {
        let known = || KNOWN[..self.0].iter().filter_map(OnceLock::get);
        if known().any(|k| k.class.is(class)) {
            return true;
        }
        if self.0 == MOST {
            return false;
        }
        // SAFETY: it is a class; what is given is null or of this signature.
        let said = unsafe { ffi::PyType_GetSlot(class.as_type_ptr(), ffi::Py_tp_new) };
        // SAFETY: it is a class, of at least this size.
        let found = unsafe { *field(class.as_type_ptr()) };
        if said.is_null() || said != found {
            return false;
        }
        // SAFETY: as above.
        let own = unsafe { std::mem::transmute::<*mut c_void, New>(found) };
        let new = Known {
            class: class.clone().unbind(),
            own,
            rule,
        };
        if KNOWN[self.0].set(new).is_err() {
            return false;
        }
        self.0 += 1;
        if lifted {
            self.set(true);
        }
        true
    }

    /// Lets all be made here, or as NumPy makes them.
    pub fn set(&self, lifted: bool) {
        for (known, call) in KNOWN[..self.0].iter().zip(CALLS) {
            let Some(known) = known.get() else { continue };
            let to = if lifted { call } else { known.own };
            // SAFETY: the class is kept alive, and the field is an aligned pointer; whoever reads it meanwhile finds
            // one function or the other, and may call either.
            unsafe { AtomicPtr::from_ptr(field(known.class.as_ptr().cast())) }
                .store(to as *mut c_void, Ordering::Release);
        }
    }
}

/// Where a class keeps what makes its objects.
fn field(class: *mut PyTypeObject) -> *mut *mut c_void {
    // SAFETY: it is a class; no reference to it is made.
    unsafe {
        class
            .cast::<ffi::PyVarObject>()
            .add(1)
            .cast::<*mut c_void>()
            .add(BEFORE)
    }
}

/// What the interpreter calls in the place of NumPy's own function.
unsafe extern "C" fn call<const INDEX: usize>(
    class: *mut PyTypeObject,
    args: *mut PyObject,
    kwargs: *mut PyObject,
) -> *mut PyObject {
    let Some(known) = KNOWN[INDEX].get() else {
        return ptr::null_mut(); // Not reached: it is set before this function is put in place.
    };
    // Classes that were derived meanwhile have the function from there.
    if is_lifting() && known.class.as_ptr().cast() == class && kwargs.is_null() {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
            unsafe { computed(known, args) }
        }));
        let error = match outcome {
            Ok(Ok(Some(result))) => return result.into_ptr(),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(PyRuntimeError::new_err(
                "a class failed in cotan; please report it",
            )),
        };
        if let Some(error) = error {
            // SAFETY: as above.
            error.restore(unsafe { Python::assume_attached() });
            return ptr::null_mut();
        }
    }
    // SAFETY: as we were called ourselves.
    unsafe { (known.own)(class, args, kwargs) }
}

/// What our rule makes; `None` where it is not asked.
///
/// # Safety
///
/// The thread is attached, and the arguments are a tuple.
unsafe fn computed(known: &Known, args: *mut PyObject) -> PyResult<Option<Py<PyAny>>> {
    // SAFETY: says the caller; it is alive for the call.
    let args = unsafe { Bound::from_borrowed_ptr(Python::assume_attached(), args) };
    let args = args.cast_into::<PyTuple>()?;
    let py = args.py();
    if args.len() != 1 || !follows(&args.get_item(0)?)? {
        return Ok(None);
    }
    let result = known.rule.bind(py).call(args, None::<&Bound<'_, PyDict>>)?;
    let skipped = result.is(py.NotImplemented().bind(py));
    Ok((!skipped).then(|| result.unbind()))
}

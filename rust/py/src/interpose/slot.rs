//! Holds what the entry points of compiled functions, methods and ufuncs have in common: their arguments side by
//! side, the rule that may compute them, and how an error gets back to Python.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyMethodDef, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use crate::array::cell::PyArray;
use crate::interpose::contains_array::{any_in, contains_active, contains_array};
use crate::interpose::replayable;
use crate::runtime::error::panicked;

/// `vectorcallfunc`, which the limited API of early versions lacks.
pub type Vectorcall = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;

/// What a class keeps for calls of its objects with a tuple and keywords.
pub type TupleCall =
    unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// The flag of classes whose objects say themselves how they are called (`Py_TPFLAGS_HAVE_VECTORCALL`).
pub const HAVE_VECTORCALL: u64 = 1 << 11;

/// Set in the number of arguments when the caller lends a slot before them (`PY_VECTORCALL_ARGUMENTS_OFFSET`).
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// The arguments of a call: those by position side by side, then the values of those by keyword.
#[derive(Clone, Copy)]
pub struct Arguments<'py> {
    py: Python<'py>,
    first: *const *mut PyObject,
    positional: usize,
    keywords: usize,
    /// The names of the keywords: a tuple, or null.
    names: *mut PyObject,
}

impl<'py> Arguments<'py> {
    /// # Safety
    ///
    /// These are the arguments of a call that is going on, as the interpreter handed them over.
    #[inline]
    pub unsafe fn new(
        py: Python<'py>,
        first: *const *mut PyObject,
        count: usize,
        names: *mut PyObject,
    ) -> Arguments<'py> {
        let keywords = if names.is_null() {
            0
        } else {
            // SAFETY: the names of keywords are a tuple.
            usize::try_from(unsafe { ffi::PyTuple_Size(names) }).unwrap_or(0)
        };
        Arguments {
            py,
            first,
            positional: count & !ARGUMENTS_OFFSET,
            keywords,
            names,
        }
    }

    pub fn py(self) -> Python<'py> {
        self.py
    }

    /// How many are given by position.
    pub fn positional(self) -> usize {
        self.positional
    }

    /// The same without the first.
    pub fn without_first(self) -> Arguments<'py> {
        let rest = self.positional.saturating_sub(1);
        let skipped = self.positional - rest;
        Arguments {
            first: self.first.wrapping_add(skipped),
            positional: rest,
            ..self
        }
    }

    pub fn has_keywords(self) -> bool {
        self.keywords > 0
    }

    /// Those by position.
    #[inline]
    pub fn by_position(self) -> impl ExactSizeIterator<Item = Bound<'py, PyAny>> {
        // SAFETY: each is alive for the call, and a reference of ours is taken.
        (0..self.positional).map(move |i| unsafe { self.get(i) })
    }

    /// All of them, those by keyword last.
    #[inline]
    pub fn all(self) -> impl ExactSizeIterator<Item = Bound<'py, PyAny>> {
        // SAFETY: as above.
        (0..self.positional + self.keywords).map(move |i| unsafe { self.get(i) })
    }

    /// All of them, for a look without taking a reference.
    #[inline]
    pub fn pointers(&self) -> &[*mut PyObject] {
        let count = self.positional + self.keywords;
        if count == 0 {
            return &[];
        }
        // SAFETY: the interpreter keeps that many there while the call goes on.
        unsafe { std::slice::from_raw_parts(self.first, count) }
    }

    /// # Safety
    ///
    /// There are more than `i`.
    unsafe fn get(self, i: usize) -> Bound<'py, PyAny> {
        // SAFETY: says the caller; each is alive for the call.
        unsafe { Bound::from_borrowed_ptr(self.py, *self.first.add(i)) }
    }

    /// Those by keyword as a dictionary, if there are any.
    pub fn by_keyword(self) -> PyResult<Option<Bound<'py, PyDict>>> {
        if !self.has_keywords() {
            return Ok(None);
        }
        let kwargs = PyDict::new(self.py);
        // SAFETY: the names of keywords are a tuple, alive for the call.
        let names = unsafe { Bound::from_borrowed_ptr(self.py, self.names) };
        let values = self.all().skip(self.positional);
        for (name, value) in names.cast_into::<PyTuple>()?.iter().zip(values) {
            kwargs.set_item(name, value)?;
        }
        Ok(Some(kwargs))
    }
}

/// Whether an object is a list or a tuple.
///
/// # Safety
///
/// It is alive, and the thread attached.
#[inline]
pub unsafe fn is_list(object: *mut PyObject) -> bool {
    // SAFETY: says the caller.
    unsafe { ffi::PyList_Check(object) != 0 || ffi::PyTuple_Check(object) != 0 }
}

/// Runs what an entry of ours computes. `None` is with the error set, as the interpreter expects it beside null; a bug
/// that panics becomes one.
#[inline]
pub fn guarded<T>(py: Python<'_>, compute: impl FnOnce() -> PyResult<T>) -> Option<T> {
    let error = match catch_unwind(AssertUnwindSafe(compute)) {
        Ok(Ok(result)) => return Some(result),
        Ok(Err(error)) => error,
        Err(panic) => panicked(&*panic),
    };
    error.restore(py);
    None
}

/// When the override of a method or a function applies.
#[derive(Clone, Copy, PartialEq)]
pub enum When {
    /// For lists that hold arrays of ours.
    Lists,
    /// Where an array of ours is an argument itself, and for such lists.
    Arrays,
    /// Where an array of ours is an argument itself: of functions of numbers.
    Numbers,
    /// Where an argument, or something in a list, is active: the way of libraries.
    Active,
    /// Where an argument itself is active.
    ActiveNumbers,
    /// In user code, where an array of ours is an argument itself, or an object that may become one: classes of numbers.
    UserNumbers,
    /// Where an `Array` is an argument, in lists or over one, in any way that cotan knows.
    Contained,
    /// Always.
    Always,
}

impl When {
    /// By its name in Python.
    pub fn from_name(name: &str) -> PyResult<When> {
        Ok(match name {
            "lists" => When::Lists,
            "arrays" => When::Arrays,
            "contained" => When::Contained,
            "numbers" => When::Numbers,
            "user numbers" => When::UserNumbers,
            "always" => When::Always,
            _ => return Err(PyValueError::new_err(format!("no such case: {name}"))),
        })
    }

    /// Whether the override applies to one of these arguments.
    #[inline]
    pub fn for_any<'py>(self, given: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<bool> {
        if self == When::Always {
            return Ok(true);
        }
        if self == When::Contained {
            return any_in(given);
        }
        for argument in given {
            if self.for_argument(&argument)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn for_argument(self, given: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self == When::Active {
            return contains_active(given);
        }
        if given.is_instance_of::<PyArray>() {
            return match self {
                When::Arrays | When::Numbers | When::UserNumbers => Ok(true),
                When::ActiveNumbers => contains_active(given),
                _ => Ok(false),
            };
        }
        if matches!(self, When::Numbers | When::ActiveNumbers) {
            return Ok(false);
        }
        if self == When::UserNumbers {
            let is_plain = given.is_exact_instance_of::<PyFloat>()
                || given.is_exact_instance_of::<PyInt>()
                || given.is_exact_instance_of::<PyString>();
            return Ok(!is_plain);
        }
        if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
            return contains_array(
                &PyTuple::new(given.py(), [given])?,
                &PyDict::new(given.py()),
            );
        }
        Ok(false)
    }
}

/// A function of ours that computes the calls of a compiled one.
pub struct Override {
    pub function: Py<PyAny>,
    pub when: When,
}

impl Override {
    /// What it computes; `None` where it leaves the call to the original.
    pub fn call<'py>(
        &self,
        py: Python<'py>,
        args: impl Iterator<Item = Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let args: SmallVec<[_; 5]> = args.collect();
        let result = replayable::call(self.function.bind(py), &PyTuple::new(py, args)?, kwargs)?;
        let skipped = result.is(py.NotImplemented().bind(py));
        Ok((!skipped).then(|| result.unbind()))
    }
}

/// Calls an object in the slow way of the interpreter, by what its class keeps for that.
///
/// # Safety
///
/// It can be called so, and what its class keeps does not lead to an entry of ours.
pub unsafe fn call_by_class<'py>(
    py: Python<'py>,
    object: *mut PyObject,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let kwargs = kwargs.map_or(ptr::null_mut(), Bound::as_ptr);
    // SAFETY: says the caller; classes keep a function of this signature there.
    unsafe {
        let slot = ffi::PyType_GetSlot(ffi::Py_TYPE(object), ffi::Py_tp_call);
        let own = std::mem::transmute::<*mut c_void, TupleCall>(slot);
        Bound::from_owned_ptr_or_err(py, own(object, args.as_ptr(), kwargs))
    }
}

/// The definition that a field of an object points to, if it is that of a function or method of this name: whether the
/// field is where we take it to be.
///
/// # Safety
///
/// The pointer is null, or to a definition that is never freed while it is used.
pub unsafe fn definition_of<'a>(found: *mut PyMethodDef, name: &str) -> Option<&'a PyMethodDef> {
    // SAFETY: says the caller; names of definitions are texts that end with a zero.
    unsafe {
        let found = found.as_ref()?;
        let is_it =
            !found.ml_name.is_null() && CStr::from_ptr(found.ml_name).to_bytes() == name.as_bytes();
        is_it.then_some(found)
    }
}

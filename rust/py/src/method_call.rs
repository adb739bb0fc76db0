//! Methods of plain ndarrays and of ufuncs with traced values: `table.dot(x)`, `np.add.reduce([x, y])`.
//!
//! Such methods are compiled, and NumPy asks nobody what to do with their arguments. So while something is
//! recorded the entry by which the interpreter calls one leads here, in a thread that records: where an array
//! of ours is met, a function of ours computes it; NumPy's own entry is called otherwise. That entry is in
//! the definition that the method's descriptor points to (`PyMethodDescrObject.d_method`), a field that
//! has its place in all versions of `CPython`; it is looked at before it is relied on.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods, PyList, PyString, PyTuple, PyTupleMethods};

use crate::array::PyArray;
use crate::involved::{follows, involves};
use crate::lift::is_lifting;

type Fast = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    isize,
    *mut PyObject,
) -> *mut PyObject;

type Slow = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// NumPy's own entry, by its calling convention.
#[derive(Clone, Copy)]
enum Own {
    /// Arguments side by side, with the names of the last ones.
    Fast(Fast),
    /// Arguments in a tuple, and others in a dictionary or nowhere.
    Slow(Slow),
}

/// `PyMethodDef`, as `CPython` publishes it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Definition {
    name: *const c_char,
    function: *mut c_void,
    flags: c_int,
    doc: *const c_char,
}

/// The beginning of `PyMethodDescrObject`.
#[repr(C)]
struct Descriptor {
    head: PyObject,
    class: *mut PyObject,
    name: *mut PyObject,
    qualified: *mut PyObject,
    method: *mut Definition,
}

/// A method that is called here.
struct Known {
    own: Own,
    rule: Py<PyAny>,
    asked: Asked,
}

/// When the rule of a method or a function is asked.
#[derive(Clone, Copy, PartialEq)]
pub enum Asked {
    /// For lists that hold arrays of ours.
    Lists,
    /// Where an array of ours is an argument itself, and for such lists.
    Arrays,
    /// Where an array of ours is an argument itself: of functions of numbers.
    Numbers,
    /// Where a gradient follows an argument, or something in a list: the way of libraries.
    Followed,
    /// Where a gradient follows an argument itself.
    FollowedNumbers,
    /// Always.
    Always,
}

impl Asked {
    /// Whether the rule is asked for an argument.
    pub fn for_argument(self, given: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self == Asked::Always {
            return Ok(true);
        }
        if self == Asked::Followed {
            return follows(given);
        }
        if given.is_instance_of::<PyArray>() {
            return match self {
                Asked::Arrays | Asked::Numbers => Ok(true),
                Asked::FollowedNumbers => follows(given),
                _ => Ok(false),
            };
        }
        if matches!(self, Asked::Numbers | Asked::FollowedNumbers) {
            return Ok(false);
        }
        if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
            return involves(
                &PyTuple::new(given.py(), [given])?,
                &PyDict::new(given.py()),
            );
        }
        Ok(false)
    }
}

const MOST: usize = 16;
static KNOWN: [OnceLock<Known>; MOST] = [const { OnceLock::new() }; MOST];

/// A descriptor, kept alive, with NumPy's definition and ours; these are never freed, since bound methods
/// refer to them.
struct Method {
    descriptor: Py<PyAny>,
    own: *mut Definition,
    ours: *mut Definition,
}

// SAFETY: the pointers are to memory that is never freed, and that nobody writes to.
unsafe impl Send for Method {}

/// The methods that are called here while something is recorded.
pub struct Methods(Vec<Method>);

impl Methods {
    pub const fn new() -> Methods {
        Methods(Vec::new())
    }

    /// Adds a method; false when it is not of the kind that is known.
    pub fn add(
        &mut self,
        descriptor: &Bound<'_, PyAny>,
        rule: Py<PyAny>,
        asked: Asked,
        lifted: bool,
    ) -> PyResult<bool> {
        let index = self.0.len();
        if index >= MOST || descriptor.get_type().name()? != "method_descriptor" {
            return Ok(false);
        }
        let name: Bound<'_, PyString> = descriptor.getattr("__name__")?.cast_into()?;
        let name = name.to_string();
        // SAFETY: it is a method descriptor, of at least this size.
        let own = unsafe { *field(descriptor.as_ptr()) };
        // SAFETY: descriptors point to a definition; that this is one is seen by its name below.
        let Some(found) = (unsafe { own.as_ref() }) else {
            return Ok(false);
        };
        // SAFETY: names of definitions are texts that end with a zero.
        let is_it = !found.name.is_null()
            && unsafe { CStr::from_ptr(found.name) }.to_bytes() == name.as_bytes();
        if !is_it {
            return Ok(false);
        }
        let (own_entry, ours) = match found.flags {
            f if f == ffi::METH_FASTCALL | ffi::METH_KEYWORDS => {
                // SAFETY: its flags say that it has this signature.
                let entry = unsafe { std::mem::transmute::<*mut c_void, Fast>(found.function) };
                (Own::Fast(entry), CALLS[index] as *mut c_void)
            }
            f if f == ffi::METH_VARARGS | ffi::METH_KEYWORDS => {
                // SAFETY: as above.
                let entry = unsafe { std::mem::transmute::<*mut c_void, Slow>(found.function) };
                (Own::Slow(entry), SLOW_CALLS[index] as *mut c_void)
            }
            _ => return Ok(false),
        };
        let known = Known {
            own: own_entry,
            rule,
            asked,
        };
        if KNOWN[index].set(known).is_err() {
            return Ok(false);
        }
        let ours = Definition {
            function: ours,
            ..*found
        };
        self.0.push(Method {
            descriptor: descriptor.clone().unbind(),
            own,
            ours: Box::into_raw(Box::new(ours)),
        });
        if lifted && let Some(last) = self.0.last() {
            last.set(true);
        }
        Ok(true)
    }

    /// Lets all be called here, or by NumPy's own entries.
    pub fn set(&self, lifted: bool) {
        for method in &self.0 {
            method.set(lifted);
        }
    }
}

impl Method {
    fn set(&self, lifted: bool) {
        let to = if lifted { self.ours } else { self.own };
        // SAFETY: the descriptor is kept alive, and the field is an aligned pointer; whoever reads it
        // meanwhile finds one definition or the other, and may call either.
        unsafe { AtomicPtr::from_ptr(field(self.descriptor.as_ptr())) }
            .store(to, Ordering::Release);
    }
}

/// Where a descriptor keeps its definition.
fn field(descriptor: *mut PyObject) -> *mut *mut Definition {
    // SAFETY: it is a method descriptor; no reference to it is made.
    unsafe { &raw mut (*descriptor.cast::<Descriptor>()).method }
}

const CALLS: [Fast; MOST] = [
    call::<0>, call::<1>, call::<2>, call::<3>, call::<4>, call::<5>, call::<6>, call::<7>,
    call::<8>, call::<9>, call::<10>, call::<11>, call::<12>, call::<13>, call::<14>, call::<15>,
];

const SLOW_CALLS: [Slow; MOST] = [
    slow::<0>, slow::<1>, slow::<2>, slow::<3>, slow::<4>, slow::<5>, slow::<6>, slow::<7>,
    slow::<8>, slow::<9>, slow::<10>, slow::<11>, slow::<12>, slow::<13>, slow::<14>, slow::<15>,
];

/// What the interpreter calls in the place of NumPy's own entry.
unsafe extern "C" fn call<const INDEX: usize>(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    let Some(known) = KNOWN[INDEX].get() else {
        return ptr::null_mut(); // Not reached: it is set before this function is put in place.
    };
    // SAFETY: the interpreter called us with these arguments.
    match guarded(|py| unsafe { computed(py, known, this, args, count, names) }) {
        Some(result) => result,
        None => match known.own {
            // SAFETY: as we were called ourselves.
            Own::Fast(own) => unsafe { own(this, args, count, names) },
            Own::Slow(_) => ptr::null_mut(), // Not reached: this entry stands for the other kind.
        },
    }
}

/// The same for the other calling convention.
unsafe extern "C" fn slow<const INDEX: usize>(
    this: *mut PyObject,
    args: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    let Some(known) = KNOWN[INDEX].get() else {
        return ptr::null_mut(); // Not reached: it is set before this function is put in place.
    };
    // SAFETY: the interpreter called us with these arguments.
    match guarded(|py| unsafe { computed_slow(py, known, this, args, named) }) {
        Some(result) => result,
        None => match known.own {
            // SAFETY: as we were called ourselves.
            Own::Slow(own) => unsafe { own(this, args, named) },
            Own::Fast(_) => ptr::null_mut(), // Not reached: this entry stands for the other kind.
        },
    }
}

/// What a rule gives, null with an error set, or `None` where NumPy's own entry has to go on.
fn guarded(
    compute: impl FnOnce(Python<'_>) -> PyResult<Option<Py<PyAny>>>,
) -> Option<*mut PyObject> {
    if !is_lifting() {
        return None;
    }
    // SAFETY: the interpreter calls methods in threads that are attached.
    let py = unsafe { Python::assume_attached() };
    let error = match catch_unwind(AssertUnwindSafe(|| compute(py))) {
        Ok(Ok(result)) => return result.map(Py::into_ptr),
        Ok(Err(error)) => error,
        Err(_) => PyRuntimeError::new_err("a method failed in cotan; please report it"),
    };
    error.restore(py);
    Some(ptr::null_mut())
}

/// What our rule computes; `None` where it is not asked.
///
/// # Safety
///
/// The arguments are those of a call of this kind.
unsafe fn computed_slow(
    py: Python<'_>,
    known: &Known,
    this: *mut PyObject,
    args: *mut PyObject,
    named: *mut PyObject,
) -> PyResult<Option<Py<PyAny>>> {
    // SAFETY: each is alive for the call, and a reference of ours is taken.
    let args: Bound<'_, PyTuple> = unsafe { Bound::from_borrowed_ptr(py, args) }.cast_into()?;
    // SAFETY: as above; there may be none.
    let named: Option<Bound<'_, PyDict>> = unsafe { Bound::from_borrowed_ptr_or_opt(py, named) }
        .map(Bound::cast_into)
        .transpose()?;
    let values = named.iter().flat_map(PyDictMethods::values);
    let mut asked = known.asked == Asked::Always;
    for item in args.iter().chain(values) {
        asked = asked || known.asked.for_argument(&item)?;
    }
    if !asked {
        return Ok(None);
    }
    // SAFETY: it is alive for the call.
    let this = unsafe { Bound::from_borrowed_ptr(py, this) };
    let given = std::iter::once(this).chain(args.iter()).collect();
    known.ask(py, given, named.as_ref())
}

/// What our rule computes; `None` where it is not asked.
///
/// # Safety
///
/// The arguments are those of a call of this kind.
unsafe fn computed(
    py: Python<'_>,
    known: &Known,
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> PyResult<Option<Py<PyAny>>> {
    let positional = usize::try_from(count).unwrap_or(0);
    // SAFETY: each is alive for the call, and a reference of ours is taken.
    let item = |i: usize| unsafe { Bound::from_borrowed_ptr(py, *args.add(i)) };
    // SAFETY: the names of keywords are a tuple or null; their values follow the arguments.
    let names: Option<Bound<'_, PyTuple>> = unsafe { Bound::from_borrowed_ptr_or_opt(py, names) }
        .map(Bound::cast_into)
        .transpose()?;
    let named = names.as_ref().map_or(0, PyTupleMethods::len);
    let mut asked = known.asked == Asked::Always;
    for i in 0..positional + named {
        asked = asked || known.asked.for_argument(&item(i))?;
    }
    if !asked {
        return Ok(None);
    }
    let kwargs = PyDict::new(py);
    for (i, name) in names.iter().flatten().enumerate() {
        kwargs.set_item(name, item(positional + i))?;
    }
    // SAFETY: it is alive for the call.
    let this = unsafe { Bound::from_borrowed_ptr(py, this) };
    let given = std::iter::once(this).chain((0..positional).map(item));
    known.ask(py, given.collect(), Some(&kwargs))
}

impl Known {
    /// What the rule gives; `None` where it leaves the call to NumPy.
    fn ask(
        &self,
        py: Python<'_>,
        given: Vec<Bound<'_, PyAny>>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let result = (self.rule.bind(py)).call(PyTuple::new(py, given)?, named)?;
        let skipped = result.is(py.NotImplemented().bind(py));
        Ok((!skipped).then(|| result.unbind()))
    }
}

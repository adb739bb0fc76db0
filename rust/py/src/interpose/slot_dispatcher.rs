//! Catches calls with lists of traced values of functions that NumPy dispatches: `reduce([x, y])` where `reduce =
//! np.mean` was bound before.
//!
//! NumPy asks arrays among the arguments of such a function what to do, not those in lists. On the module a
//! stand-in is found; where a program keeps the function in a table or a default argument, the entry by which the
//! interpreter calls it leads here, and, in a thread that records, from here to the same stand-in. The entry
//! follows the head of the object, and is one for all of these functions, by which it is known.
//!
//! Unlike other entries, it stays: there are hundreds of these functions, and to write them all twice would
//! cost each gradient a third of a microsecond. A call outside of recordings looks at one variable of its thread.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cotan::program::FastMap;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyTuple};

use crate::interpose::contains_array::contains_array;
use crate::interpose::slot::{Arguments, HAVE_VECTORCALL, Vectorcall, guarded};
use crate::runtime::exports::exports;
use crate::runtime::recording_state::is_lifting;

exports!(add_dispatcher);

/// The beginning of a function that NumPy dispatches.
#[repr(C)]
struct Dispatcher {
    head: PyObject,
    entry: *mut c_void,
    names: *mut PyObject,
}

/// NumPy's own entry, the same for all of them.
static ENTRY: OnceLock<Vectorcall> = OnceLock::new();

/// What stands in for each, by address; with the function, which is kept alive.
static STAND_INS: Mutex<Option<FastMap<usize, [Py<PyAny>; 2]>>> = Mutex::new(None);

thread_local! {
    /// The function whose next call in this thread is its own, as its stand-in has looked at the arguments.
    static PASSED: Cell<*mut PyObject> = const { Cell::new(ptr::null_mut()) };

    /// The functions whose stand-ins compute in this thread: what these call again is NumPy's own.
    static COMPUTED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Lets the next call of a function be its own, in this thread.
pub fn pass(function: &Bound<'_, PyAny>) {
    PASSED.set(function.as_ptr());
}

/// Whether that was said of the function that is called now.
pub fn is_passed(function: *mut PyObject) -> bool {
    PASSED.replace(ptr::null_mut()) == function
}

/// Lets a stand-in compute a function that NumPy dispatches, where arrays of ours are in lists among its arguments
/// while something is recorded, wherever a program keeps the function. False when it is of another kind.
#[pyfunction]
#[pyo3(signature = (function: "Any", stand_in: "Callable[..., Any]") -> "bool")]
pub fn add_dispatcher(function: &Bound<'_, PyAny>, stand_in: Py<PyAny>) -> PyResult<bool> {
    let py = function.py();
    let class = function.get_type();
    let names: usize = class.getattr("__dictoffset__")?.extract()?;
    let flags: u64 = class.getattr("__flags__")?.extract()?;
    if class.name()? != "_ArrayFunctionDispatcher"
        || names != std::mem::offset_of!(Dispatcher, names)
        || flags & HAVE_VECTORCALL == 0
    {
        return Ok(false);
    }
    let known = [stand_in, function.clone().unbind()];
    let address = function.as_ptr() as usize;
    // SAFETY: it is a function of NumPy's, of at least this size.
    let found = unsafe { *entry(function.as_ptr()) };
    if found.is_null() {
        return Ok(false);
    }
    if found == call as *mut c_void {
        let before = stand_ins(py).as_mut().map(|s| s.insert(address, known));
        drop(before);
        return Ok(true);
    }
    // SAFETY: NumPy keeps a function of this signature there.
    let own = unsafe { std::mem::transmute::<*mut c_void, Vectorcall>(found) };
    if !ptr::fn_addr_eq(*ENTRY.get_or_init(|| own), own) {
        return Ok(false);
    }
    stand_ins(py)
        .get_or_insert_with(FastMap::default)
        .insert(address, known);
    // SAFETY: it is kept alive now, and the field is an aligned pointer. Threads that read it meanwhile, where
    // they run in parallel, find one entry or the other, and either may be called.
    unsafe { AtomicPtr::from_ptr(entry(function.as_ptr())) }
        .store(call as *mut c_void, Ordering::Release);
    Ok(true)
}

fn stand_ins(py: Python<'_>) -> MutexGuard<'static, Option<FastMap<usize, [Py<PyAny>; 2]>>> {
    STAND_INS
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner)
}

/// Where a function keeps its entry.
fn entry(function: *mut PyObject) -> *mut *mut c_void {
    // SAFETY: it is one of NumPy's; no reference to it is made.
    unsafe { &raw mut (*function.cast::<Dispatcher>()).entry }
}

/// What the interpreter calls in the place of NumPy's own entry.
unsafe extern "C" fn call(
    function: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    let Some(own) = ENTRY.get() else {
        return ptr::null_mut(); // Not reached: it is set before this function is put in place.
    };
    if is_lifting() && !is_passed(function) {
        // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
        let args = unsafe { Arguments::new(Python::assume_attached(), args, count, names) };
        match guarded(args.py(), || computed(function, args)) {
            None => return ptr::null_mut(),
            Some(Some(result)) => return result.into_ptr(),
            Some(None) => {}
        }
    }
    // SAFETY: as we were called ourselves.
    unsafe { own(function, args, count, names) }
}

/// Notes that a function is being computed by its stand-in.
struct Computed;

impl Computed {
    /// None where it is so already.
    fn of(function: usize) -> Option<Computed> {
        COMPUTED.with_borrow_mut(|all| {
            let is_new = !all.contains(&function);
            is_new.then(|| {
                all.push(function);
                Computed
            })
        })
    }
}

impl Drop for Computed {
    fn drop(&mut self) {
        COMPUTED.with_borrow_mut(Vec::pop);
    }
}

/// What the stand-in computes, if arrays of ours are in a list among the arguments.
fn computed(function: *mut PyObject, args: Arguments<'_>) -> PyResult<Option<Py<PyAny>>> {
    let py = args.py();
    let lists: Vec<_> = args.lists().collect();
    if lists.is_empty() || !contains_array(&PyTuple::new(py, lists)?, &PyDict::new(py))? {
        return Ok(None);
    }
    let find = |s: &FastMap<usize, [Py<PyAny>; 2]>| {
        let known = s.get(&(function as usize));
        known.map(|[stand_in, _]| stand_in.clone_ref(py))
    };
    // It is called without the lock.
    let found = stand_ins(py).as_ref().and_then(find);
    let Some(stand_in) = found else {
        return Ok(None);
    };
    let Some(_computed) = Computed::of(function as usize) else {
        return Ok(None);
    };
    let given = PyTuple::new(py, args.by_position())?;
    let named = args.by_keyword()?;
    stand_in.call(py, given, named.as_ref()).map(Some)
}

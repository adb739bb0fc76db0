//! Compiled functions with traced values, wherever a program keeps them: the `math.sin` in `{"sin": math.sin}`.
//!
//! While something is recorded the entry by which the interpreter calls such a function leads here
//! (`PyCFunctionObject.vectorcall`): in a thread that records, where an array of ours is met, a function of ours
//! computes it. Interpreters know a shorter way to call functions whose definition has certain flags, and that
//! goes past the entry; so the function's definition is a copy meanwhile, which has one more flag. What it computes
//! by is the same, since a function is found in a dictionary by that. Both fields have their places in all
//! versions of `CPython`, which are compared with what the interpreter says before they are relied on.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use smallvec::SmallVec;

use crate::dispatcher_call::is_passed;
use crate::lift::{is_lifting, wants_lifting};
use crate::method_call::Asked;

type Vectorcall = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;
type TupleCall = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// Set in the number of arguments when the caller lends a slot before them.
const OFFSET: usize = 1 << (usize::BITS - 1);

/// `PyMethodDef`, as `CPython` publishes it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Definition {
    name: *const c_char,
    function: *mut c_void,
    flags: c_int,
    doc: *const c_char,
}

/// The flag of classes whose objects say themselves how they are called (`Py_TPFLAGS_HAVE_VECTORCALL`).
pub const VECTORCALL: u64 = 1 << 11;

/// A flag that means something for the methods of classes only, when these are made.
const MARK: c_int = ffi::METH_COEXIST;

/// A copy of a definition, with the mark; and what belongs to the function.
#[repr(C)]
struct Ours {
    definition: Definition,
    /// The entry that the function had; the interpreter calls some without one.
    own: *mut c_void,
    rule: Py<PyAny>,
    asked: Asked,
}

/// `PyCFunctionObject`.
#[repr(C)]
struct Fields {
    head: PyObject,
    definition: *mut Definition,
    this: *mut PyObject,
    module: *mut PyObject,
    weak: *mut PyObject,
    entry: *mut c_void,
}

/// A function, kept alive, with its definition and ours, which is never freed.
struct Function {
    object: Py<PyAny>,
    own: *mut Definition,
    ours: *mut Ours,
}

// SAFETY: the pointers are to memory that is never freed while the object is alive, and that nobody writes to.
unsafe impl Send for Function {}

/// The functions that are called here while something is recorded.
pub struct Functions(Vec<Function>);

impl Functions {
    pub const fn new() -> Functions {
        Functions(Vec::new())
    }

    /// Adds a function; false when it is not of the kind that is known.
    pub fn add(
        &mut self,
        function: &Bound<'_, PyAny>,
        rule: Py<PyAny>,
        asked: Asked,
        lifted: bool,
    ) -> PyResult<bool> {
        if let Some(known) = self.0.iter_mut().find(|f| f.object.is(function)) {
            known.renew(rule, asked, lifted);
            return Ok(true);
        }
        if !function.is_exact_instance_of::<PyCFunction>() {
            return Ok(false);
        }
        let weak: usize = function
            .get_type()
            .getattr("__weakrefoffset__")?
            .extract()?;
        let class = function.get_type();
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        let flags: u64 = class.getattr("__flags__")?.extract()?;
        if size != size_of::<Fields>() || flags & VECTORCALL == 0 {
            return Ok(false);
        }
        let name: String = function.getattr("__name__")?.extract()?;
        let object = function.as_ptr();
        // SAFETY: it is a function of this size; no reference is made.
        let (own, computes, entry) = unsafe {
            let fields = object.cast::<Fields>();
            (
                (&raw const (*fields).definition).read(),
                ffi::PyCFunction_GetFunction(object),
                (&raw const (*fields).entry).read(),
            )
        };
        // SAFETY: functions point to a definition; that this is one is seen by its name below.
        let Some(found) = (unsafe { own.as_ref() }) else {
            return Ok(false);
        };
        // SAFETY: names of definitions are texts that end with a zero.
        let is_it = weak == std::mem::offset_of!(Fields, weak)
            && !found.name.is_null()
            && unsafe { CStr::from_ptr(found.name) }.to_bytes() == name.as_bytes()
            && computes.is_some_and(|f| f as *mut c_void == found.function)
            && found.flags & (MARK | ffi::METH_CLASS | ffi::METH_STATIC) == 0
            && entry.is_null() == (found.flags & ffi::METH_VARARGS != 0);
        if !is_it {
            return Ok(false);
        }
        let ours = Ours {
            definition: Definition {
                flags: found.flags | MARK,
                ..*found
            },
            own: entry,
            rule,
            asked,
        };
        let new = Function {
            object: function.clone().unbind(),
            own,
            ours: Box::into_raw(Box::new(ours)),
        };
        if lifted {
            new.set(true);
        }
        self.0.push(new);
        Ok(true)
    }

    /// Lets all be called here, or by their own entries.
    pub fn set(&self, lifted: bool) {
        for function in &self.0 {
            function.set(lifted);
        }
    }
}

impl Function {
    /// Another rule in the place of an earlier one, which a call may still be on its way to.
    fn renew(&mut self, rule: Py<PyAny>, asked: Asked, lifted: bool) {
        // SAFETY: it is never freed.
        let ours = unsafe { &*self.ours };
        self.ours = Box::into_raw(Box::new(Ours {
            definition: ours.definition,
            own: ours.own,
            rule,
            asked,
        }));
        if lifted {
            self.set(true);
        }
    }

    fn set(&self, lifted: bool) {
        let fields = self.object.as_ptr().cast::<Fields>();
        // SAFETY: the object is kept alive, the fields are aligned pointers, and so is what ours points to. Whoever
        // reads them meanwhile finds one definition or the other, and one entry or the other; ours goes by what
        // the definition is then.
        unsafe {
            let definition = AtomicPtr::from_ptr(&raw mut (*fields).definition);
            let entry = AtomicPtr::from_ptr(&raw mut (*fields).entry);
            if lifted {
                definition.store(self.ours.cast(), Ordering::Release);
                entry.store(call as *mut c_void, Ordering::Release);
            } else {
                entry.store((*self.ours).own, Ordering::Release);
                definition.store(self.own, Ordering::Release);
            }
        }
    }
}

/// What the interpreter calls in the place of the function's own entry.
unsafe extern "C" fn call(
    function: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    let fields = function.cast::<Fields>();
    // SAFETY: it is a function whose entry led here, so it is one of ours; the fields are aligned pointers.
    let (held, entry) = unsafe {
        let held = AtomicPtr::from_ptr(&raw mut (*fields).definition).load(Ordering::Acquire);
        let entry = AtomicPtr::from_ptr(&raw mut (*fields).entry).load(Ordering::Acquire);
        (held, entry)
    };
    // SAFETY: what has the mark is ours, and never freed.
    let ours = unsafe { ((*held).flags & MARK != 0).then(|| &*held.cast::<Ours>()) };
    if let Some(ours) = ours
        && wants_lifting()
        && !is_passed(function)
    {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
            unsafe { computed(ours, args, count & !OFFSET, names) }
        }));
        let error = match outcome {
            Ok(Ok(Some(result))) => return result.into_ptr(),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(PyRuntimeError::new_err(
                "a function failed in cotan; please report it",
            )),
        };
        if let Some(error) = error {
            // SAFETY: as above.
            error.restore(unsafe { Python::assume_attached() });
            return ptr::null_mut();
        }
    }
    // Where another thread has taken the function back meanwhile, its entry is its own again.
    let own = ours.map_or(entry, |o| o.own);
    if own.is_null() {
        // SAFETY: as above.
        return unsafe { by_tuple(function, args, count & !OFFSET, names) };
    }
    // SAFETY: the interpreter keeps a function of this signature there, and it is called as we were.
    unsafe { std::mem::transmute::<*mut c_void, Vectorcall>(own)(function, args, count, names) }
}

/// Calls a function that takes a tuple, in the interpreter's own way.
///
/// # Safety
///
/// The thread is attached, and the arguments are those of a call of `function`.
unsafe fn by_tuple(
    function: *mut PyObject,
    args: *const *mut PyObject,
    positional: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: says the caller; functions can be called, by a slot of this signature.
    unsafe {
        let py = Python::assume_attached();
        let slot = ffi::PyType_GetSlot(ffi::Py_TYPE(function), ffi::Py_tp_call);
        let own = std::mem::transmute::<*mut c_void, TupleCall>(slot);
        match taken_apart(py, args, positional, names) {
            Ok((args, kwargs)) => {
                let kwargs = kwargs.as_ref().map_or(ptr::null_mut(), Bound::as_ptr);
                own(function, args.as_ptr(), kwargs)
            }
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    }
}

/// What our rule computes; `None` where it is not asked.
///
/// # Safety
///
/// As for `by_tuple`.
unsafe fn computed(
    ours: &Ours,
    args: *const *mut PyObject,
    positional: usize,
    names: *mut PyObject,
) -> PyResult<Option<Py<PyAny>>> {
    // SAFETY: says the caller; the names of keywords are a tuple or null, and their values follow the arguments.
    let (py, named) = unsafe {
        let named = if names.is_null() {
            0
        } else {
            ffi::PyTuple_Size(names)
        };
        (
            Python::assume_attached(),
            usize::try_from(named).unwrap_or(0),
        )
    };
    // A thread that does not record may help one that does, and meets what a gradient follows.
    let when = match ours.asked {
        asked if is_lifting() => asked,
        Asked::Followed | Asked::Always => Asked::Followed,
        _ => Asked::FollowedNumbers,
    };
    let mut asked = when == Asked::Always;
    for i in 0..positional + named {
        // SAFETY: each is alive for the call, and a reference of ours is taken.
        asked =
            asked || when.for_argument(&unsafe { Bound::from_borrowed_ptr(py, *args.add(i)) })?;
    }
    if !asked {
        return Ok(None);
    }
    // SAFETY: says the caller.
    let (args, kwargs) = unsafe { taken_apart(py, args, positional, names) }?;
    let result = ours.rule.bind(py).call(args, kwargs.as_ref())?;
    let skipped = result.is(py.NotImplemented().bind(py));
    Ok((!skipped).then(|| result.unbind()))
}

/// Arguments as a tuple and a dictionary.
///
/// # Safety
///
/// As for `by_tuple`.
unsafe fn taken_apart(
    py: Python<'_>,
    args: *const *mut PyObject,
    positional: usize,
    names: *mut PyObject,
) -> PyResult<(Bound<'_, PyTuple>, Option<Bound<'_, PyDict>>)> {
    // SAFETY: each is alive for the call, and a reference of ours is taken.
    let item = |i: usize| unsafe { Bound::from_borrowed_ptr(py, *args.add(i)) };
    let given: SmallVec<[_; 4]> = (0..positional).map(item).collect();
    // SAFETY: the names of keywords are a tuple or null.
    let names = unsafe { Bound::from_borrowed_ptr_or_opt(py, names) };
    let kwargs = match names {
        None => None,
        Some(names) => {
            let kwargs = PyDict::new(py);
            for (i, name) in names.cast_into::<PyTuple>()?.iter().enumerate() {
                kwargs.set_item(name, item(positional + i))?;
            }
            Some(kwargs)
        }
    };
    Ok((PyTuple::new(py, given)?, kwargs))
}

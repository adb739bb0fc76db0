//! Catches calls of compiled functions with traced values, wherever a program keeps them: the `math.sin` in
//! `{"sin": math.sin}`.
//!
//! While something is recorded the entry by which the interpreter calls such a function leads here
//! (`PyCFunctionObject.vectorcall`): in a thread that records, where an array of ours is met, a function of ours
//! computes it. Interpreters know a shorter way to call functions whose definition has certain flags, and that
//! goes past the entry; so the function's definition is a copy meanwhile, which has one more flag. What it computes
//! by is the same, since a function is found in a dictionary by that. Both fields have their places in all
//! versions of `CPython`, which are compared with what the interpreter says before they are relied on.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyMethodDef, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyTuple};

use crate::interpose::slot::{
    Arguments, HAVE_VECTORCALL, Override, Vectorcall, When, definition_of, guarded,
};
use crate::interpose::slot_dispatcher::is_passed;
use crate::runtime::recording_state::is_lifting;
use crate::runtime::recording_state::wants_lifting;

type TupleCall = unsafe extern "C" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;

/// A flag that means something for the methods of classes only, when these are made.
const MARK: c_int = ffi::METH_COEXIST;

/// A copy of a definition, with the mark; and what belongs to the function.
#[repr(C)]
struct Ours {
    definition: PyMethodDef,
    /// The entry that the function had; the interpreter calls some without one.
    own: *mut c_void,
    rule: Override,
}

/// `PyCFunctionObject`.
#[repr(C)]
struct Fields {
    head: PyObject,
    definition: *mut PyMethodDef,
    this: *mut PyObject,
    module: *mut PyObject,
    weak: *mut PyObject,
    entry: *mut c_void,
}

/// A function, kept alive, with its definition and ours, which is never freed.
struct Function {
    object: Py<PyAny>,
    own: *mut PyMethodDef,
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
        rule: Override,
        lifted: bool,
    ) -> PyResult<bool> {
        if let Some(known) = self.0.iter_mut().find(|f| f.object.is(function)) {
            known.renew(rule, lifted);
            return Ok(true);
        }
        if !function.is_exact_instance_of::<PyCFunction>() {
            return Ok(false);
        }
        let class = function.get_type();
        let weak: usize = class.getattr("__weakrefoffset__")?.extract()?;
        let size: usize = class.getattr("__basicsize__")?.extract()?;
        let flags: u64 = class.getattr("__flags__")?.extract()?;
        if size != size_of::<Fields>()
            || weak != std::mem::offset_of!(Fields, weak)
            || flags & HAVE_VECTORCALL == 0
        {
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
        // SAFETY: functions point to a definition.
        let Some(found) = (unsafe { definition_of(own, &name) }) else {
            return Ok(false);
        };
        let is_it = computes.is_some_and(|f| f as *mut c_void == found.ml_meth.as_ptr())
            && found.ml_flags & (MARK | ffi::METH_CLASS | ffi::METH_STATIC) == 0
            && entry.is_null() == (found.ml_flags & ffi::METH_VARARGS != 0);
        if !is_it {
            return Ok(false);
        }
        let ours = Ours {
            definition: PyMethodDef {
                ml_flags: found.ml_flags | MARK,
                ..*found
            },
            own: entry,
            rule,
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
    fn renew(&mut self, rule: Override, lifted: bool) {
        // SAFETY: it is never freed.
        let ours = unsafe { &*self.ours };
        self.ours = Box::into_raw(Box::new(Ours {
            definition: ours.definition,
            own: ours.own,
            rule,
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
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
    let given = unsafe { Arguments::new(Python::assume_attached(), args, count, names) };
    let fields = function.cast::<Fields>();
    // SAFETY: it is a function whose entry led here, so it is one of ours; the fields are aligned pointers.
    let (held, entry) = unsafe {
        let held = AtomicPtr::from_ptr(&raw mut (*fields).definition).load(Ordering::Acquire);
        let entry = AtomicPtr::from_ptr(&raw mut (*fields).entry).load(Ordering::Acquire);
        (held, entry)
    };
    // SAFETY: what has the mark is ours, and never freed.
    let ours = unsafe { ((*held).ml_flags & MARK != 0).then(|| &*held.cast::<Ours>()) };
    if let Some(ours) = ours
        && wants_lifting()
        && !is_passed(function)
    {
        match guarded(given.py(), || computed(&ours.rule, given)) {
            None => return ptr::null_mut(),
            Some(Some(result)) => return result.into_ptr(),
            Some(None) => {}
        }
    }
    // Where another thread has taken the function back meanwhile, its entry is its own again.
    let own = ours.map_or(entry, |o| o.own);
    if own.is_null() {
        return by_tuple(function, given);
    }
    // SAFETY: the interpreter keeps a function of this signature there, and it is called as we were.
    unsafe { std::mem::transmute::<*mut c_void, Vectorcall>(own)(function, args, count, names) }
}

/// Calls a function that takes a tuple, in the interpreter's own way.
fn by_tuple(function: *mut PyObject, given: Arguments<'_>) -> *mut PyObject {
    let py = given.py();
    let args = PyTuple::new(py, given.by_position());
    match args.and_then(|args| Ok((args, given.by_keyword()?))) {
        // SAFETY: functions can be called, by a slot of this signature.
        Ok((args, kwargs)) => unsafe {
            let slot = ffi::PyType_GetSlot(ffi::Py_TYPE(function), ffi::Py_tp_call);
            let own = std::mem::transmute::<*mut c_void, TupleCall>(slot);
            let kwargs = kwargs.as_ref().map_or(ptr::null_mut(), Bound::as_ptr);
            own(function, args.as_ptr(), kwargs)
        },
        Err(error) => {
            error.restore(py);
            ptr::null_mut()
        }
    }
}

/// The override's result; `None` where the override does not apply.
fn computed(rule: &Override, given: Arguments<'_>) -> PyResult<Option<Py<PyAny>>> {
    // A thread that does not record may help one that does, and meets what a gradient follows.
    let when = match rule.when {
        when if is_lifting() => when,
        When::Followed | When::Always => When::Followed,
        _ => When::FollowedNumbers,
    };
    if !when.for_any(given.all())? {
        return Ok(None);
    }
    rule.call(
        given.py(),
        given.by_position(),
        given.by_keyword()?.as_ref(),
    )
}

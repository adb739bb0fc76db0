//! Catches calls of methods of ndarrays and ufuncs with traced values: `table.dot(x)`, `np.add.reduce([x, y])`.
//!
//! Such methods are compiled, and NumPy asks nobody what to do with their arguments. So the entry by which the interpreter
//! calls one leads here: in a context that records, a rule computes it where an `Array` is met; NumPy's own entry is called
//! otherwise. That entry is in
//! the definition that the method's descriptor points to (`PyMethodDescrObject.d_method`), a field that
//! has its place in all versions of `CPython`; it is looked at before it is relied on.
#![allow(unsafe_code)]

use std::iter;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{
    self, PyCFunctionFastWithKeywords as Fast, PyCFunctionWithKeywords as Slow, PyMethodDef,
    PyMethodDefPointer, PyObject,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods, PyString, PyTuple};

use crate::interpose::slot::{Arguments, Override, definition_of, guarded};
use crate::runtime::recording_state::{is_anything_recorded, is_lifting};
use crate::runtime::text;

/// NumPy's own entry, by its calling convention.
#[derive(Clone, Copy)]
enum Own {
    /// Arguments side by side, with the names of the last ones.
    Fast(Fast),
    /// Arguments in a tuple, and others in a dictionary or nowhere.
    Slow(Slow),
}

/// The beginning of `PyMethodDescrObject`.
#[repr(C)]
struct Descriptor {
    head: PyObject,
    class: *mut PyObject,
    name: *mut PyObject,
    qualified: *mut PyObject,
    method: *mut PyMethodDef,
}

/// A method that is called here.
struct Known {
    own: Own,
    rule: Override,
}

const MOST: usize = 32;
static KNOWN: [OnceLock<Known>; MOST] = [const { OnceLock::new() }; MOST];

/// Lets a rule compute a method from now on.
///
/// Raises `TypeError` for a method of an unknown kind, and when there are too many.
pub fn add(descriptor: &Bound<'_, PyAny>, rule: Override) -> PyResult<()> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let refused = |why: &str| {
        let shown = descriptor
            .repr()
            .map_or_else(|_| "a method".into(), |r| text::owned(&r));
        PyTypeError::new_err(format!("{shown} cannot be overridden: {why}"))
    };
    let name: Bound<'_, PyString> = descriptor.getattr("__name__")?.cast_into()?;
    let name = text::owned(&name);
    // SAFETY: it is a method descriptor, of at least this size, says the caller.
    let own = unsafe { *field(descriptor.as_ptr()) };
    // SAFETY: descriptors point to a definition.
    let found = unsafe { definition_of(own, &name) };
    let found = found.ok_or_else(|| refused("its definition is not where it is taken to be"))?;
    let index = NEXT.fetch_add(1, Ordering::Relaxed);
    if index >= MOST {
        return Err(refused("MOST in slot_method.rs has to be larger"));
    }
    let (own_entry, entry) = match found.ml_flags {
        f if f == ffi::METH_FASTCALL | ffi::METH_KEYWORDS => {
            // SAFETY: its flags say that it has this signature.
            let own = unsafe { found.ml_meth.PyCFunctionFastWithKeywords };
            (
                Own::Fast(own),
                PyMethodDefPointer {
                    PyCFunctionFastWithKeywords: CALLS[index],
                },
            )
        }
        f if f == ffi::METH_VARARGS | ffi::METH_KEYWORDS => {
            // SAFETY: as above.
            let own = unsafe { found.ml_meth.PyCFunctionWithKeywords };
            (
                Own::Slow(own),
                PyMethodDefPointer {
                    PyCFunctionWithKeywords: SLOW_CALLS[index],
                },
            )
        }
        _ => return Err(refused("it takes its arguments in another way")),
    };
    let known = Known {
        own: own_entry,
        rule,
    };
    if KNOWN[index].set(known).is_err() {
        return Err(refused("its place is taken"));
    }
    let ours = Box::into_raw(Box::new(PyMethodDef {
        ml_meth: entry,
        ..*found
    }));
    // The descriptor, and with it the definition that bound methods refer to, stays.
    std::mem::forget(descriptor.clone());
    // SAFETY: the field is an aligned pointer; whoever reads it meanwhile finds one definition or the other, and may call
    // either.
    unsafe { AtomicPtr::from_ptr(field(descriptor.as_ptr())) }.store(ours, Ordering::Release);
    Ok(())
}

/// Where a descriptor keeps its definition.
fn field(descriptor: *mut PyObject) -> *mut *mut PyMethodDef {
    // SAFETY: it is a method descriptor; no reference to it is made.
    unsafe { &raw mut (*descriptor.cast::<Descriptor>()).method }
}

const CALLS: [Fast; MOST] = [
    call::<0>, call::<1>, call::<2>, call::<3>, call::<4>, call::<5>, call::<6>, call::<7>,
    call::<8>, call::<9>, call::<10>, call::<11>, call::<12>, call::<13>, call::<14>, call::<15>,
    call::<16>, call::<17>, call::<18>, call::<19>, call::<20>, call::<21>, call::<22>, call::<23>,
    call::<24>, call::<25>, call::<26>, call::<27>, call::<28>, call::<29>, call::<30>, call::<31>,
];

const SLOW_CALLS: [Slow; MOST] = [
    slow::<0>, slow::<1>, slow::<2>, slow::<3>, slow::<4>, slow::<5>, slow::<6>, slow::<7>,
    slow::<8>, slow::<9>, slow::<10>, slow::<11>, slow::<12>, slow::<13>, slow::<14>, slow::<15>,
    slow::<16>, slow::<17>, slow::<18>, slow::<19>, slow::<20>, slow::<21>, slow::<22>, slow::<23>,
    slow::<24>, slow::<25>, slow::<26>, slow::<27>, slow::<28>, slow::<29>, slow::<30>, slow::<31>,
];

/// What the interpreter calls in the place of NumPy's own entry.
unsafe extern "C" fn call<const INDEX: usize>(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    let Some(Known {
        own: Own::Fast(own),
        rule,
    }) = KNOWN[INDEX].get()
    else {
        return ptr::null_mut(); // Not reached: it is set, to one of this kind, before this function is put in place.
    };
    if is_anything_recorded() && is_lifting() {
        // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
        let computed = unsafe {
            let py = Python::assume_attached();
            let count = usize::try_from(count).unwrap_or(0);
            let args = Arguments::new(py, args, count, names);
            guarded(py, || computed(rule, this, args))
        };
        match computed {
            None => return ptr::null_mut(),
            Some(Some(result)) => return result.into_ptr(),
            Some(None) => {}
        }
    }
    // SAFETY: as we were called ourselves.
    unsafe { own(this, args, count, names) }
}

/// The same for the other calling convention.
unsafe extern "C" fn slow<const INDEX: usize>(
    this: *mut PyObject,
    args: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    let Some(Known {
        own: Own::Slow(own),
        rule,
    }) = KNOWN[INDEX].get()
    else {
        return ptr::null_mut(); // Not reached, as above.
    };
    if is_anything_recorded() && is_lifting() {
        // SAFETY: as above.
        let computed = unsafe {
            let py = Python::assume_attached();
            guarded(py, || computed_slow(py, rule, this, args, named))
        };
        match computed {
            None => return ptr::null_mut(),
            Some(Some(result)) => return result.into_ptr(),
            Some(None) => {}
        }
    }
    // SAFETY: as we were called ourselves.
    unsafe { own(this, args, named) }
}

/// The override's result; `None` where the override does not apply.
///
/// # Safety
///
/// The arguments are those of a call of this kind.
unsafe fn computed(
    rule: &Override,
    this: *mut PyObject,
    args: Arguments<'_>,
) -> PyResult<Option<Py<PyAny>>> {
    if !rule.when.for_any(args.all())? {
        return Ok(None);
    }
    // SAFETY: it is alive for the call, and a reference of ours is taken.
    let this = unsafe { Bound::from_borrowed_ptr(args.py(), this) };
    let given = iter::once(this).chain(args.by_position());
    rule.call(args.py(), given, args.by_keyword()?.as_ref())
}

/// The same for the other calling convention.
///
/// # Safety
///
/// As above.
unsafe fn computed_slow(
    py: Python<'_>,
    rule: &Override,
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
    if !rule.when.for_any(args.iter().chain(values))? {
        return Ok(None);
    }
    // SAFETY: it is alive for the call.
    let this = unsafe { Bound::from_borrowed_ptr(py, this) };
    rule.call(py, iter::once(this).chain(args.iter()), named.as_ref())
}

//! Which code has been asked for namespaces that no module has, see `cotan._lift_reach`.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyFunction;

use crate::once::intern;

/// Code whose functions reach no namespace that has to be looked for, so that they are not asked again.
static NEAR: Mutex<Vec<Py<PyAny>>> = Mutex::new(Vec::new());

/// So much code is remembered.
const MOST_CODE: usize = 64;

/// Lets names take part in namespaces that a function reaches and that are no modules: files that were run,
/// modules that were made by hand.
pub fn reach(f: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = f.py();
    let Some(code) = code(f)? else { return Ok(()) };
    let near = || {
        let guard = NEAR.lock_py_attached(py);
        guard.unwrap_or_else(PoisonError::into_inner)
    };
    if near().iter().any(|c| c.is(&code)) {
        return Ok(());
    }
    let is_far = py.import("cotan._lift")?.call_method1("reach", (f,))?;
    if !is_far.is_truthy()? {
        let mut near = near();
        let oldest = (near.len() >= MOST_CODE).then(|| near.remove(0));
        near.push(code.unbind());
        // What is freed may run code of its own, without the lock.
        drop(near);
        drop(oldest);
    }
    Ok(())
}

/// The code that a callable runs, if that is Python's.
fn code<'py>(f: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = f.py();
    if f.is_exact_instance_of::<PyFunction>() {
        return f.getattr(intern!(py, "__code__")).map(Some);
    }
    // A class of Python's own has a method; methods and partial functions lead on.
    for (owner, name) in [
        (f.get_type().as_any(), intern!(py, "__call__")),
        (f, intern!(py, "__func__")),
        (f, intern!(py, "func")),
    ] {
        if let Some(inner) = owner.getattr_opt(name)?
            && inner.is_exact_instance_of::<PyFunction>()
        {
            return inner.getattr(intern!(py, "__code__")).map(Some);
        }
    }
    Ok(None)
}

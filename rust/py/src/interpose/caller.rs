//! Classifies the caller of a function: user code, a library's, or cotan's own; and whether user code makes the call
//! itself, or compiled code that it calls.
//!
//! A creator such as `np.empty` gives an `Array` to user code only: compiled code writes to its memory.

use std::sync::{Arc, Mutex, PoisonError};

use cotan::program::FastMap;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::runtime::frame::{code_of, frame};
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;

/// Whose code calls.
#[derive(Clone)]
pub enum Package {
    /// cotan's own.
    Cotan,
    /// The user's, or the standard library's.
    User,
    /// That of a library that hands memory to C, by its name.
    Library(Arc<str>),
}

/// Packages by code object, and answers by code object, instruction and function. The code is kept alive.
struct Known {
    packages: FastMap<usize, (Py<PyAny>, Package)>,
    calls: FastMap<(usize, usize, usize), (Py<PyAny>, bool)>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// At most so many of either are remembered.
const MAX_PLACES: usize = 1 << 14;

fn with_known<T>(py: Python<'_>, use_it: impl FnOnce(&mut Known) -> T) -> T {
    let mut known = KNOWN
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner);
    use_it(known.get_or_insert_with(|| Known {
        packages: FastMap::default(),
        calls: FastMap::default(),
    }))
}

/// Whose code runs: that of the innermost frame.
pub fn calling_package(py: Python<'_>) -> PyResult<Package> {
    // A thread without Python code is somebody else's.
    let Ok(frame) = frame(py) else {
        return Ok(Package::User);
    };
    let code = code_of(&frame);
    let address = code.as_ptr() as usize;
    let known = with_known(py, |k| {
        k.packages.get(&address).map(|(_, package)| package.clone())
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let name: String = hooks::CALLING_PACKAGE.get(py)?.call1((frame,))?.extract()?;
    let package = match name.as_str() {
        "cotan" => Package::Cotan,
        "" => Package::User,
        _ => Package::Library(name.into()),
    };
    let before = with_known(py, |k| {
        let full = k.packages.len() >= MAX_PLACES;
        let before = full.then(|| std::mem::take(&mut k.packages));
        k.packages.insert(address, (code.unbind(), package.clone()));
        before
    });
    // What is dropped may run code of its own, so not under the lock.
    drop(before);
    Ok(package)
}

/// Whether the running instruction of user code calls a function itself, or the object whose method it is.
pub fn is_called_by_user_code(
    py: Python<'_>,
    function: &Bound<'_, PyAny>,
    receiver: Option<&Bound<'_, PyAny>>,
) -> PyResult<bool> {
    let Ok(frame) = frame(py) else {
        return Ok(false);
    };
    let code = code_of(&frame);
    let at: usize = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
    let called = receiver.unwrap_or(function).as_ptr() as usize;
    let place = (code.as_ptr() as usize, at, called);
    if let Some(known) = with_known(py, |k| k.calls.get(&place).map(|(_, is_call)| *is_call)) {
        return Ok(known);
    }
    let asked = hooks::IS_CALL_OF
        .get(py)?
        .call1((frame, function, receiver))?;
    let (is_call, is_settled): (bool, bool) = asked.extract()?;
    if !is_settled {
        return Ok(is_call);
    }
    let before = with_known(py, |k| {
        let full = k.calls.len() >= MAX_PLACES;
        let before = full.then(|| std::mem::take(&mut k.calls));
        k.calls.insert(place, (code.unbind(), is_call));
        before
    });
    drop(before);
    Ok(is_call)
}

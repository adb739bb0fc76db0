//! Classifies the code that reads an attribute of a module: user code, a library, or native code, which each get
//! another function.

use std::sync::{Mutex, PoisonError};

use cotan::program::FastMap;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::runtime::source_line::frame;

exports!(forget_places);

/// The code that reads an attribute of a module.
#[derive(Clone, Copy)]
pub enum Caller {
    /// Python code that is no library's.
    UserCode,
    /// Such code, by `getattr`.
    Getattr,
    /// Python code of a library that hands memory to C.
    Library,
    /// Compiled code.
    Native,
}

/// Callers by code object and instruction; the code is kept alive.
static PLACES: Mutex<Option<FastMap<(usize, usize), (Py<PyAny>, Caller)>>> = Mutex::new(None);

/// At most so many places are remembered.
const MAX_PLACES: usize = 1 << 14;

/// Classifies the caller. Compiled code has no frame of its own: it is known by the running instruction of
/// its caller's, which is a call and no attribute.
pub fn classify_caller(py: Python<'_>) -> PyResult<Caller> {
    let frame = frame(py)?;
    let code = frame.getattr(intern!(py, "f_code"))?;
    let at: usize = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
    let place = (code.as_ptr() as usize, at);
    let places = || {
        PLACES
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner)
    };
    if let Some((_, known)) = places().as_ref().and_then(|p| p.get(&place)) {
        return Ok(*known);
    }
    let asks = hooks::CLASSIFY_CALLER.get(py)?;
    let who = match asks.call1((frame,))?.extract()? {
        "own" => Caller::UserCode,
        "by name" => Caller::Getattr,
        "library" => Caller::Library,
        _ => Caller::Native,
    };
    let mut places = places();
    let places = places.get_or_insert_with(FastMap::default);
    if places.len() >= MAX_PLACES {
        places.clear();
    }
    places.insert(place, (code.unbind(), who));
    Ok(who)
}

/// Forgets the classified callers.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn forget_places(py: Python<'_>) {
    *PLACES
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner) = None;
}

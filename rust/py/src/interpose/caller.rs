//! Who asks: for a name of a lifted module, or for the memory of an array.

use std::sync::{Mutex, PoisonError};

use cotan::program::FastMap;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};

use crate::interpose::install::is_lifting;
use crate::runtime::once_cell::{OnceImported, intern};

/// Who asks for a name.
#[derive(Clone, Copy)]
pub enum Asking {
    /// Python code that is no library's.
    Own,
    /// Such code, by `getattr`.
    ByName,
    /// Python code of a library that hands memory to C.
    Library,
    /// Compiled code.
    Compiled,
}

/// What is known of the places in Python code that asked for names; the code is kept alive.
static PLACES: Mutex<Option<FastMap<(usize, usize), (Py<PyAny>, Asking)>>> = Mutex::new(None);

/// At most so many places are remembered.
const MAX_PLACES: usize = 1 << 14;

/// Who asks for a name. Compiled code has no frame of its own: it is known by the running instruction of
/// its caller's, which is a call and no attribute.
pub fn who_asks(py: Python<'_>) -> PyResult<Asking> {
    static ASKS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
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
    let asks = ASKS.found(py, "cotan._src.interpose.install", "who_asks")?;
    let who = match asks.call1((frame,))?.extract()? {
        "own" => Asking::Own,
        "by name" => Asking::ByName,
        "library" => Asking::Library,
        _ => Asking::Compiled,
    };
    let mut places = places();
    let places = places.get_or_insert_with(FastMap::default);
    if places.len() >= MAX_PLACES {
        places.clear();
    }
    places.insert(place, (code.unbind(), who));
    Ok(who)
}

/// The frame of the Python code that runs.
fn frame(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    FRAME.found(py, "sys", "_getframe")?.call0()
}

/// Whether a function of this name runs, in a file whose path has such a part.
pub fn is_asked_by(py: Python<'_>, name: &str, file: &str) -> PyResult<bool> {
    let code = frame(py)?.getattr(intern!(py, "f_code"))?;
    let is_it = code.getattr(intern!(py, "co_name"))?.eq(name)?;
    Ok(is_it && code.getattr(intern!(py, "co_filename"))?.contains(file)?)
}

/// Refuses the `shuffle` of a generator whose class is compiled: it asks for the length first, and would
/// take the rows of our arrays for copies. Only code that names it is looked at.
pub fn expect_no_shuffle(py: Python<'_>) -> PyResult<()> {
    static SHUFFLES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if !is_lifting() {
        return Ok(());
    }
    let frame = frame(py)?;
    let names = frame
        .getattr(intern!(py, "f_code"))?
        .getattr(intern!(py, "co_names"))?;
    if !names.contains(intern!(py, "shuffle"))? {
        return Ok(());
    }
    let shuffles = SHUFFLES.found(py, "cotan._src.runtime.call_site", "is_shuffling")?;
    if shuffles.call1((frame,))?.is_truthy()? {
        return Err(PyTypeError::new_err(
            "shuffle: a generator that was made before the recording takes the rows of an array for copies, \
             so that some would come out twice; write x = x[rng.permutation(len(x))], or make the generator \
             in the function",
        ));
    }
    Ok(())
}

/// Forgets what is known of the places in Python code that asked for names.
#[pyfunction]
pub fn forget_places(py: Python<'_>) {
    *PLACES
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner) = None;
}

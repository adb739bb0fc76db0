//! Finds the line of user code that is running.

use std::sync::{Mutex, PoisonError};

use cotan::prim::Site;
use cotan::program::FastMap;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyDict, PyList};

use crate::runtime::exports::exports;
use crate::runtime::frame::{code_of, frame};
use crate::runtime::hooks;
use crate::runtime::once_cell::{OnceImported, intern};

exports!(is_library_file);

/// What is known of a piece of Python code, which is kept alive so that no other one has its address.
struct Code {
    _kept: Py<PyAny>,
    /// File and function; `None` for code of cotan, NumPy and SciPy.
    user: Option<(String, String)>,
    /// By the running instruction, because to find its line takes long.
    sites: FastMap<usize, Site>,
}

static CODES: Mutex<Option<FastMap<usize, Code>>> = Mutex::new(None);

/// At most so many pieces of code are remembered: notebooks and `exec` make ever new ones.
const MAX_CODES: usize = 1 << 12;

/// The line that runs in the innermost frame of user code; [`Site::NONE`] outside Python code.
pub fn running() -> Site {
    Python::try_attach(|py| find(py).unwrap_or(None))
        .flatten()
        .unwrap_or(Site::NONE)
}

fn find(py: Python<'_>) -> PyResult<Option<Site>> {
    // No frame at all: a thread that Python did not start.
    let mut next = frame(py).ok();
    while let Some(frame) = next {
        if let Some(site) = in_frame(py, &frame)? {
            return Ok(Some(site));
        }
        let outer = frame.getattr(intern!(py, "f_back"))?;
        next = (!outer.is_none()).then_some(outer);
    }
    Ok(None)
}

/// The site of a frame, unless its code is a library's.
fn in_frame(py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<Option<Site>> {
    let codes = || {
        CODES
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner)
    };
    let code = code_of(frame);
    let key = code.as_ptr() as usize;
    let mut forgotten = None;
    if !codes().as_ref().is_some_and(|c| c.contains_key(&key)) {
        let found = Code {
            user: in_user_code(py, &code)?,
            _kept: code.unbind(),
            sites: FastMap::default(),
        };
        let mut codes = codes();
        if codes.as_ref().is_some_and(|c| c.len() >= MAX_CODES) {
            forgotten = codes.take();
        }
        codes.get_or_insert_default().insert(key, found);
    }
    // What is dropped may run Python code, so not under the lock.
    drop(forgotten);
    let mut codes = codes();
    let Some(code) = codes.as_mut().and_then(|c| c.get_mut(&key)) else {
        return Ok(None);
    };
    let Some((file, function)) = &code.user else {
        return Ok(None);
    };
    let at: usize = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
    if let Some(&site) = code.sites.get(&at) {
        return Ok(Some(site));
    }
    let line: Option<u32> = frame.getattr(intern!(py, "f_lineno"))?.extract()?;
    let site = Site::new(file, line.unwrap_or(0), function);
    code.sites.insert(at, site);
    Ok(Some(site))
}

/// File and function of a piece of code, if it is user code.
fn in_user_code(py: Python<'_>, code: &Bound<'_, PyAny>) -> PyResult<Option<(String, String)>> {
    let file: String = code.getattr(intern!(py, "co_filename"))?.extract()?;
    if is_library_file(py, &file)? {
        return Ok(None);
    }
    let function = code.getattr(intern!(py, "co_qualname"))?.extract()?;
    Ok(Some((file, function)))
}

/// Whether a source file is cotan's, NumPy's or SciPy's own: no line of the user's.
///
/// What it reads are lists of texts: no Python code runs, in which a signal handler could raise what would be lost.
#[pyfunction]
#[pyo3(signature = (path: "str") -> "bool")]
pub fn is_library_file(py: Python<'_>, path: &str) -> PyResult<bool> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.found(py, "sys", "modules")?;
    for name in hooks::WITHOUT_USER_CODE.get(py)?.try_iter()? {
        let Some(module) = modules.get_item(name?)? else {
            continue;
        };
        let folders = module.getattr_opt(intern!(py, "__path__"))?;
        for folder in folders.iter().flat_map(|f| f.cast::<PyList>()).flatten() {
            let Ok(folder) = folder.extract::<&str>() else {
                continue;
            };
            let inside = path.strip_prefix(folder);
            if inside.is_some_and(|rest| rest.starts_with(std::path::is_separator)) {
                return Ok(true);
            }
        }
    }
    Ok(path.starts_with("<frozen "))
}

//! Installs the overrides of modules that have been imported, before something is recorded.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::interpose::slot_ufunc;
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::interpreter_exit;
use crate::runtime::once_cell::Once;
use crate::runtime::recording_state::{self, may_install};

exports!(
    add_ufuncs,
    after_fork_in_child,
    disable_overrides,
    set_ufunc_ruled
);

/// How many modules there were when the overrides of all of them had been installed.
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// Installs the overrides of modules that have been imported since the last time. A call without new modules looks at
/// one number.
pub fn install_overrides(py: Python<'_>) -> PyResult<()> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.made(py, || -> PyResult<_> {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let count = modules.bind(py).len();
    if SEEN.load(Ordering::Relaxed) == count || !may_install() {
        return Ok(());
    }
    // What installs them is Python code below these frames.
    let _inside = interpreter_exit::Inside::new();
    let is_complete = hooks::INSTALL.get(py)?.call0()?.is_truthy()?;
    // Only now, as it may be interrupted. What another thread still imports waits for the next time.
    SEEN.store(if is_complete { count } else { 0 }, Ordering::Relaxed);
    Ok(())
}

/// Lets ufuncs take lists that hold an `Array`.
#[pyfunction]
#[pyo3(signature = (ufuncs: "list[np.ufunc]") -> "None")]
pub fn add_ufuncs(py: Python<'_>, ufuncs: Vec<Py<PyAny>>) -> PyResult<()> {
    ufuncs
        .into_iter()
        .try_for_each(|ufunc| slot_ufunc::add(py, ufunc))
}

/// Notes whether a rule of user code computes a ufunc, whose calls are not recorded as those of a primitive then.
#[pyfunction]
#[pyo3(signature = (ufunc: "np.ufunc", is_ruled: "bool") -> "None")]
pub fn set_ufunc_ruled(ufunc: &Bound<'_, PyAny>, is_ruled: bool) {
    slot_ufunc::set_ruled(ufunc, is_ruled);
}

/// Called in the child just after a fork: only this thread goes on.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn after_fork_in_child(py: Python<'_>) {
    recording_state::after_fork_in_child(py);
    interpreter_exit::after_fork_in_child();
}

/// Lets nothing be overridden in this process.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn disable_overrides() {
    recording_state::disable();
}

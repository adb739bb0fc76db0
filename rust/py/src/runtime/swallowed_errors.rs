//! Warns when user code catches an error of cotan's and goes on: its result may differ from that of plain NumPy.

use std::sync::{MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::recording_state::{Scope, innermost_recording, outer_recording};

exports!(refused, granted);

impl Scope {
    fn refusal(&self) -> MutexGuard<'_, Option<String>> {
        // Nothing that holds the lock can panic.
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that user code was refused something. Libraries try what they can do without.
#[pyfunction]
#[pyo3(signature = (message: "str") -> "None")]
pub fn refused(py: Python<'_>, message: &str) -> PyResult<()> {
    let asks = hooks::USER_CODE_ASKS.get(py)?.call0()?.is_truthy()?;
    if asks && let Some(recording) = innermost_recording(py) {
        recording.get().refusal().get_or_insert(message.to_owned());
    }
    Ok(())
}

/// Takes back what user code was refused, once another way was found.
#[pyfunction]
#[pyo3(signature = (message: "str") -> "None")]
pub fn granted(py: Python<'_>, message: &str) {
    if let Some(recording) = innermost_recording(py) {
        recording.get().refusal().take_if(|noted| noted == message);
    }
}

/// Runs a function in the recording that was begun last, and warns where it went on after a refusal.
///
/// Refusals belong to a recording, not to a thread: greenlets take turns in one.
pub fn watched<T>(py: Python<'_>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let recording = innermost_recording(py);
    let result = run();
    let Some(recording) = recording else {
        return result;
    };
    let Some(message) = recording.get().refusal().take() else {
        return result;
    };
    match result {
        Ok(result) => {
            let message = format!(
                "the program caught an error of cotan's and went on, so that its result may be another one than \
                 with plain NumPy: {message}"
            );
            hooks::WARN.get(py)?.call1((message,))?;
            Ok(result)
        }
        Err(error) => {
            // Whoever called may catch it.
            if let Some(outer) = outer_recording(&recording) {
                outer.get().refusal().get_or_insert(message);
            }
            Err(error)
        }
    }
}

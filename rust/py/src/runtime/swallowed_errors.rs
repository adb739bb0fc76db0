//! Warns when user code catches an error of cotan's and goes on: its result may differ from that of plain NumPy.

use std::cell::RefCell;

use pyo3::prelude::*;

use crate::runtime::exports::exports;
use crate::runtime::hooks;

exports!(refused, granted);

thread_local! {
    /// What the function that is being recorded was refused first, and not a library that it calls.
    static REFUSED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes that user code was refused something. Libraries try what they can do without.
#[pyfunction]
#[pyo3(signature = (message: "str") -> "None")]
pub fn refused(py: Python<'_>, message: &str) -> PyResult<()> {
    let asks = hooks::USER_CODE_ASKS.get(py)?.call0()?.is_truthy()?;
    if asks {
        REFUSED.with_borrow_mut(|first| {
            first.get_or_insert_with(|| message.to_owned());
        });
    }
    Ok(())
}

/// Takes back what user code was refused, once another way was found.
#[pyfunction]
#[pyo3(signature = (message: "str") -> "None")]
pub fn granted(message: &str) {
    REFUSED.with_borrow_mut(|first| {
        first.take_if(|noted| noted == message);
    });
}

/// Runs a function, and warns where it went on after a refusal.
pub fn watched<T>(py: Python<'_>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let before = REFUSED.take();
    let result = run();
    let now = REFUSED.replace(before);
    let Some(message) = now else {
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
            REFUSED.with_borrow_mut(|first| {
                first.get_or_insert(message);
            });
            Err(error)
        }
    }
}

//! What every other folder needs of the interpreter: errors, signals, fork, exit, and values made once.
//!
//! Nothing here knows of arrays.

// Errors and signals.
pub mod error;
pub mod nonfinite_error;
pub mod swallowed_errors;
pub mod text;
pub mod threads;

// Life of the process.
pub mod fork;
pub mod interpreter_exit;

// Values made once, object identity and fields.
pub mod hooks;
pub mod identity;
pub mod once_cell;
pub mod slots;

// What goes into the module.
pub mod exports;

// What user code is doing.
pub mod context_variable;
pub mod frame;
pub mod profile;
pub mod recording_state;
pub mod source_line;
pub mod type_object;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    hooks::register(module)?;
    identity::register(module)?;
    interpreter_exit::register(module)?;
    recording_state::register(module)?;
    source_line::register(module)?;
    swallowed_errors::register(module)
}

//! Recorded programs as Python objects: reading, combining, running and saving them.

// Classes.
pub mod equation;
pub mod pyclass;

// Calls.
pub mod bind_inputs;
pub mod compose;

// Out of the process.
pub mod export;
pub mod report;
pub mod serialize;

// Analyses.
pub mod sparsity;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    export::register(module)?;
    pyclass::register(module)?;
    serialize::register(module)?;
    sparsity::register(module)
}

//! Interposition: how a function of NumPy, Python or another library that meets an `Array` leads to a rule of ours.

// Protocols that NumPy asks.
pub mod protocols;

// Callables: one entry each, and a file for each kind of field that leads to it.
pub mod caller;
pub mod entry;
pub mod install;
pub mod override_function;
pub mod overrides;
pub mod replayable;
pub mod slot;
pub mod slot_class;
pub mod slot_dispatcher;
pub mod slot_function;
pub mod slot_method;
pub mod slot_object;
pub mod slot_python;
pub mod slot_ufunc;

// Arguments.
pub mod contains_array;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    contains_array::register(module)?;
    install::register(module)?;
    overrides::register(module)
}

//! Interposition: how a function of NumPy, Python or another library that meets an `Array` leads to a rule of ours.

// Protocols that NumPy asks.
pub mod protocols;

// Names of modules.
pub mod caller;
pub mod install;
pub mod module_attribute;
pub mod module_class;
pub mod namespaces;

// Entry points of compiled functions.
pub mod slot;
pub mod slot_dispatcher;
pub mod slot_function;
pub mod slot_method;
pub mod slot_ufunc;

// Arguments.
pub mod contains_array;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    caller::register(module)?;
    contains_array::register(module)?;
    install::register(module)?;
    slot_dispatcher::register(module)
}

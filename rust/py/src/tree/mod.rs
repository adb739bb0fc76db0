//! Structures of arrays: taking Python objects apart into leaves, and putting them together again.

// Structures.
pub mod class_layout;
pub mod pyclass;
pub mod treedef;

// Objects to leaves and back.
pub mod fault;
pub mod flatten;
pub mod integers;
pub mod object_fields;
pub mod schema;
pub mod unflatten;
pub mod zip;

// Structures of cotangents.
pub mod cotangents;
pub mod natural_cotangent;
pub mod rule_cotangents;
pub mod tangent;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    class_layout::register(module)?;
    pyclass::register(module)
}

//! The primitives of the core as Python functions.

pub mod active;
pub mod creation;
#[cfg(feature = "fft")]
pub mod fft;
pub mod primitives;
pub mod special_ufunc;
pub mod table;
pub mod values;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    active::register(module)?;
    primitives::stamped::register(module)?;
    creation::register(module)?;
    #[cfg(feature = "fft")]
    fft::register(module)?;
    primitives::register(module)?;
    special_ufunc::register(module)?;
    table::register(module)?;
    values::register(module)
}

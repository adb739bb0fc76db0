//! The class `Array`: an ndarray as Python sees it, whose value is computed lazily and may be recorded.

// The value and what it is a view of.
pub mod captured_leaves;
pub mod cell;
pub mod cell_writes;
pub mod host_inputs;
pub mod lend;
pub mod lent_memory;
pub mod overlap;
pub mod pending_writes;
pub mod scalar_classes;
pub mod view;
pub mod view_op;

// Operands and operators.
pub mod axes;
pub mod comparisons;
pub mod matmul;
pub mod memory;
pub mod operand;
pub mod operators;

// Indexing.
pub mod fancy_index;
pub mod index;
pub mod unknown_index;

// Devices.
pub mod device;

// Values that leave.
pub mod call_site;
pub mod decisions;
pub mod escapes;
pub mod repr;
pub mod to_host;
pub mod traced;

// The class.
pub mod pyclass;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    decisions::register(module)?;
    device::register(module)?;
    escapes::register(module)?;
    fancy_index::register(module)?;
    index::register(module)?;
    lend::register(module)?;
    matmul::register(module)?;
    scalar_classes::register(module)?;
    traced::register(module)
}

//! The class `Array`: an ndarray as Python sees it, whose value is computed lazily and may be recorded.

// The value and what it is a view of.
pub mod cell;
pub mod overlap;
pub mod pending_writes;
pub mod view;

// Operands and operators.
pub mod axes;
pub mod operand;
pub mod operators;

// Indexing.
pub mod fancy_index;
pub mod index;

// Values that leave.
pub mod escapes;
pub mod repr;
pub mod to_host;

// The class.
pub mod pyclass;

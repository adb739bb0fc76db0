//! NumPy's memory: reading an ndarray as one of the core's values, and handing a value to NumPy.

pub mod content;
pub mod dtype;
pub mod export;
pub mod memory;
pub mod pattern;
pub mod placement;
pub mod recent_copies;
pub mod strided_view;
pub mod subclass;
pub mod vectors;

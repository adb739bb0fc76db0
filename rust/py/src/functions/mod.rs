//! The primitives of the core as Python functions.

pub mod creation;
#[cfg(feature = "fft")]
pub mod fft;
pub mod primitives;
pub mod special_ufunc;
pub mod table;

//! The `f32` functions under one name each.

pub use super::f32_native::*;
pub use super::f32_via_f64::*;
pub use super::scalar::single::*;

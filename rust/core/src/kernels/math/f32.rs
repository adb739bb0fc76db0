//! The `f32` functions under one name each.

pub use super::scalar::single::*;
pub use super::single::*;
pub use super::wide::*;

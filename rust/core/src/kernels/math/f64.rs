//! The `f64` functions under one name each.

pub use super::exp::*;
pub use super::hyperbolic::*;
pub use super::inverse::*;
pub use super::log::*;
pub use super::power::*;
pub use super::scalar::double::*;
pub use super::special::*;
pub use super::trig::*;

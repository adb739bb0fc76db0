//! Reverse-mode automatic differentiation: cotangents are lazy, and they are data.
#![deny(missing_docs)]

pub mod array;
pub mod aval;
pub mod error;
pub mod kernels;
pub mod ops;
pub mod opt;
pub mod prim;
pub mod program;
pub mod sched;
pub mod transform;

pub use array::{Array, Number, Pullback, Recording};
pub use aval::{Aval, DType};
pub use error::{Error, Result};
pub use program::Program;

//! Reverse-mode automatic differentiation: cotangents are lazy, and they are data.
#![deny(missing_docs)]

#[macro_use]
pub mod ops;

mod api;
pub mod array;
pub mod aval;
pub mod error;
pub mod kernels;
pub mod opt;
pub mod prim;
pub mod program;
pub mod sched;
pub mod testing;
pub mod transform;

pub use api::{
    Arg, Pullback, constant, gradient, ones_like, pullback, trace, value_and_gradient,
};
pub use array::{Array, Number, Operand, Recording, custom};
pub use aval::{Aval, DType};
pub use error::{Error, Result};
pub use program::Program;

//! What solvers of SciPy need: keys and plain copies of the functions that they call, a right side whose calls are noted,
//! steps of explicit methods, the linear systems that derivatives lead to, and how solutions move.

pub mod collocation;
pub mod function_key;
mod jacobians;
pub mod names_read;
pub mod noted_calls;
mod outputs;
pub mod runge_kutta;
pub mod solutions;
pub mod steps;
mod written;

//! What solvers of SciPy need: keys and plain copies of the functions that they call, a right side whose calls are noted,
//! and steps of explicit methods.

pub mod function_key;
pub mod names_read;
pub mod noted_calls;
pub mod steps;

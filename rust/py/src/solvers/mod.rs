//! What solvers of SciPy call thousands of times: a right side whose calls are noted, and steps of explicit methods.

pub mod noted_calls;
pub mod steps;

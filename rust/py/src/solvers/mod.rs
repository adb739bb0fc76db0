//! What solvers of SciPy call thousands of times: a right side whose calls are noted, and the stages of a step.

pub mod noted_calls;
pub mod stages;

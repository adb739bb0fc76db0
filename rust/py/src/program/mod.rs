//! Recorded programs as Python objects: reading, combining, running and saving them.

// Classes.
pub mod equation;
pub mod pyclass;

// Calls.
pub mod bind_inputs;
pub mod compose;

// Out of the process.
pub mod export;
pub mod report;
pub mod serialize;

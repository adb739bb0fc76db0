//! Prepared functions: recorded once for each specialization, and replayed without Python.

// The class and its recordings.
pub mod pyclass;
pub mod record;
pub mod recordings;
pub mod specialization;
pub mod varying;

// What a recording is valid for.
pub mod decisions;
pub mod guards;
pub mod reasons;

// Arguments and results of a replay.
pub mod fast_args;
pub mod out_buffers;
pub mod results;

//! Prepared functions: recorded once for each specialization, and replayed without Python.

// Functions that nobody has prepared.
pub mod automatic;
pub mod repeated;
pub mod repeated_functions;
pub mod replay_mode;

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

use pyo3::prelude::*;

/// Adds the functions of this folder to the module, and answers calls of the layer below.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::transforms::automatic_replay::register_replays(
        crate::transforms::automatic_replay::Replays {
            answer: automatic::answer,
            note: automatic::note,
        },
    );
    repeated_functions::register(module)
}

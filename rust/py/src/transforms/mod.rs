//! Transforms of Python functions: gradients, pullbacks, `vmap`, checkpoints and derivative rules.

// Arguments and results.
pub mod argument_names;
pub mod auxiliary;
pub mod keywords;
pub mod leaves;
pub mod present;
pub mod recorded_results;
pub mod run;
pub mod selection;
// Differentiation.
pub mod automatic_replay;
pub mod gradient;
pub mod jacobian;
pub mod nonfinite;
pub mod pullback;
pub mod pullback_methods;
pub mod pushforward;
pub mod saved_pullback;
// Other transforms.
pub mod checkpoint;
pub mod looped;
pub mod trace;
pub mod vmap;
// Rules written in Python.
pub mod collected_slopes;
pub mod custom_rule;
pub mod host_callback;
pub mod opaque_rule;
pub mod rule_call;

use pyo3::prelude::*;

/// Adds the functions of this folder to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    automatic_replay::register(module)?;
    checkpoint::register(module)?;
    collected_slopes::register(module)?;
    custom_rule::register(module)?;
    gradient::register(module)?;
    host_callback::register(module)?;
    jacobian::register(module)?;
    looped::register(module)?;
    nonfinite::register(module)?;
    pushforward::register(module)?;
    saved_pullback::register(module)?;
    trace::register(module)?;
    vmap::register(module)
}

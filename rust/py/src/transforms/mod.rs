//! Transforms of Python functions: gradients, pullbacks, `vmap`, checkpoints and derivative rules.

// Differentiation.
pub mod gradient;
pub mod leaves;
pub mod nonfinite;
pub mod pullback;

// Other transforms.
pub mod checkpoint;
pub mod vmap;

// Rules written in Python.
pub mod custom_rule;
pub mod host_callback;
pub mod opaque_rule;

//! Transforms: programs in, programs out. They know derivative rules, never values.

mod accumulate;
mod cotangent;
mod counted;
mod custom_calls;
pub(crate) mod defer;
mod influence;
mod jvp;
mod looped;
mod mapped_calls;
mod min_cut;
mod partial_eval;
mod residuals;
mod shift_invariance;
mod sparse_cotangent;
mod structural_zeros;
mod vjp;
mod vmap;

pub use influence::passes;
pub use jvp::{Jvp, jvp};
pub use partial_eval::{Split, split};
pub use vjp::{Vjp, vjp, vjp_of_first};
pub use vmap::{varying, vmap};

// What the reference reverse pass of `testing` shares with the real one.
pub(crate) use accumulate::project;
pub(crate) use cotangent::Ct;
pub(crate) use custom_calls::{pull as pull_call, reverse_only};
pub(crate) use vjp::{VarShift, cotangent_inputs, derived, differentiable, start};

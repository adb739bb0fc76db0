//! Derivatives of recorded functions: gradients, pullbacks, checkpoints, rules of one's own and prepared
//! functions.
//!
//! Each closes the tape into a program, lets the transforms derive programs from it, and runs these or
//! hands out lazy arrays that stand for their results.

mod cache;
mod checkpoint;
mod custom;
mod custom_prim;
mod forward_cache;
mod known_values;
mod linear_map;
mod linear_transpose;
mod linearity;
mod looped;
mod prepared;
mod pullback;
mod pushforward;
mod serialization;
mod trace_rule;

pub use cache::{clear_caches, lock_for_fork};
pub use checkpoint::{Checkpoint, Policy, checkpoint, name, names_matter, note_name};
pub use custom::{custom, custom_jvp, custom_many};
pub use linear_map::on_basis;
pub use looped::{Step, TracedStep};
pub use prepared::{Constants, Prepared};
pub use pullback::{
    Pullback, WithAux, gradient, trace, trace_with, value_and_gradient, value_aux_and_gradient,
};
pub use pushforward::{Pushed, Pushforward, pushforward_alone, value_and_pushforward};
pub use trace_rule::{Tracer, project, write_traced};

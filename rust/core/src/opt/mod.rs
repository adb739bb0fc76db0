//! Passes over programs: each takes one and gives a better one that computes the same bits.

mod lower;
mod rewrite;
mod simplify;

pub use lower::{has_composites, in_neighbouring_axes, inline_rules, lower};
pub use simplify::{Passes, optimize, without_barriers};

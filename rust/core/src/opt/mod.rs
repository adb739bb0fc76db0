//! Passes over programs: each takes one and gives a better one that computes the same bits.

mod columns;
mod lower;
mod repeats;
mod rewrite;
mod roll;
mod simplify;

pub use columns::in_columns;
pub use lower::{has_composites, in_neighbouring_axes, inline_rules, lower};
pub(crate) use repeats::runs;
pub use roll::{LONG, roll, roll_long};
pub use simplify::{Passes, optimize, without_barriers};

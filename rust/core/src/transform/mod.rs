//! Transforms: programs in, programs out. They know derivative rules, never values.

mod batch;
mod calls;
mod cotangent;
mod cut;
mod jvp;
mod partial;
mod parts;
mod residuals;
mod shifts;
mod vjp;

pub use batch::vmap;
pub use jvp::{Jvp, jvp};
pub use partial::{Split, split};
pub use vjp::{Vjp, vjp};

//! The tape: what a differentiated function records, and how a program is cut out of it.
//!
//! An [`Array`] refers to an immutable node: a primitive and its inputs, a dtype and a shape, and, once it
//! has been forced, a value. [`Recording`] says which leaves belong together; `close` turns the nodes
//! between leaves and outputs into a program.

mod application;
pub(crate) mod call_once;
pub(crate) mod close;
mod keep_history;
pub(crate) mod node;
mod node_map;
pub(crate) mod recording;
mod same_values;
mod visit;

pub use close::ClosedProgram;
pub use keep_history::{KeepHistory, is_differentiated_inside, keeps_history};
pub use node::{Array, Number, arrays_made, count_arrays};
pub use recording::{Recording, is_live, newest_tag};

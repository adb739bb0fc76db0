//! Fused groups: a program of elementwise operations, run tile by tile.
//!
//! A group is a linear program over registers. Each operation is one lane call over a tile of some
//! hundred or thousand elements, so that intermediate results never leave the first-level cache;
//! inputs and outputs that lie contiguously are read and written in place. Reductions take their
//! operand while its tile is in the cache. Where a tile holds whole rows, the result of a reduction over
//! them can be read again in the same tile: it is a register with one element for each row.
//!
//! How the work is divided depends on the program and its shape only, never on the number of
//! threads, and partial results are combined in a fixed order: same inputs, same bits.

mod bound;
mod build;
mod builder;
#[cfg(test)]
mod chain_tests;
mod check;
mod lay_out;
mod node;
mod op_chains;
mod over_rows;
#[cfg(test)]
mod over_rows_tests;
#[cfg(test)]
mod pair_tests;
mod paired_ops;
mod plan;
mod prefetch;
mod program;
mod recipe;
mod reduce;
mod row_kernels;
#[cfg(test)]
mod row_tests;
mod row_tiles;
mod run;
mod scalar;
mod scratch;
mod short_run;
#[cfg(test)]
mod short_run_tests;
mod strided_input;
#[cfg(test)]
mod test_floats;
#[cfg(test)]
mod tests;
mod tile_code;

pub use bound::FusedLayout;
pub use builder::FusedBuilder;
pub use node::Reg;
pub use plan::Split;
pub use program::Fused;
pub use recipe::{Recipe, RecipeNode, RecipeOutput};
pub use reduce::{ROW_LANES, ReduceOp, SHORT_ROW};

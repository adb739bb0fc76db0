//! Sparse derivatives: which elements of a result depend on which elements of the inputs, and which
//! columns of a Jacobian may be computed in one product.
//!
//! [`dependence`] reads the pattern off a program: its structure, the values of constant indices, and
//! no other value. The pattern of a Jacobian is that of its pullback, transposed, since the pullback
//! is a program, too. [`color_columns`], [`color_symmetric`] and [`color_both`] then group columns and
//! rows. [`narrow_order`] puts the entries of a matrix near its diagonal.

mod both;
mod coloring;
mod dependence;
mod flow;
mod ordering;
mod pattern;
mod sets;
mod star;

pub use both::color_both;
pub use coloring::color_columns;
pub use dependence::dependence;
pub use ordering::{bandwidths, narrow_order};
pub use pattern::Pattern;
pub use star::color_symmetric;

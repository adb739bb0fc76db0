//! How programs number their variables.

/// A variable of a program: its inputs come first, then one variable for each equation.
pub type Var = u32;

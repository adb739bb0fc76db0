//! Takes arrays of points apart: what has shape `[n, 3]` becomes three vectors of `n` elements.
//!
//! Norms, cross products and single coordinates are operations of many shapes on such arrays: a sum over three
//! elements, a slice of one column, columns side by side. Each begins a pass of its own over memory, or loops of
//! three elements. Of columns all of them are operations on vectors of one shape, which one pass computes, and a slice of one
//! is no operation at all. Every element is computed as before, and sums over a row add in the order of the kernels, so the bits are the same.

mod choice;
mod write;

use self::choice::has_columns;
use crate::aval::Aval;
use crate::error::Result;
use crate::program::Program;

/// The longest program whose arrays are taken apart: it has several times as many equations then.
const LONG: usize = 1 << 14;

/// The program with arrays of points in columns; `None` where that would not save work.
///
/// # Errors
/// When the user stops it, or memory ends.
pub fn in_columns(program: &Program) -> Result<Option<Program>> {
    let may_gain = |aval: &Aval| has_columns(aval) && aval.shape.last() != Some(&1);
    if program.eqns().len() > LONG || !program.avals.iter().any(may_gain) {
        return Ok(None);
    }
    match choice::chosen(program) {
        Some(chosen) => write::written(program, &chosen).map(Some),
        None => Ok(None),
    }
}

//! Patterns of sparse matrices, from index arrays as SciPy has them.

use cotan::sparsity::Pattern;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::runtime::error::OrRaise;

/// A pattern whose rows begin at `starts` among the columns of all rows.
pub fn pattern(
    columns: usize,
    starts: &PyReadonlyArray1<'_, i32>,
    indices: &PyReadonlyArray1<'_, i32>,
) -> PyResult<Pattern> {
    let negative = || PyValueError::new_err("sparsity: a pattern has no negative indices");
    let starts = starts.as_array().into_iter();
    let starts: Result<_, _> = starts.map(|&i| usize::try_from(i)).collect();
    let indices = indices.as_array().into_iter();
    let indices: Result<_, _> = indices.map(|&i| u32::try_from(i)).collect();
    let (starts, indices) = (
        starts.map_err(|_| negative())?,
        indices.map_err(|_| negative())?,
    );
    Pattern::new(columns, starts, indices).or_raise()
}

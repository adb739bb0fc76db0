//! Compares objects by identity, so that no code of theirs runs.

use crate::runtime::exports::exports;
use pyo3::prelude::*;
use pyo3::types::PyList;

exports!(same_items);

/// Whether two lists hold the same objects, in the same order. No code of theirs runs for that.
#[pyfunction]
#[pyo3(signature = (a: "list[Any]", b: "list[Any]") -> "bool")]
pub fn same_items(a: &Bound<'_, PyList>, b: &Bound<'_, PyList>) -> bool {
    a.len() == b.len() && a.iter().zip(b.iter()).all(|(x, y)| x.is(&y))
}

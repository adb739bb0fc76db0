//! Decides which numbers that are held constant become inputs of a recording: those that are another one in the next
//! call. The first recording has them as they are.

use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat};

use crate::ndarray::memory::is_numpy_scalar;
use crate::tree::treedef::{Kind, Leaf};

/// Whether rewriting rules know this number: a program in which it is an input computes in another way.
pub fn is_known(number: f64) -> bool {
    [0.0, 1.0, -1.0, 2.0, 0.5].contains(&number)
}

/// Whether a number can be an input: a plain one, of another value than those that rewriting rules know.
pub fn is_followed(py: Python<'_>, leaf: &Leaf) -> PyResult<bool> {
    let object = leaf.object.bind(py);
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        return Ok(!is_known(number.value()));
    }
    let is_plain = object.is_exact_instance_of::<PyComplex>() || is_numpy_scalar(object)?;
    if !is_plain || !matches!(leaf.kind, Kind::Number | Kind::Scalar) {
        return Ok(false);
    }
    for known in [0.0, 1.0, -1.0, 2.0, 0.5] {
        if object.eq(known)? {
            return Ok(false);
        }
    }
    Ok(true)
}

//! Decides which numbers that are held constant become inputs of a recording: those that are another one in the next
//! call. The first recording has them as they are.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyFloat};

use crate::ndarray::memory::is_numpy_scalar;
use crate::prepare::guards::{same_object, same_structure};
use crate::prepare::specialization::{Specialization, Taken};
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

/// For each leaf whether it is a number that was another one when a function was recorded last with arguments like
/// these.
pub fn changed(
    py: Python<'_>,
    tried: &[Arc<Specialization>],
    taken: &Taken,
) -> PyResult<Vec<bool>> {
    'tried: for specialization in tried {
        if specialization.by_keyword != taken.by_keyword
            || specialization.trees.len() != taken.trees.len()
            || specialization.specs.len() != taken.leaves.len()
        {
            continue;
        }
        for (a, b) in specialization.trees.iter().zip(&taken.trees) {
            if !same_structure(py, a, b)? {
                continue 'tried;
            }
        }
        let mut all = Vec::with_capacity(taken.leaves.len());
        for (leaf, spec) in taken.leaves.iter().zip(&specialization.specs) {
            if leaf.kind != spec.kind || leaf.array.aval() != &spec.aval || leaf.held != spec.held {
                continue 'tried;
            }
            let differs = match &spec.fixed {
                Some(fixed) => !same_object(leaf.object.bind(py), fixed.bind(py))?,
                None => spec.followed,
            };
            all.push(differs && is_followed(py, leaf)?);
        }
        return Ok(all);
    }
    Ok(Vec::new())
}

//! What a differentiated function returns besides its value (`has_aux=True`): plain values, computed with the rest.

use cotan::Array;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::ndarray::memory::Borrow;
use crate::runtime::text;
use crate::transforms::leaves::Inputs;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::{Kind, Leaf, Tree};

/// The second of a pair that a function returned, taken apart.
pub struct Auxiliary {
    tree: Tree,
    leaves: Vec<Leaf>,
}

impl Auxiliary {
    /// The value that a function returned, and what it returned besides, if it `has_aux`.
    pub fn split<'py>(
        name: &str,
        y: Bound<'py, PyAny>,
        has_aux: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Option<Auxiliary>)> {
        if !has_aux {
            return Ok((y, None));
        }
        let pair = match y.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => pair,
            other => {
                let found = other.map_or_else(
                    |_| text::class_of(&y),
                    |tuple| format!("a tuple of {}", tuple.len()),
                );
                return Err(PyTypeError::new_err(format!(
                    "{name}: with has_aux=True the function must return a pair (value, aux), not {found}"
                )));
            }
        };
        let mut flattener = Flattener::new(Borrow::Copy, false, false);
        let tree = flattener.flatten(&pair.get_item(1)?, Position::Nested, true, "")?;
        let leaves = flattener.leaves;
        Ok((pair.get_item(0)?, Some(Auxiliary { tree, leaves })))
    }

    /// The arrays in it that may belong to a recording.
    pub fn arrays(&self) -> Vec<Array> {
        let recorded = self.leaves.iter().filter(|leaf| is_recorded(leaf));
        recorded.map(|leaf| leaf.array.clone()).collect()
    }

    /// The structure, with what these arrays have become.
    pub fn present<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        arrays: &[Array],
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut arrays = arrays.iter();
        let mut objects = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            let array = is_recorded(leaf).then(|| arrays.next()).flatten();
            objects.push(match array {
                Some(array) => inputs.value(py, array, leaf.kind.scalar_kind())?,
                None => leaf.object.bind(py).clone(),
            });
        }
        self.tree.build(py, &objects)
    }
}

/// Whether it is an `Array`.
fn is_recorded(leaf: &Leaf) -> bool {
    matches!(leaf.kind, Kind::Array(_))
}

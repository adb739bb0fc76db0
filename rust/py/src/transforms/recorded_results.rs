//! What a differentiated function returned: a structure of arrays, and what it returned besides.

use cotan::{Array, Aval};
use pyo3::prelude::*;

use crate::ndarray::memory::Borrow;
use crate::transforms::auxiliary::Auxiliary;
use crate::transforms::leaves::Inputs;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::{Kind, Tree, present};

/// Results, taken apart.
pub struct RecordedResults {
    pub tree: Tree,
    pub kinds: Vec<Kind>,
    /// The results, as they were recorded.
    pub arrays: Vec<Array>,
    aux: Option<Auxiliary>,
    /// How many arrays stand behind the results.
    pub behind: usize,
}

impl RecordedResults {
    /// Takes apart what a function returned: with `has_aux`, a pair.
    pub fn of(name: &str, y: Bound<'_, PyAny>, has_aux: bool) -> PyResult<RecordedResults> {
        let (y, aux) = Auxiliary::split(name, y, has_aux)?;
        let mut results = Flattener::new(Borrow::Copy, false, false);
        let tree = results.flatten(&y, Position::Direct, true, "")?;
        let kinds = results.leaves.iter().map(|l| l.kind).collect();
        let arrays = results.leaves.into_iter().map(|l| l.array).collect();
        let behind = aux.as_ref().map_or(0, |aux| aux.arrays().len());
        Ok(RecordedResults {
            tree,
            kinds,
            arrays,
            aux,
            behind,
        })
    }

    /// The arrays of the results, then those of what was returned besides.
    pub fn outputs(&self) -> Vec<Array> {
        let aux = self.aux.iter().flat_map(Auxiliary::arrays);
        self.arrays.iter().cloned().chain(aux).collect()
    }

    /// Dtypes and shapes of the results.
    pub fn avals(&self) -> Vec<Aval> {
        self.arrays.iter().map(|a| a.aval().clone()).collect()
    }

    /// The result, and what was returned besides, with these arrays in their places.
    pub fn present<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        outs: &[Array],
    ) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
        let (values, behind) = outs.split_at(self.kinds.len());
        let mut objects = Vec::with_capacity(values.len());
        for (out, &kind) in values.iter().zip(&self.kinds) {
            objects.push(match kind {
                Kind::Array(scalar_kind) => inputs.value(py, out, scalar_kind)?,
                other => present(py, out, other)?,
            });
        }
        let aux = self.aux.as_ref().map(|aux| aux.present(py, inputs, behind));
        Ok((self.tree.build(py, &objects)?, aux.transpose()?))
    }
}

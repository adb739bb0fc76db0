//! Hands out values and cotangents: of the argument's own kind, in its structure.

use cotan::Array;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::{PyArray, ScalarKind};
use crate::runtime::error::step;
use crate::runtime::hooks;
use crate::transforms::leaves::Inputs;
use crate::tree::natural_cotangent::{HandOut, Scope};
use crate::tree::treedef::{Kind, Tree, hand_over, present};

impl Inputs {
    /// A value that the function returned: an `Array` if an argument was one.
    pub fn value<'py>(
        &self,
        py: Python<'py>,
        array: &Array,
        scalar_kind: ScalarKind,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = match scalar_kind {
            _ if self.returns_arrays() => Kind::Array(scalar_kind),
            ScalarKind::Array if array.shape().is_empty() => Kind::Scalar,
            ScalarKind::Array => Kind::NdArray,
            ScalarKind::NumpyScalar => Kind::Scalar,
            ScalarKind::PythonNumber => Kind::Number,
        };
        present(py, array, kind)
    }

    /// A tuple with one entry for each argument, its cotangent; a mapping for arrays.
    pub fn gradients<'py>(
        &self,
        py: Python<'py>,
        cts: Vec<Option<Array>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kinds: Vec<Kind> = self.leaves.iter().map(|l| l.kind).collect();
        let slots: Vec<usize> = self.active.iter().map(|(i, _)| *i).collect();
        let _natural = HandOut::new(Scope::natural(py));
        let asked = vec![true; slots.len()];
        let entries = gradients(py, &self.trees, &kinds, &slots, &asked, cts)?;
        handed_out(py, entries, self.arrays.as_deref())
    }
}

/// Cotangents as `gradient` gives them: a tuple, or a mapping from arrays.
pub fn handed_out<'py>(
    py: Python<'py>,
    entries: Vec<Bound<'py, PyAny>>,
    arrays: Option<&[Py<PyArray>]>,
) -> PyResult<Bound<'py, PyAny>> {
    match arrays {
        None => Ok(PyTuple::new(py, entries)?.into_any()),
        Some(arrays) => {
            let arrays: Vec<&Py<PyArray>> = arrays.iter().collect();
            hooks::GRADIENTS_CLASS.get(py)?.call1((arrays, entries))
        }
    }
}

/// Cotangents of active leaves (`slots`) as structures, one for each argument; `asked` says which of them
/// are still asked for. Computed arrays are given up: their memory goes to what is returned.
pub fn gradients<'py>(
    py: Python<'py>,
    trees: &[Tree],
    kinds: &[Kind],
    slots: &[usize],
    asked: &[bool],
    cts: Vec<Option<Array>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut objects: Vec<Option<Bound<'py, PyAny>>> = vec![None; kinds.len()];
    let mut asked_at = vec![false; kinds.len()];
    for ((&slot, ct), &asked) in slots.iter().zip(cts).zip(asked) {
        step(py)?;
        asked_at[slot] = asked;
        objects[slot] = match ct {
            Some(ct) => Some(hand_over(py, ct, kinds[slot])?),
            None => None,
        };
    }
    assembled(py, trees, &objects, &asked_at)
}

/// Structures of cotangents, one for each argument: `None` for one without any.
pub fn assembled<'py>(
    py: Python<'py>,
    trees: &[Tree],
    objects: &[Option<Bound<'py, PyAny>>],
    asked: &[bool],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let present: Vec<bool> = objects.iter().map(Option::is_some).collect();
    let none = || py.None().into_bound(py);
    (trees.iter())
        .map(|tree| {
            if !tree.any(&present) {
                return Ok(none());
            }
            Ok(tree.gradients(py, objects, asked)?.unwrap_or_else(none))
        })
        .collect()
}

//! Gives structures to Python code that walks them: updates, maps over leaves.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::runtime::exports::exports;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::{Leaf, Tree};
use crate::tree::zip::{Align, Reading};

exports!(structure);

/// A structure taken apart: paths and objects of its leaves, which are arrays of any dtype, `Array`s
/// and floats.
#[pyclass(frozen, name = "_Structure", module = "cotan._core")]
pub struct PyStructure {
    tree: Tree,
    leaves: Vec<Leaf>,
    /// What paths start with.
    root: String,
}

/// Takes a structure apart; with `declared`, `trainable` heeds `__trainable__`. Paths start with `root`. With
/// `integers` those of Python are leaves where `gradient` takes them for numbers.
#[pyfunction]
#[pyo3(signature = (
    tree: "object",
    declared: "bool" = false,
    root: "str" = "",
    integers: "bool" = false
) -> "_Structure")]
pub fn structure(
    tree: &Bound<'_, PyAny>,
    declared: bool,
    root: &str,
    integers: bool,
) -> PyResult<PyStructure> {
    let mut flattener = Flattener::of_objects(declared);
    if integers {
        flattener.count_integers();
    }
    let argument = flattener.argument(tree, Position::Nested, root);
    let tree = argument.map_err(|fault| fault.raise(tree.py(), root))?.tree;
    Ok(PyStructure {
        tree,
        leaves: flattener.leaves,
        root: root.into(),
    })
}

#[pymethods]
impl PyStructure {
    /// Paths of the leaves.
    #[getter]
    fn paths(&self) -> Vec<&str> {
        self.leaves.iter().map(|l| l.path.as_str()).collect()
    }

    /// The leaves.
    #[getter]
    fn leaves(&self) -> Vec<&Py<PyAny>> {
        self.leaves.iter().map(|l| &l.object).collect()
    }

    /// For each leaf, whether it can have a gradient and is declared, and not held constant.
    #[getter]
    fn trainable(&self) -> Vec<bool> {
        self.leaves.iter().map(|l| l.active).collect()
    }

    /// The structure with other leaves.
    fn build<'py>(
        &self,
        py: Python<'py>,
        leaves: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if leaves.len() != self.leaves.len() {
            return Err(PyValueError::new_err(format!(
                "the structure has {} leaves, {} given",
                self.leaves.len(),
                leaves.len()
            )));
        }
        self.tree.build(py, &leaves)
    }

    /// For each leaf, what stands in its place in another structure; None where nothing does.
    fn align<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
        operation: &str,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let mut align = Align::new(py, operation, Reading::Values, self.leaves.len());
        align.read(&self.tree, other, &self.root)?;
        Ok(align.done())
    }
}

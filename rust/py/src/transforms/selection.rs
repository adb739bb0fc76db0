//! Finds the leaves of the arguments that `wrt` asks for: by positions, names, paths, masks, a predicate or
//! a getter.

use numpy::PyArray1;
use pyo3::prelude::*;

use crate::runtime::hooks;
use crate::tree::treedef::Tree;
use crate::tree::zip::{Align, Reading};

/// What `wrt` asks for.
pub struct Selection {
    /// Whether it asks for each leaf.
    pub mask: Vec<bool>,
    /// The arguments that it asks for as a whole.
    pub arguments: Vec<usize>,
}

/// The mask, the structures that a getter gave, and the arguments that they belong to.
type Told<'py> = (
    Option<Vec<bool>>,
    Option<Vec<Bound<'py, PyAny>>>,
    Vec<usize>,
);

/// The leaves that `wrt` asks for. `able` says which of them can have a cotangent.
pub fn selected(
    wrt: &Bound<'_, PyAny>,
    names: &[String],
    trees: &[Tree],
    paths: &[&str],
    objects: &[&Py<PyAny>],
    able: &[bool],
) -> PyResult<Selection> {
    let py = wrt.py();
    let mut owner = vec![0usize; able.len()];
    for (i, tree) in trees.iter().enumerate() {
        let mut below = vec![false; able.len()];
        tree.mark(&mut below);
        for (slot, _) in owner.iter_mut().zip(below).filter(|(_, b)| *b) {
            *slot = i;
        }
    }
    // A getter takes an argument with something in the place of its leaves that is known again.
    let stand_ins = if wrt.is_callable() {
        let leaves: Vec<_> = able.iter().map(|_| stand_in(py)).collect();
        let built = trees.iter().map(|t| t.build(py, &leaves));
        Some((built.collect::<PyResult<Vec<_>>>()?, leaves.clone()))
    } else {
        None
    };
    let told = hooks::SELECT
        .get(py)?
        .call1((wrt, names, owner, paths, objects, able, stand_ins))?;
    let (mask, structures, arguments): Told<'_> = told.extract()?;
    if let Some(mask) = mask {
        return Ok(Selection { mask, arguments });
    }
    let mut align = Align::new(py, "wrt", Reading::Mask, able.len());
    for ((tree, mask), name) in trees.iter().zip(structures.iter().flatten()).zip(names) {
        align.read(tree, mask, name)?;
    }
    let mask = (align.done().iter())
        .map(|entry| entry.as_ref().map_or(Ok(false), Bound::is_truthy))
        .collect::<PyResult<_>>()?;
    Ok(Selection { mask, arguments })
}

/// An array that is no other one: identity is all that counts.
fn stand_in(py: Python<'_>) -> Bound<'_, PyAny> {
    PyArray1::<f64>::zeros(py, [0], false).into_any()
}

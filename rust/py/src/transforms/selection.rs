//! Finds the leaves of the arguments that `wrt` asks for: by positions, names, paths, masks or a predicate.

use pyo3::prelude::*;

use crate::runtime::hooks;
use crate::tree::treedef::Tree;
use crate::tree::zip::{Align, Reading};

/// For every leaf, whether `wrt` asks for it. `able` says which of them can have a cotangent.
pub fn selected(
    wrt: &Bound<'_, PyAny>,
    names: &[String],
    trees: &[Tree],
    paths: &[&str],
    objects: &[&Py<PyAny>],
    able: &[bool],
) -> PyResult<Vec<bool>> {
    let py = wrt.py();
    let mut owner = vec![0usize; able.len()];
    for (i, tree) in trees.iter().enumerate() {
        let mut below = vec![false; able.len()];
        tree.mark(&mut below);
        for (slot, _) in owner.iter_mut().zip(below).filter(|(_, b)| *b) {
            *slot = i;
        }
    }
    let told = hooks::SELECT
        .get(py)?
        .call1((wrt, names, owner, paths, objects, able))?;
    let (mask, structures): (Option<Vec<bool>>, Option<Vec<Bound<'_, PyAny>>>) = told.extract()?;
    if let Some(mask) = mask {
        return Ok(mask);
    }
    let mut align = Align::new(py, "wrt", Reading::Mask, able.len());
    for ((tree, mask), name) in trees.iter().zip(structures.iter().flatten()).zip(names) {
        align.read(tree, mask, name)?;
    }
    align
        .done()
        .iter()
        .map(|entry| entry.as_ref().map_or(Ok(false), Bound::is_truthy))
        .collect()
}

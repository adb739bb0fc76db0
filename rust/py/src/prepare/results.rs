//! Makes the result of a replay: objects of the outputs of its program, in the structure that the function gives.

use cotan::kernels::Value;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::PyArray;
use crate::prepare::out_buffers::Buffers;
use crate::prepare::specialization::{Outputs, Specialization, handed};
use crate::transforms::present::{assembled, handed_out};
use crate::tree::natural_cotangent::HandOut;
use crate::tree::treedef::Tree;

/// Results as objects of the kinds that they have.
pub fn objects<'py>(
    py: Python<'py>,
    specialization: &Specialization,
    outs: impl IntoIterator<Item = Value>,
    written: Vec<Option<Py<PyAny>>>,
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let mut written = written.into_iter();
    (outs.into_iter().zip(&specialization.kinds))
        .map(|(value, &kind)| match written.next().flatten() {
            Some(buffer) => Ok(Some(buffer.into_bound(py))),
            None => handed(py, value, kind).map(Some),
        })
        .collect()
}

/// The result of a call by the quick way.
pub fn quickly<'py>(
    py: Python<'py>,
    specialization: &Specialization,
    outs: &mut [Value],
    buffers: Option<&Buffers>,
) -> PyResult<Bound<'py, PyAny>> {
    let written = match buffers {
        Some(buffers) => buffers.write(py, outs)?,
        None => Vec::new(),
    };
    let outs = outs
        .iter_mut()
        .map(|out| std::mem::replace(out, specialization.nothing.clone()));
    let mut objects = objects(py, specialization, outs, written)?;
    structure(
        py,
        specialization,
        &specialization.trees,
        &mut objects,
        None,
    )
}

/// The structure of the result, with these objects for its leaves.
pub fn structure<'py>(
    py: Python<'py>,
    specialization: &Specialization,
    trees: &[Tree],
    objects: &mut [Option<Bound<'py, PyAny>>],
    arrays: Option<&[Py<PyArray>]>,
) -> PyResult<Bound<'py, PyAny>> {
    let none = || py.None().into_bound(py);
    match &specialization.outputs {
        Outputs::Gradients(with_value, cts) => {
            let first = with_value.then(|| objects[0].take().unwrap_or_else(none));
            let gradients = if specialization.quick.is_some() {
                // Every argument is a leaf, or has none.
                let mut entries = vec![none(); trees.len()];
                for (&slot, ct) in specialization.slots.iter().zip(cts) {
                    if let Some(ct) = ct {
                        entries[specialization.owners[slot]] =
                            objects[*ct].take().unwrap_or_else(none);
                    }
                }
                PyTuple::new(py, entries)?.into_any()
            } else {
                let mut leaves = vec![None; specialization.specs.len()];
                let mut asked = vec![false; specialization.specs.len()];
                for (&slot, ct) in specialization.slots.iter().zip(cts) {
                    asked[slot] = true;
                    leaves[slot] = ct.and_then(|ct| objects[ct].take());
                }
                let natural = specialization.natural.as_ref().map(|n| n.clone_ref(py));
                let _natural = HandOut::new(natural);
                // What is given by keyword is constant, and has no place in the result.
                let positional = trees.len() - usize::from(specialization.by_keyword);
                let trees = &trees[..positional];
                handed_out(py, assembled(py, trees, &leaves, &asked)?, arrays)?
            };
            match first {
                Some(value) => Ok(PyTuple::new(py, [value, gradients])?.into_any()),
                None => Ok(gradients),
            }
        }
        Outputs::Structure(tree) => {
            let objects: Vec<_> = (objects.iter_mut())
                .map(|o| o.take().unwrap_or_else(none))
                .collect();
            tree.build(py, &objects)
        }
        Outputs::Pullback(tree, count, back) => {
            let objects: Vec<_> = (objects.iter_mut())
                .map(|o| o.take().unwrap_or_else(none))
                .collect();
            let y = tree.build(py, &objects[..*count])?;
            let mut residuals = Vec::with_capacity(objects.len() - count);
            for object in &objects[*count..] {
                residuals.push(
                    object
                        .cast::<PyArray>()
                        .map_err(PyErr::from)?
                        .get()
                        .read()?,
                );
            }
            let back = back.at(py, residuals)?;
            Ok((y, back).into_pyobject(py)?.into_any())
        }
    }
}

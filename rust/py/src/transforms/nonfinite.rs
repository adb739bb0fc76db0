//! Looks for NaN and infinity, and names the arguments in the exception that says where they come from.

use cotan::inspect;
use cotan::kernels::Look;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::transforms::argument_names::argument_names;
use crate::transforms::leaves::Inputs;

exports!(begin_detection, begin_lines, end_detection);

/// Begins to look at what leaves a run of this thread. Gives the number with which to end it.
#[pyfunction]
#[pyo3(signature = (nan: "bool", inf: "bool") -> "int")]
pub fn begin_detection(nan: bool, inf: bool) -> u64 {
    inspect::begin_detection(Some(Look { nan, inf }))
}

/// Begins to record which lines operations come from. Gives the number with which to end it.
#[pyfunction]
#[pyo3(signature = () -> "int")]
pub fn begin_lines() -> u64 {
    inspect::begin_detection(None)
}

/// Ends it.
#[pyfunction]
#[pyo3(signature = (id: "int") -> "None")]
pub fn end_detection(id: u64) {
    inspect::end_detection(id);
}

/// The result of a call of `f` or of what was recorded of it; an exception about NaN gets the paths of
/// arguments.
pub fn named<T>(f: &Bound<'_, PyAny>, inputs: &Inputs, result: PyResult<T>) -> PyResult<T> {
    let py = f.py();
    let error = match result {
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyFloatingPointError>(py) => error,
        other => return other,
    };
    let mut paths = Vec::new();
    let names = match &inputs.arrays {
        Some(arrays) => (0..arrays.len()).map(|i| format!("wrt[{i}]")).collect(),
        None => argument_names(f, inputs.trees.len())?,
    };
    for (tree, name) in inputs.trees.iter().zip(&names) {
        tree.paths(name, &mut paths, py)?;
    }
    let leaves = inputs.active.iter().map(|(i, _)| paths[*i].as_str());
    let leaves: Vec<&str> = leaves.collect();
    let ids = PyDict::new(py);
    for (leaf, path) in inputs.leaves.iter().zip(&paths) {
        ids.set_item(leaf.array.id(), path)?;
    }
    for ((_, array), path) in inputs.active.iter().zip(&leaves) {
        ids.set_item(array.id(), path)?;
    }
    hooks::NAME_NONFINITE_LEAVES
        .get(py)?
        .call1((error.value(py), leaves, ids))?;
    Err(error)
}

//! NaN and infinity: looking for them, and the exception that says where they come from.

use cotan::array::{self, NonFinite, Origin, Range, Reached};
use cotan::kernels::Look;
use cotan::prim::Place;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::transforms::leaves::{Inputs, argument_names};

/// Begins to look at what leaves a run of this thread. Gives the number with which to end it.
#[pyfunction]
pub fn begin_detection(nan: bool, inf: bool) -> u64 {
    array::begin_detection(Some(Look { nan, inf }))
}

/// Begins to record which lines operations come from. Gives the number with which to end it.
#[pyfunction]
pub fn begin_lines() -> u64 {
    array::begin_detection(None)
}

/// Ends it.
#[pyfunction]
pub fn end_detection(id: u64) {
    array::end_detection(id);
}

fn range<'py>(py: Python<'py>, range: &Range) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("name", &range.name)?;
    out.set_item("dtype", range.aval.dtype.numpy_name())?;
    out.set_item("shape", PyTuple::new(py, range.aval.shape.iter())?)?;
    out.set_item("least", range.bounds.map(|b| b.0))?;
    out.set_item("greatest", range.bounds.map(|b| b.1))?;
    out.set_item("nans", range.nans)?;
    out.set_item("infs", range.infs)?;
    let index = range.index.as_ref();
    out.set_item("index", index.map(|i| PyTuple::new(py, i)).transpose()?)?;
    match range.at {
        Some(z) if range.aval.dtype.is_complex() => out.set_item("value", z)?,
        at => out.set_item("value", at.map(|z| z.re))?,
    }
    Ok(out)
}

fn put_place(out: &Bound<'_, PyDict>, place: Option<&Place>) -> PyResult<()> {
    let Some(place) = place else { return Ok(()) };
    out.set_item("file", &*place.file)?;
    out.set_item("line", place.line)?;
    out.set_item("function", &*place.function)?;
    if let Some((rule, argument)) = place.rule {
        out.set_item("rule", rule)?;
        out.set_item("rule_argument", argument)?;
    }
    Ok(())
}

fn fields<'py>(py: Python<'py>, error: &NonFinite) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("kind", if error.is_nan { "nan" } else { "inf" })?;
    out.set_item("result", range(py, &error.result)?)?;
    match error.reached {
        Reached::Value(i) => out.set_item("output", i)?,
        Reached::Gradient(leaf) => out.set_item("leaf", leaf)?,
        Reached::Read => out.set_item("path", &*error.name)?,
    }
    match &error.origin {
        Origin::Equation {
            prim,
            params,
            place,
            args,
            argument,
            value,
        } => {
            out.set_item("operation", prim)?;
            out.set_item("parameters", params)?;
            put_place(&out, place.as_ref())?;
            let args: Vec<_> = (args.iter())
                .map(|a| range(py, a))
                .collect::<PyResult<_>>()?;
            out.set_item("arguments", args)?;
            out.set_item("argument", argument)?;
            out.set_item("made", range(py, value)?)?;
        }
        Origin::Input {
            id, value, place, ..
        } => {
            put_place(&out, place.as_ref())?;
            out.set_item("input_id", id)?;
            out.set_item("made", range(py, value)?)?;
        }
        Origin::Unknown => {}
    }
    Ok(out)
}

/// The Python exception.
pub fn exception(py: Python<'_>, error: &NonFinite) -> PyErr {
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let python = py.import("cotan._src.inspect.nonfinite")?;
        python.call_method1("found", (fields(py, error)?,))
    };
    made().map_or_else(|e| e, PyErr::from_value)
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
        tree.paths(name, &mut paths, py);
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
    py.import("cotan._src.inspect.nonfinite")?
        .call_method1("name", (error.value(py), leaves, ids))?;
    Err(error)
}

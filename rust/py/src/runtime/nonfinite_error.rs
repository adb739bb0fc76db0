//! Makes the Python exception for a NaN or an infinity that was looked for, with what is known of its origin.

use cotan::inspect::{NonFinite, Origin, Range, Reached};
use cotan::prim::Place;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::runtime::hooks;

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
        hooks::NONFINITE_ERROR.get(py)?.call1((fields(py, error)?,))
    };
    made().map_or_else(|e| e, PyErr::from_value)
}

//! Exports the table of primitives as data, from which reference pages, stubs and tests are generated.

use cotan::prim::{Class, Cost, Onnx, Params, Prim, Samples, Types, Wgsl};
use cotan::{Array, ops};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

use crate::array::cell::wrap_result;
use crate::array::operand::Operand;
use crate::array::operators::apply_elementwise;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::runtime::text;

exports!(ufuncs, table, apply);

/// One entry.
pub fn entry(py: Python<'_>, prim: Prim) -> PyResult<Bound<'_, PyDict>> {
    let def = prim.0;
    let out = PyDict::new(py);
    out.set_item("name", def.name)?;
    out.set_item("args", def.args)?;
    out.set_item("doc", def.doc.trim())?;
    let (class, types, differentiable) = match &def.class {
        Class::Elementwise {
            types, partials, ..
        } => ("elementwise", Some(*types), partials.is_some()),
        Class::Linear { .. } => ("linear", None, true),
        Class::General { vjp, .. } => ("general", None, vjp.is_some()),
    };
    out.set_item("class", class)?;
    out.set_item("types", types.map(type_name))?;
    out.set_item("differentiable", differentiable)?;
    let cost = match def.cost {
        Cost::Free => "free",
        Cost::Cheap => "cheap",
        Cost::Dear => "dear",
        Cost::Heavy => "heavy",
    };
    out.set_item("cost", cost)?;
    let (onnx, reason) = match def.onnx {
        Onnx::Op(name, since) => (Some(format!("{name} (opset {since})")), None),
        Onnx::Recipe(name) => (Some(format!("several operators ({name})")), None),
        Onnx::None(reason) => (None, Some(reason)),
    };
    out.set_item("onnx", onnx)?;
    // The same for the exporter: operator and opset version, or the name of a recipe.
    let (operator, since, recipe) = match def.onnx {
        Onnx::Op(name, since) => (Some(name), Some(since), None),
        Onnx::Recipe(name) => (None, None, Some(name)),
        Onnx::None(_) => (None, None, None),
    };
    out.set_item("onnx_operator", operator)?;
    out.set_item("onnx_since", since)?;
    out.set_item("onnx_recipe", recipe)?;
    out.set_item("onnx_reason", reason)?;
    let (wgsl, reason) = match def.wgsl {
        Wgsl::Expr(text) => (Some(text), None),
        Wgsl::None(reason) => (None, Some(reason)),
    };
    out.set_item("wgsl", wgsl)?;
    out.set_item("wgsl_reason", reason)?;
    out.set_item("numpy", def.numpy)?;
    let samples = PyList::empty(py);
    match def.samples {
        Samples::Intervals(list) => {
            for shapes in [&[3usize, 4][..], &[]] {
                let inputs: Vec<_> = list.iter().map(|&(a, b)| (shapes.to_vec(), a, b)).collect();
                samples.append((inputs, PyDict::new(py)))?;
            }
            if list.len() > 1 {
                let shape = |i: usize| {
                    if i + 1 == list.len() {
                        vec![4usize]
                    } else {
                        vec![3, 1]
                    }
                };
                let inputs: Vec<_> = list
                    .iter()
                    .enumerate()
                    .map(|(i, &(a, b))| (shape(i), a, b))
                    .collect();
                samples.append((inputs, PyDict::new(py)))?;
            }
        }
        Samples::List(list) => {
            for sample in list() {
                samples.append((sample.inputs, params(py, &sample.params)?))?;
            }
        }
        Samples::None(_) => {}
    }
    out.set_item("samples", samples)?;
    let reason = match def.samples {
        Samples::None(reason) => Some(reason),
        _ => None,
    };
    out.set_item("samples_reason", reason)?;
    Ok(out)
}

/// Parameters by name, as texts that Python and the program parser both read.
pub fn params<'py>(py: Python<'py>, params: &Params) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (key, text) in params.attributes() {
        out.set_item(key, text)?;
    }
    Ok(out)
}

fn type_name(types: Types) -> &'static str {
    match types {
        Types::Any => "any",
        Types::Number | Types::Power => "number",
        Types::Real => "real",
        Types::RealNumber => "real number",
        Types::Quotient => "quotient",
        Types::Inexact => "inexact",
        Types::Float => "float",
        Types::Logical => "logical",
        Types::Integer => "integer",
        Types::IntegerNumber => "integer number",
        Types::Complex => "complex",
    }
}

/// Names of the ufuncs of a module, `np` or `scipy.special`, and of the primitives that they are.
#[pyfunction]
#[pyo3(signature = (module: "str") -> "dict[str, str]")]
pub fn ufuncs<'py>(py: Python<'py>, module: &str) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for prim in ops::table() {
        if let Some((_, name)) = prim.ufunc().filter(|&(of, _)| of == module) {
            out.set_item(name, prim.name())?;
        }
    }
    Ok(out)
}

/// One dictionary for each entry of the primitive table: what documentation and tests are made from.
#[pyfunction]
#[pyo3(signature = () -> "list[dict[str, Any]]")]
pub fn table(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    ops::table().iter().map(|&prim| entry(py, prim)).collect()
}

/// Applies any primitive of the table to arrays; parameters as they are printed.
#[pyfunction]
#[pyo3(signature = (name: "str", *args: "object", **params: "object") -> "Array")]
pub fn apply<'py>(
    py: Python<'py>,
    name: &str,
    args: &Bound<'py, PyTuple>,
    params: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let prim = ops::by_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("there is no primitive named {name}")))?;
    let mut attributes = Vec::new();
    for (key, value) in params.into_iter().flat_map(PyDictMethods::iter) {
        let text = text::text(&value)?;
        let text = if value.is_instance_of::<PyBool>() {
            text.to_lowercase()
        } else {
            text
        };
        attributes.push((key.extract::<String>()?, text));
    }
    if attributes.is_empty() && matches!(prim.0.class, Class::Elementwise { .. }) {
        let arguments: Vec<Bound<'py, PyAny>> = args.iter().collect();
        return apply_elementwise(py, prim, &arguments.iter().collect::<Vec<_>>());
    }
    let params = Params::from_attributes(&attributes).or_raise()?;
    let arrays: Vec<Array> = args
        .iter()
        .map(|a| Operand::expect(name, &a)?.array())
        .collect::<PyResult<_>>()?;
    let inputs: Vec<&Array> = arrays.iter().collect();
    wrap_result(py, Array::apply(prim, params, &inputs).or_raise()?)
}

//! Gives programs as plain data to exporters.

use std::sync::Arc;

use cotan::aval::SliceDim;
use cotan::opt::{self, Passes};
use cotan::prim::{Params, Var};
use cotan::program::Builder;
use cotan::{DType, Program, transform};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::program::pyclass::PyProgram;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::tree::treedef::{Kind, present};

exports!(with_gradient, plain);

/// The program that also gives the gradients of its only output with respect to the marked inputs, and
/// for each input which output that is (None without influence).
#[pyfunction]
#[pyo3(signature = (program: "Program", wrt: "Sequence[bool]") -> "tuple[Program, list[int | None]]")]
pub fn with_gradient(
    program: &PyProgram,
    wrt: Vec<bool>,
) -> PyResult<(PyProgram, Vec<Option<usize>>)> {
    let primal = program.core();
    let mut marked = wrt;
    marked.resize(primal.num_inputs(), false);
    let vjp = transform::vjp(primal, &marked).or_raise()?;
    let joint = &vjp.program;
    let builder = Builder::new();
    let seed = |v: usize| vjp.cotangents.contains(&Some(v));
    let inputs: Vec<Var> = (joint.input_names().iter().enumerate())
        .map(|(i, name)| {
            let aval = joint.aval(i as Var);
            if seed(i) {
                Var::MAX
            } else {
                builder.input(name, aval)
            }
        })
        .collect();
    let inputs: Vec<Var> = (inputs.into_iter().enumerate())
        .map(|(i, v)| match v {
            Var::MAX => builder.number(joint.aval(i as Var).dtype, 1.0),
            v => v,
        })
        .collect();
    let outs = builder.inline(joint, &inputs, &vec![true; joint.outs().len()]);
    let program_out = builder
        .finish(outs.into_iter().flatten().collect())
        .or_raise()?;
    let both = PyProgram::new(program_out, program.constants().to_vec());
    Ok((both, vjp.gradients))
}

/// A program as an exporter takes it: calls of rules are written out, and what is common or not needed is
/// gone. As plain data: `outputs` (variables by number), `names` of the inputs,
/// `output_names`, `constants`
/// (values of the last inputs), `types` (dtype and shape of every variable) and `equations` (primitive,
/// arguments, result, parameters).
#[pyfunction]
#[pyo3(signature = (program: "Program") -> "dict[str, Any]")]
pub fn plain<'py>(py: Python<'py>, program: &PyProgram) -> PyResult<Bound<'py, PyDict>> {
    let lowered = opt::inline_rules(Program::clone(program.core())).or_raise()?;
    let p = &opt::optimize(&lowered, Passes::ALL).or_raise()?;
    let out = PyDict::new(py);
    let names: Vec<&str> = p.input_names().iter().map(Arc::as_ref).collect();
    out.set_item("names", names)?;
    out.set_item("outputs", p.outs())?;
    let names: Vec<&str> = p.output_names().iter().map(Arc::as_ref).collect();
    out.set_item("output_names", names)?;
    let constants = PyList::empty(py);
    for array in program.constants() {
        if array.value().is_none() && array.is_active() {
            return Err(PyTypeError::new_err(
                "to_onnx: the function uses a value that is being differentiated; export it outside",
            ));
        }
        constants.append(present(py, array, Kind::NdArray)?)?;
    }
    out.set_item("constants", constants)?;
    let types: Vec<(&str, Vec<usize>)> = (0..p.num_vars() as Var)
        .map(|v| (p.aval(v).dtype.numpy_name(), p.aval(v).shape.to_vec()))
        .collect();
    out.set_item("types", types)?;
    let equations = PyList::empty(py);
    for (k, eqn) in p.eqns().iter().enumerate() {
        let params = structured(py, p.params(eqn))?;
        equations.append((eqn.prim.name(), p.args(eqn), p.result(k), params))?;
    }
    out.set_item("equations", equations)?;
    Ok(out)
}

/// Parameters as Python values.
fn structured<'py>(py: Python<'py>, params: &Params) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    match params {
        Params::None => {}
        Params::Axes(axes) => out.set_item("axes", axes.to_vec())?,
        Params::Axis(axis) => out.set_item("axis", axis)?,
        Params::Scan { axis, reverse } => {
            out.set_item("axis", axis)?;
            out.set_item("reverse", reverse)?;
        }
        Params::Shape(shape) => out.set_item("shape", shape.to_vec())?,
        Params::DType(dtype) => out.set_item("dtype", dtype.numpy_name())?,
        Params::Slice(dims) => region(&out, dims)?,
        Params::Region { shape, dims } => {
            out.set_item("shape", shape.to_vec())?;
            region(&out, dims)?;
        }
        Params::Literal { dtype, value } => {
            out.set_item("dtype", dtype.numpy_name())?;
            match dtype {
                d if d.is_complex() => out.set_item("value", *value)?,
                DType::Bool => out.set_item("value", value.re != 0.0)?,
                d if d.is_inexact() => out.set_item("value", value.re)?,
                _ => out.set_item("value", value.re as i64)?,
            }
        }
        Params::Size(n) => out.set_item("size", n)?,
        Params::Windows(dims) => {
            let pads: Vec<_> = dims.iter().map(|d| d.pad).collect();
            out.set_item("size", dims.iter().map(|d| d.size).collect::<Vec<_>>())?;
            out.set_item("len", dims.iter().map(|d| d.len).collect::<Vec<_>>())?;
            out.set_item("pad", pads)?;
            out.set_item("stride", dims.iter().map(|d| d.stride).collect::<Vec<_>>())?;
            let dilations: Vec<_> = dims.iter().map(|d| d.dilation).collect();
            out.set_item("dilation", dilations)?;
            let expansions: Vec<_> = dims.iter().map(|d| d.expansion).collect();
            out.set_item("expansion", expansions)?;
        }
        // Their primitives have no ONNX form; the names are for the refusal.
        Params::Fourier { .. }
        | Params::RealFourier { .. }
        | Params::System { .. }
        | Params::Custom { .. }
        | Params::Host { .. }
        | Params::Loop { .. } => {
            for (key, text) in params.attributes() {
                out.set_item(key, text)?;
            }
        }
    }
    Ok(out)
}

fn region(out: &Bound<'_, PyDict>, dims: &[SliceDim]) -> PyResult<()> {
    out.set_item("start", dims.iter().map(|d| d.start).collect::<Vec<_>>())?;
    out.set_item("len", dims.iter().map(|d| d.len).collect::<Vec<_>>())?;
    out.set_item("step", dims.iter().map(|d| d.step).collect::<Vec<_>>())
}

//! Gives programs as plain data to exporters.

use std::sync::Arc;

use cotan::aval::SliceDim;
use cotan::opt::{self, Passes};
use cotan::prim::{Params, Var};
use cotan::program::{Builder, End, FastMap, Loop, LoopOutput, literal_of};
use cotan::{Array, DType, Program, transform};
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
/// gone; long ones have loops where they repeat themselves. As plain data: `outputs` (variables by number), `names`
/// of the inputs, `output_names`, `constants` (values of the last inputs), `types` (dtype and shape of every variable) and `equations` (primitive,
/// arguments, result, parameters). The parameters of a loop have its `body`, as plain data too, without what
/// no equation needs.
#[pyfunction]
#[pyo3(signature = (program: "Program") -> "dict[str, Any]")]
pub fn plain<'py>(py: Python<'py>, program: &PyProgram) -> PyResult<Bound<'py, PyDict>> {
    let (own, bound) = if program.core().eqns().len() < opt::LONG {
        (Program::clone(program.core()), program.constants().to_vec())
    } else {
        // Numbers of a loop differ from turn to turn.
        with_literals(program)?
    };
    let out = plain_program(py, own)?;
    let constants = PyList::empty(py);
    for array in &bound {
        if array.value().is_none() && array.is_active() {
            return Err(PyTypeError::new_err(
                "to_onnx: the function uses a value that is being differentiated; export it outside",
            ));
        }
        constants.append(present(py, array, Kind::NdArray)?)?;
    }
    out.set_item("constants", constants)?;
    Ok(out)
}

/// A program with literals for the numbers that are bound to it, and what else is bound.
fn with_literals(program: &PyProgram) -> PyResult<(Program, Vec<Array>)> {
    let (p, free) = (program.core(), program.free());
    let number = |i: usize| {
        let array = &program.constants()[i.checked_sub(free)?];
        let is_number = array.shape().is_empty() && !array.is_active();
        is_number.then(|| literal_of(array.force(&mut || false).ok()?))?
    };
    let builder = Builder::new();
    let mut bound = Vec::new();
    let mut inputs = vec![Var::MAX; p.num_inputs()];
    for (i, name) in p.input_names().iter().enumerate() {
        if number(i).is_none() {
            inputs[i] = builder.input(name, p.aval(i as Var));
            bound.extend(i.checked_sub(free).map(|i| program.constants()[i].clone()));
        }
    }
    for (i, input) in inputs.iter_mut().enumerate() {
        if let Some(z) = number(i) {
            *input = builder.complex_literal(p.aval(i as Var).dtype, z);
        }
    }
    let outs = builder.inline(p, &inputs, &vec![true; p.outs().len()]);
    let outs = outs.into_iter().flatten().collect();
    let mut new = builder.finish(outs).or_raise()?;
    new.set_output_names(p.output_names().iter().cloned());
    Ok((new, bound))
}

/// A program as plain data, without its constants.
fn plain_program(py: Python<'_>, program: Program) -> PyResult<Bound<'_, PyDict>> {
    let lowered = opt::inline_rules(program).or_raise()?;
    let optimized = opt::optimize(&lowered, Passes::ALL).or_raise()?;
    let p = &opt::roll_long(optimized).or_raise()?;
    let out = PyDict::new(py);
    let names: Vec<&str> = p.input_names().iter().map(Arc::as_ref).collect();
    out.set_item("names", names)?;
    out.set_item("outputs", p.outs())?;
    let names: Vec<&str> = p.output_names().iter().map(Arc::as_ref).collect();
    out.set_item("output_names", names)?;
    let types: Vec<(&str, Vec<usize>)> = (0..p.num_vars() as Var)
        .map(|v| (p.aval(v).dtype.numpy_name(), p.aval(v).shape.to_vec()))
        .collect();
    out.set_item("types", types)?;
    let equations = PyList::empty(py);
    let calls = p.calls();
    let mut loops: FastMap<usize, PlainLoop<'_>> = FastMap::default();
    for (k, eqn) in p.eqns().iter().enumerate() {
        let (name, mut args, result) = (eqn.prim.name(), p.args(eqn).to_vec(), p.result(k));
        let params = match p.params(eqn) {
            Params::Loop { of, output } => {
                let members = calls.members(k);
                let first = members.first().map_or(k, |&(first, _)| first);
                if first == k {
                    let outputs: Vec<usize> = members.iter().map(|&(_, o)| o).collect();
                    loops.insert(k, PlainLoop::new(py, of, outputs)?);
                }
                let found = loops
                    .get(&first)
                    .ok_or_else(|| PyTypeError::new_err("loop: an output has no loop"))?;
                args = found.reads.iter().map(|&i| args[i]).collect();
                found.output(py, first, *output)?
            }
            params => structured(py, params)?,
        };
        equations.append((name, args, result, params))?;
    }
    out.set_item("equations", equations)?;
    Ok(out)
}

/// A loop as plain data, for the outputs that equations have of it.
struct PlainLoop<'py> {
    body: Bound<'py, PyDict>,
    of: Loop,
    /// Which arguments it reads.
    reads: Vec<usize>,
    /// Outputs of the loop as it was, and which ones they are.
    outputs: Vec<usize>,
    numbers: Vec<usize>,
}

impl<'py> PlainLoop<'py> {
    fn new(py: Python<'py>, of: &Loop, outputs: Vec<usize>) -> PyResult<Self> {
        let (of, reads, numbers) = of.slim(&outputs).or_raise()?;
        let body = plain_program(py, of.body().clone())?;
        Ok(PlainLoop {
            body,
            of,
            reads,
            outputs,
            numbers,
        })
    }

    /// The parameters of the equation that is one output: equations of the same `group` are one loop. `output`
    /// says what the output is, and of which carry or stacked result; `outputs` has all that are needed.
    fn output(&self, py: Python<'py>, group: usize, output: usize) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        out.set_item("group", group)?;
        out.set_item("body", &self.body)?;
        out.set_item("length", self.of.length)?;
        out.set_item("carries", self.of.carries)?;
        out.set_item("scanned", self.of.scanned)?;
        out.set_item("reverse", self.of.reverse)?;
        let end = match self.of.end {
            End::Length => "length",
            End::Count => "count",
            End::False => "false",
        };
        out.set_item("end", end)?;
        let name = |number: usize| match self.of.output(number) {
            Some(LoopOutput::Last(j)) => ("last", j),
            Some(LoopOutput::Stacked(i)) => ("stacked", i),
            Some(LoopOutput::Before(j)) => ("before", j),
            None => ("none", number),
        };
        let outputs: Vec<_> = self.numbers.iter().map(|&n| name(n)).collect();
        let place = self.outputs.iter().position(|&o| o == output);
        out.set_item("output", place.map(|i| outputs[i]))?;
        out.set_item("outputs", outputs)?;
        Ok(out)
    }
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
        Params::Side { right } => out.set_item("right", right)?,
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

//! Traces the program of a function on arguments like these without computing anything: `ct.trace`, and what
//! exporters take.

use std::collections::HashMap;

use cotan::autodiff;
use cotan::prim::Lines;
use cotan::program::{FastMap, literal_of};
use cotan::tape::KeepHistory;
use cotan::{Array, Recording};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::cell::ScalarKind;
use crate::array::operand::Operand;
use crate::ndarray::memory::Borrow;
use crate::program::pyclass::PyProgram;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::recording_state::Tracing;
use crate::runtime::text;
use crate::transforms::leaves::{Inputs, Request};
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::Kind;

exports!(trace, record);

/// Refuses what holds nothing that a program could give, as a function without `return` gives it.
fn expect_results(what: &str, y: &Bound<'_, PyAny>, results: &Flattener) -> PyResult<()> {
    let is_structure = y.is_instance_of::<PyTuple>()
        || y.is_instance_of::<PyList>()
        || y.is_instance_of::<PyDict>();
    if is_structure || !results.leaves.is_empty() {
        return Ok(());
    }
    let found = if y.is_none() {
        "None".to_string()
    } else {
        text::class_of(y)
    };
    Err(PyTypeError::new_err(format!(
        "{what}: the function returned {found}, in which there is no array; a program gives arrays, numbers, \
         and structures of them"
    )))
}

/// The program of a function: recorded on arguments like these, without computing anything.
///
/// Each array and number among the arguments, in structures too and whatever its dtype, is an input with
/// its path as the name; keyword arguments are arguments like the others. What is held constant
/// (`ct.const`) and what the function closes over become inputs behind these whose values the program
/// remembers; strings, integers inside structures and other objects are what they are. Control flow
/// takes the way that it takes for these values. Results may be structures: a program gives their arrays
/// in order, named by their paths. With `lines=True` each equation knows the file and the line that it
/// comes from (`program.text(lines=True)`).
///
/// A program of 512 equations or more has loops where it repeats itself, as `program.rolled()` makes them.
///
/// Integers and bools decide what is recorded when they are read (`x[i]` for an `i` without axes, masks,
/// `if`); arrays of integers are indices of the program, too.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> print(ct.trace(lambda x: np.sum(np.exp(x)), np.ones(3)))
/// program(%x: f64[3]) {
///   %1: f64[3] = exp(%x)
///   %2: f64[] = sum[axes=(0,)](%1)
///   return %2
/// }
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    /,
    *args: "object",
    lines: "bool" = false,
    **kwargs: "object"
) -> "Program")]
pub fn trace<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    lines: bool,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<PyProgram> {
    let _lines = lines.then(Lines::new);
    let recording = Recording::new();
    let (mut f, mut args) = (f.clone(), args.clone());
    if let Some(kwargs) = kwargs.filter(|k| !k.is_empty()) {
        (f, args) = (hooks::BY_POSITION.get(py)?)
            .call1((f, args, kwargs))?
            .extract()?;
    }
    let inputs = Inputs::new(&recording, &f, &args, Request::trace())?;
    let y = {
        // Also what is detached is to be computed from the arguments of each call.
        let _tracing = (Tracing::enter(), KeepHistory::new(&recording));
        inputs.call(&f)?
    };
    let mut results = Flattener::new(Borrow::Copy, true, false);
    results.flatten(&y, Position::Direct, true, "")?;
    expect_results("trace", &y, &results)?;
    let paths: Vec<String> = results.leaves.iter().map(|l| l.path.clone()).collect();
    let outputs: Vec<Array> = results.leaves.into_iter().map(|l| l.array).collect();
    let outs: Vec<&Array> = outputs.iter().collect();
    let leaves = inputs.recorded();
    let path = |i: usize| inputs.leaves[i].path.clone();
    let active = inputs.active.iter().map(|(i, _)| path(*i));
    let held: FastMap<u64, usize> = (inputs.leaves.iter().enumerate())
        .map(|(i, leaf)| (leaf.array.id(), i))
        .collect();
    // Captured numbers are literals; those that are arguments have names, and stay inputs.
    let number = |a: &Array| {
        let is_captured = a.tag() == 0 && a.shape().is_empty() && !held.contains_key(&a.id());
        is_captured.then(|| literal_of(a.force(&mut || false).ok()?))?
    };
    let (mut program, constants) =
        autodiff::trace_with(&recording, &outs, &leaves, &number).or_raise()?;
    let bound =
        (constants.iter()).map(|c| held.get(&c.id()).map_or_else(String::new, |&i| path(i)));
    program.name_inputs(active.chain(bound));
    program.set_output_names(
        paths
            .iter()
            .map(|p| p.strip_prefix('.').unwrap_or(p).into()),
    );
    PyProgram::recorded(program, constants)
}

/// A recorded program, names of its outputs, for each input whether it has a gradient, and the inputs.
type Recorded = (PyProgram, Vec<String>, Vec<bool>, Vec<Py<PyAny>>);

/// The program of a function of which every array among the arguments is an input: those that are held
/// constant, and integers, too. With the paths of the results, and for each input whether it can be
/// differentiated with respect to, and its value. `replaced` has other arrays for some of them, by path.
///
/// Numbers that are held constant are a part of the program.
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    args: "Args",
    replaced: "Mapping[str, object]"
) -> "tuple[Program, list[str], list[bool], list[Any]]")]
pub fn record(
    py: Python<'_>,
    f: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    replaced: HashMap<String, Bound<'_, PyAny>>,
) -> PyResult<Recorded> {
    let recording = Recording::new();
    let mut inputs = Inputs::new(&recording, f, args, Request::trace())?;
    for leaf in &mut inputs.leaves {
        if let Some(other) = replaced.get(&leaf.path) {
            leaf.array = Operand::expect("to_onnx", other)?.array()?;
        }
    }
    let is_array = |kind: Kind| matches!(kind, Kind::NdArray | Kind::Array(ScalarKind::Array));
    inputs.active = (inputs.leaves.iter().enumerate())
        .filter(|(_, l)| !l.held || is_array(l.kind))
        .map(|(i, l)| (i, recording.leaf(&l.array)))
        .collect();
    let y = {
        let _tracing = (Tracing::enter(), KeepHistory::new(&recording));
        inputs.call(f)?
    };
    let mut results = Flattener::new(Borrow::Copy, true, false);
    results.flatten(&y, Position::Direct, true, "")?;
    expect_results("to_onnx", &y, &results)?;
    let paths = results.leaves.iter().map(|l| l.path.clone()).collect();
    let outputs: Vec<Array> = results.leaves.into_iter().map(|l| l.array).collect();
    let outs: Vec<&Array> = outputs.iter().collect();
    let leaves = inputs.recorded();
    let (mut program, constants) = autodiff::trace(&recording, &outs, &leaves).or_raise()?;
    let used = || inputs.active.iter().map(|(i, _)| &inputs.leaves[*i]);
    program.name_inputs(used().map(|l| l.path.clone()));
    let able = used().map(|l| !l.held && l.array.dtype().is_inexact());
    let able = able.collect();
    let objects = used().map(|l| l.object.clone_ref(py)).collect();
    let program = PyProgram::new(program, constants);
    Ok((program, paths, able, objects))
}

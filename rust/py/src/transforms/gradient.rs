//! Gradients and pullbacks of Python functions.

use cotan::array::{self, Hold, Pullback};
use cotan::prim::Lines;
use cotan::program::{FastMap, literal_of};
use cotan::{Array, Recording};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::cell::Rank;
use crate::array::operand::Operand;
use crate::interpose::namespaces::reach;
use crate::ndarray::memory::Borrow;
use crate::program::pyclass::PyProgram;
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::recording_state::{self, Tracing};
use crate::transforms::leaves::Inputs;
use crate::transforms::nonfinite::named;
use crate::transforms::pullback::PyPullback;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::natural_cotangent::Scope;
use crate::tree::treedef::{Kind, present};

/// Counts a recording, until it is dropped.
pub struct Nested<'py>(Python<'py>, bool);

impl<'py> Nested<'py> {
    /// Counts one more, of this function, if it is one that differentiates.
    pub fn enter(f: &Bound<'py, PyAny>, derives: bool) -> PyResult<Nested<'py>> {
        let py = f.py();
        crate::interpose::install::enter(py)?;
        recording_state::enter_level(derives);
        let nested = Nested(py, derives);
        reach(f)?;
        Ok(nested)
    }
}

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        recording_state::leave_level(self.1);
        crate::interpose::install::leave(self.0);
    }
}

/// What a function returned, as one real scalar.
pub fn scalar_output(name: &str, y: &Bound<'_, PyAny>) -> PyResult<(Array, Rank)> {
    let wrong = |what: String| {
        PyValueError::new_err(format!(
            "{name}: the function must return a real scalar, not {what}, or use ct.pullback"
        ))
    };
    let Ok(Some(operand)) = Operand::of(y) else {
        return Err(PyTypeError::new_err(format!(
            "{name}: the function must return a real scalar, not {}",
            y.get_type()
        )));
    };
    let rank = operand.rank();
    let mut array = operand.array()?;
    if !array.shape().is_empty() {
        let shape = cotan::aval::tuple(array.shape());
        return Err(wrong(format!(
            "an array of shape {shape}; reduce it (np.sum)"
        )));
    }
    if array.dtype().is_complex() {
        return Err(wrong(format!(
            "a {} number; take its real part or abs",
            array.dtype().numpy_name()
        )));
    }
    if !array.dtype().is_inexact() {
        // Piecewise constant: its gradients are zero everywhere.
        array = array.dropgrad().cast(cotan::DType::F64).or_raise()?;
    }
    Ok((array, rank))
}

fn presented<'py>(
    py: Python<'py>,
    array: &Array,
    rank: Rank,
    handles: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let kind = match rank {
        _ if handles => Kind::Handle(rank),
        Rank::Array if array.shape().is_empty() => Kind::Scalar,
        Rank::Array => Kind::NdArray,
        Rank::Scalar => Kind::Scalar,
        Rank::Number => Kind::Number,
    };
    present(py, array, kind)
}

/// The gradient of a function that returns a real scalar, with respect to all of its arguments.
///
/// Returns a tuple with one entry for each argument, of the argument's own kind: an ndarray for an
/// ndarray (same dtype and shape), a float for a Python number, an `Array` for an `Array`, a `Tangent`
/// for an object, containers of these for containers. Entries of arguments that are held constant
/// (`ct.const`, `wrt`) or have no influence are None.
///
/// `wrt`: positions or names of arguments, paths (`"model.w"`, `"layers[*].b"`, `"**.bias"`), for each
/// argument a structure of bools, or a predicate on path and leaf. A function without arguments takes
/// the `Array`s that it uses, `wrt=[model.w]`, and the gradient is a mapping with these as keys.
///
/// Raises `ValueError` when the function does not return a real scalar, `TypeError` when something on
/// the way has no derivative or would drop it; what the function itself raises arrives as it is.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> ct.gradient(lambda x, c: np.sum(x * c), np.array([1.0, 2.0]), ct.const(np.array([3.0, 4.0])))
/// (array([3., 4.]), None)
#[pyfunction]
#[pyo3(signature = (f, /, *args, wrt=None))]
pub fn gradient<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let inputs = Inputs::new(&recording, f, args, wrt, false)?;
    let y = named(f, &inputs, inputs.call(f))?;
    let (output, _) = scalar_output("gradient", &y)?;
    drop(y);
    let leaves = inputs.recorded();
    let cts = enter(py, |interrupted| {
        let cts = array::gradient(&recording, &output, &leaves, interrupted);
        drop((output, leaves, recording));
        cts
    });
    let cts = named(f, &inputs, cts)?;
    inputs.gradients(py, cts)
}

/// The value of a function that returns a real scalar, and its gradient as [`gradient`] gives it.
///
/// >>> import cotan as ct
/// >>> ct.value_and_gradient(lambda x, y: x * y, 2.0, 3.0)
/// (6.0, (3.0, 2.0))
#[pyfunction]
#[pyo3(signature = (f, /, *args, wrt=None))]
pub fn value_and_gradient<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let inputs = Inputs::new(&recording, f, args, wrt, false)?;
    let y = named(f, &inputs, inputs.call(f))?;
    let (output, rank) = scalar_output("value_and_gradient", &y)?;
    drop(y);
    let leaves = inputs.recorded();
    let results = enter(py, |interrupted| {
        let result = array::value_and_gradient(&recording, &output, &leaves, interrupted);
        drop((output, leaves, recording));
        result
    });
    let (value, cts) = named(f, &inputs, results)?;
    let value = presented(py, &value, rank, inputs.handles())?;
    Ok((value, inputs.gradients(py, cts)?))
}

/// The value of a function and its pullback: the linear map from a cotangent of the value to cotangents
/// of the arguments.
///
/// Returns `(y, back)`. `back(dy)` gives one entry for each argument: lazy `Array`s (structures of them),
/// each computed only when it is read, or None. `back` can be called any number of times, keeps nothing
/// of the arguments that it does not need (`back.nbytes`), and does not notice later changes of them.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> y, back = ct.pullback(lambda x: np.sin(x), 0.5)
/// >>> [float(d) for d in back(1.0)]
/// [0.8775825618903728]
#[pyfunction]
#[pyo3(signature = (f, /, *args, wrt=None))]
pub fn pullback<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, PyPullback)> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let mut inputs = Inputs::new(&recording, f, args, wrt, false)?;
    inputs.remember_names(f)?;
    let y = named(f, &inputs, inputs.call(f))?;
    let mut results = Flattener::new(Borrow::Copy, false, false);
    let tree = results.flatten(&y, Position::Direct, true, "")?;
    drop(y);
    let kinds: Vec<Kind> = results.leaves.iter().map(|l| l.kind).collect();
    let outputs: Vec<Array> = results.leaves.into_iter().map(|l| l.array).collect();
    let leaves = inputs.recorded();
    let made = enter(py, |interrupted| {
        let outs: Vec<&Array> = outputs.iter().collect();
        let result = Pullback::new(&recording, &outs, &leaves, interrupted);
        drop((outputs, leaves, recording));
        result
    });
    let (outs, back) = named(f, &inputs, made)?;
    let handles = inputs.handles();
    let mut objects = Vec::with_capacity(outs.len());
    for (out, kind) in outs.iter().zip(kinds) {
        objects.push(match kind {
            Kind::Handle(rank) => presented(py, out, rank, handles)?,
            other => present(py, out, other)?,
        });
    }
    let y = tree.build(py, &objects)?;
    let avals = outs.iter().map(|o| o.aval().clone()).collect();
    let back = PyPullback::new(py, back, tree, avals, inputs, Scope::natural(py))?;
    Ok((y, back))
}

/// Refuses what holds nothing that a program could give, as a function without `return` gives it.
pub fn expect_results(what: &str, y: &Bound<'_, PyAny>, results: &Flattener) -> PyResult<()> {
    let is_structure = y.is_instance_of::<PyTuple>()
        || y.is_instance_of::<PyList>()
        || y.is_instance_of::<PyDict>();
    if is_structure || !results.leaves.is_empty() {
        return Ok(());
    }
    let found = if y.is_none() {
        "None".to_string()
    } else {
        y.get_type().to_string()
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
/// remembers; strings, whole numbers inside structures and other objects are what they are. Control flow
/// takes the way that it takes for these values. Results may be structures: a program gives their arrays
/// in order, named by their paths. With `lines=True` each equation knows the file and the line that it
/// comes from (`program.text(lines=True)`).
///
/// Whole numbers and bools decide what is recorded when they are read (`x[i]` for an `i` without axes, masks,
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
/// <BLANKLINE>
#[pyfunction]
#[pyo3(signature = (f, /, *args, lines=false, **kwargs))]
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
        let programs = py.import("cotan._src.program.methods")?;
        (f, args) = programs
            .call_method1("by_position", (f, args, kwargs))?
            .extract()?;
    }
    let inputs = Inputs::new(&recording, &f, &args, None, true)?;
    let y = {
        // Also what is detached is to be computed from the arguments of each call.
        let _tracing = (Tracing::enter(), Hold::new(&recording));
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
    // Numbers that the function met are literals; those that it was given have names, and stay inputs.
    let number = |a: &Array| {
        let is_met = a.tag() == 0 && a.shape().is_empty() && !held.contains_key(&a.id());
        is_met.then(|| literal_of(a.force(&mut || false).ok()?))?
    };
    let (mut program, constants) =
        array::trace_with(&recording, &outs, &leaves, &number).or_raise()?;
    let bound =
        (constants.iter()).map(|c| held.get(&c.id()).map_or_else(String::new, |&i| path(i)));
    program.name_inputs(active.chain(bound));
    program.set_output_names(
        paths
            .iter()
            .map(|p| p.strip_prefix('.').unwrap_or(p).into()),
    );
    Ok(PyProgram::new(program, constants))
}

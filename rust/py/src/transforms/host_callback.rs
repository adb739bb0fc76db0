//! Calls Python functions while a program runs: hooks on cotangents, and functions of plain values with a pullback.

use std::sync::Arc;

use cotan::autodiff::Tracer;
use cotan::kernels::Value;
use cotan::ops;
use cotan::prim::{Host, Params};
use cotan::{Array, Aval};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::escapes::compute;
use crate::array::escapes::force;
use crate::array::escapes::{Suspended, is_on};
use crate::array::host_inputs::Access;
use crate::array::operand::Operand;
use crate::ndarray::memory::Borrow;
use crate::runtime::error::OrRaise;
use crate::runtime::error::attached;
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::text;
use crate::transforms::run::Nested;
use crate::tree::flatten::{Flattener, Position};

exports!(
    hooked,
    call_back,
    find_inputs,
    call_with_inputs,
    call_back_again
);

/// An error about a NaN that was found while a function was called back says which one that was.
fn made_inside(py: Python<'_>, error: PyErr, what: &str, name: &str) -> PyErr {
    let value = error.value(py);
    if value.getattr("inside").is_ok_and(|inside| inside.is_none()) {
        // Any other exception may have an attribute of this name, and refuse to have it changed.
        let _ = value.setattr("inside", format!("the {what} {name}"));
    }
    error
}

/// A Python function of arrays, which returns a tuple of them.
struct Callback {
    /// What the function is for, in messages.
    what: &'static str,
    name: String,
    function: Py<PyAny>,
    /// Its pullback, a function of the arguments and the cotangents; None to trace the function.
    pullback: Option<Py<PyAny>>,
    /// What the arguments would be in NumPy.
    scalar_kinds: Vec<ScalarKind>,
    outputs: Vec<Aval>,
    /// Whether it is called for its outputs alone, as functions of libraries are; hooks do more.
    is_pure: bool,
    /// Whether these are what the code gives that it stands for, and the derivatives of that.
    is_exact: bool,
}

impl Callback {
    fn run(&self, py: Python<'_>, x: &[Value]) -> PyResult<Vec<Value>> {
        let mut args = Vec::with_capacity(x.len());
        for (value, &scalar_kind) in x.iter().zip(&self.scalar_kinds) {
            args.push(wrap(py, Array::constant(value.clone()), scalar_kind)?);
        }
        let result = self.function.bind(py).call1(PyTuple::new(py, args)?)?;
        let results: Vec<Bound<'_, PyAny>> = result.try_iter()?.collect::<PyResult<_>>()?;
        (results.iter().zip(&self.outputs))
            .map(|(object, aval)| replacement(self.what, &self.name, object, aval))
            .collect()
    }
}

/// What a hook gave in place of a cotangent.
fn replacement(what: &str, name: &str, object: &Bound<'_, PyAny>, aval: &Aval) -> PyResult<Value> {
    let Some(operand) = Operand::of(object)? else {
        return Err(PyTypeError::new_err(format!(
            "{what} {name}: it must return an array like the cotangent ({aval}), or None to leave that as it \
             is, not {}",
            text::class_of(object)
        )));
    };
    if operand.dtype().is_complex() && !aval.dtype.is_complex() {
        return Err(PyTypeError::new_err(format!(
            "{what} {name}: the cotangent is {}, and so must be what it returns, not {}; take its real \
             part",
            aval.dtype.numpy_name(),
            operand.dtype().numpy_name()
        )));
    }
    let array = operand.cast(aval.dtype)?;
    if array.shape() != aval.shape.as_slice() {
        return Err(PyValueError::new_err(format!(
            "{what} {name}: the cotangent has shape {}, and so must what it returns, not {}",
            cotan::aval::tuple(&aval.shape),
            cotan::aval::tuple(array.shape())
        )));
    }
    force(object.py(), &array)
}

impl Host for Callback {
    fn name(&self) -> &str {
        &self.name
    }

    fn outputs(&self) -> &[Aval] {
        &self.outputs
    }

    fn is_pure(&self) -> bool {
        self.is_pure
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn call(&self, x: &[Value]) -> cotan::Result<Vec<Value>> {
        attached(|py| {
            self.run(py, x)
                .map_err(|error| made_inside(py, error, self.what, &self.name))
        })
    }

    /// The pullback of the function at its arguments: called back as well.
    fn derivative(&self, x: &[Aval]) -> cotan::Result<Arc<dyn Host>> {
        attached(|py| {
            let function = match &self.pullback {
                Some(pullback) => pullback.clone_ref(py),
                None => hooks::PULLBACK_OF
                    .get(py)?
                    .call1((&self.function, x.len()))?
                    .unbind(),
            };
            let mut scalar_kinds = self.scalar_kinds.clone();
            let inexact = |avals: &[Aval]| -> Vec<Aval> {
                let inexact = avals.iter().filter(|aval| aval.dtype.is_inexact());
                inexact.cloned().collect()
            };
            let cts = inexact(&self.outputs);
            scalar_kinds.extend(cts.iter().map(|aval| match aval.shape.len() {
                0 => ScalarKind::NumpyScalar,
                _ => ScalarKind::Array,
            }));
            let derivative: Arc<dyn Host> = Arc::new(Callback {
                what: self.what,
                name: self.name.clone(),
                function,
                pullback: None,
                scalar_kinds,
                outputs: inexact(x),
                is_pure: self.is_pure,
                is_exact: false,
            });
            Ok(derivative)
        })
    }
}

/// `x`, whose cotangent goes through `function` (arrays to a tuple of arrays) on its way back.
#[pyfunction]
#[pyo3(signature = (function: "Function", x: "object", name: "str") -> "Any")]
pub fn hooked<'py>(
    function: &Bound<'py, PyAny>,
    x: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    crate::array::escapes::called(function);
    let mut flattener = Flattener::new(Borrow::Copy, false, false);
    let tree = flattener.flatten(x, Position::Nested, true, "")?;
    let leaves = flattener.leaves;
    if !leaves.iter().any(|l| l.array.is_active()) {
        return Ok(x.clone());
    }
    let mut objects = Vec::with_capacity(leaves.len());
    for leaf in &leaves {
        let scalar_kind = leaf.kind.scalar_kind();
        let mut array = leaf.array.clone();
        if array.is_active() {
            let call: Arc<dyn Host> = Arc::new(Callback {
                what: "hook",
                name: name.into(),
                function: function.clone().unbind(),
                pullback: None,
                scalar_kinds: vec![scalar_kind],
                outputs: vec![array.aval().clone()],
                is_pure: false,
                is_exact: false,
            });
            let tracer = Tracer::new(name, &[&array]).or_raise()?;
            let mut tracer = tracer.called("hook").passing();
            let same = tracer.args()[0].clone();
            let cts = tracer.cotangents(vec![same]);
            let cts: Vec<&Array> = cts.iter().flatten().collect();
            let out = Array::apply(ops::HOST, Params::Host { call, output: 0 }, &cts).or_raise()?;
            array = tracer.reverse(&[Some(out)]).or_raise()?.swap_remove(0);
        }
        objects.push(wrap(py, array, scalar_kind)?);
    }
    tree.build(py, &objects)
}

/// What a function of plain values gives for arrays that are being differentiated: computed at once, and
/// again when the program is run with other values. `function` and `pullback` return tuples of arrays; the
/// pullback is differentiated in its turn.
#[pyfunction]
#[pyo3(signature = (
    function: "Function",
    pullback: "Function",
    name: "str",
    args: "Sequence[Array]"
) -> "Array")]
pub fn call_back<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    pullback: &Bound<'py, PyAny>,
    name: &str,
    args: Vec<PyRef<'py, PyArray>>,
) -> PyResult<Bound<'py, PyAny>> {
    crate::array::escapes::called(function);
    crate::array::escapes::called(pullback);
    let mut arrays = Vec::with_capacity(args.len());
    let mut known = Vec::with_capacity(args.len());
    for arg in &args {
        let array = arg.read()?;
        known.push(wrap(
            py,
            Array::constant(compute(py, &array)?),
            ScalarKind::Array,
        )?);
        arrays.push(array);
    }
    let (y,) = (function.call1(PyTuple::new(py, known)?)?).extract::<(Bound<'py, PyAny>,)>()?;
    let Some(operand) = Operand::of(&y)? else {
        return Err(PyTypeError::new_err(format!(
            "{name}: the result must be an array, not {}",
            text::class_of(&y)
        )));
    };
    let dtype = operand.dtype();
    let value = force(py, &operand.cast(dtype)?)?;
    let call: Arc<dyn Host> = Arc::new(Callback {
        what: "function",
        name: name.into(),
        function: function.clone().unbind(),
        pullback: Some(pullback.clone().unbind()),
        scalar_kinds: vec![ScalarKind::Array; arrays.len()],
        outputs: vec![value.aval().clone()],
        is_pure: true,
        is_exact: false,
    });
    let arrays: Vec<&Array> = arrays.iter().collect();
    let out = Array::apply(ops::HOST, Params::Host { call, output: 0 }, &arrays).or_raise()?;
    wrap(py, out.known_as(value), ScalarKind::Array)
}

/// Calls a function as if nothing were prepared; gives its result, the recorded arrays that it has read, the tags of
/// their recordings, and whether it can be repeated with other values of these arrays. It reads them as constants.
#[pyfunction]
#[pyo3(signature = (
    function: "Function",
    args: "tuple[object, ...]",
    kwargs: "dict[str, object]"
) -> "tuple[Any, list[Array], tuple[int, int], bool]")]
#[allow(clippy::type_complexity)]
pub fn find_inputs<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Bound<'py, PyAny>>, (u64, u64), bool)> {
    let py = function.py();
    let (_suspended, tag) = Suspended::begin();
    let Some(tag) = tag else {
        return Err(PyTypeError::new_err(
            "find_inputs: no function is being prepared",
        ));
    };
    let access = Access::find(tag, compute);
    let _nested = Nested::enter(py, false)?;
    let result = function.call(args, Some(kwargs))?;
    let reads = access.finish();
    let nodes = (reads.nodes.into_iter())
        .map(|node| wrap(py, node, ScalarKind::Array))
        .collect::<PyResult<_>>()?;
    Ok((result, nodes, reads.tags, !reads.has_failed))
}

/// Calls a function that reads these values in the place of recorded arrays; gives its result, and whether it has
/// read no others and written to none.
#[pyfunction]
#[pyo3(signature = (
    function: "Function",
    args: "tuple[object, ...]",
    kwargs: "dict[str, object]",
    tags: "tuple[int, int]",
    nodes: "Sequence[Array]",
    values: "Sequence[Array]"
) -> "tuple[Any, bool]")]
pub fn call_with_inputs<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    tags: (u64, u64),
    nodes: Vec<PyRef<'py, PyArray>>,
    values: Vec<PyRef<'py, PyArray>>,
) -> PyResult<(Bound<'py, PyAny>, bool)> {
    let mut pairs = Vec::with_capacity(nodes.len());
    for (node, value) in nodes.iter().zip(&values) {
        // The nodes themselves, whatever is read in their place around this call.
        pairs.push((node.cell().array.clone(), value.read()?));
    }
    let suspended = is_on().then(Suspended::begin);
    let access = Access::replace(tags, pairs);
    let nested = Nested::enter(function.py(), false)?;
    let result = function.call(args, Some(kwargs))?;
    drop(nested);
    let reads = access.finish();
    drop(suspended);
    Ok((result, !reads.has_failed))
}

/// The results of a function of plain values that has given these outputs for these inputs: replays call it with
/// other values. `function` and `pullback` are as in `call_back`; the outputs may have any dtypes, and the pullback
/// gets the cotangents of those that are inexact. `is_exact` says that the outputs are, bit by bit, what the recorded code
/// gives, and the derivatives of that.
#[pyfunction]
#[pyo3(signature = (
    function: "Function",
    pullback: "Function",
    name: "str",
    inputs: "Sequence[Array]",
    outputs: "Sequence[tuple[Array, str]]",
    is_exact: "bool" = false
) -> "list[Array]")]
pub fn call_back_again<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    pullback: &Bound<'py, PyAny>,
    name: &str,
    inputs: Vec<PyRef<'py, PyArray>>,
    outputs: Vec<(PyRef<'py, PyArray>, String)>,
    is_exact: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let arrays: Vec<Array> = (inputs.iter().map(|i| i.read())).collect::<PyResult<_>>()?;
    let mut values = Vec::with_capacity(outputs.len());
    for (output, _) in &outputs {
        values.push(compute(py, &output.read()?)?);
    }
    let call: Arc<dyn Host> = Arc::new(Callback {
        what: "function",
        name: name.into(),
        function: function.clone().unbind(),
        pullback: Some(pullback.clone().unbind()),
        scalar_kinds: vec![ScalarKind::Array; arrays.len()],
        outputs: values.iter().map(|v| v.aval().clone()).collect(),
        is_pure: true,
        is_exact,
    });
    let arrays: Vec<&Array> = arrays.iter().collect();
    let mut made = Vec::with_capacity(values.len());
    for (output, (value, (_, rank))) in values.into_iter().zip(&outputs).enumerate() {
        let call = Arc::clone(&call);
        let out = Array::apply(ops::HOST, Params::Host { call, output }, &arrays).or_raise()?;
        let scalar_kind = ScalarKind::named(rank).unwrap_or(ScalarKind::Array);
        made.push(wrap(py, out.known_as(value), scalar_kind)?);
    }
    Ok(made)
}

//! Calls functions with a derivative rule that is written in Python: `adjoint` and `custom_jvp`.

use cotan::Array;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::runtime::recording_state::isderiving;
use crate::runtime::text;
use crate::transforms::opaque_rule;
use crate::transforms::rule_call::{
    Call, is_active, pair, results, structured, taken_apart, unknown, with_pullback,
};
use crate::tree::rule_cotangents::Fill;

exports!(call_adjoint, call_jvp);

/// The result of a rule none of whose arguments is being differentiated.
fn constant<'py>(what: &str, name: &str, y: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if isderiving() && is_active(&y)? {
        return Err(PyTypeError::new_err(format!(
            "{what} {name}: the result depends on an array that is being differentiated but is not among \
             its arguments; pass it as one, or hold it constant with ct.dropgrad"
        )));
    }
    Ok(y)
}

/// Keyword arguments of a rule are constants.
fn constants(name: &str, kwargs: &Bound<'_, PyDict>) -> PyResult<()> {
    for (key, value) in kwargs {
        if is_active(&value)? {
            return Err(PyTypeError::new_err(format!(
                "{name}: the keyword argument {} is being differentiated; keyword arguments of \
                 a rule are constants, so pass it by position, or hold it constant with ct.dropgrad",
                text::text(&key)?
            )));
        }
    }
    Ok(())
}

/// Calls a function that returns its result and its pullback.
#[pyfunction]
#[pyo3(signature = (
    rule: "Function",
    name: "str",
    names: "list[str]",
    args: "object",
    kwargs: "object",
    is_opaque: "bool"
) -> "Any")]
pub fn call_adjoint<'py>(
    py: Python<'py>,
    rule: &Bound<'py, PyAny>,
    name: &str,
    names: Vec<String>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    is_opaque: bool,
) -> PyResult<Bound<'py, PyAny>> {
    constants(&format!("adjoint {name}"), kwargs)?;
    let call = Call::of_rule(name, args, names)?;
    if is_opaque {
        return opaque_rule::call(py, rule, call, kwargs);
    }
    if call.pull.active.is_empty() {
        let (y, _) = with_pullback(name, &rule.call(args, Some(kwargs))?)?;
        return constant("adjoint", name, y);
    }
    let mut tracer = call.tracer("adjoint")?;
    let args = call.arguments(py, &call.leaf_objects(py, tracer.args())?, true)?;
    let (y, back) = with_pullback(name, &rule.call(args, Some(kwargs))?)?;
    let (tree, kinds, outs) = taken_apart(&y)?;
    if outs.is_empty() {
        return Ok(y);
    }
    let cts = tracer.cotangents(outs);
    let dy = structured(py, &tree, &kinds, &cts)?;
    let cts = call.pull.call(&back, dy)?;
    let outs = tracer.reverse(&cts).or_raise()?;
    results(py, &tree, &kinds, outs)
}

/// Calls a function that has a forward rule.
#[pyfunction]
#[pyo3(signature = (
    function: "Function",
    rule: "Function",
    name: "str",
    names: "list[str]",
    args: "object",
    kwargs: "object"
) -> "Any")]
pub fn call_jvp<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rule: &Bound<'py, PyAny>,
    name: &str,
    names: Vec<String>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    constants(&format!("custom_jvp {name}"), kwargs)?;
    let call = Call::of_rule(name, args, names)?;
    if call.pull.active.is_empty() {
        return constant("custom_jvp", name, function.call(args, Some(kwargs))?);
    }
    let mut tracer = call.tracer("custom_jvp")?;
    let mut tangents: Vec<Option<Array>> = Vec::with_capacity(call.arrays.len());
    for array in &call.arrays {
        let zero = || -> PyResult<Array> {
            let zero = Array::number(array.dtype(), cotan::Number::Float(0.0));
            zero.broadcast_to(array.shape()).or_raise()
        };
        let has = array.dtype().is_inexact();
        tangents.push(if has { Some(zero()?) } else { None });
    }
    for (&i, t) in call.pull.active.iter().zip(tracer.tangents()) {
        tangents[i] = t;
    }
    let structures: Vec<Bound<'py, PyAny>> = (call.pull.trees.iter())
        .map(|tree| structured(py, tree, &call.pull.kinds, &tangents))
        .collect::<PyResult<_>>()?;
    let primals = call.arguments(py, &call.leaf_objects(py, tracer.args())?, true)?;
    let result = (rule.call((primals, PyTuple::new(py, structures)?), Some(kwargs)))
        .map_err(|error| unknown(py, "custom_jvp", name, error))?;
    let name = format!("custom_jvp {name}");
    let (y, dy) = pair(&name, &result, "its tangent")?;
    let (tree, kinds, outs) = taken_apart(&y)?;
    let mut found = vec![None; outs.len()];
    let fill = Fill {
        rule: name,
        what: "tangent",
        natural: false,
    };
    fill.fill(&tree, &dy, "the result", &mut found)?;
    let outs = tracer.forward(outs, &found).or_raise()?;
    results(py, &tree, &kinds, outs)
}

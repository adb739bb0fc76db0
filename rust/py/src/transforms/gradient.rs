//! Differentiates Python functions: `gradient`, `value_and_gradient` and `pullback`.

use cotan::autodiff::{self, Pullback};
use cotan::{Array, Recording};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::ScalarKind;
use crate::array::operand::Operand;
use crate::ndarray::memory::Borrow;
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::exports::exports;
use crate::transforms::leaves::Inputs;
use crate::transforms::nonfinite::named;
use crate::transforms::pullback::PyPullback;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::natural_cotangent::Scope;
use crate::tree::treedef::{Kind, present};

exports!(gradient, value_and_gradient, pullback);

/// What a function returned, as one real scalar.
pub fn scalar_output(name: &str, y: &Bound<'_, PyAny>) -> PyResult<(Array, ScalarKind)> {
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
    let scalar_kind = operand.scalar_kind();
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
    Ok((array, scalar_kind))
}

/// Runs a function and differentiates what it recorded: what `differentiate` gives, and what kind of scalar the
/// function returned.
fn differentiated<T: Send>(
    name: &str,
    f: &Bound<'_, PyAny>,
    inputs: &Inputs,
    recording: Recording,
    differentiate: impl FnOnce(
        &Recording,
        &Array,
        &[Array],
        &mut dyn FnMut() -> bool,
    ) -> cotan::Result<T>
    + Send,
) -> PyResult<(T, ScalarKind)> {
    let run = || {
        let (output, scalar_kind) = scalar_output(name, &inputs.call(f)?)?;
        let leaves = inputs.recorded();
        let made = enter(f.py(), |interrupted| {
            let made = differentiate(&recording, &output, &leaves, interrupted);
            drop((output, leaves, recording));
            made
        })?;
        Ok((made, scalar_kind))
    };
    named(f, inputs, run())
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
#[pyo3(signature = (f: "Function", /, *args: "object", wrt: "_Wrt" = None) -> "Any")]
pub fn gradient<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let inputs = Inputs::new(&recording, f, args, wrt, false)?;
    let (cts, _) = differentiated("gradient", f, &inputs, recording, autodiff::gradient)?;
    inputs.gradients(py, cts)
}

/// The value of a function that returns a real scalar, and its gradient as [`gradient`] gives it.
///
/// >>> import cotan as ct
/// >>> ct.value_and_gradient(lambda x, y: x * y, 2.0, 3.0)
/// (6.0, (3.0, 2.0))
#[pyfunction]
#[pyo3(signature = (f: "Callable[..., _R]", /, *args: "object", wrt: "_Wrt" = None) -> "tuple[_R, Any]")]
pub fn value_and_gradient<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let inputs = Inputs::new(&recording, f, args, wrt, false)?;
    let differentiate = autodiff::value_and_gradient;
    let ((value, cts), scalar_kind) =
        differentiated("value_and_gradient", f, &inputs, recording, differentiate)?;
    Ok((
        inputs.value(py, &value, scalar_kind)?,
        inputs.gradients(py, cts)?,
    ))
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
#[pyo3(signature = (f: "Callable[..., _R]", /, *args: "object", wrt: "_Wrt" = None) -> "tuple[_R, Pullback]")]
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
    let mut objects = Vec::with_capacity(outs.len());
    for (out, kind) in outs.iter().zip(kinds) {
        objects.push(match kind {
            Kind::Array(scalar_kind) => inputs.value(py, out, scalar_kind)?,
            other => present(py, out, other)?,
        });
    }
    let y = tree.build(py, &objects)?;
    let avals = outs.iter().map(|o| o.aval().clone()).collect();
    let back = PyPullback::new(py, back, tree, avals, inputs, Scope::natural(py))?;
    Ok((y, back))
}

//! Differentiates Python functions: `gradient`, `value_and_gradient` and `pullback`.

use cotan::autodiff::{self, Pullback};
use cotan::{Array, Recording};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::cell::ScalarKind;
use crate::array::operand::Operand;
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::text;
use crate::transforms::automatic_replay::{Call, Wanted};
use crate::transforms::auxiliary::Auxiliary;
use crate::transforms::keywords::{Asked, asked};
use crate::transforms::leaves::{Inputs, Request};
use crate::transforms::nonfinite::named;
use crate::transforms::pullback::PyPullback;
use crate::transforms::recorded_results::RecordedResults;
use crate::tree::natural_cotangent::Scope;

exports!(
    gradient,
    value_and_gradient,
    value_and_full_gradient,
    pullback,
    linear_transpose
);

/// The function and its arguments; with what the function keeps as the first of these, if that is asked for.
fn with_state<'py>(
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt_self: bool,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    if !wrt_self {
        return Ok((f.clone(), args.clone()));
    }
    let py = f.py();
    let told = hooks::WITH_STATE.get(py)?.call1((f,))?;
    let (called, state): (Bound<'py, PyAny>, Bound<'py, PyAny>) = told.extract()?;
    let all: Vec<_> = std::iter::once(state).chain(args.iter()).collect();
    Ok((called, PyTuple::new(py, all)?))
}

/// What a function returned, as one real scalar.
pub fn scalar_output(name: &str, y: &Bound<'_, PyAny>) -> PyResult<(Array, ScalarKind)> {
    let wrong = |what: String| {
        PyValueError::new_err(format!(
            "{name}: the function must return a real scalar, not {what}, or use ct.pullback"
        ))
    };
    if y.is_instance_of::<PyTuple>() || y.is_instance_of::<PyList>() {
        return Err(PyTypeError::new_err(format!(
            "{name}: the function must return a real scalar, not a {} of {}; return the scalar alone, a sum of several, \
             or (scalar, anything else) with has_aux=True",
            y.get_type().name()?.to_string_lossy(),
            y.len()?
        )));
    }
    let Ok(Some(operand)) = Operand::of(y) else {
        // As labelled arrays do.
        let holds_array = || {
            let data = y.getattr("data").ok();
            data.is_some_and(|data| matches!(Operand::of(&data), Ok(Some(_))))
        };
        let hint = if y.is_none() {
            "; it ends without a return"
        } else if holds_array() {
            "; return its .data"
        } else {
            ""
        };
        return Err(PyTypeError::new_err(format!(
            "{name}: the function must return a real scalar, not {}{hint}",
            text::class_of(y)
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

/// A gradient call that has been made: value, auxiliary results and cotangents.
struct Differentiated {
    inputs: Inputs,
    value: Option<Array>,
    scalar_kind: ScalarKind,
    aux: Option<(Auxiliary, Vec<Array>)>,
    cts: Vec<Option<Array>>,
}

/// Runs a function and differentiates what it recorded.
fn differentiated<'py>(
    name: &str,
    (f, wrt): &Asked<'py>,
    args: &Bound<'py, PyTuple>,
    with_value: bool,
    has_aux: bool,
    allow_int: bool,
) -> PyResult<Differentiated> {
    let recording = Recording::new();
    let request = Request {
        allow_int,
        ..Request::gradient(name, wrt.as_ref())
    };
    let inputs = Inputs::new(&recording, f, args, request)?;
    let run = || {
        let (y, aux) = Auxiliary::split(name, inputs.call(f)?, has_aux)?;
        let (output, scalar_kind) = scalar_output(name, &y)?;
        drop(y);
        let leaves = inputs.recorded();
        let behind = aux.as_ref().map(Auxiliary::arrays).unwrap_or_default();
        let (value, others, cts) = enter(f.py(), |interrupted| {
            let made = if with_value || !behind.is_empty() {
                let behind: Vec<&Array> = behind.iter().collect();
                autodiff::value_aux_and_gradient(&recording, &output, &behind, &leaves, interrupted)
                    .map(|(value, aux, cts)| (Some(value), aux, cts))
            } else {
                autodiff::gradient(&recording, &output, &leaves, interrupted)
                    .map(|cts| (None, Vec::new(), cts))
            };
            drop((output, behind, leaves, recording));
            made
        })?;
        Ok((value, scalar_kind, aux.map(|aux| (aux, others)), cts))
    };
    let (value, scalar_kind, aux, cts) = named(f, &inputs, run())?;
    Ok(Differentiated {
        inputs,
        value,
        scalar_kind,
        aux,
        cts,
    })
}

impl Differentiated {
    /// The value, with what the function returned besides, if that was asked for.
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = match &self.value {
            Some(value) => self.inputs.value(py, value, self.scalar_kind)?,
            None => py.None().into_bound(py),
        };
        match self.aux(py)? {
            Some(aux) => Ok((value, aux).into_pyobject(py)?.into_any()),
            None => Ok(value),
        }
    }

    fn aux<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let aux = self.aux.as_ref();
        aux.map(|(aux, arrays)| aux.present(py, &self.inputs, arrays))
            .transpose()
    }

    fn gradients<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.inputs.gradients(py, std::mem::take(&mut self.cts))
    }

    /// Zeros in place of gradients of leaves without influence.
    fn fill(&mut self) -> PyResult<()> {
        for (ct, (i, _)) in self.cts.iter_mut().zip(&self.inputs.active) {
            if ct.is_none() {
                let aval = self.inputs.leaves[*i].array.aval();
                *ct = Some(Array::zeros(aval.dtype, &aval.shape).or_raise()?);
            }
        }
        Ok(())
    }
}

/// The gradient of a function that returns a real scalar, with respect to all of its arguments.
///
/// Returns a tuple with one entry for each argument, of the argument's own kind: an ndarray for an
/// ndarray (same dtype and shape), a float for a Python number, an `Array` for an `Array`, a `Tangent`
/// for an object, containers of these for containers. Entries of arguments that are held constant
/// (`ct.const`, `wrt`) or have no influence are None. Python integers count as floats where they are an
/// argument, stand beside floats in a list or tuple, are in a field annotated `float`, or are all the
/// numbers that an argument has.
///
/// `wrt`: positions or names of arguments, paths (`"model.w"`, `"layers[*].b"`, `"**.bias"`), for each
/// argument a structure of bools, or a predicate on path and leaf. A function without arguments takes
/// the `Array`s that it uses, `wrt=[model.w]`, and the gradient is a mapping with these as keys. `argnums`
/// is `wrt` for positions alone.
///
/// `has_aux=True`: the function returns a pair, the scalar and anything else; the result is then
/// `(gradient, aux)`, with `aux` as plain values. Other keyword arguments are the function's, and are held
/// constant.
///
/// `wrt_self`: what the function keeps is asked for, too, and its gradient comes first: the fields of an object
/// that can be called, the object of a method, the variables of a closure.
///
/// `allow_int`: arguments of integers and booleans may be asked for; their entries are None.
///
/// An argument that is asked for and can have no gradient (an array of integers, a string, an array of
/// another library) raises `NotDifferentiableError`, which is a `TypeError`.
///
/// Raises `ValueError` when the function does not return a real scalar, `TypeError` when something on
/// the way has no derivative or would drop it; what the function itself raises arrives as it is.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> ct.gradient(lambda x, c: np.sum(x * c), np.array([1.0, 2.0]), ct.const(np.array([3.0, 4.0])))
/// (array([3., 4.]), None)
#[pyfunction]
#[allow(clippy::too_many_arguments)]
#[pyo3(signature = (
    f: "Function",
    /,
    *args: "object",
    wrt: "_Wrt" = None,
    argnums: "_Argnums" = None,
    has_aux: "bool" = false,
    allow_int: "bool" = false,
    wrt_self: "bool" = false,
    **kwargs: "object"
) -> "Any")]
pub fn gradient<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    argnums: Option<&Bound<'py, PyAny>>,
    has_aux: bool,
    allow_int: bool,
    wrt_self: bool,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let has_options = has_aux || allow_int || wrt_self || argnums.is_some();
    let call = (!has_options)
        .then(|| Call::of(f, args, wrt, kwargs))
        .transpose()?
        .flatten();
    if let Some(found) = Call::answered(call.as_ref(), Wanted::Gradient)? {
        return Ok(found);
    }
    let _scope = Scope::enter();
    let (f, args) = &with_state(f, args, wrt_self)?;
    let asked = asked("gradient", f, args, wrt, argnums, kwargs)?;
    let mut made = Call::noted(call.as_ref(), || {
        differentiated("gradient", &asked, args, false, has_aux, allow_int)
    })?;
    let gradients = made.gradients(py)?;
    match made.aux(py)? {
        Some(aux) => Ok((gradients, aux).into_pyobject(py)?.into_any()),
        None => Ok(gradients),
    }
}

/// The value of a function that returns a real scalar, and its gradient as [`gradient`] gives it.
///
/// With `has_aux=True` the value is a pair, `(value, aux)`.
///
/// >>> import cotan as ct
/// >>> ct.value_and_gradient(lambda x, y: x * y, 2.0, 3.0)
/// (6.0, (3.0, 2.0))
#[pyfunction]
#[allow(clippy::too_many_arguments)]
#[pyo3(signature = (
    f: "Callable[..., _R]",
    /,
    *args: "object",
    wrt: "_Wrt" = None,
    argnums: "_Argnums" = None,
    has_aux: "bool" = false,
    allow_int: "bool" = false,
    wrt_self: "bool" = false,
    **kwargs: "object"
) -> "tuple[_R, Any] | has_aux[Any]")]
pub fn value_and_gradient<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    argnums: Option<&Bound<'py, PyAny>>,
    has_aux: bool,
    allow_int: bool,
    wrt_self: bool,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let has_options = has_aux || allow_int || wrt_self || argnums.is_some();
    let call = (!has_options)
        .then(|| Call::of(f, args, wrt, kwargs))
        .transpose()?
        .flatten();
    if let Some(found) = Call::answered(call.as_ref(), Wanted::ValueAndGradient)? {
        return found.extract();
    }
    let _scope = Scope::enter();
    let (f, args) = &with_state(f, args, wrt_self)?;
    let asked = asked("value_and_gradient", f, args, wrt, argnums, kwargs)?;
    let mut made = Call::noted(call.as_ref(), || {
        differentiated("value_and_gradient", &asked, args, true, has_aux, allow_int)
    })?;
    Ok((made.value(py)?, made.gradients(py)?))
}

/// `value_and_gradient` with zeros where a leaf has no influence: `grad` and its like are functions whose results
/// have the structure of the argument. `name` is what errors call it. Without `with_value` the value is None.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
#[pyo3(signature = (
    name: "str",
    f: "Function",
    args: "Args",
    wrt: "_Wrt",
    with_value: "bool",
    has_aux: "bool",
    allow_int: "bool" = false
) -> "tuple[Any, Any]")]
pub fn value_and_full_gradient<'py>(
    py: Python<'py>,
    name: &str,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    with_value: bool,
    has_aux: bool,
    allow_int: bool,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let has_options = has_aux || allow_int;
    let call = (!has_options)
        .then(|| Call::of(f, args, wrt, None))
        .transpose()?
        .flatten();
    let wanted = if with_value {
        Wanted::ValueAndFullGradient
    } else {
        Wanted::FullGradient
    };
    if let Some(found) = Call::answered(call.as_ref(), wanted)? {
        if with_value {
            return found.extract();
        }
        return Ok((py.None().into_bound(py), found));
    }
    let _scope = Scope::enter();
    let asked = asked(name, f, args, wrt, None, None)?;
    let mut made = Call::noted(call.as_ref(), || {
        differentiated(name, &asked, args, with_value, has_aux, allow_int)
    })?;
    made.fill()?;
    Ok((made.value(py)?, made.gradients(py)?))
}

/// The value of a function and its pullback: the linear map from a cotangent of the value to cotangents
/// of the arguments.
///
/// Returns `(y, back)`. `back(dy)` gives one entry for each argument: lazy `Array`s (structures of them),
/// each computed only when it is read, or None. `back` can be called any number of times, keeps nothing
/// of the arguments that it does not need (`back.nbytes`), and does not notice later changes of them.
/// With `has_aux=True` the function returns a pair and the result is `(y, back, aux)`. `ct.vjp` is another
/// name of it. `wrt`, `argnums` and keyword arguments are as for `gradient`.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> y, back = ct.pullback(lambda x: np.sin(x), 0.5)
/// >>> [float(d) for d in back(1.0)]
/// [0.8775825618903728]
#[pyfunction]
#[allow(clippy::too_many_arguments)]
#[pyo3(signature = (
    f: "Callable[..., _R]",
    /,
    *args: "object",
    wrt: "_Wrt" = None,
    argnums: "_Argnums" = None,
    has_aux: "bool" = false,
    allow_int: "bool" = false,
    wrt_self: "bool" = false,
    **kwargs: "object"
) -> "tuple[_R, Pullback] | has_aux[Any]")]
pub fn pullback<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    argnums: Option<&Bound<'py, PyAny>>,
    has_aux: bool,
    allow_int: bool,
    wrt_self: bool,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (f, args) = &with_state(f, args, wrt_self)?;
    let (f, wrt) = asked("pullback", f, args, wrt, argnums, kwargs)?;
    let request = Request {
        allow_int,
        ..Request::gradient("pullback", wrt.as_ref())
    };
    let (y, back, aux) = pulled(py, &f, args, request, has_aux)?;
    match aux {
        Some(aux) => Ok((y, back, aux).into_pyobject(py)?.into_any()),
        None => Ok((y, back).into_pyobject(py)?.into_any()),
    }
}

/// The value of a function whose arguments are recorded, so that detection sees how it is computed.
pub fn watched<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let request = Request {
        differentiates: false,
        refuses: false,
        ..Request::gradient("prepare", None)
    };
    Ok(pulled(py, f, args, request, false)?.0)
}

/// A value, its pullback, and what the function returned besides.
type Pulled<'py> = (Bound<'py, PyAny>, PyPullback, Option<Bound<'py, PyAny>>);

fn pulled<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    request: Request<'_, 'py>,
    has_aux: bool,
) -> PyResult<Pulled<'py>> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let mut inputs = Inputs::new(&recording, f, args, request)?;
    inputs.remember_names(f)?;
    let y = named(f, &inputs, inputs.call(f))?;
    let recorded = RecordedResults::of("pullback", y, has_aux)?;
    let (outputs, behind) = (recorded.outputs(), recorded.behind);
    let leaves = inputs.recorded();
    let made = enter(py, |interrupted| {
        let outs: Vec<&Array> = outputs.iter().collect();
        let result = Pullback::with_aux(&recording, &outs, behind, &leaves, interrupted);
        drop((outputs, leaves, recording));
        result
    });
    let (outs, back) = named(f, &inputs, made)?;
    let (y, aux) = recorded.present(py, &inputs, &outs)?;
    let avals = recorded.avals();
    let back = PyPullback::new(py, back, recorded.tree, avals, inputs, Scope::natural(py))?;
    Ok((y, back, aux))
}

/// The transpose of a linear function: the linear map from a cotangent of its value to cotangents of its arguments.
///
/// `primals` are arguments of the shapes and dtypes that the function takes; their values play no part. Returns a
/// `Pullback`, which gives a tuple with one entry for each argument. `wrt`, `argnums` and keyword arguments are as for
/// `gradient`: what is not asked for may enter in any way.
///
/// Raises `ValueError` when the function is not linear in its arguments.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> back = ct.linear_transpose(lambda x: x[1:] - x[:-1], np.zeros(3))
/// >>> back(np.array([1.0, 10.0]))
/// (Array([-1., -9., 10.]),)
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    /,
    *primals: "object",
    wrt: "_Wrt" = None,
    argnums: "_Argnums" = None,
    **kwargs: "object"
) -> "Pullback")]
pub fn linear_transpose<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    primals: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    argnums: Option<&Bound<'py, PyAny>>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<PyPullback> {
    let _scope = Scope::enter();
    let (f, wrt) = asked("linear_transpose", f, primals, wrt, argnums, kwargs)?;
    let recording = Recording::new();
    let request = Request::gradient("linear_transpose", wrt.as_ref());
    let mut inputs = Inputs::new(&recording, &f, primals, request)?;
    inputs.remember_names(&f)?;
    let y = inputs.call(&f)?;
    let recorded = RecordedResults::of("linear_transpose", y, false)?;
    let leaves = inputs.recorded();
    let outs: Vec<&Array> = recorded.arrays.iter().collect();
    let back = Pullback::transposed(&recording, &outs, &leaves).or_raise()?;
    let avals = recorded.avals();
    PyPullback::new(py, back, recorded.tree, avals, inputs, Scope::natural(py))
}

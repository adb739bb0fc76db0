//! Forward mode of Python functions: `jvp`, and `linearize`, which gives the linear map from tangents of the arguments to
//! tangents of the value.

use std::sync::Arc;

use cotan::autodiff::{Pushforward, pushforward_alone, value_and_pushforward};
use cotan::{Array, Aval, Recording};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::array::cell::{PyArray, ScalarKind};
use crate::program::pyclass::{PyProgram, long_text};
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::exports::exports;
use crate::runtime::text;
use crate::transforms::argument_names::Names;
use crate::transforms::keywords::asked;
use crate::transforms::leaves::{Inputs, Request};
use crate::transforms::nonfinite::named;
use crate::transforms::pullback::fitting;
use crate::transforms::recorded_results::RecordedResults;
use crate::tree::natural_cotangent::Scope;
use crate::tree::treedef::{Kind, Tree, present};
use crate::tree::zip::{Align, Reading};

exports!(jvp, jvp_alone, linearize);

/// The positional arguments of a function, from a tuple or list of them.
fn arguments<'py>(
    name: &str,
    what: &str,
    given: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    if let Ok(tuple) = given.cast::<PyTuple>() {
        return Ok(tuple.clone());
    }
    if let Ok(list) = given.cast::<PyList>() {
        return Ok(list.to_tuple());
    }
    Err(PyTypeError::new_err(format!(
        "{name}: {what} must be a tuple with one entry for each argument, not {}; write ct.{name}(f, (x,), (v,))",
        text::class_of(given)
    )))
}

/// A tangent for each leaf of the arguments, None for zero.
fn tangents(
    name: &str,
    trees: &[Tree],
    leaves: &[(Aval, bool)],
    given: &Bound<'_, PyTuple>,
    paths: impl Fn() -> PyResult<Vec<String>>,
) -> PyResult<Vec<Option<Array>>> {
    if given.len() != trees.len() {
        return Err(PyValueError::new_err(format!(
            "{name}: {} tangents for {} arguments; give one for each, None for zero",
            given.len(),
            trees.len()
        )));
    }
    let mut align = Align::new(given.py(), "tangent", Reading::Cotangent, leaves.len());
    for (i, (tree, t)) in trees.iter().zip(given).enumerate() {
        align.read(tree, &t, &format!("tangents[{i}]"))?;
    }
    let mut found = Vec::with_capacity(leaves.len());
    for (i, (t, (aval, has))) in align.done().into_iter().zip(leaves).enumerate() {
        let Some(t) = t else {
            found.push(None);
            continue;
        };
        let place = || {
            let mut paths = paths()?;
            let known = i < paths.len();
            PyResult::Ok(if known {
                paths.swap_remove(i)
            } else {
                "an argument".into()
            })
        };
        let tangent = fitting("tangent", aval, &t, place)?;
        if !has || tangent.is_none() {
            let why = if aval.dtype.is_inexact() {
                "is held constant".to_string()
            } else {
                format!("is of dtype {}", aval.dtype.numpy_name())
            };
            return Err(PyTypeError::new_err(format!(
                "{name}: {} {why} and has no tangent; give None for it",
                place()?
            )));
        }
        found.push(tangent);
    }
    Ok(found)
}

/// The paths of the leaves of arguments.
fn paths(py: Python<'_>, trees: &[Tree], names: &[String]) -> PyResult<Vec<String>> {
    let mut paths = Vec::new();
    for (tree, name) in trees.iter().zip(names) {
        tree.paths(name, &mut paths, py)?;
    }
    Ok(paths)
}

/// Tangents of results as a structure like that of the results: zeros where nothing moves, None for what has none.
fn structured<'py>(
    py: Python<'py>,
    tree: &Tree,
    results: &[(Kind, Aval)],
    tangents: &[Option<Array>],
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Vec::with_capacity(results.len());
    for ((kind, aval), t) in results.iter().zip(tangents) {
        objects.push(match t {
            _ if !aval.dtype.is_inexact() => None,
            Some(t) => Some(present(py, t, *kind)?),
            None => {
                let zeros = Array::zeros(aval.dtype, &aval.shape).or_raise()?;
                Some(present(py, &zeros, *kind)?)
            }
        });
    }
    let structure = tree.tangents(py, &objects)?;
    Ok(structure.unwrap_or_else(|| py.None().into_bound(py)))
}

/// Whether an active leaf is where a tangent may be.
fn described(inputs: &Inputs) -> Vec<(Aval, bool)> {
    let mut leaves: Vec<(Aval, bool)> = (inputs.leaves.iter())
        .map(|leaf| (leaf.array.aval().clone(), false))
        .collect();
    for (i, _) in &inputs.active {
        leaves[*i].1 = true;
    }
    leaves
}

/// The value of a function and its derivative along tangents of its arguments, in one run.
///
/// `primals` are the arguments, a tuple; `tangents` has for each of them a tangent of its structure, shapes and
/// dtypes, or None for zero. Returns `(y, dy)`: what the function returns, and its tangent, of the same structure
/// (a `Tangent` for an object, None for integers). With `has_aux=True` the function returns a pair and the result is
/// `(y, dy, aux)`. Keyword arguments are the function's, and constant. `wrt` or `argnums` says which arguments have
/// tangents; all others are constant, and have None.
///
/// Raises `ValueError` when a tangent does not fit, `TypeError` when something on the way has no forward
/// derivative.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> ct.jvp(lambda x, y: x * y, (np.array([1.0, 2.0]), 3.0), (np.array([1.0, 0.0]), 1.0))
/// (array([3., 6.]), array([4., 2.]))
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    primals: "Sequence[object]",
    tangents: "Sequence[object]",
    /,
    *,
    wrt: "_Wrt" = None,
    argnums: "_Argnums" = None,
    has_aux: "bool" = false,
    **kwargs: "object"
) -> "Any")]
#[allow(clippy::too_many_arguments)]
pub fn jvp<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    primals: &Bound<'py, PyAny>,
    tangents: &Bound<'py, PyAny>,
    wrt: Option<&Bound<'py, PyAny>>,
    argnums: Option<&Bound<'py, PyAny>>,
    has_aux: bool,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _scope = Scope::enter();
    let primals = arguments("jvp", "primals", primals)?;
    let given = arguments("jvp", "tangents", tangents)?;
    let (f, wrt) = asked("jvp", f, &primals, wrt, argnums, kwargs)?;
    let (value, dy) = pushed(&f, &primals, &given, wrt.as_ref(), Some(has_aux))?;
    match value {
        Some((y, Some(aux))) => Ok((y, dy, aux).into_pyobject(py)?.into_any()),
        Some((y, None)) => Ok((y, dy).into_pyobject(py)?.into_any()),
        None => Ok(dy),
    }
}

/// The tangent that `jvp` gives, without the value: what only that needs is not computed.
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    primals: "Sequence[object]",
    tangents: "Sequence[object]",
    /
) -> "Any")]
pub fn jvp_alone<'py>(
    f: &Bound<'py, PyAny>,
    primals: &Bound<'py, PyAny>,
    tangents: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let _scope = Scope::enter();
    let primals = arguments("jvp", "primals", primals)?;
    let given = arguments("jvp", "tangents", tangents)?;
    let (_, dy) = pushed(f, &primals, &given, None, None)?;
    Ok(dy)
}

/// A value, and what is given beside it.
type Valued<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// The derivative of a function along tangents, and its value where that is wanted; then it is said whether something is
/// given beside it.
fn pushed<'py>(
    f: &Bound<'py, PyAny>,
    primals: &Bound<'py, PyTuple>,
    given: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    value: Option<bool>,
) -> PyResult<(Option<Valued<'py>>, Bound<'py, PyAny>)> {
    let py = f.py();
    let recording = Recording::new();
    let request = Request {
        wrt,
        ..Request::along("jvp")
    };
    let mut inputs = Inputs::new(&recording, f, primals, request)?;
    // Nothing is computed again: there is no reverse pass.
    inputs.is_derived = false;
    inputs.remember_names(f)?;
    let leaf_paths = || -> PyResult<Vec<String>> {
        paths(
            py,
            &inputs.trees,
            &inputs.names.get(py, inputs.trees.len())?,
        )
    };
    let found = tangents("jvp", &inputs.trees, &described(&inputs), given, leaf_paths)?;
    let y = named(f, &inputs, inputs.call(f))?;
    let recorded = RecordedResults::of("jvp", y, value.unwrap_or(false))?;
    let (outputs, behind, leaves) = (recorded.outputs(), recorded.behind, inputs.recorded());
    let along: Vec<Option<Array>> =
        (inputs.active.iter().map(|(i, _)| found[*i].clone())).collect();
    let made = enter(py, |interrupted| {
        let outs: Vec<&Array> = outputs.iter().collect();
        let made = if value.is_some() {
            value_and_pushforward(&recording, &outs, behind, &leaves, &along, interrupted)
                .map(|(outs, pushed)| (Some(outs), pushed))
        } else {
            pushforward_alone(&recording, &outs, &leaves, &along, interrupted)
                .map(|pushed| (None, pushed))
        };
        drop((outputs, leaves, along, recording));
        made
    });
    let (outs, pushed) = named(f, &inputs, made)?;
    let value = (outs.map(|outs| recorded.present(py, &inputs, &outs))).transpose()?;
    let is_array = |t: Bound<'py, PyAny>| t.is_instance_of::<PyArray>();
    let as_arrays = inputs.returns_arrays() || given.iter().any(is_array);
    let results: Vec<(Kind, Aval)> = (recorded.kinds.iter().zip(recorded.avals()))
        .map(|(&kind, aval)| {
            let shown = match kind {
                // Alone it is handed out as gradients are: arrays without axes stay arrays.
                Kind::Array(ScalarKind::Array) if value.is_none() && !as_arrays => Kind::NdArray,
                kind => shown(kind, &aval, as_arrays),
            };
            (shown, aval)
        })
        .collect();
    let dy = structured(py, &recorded.tree, &results, &pushed)?;
    Ok((value, dy))
}

/// What the tangent of a result of this kind is: like the result.
fn shown(kind: Kind, aval: &Aval, as_arrays: bool) -> Kind {
    match (kind, kind.scalar_kind()) {
        (_, scalar_kind) if as_arrays => Kind::Array(scalar_kind),
        (Kind::Array(_), ScalarKind::Array) if aval.shape.is_empty() => Kind::Scalar,
        (Kind::Array(_), ScalarKind::Array) => Kind::NdArray,
        (Kind::Array(_), ScalarKind::NumpyScalar) => Kind::Scalar,
        (Kind::Array(_), ScalarKind::PythonNumber) => Kind::Number,
        (kind, _) => kind,
    }
}

/// The linear map from tangents of a function's arguments to the tangent of its value.
///
/// `ct.linearize` makes one. It is called with one tangent for each argument (None for zero) and gives the tangent of
/// the value: `Array`s that are computed when they are read, in a structure like the value.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> _, linear = ct.linearize(lambda x: x * x, np.array([1.0, 2.0]))
/// >>> linear(np.array([1.0, 10.0]))
/// Array([ 2., 40.])
#[pyclass(frozen, name = "Pushforward", module = "cotan")]
pub struct PyPushforward {
    push: Pushforward,
    trees: Vec<Tree>,
    /// For each leaf of the arguments its dtype and shape, and whether it has a tangent.
    leaves: Vec<(Aval, bool)>,
    /// For each active leaf, which leaf of the arguments it is.
    slots: Vec<usize>,
    names: Names,
    tree: Tree,
    results: Vec<(Kind, Aval)>,
}

impl PyPushforward {
    fn paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        paths(py, &self.trees, &self.names.get(py, self.trees.len())?)
    }
}

#[pymethods]
impl PyPushforward {
    /// The tangent of the value along tangents of the arguments.
    #[pyo3(signature = (*tangents))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        tangents: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self::tangents("linearize", &self.trees, &self.leaves, tangents, || {
            self.paths(py)
        })?;
        let along: Vec<Option<Array>> = self.slots.iter().map(|&i| found[i].clone()).collect();
        let pushed = self.push.apply(&along).or_raise()?;
        structured(py, &self.tree, &self.results, &pushed)
    }

    /// Bytes of the values that it keeps.
    #[getter]
    fn nbytes(&self) -> usize {
        self.push.residuals().iter().map(Array::nbytes).sum()
    }

    /// The program that it applies: from tangents of the arguments (`dx` for `x`) and the values that it keeps to
    /// tangents of the results (`dy`).
    ///
    /// >>> import cotan as ct
    /// >>> print(ct.linearize(lambda x: 3 * x, 2.0)[1].program)
    /// program(%dx: f64[], %1: f64[]) {
    ///   %2: f64[] = mul(%dx, %1)
    ///   return %2 "dy"
    /// }
    /// <BLANKLINE>
    #[getter]
    fn program(&self, py: Python<'_>) -> PyResult<PyProgram> {
        let mut program = cotan::Program::clone(self.push.program());
        let paths = self.paths(py)?;
        let asked = self.slots.iter().zip(self.push.tangents());
        let names: Vec<Arc<str>> = (asked.filter(|(_, slot)| slot.is_some()))
            .map(|(&leaf, _)| format!("d{}", paths[leaf]).into())
            .collect();
        program.name_inputs(names);
        let mut places = Vec::new();
        self.tree.paths("dy", &mut places, py)?;
        let mut outputs: Vec<Arc<str>> = vec!["".into(); program.outs().len()];
        for (slot, place) in self.push.results().iter().zip(places) {
            if let Some(slot) = *slot {
                outputs[slot] = place.into();
            }
        }
        program.set_output_names(outputs);
        PyProgram::recorded(program, Vec::new())
    }

    /// The equations that it applies.
    fn __str__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        long_text(py, &self.program(py)?.core().to_string())
    }

    fn __repr__(&self) -> String {
        format!(
            "<Pushforward: {} equations, keeps {} bytes>",
            self.push.program().eqns().len(),
            self.nbytes()
        )
    }
}

/// The value of a function and its pushforward: the linear map from tangents of the arguments to the tangent of the
/// value.
///
/// Returns `(y, linear)`. `linear(*tangents)` takes one tangent for each argument, None for zero, and gives the tangent
/// of the value: lazy `Array`s, each computed only when it is read. It can be called any number of times; the function
/// is not run again. With `has_aux=True` the function returns a pair and the result is `(y, linear, aux)`. `wrt`,
/// `argnums` and keyword arguments are as for `gradient`.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> y, linear = ct.linearize(np.sin, 0.0)
/// >>> float(y), float(linear(2.0))
/// (0.0, 2.0)
#[pyfunction]
#[pyo3(signature = (
    f: "Callable[..., _R]",
    /,
    *primals: "object",
    wrt: "_Wrt" = None,
    argnums: "_Argnums" = None,
    has_aux: "bool" = false,
    **kwargs: "object"
) -> "tuple[_R, Pushforward] | has_aux[Any]")]
pub fn linearize<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    primals: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    argnums: Option<&Bound<'py, PyAny>>,
    has_aux: bool,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _scope = Scope::enter();
    let (f, wrt) = asked("linearize", f, primals, wrt, argnums, kwargs)?;
    let recording = Recording::new();
    let request = Request::gradient("linearize", wrt.as_ref());
    let mut inputs = Inputs::new(&recording, &f, primals, request)?;
    if inputs.arrays.is_some() {
        return Err(PyTypeError::new_err(
            "linearize: the function takes no arguments, and so no tangents; pass the arrays of wrt as arguments",
        ));
    }
    inputs.is_derived = false;
    inputs.remember_names(&f)?;
    let y = named(&f, &inputs, inputs.call(&f))?;
    let recorded = RecordedResults::of("linearize", y, has_aux)?;
    let (outputs, behind, leaves) = (recorded.outputs(), recorded.behind, inputs.recorded());
    let made = enter(py, |interrupted| {
        let outs: Vec<&Array> = outputs.iter().collect();
        let made = Pushforward::new(&recording, &outs, behind, &leaves, interrupted);
        drop((outputs, leaves, recording));
        made
    });
    let (outs, push) = named(&f, &inputs, made)?;
    let (y, aux) = recorded.present(py, &inputs, &outs)?;
    let results = (recorded.kinds.iter().zip(recorded.avals()))
        .map(|(kind, aval)| (Kind::Array(kind.scalar_kind()), aval))
        .collect();
    let linear = PyPushforward {
        push,
        leaves: described(&inputs),
        slots: inputs.active.iter().map(|(i, _)| *i).collect(),
        tree: recorded.tree.shape_only(py)?,
        results,
        names: inputs.names,
        trees: shapes(py, inputs.trees)?,
    };
    match aux {
        Some(aux) => Ok((y, linear, aux).into_pyobject(py)?.into_any()),
        None => Ok((y, linear).into_pyobject(py)?.into_any()),
    }
}

fn shapes(py: Python<'_>, trees: Vec<Tree>) -> PyResult<Vec<Tree>> {
    trees.into_iter().map(|tree| tree.shape_only(py)).collect()
}

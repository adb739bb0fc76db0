//! Takes a call of a function with a derivative rule apart: its leaves, what its pullback is given, and its
//! results.

use cotan::Array;
use cotan::autodiff::Tracer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::cell::wrap;
use crate::array::to_host::item;
use crate::ndarray::memory::Borrow;
use crate::runtime::error::{OrRaise, UnknownValueError};
use crate::runtime::hooks;
use crate::runtime::text;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::rule_cotangents::Fill;
use crate::tree::treedef::{Kind, Tree};

/// Whether anything in a structure is being differentiated.
pub fn is_active(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut flattener = Flattener::new(Borrow::Call, false, false);
    flattener.flatten(object, Position::Nested, true, "")?;
    Ok(flattener.leaves.iter().any(|l| l.array.is_active()))
}

/// What a call looks like without its values.
pub struct Pull {
    pub name: String,
    /// Names of the positional arguments.
    names: Vec<String>,
    pub trees: Vec<Tree>,
    pub kinds: Vec<Kind>,
    pub paths: Vec<String>,
    /// The leaves that are being differentiated.
    pub active: Vec<usize>,
}

/// The arguments of a call, taken apart.
pub struct Call {
    objects: Vec<Py<PyAny>>,
    /// The leaves as they came.
    pub leaves: Vec<Py<PyAny>>,
    pub arrays: Vec<Array>,
    pub pull: Pull,
}

impl Call {
    /// Takes arguments apart. What is kept of them lives longer than the call.
    pub fn new(name: &str, args: &Bound<'_, PyTuple>, names: Vec<String>) -> PyResult<Call> {
        Call::borrowing(name, args, names, Borrow::Copy)
    }

    /// The same for a rule, which keeps nothing when nothing is being differentiated.
    pub fn of_rule(name: &str, args: &Bound<'_, PyTuple>, names: Vec<String>) -> PyResult<Call> {
        let any = is_active(args.as_any())?;
        let borrow = if any { Borrow::Copy } else { Borrow::Call };
        Call::borrowing(name, args, names, borrow)
    }

    fn borrowing(
        name: &str,
        args: &Bound<'_, PyTuple>,
        names: Vec<String>,
        borrow: Borrow,
    ) -> PyResult<Call> {
        let mut flattener = Flattener::new(borrow, true, false);
        let mut trees = Vec::with_capacity(args.len());
        for (arg, name) in args.iter().zip(&names) {
            // An integer is data: an exponent, an axis.
            trees.push(flattener.flatten(&arg, Position::Nested, true, name)?);
        }
        let (mut arrays, mut kinds, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        let mut leaves = Vec::with_capacity(flattener.leaves.len());
        for leaf in flattener.leaves {
            leaves.push(leaf.object);
            arrays.push(leaf.array);
            kinds.push(leaf.kind);
            paths.push(leaf.path);
        }
        let active = (0..arrays.len()).filter(|&i| arrays[i].is_active());
        Ok(Call {
            objects: args.iter().map(Bound::unbind).collect(),
            leaves,
            pull: Pull {
                name: name.into(),
                names,
                trees,
                kinds,
                paths,
                active: active.collect(),
            },
            arrays,
        })
    }

    /// The arrays that are being differentiated.
    pub fn sources(&self) -> Vec<Array> {
        let active = self.pull.active.iter();
        active.map(|&i| self.arrays[i].clone()).collect()
    }

    /// Begins to trace it.
    pub fn tracer(&self, kind: &'static str) -> PyResult<Tracer> {
        let sources = self.sources();
        let labels = self.pull.active.iter().map(|&i| self.pull.paths[i].clone());
        let tracer = Tracer::new(&self.pull.name, &sources.iter().collect::<Vec<_>>());
        Ok(tracer.or_raise()?.called(kind).labelled(labels.collect()))
    }

    /// The leaves as they are handed to a function, with these arrays in place of the active ones.
    pub fn leaf_objects<'py>(
        &self,
        py: Python<'py>,
        active: &[Array],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let pull = &self.pull;
        let mut objects = Vec::with_capacity(self.arrays.len());
        for (array, &kind) in self.arrays.iter().zip(&pull.kinds) {
            objects.push(match kind {
                Kind::Number => item(py, array)?,
                kind => wrap(py, array.clone(), kind.scalar_kind())?,
            });
        }
        for (&i, array) in pull.active.iter().zip(active) {
            objects[i] = wrap(py, array.clone(), pull.kinds[i].scalar_kind())?;
        }
        Ok(objects)
    }

    /// The arguments with these leaves. Those that are held constant are as they came, if `plain` says so;
    /// else their arrays are `Array`s too, copied once.
    pub fn arguments<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Bound<'py, PyAny>],
        plain: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let pull = &self.pull;
        let args: Vec<Bound<'py, PyAny>> = (pull.trees.iter().zip(pull.wanted()))
            .zip(&self.objects)
            .map(|((tree, wanted), object)| {
                if wanted || !plain {
                    tree.build(py, leaves)
                } else {
                    Ok(object.bind(py).clone())
                }
            })
            .collect::<PyResult<_>>()?;
        PyTuple::new(py, args)
    }
}

impl Pull {
    /// For each argument, whether a cotangent of it is wanted.
    fn wanted(&self) -> Vec<bool> {
        let mut is_active = vec![false; self.kinds.len()];
        for &i in &self.active {
            is_active[i] = true;
        }
        self.trees.iter().map(|t| t.any(&is_active)).collect()
    }

    /// Calls a pullback, and gives the cotangents of the active leaves.
    pub fn call<'py>(
        &self,
        back: &Bound<'py, PyAny>,
        dy: Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Array>>> {
        let py = back.py();
        let takes: bool = hooks::TAKES_WANTED.get(py)?.call1((back,))?.extract()?;
        let result = if takes {
            let kwargs = PyDict::new(py);
            kwargs.set_item("wanted", PyTuple::new(py, self.wanted())?)?;
            back.call((dy,), Some(&kwargs))
        } else {
            back.call1((dy,))
        };
        let result = result.map_err(|error| unknown(py, "adjoint", &self.name, error))?;
        let count = self.trees.len();
        let entries: Vec<Bound<'py, PyAny>> = match result.cast_exact::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) if count == 1 => vec![result],
            Err(_) => {
                return Err(PyTypeError::new_err(format!(
                    "adjoint {}: its pullback must return a tuple with one cotangent for each of the {count} \
                     positional arguments ({}), not {}",
                    self.name,
                    self.names.join(", "),
                    text::class_of(&result)
                )));
            }
        };
        if entries.len() != count {
            return Err(PyValueError::new_err(format!(
                "adjoint {}: its pullback gave {} cotangents for the {count} positional arguments {}; give one \
                 for each, None for those without one",
                self.name,
                entries.len(),
                self.names.join(", ")
            )));
        }
        let mut cts = vec![None; self.kinds.len()];
        let fill = Fill {
            rule: format!("adjoint {}", self.name),
            what: "cotangent",
            natural: true,
        };
        for ((tree, ct), name) in self.trees.iter().zip(&entries).zip(&self.names) {
            fill.fill(tree, ct, name, &mut cts)?;
        }
        Ok(self.active.iter().map(|&i| cts[i].take()).collect())
    }
}

/// An error that a rule led to: that a value is not known yet is told with the name of the rule.
pub fn unknown(py: Python<'_>, what: &str, name: &str, error: PyErr) -> PyErr {
    if !error.is_instance_of::<UnknownValueError>(py) {
        return error;
    }
    let message = match text::message(py, &error) {
        Ok(message) => message,
        Err(failed) => return failed,
    };
    let named = PyValueError::new_err(format!("{what} {name}: {message}"));
    named.set_cause(py, Some(error));
    named
}

/// A result taken apart: its structure, the kinds of its leaves, and the leaves.
pub fn taken_apart(y: &Bound<'_, PyAny>) -> PyResult<(Tree, Vec<Kind>, Vec<Array>)> {
    let mut flattener = Flattener::new(Borrow::Copy, false, false);
    let tree = flattener.flatten(y, Position::Nested, true, "")?;
    let (kinds, arrays) = (flattener.leaves.into_iter())
        .map(|leaf| (leaf.kind, leaf.array))
        .unzip();
    Ok((tree, kinds, arrays))
}

/// The results of a call: a structure with the arrays in it.
pub fn results<'py>(
    py: Python<'py>,
    tree: &Tree,
    kinds: &[Kind],
    outs: Vec<Array>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Vec::with_capacity(outs.len());
    for (out, &kind) in outs.into_iter().zip(kinds) {
        objects.push(wrap(py, out, kind.scalar_kind())?);
    }
    tree.build(py, &objects)
}

/// Cotangents (or tangents) as the structure that they belong to.
pub fn structured<'py>(
    py: Python<'py>,
    tree: &Tree,
    kinds: &[Kind],
    arrays: &[Option<Array>],
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = Vec::with_capacity(arrays.len());
    for (array, &kind) in arrays.iter().zip(kinds) {
        objects.push(match array {
            Some(array) => Some(wrap(py, array.clone(), kind.scalar_kind())?),
            None => None,
        });
    }
    let structure = tree.tangents(py, &objects)?;
    Ok(structure.unwrap_or_else(|| py.None().into_bound(py)))
}

/// What a rule returned: a result and what belongs to it.
pub fn pair<'py>(
    name: &str,
    result: &Bound<'py, PyAny>,
    second: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    match result.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => Ok((pair.get_item(0)?, pair.get_item(1)?)),
        other => {
            let got = other.map_or_else(
                |_| text::class_of(result),
                |tuple| format!("a tuple of {}", tuple.len()),
            );
            Err(PyTypeError::new_err(format!(
                "{name}: the rule must return a pair, the result and {second}, not {got}"
            )))
        }
    }
}

/// Result and pullback of a rule.
pub fn with_pullback<'py>(
    name: &str,
    result: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let name = format!("adjoint {name}");
    let (y, back) = pair(&name, result, "its pullback")?;
    if !back.is_callable() {
        return Err(PyTypeError::new_err(format!(
            "{name}: the pullback, the second of what the rule returns, must be callable, not {}",
            text::class_of(&back)
        )));
    }
    Ok((y, back))
}

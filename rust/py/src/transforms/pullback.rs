//! Maps cotangents of a function's value to cotangents of its arguments, in their structures.

use std::sync::Arc;

use cotan::Array;
use cotan::autodiff::Pullback;
use cotan::program::FastMap;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString, PyTuple};

use crate::array::cell::PyArray;
use crate::array::operand::Operand;
use crate::ndarray::memory::is_numpy_scalar;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;
use crate::transforms::argument_names::Names;
use crate::transforms::leaves::Inputs;
use crate::transforms::selection::selected;
use crate::tree::treedef::{Kind, Leaf, Tree};
use crate::tree::zip::{Align, Reading};

/// The linear map from cotangents of a function's value to cotangents of its arguments.
///
/// `ct.pullback` makes one. It is called with a cotangent of the value's structure and shapes, and gives a tuple
/// with an entry for each argument: an `Array` of the argument's shape and dtype that is computed when it is read, a
/// structure of these, or None where there is no derivative.
///
/// Raises `ValueError` for a cotangent that does not fit the value.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> _, back = ct.pullback(lambda x: x * x, np.array([1.0, 2.0]))
/// >>> back(np.array([1.0, 10.0]))
/// (Array([ 2., 40.]),)
#[pyclass(frozen, name = "Pullback", module = "cotan")]
pub struct PyPullback {
    pub(crate) back: Pullback,
    pub(crate) results: Arc<Tree>,
    pub(crate) avals: Arc<[cotan::Aval]>,
    pub(crate) trees: Arc<[Tree]>,
    /// What the leaves of the arguments were, and their dtypes and shapes.
    pub(crate) kinds: Arc<[(Kind, cotan::Aval)]>,
    /// For each cotangent, the leaf that it belongs to.
    pub(crate) slots: Arc<[usize]>,
    /// Of these, the ones that are still asked for.
    pub(crate) kept: Vec<bool>,
    pub(crate) names: Names,
    /// The arrays of `wrt`, where there are no arguments.
    pub(crate) arrays: Option<Vec<Py<PyArray>>>,
    /// Narrowed to this argument: its cotangent comes alone, without a tuple.
    pub(crate) bare: Option<usize>,
    /// Classes whose instances are their own cotangents.
    pub(crate) natural: Option<Py<PyTuple>>,
    /// For the inputs of the forward program behind the leaves, which leaf of the arguments that is held
    /// constant they are.
    pub(crate) held: Arc<[Option<usize>]>,
}

impl PyPullback {
    /// The pullback of what was recorded, with the structure of the results and of the inputs.
    pub fn new(
        py: Python<'_>,
        back: Pullback,
        results: Tree,
        avals: Vec<cotan::Aval>,
        inputs: Inputs,
        natural: Option<Py<PyTuple>>,
    ) -> PyResult<Self> {
        // Instances that are cotangents themselves take what has none from the object.
        let trees: Arc<[Tree]> = if natural.is_some() {
            inputs.trees.into()
        } else {
            let trees = inputs.trees.into_iter().map(|t| t.shape_only(py));
            trees.collect::<PyResult<Vec<_>>>()?.into()
        };
        let slots: Vec<usize> = inputs.active.iter().map(|(i, _)| *i).collect();
        let kind = |l: &Leaf| (Kind::Array(l.kind.scalar_kind()), l.array.aval().clone());
        let held = held_constant(&back, &inputs.leaves, slots.len());
        let mut back = PyPullback {
            back,
            held,
            results: Arc::new(results.shape_only(py)?),
            avals: avals.into(),
            kinds: inputs.leaves.iter().map(kind).collect(),
            kept: vec![true; slots.len()],
            slots: slots.into(),
            trees,
            names: inputs.names,
            arrays: inputs.arrays,
            bare: None,
            natural,
        };
        if cotan::prim::records_lines() {
            let paths = back.argument_paths(py)?;
            let names: Vec<Arc<str>> = (back.slots.iter())
                .map(|&slot| paths[slot].as_str().into())
                .collect();
            back.back.name_gradients(&names);
        }
        Ok(back)
    }

    /// One that others are made of at other points: without the values that it keeps.
    pub fn of(
        py: Python<'_>,
        back: Pullback,
        results: &Tree,
        avals: Vec<cotan::Aval>,
        inputs: &Inputs,
        natural: Option<Py<PyTuple>>,
    ) -> PyResult<Self> {
        let taken = inputs.clone_ref(py);
        PyPullback::new(py, back, results.clone_ref(py), avals, taken, natural)
    }

    /// The same linear map with other values kept.
    pub fn at(&self, py: Python<'_>, residuals: Vec<Array>) -> PyResult<PyPullback> {
        Ok(PyPullback {
            back: self.back.with_residuals(residuals).or_raise()?,
            held: Arc::clone(&self.held),
            results: Arc::clone(&self.results),
            avals: Arc::clone(&self.avals),
            trees: Arc::clone(&self.trees),
            kinds: Arc::clone(&self.kinds),
            slots: Arc::clone(&self.slots),
            kept: self.kept.clone(),
            names: self.names.clone_ref(py),
            arrays: (self.arrays.as_ref()).map(|all| all.iter().map(|a| a.clone_ref(py)).collect()),
            bare: self.bare,
            natural: self.natural.as_ref().map(|n| n.clone_ref(py)),
        })
    }

    /// Cotangents of the results, in the order of their leaves.
    pub fn cotangents(&self, dy: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Array>>> {
        let count = self.avals.len();
        let mut align = Align::new(dy.py(), "cotangent", Reading::Cotangent, count);
        align.read(&self.results, dy, "")?;
        let place = |i: usize| {
            let mut paths = Vec::new();
            self.results.paths("", &mut paths, dy.py())?;
            let path = paths.get(i).map_or("", String::as_str);
            Ok(format!("the value{path}"))
        };
        let given = align.done().into_iter().zip(self.avals.iter());
        (given.enumerate())
            .map(|(i, (dy, aval))| {
                dy.map_or(Ok(None), |dy| fitting("cotangent", aval, &dy, || place(i)))
            })
            .collect()
    }

    /// The paths of the leaves of the arguments.
    pub fn argument_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let mut paths = Vec::new();
        let names = match &self.arrays {
            Some(arrays) => (0..arrays.len()).map(|i| format!("wrt[{i}]")).collect(),
            None => self.names.get(py, self.trees.len())?,
        };
        for (tree, name) in self.trees.iter().zip(&names) {
            tree.paths(name, &mut paths, py)?;
        }
        Ok(paths)
    }

    /// The path of an input of the forward program; empty when it is no argument.
    pub fn input_path(&self, paths: &[String], input: usize) -> Arc<str> {
        let slot = match input.checked_sub(self.slots.len()) {
            None => self.slots.get(input).copied(),
            Some(i) => self.held.get(i).copied().flatten(),
        };
        slot.map_or("", |slot| &paths[slot]).into()
    }

    /// The argument that `wrt` is the position or the name of, if it is that.
    pub fn single(&self, wrt: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let py = wrt.py();
        if let Ok(name) = wrt.cast::<PyString>() {
            let names = self.names.get(py, self.trees.len())?;
            return Ok(names.iter().position(|known| name == known.as_str()));
        }
        let is_number = wrt.is_instance_of::<PyInt>() || is_numpy_scalar(wrt)?;
        if !is_number || wrt.is_instance_of::<PyBool>() {
            return Ok(None);
        }
        let position: Option<isize> = wrt.extract().ok();
        let count = self.trees.len().cast_signed();
        Ok(position.and_then(|at| usize::try_from(at.rem_euclid(count)).ok()))
    }

    /// Which leaves of the arguments `wrt` asks for.
    pub fn selected(&self, wrt: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let py = wrt.py();
        if let Some(arrays) = &self.arrays {
            let listed = hooks::LISTED_ARRAYS.get(py)?.call1((wrt,))?;
            let mut wanted = vec![false; arrays.len()];
            for array in listed.try_iter()? {
                let array = array?;
                match arrays.iter().position(|a| a.is(&array)) {
                    Some(i) => wanted[i] = true,
                    None => {
                        return Err(PyValueError::new_err(
                            "wrt: the pullback is not with respect to one of these arrays",
                        ));
                    }
                }
            }
            return Ok(wanted);
        }
        let names = self.names.get(py, self.trees.len())?;
        let paths = self.argument_paths(py)?;
        let mut able = vec![false; self.kinds.len()];
        for (&slot, _) in self.slots.iter().zip(&self.kept).filter(|(_, k)| **k) {
            able[slot] = true;
        }
        let info = hooks::LEAF_INFO_CLASS.get(py)?;
        let mut objects = Vec::with_capacity(self.kinds.len());
        for (_, aval) in self.kinds.iter() {
            let shape = PyTuple::new(py, aval.shape.iter())?;
            let dtype = crate::ndarray::dtype::descr(py, aval.dtype)?;
            objects.push(info.call1((shape, dtype))?.unbind());
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let objects: Vec<&Py<PyAny>> = objects.iter().collect();
        Ok(selected(wrt, &names, &self.trees, &paths, &objects, &able)?.mask)
    }
}

/// For the inputs of the forward program behind so many leaves, which of the arguments' leaves they are.
fn held_constant(back: &Pullback, leaves: &[Leaf], active: usize) -> Arc<[Option<usize>]> {
    let inputs = back.sources().get(active..).unwrap_or(&[]);
    if inputs.is_empty() || leaves.len() == active {
        return Arc::new([]);
    }
    let ids: FastMap<u64, usize> = (leaves.iter().enumerate())
        .map(|(i, leaf)| (leaf.array.id(), i))
        .collect();
    inputs.iter().map(|id| ids.get(id).copied()).collect()
}

/// A cotangent (or a tangent: `what`) of a value of this dtype and shape; none for one that can have none. Errors ask
/// for its place.
pub fn fitting(
    what: &str,
    aval: &cotan::Aval,
    given: &Bound<'_, PyAny>,
    place: impl Fn() -> PyResult<String>,
) -> PyResult<Option<Array>> {
    let operand = Operand::expect(what, given)?;
    if operand.dtype().is_complex() && !aval.dtype.is_complex() {
        return Err(PyTypeError::new_err(format!(
            "{what}: {} is of dtype {}, so its {what} is real, not complex",
            place()?,
            aval.dtype.numpy_name()
        )));
    }
    let array = operand.array()?;
    if array.shape() != aval.shape.as_slice() {
        return Err(PyValueError::new_err(format!(
            "{what}: {} has shape {}, so its {what} must have it too, not {}",
            place()?,
            cotan::aval::tuple(&aval.shape),
            cotan::aval::tuple(array.shape())
        )));
    }
    if aval.dtype.is_inexact() {
        return Ok(Some(array.cast(aval.dtype).or_raise()?));
    }
    Ok(None)
}

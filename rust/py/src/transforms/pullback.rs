//! The Python class `Pullback`.

use std::sync::Arc;

use cotan::array::Pullback;
use cotan::program::FastMap;
use cotan::{Array, Program};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyTuple};

use crate::array::cell::PyArray;
use crate::array::operand::Operand;
use crate::ndarray::memory::is_numpy_scalar;
use crate::program::pyclass::PyProgram;
use crate::program::report::Facts;
use crate::runtime::error::OrRaise;
use crate::transforms::leaves::{Inputs, Names, gradients, handed_out, rank_of, selected};
use crate::tree::natural_cotangent::HandOut;
use crate::tree::treedef::{Kind, Leaf, Tree};
use crate::tree::zip::{Align, Reading};

/// The linear map from cotangents of a function's value to cotangents of its arguments.
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
    /// The arrays that stand in place of arguments.
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
        let kind = |l: &Leaf| (Kind::Handle(rank_of(l.kind)), l.array.aval().clone());
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
    fn cotangents(&self, dy: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Array>>> {
        let count = self.avals.len();
        let mut align = Align::new(dy.py(), "cotangent", Reading::Cotangent, count);
        align.read(&self.results, dy, "")?;
        let place = |i: usize| {
            let mut paths = Vec::new();
            self.results.paths("", &mut paths, dy.py());
            format!("the value{}", paths.get(i).map_or("", String::as_str))
        };
        let given = align.done().into_iter().zip(self.avals.iter());
        (given.enumerate())
            .map(|(i, (dy, aval))| dy.map_or(Ok(None), |dy| cotangent(aval, &dy, || place(i))))
            .collect()
    }

    /// The paths of the leaves of the arguments.
    fn argument_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let mut paths = Vec::new();
        let names = match &self.arrays {
            Some(arrays) => (0..arrays.len()).map(|i| format!("wrt[{i}]")).collect(),
            None => self.names.get(py, self.trees.len())?,
        };
        for (tree, name) in self.trees.iter().zip(&names) {
            tree.paths(name, &mut paths, py);
        }
        Ok(paths)
    }

    /// The path of an input of the forward program; empty when it is no argument.
    fn input_path(&self, paths: &[String], input: usize) -> Arc<str> {
        let slot = match input.checked_sub(self.slots.len()) {
            None => self.slots.get(input).copied(),
            Some(i) => self.held.get(i).copied().flatten(),
        };
        slot.map_or("", |slot| &paths[slot]).into()
    }

    /// Which leaves of the arguments `wrt` asks for.
    fn selected(&self, wrt: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let py = wrt.py();
        if let Some(arrays) = &self.arrays {
            let masks = py.import("cotan._src.tree.selection")?;
            let listed = masks.call_method1("listed_arrays", (wrt,))?;
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
        let info = py
            .import("cotan._src.tree.selection")?
            .getattr("LeafInfo")?;
        let mut objects = Vec::with_capacity(self.kinds.len());
        for (_, aval) in self.kinds.iter() {
            let shape = PyTuple::new(py, aval.shape.iter())?;
            let dtype = crate::ndarray::dtype::descr(py, aval.dtype)?;
            objects.push(info.call1((shape, dtype))?.unbind());
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let objects: Vec<&Py<PyAny>> = objects.iter().collect();
        selected(wrt, &names, &self.trees, &paths, &objects, &able)
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

/// A cotangent for a result of this dtype and shape; none for one that can have none. Errors ask for its
/// place.
fn cotangent(
    aval: &cotan::Aval,
    dy: &Bound<'_, PyAny>,
    place: impl Fn() -> String,
) -> PyResult<Option<Array>> {
    let operand = Operand::expect("cotangent", dy)?;
    if operand.dtype().is_complex() && !aval.dtype.is_complex() {
        return Err(PyTypeError::new_err(format!(
            "cotangent: {} is of dtype {}, so its cotangent is real, not complex",
            place(),
            aval.dtype.numpy_name()
        )));
    }
    let ct = operand.array()?;
    if ct.shape() != aval.shape.as_slice() {
        return Err(PyValueError::new_err(format!(
            "cotangent: {} has shape {}, so its cotangent must have it too, not {}",
            place(),
            cotan::aval::tuple(&aval.shape),
            cotan::aval::tuple(ct.shape())
        )));
    }
    if aval.dtype.is_inexact() {
        return Ok(Some(ct.cast(aval.dtype).or_raise()?));
    }
    Ok(None)
}

#[pymethods]
impl PyPullback {
    /// Cotangents of the arguments, given that of the value (None for zero).
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        dy: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cts = self.back.apply(&self.cotangents(dy)?).or_raise()?;
        let kinds: Vec<Kind> = self.kinds.iter().map(|(k, _)| *k).collect();
        let _natural = HandOut::new(self.natural.as_ref().map(|n| n.clone_ref(py)));
        let mut entries = gradients(py, &self.trees, &kinds, &self.slots, &self.kept, cts)?;
        match self.bare {
            Some(i) => Ok(entries.swap_remove(i)),
            None => handed_out(py, entries, self.arrays.as_deref()),
        }
    }

    /// The pullback with respect to some arguments or parts of them only; what only the others need is
    /// let go.
    ///
    /// Takes whatever `wrt=` of `gradient` takes. A predicate gets shape and dtype of a leaf, not its
    /// value. For one position the result gives its bare cotangent, else a tuple with None for what
    /// was not asked for.
    fn wrt(&self, py: Python<'_>, arguments: &Bound<'_, PyAny>) -> PyResult<PyPullback> {
        let number = arguments.is_instance_of::<PyInt>() || is_numpy_scalar(arguments)?;
        let single =
            number && !arguments.is_instance_of::<PyBool>() && arguments.extract::<isize>().is_ok();
        let wanted = self.selected(arguments)?;
        let kept: Vec<bool> = (self.slots.iter().zip(&self.kept))
            .map(|(&s, &k)| k && wanted[s])
            .collect();
        let bare = if single && self.arrays.is_none() {
            let position: isize = arguments.extract()?;
            let count = self.trees.len() as isize;
            usize::try_from(position.rem_euclid(count)).ok()
        } else {
            None
        };
        Ok(PyPullback {
            back: self.back.wrt(&kept),
            results: Arc::clone(&self.results),
            avals: Arc::clone(&self.avals),
            trees: Arc::clone(&self.trees),
            kinds: Arc::clone(&self.kinds),
            slots: Arc::clone(&self.slots),
            kept,
            names: self.names.clone_ref(py),
            arrays: self
                .arrays
                .as_ref()
                .map(|all| all.iter().map(|a| a.clone_ref(py)).collect()),
            bare,
            natural: self.natural.as_ref().map(|n| n.clone_ref(py)),
            held: Arc::clone(&self.held),
        })
    }

    /// Bytes of the values that it keeps.
    #[getter]
    fn nbytes(&self) -> usize {
        self.back.nbytes()
    }

    /// The program that it applies: from cotangents of the results (`dy`, with the path of a part behind it)
    /// and the values that it keeps (with the paths of the arguments that they are) to cotangents of the
    /// arguments (`dx` for `x`).
    #[getter]
    fn program(&self, py: Python<'_>) -> PyResult<PyProgram> {
        let mut program = self.back.program().clone();
        let paths = self.argument_paths(py)?;
        let mut names: Vec<Arc<str>> = Vec::with_capacity(program.num_inputs());
        let mut places = Vec::new();
        self.results.paths("dy", &mut places, py);
        let asked = self.back.cotangents().iter().zip(places);
        names.extend(asked.filter_map(|(slot, place)| slot.map(|_| place.into())));
        if let Some(forward) = self.back.forward() {
            let residuals = &forward.outs()[self.avals.len()..];
            names.extend(
                residuals
                    .iter()
                    .map(|&v| self.input_path(&paths, v as usize)),
            );
        }
        program.name_inputs(names);
        let mut outputs: Vec<Arc<str>> = vec!["".into(); program.outs().len()];
        for (&slot, out) in self.slots.iter().zip(self.back.gradients()) {
            if let Some(out) = *out {
                outputs[out] = format!("d{}", paths[slot]).into();
            }
        }
        program.set_output_names(outputs);
        Ok(PyProgram::new(program, Vec::new()))
    }

    /// The program that gave the results and the values that it keeps, in this order; None when it is not
    /// known any more.
    #[getter]
    fn forward(&self, py: Python<'_>) -> PyResult<Option<PyProgram>> {
        let Some(forward) = self.back.forward() else {
            return Ok(None);
        };
        let mut forward = (**forward).clone();
        let paths = self.argument_paths(py)?;
        forward.name_inputs((0..forward.num_inputs()).map(|i| self.input_path(&paths, i)));
        let mut places = Vec::new();
        self.results.paths("y", &mut places, py);
        forward.set_output_names(places.into_iter().map(Into::into));
        Ok(Some(PyProgram::new(forward, Vec::new())))
    }

    /// What it holds and why, which cotangents have been computed, and what was avoided: a `Report`.
    ///
    /// >>> import cotan as ct
    /// >>> import numpy as np
    /// >>> _, back = ct.pullback(lambda x, c: np.sum(x * c), np.ones(3), np.ones(3))
    /// >>> dx, dc = back(1.0)
    /// >>> _ = np.asarray(dx)
    /// >>> back.report().never_computed
    /// ['c']
    fn report<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, back) = (slf.py(), slf.get());
        let paths = back.argument_paths(py)?;
        let leaf = |slot: usize| paths[slot].as_str();
        let mut states = vec!["held constant"; paths.len()];
        for (&slot, &kept) in back.slots.iter().zip(&back.kept) {
            states[slot] = if kept {
                "no influence"
            } else {
                "not asked for"
            };
        }
        let avals: Vec<&cotan::Aval> = back.kinds.iter().map(|(_, aval)| aval).collect();
        let facts = Facts {
            slots: &back.slots,
            input: &|i| back.input_path(&paths, i).to_string(),
            leaf: &leaf,
            states,
            avals,
        };
        facts.report(slf, &back.back)
    }

    /// Writes it to an ONNX file. The input is the cotangent, `dy` (`dy[0]`, `dy.loss`, ... when the function
    /// has several results); the outputs are the cotangents of the arguments that have one, `dx` for `x`, in
    /// their order. What it keeps is in the file, as initializers.
    ///
    /// Raises `ValueError` for what ONNX cannot express, with the reason, and for a file of more than 2 GB;
    /// `ImportError` without the package onnx (`pip install 'cotan[onnx]'`).
    fn to_onnx(&self, py: Python<'_>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let program = Program::clone(self.program(py)?.core());
        let program = PyProgram::new(program, self.back.residuals().to_vec());
        let exporter = py.import("cotan._src.onnx.export")?;
        exporter.call_method1("export_program", (program, path))?;
        Ok(())
    }

    /// Saves it to a file, which `ct.load` reads.
    ///
    /// The file holds the program and the values that it keeps, under checksums; `docs/saving.md` says more.
    /// It appears whole or not at all: an older one stays as it is when something fails. Objects among
    /// the arguments are known by the names of their classes: their cotangents are `Tangent`s.
    ///
    /// Raises `pickle.PicklingError` when the pullback calls Python code (a hook, an opaque rule), `OSError`
    /// when the file cannot be written, `ValueError` when the path is not that of a regular file.
    ///
    /// >>> import cotan as ct, os, tempfile
    /// >>> _, back = ct.pullback(lambda x: x**2, 3.0)
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     back.save(os.path.join(folder, "square.cotan"))
    /// ...     again = ct.load(os.path.join(folder, "square.cotan"))
    /// >>> float(again(1.0)[0])
    /// 6.0
    fn save(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        crate::program::serialize::save_pullback(slf, path)
    }

    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i32) -> PyResult<Bound<'py, PyAny>> {
        crate::program::serialize::reduce_pullback(slf, protocol)
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// It never changes, so a copy is the same object.
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __repr__(&self) -> String {
        format!(
            "<Pullback: {} equations, keeps {} bytes>",
            self.back.program().eqns().len(),
            self.back.nbytes()
        )
    }
}

//! Gradients and pullbacks of Python functions.

use std::cell::Cell;

use cotan::array::{self, Pullback};
use cotan::{Array, Recording};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use crate::array::{Rank, wrap};
use crate::checkpoint::Frame;
use crate::convert::{Borrow, fingerprint};
use crate::error::{OrRaise, enter};
use crate::program::PyProgram;
use crate::rules::{Scope, natural};
use crate::scalar::Operand;
use crate::tree::{Flattener, Kind, Leaf, Position, Tree, present};

thread_local! {
    /// How many recordings are going on in this thread.
    static LEVEL: Cell<usize> = const { Cell::new(0) };
}

/// Counts a recording, until it is dropped.
struct Nested;

impl Nested {
    fn enter() -> Nested {
        LEVEL.set(LEVEL.get() + 1);
        Nested
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        LEVEL.set(LEVEL.get() - 1);
    }
}

/// Whether the running code is being differentiated.
///
/// >>> import cotan as ct
/// >>> ct.isderiving()
/// False
/// >>> ct.gradient(lambda x: x if ct.isderiving() else 0 * x, 2.0)
/// (1.0,)
#[pyfunction]
pub fn isderiving() -> bool {
    LEVEL.get() > 0
}

/// How deeply the running code is being differentiated: 0 outside any gradient.
#[pyfunction]
pub fn nestlevel() -> usize {
    LEVEL.get()
}

/// Arguments taken apart, with a leaf of the recording in place of each active one.
struct Inputs {
    trees: Vec<Tree>,
    leaves: Vec<Leaf>,
    /// For each active leaf its number among all, and the recording's leaf.
    active: Vec<(usize, Array)>,
    /// Whether what is recorded will be differentiated.
    is_derived: bool,
    /// Fingerprints of the leaves whose memory is borrowed.
    borrowed: Vec<(usize, u64)>,
}

impl Inputs {
    fn new(
        recording: &Recording,
        f: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        wrt: Option<&Bound<'_, PyAny>>,
        all_constants: bool,
    ) -> PyResult<Inputs> {
        let py = f.py();
        if !f.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "the first argument must be callable, the function to differentiate, not {}",
                f.get_type()
            )));
        }
        let wrt = wrt.filter(|w| !w.is_none());
        let names: Option<Vec<String>> = match wrt {
            Some(_) => Some(
                py.import("cotan._structures")?
                    .call_method1("argument_names", (f, args.len()))?
                    .extract()?,
            ),
            None => None,
        };
        let borrow = if all_constants {
            Borrow::Copy
        } else {
            Borrow::Call
        };
        let mut flattener = Flattener::new(borrow, names.is_some(), wrt.is_none());
        let mut trees = Vec::with_capacity(args.len());
        let mut starts = Vec::with_capacity(args.len() + 1);
        for (i, arg) in args.iter().enumerate() {
            starts.push(flattener.leaves.len());
            let path = names.as_ref().map_or("", |n| n[i].as_str());
            trees.push(flattener.flatten(&arg, Position::Direct, true, path)?);
        }
        starts.push(flattener.leaves.len());
        let mut leaves = flattener.leaves;
        if let (Some(wrt), Some(names)) = (wrt, names) {
            let paths: Vec<&str> = leaves.iter().map(|l| l.path.as_str()).collect();
            let values: Vec<Bound<'_, PyAny>> = args.iter().collect();
            let mask: Vec<bool> = py
                .import("cotan._structures")?
                .call_method1("select", (wrt, names, starts, paths, values))?
                .extract()?;
            for (leaf, wanted) in leaves.iter_mut().zip(mask) {
                leaf.active &= wanted;
            }
        }
        let active = (leaves.iter().enumerate())
            .filter(|(_, l)| l.active)
            .map(|(i, l)| (i, recording.leaf(&l.array)))
            .collect();
        let borrowed = (leaves.iter().enumerate())
            .filter_map(|(i, l)| Some((i, fingerprint(l.array.value()?)?)))
            .collect();
        Ok(Inputs {
            trees,
            leaves,
            active,
            is_derived: !all_constants,
            borrowed,
        })
    }

    /// Calls the function.
    fn call<'py>(&self, f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = f.py();
        let mut objects = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            objects.push(wrap(py, leaf.array.clone(), rank_of(leaf.kind))?);
        }
        for (i, array) in &self.active {
            objects[*i] = wrap(py, array.clone(), rank_of(self.leaves[*i].kind))?;
        }
        let args: Vec<Bound<'py, PyAny>> = self
            .trees
            .iter()
            .map(|t| t.build(py, &objects))
            .collect::<PyResult<_>>()?;
        let args = PyTuple::new(py, args)?;
        let result = {
            let _nested = Nested::enter();
            let frame = Frame::enter();
            let result = f.call1(args)?;
            if self.is_derived {
                frame.run(py)?;
            }
            result
        };
        for (i, before) in &self.borrowed {
            let leaf = &self.leaves[*i];
            if leaf.array.value().and_then(fingerprint) != Some(*before) {
                return Err(PyRuntimeError::new_err(format!(
                    "an array of shape {} was written to while the function that is differentiated with \
                     respect to it ran; pass a copy of it (x.copy()), or write through the argument that \
                     the function receives",
                    cotan::aval::tuple(leaf.array.shape())
                )));
            }
        }
        Ok(result)
    }

    fn recorded(&self) -> Vec<Array> {
        self.active.iter().map(|(_, a)| a.clone()).collect()
    }

    /// Whether results are to be `Array`s because arguments were.
    fn handles(&self) -> bool {
        self.leaves
            .iter()
            .any(|l| matches!(l.kind, Kind::Handle(_)))
    }

    /// One entry for each argument: its cotangent.
    fn gradients<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        cts: &[Option<Array>],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let kinds: Vec<Kind> = self.leaves.iter().map(|l| l.kind).collect();
        let slots: Vec<usize> = self.active.iter().map(|(i, _)| *i).collect();
        let entries = gradients(py, &self.trees, &kinds, &slots, cts)?;
        natural(py, args, entries, Scope::natural(py).as_ref())
    }
}

/// Cotangents of active leaves as structures, one for each argument.
fn gradients<'py>(
    py: Python<'py>,
    trees: &[Tree],
    kinds: &[Kind],
    slots: &[usize],
    cts: &[Option<Array>],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut objects: Vec<Option<Bound<'py, PyAny>>> = vec![None; kinds.len()];
    let mut present_at = vec![false; kinds.len()];
    for (&slot, ct) in slots.iter().zip(cts) {
        present_at[slot] = ct.is_some();
        objects[slot] = match ct {
            Some(ct) => Some(present(py, ct, kinds[slot])?),
            None => None,
        };
    }
    let none = || py.None().into_bound(py);
    (trees.iter())
        .map(|tree| {
            if !tree.any(&present_at) {
                return Ok(none());
            }
            Ok(tree.tangents(py, &objects)?.unwrap_or_else(none))
        })
        .collect()
}

/// What an array of this kind would be in NumPy.
pub fn rank_of(kind: Kind) -> Rank {
    match kind {
        Kind::NdArray => Rank::Array,
        Kind::Scalar => Rank::Scalar,
        Kind::Number => Rank::Number,
        Kind::Handle(rank) => rank,
    }
}

/// What a function returned, as one real scalar.
fn scalar_output(name: &str, y: &Bound<'_, PyAny>) -> PyResult<(Array, Rank)> {
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
/// `wrt`: positions or names of arguments, paths (`"model.w"`, `"layers[*].b"`, `"**.bias"`), a
/// structure of bools, or a predicate on path and leaf.
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
) -> PyResult<Bound<'py, PyTuple>> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let inputs = Inputs::new(&recording, f, args, wrt, false)?;
    let y = inputs.call(f)?;
    let (output, _) = scalar_output("gradient", &y)?;
    drop(y);
    let leaves = inputs.recorded();
    let cts = enter(py, |interrupted| {
        let cts = array::gradient(&recording, &output, &leaves, interrupted);
        drop((output, leaves, recording));
        cts
    })?;
    PyTuple::new(py, inputs.gradients(py, args, &cts)?)
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
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let _scope = Scope::enter();
    let recording = Recording::new();
    let inputs = Inputs::new(&recording, f, args, wrt, false)?;
    let y = inputs.call(f)?;
    let (output, rank) = scalar_output("value_and_gradient", &y)?;
    drop(y);
    let leaves = inputs.recorded();
    let (value, cts) = enter(py, |interrupted| {
        let result = array::value_and_gradient(&recording, &output, &leaves, interrupted);
        drop((output, leaves, recording));
        result
    })?;
    let value = presented(py, &value, rank, inputs.handles())?;
    Ok((value, PyTuple::new(py, inputs.gradients(py, args, &cts)?)?))
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
    let inputs = Inputs::new(&recording, f, args, wrt, false)?;
    let y = inputs.call(f)?;
    let mut results = Flattener::new(Borrow::Copy, false, false);
    let tree = results.flatten(&y, Position::Direct, true, "")?;
    drop(y);
    let kinds: Vec<Kind> = results.leaves.iter().map(|l| l.kind).collect();
    let outputs: Vec<Array> = results.leaves.into_iter().map(|l| l.array).collect();
    let leaves = inputs.recorded();
    let (outs, back) = enter(py, |interrupted| {
        let outs: Vec<&Array> = outputs.iter().collect();
        let result = Pullback::new(&recording, &outs, &leaves, interrupted);
        drop((outputs, leaves, recording));
        result
    })?;
    let handles = inputs.handles();
    let mut objects = Vec::with_capacity(outs.len());
    for (out, kind) in outs.iter().zip(kinds) {
        objects.push(match kind {
            Kind::Handle(rank) => presented(py, out, rank, handles)?,
            other => present(py, out, other)?,
        });
    }
    let y = tree.build(py, &objects)?;
    let back = PyPullback {
        back,
        results: tree,
        avals: outs.iter().map(|o| o.aval().clone()).collect(),
        slots: inputs.active.iter().map(|(i, _)| *i).collect(),
        kinds: inputs
            .leaves
            .iter()
            .map(|l| Kind::Handle(rank_of(l.kind)))
            .collect(),
        trees: std::sync::Arc::new(inputs.trees),
        bare: None,
        natural: Scope::natural(py),
    };
    Ok((y, back))
}

/// The linear map from cotangents of a function's value to cotangents of its arguments.
#[pyclass(frozen, name = "Pullback", module = "cotan")]
pub struct PyPullback {
    back: Pullback,
    results: Tree,
    avals: Vec<cotan::Aval>,
    trees: std::sync::Arc<Vec<Tree>>,
    kinds: Vec<Kind>,
    slots: Vec<usize>,
    /// Narrowed to this argument: its cotangent comes alone, without a tuple.
    bare: Option<usize>,
    /// Classes whose instances are their own cotangents, see [`natural`].
    natural: Option<Py<PyTuple>>,
}

impl PyPullback {
    /// Cotangents of the results, in the order of their leaves.
    fn cotangents(&self, dy: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Array>>> {
        let mut out = vec![None; self.avals.len()];
        self.fill(&self.results, dy, &mut out)?;
        Ok(out)
    }

    fn fill(&self, tree: &Tree, dy: &Bound<'_, PyAny>, out: &mut [Option<Array>]) -> PyResult<()> {
        if dy.is_none() {
            return Ok(());
        }
        match tree {
            Tree::Leaf(i) => {
                let aval = &self.avals[*i];
                let operand = Operand::expect("cotangent", dy)?;
                if operand.dtype().is_complex() && !aval.dtype.is_complex() {
                    return Err(PyTypeError::new_err(format!(
                        "cotangent: the value is of dtype {}, so its cotangent is real, not complex",
                        aval.dtype.numpy_name()
                    )));
                }
                let ct = operand.array()?;
                if ct.shape() != aval.shape.as_slice() {
                    return Err(PyValueError::new_err(format!(
                        "cotangent: the value has shape {}, so its cotangent must have it too, not {}",
                        cotan::aval::tuple(&aval.shape),
                        cotan::aval::tuple(ct.shape())
                    )));
                }
                if aval.dtype.is_inexact() {
                    out[*i] = Some(ct.cast(aval.dtype).or_raise()?);
                }
            }
            Tree::Static(_) => {}
            Tree::Tuple(_, items) | Tree::List(items) => {
                let given: Vec<Bound<'_, PyAny>> = dy.try_iter()?.collect::<PyResult<_>>()?;
                if given.len() != items.len() {
                    return Err(PyValueError::new_err(format!(
                        "cotangent: the value has {} entries, {} given",
                        items.len(),
                        given.len()
                    )));
                }
                for (item, dy) in items.iter().zip(&given) {
                    self.fill(item, dy, out)?;
                }
            }
            Tree::Dict(items) => {
                for (key, item) in items {
                    let dy = dy.call_method1("get", (key,))?;
                    self.fill(item, &dy, out)?;
                }
            }
            Tree::Object(_, items) => {
                for (name, item) in items {
                    if let Some(dy) = dy.getattr_opt(name.bind(dy.py()))? {
                        self.fill(item, &dy, out)?;
                    }
                }
            }
        }
        Ok(())
    }
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
        let mut entries = gradients(py, &self.trees, &self.kinds, &self.slots, &cts)?;
        if self.natural.is_some() {
            // Only what is an object itself is remembered.
            let originals = self.trees.iter().map(|tree| match tree {
                Tree::Object(object, _) => object.bind(py).clone(),
                _ => py.None().into_bound(py),
            });
            let originals = PyTuple::new(py, originals.collect::<Vec<_>>())?;
            entries = natural(py, &originals, entries, self.natural.as_ref())?;
        }
        match self.bare {
            Some(i) => Ok(entries.swap_remove(i)),
            None => Ok(PyTuple::new(py, entries)?.into_any()),
        }
    }

    /// The pullback with respect to some arguments only; what only the others need is let go. For one
    /// position the result gives its bare cotangent, for a tuple of positions a tuple.
    fn wrt(&self, py: Python<'_>, arguments: &Bound<'_, PyAny>) -> PyResult<PyPullback> {
        let bare = arguments.is_instance_of::<PyInt>();
        let positions: Vec<usize> = if bare {
            vec![arguments.extract()?]
        } else {
            arguments.extract()?
        };
        if let Some(p) = positions.iter().find(|&&p| p >= self.trees.len()) {
            return Err(PyValueError::new_err(format!(
                "wrt: there is no argument {p}; the function has {}",
                self.trees.len()
            )));
        }
        let mut wanted = vec![false; self.kinds.len()];
        for &p in &positions {
            self.trees[p].mark(&mut wanted);
        }
        let leaves: Vec<bool> = self.slots.iter().map(|&s| wanted[s]).collect();
        Ok(PyPullback {
            back: self.back.wrt(&leaves),
            results: self.results.clone_ref(py),
            avals: self.avals.clone(),
            trees: std::sync::Arc::clone(&self.trees),
            kinds: self.kinds.clone(),
            slots: self.slots.clone(),
            natural: self.natural.as_ref().map(|n| n.clone_ref(py)),
            bare: if bare {
                positions.first().copied()
            } else {
                None
            },
        })
    }

    /// Bytes of the values that it keeps.
    #[getter]
    fn nbytes(&self) -> usize {
        self.back.nbytes()
    }

    /// The program that it applies.
    #[getter]
    fn program(&self) -> PyProgram {
        PyProgram::new(self.back.program().clone(), Vec::new())
    }

    fn __repr__(&self) -> String {
        format!(
            "<Pullback: {} equations, keeps {} bytes>",
            self.back.program().eqns().len(),
            self.back.nbytes()
        )
    }
}

/// The program of a function: recorded on arguments like these, without computing anything.
///
/// Arguments are as for `gradient`. Control flow takes the way that it takes for these values. What the
/// function closes over becomes an input whose value the program remembers.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> print(ct.trace(lambda x: np.sum(np.exp(x)), np.ones(3)))
/// program(%0 "x": f64[3]) {
///   %1: f64[3] = exp(%0)
///   %2: f64[] = sum[axes=(0,)](%1)
///   return %2
/// }
/// <BLANKLINE>
#[pyfunction]
#[pyo3(signature = (f, /, *args))]
pub fn trace<'py>(
    py: Python<'py>,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<PyProgram> {
    let recording = Recording::new();
    let everything = pyo3::types::PyString::new(py, "**").into_any();
    let inputs = Inputs::new(&recording, f, args, Some(&everything), true)?;
    let y = inputs.call(f)?;
    let mut results = Flattener::new(Borrow::Copy, false, false);
    results.flatten(&y, Position::Direct, true, "")?;
    let outputs: Vec<Array> = results.leaves.into_iter().map(|l| l.array).collect();
    let outs: Vec<&Array> = outputs.iter().collect();
    let leaves = inputs.recorded();
    let (program, constants) = array::trace(&recording, &outs, &leaves).or_raise()?;
    let names = inputs
        .active
        .iter()
        .map(|(i, _)| inputs.leaves[*i].path.clone());
    Ok(PyProgram::named(program, constants, names))
}

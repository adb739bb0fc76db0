//! What a function is differentiated with respect to: its arguments, taken apart, or arrays that it
//! uses.

use std::cell::RefCell;

use cotan::{Array, Recording};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFunction, PyString, PyTuple};

use crate::array::captured_leaves::Binding;
use crate::array::cell::{PyArray, Rank, wrap};
use crate::array::escapes::DROPS;
use crate::ndarray::memory::{Borrow, fingerprint};
use crate::runtime::error::step;
use crate::runtime::once_cell::intern;
use crate::runtime::swallowed_errors;
use crate::transforms::checkpoint::{Frame, run_again};
use crate::transforms::gradient::Nested;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::natural_cotangent::{HandOut, Scope};
use crate::tree::treedef::{Kind, Leaf, Tree, hand_over};
use crate::tree::zip::{Align, Reading};

/// Arguments taken apart, with a leaf of the recording in place of each active one.
pub struct Inputs {
    pub trees: Vec<Tree>,
    pub leaves: Vec<Leaf>,
    /// For each active leaf its number among all, and the recording's leaf.
    pub active: Vec<(usize, Array)>,
    /// Whether what is recorded will be differentiated.
    is_derived: bool,
    /// Whether what runs counts as being differentiated.
    counts: bool,
    /// Fingerprints of the leaves whose memory is borrowed.
    borrowed: Vec<(usize, u64)>,
    /// Where the names of the arguments come from.
    pub names: Names,
    /// The arrays that stand in place of arguments.
    pub arrays: Option<Vec<Py<PyArray>>>,
    /// The leaves that the function wrote to when it was called.
    pub written: RefCell<Vec<usize>>,
}

/// Names of arguments. They are looked up only when somebody asks: a signature costs more than a small
/// gradient.
pub enum Names {
    Known(Vec<String>),
    /// Those of the parameters of a piece of code.
    Code(Py<PyAny>),
}

impl Names {
    /// Names for so many arguments.
    pub fn get(&self, py: Python<'_>, count: usize) -> PyResult<Vec<String>> {
        match self {
            Names::Known(names) => Ok(names.clone()),
            Names::Code(code) => py
                .import("cotan._src.tree.selection")?
                .call_method1("code_names", (code, count))?
                .extract(),
        }
    }

    /// Another reference to the same.
    pub fn clone_ref(&self, py: Python<'_>) -> Names {
        match self {
            Names::Known(names) => Names::Known(names.clone()),
            Names::Code(code) => Names::Code(code.clone_ref(py)),
        }
    }
}

/// Names of the arguments of a call.
pub fn argument_names(f: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<String>> {
    f.py()
        .import("cotan._src.tree.selection")?
        .call_method1("argument_names", (f, count))?
        .extract()
}

impl Inputs {
    /// Takes the arguments apart. With `traced`, arrays of all dtypes are recorded, and what is met is kept,
    /// not borrowed.
    pub fn new(
        recording: &Recording,
        f: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        wrt: Option<&Bound<'_, PyAny>>,
        traced: bool,
    ) -> PyResult<Inputs> {
        if !f.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "the first argument must be callable, the function to differentiate, not {}",
                f.get_type()
            )));
        }
        let wrt = wrt.filter(|w| !w.is_none());
        if let Some(wrt) = wrt
            && args.is_empty()
        {
            return Inputs::implicit(recording, wrt);
        }
        let names = if traced || wrt.is_some() {
            Some(argument_names(f, args.len())?)
        } else {
            None
        };
        let borrow = if traced { Borrow::Copy } else { Borrow::Call };
        let mut flattener = Flattener::new(borrow, names.is_some(), names.is_none());
        let mut trees = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            let path = names.as_ref().map_or("", |n| n[i].as_str());
            let tree = flattener.flatten(&arg, Position::Direct, true, path);
            trees.push(match (tree, &names) {
                (Ok(tree), _) => tree,
                (Err(error), Some(_)) => return Err(error),
                (Err(error), None) if flattener.stopped => return Err(error),
                // Once more, for an error that knows the names.
                (Err(_), None) => {
                    let names = argument_names(f, args.len())?;
                    flattener.flatten(&arg, Position::Direct, true, &names[i])?
                }
            });
        }
        let mut leaves = flattener.leaves;
        if let (Some(wrt), Some(names)) = (wrt, &names) {
            let able: Vec<bool> = leaves.iter().map(|l| l.active).collect();
            let paths: Vec<&str> = leaves.iter().map(|l| l.path.as_str()).collect();
            let objects: Vec<&Py<PyAny>> = leaves.iter().map(|l| &l.object).collect();
            let mask = selected(wrt, names, &trees, &paths, &objects, &able)?;
            for (leaf, wanted) in leaves.iter_mut().zip(mask) {
                leaf.active &= wanted;
            }
        }
        if traced {
            for leaf in &mut leaves {
                leaf.active = !leaf.held;
            }
        }
        let active = (leaves.iter().enumerate())
            .filter(|(_, l)| l.active)
            .map(|(i, l)| step(f.py()).map(|()| (i, recording.leaf(&l.array))))
            .collect::<PyResult<_>>()?;
        let borrowed = (leaves.iter().enumerate())
            .filter_map(|(i, l)| Some((i, fingerprint(l.array.value()?)?)))
            .collect();
        let names = match names {
            Some(names) => Names::Known(names),
            None => Names::Known(Vec::new()),
        };
        Ok(Inputs {
            trees,
            leaves,
            active,
            is_derived: !traced,
            counts: true,
            borrowed,
            names,
            arrays: None,
            written: RefCell::default(),
        })
    }

    /// Another reference to the same.
    pub fn clone_ref(&self, py: Python<'_>) -> Inputs {
        let arrays = self.arrays.as_ref();
        Inputs {
            trees: self.trees.iter().map(|t| t.clone_ref(py)).collect(),
            leaves: self.leaves.iter().map(|l| l.clone_ref(py)).collect(),
            active: self.active.clone(),
            is_derived: self.is_derived,
            counts: self.counts,
            borrowed: self.borrowed.clone(),
            names: self.names.clone_ref(py),
            arrays: arrays.map(|all| all.iter().map(|a| a.clone_ref(py)).collect()),
            written: RefCell::default(),
        }
    }

    /// Arrays that a function without arguments uses.
    fn implicit(recording: &Recording, wrt: &Bound<'_, PyAny>) -> PyResult<Inputs> {
        let listed = wrt
            .py()
            .import("cotan._src.tree.selection")?
            .call_method1("listed_arrays", (wrt,))?;
        let arrays: Vec<Bound<'_, PyArray>> = listed.extract()?;
        let mut leaves = Vec::with_capacity(arrays.len());
        for handle in &arrays {
            if handle.get().is_view() {
                return Err(PyTypeError::new_err(
                    "wrt: one of the arrays is a view; list the array that it is a view of, or use a copy \
                     of it in its place (x.copy())",
                ));
            }
            let array = handle.get().read()?;
            leaves.push(Leaf {
                active: array.dtype().is_inexact(),
                held: false,
                array,
                kind: Kind::Handle(handle.get().rank()),
                path: String::new(),
                object: handle.clone().into_any().unbind(),
            });
        }
        let active = (leaves.iter().enumerate())
            .filter(|(_, l)| l.active)
            .map(|(i, l)| (i, recording.leaf(&l.array)))
            .collect();
        Ok(Inputs {
            trees: (0..leaves.len()).map(Tree::Leaf).collect(),
            leaves,
            active,
            is_derived: true,
            counts: true,
            borrowed: Vec::new(),
            names: Names::Known(Vec::new()),
            arrays: Some(arrays.into_iter().map(Bound::unbind).collect()),
            written: RefCell::default(),
        })
    }

    /// Calls the function.
    pub fn call<'py>(&self, f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = f.py();
        if let Some(arrays) = &self.arrays {
            let pairs = self.active.iter().map(|(i, a)| (&arrays[*i], a.clone()));
            let _binding = Binding::new(py, pairs);
            return self.run(f, &PyTuple::empty(py));
        }
        let mut objects = Vec::with_capacity(self.leaves.len());
        let mut active = self.active.iter().peekable();
        for (i, leaf) in self.leaves.iter().enumerate() {
            step(py)?;
            objects.push(match (active.next_if(|(at, _)| *at == i), leaf.kind) {
                (Some((_, array)), kind) => wrap(py, array.clone(), rank_of(kind))?,
                // A number that is held constant is handed on as it is.
                (None, Kind::Number | Kind::Scalar) => leaf.object.bind(py).clone(),
                (None, kind) => wrap(py, leaf.array.clone(), rank_of(kind))?,
            });
        }
        let args: Vec<Bound<'py, PyAny>> = self
            .trees
            .iter()
            .map(|t| t.build(py, &objects))
            .collect::<PyResult<_>>()?;
        let args = PyTuple::new(py, args)?;
        let result = self.run(f, &args)?;
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
        let written = self.written_to(&objects)?;
        refuse_shared(py, &self.leaves, &written)?;
        *self.written.borrow_mut() = written;
        Ok(result)
    }

    /// The leaves that the function wrote to through the objects that stood for them.
    fn written_to(&self, objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<usize>> {
        let mut active = self.active.iter().peekable();
        let mut written = Vec::new();
        for (i, (leaf, object)) in self.leaves.iter().zip(objects).enumerate() {
            let recorded = active.next_if(|(at, _)| *at == i).map(|(_, a)| a);
            if rank_of(leaf.kind) == Rank::Array
                && let Ok(handle) = object.cast_exact::<PyArray>()
                && handle.get().read()?.id() != recorded.unwrap_or(&leaf.array).id()
            {
                written.push(i);
            }
        }
        Ok(written)
    }

    /// Calls the function, and again what a checkpoint has to run again.
    fn run<'py>(
        &self,
        f: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _nested = Nested::enter(f, self.counts)?;
        let _frame = Frame::enter();
        let stand_in;
        let f = if f.is_exact_instance_of::<PyCFunction>() || is_of_scipy(f) {
            stand_in = f
                .py()
                .import("cotan._src.interpose.install")?
                .call_method1("standing_in", (f,))?;
            &stand_in
        } else {
            f
        };
        let run = || f.call1(args).map_err(|e| own_refusal(f.py(), e));
        let result = swallowed_errors::watched(f.py(), run)?;
        if self.is_derived {
            run_again(f.py())?;
        }
        Ok(result)
    }

    /// Puts a leaf of an outer recording below each leaf but for numbers that are held constant; gives
    /// these leaves. Without an inner recording nothing is differentiated.
    pub fn hold(&mut self, outer: &Recording, inner: Option<&Recording>) -> Vec<Option<Array>> {
        let mut held = Vec::with_capacity(self.leaves.len());
        for leaf in &mut self.leaves {
            let is_fixed = !leaf.active && matches!(leaf.kind, Kind::Number | Kind::Scalar);
            held.push((!is_fixed).then(|| outer.leaf(&leaf.array)));
            if let Some(Some(array)) = held.last() {
                leaf.array = array.clone();
            }
        }
        for (i, array) in &mut self.active {
            let source = &self.leaves[*i].array;
            *array = inner.map_or_else(|| source.clone(), |inner| inner.leaf(source));
        }
        self.is_derived = inner.is_some();
        self.counts = inner.is_some();
        held
    }

    /// The leaves of the recording.
    pub fn recorded(&self) -> Vec<Array> {
        self.active.iter().map(|(_, a)| a.clone()).collect()
    }

    /// Whether results are to be `Array`s because arguments were.
    pub fn handles(&self) -> bool {
        self.leaves
            .iter()
            .any(|l| matches!(l.kind, Kind::Handle(_)))
    }

    /// A tuple with one entry for each argument, its cotangent; a mapping for arrays.
    pub fn gradients<'py>(
        &self,
        py: Python<'py>,
        cts: Vec<Option<Array>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kinds: Vec<Kind> = self.leaves.iter().map(|l| l.kind).collect();
        let slots: Vec<usize> = self.active.iter().map(|(i, _)| *i).collect();
        let _natural = HandOut::new(Scope::natural(py));
        let asked = vec![true; slots.len()];
        let entries = gradients(py, &self.trees, &kinds, &slots, &asked, cts)?;
        handed_out(py, entries, self.arrays.as_deref())
    }

    /// Remembers where the names of the arguments of `f` can be found later, without keeping alive
    /// what it closes over.
    pub fn remember_names(&mut self, f: &Bound<'_, PyAny>) -> PyResult<()> {
        if !matches!(&self.names, Names::Known(names) if names.is_empty()) {
            return Ok(());
        }
        let plain = f.is_exact_instance_of::<PyFunction>()
            && crate::ndarray::memory::instance_dict(f)?.is_empty();
        self.names = if plain {
            Names::Code(f.getattr(intern!(f.py(), "__code__"))?.unbind())
        } else {
            Names::Known(argument_names(f, self.trees.len())?)
        };
        Ok(())
    }
}

/// Refuses arguments that share memory with one that the function writes to: they are told apart while
/// it runs.
pub fn refuse_shared(py: Python<'_>, leaves: &[Leaf], written: &[usize]) -> PyResult<()> {
    for &i in written {
        for (j, other) in leaves.iter().enumerate() {
            let leaf = &leaves[i];
            if i != j
                && rank_of(other.kind) == Rank::Array
                && shares_memory(py, &leaf.object, &other.object)?
            {
                return Err(PyValueError::new_err(format!(
                    "the function writes to an argument of shape {}, which shares memory with another argument, \
                     of shape {}; pass a copy of one of them (x.copy()), or write to a copy",
                    cotan::aval::tuple(leaf.array.shape()),
                    cotan::aval::tuple(other.array.shape())
                )));
            }
        }
    }
    Ok(())
}

/// Whether two arrays have elements in common, as far as that can be found out quickly.
fn shares_memory(py: Python<'_>, a: &Py<PyAny>, b: &Py<PyAny>) -> PyResult<bool> {
    if a.is(b) {
        return Ok(true);
    }
    // Work that is bounded; NumPy raises an error where it is not enough.
    let args = (a, b, 10_000);
    match py.import("numpy")?.call_method1("shares_memory", args) {
        Ok(shares) => shares.extract(),
        Err(_) => Ok(true),
    }
}

/// NumPy hides that an element cannot be stored behind an error about sequences: the reason is what
/// helps.
fn own_refusal(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyValueError>(py)
        && let Some(cause) = error.cause(py)
        && cause.is_instance_of::<PyTypeError>(py)
        && cause.to_string().contains(DROPS)
    {
        cause.set_traceback(py, error.traceback(py));
        return cause;
    }
    // What is said is no reason to lose the error.
    let hints = py.import("cotan._src.interpose.error_hints");
    let _ = hints.and_then(|h| h.call_method1("explain", (error.value(py), error.traceback(py))));
    error
}

/// Cotangents as `gradient` gives them: a tuple, or a mapping from arrays.
pub fn handed_out<'py>(
    py: Python<'py>,
    entries: Vec<Bound<'py, PyAny>>,
    arrays: Option<&[Py<PyArray>]>,
) -> PyResult<Bound<'py, PyAny>> {
    match arrays {
        None => Ok(PyTuple::new(py, entries)?.into_any()),
        Some(arrays) => {
            let arrays: Vec<&Py<PyArray>> = arrays.iter().collect();
            py.import("cotan._src.tree.tangent")?
                .call_method1("Gradients", (arrays, entries))
        }
    }
}

/// Cotangents of active leaves (`slots`) as structures, one for each argument; `asked` says which of them
/// are still asked for. Computed arrays are given up: their memory goes to what is returned.
pub fn gradients<'py>(
    py: Python<'py>,
    trees: &[Tree],
    kinds: &[Kind],
    slots: &[usize],
    asked: &[bool],
    cts: Vec<Option<Array>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut objects: Vec<Option<Bound<'py, PyAny>>> = vec![None; kinds.len()];
    let mut asked_at = vec![false; kinds.len()];
    for ((&slot, ct), &asked) in slots.iter().zip(cts).zip(asked) {
        step(py)?;
        asked_at[slot] = asked;
        objects[slot] = match ct {
            Some(ct) => Some(hand_over(py, ct, kinds[slot])?),
            None => None,
        };
    }
    assembled(py, trees, &objects, &asked_at)
}

/// Structures of cotangents, one for each argument: `None` for one without any.
pub fn assembled<'py>(
    py: Python<'py>,
    trees: &[Tree],
    objects: &[Option<Bound<'py, PyAny>>],
    asked: &[bool],
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let present: Vec<bool> = objects.iter().map(Option::is_some).collect();
    let none = || py.None().into_bound(py);
    (trees.iter())
        .map(|tree| {
            if !tree.any(&present) {
                return Ok(none());
            }
            Ok(tree.gradients(py, objects, asked)?.unwrap_or_else(none))
        })
        .collect()
}

/// For every leaf, whether `wrt` asks for it. `able` says which of them can have a cotangent.
pub fn selected(
    wrt: &Bound<'_, PyAny>,
    names: &[String],
    trees: &[Tree],
    paths: &[&str],
    objects: &[&Py<PyAny>],
    able: &[bool],
) -> PyResult<Vec<bool>> {
    let py = wrt.py();
    let mut owner = vec![0usize; able.len()];
    for (i, tree) in trees.iter().enumerate() {
        let mut below = vec![false; able.len()];
        tree.mark(&mut below);
        for (slot, _) in owner.iter_mut().zip(below).filter(|(_, b)| *b) {
            *slot = i;
        }
    }
    let told = py
        .import("cotan._src.tree.selection")?
        .call_method1("select", (wrt, names, owner, paths, objects, able))?;
    let (mask, structures): (Option<Vec<bool>>, Option<Vec<Bound<'_, PyAny>>>) = told.extract()?;
    if let Some(mask) = mask {
        return Ok(mask);
    }
    let mut align = Align::new(py, "wrt", Reading::Mask, able.len());
    for ((tree, mask), name) in trees.iter().zip(structures.iter().flatten()).zip(names) {
        align.read(tree, mask, name)?;
    }
    align
        .done()
        .iter()
        .map(|entry| entry.as_ref().map_or(Ok(false), Bound::is_truthy))
        .collect()
}

/// Whether a function is SciPy's own: it may have a stand-in, which only who asks for the name gets.
fn is_of_scipy(f: &Bound<'_, PyAny>) -> bool {
    let module = intern!(f.py(), "__module__");
    let is_scipys = |home: Bound<'_, PyAny>| {
        let name = home
            .cast::<PyString>()
            .ok()
            .and_then(|name| name.to_str().ok());
        name.is_some_and(|name| name.starts_with("scipy."))
    };
    f.is_exact_instance_of::<PyFunction>() && f.getattr(module).is_ok_and(is_scipys)
}

/// The rank of what a leaf was.
pub fn rank_of(kind: Kind) -> Rank {
    match kind {
        Kind::NdArray => Rank::Array,
        Kind::Scalar => Rank::Scalar,
        Kind::Number => Rank::Number,
        Kind::Handle(rank) => rank,
    }
}

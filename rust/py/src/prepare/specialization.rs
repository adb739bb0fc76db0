//! Replays one recording of a prepared function.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cotan::autodiff::Constants;
use cotan::kernels::Value;
use cotan::sched::Place;
use cotan::{Array, Error, Prepared};
use numpy::PyUntypedArray;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyTuple};

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::ndarray::export::{to_ndarray, to_numpy_scalar};
use crate::ndarray::memory::{Borrow, copied, from_ndarray, same_bits, to_owned};
use crate::prepare::decisions::Decisions;
use crate::prepare::fast_args::Quick;
use crate::prepare::guards::{Spec, Watched, same_object, same_structure};
use crate::prepare::out_buffers::Buffers;
use crate::runtime::error::{ReplayMismatch, briefly, enter, to_py};
use crate::runtime::text;
use crate::transforms::pullback::PyPullback;
use crate::tree::treedef::{Kind, Leaf, Tree};

/// Runs of fewer estimated nanoseconds keep the interpreter lock.
const BRIEF: f64 = 20_000.0;

/// How results are made of the outputs of the program.
pub enum Outputs {
    /// Whether there is a value, and for each active leaf the output that is its gradient.
    Gradients(bool, Vec<Option<usize>>),
    /// A structure.
    Structure(Tree),
    /// A structure with so many leaves, and a pullback that the other outputs are the residuals of.
    Pullback(Tree, usize, Box<PyPullback>),
}

/// What follows from constants, and the constants that it follows from.
pub struct Current {
    pub keys: Vec<Value>,
    pub held: Constants,
    /// Where runs read an array that is lent, and its number among what is around the function. Nothing is held there.
    pub lent: Vec<(usize, usize)>,
}

/// What a program reads besides the leaves.
pub enum Around {
    Value(Value),
    /// A large array. The guards have just read it, so it is in the caches, and a copy would not be.
    Lent(Py<PyUntypedArray>),
}

impl Around {
    /// Its value for one run, once the guards hold.
    fn now(&self, py: Python<'_>) -> PyResult<Value> {
        match self {
            Around::Value(value) => Ok(value.clone()),
            Around::Lent(array) => from_ndarray(array.bind(py), Borrow::Call),
        }
    }
}

/// One recording.
pub struct Specialization {
    pub trees: Vec<Tree>,
    /// Whether the last argument is a dictionary of what was given by keyword.
    pub by_keyword: bool,
    pub specs: Vec<Spec>,
    /// The active leaves.
    pub slots: Vec<usize>,
    pub guards: Vec<Watched>,
    pub program: Prepared,
    /// The program's inputs behind the leaves.
    pub others: Vec<Around>,
    /// How many outputs are results; those of the decisions are behind them.
    pub results: usize,
    pub decisions: Decisions,
    /// Why the last replay that was begun gave nothing.
    pub mismatch: Mutex<Option<Mismatch>>,
    /// How often it was replayed.
    pub num_replays: AtomicU64,
    /// The decisions alone, for choosing among several recordings.
    pub choice: OnceLock<Prepared>,
    pub outputs: Outputs,
    /// What kinds of things the results are.
    pub kinds: Vec<Kind>,
    pub natural: Option<Py<PyTuple>>,
    pub current: Mutex<Option<Arc<Current>>>,
    /// The way for plain arrays and numbers as arguments.
    pub quick: Option<Quick>,
    /// The leaves that the function writes to.
    pub written: Vec<usize>,
    /// The argument that each leaf belongs to.
    pub owners: Vec<usize>,
    pub buffers: Mutex<Option<Arc<Buffers>>>,
    pub nothing: Value,
}

/// Why a replay gave nothing.
pub enum Mismatch {
    /// A decision came out otherwise: its number, and the value.
    Decision(usize, Value),
    /// A call of library code gave something else.
    Call(String),
}

/// Arguments taken apart.
pub struct Taken {
    pub trees: Vec<Tree>,
    pub leaves: Vec<Leaf>,
    /// The arrays of `wrt`, where there are no arguments.
    pub arrays: Option<Vec<Py<PyArray>>>,
    /// Whether the last one is a dictionary of what was given by keyword.
    pub by_keyword: bool,
}

impl Taken {
    /// Whether something around the call is recorded with one of them.
    pub fn goes_on(&self) -> bool {
        let is_recorded = |a: &Array| a.is_active() || cotan::tape::keeps_history(a);
        self.leaves.iter().any(|leaf| is_recorded(&leaf.array))
    }
}

/// Why a run gave nothing.
pub enum Failure {
    /// An error that depends on values.
    Value,
    /// A call of library code gave something else than when it was recorded, as this says.
    Changed(PyErr),
    /// Anything else.
    Raised(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::LinAlg(_) | Error::Index(_) | Error::Shape(_) => Failure::Value,
            other => Failure::of(to_py(other)),
        }
    }
}

impl Failure {
    fn of(error: PyErr) -> Failure {
        if Python::attach(|py| error.is_instance_of::<ReplayMismatch>(py)) {
            return Failure::Changed(error);
        }
        Failure::Raised(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::of(error)
    }
}

impl Specialization {
    /// Whether arguments are like those of the recording, and everything around it is as it was.
    pub fn fits(&self, py: Python<'_>, taken: &Taken) -> PyResult<bool> {
        let fits = self.other_numbers(py, taken)?.is_some_and(|n| n.is_empty());
        if fits {
            crate::transforms::run::refuse_shared(py, &taken.leaves, &self.written)?;
        }
        Ok(fits)
    }

    /// The leaves that are numbers, held constant, of another value than in the recording; nothing where anything else
    /// is not as it was.
    pub fn other_numbers(&self, py: Python<'_>, taken: &Taken) -> PyResult<Option<Vec<usize>>> {
        let mut others = Vec::new();
        if taken.leaves.len() != self.specs.len()
            || taken.trees.len() != self.trees.len()
            || taken.by_keyword != self.by_keyword
        {
            return Ok(None);
        }
        for (i, (leaf, spec)) in taken.leaves.iter().zip(&self.specs).enumerate() {
            if leaf.kind != spec.kind || leaf.array.aval() != &spec.aval || leaf.held != spec.held {
                return Ok(None);
            }
            match &spec.fixed {
                Some(fixed) if !same_object(leaf.object.bind(py), fixed.bind(py))? => {
                    others.push(i);
                }
                // An integer makes another dtype of what it is combined with.
                None if self.varies(i) && !leaf.object.bind(py).is_instance_of::<PyFloat>() => {
                    return Ok(None);
                }
                _ => {}
            }
        }
        for (a, b) in self.trees.iter().zip(&taken.trees) {
            if !same_structure(py, a, b)? {
                return Ok(None);
            }
        }
        for watched in &self.guards {
            if !watched.guard.holds(py)? {
                return Ok(None);
            }
        }
        Ok(Some(others))
    }

    /// Shows the garbage collector the objects that it holds.
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        (self.guards.iter()).try_for_each(|watched| watched.guard.visit(visit))?;
        for other in &self.others {
            if let Around::Lent(array) = other {
                visit.call(array)?;
            }
        }
        self.trees.iter().try_for_each(|t| t.visit(visit))?;
        (self.specs.iter().filter_map(|s| s.fixed.as_ref())).try_for_each(|f| visit.call(f))
    }

    /// The values of the program's inputs: those that are held constant, and the others.
    pub fn values(&self, py: Python<'_>, taken: &Taken) -> PyResult<(Vec<Value>, Vec<Value>)> {
        let mut split = (Vec::new(), Vec::new());
        let leaves = taken.leaves.iter().zip(&self.specs);
        let leaves = leaves.filter(|(_, s)| s.fixed.is_none());
        let mut held = self.program.is_held().iter();
        for (leaf, _) in leaves {
            let value = crate::array::escapes::compute(py, &leaf.array)?;
            if *held.next().unwrap_or(&false) {
                split.0.push(value);
            } else {
                split.1.push(value);
            }
        }
        for (other, &is_held) in self.others.iter().zip(held) {
            let value = other.now(py)?;
            if is_held {
                split.0.push(value);
            } else {
                split.1.push(value);
            }
        }
        Ok(split)
    }

    /// Whether the decisions come out as they did.
    pub fn chosen(&self, py: Python<'_>, taken: &Taken) -> PyResult<bool> {
        Ok(self.decided(py, taken)? == Some(true))
    }

    /// The same; nothing where they cannot be computed.
    pub fn decided(&self, py: Python<'_>, taken: &Taken) -> PyResult<Option<bool>> {
        if self.decisions.num_outputs() == 0 {
            return Ok(Some(true));
        }
        let choice = if let Some(choice) = self.choice.get() {
            choice
        } else {
            let first = self.results;
            let made = self
                .program
                .part(first, self.decisions.num_outputs())
                .map_err(to_py)?;
            self.choice.get_or_init(|| made)
        };
        let values: Vec<Value> = (taken.leaves.iter().zip(&self.specs))
            .filter(|(_, s)| s.fixed.is_none())
            .map(|(l, _)| crate::array::escapes::compute(py, &l.array))
            .chain(self.others.iter().map(|other| other.now(py)))
            .collect::<PyResult<_>>()?;
        let outs = work(py, choice.cost(), choice.calls_back(), |interrupted| {
            let held = choice.hold(Vec::new(), interrupted)?;
            choice.run(&held, &values, &[], interrupted)
        });
        match outs {
            Ok(outs) => Ok(Some(self.are_as_decided(&outs))),
            Err(Failure::Value) => Ok(None),
            Err(Failure::Changed(error)) => {
                self.note_mismatch(Mismatch::Call(text::message(py, &error)?));
                Ok(Some(false))
            }
            Err(Failure::Raised(error)) => Err(error),
        }
    }

    /// The results, if the decisions come out as they did.
    pub fn run(&self, py: Python<'_>, taken: &Taken) -> Result<Option<Vec<Value>>, Failure> {
        let (held, inputs) = self.values(py, taken)?;
        let current = self.current(py, held)?;
        let held = with_lent(&current, self.lent_now(py, &current)?);
        let outs = work(
            py,
            self.program.cost(),
            self.program.calls_back(),
            |interrupted| (self.program).run(&held, &inputs, &[], interrupted),
        );
        if let Err(Failure::Changed(error)) = &outs {
            self.note_mismatch(Mismatch::Call(text::message(py, error)?));
        }
        let outs = outs?;
        Ok(self.agrees(&outs).then_some(outs))
    }

    fn note_mismatch(&self, mismatch: Mismatch) {
        let old = (self.mismatch.lock().unwrap_or_else(PoisonError::into_inner)).replace(mismatch);
        drop(old);
    }

    /// Whether the decisions among the outputs are those of the recording.
    pub fn agrees(&self, outs: &[Value]) -> bool {
        self.are_as_decided(&outs[self.results..])
    }

    /// The same for the decisions alone.
    fn are_as_decided(&self, outputs: &[Value]) -> bool {
        let Some((at, value)) = self.decisions.first_difference(outputs) else {
            return true;
        };
        if let Ok(value) = to_owned(value) {
            self.note_mismatch(Mismatch::Decision(at, value));
        }
        false
    }

    /// What followed from constants in the last call.
    pub fn last(&self) -> Option<Arc<Current>> {
        (self.current.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What follows from constants: of the last call, if they are the same.
    pub fn current(&self, py: Python<'_>, held: Vec<Value>) -> Result<Arc<Current>, Failure> {
        let leaves = self.held_leaves();
        let is_lent = |i: usize| i >= leaves && self.is_lent(i - leaves);
        if let Some(last) = self.last() {
            let mut are_same = true;
            for (i, (a, b)) in last.keys.iter().zip(&held).enumerate() {
                // The guards have compared what is lent.
                are_same = are_same && (is_lent(i) || same_constant(py, a, b)?);
            }
            if are_same {
                return Ok(last);
            }
        }
        let key = |value: &Value| {
            if value.storage().is_foreign() {
                copied(py, value)
            } else {
                to_owned(value.clone())
            }
        };
        let mut keys = held.iter().map(key).collect::<PyResult<Vec<_>>>()?;
        let mut held = enter(py, |interrupted| {
            self.program.hold(keys.clone(), interrupted)
        })?;
        let mut lent = Vec::new();
        for (i, key) in keys.iter_mut().enumerate() {
            if is_lent(i) {
                lent.extend(held.places_of(key).map(|at| (at, i - leaves)));
                *key = self.nothing.clone();
            }
        }
        held = held.with(lent.iter().map(|&(at, _)| (at, self.nothing.clone())));
        let current = Arc::new(Current { keys, held, lent });
        let old = (self.current.lock().unwrap_or_else(PoisonError::into_inner))
            .replace(Arc::clone(&current));
        drop(old);
        Ok(current)
    }
}

impl Specialization {
    /// How many leaves are among the inputs that are held constant; behind them is what is around the function.
    fn held_leaves(&self) -> usize {
        let is_held = self.program.is_held();
        let leaves = is_held.len() - self.others.len();
        is_held[..leaves].iter().filter(|&&h| h).count()
    }

    /// Whether what is around the function, by its number, is an array that is lent.
    fn is_lent(&self, number: usize) -> bool {
        matches!(self.others.get(number), Some(Around::Lent(_)))
    }

    /// The arrays that are lent for one run, once the guards hold, and where the run reads them.
    pub fn lent_now(&self, py: Python<'_>, current: &Current) -> PyResult<Vec<(usize, Value)>> {
        (current.lent.iter())
            .map(|&(at, number)| Ok((at, self.others[number].now(py)?)))
            .collect()
    }
}

/// What follows from constants, with what is lent for one run.
pub fn with_lent(current: &Current, lent: Vec<(usize, Value)>) -> Cow<'_, Constants> {
    if lent.is_empty() {
        return Cow::Borrowed(&current.held);
    }
    Cow::Owned(current.held.with(lent))
}

/// Whether two values are the same constant: the same memory of cotan's, which nobody writes to, or equal bit
/// by bit.
fn same_constant(py: Python<'_>, a: &Value, b: &Value) -> PyResult<bool> {
    if Place::of(a) != Place::of(b) {
        return Ok(false);
    }
    let is_one = a.address() == b.address()
        && a.aval() == b.aval()
        && a.strides() == b.strides()
        && !a.storage().is_foreign();
    let are_here = || a.bring_here().is_ok() && b.bring_here().is_ok();
    Ok(is_one || are_here() && same_bits(py, a, b)?)
}

/// Computes something: with the interpreter lock released if that takes long.
pub fn work<T: Send>(
    py: Python<'_>,
    cost: f64,
    calls_back: bool,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> cotan::Result<T> + Send,
) -> Result<T, Failure> {
    let mut failed = None;
    let noted = |interrupted: &mut dyn FnMut() -> bool| {
        work(interrupted).map_err(|error| {
            failed = Some(matches!(
                error,
                Error::LinAlg(_) | Error::Index(_) | Error::Shape(_)
            ));
            error
        })
    };
    let outcome = if cost < BRIEF && !calls_back {
        briefly(noted)
    } else {
        enter(py, noted)
    };
    outcome.map_err(|error| match failed {
        Some(true) => Failure::Value,
        _ => Failure::of(error),
    })
}

/// What a leaf of a result is.
pub fn plain(scalar_kind: ScalarKind, as_arrays: bool) -> Kind {
    match scalar_kind {
        _ if as_arrays => Kind::Array(scalar_kind),
        ScalarKind::Array => Kind::NdArray,
        ScalarKind::NumpyScalar => Kind::Scalar,
        ScalarKind::PythonNumber => Kind::Number,
    }
}

/// A value as an object of its kind.
pub fn handed(py: Python<'_>, value: Value, kind: Kind) -> PyResult<Bound<'_, PyAny>> {
    match kind {
        Kind::Array(scalar_kind) => wrap(py, Array::constant(to_owned(value)?), scalar_kind),
        Kind::NdArray => to_ndarray(py, value),
        Kind::Scalar => to_numpy_scalar(py, &value),
        Kind::Number => to_numpy_scalar(py, &value)?.call_method0("item"),
    }
}

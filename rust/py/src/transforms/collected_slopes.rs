//! Collects the derivatives that the rule of a solver has found, in the place of recording them.
//!
//! Problem: a replay calls a solver again. The rule of the solver computes the solution, and its derivatives with respect
//! to the recorded arrays, as numbers. To record a result with these derivatives, and to differentiate the record, takes
//! longer than many a solver; the replay has a program that does the rest, and needs the numbers alone.

use std::cell::RefCell;

use cotan::{Array, Recording, tape};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::escapes::{Suspended, is_on};
use crate::array::host_inputs::Access;
use crate::array::operand::Operand;
use crate::runtime::exports::exports;
use crate::runtime::recording_state::{is_tracing, nestlevel, outside};
use crate::transforms::run::Nested;

exports!(
    collect_slopes,
    collected_numbers,
    is_collecting,
    note_slopes,
    was_recorded
);

/// What a result counts for that has a solver behind it: a replay of a function with one gains as much as one that makes
/// so many arrays.
const WORTH: u64 = 16;

/// A result, the numbers of the leaves that it depends on, and what was noted of it.
type Noted = (Py<PyAny>, Vec<usize>, Py<PyAny>);

/// A call whose slopes are collected.
struct Level {
    recording: Recording,
    /// For each value that the call was given, the leaf that stands for it; behind them, those that were noted.
    leaves: Vec<Option<Array>>,
    noted: Vec<Noted>,
}

impl Level {
    /// The numbers of leaves with these identities; `None` where one is no leaf.
    fn numbers(&self, identities: &[u64]) -> Option<Vec<usize>> {
        let number_of = |id: &u64| {
            let is_it = |leaf: &Option<Array>| leaf.as_ref().is_some_and(|l| l.id() == *id);
            self.leaves.iter().position(is_it)
        };
        identities.iter().map(number_of).collect()
    }
}

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

/// Collects in this thread, until it ends.
struct Collecting(bool);

impl Collecting {
    fn begin(recording: Recording, leaves: Vec<Option<Array>>) -> Collecting {
        let level = Level {
            recording,
            leaves,
            noted: Vec::new(),
        };
        LEVELS.with_borrow_mut(|levels| levels.push(level));
        Collecting(true)
    }

    fn finish(mut self) -> Vec<Noted> {
        self.0 = false;
        let level = LEVELS.with_borrow_mut(Vec::pop);
        level.map(|level| level.noted).unwrap_or_default()
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        if self.0 {
            let level = LEVELS.with_borrow_mut(Vec::pop);
            drop(level);
        }
    }
}

/// Calls a function that reads these values in the place of recorded arrays, the chosen ones as arrays that are
/// differentiated. Gives its result; for each part of it whose derivatives were collected that part, the numbers of the
/// arrays that it depends on, and what `note_slopes` was given; and whether the function has read no other arrays. The rule of
/// a solver is called as in a recording of its own; for other functions nothing is recorded, and nothing overridden.
#[pyfunction]
#[pyo3(signature = (
    function: "Function",
    args: "tuple[object, ...]",
    kwargs: "dict[str, object]",
    tags: "tuple[int, int]",
    nodes: "Sequence[Array]",
    values: "Sequence[Array]",
    chosen: "Sequence[bool]",
    is_rule: "bool"
) -> "tuple[Any, list[tuple[Array, list[int], Any]], bool]")]
#[allow(clippy::too_many_arguments)]
pub fn collect_slopes<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    tags: (u64, u64),
    nodes: Vec<PyRef<'py, PyArray>>,
    values: Vec<PyRef<'py, PyArray>>,
    chosen: Vec<bool>,
    is_rule: bool,
) -> PyResult<(Bound<'py, PyAny>, Vec<Noted>, bool)> {
    let recording = Recording::new();
    let mut pairs = Vec::with_capacity(nodes.len());
    let mut leaves = Vec::with_capacity(nodes.len());
    for ((node, value), is_chosen) in nodes.iter().zip(&values).zip(chosen) {
        let value = value.read()?;
        let leaf = is_chosen.then(|| recording.leaf(&value));
        let node = node.cell().array.clone();
        pairs.push((node, leaf.clone().unwrap_or(value)));
        leaves.push(leaf);
    }
    let suspended = is_on().then(Suspended::begin);
    let access = Access::replace(tags, pairs);
    let (result, noted) = outside(function.py(), || {
        let _nested = (is_rule.then(|| Nested::enter(function.py(), true))).transpose()?;
        let collecting = Collecting::begin(recording, leaves);
        let result = function.call(args, Some(kwargs))?;
        Ok((result, collecting.finish()))
    })?;
    let reads = access.finish();
    drop(suspended);
    Ok((result, noted, !reads.has_failed))
}

/// The numbers that `collect_slopes` gives for arrays that a part of the result depends on; None where one is not such an
/// array, or nothing is collected.
#[pyfunction]
#[pyo3(signature = (leaves: "Sequence[Array]") -> "list[int] | None")]
pub fn collected_numbers(leaves: Vec<PyRef<'_, PyArray>>) -> PyResult<Option<Vec<usize>>> {
    let read = identities(&leaves)?;
    Ok(LEVELS.with_borrow(|levels| levels.last()?.numbers(&read)))
}

fn identities(leaves: &[PyRef<'_, PyArray>]) -> PyResult<Vec<u64>> {
    leaves.iter().map(|leaf| Ok(leaf.read()?.id())).collect()
}

/// An array with a value whose derivatives are known, where these are collected; None where they have to be recorded.
///
/// `leaves` are the arrays that it depends on, which may have been noted before; `told` is what `collect_slopes` gives.
#[pyfunction]
#[pyo3(signature = (
    value: "_Values",
    leaves: "Sequence[Array]",
    told: "object",
    is_number: "bool"
) -> "Array | None")]
pub fn note_slopes<'py>(
    value: &Bound<'py, PyAny>,
    leaves: Vec<PyRef<'py, PyArray>>,
    told: Py<PyAny>,
    is_number: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    if LEVELS.with_borrow(Vec::is_empty) {
        tape::count_arrays(WORTH);
        return Ok(None);
    }
    let read = identities(&leaves)?;
    let operand = Operand::expect("note_slopes", value)?;
    let kind = match operand.scalar_kind() {
        ScalarKind::Array => ScalarKind::Array,
        _ if is_number => ScalarKind::PythonNumber,
        _ => ScalarKind::NumpyScalar,
    };
    let array = operand.array()?;
    let found = LEVELS.with_borrow_mut(|levels| {
        let level = levels.last_mut()?;
        let numbers = level.numbers(&read)?;
        let made = level.recording.leaf(&array);
        level.leaves.push(Some(made.clone()));
        Some((numbers, made))
    });
    let Some((numbers, array)) = found else {
        return Ok(None);
    };
    let made = wrap(py, array, kind)?;
    let noted = (made.clone().unbind(), numbers, told);
    LEVELS.with_borrow_mut(|levels| {
        if let Some(level) = levels.last_mut() {
            level.noted.push(noted);
        }
    });
    Ok(Some(made))
}

/// Whether slopes are collected in this thread, and not something in between recorded.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_collecting() -> bool {
    !LEVELS.with_borrow(Vec::is_empty) && nestlevel() == 1 && !is_tracing()
}

/// Whether an array depends on leaves of a recording, which may be over.
#[pyfunction]
#[pyo3(signature = (x: "Array") -> "bool")]
pub fn was_recorded(x: &Bound<'_, PyArray>) -> PyResult<bool> {
    let array = x.get().read()?;
    Ok(array.dtype().is_inexact() && array.tag() != 0 && !array.is_detached())
}

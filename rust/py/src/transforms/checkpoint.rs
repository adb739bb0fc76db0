//! Computes functions again in the reverse pass, in place of keeping their intermediate values.

use std::cell::RefCell;

use cotan::Program;
use cotan::autodiff::{Checkpoint, Policy, names_matter, note_name};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::cell::{PyArray, ScalarKind};
use crate::array::escapes::force;
use crate::ndarray::export::to_ndarray;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::runtime::recording_state::{is_tracing, isderiving};
use crate::transforms::argument_names::argument_names;
use crate::transforms::rule_call::Call;
use crate::transforms::rule_call::results;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::{Kind, Tree};

exports!(call_checkpoint, name_value);

/// A call that runs once more in the reverse pass, for its side effects and to see that it does the same.
struct Again {
    function: Py<PyAny>,
    call: Call,
    kwargs: Py<PyDict>,
    policy: Policy,
    program: Program,
}

thread_local! {
    /// For each recording that is going on in this thread, the calls that will run again.
    static AGAIN: RefCell<Vec<Vec<Again>>> = const { RefCell::new(Vec::new()) };
}

/// Collects the calls of one recording, until it is dropped.
pub struct Frame;

impl Frame {
    /// Begins one.
    pub fn enter() -> Frame {
        AGAIN.with_borrow_mut(|frames| frames.push(Vec::new()));
        Frame
    }
}

/// Runs what the innermost frame has collected, the last call first.
pub fn run_again(py: Python<'_>) -> PyResult<()> {
    let take = || AGAIN.with_borrow_mut(|frames| frames.last_mut().and_then(Vec::pop));
    while let Some(again) = take() {
        again.run(py)?;
    }
    Ok(())
}

impl Drop for Frame {
    fn drop(&mut self) {
        // What is dropped here may run code of its own, which may come back here.
        let calls = AGAIN.with_borrow_mut(Vec::pop);
        drop(calls);
    }
}

impl Again {
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let _inner = Frame::enter();
        let traced = Traced::new(&self.function, &self.call, &self.kwargs, &self.policy, py)?;
        run_again(py)?;
        traced
            .checkpoint
            .compare(&traced.outs, &self.program)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}

/// A function that has run with leaves of a checkpoint.
struct Traced<'py> {
    checkpoint: Checkpoint,
    y: Bound<'py, PyAny>,
    tree: Tree,
    kinds: Vec<Kind>,
    /// The results, then what was written to arguments.
    outs: Vec<cotan::Array>,
    /// The leaves of the arguments that were written to, and what they hold now; those that are
    /// differentiated first, as many as `outs` has behind the results.
    written: Vec<(usize, cotan::Array)>,
}

impl<'py> Traced<'py> {
    fn new(
        function: &Py<PyAny>,
        call: &Call,
        kwargs: &Py<PyDict>,
        policy: &Policy,
        py: Python<'py>,
    ) -> PyResult<Traced<'py>> {
        let sources = call.sources();
        let sources: Vec<&cotan::Array> = sources.iter().collect();
        let checkpoint = Checkpoint::new(&call.pull.name, &sources, policy);
        let leaves = call.leaf_objects(py, checkpoint.args())?;
        let args = call.arguments(py, &leaves, false)?;
        let y = function.bind(py).call(args, Some(kwargs.bind(py)))?;
        let (tree, kinds, mut outs) = crate::transforms::rule_call::taken_apart(&y)?;
        let written = written(py, call, &leaves, checkpoint.args())?;
        let active = written.iter().filter(|(_, a)| a.is_active());
        outs.extend(active.map(|(_, a)| a.clone()));
        Ok(Traced {
            checkpoint,
            y,
            tree,
            kinds,
            outs,
            written,
        })
    }
}

/// The leaves of the arguments that the function has written to, and what they hold now.
fn written(
    py: Python<'_>,
    call: &Call,
    leaves: &[Bound<'_, PyAny>],
    active: &[cotan::Array],
) -> PyResult<Vec<(usize, cotan::Array)>> {
    let mut before: Vec<&cotan::Array> = call.arrays.iter().collect();
    for (&i, array) in call.pull.active.iter().zip(active) {
        before[i] = array;
    }
    let mut written = Vec::new();
    for (i, (leaf, before)) in leaves.iter().zip(before).enumerate() {
        let Ok(cell) = leaf.cast::<PyArray>() else {
            continue;
        };
        let now = cell.get().read()?;
        if now.id() == before.id() {
            continue;
        }
        let (name, path) = (&call.pull.name, &call.pull.paths[i]);
        if now.shape() != before.shape() {
            return Err(PyValueError::new_err(format!(
                "checkpoint {name}: it gives its argument {path} another shape in place, from {} to {}; \
                 use {path}.reshape(shape)",
                cotan::aval::tuple(before.shape()),
                cotan::aval::tuple(now.shape())
            )));
        }
        if call.pull.kinds[i] == Kind::NdArray && now.is_active() {
            return Err(PyTypeError::new_err(format!(
                "checkpoint {name}: it writes what is being differentiated into its argument {path}, a plain \
                 ndarray, which cannot hold it; pass ct.array({path}), or return the new value"
            )));
        }
        written.push((i, now));
    }
    if !written.is_empty() {
        refuse_shared(py, call, &written)?;
    }
    written.sort_by_key(|(_, array)| !array.is_active());
    Ok(written)
}

/// Refuses arguments that share memory with one that was written to: they were told apart while the
/// function ran.
fn refuse_shared(py: Python<'_>, call: &Call, written: &[(usize, cotan::Array)]) -> PyResult<()> {
    let root = |leaf: &Py<PyAny>| -> PyResult<usize> {
        let mut object = leaf.bind(py).clone();
        while let Some(base) = object.getattr_opt("base")?.filter(|b| !b.is_none()) {
            object = base;
        }
        Ok(object.as_ptr() as usize)
    };
    let is_array = |i: usize| {
        matches!(
            call.pull.kinds[i],
            Kind::NdArray | Kind::Array(ScalarKind::Array)
        )
    };
    for (i, _) in written {
        for (j, leaf) in call.leaves.iter().enumerate() {
            if *i != j && is_array(j) && root(leaf)? == root(&call.leaves[*i])? {
                let (name, paths) = (&call.pull.name, &call.pull.paths);
                return Err(PyValueError::new_err(format!(
                    "checkpoint {name}: it writes to its argument {}, which shares memory with its argument \
                     {}; pass a copy of one of them (x.copy())",
                    paths[*i], paths[j]
                )));
            }
        }
    }
    Ok(())
}

/// Writes to the arguments of a call what its function has written to what it was given.
fn write_back(py: Python<'_>, call: &Call, written: Vec<(usize, cotan::Array)>) -> PyResult<()> {
    for (i, array) in written {
        let leaf = call.leaves[i].bind(py);
        if let Ok(cell) = leaf.cast::<PyArray>() {
            cell.get().write(array)?;
        } else {
            let value = to_ndarray(py, force(py, &array)?)?;
            py.import("numpy")?.call_method1("copyto", (leaf, value))?;
        }
    }
    Ok(())
}

/// Calls a function whose intermediate values are not kept.
#[pyfunction]
#[pyo3(signature = (
    function: "Function",
    name: "str",
    args: "Args",
    kwargs: "Kwargs",
    policy: "object"
) -> "Any")]
pub fn call_checkpoint<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    name: &str,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    policy: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // What is traced may be differentiated later.
    if !isderiving() && !is_tracing() {
        return function.call(args, Some(kwargs));
    }
    let policy = if policy.is_none() {
        Policy::Nothing
    } else if let Ok(bytes) = policy.extract::<usize>() {
        Policy::Budget(bytes)
    } else if let Ok(names) = policy.extract::<Vec<String>>() {
        Policy::Named(names)
    } else {
        Policy::Products
    };
    let call = Call::new(name, args, argument_names(function, args.len())?)?;
    let (function, kwargs) = (function.clone().unbind(), kwargs.clone().unbind());
    let traced = {
        // What is nested in it runs again with it.
        let _inner = Frame::enter();
        Traced::new(&function, &call, &kwargs, &policy, py)?
    };
    if traced.outs.is_empty() {
        write_back(py, &call, traced.written)?;
        return Ok(traced.y);
    }
    // While the recording of the checkpoint goes on, what was written tells whether it depends on it.
    let (written, constant): (Vec<_>, Vec<_>) =
        (traced.written.into_iter()).partition(|(_, a)| a.is_active());
    let (mut outs, program) = traced.checkpoint.finish(&traced.outs).or_raise()?;
    let new = outs.split_off(outs.len() - written.len());
    let is_active = outs.iter().chain(&new).any(cotan::Array::is_active);
    let written = written.into_iter().map(|(i, _)| i).zip(new).collect();
    write_back(py, &call, written)?;
    write_back(py, &call, constant)?;
    if is_active {
        let again = Again {
            function,
            call,
            kwargs,
            policy,
            program,
        };
        AGAIN.with_borrow_mut(|frames| {
            if let Some(frame) = frames.last_mut() {
                frame.push(again);
            }
        });
    }
    results(py, &traced.tree, &traced.kinds, outs)
}

/// Names the arrays of a value for the checkpoints around it.
#[pyfunction]
#[pyo3(signature = (value: "object", name: "str") -> "None")]
pub fn name_value(value: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if !names_matter() {
        return Ok(());
    }
    let mut flattener = Flattener::of_objects(false);
    flattener.flatten(value, Position::Nested, true, "the value")?;
    // What is no `Array` is constant; that it has the name is known then.
    note_name(name, None);
    for leaf in &flattener.leaves {
        if let Ok(cell) = leaf.object.bind(value.py()).cast::<PyArray>() {
            note_name(name, Some(&cell.get().read()?));
        }
    }
    Ok(())
}

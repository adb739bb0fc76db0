//! Functions that are computed again in the reverse pass.

use std::cell::RefCell;

use cotan::Program;
use cotan::array::{Checkpoint, Policy};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::PyArray;
use crate::error::OrRaise;
use crate::inputs::argument_names;
use crate::rules::{Call, results};
use crate::transforms::isderiving;
use crate::tree::{Kind, Tree};

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
        let traced = Traced::new(&self.function, &self.call, &self.kwargs, py)?;
        run_again(py)?;
        traced
            .checkpoint
            .compare(&traced.outs, &self.policy, &self.program)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}

/// A function that has run with leaves of a checkpoint.
struct Traced<'py> {
    checkpoint: Checkpoint,
    y: Bound<'py, PyAny>,
    tree: Tree,
    kinds: Vec<Kind>,
    outs: Vec<cotan::Array>,
}

impl<'py> Traced<'py> {
    fn new(
        function: &Py<PyAny>,
        call: &Call,
        kwargs: &Py<PyDict>,
        py: Python<'py>,
    ) -> PyResult<Traced<'py>> {
        let sources = call.sources();
        let sources: Vec<&cotan::Array> = sources.iter().collect();
        let checkpoint = Checkpoint::new(&call.pull.name, &sources);
        let args = call.arguments(py, checkpoint.args(), false)?;
        let y = function.bind(py).call(args, Some(kwargs.bind(py)))?;
        let (tree, kinds, outs) = crate::rules::taken_apart(&y)?;
        Ok(Traced {
            checkpoint,
            y,
            tree,
            kinds,
            outs,
        })
    }
}

/// Calls a function whose intermediate values are not kept.
#[pyfunction]
pub fn call_checkpoint<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    name: &str,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    policy: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if !isderiving() {
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
        Traced::new(&function, &call, &kwargs, py)?
    };
    if traced.outs.is_empty() {
        return Ok(traced.y);
    }
    let (outs, program) = traced.checkpoint.finish(&traced.outs, &policy).or_raise()?;
    if outs.iter().any(cotan::Array::is_active) {
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

/// Names a value for the checkpoint around it.
#[pyfunction]
pub fn name_value(x: PyRef<'_, PyArray>, name: &str) -> PyResult<()> {
    let _ = cotan::array::name(&x.read()?, name);
    Ok(())
}

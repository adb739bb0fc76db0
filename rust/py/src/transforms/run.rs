//! Runs a function on the leaves of a recording.
//!
//! Writes to arguments are noticed here, and arguments that share memory are refused. Errors get hints.

use cotan::tape::keeps_history;
use pyo3::exceptions::{PyRuntimeError, PySystemError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::captured_leaves::Binding;
use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::interpose::install::install_overrides;
use crate::ndarray::memory::fingerprint;
use crate::runtime::error::NotDifferentiableError;
use crate::runtime::error::{raise_interrupt, step};
use crate::runtime::hooks;
use crate::runtime::interpreter_exit;
use crate::runtime::recording_state::InScope;
use crate::runtime::swallowed_errors;
use crate::runtime::text;
use crate::transforms::checkpoint::{Frame, run_again};
use crate::transforms::leaves::Inputs;
use crate::tree::treedef::{Kind, Leaf};

/// Counts a recording, until it is dropped.
pub struct Nested<'py>(Python<'py>, Option<InScope<'py>>);

impl<'py> Nested<'py> {
    /// Counts one more, if it is one that differentiates.
    pub fn enter(py: Python<'py>, derives: bool) -> PyResult<Nested<'py>> {
        install_overrides(py)?;
        let scope = InScope::enter(py, |state| {
            state.recordings += 1;
            state.level += usize::from(derives);
        })?;
        interpreter_exit::enter();
        interpreter_exit::rest(py);
        Ok(Nested(py, Some(scope)))
    }
}

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        interpreter_exit::rest(self.0);
        interpreter_exit::leave();
        self.1.take();
    }
}

impl Inputs {
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
                (Some((_, array)), kind) => wrap(py, array.clone(), kind.scalar_kind())?,
                // A number that is held constant is handed on as it is, unless replays are to have others there.
                (None, Kind::Number | Kind::Scalar) if !keeps_history(&leaf.array) => {
                    leaf.object.bind(py).clone()
                }
                (None, kind) => wrap(py, leaf.array.clone(), kind.scalar_kind())?,
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
            if leaf.kind.scalar_kind() == ScalarKind::Array
                && let Ok(cell) = object.cast::<PyArray>()
                && cell.get().read()?.id() != recorded.unwrap_or(&leaf.array).id()
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
        let _nested = Nested::enter(f.py(), self.counts)?;
        let _frame = Frame::enter();
        let run = || f.call1(args).map_err(|e| refusal_behind(f.py(), e));
        let result = swallowed_errors::watched(f.py(), run)?;
        if self.is_derived {
            run_again(f.py())?;
        }
        Ok(result)
    }
}

/// Refuses arguments that share memory with one that the function writes to: they are told apart while
/// it runs.
pub fn refuse_shared(py: Python<'_>, leaves: &[Leaf], written: &[usize]) -> PyResult<()> {
    for &i in written {
        for (j, other) in leaves.iter().enumerate() {
            let leaf = &leaves[i];
            if i != j
                && other.kind.scalar_kind() == ScalarKind::Array
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
        Err(error) => raise_interrupt(py, &error).map(|()| true),
    }
}

/// Whether the cause of an error is what helps: NumPy wraps a refusal into a `ValueError`, and compiled code
/// that goes on after an error makes the interpreter raise a `SystemError`.
fn hides(py: Python<'_>, error: &PyErr, cause: &PyErr) -> PyResult<bool> {
    if error.is_instance_of::<PySystemError>(py) {
        return Ok(text::message(py, error)?.contains("exception set"));
    }
    Ok(error.is_instance_of::<PyValueError>(py)
        && cause.is_instance_of::<NotDifferentiableError>(py))
}

/// NumPy hides that an element cannot be stored behind an error about sequences: the reason is what
/// helps.
fn refusal_behind(py: Python<'_>, error: PyErr) -> PyErr {
    if let Some(cause) = error.cause(py) {
        match hides(py, &error, &cause) {
            Ok(true) => {
                cause.set_traceback(py, error.traceback(py));
                return cause;
            }
            Ok(false) => {}
            Err(failed) => return failed,
        }
    }
    let explain = hooks::EXPLAIN_ERROR.get(py);
    let said = explain.and_then(|explain| explain.call1((error.value(py), error.traceback(py))));
    // What is said is no reason to lose the error, unless it is that of a signal handler.
    match said.map_err(|failed| raise_interrupt(py, &failed)) {
        Err(Err(interrupt)) => interrupt,
        _ => error,
    }
}

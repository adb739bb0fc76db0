//! Turns errors of the core into Python exceptions, and leads into long computations without the interpreter lock,
//! where Ctrl-C gets through, and back into Python code.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cotan::{Error, Foreign};
use pyo3::exceptions::{
    PyException, PyIndexError, PyKeyboardInterrupt, PyMemoryError, PyRuntimeError, PyTypeError,
    PyValueError,
};
use pyo3::prelude::*;

use crate::runtime::hooks;
use crate::runtime::interpreter_exit::{self, Inside};

pyo3::create_exception!(
    cotan,
    NotDifferentiableError,
    PyTypeError,
    "What has no derivative was asked for one, or a gradient would be dropped silently.\n\n\
     The message names the operation, the argument, and what to write instead."
);

pyo3::create_exception!(
    cotan,
    UnknownValueError,
    PyValueError,
    "A value was read that is not known while a rule is traced.\n\n\
     Its attribute `aval` is the dtype and the shape of what was read."
);

pyo3::create_exception!(
    cotan,
    ReplayMismatch,
    PyTypeError,
    "A replay has met what its recording has not: it is recorded anew."
);

/// Raises an error that another attempt would follow, if it comes from a signal handler or is no `Exception`.
pub fn raise_interrupt(py: Python<'_>, error: &PyErr) -> PyResult<()> {
    if !error.is_instance_of::<PyException>(py) {
        return Err(error.clone_ref(py));
    }
    // This attaches the traceback.
    let error = error.clone_ref(py).into_value(py);
    hooks::RAISE_INTERRUPT.get(py)?.call1((error,))?;
    Ok(())
}

/// The Python exception for an error of the core.
pub fn to_py(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Shape(_) | Error::Program(_) | Error::Saved(_) | Error::DeviceName(_) => {
            PyValueError::new_err(message)
        }
        Error::UnknownValue(aval) => {
            crate::runtime::recording_state::note_unknown(&aval);
            unknown_value(message, &aval)
        }
        Error::DType(_) => PyTypeError::new_err(message),
        Error::NotDifferentiable(_) => NotDifferentiableError::new_err(message),
        Error::Index(_) => PyIndexError::new_err(message),
        Error::LinAlg(_) => Python::attach(|py| {
            let class = py
                .import("numpy.linalg")
                .and_then(|m| m.getattr("LinAlgError"));
            match class.and_then(|class| class.call1((&message,))) {
                Ok(error) => PyErr::from_value(error),
                Err(error) => error,
            }
        }),
        Error::Memory(_) => PyMemoryError::new_err(message),
        Error::Device(_) => PyRuntimeError::new_err(message),
        Error::Interrupted => raised().unwrap_or_else(|| PyKeyboardInterrupt::new_err(message)),
        // An exception of Python that passed through the core is that exception.
        Error::Foreign(Foreign(error)) => match error.downcast_ref::<PyErr>() {
            Some(error) => Python::attach(|py| error.clone_ref(py)),
            None => match error.downcast_ref::<cotan::inspect::NonFinite>() {
                Some(error) => {
                    Python::attach(|py| crate::runtime::nonfinite_error::exception(py, error))
                }
                None => PyRuntimeError::new_err(message),
            },
        },
    }
}

/// The exception for a value that is not known.
pub fn unknown_value(message: String, aval: &str) -> PyErr {
    let error = UnknownValueError::new_err(message);
    Python::attach(|py| match error.value(py).setattr("aval", aval) {
        Ok(()) => error,
        Err(failed) => failed,
    })
}

/// Results of the core with Python exceptions.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for cotan::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(to_py)
    }
}

thread_local! {
    /// What a signal handler raised while the core worked.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

fn raised() -> Option<PyErr> {
    RAISED.with(|raised| raised.borrow_mut().take())
}

/// Whether a signal handler wants the work of this thread to stop.
pub fn interrupted() -> bool {
    let stop = Python::try_attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            RAISED.with(|raised| *raised.borrow_mut() = Some(error));
            true
        }
    });
    // An interpreter that is shutting down has no use for the result.
    stop.unwrap_or(true)
}

/// One step of a long walk with the interpreter lock held: now and then signal handlers run, which is how
/// Ctrl-C gets through.
#[inline]
pub fn step(py: Python<'_>) -> PyResult<()> {
    thread_local! {
        static STEPS: Cell<u32> = const { Cell::new(0) };
    }
    let steps = STEPS.get().wrapping_add(1);
    STEPS.set(steps);
    if steps.is_multiple_of(1 << 12) {
        py.check_signals()?;
    }
    Ok(())
}

/// Runs a computation that takes so little time that letting go of the interpreter lock would take longer.
pub fn briefly<T>(work: impl FnOnce(&mut dyn FnMut() -> bool) -> cotan::Result<T>) -> PyResult<T> {
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut || false)));
    match outcome {
        Ok(result) => result.or_raise(),
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// The error that a bug which panics becomes.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    PyRuntimeError::new_err(format!("an error inside cotan, please report it: {text}"))
}

/// Runs a computation with the interpreter lock released. It is handed a question to ask now and then:
/// whether a signal handler wants it to stop, which is how Ctrl-C gets through. A bug that panics
/// becomes a `RuntimeError`.
pub fn enter<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> cotan::Result<T> + Send,
) -> PyResult<T> {
    let _inside = Inside::new();
    let outcome = py.detach(|| {
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut interrupted)));
        interpreter_exit::rest_detached();
        outcome
    });
    match (outcome, raised()) {
        (_, Some(error)) => Err(error),
        (Ok(result), None) => result.or_raise(),
        (Err(panic), None) => Err(panicked(&*panic)),
    }
}

/// A Python exception on its way through the core.
pub fn foreign(error: PyErr) -> Error {
    Error::Foreign(Foreign(Arc::new(error)))
}

/// Runs Python code for the core, on a thread that may have let go of the interpreter.
pub fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> cotan::Result<T> {
    let _inside = Inside::new();
    interpreter_exit::rest_detached();
    Python::try_attach(|py| {
        let result = work(py).map_err(foreign);
        interpreter_exit::rest(py);
        result
    })
    .unwrap_or(Err(Error::Interrupted))
}

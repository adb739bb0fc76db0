//! Lets calls of `gradient` and its like be answered by a replay: by a layer above this one, which registers itself, since
//! replays are made of what is here.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyTuple, PyType};

use crate::runtime::once_cell::{OnceImported, intern};

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
pub enum Wanted {
    Gradient,
    ValueAndGradient,
    /// With zeros, not None, where leaves have no influence.
    FullGradient,
    ValueAndFullGradient,
}

/// A call of a plain function, or of one with some arguments filled in.
pub struct Call<'a, 'py> {
    pub f: Bound<'py, PyAny>,
    /// The code of the function.
    pub code: Bound<'py, PyAny>,
    pub args: &'a Bound<'py, PyTuple>,
    pub wrt: Option<&'a Bound<'py, PyAny>>,
}

/// Who answers.
pub struct Replays {
    /// The gradients, in a tuple behind the value if that is asked for; nothing where the function has to run.
    pub answer: for<'py> fn(&Call<'_, 'py>, Wanted) -> PyResult<Option<Bound<'py, PyAny>>>,
    /// Notes that a function with this code has run, and how many arrays that made.
    pub note: for<'py> fn(&Bound<'py, PyAny>, u64),
}

static REPLAYS: OnceLock<Replays> = OnceLock::new();

/// Registers who answers, once.
pub fn register(replays: Replays) {
    let _ = REPLAYS.set(replays);
}

impl<'a, 'py> Call<'a, 'py> {
    /// A call that may be answered; nothing for one of another kind. What is given by keyword is filled in.
    pub fn of(
        f: &Bound<'py, PyAny>,
        args: &'a Bound<'py, PyTuple>,
        wrt: Option<&'a Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Option<Call<'a, 'py>> {
        let code = (!args.is_empty()).then(|| code_of(f))??;
        let f = match kwargs.filter(|kwargs| !kwargs.is_empty()) {
            Some(kwargs) => partial(f.py()).ok()?.call((f,), Some(kwargs)).ok()?,
            None => f.clone(),
        };
        let wrt = wrt.filter(|wrt| !wrt.is_none());
        Some(Call { f, code, args, wrt })
    }

    /// What is asked for, where a replay gives it.
    pub fn answered(call: Option<&Self>, wanted: Wanted) -> PyResult<Option<Bound<'py, PyAny>>> {
        match (call, REPLAYS.get()) {
            (Some(call), Some(replays)) => (replays.answer)(call, wanted),
            _ => Ok(None),
        }
    }

    /// Runs what differentiates the function, and notes how many arrays that made.
    pub fn noted<T>(call: Option<&Self>, run: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let before = cotan::tape::arrays_made();
        let made = run()?;
        if let (Some(call), Some(replays)) = (call, REPLAYS.get()) {
            (replays.note)(&call.code, cotan::tape::arrays_made() - before);
        }
        Ok(made)
    }
}

/// The code of a function, or of the one that a `functools.partial` fills arguments of.
fn code_of<'py>(f: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = f.py();
    if f.is_exact_instance_of::<PyFunction>() {
        return f.getattr(intern!(py, "__code__")).ok();
    }
    if !is_partial(f).ok()? {
        return None;
    }
    let inner = f.getattr(intern!(py, "func")).ok()?;
    let is_function = inner.is_exact_instance_of::<PyFunction>();
    is_function.then(|| inner.getattr(intern!(py, "__code__")).ok())?
}

/// Whether something is a `functools.partial`, and of no class derived from it.
pub fn is_partial(f: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(f.is_exact_instance(partial(f.py())?))
}

fn partial(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.found(py, "functools", "partial")
}

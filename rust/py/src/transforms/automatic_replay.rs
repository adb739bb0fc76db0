//! Lets calls of `gradient` and its like be answered by a replay: by a layer above this one, which registers itself, since
//! replays are made of what is here.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyTuple};

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
pub enum Wanted {
    Gradient,
    ValueAndGradient,
    /// With zeros, not None, where leaves have no influence.
    FullGradient,
    ValueAndFullGradient,
}

/// A call of a plain function without keyword arguments.
pub struct Call<'a, 'py> {
    pub f: &'a Bound<'py, PyFunction>,
    pub args: &'a Bound<'py, PyTuple>,
    pub wrt: Option<&'a Bound<'py, PyAny>>,
}

/// Who answers.
pub struct Replays {
    /// The gradients, in a tuple behind the value if that is asked for; nothing where the function has to run.
    pub answer: for<'py> fn(&Call<'_, 'py>, Wanted) -> PyResult<Option<Bound<'py, PyAny>>>,
    /// Notes that a function has run, and how many arrays that made.
    pub note: for<'py> fn(&Bound<'py, PyFunction>, u64) -> PyResult<()>,
}

static REPLAYS: OnceLock<Replays> = OnceLock::new();

/// Registers who answers, once.
pub fn register(replays: Replays) {
    let _ = REPLAYS.set(replays);
}

impl<'a, 'py> Call<'a, 'py> {
    /// A call that may be answered; nothing for one of another kind.
    pub fn of(
        f: &'a Bound<'py, PyAny>,
        args: &'a Bound<'py, PyTuple>,
        wrt: Option<&'a Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> Option<Call<'a, 'py>> {
        let f = f.cast_exact::<PyFunction>().ok()?;
        let is_plain = !args.is_empty() && kwargs.is_none_or(|kwargs| kwargs.is_empty());
        let wrt = wrt.filter(|wrt| !wrt.is_none());
        is_plain.then_some(Call { f, args, wrt })
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
            (replays.note)(call.f, cotan::tape::arrays_made() - before)?;
        }
        Ok(made)
    }
}

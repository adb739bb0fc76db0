//! Lets calls of `gradient`, `jacobian` and their like be answered by a replay: by a layer above this one, which registers
//! itself, since replays are made of what is here.

use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyInt, PyList, PyString, PyTuple, PyType};

use crate::runtime::exports::exports;
use crate::runtime::once_cell::{OnceImported, intern};
use crate::tree::treedef::Const;

exports!(run_or_replay);

/// Arguments that are deeper structures are not looked through.
const DEPTH: usize = 32;

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
pub enum Wanted {
    Gradient,
    ValueAndGradient,
    /// With zeros, not None, where leaves have no influence.
    FullGradient,
    ValueAndFullGradient,
    /// What another function gives.
    Derived,
}

/// A function made of the one that is called, of its arguments.
#[derive(Clone, Copy)]
pub struct Derived<'a, 'py> {
    pub function: &'a Bound<'py, PyAny>,
    /// What it is, in words and numbers.
    pub options: &'a Bound<'py, PyTuple>,
}

/// A call of a plain function, or of one with some arguments filled in.
pub struct Call<'a, 'py> {
    pub f: Bound<'py, PyAny>,
    /// The code of the function.
    pub code: Bound<'py, PyAny>,
    pub args: &'a Bound<'py, PyTuple>,
    pub wrt: Option<&'a Bound<'py, PyAny>>,
    pub derived: Option<Derived<'a, 'py>>,
    /// The hash of the options.
    hash: isize,
}

/// Who answers.
pub struct Replays {
    /// The gradients, in a tuple behind the value if that is asked for; nothing where the function has to run.
    pub answer: for<'py> fn(&Call<'_, 'py>, Wanted) -> PyResult<Option<Bound<'py, PyAny>>>,
    /// Notes that the function of a call has run, and how many arrays that made.
    pub note: for<'py> fn(&Call<'_, 'py>, u64),
}

static REPLAYS: OnceLock<Replays> = OnceLock::new();

/// Registers who answers, once.
pub fn register_replays(replays: Replays) {
    let _ = REPLAYS.set(replays);
}

impl<'a, 'py> Call<'a, 'py> {
    /// A call that may be answered; nothing for one of another kind. What is given by keyword is filled in.
    pub fn of(
        f: &Bound<'py, PyAny>,
        args: &'a Bound<'py, PyTuple>,
        wrt: Option<&'a Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Call<'a, 'py>>> {
        let Some(code) = Some(f)
            .filter(|_| !args.is_empty())
            .map_or(Ok(None), code_of)?
        else {
            return Ok(None);
        };
        let f = match kwargs.filter(|kwargs| !kwargs.is_empty()) {
            Some(kwargs) => partial(f.py())?.call((f,), Some(kwargs))?,
            None => f.clone(),
        };
        let wrt = wrt.filter(|wrt| !wrt.is_none());
        Ok(Some(Call {
            f,
            code,
            args,
            wrt,
            derived: None,
            hash: 0,
        }))
    }

    /// A call of a function made of `f`; nothing where its options say more than words and numbers.
    fn of_derived(
        f: &Bound<'py, PyAny>,
        args: &'a Bound<'py, PyTuple>,
        derived: Derived<'a, 'py>,
    ) -> PyResult<Option<Call<'a, 'py>>> {
        let is_plain = !args.is_empty()
            && !args.iter().any(|arg| holds_constants(&arg, 0))
            && derived.options.iter().all(|item| is_plain(&item));
        let Some(code) = Some(f).filter(|_| is_plain).map_or(Ok(None), code_of)? else {
            return Ok(None);
        };
        let hash = derived.options.hash()?;
        Ok(Some(Call {
            f: f.clone(),
            code,
            args,
            wrt: None,
            derived: Some(derived),
            hash,
        }))
    }

    /// Names what calls with the same code ask for, as long as the code lives.
    pub fn id(&self) -> (usize, isize) {
        (self.code.as_ptr() as usize, self.hash)
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
            (replays.note)(call, cotan::tape::arrays_made() - before);
        }
        Ok(made)
    }
}

/// What `derived` gives for arguments: a function that runs `f`, and does nothing else that could be seen. `options` say what
/// it is. Where both are called again and again, it is replayed.
#[pyfunction]
#[pyo3(signature = (
    f: "Function",
    args: "Args",
    options: "tuple[object, ...]",
    derived: "Function"
) -> "Any")]
pub fn run_or_replay<'py>(
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    options: &Bound<'py, PyTuple>,
    derived: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let function = derived;
    let call = Call::of_derived(f, args, Derived { function, options })?;
    if let Some(result) = Call::answered(call.as_ref(), Wanted::Derived)? {
        return Ok(result);
    }
    Call::noted(call.as_ref(), || derived.call1(args))
}

/// Whether something is held constant in an argument, or may be, far inside: what is made of the function shows it.
fn holds_constants(arg: &Bound<'_, PyAny>, depth: usize) -> bool {
    let is_held = |item: Bound<'_, PyAny>| holds_constants(&item, depth + 1);
    if depth > DEPTH || arg.is_exact_instance_of::<Const>() {
        true
    } else if let Ok(items) = arg.cast_exact::<PyTuple>() {
        items.iter().any(is_held)
    } else if let Ok(items) = arg.cast_exact::<PyList>() {
        items.iter().any(is_held)
    } else if let Ok(items) = arg.cast_exact::<PyDict>() {
        items.values().iter().any(is_held)
    } else {
        false
    }
}

/// Whether something is None, a word, a number, or a tuple of these.
fn is_plain(option: &Bound<'_, PyAny>) -> bool {
    option.is_none()
        || option.is_exact_instance_of::<PyInt>()
        || option.is_exact_instance_of::<PyString>()
        || (option.cast_exact::<PyTuple>()).is_ok_and(|all| all.iter().all(|item| is_plain(&item)))
}

/// The code of a function, or of the one that a `functools.partial` fills arguments of.
fn code_of<'py>(f: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = f.py();
    let inner = (is_partial(f)?.then(|| f.getattr(intern!(py, "func")))).transpose()?;
    let f = inner.as_ref().unwrap_or(f);
    let is_function = f.is_exact_instance_of::<PyFunction>();
    (is_function.then(|| f.getattr(intern!(py, "__code__")))).transpose()
}

/// Whether something is a `functools.partial`, and of no class derived from it.
pub fn is_partial(f: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(f.is_exact_instance(partial(f.py())?))
}

fn partial(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.found(py, "functools", "partial")
}

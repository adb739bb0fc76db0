//! A function that is called again and again: records it once it is worth that, and replays it, so that nobody can see a
//! difference but by time.

use std::sync::Arc;

use pyo3::exceptions::{PyException, PyMemoryError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

use crate::prepare::guards::same_object;
use crate::prepare::record::Transform;
use crate::prepare::recordings::PyPrepared;
use crate::prepare::replay_mode::{Mode, mode};
use crate::prepare::specialization::{Outputs, Specialization};
use crate::runtime::error::raise_interrupt;
use crate::runtime::hooks;
use crate::runtime::interpreter_exit::Inside;
use crate::runtime::once_cell::intern;
use crate::transforms::automatic_replay::{Call, Wanted, is_partial};

/// A function with its recordings.
pub struct Repeated {
    function: Py<PyAny>,
    wanted: Wanted,
    /// What is made of the function, if that is not its gradient.
    options: Option<Py<PyTuple>>,
    prepared: PyPrepared,
}

impl Repeated {
    /// A function of which nothing is recorded yet; nothing where it, or what is asked for, is out of the ordinary.
    pub fn new(call: &Call<'_, '_>, wanted: Wanted) -> PyResult<Option<Arc<Repeated>>> {
        let is_simple = call.wrt.is_none_or(is_simple);
        let own = call.f.getattr(intern!(call.args.py(), "__dict__"))?;
        if !is_simple || own.is_truthy()? {
            return Ok(None);
        }
        let transform = match wanted {
            Wanted::Gradient | Wanted::FullGradient => Transform::Gradient,
            Wanted::ValueAndGradient | Wanted::ValueAndFullGradient => Transform::ValueAndGradient,
            Wanted::Derived => Transform::Value,
        };
        let recorded = (call.derived).map_or(&call.f, |derived| derived.function);
        let prepared = PyPrepared::automatic(
            recorded.clone().unbind(),
            transform,
            call.wrt.map(|wrt| wrt.clone().unbind()),
        );
        Ok(Some(Arc::new(Repeated {
            function: call.f.clone().unbind(),
            wanted,
            options: (call.derived).map(|derived| derived.options.clone().unbind()),
            prepared,
        })))
    }

    /// Whether this is the function that is asked for, or one with the same variables, and what is asked of it the same.
    pub fn is_of(&self, call: &Call<'_, '_>, wanted: Wanted) -> bool {
        let py = call.args.py();
        if self.wanted != wanted {
            return false;
        }
        let is_same_wrt = match (&self.prepared.wrt, call.wrt) {
            (None, None) => true,
            (Some(a), Some(b)) => is_simple(b) && a.bind(py).eq(b).unwrap_or(false),
            _ => false,
        };
        let are_same_options = match (&self.options, call.derived) {
            (None, None) => true,
            (Some(a), Some(b)) => a.bind(py).eq(b.options).unwrap_or(false),
            _ => false,
        };
        is_same_wrt
            && are_same_options
            && is_same_function(self.function.bind(py), &call.f).unwrap_or(false)
    }

    /// What is asked for by a replay, if a recording fits.
    pub fn replay<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.prepared.replayed_automatically(py, args) {
            Err(error) if may_run_again(py, &error)? => Ok(None),
            made => made,
        }
    }

    /// What is asked for by a new recording, if the function only computes and can be recorded.
    pub fn record<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _inside = Inside::new();
        // A fault of cotan's own shows in tests, and nowhere else.
        let attempt = match hooks::ATTEMPT.get(py)?.call1((&self.function, args)) {
            Err(error) if mode() == Mode::Auto && error.is_instance_of::<PyException>(py) => {
                raise_interrupt(py, &error)?;
                return Ok(None);
            }
            attempt => attempt?,
        };
        if attempt.is_none() {
            return Ok(None);
        }
        let guards = attempt.getattr(intern!(py, "guards"))?;
        let fits = |made: &Specialization| {
            let slots = match &made.outputs {
                Outputs::Gradients(_, slots) => &slots[..],
                Outputs::Structure(_) => &[],
                Outputs::Pullback(..) => return false,
            };
            // A replay that calls Python otherwise gains little, and gradients of such calls have other zeros.
            let is_free = made.written.is_empty() && made.program.calls_exactly();
            let is_full = matches!(
                self.wanted,
                Wanted::FullGradient | Wanted::ValueAndFullGradient
            );
            is_free && (!is_full || slots.iter().all(Option::is_some))
        };
        attempt.call_method0(intern!(py, "__enter__"))?;
        let made = (self.prepared).recorded_automatically(py, args, &guards, fits);
        let none = py.None();
        attempt.call_method1(intern!(py, "__exit__"), (&none, &none, &none))?;
        match made {
            Err(error) => {
                let may_run = may_run_again(py, &error);
                if !matches!(may_run, Ok(false)) {
                    attempt.call_method0(intern!(py, "restore"))?;
                }
                if may_run? { Ok(None) } else { Err(error) }
            }
            // A run warns.
            Ok(_) if attempt.getattr(intern!(py, "has_warned"))?.is_truthy()? => Ok(None),
            made => made,
        }
    }
}

/// Whether the function is to run, and to raise what it raises. Errors that have nothing to do with how it is run are
/// raised as they are: those of the program's own classes and those of the system.
fn may_run_again(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    raise_interrupt(py, error)?;
    let home: String = (error.get_type(py).getattr(intern!(py, "__module__"))?).extract()?;
    let is_known = ["builtins", "numpy", "scipy", "cotan"]
        .contains(&home.split('.').next().unwrap_or_default());
    let is_of_system = error.is_instance_of::<PyOSError>(py)
        || error.is_instance_of::<PyMemoryError>(py)
        || !error.is_instance_of::<PyException>(py);
    Ok(is_known && !is_of_system)
}

/// Whether `wrt` consists of positions and names.
fn is_simple(wrt: &Bound<'_, PyAny>) -> bool {
    let is_one = |x: &Bound<'_, PyAny>| {
        x.is_exact_instance_of::<PyInt>() || x.is_exact_instance_of::<PyString>()
    };
    is_one(wrt)
        || (wrt.cast_exact::<PyTuple>()).is_ok_and(|all| all.iter().all(|item| is_one(&item)))
}

/// Whether two functions with the same code are one, or read the same variables: a lambda that is made anew in each turn
/// of a loop.
fn is_same_function(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = a.py();
    if a.is(b) {
        return Ok(true);
    }
    if !a.get_type().is(b.get_type()) || !b.getattr(intern!(py, "__dict__"))?.is_empty()? {
        return Ok(false);
    }
    let both = |name: &str| PyResult::Ok((a.getattr(name)?, b.getattr(name)?));
    let have_same = |name| both(name).and_then(|(a, b)| are_same(&a, &b));
    if is_partial(a)? {
        let (named, others) = both("keywords")?;
        let (a, b) = both("func")?;
        return Ok(have_same("args")?
            && are_same(&items(&named)?, &items(&others)?)?
            && is_same_function(&a, &b)?);
    }
    for name in [
        "__globals__",
        "__kwdefaults__",
        "__closure__",
        "__defaults__",
    ] {
        if !have_same(name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The keys and the values of a dictionary, in its order.
fn items<'py>(of: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let of = of.cast::<PyDict>()?;
    let all = of.keys().iter().chain(of.values());
    Ok(PyTuple::new(of.py(), all.collect::<Vec<_>>())?.into_any())
}

/// Whether two tuples hold the same objects, or equal constants.
fn are_same(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (Ok(a), Ok(b)) = (a.cast_exact::<PyTuple>(), b.cast_exact::<PyTuple>()) else {
        return Ok(a.is(b));
    };
    for (a, b) in a.iter().zip(b) {
        if !a.is(&b) && !same_object(&a, &b)? {
            return Ok(false);
        }
    }
    Ok(a.len() == b.len())
}

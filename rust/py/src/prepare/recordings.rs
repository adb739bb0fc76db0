//! Keeps the recordings of a prepared function, and replays the one that fits the arguments.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cotan::kernels::Value;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use smallvec::SmallVec;

use crate::array::cell::PyArray;
use crate::ndarray::memory::Borrow;
use crate::ndarray::placement::used;
use crate::prepare::fast_args::Quick;
use crate::prepare::out_buffers::Buffers;
use crate::prepare::reasons::{self, Log, Reason};
use crate::prepare::record::{Transform, record};
use crate::prepare::results;
use crate::prepare::specialization::{Failure, Specialization, Taken, with_lent, work};
use crate::runtime::error::{briefly, raise_interrupt, to_py};
use crate::runtime::hooks;
use crate::transforms::argument_names::argument_names;
use crate::transforms::gradient;
use crate::tree::flatten::{Flattener, Position};
use crate::tree::treedef::{Const, Kind, Leaf, Tree};

/// So many recordings are kept; the one that was not used for the longest time goes first.
const MANY: usize = 32;
/// So many of one that nobody has asked for.
const FEW: usize = 8;

/// A function that is recorded once and replayed without touching Python. Made by `ct.prepare`.
///
/// Called with arguments like those of the function, it gives the same results, with the same shapes and dtypes;
/// other shapes, dtypes and ways through the code are recorded anew.
///
/// >>> import cotan as ct
/// >>> cube = ct.prepare(lambda x: x**3, transform="value")
/// >>> cube(2.0), cube(3.0), cube.num_recordings
/// (8.0, 27.0, 1)
#[pyclass(frozen, weakref, name = "Prepared", module = "cotan")]
pub struct PyPrepared {
    pub(super) function: Py<PyAny>,
    pub(super) transform: Transform,
    pub(super) wrt: Option<Py<PyAny>>,
    /// Which arguments are held constant in every call.
    pub(super) held: Vec<bool>,
    pub(super) out: Option<Py<PyAny>>,
    /// Whether integers and booleans may be asked for, and have no gradient.
    pub(super) allow_int: bool,
    /// Whether nobody has asked for it.
    pub(super) is_automatic: bool,
    /// What was recorded why.
    pub(super) log: Mutex<Log>,
    /// How often numbers were to vary, and could not.
    pub(super) vain_attempts: AtomicU32,
    /// The last used is the first.
    pub(super) specializations: Mutex<Vec<Arc<Specialization>>>,
}

impl PyPrepared {
    /// One that nobody has asked for.
    pub(super) fn automatic(
        function: Py<PyAny>,
        transform: Transform,
        wrt: Option<Py<PyAny>>,
    ) -> PyPrepared {
        PyPrepared {
            function,
            transform,
            wrt,
            held: Vec::new(),
            out: None,
            allow_int: false,
            is_automatic: true,
            log: Mutex::default(),
            vain_attempts: AtomicU32::new(0),
            specializations: Mutex::default(),
        }
    }

    /// The result by a recording that fits, if there is one; nothing else is tried.
    pub(super) fn replayed_automatically<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let first = self.lock().first().map(Arc::clone);
        if let Some(first) = first
            && let Some(result) = self.replay_first(py, &first, args, None)?
        {
            return Ok(Some(result));
        }
        let _inside = crate::runtime::interpreter_exit::Inside::new();
        let taken = self.take(py, args, false)?;
        if taken.goes_on() {
            return Ok(None);
        }
        match self.replay(py, &taken, None)? {
            Replayed::Result(result) => Ok(Some(result)),
            Replayed::Failed | Replayed::No => Ok(None),
        }
    }

    /// The result by a new recording with these guards, which is kept if it `fits`.
    pub(super) fn recorded_automatically<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        guards: &Bound<'py, PyAny>,
        fits: impl Fn(&Specialization) -> bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let taken = self.take(py, args, false)?;
        if taken.goes_on() {
            return Ok(None);
        }
        let wrt = self.wrt.as_ref().map(|w| w.bind(py));
        let (f, transform) = (self.function.bind(py), (self.transform, self.allow_int));
        let made = record(py, f, transform, wrt, (args, &taken), &[], Some(guards))?;
        if !fits(&made) {
            return Ok(None);
        }
        let made = Arc::new(made);
        self.keep(&made);
        match self.run(py, &made, &taken, None)? {
            Replayed::Result(result) => Ok(Some(result)),
            Replayed::Failed | Replayed::No => Ok(None),
        }
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Specialization>>> {
        self.specializations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the arguments, as far as the function tells them.
    /// The names of so many arguments, the last of which may stand for those by keyword.
    pub(super) fn names(&self, py: Python<'_>, count: usize, by_keyword: bool) -> Vec<String> {
        let positional = count - usize::from(by_keyword);
        let mut names = argument_names(self.function.bind(py), positional).unwrap_or_default();
        if by_keyword && names.len() == positional {
            names.push("keywords".into());
        }
        names
    }

    /// Why none of the recordings is replayed; nothing if there are none.
    pub(super) fn reason(&self, py: Python<'_>, taken: &Taken) -> PyResult<Option<Reason>> {
        let tried = self.lock().clone();
        if tried.is_empty() {
            return Ok(None);
        }
        reasons::reason(
            py,
            &tried,
            taken,
            &self.names(py, taken.trees.len(), taken.by_keyword),
        )
    }

    /// Puts a recording first.
    pub(super) fn keep(&self, specialization: &Arc<Specialization>) {
        let mut dropped = Vec::new();
        {
            let mut specializations = self.lock();
            if specializations
                .first()
                .is_some_and(|v| Arc::ptr_eq(v, specialization))
            {
                return;
            }
            specializations.retain(|v| !Arc::ptr_eq(v, specialization));
            specializations.insert(0, Arc::clone(specialization));
            let most = if self.is_automatic { FEW } else { MANY };
            while specializations.len() > most {
                dropped.extend(specializations.pop());
            }
        }
        // What it refers to may run code when it goes.
        drop(dropped);
    }

    /// The arguments, with what is held constant in every call marked so.
    pub(super) fn with_constants<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        if !self.held.contains(&true) {
            return Ok(args.clone());
        }
        let marked = args.iter().enumerate().map(|(i, arg)| {
            let is_held = self.held.get(i).copied().unwrap_or(false);
            if !is_held || arg.is_exact_instance_of::<Const>() {
                return Ok(arg);
            }
            Ok(Bound::new(
                py,
                Const {
                    value: arg.unbind(),
                },
            )?
            .into_any())
        });
        PyTuple::new(py, marked.collect::<PyResult<Vec<_>>>()?)
    }

    /// A recording for arguments like these, with numbers of any value at the `varying` leaves.
    pub(super) fn recorded(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        taken: &Taken,
        varying: &[usize],
    ) -> PyResult<Specialization> {
        let wrt = self.wrt.as_ref().map(|w| w.bind(py));
        let f = &self.callee(py, taken.by_keyword)?;
        let transform = (self.transform, self.allow_int);
        record(py, f, transform, wrt, (args, taken), varying, None)
    }

    /// The function, or one that takes a dictionary of what is given by keyword as its last argument.
    fn callee<'py>(&self, py: Python<'py>, by_keyword: bool) -> PyResult<Bound<'py, PyAny>> {
        let f = self.function.bind(py);
        if by_keyword {
            return hooks::BY_KEYWORD.get(py)?.call1((f,));
        }
        Ok(f.clone())
    }

    pub(super) fn take(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        by_keyword: bool,
    ) -> PyResult<Taken> {
        if let Some(wrt) = &self.wrt
            && args.is_empty()
        {
            let listed = hooks::LISTED_ARRAYS.get(py)?.call1((wrt,))?;
            let (mut leaves, mut arrays) = (Vec::new(), Vec::new());
            for object in listed.try_iter()? {
                let object = object?;
                let cell = object.cast::<PyArray>().map_err(PyErr::from)?;
                arrays.push(cell.clone().unbind());
                leaves.push(Leaf {
                    array: cell.get().read()?,
                    kind: Kind::Array(cell.get().scalar_kind()),
                    active: true,
                    held: false,
                    path: String::new(),
                    object: object.clone().unbind(),
                });
            }
            let trees = (0..leaves.len()).map(Tree::Leaf).collect();
            let arrays = Some(arrays);
            return Ok(Taken {
                trees,
                leaves,
                arrays,
                by_keyword,
            });
        }
        let mut flattener = Flattener::new(Borrow::Call, false, self.wrt.is_none());
        flattener.take_everything_apart();
        flattener.keep_numbers();
        if self.transform != Transform::Value {
            flattener.count_integers();
        }
        let trees = (args.iter())
            .map(|arg| {
                let argument = flattener.argument(&arg, Position::Direct, "");
                Ok(argument.map_err(|fault| fault.raise(arg.py(), ""))?.tree)
            })
            .collect::<PyResult<_>>()?;
        Ok(Taken {
            trees,
            leaves: flattener.leaves,
            arrays: None,
            by_keyword,
        })
    }

    /// What the function gives, recorded as usual.
    pub(super) fn unprepared<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let f = self.function.bind(py);
        let wrt = self.wrt.as_ref().map(|w| w.bind(py));
        let result = match self.transform {
            Transform::Gradient | Transform::Pullback => {
                let transform = if self.transform == Transform::Gradient {
                    gradient::gradient
                } else {
                    gradient::pullback
                };
                transform(py, f, args, wrt, None, false, self.allow_int, false, kwargs)
            }
            Transform::ValueAndGradient => {
                let transform = gradient::value_and_gradient;
                let pair = transform(py, f, args, wrt, None, false, self.allow_int, false, kwargs)?;
                Ok(pair.into_pyobject(py)?.into_any())
            }
            Transform::Value if cotan::inspect::is_detecting() => {
                let f = self.callee(py, kwargs.is_some())?;
                gradient::watched(py, &f, &with_keywords(args, kwargs)?)
            }
            Transform::Value => {
                let plain = args.iter().map(|arg| match arg.cast_exact::<Const>() {
                    Ok(constant) => constant.get().value.bind(py).clone(),
                    Err(_) => arg,
                });
                f.call(PyTuple::new(py, plain)?, kwargs)
            }
        }?;
        match out {
            Some(out) => hooks::COPIED.get(py)?.call1((result, out)),
            None => Ok(result),
        }
    }

    /// The result by the recording that was used last, if it is one of plain arrays and numbers, and fits.
    pub(super) fn replay_first<'py>(
        &self,
        py: Python<'py>,
        specialization: &Specialization,
        args: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // What is given to a device has to go there first.
        let Some(quick) = &specialization.quick else {
            return Ok(None);
        };
        if used(py)?.is_some() {
            return Ok(None);
        }
        let Some(current) = specialization.last() else {
            return Ok(None);
        };
        let Some(inputs) = quick.read(py, args, &self.held, &current.keys)? else {
            return Ok(None);
        };
        for watched in &specialization.guards {
            if !watched.guard.holds(py)? {
                return Ok(None);
            }
        }
        let buffers = self.buffers(py, specialization, out)?;
        if current.lent.is_empty()
            && let Some(mut frame) = specialization.program.frame(&current.held).map_err(to_py)?
            && Quick::write(&inputs, frame.inputs())
        {
            let program = &specialization.program;
            let outcome = briefly(|_| program.run_in(&mut frame));
            // Whether it is an error, and which, the function itself can tell.
            if outcome.is_err() || !specialization.agrees(frame.outs()) {
                program.give_back(frame);
                if let Err(error) = outcome {
                    raise_interrupt(py, &error)?;
                }
                return Ok(None);
            }
            let mut outs: SmallVec<[Value; 4]> = frame.outs()[..specialization.results]
                .iter()
                .cloned()
                .collect();
            let result = results::quickly(py, specialization, &mut outs, buffers.as_deref())?;
            drop(outs);
            program.give_back(frame);
            return Ok(Some(result));
        }
        let inputs = Quick::values(&inputs)?;
        let lent = specialization.lent_now(py, &current)?;
        let targets = match &buffers {
            Some(buffers) => {
                let read = inputs.iter().chain(lent.iter().map(|(_, value)| value));
                buffers.targets(py, specialization.results, read)?
            }
            None => Vec::new(),
        };
        let held = with_lent(&current, lent);
        let program = &specialization.program;
        let outs = work(py, program.cost(), program.calls_back(), |interrupted| {
            program.run(&held, &inputs, &targets, interrupted)
        });
        let mut outs = match outs {
            Ok(outs) if specialization.agrees(&outs) => outs,
            Ok(_) | Err(Failure::Value | Failure::Changed(_)) => return Ok(None),
            Err(Failure::Raised(error)) => return Err(error),
        };
        outs.truncate(specialization.results);
        results::quickly(py, specialization, &mut outs, buffers.as_deref()).map(Some)
    }

    /// The buffers of a call, checked.
    pub(super) fn buffers(
        &self,
        py: Python<'_>,
        specialization: &Specialization,
        out: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Arc<Buffers>>> {
        let Some(out) = out else {
            return Ok(None);
        };
        if self.transform == Transform::Pullback {
            return Err(PyTypeError::new_err(
                "prepared: a pullback has no out=; write its results with np.copyto",
            ));
        }
        let known = (specialization.buffers.lock())
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let known = known.filter(|b| b.are(out) && out.is_exact_instance_of::<PyTuple>());
        let buffers = if let Some(known) = known {
            known
        } else {
            let result = hooks::RESULT_CLASS.get(py)?;
            let mut numbers = Vec::with_capacity(specialization.results);
            for i in 0..specialization.results {
                numbers.push(Some(result.call1((i,))?));
            }
            let template = results::structure(
                py,
                specialization,
                &specialization.trees,
                &mut numbers,
                None,
            )?;
            let made = Buffers::new(out, &template)?;
            let old = (specialization.buffers.lock())
                .unwrap_or_else(PoisonError::into_inner)
                .replace(Arc::clone(&made));
            drop(old);
            made
        };
        buffers.check(py, |i| specialization.program.out_aval(i))?;
        Ok(Some(buffers))
    }

    /// The result by a recording that fits, if there is one.
    pub(super) fn replay<'py>(
        &self,
        py: Python<'py>,
        taken: &Taken,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Replayed<'py>> {
        let specializations = self.lock().clone();
        let mut fitting = Vec::new();
        for specialization in &specializations {
            if specialization.fits(py, taken)? {
                fitting.push(specialization);
            }
        }
        let several = fitting.len() > 1;
        for specialization in fitting {
            if (several || specialization.program.calls_back())
                && !specialization.chosen(py, taken)?
            {
                continue;
            }
            match self.run(py, specialization, taken, out)? {
                Replayed::No => {}
                // The code would take another way, where it may not fail.
                Replayed::Failed if specialization.decided(py, taken)? == Some(false) => {}
                other => {
                    specialization.num_replays.fetch_add(1, Ordering::Relaxed);
                    self.keep(specialization);
                    return Ok(other);
                }
            }
        }
        Ok(Replayed::No)
    }

    /// Runs a recording.
    pub(super) fn run<'py>(
        &self,
        py: Python<'py>,
        specialization: &Specialization,
        taken: &Taken,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Replayed<'py>> {
        let buffers = self.buffers(py, specialization, out)?;
        let mut outs = match specialization.run(py, taken) {
            Ok(Some(outs)) => outs,
            Ok(None) | Err(Failure::Changed(_)) => return Ok(Replayed::No),
            Err(Failure::Value) => return Ok(Replayed::Failed),
            Err(Failure::Raised(error)) => return Err(error),
        };
        outs.truncate(specialization.results);
        let written = match buffers {
            Some(buffers) => buffers.write(py, &mut outs)?,
            None => Vec::new(),
        };
        let mut objects = results::objects(py, specialization, outs, written)?;
        results::structure(
            py,
            specialization,
            &taken.trees,
            &mut objects,
            taken.arrays.as_deref(),
        )
        .map(Replayed::Result)
    }
}

/// What came of a replay.
pub(super) enum Replayed<'py> {
    Result(Bound<'py, PyAny>),
    /// An error that depends on values.
    Failed,
    /// No recording fits.
    No,
}

/// The arguments, with those by keyword as a constant dictionary behind them.
pub(super) fn with_keywords<'py>(
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let Some(kwargs) = kwargs else {
        return Ok(args.clone());
    };
    let value = kwargs.clone().into_any().unbind();
    let keywords = Bound::new(args.py(), Const { value })?.into_any();
    args.add(PyTuple::new(args.py(), [keywords])?)?
        .cast_into()
        .map_err(Into::into)
}

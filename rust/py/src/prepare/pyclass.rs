//! Calls a prepared function: replays a recording, or records a new one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::prepare::reasons;
use crate::prepare::record::Transform;
pub use crate::prepare::recordings::PyPrepared;
use crate::prepare::recordings::{Replayed, with_keywords};
use crate::program::pyclass::PyProgram;
use crate::runtime::hooks;
use crate::runtime::text;

/// Why calls are made without preparation, for the report.
const INSIDE: &str = "inside another gradient or prepared function, which records it";
const ERROR: &str = "an error that depends on values";
const CHOSEN: &str = "wrt or argnums beside arguments by keyword";
const OTHERWISE: &str = "a recording that does not hold for the arguments it was made with";

#[pymethods]
impl PyPrepared {
    #[new]
    #[pyo3(signature = (function, transform, wrt, held, out, allow_int))]
    fn new(
        function: Py<PyAny>,
        transform: &str,
        wrt: Option<Py<PyAny>>,
        held: Vec<bool>,
        out: Option<Py<PyAny>>,
        allow_int: bool,
    ) -> PyResult<PyPrepared> {
        let all = [
            Transform::Gradient,
            Transform::ValueAndGradient,
            Transform::Value,
            Transform::Pullback,
        ];
        let transform = (all.into_iter().find(|t| t.name() == transform)).ok_or_else(|| {
            PyTypeError::new_err(format!("prepare: there is no transform {transform}"))
        })?;
        Ok(PyPrepared {
            function,
            transform,
            wrt,
            held,
            out,
            allow_int,
            is_automatic: false,
            log: Mutex::default(),
            vain_attempts: AtomicU32::new(0),
            specializations: Mutex::default(),
        })
    }

    /// What a method of an object prepared in that object holds is the object itself.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.wrt)?;
        visit.call(&self.out)?;
        // Whoever has the lock, has a reference, too.
        if let Ok(specializations) = self.specializations.try_lock() {
            specializations.iter().try_for_each(|v| v.visit(&visit))?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let specializations = std::mem::take(&mut *self.lock());
        drop(specializations);
    }

    /// Calls it: arguments and results as for the function that it was made of, unprepared.
    ///
    /// `out`: buffers for the results, a structure like theirs with None for what is to be a fresh array.
    /// Raises `ValueError` or `TypeError` when one does not fit its result.
    #[pyo3(signature = (*args, out=None, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kwargs = kwargs.filter(|k| !k.is_empty());
        if kwargs.is_some() && self.transform == Transform::Pullback {
            return Err(PyTypeError::new_err(
                "prepare: a prepared pullback takes no arguments by keyword; pass them by position, as ct.const(x)",
            ));
        }
        let out = out.filter(|o| !o.is_none());
        let out = out.or_else(|| self.out.as_ref().map(|o| o.bind(py)));
        // A replay has no lines, and what it computes between its results nobody looks at.
        if cotan::inspect::is_detecting() {
            let args = &self.with_constants(py, args)?;
            return self.unprepared(py, args, kwargs, out);
        }
        // Positions count the arguments that are given by position.
        if kwargs.is_some() && self.wrt.is_some() {
            self.log().add_unprepared(CHOSEN);
            let args = &self.with_constants(py, args)?;
            return self.unprepared(py, args, kwargs, out);
        }
        if !crate::array::escapes::is_on() && kwargs.is_none() {
            let first = self.lock().first().map(Arc::clone);
            if let Some(specialization) = first
                && let Some(result) = self.replay_first(py, &specialization, args, out)?
            {
                specialization.num_replays.fetch_add(1, Ordering::Relaxed);
                return Ok(result);
            }
        }
        // What looks at the function and its surroundings is Python code below these frames.
        let _inside = crate::runtime::interpreter_exit::Inside::new();
        let args = &self.with_constants(py, args)?;
        let all = &with_keywords(args, kwargs)?;
        let taken = self.take(py, all, kwargs.is_some())?;
        // What is recorded around it goes on through the function itself.
        if crate::array::escapes::is_on() || taken.goes_on() {
            self.log().add_unprepared(INSIDE);
            return self.unprepared(py, args, kwargs, out);
        }
        match self.replay(py, &taken, out)? {
            Replayed::Result(result) => return Ok(result),
            // Whether this is an error, and which, only the function itself can tell.
            Replayed::Failed => {
                self.log().add_unprepared(ERROR);
                return self.unprepared(py, args, kwargs, out);
            }
            Replayed::No => {}
        }
        let reason = self.reason(py, &taken)?;
        let has_replayed = self.lock().first().is_some_and(|last| {
            // It was recorded or replayed last.
            last.num_replays.load(Ordering::Relaxed) > 0
        });
        let specialization = self.recording(py, all, &taken)?;
        self.keep(&specialization);
        let repeated = self.log().add_recording(reason, has_replayed);
        if let Some(repeated) = repeated {
            reasons::warn(self.function.bind(py), repeated)?;
        }
        match self.run(py, &specialization, &taken, out)? {
            Replayed::Result(result) => Ok(result),
            Replayed::Failed => {
                self.log().add_unprepared(ERROR);
                self.unprepared(py, args, kwargs, out)
            }
            Replayed::No => {
                self.log().add_unprepared(OTHERWISE);
                self.unprepared(py, args, kwargs, out)
            }
        }
    }

    /// Records for arguments like these, if that has not been done; computes nothing else.
    ///
    /// Raises `TypeError` where the function does what a replay could not repeat, as a call would.
    ///
    /// >>> import cotan as ct
    /// >>> cube = ct.prepare(lambda x: x**3)
    /// >>> cube.record(1.0)
    /// >>> cube.num_recordings
    /// 1
    #[pyo3(signature = (*args))]
    fn record(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        let args = &self.with_constants(py, args)?;
        let taken = self.take(py, args, false)?;
        let specialization = self.recording(py, args, &taken)?;
        self.keep(&specialization);
        self.log().add_recording(None, false);
        Ok(())
    }

    /// What is recorded: each specialization with its guards, why the function was recorded anew, and what ran without
    /// preparation.
    ///
    /// >>> import cotan as ct
    /// >>> g = ct.prepare(lambda x: x * x if x > 0 else -x, 1.0)
    /// >>> _ = g(2.0), g(-2.0)
    /// >>> report = g.explain()
    /// >>> report.num_recordings, report.recordings[1].reason.old, report.recordings[1].reason.new
    /// (2, 'True', 'False')
    fn explain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let specializations = self.lock().clone();
        let mut kept = Vec::with_capacity(specializations.len());
        for specialization in &specializations {
            let names = self.names(py, specialization.trees.len(), specialization.by_keyword);
            let (arguments, guards) = reasons::outline(py, specialization, &names)?;
            let num_replays = specialization.num_replays.load(Ordering::Relaxed);
            kept.push((arguments, guards, num_replays));
        }
        let log = self.log().clone();
        let function = self.function.bind(py);
        let given = (
            function,
            self.transform.name(),
            kept,
            log.count,
            log.recordings(),
            log.unprepared,
        );
        hooks::PREPARED_REPORT.get(py)?.call1(given)
    }

    /// How many recordings are kept: one for each shape, dtype, structure and way through the code.
    ///
    /// At most 32: the one that was not used for the longest time goes first.
    ///
    /// >>> import cotan as ct
    /// >>> import numpy as np
    /// >>> total = ct.prepare(np.sum, transform="value")
    /// >>> total(np.ones(2)), total(np.ones(3)), total.num_recordings
    /// (np.float64(2.0), np.float64(3.0), 2)
    #[getter]
    fn num_recordings(&self) -> usize {
        self.lock().len()
    }

    /// Forgets all recordings.
    ///
    /// >>> import cotan as ct
    /// >>> cube = ct.prepare(lambda x: x**3, 1.0)
    /// >>> cube.clear()
    /// >>> cube.num_recordings
    /// 0
    fn clear(&self) {
        let specializations = std::mem::take(&mut *self.lock());
        drop(specializations);
    }

    /// The programs that are replayed, the last used first.
    ///
    /// >>> import cotan as ct
    /// >>> len(ct.prepare(lambda x: x**3, 1.0).programs)
    /// 1
    #[getter]
    fn programs(&self) -> PyResult<Vec<PyProgram>> {
        let specializations = self.lock().clone();
        specializations
            .iter()
            .map(|v| PyProgram::recorded(v.program.program().clone(), Vec::new()))
            .collect()
    }

    /// The function itself.
    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.function.clone_ref(py)
    }

    /// By the function, which has to be one that can be pickled; it is recorded anew where it is used.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        // The decorator has put it where the function would be looked for.
        let found = (hooks::PICKLE_BY_NAME.get(py)?).call1((slf, this.function.bind(py)))?;
        if !found.is_none() {
            return Ok(found);
        }
        let state = (
            this.function.bind(py),
            this.transform.name(),
            this.wrt.as_ref().map(|w| w.bind(py)),
            this.held.clone(),
            this.out.as_ref().map(|o| o.bind(py)),
            this.allow_int,
        );
        Ok((py.get_type::<PyPrepared>(), state)
            .into_pyobject(py)?
            .into_any())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "<Prepared: {} of {}, {} recordings>",
            self.transform.name(),
            text::repr(self.function.bind(py))?,
            self.lock().len()
        ))
    }
}

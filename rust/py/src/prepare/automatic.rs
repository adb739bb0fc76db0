//! Replays derivatives that are asked for again and again, of functions that nobody has prepared.
//!
//! Problem: in a loop over Python's numbers, running the function again takes most of a gradient, and most callers do not
//! know of `ct.prepare`. A function that has been run a few times, has made many arrays, and only computes
//! (`state/computing_code.py`) is recorded as by `ct.prepare`, and later calls are replays with the same guards. Nobody can
//! see a difference but by time. What cannot be prepared, or turns out to be recorded too often, runs as it did.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::array::escapes;
use crate::ndarray::placement::used;
use crate::prepare::repeated::Repeated;
use crate::prepare::repeated_functions::{self, Outcome};
use crate::prepare::replay_mode::{Mode, mode};
use crate::runtime::recording_state;
use crate::transforms::automatic_replay::{Call, Wanted};

/// Gradients of functions that make fewer arrays are run: a replay would gain little.
const FEWEST_ARRAYS: u64 = 16;
/// The same for Jacobians and second derivatives, which take longer than what they are of.
const FEWEST_OF_DERIVED: u64 = 4;
/// Functions that make more arrays are run: nobody expects a call that takes as long as recording them.
const MOST_ARRAYS: u64 = 1 << 18;

/// Notes that the function of a call has run, and how many arrays that made.
pub fn note(call: &Call<'_, '_>, arrays: u64) {
    let fewest = match call.derived {
        Some(_) => FEWEST_OF_DERIVED,
        None => FEWEST_ARRAYS,
    };
    let counts = match mode() {
        Mode::Never => false,
        Mode::Auto => (fewest..=MOST_ARRAYS).contains(&arrays),
        Mode::Always => true,
    };
    if counts {
        repeated_functions::count_run(call);
    }
}

/// What is asked for by a replay, or by a new recording; nothing where the function has to run.
pub fn answer<'py>(call: &Call<'_, 'py>, wanted: Wanted) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = call.args.py();
    let Some(found) = repeated_functions::find(call, wanted) else {
        return Ok(None);
    };
    if found.repeated.is_none() && !found.may_record || !may_replay(py)? {
        return Ok(None);
    }
    if let Some(repeated) = &found.repeated
        && let Some(result) = repeated.replay(py, call.args)?
    {
        repeated_functions::count_replay(call);
        return Ok(Some(result));
    }
    if !found.may_record || !repeated_functions::begin(call) {
        return Ok(None);
    }
    let repeated = match found.repeated {
        Some(repeated) => Ok(Some(repeated)),
        None => Repeated::new(call, wanted),
    };
    let made = repeated.and_then(|repeated| match repeated {
        Some(repeated) => Ok((repeated.record(py, call.args)?).map(|result| (repeated, result))),
        None => Ok(None),
    });
    let (outcome, result) = match made {
        Ok(Some((repeated, result))) => (Outcome::Recorded(repeated), Ok(Some(result))),
        Ok(None) => (Outcome::Refused, Ok(None)),
        Err(error) => (Outcome::Interrupted, Err(error)),
    };
    repeated_functions::end(call, outcome);
    result
}

/// Whether replays give what a run would: not where the surroundings ask for something of their own, and not where
/// somebody watches each line.
fn may_replay(py: Python<'_>) -> PyResult<bool> {
    let state = recording_state::state(py);
    let is_plain = state.recordings == 0 && !state.is_strict && state.may_lift();
    let is_free = is_plain
        && !escapes::is_on()
        && !recording_state::is_tracing()
        && !cotan::inspect::is_detecting()
        && !cotan::sched::is_profiled()
        && used(py)?.is_none();
    Ok(is_free && !is_watched(py)?)
}

/// Whether a debugger, a profiler or a measurement of coverage follows the lines that run.
fn is_watched(py: Python<'_>) -> PyResult<bool> {
    static WATCHERS: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let watchers = WATCHERS.get_or_try_init(py, || {
        let sys = py.import("sys")?;
        let mut found = vec![
            sys.getattr("gettrace")?.unbind(),
            sys.getattr("getprofile")?.unbind(),
        ];
        if let Ok(monitoring) = sys.getattr("monitoring") {
            let tool = monitoring.getattr("get_tool")?;
            let partial = py.import("functools")?.getattr("partial")?;
            for id in 0..6 {
                found.push(partial.call1((&tool, id))?.unbind());
            }
        }
        PyResult::Ok(found)
    })?;
    for watcher in watchers {
        if !watcher.bind(py).call0()?.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

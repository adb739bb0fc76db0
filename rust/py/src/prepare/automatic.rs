//! Replays gradients that are asked for again and again, of functions that nobody has prepared.
//!
//! Problem: in a loop over Python's numbers, running the function again takes most of a gradient, and most callers do not
//! know of `ct.prepare`. A function that has been run a few times, has made many arrays, and only computes
//! (`state/computing_code.py`) is recorded as by `ct.prepare`, and later calls are replays with the same guards. Nobody can
//! see a difference but by time. What cannot be prepared, or turns out to be recorded too often, runs as it did.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pyo3::exceptions::{PyException, PyMemoryError, PyOSError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFloat, PyInt, PyString, PyTuple};

use crate::ndarray::placement::is_used;
use crate::prepare::record::Transform;
use crate::prepare::recordings::PyPrepared;
use crate::prepare::specialization::{Outputs, Specialization};
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::runtime::recording_state;
use crate::transforms::automatic_replay::{Call, Wanted, is_partial};

exports!(forget_repeated_functions, num_automatic_replays);

/// Functions that make fewer arrays are run: a replay would gain little;
const FEWEST_ARRAYS: u64 = 16;
/// so are those that make more: recording them takes too long to come as a surprise.
const MOST_ARRAYS: u64 = 1 << 18;
/// A recording takes about four times as long as a run, and is made after so many.
const RUNS: u32 = 4;
/// After a recording that was not replayed the next one waits longer, up to so many runs.
const MOST_RUNS: u32 = 1 << 12;
/// So many codes are known,
const CODES: usize = 256;
/// and for so many functions recordings are kept, of each code for so many.
const FUNCTIONS: usize = 32;
const OF_ONE_CODE: usize = 4;

/// What is known of functions with the same code.
struct Known {
    /// Keeps it alive, so that its address names it alone.
    _code: Py<PyAny>,
    /// When it was met last.
    stamp: u64,
    /// How often a function with it has run since the last recording.
    runs: u32,
    /// After how many runs the next recording is made.
    wanted: u32,
    /// How often recordings were replayed since the last one.
    replays: u32,
    /// Whether there was no recording yet.
    is_new: bool,
    /// Whether a thread records it.
    is_busy: bool,
    /// Whether it can be replayed at all.
    is_refused: bool,
    functions: Vec<Arc<Repeated>>,
}

/// A function with its recordings.
struct Repeated {
    function: Py<PyAny>,
    wrt: Option<Py<PyAny>>,
    wanted: Wanted,
    prepared: PyPrepared,
}

#[derive(Default)]
struct Table {
    by_code: HashMap<usize, Known>,
    clock: u64,
    num_replays: u64,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// The table; nothing where another thread has it, which may be one that a fork has left behind.
fn table() -> Option<MutexGuard<'static, Option<Table>>> {
    TABLE.try_lock().ok()
}

/// How often a gradient was replayed that nobody had prepared, in this process.
#[pyfunction]
#[pyo3(signature = () -> "int")]
pub fn num_automatic_replays() -> u64 {
    table().map_or(0, |t| t.as_ref().map_or(0, |t| t.num_replays))
}

/// Forgets the functions that were run again and again, and their recordings: what they hold is free.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn forget_repeated_functions() {
    let all = table().and_then(|mut table| table.take());
    drop(all);
}

/// When functions are replayed.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Never,
    /// After some runs, where that pays.
    Auto,
    /// From the first call on, whatever it is: for tests.
    Always,
}

/// What the environment variable `COTAN_REPLAY` asks for.
fn mode() -> Mode {
    static MODE: AtomicU8 = AtomicU8::new(0);
    match MODE.load(Ordering::Relaxed) {
        1 => Mode::Never,
        2 => Mode::Auto,
        3 => Mode::Always,
        _ => {
            let told = std::env::var("COTAN_REPLAY");
            let (number, mode) = match told.as_deref() {
                Ok("0") => (1, Mode::Never),
                Ok("always") => (3, Mode::Always),
                _ => (2, Mode::Auto),
            };
            MODE.store(number, Ordering::Relaxed);
            mode
        }
    }
}

/// Notes that a function has run, and how many arrays it has made.
pub fn note(code: &Bound<'_, PyAny>, arrays: u64) {
    let mode = mode();
    let is_fitting = (FEWEST_ARRAYS..=MOST_ARRAYS).contains(&arrays);
    if !is_fitting && mode != Mode::Always || mode == Mode::Never {
        return;
    }
    let dropped = table().and_then(|mut table| {
        let table = table.get_or_insert_default();
        let known = table.known(code);
        known.runs = known.runs.saturating_add(1);
        (table.by_code.len() > CODES).then(|| table.drop_oldest(|_| true))
    });
    // What goes may run code, which must not find the lock taken.
    drop(dropped);
}

impl Table {
    /// What is known of a code, from now on.
    fn known(&mut self, code: &Bound<'_, PyAny>) -> &mut Known {
        self.clock += 1;
        let stamp = self.clock;
        let known = self.by_code.entry(code.as_ptr() as usize);
        let known = known.or_insert_with(|| Known {
            _code: code.clone().unbind(),
            stamp,
            runs: 0,
            wanted: if mode() == Mode::Always { 0 } else { RUNS },
            replays: 0,
            is_new: true,
            is_busy: false,
            is_refused: false,
            functions: Vec::new(),
        });
        known.stamp = stamp;
        known
    }

    /// Takes out what was not met for the longest time, of what is asked for.
    fn drop_oldest(&mut self, asked: impl Fn(&Known) -> bool) -> Option<Known> {
        let all = self.by_code.iter().filter(|(_, known)| asked(known));
        let (&code, _) = all.min_by_key(|(_, known)| known.stamp)?;
        self.by_code.remove(&code)
    }

    fn num_functions(&self) -> usize {
        self.by_code.values().map(|k| k.functions.len()).sum()
    }
}

/// The gradients by a replay, or by a new recording; nothing where the function has to run.
pub fn answer<'py>(call: &Call<'_, 'py>, wanted: Wanted) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = call.args.py();
    let code = call.code.as_ptr() as usize;
    let (found, records) = {
        let Some(mut table) = table() else {
            return Ok(None);
        };
        if mode() == Mode::Always {
            table.get_or_insert_default().known(&call.code);
        }
        let Some(table) = table.as_mut() else {
            return Ok(None);
        };
        table.clock += 1;
        let clock = table.clock;
        let Some(known) = table.by_code.get_mut(&code) else {
            return Ok(None);
        };
        known.stamp = clock;
        if known.is_refused {
            return Ok(None);
        }
        let found = known.functions.iter().position(|r| r.is_of(call, wanted));
        let found = found.map(|at| {
            known.functions[..=at].rotate_right(1);
            Arc::clone(&known.functions[0])
        });
        (found, !known.is_busy && known.runs >= known.wanted)
    };
    if found.is_none() && !records || !may_replay(py)? {
        return Ok(None);
    }
    if let Some(repeated) = &found
        && let Some(result) = repeated.replay(py, call.args)?
    {
        if let Some(mut table) = table()
            && let Some(table) = table.as_mut()
        {
            table.num_replays += 1;
            if let Some(known) = table.by_code.get_mut(&code) {
                known.replays = known.replays.saturating_add(1);
            }
        }
        return Ok(Some(result));
    }
    if !records || !begin(code) {
        return Ok(None);
    }
    let made = recorded(call, wanted, found);
    let (repeated, result) = match made {
        Ok((repeated, result)) => (repeated, Ok(result)),
        Err(error) => (None, Err(error)),
    };
    end(code, repeated);
    result
}

/// Whether replays give what a run would: not where the surroundings ask for something of their own, and not where
/// somebody watches each line.
fn may_replay(py: Python<'_>) -> PyResult<bool> {
    let state = recording_state::state(py);
    let is_plain = state.recordings == 0 && !state.is_strict && state.may_lift();
    let is_free = is_plain
        && !crate::array::escapes::is_on()
        && !recording_state::is_tracing()
        && !cotan::inspect::is_detecting()
        && !cotan::sched::is_profiled()
        && !is_used();
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

/// Lets this thread record, unless another one does.
fn begin(code: usize) -> bool {
    let Some(mut table) = table() else {
        return false;
    };
    let known = table.as_mut().and_then(|t| t.by_code.get_mut(&code));
    known.is_some_and(|known| !std::mem::replace(&mut known.is_busy, true))
}

/// Keeps what a recording has made. Functions that cannot be replayed are not tried again.
fn end(code: usize, made: Option<Arc<Repeated>>) {
    let mut dropped = Vec::new();
    let mut functions = Vec::new();
    let locked = (0..1000).find_map(|_| {
        let locked = table();
        if locked.is_none() {
            std::thread::yield_now();
        }
        locked
    });
    if let Some(mut table) = locked
        && let Some(table) = table.as_mut()
    {
        if let Some(known) = table.by_code.get_mut(&code) {
            known.is_busy = false;
            known.runs = 0;
            if mode() == Mode::Auto {
                let was_worth_it = known.is_new || known.replays >= known.wanted;
                known.is_new = false;
                known.wanted = if was_worth_it {
                    RUNS
                } else {
                    (2 * known.wanted).min(MOST_RUNS)
                };
            }
            known.replays = 0;
            match made {
                Some(made) => {
                    known.functions.retain(|other| !Arc::ptr_eq(other, &made));
                    known.functions.insert(0, made);
                    while known.functions.len() > OF_ONE_CODE {
                        functions.extend(known.functions.pop());
                    }
                }
                None => {
                    known.is_refused = true;
                    functions.append(&mut known.functions);
                }
            }
        }
        while table.num_functions() > FUNCTIONS {
            dropped.extend(table.drop_oldest(|known| !known.functions.is_empty()));
        }
    }
    // What goes may run code, which must not find the lock taken.
    drop((dropped, functions));
}

/// What came of a recording: the function with its recordings, if it can be replayed, and the gradients.
type Recorded<'py> = (Option<Arc<Repeated>>, Option<Bound<'py, PyAny>>);

fn recorded<'py>(
    call: &Call<'_, 'py>,
    wanted: Wanted,
    found: Option<Arc<Repeated>>,
) -> PyResult<Recorded<'py>> {
    let repeated = match found {
        Some(found) => found,
        None => match Repeated::new(call, wanted)? {
            Some(made) => Arc::new(made),
            None => return Ok((None, None)),
        },
    };
    match repeated.record(call.args.py(), call.args)? {
        Some(result) => Ok((Some(repeated), Some(result))),
        None => Ok((None, None)),
    }
}

impl Repeated {
    /// A function of which nothing is recorded yet; nothing where it, or what is asked for, is out of the ordinary.
    fn new(call: &Call<'_, '_>, wanted: Wanted) -> PyResult<Option<Repeated>> {
        let is_simple = call.wrt.is_none_or(is_simple);
        let own = call.f.getattr(intern!(call.args.py(), "__dict__"))?;
        if !is_simple || own.is_truthy()? {
            return Ok(None);
        }
        let transform = match wanted {
            Wanted::Gradient | Wanted::FullGradient => Transform::Gradient,
            Wanted::ValueAndGradient | Wanted::ValueAndFullGradient => Transform::ValueAndGradient,
        };
        let wrt = call.wrt.map(|wrt| wrt.clone().unbind());
        let function = call.f.clone().unbind();
        let py = call.args.py();
        let prepared = PyPrepared::automatic(
            function.clone_ref(py),
            transform,
            wrt.as_ref().map(|wrt| wrt.clone_ref(py)),
        );
        Ok(Some(Repeated {
            function,
            wrt,
            wanted,
            prepared,
        }))
    }

    /// Whether this is the function that is asked for, or one with the same variables, and what is asked of it the same.
    fn is_of(&self, call: &Call<'_, '_>, wanted: Wanted) -> bool {
        let py = call.args.py();
        if self.wanted != wanted {
            return false;
        }
        let is_same_wrt = match (&self.wrt, call.wrt) {
            (None, None) => true,
            (Some(a), Some(b)) => is_simple(b) && a.bind(py).eq(b).unwrap_or(false),
            _ => false,
        };
        is_same_wrt && is_same_function(self.function.bind(py), &call.f).unwrap_or(false)
    }

    /// The gradients by a replay, if a recording fits.
    fn replay<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.prepared.replayed_automatically(py, args) {
            Err(error) if may_run_again(py, &error)? => Ok(None),
            made => made,
        }
    }

    /// The gradients by a new recording, if the function only computes and can be recorded.
    fn record<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _inside = crate::runtime::interpreter_exit::Inside::new();
        let attempt = hooks::ATTEMPT.get(py)?.call1((&self.function, args))?;
        let fits = |made: &Specialization| {
            let Outputs::Gradients(_, slots) = &made.outputs else {
                return false;
            };
            // A replay that calls Python gains little, and gradients of such calls have other zeros.
            let is_free = made.written.is_empty() && !made.program.calls_back();
            let is_full = matches!(
                self.wanted,
                Wanted::FullGradient | Wanted::ValueAndFullGradient
            );
            is_free && (!is_full || slots.iter().all(Option::is_some))
        };
        attempt.call_method0(intern!(py, "__enter__"))?;
        let made = self.prepared.recorded_automatically(py, args, fits);
        let none = py.None();
        attempt.call_method1(intern!(py, "__exit__"), (&none, &none, &none))?;
        match made {
            Err(error) if may_run_again(py, &error)? => {
                attempt.call_method0(intern!(py, "restore"))?;
                Ok(None)
            }
            // A run warns.
            Ok(_) if attempt.getattr(intern!(py, "has_warned"))?.is_truthy()? => Ok(None),
            made => made,
        }
    }
}

/// Whether the function is to run, and to raise what it raises. Errors that have nothing to do with how it is run are
/// raised as they are: those of the program's own classes, which a handler of a signal may raise, and those of the system.
fn may_run_again(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
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
    let have_same = |name| both(name).map(|(a, b)| are_same(&a, &b));
    if is_partial(a)? {
        let (named, others) = both("keywords")?;
        let (a, b) = both("func")?;
        return Ok(have_same("args")?
            && are_same(&items(&named)?, &items(&others)?)
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

/// Whether two tuples hold the same objects, or floats with the same bits.
fn are_same(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    match (a.cast_exact::<PyTuple>(), b.cast_exact::<PyTuple>()) {
        (Ok(a), Ok(b)) => {
            let mut pairs = a.iter_borrowed().zip(b.iter_borrowed());
            a.len() == b.len() && pairs.all(|(a, b)| a.is(&*b) || is_same_float(&a, &b))
        }
        _ => a.is(b),
    }
}

fn is_same_float(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    match (a.cast_exact::<PyFloat>(), b.cast_exact::<PyFloat>()) {
        (Ok(a), Ok(b)) => a.value().to_bits() == b.value().to_bits(),
        _ => false,
    }
}

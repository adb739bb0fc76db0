//! Installs overrides while something is recorded: names on modules such as `numpy` and `math` lead to functions
//! that take arrays of ours.
//!
//! A module is lifted by giving it another class, whose descriptors come before the module's own
//! names; so it costs one assignment for each module, whatever the number of names, and taking it
//! back leaves no trace. A descriptor looks at its caller: a thread that records nothing, and code of
//! libraries that hand memory to C, get what the module has.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyCFunction, PyDict, PyModule, PyString, PyType};

use crate::interpose::module_class::Module;
use crate::interpose::slot::{Override, When};
use crate::interpose::slot_function::Functions;
use crate::interpose::slot_method::Methods;
use crate::interpose::slot_ufunc::Ufuncs;
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::interpreter_exit;
use crate::runtime::once_cell::{Once, intern};
use crate::runtime::recording_state::{self, recordings};

exports!(
    after_fork_in_child,
    add_lifted,
    set_imported,
    add_ufuncs,
    add_method
);

/// How many recordings go on in the process, and what they lift.
struct State {
    recordings: usize,
    modules: Vec<Module>,
    imported: Vec<ImportedName>,
    /// The modules of programs, with their names: another one may have come in the place of one.
    programs: Vec<(Py<PyString>, Py<PyAny>)>,
    ufuncs: Ufuncs,
    methods: Methods,
    functions: Functions,
}

/// A name that a module has imported from one that is lifted: `from numpy import zeros`.
#[derive(FromPyObject)]
pub struct ImportedName {
    names: Py<PyDict>,
    name: Py<PyString>,
    original: Py<PyAny>,
    stand_in: Py<PyAny>,
}

impl ImportedName {
    /// Lets the name mean one or the other, unless somebody gave it another meaning.
    fn set(&self, py: Python<'_>, lifted: bool) -> PyResult<()> {
        let (from, to) = if lifted {
            (&self.original, &self.stand_in)
        } else {
            (&self.stand_in, &self.original)
        };
        let (names, name) = (self.names.bind(py), self.name.bind(py));
        match names.get_item(name)? {
            Some(found) if found.is(from) => names.set_item(name, to),
            _ => Ok(()),
        }
    }
}

static STATE: Mutex<State> = Mutex::new(State {
    recordings: 0,
    modules: Vec::new(),
    imported: Vec::new(),
    programs: Vec::new(),
    ufuncs: Ufuncs::new(),
    methods: Methods::new(),
    functions: Functions::new(),
});

/// How many modules there were when it was last looked which can be lifted, and how many names in the
/// one that grows while it runs.
static SEEN: AtomicUsize = AtomicUsize::new(0);
static SEEN_MAIN: AtomicUsize = AtomicUsize::new(0);

fn state(py: Python<'_>) -> MutexGuard<'static, State> {
    STATE
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner)
}

/// How many modules of programs are looked at before each gradient.
const NEWEST: usize = 16;

impl State {
    /// Whether a module of a program is gone, or another one has its name. Of many modules the newest are
    /// looked at: this is paid for with every gradient.
    fn has_other_programs(&self, modules: &Bound<'_, PyDict>) -> PyResult<bool> {
        for (name, module) in self.programs.iter().rev().take(NEWEST) {
            match modules.get_item(name)? {
                Some(found) if found.is(module) => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// All of it, whatever fails: an error that a key of somebody else's raises is given in the end.
    fn set(&self, py: Python<'_>, lifted: bool) -> PyResult<()> {
        for m in &self.modules {
            m.set(py, lifted);
        }
        let mut outcome = Ok(());
        for name in &self.imported {
            outcome = outcome.and(name.set(py, lifted));
        }
        self.ufuncs.set(lifted);
        self.methods.set(lifted);
        self.functions.set(lifted);
        outcome
    }
}

/// Counts a recording; the first one lifts the names.
pub fn enter(py: Python<'_>) -> PyResult<()> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    // What prepares it is Python code below these frames.
    let _inside = interpreter_exit::Inside::new();
    let modules = MODULES.made(py, || -> PyResult<_> {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let modules = modules.bind(py);
    let count = modules.len();
    let main = modules.get_item(intern!(py, "__main__"))?;
    let main = main.as_ref().and_then(|m| m.cast::<PyModule>().ok());
    let own = main.map_or(0, |m| m.dict().len());
    let more = SEEN.load(Ordering::Relaxed) != count || SEEN_MAIN.load(Ordering::Relaxed) != own;
    if more || state(py).has_other_programs(modules)? {
        let ready = hooks::INSTALL.get(py)?.call0()?;
        // Only now, as it may be interrupted. What another thread still imports waits for the next time.
        let seen = if ready.is_truthy()? { count } else { 0 };
        SEEN.store(seen, Ordering::Relaxed);
        SEEN_MAIN.store(own, Ordering::Relaxed);
    }
    let mut state = state(py);
    if state.recordings == 0
        && let Err(error) = state.set(py, true)
    {
        // What this one raises is raised already.
        let _ = state.set(py, false);
        return Err(error);
    }
    state.recordings += 1;
    drop(state);
    recording_state::begin_recording();
    interpreter_exit::enter();
    interpreter_exit::rest(py);
    Ok(())
}

/// Counts a recording less; the last one takes the names back.
pub fn leave(py: Python<'_>) {
    interpreter_exit::rest(py);
    interpreter_exit::leave();
    recording_state::end_recording();
    let mut state = state(py);
    state.recordings = state.recordings.saturating_sub(1);
    if state.recordings == 0
        && let Err(error) = state.set(py, false)
    {
        error.write_unraisable(py, None);
    }
}

/// Called in the child just after a fork: only this thread goes on recording.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn after_fork_in_child(py: Python<'_>) {
    let mut state = state(py);
    if state.recordings > 0
        && recordings() == 0
        && let Err(error) = state.set(py, false)
    {
        error.write_unraisable(py, None);
    }
    state.recordings = recordings();
    drop(state);
    interpreter_exit::after_fork_in_child();
}

/// Lets a module have another class while something is recorded; gives the class that it has then, which
/// is an earlier one if there is one.
#[pyfunction]
#[pyo3(signature = (module: "Any", lifted: "type") -> "type")]
pub fn add_lifted(
    py: Python<'_>,
    module: Bound<'_, PyAny>,
    lifted: Bound<'_, PyType>,
) -> PyResult<Py<PyType>> {
    let known = (state(py).modules.iter().find(|m| m.is(&module))).map(|m| m.lifted(py));
    if let Some(known) = known {
        return Ok(known);
    }
    let new = Module::new(&module, lifted)?;
    let class = new.lifted(py);
    let mut state = state(py);
    if state.recordings > 0 {
        new.set(py, true);
    }
    state.modules.push(new);
    Ok(class)
}

/// Lets names that modules have imported before stand for what knows our arrays, while something is
/// recorded: these, and no others. It is looked again when one of some modules has become another one.
#[pyfunction]
#[pyo3(signature = (imported: "Sequence[Any]", programs: "list[tuple[str, ModuleType]]") -> "None")]
pub fn set_imported(
    py: Python<'_>,
    imported: Vec<ImportedName>,
    programs: Vec<(Py<PyString>, Py<PyAny>)>,
) -> PyResult<()> {
    let mut state = state(py);
    let lifted = state.recordings > 0;
    if lifted {
        for name in &state.imported {
            name.set(py, false)?;
        }
        for name in &imported {
            name.set(py, true)?;
        }
    }
    let before = (
        std::mem::replace(&mut state.imported, imported),
        std::mem::replace(&mut state.programs, programs),
    );
    // What is freed may run code of its own, without the lock.
    drop(state);
    drop(before);
    Ok(())
}

/// Lets ufuncs take lists of our arrays while something is recorded.
#[pyfunction]
#[pyo3(signature = (ufuncs: "list[np.ufunc]") -> "None")]
pub fn add_ufuncs(py: Python<'_>, ufuncs: Vec<Py<PyAny>>) -> PyResult<()> {
    let mut state = state(py);
    let lifted = state.recordings > 0;
    for ufunc in ufuncs {
        state.ufuncs.add(py, ufunc, lifted)?;
    }
    Ok(())
}

/// Lets a rule compute a compiled method or function while something is recorded: where one of our arrays is in a
/// list among the arguments (`"lists"`), or is one itself, too (`"arrays"`), or only so (`"numbers"`); where a gradient
/// follows an argument (`"followed"`); or `"always"`. It may give `NotImplemented` for the original's own way. False when it is of another kind.
#[pyfunction]
#[pyo3(signature = (method: "Any", rule: "Callable[..., Any]", when: "str") -> "bool")]
pub fn add_method(
    py: Python<'_>,
    method: Bound<'_, PyAny>,
    rule: Py<PyAny>,
    when: &str,
) -> PyResult<bool> {
    let when = match when {
        "lists" => When::Lists,
        "arrays" => When::Arrays,
        "numbers" => When::Numbers,
        "followed" => When::Followed,
        "always" => When::Always,
        _ => return Err(PyValueError::new_err(format!("no such case: {when}"))),
    };
    let rule = Override {
        function: rule,
        when,
    };
    let mut state = state(py);
    let lifted = state.recordings > 0;
    if method.is_exact_instance_of::<PyCFunction>() {
        return state.functions.add(&method, rule, lifted);
    }
    state.methods.add(&method, rule, lifted)
}

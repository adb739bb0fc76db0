//! Lifting: while something is recorded, names on modules such as `numpy` and `math` stand for
//! functions that know our arrays.
//!
//! A module is lifted by giving it another class, whose descriptors come before the module's own
//! names; so it costs one assignment for each module, whatever the number of names, and taking it
//! back leaves no trace. A descriptor looks at who asks: a thread that records nothing, and code of
//! libraries that hand memory to C, get what the module has.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyDict, PyFrozenSet, PyList, PyModule, PyString, PyTuple};

use crate::array::PyArray;
use crate::transforms::nestlevel;

thread_local! {
    /// Whether this thread wants lifting.
    static ON: Cell<bool> = const { Cell::new(true) };
}

/// How many recordings go on in the process, and what they lift.
struct State {
    recordings: usize,
    modules: Vec<Module>,
}

struct Module {
    module: Py<PyAny>,
    /// Its class while something is recorded, and otherwise.
    lifted: Py<PyAny>,
    plain: Py<PyAny>,
}

static STATE: Mutex<State> = Mutex::new(State {
    recordings: 0,
    modules: Vec::new(),
});

/// How many modules there were when it was last looked which can be lifted.
static SEEN: AtomicUsize = AtomicUsize::new(0);

fn state(py: Python<'_>) -> MutexGuard<'static, State> {
    STATE
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn set(&self, py: Python<'_>, lifted: bool) -> PyResult<()> {
        for m in &self.modules {
            let class = if lifted { &m.lifted } else { &m.plain };
            m.module.setattr(py, intern!(py, "__class__"), class)?;
        }
        Ok(())
    }
}

/// Counts a recording; the first one lifts the names.
pub fn enter(py: Python<'_>) -> PyResult<()> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || -> PyResult<_> {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let count = modules.bind(py).len();
    if SEEN.swap(count, Ordering::Relaxed) != count {
        py.import("cotan._lift")?.call_method0("prepare")?;
    }
    let mut state = state(py);
    if state.recordings == 0 {
        state.set(py, true)?;
    }
    state.recordings += 1;
    Ok(())
}

/// Counts a recording less; the last one takes the names back.
pub fn leave(py: Python<'_>) {
    let mut state = state(py);
    state.recordings = state.recordings.saturating_sub(1);
    if state.recordings == 0
        && let Err(error) = state.set(py, false)
    {
        error.write_unraisable(py, None);
    }
}

/// In the child of a `fork` only this thread goes on recording.
pub fn after_fork_in_child(py: Python<'_>) {
    let mut state = state(py);
    if state.recordings > 0 && nestlevel() == 0 {
        if let Err(error) = state.set(py, false) {
            error.write_unraisable(py, None);
        }
    }
    state.recordings = nestlevel();
}

/// Lets a module have another class while something is recorded.
#[pyfunction]
pub fn add_lifted(
    py: Python<'_>,
    module: Bound<'_, PyAny>,
    lifted: Bound<'_, PyAny>,
) -> PyResult<()> {
    let plain = module.getattr("__class__")?;
    // To see now that it can be done.
    module.setattr("__class__", &lifted)?;
    module.setattr("__class__", &plain)?;
    let mut state = state(py);
    if state.recordings > 0 {
        module.setattr("__class__", &lifted)?;
    }
    state.modules.push(Module {
        module: module.unbind(),
        lifted: lifted.unbind(),
        plain: plain.unbind(),
    });
    Ok(())
}

/// Switches lifting on or off in this thread; says what it was before.
#[pyfunction]
pub fn switch_lifting(on: bool) -> bool {
    ON.replace(on)
}

/// Whether names are lifted for this thread.
#[pyfunction]
pub fn is_lifting() -> bool {
    nestlevel() > 0 && ON.get()
}

/// Whether one of our arrays is among arguments, or in lists and tuples among them.
#[pyfunction]
pub fn involves(args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    any_array(args, kwargs, &|_| Ok(true))
}

/// Whether a gradient follows one of the arrays among arguments, or in lists and tuples among them.
#[pyfunction]
pub fn follows(args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    any_array(args, kwargs, &|array| Ok(array.read()?.is_active()))
}

/// As many levels of lists as an array of NumPy can have axes.
const MAX_AXES: usize = 64;

fn any_array(
    args: &Bound<'_, PyTuple>,
    kwargs: &Bound<'_, PyDict>,
    test: &dyn Fn(&PyArray) -> PyResult<bool>,
) -> PyResult<bool> {
    if in_items(args.iter(), test, 0)? {
        return Ok(true);
    }
    in_items(kwargs.iter().map(|(_, value)| value), test, 0)
}

fn in_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    test: &dyn Fn(&PyArray) -> PyResult<bool>,
    depth: usize,
) -> PyResult<bool> {
    if depth > MAX_AXES {
        return Ok(false);
    }
    for item in items {
        let found = if let Ok(array) = item.cast::<PyArray>() {
            test(array.get())?
        } else if let Ok(list) = item.cast::<PyList>() {
            in_items(list.iter(), test, depth + 1)?
        } else if let Ok(tuple) = item.cast::<PyTuple>() {
            in_items(tuple.iter(), test, depth + 1)?
        } else {
            false
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A name of a lifted module, on the class that the module has meanwhile.
#[pyclass(frozen, module = "cotan._core")]
pub struct LiftedName {
    name: Py<PyString>,
    original: Py<PyAny>,
    /// What code gets that may meet our arrays.
    stand_in: Py<PyAny>,
    /// What code gets of libraries that hand memory to C; the original for None.
    foreign: Option<Py<PyAny>>,
    /// Names of those libraries.
    libraries: Py<PyFrozenSet>,
}

#[pymethods]
impl LiftedName {
    #[new]
    #[pyo3(signature = (name, original, stand_in, foreign, libraries))]
    fn new(
        name: Py<PyString>,
        original: Py<PyAny>,
        stand_in: Py<PyAny>,
        foreign: Option<Py<PyAny>>,
        libraries: Py<PyFrozenSet>,
    ) -> LiftedName {
        LiftedName {
            name,
            original,
            stand_in,
            foreign,
            libraries,
        }
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        module: Option<&Bound<'py, PyAny>>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = owner;
        let py = slf.py();
        let Some(module) = module else {
            return Ok(slf.clone().into_any());
        };
        let this = slf.get();
        let found = names(module)?.get_item(&this.name)?;
        let Some(found) = found else {
            return Err(PyAttributeError::new_err(format!(
                "module {} has no attribute {}",
                module.getattr("__name__")?.repr()?,
                this.name.bind(py).repr()?
            )));
        };
        // Somebody gave the name another meaning.
        if !is_lifting() || !found.is(&this.original) {
            return Ok(found);
        }
        if asked_by_one_of(this.libraries.bind(py))? {
            return Ok(match &this.foreign {
                Some(foreign) => foreign.bind(py).clone(),
                None => found,
            });
        }
        Ok(this.stand_in.bind(py).clone())
    }

    fn __set__(&self, module: &Bound<'_, PyAny>, value: Bound<'_, PyAny>) -> PyResult<()> {
        names(module)?.set_item(&self.name, value)
    }

    fn __delete__(&self, module: &Bound<'_, PyAny>) -> PyResult<()> {
        names(module)?.del_item(&self.name)
    }
}

/// The names that a module has itself.
fn names<'py>(module: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    Ok(module.cast::<PyModule>()?.dict())
}

/// Whether the running Python code belongs to one of these libraries.
fn asked_by_one_of(libraries: &Bound<'_, PyFrozenSet>) -> PyResult<bool> {
    static GLOBALS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = libraries.py();
    let globals = GLOBALS.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.import("builtins")?.getattr("globals")?.unbind())
    })?;
    let globals = globals.bind(py).call0()?;
    let Ok(globals) = globals.cast_exact::<PyDict>() else {
        // Code that runs with names of our making.
        return Ok(true);
    };
    let Some(name) = globals.get_item(intern!(py, "__name__"))? else {
        return Ok(false);
    };
    let Ok(name) = name.cast::<PyString>() else {
        return Ok(false);
    };
    let name = name.to_cow()?;
    libraries.contains(name.split('.').next().unwrap_or(&name))
}

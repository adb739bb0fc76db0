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

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{
    PyBool, PyCFunction, PyComplex, PyDict, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple,
    PyType,
};

use crate::array::PyArray;
use crate::asking::{Asking, who_asks};
use crate::dispatcher_call;
use crate::exit;
use crate::function_call::Functions;
use crate::method_call::{Asked, Methods};
use crate::module_class::Module;
use crate::scalar::as_array;
use crate::ufunc_call::Ufuncs;

thread_local! {
    /// Whether this thread wants lifting.
    static ON: Cell<bool> = const { Cell::new(true) };
}

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

thread_local! {
    /// How many recordings are going on in this thread, whether they differentiate or not.
    static RECORDINGS: Cell<usize> = const { Cell::new(0) };
}

fn recordings() -> usize {
    RECORDINGS.get()
}

/// Counts a recording; the first one lifts the names.
pub fn enter(py: Python<'_>) -> PyResult<()> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || -> PyResult<_> {
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
        let ready = py.import("cotan._lift")?.call_method0("prepare")?;
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
    RECORDINGS.set(RECORDINGS.get() + 1);
    exit::enter();
    exit::rest(py);
    Ok(())
}

/// Counts a recording less; the last one takes the names back.
pub fn leave(py: Python<'_>) {
    exit::rest(py);
    exit::leave();
    RECORDINGS.set(RECORDINGS.get().saturating_sub(1));
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
    if state.recordings > 0
        && recordings() == 0
        && let Err(error) = state.set(py, false)
    {
        error.write_unraisable(py, None);
    }
    state.recordings = recordings();
}

/// Lets a module have another class while something is recorded; gives the class that it has then, which
/// is an earlier one if there is one.
#[pyfunction]
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
pub fn add_method(
    py: Python<'_>,
    method: Bound<'_, PyAny>,
    rule: Py<PyAny>,
    asked: &str,
) -> PyResult<bool> {
    let asked = match asked {
        "lists" => Asked::Lists,
        "arrays" => Asked::Arrays,
        "numbers" => Asked::Numbers,
        "followed" => Asked::Followed,
        "always" => Asked::Always,
        _ => return Err(PyValueError::new_err(format!("no such case: {asked}"))),
    };
    let mut state = state(py);
    let lifted = state.recordings > 0;
    if method.is_exact_instance_of::<PyCFunction>() {
        return state.functions.add(&method, rule, asked, lifted);
    }
    state.methods.add(&method, rule, asked, lifted)
}

/// Switches lifting on or off in this thread; says what it was before.
#[pyfunction]
pub fn switch_lifting(on: bool) -> bool {
    ON.replace(on)
}

/// Whether names are lifted for this thread.
#[pyfunction]
pub fn is_lifting() -> bool {
    recordings() > 0 && ON.get()
}

/// Whether names may be lifted for this thread, should it meet what another one records.
pub fn wants_lifting() -> bool {
    ON.get()
}

/// Whether one of our arrays is among arguments, or in lists and tuples among them.
#[pyfunction]
pub fn involves(args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    any_array(args, Some(kwargs), &|_| Ok(true))
}

/// Whether a gradient follows an argument, or something in it.
pub fn follows(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let test = |array: &PyArray| Ok(array.read()?.is_active());
    in_items(std::iter::once(given.clone()), &test, 0)
}

/// As many levels of lists as an array of NumPy can have axes.
const MAX_AXES: usize = 64;

fn any_array(
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    test: &dyn Fn(&PyArray) -> PyResult<bool>,
) -> PyResult<bool> {
    if in_items(args.iter(), test, 0)? {
        return Ok(true);
    }
    match kwargs {
        Some(kwargs) => in_items(kwargs.iter().map(|(_, value)| value), test, 0),
        None => Ok(false),
    }
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
        } else if let Some(base) = elements_of(&item)? {
            test(base.cast::<PyArray>()?.get())?
        } else {
            false
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The arguments, with arrays of ours in the place of objects that give themselves out as such, where NumPy
/// complained of that.
fn given_out<'py>(
    error: &PyErr,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let py = args.py();
    let said = "__array__ method not producing an array";
    if !error.is_instance_of::<PyValueError>(py) || !error.value(py).str()?.to_str()?.contains(said)
    {
        return Ok(None);
    }
    let mut found = false;
    let mut given = Vec::with_capacity(args.len());
    for arg in args.iter() {
        let array = as_array(&arg)?.filter(PyAnyMethods::is_instance_of::<PyArray>);
        found = found || array.is_some();
        given.push(array.unwrap_or(arg));
    }
    found.then(|| PyTuple::new(py, given)).transpose()
}

/// The array that an object gives the elements of: `x.flat`.
fn elements_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    static FLAT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    if !object
        .get_type()
        .is(FLAT.import(py, "cotan._numpy_own", "Flat")?)
    {
        return Ok(None);
    }
    object.getattr(intern!(py, "base")).map(Some)
}

/// A function that stands in for another one, which it is like in all but what it does with our
/// arrays.
#[pyclass(frozen, subclass, module = "cotan._core")]
pub struct StandIn {
    original: Py<PyAny>,
    /// What computes it when one of our arrays is met.
    rule: Option<Py<PyAny>>,
    /// Whether NumPy asks our arrays what to do, where they are arguments themselves.
    dispatched: bool,
    /// Whether what it makes may be written to.
    creates: bool,
    when: When,
}

/// When a stand-in looks for our arrays.
#[derive(Clone, Copy, PartialEq)]
enum When {
    /// While names are lifted.
    Lifted,
    /// While names are lifted, and for arrays that a gradient follows: the way of libraries.
    Followed,
    /// Always: it was imported from a namespace of ours.
    Imported,
}

#[pymethods]
impl StandIn {
    #[new]
    fn new(
        original: Py<PyAny>,
        rule: Option<Py<PyAny>>,
        dispatched: bool,
        creates: bool,
        when: &str,
    ) -> PyResult<StandIn> {
        let when = match when {
            "lifted" => When::Lifted,
            "followed" => When::Followed,
            "imported" => When::Imported,
            _ => return Err(PyValueError::new_err(format!("no such time: {when}"))),
        };
        Ok(StandIn {
            original,
            rule,
            dispatched,
            creates,
            when,
        })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let is_on = self.when == When::Imported || is_lifting();
        if is_on && (self.rule.is_some() || self.dispatched) {
            let args = &with_lists(args, !self.dispatched)?;
            let test =
                |array: &PyArray| Ok(self.when != When::Followed || array.read()?.is_active());
            if any_array(args, kwargs, &test)? {
                if let Some(rule) = &self.rule {
                    return rule.bind(py).call(args, kwargs);
                }
                let original = self.original.bind(py);
                if !all_simple(args)? {
                    // Something else may have an answer, too.
                    if is_lifting() {
                        dispatcher_call::pass(original);
                    }
                    return original.call(args, kwargs);
                }
                let types = PyTuple::empty(py).into_any();
                let none = PyDict::new(py);
                let kwargs = kwargs.unwrap_or(&none);
                return crate::ufunc::array_function(py, original, &types, args, kwargs);
            }
        }
        if is_lifting() {
            dispatcher_call::pass(self.original.bind(py));
        }
        let result = match self.original.bind(py).call(args, kwargs) {
            Err(error) if is_on => {
                // An object among the arguments gives itself out as an array of ours.
                return match given_out(&error, args)? {
                    Some(args) => self.__call__(&args, kwargs),
                    None => Err(error),
                };
            }
            result => result?,
        };
        if self.creates && is_on && recordings() > 0 {
            return crate::make::buffer(&result, args);
        }
        Ok(result)
    }

    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.original.clone_ref(py)
    }

    fn __getattr__<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.original.bind(py).getattr(name)
    }

    fn __repr__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.original.bind(py).repr()
    }

    /// Equal to the original, so that a table of functions is found in by either.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<StandIn>() {
            Ok(other) => self.original.bind(py).eq(&other.get().original),
            Err(_) => self.original.bind(py).eq(other),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.original.bind(py).hash()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let original = self.original.bind(py);
        let find = py.import("cotan._lift")?.getattr("found")?;
        let names = [
            original.getattr(intern!(py, "__module__"))?,
            original.getattr(intern!(py, "__name__"))?,
        ];
        PyTuple::new(py, [find, PyTuple::new(py, names)?.into_any()])
    }
}

/// The arguments, with lists in the place of deques: what is no list is a sequence to NumPy only. What
/// gives arrays only takes those that our matrices are made of.
fn with_lists<'py>(args: &Bound<'py, PyTuple>, arrays: bool) -> PyResult<Bound<'py, PyTuple>> {
    static DEQUE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static MATRIX: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = args.py();
    let deque = DEQUE.import(py, "collections", "deque")?;
    let matrix = MATRIX.import(py, "cotan._lift_matrix", "Matrix")?;
    let is_matrix = |a: &Bound<'py, PyAny>| arrays && a.is_exact_instance(matrix);
    if !(args.iter()).any(|a| a.is_exact_instance(deque) || is_matrix(&a)) {
        return Ok(args.clone());
    }
    let listed = args.iter().map(|a| {
        if a.is_exact_instance(deque) {
            let items = a.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            Ok(items.into_pyobject(py)?)
        } else if is_matrix(&a) {
            a.getattr(intern!(py, "A"))
        } else {
            Ok(a)
        }
    });
    PyTuple::new(py, listed.collect::<PyResult<Vec<_>>>()?)
}

/// Whether no argument would answer in the place of our arrays.
fn all_simple(args: &Bound<'_, PyTuple>) -> PyResult<bool> {
    for argument in args {
        if is_plain(&argument) {
            continue;
        }
        // A list that is not plain holds something that answers.
        let holds =
            argument.is_exact_instance_of::<PyList>() || argument.is_exact_instance_of::<PyTuple>();
        let class = argument.get_type();
        if holds || class.hasattr(intern!(args.py(), "__array_function__"))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an argument is of a class that is met most often, and that does not answer.
fn is_plain(argument: &Bound<'_, PyAny>) -> bool {
    argument.is_instance_of::<PyArray>()
        || argument.is_exact_instance_of::<PyUntypedArray>()
        || argument.is_none()
        || argument.is_exact_instance_of::<PyFloat>()
        || argument.is_exact_instance_of::<PyInt>()
        || argument.is_exact_instance_of::<PyBool>()
        || argument.is_exact_instance_of::<PyComplex>()
        || argument.is_exact_instance_of::<PyString>()
        || (argument.cast_exact::<PyList>()).is_ok_and(|items| items.iter().all(is_harmless))
        || (argument.cast_exact::<PyTuple>()).is_ok_and(|items| items.iter().all(is_harmless))
}

/// Whether an item of a list is nothing that would answer in the place of our arrays.
fn is_harmless(item: Bound<'_, PyAny>) -> bool {
    let py = item.py();
    item.is_instance_of::<PyArray>()
        || item.is_exact_instance_of::<PyFloat>()
        || item.is_exact_instance_of::<PyUntypedArray>()
        || !matches!(
            item.get_type()
                .getattr_opt(intern!(py, "__array_function__")),
            Ok(Some(method)) if !method.is_none() && !item.is_instance_of::<PyUntypedArray>()
        )
}

/// A name of a lifted module, on the class that the module has meanwhile.
#[pyclass(frozen, module = "cotan._core")]
pub struct LiftedName {
    name: Py<PyString>,
    original: Py<PyAny>,
    /// What code gets that may meet our arrays.
    stand_in: Py<PyAny>,
    /// What code gets that hands memory to C; `None` where the stand-in does it no harm.
    foreign: Option<Py<PyAny>>,
}

#[pymethods]
impl LiftedName {
    #[new]
    fn new(
        name: Py<PyString>,
        original: Py<PyAny>,
        stand_in: Py<PyAny>,
        foreign: Option<Py<PyAny>>,
    ) -> LiftedName {
        LiftedName {
            name,
            original,
            stand_in,
            foreign,
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
        let Some(foreign) = &this.foreign else {
            return Ok(this.stand_in.bind(py).clone());
        };
        Ok(match who_asks(py)? {
            // `getattr` does not say whether the class is called next, or handed on as a dtype.
            Asking::ByName if is_number(this.original.bind(py)) => found,
            Asking::Own | Asking::ByName => this.stand_in.bind(py).clone(),
            // It takes for granted that what it makes has memory, without another look.
            Asking::Compiled if is_for_memory(this.name.bind(py).to_str()?) => found,
            Asking::Library | Asking::Compiled => foreign.bind(py).clone(),
        })
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

/// Whether this is a class that makes numbers.
fn is_number(original: &Bound<'_, PyAny>) -> bool {
    original.py().import("numpy").is_ok_and(|numpy| {
        let generic = numpy.getattr("generic");
        generic.is_ok_and(|g| {
            original
                .cast::<PyType>()
                .is_ok_and(|class| class.is_subclass(&g).unwrap_or(false))
        })
    })
}

/// Whether a function lays elements out in memory, for somebody who goes through that.
fn is_for_memory(name: &str) -> bool {
    matches!(name, "ascontiguousarray" | "asfortranarray" | "require")
}

//! Gives callables of other libraries an entry that leads to their overrides, and says which have one.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyString, PyTuple, PyType};

use crate::interpose::entry::{
    Entry, ForLibraries, Policy, SlowCall, add_case, callables, find, find_or_add, key_for_objects,
};
use crate::interpose::slot::{Override, When, call_by_class};
use crate::interpose::{
    slot_class, slot_dispatcher, slot_function, slot_method, slot_object, slot_python,
};
use crate::runtime::exports::exports;
use crate::runtime::text;

exports!(
    add_override,
    add_rule,
    add_call_rule,
    keep_entries,
    suspend_recordings_in,
    bypass,
    has_entry,
    entries
);

/// Whether an object is a callable with an entry that can lead here, and what it was.
fn entry_of(callable: &Bound<'_, PyAny>) -> PyResult<&'static Entry> {
    let address = callable.as_ptr() as usize;
    if let Some(known) = find(callable.as_ptr()) {
        return Ok(known);
    }
    let kind = Kind::of(callable)?.ok_or_else(|| refused(callable))?;
    let slow: SlowCall = match kind {
        Kind::Function => slot_function::call_slowly,
        Kind::Object => slot_object::call_slowly,
        Kind::Class | Kind::Python | Kind::Dispatcher => call_by_class,
    };
    let own = || match kind {
        Kind::Class => slot_class::own(callable)?.ok_or_else(|| refused(callable)),
        Kind::Python => slot_python::own(callable),
        Kind::Dispatcher => slot_dispatcher::own(callable)?.ok_or_else(|| refused(callable)),
        Kind::Function => slot_function::own(callable)?.ok_or_else(|| refused(callable)),
        // Its objects may be called there before one of them has an entry.
        Kind::Object => slot_object::lead(&callable.get_type()).map(|()| 0),
    };
    let (entry, is_new) = find_or_add(address, callable, slow, own)?;
    if is_new {
        match kind {
            Kind::Class => slot_class::install(callable),
            Kind::Python => slot_python::install(callable, entry)?,
            Kind::Dispatcher => slot_dispatcher::install(callable),
            Kind::Function => slot_function::install(callable, entry)?,
            Kind::Object => {}
        }
    }
    Ok(entry)
}

/// By which field the interpreter calls a callable.
#[derive(Clone, Copy)]
enum Kind {
    Class,
    Python,
    Dispatcher,
    Function,
    Object,
}

impl Kind {
    fn of(callable: &Bound<'_, PyAny>) -> PyResult<Option<Kind>> {
        Ok(if callable.is_instance_of::<PyType>() {
            Some(Kind::Class)
        } else if callable.is_exact_instance_of::<PyFunction>() {
            Some(Kind::Python)
        } else if slot_dispatcher::is_one(callable)? {
            Some(Kind::Dispatcher)
        } else if slot_function::is_one(callable)? {
            Some(Kind::Function)
        } else {
            slot_object::is_one(callable)?.then_some(Kind::Object)
        })
    }
}

fn refused(callable: &Bound<'_, PyAny>) -> PyErr {
    let shown = callable
        .repr()
        .map_or_else(|_| "this object".into(), |r| text::owned(&r));
    let class = text::class_of(callable);
    PyTypeError::new_err(format!(
        "{shown} cannot be overridden: cotan knows no entry of {class}"
    ))
}

fn add(
    callable: &Bound<'_, PyAny>,
    receiver: Option<&Bound<'_, PyAny>>,
    policy: Policy,
) -> PyResult<()> {
    add_case(callable.py(), entry_of(callable)?, receiver, policy);
    Ok(())
}

/// Overrides a callable, wherever it is kept: in contexts that record, `user` computes what user code calls. Libraries get
/// the same (`"same"`), the original (`"original"`), or a rule for active arguments; the library of the callable itself gets
/// the original. `None` is for functions that NumPy dispatches, by their arguments alone. With a receiver only the method of that object or class.
///
/// Raises `TypeError` for an object without a known entry.
#[pyfunction]
#[pyo3(signature = (callable: "Any", user: "Callable[..., Any]", library: "Any", package: "str", is_creator: "bool" = false, for_memory: "bool" = false, receiver: "Any" = None) -> "None")]
#[allow(clippy::too_many_arguments)]
pub fn add_override(
    callable: &Bound<'_, PyAny>,
    user: Py<PyAny>,
    library: &Bound<'_, PyAny>,
    package: String,
    is_creator: bool,
    for_memory: bool,
    receiver: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    if library.is_none() {
        return add(callable, receiver, Policy::Dispatched(user));
    }
    let library = match library.extract::<&str>() {
        Ok("same") => ForLibraries::Same,
        Ok("original") => ForLibraries::Original,
        _ => ForLibraries::Rule {
            function: library.clone().unbind(),
            for_memory,
        },
    };
    add(
        callable,
        receiver,
        Policy::Caller {
            user,
            library,
            is_creator,
            package,
        },
    )
}

/// Lets a rule compute a callable by its arguments: where an array is in a list among them (`"lists"`), or is one itself,
/// too (`"arrays"`), or only so (`"numbers"`), from user code only (`"user numbers"`); where one is anywhere in them
/// (`"contained"`); or `"always"`. It may give `NotImplemented` for the original.
///
/// Raises `TypeError` for an object without a known entry.
#[pyfunction]
#[pyo3(signature = (callable: "Any", rule: "Callable[..., Any]", when: "str", receiver: "Any" = None) -> "None")]
pub fn add_rule(
    callable: &Bound<'_, PyAny>,
    rule: Py<PyAny>,
    when: &str,
    receiver: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let rule = Override {
        function: rule,
        when: When::from_name(when)?,
    };
    if callable.get_type().name()? == "method_descriptor" {
        return slot_method::add(callable, rule);
    }
    add(callable, receiver, Policy::Arguments(rule))
}

/// Lets a rule compute the calls of all objects of a class, which gets the object first. See [`add_rule`].
///
/// Raises `TypeError` for a class whose objects have entries of their own.
#[pyfunction]
#[pyo3(signature = (class_: "type", rule: "Callable[..., Any]", when: "str") -> "None")]
pub fn add_call_rule(class_: &Bound<'_, PyType>, rule: Py<PyAny>, when: &str) -> PyResult<()> {
    let rule = Override {
        function: rule,
        when: When::from_name(when)?,
    };
    let key = key_for_objects(class_.as_type_ptr());
    slot_object::install_class(class_)?;
    let (entry, _) = find_or_add(key, class_, slot_object::call_slowly, || Ok(0))?;
    add_case(class_.py(), entry, None, Policy::Arguments(rule));
    Ok(())
}

/// Lets every call of a class, and of the classes that derive from it, run the entry of its `__init__`: the interpreter knows
/// a way past that.
#[pyfunction]
#[pyo3(signature = (class_: "type") -> "None")]
pub fn keep_entries(class_: &Bound<'_, PyType>) -> PyResult<()> {
    slot_class::keep_entries(class_)
}

/// Lets nothing be recorded while a function imports a module.
#[pyfunction]
#[pyo3(signature = (function: "Any") -> "None")]
pub fn suspend_recordings_in(function: &Bound<'_, PyAny>) -> PyResult<()> {
    add(function, None, Policy::Import)
}

/// Whether a callable leads to overrides.
#[pyfunction]
#[pyo3(signature = (callable: "Any") -> "bool")]
pub fn has_entry(callable: &Bound<'_, PyAny>) -> bool {
    find(callable.as_ptr()).is_some()
}

/// The callables that lead to overrides.
#[pyfunction]
#[pyo3(signature = () -> "list[Any]")]
pub fn entries(py: Python<'_>) -> Vec<Py<PyAny>> {
    callables(py)
}

/// A function that goes past the entry of a callable: the library's own.
#[pyclass(frozen, module = "cotan._core")]
pub struct Bypass(&'static Entry);

#[pymethods]
impl Bypass {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.0.call_original(args, kwargs)
    }

    fn __getattr__<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.0.callable.bind(py).getattr(name)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        text::repr(self.0.callable.bind(py))
    }
}

/// A function that goes past the entry of a callable, which gets one.
///
/// Raises `TypeError` for an object without a known entry.
#[pyfunction]
#[pyo3(signature = (callable: "Any") -> "Callable[..., Any]")]
pub fn bypass(callable: &Bound<'_, PyAny>) -> PyResult<Bypass> {
    Ok(Bypass(entry_of(callable)?))
}

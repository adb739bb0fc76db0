//! Computes a function of another library that meets an `Array`: by a rule, or by what NumPy's dispatch finds.

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::array::cell::PyArray;
use crate::interpose::contains_array::{any_array, given_out};
use crate::runtime::hooks;
use crate::runtime::once_cell::{OnceImported, intern};
use crate::runtime::recording_state::is_lifting;
use crate::runtime::recording_state::recordings;

/// A function that stands in for another one, which it is like in all but what it does with our
/// arrays.
#[pyclass(frozen, subclass, module = "cotan._core")]
pub struct OverrideFunction {
    original: Py<PyAny>,
    /// What calls the original past its entry.
    bypass: Py<PyAny>,
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
    /// In contexts that record.
    Lifted,
    /// Always: it was imported from a namespace of ours.
    Imported,
}

#[pymethods]
impl OverrideFunction {
    #[new]
    fn new(
        original: Py<PyAny>,
        bypass: Py<PyAny>,
        rule: Option<Py<PyAny>>,
        dispatched: bool,
        creates: bool,
        when: &str,
    ) -> PyResult<OverrideFunction> {
        let when = match when {
            "lifted" => When::Lifted,
            "imported" => When::Imported,
            _ => return Err(PyValueError::new_err(format!("no such time: {when}"))),
        };
        Ok(OverrideFunction {
            original,
            bypass,
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
            if any_array(args, kwargs, &|_| Ok(true))? {
                if let Some(rule) = &self.rule {
                    return rule.bind(py).call(args, kwargs);
                }
                let original = self.original.bind(py);
                if !all_simple(args)? {
                    // Something else may have an answer, too.
                    return self.bypass.bind(py).call(args, kwargs);
                }
                let types = PyTuple::empty(py).into_any();
                let none = PyDict::new(py);
                let kwargs = kwargs.unwrap_or(&none);
                return crate::interpose::protocols::array_function(
                    py, original, &types, args, kwargs,
                );
            }
        }
        let result = match self.bypass.bind(py).call(args, kwargs) {
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
            return crate::functions::creation::buffer(&result, args);
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
        match other.cast::<OverrideFunction>() {
            Ok(other) => self.original.bind(py).eq(&other.get().original),
            Err(_) => self.original.bind(py).eq(other),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.original.bind(py).hash()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let original = self.original.bind(py);
        let find = hooks::MODULE_ATTRIBUTE.get(py)?.clone();
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
    let py = args.py();
    let deque = DEQUE.found(py, "collections", "deque")?;
    let matrix = hooks::MATRIX_CLASS.get(py)?;
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

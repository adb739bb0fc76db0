//! Tells whether the arguments of a call contain an array, or one that a gradient depends on.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyTuple};

use crate::array::cell::PyArray;
use crate::array::operand::{as_array, beneath};
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;

exports!(contains_array);

/// Whether one of our arrays is among arguments, or in lists and tuples among them.
#[pyfunction]
#[pyo3(signature = (args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> "bool")]
pub fn contains_array(args: &Bound<'_, PyTuple>, kwargs: &Bound<'_, PyDict>) -> PyResult<bool> {
    any_array(args, Some(kwargs), &|_| Ok(true))
}

/// Whether a gradient follows an argument, or something in it.
pub fn contains_active(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let test = |array: &PyArray| Ok(array.read()?.is_active());
    in_items(std::iter::once(given.clone()), &test, 0)
}

/// Whether an `Array` is among some arguments, or in lists and tuples among them.
pub fn any_in<'py>(given: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<bool> {
    in_items(given, &|_| Ok(true), 0)
}

/// As many levels of lists as an array of NumPy can have axes.
const MAX_AXES: usize = 64;

pub fn any_array(
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
        let plain = item.is_exact_instance_of::<PyFloat>() || item.is_exact_instance_of::<PyInt>();
        let found = if plain {
            false
        } else if let Ok(array) = item.cast::<PyArray>() {
            test(array.get())?
        } else if let Ok(list) = item.cast::<PyList>() {
            in_items(list.iter(), test, depth + 1)?
        } else if let Ok(tuple) = item.cast::<PyTuple>() {
            in_items(tuple.iter(), test, depth + 1)?
        } else if let Some(base) = elements_of(&item)? {
            test(base.cast::<PyArray>()?.get())?
        } else if let Some(array) = beneath(&item)? {
            test(array.cast::<PyArray>()?.get())?
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
pub fn given_out<'py>(
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
        given.push(replaced(arg, &mut found, 4)?);
    }
    found.then(|| PyTuple::new(py, given)).transpose()
}

/// An argument with what objects give themselves out as, in lists so deep, too.
fn replaced<'py>(
    arg: Bound<'py, PyAny>,
    found: &mut bool,
    depth: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if depth > 0 && (arg.is_exact_instance_of::<PyList>() || arg.is_exact_instance_of::<PyTuple>())
    {
        let items = (arg.try_iter()?).map(|item| replaced(item?, found, depth - 1));
        let items = PyList::new(arg.py(), items.collect::<PyResult<Vec<_>>>()?)?;
        return arg.get_type().call1((items,));
    }
    let array = as_array(&arg)?.filter(PyAnyMethods::is_instance_of::<PyArray>);
    *found = *found || array.is_some();
    Ok(array.unwrap_or(arg))
}

/// The array that an object gives the elements of: `x.flat`.
fn elements_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if !object.get_type().is(hooks::FLAT_CLASS.get(py)?) {
        return Ok(None);
    }
    object.getattr(intern!(py, "base")).map(Some)
}

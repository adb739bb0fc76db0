//! Answers `__array_ufunc__` and `__array_function__`: primitives and whole reductions here, everything else in
//! Python.

use cotan::ops;
use cotan::prim::Prim;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use smallvec::SmallVec;

use crate::array::cell::PyArray;
use crate::interpose::replayable;
use crate::interpose::slot_ufunc::direct;
use crate::ndarray::memory::original;
use crate::ndarray::subclass::is_plain_class;
use crate::runtime::hooks;
use crate::runtime::interpreter_exit;
use crate::runtime::once_cell::Once;

/// `np.ufunc(*inputs, **kwargs)` with an `Array` among the arguments.
pub fn array_ufunc(
    py: Python<'_>,
    ufunc: &Bound<'_, PyAny>,
    method: &Bound<'_, PyString>,
    inputs: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    interpreter_exit::rest(py);
    if kwargs.is_none_or(PyDictMethods::is_empty) && method.to_str()? == "__call__" {
        let given: SmallVec<[Bound<'_, PyAny>; 2]> = inputs.iter().collect();
        if let Some(out) = direct(py, ufunc.as_ptr(), &given)? {
            return Ok(out.unbind());
        }
    }
    let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
    let rule = hooks::ARRAY_UFUNC.get(py)?;
    let args = (ufunc, method, inputs, kwargs).into_pyobject(py)?;
    Ok(replayable::call(rule, &args, None)?.unbind())
}

/// `func(*args, **kwargs)` with an `Array` among the arguments, for a NumPy function.
pub fn array_function<'py>(
    py: Python<'py>,
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    // A reduction over everything, by far the commonest call, needs no look at keywords.
    static WHOLE: PyOnceLock<Vec<(Py<PyAny>, Prim)>> = PyOnceLock::new();
    // A subclass that is no array like others is refused, or answers itself.
    for class in types.try_iter()? {
        let class = class?;
        let known = class.is(py.get_type::<PyUntypedArray>())
            || class.cast::<PyType>()?.is_subclass_of::<PyArray>()?;
        if !known && !is_plain_class(&class)? {
            return hooks::FUNCTION_OF_SUBCLASSES
                .get(py)?
                .call1((func, args, kwargs));
        }
    }
    let whole = WHOLE.made(py, || {
        let of = |(name, prim): (&str, Prim)| Ok((original(py, "numpy", name)?.unbind(), prim));
        [
            ("sum", ops::SUM),
            ("mean", ops::MEAN),
            ("max", ops::MAX),
            ("min", ops::MIN),
            ("prod", ops::PROD),
        ]
        .map(of)
        .into_iter()
        .collect::<PyResult<Vec<_>>>()
    })?;
    if args.len() == 1
        && kwargs.is_empty()
        && let Some((_, prim)) = whole.iter().find(|(f, _)| f.is(func))
    {
        return crate::functions::primitives::reduction(&args.get_item(0)?, *prim, None, false);
    }
    let functions = hooks::ARRAY_FUNCTIONS.get(py)?.cast::<PyDict>()?;
    match functions.get_item(func)? {
        Some(implementation) => replayable::call(&implementation, args, Some(kwargs)),
        None => replayable::call(
            hooks::ARRAY_FUNCTION.get(py)?,
            &PyTuple::new(py, [func.as_any(), types, args.as_any(), kwargs.as_any()])?,
            None,
        ),
    }
}

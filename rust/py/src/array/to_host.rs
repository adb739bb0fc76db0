//! Converts arrays to ndarrays and Python numbers, and refuses where a derivative would be lost.

use cotan::Array;
use cotan::aval::{DType, Kind};
use cotan::ops;
use cotan::prim::{Params, Prim};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::call_site::is_asked_by;
use crate::array::cell::{PyArray, ScalarKind};
use crate::array::decisions;
use crate::array::escapes;
use crate::array::escapes::force;
use crate::array::escapes::refuse_active;
use crate::ndarray::export::{to_ndarray, to_numpy_scalar};
use crate::ndarray::memory::original;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;

/// What `__array__` gives: a copy as an ndarray, of a dtype if one is asked for.
pub fn given_out<'py>(
    slf: &Bound<'py, PyArray>,
    dtype: Option<&Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, cell) = (slf.py(), slf.get());
    let array = cell.read()?;
    if array.is_active() && dtype.is_some_and(|d| holds_objects(d)) {
        // An array of objects holds active values, element by element.
        let rule = hooks::AS_OBJECTS.get(py)?;
        return rule.call1((slf,));
    }
    if cell.is_view() && is_asked_by(py, "as_strided", "stride_tricks")? {
        return Err(PyTypeError::new_err(
            "as_strided: reads memory beside a view, and that of an Array is not where NumPy has it; use \
             numpy.asarray(base) before the view is made, or call it inside ct.gradient",
        ));
    }
    // Integers and booleans decide: which elements of a plain array, how many steps.
    let decides = escapes::is_replayed_only(&array) && !array.dtype().is_inexact(); // guarded by `force`
    // Without elements there is no gradient to drop.
    if array.aval().size() > 0 && !decides {
        refuse_active(
            py,
            &array,
            "numpy.asarray(x), or storing x in a plain ndarray,",
            "use ct.asarray(x), ct.array([...]) or an array made by zeros_like(x)",
        )?;
    }
    if copy == Some(false) {
        return Err(PyValueError::new_err(
            "an Array is always copied to become an ndarray",
        ));
    }
    let plain = to_ndarray(py, force(py, &array)?)?;
    match dtype.filter(|d| !d.is_none()) {
        Some(dtype) => plain.call_method1("astype", (dtype, "K", "unsafe", true, false)),
        None => Ok(plain),
    }
}

fn holds_objects(dtype: &Bound<'_, PyAny>) -> bool {
    PyArrayDescr::new(dtype.py(), dtype).is_ok_and(|descr| descr.kind() == b'O')
}

/// The only element as a Python number, to be shown.
pub fn number<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    to_numpy_scalar(py, &escapes::compute(py, array)?)?.call_method0("item")
}

/// Lets NumPy refuse to make a number of a constant array with axes, which it does since 2.4, or warn of it.
pub fn expect_number(py: Python<'_>, array: &Array, method: &str) -> PyResult<()> {
    if array.shape().is_empty() || array.aval().size() != 1 || array.is_active() {
        return Ok(());
    }
    let shape = PyTuple::new(py, array.shape())?;
    let zeros = original(py, "numpy", "zeros")?.call1((shape,))?;
    zeros.call_method0(method).map(drop)
}

/// The only element as a Python number.
pub fn item<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let size = array.aval().size();
    if size != 1 {
        return Err(PyTypeError::new_err(format!(
            "only an array of one element is a number; this one has {size}"
        )));
    }
    to_numpy_scalar(py, &force(py, array)?)?.call_method0("item")
}

/// A scalar as a Python number that stands for it as a key of a dictionary or in a set. Which entry is found
/// is a decision.
pub fn key<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    if !escapes::is_replayed_only(array) && array.carries_derivative() {
        refuse_active(
            py,
            array,
            "hash(x), which finds a key of a dictionary or a member of a set,",
            "use a key without a derivative, such as int(x), round(x) or np.floor(x)",
        )?;
    }
    decisions::note(array);
    to_numpy_scalar(py, &escapes::guard(py, array)?)?.call_method0("item")
}

/// The only element as a Python number, for code that goes on with it rounded by this primitive. That is
/// piecewise constant: while a function is prepared, a decision.
pub fn whole<'py>(py: Python<'py>, array: &Array, round: Prim) -> PyResult<Bound<'py, PyAny>> {
    let is_float = array.dtype().kind() == Kind::Float;
    decisions::note(array);
    if !escapes::keeps_history(array) || !is_float || array.aval().size() != 1 {
        return item(py, array);
    }
    let rounded = Array::apply(round, Params::None, &[array]).or_raise()?;
    to_numpy_scalar(py, &escapes::guard(py, &rounded)?)?.call_method0("item")
}

/// Whether the only element is true.
pub fn truth(cell: &PyArray, py: Python<'_>) -> PyResult<bool> {
    let array = cell.read()?;
    let size = array.aval().size();
    if size != 1 {
        // In NumPy's words.
        return Err(PyValueError::new_err(if size == 0 {
            "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not empty."
        } else {
            "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
        }));
    }
    decisions::note(&array);
    let item = escapes::guard(py, &array)?.item();
    Ok(item.is_some_and(|z| z.re != 0.0 || z.im != 0.0))
}

/// The only element as a float of Python's.
pub fn float(cell: &PyArray, py: Python<'_>) -> PyResult<f64> {
    let array = cell.read()?;
    if array.is_active() {
        // `"%.2f" % x` asks in this way, too, and makes a text of it.
        if hooks::IS_FORMATTING.get(py)?.call0()?.extract::<bool>()? {
            escapes::shown(py, &array, "formatting x")?;
            if !array.dtype().is_complex() {
                return number(py, &array)?.extract();
            }
        } else {
            refuse_active(py, &array, "float(x)", "compute with x itself")?;
        }
    }
    expect_number(py, &array, "__float__")?;
    if array.dtype().is_complex() {
        return Err(PyTypeError::new_err(
            "float() argument must be a real number, not complex; use x.real",
        ));
    }
    item(py, &array)?.extract()
}

/// What `round` makes of the only element.
pub fn rounded<'py>(
    slf: &Bound<'py, PyArray>,
    ndigits: Option<i32>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, cell) = (slf.py(), slf.get());
    let array = cell.read()?;
    if ndigits.is_some() && escapes::keeps_history(&array) {
        // Replays round as Python does, by the decimal digits of the number.
        let round = py.import("builtins")?.getattr("round")?;
        let repeat = hooks::REPEATED_CALL.get(py)?;
        return repeat.call1((round, (slf, ndigits), PyDict::new(py), py.None()));
    }
    let number = match ndigits {
        None => whole(py, &array, ops::ROUND)?,
        // A scalar of NumPy's stays one.
        Some(_) if cell.scalar_kind() == ScalarKind::NumpyScalar => {
            to_ndarray(py, force(py, &array)?)?.get_item(PyTuple::empty(py))?
        }
        Some(_) => item(py, &array)?,
    };
    match ndigits {
        None => py.import("builtins")?.call_method1("round", (number,)),
        Some(n) => py.import("builtins")?.call_method1("round", (number, n)),
    }
}

/// The only element where Python wants an integer.
pub fn index<'py>(cell: &PyArray, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    let array = cell.read()?;
    if cell.scalar_kind() == ScalarKind::PythonNumber && array.dtype() == DType::Bool {
        // A boolean of Python's: 0 or 1 in lists and the like, and a mask in arrays, which NumPy makes of what
        // is no number.
        if hooks::MAY_INDEX_NDARRAY.get(py)?.call0()?.is_truthy()? {
            return Err(PyTypeError::new_err(
                "a bool indexes lists as an integer and arrays as a mask, and which of them this is cannot be \
                 seen here; write x[int(b)], or x[np.asarray(b)]",
            ));
        }
        return item(py, &array.cast(DType::I64).or_raise()?);
    }
    let is_whole = matches!(array.dtype().kind(), Kind::Integer);
    if !is_whole || !array.shape().is_empty() {
        let mut message =
            "only integer scalar arrays can be converted to a scalar index".to_string();
        if array.shape().is_empty() {
            message += "; this one is a float: numbers that are arguments are, hold them constant with \
                        ct.const where they count or choose something";
        }
        return Err(PyTypeError::new_err(message));
    }
    decisions::note(&array);
    item(py, &array)
}

/// An element as a Python number, or active.
pub fn element<'py>(
    slf: &Bound<'py, PyArray>,
    index: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let array = slf.get().read()?;
    if array.is_active() {
        let rule = hooks::ITEM.get(py)?;
        return rule.call1((slf, index));
    }
    to_ndarray(py, force(py, &array)?)?.call_method1("item", index)
}

/// The values as nested lists of Python numbers, or active.
pub fn lists<'py>(slf: &Bound<'py, PyArray>) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let array = slf.get().read()?;
    if array.is_active() {
        return hooks::TOLIST.get(py)?.call1((slf,));
    }
    to_ndarray(py, force(py, &array)?)?.call_method0("tolist")
}

/// The values as a DLPack capsule, made by NumPy with these arguments.
pub fn dlpack<'py>(
    cell: &PyArray,
    py: Python<'py>,
    given: &[(&str, Option<Bound<'py, PyAny>>)],
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = cell.read()?;
    refuse_active(py, &array, "exporting x", "compute with x itself")?;
    if array.dtype() == DType::Bf16 {
        return Err(PyNotImplementedError::new_err(
            "bfloat16 is not exported; cast to float32",
        ));
    }
    let plain = to_ndarray(py, force(py, &array)?)?;
    let kwargs = PyDict::new(py);
    for (name, value) in given {
        kwargs.set_item(name, value)?;
    }
    kwargs.set_item("copy", copy)?;
    plain.call_method("__dlpack__", (), Some(&kwargs))
}

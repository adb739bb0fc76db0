//! Makes arrays of Python objects and memory, and reports threads and processor.

use std::collections::BTreeSet;

use cotan::aval::tuple;
use cotan::kernels::Value;
use cotan::sched;
use cotan::{Array, DType, Number};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyTuple};

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::device::made_on;
use crate::array::escapes;
use crate::array::operand::{Operand, beneath};
use crate::functions::primitives::stack_all;
use crate::ndarray::dtype::{dtype_from, dtype_of};
use crate::ndarray::memory::{Borrow, from_ndarray, original};
use crate::ndarray::placement::{is_used, taken_along};
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::runtime::text;

exports!(
    array,
    buffer,
    number,
    asarray,
    from_dlpack,
    num_threads,
    set_num_threads,
    simd_level,
    clear_caches
);

/// An `Array` with a copy of some values: an ndarray, a number, nested lists of them. Arrays among them
/// stay differentiable.
///
/// The array lies on `device`, or on the one that `ct.use` names, and on the processor otherwise.
///
/// Raises `TypeError` for dtypes that are not supported, `ValueError` for lists of unequal lengths, `RuntimeError` when
/// there is no such device or it does not have the dtype.
///
/// >>> import cotan as ct
/// >>> ct.array([[1, 2], [3, 4]], dtype=float)
/// Array([[1., 2.],
///        [3., 4.]])
#[pyfunction]
#[pyo3(signature = (object: "object", dtype: "_DTypeLike | None" = None, *, device: "str | Device | None" = None) -> "Array")]
pub fn array<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype
        .filter(|d| !d.is_none())
        .map(|d| dtype_from(py, d))
        .transpose()?;
    let array = build(py, object)?;
    let array = match dtype {
        Some(dtype) => array.cast(dtype).or_raise()?,
        None => array,
    };
    let array = match device.filter(|d| !d.is_none()) {
        Some(device) => made_on(py, array, device)?,
        None => match array.value() {
            Some(value) if is_used() && !array.is_recorded() => {
                Array::constant(taken_along(py, value.clone())?)
            }
            _ => array,
        },
    };
    wrap(py, array, ScalarKind::Array)
}

fn build<'py>(py: Python<'py>, object: &Bound<'py, PyAny>) -> PyResult<Array> {
    if let Ok(array) = object.cast::<PyArray>() {
        return array.get().read();
    }
    let list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    if list && holds_arrays(object, 0)? {
        return stacked(py, object, 0);
    }
    if let Some(array) = beneath(object)? {
        return build(py, &array);
    }
    if let Ok(array) = object.cast::<PyUntypedArray>() {
        // Before `asarray` makes a plain ndarray of whatever it is.
        crate::ndarray::subclass::expect_plain(array)?;
    }
    let plain = original(py, "numpy", "asarray")?.call1((object,))?;
    let plain = plain.cast::<PyUntypedArray>().map_err(|_| {
        PyTypeError::new_err(format!(
            "array: takes arrays and numbers, not {}",
            text::class_of(object)
        ))
    })?;
    // A list became a new ndarray just now.
    let fresh = !plain.is(object) && object.is_instance_of::<PyList>();
    let mut value: Value = from_ndarray(plain, if fresh { Borrow::Call } else { Borrow::Copy })?;
    if !fresh {
        value = escapes::capture_ndarray(plain, value)?;
    }
    Ok(Array::constant(if value.storage().is_borrowed() {
        copied(value)?
    } else {
        value
    }))
}

/// One array of nested lists that hold `Array`s.
fn stacked(py: Python<'_>, items: &Bound<'_, PyAny>, depth: usize) -> PyResult<Array> {
    expect_shallow(depth)?;
    let mut parts: Vec<Operand> = Vec::with_capacity(items.len()?);
    for item in items.try_iter()? {
        let item = item?;
        let nested = item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>();
        parts.push(if nested {
            Operand::Strong(stacked(py, &item, depth + 1)?, ScalarKind::Array)
        } else {
            entry(py, &item)?
        });
    }
    let shapes: BTreeSet<&[usize]> = parts.iter().map(Operand::shape).collect();
    if shapes.len() > 1 {
        let listed: Vec<String> = shapes.into_iter().map(tuple).collect();
        return Err(PyValueError::new_err(format!(
            "array: the entries have different shapes: {}",
            listed.join(", ")
        )));
    }
    stack_all(parts)
}

fn expect_shallow(depth: usize) -> PyResult<()> {
    if depth > MAX_AXES {
        return Err(PyValueError::new_err(format!(
            "array: the lists are nested more than {MAX_AXES} levels deep, or one contains itself"
        )));
    }
    Ok(())
}

/// An entry of a list, where a number counts as it does in an array of its own.
fn entry(py: Python<'_>, item: &Bound<'_, PyAny>) -> PyResult<Operand> {
    let too_large = item.is_instance_of::<PyInt>() && item.extract::<i64>().is_err();
    let operand = if too_large { None } else { Operand::of(item)? };
    Ok(match operand {
        Some(Operand::Number(Number::Float(x))) => Operand::Scalar(DType::F64, Number::Float(x)),
        Some(Operand::Number(Number::Int(n))) => Operand::Scalar(DType::I64, Number::Int(n)),
        Some(operand @ Operand::Scalar(..)) => operand,
        Some(operand) => Operand::Strong(operand.array()?, ScalarKind::Array),
        None => Operand::Strong(build(py, item)?, ScalarKind::Array),
    })
}

/// What NumPy has made, as an `Array` into which traced values can be written; whatever is no new array
/// of floats or complex numbers as it is.
#[pyfunction]
#[pyo3(signature = (made: "object", args: "Args") -> "Any")]
pub fn buffer<'py>(
    made: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    if made.is_exact_instance_of::<PyTuple>() || made.is_exact_instance_of::<PyList>() {
        // Several at once, as of `np.meshgrid`.
        let items = made.try_iter()?.map(|item| buffer(&item?, args));
        let items = PyList::new(made.py(), items.collect::<PyResult<Vec<_>>>()?)?;
        return made.get_type().call1((items,));
    }
    let Ok(array) = made.cast_exact::<PyUntypedArray>() else {
        return Ok(made.clone());
    };
    let descr = array.dtype();
    // Bytes in another order are asked for where they are written to a file.
    let is_inexact =
        dtype_of(&descr).is_ok_and(DType::is_inexact) && descr.is_native_byteorder() != Some(false);
    let memory = owner(made.clone())?;
    // Into nothing, nothing can be written.
    if !is_inexact || array.is_empty() || shared(&memory, args)? {
        return Ok(made.clone());
    }
    if array.is_fortran_contiguous() && !array.is_c_contiguous() {
        // The flags of the array then report the memory order that was requested.
        return buffer(&made.getattr("T")?, args)?.getattr("T");
    }
    let cell = PyArray::buffer(copied(from_ndarray(array, Borrow::Call)?)?);
    Ok(Bound::new(made.py(), cell)?.into_any())
}

/// An array of one element in place of a Python number, of another dtype if one is given.
#[pyfunction]
#[pyo3(signature = (x: "_Values", dtype: "_DTypeLike | None") -> "Array")]
pub fn number<'py>(
    x: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let mut array = Operand::expect("number", x)?.array()?;
    if let Some(dtype) = dtype {
        array = array.cast(dtype_from(py, dtype)?).or_raise()?;
    }
    wrap(py, array.reshape(&[]).or_raise()?, ScalarKind::PythonNumber)
}

/// What owns the memory of an array.
fn owner(mut object: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    while object.is_instance_of::<PyUntypedArray>() {
        let base = object.getattr("base")?;
        if base.is_none() {
            break;
        }
        object = base;
    }
    Ok(object)
}

/// Whether memory belongs to one of some arguments.
fn shared(memory: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<bool> {
    for arg in args {
        if arg.is_instance_of::<PyUntypedArray>() && owner(arg)?.is(memory) {
            return Ok(true);
        }
    }
    Ok(!memory.is_instance_of::<PyUntypedArray>())
}

/// A value in cotan's memory, for good.
fn copied(value: Value) -> PyResult<Value> {
    if !value.storage().is_foreign() {
        return Ok(value);
    }
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let ctx = cotan::kernels::Ctx::new(&cancel, 1);
    cotan::kernels::copy(&value, &ctx).or_raise()
}

/// As many axes as an array of NumPy can have.
const MAX_AXES: usize = 64;

/// Whether an `Array` is somewhere in nested lists. An error for what is no array like others,
/// such as a masked one, since NumPy would take its numbers for all of it.
fn holds_arrays(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
    expect_shallow(depth)?;
    for item in object.try_iter()? {
        let item = item?;
        if item.is_instance_of::<PyArray>() {
            return Ok(true);
        }
        if let Ok(array) = item.cast::<PyUntypedArray>() {
            crate::ndarray::subclass::expect_plain(array)?;
            continue;
        }
        let nested = item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>();
        if nested && holds_arrays(&item, depth + 1)? {
            return Ok(true);
        }
        if !nested && !item.is_exact_instance_of::<PyFloat>() && beneath(&item)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An `Array` with these values; an `Array` is given back as it is.
///
/// With a `dtype` that is not its own it is cast. Anything else is copied, as `array` does, with its shape
/// and dtype. Raises `TypeError` for dtypes that are not supported, `ValueError` for lists of unequal lengths.
///
/// >>> import cotan as ct
/// >>> x = ct.array([1, 2])
/// >>> ct.asarray(x) is x, ct.asarray(x, float)
/// (True, Array([1., 2.]))
#[pyfunction]
#[pyo3(signature = (object: "object", dtype: "_DTypeLike | None" = None) -> "Array")]
pub fn asarray<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(cell) = object.cast::<PyArray>() {
        let wanted = dtype
            .filter(|d| !d.is_none())
            .map(|d| dtype_from(py, d))
            .transpose()?;
        let dtype: DType = cell.get().read()?.dtype();
        if wanted.is_none_or(|w| w == dtype) {
            return Ok(object.clone());
        }
    }
    array(py, object, dtype, None)
}

/// An `Array` with a copy of the values of another library's array that speaks DLPack.
///
/// It has the other one's shape and dtype. Raises what `numpy.from_dlpack` raises: `AttributeError` for an
/// object without `__dlpack__`, `BufferError` or `RuntimeError` for one that is not in memory of the CPU.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> ct.from_dlpack(np.array([1.0, 2.0]))
/// Array([1., 2.])
#[pyfunction]
#[pyo3(signature = (object: "object") -> "Array")]
pub fn from_dlpack<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if object.is_instance_of::<PyArray>() {
        return Ok(object.clone());
    }
    let plain = original(py, "numpy", "from_dlpack")?.call1((object,))?;
    array(py, &plain, None, None)
}

/// How many threads large computations use.
///
/// By default as many as there are processors, or what the environment variable `COTAN_NUM_THREADS` says.
///
/// >>> import cotan as ct
/// >>> ct.num_threads() >= 1
/// True
#[pyfunction]
#[pyo3(signature = () -> "int")]
pub fn num_threads() -> usize {
    sched::num_threads()
}

/// Changes how many threads large computations use, at most 1,024; 0 for the default.
///
/// It holds for the whole process; results do not depend on it. Raises `OverflowError` for a negative number.
///
/// >>> import cotan as ct
/// >>> ct.set_num_threads(2)
/// >>> ct.num_threads()
/// 2
/// >>> ct.set_num_threads(0)
#[pyfunction]
#[pyo3(signature = (threads: "int") -> "None")]
pub fn set_num_threads(threads: usize) {
    sched::set_num_threads(threads);
}

/// The instruction set that kernels use: `"avx512"`, `"avx2"`, `"baseline"`.
///
/// >>> import cotan as ct
/// >>> ct.simd_level() in ("avx512", "avx2", "baseline")
/// True
#[pyfunction]
#[pyo3(signature = () -> "str")]
pub fn simd_level() -> &'static str {
    cotan::kernels::level_name()
}

/// Forgets all plans and copies of captured arrays, and frees the memory that is kept for reuse.
///
/// Arrays and pullbacks stay as they are; what is computed next is planned anew.
///
/// >>> import cotan as ct
/// >>> ct.clear_caches()
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn clear_caches(py: Python<'_>) {
    crate::ndarray::recent_copies::clear(py);
    py.detach(|| {
        cotan::autodiff::clear_caches();
        cotan::kernels::release_pool();
        #[cfg(feature = "fft")]
        cotan::kernels::release_plans();
    });
}

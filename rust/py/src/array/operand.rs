//! Reads an operand (an array, a NumPy scalar, a Python number, an object with `__array__`) and finds the dtype of
//! an operation by NumPy 2's promotion, where a Python number takes the dtype of the array.

use cotan::aval::{DType, Kind};
use cotan::kernels::{Look, Value, first_found};
use cotan::{Array, Number};
use num_complex::Complex;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyRange, PyString, PyTuple, PyType,
};

use crate::array::cell::{PyArray, ScalarKind};
use crate::array::escapes;
use crate::ndarray::dtype::{dtype_of, dtype_of_scalar};
use crate::ndarray::memory::{Borrow, from_ndarray, is_numpy_scalar, original};
use crate::ndarray::recent_copies::{captured, has_nan};
use crate::ndarray::subclass::is_plain;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;
use crate::runtime::once_cell::{OnceImported, intern};
use crate::runtime::text;

/// Whether an object is a sequence whose elements NumPy computes with: `x.flat` of an ndarray, a range, ...
fn is_sequence(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static FLAT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    Ok(object.is_instance_of::<PyRange>()
        || object.is_instance(FLAT.found(py, "numpy", "flatiter")?)?
        || object.is_instance(ARRAY.found(py, "array", "array")?)?)
}

/// Whether an object is a deque, which may hold `Array`s.
fn is_deque(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static DEQUE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    object.is_instance(DEQUE.found(object.py(), "collections", "deque")?)
}

/// The array that a conversion makes of an object of user code: that beneath one of a subclass, too.
pub fn as_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match beneath(object)? {
        Some(array) => Ok(Some(array)),
        None => given_out_as(object),
    }
}

/// The `Array` beneath an object that substitutes for one of a subclass of ndarray.
pub fn beneath<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if !object.is_instance(hooks::OVER_ARRAY_CLASS.get(py)?)? {
        return Ok(None);
    }
    object.getattr(intern!(py, "__held_array__")).map(Some)
}

/// The array that an object of user code gives itself out as, if it defines no arithmetic with arrays.
fn as_operand<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let priority = object
        .get_type()
        .getattr_opt(intern!(object.py(), "__array_priority__"))?;
    if priority.is_some_and(|priority| priority.extract::<f64>().unwrap_or(0.0) > 0.0) {
        return Ok(None);
    }
    given_out_as(object)
}

/// The same for a conversion or a function, where it does not matter which operand comes first.
pub fn given_out_as<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let kind = object.get_type();
    if object.is_instance_of::<PyArray>()
        || object.is_instance_of::<PyUntypedArray>()
        || object.is_instance_of::<PyType>()
    {
        return Ok(None);
    }
    if kind.getattr_opt(intern!(py, "__array__"))?.is_none()
        || kind.getattr_opt(intern!(py, "__array_ufunc__"))?.is_some()
    {
        return Ok(None);
    }
    let array = object.call_method0(intern!(py, "__array__"))?;
    let is_one = array.is_instance_of::<PyArray>() || array.is_instance_of::<PyUntypedArray>();
    Ok(is_one.then_some(array))
}

/// Integers up to this one are floats, too.
pub const EXACT: u64 = 1 << 53;

/// An operand as it was given.
pub enum Operand {
    /// An array, or a NumPy scalar: its dtype counts.
    Strong(Array, ScalarKind),
    /// An `Array` in place of a Python number.
    Weak(Array),
    /// A Python number.
    Number(Number),
    /// A NumPy scalar of a real dtype: its dtype counts.
    Scalar(DType, Number),
}

impl Operand {
    /// What an object is as an operand; `None` if it is something that we know nothing of.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
        if let Ok(cell) = object.cast::<PyArray>() {
            let scalar_kind = cell.get().scalar_kind();
            let array = cell.get().read()?;
            escapes::capture_array(cell, &array);
            return Ok(Some(if scalar_kind == ScalarKind::PythonNumber {
                Operand::Weak(array)
            } else {
                Operand::Strong(array, scalar_kind)
            }));
        }
        if object.is_exact_instance_of::<PyFloat>() {
            return Ok(Some(Operand::Number(Number::Float(object.extract()?))));
        }
        if let Some(dtype) = dtype_of_scalar(object)? {
            let number = if dtype.is_inexact() {
                Number::Float(object.extract()?)
            } else {
                Number::Int(object.extract()?)
            };
            return Ok(Some(Operand::Scalar(dtype, number)));
        }
        if let Ok(array) = object.cast::<PyUntypedArray>() {
            // The elements of an array of objects answer for themselves.
            if !is_plain(array)? || array.dtype().kind() == b'O' {
                return Ok(None);
            }
            let scalar_kind = ScalarKind::Array;
            let value = escapes::capture_ndarray(array, captured(array)?)?;
            return Ok(Some(Operand::Strong(Array::constant(value), scalar_kind)));
        }
        if is_numpy_scalar(object)? {
            let array = original(object.py(), "numpy", "asarray")?.call1((object,))?;
            let value = from_ndarray(array.cast::<PyUntypedArray>()?, Borrow::Call)?;
            return Ok(Some(Operand::Strong(
                scalar_constant(value),
                ScalarKind::NumpyScalar,
            )));
        }
        if object.is_instance_of::<PyBool>() {
            return Ok(Some(Operand::Strong(
                scalar_bool(object.extract()?)?,
                ScalarKind::PythonNumber,
            )));
        }
        if object.is_instance_of::<PyInt>() {
            if let Ok(n) = object.extract::<i64>() {
                return Ok(Some(Operand::Number(Number::Int(n))));
            }
            return Ok(Some(match object.extract::<u64>() {
                Ok(n) => Operand::Weak(Array::constant(Value::scalar(n).or_raise()?)),
                Err(_) => Operand::Number(Number::Float(object.extract()?)),
            }));
        }
        if object.is_instance_of::<PyFloat>() {
            return Ok(Some(Operand::Number(Number::Float(object.extract()?))));
        }
        if object.is_instance_of::<PyComplex>() {
            return Ok(Some(Operand::Number(Number::Complex(
                object.extract::<Complex<f64>>()?,
            ))));
        }
        if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
            let array = hooks::ARRAY.get(object.py())?.call1((object,))?;
            return Operand::of(&array);
        }
        if is_deque(object)? {
            let items = object.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            return Operand::of(&items.into_pyobject(object.py())?.into_any());
        }
        if is_sequence(object)? {
            let array = original(object.py(), "numpy", "asarray")?.call1((object,))?;
            return Operand::of(&array);
        }
        as_operand(object)?.map_or(Ok(None), |array| Operand::of(&array))
    }

    /// Like [`Operand::of`], but an error that names the operation when it is nothing we know.
    pub fn expect(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Operand> {
        Operand::of(object)?.ok_or_else(|| {
            let kind = text::class_of(object);
            if let Ok(array) = object.cast::<PyUntypedArray>()
                && let Err(unsupported) = dtype_of(&array.dtype())
            {
                return unsupported;
            }
            let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
            let hint = if is_text {
                "; text has no arithmetic: float(s) is the number that it spells"
            } else if object.is_instance_of::<PyUntypedArray>() {
                "; use np.asarray(x) for the numbers in it"
            } else {
                ""
            };
            PyTypeError::new_err(format!(
                "{name}: takes arrays and numbers, not {kind}{hint}"
            ))
        })
    }

    /// Its dtype; that of a Python number is what NumPy gives it when it stands alone.
    pub fn dtype(&self) -> DType {
        match self {
            Operand::Strong(a, _) | Operand::Weak(a) => a.dtype(),
            Operand::Scalar(dtype, _) => *dtype,
            Operand::Number(Number::Int(_)) => DType::I64,
            Operand::Number(Number::Float(_)) => DType::F64,
            Operand::Number(Number::Complex(_)) => DType::C128,
        }
    }

    /// Its shape.
    pub fn shape(&self) -> &[usize] {
        match self {
            Operand::Strong(a, _) | Operand::Weak(a) => a.shape(),
            Operand::Number(_) | Operand::Scalar(..) => &[],
        }
    }

    /// As an array of this dtype.
    pub fn cast(self, dtype: DType) -> PyResult<Array> {
        if let Some(n) = self.beyond(dtype) {
            return Err(PyOverflowError::new_err(format!(
                "Python integer {n} out of bounds for {}",
                dtype.numpy_name()
            )));
        }
        match self {
            Operand::Strong(a, _) | Operand::Weak(a) => a.cast(dtype).or_raise(),
            Operand::Scalar(_, Number::Float(x)) if dtype.is_inexact() => {
                Ok(Array::float(dtype, x))
            }
            Operand::Scalar(_, Number::Int(n))
                if dtype.is_inexact() && n.unsigned_abs() <= EXACT =>
            {
                Ok(Array::float(dtype, n as f64))
            }
            Operand::Scalar(given, number) => {
                let array = match number {
                    Number::Int(n) if given == DType::I64 => {
                        Array::constant(Value::scalar(n).or_raise()?)
                    }
                    number => Array::number(given, number),
                };
                array.cast(dtype).or_raise()
            }
            Operand::Number(Number::Float(x)) => Ok(Array::float(dtype, x)),
            Operand::Number(number) => Ok(Array::number(dtype, number)),
        }
    }

    /// A Python integer that a dtype cannot hold.
    pub fn beyond(&self, dtype: DType) -> Option<i128> {
        let (low, high) = dtype.bounds()?;
        let n = match self {
            Operand::Number(Number::Int(n)) => i128::from(*n),
            Operand::Weak(_) => i128::from(self.huge()?),
            _ => return None,
        };
        (!(low..=high).contains(&n)).then_some(n)
    }

    /// A Python integer that only `uint64` holds.
    pub fn huge(&self) -> Option<u64> {
        match self {
            Operand::Weak(a) if a.dtype() == DType::U64 => a.to_vec::<u64>().ok()?.first().copied(),
            _ => None,
        }
    }

    /// As an array of its own dtype.
    pub fn array(self) -> PyResult<Array> {
        let dtype = self.dtype();
        self.cast(dtype)
    }

    /// Whether it is an active array.
    pub fn is_active(&self) -> bool {
        matches!(self, Operand::Strong(array, _) if array.is_active())
    }

    /// Whether it is a table of numbers in user code, this object, with NaN in it.
    pub fn has_gaps(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Operand::Strong(array, _) = self else {
            return Ok(false);
        };
        let is_table = object.is_exact_instance_of::<PyUntypedArray>()
            || object.cast::<PyArray>().is_ok_and(|a| a.get().is_made());
        if !is_table || array.is_active() || !array.dtype().is_inexact() {
            return Ok(false);
        }
        let value = array.evaluate().or_raise()?;
        let nan = Look {
            nan: true,
            inf: false,
        };
        has_nan(object, value, || {
            Ok(first_found(value, nan).or_raise()?.is_some())
        })
    }

    /// What it would be in NumPy.
    pub fn scalar_kind(&self) -> ScalarKind {
        match self {
            Operand::Strong(_, scalar_kind) => *scalar_kind,
            Operand::Scalar(..) => ScalarKind::NumpyScalar,
            Operand::Weak(_) | Operand::Number(_) => ScalarKind::PythonNumber,
        }
    }

    fn is_weak(&self) -> bool {
        matches!(self, Operand::Weak(_) | Operand::Number(_))
    }
}

fn scalar_constant(value: Value) -> Array {
    // A float scalar is a number like any other: rewriting rules may know it, and it is met again.
    match (value.dtype(), value.item()) {
        (dtype @ (DType::F32 | DType::F64), Some(z)) => Array::float(dtype, z.re),
        _ => Array::constant(value),
    }
}

fn scalar_bool(value: bool) -> PyResult<Array> {
    Ok(Array::constant(Value::scalar(value).or_raise()?))
}

/// The dtype in which operands meet.
pub fn common_dtype(operands: &[Operand]) -> DType {
    let strong = operands
        .iter()
        .filter(|o| !o.is_weak())
        .map(Operand::dtype)
        .reduce(DType::promote);
    let weak = operands
        .iter()
        .filter(|o| o.is_weak())
        .map(Operand::dtype)
        .reduce(DType::promote);
    match (strong, weak) {
        (Some(s), None) => s,
        (None, Some(w)) => w,
        (Some(s), Some(w)) if w.kind() <= s.kind() => s,
        // A Python number of a more general kind: the smallest dtype of that kind which holds the array's.
        (Some(s), Some(w)) => match w.kind() {
            Kind::Integer => DType::I64,
            Kind::Float => DType::F64,
            _ if s.kind() == Kind::Float => s.complex(),
            _ => DType::C128,
        },
        (None, None) => DType::F64,
    }
}

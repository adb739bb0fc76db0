//! Comparisons with objects that are no operands: `x == None`, `x < Fraction(1, 3)`, `x == memoryview(y)`.

use std::cmp::Ordering;

use cotan::aval::DType;
use cotan::prim::Prim;
use cotan::{Array, ops};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{
    PyBytes, PyDict, PyFloat, PyFrozenSet, PySet, PySlice, PyString, PyTuple, PyType,
};

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::{decisions, escapes};
use crate::ndarray::dtype::dtype_of;
use crate::ndarray::export::to_ndarray;
use crate::ndarray::memory::{Borrow, from_ndarray, original};
use crate::runtime::once_cell::intern;

/// The comparison with a float that a comparison of float64 with a `Fraction` or a `Decimal` is: these are compared by their
/// exact values, so where no float is equal, one of the two beside it is compared with.
pub fn as_with_float(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
    prim: Prim,
) -> PyResult<Option<(Prim, f64)>> {
    let is_order = [ops::LT, ops::LE, ops::GT, ops::GE].contains(&prim);
    let is_comparison = is_order || prim == ops::EQ || prim == ops::NE;
    if !is_comparison || slf.get().own_dtype() != DType::F64 || !is_rational(other)? {
        return Ok(None);
    }
    let py = other.py();
    let float = match other.call_method0(intern!(py, "__float__")) {
        Ok(float) => float.extract()?,
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            if other.gt(0)? {
                f64::MAX
            } else {
                -f64::MAX
            }
        }
        Err(error) => return Err(error),
    };
    let number = PyFloat::new(py, float).into_any();
    let side = if number.eq(other)? {
        Ordering::Equal
    } else if !is_order {
        // Nothing is equal to it, and nothing is equal to NaN.
        return Ok(Some((prim, f64::NAN)));
    } else if number.lt(other)? {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    let below = prim == ops::LT || prim == ops::LE;
    Ok(Some(match side {
        Ordering::Equal => (prim, float),
        Ordering::Less if below => (ops::LE, float),
        Ordering::Less => (ops::GT, float),
        Ordering::Greater if below => (ops::LT, float),
        Ordering::Greater => (ops::GE, float),
    }))
}

/// Whether something is a `fractions.Fraction` or a `decimal.Decimal`, without importing these modules.
fn is_rational(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    for class in object.get_type().mro() {
        let Ok(class) = class.cast_into::<PyType>() else {
            continue;
        };
        let name = class.name()?;
        let module = match name.to_cow()?.as_ref() {
            "Fraction" => "fractions",
            "Decimal" => "decimal",
            _ => continue,
        };
        if class.module()?.to_cow()? == module {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What `==` and `!=` give for something that no number equals: `x == None`, `bandwidth == "scott"`, and for objects with
/// an equality of their own. `None` where it is another operator, or the object is asked.
pub fn unequal(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
    prim: Prim,
) -> PyResult<Option<Py<PyAny>>> {
    let py = slf.py();
    let method = if prim == ops::EQ {
        intern!(py, "__eq__")
    } else if prim == ops::NE {
        intern!(py, "__ne__")
    } else {
        return Ok(None);
    };
    let text = other.is_instance_of::<PyString>() || other.is_instance_of::<PyBytes>();
    // Texts, dates and records, of which NumPy has no loop that compares them with numbers (for spans of time
    // and integers it has one).
    let strange = match other.getattr_opt(intern!(py, "dtype"))? {
        Some(dtype) => match dtype.cast::<PyArrayDescr>() {
            Ok(dtype) if dtype.kind() == b'm' => slf.get().own_dtype().is_inexact(),
            Ok(dtype) => b"SUMV".contains(&dtype.kind()) && dtype_of(dtype).is_err(),
            Err(_) => false,
        },
        None => false,
    };
    let array = slf.get().scalar_kind() == ScalarKind::Array;
    if !strange && !array {
        return Ok(text.then(|| py.NotImplemented()));
    }
    let collection = other.is_exact_instance_of::<PyDict>()
        || other.is_exact_instance_of::<PySet>()
        || other.is_exact_instance_of::<PyFrozenSet>()
        || other.is_exact_instance_of::<PySlice>();
    let plain = || -> PyResult<bool> {
        let kind = other.get_type();
        let eq = intern!(py, "__eq__");
        Ok(!kind.hasattr(intern!(py, "__array_ufunc__"))?
            && kind.getattr(eq)?.is(&py.get_type::<PyAny>().getattr(eq)?))
    };
    if !strange && !text && !collection && !other.is_none() && !plain()? {
        let kind = other.get_type();
        // NumPy leaves the comparison to what knows arrays, and asks others for each element.
        let knows = kind.hasattr(intern!(py, "__array_ufunc__"))?
            || kind.hasattr(intern!(py, "__array_priority__"))?;
        return if knows {
            Ok(None)
        } else {
            compared(slf, other, prim).map(Some)
        };
    }
    // Whatever the values are, so zeros will do, and nothing has to be computed.
    let shape = PyTuple::new(py, slf.get().read()?.shape())?;
    let zeros = original(py, "numpy", "zeros")?.call1((shape,))?;
    let out = zeros.call_method1(method, (other,))?;
    if !out.is_instance_of::<PyUntypedArray>() {
        return Ok(Some(out.unbind()));
    }
    let value = from_ndarray(out.cast::<PyUntypedArray>()?, Borrow::Copy)?;
    Ok(Some(
        wrap(py, Array::constant(value), ScalarKind::Array)?.unbind(),
    ))
}

/// What `==` and `!=` give for an object with an equality of its own: of the values, which a replay looks at.
fn compared(slf: &Bound<'_, PyArray>, other: &Bound<'_, PyAny>, prim: Prim) -> PyResult<Py<PyAny>> {
    let py = slf.py();
    let how = if prim == ops::EQ {
        CompareOp::Eq
    } else {
        CompareOp::Ne
    };
    let array = slf.get().read()?;
    decisions::note(&array);
    let value = escapes::guard(py, &array)?;
    let out = to_ndarray(py, value)?.rich_compare(other, how)?;
    if !out.is_instance_of::<PyUntypedArray>() {
        return Ok(out.unbind());
    }
    let value = from_ndarray(out.cast::<PyUntypedArray>()?, Borrow::Copy)?;
    Ok(wrap(py, Array::constant(value), ScalarKind::Array)?.unbind())
}

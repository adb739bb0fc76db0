//! Makes the views that methods return: transposes, reshapes, real and imaginary parts.

use cotan::Array;
use cotan::aval::{Shape, Strides, row_major};
use cotan::ops;
use cotan::prim::Params;
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::view_op::ViewOp;
use crate::runtime::error::OrRaise;

/// A view with axes in another order.
pub fn transpose_view<'py>(
    slf: &Bound<'py, PyArray>,
    perm: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    if slf.get().scalar_kind() != ScalarKind::Array {
        return wrap(py, slf.get().read()?, slf.get().scalar_kind());
    }
    let op = ViewOp::Transpose(perm.into());
    Ok(Bound::new(py, PyArray::view_of(slf, op)?)?.into_any())
}

/// A new array with the same elements; a constant in the memory order that NumPy's `copy` gives it.
pub fn copied<'py>(slf: &Bound<'py, PyArray>, order: &str) -> PyResult<Bound<'py, PyAny>> {
    let (py, this) = (slf.py(), slf.get());
    let array = this.read()?;
    let shape: Shape = array.shape().iter().rev().copied().collect();
    let first_runs_fastest = || match order {
        "F" | "f" => true,
        "A" | "a" | "K" | "k" => {
            let strides: Strides = this.own_strides().iter().rev().copied().collect();
            !this.is_contiguous() && strides == row_major(&shape)
        }
        _ => false,
    };
    let is_table = shape.len() > 1 && this.scalar_kind() == ScalarKind::Array;
    if !is_table || array.is_active() || !first_runs_fastest() {
        return wrap(py, array, this.scalar_kind());
    }
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    let turned = ViewOp::Transpose(axes.as_slice().into()).read(&array)?;
    let turned = Bound::new(py, PyArray::new(turned, ScalarKind::Array))?;
    transpose_view(&turned, &axes)
}

/// The real or the imaginary part: a view of a complex array.
pub fn part<'py>(slf: &Bound<'py, PyArray>, real: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let array = slf.get().read()?;
    if array.dtype().is_complex() {
        if slf.get().scalar_kind() == ScalarKind::Array {
            let op = if real { ViewOp::Real } else { ViewOp::Imag };
            return Ok(Bound::new(py, PyArray::view_of(slf, op)?)?.into_any());
        }
        let prim = if real { ops::REAL } else { ops::IMAG };
        let part = Array::apply(prim, Params::None, &[&array]).or_raise()?;
        return wrap(py, part, slf.get().scalar_kind());
    }
    if real {
        return Ok(slf.clone().into_any());
    }
    let dtype = array.dtype();
    let zero = Array::number(dtype, cotan::Number::Float(0.0))
        .broadcast_to(array.shape())
        .or_raise()?;
    wrap(py, zero, slf.get().scalar_kind())
}

/// `x.real = value` and `x.imag = value`.
pub fn set_part(slf: &Bound<'_, PyArray>, value: &Bound<'_, PyAny>, real: bool) -> PyResult<()> {
    let name = if real { "real" } else { "imag" };
    if slf.get().scalar_kind() != ScalarKind::Array {
        return Err(PyAttributeError::new_err(format!(
            "{name}: a scalar cannot be written to; make an array of it first"
        )));
    }
    if !real && !slf.get().read()?.dtype().is_complex() {
        return Err(PyTypeError::new_err(
            "imag: a real array has no imaginary part to set; use x.astype(complex)",
        ));
    }
    let part = part(slf, real)?;
    crate::array::index::assign(part.cast::<PyArray>()?, value, true)
}

/// A view in another shape where NumPy would give one, else a new array.
pub fn reshape_view<'py>(
    slf: &Bound<'py, PyArray>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let array = slf.get().read()?;
    // Refused shapes are refused before a view is made of them.
    let new = array.reshape(shape).or_raise()?;
    let shape_is_empty = shape.is_empty();
    let op = ViewOp::Reshape(shape.into());
    let fits = op.fits(array.shape(), slf.get().cell().strides.as_deref());
    if slf.get().scalar_kind == ScalarKind::Array && fits {
        return Ok(Bound::new(py, PyArray::view_of(slf, op)?)?.into_any());
    }
    // A scalar without axes stays one.
    let scalar_kind = if slf.get().scalar_kind != ScalarKind::Array && shape_is_empty {
        slf.get().scalar_kind
    } else {
        ScalarKind::Array
    };
    wrap(py, new, scalar_kind)
}

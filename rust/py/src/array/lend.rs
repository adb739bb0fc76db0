//! Lends the memory of constants, and of views of them, as ndarrays that share it.

use std::sync::Arc;

use cotan::aval::{Strides, row_major};
use cotan::{Array, DType, tape};
use numpy::PyUntypedArray;
use pyo3::prelude::*;

use crate::array::cell::{PyArray, ScalarKind};
use crate::array::escapes::compute;
use crate::array::lent_memory::LentMemory;
use crate::array::to_host::given_out;
use crate::ndarray::export::to_ndarray;
use crate::ndarray::memory::to_owned;
use crate::ndarray::strided_view::strided_view;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;

exports!(lend);

/// Whether an array has elements in memory that could be shown: it is constant, and no number of Python's.
pub fn is_showable(slf: &PyArray, array: &Array) -> bool {
    let is_variable = array.is_active() || tape::keeps_history(array);
    slf.scalar_kind() != ScalarKind::PythonNumber && !is_variable && array.dtype() != DType::Bf16
}

/// The memory of an array as an ndarray that shares it; `None` where the elements have no places in memory, or cannot be
/// written to. `pin` is for pointers that nobody counts.
pub fn lend_memory<'py>(
    slf: &Bound<'py, PyArray>,
    pin: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, this) = (slf.py(), slf.get());
    let array = this.read()?;
    if !is_showable(this, &array) || !this.is_writeable() {
        return Ok(None);
    }
    if this.view.is_some() {
        return lend_view(slf, pin);
    }
    let known = this.cell().lent.clone();
    let lent = if let Some(known) = known {
        known
    } else {
        let value = to_owned(compute(py, &array)?)?;
        let new = Arc::new(LentMemory::new(to_ndarray(py, value)?.unbind()));
        this.cell().lent.get_or_insert(new).clone()
    };
    if pin {
        lent.pin();
    }
    // The shape may have been set in place since.
    let shape = this.own_shape();
    let memory = lent.memory.bind(py).cast::<PyUntypedArray>()?;
    strided_view(memory, array.dtype(), &shape, &row_major(&shape), 0).map(Some)
}

/// The same for a view, whose elements are where the array has them that its chain of views begins at.
fn lend_view<'py>(slf: &Bound<'py, PyArray>, pin: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, this) = (slf.py(), slf.get());
    let (chain, first) = this.chain();
    let shape = this.own_shape();
    let Some(base) = chain
        .last()
        .filter(|_| first.view.is_none())
        .map(|v| &v.base)
    else {
        return Ok(None);
    };
    let positions = this.traced_back()?.0.to_vec::<i64>().or_raise()?;
    let Some(strides) = strides_of(&positions, &shape) else {
        return Ok(None);
    };
    let Some(memory) = lend_memory(base.bind(py), pin)? else {
        return Ok(None);
    };
    let start = usize::try_from(positions[0]).unwrap_or(usize::MAX);
    strided_view(
        memory.cast::<PyUntypedArray>()?,
        this.own_dtype(),
        &shape,
        &strides,
        start,
    )
    .map(Some)
}

/// The strides of elements at these positions, in row-major order; `None` where there are none that lead to all of them.
fn strides_of(positions: &[i64], shape: &[usize]) -> Option<Strides> {
    let first = *positions.first()?;
    let steps = row_major(shape);
    let strides: Strides = (shape.iter().zip(&steps))
        .map(|(&n, &step)| {
            let next = positions.get(step.unsigned_abs()).filter(|_| n > 1);
            next.map_or(0, |next| (next - first) as isize)
        })
        .collect();
    let are_there = positions.iter().enumerate().all(|(k, &position)| {
        let index =
            (shape.iter().zip(&steps)).map(|(&n, &step)| k / step.unsigned_abs().max(1) % n);
        let offset: isize = index.zip(&strides).map(|(i, s)| i.cast_signed() * s).sum();
        first as isize + offset == position as isize
    });
    are_there.then_some(strides)
}

/// The memory of a constant array as an ndarray that shares it, or a copy of what cannot be written to. `pin` keeps it
/// where it is as long as the array lives, for pointers.
///
/// Raises `NotDifferentiableError` for an active array.
#[pyfunction]
#[pyo3(signature = (x: "Array", pin: "bool") -> "NDArray")]
pub fn lend<'py>(x: &Bound<'py, PyArray>, pin: bool) -> PyResult<Bound<'py, PyAny>> {
    match lend_memory(x, pin)? {
        Some(memory) => Ok(memory),
        None => given_out(x, None, None),
    }
}

//! Views by integers that nobody knows: while a function is mapped over examples, `r = y[i]` is a view as in NumPy, and
//! what is written to `r` is written to `y`.

use cotan::Array;
use cotan::aval::{self, Shape};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::index::basic;
use crate::array::traced::is_mapped;
use crate::array::view_op::ViewOp;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;
use crate::runtime::recording_state::is_mapping;

/// What `y[i]` shows where nobody knows `i`.
pub struct Unknown {
    /// The key.
    key: Py<PyAny>,
    /// What the key 0 in its place would show.
    pub first: ViewOp,
    /// The shape.
    shape: Shape,
}

impl Unknown {
    /// The region of a base.
    pub fn read(&self, base: &Array) -> PyResult<Array> {
        Python::attach(|py| {
            let base = wrap(py, base.clone(), ScalarKind::Array)?;
            let taken = hooks::GETITEM.get(py)?.call1((base, &self.key))?;
            taken.cast::<PyArray>()?.get().read()
        })
    }

    /// The base after the region got this value.
    pub fn write(&self, base: &Array, value: &Array) -> PyResult<Array> {
        Python::attach(|py| {
            let base = wrap(py, base.clone(), ScalarKind::Array)?;
            let value = value.reshape(&self.shape).or_raise()?;
            let value = wrap(py, value, ScalarKind::Array)?;
            hooks::SETITEM.get(py)?.call1((&base, &self.key, value))?;
            base.cast::<PyArray>()?.get().read()
        })
    }
}

/// The view that a key shows in which integers are not known while a function is mapped over examples; nothing for
/// other keys, and where NumPy gives a copy.
pub fn view(key: &Bound<'_, PyAny>, shape: &[usize]) -> PyResult<Option<ViewOp>> {
    if !is_mapping() {
        return Ok(None);
    }
    let py = key.py();
    let mut items: Vec<Bound<'_, PyAny>> = match key.cast::<PyTuple>() {
        Ok(items) => items.iter().collect(),
        Err(_) => vec![key.clone()],
    };
    let mut first = items.clone();
    let mut is_unknown = false;
    for (item, known) in items.iter_mut().zip(&mut first) {
        let Ok(cell) = item.cast::<PyArray>() else {
            continue;
        };
        let (array, scalar_kind) = (cell.get().read()?, cell.get().scalar_kind());
        let is_integer = array.shape().is_empty() && array.dtype().kind() == aval::Kind::Integer;
        if !is_integer || !is_mapped(cell)? {
            continue;
        }
        if scalar_kind == ScalarKind::Array {
            return Ok(None);
        }
        // The key keeps the integer that it has now.
        *item = wrap(py, array, scalar_kind)?;
        *known = 0_usize.into_pyobject(py)?.into_any();
        is_unknown = true;
    }
    let first = PyTuple::new(py, first)?.into_any();
    let Ok(Some(region)) = basic(&first, shape) else {
        return Ok(None);
    };
    if !is_unknown || region.scalar || region.copies {
        return Ok(None);
    }
    Ok(Some(ViewOp::Unknown(Box::new(Unknown {
        key: PyTuple::new(py, items)?.into_any().unbind(),
        shape: region.shape.clone(),
        first: ViewOp::Index(region.dims, region.shape),
    }))))
}

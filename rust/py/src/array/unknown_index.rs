//! Views by integers that nobody knows: while a function is mapped over examples, `r = y[i]` is a view as in NumPy, and
//! what is written to `r` is written to `y`.

use cotan::Array;
use cotan::aval::{self, Shape, SliceDim, Strides};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::traced::is_mapped;
use crate::array::view_op::{Region, ViewOp};
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;
use crate::runtime::recording_state::is_mapping;

/// A key with integers that nobody knows.
pub struct Unknown {
    key: Py<PyAny>,
}

impl Unknown {
    /// The key, and the same with 0 in the place of each unknown integer; nothing where there is none, and where NumPy
    /// gives a copy.
    pub fn of<'py>(key: &Bound<'py, PyAny>) -> PyResult<Option<(Unknown, Bound<'py, PyAny>)>> {
        if !is_mapping() {
            return Ok(None);
        }
        let py = key.py();
        let mut items: Vec<Bound<'py, PyAny>> = match key.cast::<PyTuple>() {
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
            let is_integer =
                array.shape().is_empty() && array.dtype().kind() == aval::Kind::Integer;
            if !is_integer || !is_mapped(cell)? {
                continue;
            }
            // By an array without axes.
            if scalar_kind == ScalarKind::Array {
                return Ok(None);
            }
            // The key keeps the integer that it has now.
            *item = wrap(py, array, scalar_kind)?;
            *known = 0_usize.into_pyobject(py)?.into_any();
            is_unknown = true;
        }
        if !is_unknown {
            return Ok(None);
        }
        let key = PyTuple::new(py, items)?.into_any().unbind();
        Ok(Some((Unknown { key }, PyTuple::new(py, first)?.into_any())))
    }

    /// What it shows, where the same with zeros shows this region.
    pub fn view(self, dims: Box<[SliceDim]>, shape: Shape) -> ViewOp {
        ViewOp::Unknown(Box::new(Shown {
            key: self.key,
            shape: shape.clone(),
            first: ViewOp::Index(dims, shape),
        }))
    }
}

/// What such a key shows.
struct Shown {
    key: Py<PyAny>,
    shape: Shape,
    /// What the key with zeros shows.
    first: ViewOp,
}

impl Region for Shown {
    fn read(&self, base: &Array) -> PyResult<Array> {
        Python::attach(|py| {
            let base = wrap(py, base.clone(), ScalarKind::Array)?;
            let taken = hooks::GETITEM.get(py)?.call1((base, &self.key))?;
            taken.cast::<PyArray>()?.get().read()
        })
    }

    fn write(&self, base: &Array, value: &Array) -> PyResult<Array> {
        Python::attach(|py| {
            let base = wrap(py, base.clone(), ScalarKind::Array)?;
            let value = value.reshape(&self.shape).or_raise()?;
            let value = wrap(py, value, ScalarKind::Array)?;
            hooks::SETITEM.get(py)?.call1((&base, &self.key, value))?;
            base.cast::<PyArray>()?.get().read()
        })
    }

    fn strides(&self, shape: &[usize], base: Option<&Strides>) -> Option<Strides> {
        self.first.strides(shape, base)
    }
}

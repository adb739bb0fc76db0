//! Writes the results of a replay into the buffers of `out=`.

use std::sync::Arc;

use cotan::kernels::Value;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::ndarray::dtype::dtype_of;
use crate::ndarray::memory::to_owned;
use crate::ndarray::memory::{as_target, is_writeable, span, write_elements};
use crate::runtime::hooks;
use crate::runtime::text;

/// One buffer: the result that goes into it, and where it stands in `out`.
pub struct Buffer {
    index: usize,
    array: Py<PyUntypedArray>,
    path: String,
}

/// The buffers of a call.
pub struct Buffers {
    /// What they were taken from.
    given: Py<PyAny>,
    all: Vec<Buffer>,
}

impl Buffers {
    /// Takes `out` apart along a structure that has numbers of results in place of the results.
    pub fn new(out: &Bound<'_, PyAny>, template: &Bound<'_, PyAny>) -> PyResult<Arc<Buffers>> {
        let pairs = hooks::OUTPUT_PAIRS.get(out.py())?.call1((template, out))?;
        let mut all = Vec::new();
        for pair in pairs.try_iter()? {
            let (index, object, path): (usize, Bound<'_, PyAny>, String) = pair?.extract()?;
            let array = object.cast_into_exact::<PyUntypedArray>().map_err(|e| {
                PyTypeError::new_err(format!(
                    "prepared: {path} must be a plain ndarray to write to, or None, not {}",
                    text::class_of(&e.into_inner())
                ))
            })?;
            all.push(Buffer {
                index,
                array: array.unbind(),
                path,
            });
        }
        Ok(Arc::new(Buffers {
            given: out.clone().unbind(),
            all,
        }))
    }

    /// Whether they were taken from this object.
    pub fn are(&self, out: &Bound<'_, PyAny>) -> bool {
        self.given.is(out)
    }

    /// Refuses buffers that do not fit the results.
    pub fn check<'a>(
        &self,
        py: Python<'_>,
        aval: impl Fn(usize) -> &'a cotan::Aval,
    ) -> PyResult<()> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for buffer in &self.all {
            let (array, path) = (buffer.array.bind(py), &buffer.path);
            let wanted = aval(buffer.index);
            if array.shape() != wanted.shape.as_slice() {
                return Err(PyValueError::new_err(format!(
                    "prepared: {path} has shape {}, the result has {}",
                    cotan::aval::tuple(array.shape()),
                    cotan::aval::tuple(&wanted.shape)
                )));
            }
            if dtype_of(&array.dtype())? != wanted.dtype
                || array.dtype().is_native_byteorder() == Some(false)
            {
                return Err(PyTypeError::new_err(format!(
                    "prepared: {path} is {}, the result is {}",
                    text::text(&array.dtype())?,
                    wanted.dtype.numpy_name()
                )));
            }
            if !is_writeable(array) {
                return Err(PyValueError::new_err(format!(
                    "prepared: {path} is read-only"
                )));
            }
            let written = span(array);
            if spans.iter().any(|&s| overlap(s, written)) {
                return Err(PyValueError::new_err(format!(
                    "prepared: {path} shares memory with another buffer of out"
                )));
            }
            spans.push(written);
        }
        Ok(())
    }

    /// For each result the memory to compute it in, where that can be done.
    pub fn targets<'a>(
        &self,
        py: Python<'_>,
        count: usize,
        inputs: impl Iterator<Item = &'a Value>,
    ) -> PyResult<Vec<Option<Value>>> {
        let mut targets = vec![None; count];
        let read: Vec<(usize, usize)> = inputs
            .map(|v| {
                let start = v.storage().as_ptr() as usize;
                (start, start + v.storage().len())
            })
            .collect();
        for buffer in &self.all {
            let array = buffer.array.bind(py);
            let written = span(array);
            if !read.iter().any(|&r| overlap(r, written)) {
                targets[buffer.index] = as_target(array)?;
            }
        }
        Ok(targets)
    }

    /// Writes results into their buffers; gives for each result its buffer.
    pub fn write(&self, py: Python<'_>, outs: &mut [Value]) -> PyResult<Vec<Option<Py<PyAny>>>> {
        for buffer in &self.all {
            let out = &mut outs[buffer.index];
            // What is an input may be about to be overwritten.
            if out.storage().is_borrowed() && out.as_ptr() as usize != span(buffer.array.bind(py)).0
            {
                *out = to_owned(out.clone())?;
            }
        }
        let mut objects: Vec<Option<Py<PyAny>>> = outs.iter().map(|_| None).collect();
        for buffer in &self.all {
            let array = buffer.array.bind(py);
            write_elements(array, &outs[buffer.index])?;
            objects[buffer.index] = Some(array.clone().into_any().unbind());
        }
        Ok(objects)
    }
}

fn overlap(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0 < b.1 && b.0 < a.1
}

//! Undoes what a plain run of a callback with a key has written: the arrays, lists and dictionaries that it can write to are
//! put back as they were. Functions without a key are looked after in Python (`state/quick_state.py`, `state/snapshot.py`).

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use cotan::Array;

use crate::array::cell::{PyArray, wrap};
use crate::array::escapes::{compute, loses_derivative};
use crate::ndarray::export::to_ndarray;
use crate::ndarray::memory::original;
use crate::runtime::identity::same_items;
use crate::runtime::once_cell::intern;

/// An object, and what it held.
enum Held {
    List(Py<PyList>, Py<PyList>),
    /// The keys, and the values.
    Dict(Py<PyDict>, Py<PyList>, Py<PyList>),
    /// The shape, and the bytes in row-major order.
    Memory(Py<PyUntypedArray>, Vec<usize>, Py<PyBytes>),
    Array(Py<PyArray>, Array),
}

/// What some objects held when they were noted.
#[derive(Default)]
pub struct Written(Vec<Held>);

impl Written {
    pub fn note_list(&mut self, items: &Bound<'_, PyList>) {
        let copy = items.as_sequence().to_list();
        self.0
            .extend(copy.map(|copy| Held::List(items.clone().unbind(), copy.unbind())));
    }

    pub fn note_dict(&mut self, items: &Bound<'_, PyDict>) {
        let (keys, values) = (items.keys().unbind(), items.values().unbind());
        self.0
            .push(Held::Dict(items.clone().unbind(), keys, values));
    }

    pub fn note_memory(&mut self, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        let bytes = bytes_of(array)?.unbind();
        let held = Held::Memory(array.clone().unbind(), array.shape().to_vec(), bytes);
        self.0.push(held);
        Ok(())
    }

    pub fn note_array(&mut self, array: &Bound<'_, PyArray>, value: Array) {
        self.0.push(Held::Array(array.clone().unbind(), value));
    }

    /// Whether anything differs from when it was noted.
    pub fn has_changed(&self, py: Python<'_>) -> PyResult<bool> {
        for held in &self.0 {
            if held.has_changed(py)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts back what has changed, and touches nothing else; says whether anything had.
    pub fn restore(&self, py: Python<'_>) -> PyResult<bool> {
        let mut found = false;
        for held in &self.0 {
            if held.has_changed(py)? {
                held.restore(py)?;
                found = true;
            }
        }
        Ok(found)
    }
}

impl Held {
    fn has_changed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!match self {
            Held::List(items, was) => same_items(items.bind(py), was.bind(py)),
            Held::Dict(items, keys, values) => {
                let items = items.bind(py);
                same_items(&items.keys(), keys.bind(py))
                    && same_items(&items.values(), values.bind(py))
            }
            Held::Memory(array, shape, bytes) => {
                let array = array.bind(py);
                array.shape() == shape && bytes_of(array)?.as_bytes() == bytes.bind(py).as_bytes()
            }
            Held::Array(array, was) => {
                let now = array.bind(py).get().read()?;
                now.id() == was.id() || is_same(py, &now, was)?
            }
        })
    }

    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            Held::List(items, was) => {
                let items = items.bind(py);
                items.set_slice(0, items.len(), was.bind(py))
            }
            Held::Dict(items, keys, values) => {
                let items = items.bind(py);
                items.clear();
                let values = values.bind(py).iter();
                (keys.bind(py).iter().zip(values)).try_for_each(|(k, v)| items.set_item(k, v))
            }
            Held::Memory(array, shape, bytes) => {
                let array = array.bind(py);
                let was = original(py, "numpy", "frombuffer")?.call1((bytes, array.dtype()))?;
                let was = was.call_method1(intern!(py, "reshape"), (shape,))?;
                array.set_item(py.Ellipsis(), was)
            }
            Held::Array(array, was) => {
                let kind = array.bind(py).get().scalar_kind();
                let was = wrap(py, was.clone(), kind)?;
                array.bind(py).set_item(py.Ellipsis(), was)
            }
        }
    }
}

/// Whether an array has the elements of another one, bit by bit, and the derivatives if that has any.
fn is_same(py: Python<'_>, now: &Array, was: &Array) -> PyResult<bool> {
    let bytes = |array: &Array| {
        let value = to_ndarray(py, compute(py, array)?)?;
        bytes_of(value.cast()?)
    };
    let is_less = loses_derivative(was) && !loses_derivative(now);
    let is_equal = now.shape() == was.shape() && bytes(now)?.as_bytes() == bytes(was)?.as_bytes();
    Ok(is_equal && !is_less)
}

fn bytes_of<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = array.call_method0(intern!(array.py(), "tobytes"))?;
    Ok(bytes.cast_into()?)
}

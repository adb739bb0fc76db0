//! Memory that the elements of an array live in while other code may write to them: behind a `memoryview`, a buffer that is
//! being filled, a pointer for C.
//!
//! Reads take what is there now, and constants that are written to the array go there, too. A derivative cannot be stored
//! there, so an active value is refused as long as somebody else sees the memory. When nobody does any more, the array
//! keeps its elements to itself again.

use std::sync::atomic::{AtomicBool, Ordering};

use cotan::{Array, tape};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::ndarray::export::to_ndarray;
use crate::ndarray::memory::{Borrow, from_ndarray, references, same_elements, to_owned};
use crate::runtime::error::{NotDifferentiableError, OrRaise, enter};

/// Memory that an array lends.
pub struct LentMemory {
    /// An ndarray in row-major order, which the ndarrays that others get refer to.
    pub memory: Py<PyAny>,
    /// Whether there are pointers to it that nobody counts: it stays as long as the array.
    is_pinned: AtomicBool,
}

/// What an array finds in the memory that it lends.
pub struct Found {
    /// Whether other code has written something else there.
    pub has_changed: bool,
    /// Whether other code may still write there.
    pub is_shared: bool,
}

impl LentMemory {
    pub fn new(memory: Py<PyAny>) -> LentMemory {
        LentMemory {
            memory,
            is_pinned: AtomicBool::new(false),
        }
    }

    /// Lets it stay as long as the array.
    pub fn pin(&self) {
        self.is_pinned.store(true, Ordering::Relaxed);
    }

    pub fn is_pinned(&self) -> bool {
        self.is_pinned.load(Ordering::Relaxed)
    }

    /// Whether an ndarray of others refers to it.
    fn is_seen(&self, py: Python<'_>) -> bool {
        references(self.memory.bind(py)) > 1
    }

    /// Lets a constant have the elements that are in the memory now.
    pub fn follow(&self, array: &mut Array) -> PyResult<Found> {
        Python::attach(|py| {
            let memory = self.memory.bind(py).cast::<PyUntypedArray>()?;
            let flat = array.reshape(memory.shape()).or_raise()?;
            let has_changed = !same_elements(memory, flat.evaluate().or_raise()?)?;
            if has_changed {
                let new = Array::constant(to_owned(from_ndarray(memory, Borrow::Copy)?)?);
                *array = new.reshape(array.shape()).or_raise()?;
            }
            Ok(Found {
                has_changed,
                is_shared: self.is_pinned() || self.is_seen(py),
            })
        })
    }

    /// Writes a value there; false where it is active, and nobody sees the memory.
    ///
    /// Raises `NotDifferentiableError` where somebody does.
    pub fn write(&self, array: &Array) -> PyResult<bool> {
        Python::attach(|py| {
            if array.is_active() || tape::keeps_history(array) {
                return if self.is_seen(py) {
                    Err(NotDifferentiableError::new_err(
                        "writing an active value to an array whose memory other code sees (a memoryview, a buffer, a \
                         ctypes object) would drop the gradient there; let go of that first, or write to x.copy()",
                    ))
                } else {
                    Ok(false)
                };
            }
            let memory = self.memory.bind(py);
            let value = enter(py, |interrupted| array.force(interrupted).cloned())?;
            let plain = to_ndarray(py, value)?;
            let shape = memory.getattr("shape")?;
            memory.set_item(py.Ellipsis(), plain.call_method1("reshape", (shape,))?)?;
            Ok(true)
        })
    }
}

//! Spares a function that captures a large array the copy in each call: the copy of an earlier call serves while the array
//! holds what it held then.
//!
//! An array is copied when it is used, since anybody may write to it afterwards. Reading it once, to compare its
//! fingerprint, takes a quarter of the time of a copy into fresh memory.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cotan::kernels::Value;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::types::{PyCFunction, PyWeakrefReference};

use crate::ndarray::content::Content;
use crate::ndarray::memory::{Borrow, from_ndarray};

/// At most so many bytes of copies are kept.
const MOST_BYTES: usize = 64 << 20;
/// So many arrays are remembered.
const ARRAYS: usize = 8;
/// An array that held something else so many times in a row is copied each time from then on.
const CHANGES: u32 = 3;

/// A copy, and what tells whether the array still holds it.
struct Kept {
    content: Content,
    value: Value,
    /// Whether there is NaN in it, once that was asked.
    has_nan: OnceLock<bool>,
}

struct Recent {
    array: Py<PyWeakrefReference>,
    address: usize,
    /// None until it is met for the second time: most arrays are captured once.
    kept: Option<Arc<Kept>>,
    /// How often it held something else since it last held the same.
    changes: u32,
}

/// What was captured, the latest one last.
static RECENT: Mutex<Vec<Recent>> = Mutex::new(Vec::new());

fn with_recent<T>(py: Python<'_>, use_it: impl FnOnce(&mut Vec<Recent>) -> T) -> T {
    let mut recent = (RECENT.lock_py_attached(py)).unwrap_or_else(PoisonError::into_inner);
    use_it(&mut recent)
}

/// Forgets an array that is gone.
fn forget(py: Python<'_>) -> PyResult<&Bound<'_, PyCFunction>> {
    static FORGET: PyOnceLock<Py<PyCFunction>> = PyOnceLock::new();
    let function = FORGET.get_or_try_init(py, || {
        PyCFunction::new_closure(py, None, None, |args, _| {
            let gone = args.get_item(0)?;
            let dropped = with_recent(gone.py(), |recent| {
                let at = recent.iter().position(|r| r.array.is(&gone));
                at.map(|at| recent.remove(at))
            });
            drop(dropped);
            Ok::<_, PyErr>(())
        })
        .map(Bound::unbind)
    })?;
    Ok(function.bind(py))
}

/// Forgets all arrays.
pub fn clear(py: Python<'_>) {
    let dropped = with_recent(py, std::mem::take);
    drop(dropped);
}

/// The elements of an array that is captured, in memory that nobody writes to.
pub fn captured(array: &Bound<'_, PyUntypedArray>) -> PyResult<Value> {
    if !Content::is_large(array) {
        return from_ndarray(array, Borrow::Copy);
    }
    let (py, address) = (array.py(), array.as_ptr() as usize);
    let known = with_recent(py, |recent| {
        let at = recent.iter().position(|r| r.address == address)?;
        let found = recent.remove(at);
        let known = (found.kept.clone(), found.changes);
        recent.push(found);
        Some(known)
    });
    let Some((kept, changes)) = known else {
        let value = from_ndarray(array, Borrow::Copy)?;
        if !value.storage().is_foreign() {
            remember(array, None, 0)?;
        }
        return Ok(value);
    };
    if changes >= CHANGES {
        return from_ndarray(array, Borrow::Copy);
    }
    if let Some(kept) = &kept
        && kept.content.is_in(array)?
    {
        if changes > 0 {
            remember(array, Some(Arc::clone(kept)), 0)?;
        }
        return Ok(kept.value.clone());
    }
    let changes = changes + u32::from(kept.is_some());
    drop(kept);
    let value = from_ndarray(array, Borrow::Copy)?;
    let is_kept = changes < CHANGES && value.aval().nbytes() <= MOST_BYTES;
    let kept = match Content::read(array, &value)? {
        content @ Content::Fingerprint { .. } if is_kept && !value.storage().is_foreign() => {
            Some(Arc::new(Kept {
                content,
                value: value.clone(),
                has_nan: OnceLock::new(),
            }))
        }
        _ => None,
    };
    remember(array, kept, changes)?;
    Ok(value)
}

/// Whether there is NaN in the value that was captured of an array, which is looked for once in a copy that is kept.
pub fn has_nan(
    array: &Bound<'_, PyAny>,
    value: &Value,
    look: impl FnOnce() -> PyResult<bool>,
) -> PyResult<bool> {
    let address = array.as_ptr() as usize;
    let kept = with_recent(array.py(), |recent| {
        let found = recent.iter().find(|r| r.address == address)?;
        found.kept.clone()
    });
    let Some(kept) = kept.filter(|k| k.value.address() == value.address()) else {
        return look();
    };
    if let Some(&known) = kept.has_nan.get() {
        return Ok(known);
    }
    let found = look()?;
    Ok(*kept.has_nan.get_or_init(|| found))
}

/// Notes what is known of an array, and forgets what there is no room for.
fn remember(
    array: &Bound<'_, PyUntypedArray>,
    kept: Option<Arc<Kept>>,
    changes: u32,
) -> PyResult<()> {
    let py = array.py();
    let entry = Recent {
        array: PyWeakrefReference::new_with(array, forget(py)?)?.unbind(),
        address: array.as_ptr() as usize,
        kept,
        changes,
    };
    let dropped = with_recent(py, |recent| {
        let mut dropped = Vec::new();
        if let Some(at) = recent.iter().position(|r| r.address == entry.address) {
            dropped.push(recent.remove(at));
        }
        recent.push(entry);
        let bytes = |recent: &[Recent]| -> usize {
            let kept = recent.iter().filter_map(|r| r.kept.as_ref());
            kept.map(|kept| kept.value.aval().nbytes()).sum()
        };
        while recent.len() > ARRAYS || bytes(recent) > MOST_BYTES {
            dropped.push(recent.remove(0));
        }
        dropped
    });
    // What is dropped may run code of its own, so not under the lock.
    drop(dropped);
    Ok(())
}

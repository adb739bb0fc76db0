//! Makes values once and keeps them, in a way that survives `fork`.
//!
//! pyo3's own ways (`get_or_init`, `intern!`) give the interpreter lock away while they make it, and let other
//! threads wait. The child of a `fork` at that moment would wait for ever, for a thread that it has not got.
//! Here nobody waits: threads that come at the same time make it each for itself, and one is kept.

use numpy::{PyArray1, PyArrayMethods, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyCFunction, PyComplex, PyDict, PyEllipsis, PyFloat, PyFunction, PyInt,
    PyList, PyMapping, PyRange, PySlice, PyString, PyTuple, PyWeakrefReference,
};
use pyo3::{PyTypeCheck, PyTypeInfo};

pub trait Once<T> {
    /// What is kept, or made now.
    fn made(&self, py: Python<'_>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T>;
}

impl<T> Once<T> for PyOnceLock<T> {
    fn made(&self, py: Python<'_>, make: impl FnOnce() -> PyResult<T>) -> PyResult<&T> {
        if let Some(kept) = self.get(py) {
            return Ok(kept);
        }
        let new = make()?;
        // Another thread may have been faster; then this changes nothing.
        let _ = self.set(py, new);
        Ok(self.get(py).expect("it has just been set"))
    }
}

pub trait OnceImported<T> {
    /// A name of a module.
    fn found<'py>(&self, py: Python<'py>, module: &str, name: &str) -> PyResult<&Bound<'py, T>>;
}

impl<T: PyTypeCheck> OnceImported<T> for PyOnceLock<Py<T>> {
    fn found<'py>(&self, py: Python<'py>, module: &str, name: &str) -> PyResult<&Bound<'py, T>> {
        let kept = self.made(py, || {
            let value = py.import(module)?.getattr(name)?;
            Ok(value.cast_into()?.unbind())
        })?;
        Ok(kept.bind(py))
    }
}

/// A text that the interpreter keeps one object of.
pub struct Interned(&'static str, PyOnceLock<Py<PyString>>);

impl Interned {
    pub const fn new(text: &'static str) -> Interned {
        Interned(text, PyOnceLock::new())
    }

    #[inline]
    pub fn get<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        if self.1.get(py).is_none() {
            let _ = self.1.set(py, PyString::intern(py, self.0).unbind());
        }
        self.1.get(py).expect("it has just been set").bind(py)
    }
}

/// As pyo3's macro of this name.
macro_rules! intern {
    ($py:expr, $text:expr) => {{
        static TEXT: $crate::runtime::once_cell::Interned =
            $crate::runtime::once_cell::Interned::new($text);
        TEXT.get($py)
    }};
}
pub(crate) use intern;

/// Has pyo3 and the bindings of NumPy make what they make once, now, when no other thread needs it.
pub fn warm_up(py: Python<'_>) {
    fn made<T: PyTypeInfo>(py: Python<'_>) {
        T::type_object(py);
    }
    for make in [
        made::<PyBool>,
        made::<PyBytes>,
        made::<PyCFunction>,
        made::<PyComplex>,
        made::<PyDict>,
        made::<PyEllipsis>,
        made::<PyFloat>,
        made::<PyFunction>,
        made::<PyInt>,
        made::<PyList>,
        made::<PyMapping>,
        made::<PyRange>,
        made::<PySlice>,
        made::<PyString>,
        made::<PyTuple>,
        made::<PyUntypedArray>,
        made::<PyWeakrefReference>,
    ] {
        make(py);
    }
    drop(PyArray1::<i64>::zeros(py, 1, false).readonly());
}

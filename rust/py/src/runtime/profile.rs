//! Counts what is computed inside a `with` block.

use cotan::sched::Profile;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Counts what this thread computes inside a `with` block.
///
/// `equations`: a Counter of equations that were computed, by primitive. `skipped`: a Counter of
/// cotangents that nobody asked for, by the primitive that would have computed them. `runs`: how often
/// the executor was entered. `bytes_copied`: bytes of ndarrays that were copied because somebody could
/// have written to them later.
///
/// >>> import cotan as ct
/// >>> import numpy as np
/// >>> with ct.profile() as work:
/// ...     _ = ct.gradient(lambda x: np.sum(np.exp(x)), np.ones(3))
/// >>> work.equations["exp"]
/// 1
#[pyclass(frozen, name = "profile", module = "cotan")]
pub struct PyProfile(Profile);

fn counter<'py>(
    py: Python<'py>,
    counts: &[(cotan::prim::Prim, u64)],
) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    for (prim, n) in counts {
        dict.set_item(prim.name(), n)?;
    }
    py.import("collections")?.call_method1("Counter", (dict,))
}

#[pymethods]
impl PyProfile {
    #[new]
    fn new() -> PyProfile {
        PyProfile(Profile::default())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf.get().0.enter();
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        self.0.exit();
    }

    /// Equations that were computed, by primitive.
    #[getter]
    fn equations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        counter(py, &self.0.counts().equations)
    }

    /// Cotangents that nobody asked for, by primitive.
    #[getter]
    fn skipped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        counter(py, &self.0.counts().skipped)
    }

    /// How often the executor was entered.
    #[getter]
    fn runs(&self) -> u64 {
        self.0.counts().runs
    }

    /// Bytes that were copied.
    #[getter]
    fn bytes_copied(&self) -> u64 {
        self.0.counts().bytes_copied
    }
}

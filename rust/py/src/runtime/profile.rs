//! Counts and times what is computed inside a `with` block.

use cotan::sched::{Phase, Profile};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// What a thread computes while it is entered; `ct.profile` shows it.
#[pyclass(frozen, subclass, name = "Profile", module = "cotan._core")]
pub struct PyProfile(Profile);

/// A primitive, the place that it computed for (file, line, function), the primitive whose rule wrote it, seconds, and how
/// many equations.
type Row = (
    &'static str,
    Option<(String, u32, String)>,
    Option<&'static str>,
    f64,
    u64,
);

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
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.0.exit();
    }

    /// Equations that were computed, by primitive.
    #[getter]
    fn equations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        counter(py, &self.0.counts().equations)
    }

    /// Cotangents that nobody asked for, by the primitive that would have computed them.
    #[getter]
    fn skipped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        counter(py, &self.0.counts().skipped)
    }

    /// Equations of runs on a device that the processor computed, because the device has no kernel for them.
    #[getter]
    fn on_processor<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        counter(py, &self.0.counts().on_processor)
    }

    /// How often the executor was entered.
    #[getter]
    fn runs(&self) -> u64 {
        self.0.counts().runs
    }

    /// Bytes of ndarrays that were copied because somebody could have written to them later.
    #[getter]
    fn bytes_copied(&self) -> u64 {
        self.0.counts().bytes_copied
    }

    /// What was computed, by primitive and place.
    fn _rows(&self) -> Vec<Row> {
        let work = self.0.counts().work;
        (work.into_iter())
            .map(|((prim, site), work)| {
                let place = site.place();
                let rule = place.as_ref().and_then(|p| p.rule).map(|(prim, _)| prim);
                let place = place.map(|p| (p.file.to_string(), p.line, p.function.to_string()));
                (prim.name(), place, rule, work.seconds, work.equations)
            })
            .collect()
    }

    /// Seconds spent in writing derivatives, in planning and in running.
    fn _phases(&self) -> (f64, f64, f64) {
        let counts = self.0.counts();
        let [derive, plan, run] =
            [Phase::Derive, Phase::Plan, Phase::Run].map(|p| counts.seconds(p));
        (derive, plan, run)
    }
}

//! The linearised equations along the steps of a solver, for Python: NumPy arrays in and out.

use std::sync::Arc;

use cotan::kernels::collocation::{Collocation, Source, Steps};
use cotan::kernels::jacobians::Products;
use cotan::sparsity::{bandwidths, narrow_order};
use numpy::{
    PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::runtime::error::enter;
use crate::solvers::jacobians::{Calls, Derivatives, Matrices};
use crate::solvers::outputs::{columns, expect, is_within, outputs, rows};

type Vector<'py> = PyReadonlyArray1<'py, f64>;

/// The linearised equation along the steps of a run. All arrays that it takes are contiguous.
#[pyclass(frozen, name = "Collocation", module = "cotan._core")]
pub struct PyCollocation(Collocation);

#[pymethods]
impl PyCollocation {
    /// Takes the lengths of steps, how much slopes at stages count, derivatives at all stages, and, where they only are near
    /// to those of collocation, states and slopes there. Gives by how much a step of Newton's method moves these states, too.
    /// None where the factors of the systems are too many numbers, or where products are all there is and steps are too
    /// long for them.
    #[staticmethod]
    fn of<'py>(
        py: Python<'py>,
        lengths: Vector<'_>,
        a: PyReadonlyArray2<'_, f64>,
        derivatives: Derivatives,
        near: Option<(Vector<'_>, Vector<'_>)>,
    ) -> PyResult<Option<(PyCollocation, Bound<'py, PyArray1<f64>>)>> {
        let [stages, columns] = [a.shape()[0], a.shape()[1]];
        let given = derivatives.borrowed();
        let (n, count) = (given.n(), stages * lengths.len());
        expect(columns == stages && given.count() == count)?;
        let near = near.as_ref().map(|(known, slopes)| {
            let [known, slopes] = [known.as_slice()?, slopes.as_slice()?];
            expect(slopes.len() == count * n && known.len() == (count + lengths.len()) * n)?;
            PyResult::Ok([known, slopes])
        });
        let steps = Steps {
            lengths: lengths.as_slice()?,
            a: a.as_slice()?,
            near: near.transpose()?,
        };
        let made = match &derivatives {
            Derivatives::Known(matrices) => {
                let places = matrices.places()?;
                let products: Arc<dyn Products> = Arc::<Matrices>::clone(matrices);
                enter(py, |interrupted| {
                    let order = narrow_order(&places);
                    let source = Source::Matrices {
                        derivatives: matrices.borrowed(),
                        products: &products,
                        widths: bandwidths(&places, &order),
                        order: &order,
                    };
                    Collocation::new(steps, source, interrupted)
                })?
            }
            Derivatives::Computed(calls) => {
                let products: Arc<dyn Products> = Arc::<Calls>::clone(calls);
                let source = Source::Products(n, &products);
                enter(py, |interrupted| {
                    Collocation::new(steps, source, interrupted)
                })?
            }
        };
        Ok(made.map(|(steps, off)| (PyCollocation(steps), PyArray1::from_vec(py, off))))
    }

    /// How many steps there are.
    #[getter]
    fn num_steps(&self) -> usize {
        self.0.num_steps()
    }

    /// The steps with these numbers: of this run, and behind its last one of others with the same stages.
    fn joined(
        &self,
        others: &PyCollocation,
        numbers: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<PyCollocation> {
        let (numbers, count) = (
            numbers.as_slice()?,
            self.0.num_steps() + others.0.num_steps(),
        );
        expect(others.0.sizes() == self.0.sizes() && is_within(numbers, count))?;
        let numbers: Vec<usize> = numbers.iter().map(|&i| i as usize).collect();
        Ok(PyCollocation(self.0.joined(&others.0, &numbers)))
    }

    /// Changes of states for columns of changes of slopes and of the initial state.
    fn columns<'py>(
        &self,
        py: Python<'py>,
        steps: PyReadonlyArray1<'py, i64>,
        weights: PyReadonlyArray2<'py, f64>,
        slopes: PyReadonlyArray3<'py, f64>,
        start: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ([n, stages], num_steps) = (self.0.sizes(), self.0.num_steps());
        let outputs = outputs(&steps, &weights, num_steps, stages)?;
        let (slopes, start, count) = columns(&slopes, &start, num_steps * stages, n)?;
        let found = enter(py, |interrupted| {
            self.0.columns(outputs, slopes, start, count, interrupted)
        })?;
        let shape = [outputs.steps.len(), n, count];
        Ok(PyArray1::from_vec(py, found).reshape(shape)?.into_any())
    }

    /// Cotangents of slopes and initial state, for rows of cotangents of states.
    fn adjoint<'py>(
        &self,
        py: Python<'py>,
        steps: PyReadonlyArray1<'py, i64>,
        weights: PyReadonlyArray2<'py, f64>,
        cts: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [n, stages] = self.0.sizes();
        let outputs = outputs(&steps, &weights, self.0.num_steps(), stages)?;
        let (cts, rows) = rows(&cts, outputs, n)?;
        let found = enter(py, |interrupted| {
            self.0.adjoint(outputs, cts, rows, interrupted)
        })?;
        let shape = [rows, found.len() / rows.max(1)];
        Ok(PyArray1::from_vec(py, found).reshape(shape)?.into_any())
    }
}

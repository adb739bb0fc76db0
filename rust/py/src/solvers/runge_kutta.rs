//! The linearised equations along the steps of explicit methods, for Python: NumPy arrays in and out.

use cotan::kernels::runge_kutta::RungeKutta;
use numpy::{
    PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::runtime::error::enter;
use crate::solvers::jacobians::Derivatives;
use crate::solvers::outputs::{columns, expect, is_within, outputs, rows};

/// The linearised equation along the steps of an explicit run. All arrays that it takes are contiguous.
#[pyclass(frozen, name = "RungeKutta", module = "cotan._core")]
pub struct PyRungeKutta {
    stages: usize,
    stage_of_end: usize,
    lengths: Vec<f64>,
    a: Vec<f64>,
    points: Vec<i64>,
    derivatives: Derivatives,
}

impl PyRungeKutta {
    fn run(&self) -> RungeKutta<'_> {
        RungeKutta {
            lengths: &self.lengths,
            a: &self.a,
            b: &self.a[self.stage_of_end * self.stages..][..self.stages],
            points: &self.points,
            derivatives: self.derivatives.borrowed(),
        }
    }

    /// How many equations there are, and how many points.
    fn sizes(&self) -> [usize; 2] {
        let derivatives = self.derivatives.borrowed();
        [derivatives.n(), derivatives.count()]
    }
}

#[pymethods]
impl PyRungeKutta {
    /// Takes the lengths of steps, how much slopes count at stages, of which `stage_of_end` is the one at the end of a step,
    /// the numbers of the points of each step's stages, and derivatives at all points.
    #[new]
    fn new(
        lengths: PyReadonlyArray1<'_, f64>,
        a: PyReadonlyArray2<'_, f64>,
        stage_of_end: usize,
        points: PyReadonlyArray2<'_, i64>,
        derivatives: Derivatives,
    ) -> PyResult<PyRungeKutta> {
        let (stages, num_points) = (a.shape()[0], derivatives.borrowed().count());
        expect(
            a.shape()[1] == stages
                && stage_of_end < stages
                && points.shape() == [lengths.len(), stages]
                && is_within(points.as_slice()?, num_points),
        )?;
        Ok(PyRungeKutta {
            stages,
            stage_of_end,
            lengths: lengths.to_vec()?,
            a: a.to_vec()?,
            points: points.to_vec()?,
            derivatives,
        })
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
        let [n, num_points] = self.sizes();
        let outputs = outputs(&steps, &weights, self.lengths.len(), self.stages)?;
        let (slopes, start, count) = columns(&slopes, &start, num_points, n)?;
        let found = enter(py, |_| self.run().columns(outputs, slopes, start, count))?;
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
        let [n, num_points] = self.sizes();
        let outputs = outputs(&steps, &weights, self.lengths.len(), self.stages)?;
        let (cts, rows) = rows(&cts, outputs, n)?;
        let found = enter(py, |_| self.run().adjoint(outputs, cts, rows))?;
        let shape = [rows, (num_points + 1) * n];
        Ok(PyArray1::from_vec(py, found).reshape(shape)?.into_any())
    }
}

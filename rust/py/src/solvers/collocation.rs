//! The linearised equations along the steps of a solver, for Python: NumPy arrays in and out.

use cotan::kernels::collocation::{Collocation, Outputs};
use cotan::kernels::dense;
use cotan::sparsity::{bandwidths, narrow_order};
use numpy::{
    PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::runtime::error::enter;
use crate::runtime::exports::exports;
use crate::solvers::jacobians::{Indices, Matrices};

exports!(regular_inverse);

type Vector<'py> = PyReadonlyArray1<'py, f64>;

/// The linearised equation along the steps of a run. All arrays that it takes are contiguous.
#[pyclass(frozen, name = "Collocation", module = "cotan._core")]
pub struct PyCollocation(Collocation);

impl PyCollocation {
    fn outputs<'a>(
        &self,
        steps: &'a PyReadonlyArray1<'_, i64>,
        weights: &'a PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Outputs<'a>> {
        let (steps, end) = (steps.as_slice()?, self.0.num_steps() as i64);
        let fits = weights.shape() == [steps.len(), self.0.sizes()[1]];
        if !fits || !steps.iter().all(|step| (0..end).contains(step)) {
            return Err(misfit());
        }
        Ok(Outputs {
            steps,
            weights: weights.as_slice()?,
        })
    }
}

fn misfit() -> PyErr {
    PyValueError::new_err(
        "Collocation: shapes do not match, or the number of a step is out of range",
    )
}

#[pymethods]
impl PyCollocation {
    /// Takes the lengths of steps, how much slopes at stages count, and derivatives at all stages, of `n` equations: all of
    /// them, or the entries of a pattern. None where the factors of the systems are too many numbers.
    #[staticmethod]
    #[pyo3(signature = (lengths, a, n, derivatives, pattern))]
    fn of(
        py: Python<'_>,
        lengths: Vector<'_>,
        a: PyReadonlyArray2<'_, f64>,
        n: usize,
        derivatives: PyReadonlyArrayDyn<'_, f64>,
        pattern: Option<Indices<'_>>,
    ) -> PyResult<Option<PyCollocation>> {
        let [stages, columns] = [a.shape()[0], a.shape()[1]];
        let matrices = Matrices::new(n, &derivatives, pattern)?;
        if columns != stages || matrices.borrowed().count != stages * lengths.len() {
            return Err(misfit());
        }
        let places = matrices.places()?;
        let (lengths, a) = (lengths.as_slice()?, a.as_slice()?);
        let made = enter(py, |interrupted| {
            let order = narrow_order(&places);
            let order = (order.as_slice(), bandwidths(&places, &order));
            Collocation::new(lengths, a, matrices.borrowed(), order, interrupted)
        })?;
        Ok(made.map(PyCollocation))
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
        if others.0.sizes() != self.0.sizes() {
            return Err(misfit());
        }
        let count = self.0.num_steps() + others.0.num_steps();
        let numbers: Option<Vec<usize>> = (numbers.as_slice()?.iter())
            .map(|&i| usize::try_from(i).ok().filter(|&i| i < count))
            .collect();
        let numbers = numbers.ok_or_else(misfit)?;
        Ok(PyCollocation(self.0.joined(&others.0, &numbers)))
    }

    /// A step of Newton's method for the states at the stages, from known states and slopes.
    fn off<'py>(
        &self,
        py: Python<'py>,
        known: Vector<'py>,
        slopes: Vector<'py>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (known, slopes) = (known.as_slice()?, slopes.as_slice()?);
        let ([n, stages], steps) = (self.0.sizes(), self.0.num_steps());
        if slopes.len() != steps * stages * n || known.len() != slopes.len() + steps * n {
            return Err(misfit());
        }
        let found = enter(py, |_| Ok(self.0.off(known, slopes)))?;
        Ok(PyArray1::from_vec(py, found))
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
        let (outputs, count) = (self.outputs(&steps, &weights)?, start.shape()[1]);
        let ([n, stages], points) = (self.0.sizes(), slopes.shape()[0]);
        let fits = points == self.0.num_steps() * stages && slopes.shape()[1..] == [n, count];
        if !fits || start.shape()[0] != n {
            return Err(misfit());
        }
        let (slopes, start) = (slopes.as_slice()?, start.as_slice()?);
        let found = enter(py, |_| Ok(self.0.columns(outputs, slopes, start, count)))?;
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
        let (outputs, rows) = (self.outputs(&steps, &weights)?, cts.shape()[0]);
        if cts.shape()[1] != outputs.steps.len() * self.0.sizes()[0] {
            return Err(misfit());
        }
        let cts = cts.as_slice()?;
        let found = enter(py, |_| Ok(self.0.adjoint(outputs, cts, rows)))?;
        let shape = [rows, found.len() / rows.max(1)];
        Ok(PyArray1::from_vec(py, found).reshape(shape)?.into_any())
    }
}

/// The inverse of a matrix that is far from a singular one, whose condition is below `most`; None of another one.
#[pyfunction]
#[pyo3(signature = (matrix: "NDArray", most: "float") -> "NDArray | None")]
pub fn regular_inverse<'py>(
    py: Python<'py>,
    matrix: PyReadonlyArray2<'py, f64>,
    most: f64,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let order = matrix.as_array().nrows();
    let elements = matrix.as_slice()?;
    let found = enter(py, |_| Ok(dense::regular_inverse(order, elements, most)))?;
    let found = found.map(|found| PyArray1::from_vec(py, found).reshape([order, order]));
    Ok(found.transpose()?.map(Bound::into_any))
}

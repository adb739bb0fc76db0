//! The stages of a step of an explicit Runge-Kutta method: SciPy's operations on SciPy's numbers, in its order.
//!
//! Sums of slopes are NumPy's products of a matrix and a vector, whose last bit depends on the library and the processor;
//! everything else is rounded as it is by anybody.

use numpy::{PyArray1, PyArrayMethods, PyUntypedArray};
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::ndarray::export::to_float64;
use crate::ndarray::vectors::{Row, row, write};
use crate::runtime::once_cell::intern;
use crate::solvers::noted_calls::PyNotedCalls;

type Vector<'py> = Bound<'py, PyUntypedArray>;

/// Takes the stages of steps, with a right side whose calls are noted.
#[pyclass(frozen, name = "RungeKuttaStages", module = "cotan._core")]
pub struct PyStages {
    calls: Py<PyNotedCalls>,
    /// What the right side takes behind time and state.
    more: Py<PyTuple>,
    /// A row for each stage, and one for the end.
    slopes: Py<PyUntypedArray>,
    /// Where in the step a stage lies, the slopes before it as columns, and how much they count.
    sums: Vec<Sum>,
    /// The same for the end, and for the estimate of its error.
    end: Sum,
    error: Option<Sum>,
    relative: Vec<f64>,
    absolute: Vec<f64>,
}

/// A part of a step, columns, and weights.
type Sum = (f64, Py<PyAny>, Py<PyAny>);

/// The numbers of a vector.
fn numbers(vector: &Vector<'_>) -> PyResult<Row> {
    row(vector).ok_or_else(not_float64)
}

/// Writes numbers to an array from this position on.
fn put(array: &Vector<'_>, from: usize, numbers: &[f64]) -> PyResult<()> {
    write(array, from, numbers)
        .then_some(())
        .ok_or_else(not_float64)
}

fn not_float64() -> PyErr {
    PyTypeError::new_err("states and slopes are contiguous arrays of float64")
}

impl PyStages {
    /// A weighted sum of slopes: a new array.
    fn sum<'py>(py: Python<'py>, sum: &Sum) -> PyResult<(Vector<'py>, Row)> {
        let found = (sum.1.bind(py)).call_method1(intern!(py, "dot"), (&sum.2,))?;
        let found: Vector<'py> = found.cast_into()?;
        let numbers = numbers(&found)?;
        Ok((found, numbers))
    }

    /// The state that far along a step.
    fn state<'py>(
        py: Python<'py>,
        sum: &Sum,
        h: f64,
        y: &[f64],
    ) -> PyResult<(Vector<'py>, Row)> {
        let (state, mut numbers) = Self::sum(py, sum)?;
        for (number, y) in numbers.iter_mut().zip(y) {
            *number = *y + *number * h;
        }
        put(&state, 0, &numbers)?;
        Ok((state, numbers))
    }

    fn set_slope(&self, py: Python<'_>, stage: usize, slope: &[f64]) -> PyResult<()> {
        put(self.slopes.bind(py), stage * slope.len(), slope)
    }

    /// Calls the right side.
    fn slope(&self, py: Python<'_>, t: f64, state: &Vector<'_>) -> PyResult<Row> {
        let more = self.more.bind(py);
        let (t, state) = (to_float64(py, t)?, state.as_any());
        let args = if more.is_empty() {
            PyTuple::new(py, [&t, state])?
        } else {
            let more = more.iter();
            let all: Vec<_> = [t, state.clone()].into_iter().chain(more).collect();
            PyTuple::new(py, all)?
        };
        let calls = self.calls.get();
        let slope = calls.call(&args)?.row;
        slope.ok_or_else(|| calls.refuse(py, None))
    }

    /// The norm of the error, in tolerances.
    fn norm(&self, py: Python<'_>, sum: &Sum, h: f64, y: &[f64], end: &[f64]) -> PyResult<f64> {
        let (error, mut numbers) = Self::sum(py, sum)?;
        let of = |all: &[f64], i: usize| all[if all.len() == 1 { 0 } else { i }];
        for (i, number) in numbers.iter_mut().enumerate() {
            let (a, b) = (y[i].abs(), end[i].abs());
            // As NumPy's maximum, which hands on what is no number.
            let size = if a.is_nan() || a >= b { a } else { b };
            let scale = of(&self.absolute, i) + size * of(&self.relative, i);
            *number = *number * h / scale;
        }
        put(&error, 0, &numbers)?;
        let square = error.call_method1(intern!(py, "dot"), (&error,))?;
        Ok(square.extract::<f64>()?.sqrt() / (y.len() as f64).sqrt())
    }
}

#[pymethods]
impl PyStages {
    #[new]
    #[pyo3(signature = (calls, more, slopes, sums, end, error, relative, absolute))]
    fn new(
        calls: Py<PyNotedCalls>,
        more: Py<PyTuple>,
        slopes: Py<PyUntypedArray>,
        sums: Vec<Sum>,
        end: Sum,
        error: Option<Sum>,
        relative: Vec<f64>,
        absolute: Vec<f64>,
    ) -> PyStages {
        PyStages {
            calls,
            more,
            slopes,
            sums,
            end,
            error,
            relative,
            absolute,
        }
    }

    /// Takes a step of length `h`; gives the state at its end, the slope there, and the norm of the error, which is no number
    /// where nothing was said of it.
    fn attempt<'py>(
        &self,
        t: f64,
        h: f64,
        y: &Vector<'py>,
        slope: &Bound<'py, PyAny>,
    ) -> PyResult<(Vector<'py>, Vector<'py>, f64)> {
        let py = y.py();
        let y = numbers(y)?;
        let slope = match row(slope) {
            Some(slope) if slope.len() == y.len() => slope,
            // A number for all states.
            Some(slope) if slope.len() == 1 => Row::from_elem(slope[0], y.len()),
            _ => Row::from_elem(slope.extract()?, y.len()),
        };
        self.set_slope(py, 0, &slope)?;
        for (i, sum) in self.sums.iter().enumerate() {
            let (state, _) = Self::state(py, sum, h, &y)?;
            let slope = self.slope(py, t + sum.0 * h, &state)?;
            self.set_slope(py, i + 1, &slope)?;
        }
        let (last, end) = Self::state(py, &self.end, h, &y)?;
        let slope = self.slope(py, t + h, &last)?;
        self.set_slope(py, self.sums.len() + 1, &slope)?;
        let norm = match &self.error {
            Some(sum) => self.norm(py, sum, h, &y, &end)?,
            None => f64::NAN,
        };
        let slope = PyArray1::from_slice(py, &slope);
        Ok((last, slope.as_untyped().clone(), norm))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.calls)?;
        visit.call(&self.more)?;
        visit.call(&self.slopes)?;
        for sum in self.sums.iter().chain([&self.end]).chain(&self.error) {
            visit.call(&sum.1)?;
            visit.call(&sum.2)?;
        }
        Ok(())
    }
}

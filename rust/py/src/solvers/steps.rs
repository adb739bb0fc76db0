//! Takes the steps of explicit Runge-Kutta methods, which in Python cost several times what the right side does: SciPy's
//! operations on SciPy's numbers, in its order.
//!
//! Sums of slopes are NumPy's products of a matrix and a vector, whose last bit depends on the library and the processor;
//! everything else is rounded as it is by anybody.

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::ndarray::export::to_float64;
use crate::ndarray::vectors::{Row, row, write};
use crate::runtime::once_cell::intern;
use crate::solvers::noted_calls::PyNotedCalls;

type Vector<'py> = Bound<'py, PyUntypedArray>;

/// Factors of step sizes, as SciPy has them.
const SAFETY: f64 = 0.9;
const LEAST: f64 = 0.2;
const MOST: f64 = 10.0;

/// Takes steps, with a right side whose calls are noted.
#[pyclass(frozen, name = "RungeKuttaSteps", module = "cotan._core")]
pub struct PySteps {
    calls: Py<PyNotedCalls>,
    /// What the right side takes behind time and state.
    more: Py<PyTuple>,
    /// A row for each stage, and one for the end.
    slopes: Py<PyUntypedArray>,
    /// Where in the step a stage lies, the slopes before it as columns, and how much they count.
    sums: Vec<Sum>,
    /// The same for the end.
    end: Sum,
    error: ErrorNorm,
    /// The slopes as columns, what makes coefficients of them, and how many these are, where states in a step are a polynomial.
    polynomial: Option<(Py<PyAny>, Py<PyAny>, usize)>,
    /// The power of the norm of the error that step sizes are multiplied by.
    exponent: f64,
    relative: Vec<f64>,
    absolute: Vec<f64>,
}

/// How the norm of the error of a step is estimated.
#[derive(FromPyObject)]
enum ErrorNorm {
    /// By one sum of slopes.
    Sum(Sum),
    /// By SciPy, from the slopes, the length of the step, and the scale.
    Estimate(Py<PyAny>),
}

/// Where a run is: time, state and slope, and the length of the last step and of the next one.
type Place<'py> = (
    Bound<'py, PyAny>,
    Vector<'py>,
    Vector<'py>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
);

/// Where a step begins and ends, and how many calls are noted before and after it.
type Noted = (f64, f64, usize, usize);

/// A walk: how many steps were tried, the accepted ones, the states that were asked for, where it has come to, None where that
/// is nowhere, and whether it has ended since a step became too small.
type Walk<'py> = (
    usize,
    Vec<Noted>,
    Vec<Vector<'py>>,
    Option<Place<'py>>,
    bool,
);

/// Which way a run goes.
struct Course {
    direction: f64,
    bound: f64,
    longest: f64,
}

/// A step that was accepted.
struct Taken<'py> {
    end: f64,
    state: Vector<'py>,
    numbers: Row,
    slope: Row,
    h: f64,
    /// The length of the next step.
    next: f64,
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

fn expect_length(what: &str, length: usize, expected: usize) -> PyResult<()> {
    if length == expected {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "{what} has {length} elements, and the state {expected}"
    )))
}

impl PySteps {
    /// A weighted sum of slopes: a new array.
    fn sum<'py>(py: Python<'py>, sum: &Sum) -> PyResult<(Vector<'py>, Row)> {
        let found = (sum.1.bind(py)).call_method1(intern!(py, "dot"), (&sum.2,))?;
        let found: Vector<'py> = found.cast_into()?;
        let numbers = numbers(&found)?;
        Ok((found, numbers))
    }

    /// The state that far along a step.
    fn state<'py>(py: Python<'py>, sum: &Sum, h: f64, y: &[f64]) -> PyResult<(Vector<'py>, Row)> {
        let (state, mut numbers) = Self::sum(py, sum)?;
        expect_length("the sum of slopes", numbers.len(), y.len())?;
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
    fn norm(&self, py: Python<'_>, h: f64, y: &[f64], end: &[f64]) -> PyResult<f64> {
        let of = |all: &[f64], i: usize| all[if all.len() == 1 { 0 } else { i }];
        let scale = |i: usize| {
            let (a, b) = (y[i].abs(), end[i].abs());
            // As NumPy's maximum, which hands on what is no number.
            let size = if a.is_nan() || a >= b { a } else { b };
            of(&self.absolute, i) + size * of(&self.relative, i)
        };
        let sum = match &self.error {
            ErrorNorm::Sum(sum) => sum,
            ErrorNorm::Estimate(estimate) => {
                let scale = (0..y.len()).map(scale);
                let args = (&self.slopes, h, PyArray1::from_iter(py, scale));
                return estimate.bind(py).call1(args)?.extract();
            }
        };
        let (error, mut numbers) = Self::sum(py, sum)?;
        expect_length("the estimate of the error", numbers.len(), y.len())?;
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = *number * h / scale(i);
        }
        put(&error, 0, &numbers)?;
        let square = error.call_method1(intern!(py, "dot"), (&error,))?;
        Ok(square.extract::<f64>()?.sqrt() / (y.len() as f64).sqrt())
    }

    /// Tries a step of length `h`; gives the state at its end, the slope there, and the norm of the error. The slope where it
    /// begins is set.
    fn attempt<'py>(
        &self,
        py: Python<'py>,
        t: f64,
        h: f64,
        y: &[f64],
    ) -> PyResult<(Vector<'py>, Row, Row, f64)> {
        for (i, sum) in self.sums.iter().enumerate() {
            let (state, _) = Self::state(py, sum, h, y)?;
            let slope = self.slope(py, t + sum.0 * h, &state)?;
            self.set_slope(py, i + 1, &slope)?;
        }
        let (last, end) = Self::state(py, &self.end, h, y)?;
        let slope = self.slope(py, t + h, &last)?;
        self.set_slope(py, self.sums.len() + 1, &slope)?;
        let norm = self.norm(py, h, y, &end)?;
        Ok((last, end, slope, norm))
    }

    /// Takes a step of this length or less; gives how often that was tried, and what was accepted, None where the step has
    /// become too small.
    fn step<'py>(
        &self,
        py: Python<'py>,
        course: &Course,
        t: f64,
        length: f64,
        y: &[f64],
        slope: &[f64],
    ) -> PyResult<(usize, Option<Taken<'py>>)> {
        self.set_slope(py, 0, slope)?;
        let next = if course.direction > 0.0 {
            t.next_up()
        } else {
            t.next_down()
        };
        let shortest = 10.0 * (next - t).abs();
        let mut length = if length > course.longest {
            course.longest
        } else if length < shortest {
            shortest
        } else {
            length
        };
        let mut tried = 0;
        while length >= shortest || length.is_nan() {
            tried += 1;
            let mut end = t + length * course.direction;
            if course.direction * (end - course.bound) > 0.0 {
                end = course.bound;
            }
            let h = end - t;
            length = h.abs();
            let (state, numbers, slope, norm) = self.attempt(py, t, h, y)?;
            if norm < 1.0 {
                let mut factor = MOST;
                if norm != 0.0 {
                    factor = factor.min(SAFETY * norm.powf(self.exponent));
                }
                if tried > 1 {
                    factor = factor.min(1.0);
                }
                let next = length * factor;
                let taken = Taken {
                    end,
                    state,
                    numbers,
                    slope,
                    h,
                    next,
                };
                return Ok((tried, Some(taken)));
            }
            length *= LEAST.max(SAFETY * norm.powf(self.exponent));
        }
        Ok((tried, None))
    }

    /// States at times within the last step, of shape (n, times): by the method's polynomial.
    fn inside<'py>(
        &self,
        py: Python<'py>,
        times: &[f64],
        begin: f64,
        h: f64,
        y: &[f64],
    ) -> PyResult<Vector<'py>> {
        let Some((columns, weights, num_powers)) = &self.polynomial else {
            return Err(PyTypeError::new_err("this method has no polynomial"));
        };
        let dot = intern!(py, "dot");
        let coefficients = columns.bind(py).call_method1(dot, (weights,))?;
        let parts = times.iter().map(|t| (t - begin) / h);
        let mut powers: Vec<f64> = parts.clone().collect();
        for _ in 1..*num_powers {
            let last = powers.len() - times.len();
            let next = (powers[last..].iter().zip(parts.clone())).map(|(power, x)| power * x);
            powers.extend(next.collect::<Row>());
        }
        let powers = PyArray1::from_vec(py, powers).reshape([*num_powers, times.len()])?;
        let found = coefficients.call_method1(dot, (powers,))?;
        let found: Bound<'py, PyArray2<f64>> = found.cast_into()?;
        let mut numbers = found.to_vec()?;
        expect_length("the polynomial", found.shape()[0], y.len())?;
        for (row, y) in numbers.chunks_exact_mut(times.len()).zip(y) {
            for number in row {
                *number = *number * h + *y;
            }
        }
        put(found.as_untyped(), 0, &numbers)?;
        Ok(found.as_untyped().clone())
    }
}

#[pymethods]
impl PySteps {
    #[new]
    #[pyo3(signature = (calls, more, slopes, sums, end, error, polynomial, exponent, relative, absolute))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        calls: Py<PyNotedCalls>,
        more: Py<PyTuple>,
        slopes: Py<PyUntypedArray>,
        sums: Vec<Sum>,
        end: Sum,
        error: ErrorNorm,
        polynomial: Option<(Py<PyAny>, Py<PyAny>, usize)>,
        exponent: f64,
        relative: Vec<f64>,
        absolute: Vec<f64>,
    ) -> PySteps {
        PySteps {
            calls,
            more,
            slopes,
            sums,
            end,
            error,
            polynomial,
            exponent,
            relative,
            absolute,
        }
    }

    /// Takes steps from `t`, the first one of this length or less, in a direction, up to `bound` or to the number of steps that
    /// is given. It gives the states at `times`, which have the order of the steps; without them those at the ends of steps.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (t, length, direction, bound, longest, y, slope, most, times))]
    fn walk<'py>(
        &self,
        mut t: f64,
        mut length: f64,
        direction: f64,
        bound: f64,
        longest: f64,
        y: &Vector<'py>,
        slope: &Bound<'py, PyAny>,
        most: usize,
        times: Option<&Vector<'py>>,
    ) -> PyResult<Walk<'py>> {
        let py = y.py();
        let mut y = numbers(y)?;
        for tolerances in [&self.relative, &self.absolute] {
            if tolerances.len() != 1 {
                expect_length("a tolerance", tolerances.len(), y.len())?;
            }
        }
        let mut slope = match row(slope) {
            Some(slope) if slope.len() == y.len() => slope,
            // A number for all states.
            Some(slope) if slope.len() == 1 => Row::from_elem(slope[0], y.len()),
            _ => Row::from_elem(slope.extract()?, y.len()),
        };
        let times = times.map(numbers).transpose()?;
        let course = Course {
            direction,
            bound,
            longest,
        };
        let calls = self.calls.get();
        let (mut tried, mut asked) = (0, 0);
        let (mut noted, mut states) = (Vec::new(), Vec::new());
        let (mut place, mut has_failed) = (None, false);
        while noted.len() < most {
            let before = calls.count();
            let (attempts, taken) = self.step(py, &course, t, length, &y, &slope)?;
            tried += attempts;
            let Some(taken) = taken else {
                has_failed = true;
                break;
            };
            noted.push((t, taken.end, before, calls.count()));
            if let Some(times) = &times {
                let reached = |at: &&f64| direction * (**at - taken.end) <= 0.0;
                let count = times[asked..].iter().take_while(reached).count();
                if count > 0 {
                    let at = &times[asked..asked + count];
                    states.push(self.inside(py, at, t, taken.h, &y)?);
                    asked += count;
                }
            } else {
                states.push(taken.state.clone());
            }
            (t, length, y) = (taken.end, taken.next, taken.numbers);
            slope = taken.slope;
            place = Some((taken.state, taken.h));
            if direction * (t - bound) >= 0.0 {
                break;
            }
            // A right side that is compiled never asks for signals.
            py.check_signals()?;
        }
        let Some((state, h)) = place else {
            return Ok((tried, noted, states, None, has_failed));
        };
        let slope = PyArray1::from_slice(py, &slope).as_untyped().clone();
        let number = |x: f64| to_float64(py, x);
        let place = (number(t)?, state, slope, number(h)?, number(length)?);
        Ok((tried, noted, states, Some(place), has_failed))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.calls)?;
        visit.call(&self.more)?;
        visit.call(&self.slopes)?;
        let error = match &self.error {
            ErrorNorm::Sum(sum) => Some(sum),
            ErrorNorm::Estimate(estimate) => {
                visit.call(estimate)?;
                None
            }
        };
        for sum in self.sums.iter().chain([&self.end]).chain(error) {
            visit.call(&sum.1)?;
            visit.call(&sum.2)?;
        }
        if let Some((columns, weights, _)) = &self.polynomial {
            visit.call(columns)?;
            visit.call(weights)?;
        }
        Ok(())
    }
}

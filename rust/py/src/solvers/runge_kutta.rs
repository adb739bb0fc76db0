//! The linearised equations along the steps of explicit methods, for Python: NumPy arrays in and out.

use cotan::kernels::collocation::Outputs;
use cotan::kernels::runge_kutta::RungeKutta;
use numpy::{
    PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::runtime::error::enter;
use crate::runtime::exports::exports;

exports!(runge_kutta_columns);

/// Changes of states along the steps of an explicit method, for columns of changes of slopes and of the initial state.
///
/// All arrays are contiguous. `points` has the numbers of the points of each step's stages, of which `stage_of_end` is the
/// one at its end.
#[pyfunction]
#[pyo3(signature = (
    lengths: "NDArray", a: "NDArray", stage_of_end: "int", points: "NDArray", derivatives: "NDArray", steps: "NDArray",
    weights: "NDArray", slopes: "NDArray", start: "NDArray",
) -> "NDArray")]
#[allow(clippy::too_many_arguments)]
pub fn runge_kutta_columns<'py>(
    py: Python<'py>,
    lengths: PyReadonlyArray1<'py, f64>,
    a: PyReadonlyArray2<'py, f64>,
    stage_of_end: usize,
    points: PyReadonlyArray2<'py, i64>,
    derivatives: PyReadonlyArray3<'py, f64>,
    steps: PyReadonlyArray1<'py, i64>,
    weights: PyReadonlyArray2<'py, f64>,
    slopes: PyReadonlyArray3<'py, f64>,
    start: PyReadonlyArray2<'py, f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let [n, count] = [start.shape()[0], start.shape()[1]];
    let (num_points, num_steps) = (derivatives.shape()[0], lengths.len());
    let is_within =
        |numbers: &[i64], end: usize| numbers.iter().all(|x| (0..end as i64).contains(x));
    let (points, steps, a) = (points.as_slice()?, steps.as_slice()?, a.as_slice()?);
    let stages = weights.shape()[1];
    let fits = a.len() == stages * stages
        && points.len() == num_steps * stages
        && derivatives.shape()[1..] == [n, n]
        && slopes.shape() == [num_points, n, count]
        && weights.shape()[0] == steps.len()
        && stage_of_end < stages
        && is_within(points, num_points)
        && is_within(steps, num_steps);
    if !fits {
        return Err(PyValueError::new_err(
            "runge_kutta_columns: shapes do not match, or a number of a point or step is out of range",
        ));
    }
    let run = RungeKutta {
        n,
        lengths: lengths.as_slice()?,
        a,
        b: &a[stage_of_end * stages..][..stages],
        points,
        derivatives: derivatives.as_slice()?,
    };
    let outputs = Outputs {
        steps,
        weights: weights.as_slice()?,
    };
    let (slopes, start) = (slopes.as_slice()?, start.as_slice()?);
    let found = enter(py, |_| Ok(run.columns(outputs, slopes, start, count)))?;
    let shape = [steps.len(), n, count];
    Ok(PyArray1::from_vec(py, found).reshape(shape)?.into_any())
}

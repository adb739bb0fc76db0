//! What Python asks of the linearised equations along steps: checked, since numbers of steps are places in memory.

use cotan::kernels::collocation::Outputs;
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Raises where arrays do not fit to each other.
pub fn expect(fits: bool) -> PyResult<()> {
    fits.then_some(()).ok_or_else(|| {
        PyValueError::new_err("steps: shapes do not match, or a number is out of range")
    })
}

/// Whether numbers count something of which there is that much.
pub fn is_within(numbers: &[i64], end: usize) -> bool {
    numbers.iter().all(|x| (0..end as i64).contains(x))
}

/// States that are wanted, of so many steps of so many stages.
pub fn outputs<'a>(
    steps: &'a PyReadonlyArray1<'_, i64>,
    weights: &'a PyReadonlyArray2<'_, f64>,
    num_steps: usize,
    stages: usize,
) -> PyResult<Outputs<'a>> {
    let steps = steps.as_slice()?;
    expect(weights.shape() == [steps.len(), stages] && is_within(steps, num_steps))?;
    Ok(Outputs {
        steps,
        weights: weights.as_slice()?,
    })
}

/// Columns of changes of slopes, at so many points, and of the initial state, of `n` equations; and how many these are.
pub fn columns<'a>(
    slopes: &'a PyReadonlyArray3<'_, f64>,
    start: &'a PyReadonlyArray2<'_, f64>,
    num_points: usize,
    n: usize,
) -> PyResult<(&'a [f64], &'a [f64], usize)> {
    let count = start.shape()[1];
    expect(start.shape()[0] == n && slopes.shape() == [num_points, n, count])?;
    Ok((slopes.as_slice()?, start.as_slice()?, count))
}

/// Rows of cotangents of outputs of `n` equations, and how many these are.
pub fn rows<'a>(
    cts: &'a PyReadonlyArray2<'_, f64>,
    outputs: Outputs<'_>,
    n: usize,
) -> PyResult<(&'a [f64], usize)> {
    expect(cts.shape()[1] == outputs.steps.len() * n)?;
    Ok((cts.as_slice()?, cts.shape()[0]))
}

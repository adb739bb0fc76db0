//! Patterns of programs and colorings of patterns, for sparse Jacobians: index arrays as SciPy has them.

use cotan::kernels::Value;
use cotan::sparsity;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::array::escapes::force;
use crate::ndarray::pattern::pattern;
use crate::program::pyclass::PyProgram;
use crate::runtime::error::enter;
use crate::runtime::exports::exports;

exports!(dependence, color_columns, color_both);

/// An array of numbers of rows or columns, or of colors.
type Indices<'py> = Bound<'py, PyArray1<i32>>;

/// Which elements of the outputs of a program depend on which elements of the marked inputs: where rows
/// begin, and the columns of all rows, as in a CSR array. Values bound to the program count where they are
/// indices.
#[pyfunction]
#[pyo3(signature = (program: "Program", marked: "list[bool]") -> "tuple[NDArray, NDArray]")]
pub fn dependence<'py>(
    py: Python<'py>,
    program: &PyProgram,
    mut marked: Vec<bool>,
) -> PyResult<(Indices<'py>, Indices<'py>)> {
    let core = program.core();
    marked.resize(core.num_inputs(), false);
    let mut known: Vec<Option<Value>> = vec![None; program.free()];
    for constant in program.constants() {
        known.push(Some(force(py, constant)?));
    }
    let pattern = enter(py, |_| sparsity::dependence(core, &marked, &known))?;
    Ok((
        indices(py, pattern.starts().iter().map(|&start| start as i32)),
        indices(py, pattern.indices().iter().map(|&column| column as i32)),
    ))
}

/// A color for each column of a pattern: columns of one color share no row; a star coloring where only one of two
/// entries of a symmetric pattern has to be found.
#[pyfunction]
#[pyo3(signature = (columns: "int", starts: "NDArray", indices: "NDArray", symmetric: "bool" = false) -> "NDArray")]
pub fn color_columns<'py>(
    py: Python<'py>,
    columns: usize,
    starts: PyReadonlyArray1<'py, i32>,
    indices: PyReadonlyArray1<'py, i32>,
    symmetric: bool,
) -> PyResult<Indices<'py>> {
    let pattern = pattern(columns, &starts, &indices)?;
    let color = if symmetric {
        sparsity::color_symmetric
    } else {
        sparsity::color_columns
    };
    let colors = enter(py, |_| color(&pattern))?;
    Ok(colors_of(py, &colors))
}

/// Colors for rows and for columns of a pattern, -1 for none: rows that have one are read off products from
/// the left, the others off products from the right.
#[pyfunction]
#[pyo3(signature = (columns: "int", starts: "NDArray", indices: "NDArray") -> "tuple[NDArray, NDArray]")]
pub fn color_both<'py>(
    py: Python<'py>,
    columns: usize,
    starts: PyReadonlyArray1<'py, i32>,
    indices: PyReadonlyArray1<'py, i32>,
) -> PyResult<(Indices<'py>, Indices<'py>)> {
    let pattern = pattern(columns, &starts, &indices)?;
    let (rows, columns) = enter(py, |_| sparsity::color_both(&pattern))?;
    Ok((colors_of(py, &rows), colors_of(py, &columns)))
}

fn indices(py: Python<'_>, numbers: impl Iterator<Item = i32>) -> Indices<'_> {
    PyArray1::from_vec(py, numbers.collect())
}

/// A color that there is not is -1.
fn colors_of<'py>(py: Python<'py>, colors: &[u32]) -> Indices<'py> {
    indices(
        py,
        colors
            .iter()
            .map(|&color| i32::try_from(color).unwrap_or(-1)),
    )
}

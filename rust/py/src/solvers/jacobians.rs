//! Derivatives of a right side at the points of a run, as Python gives them.

use cotan::kernels::jacobians::Jacobians;
use cotan::sparsity::Pattern;
use numpy::{PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::program::sparsity::pattern;

/// Where rows begin, and the columns of all rows, as in a CSR array.
pub type Indices<'py> = (PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i32>);

/// The entries of matrices: of all rows and columns, or those of a pattern.
pub struct Entries {
    count: usize,
    n: usize,
    pattern: Option<Pattern>,
    values: Vec<f64>,
}

impl Entries {
    /// Takes the order of the matrices, an array whose first axis is that of the points, and the pattern, if there is one.
    pub fn new(
        n: usize,
        values: &PyReadonlyArrayDyn<'_, f64>,
        indices: Option<Indices<'_>>,
    ) -> PyResult<Entries> {
        let pattern = indices
            .map(|(starts, columns)| pattern(n, &starts, &columns))
            .transpose()?;
        let made = Entries {
            count: values.shape().first().copied().unwrap_or(0),
            n,
            pattern,
            values: values.as_slice()?.to_vec(),
        };
        let given: usize = values.shape().iter().skip(1).product();
        let is_square = made.pattern.as_ref().is_none_or(|p| p.num_rows() == n);
        if given != made.borrowed().size() || !is_square {
            return Err(PyValueError::new_err(
                "derivatives of a right side: the shape does not fit the pattern",
            ));
        }
        Ok(made)
    }

    /// As the core takes them.
    pub fn borrowed(&self) -> Jacobians<'_> {
        Jacobians {
            count: self.count,
            n: self.n,
            pattern: self.pattern.as_ref(),
            values: &self.values,
        }
    }
}

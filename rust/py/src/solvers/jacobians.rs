//! Derivatives of a right side at the points of a run, as Python gives them.

use cotan::kernels::jacobians::{Entries, Jacobians};
use cotan::sparsity::Pattern;
use numpy::{PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ndarray::pattern::pattern;
use crate::runtime::error::OrRaise;

/// Where rows begin, and the columns of all rows, as in a CSR array.
pub type Indices<'py> = (PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i32>);

/// Matrices with all entries, or those of a pattern.
pub struct Matrices {
    count: usize,
    n: usize,
    pattern: Option<Pattern>,
    values: Vec<f64>,
}

impl Matrices {
    /// Takes the order of the matrices, an array whose first axis is that of the points, and the pattern, if there is one.
    pub fn new(
        n: usize,
        values: &PyReadonlyArrayDyn<'_, f64>,
        indices: Option<Indices<'_>>,
    ) -> PyResult<Matrices> {
        let pattern = indices
            .map(|(starts, columns)| pattern(n, &starts, &columns))
            .transpose()?;
        let made = Matrices {
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
        let entries = self.pattern.as_ref().map(|pattern| Entries {
            starts: pattern.starts(),
            columns: pattern.indices(),
        });
        Jacobians {
            count: self.count,
            n: self.n,
            entries,
            values: &self.values,
        }
    }

    /// Which entries differ from zero at any point, or may.
    pub fn places(&self) -> PyResult<Pattern> {
        let (starts, columns) = self.borrowed().nonzero();
        Pattern::new(self.n, starts, columns).or_raise()
    }
}

//! Derivatives of a right side at the points of a run, as Python gives them.

use std::sync::Arc;

use cotan::kernels::jacobians::{Entries, Jacobians, Products};
use cotan::kernels::runge_kutta;
use cotan::sparsity::Pattern;
use numpy::{
    PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ndarray::pattern::pattern;
use crate::runtime::error::{OrRaise, attached};
use crate::solvers::outputs::expect;

/// Where rows begin, and the columns of all rows, as in a CSR array.
type Indices<'py> = (PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i32>);

/// Derivatives as Python has them: `Jacobians` or `StateProducts`.
#[derive(Debug, Clone)]
pub enum Derivatives {
    /// Matrices.
    Known(Arc<Matrices>),
    /// Functions that compute products.
    Computed(Arc<Calls>),
}

impl<'py> FromPyObject<'_, 'py> for Derivatives {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Derivatives> {
        if let Ok((n, count, forth, back)) = given.extract() {
            let calls = Calls {
                n,
                count,
                forth,
                back,
            };
            return Ok(Derivatives::Computed(Arc::new(calls)));
        }
        let (n, values, indices): (usize, PyReadonlyArrayDyn<'_, f64>, Option<Indices<'_>>) =
            given.extract()?;
        let matrices = Matrices::new(n, &values, indices)?;
        Ok(Derivatives::Known(Arc::new(matrices)))
    }
}

impl Derivatives {
    /// As the core takes them for explicit steps.
    pub fn borrowed(&self) -> runge_kutta::Derivatives<'_> {
        match self {
            Derivatives::Known(matrices) => runge_kutta::Derivatives::Known(matrices.borrowed()),
            Derivatives::Computed(calls) => runge_kutta::Derivatives::Computed {
                n: calls.n,
                count: calls.count,
                products: &**calls,
            },
        }
    }
}

/// Products that functions of Python's compute.
#[derive(Debug)]
pub struct Calls {
    /// How many equations there are.
    pub n: usize,
    /// How many points there are.
    pub count: usize,
    /// From the number of the first point and vectors for it and those behind it to the products.
    forth: Py<PyAny>,
    back: Py<PyAny>,
}

impl Calls {
    fn call(
        &self,
        function: &Py<PyAny>,
        first: usize,
        vectors: &[f64],
        found: &mut [f64],
    ) -> cotan::Result<()> {
        attached(|py| {
            let rows = [vectors.len() / self.n.max(1), self.n];
            let given = PyArray1::from_slice(py, vectors).reshape(rows)?;
            let products: PyReadonlyArray2<'_, f64> =
                function.bind(py).call1((first, given))?.extract()?;
            expect(products.shape() == rows)?;
            found.copy_from_slice(products.as_slice()?);
            Ok(())
        })
    }
}

impl Products for Calls {
    fn forth(&self, first: usize, vectors: &[f64], found: &mut [f64]) -> cotan::Result<()> {
        self.call(&self.forth, first, vectors, found)
    }

    fn back(&self, first: usize, rows: &[f64], found: &mut [f64]) -> cotan::Result<()> {
        self.call(&self.back, first, rows, found)
    }
}

/// Matrices with all entries, or those of a pattern.
#[derive(Debug)]
pub struct Matrices {
    count: usize,
    n: usize,
    pattern: Option<Pattern>,
    values: Vec<f64>,
}

impl Matrices {
    /// Takes the order of the matrices, an array whose first axis is that of the points, and the pattern, if there is one.
    fn new(
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

impl Products for Matrices {
    fn forth(&self, first: usize, vectors: &[f64], found: &mut [f64]) -> cotan::Result<()> {
        self.borrowed().forth(first, vectors, found);
        Ok(())
    }

    fn back(&self, first: usize, rows: &[f64], found: &mut [f64]) -> cotan::Result<()> {
        self.borrowed().back(first, rows, found);
        Ok(())
    }
}

//! Multiplies matrices for `x @ y` and `np.matmul`, by NumPy's rules for vectors and stacks.

use cotan::aval::{Shape, tuple};
use cotan::prim::Params;
use cotan::{Array, ops};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::cell::wrap_result;
use crate::array::operand::{Operand, common_dtype};
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;
use crate::runtime::hooks;

exports!(matmul);

/// The matrix product by NumPy's rules: vectors count as a row on the left and a column on the right.
#[pyfunction]
#[pyo3(signature = (x: "_Values", y: "_Values") -> "Array")]
pub fn matmul<'py>(x: &Bound<'py, PyAny>, y: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let operands = [Operand::expect("matmul", x)?, Operand::expect("matmul", y)?];
    let [a, b] = &operands;
    let gaps = b.is_active() && a.has_gaps(x)? || a.is_active() && b.has_gaps(y)?;
    let dtype = common_dtype(&operands);
    let [a, b] = operands;
    let (a, b) = (a.cast(dtype)?, b.cast(dtype)?);
    if gaps {
        let rule = hooks::MATMUL_AROUND_NAN.get(py)?;
        if let Some(out) = rule.call1((x, y))?.extract()? {
            return Ok(out);
        }
    }
    if a.shape().is_empty() || b.shape().is_empty() {
        return Err(PyValueError::new_err(format!(
            "matmul: shapes {} and {} do not fit: a scalar is no matrix; use x * y",
            tuple(a.shape()),
            tuple(b.shape())
        )));
    }
    let (row, column) = (a.shape().len() == 1, b.shape().len() == 1);
    let inner = (
        a.shape()[a.shape().len() - 1],
        b.shape()[b.shape().len().saturating_sub(2)],
    );
    if inner.0 != inner.1 {
        return Err(PyValueError::new_err(format!(
            "matmul: shapes {} and {} do not fit: the last axis of the first has {} elements, the last but \
             one of the second has {}",
            tuple(a.shape()),
            tuple(b.shape()),
            inner.0,
            inner.1
        )));
    }
    let wide = if row {
        a.reshape(&[1, inner.0]).or_raise()?
    } else {
        a
    };
    let tall = if column {
        b.reshape(&[inner.1, 1]).or_raise()?
    } else {
        b
    };
    let out = Array::apply(ops::MATMUL, Params::None, &[&wide, &tall]).or_raise()?;
    let mut shape = Shape::from_slice(out.shape());
    if column {
        shape.pop();
    }
    if row {
        shape.remove(shape.len() - usize::from(!column) - 1);
    }
    wrap_result(py, out.reshape(&shape).or_raise()?)
}

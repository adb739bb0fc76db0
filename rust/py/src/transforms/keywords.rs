//! Reads the keywords that all functions which differentiate have in common: `wrt`, `argnums`, and those that are the
//! function's.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyTuple};

use crate::ndarray::memory::is_numpy_scalar;
use crate::runtime::hooks;

/// What is differentiated: a function of the positional arguments alone, and with respect to what.
pub type Asked<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// The function with its keyword arguments, which are constants, and what `wrt` or `argnums` asks for.
pub fn asked<'py>(
    name: &str,
    f: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    wrt: Option<&Bound<'py, PyAny>>,
    argnums: Option<&Bound<'py, PyAny>>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Asked<'py>> {
    let py = f.py();
    let given = |x: Option<&Bound<'py, PyAny>>| x.filter(|x| !x.is_none()).cloned();
    let (wrt, argnums) = (given(wrt), given(argnums));
    if let Some(argnums) = &argnums {
        if wrt.is_some() {
            return Err(PyTypeError::new_err(format!(
                "{name}: give wrt or argnums, not both"
            )));
        }
        expect_positions(name, argnums)?;
    }
    let wrt = wrt.or(argnums);
    let f = match kwargs.filter(|k| !k.is_empty()) {
        Some(kwargs) if f.is_callable() => {
            (py.import("functools")?.getattr("partial")?).call((f,), Some(kwargs))?
        }
        _ => f.clone(),
    };
    if args.is_empty() && wrt.is_none() && f.is_callable() {
        hooks::EXPECT_ARGUMENTS.get(py)?.call1((name, &f))?;
    }
    Ok((f, wrt))
}

/// `argnums` is a position or several.
fn expect_positions(name: &str, argnums: &Bound<'_, PyAny>) -> PyResult<()> {
    let is_position = |x: &Bound<'_, PyAny>| -> PyResult<bool> {
        let number = x.is_instance_of::<PyInt>() || is_numpy_scalar(x)?;
        Ok(number && !x.is_instance_of::<PyBool>() && x.extract::<isize>().is_ok())
    };
    let several = argnums.is_instance_of::<PyTuple>() || argnums.is_instance_of::<PyList>();
    let mut all = several || is_position(argnums)?;
    if several {
        for item in argnums.try_iter()? {
            all &= is_position(&item?)?;
        }
    }
    if all {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "{name}: argnums is a position of an argument or a tuple of positions, not {}; names, paths and masks go to \
         wrt",
        argnums.repr()?.to_string_lossy()
    )))
}

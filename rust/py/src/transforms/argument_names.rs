//! Names the arguments of a call, for `wrt`, error messages and the inputs of programs.

use pyo3::prelude::*;

use crate::runtime::hooks;

/// Names of arguments. They are looked up only when somebody asks: a signature costs more than a small
/// gradient.
pub enum Names {
    Known(Vec<String>),
    /// Those of the parameters of a piece of code.
    Code(Py<PyAny>),
}

impl Names {
    /// Names for so many arguments.
    pub fn get(&self, py: Python<'_>, count: usize) -> PyResult<Vec<String>> {
        match self {
            Names::Known(names) => Ok(names.clone()),
            Names::Code(code) => hooks::CODE_NAMES.get(py)?.call1((code, count))?.extract(),
        }
    }

    /// Another reference to the same.
    pub fn clone_ref(&self, py: Python<'_>) -> Names {
        match self {
            Names::Known(names) => Names::Known(names.clone()),
            Names::Code(code) => Names::Code(code.clone_ref(py)),
        }
    }
}

/// Names of the arguments of a call.
pub fn argument_names(f: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<String>> {
    hooks::ARGUMENT_NAMES
        .get(f.py())?
        .call1((f, count))?
        .extract()
}

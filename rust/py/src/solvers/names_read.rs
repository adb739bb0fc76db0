//! What code reads by name, and whether it is what it was the last time: one look at identities in the place of one at
//! each object.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFunction, PyString, PyTuple};

use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;

exports!(names_read);

/// The names in so many codes are kept.
const MOST: usize = 1024;

/// What is kept, by the identity of code.
static KNOWN: Mutex<Option<HashMap<usize, Py<PyNamesRead>>>> = Mutex::new(None);

/// A name, and what it was; nothing where there was no such variable.
type Found = (Py<PyString>, Option<Py<PyAny>>);

/// What code reads by name; values of libraries, and of nothing else, are kept alive.
#[pyclass(frozen, name = "NamesRead", module = "cotan._core")]
pub struct PyNamesRead {
    code: Py<PyAny>,
    /// Global variables that are of libraries, or are none.
    near: Vec<Found>,
    /// What is looked up in builtins and in modules.
    members: Vec<(Py<PyDict>, Found)>,
    /// Other global variables.
    #[pyo3(get)]
    others: Py<PyTuple>,
    /// Whether all that is of builtins computes, and does nothing else.
    #[pyo3(get)]
    is_computing: bool,
    /// The names, and the identities of what was found.
    #[pyo3(get)]
    key: Py<PyBytes>,
}

impl PyNamesRead {
    /// The other global variables.
    pub fn others<'py>(&self, py: Python<'py>) -> &Bound<'py, PyTuple> {
        self.others.bind(py)
    }

    /// The key as bytes.
    pub fn key<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.key.bind(py).as_bytes()
    }

    /// Whether all that is of builtins computes, and does nothing else.
    pub fn is_computing(&self) -> bool {
        self.is_computing
    }

    /// All names.
    pub fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let near = self.near.iter().map(|(name, _)| name.bind(py).clone());
        let others = self.others.bind(py).iter();
        PyTuple::new(
            py,
            near.map(Bound::into_any).chain(others).collect::<Vec<_>>(),
        )
    }

    /// Whether a function with this code, and these global variables, reads the same.
    fn is_same_for(
        &self,
        code: &Bound<'_, PyAny>,
        variables: &Bound<'_, PyDict>,
    ) -> PyResult<bool> {
        let py = code.py();
        if !self.code.is(code) {
            return Ok(false);
        }
        for (name, value) in &self.near {
            if !is_still(variables, name, value.as_ref())? {
                return Ok(false);
            }
        }
        for (of, (name, value)) in &self.members {
            if !is_still(of.bind(py), name, value.as_ref())? {
                return Ok(false);
            }
        }
        for name in self.others.bind(py).iter_borrowed() {
            if !variables.contains(name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_still(
    variables: &Bound<'_, PyDict>,
    name: &Py<PyString>,
    value: Option<&Py<PyAny>>,
) -> PyResult<bool> {
    Ok(match (variables.get_item(name)?, value) {
        (Some(found), Some(value)) => found.is(value),
        (None, None) => true,
        _ => false,
    })
}

#[pymethods]
impl PyNamesRead {
    /// Takes names with what they were, and `absent` for what was not there.
    #[new]
    #[pyo3(signature = (code, near, members, others, is_computing, absent))]
    fn new(
        py: Python<'_>,
        code: Py<PyAny>,
        near: Vec<(Py<PyString>, Py<PyAny>)>,
        members: Vec<(Py<PyDict>, Py<PyString>, Py<PyAny>)>,
        others: Py<PyTuple>,
        is_computing: bool,
        absent: &Bound<'_, PyAny>,
    ) -> PyResult<PyNamesRead> {
        let mut key = Vec::new();
        let mut found = |name: Py<PyString>, value: Py<PyAny>| {
            let value = (!value.is(absent)).then_some(value);
            let identity = value.as_ref().map_or(0, |value| value.as_ptr() as usize);
            key.extend(name.bind(py).to_cow()?.as_bytes());
            key.push(0);
            key.extend(identity.to_ne_bytes());
            PyResult::Ok((name, value))
        };
        let near = (near.into_iter().map(|(name, value)| found(name, value)))
            .collect::<PyResult<Vec<_>>>()?;
        let members = (members.into_iter())
            .map(|(of, name, value)| Ok((of, found(name, value)?)))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(PyNamesRead {
            code,
            near,
            members,
            others,
            is_computing,
            key: PyBytes::new(py, &key).unbind(),
        })
    }

    /// Global variables that are of libraries, or are none.
    #[getter(names)]
    fn names_near<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.near.iter().map(|(name, _)| name.bind(py)))
    }
}

/// What the code of a function reads by name; None where it may do more than compute.
#[pyfunction]
#[pyo3(signature = (function: "Function") -> "NamesRead | None")]
pub fn names_read<'py>(
    function: &Bound<'py, PyFunction>,
) -> PyResult<Option<Bound<'py, PyNamesRead>>> {
    let py = function.py();
    let code = function.getattr(intern!(py, "__code__"))?;
    let variables = function.getattr(intern!(py, "__globals__"))?;
    names_of(function, &code, variables.cast()?)
}

/// The same where code and global variables are known.
pub fn names_of<'py>(
    function: &Bound<'py, PyAny>,
    code: &Bound<'py, PyAny>,
    variables: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyNamesRead>>> {
    let py = code.py();
    let identity = code.as_ptr() as usize;
    let known = {
        let kept = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.as_ref().and_then(|all| all.get(&identity));
        known.map(|known| known.bind(py).clone())
    };
    if let Some(known) = known
        && known.get().is_same_for(code, variables)?
    {
        return Ok(Some(known));
    }
    let made = hooks::LOOK_UP_NAMES.get(py)?.call1((function,))?;
    if made.is_none() {
        return Ok(None);
    }
    let made = made.cast_into::<PyNamesRead>()?;
    let old = {
        let mut kept = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let all = kept.get_or_insert_default();
        let full = (all.len() >= MOST).then(|| std::mem::take(all));
        (all.insert(identity, made.clone().unbind()), full)
    };
    // What is let go may run code, which must not find the lock taken.
    drop(old);
    Ok(Some(made))
}

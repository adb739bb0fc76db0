//! Says what is wrong with a value that is taken apart, and where in it.

use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;

/// Structures may be nested as deeply as this: each level is a frame of the stack.
pub const MAX_DEPTH: usize = 1000;

/// What went wrong, and where, from the inside out.
pub struct Fault {
    what: What,
    steps: Vec<String>,
}

enum What {
    /// An exception of somebody else, or one that needs no path.
    Raised(PyErr),
    /// The rest of a message that starts with a path.
    Value(String),
    Depth,
}

impl<E: Into<PyErr>> From<E> for Fault {
    fn from(error: E) -> Fault {
        Fault {
            what: What::Raised(error.into()),
            steps: Vec::new(),
        }
    }
}

impl Fault {
    /// What is wrong with a value: the rest of a message that starts with its path.
    pub fn value(message: String) -> Fault {
        Fault {
            what: What::Value(message),
            steps: Vec::new(),
        }
    }

    /// That a value is nested too deeply.
    pub fn depth() -> Fault {
        Fault {
            what: What::Depth,
            steps: Vec::new(),
        }
    }

    /// With one more step of the path, from outside.
    pub fn at(mut self, step: impl FnOnce() -> PyResult<String>) -> Fault {
        match step() {
            Ok(step) => self.steps.push(step),
            Err(interrupt) => self.what = What::Raised(interrupt),
        }
        self
    }

    /// The exception, for a value that is called so.
    pub fn raise(mut self, py: Python<'_>, root: &str) -> PyErr {
        self.steps.reverse();
        let root = if root.is_empty() { "the value" } else { root };
        let mut path = format!("{root}{}", self.steps.concat());
        if self.steps.len() > 20 {
            path = format!("{root}{}...", self.steps[..10].concat());
        }
        match self.what {
            What::Raised(error) => {
                if !self.steps.is_empty() {
                    let note = format!("while {path} was taken apart");
                    let _ = error.value(py).call_method1("add_note", (note,));
                }
                error
            }
            What::Value(message) => PyValueError::new_err(format!("{path} {message}")),
            What::Depth => PyRecursionError::new_err(format!(
                "{path} is nested more than {MAX_DEPTH} levels deep; make it flatter (a list instead of \
                 a chain), or register its class (ct.register)"
            )),
        }
    }
}

/// A part, or why it cannot be taken apart.
pub type Parts<T> = Result<T, Fault>;

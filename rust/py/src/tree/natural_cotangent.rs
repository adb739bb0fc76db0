//! Remembers, while gradients are computed, the classes whose own instances a rule has given as cotangents:
//! gradients of such objects are instances of the class, too.

use std::cell::{Cell, RefCell};

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

thread_local! {
    /// Gradient calls that are going on in this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Classes whose own instances a rule gave as cotangents, since the outermost of them began.
    static NATURAL: RefCell<Vec<Py<PyType>>> = const { RefCell::new(Vec::new()) };
}

/// A gradient call, until it is dropped: what classes are natural cotangents is forgotten with the
/// outermost.
pub struct Scope;

impl Scope {
    /// Begins one.
    pub fn enter() -> Scope {
        DEPTH.set(DEPTH.get() + 1);
        Scope
    }

    /// The classes found so far, if any.
    pub fn natural(py: Python<'_>) -> Option<Py<PyTuple>> {
        let classes: Vec<Py<PyType>> =
            NATURAL.with_borrow(|n| n.iter().map(|c| c.clone_ref(py)).collect());
        if classes.is_empty() {
            return None;
        }
        PyTuple::new(py, classes).ok().map(Bound::unbind)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            let classes = NATURAL.take();
            drop(classes);
        }
    }
}

/// A class is its own natural cotangent, in the gradient calls that are going on.
pub fn remember(class: &Bound<'_, PyType>) {
    if DEPTH.get() == 0 {
        return;
    }
    NATURAL.with_borrow_mut(|known| {
        if !known.iter().any(|c| c.is(class)) {
            known.push(class.clone().unbind());
        }
    });
}

thread_local! {
    /// Classes whose cotangents are being handed out as instances.
    static HANDED_OUT: RefCell<Option<Py<PyTuple>>> = const { RefCell::new(None) };
}

/// Hands cotangents out as instances of these classes, until it is dropped.
pub struct HandOut(Option<Py<PyTuple>>);

impl HandOut {
    /// Begins to.
    pub fn new(classes: Option<Py<PyTuple>>) -> HandOut {
        HandOut(HANDED_OUT.replace(classes))
    }
}

impl Drop for HandOut {
    fn drop(&mut self) {
        let classes = HANDED_OUT.replace(self.0.take());
        drop(classes);
    }
}

/// Whether the cotangent of an instance of this class is another instance.
pub fn is_natural(class: &Bound<'_, PyType>) -> bool {
    HANDED_OUT.with_borrow(|classes| {
        let classes = classes.as_ref().map(|c| c.bind(class.py()));
        classes.is_some_and(|c| c.iter().any(|c| c.is(class)))
    })
}

//! `fork` copies memory but only the calling thread: locks that another thread holds would stay locked
//! in the child for ever. So everything global is held still while the copy is made.

use std::any::Any;
use std::cell::RefCell;

use pyo3::prelude::*;

thread_local! {
    static HELD: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Called in the forking thread just before `fork`.
#[pyfunction]
pub fn before_fork() {
    HELD.set(Some(Box::new(cotan::array::lock_for_fork())));
}

/// Called in the parent just after it.
#[pyfunction]
pub fn after_fork_in_parent() {
    HELD.take();
}

/// Called in the child just after it.
#[pyfunction]
pub fn after_fork_in_child(py: Python<'_>) {
    HELD.take();
    crate::lift::after_fork_in_child(py);
    crate::exit::after_fork_in_child();
}

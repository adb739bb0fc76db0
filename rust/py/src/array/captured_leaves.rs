//! Binds captured arrays to leaves of a recording while the function runs: `gradient(lambda: loss(model),
//! wrt=[model.w])`.
//!
//! The arrays themselves are not touched: what a thread reads and writes through them goes to its own
//! list, so other threads see nothing of it and nothing has to be put back.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

use cotan::Array;
use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;

/// How many bindings there are in all threads. Every operand of every operation asks, and reading a number of all
/// threads takes a fraction of reading one of this thread.
static BINDINGS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static BOUND: RefCell<Vec<(usize, Array)>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread has bound any array.
#[inline]
pub fn any() -> bool {
    BINDINGS.load(Ordering::Relaxed) > 0 && COUNT.get() > 0
}

/// Arrays are known by where they are, so that their class need not be known here.
fn address<T>(cell: &T) -> usize {
    std::ptr::from_ref(cell) as usize
}

/// The value of the leaf that an array is bound to in this thread.
pub fn get<T>(cell: &T) -> Option<Array> {
    let address = address(cell);
    BOUND.with_borrow(|bound| {
        let found = bound.iter().rev().find(|(a, _)| *a == address);
        found.map(|(_, array)| array.clone())
    })
}

/// Writes to the leaf that an array is bound to; false when it is bound to none.
pub fn set<T>(cell: &T, array: &Array) -> bool {
    let address = address(cell);
    BOUND.with_borrow_mut(|bound| {
        let found = bound.iter_mut().rev().find(|(a, _)| *a == address);
        found.map(|(_, bound)| *bound = array.clone()).is_some()
    })
}

/// Arrays bound to leaves, until it is dropped.
pub struct Binding {
    /// Keeps the addresses valid.
    _cells: Vec<Py<PyAny>>,
    before: usize,
}

impl Binding {
    /// Binds arrays. Inner bindings hide outer ones.
    pub fn new<'py, T: PyClass<Frozen = True> + Sync>(
        py: Python<'py>,
        pairs: impl Iterator<Item = (&'py Py<T>, Array)>,
    ) -> Binding {
        let before = COUNT.get();
        let mut cells = Vec::new();
        for (cell, leaf) in pairs {
            let address = address(cell.get());
            cells.push(cell.clone_ref(py).into_any());
            BOUND.with_borrow_mut(|bound| bound.push((address, leaf)));
        }
        COUNT.set(before + cells.len());
        BINDINGS.fetch_add(1, Ordering::Relaxed);
        Binding {
            _cells: cells,
            before,
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        COUNT.set(self.before);
        BINDINGS.fetch_sub(1, Ordering::Relaxed);
        // Dropped outside the borrow: what an array leads to may run code.
        let rest = BOUND.with_borrow_mut(|bound| bound.split_off(self.before));
        drop(rest);
    }
}

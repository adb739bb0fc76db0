//! Knows what each thread is doing: recording, differentiating, tracing a program, mapping over examples.
//!
//! Layers from the arrays upwards ask this; none of them needs to know who does it.

use std::cell::{Cell, RefCell};

use crate::runtime::exports::exports;
use cotan::tape::UNKNOWN;
use pyo3::prelude::*;

exports!(
    switch_lifting,
    is_lifting,
    is_tracing,
    isderiving,
    nestlevel
);

thread_local! {
    /// How many recordings are going on in this thread, whether they differentiate or not.
    static RECORDINGS: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread wants lifting.
    static LIFTS: Cell<bool> = const { Cell::new(true) };
    /// How many of the recordings of this thread differentiate.
    static LEVEL: Cell<usize> = const { Cell::new(0) };
    /// How many programs are being traced in this thread.
    static TRACING: Cell<usize> = const { Cell::new(0) };
    /// How many functions are being mapped in this thread.
    static MAPPING: Cell<usize> = const { Cell::new(0) };
    /// What was said when the innermost of them read a value that differs between examples.
    static LOOKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Counts a recording of this thread.
pub fn begin_recording() {
    RECORDINGS.set(RECORDINGS.get() + 1);
}

/// Counts a recording less.
pub fn end_recording() {
    RECORDINGS.set(RECORDINGS.get().saturating_sub(1));
}

/// How many recordings are going on in this thread.
pub fn recordings() -> usize {
    RECORDINGS.get()
}

/// Switches lifting on or off in this thread; says what it was before.
#[pyfunction]
#[pyo3(signature = (on: "bool") -> "bool")]
pub fn switch_lifting(on: bool) -> bool {
    LIFTS.replace(on)
}

/// Whether names are lifted for this thread.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_lifting() -> bool {
    recordings() > 0 && LIFTS.get()
}

/// Whether names may be lifted for this thread, should it meet what another one records.
pub fn wants_lifting() -> bool {
    LIFTS.get()
}

/// Counts a recording that differentiates, if this one does.
pub fn enter_level(derives: bool) {
    LEVEL.set(LEVEL.get() + usize::from(derives));
}

/// Counts it less.
pub fn leave_level(derives: bool) {
    LEVEL.set(LEVEL.get() - usize::from(derives));
}

/// Counts a program that is being traced, until it is dropped.
pub struct Tracing;

impl Tracing {
    /// Counts one more.
    pub fn enter() -> Tracing {
        TRACING.set(TRACING.get() + 1);
        Tracing
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        TRACING.set(TRACING.get() - 1);
    }
}

/// Whether a program is being traced in this thread: what can fail on values fails when it runs.
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn is_tracing() -> bool {
    TRACING.get() > 0
}

/// Whether the running code is being differentiated.
///
/// >>> import cotan as ct
/// >>> ct.isderiving()
/// False
/// >>> ct.gradient(lambda x: x if ct.isderiving() else 0 * x, 2.0)
/// (1.0,)
#[pyfunction]
#[pyo3(signature = () -> "bool")]
pub fn isderiving() -> bool {
    LEVEL.get() > 0
}

/// How deeply the running code is being differentiated: 0 outside any gradient.
#[pyfunction]
#[pyo3(signature = () -> "int")]
pub fn nestlevel() -> usize {
    LEVEL.get()
}

/// Counts a function that is being mapped, until it is dropped.
pub struct Mapping {
    /// What was said to the function around it.
    before: Option<String>,
}

impl Mapping {
    /// Counts one more.
    pub fn enter() -> Mapping {
        MAPPING.set(MAPPING.get() + 1);
        Mapping {
            before: LOOKED.take(),
        }
    }

    /// What was said when the innermost one read a value that differs between examples.
    pub fn take_looked() -> Option<String> {
        LOOKED.take()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        MAPPING.set(MAPPING.get() - 1);
        LOOKED.replace(self.before.take());
    }
}

/// Remembers an error about a value that nobody knows: code that catches it would go on in a way that is
/// right for no example.
pub fn note_unknown(message: &str) {
    if MAPPING.get() > 0 && message.starts_with(UNKNOWN) {
        LOOKED.with_borrow_mut(|looked| {
            looked.get_or_insert_with(|| message.into());
        });
    }
}

/// Whether a function is being mapped in this thread.
pub fn is_mapping() -> bool {
    MAPPING.get() > 0
}

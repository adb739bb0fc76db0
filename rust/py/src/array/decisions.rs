//! Counts, by line, the decisions that code takes by values which depend on arguments: they have no derivative.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cotan::Array;
use cotan::prim::here;
use pyo3::prelude::*;

use crate::runtime::exports::exports;

exports!(begin_decisions, end_decisions);

/// File, line and function.
type Line = (String, u32, String);

thread_local! {
    /// Those that are counted in this thread, the innermost last.
    static COUNTS: RefCell<Vec<BTreeMap<Line, usize>>> = const { RefCell::new(Vec::new()) };
}

/// Begins to count, in this thread.
#[pyfunction]
#[pyo3(signature = () -> "None")]
pub fn begin_decisions() {
    COUNTS.with_borrow_mut(|counts| counts.push(BTreeMap::new()));
}

/// Ends what was begun last; gives how often each line decided.
#[pyfunction]
#[pyo3(signature = () -> "list[tuple[tuple[str, int, str], int]]")]
pub fn end_decisions() -> Vec<(Line, usize)> {
    let counts = COUNTS.with_borrow_mut(Vec::pop);
    counts.unwrap_or_default().into_iter().collect()
}

/// Code reads a value to decide by it.
#[inline]
pub fn note(array: &Array) {
    if array.tag() != 0 {
        count();
    }
}

#[cold]
fn count() {
    if COUNTS.with_borrow(Vec::is_empty) {
        return;
    }
    // The line may be that of code which has no lines.
    let Some(place) = here().place() else { return };
    let line = (
        place.file.to_string(),
        place.line,
        place.function.to_string(),
    );
    COUNTS.with_borrow_mut(|counts| {
        if let Some(counts) = counts.last_mut() {
            *counts.entry(line).or_default() += 1;
        }
    });
}

//! Lets a call of library code that reads values be repeated by a replay: finds the recorded arrays that it reads, and
//! gives it others in their place.
//!
//! `solve_ivp(lambda t, y: -k * y, ...)` reads `k` from a variable, not from its arguments. While such a call is
//! recorded, each recorded array that it reads is noted and read as a constant ([`Access::find`]). When the call is
//! repeated, the same arrays are read as the values of that run ([`Access::replace`]). The arrays themselves are not
//! touched, and other threads see nothing of it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use cotan::kernels::Value;
use cotan::{Array, tape};
use pyo3::prelude::*;

/// How many calls are watched in all threads: reading this takes a fraction of reading a list of this thread.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

/// Computes the value of an array; the file that does is above this one.
type Compute = fn(Python<'_>, &Array) -> PyResult<Value>;

/// A call that is watched.
struct Level {
    /// The tags of the recording that the arrays belong to, and of those inside of it.
    tags: (u64, u64),
    /// Recorded arrays, and what is read in their place.
    pairs: Vec<(Array, Array)>,
    /// What computes arrays that are read for the first time, if these are added.
    finds: Option<Compute>,
    /// Whether something happened that cannot be repeated: a recorded array was written to, or one was read that the
    /// first call had not read.
    has_failed: bool,
}

impl Level {
    fn contains(&self, array: &Array) -> bool {
        (self.tags.0..=self.tags.1).contains(&array.tag())
    }
}

/// Whether any call is watched.
#[inline]
pub fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// What a recorded array is read as in this thread, if a call that is watched reads it.
pub fn read(array: &Array) -> PyResult<Option<Array>> {
    if array.tag() == 0 {
        return Ok(None);
    }
    let (known, finds) = LEVELS.with_borrow_mut(|levels| {
        let Some(level) = levels.iter_mut().rev().find(|level| level.contains(array)) else {
            return (None, None);
        };
        let found = level.pairs.iter().find(|(node, _)| node.id() == array.id());
        let known = found.map(|(_, value)| value.clone());
        level.has_failed |= known.is_none() && level.finds.is_none();
        (known, level.finds)
    });
    let (None, Some(compute)) = (&known, finds) else {
        return Ok(known);
    };
    let value = Python::attach(|py| compute(py, array))?;
    let constant = Array::constant(value);
    LEVELS.with_borrow_mut(|levels| {
        if let Some(level) = levels.iter_mut().rev().find(|level| level.contains(array)) {
            level.pairs.push((array.clone(), constant.clone()));
        }
    });
    Ok(Some(constant))
}

/// Notes that a recorded array is written to.
pub fn written(array: &Array) {
    LEVELS.with_borrow_mut(|levels| {
        if let Some(level) = levels.iter_mut().rev().find(|level| level.contains(array)) {
            level.has_failed = true;
        }
    });
}

/// Watches what is read in this thread, until it ends.
pub struct Access {
    tags: (u64, u64),
    is_over: bool,
}

/// What a call has read.
pub struct Reads {
    pub nodes: Vec<Array>,
    pub tags: (u64, u64),
    pub has_failed: bool,
}

impl Access {
    fn new(tags: (u64, u64), pairs: Vec<(Array, Array)>, finds: Option<Compute>) -> Access {
        let level = Level {
            tags,
            pairs,
            finds,
            has_failed: false,
        };
        LEVELS.with_borrow_mut(|levels| levels.push(level));
        COUNT.fetch_add(1, Ordering::Relaxed);
        Access {
            tags,
            is_over: false,
        }
    }

    /// Notes the arrays of a recording that are read, its leaves or what depends on them, and reads them as constants.
    pub fn find(first_tag: u64, compute: Compute) -> Access {
        Access::new((first_tag, tape::newest_tag()), Vec::new(), Some(compute))
    }

    /// Reads other values in the place of recorded arrays.
    pub fn replace(tags: (u64, u64), pairs: Vec<(Array, Array)>) -> Access {
        Access::new(tags, pairs, None)
    }

    fn end(&mut self) -> Option<Level> {
        if std::mem::replace(&mut self.is_over, true) {
            return None;
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
        LEVELS.with_borrow_mut(Vec::pop)
    }

    /// What was read.
    pub fn finish(mut self) -> Reads {
        let level = self.end();
        let has_failed = level.as_ref().is_none_or(|level| level.has_failed);
        let pairs = level.map(|level| level.pairs).unwrap_or_default();
        Reads {
            nodes: pairs.into_iter().map(|(node, _)| node).collect(),
            tags: self.tags,
            has_failed,
        }
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let level = self.end();
        drop(level);
    }
}

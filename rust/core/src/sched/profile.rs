//! Counting what is computed, on request.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use crate::prim::Prim;

/// What has been counted.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    /// Equations that were computed, by primitive.
    pub equations: Vec<(Prim, u64)>,
    /// Cotangents that a full reverse pass would have computed and nobody asked for, by the primitive
    /// that would have computed them.
    pub skipped: Vec<(Prim, u64)>,
    /// Runs of the executor.
    pub runs: u64,
    /// Bytes that were copied because somebody could have written to them later.
    pub bytes_copied: u64,
}

impl Counts {
    fn add(list: &mut Vec<(Prim, u64)>, prim: Prim, n: u64) {
        match list.iter_mut().find(|(p, _)| *p == prim) {
            Some((_, count)) => *count += n,
            None => list.push((prim, n)),
        }
    }

    /// Counts equations that were computed.
    pub fn add_equations(&mut self, counts: &[(Prim, u64)]) {
        for &(prim, n) in counts {
            Counts::add(&mut self.equations, prim, n);
        }
    }

    /// Counts cotangents that were not.
    pub fn add_skipped(&mut self, counts: &[(Prim, u64)]) {
        for &(prim, n) in counts {
            Counts::add(&mut self.skipped, prim, n);
        }
    }
}

thread_local! {
    static ACTIVE: RefCell<Vec<Arc<Mutex<Counts>>>> = const { RefCell::new(Vec::new()) };
}

/// Counts what this thread computes while it is active.
#[derive(Debug, Default, Clone)]
pub struct Profile {
    counts: Arc<Mutex<Counts>>,
}

impl Profile {
    /// Starts counting on this thread.
    pub fn enter(&self) {
        ACTIVE.with_borrow_mut(|active| active.push(Arc::clone(&self.counts)));
    }

    /// Stops.
    pub fn exit(&self) {
        ACTIVE.with_borrow_mut(|active| {
            if let Some(i) = active.iter().rposition(|c| Arc::ptr_eq(c, &self.counts)) {
                active.remove(i);
            }
        });
    }

    /// What has been counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Tells every active profile of this thread something.
pub fn note(write: impl Fn(&mut Counts)) {
    ACTIVE.with_borrow(|active| {
        for counts in active {
            write(&mut counts.lock().unwrap_or_else(PoisonError::into_inner));
        }
    });
}

//! Keeping history: while a function is prepared or traced, nothing that depends on its arguments may become a
//! mere value, be it detached from derivatives or not.

use std::cell::Cell;
use std::marker::PhantomData;

use super::node::Op;
use super::{Array, Recording, is_live};
use crate::ops;
use crate::util::FastMap;

thread_local! {
    /// The recording whose history this thread keeps; 0 for none.
    static TAG: Cell<u64> = const { Cell::new(0) };
}

/// Until it is dropped, this thread keeps the history of whatever depends on the leaves of a recording.
#[derive(Debug)]
pub struct KeepHistory {
    before: u64,
    /// It belongs to the thread that made it.
    thread: PhantomData<*const ()>,
}

impl KeepHistory {
    /// Begins to. A history that is kept already goes on being kept: an older recording includes the newer ones.
    pub fn new(recording: &Recording) -> KeepHistory {
        let before = TAG.get();
        if before == 0 {
            TAG.set(recording.tag());
        }
        KeepHistory {
            before,
            thread: PhantomData,
        }
    }
}

impl Drop for KeepHistory {
    fn drop(&mut self) {
        TAG.set(self.before);
    }
}

/// Whether this thread keeps the history of an array: it may depend on the recording whose history is kept.
pub fn keeps_history(array: &Array) -> bool {
    let tag = TAG.get();
    tag != 0 && array.tag() >= tag
}

/// Whether a recording newer than the one whose history is kept may differentiate an array.
pub fn is_differentiated_inside(array: &Array) -> bool {
    let kept = TAG.get();
    let mut seen: FastMap<u64, ()> = FastMap::default();
    let mut work = vec![array.clone()];
    while let Some(array) = work.pop() {
        let passes = array.tag() > kept
            && array.dtype().is_inexact()
            && array.primitive() != Some(ops::DROPGRAD);
        if !passes || seen.insert(array.id(), ()).is_some() {
            continue;
        }
        if matches!(array.0.op, Op::Leaf) && is_live(array.tag()) {
            return true;
        }
        work.extend(array.0.inputs());
    }
    false
}

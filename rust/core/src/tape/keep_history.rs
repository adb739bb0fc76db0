//! Holding on to history: while a function is prepared or traced, nothing that depends on its arguments may
//! become a mere value, be it detached from derivatives or not.

use std::cell::Cell;
use std::marker::PhantomData;

use super::node::Op;
use super::{Array, Recording, is_live};
use crate::ops;
use crate::util::FastMap;

thread_local! {
    /// The recording whose leaves this thread holds on to; 0 for none.
    static TAG: Cell<u64> = const { Cell::new(0) };
}

/// Until it is dropped, this thread keeps the history of whatever depends on the leaves of a recording.
#[derive(Debug)]
pub struct Hold {
    before: u64,
    /// It belongs to the thread that made it.
    thread: PhantomData<*const ()>,
}

impl Hold {
    /// Begins to. What is held on to already stays so: an older recording includes the newer ones.
    pub fn new(recording: &Recording) -> Hold {
        let before = TAG.get();
        if before == 0 {
            TAG.set(recording.tag());
        }
        Hold {
            before,
            thread: PhantomData,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        TAG.set(self.before);
    }
}

/// The tag of the recording that is held on to, if there is one and an array may depend on it.
pub fn held_by(array: &Array) -> Option<u64> {
    let tag = TAG.get();
    (tag != 0 && array.tag() >= tag).then_some(tag)
}

/// Whether a recording newer than the one that this thread holds on to may differentiate an array.
pub fn is_followed(array: &Array) -> bool {
    let held = TAG.get();
    let mut seen: FastMap<u64, ()> = FastMap::default();
    let mut work = vec![array.clone()];
    while let Some(array) = work.pop() {
        let passes = array.tag() > held
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

//! Recordings: which leaves belong together, and which recordings are going on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Array;
use super::node::{Node, Op};
use crate::aval::Aval;
use crate::interrupt::enough;
use crate::util::FastMap;

static NEXT: AtomicU64 = AtomicU64::new(1);
static LIVE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<u64>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One recording, from its leaves to the end of the differentiated function. A later one has a
/// greater tag, so a node's tag bounds the recordings that it can depend on.
#[derive(Debug)]
pub struct Recording {
    tag: u64,
}

impl Recording {
    /// Starts one.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Recording {
        // Where memory ended before, and is there again, is no matter of this one.
        let _ = enough();
        let tag = NEXT.fetch_add(1, Ordering::Relaxed);
        live().insert(tag);
        Recording { tag }
    }

    /// A fresh leaf: the same value, but with respect to this leaf.
    pub fn leaf(&self, array: &Array) -> Array {
        Array(Node::leaf(array, self.tag))
    }

    /// A leaf without a value, of which only dtype and shape are known.
    pub fn placeholder(&self, aval: &Aval) -> Array {
        Array(Node::placeholder(aval.clone(), self.tag))
    }

    /// Its tag.
    pub fn tag(&self) -> u64 {
        self.tag
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        live().remove(&self.tag);
    }
}

/// The tag of the newest recording that has begun, in any thread.
pub fn newest_tag() -> u64 {
    NEXT.load(Ordering::Relaxed) - 1
}

/// Whether a recording is still going on.
pub fn is_live(tag: u64) -> bool {
    live().contains(&tag)
}

/// Holds the list of recordings still while a `fork` copies it.
pub(crate) fn lock() -> impl Sized {
    live()
}

/// Whether an array depends on a leaf of a recording that is going on.
pub(crate) fn depends_on_live(array: &Array) -> bool {
    let (own, older) = {
        let live = live();
        (
            live.contains(&array.tag()),
            live.range(..array.tag()).next().is_some(),
        )
    };
    if own || !older {
        return own;
    }
    // It was left over from an inner recording that has ended, and may still depend on an outer one.
    let mut seen: FastMap<u64, ()> = FastMap::default();
    let mut work = vec![array.clone()];
    while let Some(a) = work.pop() {
        if a.tag() == 0 || seen.insert(a.id(), ()).is_some() {
            continue;
        }
        if matches!(a.0.op, Op::Leaf) && is_live(a.tag()) {
            return true;
        }
        work.extend(a.0.inputs());
    }
    false
}

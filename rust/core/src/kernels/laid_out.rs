//! Spares short kernels the work of looking at shapes and strides in every run: what they do is worked out once, for
//! memory of known layout that may lie anywhere.
//!
//! To add two hundred numbers takes 20 ns. To make three values of them, check these and find the shortest loops took ten
//! times as long.

use std::fmt;

use smallvec::SmallVec;

use super::placed::{Reach, outside};
use super::{Storage, Value};
use crate::error::{Error, Result};

/// So many bytes are written at most: longer kernels are shared by threads, and look whether to stop.
pub(super) const SHORT: usize = 1 << 16;

/// What is done with the addresses of all that is read, in order, and then of what is written.
type Run = dyn Fn(&[*mut u8]) -> Result<()> + Send + Sync;

/// A kernel whose operands have known dtypes, shapes and strides, wherever they lie.
pub struct LaidOut {
    reaches: SmallVec<[Reach; 4]>,
    run: Box<Run>,
}

impl fmt::Debug for LaidOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LaidOut").field(&self.reaches.len()).finish()
    }
}

impl LaidOut {
    /// A kernel that reads some values and writes one; `None` where that is long.
    ///
    /// # Safety
    /// `run` may be called with addresses behind which so much memory is as these values reach. It reads what lies
    /// there, at any alignment, and writes the last, which the others have no part of.
    pub(super) unsafe fn new<'v>(
        read: impl IntoIterator<Item = &'v Value>,
        written: &'v Value,
        run: impl Fn(&[*mut u8]) -> Result<()> + Send + Sync + 'static,
    ) -> Option<LaidOut> {
        let all = read.into_iter().chain([written]);
        (written.aval().nbytes() <= SHORT).then(|| LaidOut {
            reaches: all.map(Reach::of).collect(),
            run: Box::new(run),
        })
    }

    /// Runs it on values in `memory` whose first elements are at these places. Nobody else uses what is written
    /// meanwhile, and nothing that is read lies there.
    ///
    /// # Errors
    /// When one does not lie inside of the memory, and those of the kernel.
    pub fn run_at(&self, memory: &Storage, mut places: impl Iterator<Item = usize>) -> Result<()> {
        if memory.as_remote().is_some() {
            return Err(outside());
        }
        let base = memory.as_ptr();
        let mut addresses: SmallVec<[*mut u8; 4]> = SmallVec::new();
        for reach in &self.reaches {
            match places.next() {
                Some(place) if reach.is_inside(memory, place) => {
                    addresses.push(base.wrapping_add(place));
                }
                _ => return Err(outside()),
            }
        }
        if places.next().is_some() {
            return Err(Error::Program("the layout of another kernel".into()));
        }
        (self.run)(&addresses)
    }
}

//! Whether the user wants to stop or memory has ended, asked while programs are written and planned.
//!
//! Runs are handed a question to ask by whoever starts them. The passes over programs need it only for
//! programs of hundred thousands of equations; a hook of the process spares all of them an argument. The lists of such
//! programs are larger than the allocator's reserve, too, so there is a question for them.

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::kernels::{enough, spare};

static HOOK: OnceLock<fn() -> bool> = OnceLock::new();

/// How many steps pass between two questions: some milliseconds.
const STEPS: u32 = 1 << 15;

/// Sets the question, once for the process: true means to give up with [`Error::Interrupted`]. It is
/// asked on the thread that works.
pub fn set_hook(hook: fn() -> bool) {
    // A second module of the same process asks the same question.
    let _ = HOOK.set(hook);
}

/// Whether the user wants to stop.
pub(crate) fn asked() -> bool {
    HOOK.get().is_some_and(|stop| stop())
}

/// What a pass over a program may take for each of its steps, in bytes: equations, and lists that double as they grow.
/// With twice as much, programs are refused that fit; programs of 300,000 steps did not end the process with this.
const PER_STEP: usize = 1 << 8;

/// Fewer steps than these are left to the allocator's reserve.
const FEW: usize = 1 << 12;

/// An error where memory for a pass of so many steps cannot be had, or has ended before.
pub(crate) fn room_for(steps: usize) -> Result<()> {
    enough()?;
    if steps < FEW {
        return Ok(());
    }
    spare(steps.saturating_mul(PER_STEP))
}

/// Counts the steps of a long loop.
#[derive(Debug, Default)]
pub(crate) struct Steps(u32);

impl Steps {
    /// One step; an error when the user wants to stop, or memory has ended.
    #[inline]
    pub fn count(&mut self) -> Result<()> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(STEPS) && asked() {
            return Err(Error::Interrupted);
        }
        enough()
    }
}

/// Step `k` of a loop that knows its number and how many equations it has written: where those are full, they take as
/// much memory again.
#[inline]
pub(crate) fn at_step(k: usize, written: impl FnOnce() -> usize) -> Result<()> {
    if k % STEPS as usize == STEPS as usize - 1 {
        if asked() {
            return Err(Error::Interrupted);
        }
        room_for(written())?;
    }
    enough()
}

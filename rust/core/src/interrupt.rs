//! Whether the user wants to stop, asked while programs are written and planned.
//!
//! Runs are handed a question to ask by whoever starts them. The passes over programs need it only for
//! programs of hundred thousands of equations; a hook of the process spares all of them an argument.

use std::sync::OnceLock;

use crate::error::{Error, Result};

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

/// Counts the steps of a long loop.
#[derive(Debug, Default)]
pub(crate) struct Steps(u32);

impl Steps {
    /// One step; an error when the user wants to stop.
    #[inline]
    pub fn count(&mut self) -> Result<()> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(STEPS) && asked() {
            return Err(Error::Interrupted);
        }
        Ok(())
    }
}

/// Step `k` of a loop that knows its number.
#[inline]
pub(crate) fn at_step(k: usize) -> Result<()> {
    if k % STEPS as usize == STEPS as usize - 1 && asked() {
        return Err(Error::Interrupted);
    }
    Ok(())
}

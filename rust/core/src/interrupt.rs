//! Whether to stop, asked while programs are recorded, written and planned: the user wants to, or memory has ended.
//!
//! Runs are handed a question to ask by whoever starts them. The passes over programs need it only for
//! programs of hundred thousands of equations; a hook of the process spares all of them an argument. The lists of such
//! programs are larger than the allocator's reserve, too, so there is a question for them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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

/// What there is of a reserve once it has been set aside again.
pub(crate) enum Reserve {
    Whole,
    Part,
    Nothing,
}

/// What the layer that has the memory is asked.
pub(crate) struct Memory {
    /// Whether so many bytes can be had.
    pub spare: fn(usize) -> Result<()>,
    /// To set a reserve aside again.
    pub set_aside: fn() -> Reserve,
}

static MEMORY: OnceLock<Memory> = OnceLock::new();
/// Whether the reserve was given up since somebody last asked.
static SHORT: AtomicBool = AtomicBool::new(false);
/// The size of what could not be had then.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// Says whom to ask for memory, once for the process. Before, there is always enough.
pub(crate) fn set_memory(memory: Memory) {
    let _ = MEMORY.set(memory);
}

/// Says that the reserve had to be given up for so many bytes.
pub(crate) fn memory_ended(wanted: usize) {
    WANTED.store(wanted, Ordering::Relaxed);
    SHORT.store(true, Ordering::Release);
}

/// Whether memory has ended since the last time.
#[inline]
pub(crate) fn is_short() -> bool {
    SHORT.load(Ordering::Relaxed)
}

/// An error if it has and the reserve cannot be set aside again in full.
#[inline]
pub(crate) fn enough() -> Result<()> {
    if is_short() {
        return renewed();
    }
    Ok(())
}

#[cold]
fn renewed() -> Result<()> {
    SHORT.store(false, Ordering::Release);
    match MEMORY.get().map(|memory| (memory.set_aside)()) {
        // The reserve paid for what could not be had, and can be had again itself: there is memory for both. The operation
        // that took it may have ended long ago; this one has nothing to fail for.
        Some(Reserve::Whole) => return Ok(()),
        Some(Reserve::Part) => {}
        // Everything fails until there is a reserve again.
        Some(Reserve::Nothing) | None => SHORT.store(true, Ordering::Release),
    }
    Err(Error::Memory(WANTED.load(Ordering::Relaxed)))
}

/// What a pass over a program may take for each of its steps, in bytes: equations, and lists that double as they grow.
/// With twice as much, programs are refused that fit; programs of 300,000 steps did not end the process with this.
const PER_STEP: usize = 1 << 8;

/// Fewer steps than these are left to the reserve.
const FEW: usize = 1 << 12;

/// An error where memory for a pass of so many steps cannot be had, or has ended before.
pub(crate) fn room_for(steps: usize) -> Result<()> {
    enough()?;
    match MEMORY.get() {
        Some(memory) if steps >= FEW => (memory.spare)(steps.saturating_mul(PER_STEP)),
        _ => Ok(()),
    }
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

//! The room that `private-gemm-x86` packs operands into. Each thread takes it at its first product: twice the
//! third-level caches of the machine. Where it cannot be had the process ends, so it is asked for before.

use std::cell::Cell;
use std::sync::OnceLock;

use super::super::spare;
use super::super::strided::Shared;
use super::crates::x86;
use super::matrix::{Dims, Mat};
use crate::error::Result;

/// The least that is asked for as long as no thread has made a product.
const GUESS: usize = 64 << 20;

thread_local! {
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Takes the room of this thread, if it does not have it yet.
pub(super) fn take() -> Result<()> {
    static ROOM: OnceLock<usize> = OnceLock::new();
    if TAKEN.get() {
        return Ok(());
    }
    spare(ROOM.get().copied().unwrap_or_else(expected))?;
    let before = mapped();
    first_product();
    // Other threads may map memory meanwhile, which makes this a little more or less than it should be.
    let room = mapped().saturating_sub(before);
    ROOM.get_or_init(|| room);
    TAKEN.set(true);
    Ok(())
}

/// Twice the third-level cache, and a little, where the system tells its size.
fn expected() -> usize {
    let size = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
    let kib = (size.ok()).and_then(|text| text.trim().strip_suffix('K')?.parse::<usize>().ok());
    kib.map_or(GUESS, |kib| (2 * (kib << 10) + (1 << 20)).max(GUESS))
}

/// The process's address space in bytes; zero where the system does not tell it.
fn mapped() -> usize {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').next().and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * PAGE
}

fn first_product() {
    let (mut a, mut c) = ([1.0f64; 4], [0.0f64; 4]);
    let mat = Mat {
        at: Shared::new(a.as_mut_ptr()),
        rs: 2,
        cs: 1,
    };
    let dims = Dims { m: 2, k: 2, n: 2 };
    // SAFETY: all three are matrices of two by two, and this machine has the instructions: it is about to use them.
    unsafe { x86(dims, mat, mat, c.as_mut_ptr(), 2) };
}

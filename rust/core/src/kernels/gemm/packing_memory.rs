//! Asks for the memory that `private-gemm-x86` packs operands into, before the crate takes it.
//!
//! Each thread takes it at its first product and keeps it: twice the third-level caches of the machine. The crate ends
//! the process where it cannot have it.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::super::buffer_pool::{can_be_mapped, spare};
use super::super::shared_pointer::Shared;
use super::crates::x86;
use super::matrix::{Dims, Mat};
use crate::error::Result;

/// More than any machine's caches ask for. Where so much can be mapped, nobody has to read how large they are.
const PLENTY: usize = 64 << 30;
/// What is asked for where the system does not tell the sizes of the caches.
const GUESS: usize = 64 << 20;
/// What is lost to alignment, and what the first product needs besides.
const MARGIN: usize = 1 << 20;

/// Held from asking to taking: of two threads that ask for what is left, one is refused.
static TAKING: Mutex<()> = Mutex::new(());

thread_local! {
    static TAKEN: Cell<bool> = const { Cell::new(false) };
}

/// Takes the memory of this thread, if it does not have it yet.
pub(super) fn take() -> Result<()> {
    if TAKEN.get() {
        return Ok(());
    }
    let _guard = lock();
    if !can_be_mapped(PLENTY) {
        spare(room())?;
    }
    first_product();
    TAKEN.set(true);
    Ok(())
}

/// Locks the taking until the guard is dropped, so that a `fork` cannot copy it half done.
pub(super) fn lock() -> impl Sized {
    TAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much a thread's first product takes.
fn room() -> usize {
    static ROOM: OnceLock<usize> = OnceLock::new();
    *ROOM.get_or_init(|| third_level().map_or(GUESS, |caches| 2 * caches) + MARGIN)
}

/// What Linux tells about a cache of one processor.
struct Cache {
    level: usize,
    line: usize,
    size: usize,
    sharing: usize,
}

impl Cache {
    fn read(index: &Path) -> Option<Cache> {
        let text = |name: &str| fs::read_to_string(index.join(name)).ok();
        let number = |name| text(name)?.trim().parse().ok();
        if text("type")?.trim() == "Instruction" {
            return None;
        }
        Some(Cache {
            level: number("level")?,
            line: number("coherency_line_size")?,
            size: bytes(text("size")?.trim())?,
            sharing: members(text("shared_cpu_list")?.trim())?,
        })
    }
}

/// The bytes of `32768K`.
fn bytes(size: &str) -> Option<usize> {
    let digits = size.trim_end_matches(['K', 'M', 'G']);
    let unit = match &size[digits.len()..] {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 1,
    };
    Some(digits.parse::<usize>().ok()? * unit)
}

/// How many processors `0-3,8` names.
fn members(list: &str) -> Option<usize> {
    let ranges = list.split(',').map(|range| {
        let (start, end) = range.split_once('-').unwrap_or((range, range));
        let (start, end) = (start.parse::<usize>().ok()?, end.parse::<usize>().ok()?);
        (end + 1).checked_sub(start)
    });
    ranges.sum()
}

/// The third-level caches of all cores together, as the crate reckons (`cache.rs` of the version that `Cargo.toml`
/// pins): a core's share of what was read last, times the cores, and no less than the sizes of a small processor.
fn third_level() -> Option<usize> {
    let (mut lines, mut shares, mut threads_per_core) = ([64; 3], [0; 3], 1);
    for cpu in fs::read_dir("/sys/devices/system/cpu").ok()?.flatten() {
        if !cpu.file_name().as_encoded_bytes().starts_with(b"cpu") {
            continue;
        }
        for index in (fs::read_dir(cpu.path().join("cache")).into_iter().flatten()).flatten() {
            if !index.file_name().as_encoded_bytes().starts_with(b"index") {
                continue;
            }
            let Some(cache) = Cache::read(&index.path()) else {
                continue;
            };
            if cache.level == 1 {
                threads_per_core = cache.sharing;
            }
            let at = cache.level.wrapping_sub(1);
            if at < lines.len() && cache.line >= lines[at] {
                (lines[at], shares[at]) = (cache.line, cache.size / cache.sharing);
            }
        }
    }
    let [first, second, third] = shares.map(|share| share * threads_per_core);
    let first = first.max(32 << 10);
    let second = second.max(256 << 10).max(4 * first);
    let third = third.saturating_mul(num_cpus::get_physical());
    Some(third.max(2 << 20).max(4 * second))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_lists_are_read() {
        assert_eq!(bytes("48K"), Some(48 << 10));
        assert_eq!(bytes("1M"), Some(1 << 20));
        assert_eq!(bytes("512"), Some(512));
        assert_eq!(bytes("K"), None);
        assert_eq!(members("3"), Some(1));
        assert_eq!(members("0-3,8,10-11"), Some(7));
        assert_eq!(members("4-2"), None);
        assert_eq!(members(""), None);
    }
}

//! Where memory comes from: the system's allocator, with a bounded pool before it.
//!
//! Large blocks go back to the pool instead of to the system, because fresh pages cost more than the
//! arithmetic done on them (a page fault is about 0.25 µs per 4 KiB, more than twice the time that a
//! memory-bound kernel needs for the page). The pool keeps blocks by size class; when it is full, the sizes go first
//! that nobody has asked for or given back for longest.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::interrupt::enough;

/// Every block but small ones starts at a multiple of this many bytes: a cache line, and a full AVX-512
/// register.
pub const ALIGN: usize = 64;
/// Blocks smaller than this are aligned as the allocator does it anyway, which takes a tenth of the time.
const SMALL: usize = 1 << 10;
/// What is asked for then: enough for every element.
const SMALL_ALIGN: usize = 16;
/// Blocks smaller than this are the allocator's business; it is fast for them.
const POOLED: usize = 64 << 10;
/// The pool keeps at most this many bytes of free blocks.
const LIMIT: usize = 256 << 20;
/// From this size on huge pages are asked for, as NumPy does: touching a fresh one takes a few faults instead of a
/// thousand.
const HUGE: usize = 4 << 20;

/// Free blocks by capacity, those of the size that was used last behind the others; capacities are powers of two or
/// three quarters of one.
struct Pool {
    free: Vec<(usize, Vec<usize>)>,
    nbytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: Vec::new(),
    nbytes: 0,
});

impl Pool {
    /// The free blocks of a size, which is the one that was used last from now on.
    fn of(&mut self, capacity: usize) -> &mut Vec<usize> {
        let at = self.free.iter().position(|(c, _)| *c == capacity);
        let size = at.map_or((capacity, Vec::new()), |at| self.free.remove(at));
        self.free.push(size);
        &mut self.free.last_mut().expect("pushed just now").1
    }
}

fn pool() -> MutexGuard<'static, Pool> {
    // The pool's invariants hold between any two statements, so a poisoned lock is still good.
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the pool until the guard is dropped, so that a `fork` cannot copy it half changed.
pub fn lock_pool() -> impl Sized {
    pool()
}

/// Bytes that the pool holds at the moment for reuse.
pub fn pooled_bytes() -> usize {
    pool().nbytes
}

/// Gives every free block back to the system.
pub fn release_pool() {
    let mut pool = pool();
    for (capacity, blocks) in std::mem::take(&mut pool.free) {
        for block in blocks {
            free(block, capacity);
        }
    }
    pool.nbytes = 0;
}

/// Sees that so many bytes can be had, for code that would not survive it if they could not.
pub fn spare(bytes: usize) -> Result<()> {
    if bytes < POOLED || can_be_mapped(bytes) {
        return Ok(());
    }
    // Perhaps the allocator has it, or the pool.
    let block = fresh(bytes, bytes)?;
    free(block as usize, bytes);
    Ok(())
}

/// Whether the system has so many bytes. The allocator is not asked, since it learns from the sizes that it is given
/// back, and keeps more or less for that.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn can_be_mapped(bytes: usize) -> bool {
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: new pages, which nobody else knows of, are given back untouched.
    unsafe {
        let pages = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
        pages != libc::MAP_FAILED && libc::munmap(pages, bytes) == 0
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn can_be_mapped(_bytes: usize) -> bool {
    false
}

/// An empty list with room for so many, for what may be as long as an array.
pub fn empty_list<T>(len: usize) -> Result<Vec<T>> {
    spare(len.saturating_mul(size_of::<T>()))?;
    Ok(Vec::with_capacity(len))
}

/// Says that something small is going to be kept for arrays of so many bytes, such as the plan of a
/// program.
///
/// It stays where the allocator put it, between arrays that come and go. With ever new shapes, each a
/// little larger than what the one before left free, the heap would grow by an array for everything
/// that is kept; so its free pages go back to the system now and then.
pub fn kept_beside(bytes: usize) {
    static SINCE: AtomicUsize = AtomicUsize::new(0);
    if SINCE.fetch_add(bytes.min(LIMIT), Ordering::Relaxed) >= LIMIT {
        SINCE.store(0, Ordering::Relaxed);
        trim_heap();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_heap() {
    // SAFETY: it takes no pointer, and may be called at any time from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_heap() {}

/// Asks for huge pages behind fresh memory.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
fn advise(block: *mut u8, capacity: usize) {
    const PAGE: usize = 4096;
    let lead = block.align_offset(PAGE);
    // SAFETY: the pages lie in the block, which is ours. It is advice: what comes of it changes no byte.
    unsafe {
        let start = block.add(lead);
        libc::madvise(
            start.cast(),
            (capacity - lead) / PAGE * PAGE,
            libc::MADV_HUGEPAGE,
        );
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
fn advise(_block: *mut u8, _capacity: usize) {}

fn layout(capacity: usize) -> Layout {
    let align = if capacity < SMALL { SMALL_ALIGN } else { ALIGN };
    Layout::from_size_align(capacity, align).expect("capacity is below isize::MAX")
}

/// Rounds up to a size class, so that arrays of similar sizes can share blocks.
fn size_class(bytes: usize) -> usize {
    if bytes < POOLED {
        return bytes.next_multiple_of(ALIGN).max(ALIGN);
    }
    let power = bytes.next_power_of_two();
    let less = power / 4 * 3;
    if bytes <= less { less } else { power }
}

/// A block of the allocator's, for an array of so many bytes.
fn fresh(capacity: usize, bytes: usize) -> Result<*mut u8> {
    if bytes > isize::MAX as usize / 2 {
        return Err(Error::Memory(bytes));
    }
    // SAFETY: the layout has a non-zero size.
    let mut block = unsafe { System.alloc(layout(capacity)) };
    if block.is_null() {
        // Perhaps what the pool keeps is what is missing.
        release_pool();
        // SAFETY: as above.
        block = unsafe { System.alloc(layout(capacity)) };
    }
    if block.is_null() {
        return Err(Error::Memory(bytes));
    }
    if capacity >= HUGE {
        advise(block, capacity);
    }
    Ok(block)
}

fn free(block: usize, capacity: usize) {
    // SAFETY: it came from `fresh`, with this capacity; the pool gives a block to one at a time.
    unsafe { System.dealloc(block as *mut u8, layout(capacity)) };
}

/// Uninitialised memory of at least this size, and its capacity.
pub(super) fn take(bytes: usize) -> Result<(*mut u8, usize)> {
    enough()?;
    if bytes > isize::MAX as usize / 2 {
        return Err(Error::Memory(bytes));
    }
    let capacity = size_class(bytes);
    if capacity >= POOLED {
        let mut pool = pool();
        if let Some(block) = pool.of(capacity).pop() {
            pool.nbytes -= capacity;
            return Ok((block as *mut u8, capacity));
        }
    }
    Ok((fresh(capacity, bytes)?, capacity))
}

/// Takes a block back.
///
/// # Safety
/// It was taken with this capacity, and nobody uses it any more.
pub(super) unsafe fn give(block: *mut u8, capacity: usize) {
    if !(POOLED..=LIMIT).contains(&capacity) {
        return free(block as usize, capacity);
    }
    let mut unused: Vec<(usize, usize)> = Vec::new();
    let mut pool = pool();
    pool.of(capacity).push(block as usize);
    pool.nbytes += capacity;
    while pool.nbytes > LIMIT {
        // The size that was used last comes last, and fits alone.
        let (capacity, blocks) = &mut pool.free[0];
        let capacity = *capacity;
        match blocks.pop() {
            Some(block) => {
                unused.push((block, capacity));
                pool.nbytes -= capacity;
            }
            None => drop(pool.free.remove(0)),
        }
    }
    drop(pool);
    for (block, capacity) in unused {
        free(block, capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_of(capacities: &[usize]) -> Pool {
        let mut pool = Pool {
            free: Vec::new(),
            nbytes: 0,
        };
        for &capacity in capacities {
            pool.of(capacity);
        }
        pool
    }

    #[test]
    fn the_size_that_was_used_last_comes_last() {
        let mut pool = pool_of(&[1, 2, 3]);
        let order = |pool: &Pool| pool.free.iter().map(|f| f.0).collect::<Vec<_>>();
        for (capacity, want) in [
            (1, [2, 3, 1]),
            (3, [2, 1, 3]),
            (3, [2, 1, 3]),
            (2, [1, 3, 2]),
        ] {
            pool.of(capacity).push(capacity * 10);
            assert_eq!(order(&pool), want);
            assert_eq!(pool.free[2].1.last(), Some(&(capacity * 10)));
        }
    }

    #[test]
    fn blocks_are_reused_and_bounded() {
        let sizes = [1 << 20, 100 << 20, 150 << 20, 200 << 20, 300 << 20];
        for bytes in sizes {
            let (block, capacity) = take(bytes).unwrap();
            assert_eq!(block.addr() % ALIGN, 0);
            assert!(capacity >= bytes);
            // SAFETY: it was taken just now, and its first and last byte are written.
            unsafe {
                block.write(1);
                block.add(bytes - 1).write(1);
                give(block, capacity);
            }
            assert!(pooled_bytes() <= LIMIT);
        }
        assert!(take(usize::MAX).is_err());
        assert!(take(1 << 60).is_err());
    }
}

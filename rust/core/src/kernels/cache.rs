//! Hints about what is worth a place in the caches.
#![allow(clippy::cast_ptr_alignment)]

/// Asks for the cache lines of `bytes` bytes in the second-level cache: they are read soon, but not next. Any
/// address will do.
#[inline(always)]
pub(super) fn fetch<T>(p: *const T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which touches nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast::<i8>().wrapping_add(line)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (p, bytes);
}

/// Whether [`write_past`] goes past the caches on this machine.
pub(super) const WRITES_PAST: bool = cfg!(target_arch = "x86_64");

/// Copies bytes to memory that is not read before it would have left the caches anyway: its lines are not fetched
/// before they are written, and displace nothing. [`written`] has to follow before others read them.
///
/// # Safety
/// `from` and `to` are valid for as many bytes, and do not overlap.
pub(super) unsafe fn write_past(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's contract; whole vectors are written where they are aligned.
    unsafe {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        const VECTOR: usize = size_of::<__m128i>();
        let head = to.align_offset(VECTOR).min(bytes);
        to.copy_from_nonoverlapping(from, head);
        let vectors = (bytes - head) / VECTOR;
        let source = from.add(head).cast::<__m128i>();
        let target = to.add(head).cast::<__m128i>();
        for i in 0..vectors {
            _mm_stream_si128(target.add(i), _mm_loadu_si128(source.add(i)));
        }
        let done = head + vectors * VECTOR;
        to.add(done)
            .copy_from_nonoverlapping(from.add(done), bytes - done);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract.
    unsafe {
        to.copy_from_nonoverlapping(from, bytes)
    };
}

/// What [`write_past`] wrote before is seen by everybody from now on who is told so.
pub(super) fn written() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every machine of the architecture has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_from_and_at_any_address() {
        let from: Vec<u8> = (0..200).map(|i| i as u8).collect();
        for start in 0..20 {
            for bytes in [0, 1, 5, 16, 31, 64, 150] {
                let mut to = vec![255u8; 200];
                // SAFETY: both lie in their vectors.
                unsafe { write_past(from.as_ptr().add(3), to.as_mut_ptr().add(start), bytes) };
                written();
                let mut want = vec![255u8; 200];
                want[start..start + bytes].copy_from_slice(&from[3..3 + bytes]);
                assert_eq!(to, want);
            }
        }
    }
}

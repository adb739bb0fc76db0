//! Remembers what a large array held in a 256th of its memory, and says later whether it still holds that.

use std::sync::{Mutex, PoisonError};

use super::threads::{COMPARED, all_pieces};
use crate::kernels::{BLOCK, Sums, block_sums, have_sums};

/// Sums that belong to a piece of the bytes.
const PIECE: usize = COMPARED / BLOCK;

/// Sums of the blocks of an array's bytes.
#[derive(Debug)]
pub struct Fingerprint {
    len: usize,
    sums: Box<[Sums]>,
}

impl Fingerprint {
    /// Of bytes as they are now. The caller holds no lock that a run waits for.
    pub fn of(bytes: &[u8]) -> Fingerprint {
        let len = bytes.len();
        let mut sums = vec![[0; 2]; len.div_ceil(BLOCK)].into_boxed_slice();
        // Each is locked once.
        let parts: Vec<Mutex<&mut [Sums]>> = sums.chunks_mut(PIECE).map(Mutex::new).collect();
        all_pieces(len, |i, piece| {
            let mut sums = parts[i].lock().unwrap_or_else(PoisonError::into_inner);
            block_sums(&bytes[piece], &mut sums);
            true
        });
        drop(parts);
        Fingerprint { len, sums }
    }

    /// Whether bytes are those that it was made of; if not, this says so but for one in 2⁶⁴ keys
    /// (`kernels/fingerprint.rs`). The caller holds no lock that a run waits for.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let has_sums = |i: usize, piece| {
            let sums = &self.sums[i * PIECE..];
            have_sums(&bytes[piece], sums)
        };
        bytes.len() == self.len && all_pieces(self.len, has_sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_lengths() {
        for len in [0, 1, BLOCK, BLOCK + 1, COMPARED - 1, 5 * COMPARED + 3] {
            let mut bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let known = Fingerprint::of(&bytes);
            assert!(known.is_of(&bytes));
            assert!(!known.is_of(&[&bytes[..], &[0]].concat()));
            for at in [0, len / 2, len.saturating_sub(1)] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 64;
                    assert!(!known.is_of(&bytes), "byte {at} of {len}");
                    bytes[at] ^= 64;
                }
            }
        }
    }
}

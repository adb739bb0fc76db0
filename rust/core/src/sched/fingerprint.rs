//! Remembers what a large array held in a 256th of its memory, and says later whether it still holds that.

use rayon::prelude::*;

use super::threads::{self, COMPARED};
use crate::kernels::{BLOCK, Sums, block_sums, have_sums};

/// Sums of the blocks of an array's bytes.
#[derive(Debug)]
pub struct Fingerprint {
    len: usize,
    sums: Box<[Sums]>,
}

impl Fingerprint {
    /// Of bytes as they are now. The caller holds no lock that a run waits for.
    pub fn of(bytes: &[u8]) -> Fingerprint {
        let mut sums = vec![[0; 2]; bytes.len().div_ceil(BLOCK)].into_boxed_slice();
        let parts = sums.par_chunks_mut(COMPARED / BLOCK);
        match threads::pool_for(bytes.len()) {
            Some(pool) => pool.install(|| {
                (bytes.par_chunks(COMPARED).zip(parts))
                    .for_each(|(bytes, sums)| block_sums(bytes, sums));
            }),
            None => block_sums(bytes, &mut sums),
        }
        Fingerprint {
            len: bytes.len(),
            sums,
        }
    }

    /// Whether bytes are those that it was made of; if not, this says so but for one in 2⁶⁴ keys
    /// (`kernels/fingerprint.rs`). The caller holds no lock that a run waits for.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        if bytes.len() != self.len {
            return false;
        }
        match threads::pool_for(bytes.len()) {
            Some(pool) => pool.install(|| {
                (bytes.par_chunks(COMPARED))
                    .zip(self.sums.par_chunks(COMPARED / BLOCK))
                    .all(|(bytes, sums)| have_sums(bytes, sums))
            }),
            None => have_sums(bytes, &self.sums),
        }
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

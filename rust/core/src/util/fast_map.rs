//! Hash tables for the crate's own counters and structures, which recording and closing ask all the time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Multiply-and-rotate hashing as in Firefox and rustc: two instructions a word, no defence against
/// chosen keys, which tables over our own counters and structures do not need.
#[derive(Debug, Default, Clone, Copy)]
pub struct FastHasher(u64);

/// 2^64 divided by the golden ratio.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

impl FastHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(SEED);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.add(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.add(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    fn finish(&self) -> u64 {
        // The low bits select the bucket; mix the high ones into them.
        self.0 ^ (self.0 >> 32)
    }
}

/// A hash map with [`FastHasher`]. The order of its entries decides nothing: order comes from
/// indices.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

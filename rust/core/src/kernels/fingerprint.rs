//! Sums of blocks of bytes that differ where the bytes do: what tells whether a large array has changed, where a copy to
//! compare with would take as much memory as the array.
//!
//! NH of Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication" (CRYPTO 1999), with
//! words of 32 bits, which vectors multiply. Of blocks of one length that differ, whatever they are, the sums are equal for
//! at most one in 2³² keys (theorem 4.2), so that both of two sums are for one in 2⁶⁴. The keys are drawn in each process.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use super::cache::fetch;
use super::simd_level::{Level, leveled};

/// As many bytes have two sums. A key is as long, and both stay in the first-level cache.
pub const BLOCK: usize = 4096;
const WORDS: usize = BLOCK / 8;
/// Words that are looked at together.
const LANES: usize = 16;
/// How many bytes ahead are asked for: the processor itself does not look beyond the end of a page.
const AHEAD: usize = 1 << 10;

/// The two sums of a block.
pub type Sums = [u64; 2];

fn keys() -> &'static [[u64; WORDS]; 2] {
    static KEYS: OnceLock<Box<[[u64; WORDS]; 2]>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let random = RandomState::new();
        let key = |sum: usize| std::array::from_fn(|i| random.hash_one((sum, i)));
        Box::new(std::array::from_fn(key))
    })
}

leveled! {
    fn sums_at[](bytes: &[u8], sums: &mut [Sums]) {
        for (block, sum) in bytes.chunks(BLOCK).zip(sums) {
            *sum = sums_of(block, keys());
        }
    }
}

leveled! {
    fn same_at[](bytes: &[u8], sums: &[Sums]) -> bool {
        for (block, &sum) in bytes.chunks(BLOCK).zip(sums) {
            if sums_of(block, keys()) != sum {
                return false;
            }
        }
        true
    }
}

/// The sums of a block, which is filled up with zeros.
#[inline(always)]
fn sums_of(block: &[u8], keys: &[[u64; WORDS]; 2]) -> Sums {
    let (words, rest) = block.as_chunks::<8>();
    let (lines, words_left) = words.as_chunks::<LANES>();
    let keys_of_lines = (keys[0].as_chunks::<LANES>().0.iter()).zip(keys[1].as_chunks::<LANES>().0);
    // One by one, as vectors want it.
    let (mut first, mut second) = ([0u64; LANES], [0u64; LANES]);
    for (line, (a, b)) in lines.iter().zip(keys_of_lines) {
        fetch(line.as_ptr().wrapping_byte_add(AHEAD), 8 * LANES);
        for i in 0..LANES {
            let word = u64::from_le_bytes(line[i]);
            first[i] = first[i].wrapping_add(product(word, a[i]));
            second[i] = second[i].wrapping_add(product(word, b[i]));
        }
    }
    let total = |lanes: [u64; LANES]| lanes.iter().fold(0, |sum: u64, &x| sum.wrapping_add(x));
    let mut sums = [total(first), total(second)];
    for (i, word) in words_left.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        for (sum, key) in sums.iter_mut().zip(keys) {
            *sum = sum.wrapping_add(product(word, key[lines.len() * LANES + i]));
        }
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let word = u64::from_le_bytes(last);
        for (sum, key) in sums.iter_mut().zip(keys) {
            *sum = sum.wrapping_add(product(word, key[words.len()]));
        }
    }
    sums
}

/// The product of the halves of a word, each with its half of the key added.
#[inline(always)]
fn product(word: u64, key: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let low = word.wrapping_add(key & LOW) & LOW;
    let high = (word >> 32).wrapping_add(key >> 32) & LOW;
    low * high
}

/// Writes the sums of each block of bytes.
pub fn block_sums(bytes: &[u8], sums: &mut [Sums]) {
    // SAFETY: the machine supports the level.
    unsafe { sums_at(Level::best())(bytes, sums) }
}

/// Whether the blocks of bytes have these sums.
pub fn have_sums(bytes: &[u8], sums: &[Sums]) -> bool {
    // SAFETY: the machine supports the level.
    unsafe { same_at(Level::best())(bytes, sums) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition.
    fn reference(block: &[u8]) -> Sums {
        let half = |i: usize| {
            let byte = |k: usize| u32::from(*block.get(4 * i + k).unwrap_or(&0)) << (8 * k);
            (0..4).map(byte).sum::<u32>()
        };
        keys().map(|key| {
            let term = |i: usize| {
                let low = half(2 * i).wrapping_add(key[i] as u32);
                let high = half(2 * i + 1).wrapping_add((key[i] >> 32) as u32);
                u64::from(low) * u64::from(high)
            };
            (0..block.len().div_ceil(8))
                .map(term)
                .fold(0, u64::wrapping_add)
        })
    }

    #[test]
    fn every_level_gives_the_sums_of_the_definition() {
        for len in [0, 1, 7, 8, 31, 32, 33, 64, 1000, BLOCK - 1, BLOCK] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * i + i / 7) as u8).collect();
            for level in Level::ALL.into_iter().filter(|l| l.is_supported()) {
                let mut sums = [[0; 2]];
                // SAFETY: the machine supports the level.
                unsafe { sums_at(level)(&bytes, &mut sums) };
                assert_eq!(sums[0], reference(&bytes), "{len} bytes, {level:?}");
                // SAFETY: the machine supports the level.
                assert!(unsafe { same_at(level)(&bytes, &sums) });
            }
        }
    }

    #[test]
    fn any_bit_that_changes_is_seen() {
        let mut bytes: Vec<u8> = (0..3 * BLOCK + 17).map(|i| (i / 3) as u8).collect();
        let mut sums = vec![[0; 2]; bytes.len().div_ceil(BLOCK)];
        block_sums(&bytes, &mut sums);
        for at in (0..bytes.len()).step_by(13).chain([bytes.len() - 1]) {
            bytes[at] ^= 1 << (at % 8);
            assert!(!have_sums(&bytes, &sums), "byte {at}");
            bytes[at] ^= 1 << (at % 8);
        }
        // Blocks that change places, and words within one.
        bytes.rotate_left(BLOCK);
        assert!(!have_sums(&bytes, &sums));
        bytes.rotate_right(BLOCK);
        bytes[..16].rotate_left(8);
        assert!(!have_sums(&bytes, &sums));
        bytes[..16].rotate_right(8);
        assert!(have_sums(&bytes, &sums));
    }
}

//! Sums of blocks of bytes that differ where the bytes do: what tells whether a large array has changed, where a copy to
//! compare with would take as much memory as the array.
//!
//! NH of Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication" (CRYPTO 1999), with
//! words of 64 bits. Of blocks of one length that differ, the sums are equal for at most one in 2⁶⁴ keys, whatever the
//! blocks are (theorem 4.2); the key is drawn at random in each process.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use super::simd_level::{Level, leveled};

/// As many bytes have one sum. The key is as long, and stays in the first-level cache.
pub const BLOCK: usize = 4096;
const WORDS: usize = BLOCK / 8;

fn key() -> &'static [u64; WORDS] {
    static KEY: OnceLock<Box<[u64; WORDS]>> = OnceLock::new();
    KEY.get_or_init(|| {
        let random = RandomState::new();
        Box::new(std::array::from_fn(|i| random.hash_one(i)))
    })
}

leveled! {
    fn sums_at[](bytes: &[u8], sums: &mut [u128]) {
        for (block, sum) in bytes.chunks(BLOCK).zip(sums) {
            *sum = sum_of(block, key());
        }
    }
}

leveled! {
    fn same_at[](bytes: &[u8], sums: &[u128]) -> bool {
        bytes.chunks(BLOCK).zip(sums).all(|(block, &sum)| sum_of(block, key()) == sum)
    }
}

/// The sum of a block, which is filled up with zeros.
#[inline(always)]
fn sum_of(block: &[u8], key: &[u64; WORDS]) -> u128 {
    let (quads, rest) = block.as_chunks::<32>();
    let (keys, _) = key.as_chunks::<4>();
    // Two sums, as an addition waits for the one before it.
    let mut sums = [0; 2];
    for (quad, key) in quads.iter().zip(keys) {
        add(&mut sums, quad, key);
    }
    if !rest.is_empty() {
        let key = &keys[quads.len()];
        let mut last = [0; 32];
        last[..rest.len()].copy_from_slice(rest);
        add(&mut sums, &last, key);
    }
    sums[0].wrapping_add(sums[1])
}

#[inline(always)]
fn add(sums: &mut [u128; 2], quad: &[u8; 32], key: &[u64; 4]) {
    let (words, _) = quad.as_chunks::<8>();
    let word = |i: usize| u128::from(u64::from_le_bytes(words[i]).wrapping_add(key[i]));
    sums[0] = sums[0].wrapping_add(word(0) * word(1));
    sums[1] = sums[1].wrapping_add(word(2) * word(3));
}

/// Writes the sum of each block of bytes.
pub fn block_sums(bytes: &[u8], sums: &mut [u128]) {
    // SAFETY: the machine supports the level.
    unsafe { sums_at(Level::best())(bytes, sums) }
}

/// Whether the blocks of bytes have these sums.
pub fn have_sums(bytes: &[u8], sums: &[u128]) -> bool {
    // SAFETY: the machine supports the level.
    unsafe { same_at(Level::best())(bytes, sums) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition.
    fn reference(block: &[u8]) -> u128 {
        let mut bytes = block.to_vec();
        bytes.resize(block.len().next_multiple_of(32), 0);
        let word = |w: &[u8]| w.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b));
        let words: Vec<u128> = (bytes.chunks(8).zip(key()))
            .map(|(w, key)| word(w).wrapping_add(*key).into())
            .collect();
        let products = words.chunks(2).map(|pair| pair[0] * pair[1]);
        products.fold(0, u128::wrapping_add)
    }

    #[test]
    fn every_level_gives_the_sums_of_the_definition() {
        for len in [0, 1, 7, 8, 31, 32, 33, 64, 1000, BLOCK - 1, BLOCK] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * i + i / 7) as u8).collect();
            for level in Level::ALL.into_iter().filter(|l| l.is_supported()) {
                let mut sums = [0];
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
        let mut sums = vec![0; bytes.len().div_ceil(BLOCK)];
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

//! Reduction of huge angles modulo pi/2.
//!
//! After Payne and Hanek, "Radian reduction for trigonometric functions" (1983): x = M 2^e, and of
//! the product M 2^e (2/pi) only the bits near the binary point matter. Bits of 2/pi whose product
//! with M 2^e is a multiple of 4 are skipped, 256 bits are taken from there, and the product
//! modulo 4 is exact fixed point with 2 integer and 254 fraction bits. The nearest double to a
//! multiple of pi/2 lies about 2^-62 from it, so more than 100 good bits always remain.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

use super::building_blocks::{ONE_BITS, fast_two_sum};

/// One zero word, then the first 1280 bits of 2/pi.
const TWO_OVER_PI: [u64; 21] = [
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
];

const PIO2: f64 = std::f64::consts::FRAC_PI_2;
const PIO2_LO: f64 = 6.123233995736766e-17;

/// The quadrant (low two bits) and remainder `hi + lo` in [-pi/4, pi/4] of |x| >= 2^30; NaN
/// remainders for infinities and NaN.
#[cold]
pub(super) fn payne_hanek(x: f64) -> (u64, f64, f64) {
    if !x.is_finite() {
        return (0, f64::NAN, f64::NAN);
    }
    let bits = x.to_bits();
    let biased = ((bits >> 52) & 0x7ff) as usize;
    let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    // e = biased - 1075 >= -23; the window starts at bit e - 2 of 2/pi, 64 later in the table.
    let start = biased + 62 - 1075;
    let (word, shift) = (start / 64, start % 64);
    // Four words of the window, most significant first.
    let mut window = [0u64; 4];
    for (i, w) in window.iter_mut().enumerate() {
        let pair =
            (u128::from(TWO_OVER_PI[word + i]) << 64) | u128::from(TWO_OVER_PI[word + i + 1]);
        *w = ((pair << shift) >> 64) as u64;
    }
    // The product modulo 2^256, least significant word first.
    let mut product = [0u64; 4];
    let mut carry = 0u128;
    for (p, &w) in product.iter_mut().rev().zip(window.iter().rev()) {
        carry += u128::from(mantissa) * u128::from(w);
        *p = carry as u64;
        carry >>= 64;
    }
    let mut quadrant = product[0] >> 62;
    let mut hi = (u128::from(product[0]) << 64) | u128::from(product[1]);
    let mut lo = (u128::from(product[2]) << 64) | u128::from(product[3]);
    // Drop the two integer bits; a fraction of one half or more goes to the next quadrant.
    hi = (hi << 2) | (lo >> 126);
    lo <<= 2;
    let negative = hi >> 127 != 0;
    if negative {
        quadrant += 1;
        lo = lo.wrapping_neg();
        hi = if lo == 0 { hi.wrapping_neg() } else { !hi };
    }
    // The leading bit is never far down (about 62 places at most): normalise and take two times
    // 53 bits, exact in two floats.
    let zeros = hi.leading_zeros();
    let top = if zeros == 0 {
        hi
    } else {
        (hi << zeros) | (lo >> (128 - zeros))
    };
    let unit = f64::from_bits(ONE_BITS - (u64::from(zeros) << 52));
    let a = ((top >> 75) as u64) as f64 * f64::from_bits((1023 - 53) << 52);
    let b = (((top >> 22) as u64) & ((1 << 53) - 1)) as f64 * f64::from_bits((1023 - 106) << 52);
    let r = a * PIO2;
    let rl = a.mul_add(PIO2, -r) + a.mul_add(PIO2_LO, b * PIO2);
    let (r, rl) = fast_two_sum(r * unit, rl * unit);
    let flip = negative ^ (x < 0.0);
    let quadrant = if x < 0.0 {
        quadrant.wrapping_neg()
    } else {
        quadrant
    };
    if flip {
        (quadrant, -r, -rl)
    } else {
        (quadrant, r, rl)
    }
}

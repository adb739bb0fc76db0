//! The exponentials in `f64`.
//!
//! All reduce by Cody and Waite's method (Software Manual for the Elementary Functions, 1980) to
//! |r| <= ln(2)/2, evaluate one minimax polynomial and rebuild by an exact power of two.
#![allow(clippy::excessive_precision, clippy::unreadable_literal)]

use super::building_blocks::{
    LN2, LN2_TAIL, LOG2E, fast_two_sum, horner_in_pairs, pow2_bits, round_int, round_product,
    scale, sel,
};
use super::coeffs;

/// e^x.
#[inline(always)]
#[must_use]
pub fn exp(x: f64) -> f64 {
    // The clamps lie beyond overflow and total underflow; comparisons leave a NaN as it is.
    let x = sel(x > 710.0, 710.0, x);
    let x = sel(x < -746.0, -746.0, x);
    let (n, _) = round_product(x, LOG2E);
    let r = n.mul_add(-LN2_TAIL, n.mul_add(-LN2, x));
    let rr = r * r;
    let p = rr.mul_add(horner_in_pairs(r, rr, &coeffs::EXP), r) + 1.0;
    scale(p, n)
}

/// 2^x.
#[inline(always)]
#[must_use]
pub fn exp2(x: f64) -> f64 {
    let x = sel(x > 1025.0, 1025.0, x);
    let x = sel(x < -1080.0, -1080.0, x);
    let (n, _) = round_int(x);
    let r = x - n;
    // 2^r - 1 = r (ln 2 + r Q(r)), the leading product kept with its rounding error.
    let hi = r * LN2;
    let lo = r.mul_add(LN2, -hi);
    let (p, err) = fast_two_sum(1.0, hi);
    let rr = r * r;
    let tail = rr.mul_add(horner_in_pairs(r, rr, &coeffs::EXP2), lo);
    scale(p + (err + tail), n)
}

/// e^x - 1, accurate near zero.
#[inline(always)]
#[must_use]
pub fn expm1(x: f64) -> f64 {
    let y = sel(x > 710.0, 710.0, x);
    let y = sel(y < -60.0, -60.0, y);
    let (h, l) = expm1_half(y);
    // Below 2^-54 the answer is x; this also keeps -0 and the subnormals.
    sel(x.abs() < 5.5e-17, x, 2.0 * (h + l))
}

/// Half of `e^x - 1` as `hi + lo`, for -60 <= x <= 710 (half, so that 2^1024 does not appear).
#[inline(always)]
pub(super) fn expm1_half(x: f64) -> (f64, f64) {
    let (n, bits) = round_product(x, LOG2E);
    let t = n.mul_add(-LN2, x);
    let r = n.mul_add(-LN2_TAIL, t);
    let rl = n.mul_add(-LN2_TAIL, t - r);
    let rr = r * r;
    let q = rr.mul_add(horner_in_pairs(r, rr, &coeffs::EXP), rl);
    let s = pow2_bits(bits.wrapping_sub(1));
    let base = s - 0.5;
    // base + s r, whose error the second fused step recovers; s q is the small rest.
    let h = s.mul_add(r, base);
    let l = s.mul_add(r, base - h);
    fast_two_sum(h, s.mul_add(q, l))
}

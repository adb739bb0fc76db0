//! Sine, cosine and tangent in `f64`.
//!
//! Up to |x| = 2^30 the argument is reduced by a three-part pi/2 (Cody and Waite 1980, with fused
//! multiply-adds, which make the first difference exact), and goes into one sine and one cosine
//! polynomial, of which the quadrant picks: so [`sin_cos`] takes little longer than one of them. The
//! tangent keeps the remainder as `hi + lo`, because two errors of a quotient add up.
//!
//! Larger arguments are rare and need the Payne-Hanek reduction of `reduce.rs`, which does not
//! vectorise: the fast functions return a meaningless value there, [`needs_fixup`] says so, and
//! [`sin_slow`], [`cos_slow`], [`tan_slow`] are right for every argument.
#![allow(clippy::excessive_precision, clippy::unreadable_literal)]

use super::building_blocks::{
    SIGN_BIT, fast_two_sum, horner_in_pairs, round_product, sel, two_sum,
};
use super::coeffs;
use super::reduce::payne_hanek;

/// The fast reduction serves |x| up to here.
const LIMIT: f64 = 1073741824.0;
const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;
const PIO2: f64 = std::f64::consts::FRAC_PI_2;
const PIO2_MID: f64 = 6.123233995736766e-17;
const PIO2_LOW: f64 = -1.4973849048591698e-33;
/// Below this, tan x = x to the last bit; selecting keeps -0 and the subnormals.
const TINY: f64 = 1e-8;

/// Whether `sin`, `cos` and `tan` need their slow form for this argument (true at infinity, false
/// at NaN, which the fast form passes on).
#[inline(always)]
#[must_use]
pub fn needs_fixup(x: f64) -> bool {
    x.abs() > LIMIT
}

/// The quadrant (in the low two bits) and the remainder in [-pi/4, pi/4].
#[inline(always)]
fn reduce(x: f64) -> (u64, f64) {
    let (n, quadrant) = round_product(x, TWO_OVER_PI);
    let w = n.mul_add(-PIO2, x);
    (quadrant, n.mul_add(-PIO2_LOW, n.mul_add(-PIO2_MID, w)))
}

/// As [`reduce`], with the remainder as `hi + lo`.
#[inline(always)]
fn reduce_twice(x: f64) -> (u64, f64, f64) {
    let (n, quadrant) = round_product(x, TWO_OVER_PI);
    let w = n.mul_add(-PIO2, x);
    // Near a multiple of pi/2 the second part may cancel most of `w`: both its product and the
    // subtraction keep their rounding errors.
    let p = n * PIO2_MID;
    let pl = n.mul_add(PIO2_MID, -p);
    let (r, rl) = two_sum(w, -p);
    (quadrant, r, rl - n.mul_add(PIO2_LOW, pl))
}

/// sin and cos of the remainder.
#[inline(always)]
fn sin_cos_kernel(r: f64) -> (f64, f64) {
    let z = r * r;
    let zz = z * z;
    let s = (r * z).mul_add(horner_in_pairs(z, zz, &coeffs::SIN), r);
    let c = z.mul_add(z.mul_add(horner_in_pairs(z, zz, &coeffs::COS), -0.5), 1.0);
    (s, c)
}

/// sin and cos of a remainder `hi + lo`, each as `hi + lo` with `lo` not yet added.
#[inline(always)]
fn sin_cos_twice(r: f64, rl: f64) -> (f64, f64, f64, f64) {
    let z = r * r;
    let zz = z * z;
    let hz = 0.5 * z;
    let w = 1.0 - hz;
    let sin_lo = (r * z).mul_add(horner_in_pairs(z, zz, &coeffs::SIN), rl * w);
    let cos_lo = zz.mul_add(horner_in_pairs(z, zz, &coeffs::COS), (1.0 - w) - hz) - r * rl;
    (r, sin_lo, w, cos_lo)
}

/// sin(r) or cos(r) by quadrant, with the sign that it and the sign bit of `x` make.
#[inline(always)]
fn pick(quadrant: u64, x: f64, (s, c): (f64, f64)) -> f64 {
    let v = sel((quadrant & 1) != 0, c, s);
    f64::from_bits(v.to_bits() ^ (((quadrant << 62) ^ x.to_bits()) & SIGN_BIT))
}

/// tan(r) or -1/tan(r), by quadrant.
#[inline(always)]
fn pick_tan(quadrant: u64, r: f64, rl: f64) -> f64 {
    let (s, sl, c, cl) = sin_cos_twice(r, rl);
    let (s, sl) = fast_two_sum(s, sl);
    let (c, cl) = fast_two_sum(c, cl);
    let odd = (quadrant & 1) != 0;
    let (nh, nl) = (sel(odd, -c, s), sel(odd, -cl, sl));
    let (dh, dl) = (sel(odd, s, c), sel(odd, sl, cl));
    // As `div_dd`; the quotient is never extreme because |r| > 2^-62.
    let (q, ql) = super::building_blocks::div_dd(nh, nl, dh, dl);
    q + ql
}

/// The sine and the cosine, for |x| <= 2^30 (see [`needs_fixup`]).
#[inline(always)]
#[must_use]
pub fn sin_cos(x: f64) -> (f64, f64) {
    // The sign waits until the end, so that -0 keeps it.
    let (quadrant, r) = reduce(x.abs());
    let parts = sin_cos_kernel(r);
    (
        pick(quadrant, x, parts),
        pick(quadrant.wrapping_add(1), 0.0, parts),
    )
}

/// The sine, for |x| <= 2^30 (see [`needs_fixup`]).
#[inline(always)]
#[must_use]
pub fn sin(x: f64) -> f64 {
    sin_cos(x).0
}

/// The cosine, for |x| <= 2^30 (see [`needs_fixup`]).
#[inline(always)]
#[must_use]
pub fn cos(x: f64) -> f64 {
    sin_cos(x).1
}

/// The tangent, for |x| <= 2^30 (see [`needs_fixup`]).
#[inline(always)]
#[must_use]
pub fn tan(x: f64) -> f64 {
    let (quadrant, r, rl) = reduce_twice(x);
    sel(x.abs() < TINY, x, pick_tan(quadrant, r, rl))
}

/// The sine and the cosine for every argument, scalar.
#[cold]
#[must_use]
pub fn sin_cos_slow(x: f64) -> (f64, f64) {
    if needs_fixup(x) {
        let (quadrant, r, _) = payne_hanek(x);
        let parts = sin_cos_kernel(r);
        (
            pick(quadrant, 0.0, parts),
            pick(quadrant.wrapping_add(1), 0.0, parts),
        )
    } else {
        sin_cos(x)
    }
}

/// The sine for every argument, scalar.
#[cold]
#[must_use]
pub fn sin_slow(x: f64) -> f64 {
    sin_cos_slow(x).0
}

/// The cosine for every argument, scalar.
#[cold]
#[must_use]
pub fn cos_slow(x: f64) -> f64 {
    sin_cos_slow(x).1
}

/// The tangent for every argument, scalar.
#[cold]
#[must_use]
pub fn tan_slow(x: f64) -> f64 {
    if needs_fixup(x) {
        let (quadrant, r, rl) = payne_hanek(x);
        pick_tan(quadrant, r, rl)
    } else {
        tan(x)
    }
}

//! The logarithms in `f64`.
//!
//! All take the octave out of the exponent bits and use fdlibm's form of the atanh series (Sun
//! Microsystems, 1993) on [sqrt(1/2), sqrt(2)]; see `building_blocks::log_dd`.
#![allow(clippy::excessive_precision, clippy::unreadable_literal)]

use super::building_blocks::{
    LN2_HI, LN2_LO, LOG2E, LOG2E_LO, fast_two_sum, horner_in_pairs, log_dd, log_split,
};
use super::building_blocks::{log1p_dd, sel};
use super::coeffs;

const LOG10E: f64 = std::f64::consts::LOG10_E;
const LOG10E_LO: f64 = 1.098319650216765e-17;
/// log10(2) to 42 bits, exact when multiplied by an exponent, and the rest.
const LOG10_2_HI: f64 = 0.30102999566395283;
const LOG10_2_LO: f64 = 2.8363394551044964e-14;

/// Puts in the values at 0, infinity and outside the domain that logarithms share.
#[inline(always)]
fn log_special(x: f64, r: f64) -> f64 {
    let edge = sel(x == 0.0, f64::NEG_INFINITY, f64::NAN);
    let r = sel(x > 0.0, r, edge);
    sel(x == f64::INFINITY, x, r)
}

/// The natural logarithm.
#[inline(always)]
#[must_use]
pub fn log(x: f64) -> f64 {
    let (k, m) = log_split(x);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * z.mul_add(horner_in_pairs(z, z * z, &coeffs::LOG), 0.6666666666666666);
    let h = 0.5 * f * f;
    let (hi, lo) = fast_two_sum(k * LN2_HI, f);
    let rest = s.mul_add(h + r, k.mul_add(LN2_LO, lo) - h);
    log_special(x, hi + rest)
}

/// The logarithm to base 2, exact at powers of two.
#[inline(always)]
#[must_use]
pub fn log2(x: f64) -> f64 {
    let (k, m) = log_split(x);
    let (h, l) = log_dd(0.0, m - 1.0, 0.0);
    let p = h * LOG2E;
    let pl = h.mul_add(LOG2E, -p) + h.mul_add(LOG2E_LO, l * LOG2E);
    let (hi, lo) = fast_two_sum(k, p);
    log_special(x, hi + (lo + pl))
}

/// The logarithm to base 10.
#[inline(always)]
#[must_use]
pub fn log10(x: f64) -> f64 {
    let (k, m) = log_split(x);
    let (h, l) = log_dd(0.0, m - 1.0, 0.0);
    let p = h * LOG10E;
    let pl = h.mul_add(LOG10E, -p) + h.mul_add(LOG10E_LO, l * LOG10E);
    let (hi, lo) = fast_two_sum(k * LOG10_2_HI, p);
    log_special(x, hi + (lo + k.mul_add(LOG10_2_LO, pl)))
}

/// log(1 + x), accurate near zero.
#[inline(always)]
#[must_use]
pub fn log1p(x: f64) -> f64 {
    let (h, l) = log1p_dd(x, 0.0);
    let edge = sel(x == -1.0, f64::NEG_INFINITY, f64::NAN);
    let r = sel(x > -1.0, h + l, edge);
    // Below 2^-54 the answer is x (also -0 and the subnormals); at infinity it is infinity.
    let keep = (x.abs() < 5.5e-17) | (x == f64::INFINITY);
    sel(keep, x, r)
}

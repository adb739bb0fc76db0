//! The inverse trigonometric functions in `f64`.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::many_single_char_names
)]

use super::building_blocks::{SIGN_BIT, div_dd, fast_two_sum, horner_in_pairs, sel};
use super::coeffs;

const PIO2: f64 = std::f64::consts::FRAC_PI_2;
const PIO2_LO: f64 = 6.123233995736766e-17;
const PIO4: f64 = std::f64::consts::FRAC_PI_4;
const PIO4_LO: f64 = 3.061616997868383e-17;
/// tan(pi/8), from which the arctangent is taken about pi/4.
const TAN_PI_8: f64 = 0.4142135623730950;

/// What asin and acos share: with t = |x| below 1/2 or t = sqrt((1 - |x|)/2) above, the value `t`,
/// the small rest `asin(t) - t` (and the rounding error of the root), and whether x is above.
///
/// The identity asin(x) = pi/2 - 2 asin(sqrt((1 - x)/2)) is that of fdlibm's `e_asin.c` (Sun
/// Microsystems, 1993); here one polynomial over t^2 <= 1/4 replaces its rational function.
#[inline(always)]
fn asin_parts(x: f64) -> (bool, f64, f64) {
    let a = x.abs();
    let above = a > 0.5;
    let z = sel(above, 0.5f64.mul_add(-a, 0.5), a * a);
    let root = z.sqrt();
    let t = sel(above, root, a);
    // The root's error is (z - root^2) / (2 root). It matters only for roots in [1/8, 1/2], where
    // a parabola gives 1/(2 root) to about a tenth, without a division.
    let half_inv = root.mul_add(root.mul_add(22.2, -21.1), 6.0);
    let err = sel(above, (-root).mul_add(root, z) * half_inv, 0.0);
    (
        above,
        t,
        (t * z).mul_add(horner_in_pairs(z, z * z, &coeffs::ASIN), err),
    )
}

/// The arcsine (NaN outside [-1, 1]).
#[inline(always)]
#[must_use]
pub fn asin(x: f64) -> f64 {
    let (above, t, rest) = asin_parts(x);
    let (h, l) = fast_two_sum(PIO2, -2.0 * t);
    let r = sel(above, h + (l + (-2.0f64).mul_add(rest, PIO2_LO)), t + rest);
    r.copysign(x)
}

/// The arccosine (NaN outside [-1, 1]).
#[inline(always)]
#[must_use]
pub fn acos(x: f64) -> f64 {
    let (above, t, rest) = asin_parts(x);
    let negative = x < 0.0;
    // Below 1/2: pi/2 -+ asin. Above: 2 asin(t), or pi minus it.
    let sign = sel(negative, 1.0, -1.0);
    let base = sel(above, sel(negative, 2.0 * PIO2, 0.0), PIO2);
    let base_lo = sel(above, sel(negative, 2.0 * PIO2_LO, 0.0), PIO2_LO);
    let factor = sel(above, -2.0 * sign, sign);
    let term = factor * t;
    let sum = base + term;
    // With no base the sum is the term itself and the error formula gives zero as well.
    let err = sel(base == 0.0, 0.0, term - (sum - base));
    sum + (err + factor.mul_add(rest, base_lo))
}

/// The angle of (x, y) for 0 <= x, y not both zero and neither extreme, added into a multiple of
/// pi/4: the common core of [`atan`] and [`atan2`].
///
/// t = min/max is at most 1; above tan(pi/8) the rotated quotient (min - max)/(min + max) is taken
/// instead (the argument reduction of Cody and Waite's ATAN with one breakpoint). One division in
/// double-double accuracy gives t; numerator and denominator carry their rounding errors.
#[inline(always)]
fn atan_core(y: f64, x: f64, negative_x: bool) -> f64 {
    let swap = y > x;
    let big = sel(swap, y, x);
    let little = sel(swap, x, y);
    let turn = little > TAN_PI_8 * big;
    let (diff, diff_lo) = fast_two_sum(-big, little);
    let (sum, sum_lo) = fast_two_sum(big, little);
    let (nh, nl) = (sel(turn, diff, little), sel(turn, diff_lo, 0.0));
    let (dh, dl) = (sel(turn, sum, big), sel(turn, sum_lo, 0.0));
    let (q, ql) = div_dd(nh, nl, dh, dl);
    let z = q * q;
    let rest = (q * z).mul_add(horner_in_pairs(z, z * z, &coeffs::ATAN), ql);
    // angle = m pi/4 +- (q + rest), mirrored at pi/4 (swap) and at pi/2 (negative x).
    let m = sel(turn, 1.0, 0.0);
    let m = sel(swap, 2.0 - m, m);
    let m = sel(negative_x, 4.0 - m, m);
    let flip = sel(swap != negative_x, -1.0, 1.0);
    let base = m * PIO4;
    let base_lo = m.mul_add(PIO4, -base) + m * PIO4_LO;
    let term = flip * q;
    let h = base + term;
    let l = sel(m == 0.0, 0.0, term - (h - base));
    h + (l + flip.mul_add(rest, base_lo))
}

/// The arctangent.
#[inline(always)]
#[must_use]
pub fn atan(x: f64) -> f64 {
    let a = x.abs();
    // From 1e300 on the answer is pi/2 to the last bit, and 1/a stays clear of the subnormals.
    let r = atan_core(sel(a > 1e300, 1e300, a), 1.0, false);
    r.copysign(x)
}

/// The angle of the point (x, y), in [-pi, pi], with the signed zeros and infinities of C99.
#[inline(always)]
#[must_use]
pub fn atan2(y: f64, x: f64) -> f64 {
    let (ax, ay) = (x.abs(), y.abs());
    let big = sel(ax > ay, ax, ay);
    // Powers of two keep the reciprocal of the larger one an ordinary number.
    let down = sel(
        big > f64::from_bits((1023 + 900) << 52),
        f64::from_bits((1023 - 200) << 52),
        1.0,
    );
    let to = sel(
        big < f64::from_bits((1023 - 800) << 52),
        f64::from_bits((1023 + 300) << 52),
        down,
    );
    let (sx, sy) = (ax * to, ay * to);
    // Infinities act like 1 against 0, or against another 1; (0, 0) acts like (1, 0).
    let infinite = big == f64::INFINITY;
    let sx = sel(infinite, sel(ax == f64::INFINITY, 1.0, 0.0), sx);
    let sy = sel(infinite, sel(ay == f64::INFINITY, 1.0, 0.0), sy);
    let sx = sel(big == 0.0, 1.0, sx);
    let negative_x = (x.to_bits() & SIGN_BIT) != 0;
    let r = atan_core(sy, sx, negative_x).copysign(y);
    sel(x.is_nan() | y.is_nan(), f64::NAN, r)
}

//! Powers and roots in `f64`: `pow`, `cbrt`, `hypot`, `sqrt`.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::many_single_char_names
)]

use super::building_blocks::{
    LN2_HI, LN2_LO, exp_dd, fast_two_sum, horner, horner_in_pairs, log_split, pow2, round_int,
};
use super::building_blocks::{scale, sel};
use super::coeffs;

/// 2/3 as a double-double.
const TWO_THIRDS: f64 = 0.6666666666666666;
const TWO_THIRDS_LO: f64 = 3.700743415417188e-17;
const TWO_52: f64 = 4503599627370496.0;

/// The square root (one instruction on every target).
#[inline(always)]
#[must_use]
pub fn sqrt(x: f64) -> f64 {
    x.sqrt()
}

/// log(x) to about 2^-65 of its value, for positive finite `x`.
///
/// The exponential turns an absolute error of `y log x` (as large as 745) into a relative one, so
/// `pow` needs some eleven bits more than a double. The atanh series keeps its first two terms in
/// double-double arithmetic (Dekker 1971, products by fused multiply-add), the rest in `f64`.
#[inline(always)]
fn log_long(x: f64) -> (f64, f64) {
    let (k, m) = log_split(x);
    let f = m - 1.0;
    let (d, dl) = fast_two_sum(2.0, f);
    let inv = 1.0 / d;
    let s = f * inv;
    let sl = ((-s).mul_add(d, f) - s * dl) * inv;
    let z = s * s;
    let zl = (2.0 * s).mul_add(sl, s.mul_add(s, -z));
    let c = z * s;
    let cl = z.mul_add(s, -c) + z.mul_add(sl, zl * s);
    let (a, al) = fast_two_sum(TWO_THIRDS, z * horner_in_pairs(z, z * z, &coeffs::LOG));
    let p = c * a;
    let pl = c.mul_add(a, -p) + c.mul_add(al + TWO_THIRDS_LO, cl * a);
    let (h, l) = fast_two_sum(2.0 * s, p);
    let l = l + sl.mul_add(2.0, pl);
    let (hi, lo) = fast_two_sum(k * LN2_HI, h);
    fast_two_sum(hi, lo + k.mul_add(LN2_LO, l))
}

/// Whether |a| is an integer (infinity counts as one).
#[inline(always)]
fn is_integer(a: f64) -> bool {
    let a = a.abs();
    // Above 2^52 everything is; below, adding 2^52 rounds the fraction away.
    (a >= TWO_52) | (((a + TWO_52) - TWO_52) == a)
}

/// x^y with the special cases of IEEE 754 and C99 annex F.
#[inline(always)]
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    let ax = x.abs();
    let (lh, ll) = log_long(ax);
    let lh = sel(ax == 0.0, f64::NEG_INFINITY, lh);
    let lh = sel(ax == f64::INFINITY, f64::INFINITY, lh);
    let p = y * lh;
    let pl = y.mul_add(ll, y.mul_add(lh, -p));
    // Beyond +-800 the answer is 0 or infinity and the low part is noise.
    let far = p.abs() > 800.0;
    let p = sel(far, 800.0_f64.copysign(p), p);
    let pl = sel(far, 0.0, pl);
    let (h, _, n) = exp_dd(p, pl);
    let r = scale(h, n);
    let integer = is_integer(y);
    let odd = integer & !is_integer(y * 0.5);
    let r = sel(odd, r.copysign(x), r);
    let r = sel((x < 0.0) & (x > f64::NEG_INFINITY) & !integer, f64::NAN, r);
    // |x| = 1 with an infinite exponent: the product above was 0 * infinity.
    let r = sel((ax == 1.0) & (y.abs() == f64::INFINITY), 1.0, r);
    let r = sel(x.is_nan() | y.is_nan(), f64::NAN, r);
    sel((x == 1.0) | (y == 0.0), 1.0, r)
}

/// The cube root.
///
/// m^(-1/3) from a quartic, one third-order step of its series, then one Newton step on the cube
/// root with a residual exact to twice the precision; no division.
#[inline(always)]
#[must_use]
pub fn cbrt(x: f64) -> f64 {
    let ax = x.abs();
    let small = ax < f64::MIN_POSITIVE;
    let bits = sel(small, ax * 18014398509481984.0, ax).to_bits();
    let k = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000)
        - sel(small, TWO_52 + 1077.0, TWO_52 + 1023.0);
    let m = f64::from_bits((bits & ((1 << 52) - 1)) | super::building_blocks::ONE_BITS);
    // k = 3 q + j with j in 0..=2.
    let (q, _) = round_int((k - 1.0) * 0.3333333333333333);
    let j = k - 3.0 * q;
    let root = sel(
        j == 1.0,
        0.7937005259840998,
        sel(j == 2.0, 0.6299605249474366, 1.0),
    );
    let v = m * sel(j == 1.0, 2.0, sel(j == 2.0, 4.0, 1.0));
    let y = horner(m, &coeffs::CBRT) * root;
    let e = (-v).mul_add(y * y * y, 1.0);
    let y = (y * e).mul_add(e.mul_add(0.2222222222222222, 0.3333333333333333), y);
    let yy = y * y;
    let c = v * yy;
    let cc = c * c;
    let res = (-cc).mul_add(c, v) - c.mul_add(c, -cc) * c;
    let c = res.mul_add(yy * 0.3333333333333333, c);
    let r = (c * pow2(q)).copysign(x);
    sel((ax > 0.0) & (ax < f64::INFINITY), r, x + x)
}

/// sqrt(x^2 + y^2) without spurious overflow or underflow; an infinity beats a NaN.
///
/// The correction of the rounded root is that of Borges, "An improved algorithm for hypot(a, b)"
/// (2019).
#[inline(always)]
#[must_use]
pub fn hypot(x: f64, y: f64) -> f64 {
    let (ax, ay) = (x.abs(), y.abs());
    let big = sel(ax > ay, ax, ay);
    let little = sel(ax > ay, ay, ax);
    // Powers of two bring the larger square safely inside the range.
    let down = big > f64::from_bits((1023 + 500) << 52);
    let up = big < f64::from_bits((1023 - 450) << 52);
    let to = sel(down, f64::from_bits((1023 - 600) << 52), 1.0);
    let to = sel(up, f64::from_bits((1023 + 600) << 52), to);
    let from = sel(down, f64::from_bits((1023 + 600) << 52), 1.0);
    let from = sel(up, f64::from_bits((1023 - 600) << 52), from);
    let a = big * to;
    let b = little * to;
    let h = a.mul_add(a, b * b).sqrt();
    let hh = h * h;
    let aa = a * a;
    let excess = (-b).mul_add(b, hh - aa) + (h.mul_add(h, -hh) - a.mul_add(a, -aa));
    let r = (h - excess / (2.0 * h)) * from;
    let r = sel(big == 0.0, 0.0, r);
    let r = sel(x.is_nan() | y.is_nan(), f64::NAN, r);
    sel(
        (ax == f64::INFINITY) | (ay == f64::INFINITY),
        f64::INFINITY,
        r,
    )
}

//! The remaining `f32` functions, evaluated in `f64` and rounded once.
//!
//! A double has 29 bits to spare, so short polynomials (the `_LITE` tables, near 2^-35) and plain
//! arithmetic without error terms give answers within a hair of half an ulp, and neither overflow
//! nor subnormals of `f32` need attention: the final conversion rounds into both.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::many_single_char_names,
    clippy::cast_possible_truncation
)]

use super::building_blocks::{LN2, LOG2E, ONE_BITS, SIGN_BIT, horner, pow2, pow2_bits};
use super::building_blocks::{round_int, sel};
use super::special::erfinv_start;
use super::{coeffs, trig};

const LOG10E: f64 = std::f64::consts::LOG10_E;
const PIO2: f64 = std::f64::consts::FRAC_PI_2;
const PIO2_LO: f64 = 6.123233995736766e-17;
const PIO4: f64 = std::f64::consts::FRAC_PI_4;
const TAN_PI_8: f64 = 0.4142135623730950;
const TWO_52: f64 = 4503599627370496.0;

/// Limits to [-200, 200], where every exponential is 0 or infinity as an `f32`; NaN stays.
#[inline(always)]
fn limit(x: f64) -> f64 {
    let x = sel(x > 200.0, 200.0, x);
    sel(x < -200.0, -200.0, x)
}

/// e^x for |x| <= 400.
#[inline(always)]
fn exp_lite(x: f64) -> f64 {
    let (n, bits) = round_int(x * LOG2E);
    let r = n.mul_add(-LN2, x);
    let p = (r * r).mul_add(horner(r, &coeffs::EXP_LITE), r) + 1.0;
    p * pow2_bits(bits)
}

/// e^x - 1 for |x| <= 400.
#[inline(always)]
fn expm1_lite(x: f64) -> f64 {
    let (n, bits) = round_int(x * LOG2E);
    let r = n.mul_add(-LN2, x);
    let p = (r * r).mul_add(horner(r, &coeffs::EXP_LITE), r);
    let s = pow2_bits(bits);
    s.mul_add(p, s - 1.0)
}

/// 2 atanh(f / (2 + f)) = log(1 + f) for `1 + f` in [sqrt(1/2), sqrt(2)].
#[inline(always)]
fn log_near(f: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let p = z.mul_add(horner(z, &coeffs::LOG_LITE), 0.6666666666666666);
    s.mul_add(2.0, s * z * p)
}

/// The exponent and mantissa of a positive normal `x`; see `building_blocks::log_split`.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    const OFFSET: u64 = 0x3fe6_a09e_667f_3bcd;
    let u = x.to_bits().wrapping_add(ONE_BITS - OFFSET);
    let m = f64::from_bits((u & ((1 << 52) - 1)) + OFFSET);
    (
        f64::from_bits((u >> 52) | 0x4330_0000_0000_0000) - (TWO_52 + 1023.0),
        m,
    )
}

/// log(1 + w) for w > -1.
#[inline(always)]
fn log1p_lite(w: f64) -> f64 {
    let (k, m) = split(1.0 + w);
    // Near zero (k = 0) `w` itself is the argument, unrounded.
    k.mul_add(LN2, log_near(sel(k == 0.0, w, m - 1.0)))
}

/// Puts in the values at 0, infinity and outside the domain that logarithms share.
#[inline(always)]
fn log_special(x: f32, r: f64) -> f32 {
    let r = r as f32;
    let r = if x > 0.0 { r } else { f32::NAN };
    let r = if x == 0.0 { f32::NEG_INFINITY } else { r };
    if x == f32::INFINITY { x } else { r }
}

/// 2^x.
#[inline(always)]
#[must_use]
pub fn exp2(x: f32) -> f32 {
    let x = limit(f64::from(x));
    let (n, bits) = round_int(x);
    let r = x - n;
    (r.mul_add(horner(r, &coeffs::EXP2_LITE), 1.0) * pow2_bits(bits)) as f32
}

/// e^x - 1, accurate near zero.
#[inline(always)]
#[must_use]
pub fn expm1(x: f32) -> f32 {
    let r = expm1_lite(limit(f64::from(x))) as f32;
    // Keeps -0.
    if x == 0.0 { x } else { r }
}

/// The logarithm to base 2.
#[inline(always)]
#[must_use]
pub fn log2(x: f32) -> f32 {
    let (k, m) = split(f64::from(x));
    log_special(x, log_near(m - 1.0).mul_add(LOG2E, k))
}

/// The logarithm to base 10.
#[inline(always)]
#[must_use]
pub fn log10(x: f32) -> f32 {
    let (k, m) = split(f64::from(x));
    log_special(x, k.mul_add(LN2, log_near(m - 1.0)) * LOG10E)
}

/// log(1 + x), accurate near zero.
#[inline(always)]
#[must_use]
pub fn log1p(x: f32) -> f32 {
    let r = log1p_lite(f64::from(x)) as f32;
    let r = if x > -1.0 { r } else { f32::NAN };
    let r = if x == -1.0 { f32::NEG_INFINITY } else { r };
    if (x == 0.0) | (x == f32::INFINITY) {
        x
    } else {
        r
    }
}

/// The square root.
#[inline(always)]
#[must_use]
pub fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

/// The cube root; see `power::cbrt`, whose first step is accurate enough here.
#[inline(always)]
#[must_use]
pub fn cbrt(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let bits = a.to_bits();
    let k = f64::from_bits((bits >> 52) | 0x4330_0000_0000_0000) - (TWO_52 + 1023.0);
    let m = f64::from_bits((bits & ((1 << 52) - 1)) | ONE_BITS);
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
    let r = (v * y * y * pow2(q)) as f32;
    let ordinary = (x.abs() > 0.0) & (x.abs() < f32::INFINITY);
    if ordinary { r.copysign(x) } else { x + x }
}

/// x^y with the special cases of IEEE 754 and C99 annex F.
#[inline(always)]
#[must_use]
pub fn pow(x: f32, y: f32) -> f32 {
    let (xd, yd) = (f64::from(x), f64::from(y));
    let ax = xd.abs();
    let (k, m) = split(ax);
    let l = k.mul_add(LN2, log_near(m - 1.0));
    let l = sel(ax == 0.0, f64::NEG_INFINITY, l);
    let l = sel(ax == f64::INFINITY, f64::INFINITY, l);
    let r = exp_lite(limit(yd * l));
    let whole = |a: f64| (a >= TWO_52) | (((a + TWO_52) - TWO_52) == a);
    let integer = whole(yd.abs());
    let odd = integer & !whole(yd.abs() * 0.5);
    let r = sel(odd, r.copysign(xd), r);
    let r = sel(
        (xd < 0.0) & (xd > f64::NEG_INFINITY) & !integer,
        f64::NAN,
        r,
    );
    // |x| = 1 with an infinite exponent: the product above was 0 * infinity.
    let r = sel((ax == 1.0) & (yd.abs() == f64::INFINITY), 1.0, r);
    let r = sel(xd.is_nan() | yd.is_nan(), f64::NAN, r);
    sel((xd == 1.0) | (yd == 0.0), 1.0, r) as f32
}

/// The tangent, for |x| <= 1e5 (see `needs_fixup`).
#[inline(always)]
#[must_use]
pub fn tan(x: f32) -> f32 {
    let xd = f64::from(x);
    let (n, quadrant) = round_int(xd * std::f64::consts::FRAC_2_PI);
    let r = n.mul_add(-PIO2_LO, n.mul_add(-PIO2, xd));
    let z = r * r;
    let s = (r * z).mul_add(horner(z, &coeffs::SIN_LITE), r);
    let c = (z * z).mul_add(horner(z, &coeffs::COS_LITE), (-0.5f64).mul_add(z, 1.0));
    let odd = (quadrant & 1) != 0;
    let v = (sel(odd, -c, s) / sel(odd, s, c)) as f32;
    // Keeps -0.
    if x == 0.0 { x } else { v }
}

/// The tangent for every argument, scalar.
#[cold]
#[must_use]
pub fn tan_slow(x: f32) -> f32 {
    if super::f32_native::needs_fixup(x) {
        trig::tan_slow(f64::from(x)) as f32
    } else {
        tan(x)
    }
}

/// asin(t) for t = |x| below 1/2, t = sqrt((1 - |x|)/2) above; and whether x is above.
#[inline(always)]
fn asin_lite(x: f64) -> (bool, f64) {
    let a = x.abs();
    let above = a > 0.5;
    let z = sel(above, 0.5f64.mul_add(-a, 0.5), a * a);
    let t = sel(above, z.sqrt(), a);
    (above, (t * z).mul_add(horner(z, &coeffs::ASIN_LITE), t))
}

/// The arcsine (NaN outside [-1, 1]).
#[inline(always)]
#[must_use]
pub fn asin(x: f32) -> f32 {
    let (above, v) = asin_lite(f64::from(x));
    (sel(above, (-2.0f64).mul_add(v, PIO2), v) as f32).copysign(x)
}

/// The arccosine (NaN outside [-1, 1]).
#[inline(always)]
#[must_use]
pub fn acos(x: f32) -> f32 {
    let (above, v) = asin_lite(f64::from(x));
    let v = sel(above, 2.0 * v, PIO2 - v);
    (if x < 0.0 { 2.0 * PIO2 - v } else { v }) as f32
}

/// The angle of (x, y) for 0 <= x, y, not both zero nor infinite.
#[inline(always)]
fn atan_lite(y: f64, x: f64) -> f64 {
    let swap = y > x;
    let big = sel(swap, y, x);
    let little = sel(swap, x, y);
    let turn = little > TAN_PI_8 * big;
    let q = sel(turn, little - big, little) / sel(turn, little + big, big);
    let z = q * q;
    let v = (q * z).mul_add(horner(z, &coeffs::ATAN_LITE), q) + sel(turn, PIO4, 0.0);
    sel(swap, PIO2 - v, v)
}

/// The arctangent.
#[inline(always)]
#[must_use]
pub fn atan(x: f32) -> f32 {
    let a = f64::from(x.abs());
    (atan_lite(sel(a > 1e30, 1e30, a), 1.0) as f32).copysign(x)
}

/// The angle of the point (x, y), in [-pi, pi], with the signed zeros and infinities of C99.
#[inline(always)]
#[must_use]
pub fn atan2(y: f32, x: f32) -> f32 {
    let (ax, ay) = (f64::from(x.abs()), f64::from(y.abs()));
    let infinite = (ax == f64::INFINITY) | (ay == f64::INFINITY);
    let sx = sel(infinite, sel(ax == f64::INFINITY, 1.0, 0.0), ax);
    let sy = sel(infinite, sel(ay == f64::INFINITY, 1.0, 0.0), ay);
    let sx = sel((ax == 0.0) & (ay == 0.0), 1.0, sx);
    let v = atan_lite(sy, sx);
    let negative = (f64::from(x).to_bits() & SIGN_BIT) != 0;
    let v = (sel(negative, 2.0 * PIO2 - v, v) as f32).copysign(y);
    if x.is_nan() | y.is_nan() { f32::NAN } else { v }
}

/// The hyperbolic sine.
#[inline(always)]
#[must_use]
pub fn sinh(x: f32) -> f32 {
    let e = expm1_lite(limit(f64::from(x.abs())));
    ((0.5 * (e + e / (e + 1.0))) as f32).copysign(x)
}

/// The hyperbolic cosine.
#[inline(always)]
#[must_use]
pub fn cosh(x: f32) -> f32 {
    let e = exp_lite(limit(f64::from(x.abs())));
    (0.5 * (e + 1.0 / e)) as f32
}

/// The inverse hyperbolic sine.
#[inline(always)]
#[must_use]
pub fn asinh(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let z = a * a;
    let v = log1p_lite(a + z / (1.0 + (1.0 + z).sqrt())) as f32;
    (if x.abs() < f32::INFINITY { v } else { x + x }).copysign(x)
}

/// The inverse hyperbolic cosine (NaN below 1).
#[inline(always)]
#[must_use]
pub fn acosh(x: f32) -> f32 {
    let t = f64::from(x) - 1.0;
    let v = log1p_lite(t + t.mul_add(t, 2.0 * t).sqrt()) as f32;
    let v = if x >= 1.0 { v } else { f32::NAN };
    if x == f32::INFINITY { x } else { v }
}

/// The inverse hyperbolic tangent (infinite at +-1, NaN beyond).
#[inline(always)]
#[must_use]
pub fn atanh(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let v = (0.5 * log1p_lite(2.0 * a / (1.0 - a))) as f32;
    let v = if x.abs() < 1.0 { v } else { f32::NAN };
    (if x.abs() == 1.0 { f32::INFINITY } else { v }).copysign(x)
}

/// log(1 + e^x), without overflow and without cancellation.
#[inline(always)]
#[must_use]
pub fn softplus(x: f32) -> f32 {
    let xd = f64::from(x);
    let r = sel(xd > 0.0, xd, 0.0) + log1p_lite(exp_lite(limit(-xd.abs())));
    if x.is_nan() { x } else { r as f32 }
}

/// log(e^x + e^y), without overflow; see `special::logaddexp`.
#[inline(always)]
#[must_use]
pub fn logaddexp(x: f32, y: f32) -> f32 {
    let (xd, yd) = (f64::from(x), f64::from(y));
    let big = sel(xd > yd, xd, yd);
    let d = sel(xd == yd, 0.0, -(xd - yd).abs());
    let r = big + log1p_lite(exp_lite(limit(d)));
    (if x.is_nan() | y.is_nan() { f64::NAN } else { r }) as f32
}

/// erfc(a) for 1/2 <= a <= 11; see `special::erfc_tail`.
#[inline(always)]
fn erfc_lite(a: f64) -> f64 {
    let u = 1.0 / (a + 3.0);
    u * horner(u.mul_add(-6.25, 1.0), &coeffs::ERFC_LITE) * exp_lite(-a * a)
}

/// The error function.
#[inline(always)]
#[must_use]
pub fn erf(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let near = a.mul_add(horner(a * a, &coeffs::ERF_LITE), a);
    let far = 1.0 - erfc_lite(sel(a > 5.0, 5.0, a));
    (sel(a < 1.0, near, far) as f32).copysign(x)
}

/// The complementary error function 1 - erf(x), accurate in the tail.
#[inline(always)]
#[must_use]
pub fn erfc(x: f32) -> f32 {
    let xd = f64::from(x);
    let a = xd.abs();
    let near = 1.0 - xd.mul_add(horner(a * a, &coeffs::ERF_LITE), xd);
    let tail = erfc_lite(sel(a > 11.0, 11.0, a));
    sel(a < 0.5, near, sel(xd < 0.0, 2.0 - tail, tail)) as f32
}

/// The inverse of the error function: infinite at +-1, NaN beyond.
#[inline(always)]
#[must_use]
pub fn erfinv(x: f32) -> f32 {
    let r = erfinv_start(f64::from(x.abs())) as f32;
    (if x.abs() == 1.0 { f32::INFINITY } else { r }).copysign(x)
}

/// sqrt(x^2 + y^2); the squares cannot overflow in `f64`. An infinity beats a NaN.
#[inline(always)]
#[must_use]
pub fn hypot(x: f32, y: f32) -> f32 {
    let (xd, yd) = (f64::from(x), f64::from(y));
    let r = xd.mul_add(xd, yd * yd).sqrt() as f32;
    let infinite = (x.abs() == f32::INFINITY) | (y.abs() == f32::INFINITY);
    if infinite { f32::INFINITY } else { r }
}

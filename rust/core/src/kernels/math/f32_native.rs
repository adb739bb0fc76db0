//! The `f32` functions that matter most for speed, in `f32` arithmetic throughout (twice the lanes
//! of the `f64` route in `f32_via_f64.rs`): exp, log, sin, cos, tanh, sigmoid.
//!
//! The algorithms are those of the `f64` versions (Cody and Waite 1980) with shorter polynomials.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::many_single_char_names
)]

use super::{coeffs, trig};

/// 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits.
const MAGIC: f32 = 12582912.0;
const ONE_BITS: u32 = 0x3f80_0000;
const SIGN_BIT: u32 = 1 << 31;
const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
const LOG2E: f32 = std::f32::consts::LOG2_E;
const LN2: f32 = std::f32::consts::LN_2;
const LN2_TAIL: f32 = -1.90465430e-9;
/// The upper 16 bits of ln 2, exact when multiplied by an exponent, and the rest.
const LN2_HI: f32 = 0.693145751953125;
const LN2_LO: f32 = 1.4286068e-6;
const TWO_OVER_PI: f32 = std::f32::consts::FRAC_2_PI;
/// pi/2 in three parts, each rounded down.
const PIO2: f32 = 1.5707962512969971;
const PIO2_MID: f32 = 7.5497894e-8;
const PIO2_LOW: f32 = 5.390303e-15;
/// The fast sine and cosine serve |x| up to here.
const LIMIT: f32 = 1e5;

#[inline(always)]
fn sel(c: bool, a: f32, b: f32) -> f32 {
    if c { a } else { b }
}

#[inline(always)]
fn horner<const N: usize>(x: f32, c: &[f32; N]) -> f32 {
    let mut acc = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        acc = acc.mul_add(x, c[i]);
    }
    acc
}

/// 2^n for an integral float -126 <= n <= 127.
#[inline(always)]
fn pow2(n: f32) -> f32 {
    f32::from_bits(((n + MAGIC).to_bits() << 23).wrapping_add(ONE_BITS))
}

/// e^x.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    let x = sel(x > 89.0, 89.0, x);
    let x = sel(x < -104.5, -104.5, x);
    let n = x.mul_add(LOG2E, MAGIC) - MAGIC;
    let r = n.mul_add(-LN2_TAIL, n.mul_add(-LN2, x));
    let p = (r * r).mul_add(horner(r, &coeffs::EXP_F32), r) + 1.0;
    // Two steps, so that the second rounds once into the subnormals or overflows.
    let half = n.mul_add(0.5, MAGIC) - MAGIC;
    p * pow2(half) * pow2(n - half)
}

/// The natural logarithm.
#[inline(always)]
#[must_use]
pub fn log(x: f32) -> f32 {
    let small = x < f32::MIN_POSITIVE;
    let u = sel(small, x * 16777216.0, x)
        .to_bits()
        .wrapping_add(ONE_BITS - SQRT_HALF_BITS);
    let m = f32::from_bits((u & 0x007f_ffff).wrapping_add(SQRT_HALF_BITS));
    // The biased exponent becomes a float by way of the bits of 2^23.
    let k =
        f32::from_bits((u >> 23) | 0x4b00_0000) - sel(small, 8388608.0 + 151.0, 8388608.0 + 127.0);
    let f = m - 1.0;
    let ff = f * f;
    let cubic = (ff * f).mul_add(horner(f, &coeffs::LOG_F32), k * LN2_LO);
    let kh = k * LN2_HI;
    let hi = kh + f;
    let lo = f - (hi - kh);
    let r = hi + (-0.5f32).mul_add(ff, cubic + lo);
    let edge = sel(x == 0.0, f32::NEG_INFINITY, f32::NAN);
    sel(x == f32::INFINITY, x, sel(x > 0.0, r, edge))
}

/// Whether `sin`, `cos` and `tan` need their slow form for this argument (true at infinity).
#[inline(always)]
#[must_use]
pub fn needs_fixup(x: f32) -> bool {
    x.abs() > LIMIT
}

/// sin(r) or cos(r) by quadrant, with the sign that it and the sign bit of `x` make.
#[inline(always)]
fn pick(quadrant: u32, x: f32, (s, c): (f32, f32)) -> f32 {
    let v = sel((quadrant & 1) != 0, c, s);
    f32::from_bits(v.to_bits() ^ (((quadrant << 30) ^ x.to_bits()) & SIGN_BIT))
}

/// The sine and the cosine, for |x| <= 1e5 (see [`needs_fixup`]).
#[inline(always)]
#[must_use]
pub fn sin_cos(x: f32) -> (f32, f32) {
    // The sign waits until the end, so that -0 keeps it.
    let a = x.abs();
    let t = a.mul_add(TWO_OVER_PI, MAGIC);
    let n = t - MAGIC;
    let quadrant = t.to_bits();
    // The first step is exact.
    let w = n.mul_add(-PIO2, a);
    let r = n.mul_add(-PIO2_LOW, n.mul_add(-PIO2_MID, w));
    let z = r * r;
    let s = (r * z).mul_add(horner(z, &coeffs::SIN_F32), r);
    let c = z.mul_add(z.mul_add(horner(z, &coeffs::COS_F32), -0.5), 1.0);
    (
        pick(quadrant, x, (s, c)),
        pick(quadrant.wrapping_add(1), 0.0, (s, c)),
    )
}

/// The sine, for |x| <= 1e5 (see [`needs_fixup`]).
#[inline(always)]
#[must_use]
pub fn sin(x: f32) -> f32 {
    sin_cos(x).0
}

/// The cosine, for |x| <= 1e5 (see [`needs_fixup`]).
#[inline(always)]
#[must_use]
pub fn cos(x: f32) -> f32 {
    sin_cos(x).1
}

/// The sine and the cosine for every argument, scalar.
#[cold]
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub fn sin_cos_slow(x: f32) -> (f32, f32) {
    if needs_fixup(x) {
        let (s, c) = trig::sin_cos_slow(f64::from(x));
        (s as f32, c as f32)
    } else {
        sin_cos(x)
    }
}

/// The sine for every argument, scalar.
#[cold]
#[must_use]
pub fn sin_slow(x: f32) -> f32 {
    sin_cos_slow(x).0
}

/// The cosine for every argument, scalar.
#[cold]
#[must_use]
pub fn cos_slow(x: f32) -> f32 {
    sin_cos_slow(x).1
}

/// The hyperbolic tangent: a polynomial up to 0.6, 1 - 2/(e^{2x} + 1) beyond.
#[inline(always)]
#[must_use]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let z = a * a;
    let near = (a * z).mul_add(horner(z, &coeffs::TANH_F32), a);
    let far = 1.0 - 2.0 / (exp(2.0 * sel(a > 10.0, 10.0, a)) + 1.0);
    sel(a < 0.6, near, far).copysign(x)
}

/// 1 / (1 + e^-x), without overflow.
#[inline(always)]
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    let a = x.abs();
    let a = sel(a > 104.5, 104.5, a);
    // e^-a = (h + l) 2^n, the sum and its error as in `exp`.
    let n = a.mul_add(-LOG2E, MAGIC) - MAGIC;
    let r = n.mul_add(-LN2_TAIL, n.mul_add(-LN2, -a));
    let s = (r * r).mul_add(horner(r, &coeffs::EXP_F32), r);
    let h = s + 1.0;
    let l = s - (h - 1.0);
    let half = n.mul_add(0.5, MAGIC) - MAGIC;
    let (p1, p2) = (pow2(half), pow2(n - half));
    let e = h * p1 * p2;
    // 1/(1 + e) for positive x, e/(1 + e) for negative, where the power of two waits until the end
    // so that subnormal answers round once; one division, its remainder put back.
    let negative = x < 0.0;
    let d = 1.0 + e;
    let dl = (e - (d - 1.0)) + l * p1 * p2;
    let inv = 1.0 / d;
    let (nh, nl) = (sel(negative, h, 1.0), sel(negative, l, 0.0));
    let q = nh * inv;
    let rem = (-q).mul_add(d, nh) + q.mul_add(-dl, nl);
    rem.mul_add(inv, q) * sel(negative, p1, 1.0) * sel(negative, p2, 1.0)
}

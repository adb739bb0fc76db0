//! The hyperbolic functions and their inverses in `f64`.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::many_single_char_names
)]

use super::building_blocks::{
    LN2, LN2_HI, LN2_LO, LN2_TAIL, LOG2E, ONE_BITS, div_dd, fast_two_sum, horner, horner_in_pairs,
};
use super::building_blocks::{log_dd, log_split, pow2, round_product, sel, two_sum};
use super::coeffs;
use super::exp::expm1_half;

/// The largest argument whose sinh and cosh are finite.
const OVERFLOW: f64 = 710.4758600739439;

/// For 0 <= x <= 711: cosh(r), sinh(r) with x = n ln 2 + r (each as leading term and rest), and
/// half of cosh(n ln 2) and sinh(n ln 2).
///
/// The addition theorems then give sinh and cosh without cancellation or division, since
/// cosh(n ln 2) = (2^n + 2^-n)/2 is exact as far as it matters.
#[inline(always)]
fn parts(x: f64) -> (f64, f64, f64, f64, f64) {
    let (n, _) = round_product(x, LOG2E);
    let t = n.mul_add(-LN2, x);
    let r = n.mul_add(-LN2_TAIL, t);
    let rl = n.mul_add(-LN2_TAIL, t - r);
    let z = r * r;
    let zz = z * z;
    let s = (r * z).mul_add(horner_in_pairs(z, zz, &coeffs::SINH), rl);
    let c = zz.mul_add(horner_in_pairs(z, zz, &coeffs::COSH), 0.5 * z);
    let grow = pow2(n - 2.0);
    let decay = pow2(sel(n > 500.0, -502.0, -n - 2.0));
    (r, s, c, grow + decay, grow - decay)
}

/// The hyperbolic sine.
#[inline(always)]
#[must_use]
pub fn sinh(x: f64) -> f64 {
    let a = x.abs();
    let (r, s, c, ch, sh) = parts(sel(a > 711.0, 711.0, a));
    let h = ch.mul_add(r, sh);
    let l = ch.mul_add(r, sh - h);
    let v = 2.0 * (h + (l + ch.mul_add(s, sh * c)));
    let v = sel(a > OVERFLOW, f64::INFINITY, v);
    let v = sel(a < 1e-8, a, v);
    sel(x.is_nan(), x, v.copysign(x))
}

/// The hyperbolic cosine.
#[inline(always)]
#[must_use]
pub fn cosh(x: f64) -> f64 {
    let a = x.abs();
    let (r, s, c, ch, sh) = parts(sel(a > 711.0, 711.0, a));
    let h = sh.mul_add(r, ch);
    let l = sh.mul_add(r, ch - h);
    let v = 2.0 * (h + (l + sh.mul_add(s, ch * c)));
    sel(a > OVERFLOW, f64::INFINITY, v)
}

/// The hyperbolic tangent: u / (u + 2) with u = e^{2x} - 1 in double-double.
#[inline(always)]
#[must_use]
pub fn tanh(x: f64) -> f64 {
    let a = x.abs();
    // From 22 on the answer is 1 to the last bit.
    let (h, l) = expm1_half(2.0 * sel(a > 22.0, 22.0, a));
    // Both halves of the fraction are halved already.
    let (d, dl) = two_sum(1.0, h);
    let (q, ql) = div_dd(h, l, d, dl + l);
    let v = q + ql;
    sel(a < 1e-8, x, v.copysign(x))
}

/// The inverse hyperbolic sine: a polynomial below 1/2, log(a + sqrt(a^2 + 1)) above, the argument
/// of the logarithm being carried as `hi + lo`.
#[inline(always)]
#[must_use]
pub fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let z = a * a;
    let near = (a * z).mul_add(horner(z, &coeffs::ASINH), a);
    // Beyond 2^30 the square root is a itself (relative 2^-61) and asinh a = log(2 a).
    let huge = a > 1073741824.0;
    let b = sel(huge, 1.0, a);
    let bb = b * b;
    let (p, pl) = two_sum(1.0, bb);
    let pl = pl + b.mul_add(b, -bb);
    let s = p.sqrt();
    let sl = ((-s).mul_add(s, p) + pl) * 0.5 / s;
    let (v, vl) = fast_two_sum(s, b);
    let v = sel(huge, a, v);
    let vl = sel(huge, 0.0, vl + sl);
    let (k, m) = log_split(v);
    let (h, l) = log_dd(
        k + sel(huge, 1.0, 0.0),
        m - 1.0,
        vl * pow2(sel(huge, 0.0, -k)),
    );
    let r = sel(a < 0.5, near, h + l);
    let r = sel(a < f64::INFINITY, r, x + x);
    r.copysign(x)
}

/// The inverse hyperbolic cosine (NaN below 1): log1p(t + sqrt(t (t + 2))) with t = x - 1.
#[inline(always)]
#[must_use]
pub fn acosh(x: f64) -> f64 {
    let huge = x > 1073741824.0;
    let b = sel(huge, 2.0, x);
    let t = b - 1.0;
    let p = t.mul_add(t, 2.0 * t);
    let pl = t.mul_add(t, t.mul_add(2.0, -p));
    let s = p.sqrt();
    let sl = ((-s).mul_add(s, p) + pl) * 0.5 / s;
    let sl = sel(s > 0.0, sl, 0.0);
    let (w, wl) = fast_two_sum(s, t);
    // As `log1p_dd`, but beyond 2^30 with log(2 x) in place of it.
    let (u, err) = two_sum(1.0, w);
    let (k, m) = log_split(sel(huge, x, u));
    let near = k == 0.0;
    let f = sel(near, w, m - 1.0);
    let c = wl + sl;
    let c = sel(near, c, (err + c) * pow2(sel(huge, 0.0, -k)));
    let (h, l) = log_dd(k + sel(huge, 1.0, 0.0), f, sel(huge, 0.0, c));
    let r = h + l;
    let r = sel(x >= 1.0, r, f64::NAN);
    sel(x == f64::INFINITY, x, r)
}

/// The inverse hyperbolic tangent (infinite at +-1, NaN beyond).
///
/// atanh a = (k/2) ln 2 + atanh(s), s = ((1 + a) - K (1 - a)) / ((1 + a) + K (1 - a)), K = 2^k: the
/// logarithm's own reduction applied to (1 + a)/(1 - a) without forming that quotient.
#[inline(always)]
#[must_use]
pub fn atanh(x: f64) -> f64 {
    let a = x.abs();
    // The difference of the bit patterns of 1 + a and 1 - a approximates the logarithm of their
    // quotient; adding half an octave and rounding down gives k in 0..=54.
    let bits = (1.0 + a)
        .to_bits()
        .wrapping_sub((1.0 - a).to_bits())
        .wrapping_add(1 << 51);
    let k = f64::from_bits(((bits >> 52) & 0x3f) | 0x4330_0000_0000_0000) - 4503599627370496.0;
    let big = f64::from_bits((((bits >> 52) & 0x3f) << 52) + ONE_BITS);
    let (plus, plus_lo) = fast_two_sum(1.0, a);
    let (minus, minus_lo) = fast_two_sum(1.0, -a);
    let (nh, nl) = two_sum(plus, -big * minus);
    let (nh, nl) = two_sum(nh, nl + big.mul_add(-minus_lo, plus_lo));
    let (dh, dl) = two_sum(plus, big * minus);
    let dl = dl + big.mul_add(minus_lo, plus_lo);
    let (q, ql) = div_dd(nh, nl, dh, dl);
    let z = q * q;
    let rest = (q * z).mul_add(horner(z, &coeffs::ATANH), ql);
    let half_k = 0.5 * k;
    let (h, l) = fast_two_sum(half_k * LN2_HI, q);
    let r = h + (half_k.mul_add(LN2_LO, l) + rest);
    let r = sel(a < 1.0, r, sel(a == 1.0, f64::INFINITY, f64::NAN));
    r.copysign(x)
}

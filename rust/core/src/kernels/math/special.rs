//! The logistic family and the error functions in `f64`.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::many_single_char_names
)]

use super::building_blocks::{
    div_dd, exp_dd, fast_two_sum, horner, log1p_dd, pow2, pow2_pair, scale, sel, two_sum,
};
use super::{coeffs, exp, log};

/// 1 / (1 + e^-x), without overflow.
#[inline(always)]
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    let a = x.abs();
    let (eh, el, n) = exp_dd(-sel(a > 746.0, 746.0, a), 0.0);
    // With e = e^-|x|: 1/(1 + e) for positive x, e/(1 + e) for negative, where the power of two of
    // e waits until the end so that subnormal answers round once.
    let (p1, p2) = pow2_pair(n);
    let (d, dl) = fast_two_sum(1.0, eh * p1 * p2);
    let dl = (el * p1).mul_add(p2, dl);
    let negative = x < 0.0;
    let (q, ql) = div_dd(sel(negative, eh, 1.0), sel(negative, el, 0.0), d, dl);
    (q + ql) * sel(negative, p1, 1.0) * sel(negative, p2, 1.0)
}

/// log(1 + e^-a) as `hi + lo` for a >= 0, given as `a + al`.
#[inline(always)]
fn softplus_tail(a: f64, al: f64) -> (f64, f64) {
    let far = a > 800.0;
    let (eh, el, n) = exp_dd(-sel(far, 800.0, a), -sel(far, 0.0, al));
    log1p_dd(scale(eh, n), scale(el, n))
}

/// log(1 + e^x), without overflow and without cancellation.
#[inline(always)]
#[must_use]
pub fn softplus(x: f64) -> f64 {
    let (h, l) = softplus_tail(x.abs(), 0.0);
    let (s, e) = two_sum(sel(x > 0.0, x, 0.0), h);
    sel(x < f64::INFINITY, s + (e + l), x)
}

/// log(e^x + e^y), without overflow.
///
/// Where the two contributions cancel (the answer is near zero) the error is small against the
/// larger of |x|, |y| and 1 rather than against the answer.
#[inline(always)]
#[must_use]
pub fn logaddexp(x: f64, y: f64) -> f64 {
    let big = sel(x > y, x, y);
    let little = sel(x > y, y, x);
    let (d, dl) = two_sum(big, -little);
    // Equal infinities differ by zero; infinite differences have no rounding error.
    let d = sel(big == little, 0.0, d);
    let dl = sel(d < f64::INFINITY, dl, 0.0);
    let (h, l) = softplus_tail(d, sel(big == little, 0.0, dl));
    let (s, e) = two_sum(big, h);
    sel(big.abs() < f64::INFINITY, s + (e + l), s)
}

/// The centre and pole of the variable the complementary error function is expanded in.
const POLE: f64 = 3.0;
const CENTRE: f64 = 3.25;

/// erfc(a) = v * 2^n for a >= 1/2.
///
/// e^{a^2} erfc(a) (a + 3) is smooth on the half line and expanded in t = (a - 3.25)/(a + 3), the
/// kind of map used by Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2)
/// erfc x" (1981). With u = 1/(a + 3), t is 1 - 6.25 u, and u is the factor that takes the
/// (a + 3) out again: one division. Every rounding that matters is carried along.
#[inline(always)]
fn erfc_tail(a: f64) -> (f64, f64) {
    let (d, dl) = two_sum(a, POLE);
    let u = 1.0 / d;
    let eu = (-u).mul_add(d, 1.0) - u * dl;
    let g = u * (POLE + CENTRE);
    let gl = u.mul_add(POLE + CENTRE, -g) + g * eu;
    let (t, tl) = two_sum(1.0, -g);
    let tl = tl - gl;
    let c = &coeffs::ERFC;
    let mut q = c[c.len() - 1];
    let mut i = c.len() - 1;
    while i > 2 {
        i -= 1;
        q = q.mul_add(t, c[i]);
    }
    let r = t.mul_add(q, c[1]);
    let rl = t.mul_add(q, c[1] - r);
    let p = t.mul_add(r, c[0]);
    let slope = t.mul_add(
        t.mul_add(t.mul_add(4.0 * c[4], 3.0 * c[3]), 2.0 * c[2]),
        c[1],
    );
    let rest = t.mul_add(rl + coeffs::ERFC_LO[1], coeffs::ERFC_LO[0]);
    let pl = t.mul_add(r, c[0] - p) + slope.mul_add(tl, rest);
    let m = u * p;
    let ml = u.mul_add(p, -m) + u.mul_add(pl, m * eu);
    let x2 = a * a;
    let x2l = a.mul_add(a, -x2);
    let (eh, el, n) = exp_dd(-x2, -x2l);
    let v = m * eh;
    let vl = m.mul_add(eh, -v) + m.mul_add(el, ml * eh);
    (v + vl, n)
}

/// The error function.
#[inline(always)]
#[must_use]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    let z = a * a;
    let near = a.mul_add(horner(z, &coeffs::ERF), a);
    // From 6 on the answer is 1 to the last bit.
    let (v, n) = erfc_tail(sel(a > 6.5, 6.5, a));
    let far = 1.0 - v * pow2(n);
    sel(a < 1.0, near, far).copysign(x)
}

/// The complementary error function 1 - erf(x), accurate in the tail.
#[inline(always)]
#[must_use]
pub fn erfc(x: f64) -> f64 {
    let a = x.abs();
    let z = x * x;
    let (h, l) = fast_two_sum(1.0, -x);
    let near = h + x.mul_add(-horner(z, &coeffs::ERF), l);
    let (v, n) = erfc_tail(sel(a > 28.0, 28.0, a));
    let tail = scale(v, n);
    let far = sel(x < 0.0, 2.0 - tail, tail);
    sel(a < 0.5, near, far)
}

/// The pole and zero of the variable the inverse error function is expanded in.
const INVERSE_POLE: f64 = 8.0;
const INVERSE_CENTRE: f64 = 5.5;

/// The inverse error function to about 2^-27, for 0 <= a < 1.
///
/// Close to w = -log(1 - a^2), of which Giles, "Approximating the erfinv function" (2010), takes
/// polynomials, erfinv(a) / a is like a power series and far away like sqrt(w); divided by sqrt(w + 8) it is
/// smooth in t = (w - 5.5)/(w + 8) from end to end.
#[inline(always)]
pub(super) fn erfinv_start(a: f64) -> f64 {
    let d = INVERSE_POLE - log::log((1.0 - a) * (1.0 + a));
    let t = 1.0 - (INVERSE_POLE + INVERSE_CENTRE) / d;
    a * d.sqrt() * horner(t, &coeffs::ERFINV)
}

/// The inverse of the error function: infinite at +-1, NaN beyond.
///
/// One step of Halley's method for the complement in the tail, where 1 - |x| is exact, and for the error
/// function itself elsewhere, of whose leading term the difference from x is exact.
#[inline(always)]
#[must_use]
pub fn erfinv(x: f64) -> f64 {
    const HALF_SQRT_PI: f64 = 0.8862269254527580;
    let a = x.abs();
    let y = erfinv_start(sel(a < 1.0, a, 0.0));
    let z = y * y;
    let near = (-y).mul_add(horner(z, &coeffs::ERF), a - y);
    let (v, n) = erfc_tail(y);
    let far = v.mul_add(pow2(n), a - 1.0);
    let rest = sel(a < 0.75, near, far);
    let step = rest * exp::exp(z) * HALF_SQRT_PI;
    let r = y + step.mul_add(y * step, step);
    sel(a < 1.0, r, sel(a == 1.0, f64::INFINITY, f64::NAN)).copysign(x)
}

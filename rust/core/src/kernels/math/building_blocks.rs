//! Building blocks shared by the `f64` functions: branch-free selection, polynomial evaluation,
//! rounding by a magic number, exact powers of two, and the two cores everything else is made of,
//! an exponential and a logarithm that carry their result as an unevaluated sum `hi + lo`.
//!
//! Why magic numbers: AVX2 has no packed conversion between `f64` and `i64` and no arithmetic
//! 64-bit shift, so integers are read from and written to the bits of floats only by logical
//! shifts, masks and additions, which every vector unit has.
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    clippy::many_single_char_names
)]

use super::coeffs;

/// 1.5 * 2^52: adding it leaves the nearest integer in the low mantissa bits.
const MAGIC: f64 = 6755399441055744.0;
/// Bits of 1.0.
pub(super) const ONE_BITS: u64 = 0x3ff0_0000_0000_0000;
/// The sign bit.
pub(super) const SIGN_BIT: u64 = 1 << 63;
/// Bits of sqrt(1/2), where the logarithm changes octave.
const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
const MANTISSA: u64 = (1 << 52) - 1;

pub(super) const LOG2E: f64 = std::f64::consts::LOG2_E;
pub(super) const LOG2E_LO: f64 = 2.0355273740931033e-17;
pub(super) const LN2: f64 = std::f64::consts::LN_2;
pub(super) const LN2_TAIL: f64 = 2.3190468138462996e-17;
/// The upper 42 bits of ln 2: its product with any exponent is exact.
pub(super) const LN2_HI: f64 = 0.6931471805598903;
pub(super) const LN2_LO: f64 = 5.497923018708371e-14;

/// `if c { a } else { b }` on values already computed, which compiles to a blend.
#[inline(always)]
pub(super) fn sel(c: bool, a: f64, b: f64) -> f64 {
    if c { a } else { b }
}

/// Horner's rule with fused steps; the constant-length loop unrolls completely.
#[inline(always)]
pub(super) fn horner<const N: usize>(x: f64, c: &[f64; N]) -> f64 {
    let mut acc = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        acc = acc.mul_add(x, c[i]);
    }
    acc
}

/// Horner's rule in `xx`, which is x^2, over pairs of terms: as many steps as [`horner`], of which half wait for
/// another. A loop whose steps need each other's results is as fast as its longest chain.
#[inline(always)]
pub(super) fn horner_in_pairs<const N: usize>(x: f64, xx: f64, c: &[f64; N]) -> f64 {
    let mut i = (N - 1) / 2 * 2;
    let mut acc = if i + 1 < N {
        c[i + 1].mul_add(x, c[i])
    } else {
        c[i]
    };
    while i > 0 {
        i -= 2;
        acc = acc.mul_add(xx, c[i + 1].mul_add(x, c[i]));
    }
    acc
}

/// The nearest integer of `x` (|x| < 2^51) as a float, and bits whose low part is that integer.
#[inline(always)]
pub(super) fn round_int(x: f64) -> (f64, u64) {
    let t = x + MAGIC;
    (t - MAGIC, t.to_bits())
}

/// [`round_int`] of a product, which is not rounded before.
#[inline(always)]
pub(super) fn round_product(x: f64, y: f64) -> (f64, u64) {
    let t = x.mul_add(y, MAGIC);
    (t - MAGIC, t.to_bits())
}

/// 2^n from the bits given by [`round_int`], for -1022 <= n <= 1023.
#[inline(always)]
pub(super) fn pow2_bits(bits: u64) -> f64 {
    f64::from_bits((bits << 52).wrapping_add(ONE_BITS))
}

/// 2^n for an integral float -1022 <= n <= 1023.
#[inline(always)]
pub(super) fn pow2(n: f64) -> f64 {
    pow2_bits((n + MAGIC).to_bits())
}

/// Two powers of two whose product is 2^n, for any integral |n| <= 2000. Multiplying by one and then
/// the other is exact first and rounds once into the subnormals or overflows second.
#[inline(always)]
pub(super) fn pow2_pair(n: f64) -> (f64, f64) {
    let (half, bits) = round_int(n * 0.5);
    (pow2_bits(bits), pow2(n - half))
}

/// `v * 2^n` for any integral |n| <= 2000.
#[inline(always)]
pub(super) fn scale(v: f64, n: f64) -> f64 {
    let (p, q) = pow2_pair(n);
    v * p * q
}

/// Knuth's `TwoSum`: the rounded sum and its exact error, whatever the magnitudes.
#[inline(always)]
pub(super) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

/// Dekker's `FastTwoSum`, exact for |a| >= |b|.
#[inline(always)]
pub(super) fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    (s, b - (s - a))
}

/// A quotient to about 2^-100 with one division: `(nh + nl) / (dh + dl)` as `hi + lo`.
#[inline(always)]
pub(super) fn div_dd(nh: f64, nl: f64, dh: f64, dl: f64) -> (f64, f64) {
    let inv = 1.0 / dh;
    let q = nh * inv;
    let rem = (-q).mul_add(dh, nh) + q.mul_add(-dl, nl);
    (q, rem * inv)
}

/// `exp(a + b) = (hi + lo) * 2^n` for |a| <= 1e6 and |b| much smaller, `hi` being the rounded sum.
///
/// Reduction after Cody and Waite (1980): n = round(a / ln 2), and `a - n ln 2` is exact because a
/// fused multiply-add rounds only the small difference.
#[inline(always)]
pub(super) fn exp_dd(a: f64, b: f64) -> (f64, f64, f64) {
    let (n, _) = round_product(a, LOG2E);
    let t = n.mul_add(-LN2_HI, a);
    let tail = n.mul_add(-LN2_LO, b);
    let r = t + tail;
    let rl = tail - (r - t);
    let rr = r * r;
    let q = rr.mul_add(horner_in_pairs(r, rr, &coeffs::EXP), rl);
    let (s, sl) = fast_two_sum(r, q);
    let (hi, lo) = fast_two_sum(1.0, s);
    fast_two_sum_n(hi, lo + sl, n)
}

/// [`fast_two_sum`] that passes an exponent along.
#[inline(always)]
fn fast_two_sum_n(a: f64, b: f64, n: f64) -> (f64, f64, f64) {
    let (h, l) = fast_two_sum(a, b);
    (h, l, n)
}

/// `x = 2^k * m` with sqrt(1/2) <= m < sqrt(2), for positive finite `x` (subnormals included).
/// Other inputs give meaningless finite values, which callers select away.
#[inline(always)]
pub(super) fn log_split(x: f64) -> (f64, f64) {
    let small = x < f64::MIN_POSITIVE;
    let xs = sel(small, x * 18014398509481984.0, x);
    let u = xs.to_bits().wrapping_add(ONE_BITS - SQRT_HALF_BITS);
    let m = f64::from_bits((u & MANTISSA) + SQRT_HALF_BITS);
    // The biased exponent becomes a float by way of the bits of 2^52.
    let k = f64::from_bits((u >> 52) | 0x4330_0000_0000_0000)
        - sel(
            small,
            4503599627370496.0 + 1077.0,
            4503599627370496.0 + 1023.0,
        );
    (k, m)
}

/// `k ln 2 + log(1 + f + c)` as `hi + lo`, for `1 + f` in [sqrt(1/2), sqrt(2)] and tiny `c`.
///
/// With s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - (f^2/2 - s (f^2/2 + R(s^2))), the form of
/// fdlibm's logarithm (Sun Microsystems, 1993): `f` and `f^2/2` carry the accuracy, the rest is
/// small. `c / (1 + f)` needs only its leading bits, for which 1/(1+f) = (1 - s)/(1 + s) will do.
#[inline(always)]
pub(super) fn log_dd(k: f64, f: f64, c: f64) -> (f64, f64) {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * z.mul_add(horner_in_pairs(z, z * z, &coeffs::LOG), 0.6666666666666666);
    let hf = 0.5 * f;
    let h = hf * f;
    let hl = hf.mul_add(f, -h);
    let (a, al) = fast_two_sum(f, -h);
    let kh = k * LN2_HI;
    let (hi, lo) = fast_two_sum(kh, a);
    let one_s = 1.0 - s;
    let cc = c * (one_s * s.mul_add(s, one_s));
    let rest = s.mul_add(h + r, k.mul_add(LN2_LO, cc) + (al - hl));
    fast_two_sum(hi, lo + rest)
}

/// `log(1 + w + wl)` as `hi + lo`, for w > -1 finite and |wl| below half an ulp or so of `w`.
///
/// Away from zero the rounding error of `1 + w` goes into the correction `c` of [`log_dd`]; near
/// zero (k = 0) the mantissa of `w` itself is used, so nothing is lost.
#[inline(always)]
pub(super) fn log1p_dd(w: f64, wl: f64) -> (f64, f64) {
    let (u, err) = two_sum(1.0, w);
    let (k, m) = log_split(u);
    let near = k == 0.0;
    let f = sel(near, w, m - 1.0);
    let c = sel(near, wl, (err + wl) * pow2(sel(k > 1000.0, -1000.0, -k)));
    log_dd(k, f, c)
}

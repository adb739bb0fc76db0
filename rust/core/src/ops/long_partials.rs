//! Partial derivatives of elementwise primitives that are more than a line of their entries.

use crate::prim::Partial::{One, Steep, Times, Zero};
use crate::prim::{Partial, Prim, V};

/// The sign; for a complex number `conj(z) / |z|`, written so that it can be differentiated again.
pub(super) fn abs_partial<'e>(x: &[V<'e>], out: V<'e>, _: usize) -> Partial<'e> {
    if !x[0].dtype().is_complex() {
        return Times(x[0].sign());
    }
    let zero = out.is_zero();
    let modulus = zero.select(out.number(1.0), out).cast(x[0].dtype());
    Times(x[0].conj() / modulus)
}

/// Zero for a real sign; that of a complex number would need both parts.
pub(super) fn sign_partial<'e>(x: &[V<'e>], _: V<'e>, _: usize) -> Partial<'e> {
    if x[0].dtype().is_complex() {
        // z / |z| is not holomorphic, so no single factor describes it: NaN says so.
        return Times(x[0].number(f64::NAN));
    }
    Zero
}

/// A factor that may be too large for a number as the largest one, so that a result without influence
/// (its cotangent is 0) has none: `1 / (1 + exp(x))` is 0 then, and does not move.
pub(super) fn finite(factor: V<'_>) -> V<'_> {
    match factor.dtype().greatest() {
        Some(greatest) => factor.minimum(factor.number(greatest)),
        None => factor,
    }
}

/// `y * x**(y-1)` and `log(x) * x**y`. The second is 0 where x is 0 and y >= 0 (there x**y does not
/// depend on y, but log(x) is infinite).
pub(super) fn pow_partial<'e>(x: &[V<'e>], out: V<'e>, i: usize) -> Partial<'e> {
    let (base, exponent) = (x[0], x[1]);
    if i == 0 {
        if exponent.is(2.0) {
            return Times(base * 2.0);
        }
        if exponent.is(1.0) {
            return One;
        }
        if exponent.is(0.0) {
            return Zero;
        }
        if exponent.is(0.5) {
            return Steep(out * 2.0);
        }
        // At y == 0 the factor y makes the product 0, but 0 * 0**-1 is not a number.
        let zero = exponent.is_zero();
        let power = base.pow(zero.select(exponent.number(1.0), exponent - 1.0));
        return Times(exponent * power);
    }
    let zero = base.is_zero();
    let log = zero.select(base.number(1.0), base).log();
    Times(-finite(-finite(out * log)))
}

/// 1 where the argument wins, a half where both are equal, nothing where it loses, whatever its own derivative is
/// there: `minimum(exp(x), c)` is flat where the exponential is infinite. Beside a literal 0 a tie gives nothing, so that
/// `maximum(x, 0)` is the rectifier with derivative 0 at 0.
///
/// `beats` compares the winner with the loser, `ties` is true of equal ones too. The arguments alone tell. They are not compared with the result: that may have been computed
/// before, from a sum that has other last digits when it is computed again for this.
pub(super) fn extremum_partial<'e>(
    x: &[V<'e>],
    i: usize,
    (beats, ties): (Prim, Prim),
    skips_nan: bool,
) -> Partial<'e> {
    let (own, other) = (x[i], x[1 - i]);
    let passes = if other.is(0.0) { beats } else { ties };
    let mut mask = own.combine(passes, other);
    if skips_nan {
        let alone = other.isnan().and(own.isnan().not());
        mask = mask.or(alone);
    }
    if other.is(0.0) {
        return Partial::Where(mask, true);
    }
    let tie = own.equals(other);
    Partial::TimesWhere(tie.select(own.number(0.5), own.number(1.0)), mask)
}

/// `x / hypot(x, y)`, 0 at the origin.
pub(super) fn hypot_partial<'e>(x: &[V<'e>], out: V<'e>, i: usize) -> Partial<'e> {
    let zero = out.is_zero();
    Times(x[i] / zero.select(out.number(1.0), out))
}

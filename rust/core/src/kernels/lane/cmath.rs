//! Functions of a complex variable, in `f64` (`c64` goes through them and rounds once).
//!
//! Where the textbook formula cancels or overflows, the formulas are those of Kahan ("Branch cuts
//! for complex elementary functions") and Smith's division. Branch cuts and the values on axes
//! follow C99; combinations of infinities and NaN give NaN more often than C99 asks for.

// Conditions in vector loops are computed, not branched on.
#![allow(clippy::needless_bitwise_bool)]

use num_complex::Complex;

use crate::kernels::math::f64 as m;

type C = Complex<f64>;

#[inline(always)]
fn c(re: f64, im: f64) -> C {
    Complex::new(re, im)
}

macro_rules! with_slow_form {
    ($name:ident, $fast:ident, $slow:ident) => {
        #[inline(always)]
        fn $name(x: f64) -> f64 {
            if m::needs_fixup(x) {
                m::$slow(x)
            } else {
                m::$fast(x)
            }
        }
    };
}
with_slow_form!(sin_real, sin, sin_slow);
with_slow_form!(cos_real, cos, cos_slow);
with_slow_form!(tan_real, tan, tan_slow);

/// `i z`.
#[inline(always)]
fn times_i(z: C) -> C {
    c(-z.im, z.re)
}

/// `-i z`.
#[inline(always)]
fn over_i(z: C) -> C {
    c(z.im, -z.re)
}

/// `|z|` without overflow in between.
#[inline(always)]
pub(super) fn abs(z: C) -> f64 {
    m::hypot(z.re, z.im)
}

/// Smith's division: scales by the larger part of the divisor.
#[inline(always)]
pub(super) fn div(x: C, y: C) -> C {
    let wide = y.re.abs() >= y.im.abs();
    let (large, small) = if wide { (y.re, y.im) } else { (y.im, y.re) };
    // Zero over zero is left to the final quotient, which has the signs of IEEE division. A part may be NaN, and
    // then it is the smaller one here.
    let zero = large == 0.0 && small == 0.0;
    let ratio = if zero { 0.0 } else { small / large };
    // A zero counts as one without a sign, as in NumPy.
    let scale = if zero { 0.0 } else { large + small * ratio };
    let (p, q) = if zero {
        (x.re, x.im)
    } else if wide {
        (x.re + x.im * ratio, x.im - x.re * ratio)
    } else {
        (x.re * ratio + x.im, x.im * ratio - x.re)
    };
    c(p / scale, q / scale)
}

/// `1 / z`.
#[inline(always)]
pub(super) fn reciprocal(z: C) -> C {
    div(c(1.0, 0.0), z)
}

/// `z / |z|`, and 0 for 0; of infinite numbers the axis that they lie on, if it is one.
#[inline(always)]
pub(super) fn sign(z: C) -> C {
    let r = abs(z);
    if r == 0.0 {
        c(0.0, 0.0)
    } else if r == f64::INFINITY && z.im.is_infinite() != z.re.is_infinite() {
        if z.re.is_infinite() {
            c(z.re.signum(), 0.0)
        } else {
            c(0.0, z.im.signum())
        }
    } else {
        c(z.re / r, z.im / r)
    }
}

/// `exp(z)`.
#[inline(always)]
pub(super) fn exp(z: C) -> C {
    // Scaled, because the parts may be finite where exp(re) is not.
    const LIMIT: f64 = 700.0;
    let over = z.re > LIMIT;
    let r = m::exp(if over { z.re - LIMIT } else { z.re });
    let scale = if over {
        1.014_232_054_735_004_5e304
    } else {
        1.0
    };
    // As C99 has it: an infinite real part decides, whatever the angle is.
    if r == 0.0 && (z.im.is_finite() || z.re.is_infinite()) {
        return if z.im.is_finite() {
            c(0f64.copysign(cos_real(z.im)), 0f64.copysign(sin_real(z.im)))
        } else {
            c(0.0, 0.0)
        };
    }
    if z.re == f64::INFINITY && !z.im.is_finite() {
        return c(f64::INFINITY, f64::NAN);
    }
    let im = if z.im == 0.0 {
        z.im
    } else {
        r * sin_real(z.im) * scale
    };
    c(
        if z.im == 0.0 {
            r * scale
        } else {
            r * cos_real(z.im) * scale
        },
        im,
    )
}

/// `exp2(z)`.
#[inline(always)]
pub(super) fn exp2(z: C) -> C {
    exp(c(
        z.re * std::f64::consts::LN_2,
        z.im * std::f64::consts::LN_2,
    ))
}

/// `exp(z) - 1`.
#[inline(always)]
pub(super) fn expm1(z: C) -> C {
    let half = sin_real(0.5 * z.im);
    let e = m::expm1(z.re);
    let re = e * cos_real(z.im) - 2.0 * half * half;
    c(
        re,
        if z.im == 0.0 {
            z.im
        } else {
            (e + 1.0) * sin_real(z.im)
        },
    )
}

/// A sum and its rounding error.
#[inline(always)]
fn two_sum(x: f64, y: f64) -> (f64, f64) {
    let s = x + y;
    let t = s - x;
    (s, (x - (s - t)) + (y - t))
}

/// A square and its rounding error.
#[inline(always)]
fn two_square(x: f64) -> (f64, f64) {
    let p = x * x;
    (p, x.mul_add(x, -p))
}

/// `log|z|`.
#[inline(always)]
fn log_abs(z: C) -> f64 {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (large, small) = if x > y { (x, y) } else { (y, x) };
    let square = large * large + small * small;
    if square > 0.5 && square < 2.0 {
        // |z|^2 - 1 with twice the precision: it cancels near the unit circle.
        let (p, ep) = two_square(large);
        let (q, eq) = two_square(small);
        let (s, e1) = two_sum(p, -1.0);
        let (s, e2) = two_sum(s, q);
        0.5 * m::log1p(s + (e1 + e2 + ep + eq))
    } else if large > 1e300 {
        m::log(m::hypot(0.25 * x, 0.25 * y)) + 2.0 * std::f64::consts::LN_2
    } else {
        m::log(m::hypot(x, y))
    }
}

/// `log(z)`, the imaginary part in `[-pi, pi]`.
#[inline(always)]
pub(super) fn log(z: C) -> C {
    c(log_abs(z), m::atan2(z.im, z.re))
}

/// `log(z)` to base 2.
#[inline(always)]
pub(super) fn log2(z: C) -> C {
    let w = log(z);
    c(
        w.re * std::f64::consts::LOG2_E,
        w.im * std::f64::consts::LOG2_E,
    )
}

/// `log(z)` to base 10.
#[inline(always)]
pub(super) fn log10(z: C) -> C {
    let w = log(z);
    c(
        w.re * std::f64::consts::LOG10_E,
        w.im * std::f64::consts::LOG10_E,
    )
}

/// `log(1 + z)`.
#[inline(always)]
pub(super) fn log1p(z: C) -> C {
    let (x, y) = (z.re, z.im);
    if x.abs() > 0.5 || y.abs() > 0.5 {
        let w = log(c(1.0 + x, y));
        // On the axis the sum may round while log1p does not.
        return if y == 0.0 && x > -1.0 {
            c(m::log1p(x), y)
        } else {
            w
        };
    }
    // |1 + z|^2 - 1 = 2x + x^2 + y^2, where 2x and y^2 may cancel.
    let (p, ep) = two_square(x);
    let (q, eq) = two_square(y);
    let (s, e1) = two_sum(2.0 * x, q);
    let (s, e2) = two_sum(s, p);
    c(
        0.5 * m::log1p(s + (e1 + e2 + ep + eq)),
        m::atan2(y, 1.0 + x),
    )
}

/// The square root with a real part that is not negative.
#[inline(always)]
pub(super) fn sqrt(z: C) -> C {
    if z.re == 0.0 && z.im == 0.0 {
        return c(0.0, z.im);
    }
    if z.im.is_infinite() {
        return c(f64::INFINITY, z.im);
    }
    let (x, y) = (z.re.abs(), z.im.abs());
    let large = x.max(y);
    // Scaled by powers of four, whose roots are exact.
    let (scale, root) = if large > 1e300 {
        (0.0625, 4.0)
    } else if large < 1e-290 {
        (2f64.powi(108), 2f64.powi(-54))
    } else {
        (1.0, 1.0)
    };
    let (x, y) = (x * scale, y * scale);
    let t = ((x + m::hypot(x, y)) * 0.5).sqrt();
    let other = y / (2.0 * t) * root;
    let t = t * root;
    if z.re >= 0.0 {
        c(t, other.copysign(z.im))
    } else {
        c(other, t.copysign(z.im))
    }
}

/// A product in which an exact zero wins over an infinity.
#[inline(always)]
fn times(x: f64, y: f64) -> f64 {
    if x == 0.0 { x } else { x * y }
}

/// `sinh(z)`.
#[inline(always)]
pub(super) fn sinh(z: C) -> C {
    c(
        times(m::sinh(z.re), cos_real(z.im)),
        times(sin_real(z.im), m::cosh(z.re)),
    )
}

/// `cosh(z)`.
#[inline(always)]
pub(super) fn cosh(z: C) -> C {
    let im = if z.im == 0.0 {
        z.im * z.re.signum()
    } else {
        m::sinh(z.re) * sin_real(z.im)
    };
    c(
        m::cosh(z.re) * cos_real(z.im),
        if z.re == 0.0 {
            z.re * z.im.signum()
        } else {
            im
        },
    )
}

/// `tanh(z)`, by Kahan's formula.
#[inline(always)]
pub(super) fn tanh(z: C) -> C {
    if z.re.abs() > 22.0 {
        let im = 4.0 * sin_real(z.im) * cos_real(z.im) * m::exp(-2.0 * z.re.abs());
        return c(1f64.copysign(z.re), im);
    }
    let t = tan_real(z.im);
    let s = m::sinh(z.re);
    let beta = 1.0 + t * t;
    let rho = (1.0 + s * s).sqrt();
    if t.is_infinite() {
        return c(rho / s, 1.0 / t);
    }
    let scale = 1.0 + beta * s * s;
    c(beta * rho * s / scale, t / scale)
}

/// `sin(z)`.
#[inline(always)]
pub(super) fn sin(z: C) -> C {
    over_i(sinh(times_i(z)))
}

/// `cos(z)`.
#[inline(always)]
pub(super) fn cos(z: C) -> C {
    cosh(times_i(z))
}

/// `tan(z)`.
#[inline(always)]
pub(super) fn tan(z: C) -> C {
    over_i(tanh(times_i(z)))
}

/// Whether one of the parts is infinite; the logarithm of the inverse functions is infinite then,
/// and the angle that of the argument.
#[inline(always)]
fn is_infinite(z: C) -> bool {
    z.re.is_infinite() | z.im.is_infinite()
}

/// `asin(z)`, by Kahan's formulas, as the following ones.
#[inline(always)]
pub(super) fn asin(z: C) -> C {
    if is_infinite(z) {
        return c(m::atan2(z.re, z.im.abs()), f64::INFINITY.copysign(z.im));
    }
    let (low, high) = (sqrt(c(1.0 - z.re, -z.im)), sqrt(c(1.0 + z.re, z.im)));
    c(
        m::atan2(z.re, low.re * high.re - low.im * high.im),
        m::asinh(low.re * high.im - low.im * high.re),
    )
}

/// `acos(z)`.
#[inline(always)]
pub(super) fn acos(z: C) -> C {
    if is_infinite(z) {
        return c(m::atan2(z.im.abs(), z.re), -f64::INFINITY.copysign(z.im));
    }
    let (low, high) = (sqrt(c(1.0 - z.re, -z.im)), sqrt(c(1.0 + z.re, z.im)));
    c(
        2.0 * m::atan2(low.re, high.re),
        m::asinh(high.re * low.im - high.im * low.re),
    )
}

/// `atan(z)`.
#[inline(always)]
pub(super) fn atan(z: C) -> C {
    over_i(atanh(times_i(z)))
}

/// `asinh(z)`.
#[inline(always)]
pub(super) fn asinh(z: C) -> C {
    over_i(asin(times_i(z)))
}

/// `acosh(z)`, with a real part that is not negative.
#[inline(always)]
pub(super) fn acosh(z: C) -> C {
    if is_infinite(z) {
        return c(f64::INFINITY, m::atan2(z.im, z.re));
    }
    let (low, high) = (sqrt(c(z.re - 1.0, z.im)), sqrt(c(z.re + 1.0, z.im)));
    c(
        m::asinh(low.re * high.re + low.im * high.im),
        2.0 * m::atan2(low.im, high.re),
    )
}

/// `atanh(z)`.
#[inline(always)]
pub(super) fn atanh(z: C) -> C {
    let (x, y) = (z.re.abs(), z.im);
    if (x.max(y.abs()) > 1e150) & (!x.is_nan() | y.is_infinite()) {
        // The squares overflow; to the last place the angle is a right one.
        let right = std::f64::consts::FRAC_PI_2.copysign(y);
        return c(0f64.copysign(z.re), if y.is_nan() { y } else { right });
    }
    let gap = (1.0 - x) * (1.0 - x) + y * y;
    c(
        (0.25 * m::log1p(4.0 * x / gap)).copysign(z.re),
        0.5 * m::atan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y),
    )
}

/// `1 / (1 + exp(-z))`.
#[inline(always)]
pub(super) fn sigmoid(z: C) -> C {
    // The exponential of the half plane in which it does not overflow.
    let e = exp(if z.re > 0.0 { -z } else { z });
    let numerator = if z.re > 0.0 { c(1.0, 0.0) } else { e };
    div(numerator, c(1.0 + e.re, e.im))
}

/// `log(1 + exp(z))`.
#[inline(always)]
pub(super) fn softplus(z: C) -> C {
    if z.re > 0.0 {
        z + log1p(exp(-z))
    } else {
        log1p(exp(z))
    }
}

/// `x` to the power `y`; 1 when `y` is 0.
pub(super) fn pow(x: C, y: C) -> C {
    if y.re == 0.0 && y.im == 0.0 {
        return c(1.0, 0.0);
    }
    if x.re == 0.0 && x.im == 0.0 {
        return if y.re > 0.0 {
            c(0.0, 0.0)
        } else {
            c(f64::NAN, f64::NAN)
        };
    }
    if y.im == 0.0 && y.re.fract() == 0.0 && y.re.abs() <= 64.0 {
        let (mut base, mut n, mut result) = (x, y.re.abs() as u32, c(1.0, 0.0));
        while n > 0 {
            if n & 1 == 1 {
                result *= base;
            }
            base *= base;
            n >>= 1;
        }
        return if y.re < 0.0 {
            reciprocal(result)
        } else {
            result
        };
    }
    exp(y * log(x))
}

/// Whether `x` comes before `y` when the real parts decide first, as NumPy orders. Nothing comes before or
/// after a number with a part that is not a number.
#[inline(always)]
pub(super) fn less<T: PartialOrd + Copy>(x: Complex<T>, y: Complex<T>) -> bool {
    let ordered = (x.im <= y.im) | (y.im <= x.im);
    ((x.re < y.re) & ordered) | ((x.re == y.re) & (x.im < y.im))
}

/// [`less`], or equal.
#[inline(always)]
pub(super) fn less_equal<T: PartialOrd + Copy>(x: Complex<T>, y: Complex<T>) -> bool {
    let ordered = (x.im <= y.im) | (y.im <= x.im);
    ((x.re < y.re) & ordered) | ((x.re == y.re) & (x.im <= y.im))
}

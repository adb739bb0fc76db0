//! Powers with small multiples of one half as exponents, by multiplications, a square root and a division.
//!
//! They take a fraction of the time of a logarithm and an exponential. Each product keeps what its rounding takes
//! away (Dekker 1971, by fused multiply-add), so the result is that of the exact power, rounded, in all but very
//! few cases. Which pairs are computed so depends on them alone.
// Conditions are combined without branches.
#![allow(clippy::manual_range_contains)]

const TWO_52: f64 = 4503599627370496.0;

/// The most halves of an exponent.
pub const MOST_HALVES: f64 = 8.0;
/// 2^-100 and 2^100: what lies between them has powers whose low parts are normal numbers.
const SMALLEST: f64 = f64::from_bits((1023 - 100) << 52);
const LARGEST: f64 = f64::from_bits((1023 + 100) << 52);

/// Whether a number that is not negative is an integer; numbers from 2^52 on need not be told.
#[inline(always)]
fn is_whole(a: f64) -> bool {
    (a + TWO_52) - TWO_52 == a
}

/// Whether an exponent is one of these.
#[inline(always)]
#[must_use]
pub fn has_few_halves(y: f64) -> bool {
    let halves = (y + y).abs();
    (halves >= 1.0) & (halves <= MOST_HALVES) & is_whole(halves)
}

/// Whether a base can be multiplied out for one of these exponents.
#[inline(always)]
#[must_use]
pub fn takes(x: f64, y: f64) -> bool {
    let ordinary = (x.abs() >= SMALLEST) & (x.abs() < LARGEST);
    let rooted = (x > 0.0) | is_whole(y.abs());
    (ordinary & rooted) | ((x.to_bits() == 0) & (y > 0.0))
}

/// A power on its way, and the part of it that rounding took away.
#[derive(Debug, Clone, Copy)]
struct Power {
    high: f64,
    low: f64,
    /// The power before.
    before: f64,
}

impl Power {
    /// The power with the exponent 0.
    const ONE: Power = Power {
        high: 1.0,
        low: 0.0,
        before: 0.0,
    };

    /// The exponent plus one.
    #[inline(always)]
    fn times(self, x: f64) -> Power {
        let high = self.high * x;
        Power {
            high,
            low: self.low.mul_add(x, self.high.mul_add(x, -high)),
            before: self.high,
        }
    }

    /// The exponent plus a half, for an exponent from 1 on.
    #[inline(always)]
    fn times_root(self, x: f64) -> Power {
        let root = x.sqrt();
        // The root is off by rest / (2 * root), and x / root is the root.
        let rest = (-root).mul_add(root, x);
        let high = self.high * root;
        let low = self.low.mul_add(root, self.high.mul_add(root, -high));
        Power {
            high,
            low: (0.5 * rest * root).mul_add(self.before, low),
            before: self.high,
        }
    }

    /// The power.
    #[inline(always)]
    fn value(self) -> f64 {
        self.high + self.low
    }

    /// The power with the exponent negated.
    #[inline(always)]
    fn inverse(self) -> f64 {
        let inverse = 1.0 / self.high;
        let rest = (-inverse).mul_add(self.low, (-inverse).mul_add(self.high, 1.0));
        inverse.mul_add(rest, inverse)
    }
}

/// The whole part of one of these exponents without its sign, and whether there is a half more.
#[inline(always)]
#[must_use]
pub fn parts(y: f64) -> (u32, bool) {
    let whole = y.abs() as u32;
    (whole, f64::from(whole) != y.abs())
}

/// `x` to one of these exponents that takes it: `whole`, or a half more, or what is inverse to that.
#[inline(always)]
#[must_use]
pub fn half_power(x: f64, whole: u32, root: bool, inverse: bool) -> f64 {
    if whole == 0 {
        let root = x.sqrt();
        if !inverse {
            return root;
        }
        let power = Power {
            high: root,
            low: 0.5 * (-root).mul_add(root, x) / root,
            before: 0.0,
        };
        return power.inverse();
    }
    let mut power = Power::ONE;
    for _ in 0..whole {
        power = power.times(x);
    }
    if root {
        power = power.times_root(x);
    }
    if inverse {
        power.inverse()
    } else {
        power.value()
    }
}

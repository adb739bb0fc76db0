//! The elementary operations that need no approximation, written once for both widths: rounding,
//! remainders, signs, extrema.

/// Defines the module `$name` with every operation for the float type `$ty`.
macro_rules! scalar_operations {
    ($name:ident, $ty:ident) => {
        /// The operations for this width.
        pub mod $name {
            /// The largest integer not above `x`.
            #[inline(always)]
            #[must_use]
            pub fn floor(x: $ty) -> $ty {
                x.floor()
            }

            /// The smallest integer not below `x`.
            #[inline(always)]
            #[must_use]
            pub fn ceil(x: $ty) -> $ty {
                x.ceil()
            }

            /// The integer towards zero.
            #[inline(always)]
            #[must_use]
            pub fn trunc(x: $ty) -> $ty {
                x.trunc()
            }

            /// The nearest integer, halves going to the even one.
            #[inline(always)]
            #[must_use]
            pub fn round_half_even(x: $ty) -> $ty {
                x.round_ties_even()
            }

            /// C's `fmod`: the exact remainder of truncated division, with the sign of `x`.
            #[inline(always)]
            #[must_use]
            pub fn fmod(x: $ty, y: $ty) -> $ty {
                x % y
            }

            /// `NumPy`'s remainder: that of floored division, with the sign of the divisor.
            #[inline(always)]
            #[must_use]
            pub fn remainder(x: $ty, y: $ty) -> $ty {
                let m = x % y;
                if m == 0.0 {
                    (0.0 as $ty).copysign(y)
                } else if (y < 0.0) != (m < 0.0) && !m.is_nan() {
                    m + y
                } else {
                    m
                }
            }

            /// `NumPy`'s floor division: floor(x / y) from the exact remainder, so that it agrees
            /// with [`remainder`]; x / y itself where y is zero.
            #[inline(always)]
            #[must_use]
            pub fn floor_divide(x: $ty, y: $ty) -> $ty {
                if y == 0.0 {
                    return x / y;
                }
                let m = x % y;
                let whole = (x - m) / y;
                let down = m != 0.0 && (y < 0.0) != (m < 0.0);
                let q = if down { whole - 1.0 } else { whole };
                if q == 0.0 {
                    return (0.0 as $ty).copysign(x / y);
                }
                let floor = q.floor();
                if q - floor > 0.5 { floor + 1.0 } else { floor }
            }

            /// The magnitude of `x` with the sign of `y`.
            #[inline(always)]
            #[must_use]
            pub fn copysign(x: $ty, y: $ty) -> $ty {
                x.copysign(y)
            }

            /// -1, 0 or 1 (0 at both zeros); NaN at NaN.
            #[inline(always)]
            #[must_use]
            pub fn sign(x: $ty) -> $ty {
                let v = if x > 0.0 { 1.0 } else { 0.0 };
                let v = if x < 0.0 { -1.0 } else { v };
                if x.is_nan() { x } else { v }
            }

            /// The larger argument; NaN if either is NaN.
            #[inline(always)]
            #[must_use]
            pub fn maximum(x: $ty, y: $ty) -> $ty {
                if (x > y) | x.is_nan() { x } else { y }
            }

            /// The smaller argument; NaN if either is NaN.
            #[inline(always)]
            #[must_use]
            pub fn minimum(x: $ty, y: $ty) -> $ty {
                if (x < y) | x.is_nan() { x } else { y }
            }

            /// The larger argument, a NaN counting as absent.
            #[inline(always)]
            #[must_use]
            pub fn fmax(x: $ty, y: $ty) -> $ty {
                if (x >= y) | y.is_nan() { x } else { y }
            }

            /// The smaller argument, a NaN counting as absent.
            #[inline(always)]
            #[must_use]
            pub fn fmin(x: $ty, y: $ty) -> $ty {
                if (x <= y) | y.is_nan() { x } else { y }
            }
        }
    };
}

scalar_operations!(double, f64);
scalar_operations!(single, f32);

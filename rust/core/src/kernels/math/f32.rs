//! The `f32` functions under one name each.

pub use super::scalar::single::{ceil, copysign, floor, floor_divide, fmax, fmin, fmod, maximum};
pub use super::scalar::single::{minimum, remainder, round_half_even, sign, trunc};
pub use super::single::{cos, cos_slow, exp, log, needs_fixup, sigmoid, sin, sin_cos};
pub use super::single::{sin_cos_slow, sin_slow, tanh};
pub use super::wide::{acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cosh, erf, erfc, exp2};
pub use super::wide::{expm1, hypot, log1p, log2, log10, logaddexp, pow, sinh, softplus, sqrt};
pub use super::wide::{tan, tan_slow};

//! The `f64` functions under one name each.

pub use super::exp::{exp, exp2, expm1};
pub use super::hyperbolic::{acosh, asinh, atanh, cosh, sinh, tanh};
pub use super::inverse::{acos, asin, atan, atan2};
pub use super::log::{log, log1p, log2, log10};
pub use super::power::{cbrt, hypot, pow, sqrt};
pub use super::scalar::double::{ceil, copysign, floor, floor_divide, fmax, fmin, fmod, maximum};
pub use super::scalar::double::{minimum, remainder, round_half_even, sign, trunc};
pub use super::special::{erf, erfc, logaddexp, sigmoid, softplus};
pub use super::trig::{
    cos, cos_slow, needs_fixup, sin, sin_cos, sin_cos_slow, sin_slow, tan, tan_slow,
};

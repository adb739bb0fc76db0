//! Elementary and special functions written to vectorise.
//!
//! Every function is a plain scalar function without branches, tables or calls, marked
//! `#[inline(always)]`: placed in a simple loop inside a `#[target_feature]` function it compiles
//! to vector code for AVX-512, AVX2 or NEON from this one source (`map_unary` and its relatives
//! are such loops). The results do not depend on the instruction set, because multiply-adds are
//! fused everywhere (`mul_add`), in hardware or not.
//!
//! Accuracy is at most 2 ulp over the whole range, mostly below 1, including subnormals, huge
//! arguments and the special values of C99. The one exception to "no branches": `sin`, `cos` and
//! `tan` of huge arguments, for which `needs_fixup` says that the `*_slow` form must be used;
//! `map_unary_fixup` does so.
//!
//! Use as `math::f64::exp(x)` and `math::f32::exp(x)`.
// A vector function must be inlined into the loop that gives it its instruction set, and exact
// comparisons of floats are what argument reduction and special cases are made of.
#![allow(clippy::inline_always, clippy::float_cmp)]

mod coeffs;
mod exp;
pub mod f32;
pub mod f64;
mod hyperbolic;
mod inverse;
mod log;
mod map;
mod parts;
mod power;
mod reduce;
mod scalar;
mod single;
mod special;
mod trig;
mod wide;

#[cfg(test)]
mod tests;

pub use map::{
    map_binary, map_unary, map_unary_fixup, map_unary_in_place, map_unary_in_place_fixup,
};

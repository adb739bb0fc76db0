//! Elementary and special functions written to vectorise.
//!
//! Every function is a plain scalar function without branches, tables or calls, marked
//! `#[inline(always)]`: placed in a simple loop inside a `#[target_feature]` function it compiles
//! to vector code for AVX-512, AVX2 or NEON from this one source. (A loop must call the function
//! itself: passed as a value, the long ones are not inlined and stay scalar.) Results do not depend
//! on the instruction set, because multiply-adds are fused everywhere (`mul_add`), in hardware or
//! not.
//!
//! Accuracy is at most 2 ulp over the whole range, and below 1 nearly everywhere, including
//! subnormals, huge arguments and the special values of C99.
//!
//! The exception to "no branches" are `sin`, `cos` and `tan` of huge arguments, which need the
//! Payne-Hanek reduction. The fast functions return a meaningless value there; `needs_fixup(x)`,
//! itself vectorisable, tells where. A loop computes a block with the fast function, ORs
//! `needs_fixup` over the block, and where that holds replaces the affected results by those of
//! `sin_slow` and so on, which are scalar and right for every argument (and agree with the fast
//! functions bit for bit on ordinary ones).
//!
//! Use as `math::f64::exp(x)` and `math::f32::exp(x)`.
// A vector function must be inlined into the loop that gives it its instruction set, exact
// comparisons of floats are what argument reduction and special cases are made of, and conditions
// are combined without the branches of the lazy operators.
#![allow(
    clippy::inline_always,
    clippy::float_cmp,
    clippy::needless_bitwise_bool
)]

mod building_blocks;
mod coeffs;
mod exp;
pub mod f32;
mod f32_native;
mod f32_via_f64;
pub mod f64;
pub mod half_powers;
mod hyperbolic;
mod inverse;
mod log;
mod power;
mod reduce;
mod scalar;
mod special;
mod trig;

#[cfg(test)]
mod tests;

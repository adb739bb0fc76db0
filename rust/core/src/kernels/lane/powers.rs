//! Powers. In `f64` those with small multiples of one half as exponents are multiplied out, a block at a time.
//!
//! Nearly always all elements have one exponent. Where they do not, or some bases are out of range, a block is computed
//! in general first, so that no result depends on its neighbours.
// Elements of lanes are aligned.
#![allow(clippy::cast_ptr_alignment)]

use std::mem::MaybeUninit;

use super::loops::{BLOCK, Binary, Buffer, Machines, binary, operands, results};
use crate::kernels::math;
use crate::kernels::math::half_powers::{half_power, has_few_halves, parts, takes};
use crate::kernels::simd_level::{Level, leveled};

/// The lane for `f32`.
pub(super) fn f32<M: Machines>(level: M) -> Option<M::Function> {
    binary!(level, f32, f32 => f32, long |x, y| math::f32::pow(x, y))
}

/// The lane for `f64`.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn f64<M: Machines>(level: M) -> Option<M::Function> {
    Some(level.other(|level| match level {
        Level::Baseline => powers::<0>,
        Level::Avx2 => powers::<1>,
        Level::Avx512 => powers::<2>,
    }))
}

/// A power by logarithm and exponential.
struct General;

impl Binary for General {
    type A = f64;
    type B = f64;
    type R = f64;
    const LONG: bool = true;
    #[inline(always)]
    fn call(x: f64, y: f64) -> f64 {
        math::f64::pow(x, y)
    }
}

/// Which elements of a block can be multiplied out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Easy {
    None,
    Some,
    /// All, and they have one exponent.
    Alike,
}

unsafe fn powers<const LEVEL: usize>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    n: usize,
) {
    let level = Level::ALL[LEVEL];
    let general = level.binary::<General>();
    let (out, a, b) = (out.cast::<f64>(), a.cast::<f64>(), b.cast::<f64>());
    if n == 1 {
        // SAFETY: the contract of `Lane`; the level is supported, see `f64`.
        return unsafe { one(level)(out, a, b) };
    }
    let mut done = 0;
    while done < n {
        let m = BLOCK.min(n - done);
        // SAFETY: the contract of `Lane`; blocks have at most `BLOCK` elements, and the level is supported.
        unsafe {
            let (out, a, b) = (out.add(done), a.add(done), b.add(done));
            match survey(level)(a, b, m) {
                Easy::Alike => multiply_out(level)(out, a, b.read(), m),
                Easy::None => general(out.cast(), a.cast(), b.cast(), c, m),
                Easy::Some => {
                    let mut x: Buffer<f64> = [const { MaybeUninit::uninit() }; BLOCK];
                    let mut y: Buffer<f64> = [const { MaybeUninit::uninit() }; BLOCK];
                    std::ptr::copy_nonoverlapping(a, x.as_mut_ptr().cast(), m);
                    std::ptr::copy_nonoverlapping(b, y.as_mut_ptr().cast(), m);
                    general(out.cast(), a.cast(), b.cast(), c, m);
                    correct(level)(out, x.as_ptr().cast(), y.as_ptr().cast(), m);
                }
            }
        }
        done += m;
    }
}

leveled! {
    fn survey[](x: *const f64, y: *const f64, n: usize) -> Easy {
        // SAFETY: the caller passes `n` elements of each, at least one.
        let (x, y) = unsafe { (operands::<f64>(x.cast(), n), operands::<f64>(y.cast(), n)) };
        let first = y[0];
        if has_few_halves(first) {
            let mut hard = 0u64;
            for (&x, &y) in x.iter().zip(y) {
                hard |= u64::from((y != first) | !takes(x, first));
            }
            if hard == 0 {
                return Easy::Alike;
            }
        }
        let mut easy = 0u64;
        for (&x, &y) in x.iter().zip(y) {
            easy |= u64::from(has_few_halves(y) & takes(x, y));
        }
        if easy == 0 { Easy::None } else { Easy::Some }
    }
}

leveled! {
    fn one[](out: *mut f64, x: *const f64, y: *const f64) {
        // SAFETY: the caller passes an element of each, which are read before the result is written.
        unsafe {
            let (x, y) = (x.read(), y.read());
            out.write(easy(x, y).unwrap_or_else(|| math::f64::pow(x, y)));
        }
    }
}

leveled! {
    fn correct[](out: *mut f64, x: *const f64, y: *const f64, n: usize) {
        for i in 0..n {
            // SAFETY: the caller passes `n` elements of each and as many results, apart from each other.
            unsafe {
                if let Some(power) = easy(x.add(i).read(), y.add(i).read()) {
                    out.add(i).write(power);
                }
            }
        }
    }
}

/// A power that can be multiplied out.
#[inline(always)]
fn easy(x: f64, y: f64) -> Option<f64> {
    if !(has_few_halves(y) && takes(x, y)) {
        return None;
    }
    let (whole, root) = parts(y);
    Some(half_power(x, whole, root, y < 0.0))
}

/// Multiplies out a block with the exponent `WHOLE`, or a half more, or what is `INVERSE` to that.
#[inline(always)]
fn each<const WHOLE: u32, const ROOT: bool, const INVERSE: bool>(
    x: &[f64],
    out: &mut [MaybeUninit<f64>],
) {
    for (out, &x) in out.iter_mut().zip(x) {
        out.write(half_power(x, WHOLE, ROOT, INVERSE));
    }
}

leveled! {
    fn multiply_out[](out: *mut f64, x: *const f64, y: f64, n: usize) {
        let mut bases: Buffer<f64> = [const { MaybeUninit::uninit() }; BLOCK];
        // SAFETY: the caller passes at most `BLOCK` elements and room for as many results, which may lie in their place.
        let (x, out) = unsafe {
            std::ptr::copy_nonoverlapping(x, bases.as_mut_ptr().cast(), n);
            (operands::<f64>(bases.as_ptr().cast(), n), results::<f64>(out.cast(), n))
        };
        let (whole, root) = parts(y);
        match (whole, root, y < 0.0) {
            (0, _, false) => each::<0, true, false>(x, out),
            (0, _, true) => each::<0, true, true>(x, out),
            (1, false, false) => each::<1, false, false>(x, out),
            (1, false, true) => each::<1, false, true>(x, out),
            (1, true, false) => each::<1, true, false>(x, out),
            (1, true, true) => each::<1, true, true>(x, out),
            (2, false, false) => each::<2, false, false>(x, out),
            (2, false, true) => each::<2, false, true>(x, out),
            (2, true, false) => each::<2, true, false>(x, out),
            (2, true, true) => each::<2, true, true>(x, out),
            (3, false, false) => each::<3, false, false>(x, out),
            (3, false, true) => each::<3, false, true>(x, out),
            (3, true, false) => each::<3, true, false>(x, out),
            (3, true, true) => each::<3, true, true>(x, out),
            (_, _, false) => each::<4, false, false>(x, out),
            (_, _, true) => each::<4, false, true>(x, out),
        }
    }
}

//! Functions with two results that share most of their work, in one pass: the sine and the cosine.

use std::mem::MaybeUninit;

use super::loops::{BLOCK, Buffer, WIDTH, fill, operands, results};
use super::{Lane, LaneOp};
use crate::aval::DType;
use crate::kernels::math;
use crate::kernels::simd_level::{Level, leveled};

/// A function of one element with two results, as [`super::loops::Unary`].
trait Pair {
    type T: Copy;
    /// `#[inline(always)]`.
    fn call(a: Self::T) -> (Self::T, Self::T);
    fn misses(a: Self::T) -> bool;
    fn slow(a: Self::T) -> (Self::T, Self::T);
}

macro_rules! sin_cos {
    ($name:ident, $t:ident) => {
        /// The sine first, or the cosine.
        struct $name<const SIN_FIRST: bool>;
        impl<const SIN_FIRST: bool> Pair for $name<SIN_FIRST> {
            type T = $t;
            #[inline(always)]
            fn call(a: $t) -> ($t, $t) {
                let (s, c) = math::$t::sin_cos(a);
                if SIN_FIRST { (s, c) } else { (c, s) }
            }
            #[inline(always)]
            fn misses(a: $t) -> bool {
                math::$t::needs_fixup(a)
            }
            fn slow(a: $t) -> ($t, $t) {
                let (s, c) = math::$t::sin_cos_slow(a);
                if SIN_FIRST { (s, c) } else { (c, s) }
            }
        }
    };
}
sin_cos!(Single, f32);
sin_cos!(Double, f64);

/// The lane of an operation and its pendant on the same operand: what is called with the place of the second
/// results in the place of a second operand. `None` when the two are no pair. Either result may lie where the operand lies.
pub(in crate::kernels) fn pair(first: LaneOp, second: LaneOp, dtype: DType) -> Option<Lane> {
    let level = Level::best();
    Some(match (first, second, dtype) {
        (LaneOp::Sin, LaneOp::Cos, DType::F32) => at::<Single<true>>(level),
        (LaneOp::Cos, LaneOp::Sin, DType::F32) => at::<Single<false>>(level),
        (LaneOp::Sin, LaneOp::Cos, DType::F64) => at::<Double<true>>(level),
        (LaneOp::Cos, LaneOp::Sin, DType::F64) => at::<Double<false>>(level),
        _ => return None,
    })
}

/// The same for one `f64` that is in a register, as are both results: the address of the function. `None` where C returns
/// two floats in another way.
#[cfg_attr(not(feature = "machine-code"), allow(dead_code))]
pub(in crate::kernels) fn pair_of_one(
    first: LaneOp,
    second: LaneOp,
    dtype: DType,
) -> Option<usize> {
    let level = Level::best();
    Some(match (first, second, dtype) {
        _ if cfg!(windows) => return None,
        (LaneOp::Sin, LaneOp::Cos, DType::F64) => in_registers::<Double<true>>(level),
        (LaneOp::Cos, LaneOp::Sin, DType::F64) => in_registers::<Double<false>>(level),
        _ => return None,
    })
}

/// Two results, as C returns them.
#[repr(C)]
struct Two<T>(T, T);

leveled! {
    fn pair_value[K: Pair](a: K::T) -> Two<K::T> {
        let (y, z) = if K::misses(a) { K::slow(a) } else { K::call(a) };
        Two(y, z)
    }
}

unsafe extern "C" fn pair_register<K: Pair, const LEVEL: usize>(a: K::T) -> Two<K::T> {
    // SAFETY: the caller's processor supports the level.
    unsafe { pair_value::<K>(Level::ALL[LEVEL])(a) }
}

fn in_registers<K: Pair>(level: Level) -> usize {
    let function: unsafe extern "C" fn(K::T) -> Two<K::T> = match level {
        Level::Baseline => pair_register::<K, 0>,
        Level::Avx2 => pair_register::<K, 1>,
        Level::Avx512 => pair_register::<K, 2>,
    };
    function as usize
}

fn at<K: Pair>(level: Level) -> Lane {
    match level {
        Level::Baseline => long::<K, 0>,
        Level::Avx2 => long::<K, 1>,
        Level::Avx512 => long::<K, 2>,
    }
}

leveled! {
    fn pair_loop[K: Pair](
        a: &[K::T], first: &mut [MaybeUninit<K::T>], second: &mut [MaybeUninit<K::T>],
    ) {
        let mut missed = false;
        for ((first, second), &x) in first.iter_mut().zip(second.iter_mut()).zip(a) {
            let (y, z) = K::call(x);
            first.write(y);
            second.write(z);
            missed |= K::misses(x);
        }
        if missed {
            correct::<K>(a, first, second);
        }
    }
}

#[cold]
fn correct<K: Pair>(a: &[K::T], first: &mut [MaybeUninit<K::T>], second: &mut [MaybeUninit<K::T>]) {
    for ((first, second), &x) in first.iter_mut().zip(second).zip(a) {
        if K::misses(x) {
            let (y, z) = K::slow(x);
            first.write(y);
            second.write(z);
        }
    }
}

/// As `unary_long`: operands in the place of a result, and what does not fill vectors, go through a buffer.
unsafe fn long<K: Pair, const LEVEL: usize>(
    out: *mut u8,
    a: *const u8,
    second: *const u8,
    _c: *const u8,
    n: usize,
) {
    let core = pair_loop::<K>(Level::ALL[LEVEL]);
    let second = second.cast_mut();
    if n == 1 {
        // SAFETY: as below; the operand is read before the results are written.
        unsafe {
            let Two(y, z) = pair_value::<K>(Level::ALL[LEVEL])(a.cast::<K::T>().read());
            out.cast::<K::T>().write(y);
            second.cast::<K::T>().write(z);
        }
        return;
    }
    let mut done = 0;
    // SAFETY: the contract of `Lane`, and `second` is a place for results of its own; the level is the machine's.
    // Buffers hold `BLOCK` elements, of which `padded` are initialised.
    unsafe {
        if out.cast_const() != a && second.cast_const() != a {
            done = n / WIDTH * WIDTH;
            core(operands(a, done), results(out, done), results(second, done));
        }
        let (y, z, a) = (out.cast::<K::T>(), second.cast::<K::T>(), a.cast::<K::T>());
        while done < n {
            let m = BLOCK.min(n - done);
            let mut x: Buffer<K::T> = [const { MaybeUninit::uninit() }; BLOCK];
            let mut first: Buffer<K::T> = [const { MaybeUninit::uninit() }; BLOCK];
            let mut other: Buffer<K::T> = [const { MaybeUninit::uninit() }; BLOCK];
            let padded = fill(&mut x, a.add(done), m);
            let x = operands(x.as_ptr().cast(), padded);
            core(x, &mut first[..padded], &mut other[..padded]);
            std::ptr::copy_nonoverlapping(first.as_ptr().cast(), y.add(done), m);
            std::ptr::copy_nonoverlapping(other.as_ptr().cast(), z.add(done), m);
            done += m;
        }
    }
}

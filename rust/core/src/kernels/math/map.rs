//! Loops that apply a scalar function to slices.
//!
//! They are meant to be instantiated inside a `#[target_feature]` function: everything is
//! `#[inline(always)]`, so the function and the loop are compiled together for the instruction set
//! of the caller and vectorise there.
//!
//! Functions with a `needs_fixup`/`*_slow` pair (sin, cos, tan) go through the `*_fixup` loops: a
//! block whose arguments are all ordinary, which is nearly every block, takes one vector pass;
//! otherwise the block is computed lane by lane by the slow form, which agrees bit for bit with
//! the fast one on ordinary arguments.

/// Elements examined together by the `*_fixup` loops: small enough to stay in the nearest cache.
const BLOCK: usize = 256;

/// `out[i] = f(a[i])` over the common length.
#[inline(always)]
pub fn map_unary<T: Copy>(out: &mut [T], a: &[T], f: impl Fn(T) -> T) {
    for (o, &x) in out.iter_mut().zip(a) {
        *o = f(x);
    }
}

/// `x[i] = f(x[i])`.
#[inline(always)]
pub fn map_unary_in_place<T: Copy>(x: &mut [T], f: impl Fn(T) -> T) {
    for v in x {
        *v = f(*v);
    }
}

/// `out[i] = f(a[i], b[i])` over the common length.
#[inline(always)]
pub fn map_binary<T: Copy>(out: &mut [T], a: &[T], b: &[T], f: impl Fn(T, T) -> T) {
    for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *o = f(x, y);
    }
}

/// Whether any element needs the slow form; an OR over all lanes, without an early exit.
#[inline(always)]
fn any<T: Copy>(a: &[T], needs_fixup: impl Fn(T) -> bool) -> bool {
    let mut found = false;
    for &x in a {
        found |= needs_fixup(x);
    }
    found
}

/// [`map_unary`] for a function that is wrong where `needs_fixup` holds and has a `slow` form.
#[inline(always)]
pub fn map_unary_fixup<T: Copy>(
    out: &mut [T],
    a: &[T],
    f: impl Fn(T) -> T,
    needs_fixup: impl Fn(T) -> bool,
    slow: impl Fn(T) -> T,
) {
    for (out, a) in out.chunks_mut(BLOCK).zip(a.chunks(BLOCK)) {
        if any(a, &needs_fixup) {
            slow_block(out, a, &slow);
        } else {
            map_unary(out, a, &f);
        }
    }
}

/// [`map_unary_in_place`] for a function with a slow form.
#[inline(always)]
pub fn map_unary_in_place_fixup<T: Copy>(
    x: &mut [T],
    f: impl Fn(T) -> T,
    needs_fixup: impl Fn(T) -> bool,
    slow: impl Fn(T) -> T,
) {
    for x in x.chunks_mut(BLOCK) {
        if any(x, &needs_fixup) {
            for v in x {
                *v = slow(*v);
            }
        } else {
            map_unary_in_place(x, &f);
        }
    }
}

/// The rare block, kept out of line.
#[cold]
#[inline(never)]
fn slow_block<T: Copy>(out: &mut [T], a: &[T], slow: impl Fn(T) -> T) {
    for (o, &x) in out.iter_mut().zip(a) {
        *o = slow(x);
    }
}

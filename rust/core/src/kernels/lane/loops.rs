//! The loops that turn a scalar function into a lane: a call over contiguous elements.
//!
//! A lane's result may lie exactly where an operand lies. A compiler vectorises a loop over pointers
//! that may be equal only behind a check that sends the equal case to scalar code, so each kind of
//! equality gets a loop of its own. Functions with a long body (`LONG`) have a single loop instead:
//! operands in place, and the rest that does not fill vectors, go through a small buffer.

use std::mem::{MaybeUninit, size_of, transmute_copy};

use crate::kernels::simd_level::{Level, leveled};

/// A call over `n` contiguous elements: `out[i] = op(a[i], b[i], c[i])`.
///
/// All pointers are aligned to the size of their elements (8 bytes suffice) and valid for `n` of
/// them; operands that the operation lacks are null. `out` may be exactly equal to an operand whose elements have the size
/// of the result's; otherwise it does not overlap them.
pub type Lane = unsafe fn(out: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize);

/// A function of one element.
pub(super) trait Unary {
    /// The operand.
    type A: Copy;
    /// The result.
    type R: Copy;
    /// Whether the body is long.
    const LONG: bool;
    /// The function; `#[inline(always)]`.
    fn call(a: Self::A) -> Self::R;
    /// Whether `call` does not cover this argument.
    #[inline(always)]
    fn misses(_a: Self::A) -> bool {
        false
    }
    /// The function for every argument, where `call` misses some.
    fn slow(a: Self::A) -> Self::R {
        Self::call(a)
    }
}

/// A function of two elements.
pub(super) trait Binary {
    /// The first operand.
    type A: Copy;
    /// The second operand.
    type B: Copy;
    /// The result.
    type R: Copy;
    /// Whether the body is long.
    const LONG: bool;
    /// The function; `#[inline(always)]`.
    fn call(a: Self::A, b: Self::B) -> Self::R;
}

/// Long functions are called on multiples of this many elements: one vector of `f32` in AVX-512.
pub(super) const WIDTH: usize = 16;
/// So few elements are computed one by one: filling a vector and emptying it takes longer.
pub(super) const FEW: usize = 2;
/// Elements in the buffers of long functions.
pub(super) const BLOCK: usize = 128;

pub(super) type Buffer<T> = [MaybeUninit<T>; BLOCK];

/// Reads an operand out of the place that the result will be written to; the sizes are equal.
#[inline(always)]
unsafe fn reread<A: Copy, R>(place: &MaybeUninit<R>) -> A {
    // SAFETY: the caller passes a place that holds an initialised `A`.
    unsafe { transmute_copy(place) }
}

/// The slice of uninitialised results at `p`.
#[inline(always)]
pub(super) unsafe fn results<'a, R>(p: *mut u8, n: usize) -> &'a mut [MaybeUninit<R>] {
    // SAFETY: the caller passes memory for `n` results, which nobody else uses.
    unsafe { std::slice::from_raw_parts_mut(p.cast(), n) }
}

/// The slice of operands at `p`.
#[inline(always)]
pub(super) unsafe fn operands<'a, A>(p: *const u8, n: usize) -> &'a [A] {
    // SAFETY: the caller passes `n` initialised operands, which nobody writes meanwhile.
    unsafe { std::slice::from_raw_parts(p.cast(), n) }
}

/// Copies operands into a buffer, and repeats the last one until the count is a multiple of
/// `WIDTH`; returns that count.
#[inline(always)]
pub(super) unsafe fn fill<A: Copy>(buffer: &mut Buffer<A>, p: *const A, n: usize) -> usize {
    let padded = n.next_multiple_of(WIDTH);
    // SAFETY: the caller passes `n` operands at `p`, with `0 < n <= BLOCK`.
    unsafe {
        std::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr().cast(), n);
        let last = MaybeUninit::new(*p.add(n - 1));
        buffer[n..padded].fill(last);
    }
    padded
}

leveled! {
    fn unary_loop[K: Unary](a: &[K::A], out: &mut [MaybeUninit<K::R>]) {
        let mut missed = false;
        for (o, &x) in out.iter_mut().zip(a) {
            o.write(K::call(x));
            missed |= K::misses(x);
        }
        if missed {
            correct::<K>(a, out);
        }
    }
}

/// Replaces the results of arguments that the fast function misses, which are rare.
#[cold]
fn correct<K: Unary>(a: &[K::A], out: &mut [MaybeUninit<K::R>]) {
    for (out, &x) in out.iter_mut().zip(a).filter(|&(_, &x)| K::misses(x)) {
        out.write(K::slow(x));
    }
}

#[inline(always)]
unsafe fn unary_body<K: Unary>(out: *mut u8, a: *const u8, _b: *const u8, _c: *const u8, n: usize) {
    // SAFETY: the contract of `Lane`; where `out` is `a`, the operand is read through `out`.
    unsafe {
        let o = results::<K::R>(out, n);
        if out.cast_const() == a && size_of::<K::A>() == size_of::<K::R>() {
            for o in o {
                let x = reread(o);
                o.write(K::call(x));
            }
        } else {
            for (o, &x) in o.iter_mut().zip(operands::<K::A>(a, n)) {
                o.write(K::call(x));
            }
        }
    }
}

leveled! {
    fn unary_short[K: Unary](out: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's contract is the body's.
        unsafe { unary_body::<K>(out, a, b, c, n) }
    }
}

leveled! {
    fn unary_value[K: Unary](a: K::A) -> K::R {
        if K::misses(a) { K::slow(a) } else { K::call(a) }
    }
}

/// A function of one float as C calls it: with the float in a register.
unsafe extern "C" fn unary_register<K: Unary, const LEVEL: usize>(a: K::A) -> K::R {
    // SAFETY: the caller's processor supports the level.
    unsafe { unary_value::<K>(Level::ALL[LEVEL])(a) }
}

unsafe fn unary_long<K: Unary, const LEVEL: usize>(
    out: *mut u8,
    a: *const u8,
    _b: *const u8,
    _c: *const u8,
    n: usize,
) {
    if n <= FEW {
        let one = unary_value::<K>(Level::ALL[LEVEL]);
        for i in 0..n {
            // SAFETY: the contract of `Lane`; the level is supported, see `unary`. An element is read before its result
            // is written.
            unsafe {
                out.cast::<K::R>()
                    .add(i)
                    .write(one(a.cast::<K::A>().add(i).read()));
            };
        }
        return;
    }
    let core = unary_loop::<K>(Level::ALL[LEVEL]);
    let mut done = 0;
    // SAFETY: the contract of `Lane`; the level is supported, see `unary`. Buffers hold `BLOCK`
    // elements, of which `padded` are initialised.
    unsafe {
        if out.cast_const() != a {
            done = n / WIDTH * WIDTH;
            core(operands(a, done), results(out, done));
        }
        let (o, a) = (out.cast::<K::R>(), a.cast::<K::A>());
        while done < n {
            let m = BLOCK.min(n - done);
            let mut x: Buffer<K::A> = [const { MaybeUninit::uninit() }; BLOCK];
            let mut r: Buffer<K::R> = [const { MaybeUninit::uninit() }; BLOCK];
            let padded = fill(&mut x, a.add(done), m);
            core(operands(x.as_ptr().cast(), padded), &mut r[..padded]);
            std::ptr::copy_nonoverlapping(r.as_ptr().cast(), o.add(done), m);
            done += m;
        }
    }
}

/// For which machines functions are compiled: a level stands for every one, and picks itself.
pub(super) trait Machines: Copy {
    /// What is asked for, in most cases a lane.
    type Function;
    /// That of a function of one element.
    fn unary<K: Unary>(self) -> Self::Function;
    /// That of a function of two elements.
    fn binary<K: Binary>(self) -> Self::Function;
    /// That of a lane that is made in another way.
    fn other(self, lane: impl FnOnce(Level) -> Lane) -> Self::Function;
}

/// The addresses of functions that are called with one float in a register, where there are such.
#[derive(Clone, Copy)]
pub(super) struct Registers(pub Level);

impl Machines for Registers {
    type Function = Option<usize>;

    fn unary<K: Unary>(self) -> Option<usize> {
        if !K::LONG {
            return None;
        }
        let function: unsafe extern "C" fn(K::A) -> K::R = match self.0 {
            Level::Baseline => unary_register::<K, 0>,
            Level::Avx2 => unary_register::<K, 1>,
            Level::Avx512 => unary_register::<K, 2>,
        };
        Some(function as usize)
    }

    fn binary<K: Binary>(self) -> Option<usize> {
        None
    }

    fn other(self, _: impl FnOnce(Level) -> Lane) -> Option<usize> {
        None
    }
}

impl Machines for Level {
    type Function = Lane;

    fn other(self, lane: impl FnOnce(Level) -> Lane) -> Lane {
        lane(self)
    }

    fn unary<K: Unary>(self) -> Lane {
        match (K::LONG, self) {
            (false, _) => unary_short::<K>(self),
            (true, Level::Baseline) => unary_long::<K, 0>,
            (true, Level::Avx2) => unary_long::<K, 1>,
            (true, Level::Avx512) => unary_long::<K, 2>,
        }
    }

    fn binary<K: Binary>(self) -> Lane {
        match (K::LONG, self) {
            (false, _) => binary_short::<K>(self),
            (true, Level::Baseline) => binary_long::<K, 0>,
            (true, Level::Avx2) => binary_long::<K, 1>,
            (true, Level::Avx512) => binary_long::<K, 2>,
        }
    }
}

/// Short functions of types that are rarely computed with: they are compiled once, for the baseline.
#[derive(Clone, Copy)]
pub(super) struct Any;

impl Machines for Any {
    type Function = Lane;

    fn other(self, lane: impl FnOnce(Level) -> Lane) -> Lane {
        lane(Level::Baseline)
    }

    fn unary<K: Unary>(self) -> Lane {
        const { assert!(!K::LONG) };
        unary_body::<K>
    }

    fn binary<K: Binary>(self) -> Lane {
        const { assert!(!K::LONG) };
        binary_body::<K>
    }
}

leveled! {
    fn binary_loop[K: Binary](a: &[K::A], b: &[K::B], out: &mut [MaybeUninit<K::R>]) {
        for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
            o.write(K::call(x, y));
        }
    }
}

#[inline(always)]
unsafe fn binary_body<K: Binary>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    _c: *const u8,
    n: usize,
) {
    let first = out.cast_const() == a && size_of::<K::A>() == size_of::<K::R>();
    let second = out.cast_const() == b && size_of::<K::B>() == size_of::<K::R>();
    // SAFETY: the contract of `Lane`; where `out` is an operand, that operand is read through
    // `out`, so that the slices are disjoint.
    unsafe {
        let o = results::<K::R>(out, n);
        if first && second {
            for o in o {
                let (x, y) = (reread(o), reread(o));
                o.write(K::call(x, y));
            }
        } else if first {
            for (o, &y) in o.iter_mut().zip(operands::<K::B>(b, n)) {
                let x = reread(o);
                o.write(K::call(x, y));
            }
        } else if second {
            for (o, &x) in o.iter_mut().zip(operands::<K::A>(a, n)) {
                let y = reread(o);
                o.write(K::call(x, y));
            }
        } else {
            let (a, b) = (operands::<K::A>(a, n), operands::<K::B>(b, n));
            for ((o, &x), &y) in o.iter_mut().zip(a).zip(b) {
                o.write(K::call(x, y));
            }
        }
    }
}

leveled! {
    fn binary_short[K: Binary](out: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's contract is the body's.
        unsafe { binary_body::<K>(out, a, b, c, n) }
    }
}

leveled! {
    fn binary_one[K: Binary](out: *mut u8, a: *const u8, b: *const u8) {
        // SAFETY: as in `unary_one`.
        unsafe {
            let (x, y) = (a.cast::<K::A>().read(), b.cast::<K::B>().read());
            out.cast::<K::R>().write(K::call(x, y));
        }
    }
}

unsafe fn binary_long<K: Binary, const LEVEL: usize>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    _c: *const u8,
    n: usize,
) {
    if n <= FEW {
        let one = binary_one::<K>(Level::ALL[LEVEL]);
        for i in 0..n {
            let at = |p: *const u8, size: usize| p.wrapping_add(i * size);
            let to = at(out, size_of::<K::R>()).cast_mut();
            // SAFETY: as in `unary_long`.
            unsafe { one(to, at(a, size_of::<K::A>()), at(b, size_of::<K::B>())) };
        }
        return;
    }
    let core = binary_loop::<K>(Level::ALL[LEVEL]);
    let mut done = 0;
    // SAFETY: as in `unary_long`.
    unsafe {
        if out.cast_const() != a && out.cast_const() != b {
            done = n / WIDTH * WIDTH;
            core(operands(a, done), operands(b, done), results(out, done));
        }
        let (o, a, b) = (out.cast::<K::R>(), a.cast::<K::A>(), b.cast::<K::B>());
        while done < n {
            let m = BLOCK.min(n - done);
            let mut x: Buffer<K::A> = [const { MaybeUninit::uninit() }; BLOCK];
            let mut y: Buffer<K::B> = [const { MaybeUninit::uninit() }; BLOCK];
            let mut r: Buffer<K::R> = [const { MaybeUninit::uninit() }; BLOCK];
            let padded = fill(&mut x, a.add(done), m);
            fill(&mut y, b.add(done), m);
            let (x, y) = (x.as_ptr().cast(), y.as_ptr().cast());
            core(operands(x, padded), operands(y, padded), &mut r[..padded]);
            std::ptr::copy_nonoverlapping(r.as_ptr().cast(), o.add(done), m);
            done += m;
        }
    }
}

/// Bits that `where` picks by a mask instead of by a branch.
pub(super) trait Bits: Copy {
    /// `y` where the mask byte is 1, `z` where it is 0.
    fn pick(mask: u8, y: Self, z: Self) -> Self;
}

macro_rules! bits {
    ($($t:ident)*) => {
        $(impl Bits for $t {
            #[inline(always)]
            fn pick(mask: u8, y: $t, z: $t) -> $t {
                z ^ ((y ^ z) & $t::from(mask != 0).wrapping_neg())
            }
        })*
    };
}
bits!(u8 u16 u32 u64);

impl Bits for [u64; 2] {
    #[inline(always)]
    fn pick(mask: u8, y: [u64; 2], z: [u64; 2]) -> [u64; 2] {
        [u64::pick(mask, y[0], z[0]), u64::pick(mask, y[1], z[1])]
    }
}

leveled! {
    fn select_loop[T: Bits](
        out: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize,
    ) {
        // SAFETY: the contract of `Lane`, and `out` is not `a`; where `out` is another operand,
        // that operand is read through `out`.
        unsafe {
            let mask = operands::<u8>(a, n);
            let o = results::<T>(out, n);
            if out.cast_const() == b && out.cast_const() == c {
            } else if out.cast_const() == b {
                for ((o, &m), &z) in o.iter_mut().zip(mask).zip(operands::<T>(c, n)) {
                    let y = o.assume_init();
                    o.write(T::pick(m, y, z));
                }
            } else if out.cast_const() == c {
                for ((o, &m), &y) in o.iter_mut().zip(mask).zip(operands::<T>(b, n)) {
                    let z = o.assume_init();
                    o.write(T::pick(m, y, z));
                }
            } else {
                let (b, c) = (operands::<T>(b, n), operands::<T>(c, n));
                for (((o, &m), &y), &z) in o.iter_mut().zip(mask).zip(b).zip(c) {
                    o.write(T::pick(m, y, z));
                }
            }
        }
    }
}

unsafe fn select_in_mask<T: Bits, const LEVEL: usize>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    n: usize,
) {
    let core = select_loop::<T>(Level::ALL[LEVEL]);
    // SAFETY: the contract of `Lane`. Only elements of one byte can lie where the mask lies, and
    // then the mask is copied first.
    unsafe {
        if out.cast_const() != a {
            return core(out, a, b, c, n);
        }
        let mut mask = [0u8; BLOCK];
        let mut done = 0;
        while done < n {
            let m = BLOCK.min(n - done);
            std::ptr::copy_nonoverlapping(a.add(done), mask.as_mut_ptr(), m);
            core(out.add(done), mask.as_ptr(), b.add(done), c.add(done), m);
            done += m;
        }
    }
}

/// The lane of `where(mask, b, c)` for elements of this type.
pub(super) fn select<T: Bits>(level: Level) -> Lane {
    match (size_of::<T>(), level) {
        (1, Level::Baseline) => select_in_mask::<T, 0>,
        (1, Level::Avx2) => select_in_mask::<T, 1>,
        (1, Level::Avx512) => select_in_mask::<T, 2>,
        _ => select_loop::<T>(level),
    }
}

/// The lane that copies elements of a type.
pub(super) unsafe fn copy<T: Copy>(
    out: *mut u8,
    a: *const u8,
    _b: *const u8,
    _c: *const u8,
    n: usize,
) {
    // SAFETY: the contract of `Lane`; `out` may be `a`.
    unsafe { std::ptr::copy(a, out, n * size_of::<T>()) };
}

/// `unary!(level, A => R, |x| body)`: the lane of a short function; `long` in front of the
/// parameter marks a long one, and `, slow, misses` behind the body what is called for arguments that it misses.
macro_rules! unary {
    ($level:expr, $a:ty => $r:ty, |$x:ident| $body:expr) => {
        $crate::kernels::lane::loops::unary!(@ $level, $a, $r, false, $x, $body, )
    };
    ($level:expr, $a:ty => $r:ty, long |$x:ident| $body:expr) => {
        $crate::kernels::lane::loops::unary!(@ $level, $a, $r, true, $x, $body, )
    };
    ($level:expr, $a:ty => $r:ty, long |$x:ident| $body:expr, $slow:path, $if:path) => {
        $crate::kernels::lane::loops::unary!(@ $level, $a, $r, true, $x, $body,
            #[inline(always)]
            fn misses(a: $a) -> bool {
                $if(a)
            }
            fn slow(a: $a) -> $r {
                $slow(a)
            }
        )
    };
    (@ $level:expr, $a:ty, $r:ty, $long:literal, $x:ident, $body:expr, $($other:item)*) => {{
        struct K;
        impl $crate::kernels::lane::loops::Unary for K {
            type A = $a;
            type R = $r;
            const LONG: bool = $long;
            #[inline(always)]
            fn call($x: $a) -> $r {
                $body
            }
            $($other)*
        }
        Some($crate::kernels::lane::loops::Machines::unary::<K>($level))
    }};
}
pub(super) use unary;

/// `binary!(level, A, B => R, |x, y| body)`, with `long` as in `unary!`.
macro_rules! binary {
    ($level:expr, $a:ty, $b:ty => $r:ty, |$x:ident, $y:ident| $body:expr) => {
        $crate::kernels::lane::loops::binary!(@ $level, $a, $b, $r, false, $x, $y, $body)
    };
    ($level:expr, $a:ty, $b:ty => $r:ty, long |$x:ident, $y:ident| $body:expr) => {
        $crate::kernels::lane::loops::binary!(@ $level, $a, $b, $r, true, $x, $y, $body)
    };
    (@ $level:expr, $a:ty, $b:ty, $r:ty, $long:literal, $x:ident, $y:ident, $body:expr) => {{
        struct K;
        impl $crate::kernels::lane::loops::Binary for K {
            type A = $a;
            type B = $b;
            type R = $r;
            const LONG: bool = $long;
            #[inline(always)]
            fn call($x: $a, $y: $b) -> $r {
                $body
            }
        }
        Some($crate::kernels::lane::loops::Machines::binary::<K>($level))
    }};
}
pub(super) use binary;

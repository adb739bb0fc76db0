//! Loops over tiles of whole rows: an operation with one element for each row, and such elements repeated.
#![allow(clippy::cast_ptr_alignment)]

use std::mem::MaybeUninit;

use crate::aval::DType;
use crate::kernels::lane::LaneOp;
use crate::kernels::simd_level::{Level, leveled};

/// `(x, rows, length, out)`: folds each of `rows` rows of `length` elements.
pub(super) type Fold = unsafe fn(*const u8, usize, usize, *mut u8);
/// `(x, rows, length, out)`: repeats each of `rows` elements `length` times.
pub(super) type Expand = unsafe fn(*const u8, usize, usize, *mut u8);
/// `(out, [x, y, z], rows, length)`: an operation on each of `length` elements of a row with the one element
/// that an operand has for it. `out` may be an operand whose elements have the size of the result's.
pub(super) type Along = unsafe fn(*mut u8, &[*const u8; 3], usize, usize);

/// An operation on two elements of a type.
trait Two {
    type T: Copy;
    type R: Copy;
    fn call(x: Self::T, y: Self::T) -> Self::R;
}

/// `two!(T => R, |x, y| body)`: the kernel of an operation.
macro_rules! two {
    ($t:ty => $r:ty, |$x:ident, $y:ident| $body:expr) => {{
        struct K;
        impl Two for K {
            type T = $t;
            type R = $r;
            #[inline(always)]
            fn call($x: $t, $y: $t) -> $r {
                $body
            }
        }
        along_rows::<K>(Level::best())
    }};
}

macro_rules! twos {
    ($t:ty, $op:expr, $turned:expr) => {
        match ($op, $turned) {
            (LaneOp::Add, _) => two!($t => $t, |x, y| x + y),
            (LaneOp::Mul, _) => two!($t => $t, |x, y| x * y),
            (LaneOp::Sub, false) => two!($t => $t, |x, y| x - y),
            (LaneOp::Sub, true) => two!($t => $t, |x, y| y - x),
            (LaneOp::Div, false) => two!($t => $t, |x, y| x / y),
            (LaneOp::Div, true) => two!($t => $t, |x, y| y / x),
            (LaneOp::Eq, _) => two!($t => u8, |x, y| u8::from(x == y)),
            (LaneOp::Ne, _) => two!($t => u8, |x, y| u8::from(x != y)),
            (LaneOp::Lt, false) | (LaneOp::Gt, true) => two!($t => u8, |x, y| u8::from(x < y)),
            (LaneOp::Le, false) | (LaneOp::Ge, true) => two!($t => u8, |x, y| u8::from(x <= y)),
            (LaneOp::Gt, false) | (LaneOp::Lt, true) => two!($t => u8, |x, y| u8::from(x > y)),
            (LaneOp::Ge, false) | (LaneOp::Le, true) => two!($t => u8, |x, y| u8::from(x >= y)),
            _ => return None,
        }
    };
}

/// The kernel of `op(x, y)`, or `op(y, x)` when `turned`, where `y` has one element for each row.
pub(super) fn along(op: LaneOp, turned: bool, dtype: DType) -> Option<Along> {
    Some(match dtype {
        DType::F32 => twos!(f32, op, turned),
        DType::F64 => twos!(f64, op, turned),
        _ => return None,
    })
}

leveled! {
    fn along_rows[K: Two](out: *mut u8, operands: &[*const u8; 3], rows: usize, length: usize) {
        let [x, y, _] = *operands;
        let in_place = size_of::<K::T>() == size_of::<K::R>() && out.cast_const() == x;
        let (out, x, y) = (out.cast::<MaybeUninit<K::R>>(), x.cast::<K::T>(), y.cast::<K::T>());
        for row in 0..rows {
            // SAFETY: the caller passes `rows * length` elements, `rows` others, and room for the results,
            // which lie where the first operand lies or apart from both.
            unsafe {
                let y = y.add(row).read();
                let out = std::slice::from_raw_parts_mut(out.add(row * length), length);
                if in_place {
                    for out in out {
                        let x = std::mem::transmute_copy(out);
                        out.write(K::call(x, y));
                    }
                } else {
                    let x = std::slice::from_raw_parts(x.add(row * length), length);
                    for (out, &x) in out.iter_mut().zip(x) {
                        out.write(K::call(x, y));
                    }
                }
            }
        }
    }
}

/// What a number for each row is: chosen where the mask is true, or where it is false.
trait Choice {
    type T: Copy;
    const WHERE: bool;
}

macro_rules! choice {
    ($name:ident, $t:ty, $where:literal) => {
        struct $name;
        impl Choice for $name {
            type T = $t;
            const WHERE: bool = $where;
        }
    };
}
choice!(Where32, u32, true);
choice!(Else32, u32, false);
choice!(Where64, u64, true);
choice!(Else64, u64, false);

/// The kernel of `where(mask, y, z)`, or `where(mask, z, y)` when `turned`, where `y` has one element for each row.
pub(super) fn choice(turned: bool, dtype: DType) -> Option<Along> {
    let level = Level::best();
    Some(match (dtype, turned) {
        (DType::F32, false) => choose_rows::<Where32>(level),
        (DType::F32, true) => choose_rows::<Else32>(level),
        (DType::F64, false) => choose_rows::<Where64>(level),
        (DType::F64, true) => choose_rows::<Else64>(level),
        _ => return None,
    })
}

leveled! {
    fn choose_rows[K: Choice](out: *mut u8, operands: &[*const u8; 3], rows: usize, length: usize) {
        let [mask, y, z] = *operands;
        let in_place = out.cast_const() == z;
        let (out, y, z) = (out.cast::<MaybeUninit<K::T>>(), y.cast::<K::T>(), z.cast::<K::T>());
        for row in 0..rows {
            // SAFETY: as in `along_rows`, where the results may lie in the place of the last operand; a mask has
            // elements of one byte.
            unsafe {
                let y = y.add(row).read();
                let mask = std::slice::from_raw_parts(mask.add(row * length), length);
                let out = std::slice::from_raw_parts_mut(out.add(row * length), length);
                if in_place {
                    for (out, &m) in out.iter_mut().zip(mask) {
                        let z = out.assume_init();
                        out.write(if (m != 0) == K::WHERE { y } else { z });
                    }
                } else {
                    let z = std::slice::from_raw_parts(z.add(row * length), length);
                    for ((out, &m), &z) in out.iter_mut().zip(mask).zip(z) {
                        out.write(if (m != 0) == K::WHERE { y } else { z });
                    }
                }
            }
        }
    }
}

leveled! {
    pub(super) fn count[](mask: *const u8, rows: usize, length: usize, out: *mut u8) {
        for row in 0..rows {
            // SAFETY: the caller passes `rows * length` bytes, and room for `rows` numbers.
            unsafe {
                let mask = std::slice::from_raw_parts(mask.add(row * length), length);
                // So many that a byte can count them.
                let blocks = mask.chunks(128).map(|c| u64::from(c.iter().map(|&m| u8::from(m != 0)).sum::<u8>()));
                out.cast::<f64>().add(row).write(blocks.sum::<u64>() as f64);
            }
        }
    }
}

/// The kernel that repeats elements of this size along rows of this length.
pub(super) fn expand(size: usize, length: usize) -> Expand {
    let level = Level::best();
    match (size, length) {
        (8, 2) => repeat_short::<Times<u64, 2>>(level),
        (8, 3) => repeat_short::<Times<u64, 3>>(level),
        (8, 4) => repeat_short::<Times<u64, 4>>(level),
        (4, 2) => repeat_short::<Times<u32, 2>>(level),
        (4, 3) => repeat_short::<Times<u32, 3>>(level),
        (4, 4) => repeat_short::<Times<u32, 4>>(level),
        (1, _) => repeat::<u8>(level),
        (2, _) => repeat::<u16>(level),
        (4, _) => repeat::<u32>(level),
        (8, _) => repeat::<u64>(level),
        _ => repeat::<[u64; 2]>(level),
    }
}

leveled! {
    fn repeat[T: Copy](x: *const u8, rows: usize, length: usize, out: *mut u8) {
        let (x, out) = (x.cast::<T>(), out.cast::<MaybeUninit<T>>());
        for row in 0..rows {
            // SAFETY: the caller passes `rows` elements, and room for `rows * length` apart from them.
            unsafe {
                let element = MaybeUninit::new(x.add(row).read());
                std::slice::from_raw_parts_mut(out.add(row * length), length).fill(element);
            }
        }
    }
}

/// Rows whose length the compiler knows, so that many are done at a time: those of points and pairs.
trait Short {
    type T: Copy;
    type Row: Copy;
    fn repeated(x: Self::T) -> Self::Row;
}

struct Times<T, const N: usize>(std::marker::PhantomData<T>);

impl<T: Copy, const N: usize> Short for Times<T, N> {
    type T = T;
    type Row = [T; N];
    #[inline(always)]
    fn repeated(x: T) -> [T; N] {
        [x; N]
    }
}

leveled! {
    fn repeat_short[K: Short](x: *const u8, rows: usize, _length: usize, out: *mut u8) {
        // SAFETY: the caller passes `rows` elements, and room for as many rows apart from them.
        let (x, out) = unsafe {
            (
                std::slice::from_raw_parts(x.cast::<K::T>(), rows),
                std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<K::Row>>(), rows),
            )
        };
        for (out, &x) in out.iter_mut().zip(x) {
            out.write(K::repeated(x));
        }
    }
}

/// A few vectors, of which a row is the beginning.
trait Line: Copy {
    const ZERO: Self;
    const LENGTH: usize;
}

impl<const N: usize> Line for [u64; N] {
    const ZERO: [u64; N] = [0; N];
    const LENGTH: usize = N;
}

/// `(x, rows, length, out)`: repeats a row.
type Equal = unsafe fn(*const u8, usize, usize, *mut u8);

/// The kernel that repeats a row of two to sixteen elements of eight bytes, which may be unaligned.
pub(super) fn equal_rows(length: usize) -> Equal {
    let level = Level::best();
    match length {
        2 => repeat_row::<Times<u64, 2>>(level),
        3 => repeat_row::<Times<u64, 3>>(level),
        4 => repeat_row::<Times<u64, 4>>(level),
        ..=8 => repeat_line::<[u64; 8]>(level),
        _ => repeat_line::<[u64; 16]>(level),
    }
}

leveled! {
    fn repeat_row[K: Short](x: *const u8, rows: usize, _length: usize, out: *mut u8) {
        // SAFETY: the caller passes a row, perhaps unaligned, and room for `rows` aligned ones apart from it.
        let (row, out) = unsafe {
            (
                x.cast::<K::Row>().read_unaligned(),
                std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<K::Row>>(), rows),
            )
        };
        // Eight rows are some whole vectors.
        let block = [MaybeUninit::new(row); 8];
        let (blocks, rest) = out.as_chunks_mut::<8>();
        for out in blocks {
            *out = block;
        }
        for out in rest {
            out.write(row);
        }
    }
}

leveled! {
    fn repeat_line[T: Line](x: *const u8, rows: usize, length: usize, out: *mut u8) {
        let all = rows * length;
        let mut line = T::ZERO;
        let out = out.cast::<u64>();
        // SAFETY: the caller passes a row of at most `T::LENGTH` elements, perhaps unaligned, and room for `rows` aligned ones
        // apart from it. Rows are written as whole lines, whose ends the next rows replace.
        unsafe {
            std::ptr::copy_nonoverlapping(x, (&raw mut line).cast::<u8>(), length * size_of::<u64>());
            let mut at = 0;
            while at + T::LENGTH <= all {
                out.add(at).cast::<T>().write(line);
                at += length;
            }
            let line = (&raw const line).cast::<u64>();
            while at < all {
                std::ptr::copy_nonoverlapping(line, out.add(at), length);
                at += length;
            }
        }
    }
}

/// The sums of rows of this length, where a loop is compiled for it; they add in the order of other short rows.
pub(super) fn sums_of_short(dtype: DType, length: usize) -> Option<Fold> {
    let level = Level::best();
    Some(match (dtype, length) {
        (DType::F64, 2) => sum_short::<Sum<f64, 2>>(level),
        (DType::F64, 3) => sum_short::<Sum<f64, 3>>(level),
        (DType::F64, 4) => sum_short::<Sum<f64, 4>>(level),
        (DType::F32, 2) => sum_short::<Sum<f32, 2>>(level),
        (DType::F32, 3) => sum_short::<Sum<f32, 3>>(level),
        (DType::F32, 4) => sum_short::<Sum<f32, 4>>(level),
        _ => return None,
    })
}

trait ShortSum {
    type Row: Copy;
    fn sum(row: &Self::Row) -> f64;
}

struct Sum<T, const N: usize>(std::marker::PhantomData<T>);

impl<T: Copy + Into<f64>, const N: usize> ShortSum for Sum<T, N> {
    type Row = [T; N];
    #[inline(always)]
    fn sum(row: &[T; N]) -> f64 {
        row.iter().fold(0.0, |sum, &x| sum + x.into())
    }
}

leveled! {
    fn sum_short[K: ShortSum](x: *const u8, rows: usize, _length: usize, out: *mut u8) {
        // SAFETY: the caller passes so many rows, and room for as many sums apart from them.
        let (x, out) = unsafe {
            (
                std::slice::from_raw_parts(x.cast::<K::Row>(), rows),
                std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<f64>>(), rows),
            )
        };
        for (out, x) in out.iter_mut().zip(x) {
            out.write(K::sum(x));
        }
    }
}

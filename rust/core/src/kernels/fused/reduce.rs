//! Reductions: the kernels that fold a tile, and where partial results lie.
//!
//! Sums and products of rows are accumulated in `f64` for the narrower floats; everything else in
//! the type itself (`f32` for the halves). Sums add up to eight elements in `f32` first, since every
//! element would have to be converted otherwise. Several accumulators run side by side, blocks and
//! tiles are combined pairwise, so that errors grow with the logarithm of the length.

use num_complex::Complex;

use super::plan::{Plan, Split, Walk};
use super::row_kernels::sums_of_short;
use crate::aval::DType;
use crate::kernels::lane::{self, Bf16Bits, F16Bits, Lane};
use crate::kernels::simd_level::{Level, leveled};

/// What a reduction does with two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum; integers wrap.
    Sum,
    /// Product; integers wrap.
    Prod,
    /// Largest, NaN when there is one; on bool, whether any is true.
    Max,
    /// Smallest, NaN when there is one; on bool, whether all are true.
    Min,
}

/// Partial results on the way of a streaming pairwise sum: enough for any count.
const LEVELS: usize = 44;
/// So many tiles are added one after the other before they take part in the pairwise sum.
pub(super) const GROUP: u32 = 8;
/// Elements that [`Kernels::rows`] accumulates without combining in between.
const BLOCK: usize = 1024;
/// Rows of fewer elements are folded one element after the other,
pub const SHORT_ROW: usize = 16;
/// those that are not much longer in so many accumulators.
pub const ROW_LANES: usize = 16;
/// Bytes of accumulators that run side by side.
const ACCUMULATORS: usize = 512;

/// The functions that a reduction is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernels {
    /// The type that partial results have.
    pub(super) acc: DType,
    /// `(x, rows, length, out)`: folds each of `rows` rows of `length` elements.
    pub(super) rows: unsafe fn(*const u8, usize, usize, *mut u8),
    /// `(x, tmp, rows, length)`: folds the rows into one, the first `length` elements of `tmp`,
    /// which has room for half of the rows (and one).
    pub(super) fold: unsafe fn(*const u8, *mut u8, usize, usize),
    /// `(acc, x, n)`: joins each of `n` elements with an accumulator.
    pub(super) accumulate: unsafe fn(*mut u8, *const u8, usize),
    /// `(acc, other, n)`: joins accumulators.
    pub(super) merge: unsafe fn(*mut u8, *const u8, usize),
    /// From the type of accumulators to that of the elements.
    pub(super) narrow: Lane,
}

impl Kernels {
    /// The same for rows of this length.
    pub(super) fn of_rows(self, op: ReduceOp, dtype: DType, length: usize) -> Kernels {
        let short = (op == ReduceOp::Sum).then(|| sums_of_short(dtype, length));
        Kernels {
            rows: short.flatten().unwrap_or(self.rows),
            ..self
        }
    }
}

/// How elements of a type are accumulated.
trait Fold {
    /// Elements.
    type T: Copy;
    /// Accumulators.
    type A: Copy;
    const IDENTITY: Self::A;
    fn load(x: Self::T) -> Self::A;
    fn join(x: Self::A, y: Self::A) -> Self::A;
    /// Accumulators within a block.
    type B: Copy;
    const FIRST: Self::B;
    fn take(x: Self::T) -> Self::B;
    fn meet(x: Self::B, y: Self::B) -> Self::B;
    fn widen(x: Self::B) -> Self::A;
}

/// Folds one row.
#[inline(always)]
fn fold_row<K: Fold>(x: &[K::T]) -> K::A {
    // Short rows do not fill many accumulators.
    match x.len() {
        0..SHORT_ROW => {
            return x
                .iter()
                .fold(K::IDENTITY, |acc, &x| K::join(acc, K::load(x)));
        }
        SHORT_ROW..256 => return fold_lanes::<K, ROW_LANES>(x),
        256..=BLOCK => return fold_block::<K>(x),
        _ => {}
    }
    // The partial results of blocks, waiting for their equals: a binary counter.
    let mut waiting = [K::IDENTITY; 16];
    let mut count = 0usize;
    for block in x.chunks(BLOCK) {
        let mut sum = fold_block::<K>(block);
        let mut level = 0;
        while count >> level & 1 == 1 && level + 1 < waiting.len() {
            sum = K::join(waiting[level], sum);
            level += 1;
        }
        waiting[level] = sum;
        count += 1;
    }
    let mut sum = K::IDENTITY;
    for (level, &partial) in waiting.iter().enumerate() {
        if count >> level & 1 == 1 {
            sum = K::join(partial, sum);
        }
    }
    sum
}

/// Folds up to `BLOCK` elements.
#[inline(always)]
fn fold_block<K: Fold>(x: &[K::T]) -> K::A {
    match ACCUMULATORS / size_of::<K::B>() {
        0..=32 => fold_wide::<K, 32>(x),
        64 => fold_wide::<K, 64>(x),
        _ => fold_wide::<K, 128>(x),
    }
}

/// Folds in the accumulators of blocks.
#[inline(always)]
fn fold_wide<K: Fold, const LANES: usize>(x: &[K::T]) -> K::A {
    let mut acc = [K::FIRST; LANES];
    side_by_side(&mut acc, x, K::FIRST, K::take, K::meet);
    join_all::<K, LANES>(acc.map(K::widen))
}

/// Folds in the accumulators of results.
#[inline(always)]
fn fold_lanes<K: Fold, const LANES: usize>(x: &[K::T]) -> K::A {
    let mut acc = [K::IDENTITY; LANES];
    side_by_side(&mut acc, x, K::IDENTITY, K::load, K::join);
    join_all::<K, LANES>(acc)
}

/// Takes elements into as many accumulators as there are, in turn.
#[inline(always)]
fn side_by_side<T: Copy, A: Copy, const LANES: usize>(
    acc: &mut [A; LANES],
    x: &[T],
    identity: A,
    load: impl Fn(T) -> A,
    join: impl Fn(A, A) -> A,
) {
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (acc, &x) in acc.iter_mut().zip(chunk) {
            *acc = join(*acc, load(x));
        }
    }
    if !rest.is_empty() {
        let mut padded = [identity; LANES];
        for (padded, &x) in padded.iter_mut().zip(rest) {
            *padded = load(x);
        }
        for (acc, &x) in acc.iter_mut().zip(&padded) {
            *acc = join(*acc, x);
        }
    }
}

/// Joins accumulators pairwise.
#[inline(always)]
fn join_all<K: Fold, const LANES: usize>(mut acc: [K::A; LANES]) -> K::A {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            acc[i] = K::join(acc[i], acc[i + width]);
        }
    }
    acc[0]
}

leveled! {
    fn rows[K: Fold](x: *const u8, rows: usize, length: usize, out: *mut u8) {
        let (x, out) = (x.cast::<K::T>(), out.cast::<K::A>());
        for row in 0..rows {
            // SAFETY: the caller passes `rows * length` elements and room for `rows` results.
            unsafe {
                let x = std::slice::from_raw_parts(x.add(row * length), length);
                out.add(row).write(fold_row::<K>(x));
            }
        }
    }
}

leveled! {
    fn fold[K: Fold](x: *const u8, tmp: *mut u8, rows: usize, length: usize) {
        let (x, tmp) = (x.cast::<K::T>(), tmp.cast::<K::A>());
        // SAFETY: the caller passes `rows * length` elements, and room for half as many, rounded up
        // to a row, which do not overlap. Upper halves do not overlap lower ones.
        unsafe {
            let half = rows / 2;
            let mut left = rows - half;
            let high = x.add(left * length);
            for i in 0..half * length {
                tmp.add(i).write(K::join(K::load(x.add(i).read()), K::load(high.add(i).read())));
            }
            if left > half {
                for i in half * length..left * length {
                    tmp.add(i).write(K::load(x.add(i).read()));
                }
            }
            while left > 1 {
                let half = left / 2;
                left -= half;
                let low = std::slice::from_raw_parts_mut(tmp, half * length);
                let high = std::slice::from_raw_parts(tmp.add(left * length), half * length);
                for (i, out) in low.iter_mut().enumerate() {
                    *out = K::join(*out, *high.get_unchecked(i));
                }
            }
        }
    }
}

leveled! {
    fn accumulate[K: Fold](acc: *mut u8, x: *const u8, n: usize) {
        // SAFETY: the caller passes `n` accumulators and `n` elements that do not overlap.
        let (acc, x) = unsafe {
            (
                std::slice::from_raw_parts_mut(acc.cast::<K::A>(), n),
                std::slice::from_raw_parts(x.cast::<K::T>(), n),
            )
        };
        for (acc, &x) in acc.iter_mut().zip(x) {
            *acc = K::join(*acc, K::load(x));
        }
    }
}

/// `fold_of!(name, T => A, identity, |x| load, |x, y| join)`: the kernels of one reduction.
///
/// `, in B, |x| take` behind the type of accumulators says in which type blocks are accumulated.
macro_rules! kernels_of {
    ($dtype:ident, $t:ty => $acc:ident $a:ty, in $b:ty, |$k:ident| $take:expr, $identity:expr,
     |$l:ident| $load:expr, |$x:ident, $y:ident| $join:expr) => {{
        struct Elements;
        impl Fold for Elements {
            type T = $t;
            type A = $a;
            const IDENTITY: $a = $identity;
            #[inline(always)]
            fn load($l: $t) -> $a {
                $load
            }
            #[inline(always)]
            fn join($x: $a, $y: $a) -> $a {
                $join
            }
            type B = $b;
            const FIRST: $b = $identity;
            #[inline(always)]
            fn take($k: $t) -> $b {
                $take
            }
            #[inline(always)]
            fn meet($x: $b, $y: $b) -> $b {
                $join
            }
            #[inline(always)]
            fn widen(x: $b) -> $a {
                x.into()
            }
        }
        struct Partials;
        impl Fold for Partials {
            type T = $a;
            type A = $a;
            const IDENTITY: $a = $identity;
            #[inline(always)]
            fn load(x: $a) -> $a {
                x
            }
            #[inline(always)]
            fn join($x: $a, $y: $a) -> $a {
                $join
            }
            type B = $a;
            const FIRST: $a = $identity;
            #[inline(always)]
            fn take(x: $a) -> $a {
                x
            }
            #[inline(always)]
            fn meet($x: $a, $y: $a) -> $a {
                $join
            }
            #[inline(always)]
            fn widen(x: $a) -> $a {
                x
            }
        }
        let level = Level::best();
        Some(Kernels {
            acc: DType::$acc,
            rows: rows::<Elements>(level),
            fold: fold::<Elements>(level),
            accumulate: accumulate::<Elements>(level),
            merge: accumulate::<Partials>(level),
            narrow: lane::cast_lane(DType::$acc, DType::$dtype),
        })
    }};
    ($dtype:ident, $t:ty => $acc:ident $a:ty, $identity:expr,
     |$l:ident| $load:expr, |$x:ident, $y:ident| $join:expr) => {
        kernels_of!($dtype, $t => $acc $a, in $a, |$l| $load, $identity,
            |$l| $load, |$x, $y| $join)
    };
}

/// The four reductions of a float type, accumulated in another.
macro_rules! float_kernels {
    ($op:expr, $dtype:ident, $t:ty => $acc:ident $a:ident, |$l:ident| $load:expr) => {
        float_kernels!($op, $dtype, $t => $acc $a, in $a, |$l| $load, |$l| $load)
    };
    ($op:expr, $dtype:ident, $t:ty => $acc:ident $a:ident, in $b:ident, |$k:ident| $take:expr,
     |$l:ident| $load:expr) => {
        match $op {
            ReduceOp::Sum => {
                kernels_of!($dtype, $t => $acc $a, in $b, |$k| $take, 0.0, |$l| $load, |x, y| x + y)
            }
            ReduceOp::Prod => {
                kernels_of!($dtype, $t => $acc $a, 1.0, |$l| $load, |x, y| x * y)
            }
            ReduceOp::Max => kernels_of!($dtype, $t => $acc $a, $a::NEG_INFINITY, |$l| $load,
                |x, y| if (x > y) | x.is_nan() { x } else { y }),
            ReduceOp::Min => kernels_of!($dtype, $t => $acc $a, $a::INFINITY, |$l| $load,
                |x, y| if (x < y) | x.is_nan() { x } else { y }),
        }
    };
}

macro_rules! integer_kernels {
    ($op:expr, $dtype:ident, $t:ident) => {
        match $op {
            ReduceOp::Sum => {
                kernels_of!($dtype, $t => $dtype $t, 0, |x| x, |x, y| x.wrapping_add(y))
            }
            ReduceOp::Prod => {
                kernels_of!($dtype, $t => $dtype $t, 1, |x| x, |x, y| x.wrapping_mul(y))
            }
            ReduceOp::Max => {
                kernels_of!($dtype, $t => $dtype $t, $t::MIN, |x| x, |x, y| if x > y { x } else { y })
            }
            ReduceOp::Min => {
                kernels_of!($dtype, $t => $dtype $t, $t::MAX, |x| x, |x, y| if x < y { x } else { y })
            }
        }
    };
}

macro_rules! complex_kernels {
    ($op:expr, $dtype:ident, $t:ty => $acc:ident $a:ident) => {
        match $op {
            ReduceOp::Sum => kernels_of!($dtype, Complex<$t> => $acc Complex<$a>,
                Complex::new(0.0, 0.0),
                |x| Complex::new(x.re as $a, x.im as $a),
                |x, y| Complex::new(x.re + y.re, x.im + y.im)),
            ReduceOp::Prod => kernels_of!($dtype, Complex<$t> => $acc Complex<$a>,
                Complex::new(1.0, 0.0),
                |x| Complex::new(x.re as $a, x.im as $a),
                |x, y| Complex::new(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)),
            ReduceOp::Max | ReduceOp::Min => None,
        }
    };
}

/// The kernels of a reduction, `None` where there is none; `rows` says that each result is that of a
/// row of neighbours.
pub(super) fn kernels(op: ReduceOp, dtype: DType, rows: bool) -> Option<Kernels> {
    let wide = rows && matches!(op, ReduceOp::Sum | ReduceOp::Prod);
    match (dtype, wide) {
        (DType::Bool, _) => match op {
            ReduceOp::Max => kernels_of!(Bool, u8 => Bool u8, 0, |x| x, |x, y| x | y),
            ReduceOp::Min => kernels_of!(Bool, u8 => Bool u8, 1, |x| x, |x, y| x & y),
            ReduceOp::Sum | ReduceOp::Prod => None,
        },
        // Rarely reduced: unsigned integers are summed as `u64`.
        (DType::I8 | DType::I16 | DType::U16 | DType::U32, _) => None,
        (DType::U8, _) => integer_kernels!(op, U8, u8),
        (DType::I32, _) => integer_kernels!(op, I32, i32),
        (DType::I64, _) => integer_kernels!(op, I64, i64),
        (DType::U64, _) => integer_kernels!(op, U64, u64),
        (DType::F16, true) => {
            float_kernels!(op, F16, F16Bits => F64 f64, in f32, |x| x.to_f32(), |x| f64::from(x.to_f32()))
        }
        (DType::F16, false) => float_kernels!(op, F16, F16Bits => F32 f32, |x| x.to_f32()),
        (DType::Bf16, true) => {
            float_kernels!(op, Bf16, Bf16Bits => F64 f64, in f32, |x| x.to_f32(), |x| f64::from(x.to_f32()))
        }
        (DType::Bf16, false) => float_kernels!(op, Bf16, Bf16Bits => F32 f32, |x| x.to_f32()),
        (DType::F32, true) => {
            float_kernels!(op, F32, f32 => F64 f64, in f32, |x| x, |x| f64::from(x))
        }
        (DType::F32, false) => float_kernels!(op, F32, f32 => F32 f32, |x| x),
        (DType::F64, _) => float_kernels!(op, F64, f64 => F64 f64, |x| x),
        (DType::C64, true) => complex_kernels!(op, C64, f32 => C128 f64),
        (DType::C64, false) => complex_kernels!(op, C64, f32 => C64 f32),
        (DType::C128, _) => complex_kernels!(op, C128, f64 => C128 f64),
    }
}

/// A reduction in a finished program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reduction {
    pub(super) op: ReduceOp,
    /// Whether every chunk leaves a partial result of it.
    pub(super) full: bool,
    /// Whether it joins rows, or slices of them, of tiles of rows, so that its partial results are such.
    pub(super) columns: bool,
    /// How it splits what it reads.
    pub(super) split: Split,
    /// How many elements of the space have one element of what it reads.
    pub(super) shared: usize,
    /// Whether a tile holds several of its partial results.
    pub(super) folds: bool,
    pub(super) dtype: DType,
    /// Which output it is.
    pub(super) output: usize,
    /// Address of its operand.
    pub(super) source: u32,
    /// It runs before the instruction at this position.
    pub(super) position: usize,
    pub(super) kernels: Kernels,
    /// Elements of a partial result.
    pub(super) width: usize,
    /// Where, in the scratch memory, a tile is folded.
    pub(super) tmp: usize,
    /// Where partial results wait for their equals.
    pub(super) stack: usize,
}

impl Reduction {
    /// A reduction that [`kernels`] knows.
    pub(super) fn new(
        op: ReduceOp,
        split: Split,
        dtype: DType,
        output: usize,
        source: u32,
        position: usize,
    ) -> Option<Reduction> {
        let full = split.is_full();
        let mut kernels = kernels(op, dtype, full || split.inner == 1)?;
        if !full && split.inner == 1 {
            kernels = kernels.of_rows(op, dtype, split.reduced);
        }
        Some(Reduction {
            op,
            full,
            columns: false,
            split,
            shared: 1,
            folds: false,
            dtype,
            output,
            source,
            position,
            kernels,
            width: 1,
            tmp: 0,
            stack: 0,
        })
    }

    /// The same in tiles of rows, if they are made of such of this length; what it reads may have one element for
    /// each.
    pub(super) fn in_tiles(self, row: Option<usize>, is_row: bool) -> Reduction {
        let columns = row.is_some() && !self.full && self.split.outer == 1;
        Reduction {
            full: self.full || columns,
            columns,
            shared: row.filter(|_| is_row).unwrap_or(1),
            ..self
        }
    }

    /// Reserves its scratch memory.
    pub(super) fn lay_out(&mut self, plan: &Plan, add: &mut impl FnMut(usize) -> usize) {
        let (tmp, levels) = match plan.walk {
            _ if self.columns => {
                self.width = self.split.inner;
                let held = plan.tile / self.shared / self.width;
                self.folds = held > 1;
                let levels = plan.tiles_per_chunk().ilog2() as usize + 2;
                (held.div_ceil(2).max(1) * self.width, levels)
            }
            _ if self.full => (1, LEVELS),
            Walk::Flat => (1, LEVELS),
            Walk::Slices { slices, .. } => match self.split.inner {
                1 => (slices, 0),
                inner => (self.split.reduced.div_ceil(2) * inner, 0),
            },
            Walk::Long {
                rows, block, part, ..
            } => {
                if self.split.inner == 1 {
                    (1, LEVELS)
                } else {
                    self.width = block / self.shared;
                    (
                        rows.div_ceil(2) * self.width,
                        part.div_ceil(rows).ilog2() as usize + 2,
                    )
                }
            }
        };
        let size = self.kernels.acc.size();
        self.tmp = add(tmp * size);
        self.stack = add(levels * self.width * size);
    }
}

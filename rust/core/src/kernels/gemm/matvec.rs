//! Products with a vector: every element of the matrix is used once, so memory sets the pace.

use super::super::Ctx;
use super::super::arithmetic::Number;
use super::super::cache::fetch;
use super::super::shared_pointer::Shared;
use super::super::spare;
use super::matrix::{Mat, spread};
use crate::error::Result;

/// Elements of the matrix that a task reads.
const TASK: usize = 1 << 17;
/// Bytes of a row from which on several rows are read side by side: shorter ones follow each other so closely in memory
/// that the processor fetches them ahead as one stream.
const LONG_ROW: usize = 1 << 13;
/// Elements of a part that does not fit into the second-level cache.
const LARGE: usize = 1 << 16;
/// Bytes ahead of those that are read which are asked for in a part that is large: the processor itself does not look beyond
/// the end of a page.
const AHEAD: usize = 1 << 10;
/// Products of so many multiplications have one order of additions for all layouts.
pub(super) const SMALL_PRODUCT: usize = 512;
/// Results that stay in the first-level cache while rows are added to them.
const STRIP: usize = 2048;
/// Bytes that lie together, below which the parts of a matrix are not worth reading apart: a page.
const PIECE: usize = 1 << 12;
/// Sums of parts of the terms that are added at the end, at most.
const MOST_PARTS: usize = 256;
/// The least terms of a part: sums of parts take as much memory as a column.
const LEAST_TERMS: usize = 64;
/// Columns that are combined together.
const COLUMNS: usize = 8;

/// `f32` and `f64`.
pub(super) trait Real: Number<Wide = Self> {
    /// `self * x + y`, rounded once.
    fn fma(self, x: Self, y: Self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn fma(self, x: f32, y: f32) -> f32 {
        self.mul_add(x, y)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn fma(self, x: f64, y: f64) -> f64 {
        self.mul_add(x, y)
    }
}

/// `y[i]` = Σ `a[i, l] x[l]` for `m` results and `k` terms.
///
/// # Safety
/// As for `Product::product`; `x` has `k` elements `step` apart, `y` `m` without gaps.
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn matvec<T: Real>(
    m: usize,
    k: usize,
    a: Mat<T>,
    x: Shared<T>,
    step: isize,
    y: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    let dense: Vec<T>;
    let x = if step == 1 {
        x
    } else {
        // SAFETY: the caller vouches for `k` elements.
        dense = (0..k as isize)
            .map(|l| unsafe { x.at(l * step).read() })
            .collect();
        Shared::new(dense.as_ptr().cast_mut())
    };
    let wide = wide || (ctx.threads() > 1 && m * k >= 4 * TASK);
    // A part of a larger product adds as that does.
    let in_lanes = adds_in_lanes(m, k, a.cs);
    // Parts read memory that lies together: whole columns of some rows, or whole rows of some columns. Which ones depends
    // on the matrix alone, and so does the order of the additions.
    let (lines, size) = (TASK.div_ceil(k), size_of::<T>());
    let by_terms = parts_of_terms(m, k, a.rs, a.cs, size);
    if let Some(part) = by_terms {
        let parts = k.div_ceil(part);
        spare(parts * m * size)?;
        let mut sums = vec![T::ZERO; parts * m];
        let to = Shared::new(sums.as_mut_ptr());
        spread(ctx, wide, parts, |task| {
            let start = task * part;
            let (a, x) = (a.from(0, start), x.at(start as isize));
            // SAFETY: the caller's promise; tasks have different sums.
            unsafe {
                dispatch(
                    m,
                    part.min(k - start),
                    a,
                    x,
                    to.at((task * m) as isize),
                    false,
                );
            };
        })?;
        for i in 0..m {
            // SAFETY: the caller vouches for `m` results.
            unsafe { y.at(i as isize).write(sum_of(&sums, m, i)) };
        }
        return Ok(());
    }
    let part = lines.next_multiple_of(if a.cs == 1 { 64 / size } else { 64 });
    spread(ctx, wide, m.div_ceil(part), |task| {
        let start = task * part;
        let (a, y) = (a.from(start, 0), y.at(start as isize));
        // SAFETY: the caller's promise; tasks have different results.
        unsafe { dispatch(part.min(m - start), k, a, x.at(0), y, in_lanes) };
    })
}

/// How many of `k` terms of each of `m` results are added before the others, for a matrix with such steps; `None` where no
/// terms are added apart.
pub(super) fn parts_of_terms(
    m: usize,
    k: usize,
    rs: isize,
    cs: isize,
    size: usize,
) -> Option<usize> {
    if cs == 1 {
        (k >= 4 * TASK).then(|| part_of_terms(m, k).next_multiple_of(64))
    } else {
        terms_together(m, k, size).filter(|_| rs == 1)
    }
}

/// How many of `k` terms of each of `m` results are added before the others, where parts of the terms are.
fn part_of_terms(m: usize, k: usize) -> usize {
    let parts = (m * k / TASK).clamp(2, MOST_PARTS);
    k.div_ceil(parts).max(LEAST_TERMS).next_multiple_of(COLUMNS)
}

/// The same for a matrix with `m` rows and `k` columns, without gaps between the elements of a column, of elements of this
/// size; `None` where all terms of a result are added one after the other.
pub(super) fn terms_together(m: usize, k: usize, size: usize) -> Option<usize> {
    let lines = TASK.div_ceil(k.max(1));
    let by_terms = k >= 64 && m * k >= 4 * TASK && lines * size < PIECE;
    by_terms.then(|| part_of_terms(m, k))
}

/// Whether the terms of a dot product are added in lanes, and not one after the other: those of rows without gaps (a step
/// `cs` from one element to the next), and all terms of small products, for machine code knows no layout.
pub(super) fn adds_in_lanes(m: usize, k: usize, cs: isize) -> bool {
    cs == 1 || m * k <= SMALL_PRODUCT
}

/// The sum of what parts of the terms give for a result, one of `m`.
fn sum_of<T: Real>(parts: &[T], m: usize, i: usize) -> T {
    (parts.iter().skip(i).step_by(m)).fold(T::ZERO, |sum, &part| sum.plus(part))
}

/// The sums over the first axis of what parts of the terms of a product give, in the order of the product.
pub(super) fn sums_of<T: Real>(parts: &[T], m: usize) -> Vec<T> {
    (0..m).map(|i| sum_of(parts, m, i)).collect()
}

/// Chooses the instruction set.
unsafe fn dispatch<T: Real>(m: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T, in_lanes: bool) {
    // SAFETY (all blocks): the caller's promise; instructions were looked for.
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return unsafe { v4(m, k, a, x, y, in_lanes) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return unsafe { v3(m, k, a, x, y, in_lanes) };
        }
    }
    // On aarch64 the fused operation is part of the base; elsewhere it would be a call.
    unsafe { body::<T, { cfg!(target_arch = "aarch64") }, 8>(m, k, a, x, y, in_lanes) }
}

/// In how many sums side by side a dot product with a dense row is made here.
pub fn lanes_of_dots(dtype: crate::aval::DType) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") || (has!("avx2") && has!("fma") && dtype.size() == 4) {
            return 16;
        }
    }
    let _ = dtype;
    8
}

// Sums of four rows have to stay in half of the registers: these are 32 of 64 bytes, or 16 of 32.

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn v4<T: Real>(m: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T, in_lanes: bool) {
    // SAFETY: the caller's promise.
    unsafe { body::<T, true, 16>(m, k, a, x, y, in_lanes) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn v3<T: Real>(m: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T, in_lanes: bool) {
    // SAFETY (both): the caller's promise.
    if size_of::<T>() == 8 {
        unsafe { body::<T, true, 8>(m, k, a, x, y, in_lanes) }
    } else {
        unsafe { body::<T, true, 16>(m, k, a, x, y, in_lanes) }
    }
}

#[inline(always)]
pub(super) fn madd<T: Real, const FMA: bool>(x: T, y: T, z: T) -> T {
    if FMA { x.fma(y, z) } else { x.times(y).plus(z) }
}

#[inline(always)]
unsafe fn body<T: Real, const FMA: bool, const LANES: usize>(
    m: usize,
    k: usize,
    a: Mat<T>,
    x: *const T,
    y: *mut T,
    in_lanes: bool,
) {
    // SAFETY (all blocks): rows stay below `m`, columns below `k`.
    unsafe {
        if a.cs != 1 && in_lanes {
            // Small ones add in one order, however the matrix lies: machine code knows no layout.
            let mut dense = [T::ZERO; SMALL_PRODUCT];
            for i in 0..m {
                for l in 0..k {
                    dense[i * k + l] = a.from(i, l).at.at(0).read();
                }
            }
            let a = Mat {
                at: Shared::new(dense.as_mut_ptr()),
                rs: k as isize,
                cs: 1,
            };
            dense_rows::<T, FMA, 2, LANES, 0>(m, k, a, x, y);
        } else if a.cs == 1 {
            if k * size_of::<T>() >= LONG_ROW {
                dense_rows::<T, FMA, 4, LANES, AHEAD>(m, k, a, x, y);
            } else if m * k >= LARGE {
                dense_rows::<T, FMA, 1, LANES, AHEAD>(m, k, a, x, y);
            } else {
                dense_rows::<T, FMA, 2, LANES, 0>(m, k, a, x, y);
            }
        } else if a.rs == 1 {
            for start in (0..m).step_by(STRIP) {
                let n = STRIP.min(m - start);
                combine::<T, FMA>(n, k, a.from(start, 0), x, y.add(start));
            }
        } else {
            for i in 0..m {
                let row = a.from(i, 0);
                let mut sum = T::ZERO;
                for l in 0..k {
                    sum = madd::<T, FMA>(row.at.at(l as isize * a.cs).read(), *x.add(l), sum);
                }
                *y.add(i) = sum;
            }
        }
    }
}

/// Dot products with rows without gaps, `ROWS` of them at a time.
#[inline(always)]
unsafe fn dense_rows<
    T: Real,
    const FMA: bool,
    const ROWS: usize,
    const LANES: usize,
    const AHEAD: usize,
>(
    m: usize,
    k: usize,
    a: Mat<T>,
    x: *const T,
    y: *mut T,
) {
    // SAFETY (all blocks): rows stay below `m`.
    unsafe {
        let mut i = 0;
        while i + ROWS <= m {
            let rows = std::array::from_fn(|r| a.from(i + r, 0).at.at(0).cast_const());
            y.add(i)
                .cast::<[T; ROWS]>()
                .write_unaligned(dots::<T, FMA, ROWS, 1, LANES, AHEAD, false>(k, rows, [x])[0]);
            i += ROWS;
        }
        for i in i..m {
            let row = a.from(i, 0).at.at(0).cast_const();
            *y.add(i) = dots::<T, FMA, 1, 1, LANES, AHEAD, false>(k, [row], [x])[0][0];
        }
    }
}

/// Dot products of some rows with some vectors; what a row and a vector give does not depend on the others. `PADDED` says that
/// zeros follow the vectors, up to a multiple of `LANES`.
#[inline(always)]
pub(super) unsafe fn dots<
    T: Real,
    const FMA: bool,
    const ROWS: usize,
    const VECTORS: usize,
    const LANES: usize,
    const AHEAD: usize,
    const PADDED: bool,
>(
    k: usize,
    rows: [*const T; ROWS],
    x: [*const T; VECTORS],
) -> [[T; ROWS]; VECTORS] {
    let mut sums = [[[T::ZERO; LANES]; ROWS]; VECTORS];
    // SAFETY (all blocks): offsets stay below `k`, or what it is filled up to.
    unsafe {
        let mut l = 0;
        while l + LANES <= k {
            let x = x.map(|x| x.add(l).cast::<[T; LANES]>().read_unaligned());
            for r in 0..ROWS {
                if AHEAD > 0 {
                    let from = rows[r].add(l).wrapping_byte_add(AHEAD);
                    fetch(from, LANES * size_of::<T>());
                }
                let a = rows[r].add(l).cast::<[T; LANES]>().read_unaligned();
                for c in 0..VECTORS {
                    for i in 0..LANES {
                        sums[c][r][i] = madd::<T, FMA>(a[i], x[c][i], sums[c][r][i]);
                    }
                }
            }
            l += LANES;
        }
        // What is left over is filled up with zeros, which add nothing.
        if l < k {
            let x = x.map(|x| {
                if PADDED {
                    x.add(l).cast::<[T; LANES]>().read_unaligned()
                } else {
                    filled_up::<T, LANES>(x.add(l), k - l)
                }
            });
            for r in 0..ROWS {
                let a = filled_up::<T, LANES>(rows[r].add(l), k - l);
                for c in 0..VECTORS {
                    for i in 0..LANES {
                        sums[c][r][i] = madd::<T, FMA>(a[i], x[c][i], sums[c][r][i]);
                    }
                }
            }
        }
    }
    sums.map(|rows| {
        rows.map(|mut lanes| {
            let mut half = LANES / 2;
            while half > 0 {
                for i in 0..half {
                    lanes[i] = lanes[i].plus(lanes[i + half]);
                }
                half /= 2;
            }
            lanes[0]
        })
    })
}

/// `n` elements, and zeros after them.
#[inline(always)]
unsafe fn filled_up<T: Real, const LANES: usize>(from: *const T, n: usize) -> [T; LANES] {
    let mut out = [T::ZERO; LANES];
    // SAFETY: the caller vouches for `n` elements, and `n` is at most `LANES`.
    unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), n) };
    out
}

/// `n` results as a combination of dense columns, eight at a time.
#[inline(always)]
unsafe fn combine<T: Real, const FMA: bool>(n: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T) {
    // SAFETY (all blocks): offsets stay below `n` and `k`.
    unsafe {
        for i in 0..n {
            *y.add(i) = T::ZERO;
        }
        let mut l = 0;
        while l + COLUMNS <= k {
            let cols: [*const T; COLUMNS] =
                std::array::from_fn(|c| a.from(0, l + c).at.at(0).cast_const());
            let x: [T; COLUMNS] = std::array::from_fn(|c| *x.add(l + c));
            for i in 0..n {
                let mut sum = *y.add(i);
                for c in 0..COLUMNS {
                    sum = madd::<T, FMA>(*cols[c].add(i), x[c], sum);
                }
                *y.add(i) = sum;
            }
            l += COLUMNS;
        }
        for l in l..k {
            let (col, x) = (a.from(0, l).at.at(0), *x.add(l));
            for i in 0..n {
                *y.add(i) = madd::<T, FMA>(*col.add(i), x, *y.add(i));
            }
        }
    }
}

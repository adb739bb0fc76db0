//! Products of one matrix with many vectors, as `vmap` makes of `W @ x`: they read the matrix once together, and none pays for a
//! call of its own. Each result is the sum that `matvec` makes for its vector alone, in the same order: a product that is
//! taken out of a loop, or out of a batch, keeps its bits.

use std::mem::MaybeUninit;

use super::super::shared_pointer::Shared;
use super::super::{Ctx, Value, spare};
use super::matrix::{Dims, Mat, WIDE, chain, offsets, spread};
use super::matvec::{self, Real, SMALL_PRODUCT, adds_in_lanes, dots, madd};
use crate::aval::{Aval, broadcast_strides};
use crate::error::Result;

/// Vectors whose sums are made side by side, and the fewest that are.
const TOGETHER: usize = 4;
/// Elements of a matrix that the first-level cache keeps from one product to the next, and the fewest vectors that gain by
/// more than that.
const CACHED: usize = 1 << 14;
const ENOUGH: usize = 8;
/// Rows that are read side by side where they have no gaps.
const PAIR: usize = 2;
/// Terms of a short row, and of a product with a matrix of few rows that are packed, at most: most of each vector register is
/// empty then.
const FEW_TERMS: usize = 16;
/// Rows from which on a matrix has no few rows.
const FEW_ROWS: usize = 4;
/// Vectors for which it pays to pack rows without gaps into columns, unless they are long.
const MANY: usize = 32;
/// Elements of a row that is long: packed, they would not stay in the first-level cache.
const LONG: usize = 256;
/// Bytes of vectors that stay in the second-level cache while all rows are multiplied with them.
const NEAR: usize = 1 << 18;

/// Some rows of a matrix, and the vectors that they are multiplied with.
#[derive(Clone, Copy)]
struct Vectors<T> {
    m: usize,
    k: usize,
    a: Mat<T>,
    x: Shared<T>,
    /// From one vector to the next, and from one of its elements to the next.
    steps: (isize, isize),
    /// At least [`TOGETHER`].
    count: usize,
    y: Shared<T>,
    /// From the results of one vector to those of the next.
    between: usize,
    /// In which order terms are added.
    in_lanes: bool,
}

/// `a` `b`, where `b` are column vectors and the last axes of the batch share a matrix; `None` where they do not, or that
/// would gain nothing.
///
/// # Safety
/// `T` is the type of the dtype of both operands.
pub(super) unsafe fn shared_matrix<T: Real>(
    a: &Value,
    b: &Value,
    d: Dims,
    aval: &Aval,
    ctx: &Ctx,
) -> Result<Option<Value>> {
    let Dims { m, k, n } = d;
    let head = &aval.shape[..aval.shape.len() - 2];
    if n != 1 || head.is_empty() {
        return Ok(None);
    }
    let (ra, rb) = (a.shape().len() - 2, b.shape().len() - 2);
    let sa = broadcast_strides(&a.shape()[..ra], &a.strides()[..ra], head);
    let sb = broadcast_strides(&b.shape()[..rb], &b.strides()[..rb], head);
    let (rs, cs) = (a.strides()[ra], a.strides()[ra + 1]);
    // The last axes along which the matrix is the same, and the vectors lie at equal distances.
    let (mut first, mut step) = (head.len(), 0);
    while first > 0 && (sa[first - 1] == 0 || head[first - 1] == 1) {
        let axes = head[first - 1..].iter().zip(&sb[first - 1..]);
        let Some(found) = chain(axes.map(|(&n, &s)| (n, s))) else {
            break;
        };
        (first, step) = (first - 1, found);
    }
    let count: usize = head[first..].iter().product();
    let is_narrow = m < FEW_ROWS && k > FEW_TERMS && (m < PAIR || cs != 1);
    // A call of its own costs a short row more than its terms do.
    let small = if k < FEW_TERMS { SMALL_PRODUCT } else { CACHED };
    let fewest = if m * k < small { ENOUGH } else { TOGETHER };
    if count < fewest || is_narrow || matvec::parts_of_terms(m, k, rs, cs, size_of::<T>()).is_some()
    {
        return Ok(None);
    }
    let out = Value::empty(aval.clone())?;
    spare(NEAR + 128 * k)?;
    let outer = &head[..first];
    let matrices: usize = outer.iter().product();
    // Rows are shared out where there are more of them: each task reads its part of the matrix once.
    let by_rows = m > count;
    let (len, width) = if by_rows {
        (m, count * k)
    } else {
        (count, m * k)
    };
    let part = WIDE.div_ceil(width).next_multiple_of(64 / size_of::<T>());
    // The last part takes what is left.
    let parts = (len / part).max(1);
    let a_at = Shared::new(a.as_ptr().cast_mut().cast::<T>());
    let x_at = Shared::new(b.as_ptr().cast_mut().cast::<T>());
    let y_at = Shared::new(out.as_mut_ptr().cast::<T>());
    let tasks = matrices * parts;
    spread(ctx, tasks > 1, tasks, |task| {
        let (which, start) = (task / parts, task % parts * part);
        let [oa, ob] = offsets(which, outer, [&sa, &sb]);
        let here = if task % parts + 1 == parts {
            len - start
        } else {
            part
        };
        let (row, rows, vector, vectors) = if by_rows {
            (start, here, 0, count)
        } else {
            (0, m, start, here)
        };
        let vectors = Vectors {
            m: rows,
            k,
            a: Mat {
                at: Shared::new(a_at.at(oa + row as isize * rs)),
                rs,
                cs,
            },
            x: Shared::new(x_at.at(ob + vector as isize * step)),
            steps: (step, b.strides()[rb]),
            count: vectors,
            y: Shared::new(y_at.at(((which * count + vector) * m + row) as isize)),
            between: m,
            in_lanes: adds_in_lanes(m, k, cs),
        };
        // SAFETY: the values vouch for matrices and vectors; the result is fresh, and tasks write different parts of it.
        unsafe { dispatch(&vectors) };
    })?;
    Ok(Some(out))
}

/// Chooses the instruction set, as `matvec` does.
unsafe fn dispatch<T: Real>(v: &Vectors<T>) {
    // SAFETY (all blocks): the caller's promise; instructions were looked for.
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return unsafe { v4(v) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return unsafe { v3(v) };
        }
    }
    unsafe { body::<T, { cfg!(target_arch = "aarch64") }, 8, 4, 2>(v) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn v4<T: Real>(v: &Vectors<T>) {
    // SAFETY (both): the caller's promise.
    if size_of::<T>() == 8 {
        unsafe { body::<T, true, 16, 8, 4>(v) }
    } else {
        unsafe { body::<T, true, 16, 16, 4>(v) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn v3<T: Real>(v: &Vectors<T>) {
    // SAFETY (both): the caller's promise.
    if size_of::<T>() == 8 {
        unsafe { body::<T, true, 8, 4, 2>(v) }
    } else {
        unsafe { body::<T, true, 16, 8, 2>(v) }
    }
}

/// Multiplies vectors that stay in the cache with all rows, before the next ones.
#[inline(always)]
unsafe fn body<
    T: Real,
    const FMA: bool,
    const LANES: usize,
    const ROWS: usize,
    const TILE: usize,
>(
    v: &Vectors<T>,
) {
    let Vectors { m, k, count, .. } = *v;
    let as_dots = v.in_lanes
        && v.a.cs == 1
        && k >= LANES
        && m >= PAIR
        && (count < MANY || k > LONG || m < FEW_ROWS);
    let padded = if as_dots {
        k.next_multiple_of(LANES)
    } else {
        k
    };
    let near = (NEAR / (padded * size_of::<T>()))
        .max(1)
        .next_multiple_of(TOGETHER)
        .min(count);
    let is_dense = v.steps.1 == 1 && padded == k;
    let mut dense = vec![T::ZERO; if is_dense { 0 } else { near * padded }];
    let mut panel = vec![[T::ZERO; ROWS]; if as_dots { 0 } else { k }];
    let mut start = 0;
    while start < count {
        // Fewer vectors than are multiplied together are some of the last ones once more.
        start = start.min(count - near.min(TOGETHER));
        let n = near.min(count - start);
        let mut part = Vectors {
            x: Shared::new(v.x.at(start as isize * v.steps.0)),
            y: Shared::new(v.y.at((start * v.between) as isize)),
            count: n,
            ..*v
        };
        if !is_dense {
            for (j, to) in dense.chunks_exact_mut(padded).enumerate().take(n) {
                let from = part.x.at(j as isize * v.steps.0);
                // SAFETY: elements of the vectors, which the caller vouches for.
                unsafe {
                    if v.steps.1 == 1 {
                        to.as_mut_ptr().copy_from_nonoverlapping(from, k);
                        continue;
                    }
                    for (l, to) in to[..k].iter_mut().enumerate() {
                        *to = from.offset(l as isize * v.steps.1).read();
                    }
                }
            }
            part.x = Shared::new(dense.as_mut_ptr());
            part.steps = (padded as isize, 1);
        }
        // SAFETY: the caller's promise, and vectors without gaps, as these need them.
        unsafe {
            if as_dots {
                rows_as_they_lie::<T, FMA, LANES, TILE>(&part);
            } else {
                for i in (0..m).step_by(ROWS) {
                    pack(&mut panel, part.a.from(i, 0), ROWS.min(m - i));
                    let y = Shared::new(part.y.at(i as isize));
                    packed_rows::<T, FMA, LANES, ROWS>(
                        &panel,
                        &Vectors {
                            m: ROWS.min(m - i),
                            y,
                            ..part
                        },
                    );
                }
            }
        }
        start += n;
    }
}

/// Products with rows without gaps, and vectors that are filled up with zeros.
#[inline(always)]
unsafe fn rows_as_they_lie<T: Real, const FMA: bool, const LANES: usize, const TILE: usize>(
    v: &Vectors<T>,
) {
    for i in (0..v.m).step_by(PAIR) {
        let i = i.min(v.m - PAIR);
        let rows = std::array::from_fn(|r| v.a.from(i + r, 0).at.at(0).cast_const());
        for j in (0..v.count).step_by(TILE) {
            let j = j.min(v.count - TILE);
            let x = std::array::from_fn(|c| v.x.at((j + c) as isize * v.steps.0).cast_const());
            // SAFETY: rows and vectors of so many elements.
            let sums = unsafe { dots::<T, FMA, PAIR, TILE, LANES, 0, true>(v.k, rows, x) };
            for (c, sums) in sums.iter().enumerate() {
                let to = v.y.at(((j + c) * v.between + i) as isize);
                // SAFETY: results of two rows.
                unsafe { to.cast::<[T; PAIR]>().write_unaligned(*sums) };
            }
        }
    }
}

/// Lays the elements of some rows side by side; the other places keep what they have.
unsafe fn pack<T: Real, const ROWS: usize>(panel: &mut [[T; ROWS]], a: Mat<T>, rows: usize) {
    // SAFETY (both): elements of these rows.
    unsafe {
        if a.rs == 1 && rows == ROWS {
            for (l, to) in panel.iter_mut().enumerate() {
                *to = a.from(0, l).at.at(0).cast::<[T; ROWS]>().read_unaligned();
            }
            return;
        }
        for row in 0..rows {
            let from = a.from(row, 0).at;
            for (l, to) in panel.iter_mut().enumerate() {
                to[row] = from.at(l as isize * a.cs).read();
            }
        }
    }
}

/// Products with at most `ROWS` rows that are packed, one in each place of a vector register.
#[inline(always)]
unsafe fn packed_rows<T: Real, const FMA: bool, const LANES: usize, const ROWS: usize>(
    panel: &[[T; ROWS]],
    v: &Vectors<T>,
) {
    // Loops of known length are taken apart.
    macro_rules! each {
        ($k:expr, $lanes:expr) => {
            for j in (0..v.count).step_by(TOGETHER) {
                let j = j.min(v.count - TOGETHER);
                let mut x = [std::ptr::null(); TOGETHER];
                for (c, x) in x.iter_mut().enumerate() {
                    *x = v.x.at((j + c) as isize * v.steps.0).cast_const();
                }
                // SAFETY: vectors of `k` elements, and as many results of each as there are rows.
                unsafe {
                    let found = sums::<T, FMA, { $lanes }, TOGETHER, ROWS>($k, panel, x);
                    for (c, found) in found.iter().enumerate() {
                        let to = v.y.at(((j + c) * v.between) as isize);
                        if v.m == ROWS {
                            to.cast::<[T; ROWS]>().write_unaligned(*found);
                        } else {
                            to.copy_from_nonoverlapping(found.as_ptr(), v.m);
                        }
                    }
                }
            }
        };
    }
    match v.k {
        _ if !v.in_lanes => each!(v.k, 1),
        1 => each!(1, LANES),
        2 => each!(2, LANES),
        3 => each!(3, LANES),
        4 => each!(4, LANES),
        _ => each!(v.k, LANES),
    }
}

/// Sums of `k` terms for some vectors, in the order of `matvec`: every `LANES`th term in one chain, and the chains in pairs. With one
/// lane they are added one after the other.
#[inline(always)]
unsafe fn sums<T: Real, const FMA: bool, const LANES: usize, const N: usize, const ROWS: usize>(
    k: usize,
    panel: &[[T; ROWS]],
    x: [*const T; N],
) -> [[T; ROWS]; N] {
    let live = k.min(LANES);
    let mut lanes = [const { MaybeUninit::<[[T; ROWS]; N]>::uninit() }; LANES];
    // One lane after the other, since its sums fit into registers.
    for (lane, written) in lanes.iter_mut().enumerate().take(live) {
        let mut sums = [[T::ZERO; ROWS]; N];
        let mut l = lane;
        while l < k {
            let terms = &panel[l];
            for c in 0..N {
                // SAFETY: as many elements of each vector as terms.
                let x = unsafe { *x[c].add(l) };
                for row in 0..ROWS {
                    sums[c][row] = madd::<T, FMA>(terms[row], x, sums[c][row]);
                }
            }
            l += LANES;
        }
        written.write(sums);
    }
    // Lanes that have no terms are zeros, which change nothing but the sign of a zero.
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            if lane + half < live {
                // SAFETY: the first lanes are written.
                let (sums, other) = unsafe {
                    let other = lanes[lane + half].assume_init_read();
                    (lanes[lane].assume_init_mut(), other)
                };
                for c in 0..N {
                    for row in 0..ROWS {
                        sums[c][row] = sums[c][row].plus(other[c][row]);
                    }
                }
            }
        }
        half /= 2;
    }
    // SAFETY: there is one term at least.
    let mut sums = unsafe { lanes[0].assume_init_read() };
    if !k.is_multiple_of(LANES) {
        for sum in sums.as_flattened_mut() {
            *sum = sum.plus(T::ZERO);
        }
    }
    sums
}

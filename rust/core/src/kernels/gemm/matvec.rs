//! Products with a vector: every element of the matrix is used once, so memory sets the pace.

use super::super::Ctx;
use super::super::arithmetic::Number;
use super::super::shared_pointer::Shared;
use super::matrix::{Mat, spread};
use crate::error::Result;

/// Elements of the matrix that a task reads.
const TASK: usize = 1 << 17;
/// Results that stay in the first-level cache while rows are added to them.
const STRIP: usize = 2048;
/// Elements summed side by side.
const LANES: usize = 16;

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
    let part = TASK.div_ceil(k).next_multiple_of(64);
    spread(ctx, wide, m.div_ceil(part), |task| {
        let start = task * part;
        let (a, y) = (a.from(start, 0), y.at(start as isize));
        // SAFETY: the caller's promise; tasks have different results.
        unsafe { dispatch(part.min(m - start), k, a, x.at(0), y) };
    })
}

/// Chooses the instruction set.
unsafe fn dispatch<T: Real>(m: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T) {
    // SAFETY (all blocks): the caller's promise; instructions were looked for.
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return unsafe { v4(m, k, a, x, y) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            return unsafe { v3(m, k, a, x, y) };
        }
    }
    // On aarch64 the fused operation is part of the base; elsewhere it would be a call.
    unsafe { body::<T, { cfg!(target_arch = "aarch64") }>(m, k, a, x, y) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn v4<T: Real>(m: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T) {
    // SAFETY: the caller's promise.
    unsafe { body::<T, true>(m, k, a, x, y) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn v3<T: Real>(m: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T) {
    // SAFETY: the caller's promise.
    unsafe { body::<T, true>(m, k, a, x, y) }
}

#[inline(always)]
fn madd<T: Real, const FMA: bool>(x: T, y: T, z: T) -> T {
    if FMA { x.fma(y, z) } else { x.times(y).plus(z) }
}

#[inline(always)]
unsafe fn body<T: Real, const FMA: bool>(m: usize, k: usize, a: Mat<T>, x: *const T, y: *mut T) {
    // SAFETY (all blocks): rows stay below `m`, columns below `k`.
    unsafe {
        if a.cs == 1 {
            let mut i = 0;
            while i + 4 <= m {
                let rows = [0, 1, 2, 3].map(|r| a.from(i + r, 0).at.at(0).cast_const());
                y.add(i)
                    .cast::<[T; 4]>()
                    .write_unaligned(dots::<T, FMA, 4>(k, rows, x));
                i += 4;
            }
            for i in i..m {
                *y.add(i) = dots::<T, FMA, 1>(k, [a.from(i, 0).at.at(0)], x)[0];
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

/// Dot products of `R` rows with `x`; what one row gives does not depend on the others.
#[inline(always)]
unsafe fn dots<T: Real, const FMA: bool, const R: usize>(
    k: usize,
    rows: [*const T; R],
    x: *const T,
) -> [T; R] {
    let mut low = [[T::ZERO; LANES]; R];
    let mut high = [[T::ZERO; LANES]; R];
    // SAFETY (all blocks): offsets stay below `k`.
    unsafe {
        let mut l = 0;
        while l + 2 * LANES <= k {
            let x0 = x.add(l).cast::<[T; LANES]>().read_unaligned();
            let x1 = x.add(l + LANES).cast::<[T; LANES]>().read_unaligned();
            for r in 0..R {
                let a0 = rows[r].add(l).cast::<[T; LANES]>().read_unaligned();
                let a1 = rows[r].add(l + LANES).cast::<[T; LANES]>().read_unaligned();
                for i in 0..LANES {
                    low[r][i] = madd::<T, FMA>(a0[i], x0[i], low[r][i]);
                    high[r][i] = madd::<T, FMA>(a1[i], x1[i], high[r][i]);
                }
            }
            l += 2 * LANES;
        }
        for r in 0..R {
            for (i, l) in (l..k).enumerate() {
                let lane = &mut low[r][i % LANES];
                *lane = madd::<T, FMA>(*rows[r].add(l), *x.add(l), *lane);
            }
        }
    }
    let mut out = [T::ZERO; R];
    for r in 0..R {
        let mut lanes = low[r];
        for (x, y) in lanes.iter_mut().zip(high[r]) {
            *x = x.plus(y);
        }
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] = lanes[i].plus(lanes[i + half]);
            }
        }
        out[r] = lanes[0];
    }
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
        while l + 8 <= k {
            let cols: [*const T; 8] =
                std::array::from_fn(|c| a.from(0, l + c).at.at(0).cast_const());
            let x: [T; 8] = std::array::from_fn(|c| *x.add(l + c));
            for i in 0..n {
                let mut sum = *y.add(i);
                for c in 0..8 {
                    sum = madd::<T, FMA>(*cols[c].add(i), x[c], sum);
                }
                *y.add(i) = sum;
            }
            l += 8;
        }
        for l in l..k {
            let (col, x) = (a.from(0, l).at.at(0), *x.add(l));
            for i in 0..n {
                *y.add(i) = madd::<T, FMA>(*col.add(i), x, *y.add(i));
            }
        }
    }
}

//! Blocking and packing around the register tile, in the manner of BLIS.
//!
//! The summed axis is cut into blocks of `KC`; for each, panels of both operands are packed so that
//! a tile reads straight through memory: a panel of `b` stays in the first-level cache, a block of
//! `a` in the second. Small products skip the packing of `a`, and that of `b` when its rows are
//! dense: for them, packing costs more than it saves.

use super::super::strided::Shared;
use super::super::{Ctx, Storage};
use super::avx512::{MR, Tile, Vector};
use super::{Dims, Mat, spread};
use crate::error::Result;

/// Summed elements of a block.
const KC: usize = 256;
/// Rows and columns whose packed panels exist at a time.
const ROWS: usize = 170 * MR;
const COLS: usize = 2048;
/// Panels of `a` that a task works on: they fill about a third of the second-level cache.
const PANELS: usize = 16;

/// # Safety
/// As for `Product::product`, and AVX-512F must be there.
pub(super) unsafe fn product<T: Vector>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    // SAFETY (both blocks): the caller's promise.
    let wide = wide && ctx.threads() > 1;
    if !wide && (d.m <= 2 * MR || (d.m + d.n) * d.k * size_of::<T>() <= 192 << 10) {
        return unsafe { direct(d, a, b, c, ctx) };
    }
    unsafe { packed(d, a, b, c, wide, ctx) }
}

/// Without packing `a`.
unsafe fn direct<T: Vector>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    ctx: &Ctx,
) -> Result<()> {
    let Dims { m, k, n } = d;
    let (nr, kc) = (T::NR, KC.min(k));
    // Room for one packed panel, on the stack when it is short.
    let mut near = std::mem::MaybeUninit::<[u64; 1024]>::uninit();
    let far;
    let panel: *mut T = if b.cs == 1 {
        std::ptr::null_mut()
    } else if nr * kc * size_of::<T>() <= size_of_val(&near) {
        near.as_mut_ptr().cast()
    } else {
        far = Storage::allocate(nr * kc * size_of::<T>())?;
        far.as_ptr().cast()
    };
    // SAFETY (all blocks): tiles stay within the matrices.
    for l in (0..k).step_by(KC) {
        let kc = KC.min(k - l);
        ctx.check()?;
        for j in (0..n).step_by(nr) {
            let cols = nr.min(n - j);
            let from = b.from(l, j);
            let (rows, step) = if b.cs == 1 {
                (from.at.at(0).cast_const(), b.rs)
            } else {
                unsafe { pack_wide(from.transposed(), cols, kc, panel) };
                (panel.cast_const(), nr as isize)
            };
            for i in (0..m).step_by(MR) {
                let t = Tile {
                    k: kc,
                    a: a.from(i, l).at.at(0),
                    a_row: a.rs,
                    a_step: a.cs,
                    b: rows,
                    b_step: step,
                    c: c.at((i * n + j) as isize),
                    c_row: n as isize,
                    add: l > 0,
                };
                unsafe { T::tile(t, MR.min(m - i), cols) };
            }
        }
    }
    Ok(())
}

/// With both operands packed.
unsafe fn packed<T: Vector>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    let Dims { m, k, n } = d;
    let (nr, kc) = (T::NR, KC.min(k));
    let room = |len: usize, most: usize, unit: usize| {
        Storage::allocate(len.min(most).next_multiple_of(unit) * kc * size_of::<T>())
    };
    let (tall, flat) = (room(m, ROWS, MR)?, room(n, COLS, nr)?);
    let left = Shared::new(tall.as_ptr().cast::<T>());
    let right = Shared::new(flat.as_ptr().cast::<T>());
    // SAFETY (all blocks): tiles and panels stay within the matrices and the buffers; tasks write
    // different panels and different tiles.
    for j in (0..n).step_by(COLS) {
        let width = COLS.min(n - j);
        let across = width.div_ceil(nr);
        for l in (0..k).step_by(KC) {
            let kc = KC.min(k - l);
            let mut fresh = true;
            for i in (0..m).step_by(ROWS) {
                let height = ROWS.min(m - i);
                let down = height.div_ceil(MR);
                // Panels of `a`, and those of `b` the first time, a few to a task.
                let panels = down + if fresh { across } else { 0 };
                fresh = false;
                spread(ctx, wide, panels.div_ceil(4), |task| {
                    for p in task * 4..panels.min(task * 4 + 4) {
                        if p < down {
                            let rows = MR.min(height - p * MR);
                            let to = left.at((p * MR * kc) as isize);
                            unsafe { pack_tall(a.from(i + p * MR, l), rows, kc, to) };
                        } else {
                            let p = p - down;
                            let cols = nr.min(width - p * nr);
                            let to = right.at((p * nr * kc) as isize);
                            let from = b.from(l, j + p * nr).transposed();
                            unsafe { pack_wide(from, cols, kc, to) };
                        }
                    }
                })?;
                let (groups, parts) = grid(down, across, if wide { ctx.threads() } else { 1 });
                let (per_group, per_part) = (down.div_ceil(groups), across.div_ceil(parts));
                spread(ctx, wide, groups * parts, |task| {
                    let (g, h) = (task / parts, task % parts);
                    for q in h * per_part..across.min((h + 1) * per_part) {
                        let cols = nr.min(width - q * nr);
                        for p in g * per_group..down.min((g + 1) * per_group) {
                            let t = Tile {
                                k: kc,
                                a: left.at((p * MR * kc) as isize),
                                a_row: 1,
                                a_step: MR as isize,
                                b: right.at((q * nr * kc) as isize),
                                b_step: nr as isize,
                                c: c.at(((i + p * MR) * n + j + q * nr) as isize),
                                c_row: n as isize,
                                add: l > 0,
                            };
                            unsafe { T::tile(t, MR.min(height - p * MR), cols) };
                        }
                    }
                })?;
            }
        }
    }
    Ok(())
}

/// Into how many groups of rows and parts of columns the panels go.
fn grid(down: usize, across: usize, threads: usize) -> (usize, usize) {
    let groups = down.div_ceil(PANELS);
    if threads == 1 || groups >= 4 * threads {
        return (groups, 1);
    }
    (groups, (4 * threads).div_ceil(groups).min(across))
}

/// Packs `rows` rows: element `l` of row `i` goes to `to[l * MR + i]`.
#[target_feature(enable = "avx512f")]
unsafe fn pack_tall<T: Vector>(a: Mat<T>, rows: usize, k: usize, to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe { pack::<T, MR>(a, rows, k, to) }
}

/// Packs `cols` columns, the rows of the transposed `b`.
#[target_feature(enable = "avx512f")]
unsafe fn pack_wide<T: Vector>(b: Mat<T>, cols: usize, k: usize, to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        if T::LANES == 16 { pack::<T, 32>(b, cols, k, to) } else { pack::<T, 16>(b, cols, k, to) }
    }
}

#[inline(always)]
unsafe fn pack<T: Vector, const W: usize>(a: Mat<T>, rows: usize, k: usize, to: *mut T) {
    // SAFETY (all blocks): `rows <= W` and `l < k` stay within matrix and panel.
    unsafe {
        if a.rs == 1 && rows == W {
            for l in 0..k {
                let line = a.at.at(l as isize * a.cs).cast::<[T; W]>().read();
                to.add(l * W).cast::<[T; W]>().write(line);
            }
            return;
        }
        if rows < W {
            for l in 0..k {
                for i in rows..W {
                    to.add(l * W + i).write(T::ZERO);
                }
            }
        }
        let mut done = 0;
        if a.cs == 1 {
            while done + 4 <= rows {
                let p: [*const T; 4] =
                    std::array::from_fn(|r| a.from(done + r, 0).at.at(0).cast_const());
                let mut l = 0;
                while l + 4 <= k {
                    let lines = p.map(|p| p.add(l).cast::<[T; 4]>().read());
                    for j in 0..4 {
                        let out: [T; 4] = std::array::from_fn(|r| lines[r][j]);
                        to.add((l + j) * W + done).cast::<[T; 4]>().write(out);
                    }
                    l += 4;
                }
                for l in l..k {
                    for (r, p) in p.iter().enumerate() {
                        to.add(l * W + done + r).write(p.add(l).read());
                    }
                }
                done += 4;
            }
        }
        for l in 0..k {
            for i in done..rows {
                to.add(l * W + i).write(a.from(i, l).at.at(0).read());
            }
        }
    }
}

//! Products of integers and bool, and the small or thin ones of complex numbers.

use super::super::Ctx;
use super::super::reduce::Number;
use super::super::strided::Shared;
use super::{Dims, Mat, spread};
use crate::error::Result;

/// Columns and summed elements that are worked on at a time, so that the part of `b` stays near.
const TILE: usize = 128;

/// # Safety
/// As for `Product::product`.
pub(super) unsafe fn product<T: Number>(
    d: Dims,
    a: Mat<T>,
    b: Mat<T>,
    c: Shared<T>,
    wide: bool,
    ctx: &Ctx,
) -> Result<()> {
    let Dims { m, k, n } = d;
    let rows = (1usize << 20).div_ceil(k * n).next_multiple_of(8);
    // SAFETY (all blocks): indices stay below the lengths of the axes; tasks have different rows.
    spread(ctx, wide, m.div_ceil(rows), |task| {
        let (top, end) = (task * rows, m.min((task + 1) * rows));
        // Where `b` is dense along the summed axis, elements are dot products.
        if n < 4 || (b.rs.abs() < b.cs.abs() && a.cs.abs() <= a.rs.abs()) {
            for i in top..end {
                for j in 0..n {
                    let (row, col) = (a.from(i, 0), b.from(0, j));
                    let term = |l: isize| unsafe {
                        row.at.at(l * a.cs).read().times(col.at.at(l * b.rs).read())
                    };
                    let sum = (1..k as isize).fold(term(0), |sum, l| sum.plus(term(l)));
                    unsafe { c.at((i * n + j) as isize).write(sum) };
                }
            }
            return;
        }
        for j0 in (0..n).step_by(TILE) {
            let width = TILE.min(n - j0);
            for l0 in (0..k).step_by(TILE) {
                for i in top..end {
                    let to = c.at((i * n + j0) as isize);
                    for l in l0..k.min(l0 + TILE) {
                        let x = unsafe { a.from(i, l).at.at(0).read() };
                        let y = b.from(l, j0);
                        for j in 0..width {
                            unsafe {
                                let term = x.times(y.at.at(j as isize * b.cs).read());
                                let old = to.add(j);
                                old.write(if l == 0 { term } else { old.read().plus(term) });
                            }
                        }
                    }
                }
            }
        }
    })
}

//! Systems whose matrix is a band around the diagonal.
// Elements are checked for alignment before they are read.
#![allow(clippy::cast_ptr_alignment)]

use super::{Field, Items, each, matrix};
use crate::error::{Error, Result};
use crate::kernels::{Ctx, Value};

/// The solutions of systems with a band matrix: diagonal `r - width` below the main one is row `r` of
/// `bands`, of which there are `2 width + 1`, and each element stands in its own column.
pub fn solve_banded(bands: &Value, b: &Value, transposed: bool, ctx: &Ctx) -> Result<Value> {
    with_field!(b.dtype(), solve_banded_of(bands, b, transposed, ctx))
}

fn solve_banded_of<T: Field>(
    bands: &Value,
    b: &Value,
    transposed: bool,
    ctx: &Ctx,
) -> Result<Value> {
    let (n, k) = matrix(b);
    let width = matrix(bands).0 / 2;
    let out = Value::empty(b.aval().clone())?;
    let bands = Items::new::<T>(bands, 2, ctx)?;
    let b = Items::new::<T>(b, 2, ctx)?;
    each::<T>(&out, 2, ctx, |i, out| {
        out.copy_from_slice(b.item(i));
        eliminate(n, k, width, bands.item(i), out, transposed)
    })?;
    Ok(out)
}

/// Gaussian elimination with partial pivoting inside a band. Row `i` of the matrix is kept from column
/// `i - width` to `i + 2 width`: exchanges of rows bring in elements that far.
fn eliminate<T: Field>(
    n: usize,
    k: usize,
    width: usize,
    bands: &[T],
    x: &mut [T],
    transposed: bool,
) -> Result<()> {
    let zero = T::number(0.0);
    let length = 3 * width + 1;
    let mut rows = vec![zero; n * length];
    // Where the element of row i and column c is kept, for c - i from -width to 2 width.
    let at = |i: usize, c: usize| i * length + (c + width - i);
    for i in 0..n {
        for c in i.saturating_sub(width)..(i + width + 1).min(n) {
            let (row, column) = if transposed { (c, i) } else { (i, c) };
            rows[at(i, c)] = bands[(width + row - column) * n + column];
        }
    }
    for p in 0..n {
        let last = (p + width + 1).min(n);
        let end = (p + 2 * width + 1).min(n);
        let mut largest = p;
        for i in p + 1..last {
            if rows[at(i, p)].magnitude() > rows[at(largest, p)].magnitude() {
                largest = i;
            }
        }
        if largest != p {
            for c in p..end {
                rows.swap(at(p, c), at(largest, c));
            }
            for j in 0..k {
                x.swap(p * k + j, largest * k + j);
            }
        }
        let pivot = rows[at(p, p)];
        if pivot == zero {
            return Err(Error::LinAlg("singular matrix".into()));
        }
        for i in p + 1..last {
            let factor = rows[at(i, p)] / pivot;
            if factor == zero {
                continue;
            }
            for c in p + 1..end {
                let change = factor * rows[at(p, c)];
                rows[at(i, c)] = rows[at(i, c)] - change;
            }
            for j in 0..k {
                x[i * k + j] = x[i * k + j] - factor * x[p * k + j];
            }
        }
    }
    for p in (0..n).rev() {
        let pivot = rows[at(p, p)];
        for j in 0..k {
            let mut sum = x[p * k + j];
            for c in p + 1..(p + 2 * width + 1).min(n) {
                sum = sum - rows[at(p, c)] * x[c * k + j];
            }
            x[p * k + j] = sum / pivot;
        }
    }
    Ok(())
}

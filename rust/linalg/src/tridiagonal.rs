//! Eigenvalues and eigenvectors of a symmetric tridiagonal matrix, by dividing it and conquering the halves.
//!
//! The matrix is two smaller ones and a matrix of rank one, `diag(T1, T2) + rho u uᵀ`. Between the eigenvalues of the two
//! lie those of the whole, as roots of a rational function (`secular`). Eigenvectors come from the roots by way of the
//! `u` for which these are exact, so that they are orthogonal however close roots are.
//!
//! M. Gu, S. Eisenstat: A divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem, SIAM J. Matrix Anal.
//! Appl. 16, 1995; deflation as in J. Rutter: A serial implementation of Cuppen's divide and conquer algorithm, 1994.
//!
//! In float64 whatever the dtype of the matrix that the tridiagonal one was made from.

use std::sync::{Mutex, PoisonError};

use faer::diag::{DiagMut, DiagRef};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::matmul::matmul;
use faer::{Accum, Auto, MatMut, MatRef, Par};

use crate::Failure;
use crate::parallel::{Spread, each};
use crate::secular::{self, Poles};

/// How far off the result of one operation may be, relative to it.
const ROUNDOFF: f64 = f64::EPSILON / 2.0;

/// What is smaller than this beside 1 is nothing: it has a reciprocal only just, or none.
const NOTHING: f64 = f64::MIN_POSITIVE / f64::EPSILON;

/// Matrices of up to this size are not divided.
const LEAF: usize = 32;

/// From this size on it is worth spreading work over threads.
pub const WIDE: usize = 192;

/// Columns of a product that are computed together.
pub const COLUMNS: usize = 128;

/// Eigenvalues of the matrix with this diagonal and what is beside it, ascending, in place of the diagonal; and its
/// eigenvectors, `n × n` in column-major order, in place of zeros. What is beside the diagonal is overwritten.
pub fn eigenvectors(
    d: &mut [f64],
    e: &mut [f64],
    q: &mut [f64],
    spread: Spread,
) -> Result<(), Failure> {
    let n = d.len();
    // What is small is small beside 1.
    let scale = power_near(d.iter().chain(&*e).fold(0.0, |top, x| x.abs().max(top)));
    for x in d.iter_mut().chain(&mut *e) {
        *x /= scale;
        if x.abs() < NOTHING {
            *x = 0.0;
        }
    }
    divide(d, e, &mut Block { q, n, row: 0 }, spread)?;
    for x in d {
        *x *= scale;
    }
    Ok(())
}

/// Eigenvalues of the matrix with this diagonal and what is beside it, ascending, in place of the diagonal. What is beside
/// the diagonal is overwritten.
///
/// By the QL iteration of Pal, Walker and Kahan, which works with squares and needs no roots (B. Parlett: The symmetric
/// eigenvalue problem, 1980, 8-15; LAPACK's dsterf too).
pub fn eigenvalues(d: &mut [f64], e: &mut [f64]) -> Result<(), Failure> {
    let scale = power_near(d.iter().chain(&*e).fold(0.0, |top, x| x.abs().max(top)));
    for x in &mut *d {
        *x /= scale;
    }
    for x in &mut *e {
        *x = (*x / scale).powi(2);
    }
    let mut first = 0;
    while first < d.len() {
        // Parts between which nothing is left.
        let mut last = first;
        while last < e.len() && !is_nothing(d, e, last) {
            last += 1;
        }
        if last < e.len() {
            e[last] = 0.0;
        }
        iterate(&mut d[first..=last], &mut e[first..last])?;
        first = last + 1;
    }
    for x in &mut *d {
        *x *= scale;
    }
    d.sort_by(f64::total_cmp);
    Ok(())
}

/// Whether a square beside the diagonal is nothing to its neighbours.
fn is_nothing(d: &[f64], e: &[f64], i: usize) -> bool {
    e[i] <= ROUNDOFF * ROUNDOFF * (d[i] * d[i + 1]).abs()
}

/// The iteration, from squares of what is beside the diagonal.
fn iterate(d: &mut [f64], e: &mut [f64]) -> Result<(), Failure> {
    let n = d.len();
    // From the smaller end, so that what is small keeps its digits.
    if d[n - 1].abs() < d[0].abs() {
        d.reverse();
        e.reverse();
    }
    let mut steps = 30 * n;
    let mut l = 0;
    while l + 1 < n {
        let m = (l..n - 1).find(|&i| is_nothing(d, e, i)).unwrap_or(n - 1);
        if m + 1 < n {
            e[m] = 0.0;
        }
        if m == l {
            l += 1;
            continue;
        }
        if steps == 0 {
            return Err(Failure::NoConvergence);
        }
        steps -= 1;
        let beside = e[l].sqrt();
        let half = (d[l + 1] - d[l]) / (2.0 * beside);
        let shift = d[l] - beside / (half + half.hypot(1.0).copysign(half));
        let (mut c, mut s) = (1.0, 0.0);
        let mut gamma = d[m] - shift;
        let mut p = gamma * gamma;
        for i in (l..m).rev() {
            let square = e[i];
            let r = p + square;
            if i + 1 < m {
                e[i + 1] = s * r;
            }
            let before = (c, gamma);
            (c, s) = (p / r, square / r);
            let alpha = d[i];
            gamma = c * (alpha - shift) - s * before.1;
            d[i + 1] = before.1 + (alpha - gamma);
            p = if c == 0.0 {
                before.0 * square
            } else {
                gamma * gamma / c
            };
        }
        e[l] = s * p;
        d[l] = shift + gamma;
    }
    Ok(())
}

/// The power of two below a number, by which is divided without rounding.
fn power_near(x: f64) -> f64 {
    if x == 0.0 {
        1.0
    } else {
        2f64.powi(x.log2().floor() as i32)
    }
}

/// Columns of a matrix of `n` rows, of which those from `row` on are meant.
struct Block<'a> {
    q: &'a mut [f64],
    n: usize,
    row: usize,
}

impl Block<'_> {
    /// So many elements of column `j`, from row `i` on.
    fn column(&mut self, i: usize, j: usize, len: usize) -> &mut [f64] {
        &mut self.q[j * self.n + self.row + i..][..len]
    }

    /// The first columns and rows, and the others.
    fn halves(&mut self, at: usize) -> [Block<'_>; 2] {
        let (n, row) = (self.n, self.row);
        let (low, high) = self.q.split_at_mut(at * n);
        [(low, row), (high, row + at)].map(|(q, row)| Block { q, n, row })
    }

    /// Turns columns `i` and `j` by an angle with this cosine and sine.
    fn rotate(&mut self, rows: usize, (i, j): (usize, usize), (c, s): (f64, f64)) {
        debug_assert_ne!(i, j, "a column is not turned against itself");
        let start = |j: usize| j * self.n + self.row;
        let (a, b) = (start(i), start(j));
        let (left, right) = self.q.split_at_mut(a.max(b));
        let low = &mut left[a.min(b)..][..rows];
        let (x, y) = if a < b {
            (low, &mut right[..rows])
        } else {
            (&mut right[..rows], low)
        };
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = (c * *x + s * *y, c * *y - s * *x);
        }
    }
}

fn divide(d: &mut [f64], e: &mut [f64], q: &mut Block, spread: Spread) -> Result<(), Failure> {
    let n = d.len();
    if n <= LEAF {
        return leaf(d, e, q);
    }
    let half = n / 2;
    let beside = e[half - 1];
    d[half - 1] -= beside.abs();
    d[half] -= beside.abs();
    let (low, high) = d.split_at_mut(half);
    let (before, after) = e.split_at_mut(half);
    let [first, second] = q.halves(half);
    let halves = [(low, &mut before[..half - 1], first), (high, after, second)];
    let wide = (n >= WIDE).then_some(spread);
    let done = Mutex::new(Ok(()));
    each(wide, halves.into_iter(), |(d, e, mut q)| {
        if let Err(failure) = divide(d, e, &mut q, spread) {
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Err(failure);
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    conquer(d, half, beside, q, wide);
    Ok(())
}

/// By an iteration on the whole.
fn leaf(d: &mut [f64], e: &[f64], q: &mut Block) -> Result<(), Failure> {
    let n = d.len();
    let (diagonal, mut beside) = (d.to_vec(), e.to_vec());
    beside.resize(n, 0.0);
    let params: evd::SelfAdjointEvdParams = Auto::<f64>::auto();
    let wanted = ComputeEigenvectors::Yes;
    let need = evd::self_adjoint_evd_scratch::<f64>(n, wanted, Par::Seq, params.into());
    let vectors = MatMut::from_column_major_slice_with_stride_mut(&mut q.q[q.row..], n, n, q.n);
    evd::tridiagonal_self_adjoint_evd(
        DiagRef::from_slice(&diagonal),
        DiagRef::from_slice(&beside),
        DiagMut::from_slice_mut(d),
        Some(vectors),
        Par::Seq,
        MemStack::new(&mut MemBuffer::new(need)),
        params.into(),
    )
    .map_err(|_| Failure::NoConvergence)
}

/// Where an eigenvector of the halves has elements.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Top,
    Both,
    Bottom,
}

/// What becomes of the eigenvectors of the halves.
struct Sorted {
    /// Columns that take part in the sum, ascending by eigenvalue.
    joined: Vec<usize>,
    /// Columns that are eigenvectors of the whole, and their eigenvalues.
    kept: Vec<(f64, usize)>,
    places: Vec<Place>,
}

/// Eigenvalues and eigenvectors of the whole from those of its halves: the halves side by side, and a matrix of rank
/// one, whose vector is `z` and whose size is `rho`.
fn conquer(d: &mut [f64], half: usize, beside: f64, q: &mut Block, spread: Option<Spread>) {
    let (mut z, rho) = rank_one(d.len(), half, beside, q);
    let sorted = deflate(d, &mut z, half, rho, q);
    // In groups of what has elements where, so that zeros are not multiplied; ascending within each.
    let mut order = sorted.joined.clone();
    order.sort_by_key(|&j| sorted.places[j] as u8);
    let (values, steps) = roots(d, &z, rho, &sorted.joined, &order, spread);
    let kept = combine(d.len(), half, &sorted, &order, &steps, q, spread);
    merge(d, &values, &sorted.kept, &kept, q);
}

/// The vector of the matrix of rank one, of length 1, in terms of the eigenvectors of the halves: the last row of one
/// half and the first of the other. And the factor before the matrix.
fn rank_one(n: usize, half: usize, beside: f64, q: &mut Block) -> (Vec<f64>, f64) {
    let mut z: Vec<f64> = (0..n)
        .map(|j| {
            if j < half {
                q.column(half - 1, j, 1)[0]
            } else {
                q.column(half, j, 1)[0] * beside.signum()
            }
        })
        .collect();
    let size = z.iter().map(|z| z * z).sum::<f64>();
    let unit = size.sqrt().recip();
    for z in &mut z {
        *z *= unit;
    }
    (z, beside.abs() * size)
}

/// The eigenvalues of the columns that are joined, ascending, and their eigenvectors in terms of those of the halves.
fn roots(
    d: &[f64],
    z: &[f64],
    rho: f64,
    joined: &[usize],
    order: &[usize],
    spread: Option<Spread>,
) -> (Vec<f64>, Vec<f64>) {
    let k = order.len();
    let mut position = vec![0; d.len()];
    for (i, &j) in order.iter().enumerate() {
        position[j] = i;
    }
    let ascending: Vec<usize> = joined.iter().map(|&j| position[j]).collect();
    let (poles, weights): (Vec<f64>, Vec<f64>) = order.iter().map(|&j| (d[j], z[j])).unzip();
    let poles = Poles {
        d: &poles,
        z: &weights,
        ascending: &ascending,
        rho,
    };
    let mut steps = vec![0.0; k * k];
    let mut values = vec![0.0; k];
    secular::solve(&poles, &mut values, &mut steps, spread);
    (values, steps)
}

/// Multiplies the eigenvectors of the halves with the `steps`, into the first columns. Gives copies of the columns that
/// stay, one behind the other.
fn combine(
    n: usize,
    half: usize,
    sorted: &Sorted,
    order: &[usize],
    steps: &[f64],
    q: &mut Block,
    spread: Option<Spread>,
) -> Vec<f64> {
    let k = order.len();
    let count = |place| order.iter().filter(|&&j| sorted.places[j] == place).count();
    let (top, both) = (count(Place::Top), count(Place::Both));
    // What has elements in the rows of one half, side by side without gaps.
    let (upper, lower) = (top + both, k - top);
    let mut first = Vec::with_capacity(half * upper);
    for &j in &order[..upper] {
        first.extend_from_slice(q.column(0, j, half));
    }
    let mut second = Vec::with_capacity((n - half) * lower);
    for &j in &order[top..] {
        second.extend_from_slice(q.column(half, j, n - half));
    }
    let mut kept = Vec::with_capacity(n * sorted.kept.len());
    for &(_, j) in &sorted.kept {
        kept.extend_from_slice(q.column(0, j, n));
    }
    let steps = MatRef::from_column_major_slice(steps, k, k);
    let first = MatRef::from_column_major_slice(&first, half, upper);
    let second = MatRef::from_column_major_slice(&second, n - half, lower);
    let (rows, row) = (q.n, q.row);
    each(
        spread,
        q.q[..rows * k].chunks_mut(rows * COLUMNS).enumerate(),
        |(i, columns)| {
            let count = columns.len() / rows;
            let products = MatMut::from_column_major_slice_mut(columns, rows, count);
            let (above, below) = products.subrows_mut(row, n).split_at_row_mut(half);
            let steps = steps.subcols(i * COLUMNS, count);
            for (part, left, steps) in [
                (above, first, steps.subrows(0, upper)),
                (below, second, steps.subrows(top, lower)),
            ] {
                matmul(part, Accum::Replace, left, steps, 1.0, Par::Seq);
            }
        },
    );
    kept
}

/// Puts the eigenvectors that were computed and those that stay in one ascending order. From the end on, where there is
/// room.
fn merge(d: &mut [f64], values: &[f64], kept: &[(f64, usize)], vectors: &[f64], q: &mut Block) {
    let n = d.len();
    let (rows, row) = (q.n, q.row);
    let mut kept: Vec<_> = kept.iter().zip(vectors.chunks_exact(n)).collect();
    kept.sort_by(|((a, _), _), ((b, _), _)| a.total_cmp(b));
    let mut made = values.len();
    for j in (0..n).rev() {
        match kept.last() {
            Some(((value, _), vector)) if made == 0 || *value >= values[made - 1] => {
                d[j] = *value;
                q.column(0, j, n).copy_from_slice(vector);
                kept.pop();
            }
            _ => {
                made -= 1;
                d[j] = values[made];
                if made < j {
                    let from = made * rows + row;
                    q.q.copy_within(from..from + n, j * rows + row);
                }
            }
        }
    }
}

/// Takes apart what the sum does not change: where the vector is zero, and, of two equal eigenvalues, one, when their
/// eigenvectors are turned so that it is.
fn deflate(d: &mut [f64], z: &mut [f64], half: usize, rho: f64, q: &mut Block) -> Sorted {
    let n = d.len();
    let mut ascending: Vec<usize> = (0..n).collect();
    ascending.sort_by(|&i, &j| d[i].total_cmp(&d[j]));
    let largest = |x: &[f64]| x.iter().fold(0.0, |top: f64, x| top.max(x.abs()));
    let tolerance = 8.0 * ROUNDOFF * largest(d).max(largest(z));
    let place = |j| if j < half { Place::Top } else { Place::Bottom };
    let mut sorted = Sorted {
        joined: Vec::with_capacity(n),
        kept: Vec::new(),
        places: (0..n).map(place).collect(),
    };
    let mut before = None;
    for j in ascending {
        if rho * z[j].abs() <= tolerance {
            sorted.kept.push((d[j], j));
            continue;
        }
        let Some(i) = before.replace(j) else {
            continue;
        };
        let length = z[j].hypot(z[i]);
        let (c, s) = (z[j] / length, -z[i] / length);
        if ((d[j] - d[i]) * c * s).abs() > tolerance {
            sorted.joined.push(i);
            continue;
        }
        (z[i], z[j]) = (0.0, length);
        q.rotate(n, (i, j), (c, s));
        if sorted.places[i] != sorted.places[j] {
            sorted.places[j] = Place::Both;
        }
        let value = d[i] * c * c + d[j] * s * s;
        d[j] = d[i] * s * s + d[j] * c * c;
        sorted.kept.push((value, i));
    }
    sorted.joined.extend(before);
    sorted
}

#[cfg(test)]
mod tests;

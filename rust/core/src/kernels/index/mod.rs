//! Reading and writing rows by index: gather, scatter, positions.
//!
//! Indices come normalised to `0..n` but are checked once more before anything is touched. Updates
//! of one row happen in the order of the indices: work is split over columns or over ranges of rows,
//! never over indices, so that duplicates add up to the same bits on any number of threads.
// Elements are read and written unaligned wherever they may be foreign.
#![allow(clippy::cast_ptr_alignment)]

mod laid_out;
mod rows;
mod search;

pub use self::laid_out::{gather_laid_out, scatter_add_laid_out, scatter_laid_out};
pub use self::search::searchsorted_into;

use self::rows::{Part, add_rows, gather_rows, replace_rows};
use super::arithmetic::{Number, with_number};
use super::shared_pointer::Shared;
use super::simd_level::Level;
use super::strided::{Nest, by_size, contiguous, copy};
use super::{Ctx, Value};
use crate::aval::{Aval, DType, Shape, checked_size, row_major, tuple};
use crate::error::{Error, Result};

/// Elements that a task should at least be worth.
const TASK: usize = 1 << 15;
/// Elements after which an update looks for a cancellation.
const PIECE: usize = 1 << 22;
/// Bytes of a row that threads share: no two of them write to one line of the cache.
const LINE: usize = 64;

/// The indices in row-major order, each checked to be below `n`.
struct Indices(Value);

impl Indices {
    fn new(op: &str, idx: &Value, n: usize, ctx: &Ctx) -> Result<Indices> {
        if idx.dtype() != DType::I64 {
            return Err(Error::DType(format!(
                "{op}: indices must be i64, not {}",
                idx.dtype()
            )));
        }
        let aligned = (idx.as_ptr() as usize).is_multiple_of(align_of::<i64>());
        let idx = if aligned {
            contiguous(idx, ctx)?
        } else {
            copy(idx, ctx)?
        };
        let indices = Indices(idx);
        check(op, indices.list(), n)?;
        Ok(indices)
    }

    fn list(&self) -> &[i64] {
        if self.0.aval().size() == 0 {
            return &[];
        }
        // SAFETY: contiguous and aligned, as `new` has seen to.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.aval().size()) }
    }
}

/// The error of an index that is not below `n`.
fn check(op: &str, list: &[i64], n: usize) -> Result<()> {
    let is_bad = |&i: &i64| i as u64 >= n as u64;
    // Without a way out of the loop, which vectors do not have.
    if !list.iter().fold(false, |any, i| any | is_bad(i)) {
        return Ok(());
    }
    match list.iter().find(|i| is_bad(i)) {
        Some(bad) => Err(Error::Index(format!(
            "{op}: index {bad} is out of bounds for axis 0 with size {n}"
        ))),
        None => Ok(()),
    }
}

/// Length of the first axis, and the shape of a row.
fn rows<'a>(op: &str, x: &'a Value) -> Result<(usize, &'a [usize])> {
    match x.shape().split_first() {
        Some((&n, row)) => Ok((n, row)),
        None => Err(Error::Shape(format!(
            "{op}: a zero-dimensional array has no rows"
        ))),
    }
}

/// The rows of `x` (`[n, rest...]`) at `idx` (`i64`, any shape): `[idx..., rest...]`.
pub fn gather(x: &Value, idx: &Value, ctx: &Ctx) -> Result<Value> {
    let (_, row) = rows("gather", x)?;
    let mut shape = Shape::from_slice(idx.shape());
    shape.extend_from_slice(row);
    checked_size("gather", &shape)?;
    let out = Value::empty(Aval {
        dtype: x.dtype(),
        shape,
    })?;
    gather_into(&out, x, idx, ctx)?;
    Ok(out)
}

/// The same, into `out`, which is row-major and the caller's alone.
pub fn gather_into(out: &Value, x: &Value, idx: &Value, ctx: &Ctx) -> Result<()> {
    let (n, row) = rows("gather", x)?;
    let indices = Indices::new("gather", idx, n, ctx)?;
    let fits = out.dtype() == x.dtype()
        && out.is_contiguous()
        && out.shape().len() == idx.shape().len() + row.len()
        && out.shape().starts_with(idx.shape())
        && out.shape().ends_with(row);
    if !fits {
        return Err(Error::Shape(format!(
            "gather: rows of {} at indices of shape {} do not fit into {}",
            x.aval(),
            tuple(idx.shape()),
            out.aval()
        )));
    }
    if out.aval().size() == 0 {
        return Ok(());
    }
    let list = indices.list();
    let nest = Nest::new(row, &row_major(row), &x.strides()[1..]);
    let len: usize = row.iter().product();
    let step = x.strides()[0];
    let group = TASK.div_ceil(len);
    let is_dense = len == 1 || x.strides()[1..] == row_major(row)[..];
    by_size!(x.dtype().size(), T => {
        let rows = gather_rows::<T>(Level::best());
        let from = Shared::new(x.as_ptr().cast_mut().cast::<T>());
        let to = Shared::new(out.as_mut_ptr().cast::<T>());
        ctx.for_each(list.len().div_ceil(group), |task| {
            let start = task * group;
            let part = &list[start..list.len().min(start + group)];
            // SAFETY: the indices are below `n`, and tasks write different rows of a fresh array.
            unsafe {
                if is_dense {
                    rows(to.at((start * len) as isize), from.at(0), part, len, step);
                } else {
                    for (i, &k) in part.iter().enumerate() {
                        nest.run(to.at(((start + i) * len) as isize), from.at(k as isize * step));
                    }
                }
            }
        })
    })
}

/// Adds the rows `u` (`[idx..., rest...]`) to those of `x` (`[n, rest...]`) at `idx`, in the order of the
/// indices. `x` is contiguous, and the caller's alone.
pub fn scatter_add(x: &Value, idx: &Value, u: &Value, ctx: &Ctx) -> Result<()> {
    with_number!(x.dtype(), T => {
        // SAFETY: `T` is the type of the dtype.
        unsafe { update::<T>("scatter_add", x, idx, u, ctx, add_rows::<T>(Level::best())) }
    })
}

/// Replaces the rows of `x` at `idx` by those of `u`; of several for one row the last stays.
/// `x` is contiguous, and the caller's alone.
pub fn scatter(x: &Value, idx: &Value, u: &Value, ctx: &Ctx) -> Result<()> {
    by_size!(x.dtype().size(), T => {
        // SAFETY: `T` is as large as an element and takes any bits.
        unsafe { update::<T>("scatter", x, idx, u, ctx, replace_rows::<T>(Level::best())) }
    })
}

/// What updates the rows of a table.
type Update<T> = unsafe fn(*mut T, *const T, &[i64], usize, &Part);

unsafe fn update<T: Copy>(
    op: &str,
    x: &Value,
    idx: &Value,
    u: &Value,
    ctx: &Ctx,
    rows_at: Update<T>,
) -> Result<()> {
    let (n, row) = rows(op, x)?;
    let fits = x.is_contiguous()
        && u.dtype() == x.dtype()
        && u.shape().len() == idx.shape().len() + row.len()
        && u.shape().starts_with(idx.shape())
        && u.shape().ends_with(row);
    if !fits {
        return Err(Error::Shape(format!(
            "{op}: updates {} do not fit rows of {} at indices of shape {}",
            u.aval(),
            x.aval(),
            tuple(idx.shape())
        )));
    }
    let indices = Indices::new(op, idx, n, ctx)?;
    let len: usize = row.iter().product();
    let u = contiguous(u, ctx)?;
    if u.aval().size() == 0 {
        return Ok(());
    }
    let list = indices.list();
    let to = Shared::new(x.as_mut_ptr().cast::<T>());
    let from = Shared::new(u.as_ptr().cast_mut().cast::<T>());
    let wide = ctx.threads() > 1 && list.len() * len >= TASK;
    let parts = parts(if wide { ctx.threads() } else { 1 }, x, n, len);
    let piece = (PIECE / len).max(1);
    for (p, list) in list.chunks(piece).enumerate() {
        ctx.for_each(parts.len(), |task| {
            // SAFETY: the indices are below `n`; tasks write different columns or rows of an array that is ours alone.
            unsafe {
                let from = from.at((p * piece * len) as isize);
                rows_at(to.at(0), from, list, len, &parts[task]);
            }
        })?;
    }
    Ok(())
}

/// How `count` threads share the updates of `n` rows of `len` elements: by columns where a row is long enough, since
/// each thread reads all indices, and branches on none then; by rows else.
fn parts(count: usize, x: &Value, n: usize, len: usize) -> Vec<Part> {
    let line = LINE / x.dtype().size();
    let has_lines = len.is_multiple_of(line) && (x.as_ptr() as usize).is_multiple_of(LINE);
    let by_columns = len >= 64 * count || has_lines && len >= line * count;
    let share = if by_columns { len } else { n }.div_ceil(count);
    let share = if by_columns && has_lines {
        share.next_multiple_of(line)
    } else {
        share
    };
    (0..count)
        .map(|i| {
            let (lo, hi) = (i * share, (i + 1) * share);
            let (rows, columns) = if by_columns {
                (0..n, lo.min(len)..hi.min(len))
            } else {
                (lo.min(n)..hi.min(n), 0..len)
            };
            Part {
                rows: rows.start as i64..rows.end as i64,
                columns,
            }
        })
        .collect()
}

/// `0, 1, .., n - 1`.
pub fn iota(n: usize) -> Result<Value> {
    checked_size("arange", &[n])?;
    let out = Value::empty(Aval::new(DType::I64, &[n]))?;
    for i in 0..n {
        // SAFETY: the array is fresh and has `n` elements.
        unsafe { out.as_mut_ptr().cast::<i64>().add(i).write(i as i64) };
    }
    Ok(out)
}

/// The indices of the elements that are not zero, in row-major order: `i64`, one row of `rank`
/// numbers for each.
pub fn nonzero(mask: &Value, ctx: &Ctx) -> Result<Value> {
    let mask = contiguous(mask, ctx)?;
    let (shape, size) = (mask.shape(), mask.aval().size());
    with_number!(mask.dtype(), T => {
        let p = mask.as_ptr().cast::<T>();
        // SAFETY: `i` stays below the number of elements.
        let hit = |i: usize| unsafe { p.add(i).read_unaligned() } != <T as Number>::ZERO;
        let count = (0..size).filter(|&i| hit(i)).count();
        ctx.check()?;
        let out = Value::empty(Aval::new(DType::I64, &[count, shape.len()]))?;
        let mut to = out.as_mut_ptr().cast::<i64>();
        let steps = row_major(shape);
        for i in (0..size).filter(|&i| hit(i)) {
            for (&step, &len) in steps.iter().zip(shape) {
                // SAFETY: there is room for `count` rows, and as many are written.
                unsafe {
                    to.write((i / step as usize % len) as i64);
                    to = to.add(1);
                }
            }
        }
        Ok(out)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::aval::Strides;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn ctx() -> Ctx<'static> {
        Ctx::new(&STOP, 1)
    }

    fn wide<R: Send>(f: impl FnOnce(&Ctx) -> R + Send) -> R {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        pool.install(|| f(&Ctx::new(&STOP, 2)))
    }

    fn random(n: usize, below: usize) -> Vec<i64> {
        let mut state = 12345u64;
        (0..n)
            .map(|_| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                ((state >> 33) % below as u64) as i64
            })
            .collect()
    }

    #[test]
    fn gathers_rows_of_any_layout() {
        let x = Value::from_slice(&[3, 2], &[0i32, 1, 10, 11, 20, 21]).unwrap();
        let idx = Value::from_slice(&[2, 2], &[2i64, 0, 1, 2]).unwrap();
        let out = gather(&x, &idx, &ctx()).unwrap();
        assert_eq!(out.shape(), &[2, 2, 2]);
        assert_eq!(
            out.as_slice::<i32>().unwrap(),
            &[20, 21, 0, 1, 10, 11, 20, 21]
        );
        // SAFETY: the transposed layout reaches the same elements.
        let t = unsafe { x.view(Shape::from_slice(&[2, 3]), Strides::from_slice(&[1, 2]), 0) };
        let idx = Value::from_slice(&[1], &[1i64]).unwrap();
        let out = gather(&t, &idx, &ctx()).unwrap();
        assert_eq!(out.as_slice::<i32>().unwrap(), &[1, 11, 21]);
        let bad = Value::from_slice(&[2], &[0i64, 3]).unwrap();
        let Err(Error::Index(message)) = gather(&x, &bad, &ctx()) else {
            panic!("no error")
        };
        assert_eq!(
            message,
            "gather: index 3 is out of bounds for axis 0 with size 3"
        );
        let bad = Value::from_slice(&[1], &[-1i64]).unwrap();
        assert!(gather(&x, &bad, &ctx()).is_err());
        let none = Value::from_slice::<i64>(&[0, 4], &[]).unwrap();
        assert_eq!(gather(&x, &none, &ctx()).unwrap().shape(), &[0, 4, 2]);
        assert!(gather(&Value::scalar(1.0f32).unwrap(), &none, &ctx()).is_err());
    }

    #[test]
    fn updates_accumulate_in_order() {
        for row in [1usize, 3, 200] {
            let (n, count) = (17, 3000);
            let x: Vec<f32> = (0..n * row).map(|i| i as f32 * 0.1).collect();
            let u: Vec<f32> = (0..count * row).map(|i| 1.0 / (i + 1) as f32).collect();
            let at = random(count, n);
            let (mut sum, mut last) = (x.clone(), x.clone());
            for (i, &k) in at.iter().enumerate() {
                for j in 0..row {
                    sum[k as usize * row + j] += u[i * row + j];
                    last[k as usize * row + j] = u[i * row + j];
                }
            }
            let x = Value::from_slice(&[n, row], &x).unwrap();
            let u = Value::from_slice(&[count, row], &u).unwrap();
            let idx = Value::from_slice(&[count], &at).unwrap();
            let fresh = || copy(&x, &ctx()).unwrap();
            let (one, two) = (fresh(), fresh());
            scatter_add(&one, &idx, &u, &ctx()).unwrap();
            wide(|ctx| scatter_add(&two, &idx, &u, ctx)).unwrap();
            assert_eq!(one.as_slice::<f32>().unwrap(), sum.as_slice());
            assert_eq!(two.as_slice::<f32>().unwrap(), sum.as_slice());
            let (one, two) = (fresh(), fresh());
            scatter(&one, &idx, &u, &ctx()).unwrap();
            wide(|ctx| scatter(&two, &idx, &u, ctx)).unwrap();
            assert_eq!(one.as_slice::<f32>().unwrap(), last.as_slice());
            assert_eq!(two.as_slice::<f32>().unwrap(), last.as_slice());
        }
    }

    #[test]
    fn updates_of_other_types_and_wrong_shapes() {
        let x = Value::from_slice(&[2], &[false, false]).unwrap();
        let idx = Value::from_slice(&[2], &[1i64, 1]).unwrap();
        let u = Value::from_slice(&[2], &[true, false]).unwrap();
        let out = copy(&x, &ctx()).unwrap();
        scatter_add(&out, &idx, &u, &ctx()).unwrap();
        assert_eq!(out.as_slice::<bool>().unwrap(), &[false, true]);
        let out = copy(&x, &ctx()).unwrap();
        scatter(&out, &idx, &u, &ctx()).unwrap();
        assert_eq!(out.as_slice::<bool>().unwrap(), &[false, false]);
        let wrong = Value::from_slice(&[3], &[true; 3]).unwrap();
        assert!(scatter(&x, &idx, &wrong, &ctx()).is_err());
        let bad = Value::from_slice(&[2], &[0i64, 2]).unwrap();
        assert!(matches!(
            scatter_add(&x, &bad, &u, &ctx()),
            Err(Error::Index(_))
        ));
        let z = num_complex::Complex::new(1.0, 2.0);
        let x = Value::from_slice(&[2], &[z, z]).unwrap();
        let out = Value::from_slice(&[2], &[z, z]).unwrap();
        scatter_add(&out, &idx, &x, &ctx()).unwrap();
        assert_eq!(
            out.as_slice::<num_complex::Complex<f64>>().unwrap(),
            &[z, z + z + z]
        );
    }

    #[test]
    fn positions() {
        assert_eq!(iota(3).unwrap().as_slice::<i64>().unwrap(), &[0, 1, 2]);
        let mask = Value::from_slice(&[2, 3], &[0.0, -0.0, f64::NAN, 4.0, 0.0, 1.0]).unwrap();
        let out = nonzero(&mask, &ctx()).unwrap();
        assert_eq!(out.shape(), &[3, 2]);
        assert_eq!(out.as_slice::<i64>().unwrap(), &[0, 2, 1, 0, 1, 2]);
        let none = Value::from_slice::<bool>(&[0, 5], &[]).unwrap();
        assert_eq!(nonzero(&none, &ctx()).unwrap().shape(), &[0, 2]);
    }
}

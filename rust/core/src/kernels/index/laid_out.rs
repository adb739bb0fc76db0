//! Reading and writing at few indices, whose layouts are known before it is known where they lie.

use super::rows::{Part, add_rows, gather_rows, replace_rows};
use super::{Update, check, rows};
use crate::aval::{DType, row_major};
use crate::error::Result;
use crate::kernels::arithmetic::{Number, with_number};
use crate::kernels::laid_out::SHORT;
use crate::kernels::placed::outside;
use crate::kernels::simd_level::Level;
use crate::kernels::strided::by_size;
use crate::kernels::{LaidOut, Value};

/// Whether indices lie one after the other.
fn is_list(idx: &Value) -> bool {
    idx.dtype() == DType::I64 && idx.is_contiguous() && idx.aval().size() > 0
}

/// The indices at an address, all of them below `n`.
///
/// # Safety
///
/// There are as many that nobody writes to.
unsafe fn indices<'a>(op: &str, at: *const u8, count: usize, n: usize) -> Result<&'a [i64]> {
    let at = at.cast::<i64>();
    if !at.is_aligned() {
        return Err(outside());
    }
    // SAFETY: aligned, and there, says the caller.
    let list = unsafe { std::slice::from_raw_parts(at, count) };
    check(op, list, n)?;
    Ok(list)
}

/// [`gather_into`](super::gather_into) for a short result, with the array and the indices wherever they lie.
pub fn gather_laid_out(args: &[Value], out: &Value) -> Option<LaidOut> {
    let [x, idx] = args else { return None };
    let (n, row) = rows("gather", x).ok()?;
    let len: usize = row.iter().product();
    let step = x.strides()[0];
    let count = idx.aval().size();
    let fits = is_list(idx)
        && out.dtype() == x.dtype()
        && out.is_contiguous()
        && out.aval().size() == count * len
        && (len == 1 || x.strides()[1..] == row_major(row)[..]);
    if !fits {
        return None;
    }
    by_size!(x.dtype().size(), T => {
        let rows = gather_rows::<T>(Level::best());
        // SAFETY: what is read and written lies where the operands do, and the indices are below `n`.
        unsafe {
            LaidOut::new(args, out, move |at| {
                let list = indices("gather", at[1], count, n)?;
                rows(at[2].cast(), at[0].cast_const().cast(), list, len, step);
                Ok(())
            })
        }
    })
}

/// [`scatter_add`](super::scatter_add) for a short array, with all operands wherever they lie: the indices, the updates,
/// and the array.
pub fn scatter_add_laid_out(rest: &[Value], x: &Value) -> Option<LaidOut> {
    fn with<T: Number>() -> Update<T> {
        add_rows::<T>(Level::best())
    }
    with_number!(x.dtype(), T => updated::<T>("scatter_add", rest, x, with()))
}

/// The same for [`scatter`](super::scatter).
pub fn scatter_laid_out(rest: &[Value], x: &Value) -> Option<LaidOut> {
    by_size!(x.dtype().size(), T => {
        updated::<T>("scatter", rest, x, replace_rows::<T>(Level::best()))
    })
}

fn updated<T: Copy + 'static>(
    op: &'static str,
    rest: &[Value],
    x: &Value,
    rows_at: Update<T>,
) -> Option<LaidOut> {
    let [idx, u] = rest else { return None };
    let (n, row) = rows(op, x).ok()?;
    let len: usize = row.iter().product();
    let count = idx.aval().size();
    let fits = is_list(idx)
        && x.is_contiguous()
        && u.is_contiguous()
        && u.dtype() == x.dtype()
        && u.aval().nbytes() <= SHORT
        && u.aval().size() == count * len;
    if !fits {
        return None;
    }
    let part = Part {
        rows: 0..n as i64,
        columns: 0..len,
    };
    // SAFETY: what is read and written lies where the operands do, and the indices are below `n`.
    unsafe {
        LaidOut::new(rest, x, move |at| {
            let list = indices(op, at[0], count, n)?;
            rows_at(at[2].cast(), at[1].cast_const().cast(), list, len, &part);
            Ok(())
        })
    }
}

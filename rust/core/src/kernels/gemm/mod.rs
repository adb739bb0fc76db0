//! Matrix products: `matmul` over any strides, batches and dtypes.
//!
//! Floating-point products go to `private-gemm-x86` (the kernels of faer: AVX2 and AVX-512) where
//! the processor has them, and to `matrixmultiply` elsewhere (`crates`, `backends`); a product with a vector is
//! bound by memory and has loops of its own (`matvec`), and an operand that repeats itself leaves only
//! sums to be made (`broadcast_operand`). Half types are widened to `f32`, integers and
//! bool go through plain loops (`fallback`). Work is split over rows, columns and batches of the result,
//! never over the summed axis: each element is one chain of additions whose order depends on the shape
//! only, so any number of threads gives the same bits.
//!
//! `docs/design/matrix-product.md` has the measurements behind these choices.
// Operands at odd addresses are copied before anything else (`aligned`).
#![allow(clippy::cast_ptr_alignment)]

mod backends;
mod broadcast_operand;
mod crates;
mod fallback;
mod many_vectors;
mod matrix;
mod matvec;
#[cfg(target_arch = "x86_64")]
mod packing_memory;

use num_complex::Complex;

use self::matvec::SMALL_PRODUCT;
pub use self::matvec::lanes_of_dots;

use self::matrix::{Dims, Mat, WIDE, chain, offsets};
use super::arithmetic::{BLOCK, Number};
use super::shared_pointer::Shared;
use super::strided::{copy, zeros};
use super::{Ctx, Value};
use crate::aval::{Aval, DType, Shape, Strides, broadcast, broadcast_strides, tuple};
use crate::error::{Error, Result};

/// Makes a small product, so that the crate behind it knows the processor's caches now, and does not begin to ask
/// for them when the first product comes.
pub fn know_caches() {
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let matrix = Value::from_slice(&[16, 16], &[1.0f64; 256]);
    if let Ok(a) = matrix {
        // A product that fails leaves them to be asked for, as before.
        let _ = matmul(&a, &a, &Ctx::new(&cancel, 1));
    }
}

/// Locks what threads do at their first products until the guard is dropped, so that a `fork` cannot copy it half done.
pub fn lock_products() -> impl Sized {
    #[cfg(target_arch = "x86_64")]
    return packing_memory::lock();
}

/// Takes the room that this thread needs for products, where it does not have it: decompositions multiply with the
/// same crate.
#[cfg(feature = "linalg")]
pub(super) fn ready() -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if crates::native() {
        return packing_memory::take();
    }
    Ok(())
}

/// How many of `k` terms are added before the others in a product of a matrix with `m` rows and `k` columns with a vector,
/// where the columns have no gaps between their elements; `None` where all are added one after the other.
pub fn terms_together(m: usize, k: usize, dtype: DType) -> Option<usize> {
    matches!(dtype, DType::F32 | DType::F64)
        .then(|| matvec::terms_together(m, k, dtype.size()))
        .flatten()
}

/// The sums over the first axis of an array that holds what such parts of the terms of a product give, in the order of the
/// product.
///
/// # Errors
/// When there is no memory, or for a dtype of which no terms are added apart.
pub fn sum_of_parts(parts: &Value) -> Result<Value> {
    let shape = parts.shape().get(1..).unwrap_or_default();
    let m = shape.iter().product();
    if let Some(parts) = parts.as_slice::<f64>() {
        return Value::from_slice(shape, &matvec::sums_of(parts, m));
    }
    match parts.as_slice::<f32>() {
        Some(parts) => Value::from_slice(shape, &matvec::sums_of(parts, m)),
        None => Err(Error::Program("terms of another dtype".into())),
    }
}

/// `a` (`[..., m, k]`) times `b` (`[..., k, n]`): matrices in the last two axes, the others
/// broadcast against each other. Both have the same dtype and at least two axes. For bool the
/// product is *and*, the sum *or*; integers wrap; half types are accumulated in `f32`.
pub fn matmul(a: &Value, b: &Value, ctx: &Ctx) -> Result<Value> {
    if a.dtype() != b.dtype() {
        return Err(Error::DType(format!(
            "matmul: operands of dtype {} and {}; cast one of them",
            a.dtype(),
            b.dtype()
        )));
    }
    let fits = |a: &[usize], b: &[usize]| match (a, b) {
        ([m, k], [l, n]) if k == l => Some((
            Dims {
                m: *m,
                k: *k,
                n: *n,
            },
            Shape::from_slice(&[*m, *n]),
        )),
        ([head_a @ .., m, k], [head_b @ .., l, n]) if k == l => {
            let mut shape = broadcast(head_a, head_b)?;
            shape.extend_from_slice(&[*m, *n]);
            Some((
                Dims {
                    m: *m,
                    k: *k,
                    n: *n,
                },
                shape,
            ))
        }
        _ => None,
    };
    let Some((dims, shape)) = fits(a.shape(), b.shape()) else {
        return Err(Error::Shape(format!(
            "matmul: shapes {} and {} do not fit: they must be (..., m, k) and (..., k, n), with \
             leading axes that broadcast",
            tuple(a.shape()),
            tuple(b.shape())
        )));
    };
    crate::aval::checked_size("matmul", &shape)?;
    let aval = Aval {
        dtype: a.dtype(),
        shape,
    };
    if dims.k == 0 {
        return zeros(aval, ctx);
    }
    if aval.size() == 0 {
        return Value::empty(aval);
    }
    let small = dims.work() <= SMALL_PRODUCT;
    if !small && let Some(out) = broadcast_operand::repeated(a, b, &aval, matmul, ctx)? {
        return Ok(out);
    }
    let (near_a, near_b) = (in_reach(a, small, ctx)?, in_reach(b, small, ctx)?);
    let (a, b) = (near_a.as_ref().unwrap_or(a), near_b.as_ref().unwrap_or(b));
    // SAFETY (all blocks): the type is that of the dtype of both operands.
    let of_vectors = match a.dtype() {
        DType::F32 => unsafe { many_vectors::shared_matrix::<f32>(a, b, dims, &aval, ctx)? },
        DType::F64 => unsafe { many_vectors::shared_matrix::<f64>(a, b, dims, &aval, ctx)? },
        _ => None,
    };
    if let Some(out) = of_vectors {
        return Ok(out);
    }
    match a.dtype() {
        DType::Bool => unsafe { batches::<bool>(a, b, dims, aval, ctx) },
        DType::I8 => unsafe { batches::<i8>(a, b, dims, aval, ctx) },
        DType::U8 => unsafe { batches::<u8>(a, b, dims, aval, ctx) },
        DType::I16 => unsafe { batches::<i16>(a, b, dims, aval, ctx) },
        DType::U16 => unsafe { batches::<u16>(a, b, dims, aval, ctx) },
        DType::I32 => unsafe { batches::<i32>(a, b, dims, aval, ctx) },
        DType::U32 => unsafe { batches::<u32>(a, b, dims, aval, ctx) },
        DType::I64 => unsafe { batches::<i64>(a, b, dims, aval, ctx) },
        DType::U64 => unsafe { batches::<u64>(a, b, dims, aval, ctx) },
        DType::F16 => unsafe { through_f32::<half::f16>(a, b, ctx) },
        DType::Bf16 => unsafe { through_f32::<half::bf16>(a, b, ctx) },
        DType::F32 => unsafe { batches::<f32>(a, b, dims, aval, ctx) },
        DType::F64 => unsafe { batches::<f64>(a, b, dims, aval, ctx) },
        DType::C64 => unsafe { batches::<Complex<f32>>(a, b, dims, aval, ctx) },
        DType::C128 => unsafe { batches::<Complex<f64>>(a, b, dims, aval, ctx) },
    }
}

/// Whether a product of two matrices is so small that its sums have one order, however the matrices lie.
pub fn is_small_product(a: &Aval, out: &Aval) -> bool {
    let is_product = a.shape.len() == 2 && out.shape.len() == 2;
    is_product
        && matches!(out.dtype, DType::F64 | DType::F32)
        && (1..=SMALL_PRODUCT).contains(&(out.size() * a.shape[1]))
}

/// A copy of what the kernels do not take as it lies: what has odd addresses, as foreign memory may; and, of a small
/// product, what lies backwards, which the crates may sum in another order.
fn in_reach(v: &Value, small: bool, ctx: &Ctx) -> Result<Option<Value>> {
    let align = v.dtype().size().min(8);
    let backwards = small && v.strides().iter().any(|&stride| stride < 0);
    if (v.as_ptr() as usize).is_multiple_of(align) && !backwards {
        Ok(None)
    } else {
        copy(v, ctx).map(Some)
    }
}

/// How one pair of matrices is multiplied; `c` is row-major with no gaps.
trait Product: Number {
    /// # Safety
    /// The matrices must lie in readable memory, `c` in memory that only this call uses.
    unsafe fn product(
        d: Dims,
        a: Mat<Self>,
        b: Mat<Self>,
        c: Shared<Self>,
        wide: bool,
        ctx: &Ctx,
    ) -> Result<()>;
}

macro_rules! products {
    ($how:path: $($t:ty),*) => {$(
        impl Product for $t {
            unsafe fn product(
                d: Dims,
                a: Mat<$t>,
                b: Mat<$t>,
                c: Shared<$t>,
                wide: bool,
                ctx: &Ctx,
            ) -> Result<()> {
                // SAFETY: the caller's promise.
                unsafe { $how(d, a, b, c, wide, ctx) }
            }
        }
    )*};
}
products!(fallback::product: bool, i8, u8, i16, u16, i32, u32, i64, u64);
products!(backends::real: f32, f64);
products!(backends::complex: Complex<f32>, Complex<f64>);

/// Runs over the batch.
unsafe fn batches<T: Product>(
    a: &Value,
    b: &Value,
    mut d: Dims,
    aval: Aval,
    ctx: &Ctx,
) -> Result<Value> {
    let out = Value::empty(aval)?;
    let mat = |v: &Value| {
        let (r, s) = (v.shape().len(), v.strides());
        Mat {
            at: Shared::new(v.as_ptr().cast_mut().cast::<T>()),
            rs: s[r - 2],
            cs: s[r - 1],
        }
    };
    let (mut ma, mb, c) = (mat(a), mat(b), Shared::new(out.as_mut_ptr().cast::<T>()));
    let head = &out.shape()[..out.shape().len() - 2];
    let count: usize = head.iter().product();
    if count == 1 {
        // SAFETY: the values vouch for the matrices, the result is fresh.
        unsafe { T::product(d, ma, mb, c, d.work() >= WIDE, ctx)? };
        return Ok(out);
    }
    let (ra, rb) = (a.shape().len() - 2, b.shape().len() - 2);
    let sa = broadcast_strides(&a.shape()[..ra], &a.strides()[..ra], head);
    let sb = broadcast_strides(&b.shape()[..rb], &b.strides()[..rb], head);
    // One right operand for all: the left ones are the rows of one long matrix if they lie so.
    if (0..head.len()).all(|i| sb[i] == 0 || head[i] == 1) {
        let axes = head
            .iter()
            .zip(&sa)
            .map(|(&n, &s)| (n, s))
            .chain([(d.m, ma.rs)]);
        if let Some(rs) = chain(axes) {
            ma.rs = rs;
            d.m *= count;
            // SAFETY: as above.
            unsafe { T::product(d, ma, mb, c, d.work() >= WIDE, ctx)? };
            return Ok(out);
        }
    }
    let one = |i: usize, wide: bool| {
        let [oa, ob] = offsets(i, head, [&sa, &sb]);
        let a = Mat {
            at: Shared::new(ma.at.at(oa)),
            ..ma
        };
        let b = Mat {
            at: Shared::new(mb.at.at(ob)),
            ..mb
        };
        let c = Shared::new(c.at((i * d.m * d.n) as isize));
        // SAFETY: as above; each index has a result of its own.
        unsafe { T::product(d, a, b, c, wide, ctx) }
    };
    // Many products: each on one thread. Few large ones: each on all threads.
    if d.work() >= WIDE && count < 4 * ctx.threads() {
        for i in 0..count {
            one(i, true)?;
        }
        return Ok(out);
    }
    let group = WIDE.div_ceil(d.work());
    ctx.for_each(count.div_ceil(group), |task| {
        for i in task * group..count.min((task + 1) * group) {
            // The only error is a cancellation, which `for_each` is about to find itself.
            if one(i, false).is_err() {
                return;
            }
        }
    })?;
    ctx.check()?;
    Ok(out)
}

/// Widens both operands, multiplies, narrows the result.
unsafe fn through_f32<T: Number<Wide = f32>>(a: &Value, b: &Value, ctx: &Ctx) -> Result<Value> {
    let (a, b) = unsafe {
        // SAFETY: the caller's promise.
        (widened::<T>(a, ctx)?, widened::<T>(b, ctx)?)
    };
    let wide = matmul(&a, &b, ctx)?;
    let out = Value::empty(wide.aval().with_dtype(T::DTYPE))?;
    let n = out.aval().size();
    let (from, to) = (
        wide.as_ptr().cast::<f32>(),
        Shared::new(out.as_mut_ptr().cast::<T>()),
    );
    let from = Shared::new(from.cast_mut());
    let piece = 64 * BLOCK;
    ctx.for_each(n.div_ceil(piece), |i| {
        for start in (i * piece..n.min((i + 1) * piece)).step_by(BLOCK) {
            let len = BLOCK.min(n - start);
            // SAFETY: both arrays are fresh, aligned and hold `n` elements; pieces are disjoint.
            unsafe {
                let line = std::slice::from_raw_parts(from.at(start as isize), len);
                let to = std::slice::from_raw_parts_mut(to.at(start as isize), len);
                T::narrow_line(line, to);
            }
        }
    })?;
    Ok(out)
}

/// The elements of `v` once each, as `f32`, in the layout of a row-major array (axes of stride zero
/// stay so).
unsafe fn widened<T: Number<Wide = f32>>(v: &Value, ctx: &Ctx) -> Result<Value> {
    // What is repeated is converted once.
    let still = |s: isize, n: usize| s == 0 && n > 1;
    let shape: Shape = v
        .shape()
        .iter()
        .zip(v.strides())
        .map(|(&n, &s)| if still(s, n) { 1 } else { n })
        .collect();
    // SAFETY: the shape is a part of that of `v`.
    let part = unsafe { v.view(shape, Strides::from_slice(v.strides()), 0) };
    let dense = if part.is_contiguous() {
        part
    } else {
        copy(&part, ctx)?
    };
    let out = Value::empty(dense.aval().with_dtype(DType::F32))?;
    let n = dense.aval().size();
    let from = Shared::new(dense.as_ptr().cast_mut().cast::<T>());
    let to = Shared::new(out.as_mut_ptr().cast::<f32>());
    let piece = 64 * BLOCK;
    ctx.for_each(n.div_ceil(piece), |i| {
        for start in (i * piece..n.min((i + 1) * piece)).step_by(BLOCK) {
            let len = BLOCK.min(n - start);
            // SAFETY: both arrays hold `n` elements, the fresh one is aligned; pieces are disjoint.
            unsafe {
                let to = std::slice::from_raw_parts_mut(to.at(start as isize), len);
                T::widen_line(from.at(start as isize), 1, to);
            }
        }
    })?;
    let strides = out
        .strides()
        .iter()
        .zip(v.shape().iter().zip(v.strides()))
        .map(|(&new, (&n, &s))| if still(s, n) { 0 } else { new })
        .collect();
    // SAFETY: axes that were cut to one element get a stride of zero, the others are the array's.
    Ok(unsafe { out.view(Shape::from_slice(v.shape()), strides, 0) })
}

#[cfg(test)]
mod tests;

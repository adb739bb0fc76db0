//! Sums and maxima over windows that move along the last axes.
//!
//! A task has some planes (the last axes of one index of the others). A row of places is computed tap by
//! tap, so that the inner loop runs along the row.
#![allow(clippy::cast_ptr_alignment)]

use num_complex::Complex;

use super::level::{Level, leveled};
use super::strided::{Shared, contiguous, zeros};
use super::{Ctx, Value};
use crate::aval::{Aval, DType, WindowDim};
use crate::error::{Error, Result};

/// Taps of a task that make spreading worth while.
const PIECE: usize = 1 << 16;
/// The tap of a window that has no element.
const NONE: u32 = u32::MAX;

/// What a sum needs.
trait Term: Copy + std::ops::Add<Output = Self> {
    const ZERO: Self;
}
/// What a maximum needs besides.
trait Ranked: Term + PartialOrd {
    const LEAST: Self;
}
macro_rules! terms {
    ($($t:ident),*) => {$(
        impl Term for $t {
            const ZERO: $t = 0.0;
        }
        impl Ranked for $t {
            const LEAST: $t = $t::NEG_INFINITY;
        }
        impl Term for Complex<$t> {
            const ZERO: Complex<$t> = Complex { re: 0.0, im: 0.0 };
        }
    )*};
}
terms!(f32, f64);

/// Windows over planes of three axes, the first of which may have length one.
#[derive(Debug, Clone, Copy)]
struct Planes {
    number: usize,
    lengths: [usize; 3],
    windows: [WindowDim; 3],
}

impl Planes {
    fn new(x: &Value, windows: &[WindowDim]) -> Planes {
        let lead = x.shape().len() - windows.len();
        let still = WindowDim {
            size: 1,
            len: 1,
            pad: 0,
            stride: 1,
            dilation: 1,
            expansion: 1,
        };
        let mut planes = Planes {
            number: x.shape()[..lead].iter().product(),
            lengths: [1; 3],
            windows: [still; 3],
        };
        let shift = 3 - windows.len();
        for (i, d) in windows.iter().enumerate() {
            planes.lengths[shift + i] = x.shape()[lead + i];
            planes.windows[shift + i] = *d;
        }
        planes
    }

    /// Elements of a plane.
    fn elements(&self) -> usize {
        self.lengths.iter().product()
    }

    /// Places of a plane.
    fn places(&self) -> usize {
        self.windows.iter().map(|d| d.size).product()
    }

    /// Planes of a task.
    fn piece(&self) -> usize {
        let taps: usize = self.windows.iter().map(|d| d.len).product();
        (PIECE / (taps * self.places()).max(1)).clamp(1, self.number.max(1))
    }

    /// Calls `f` with each row of places: its first two places, and its number.
    #[inline(always)]
    fn rows(&self, mut f: impl FnMut([usize; 2], usize)) {
        let [a, b, _] = &self.windows;
        for p0 in 0..a.size {
            for p1 in 0..b.size {
                f([p0, p1], p0 * b.size + p1);
            }
        }
    }

    /// Calls `f` with each pair of the first two taps at places `p` that has elements: the number of
    /// its first tap, and where its row of elements begins.
    #[inline(always)]
    fn taps(&self, p: [usize; 2], mut f: impl FnMut(usize, usize)) {
        let [a, b, c] = &self.windows;
        for k0 in 0..a.len {
            let Some(i0) = find(a, self.lengths[0], p[0], k0) else {
                continue;
            };
            for k1 in 0..b.len {
                let Some(i1) = find(b, self.lengths[1], p[1], k1) else {
                    continue;
                };
                f(
                    (k0 * b.len + k1) * c.len,
                    (i0 * self.lengths[1] + i1) * self.lengths[2],
                );
            }
        }
    }
}

/// The element that a tap at a place sees.
#[inline(always)]
fn find(d: &WindowDim, length: usize, place: usize, tap: usize) -> Option<usize> {
    let at = (place * d.stride + tap * d.dilation) as isize - d.pad;
    let at = usize::try_from(at).ok()?;
    if d.expansion == 1 {
        return (at < length).then_some(at);
    }
    (at.is_multiple_of(d.expansion) && at / d.expansion < length).then_some(at / d.expansion)
}

/// The places that see an element through a tap, when nothing lies between elements, and what the first
/// of them sees.
#[inline(always)]
fn seen(d: &WindowDim, length: usize, tap: usize) -> (usize, usize, usize) {
    let start = (tap * d.dilation) as isize - d.pad;
    let first = if start >= 0 {
        0
    } else {
        start.unsigned_abs().div_ceil(d.stride)
    };
    let left = (length as isize - start).max(0) as usize;
    let last = left.div_ceil(d.stride).min(d.size);
    if first >= last {
        return (0, 0, 0);
    }
    (first, last, (start + (first * d.stride) as isize) as usize)
}

leveled! {
    /// The greatest element of each place of a row, and which tap sees it: the first of several. NaN is
    /// greater than numbers.
    fn greatest[T: Ranked](
        planes: &Planes,
        x: *const T,
        p: [usize; 2],
        best: *mut T,
        which: *mut u32,
    ) {
        let c = &planes.windows[2];
        // SAFETY: the caller's promise: `x` is a plane, `best` and `which` have room for a row.
        unsafe {
            for j in 0..c.size {
                best.add(j).write(T::LEAST);
                which.add(j).write(NONE);
            }
            planes.taps(p, |tap, row| {
                for k in 0..c.len {
                    let (first, last, at) = seen(c, planes.lengths[2], k);
                    let (from, stride) = (x.add(row + at), c.stride);
                    let number = (tap + k) as u32;
                    for j in first..last {
                        let v = *from.add((j - first) * stride);
                        let (old, tap) = (*best.add(j), *which.add(j));
                        #[allow(clippy::eq_op)] // NaN alone differs from itself.
                        let take = (v > old) | (tap == NONE) | ((v != v) & (old == old));
                        best.add(j).write(if take { v } else { old });
                        which.add(j).write(if take { number } else { tap });
                    }
                }
            });
        }
    }
}

leveled! {
    /// The sums of a row of places.
    fn sums[T: Term](planes: &Planes, x: *const T, p: [usize; 2], out: *mut T) {
        let c = &planes.windows[2];
        // SAFETY: the caller's promise: `x` is a plane, `out` has room for a row.
        unsafe {
            for j in 0..c.size {
                out.add(j).write(T::ZERO);
            }
            planes.taps(p, |_, row| {
                for k in 0..c.len {
                    if c.expansion == 1 {
                        let (first, last, at) = seen(c, planes.lengths[2], k);
                        let from = x.add(row + at);
                        for j in first..last {
                            let to = out.add(j);
                            to.write(*to + *from.add((j - first) * c.stride));
                        }
                    } else {
                        for j in 0..c.size {
                            if let Some(i) = find(c, planes.lengths[2], j, k) {
                                let to = out.add(j);
                                to.write(*to + *x.add(row + i));
                            }
                        }
                    }
                }
            });
        }
    }
}

/// The element of its plane that a place sees through a tap; there is one.
#[inline(always)]
fn element(planes: &Planes, p: [usize; 2], place: usize, tap: u32) -> usize {
    let [a, b, c] = &planes.windows;
    let tap = tap as usize;
    let at = |d: &WindowDim, place: usize, tap: usize| {
        ((place * d.stride + tap * d.dilation) as isize - d.pad) as usize
    };
    let i0 = at(a, p[0], tap / c.len / b.len);
    let i1 = at(b, p[1], tap / c.len % b.len);
    (i0 * planes.lengths[1] + i1) * planes.lengths[2] + at(c, place, tap % c.len)
}

/// Calls `f` for every plane, some in each task.
fn planes_of(planes: &Planes, ctx: &Ctx, f: impl Fn(usize) + Sync + Send) -> Result<()> {
    let piece = planes.piece();
    ctx.for_each(planes.number.div_ceil(piece), |task| {
        for plane in task * piece..planes.number.min((task + 1) * piece) {
            f(plane);
        }
    })
}

fn refused(name: &str, dtype: DType) -> Error {
    Error::DType(format!("{name}: not for {}", dtype.numpy_name()))
}

macro_rules! floats {
    ($name:literal, $dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            // SAFETY (both): the elements are of this type.
            DType::F32 => unsafe { $f::<f32>($($arg),*) },
            DType::F64 => unsafe { $f::<f64>($($arg),*) },
            other => Err(refused($name, other)),
        }
    };
}

/// The greatest element of each window.
pub fn window_max(x: &Value, windows: &[WindowDim], out: &Aval, ctx: &Ctx) -> Result<Value> {
    pick_from("window_max", x, None, windows, out, ctx)
}

/// The element of `t` where each window of `x` has its greatest one.
pub fn window_pick(
    x: &Value,
    t: &Value,
    windows: &[WindowDim],
    out: &Aval,
    ctx: &Ctx,
) -> Result<Value> {
    pick_from("window_pick", x, Some(t), windows, out, ctx)
}

fn pick_from(
    name: &str,
    x: &Value,
    t: Option<&Value>,
    windows: &[WindowDim],
    out: &Aval,
    ctx: &Ctx,
) -> Result<Value> {
    let result = Value::empty(out.clone())?;
    if out.size() == 0 {
        return Ok(result);
    }
    if x.aval().size() == 0 {
        return Err(Error::Shape(format!("{name}: windows without elements")));
    }
    let planes = Planes::new(x, windows);
    let x = contiguous(x, ctx)?;
    let t = t.map(|t| contiguous(t, ctx)).transpose()?;
    floats!(
        "window_max",
        x.dtype(),
        picked(&planes, &x, t.as_ref(), &result, ctx)
    )?;
    Ok(result)
}

unsafe fn picked<T: Ranked + Send + Sync>(
    planes: &Planes,
    x: &Value,
    t: Option<&Value>,
    out: &Value,
    ctx: &Ctx,
) -> Result<()> {
    let row = planes.windows[2].size;
    let from = Shared::new(x.as_ptr().cast_mut().cast::<T>());
    let to = Shared::new(out.as_mut_ptr().cast::<T>());
    let t = t.map(|t| Shared::new(t.as_ptr().cast_mut().cast::<T>()));
    let f = greatest::<T>(Level::best());
    planes_of(planes, ctx, |plane| {
        let shift = (plane * planes.elements()) as isize;
        let x = from.at(shift);
        let out = to.at((plane * planes.places()) as isize);
        let mut which = vec![NONE; row];
        planes.rows(|p, number| {
            // SAFETY: rows of this plane alone, of the result's length; a tap that was found sees an
            // element.
            unsafe {
                let out = out.add(number * row);
                f(planes, x, p, out, which.as_mut_ptr());
                if let Some(t) = t {
                    let t = t.at(shift);
                    for (j, &tap) in which.iter().enumerate() {
                        let picked = if tap == NONE {
                            T::ZERO
                        } else {
                            *t.add(element(planes, p, j, tap))
                        };
                        out.add(j).write(picked);
                    }
                }
            }
        });
    })
}

/// Zeros of the shape of `x`, with each element of `ct` added where its window of `x` has its greatest
/// element: the transpose of [`window_pick`].
pub fn window_unpick(x: &Value, ct: &Value, windows: &[WindowDim], ctx: &Ctx) -> Result<Value> {
    let result = zeros(x.aval().clone(), ctx)?;
    if x.aval().size() == 0 || ct.aval().size() == 0 {
        return Ok(result);
    }
    let planes = Planes::new(x, windows);
    let (x, ct) = (contiguous(x, ctx)?, contiguous(ct, ctx)?);
    floats!(
        "window_unpick",
        x.dtype(),
        unpicked(&planes, &x, &ct, &result, ctx)
    )?;
    Ok(result)
}

unsafe fn unpicked<T: Ranked + Send + Sync>(
    planes: &Planes,
    x: &Value,
    ct: &Value,
    out: &Value,
    ctx: &Ctx,
) -> Result<()> {
    let row = planes.windows[2].size;
    let from = Shared::new(x.as_ptr().cast_mut().cast::<T>());
    let given = Shared::new(ct.as_ptr().cast_mut().cast::<T>());
    let to = Shared::new(out.as_mut_ptr().cast::<T>());
    let f = greatest::<T>(Level::best());
    planes_of(planes, ctx, |plane| {
        let shift = (plane * planes.elements()) as isize;
        let (x, out) = (from.at(shift), to.at(shift));
        let ct = given.at((plane * planes.places()) as isize);
        let (mut best, mut which) = (vec![T::ZERO; row], vec![NONE; row]);
        planes.rows(|p, number| {
            // SAFETY: rows and elements of this plane alone; a tap that was found sees an element.
            unsafe {
                f(planes, x, p, best.as_mut_ptr(), which.as_mut_ptr());
                for (j, &tap) in which.iter().enumerate() {
                    if tap != NONE {
                        let to = out.add(element(planes, p, j, tap));
                        to.write(*to + *ct.add(number * row + j));
                    }
                }
            }
        });
    })
}

/// The sum of each window.
pub fn window_sum(x: &Value, windows: &[WindowDim], out: &Aval, ctx: &Ctx) -> Result<Value> {
    if x.aval().size() == 0 {
        return zeros(out.clone(), ctx);
    }
    let result = Value::empty(out.clone())?;
    if out.size() == 0 {
        return Ok(result);
    }
    let planes = Planes::new(x, windows);
    let x = contiguous(x, ctx)?;
    // SAFETY (all): the elements are of this type.
    match x.dtype() {
        DType::F32 => unsafe { summed::<f32>(&planes, &x, &result, ctx) },
        DType::F64 => unsafe { summed::<f64>(&planes, &x, &result, ctx) },
        DType::C64 => unsafe { summed::<Complex<f32>>(&planes, &x, &result, ctx) },
        DType::C128 => unsafe { summed::<Complex<f64>>(&planes, &x, &result, ctx) },
        other => Err(refused("window_sum", other)),
    }?;
    Ok(result)
}

unsafe fn summed<T: Term + Send + Sync>(
    planes: &Planes,
    x: &Value,
    out: &Value,
    ctx: &Ctx,
) -> Result<()> {
    let row = planes.windows[2].size;
    let from = Shared::new(x.as_ptr().cast_mut().cast::<T>());
    let to = Shared::new(out.as_mut_ptr().cast::<T>());
    let f = sums::<T>(Level::best());
    planes_of(planes, ctx, |plane| {
        let x = from.at((plane * planes.elements()) as isize);
        let out = to.at((plane * planes.places()) as isize);
        planes.rows(|p, number| {
            // SAFETY: rows of this plane alone, of the result's length.
            unsafe { f(planes, x, p, out.add(number * row)) }
        });
    })
}

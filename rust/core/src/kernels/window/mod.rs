//! Sums and maxima over windows that move along the last axes.
//!
//! A task has some planes (the last axes of one index of the others). Sums are computed tap by tap along
//! a row of places. A maximum is computed place by place: where the whole window has elements, as nearly
//! everywhere, a tap is an offset out of a table.
#![allow(clippy::cast_ptr_alignment)]

mod planes;

use num_complex::Complex;
use planes::{Planes, find, seen};

use super::shared_pointer::Shared;
use super::strided::{contiguous, zeros};
use super::{Ctx, Value};
use crate::aval::{Aval, DType, WindowDim};
use crate::error::{Error, Result};
use crate::kernels::simd_level::{Level, leveled};

/// Windows whose greatest elements are looked for at a time.
const LANES: usize = 8;
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

/// Whether an element comes before the greatest one so far. NaN is greater than numbers.
#[inline(always)]
fn is_greater<T: Ranked>(v: T, best: T) -> bool {
    #[allow(clippy::eq_op)] // NaN alone differs from itself.
    let (is_nan, was_number) = (v != v, best == best);
    #[allow(clippy::needless_bitwise_bool)] // No branch: which element it is cannot be predicted.
    let take = (v > best) | (is_nan & was_number);
    take
}

/// The greatest elements of `W` windows without padding, the first of which begins at `from`, and their
/// taps. In lanes, since which element is the greatest is what no branch can predict.
#[inline(always)]
unsafe fn of_whole<T: Ranked, const W: usize>(
    shifts: &[isize],
    from: *const T,
    stride: usize,
) -> ([T; W], [u32; W]) {
    // SAFETY: the caller's promise: all taps are elements, and there is one.
    let load = |shift: isize| -> [T; W] {
        std::array::from_fn(|l| unsafe { *from.offset(shift + (l * stride) as isize) })
    };
    let (mut best, mut tap) = (load(shifts[0]), [0; W]);
    for (k, &shift) in shifts.iter().enumerate().skip(1) {
        let v = load(shift);
        for l in 0..W {
            let take = is_greater(v[l], best[l]);
            best[l] = if take { v[l] } else { best[l] };
            tap[l] = if take { k as u32 } else { tap[l] };
        }
    }
    (best, tap)
}

/// The same where the last axis is cut into pairs: what the windows see of a row lies side by side.
#[inline(always)]
unsafe fn of_pairs<T: Ranked, const W: usize>(
    shifts: &[isize],
    from: *const T,
) -> ([T; W], [u32; W]) {
    let (mut best, mut tap) = ([T::ZERO; W], [0; W]);
    for (k, shift) in shifts.iter().step_by(2).enumerate() {
        // SAFETY: the caller's promise: all taps are elements.
        let row: [[T; 2]; W] =
            unsafe { from.offset(*shift).cast::<[[T; 2]; W]>().read_unaligned() };
        for side in [0, 1] {
            for l in 0..W {
                let v = row[l][side];
                let take = ((k, side) == (0, 0)) | is_greater(v, best[l]);
                best[l] = if take { v } else { best[l] };
                tap[l] = if take { (2 * k + side) as u32 } else { tap[l] };
            }
        }
    }
    (best, tap)
}

/// The same of a window that may have padding.
#[inline(always)]
unsafe fn of_part<T: Ranked>(planes: &Planes, x: *const T, p: [usize; 2], j: usize) -> (T, u32) {
    let (mut best, mut which) = (T::LEAST, NONE);
    let c = &planes.windows[2];
    planes.taps(p, |tap, row| {
        for k in 0..c.len {
            if let Some(i) = find(c, planes.lengths[2], j, k) {
                // SAFETY: an element of the plane.
                let v = unsafe { *x.add(row + i) };
                if which == NONE || is_greater(v, best) {
                    (best, which) = (v, (tap + k) as u32);
                }
            }
        }
    });
    (best, which)
}

/// The greatest elements of `LANES` windows and their taps, written where they belong.
#[inline(always)]
unsafe fn write_whole<T: Ranked>(
    shifts: &[isize],
    from: *const T,
    (stride, is_pairs): (usize, bool),
    best: *mut T,
    which: *mut u32,
) {
    // SAFETY: the caller's promise: all taps are elements, and there is room for `LANES` results.
    unsafe {
        let (v, tap) = if is_pairs {
            of_pairs::<T, LANES>(shifts, from)
        } else {
            of_whole::<T, LANES>(shifts, from, stride)
        };
        best.cast::<[T; LANES]>().write_unaligned(v);
        which.cast::<[u32; LANES]>().write_unaligned(tap);
    }
}

leveled! {
    /// The greatest element of each window of a plane, and which tap sees it: the first of several.
    fn greatest[T: Ranked](planes: &Planes, x: *const T, best: *mut T, which: *mut u32) {
        let size = planes.windows[2].size;
        let stride = planes.windows[2].stride;
        let steps = (stride, planes.is_pairs());
        let shifts = planes.shifts.as_slice();
        for (p, number) in planes.rows() {
            let (first, last) = planes.whole(p);
            // SAFETY: the caller's promise: `x` is a plane, `best` and `which` have room for all places.
            unsafe {
                let (best, which) = (best.add(number * size), which.add(number * size));
                for j in (0..first).chain(last..size) {
                    let (v, tap) = of_part(planes, x, p, j);
                    best.add(j).write(v);
                    which.add(j).write(tap);
                }
                let from = x.wrapping_offset(planes.start(p, 0));
                let mut j = first;
                while j + LANES <= last {
                    let from = from.wrapping_add(j * stride);
                    write_whole(shifts, from, steps, best.add(j), which.add(j));
                    j += LANES;
                }
                if j < last && last >= first + LANES {
                    // Some places once more.
                    let j = last - LANES;
                    let from = from.wrapping_add(j * stride);
                    write_whole(shifts, from, steps, best.add(j), which.add(j));
                } else {
                    for j in j..last {
                        let from = from.wrapping_add(j * stride);
                        let ([v], [tap]) = of_whole::<T, 1>(shifts, from, stride);
                        best.add(j).write(v);
                        which.add(j).write(tap);
                    }
                }
            }
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

leveled! {
    /// Elements of `ct` where the tap that `which` names sees the plane, for windows apart from each other, whose
    /// last axis is cut into pairs.
    fn spread[T: Term](planes: &Planes, which: &[u32], ct: &[T], out: *mut T) {
        let size = planes.windows[2].size;
        for (p, number) in planes.rows() {
            let places = number * size..(number + 1) * size;
            let (which, ct) = (&which[places.clone()], &ct[places]);
            for (k, shift) in planes.shifts.iter().step_by(2).enumerate() {
                let left = 2 * k as u32;
                // SAFETY: the caller's promise: a plane, of which all windows have elements only.
                let to = unsafe {
                    let to = out.offset(planes.start(p, 0) + shift);
                    std::slice::from_raw_parts_mut(to.cast::<[T; 2]>(), size)
                };
                for ((to, &tap), &ct) in to.iter_mut().zip(which).zip(ct) {
                    let ct = T::ZERO + ct;
                    *to = [
                        if tap == left { ct } else { T::ZERO },
                        if tap == left + 1 { ct } else { T::ZERO },
                    ];
                }
            }
        }
    }
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
        let out = to.at((plane * planes.places()) as isize);
        let mut which = vec![NONE; planes.places()];
        // SAFETY: the elements and places of this plane alone; a tap that was found sees an element.
        unsafe {
            f(planes, from.at(shift), out, which.as_mut_ptr());
            let Some(t) = t else { return };
            for (p, number) in planes.rows() {
                for j in 0..row {
                    let picked = match which[number * row + j] {
                        NONE => T::ZERO,
                        tap => {
                            let at = planes.start(p, j) + planes.shifts[tap as usize];
                            *t.at(shift + at)
                        }
                    };
                    out.add(number * row + j).write(picked);
                }
            }
        }
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
    let spread = spread::<T>(Level::best());
    let is_simple = planes.is_pairs() && planes.is_apart();
    planes_of(planes, ctx, |plane| {
        let shift = (plane * planes.elements()) as isize;
        let (x, out) = (from.at(shift), to.at(shift));
        let ct = given.at((plane * planes.places()) as isize);
        let mut best = vec![T::ZERO; planes.places()];
        let mut which = vec![NONE; planes.places()];
        // SAFETY: the elements of this plane alone; a tap that was found sees an element.
        unsafe {
            f(planes, x, best.as_mut_ptr(), which.as_mut_ptr());
            if is_simple {
                let ct = std::slice::from_raw_parts(ct, planes.places());
                return spread(planes, &which, ct, out);
            }
            for (p, number) in planes.rows() {
                for j in 0..row {
                    let tap = which[number * row + j];
                    if tap != NONE {
                        let to = out.offset(planes.start(p, j) + planes.shifts[tap as usize]);
                        to.write(*to + *ct.add(number * row + j));
                    }
                }
            }
        }
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
        for (p, number) in planes.rows() {
            // SAFETY: rows of this plane alone, of the result's length.
            unsafe { f(planes, x, p, out.add(number * row)) }
        }
    })
}

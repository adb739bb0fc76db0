//! Fourier transforms of the lines along an axis: any length, any strides, single and double precision.
//!
//! Plans are made once for each length and kept. Lines are handed out to threads in groups; what
//! happens to a line does not depend on the group, so results are the same bits on any number of threads.
// Elements of foreign memory are read unaligned.
#![allow(clippy::cast_ptr_alignment)]

use std::any::Any;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftNum, FftPlanner};

use super::shared_pointer::Shared;
use super::strided::{Loop, turn};
use super::{Ctx, Element, Storage, Value};
use crate::aval::{Aval, DType};
use crate::error::{Error, Result};

/// A task has about this many elements, some 25 µs of work: few enough that eight lines and their results stay in the
/// second-level cache, and that no thread has much more to do than another.
const TASK: usize = 1 << 13;
/// Lines side by side of which one task has all: their elements share cache lines.
const NEIGHBOURS: usize = 4;
/// So many lines with gaps between their elements are read at a time at most: what is read at one place is
/// whole cache lines then.
const BLOCK: usize = 32;
/// And no more of them than have so many bytes together, half of which is beside their results in the
/// second-level cache.
const ROOM: usize = 1 << 18;
/// Kept plans may have this many elements together; each holds a few factors for each of them.
const KEPT: usize = 1 << 23;

/// The plans of one precision.
struct Plans<T: FftNum> {
    complex: HashMap<(usize, bool), Arc<dyn Fft<T>>>,
    forward: HashMap<usize, Arc<dyn RealToComplex<T>>>,
    inverse: HashMap<usize, Arc<dyn ComplexToReal<T>>>,
    lengths: usize,
}

type Kept<T> = Mutex<Option<Plans<T>>>;
static SINGLE: Kept<f32> = Mutex::new(None);
static DOUBLE: Kept<f64> = Mutex::new(None);

/// Holds the plans still while a `fork` copies them.
pub fn lock_plans() -> Box<dyn Any> {
    fn lock<T: FftNum>(plans: &'static Kept<T>) -> MutexGuard<'static, Option<Plans<T>>> {
        plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
    Box::new((lock(&SINGLE), lock(&DOUBLE)))
}

/// Forgets all plans.
pub fn release_plans() {
    SINGLE.lock().unwrap_or_else(PoisonError::into_inner).take();
    DOUBLE.lock().unwrap_or_else(PoisonError::into_inner).take();
}

trait Real: FftNum + Element {
    fn kept() -> &'static Kept<Self>;
    fn of(x: f64) -> Self;

    /// Looks up or makes a plan.
    fn plan<P>(len: usize, find: impl FnOnce(&mut Plans<Self>) -> Result<(P, bool)>) -> Result<P> {
        let mut kept = Self::kept().lock().unwrap_or_else(PoisonError::into_inner);
        let full = kept.as_ref().is_some_and(|p| p.lengths + len > KEPT);
        if full {
            *kept = None;
        }
        let plans = kept.get_or_insert_with(|| Plans {
            complex: HashMap::new(),
            forward: HashMap::new(),
            inverse: HashMap::new(),
            lengths: 0,
        });
        let (plan, new) = find(plans)?;
        plans.lengths += if new { len } else { 0 };
        Ok(plan)
    }

    fn complex(len: usize, inverse: bool) -> Result<Arc<dyn Fft<Self>>> {
        Self::plan(len, |plans| {
            planned::<Self, _, _>(&mut plans.complex, (len, inverse), len, || {
                let mut planner = FftPlanner::new();
                if inverse {
                    planner.plan_fft_inverse(len)
                } else {
                    planner.plan_fft_forward(len)
                }
            })
        })
    }

    fn forward(len: usize) -> Result<Arc<dyn RealToComplex<Self>>> {
        Self::plan(len, |plans| {
            let make = || RealFftPlanner::new().plan_fft_forward(len);
            planned::<Self, _, _>(&mut plans.forward, len, len, make)
        })
    }

    fn inverse(len: usize) -> Result<Arc<dyn ComplexToReal<Self>>> {
        Self::plan(len, |plans| {
            let make = || RealFftPlanner::new().plan_fft_inverse(len);
            planned::<Self, _, _>(&mut plans.inverse, len, len, make)
        })
    }
}

/// A plan for transforms of this length that is there, or a new one; and whether it is new.
fn planned<T: Real, K: Eq + Hash, P: ?Sized>(
    plans: &mut HashMap<K, Arc<P>>,
    key: K,
    len: usize,
    make: impl FnOnce() -> Arc<P>,
) -> Result<(Arc<P>, bool)> {
    if let Some(plan) = plans.get(&key) {
        return Ok((Arc::clone(plan), false));
    }
    room_for_plan::<T>(len)?;
    let plan = make();
    plans.insert(key, Arc::clone(&plan));
    Ok((plan, true))
}

/// Sees that there is memory to plan in: a few factors for each element, of up to four times as many
/// where the length has large prime factors.
fn room_for_plan<T: Real>(len: usize) -> Result<()> {
    super::spare(len.saturating_mul(10 * size_of::<Complex<T>>()))
}

impl Real for f32 {
    fn kept() -> &'static Kept<f32> {
        &SINGLE
    }
    fn of(x: f64) -> f32 {
        x as f32
    }
}

impl Real for f64 {
    fn kept() -> &'static Kept<f64> {
        &DOUBLE
    }
    fn of(x: f64) -> f64 {
        x
    }
}

/// The transforms along axes, one after the other, times a factor. Real numbers are taken, too.
pub fn fourier(
    src: &mut Value,
    axes: &[usize],
    inverse: bool,
    scale: f64,
    ctx: &Ctx,
) -> Result<Value> {
    match src.dtype() {
        DType::F32 | DType::C64 => along_axes::<f32>(src, axes, inverse, scale, ctx),
        DType::F64 | DType::C128 => along_axes::<f64>(src, axes, inverse, scale, ctx),
        other => Err(unexpected(other)),
    }
}

/// The first half of the spectrum of real numbers. `folded`: twice that for what stands for two.
pub fn real_fourier(
    src: &Value,
    axis: usize,
    folded: bool,
    scale: f64,
    ctx: &Ctx,
) -> Result<Value> {
    match src.dtype() {
        DType::F32 => halved::<f32>(src, axis, folded, scale, ctx),
        DType::F64 => halved::<f64>(src, axis, folded, scale, ctx),
        other => Err(unexpected(other)),
    }
}

/// The real numbers of which this is the first half of the spectrum. `folded`: what stands for two
/// counts once.
pub fn fourier_real(
    src: &Value,
    axis: usize,
    length: usize,
    folded: bool,
    scale: f64,
    ctx: &Ctx,
) -> Result<Value> {
    match src.dtype() {
        DType::C64 => completed::<f32>(src, axis, length, folded, scale, ctx),
        DType::C128 => completed::<f64>(src, axis, length, folded, scale, ctx),
        other => Err(unexpected(other)),
    }
}

fn unexpected(dtype: DType) -> Error {
    Error::DType(format!("a Fourier transform of dtype {dtype}"))
}

fn along_axes<T: Real>(
    src: &mut Value,
    axes: &[usize],
    inverse: bool,
    scale: f64,
    ctx: &Ctx,
) -> Result<Value>
where
    Complex<T>: Element,
{
    // The axis whose elements lie side by side comes first: that pass copies, too.
    let mut axes = axes.to_vec();
    axes.sort_by_key(|&axis| src.strides()[axis].unsigned_abs());
    let last = axes.len() - 1;
    let mut out: Option<Value> = None;
    for (i, &axis) in axes.iter().enumerate() {
        let scale = if i == last { scale } else { 1.0 };
        out = Some(match &mut out {
            Some(value) => complex::<T>(value, axis, inverse, scale, ctx)?,
            None if src.dtype().is_complex() => complex::<T>(src, axis, inverse, scale, ctx)?,
            None => whole::<T>(src, axis, inverse, scale, ctx)?,
        });
    }
    out.ok_or_else(|| Error::Program("fft: no axes".into()))
}

/// Complex to complex, along one axis; in place when nobody else sees the memory.
fn complex<T: Real>(
    src: &mut Value,
    axis: usize,
    inverse: bool,
    scale: f64,
    ctx: &Ctx,
) -> Result<Value>
where
    Complex<T>: Element,
{
    let n = src.shape()[axis];
    let plan = T::complex(n, inverse)?;
    let scaled = |line: &mut [Complex<T>]| {
        if scale != 1.0 {
            let factor = T::of(scale);
            for z in line {
                *z = Complex::new(z.re * factor, z.im * factor);
            }
        }
    };
    let reuse = src.is_contiguous() && src.is_unique();
    let out = if reuse {
        src.clone()
    } else {
        Value::empty(src.aval().clone())?
    };
    let gapless = |v: &Value| v.strides()[axis] == 1 || n == 1;
    let room = plan
        .get_inplace_scratch_len()
        .max(plan.get_immutable_scratch_len());
    let lines = Lines::new(src, &out, axis);
    if gapless(&out) && gapless(src) && src.as_ptr().cast::<T>().is_aligned() {
        let from = Shared::new(src.as_ptr().cast_mut().cast::<Complex<T>>());
        let to = Shared::new(out.as_mut_ptr().cast::<Complex<T>>());
        return lines
            .each(
                n,
                1,
                ctx,
                room * size_of::<Complex<T>>(),
                |first, count, scratch| {
                    // SAFETY: the scratch has room for `room` numbers.
                    let scratch = unsafe { std::slice::from_raw_parts_mut(scratch.cast(), room) };
                    for line in first..first + count {
                        let (at, start) = lines.starts(line);
                        // SAFETY: a line of `n` numbers without gaps, in memory of ours that no other task
                        // touches; where it is read, too, this is the only reference to it.
                        let target = unsafe { std::slice::from_raw_parts_mut(to.at(start), n) };
                        if reuse {
                            plan.process_with_scratch(target, scratch);
                        } else {
                            // SAFETY: a line of `n` aligned numbers without gaps, that nobody writes to.
                            let source = unsafe { std::slice::from_raw_parts(from.at(at), n) };
                            plan.process_immutable_with_scratch(source, target, scratch);
                        }
                        scaled(target);
                    }
                },
            )
            .map(|()| out);
    }
    lines
        .gathered(n, n, ctx, room, |x: &mut [Complex<T>], y, scratch| {
            plan.process_immutable_with_scratch(x, y, scratch);
            scaled(y);
        })
        .map(|()| out)
}

/// Real to the whole spectrum.
fn whole<T: Real>(src: &Value, axis: usize, inverse: bool, scale: f64, ctx: &Ctx) -> Result<Value>
where
    Complex<T>: Element,
{
    let n = src.shape()[axis];
    let plan = T::forward(n)?;
    let out = Value::empty(src.aval().with_dtype(src.dtype().complex()))?;
    let factor = T::of(scale);
    let lines = Lines::new(src, &out, axis);
    let room = plan.get_scratch_len();
    lines.gathered(
        n,
        n,
        ctx,
        room,
        |x: &mut [T], y: &mut [Complex<T>], scratch| {
            if scale != 1.0 {
                for x in x.iter_mut() {
                    *x = *x * factor;
                }
            }
            let half = n / 2 + 1;
            // It fails for other lengths than these only.
            let _ = plan.process_with_scratch(x, &mut y[..half], scratch);
            if inverse {
                for z in &mut y[..half] {
                    *z = z.conj();
                }
            }
            let (known, rest) = y.split_at_mut(half);
            for (z, &w) in rest.iter_mut().zip(known[1..n.div_ceil(2)].iter().rev()) {
                *z = w.conj();
            }
        },
    )?;
    Ok(out)
}

/// Real to the first half of the spectrum.
fn halved<T: Real>(src: &Value, axis: usize, folded: bool, scale: f64, ctx: &Ctx) -> Result<Value>
where
    Complex<T>: Element,
{
    let n = src.shape()[axis];
    let half = n / 2 + 1;
    let plan = T::forward(n)?;
    let mut shape = src.aval().shape.clone();
    shape[axis] = half;
    let out = Value::empty(Aval {
        dtype: src.dtype().complex(),
        shape,
    })?;
    let factor = T::of(if folded { 2.0 * scale } else { scale });
    let single = T::of(0.5);
    let lines = Lines::new(src, &out, axis);
    let room = plan.get_scratch_len();
    lines.gathered(
        n,
        half,
        ctx,
        room,
        |x: &mut [T], y: &mut [Complex<T>], scratch| {
            if folded || scale != 1.0 {
                for x in x.iter_mut() {
                    *x = *x * factor;
                }
            }
            // It fails for other lengths than these only.
            let _ = plan.process_with_scratch(x, y, scratch);
            if folded {
                y[0] = y[0] * single;
                if n.is_multiple_of(2) {
                    y[half - 1] = y[half - 1] * single;
                }
            }
        },
    )?;
    Ok(out)
}

/// The first half of a spectrum to real numbers.
fn completed<T: Real>(
    src: &Value,
    axis: usize,
    n: usize,
    folded: bool,
    scale: f64,
    ctx: &Ctx,
) -> Result<Value>
where
    Complex<T>: Element,
{
    let half = n / 2 + 1;
    let plan = T::inverse(n)?;
    let mut shape = src.aval().shape.clone();
    shape[axis] = n;
    let out = Value::empty(Aval {
        dtype: src.dtype().real(),
        shape,
    })?;
    let factor = T::of(if folded { 0.5 * scale } else { scale });
    let double = T::of(2.0);
    let lines = Lines::new(src, &out, axis);
    let room = plan.get_scratch_len();
    lines.gathered(
        half,
        n,
        ctx,
        room,
        |x: &mut [Complex<T>], y: &mut [T], scratch| {
            if folded || scale != 1.0 {
                for z in x.iter_mut() {
                    *z = Complex::new(z.re * factor, z.im * factor);
                }
            }
            if folded {
                x[0] = x[0] * double;
                if n.is_multiple_of(2) && half > 1 {
                    x[half - 1] = x[half - 1] * double;
                }
            }
            // These belong to real numbers: what is imaginary in them does not count.
            x[0].im = T::zero();
            if n.is_multiple_of(2) {
                x[half - 1].im = T::zero();
            }
            // It fails for other lengths than these only.
            let _ = plan.process_with_scratch(x, y, scratch);
        },
    )?;
    Ok(out)
}

/// How far apart lines of so many elements are kept: an odd number of cache lines, so that no two of them compete for
/// the same places in the cache.
fn pitch<T>(len: usize) -> usize {
    const LINE: usize = 64;
    ((len * size_of::<T>()).div_ceil(LINE) | 1) * LINE / size_of::<T>()
}

/// The lines along an axis of two arrays that differ in that axis at most.
struct Lines<'a> {
    src: &'a Value,
    out: &'a Value,
    axis: usize,
    count: usize,
}

impl<'a> Lines<'a> {
    fn new(src: &'a Value, out: &'a Value, axis: usize) -> Lines<'a> {
        let shape = src.shape().iter().enumerate();
        let count = shape.filter(|&(i, _)| i != axis).map(|(_, d)| d).product();
        Lines {
            src,
            out,
            axis,
            count,
        }
    }

    /// Where a line starts in both, in elements.
    fn starts(&self, line: usize) -> (isize, isize) {
        let (mut rest, mut from, mut to) = (line, 0, 0);
        for (i, &d) in self.src.shape().iter().enumerate().rev() {
            if i != self.axis {
                let at = (rest % d) as isize;
                rest /= d;
                from += at * self.src.strides()[i];
                to += at * self.out.strides()[i];
            }
        }
        (from, to)
    }

    /// How many of the lines from this one on, at most `most`, start at equal distances in both; and these.
    fn side_by_side(&self, line: usize, most: usize) -> (usize, (isize, isize)) {
        let from_one = |to: usize| {
            let ((a, b), (c, d)) = (self.starts(to - 1), self.starts(to));
            (c - a, d - b)
        };
        if most == 1 {
            return (1, (1, 1));
        }
        let step = from_one(line + 1);
        let more = (2..most).take_while(|i| from_one(line + i) == step);
        (2 + more.count(), step)
    }

    /// Calls `f` with the first line and the number of lines of each task, and memory of its own; tasks have about
    /// as many lines each, and a multiple of `unit`.
    fn each(
        &self,
        length: usize,
        unit: usize,
        ctx: &Ctx,
        bytes: usize,
        f: impl Fn(usize, usize, *mut u8) + Sync + Send,
    ) -> Result<()> {
        let wanted = (self.count * length).div_ceil(TASK).max(1);
        // Rather one short task more than fewer, longer ones, of which some thread has one too many.
        let group = (self.count.div_ceil(wanted) / unit * unit).max(unit);
        let tasks = self.count.div_ceil(group);
        let failed = Mutex::new(None);
        ctx.for_each(tasks, |task| match Storage::allocate(bytes.max(1)) {
            Ok(scratch) => {
                let first = task * group;
                f(first, group.min(self.count - first), scratch.as_ptr());
            }
            Err(error) => {
                failed
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .replace(error);
            }
        })?;
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), Err)
    }

    /// Calls `f` with a copy of each line, room for its result, and scratch; a few lines are read and
    /// written at a time when their elements are apart.
    fn gathered<T: Real, I: Copy, O: Copy>(
        &self,
        n: usize,
        m: usize,
        ctx: &Ctx,
        room: usize,
        f: impl Fn(&mut [I], &mut [O], &mut [Complex<T>]) + Sync + Send,
    ) -> Result<()> {
        let (from_step, to_step) = (self.src.strides()[self.axis], self.out.strides()[self.axis]);
        let from = Shared::new(self.src.as_ptr().cast_mut().cast::<I>());
        let to = Shared::new(self.out.as_mut_ptr().cast::<O>());
        let near = (from_step == 1 || n == 1) && (to_step == 1 || m == 1);
        let widest = size_of::<I>().max(size_of::<O>());
        let block = if near {
            1
        } else {
            (ROOM / (n.max(m) * widest).max(1)).clamp(8, BLOCK)
        };
        let (pitch_in, pitch_out) = (pitch::<I>(n), pitch::<O>(m));
        let scratch_at = (block * pitch_in * size_of::<I>()).next_multiple_of(64);
        let out_at = scratch_at + (room * size_of::<Complex<T>>()).next_multiple_of(64);
        let bytes = out_at + block * pitch_out * size_of::<O>();
        let unit = if near { 1 } else { NEIGHBOURS };
        self.each(n.max(m), unit, ctx, bytes, |first, count, memory| {
            // SAFETY: the memory has room for all three, at multiples of 64 bytes; numbers have no
            // patterns that are not valid.
            let (xs, scratch, ys) = unsafe {
                (
                    std::slice::from_raw_parts_mut(memory.cast::<I>(), block * pitch_in),
                    std::slice::from_raw_parts_mut(memory.add(scratch_at).cast(), room),
                    std::slice::from_raw_parts_mut(memory.add(out_at).cast(), block * pitch_out),
                )
            };
            let mut line = first;
            while line < first + count {
                let (at, start) = self.starts(line);
                // SAFETY (all blocks): lines of the source, and lines of the result, which only this task
                // writes; `block` of either fit into the memory.
                if near {
                    let target = unsafe {
                        let bytes = n * size_of::<I>();
                        let (source, copy) = (from.at(at), xs.as_mut_ptr());
                        std::ptr::copy_nonoverlapping(source.cast::<u8>(), copy.cast(), bytes);
                        std::slice::from_raw_parts_mut(to.at(start), m)
                    };
                    f(&mut xs[..n], target, scratch);
                    line += 1;
                    continue;
                }
                let most = block.min(first + count - line);
                let (lines, between) = self.side_by_side(line, most);
                let (far, pitch) = (from_step, pitch_in as isize);
                let across = [(lines, pitch, between.0), (n, 1, far)];
                let [rows, cols] = across.map(|(len, dst, src)| Loop { len, dst, src });
                unsafe { turn(cols, rows, xs.as_mut_ptr(), from.at(at)) };
                let both = xs.chunks_mut(pitch_in).zip(ys.chunks_mut(pitch_out));
                for (x, y) in both.take(lines) {
                    f(&mut x[..n], &mut y[..m], scratch);
                }
                let (far, pitch) = (to_step, pitch_out as isize);
                let back = [(m, far, 1), (lines, between.1, pitch)];
                let [rows, cols] = back.map(|(len, dst, src)| Loop { len, dst, src });
                unsafe { turn(rows, cols, to.at(start), ys.as_ptr()) };
                line += lines;
            }
        })
    }
}

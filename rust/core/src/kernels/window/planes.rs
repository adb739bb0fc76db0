//! Where windows that move along the last axes see elements.

use crate::aval::WindowDim;
use crate::kernels::Value;

/// Taps of a task that make spreading worth while.
const PIECE: usize = 1 << 16;

/// Windows over planes of three axes, the first of which may have length one.
#[derive(Debug, Clone)]
pub(super) struct Planes {
    pub(super) number: usize,
    pub(super) lengths: [usize; 3],
    pub(super) windows: [WindowDim; 3],
    /// How far each tap is from where its window begins.
    pub(super) shifts: Vec<isize>,
    /// Along each axis, the places whose windows have elements only.
    pub(super) inside: [(usize, usize); 3],
}

impl Planes {
    pub(super) fn new(x: &Value, windows: &[WindowDim]) -> Planes {
        let lead = x.shape().len() - windows.len();
        let still = WindowDim {
            size: 1,
            len: 1,
            pad: 0,
            stride: 1,
            dilation: 1,
            expansion: 1,
        };
        let number = x.shape()[..lead].iter().product();
        let mut lengths = [1; 3];
        let mut all = [still; 3];
        let first = 3 - windows.len();
        for (i, d) in windows.iter().enumerate() {
            lengths[first + i] = x.shape()[lead + i];
            all[first + i] = *d;
        }
        let [a, b, c] = &all;
        let mut shifts = Vec::with_capacity(a.len * b.len * c.len);
        for k0 in 0..a.len {
            for k1 in 0..b.len {
                for k2 in 0..c.len {
                    let row = k0 * a.dilation * lengths[1] + k1 * b.dilation;
                    shifts.push((row * lengths[2] + k2 * c.dilation) as isize);
                }
            }
        }
        let inside = std::array::from_fn(|i| {
            let d = &all[i];
            if d.len == 0 {
                return (0, 0);
            }
            let (first, last, _) = seen(d, lengths[i], 0);
            let (start, end, _) = seen(d, lengths[i], d.len - 1);
            let last = last.min(end);
            (first.max(start).min(last), last)
        });
        Planes {
            number,
            lengths,
            windows: all,
            shifts,
            inside,
        }
    }

    /// Where the window of a place begins; perhaps outside of the plane.
    #[inline(always)]
    pub(super) fn start(&self, p: [usize; 2], place: usize) -> isize {
        let at = |i: usize, p: usize| {
            let d = &self.windows[i];
            (p * d.stride) as isize - d.pad
        };
        let row = at(0, p[0]) * self.lengths[1] as isize + at(1, p[1]);
        row * self.lengths[2] as isize + at(2, place)
    }

    /// The places of a row whose windows have elements only.
    #[inline(always)]
    pub(super) fn whole(&self, p: [usize; 2]) -> (usize, usize) {
        let within = |i: usize| self.inside[i].0 <= p[i] && p[i] < self.inside[i].1;
        if within(0) && within(1) {
            self.inside[2]
        } else {
            (0, 0)
        }
    }

    /// Whether the last axis is cut into pairs: windows side by side of two elements side by side.
    pub(super) fn is_pairs(&self) -> bool {
        let c = &self.windows[2];
        (c.len, c.stride, c.dilation, c.expansion) == (2, 2, 1, 1)
    }

    /// Whether every window has elements only, and every element is in one window at most.
    pub(super) fn is_apart(&self) -> bool {
        (self.windows.iter().zip(&self.inside)).all(|(d, &inside)| {
            let length = (d.len.max(1) - 1) * d.dilation + 1;
            inside == (0, d.size) && d.expansion == 1 && length <= d.stride
        })
    }

    /// Elements of a plane.
    pub(super) fn elements(&self) -> usize {
        self.lengths.iter().product()
    }

    /// Places of a plane.
    pub(super) fn places(&self) -> usize {
        self.windows.iter().map(|d| d.size).product()
    }

    /// Planes of a task.
    pub(super) fn piece(&self) -> usize {
        let taps: usize = self.windows.iter().map(|d| d.len).product();
        (PIECE / (taps * self.places()).max(1)).clamp(1, self.number.max(1))
    }

    /// The rows of places: their first two places, and their numbers. No closure: it would not be compiled
    /// for the level of the loop that calls it.
    #[inline(always)]
    pub(super) fn rows(&self) -> impl Iterator<Item = ([usize; 2], usize)> + use<> {
        let [a, b, _] = &self.windows;
        let (count, length) = (a.size * b.size, b.size);
        (0..count).map(move |number| ([number / length, number % length], number))
    }

    /// Calls `f` with each pair of the first two taps at places `p` that has elements: the number of
    /// its first tap, and where its row of elements begins.
    #[inline(always)]
    pub(super) fn taps(&self, p: [usize; 2], mut f: impl FnMut(usize, usize)) {
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
pub(super) fn find(d: &WindowDim, length: usize, place: usize, tap: usize) -> Option<usize> {
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
pub(super) fn seen(d: &WindowDim, length: usize, tap: usize) -> (usize, usize, usize) {
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

//! What the loops and crates behind a product take: matrices in memory, lengths, and work in pieces.

use super::super::Ctx;
use super::super::shared_pointer::Shared;
use crate::error::Result;

/// Floating-point operations that make spreading a product over threads worth while.
pub(super) const WIDE: usize = 1 << 21;

/// A matrix somewhere in memory; steps in elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mat<T> {
    pub(super) at: Shared<T>,
    pub(super) rs: isize,
    pub(super) cs: isize,
}

impl<T> Mat<T> {
    /// The sub-matrix that starts at row `i` and column `j`.
    pub(super) fn from(self, i: usize, j: usize) -> Mat<T> {
        let by = i as isize * self.rs + j as isize * self.cs;
        Mat {
            at: Shared::new(self.at.at(by)),
            ..self
        }
    }

    pub(super) fn transposed(self) -> Mat<T> {
        Mat {
            at: self.at,
            rs: self.cs,
            cs: self.rs,
        }
    }
}

/// One product: `m`×`k` times `k`×`n`, none of them zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dims {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
}

impl Dims {
    pub(super) fn work(self) -> usize {
        self.m.saturating_mul(self.k).saturating_mul(self.n)
    }
}

/// Calls `f(0) .. f(n - 1)`, on several threads when `wide` and there are any.
pub(super) fn spread(
    ctx: &Ctx,
    wide: bool,
    n: usize,
    f: impl Fn(usize) + Sync + Send,
) -> Result<()> {
    if wide {
        return ctx.for_each(n, f);
    }
    for i in 0..n {
        ctx.check()?;
        f(i);
    }
    Ok(())
}

/// The step of the single axis that these (length, step) axes form, if they do.
pub(super) fn chain(axes: impl DoubleEndedIterator<Item = (usize, isize)>) -> Option<isize> {
    let mut step = None;
    let mut next = 0;
    for (n, s) in axes.rev().filter(|&(n, _)| n > 1) {
        if step.is_none() {
            step = Some(s);
        } else if s != next {
            return None;
        }
        next = s * n as isize;
    }
    Some(step.unwrap_or(0))
}

/// Where the matrices of two operands begin, for a member of a batch of this shape.
pub(super) fn offsets(member: usize, batch: &[usize], strides: [&[isize]; 2]) -> [isize; 2] {
    let (mut rest, mut found) = (member, [0, 0]);
    for (axis, &len) in batch.iter().enumerate().rev() {
        let at = (rest % len) as isize;
        rest /= len;
        for (offset, strides) in found.iter_mut().zip(strides) {
            *offset += at * strides[axis];
        }
    }
    found
}

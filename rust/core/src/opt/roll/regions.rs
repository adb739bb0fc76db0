//! Regions that move by the same distance from turn to turn, and all of them at once.

use crate::aval::{Shape, SliceDim};
use crate::ops;
use crate::prim::{Params, Prim, V};

/// How a region moves: along one axis, by so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moves {
    pub axis: usize,
    pub by: isize,
}

fn dims(params: &Params) -> Option<&[SliceDim]> {
    match params {
        Params::Slice(dims) => Some(dims),
        _ => None,
    }
}

impl Moves {
    /// How one region becomes another one; `None` if it moves along no axis or several.
    pub fn between(from: &Params, to: &Params) -> Option<Moves> {
        let (from, to) = (dims(from)?, dims(to)?);
        let mut moving = (0..from.len()).filter(|&i| from[i] != to[i]);
        let axis = moving.next()?;
        let by = to[axis].start as isize - from[axis].start as isize;
        let is_one = moving.next().is_none() && from.len() == to.len();
        let same = (from[axis].len, from[axis].step) == (to[axis].len, to[axis].step);
        (is_one && same && by != 0).then_some(Moves { axis, by })
    }

    /// Whether so many steps lead from one region to another.
    pub fn leads(self, from: &Params, to: &Params, steps: isize) -> bool {
        let (Some(from), Some(to)) = (dims(from), dims(to)) else {
            return false;
        };
        from.len() == to.len()
            && from.iter().zip(to).enumerate().all(|(i, (a, b))| {
                let by = if i == self.axis { self.by * steps } else { 0 };
                a.start as isize + by == b.start as isize && (a.len, a.step) == (b.len, b.step)
            })
    }

    /// Whether regions lie side by side and leave nothing out, or have one element along the axis: then they are one
    /// region together.
    pub fn is_apart(self, params: &Params) -> bool {
        dims(params).is_some_and(|dims| {
            let d = dims[self.axis];
            d.len == 1 || self.by.unsigned_abs() == d.step.unsigned_abs() * d.len
        })
    }

    /// Whether a region is everything but along the axis.
    pub fn is_alone(self, params: &Params, shape: &[usize]) -> bool {
        dims(params).is_some_and(|dims| {
            let mut others = (0..dims.len()).filter(|&i| i != self.axis);
            others.all(|i| (dims[i].start, dims[i].len, dims[i].step) == (0, shape[i], 1))
        })
    }

    /// The same from the last turn to the first.
    pub fn backwards(self) -> Moves {
        Moves {
            by: -self.by,
            ..self
        }
    }

    /// The regions of so many turns as one, which starts with the first turn's, and whether the turns lie in it in
    /// reverse order.
    pub fn together(self, first: &[SliceDim], count: usize) -> (Box<[SliceDim]>, bool) {
        let mut all: Box<[SliceDim]> = first.into();
        let d = &mut all[self.axis];
        if d.len == 1 {
            (d.len, d.step) = (count, self.by);
            return (all, false);
        }
        let turns_around = (self.by < 0) != (d.step < 0);
        if turns_around {
            d.start = d
                .start
                .saturating_add_signed(self.by * (count as isize - 1));
        }
        d.len *= count;
        (all, turns_around)
    }
}

/// An array with the regions of so many turns side by side along an axis, as a stack of those of each turn.
pub(super) fn apart(x: V<'_>, axis: usize, count: usize) -> V<'_> {
    let shape = x.shape();
    let mut split: Shape = shape.clone();
    split[axis] /= count;
    split.insert(axis, count);
    let mut order: Vec<usize> = (0..split.len()).filter(|&i| i != axis).collect();
    order.insert(0, axis);
    transposed(reshaped(x, &split), &order)
}

/// A stack as one array in which its elements lie side by side along an axis.
pub(super) fn side_by_side(stack: V<'_>, axis: usize) -> V<'_> {
    let shape = stack.shape();
    let mut order: Vec<usize> = (1..shape.len()).collect();
    order.insert(axis, 0);
    let mut joint: Shape = shape[1..].into();
    joint[axis] *= shape[0];
    reshaped(transposed(stack, &order), &joint)
}

fn transposed<'e>(x: V<'e>, order: &[usize]) -> V<'e> {
    if order.iter().enumerate().all(|(i, &axis)| i == axis) {
        return x;
    }
    x.transpose(order)
}

/// Some elements of a stack: `len` of them, `step` apart.
pub(super) fn rows(stack: V<'_>, start: usize, len: usize, step: isize) -> V<'_> {
    let shape = stack.shape();
    if (start, len, step) == (0, shape[0], 1) {
        return stack;
    }
    let whole = shape[1..].iter().map(|&len| SliceDim {
        start: 0,
        len,
        step: 1,
    });
    let dims: Vec<SliceDim> = std::iter::once(SliceDim { start, len, step })
        .chain(whole)
        .collect();
    stack.slice(&dims)
}

/// A stack with its last element first.
pub(super) fn turned(stack: V<'_>) -> V<'_> {
    let len = stack.shape()[0];
    rows(stack, len.saturating_sub(1), len, -1)
}

/// The regions of all turns, stacked.
pub(super) fn moving<'e>(x: V<'e>, first: &Params, moves: Moves, count: usize) -> V<'e> {
    let Params::Slice(dims) = first else {
        return x;
    };
    if moves.is_apart(first) {
        let (dims, turns_around) = moves.together(dims, count);
        let stack = apart(x.slice(&dims), moves.axis, count);
        return if turns_around { turned(stack) } else { stack };
    }
    // Regions that overlap, or leave something out: elements along the axis by their numbers.
    let d = dims[moves.axis];
    let mut others = dims.to_vec();
    others[moves.axis] = SliceDim {
        start: 0,
        len: x.shape()[moves.axis],
        step: 1,
    };
    let rank = others.len();
    let rows = to_front(x.slice(&others), moves.axis);
    let index = places(x, d, moves, count);
    let stack = rows.apply(ops::GATHER, Params::None, &[index]);
    let mut order: Vec<usize> = (0..=rank).filter(|&i| i != 1).collect();
    order.insert(moves.axis + 1, 1);
    transposed(stack, &order)
}

/// `x` with regions written one after the other, or added to it, that may overlap: elements along the axis by their
/// numbers.
pub(super) fn scattered<'e>(
    x: V<'e>,
    prim: Prim,
    d: SliceDim,
    moves: Moves,
    updates: V<'e>,
) -> V<'e> {
    let count = updates.shape()[0];
    let index = places(x, d, moves, count);
    let rank = x.shape().len();
    let mut order: Vec<usize> = (0..=rank).filter(|&i| i != moves.axis + 1).collect();
    order.insert(1, moves.axis + 1);
    let updates = transposed(updates, &order);
    let new = to_front(x, moves.axis).apply(prim, Params::None, &[index, updates]);
    let mut order: Vec<usize> = (1..rank).collect();
    order.insert(moves.axis, 0);
    transposed(new, &order)
}

/// The numbers of the elements of each region along its axis.
fn places(x: V<'_>, d: SliceDim, moves: Moves, count: usize) -> V<'_> {
    let numbers = |len: usize, by: isize| {
        let count = x.with(x.to.emit(ops::IOTA, Params::Size(len), &[]));
        count.combine(ops::MUL, count.number(by as f64))
    };
    let turns = numbers(count, moves.by);
    let turns = turns.combine(ops::ADD, turns.number(d.start as f64));
    (turns.reshape(&[count, 1])).combine(ops::ADD, numbers(d.len, d.step))
}

fn to_front(x: V<'_>, axis: usize) -> V<'_> {
    let mut order: Vec<usize> = (0..x.shape().len()).filter(|&i| i != axis).collect();
    order.insert(0, axis);
    transposed(x, &order)
}

/// The same elements in another shape.
pub(super) fn reshaped<'e>(x: V<'e>, shape: &[usize]) -> V<'e> {
    let x = match x.to.made_by(x.var(), &[ops::RESHAPE]) {
        Some((_, args)) => x.with(args[0]),
        None => x,
    };
    if x.shape()[..] == *shape {
        return x;
    }
    x.reshape(shape)
}

/// The same array, contiguous where views may have left another order.
pub(super) fn in_order(x: V<'_>) -> V<'_> {
    const VIEWS: [Prim; 3] = [ops::RESHAPE, ops::SLICE, ops::TRANSPOSE];
    let mut of = x.var();
    loop {
        match x.to.made_by(of, &VIEWS) {
            Some((Params::Shape(_), args)) => of = args[0],
            Some(_) => {
                let rows = x.with(x.to.emit(ops::IOTA, Params::Size(x.shape()[0]), &[]));
                return x.apply(ops::GATHER, Params::None, &[rows]);
            }
            None => return x,
        }
    }
}

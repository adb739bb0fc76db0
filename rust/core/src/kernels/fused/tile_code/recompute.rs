//! Values that are computed again where they are read much later: what a number makes of a value takes an instruction,
//! and less than writing it and reading it back where two of them are made of one that waits instead.

use std::collections::HashMap;

use super::super::node::NONE;
use super::segments::Segment;
use crate::kernels::lane::LaneOp;

/// A use so many operations after the one before is a late one.
const LATE: usize = 32;

/// Ids from here on are those of values that are computed again.
const AGAIN: u32 = 1 << 31;

/// Operations as in a [`Segment`].
pub(super) type Ops = Vec<(u32, LaneOp, [u32; 3])>;

/// The operations of a segment, with copies of cheap ones before late uses.
pub(super) fn with_copies(segment: &Segment, is_number: &dyn Fn(u32) -> bool) -> Ops {
    let ops = &segment.ops;
    let mut uses: HashMap<u32, Vec<usize>> = HashMap::new();
    for (position, (_, _, args)) in ops.iter().enumerate() {
        for &a in args.iter().filter(|&&a| a != NONE) {
            uses.entry(a).or_default().push(position);
        }
    }
    // What each value that is made of another one and a number is made of, if it has late uses.
    let mut late: HashMap<u32, (usize, u32)> = HashMap::new();
    let mut made_of: HashMap<u32, usize> = HashMap::new();
    for (position, &(j, op, [x, y, _])) in ops.iter().enumerate() {
        let is_cheap = matches!(op, LaneOp::Add | LaneOp::Sub | LaneOp::Mul);
        if !is_cheap || is_number(x) == is_number(y) || segment.results.binary_search(&j).is_ok() {
            continue;
        }
        let x = if is_number(x) { y } else { x };
        let mut before = position;
        let is_late = uses.get(&j).into_iter().flatten().any(|&q| {
            let gap = q - before;
            before = q;
            gap > LATE
        });
        if is_late {
            late.insert(j, (position, x));
            *made_of.entry(x).or_default() += 1;
        }
    }
    late.retain(|j, (_, x)| {
        let last = |x: &u32| uses.get(x).and_then(|u| u.last().copied());
        let is_there = segment.reads.binary_search(x).is_ok()
            || segment.results.binary_search(x).is_ok()
            || last(x) >= last(j);
        made_of[x] > 1 || is_there
    });
    if late.is_empty() {
        return ops.clone();
    }
    let mut all = Ops::with_capacity(ops.len() + late.len());
    // For each of them the latest copy, and when it was read last.
    let mut copies: HashMap<u32, (u32, usize)> = HashMap::new();
    let mut again = AGAIN;
    for (position, &(j, op, mut args)) in ops.iter().enumerate() {
        for a in args.iter_mut().filter(|a| late.contains_key(a)) {
            let (made, _) = late[a];
            let (copy, read) = copies.entry(*a).or_insert((*a, made));
            if position - *read > LATE {
                // What it is made of is no copy: its own late uses were counted with these.
                let (_, op, args) = ops[made];
                all.push((again, op, args));
                *copy = again;
                again += 1;
            }
            *read = position;
            *a = *copy;
        }
        all.push((j, op, args));
    }
    all
}

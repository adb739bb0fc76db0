//! Which operations of a program one piece of machine code does: arithmetic that waits for nothing else.

use super::super::node::{NONE, Node, Request, Work};
use crate::aval::DType;
use crate::kernels::lane::LaneOp;

/// Fewer operations are left to chains and lanes.
const FEWEST: usize = 3;
/// More are several pieces.
const MOST: usize = 2048;

/// Operations that one call of machine code does, one after the other.
#[derive(Debug)]
pub(in super::super) struct Segment {
    pub(super) dtype: DType,
    /// The values, what makes them, and of what.
    pub(super) ops: Vec<(u32, LaneOp, [u32; 3])>,
    /// Values of other instructions that it reads.
    pub(in super::super) reads: Vec<u32>,
    /// Values that others read, or that are wanted.
    pub(in super::super) results: Vec<u32>,
}

impl Segment {
    /// The node in whose place it is computed.
    pub(in super::super) fn place(&self) -> u32 {
        self.ops[self.ops.len() - 1].0
    }
}

/// Whether code does an operation.
fn is_arithmetic(op: LaneOp) -> bool {
    use LaneOp::{Abs, Add, Div, Mul, Neg, Reciprocal, Sqrt, Square, Sub};
    matches!(
        op,
        Add | Sub | Mul | Div | Neg | Abs | Sqrt | Square | Reciprocal
    )
}

/// What a node reads of those before it.
fn operands(node: &Node) -> impl Iterator<Item = u32> + use<'_> {
    let count = if matches!(node.work, Some(Work::Both(_))) {
        1
    } else {
        3
    };
    node.args[..count].iter().copied().filter(|&a| a != NONE)
}

/// Takes operations out of a program into segments: what is left of them are nodes that have no instruction, and one
/// for each segment, where its last operation was.
pub(in super::super) fn form(nodes: &mut [Node], requests: &[Request]) -> Vec<Segment> {
    let is_needed = needed(nodes, requests);
    let mut found: Vec<Vec<u32>> = Vec::new();
    let mut open: Vec<u32> = Vec::new();
    let mut is_open = vec![false; nodes.len()];
    for j in 0..nodes.len() {
        let node = &nodes[j];
        if !is_needed[j] || node.work.is_none() {
            continue;
        }
        let fits = matches!(node.dtype, DType::F32 | DType::F64)
            && !node.row
            && matches!(node.work, Some(Work::Tile(_)))
            && node.op.is_some_and(is_arithmetic)
            && nodes[node.args[0] as usize].dtype == node.dtype;
        let same = open
            .last()
            .is_none_or(|&k| nodes[k as usize].dtype == node.dtype);
        let ends = if fits {
            !same || open.len() == MOST
        } else {
            operands(node).any(|a| is_open[a as usize])
        };
        if ends {
            for &k in &open {
                is_open[k as usize] = false;
            }
            found.push(std::mem::take(&mut open));
        }
        if fits {
            open.push(j as u32);
            is_open[j] = true;
        }
    }
    found.push(open);
    found.retain(|ops| ops.len() >= FEWEST);
    segments(nodes, requests, &is_needed, &found)
}

/// For every value whether a result depends on it.
fn needed(nodes: &[Node], requests: &[Request]) -> Vec<bool> {
    let mut is_needed = vec![false; nodes.len()];
    for request in requests {
        is_needed[request.reg as usize] = true;
    }
    // The second of two results is made where the first is.
    for (i, node) in nodes.iter().enumerate().rev() {
        let is_both = matches!(node.work, Some(Work::Both(_)));
        if is_needed[i] || is_both {
            for x in operands(node) {
                is_needed[x as usize] = true;
            }
        }
    }
    is_needed
}

fn segments(
    nodes: &mut [Node],
    requests: &[Request],
    is_needed: &[bool],
    found: &[Vec<u32>],
) -> Vec<Segment> {
    let mut segment_of = vec![NONE; nodes.len()];
    for (s, ops) in found.iter().enumerate() {
        for &j in ops {
            segment_of[j as usize] = s as u32;
        }
    }
    let mut is_wanted = vec![false; nodes.len()];
    for request in requests {
        is_wanted[request.reg as usize] = true;
    }
    for (j, node) in nodes.iter().enumerate() {
        let is_both = matches!(node.work, Some(Work::Both(_)));
        if is_needed[j] || is_both {
            for a in operands(node).map(|a| a as usize) {
                is_wanted[a] |= segment_of[a] != segment_of[j];
            }
        }
    }
    let segment = |(s, list): (usize, &Vec<u32>)| {
        let ops = list.iter().map(|&j| {
            let node = &nodes[j as usize];
            (j, node.op.expect("an operation"), node.args)
        });
        let ops: Vec<_> = ops.collect();
        let args = ops.iter().flat_map(|(_, _, args)| args);
        let mut reads: Vec<u32> = args
            .copied()
            .filter(|&a| a != NONE && segment_of[a as usize] != s as u32)
            .collect();
        reads.sort_unstable();
        reads.dedup();
        Segment {
            dtype: nodes[list[0] as usize].dtype,
            reads,
            results: (list.iter().copied())
                .filter(|&j| is_wanted[j as usize])
                .collect(),
            ops,
        }
    };
    let segments: Vec<Segment> = found.iter().enumerate().map(segment).collect();
    for (s, segment) in segments.iter().enumerate() {
        for &(j, ..) in &segment.ops {
            let node = &mut nodes[j as usize];
            node.work = Some(if j == segment.place() {
                Work::Code(s as u32)
            } else {
                Work::Inside
            });
            node.op = None;
            node.args = [NONE; 3];
        }
    }
    segments
}

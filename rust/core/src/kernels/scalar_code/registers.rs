//! Which elements wait in registers, and where the others lie.
//!
//! The register allocator of the code generator spills what does not fit, and reads it back by instructions of their
//! own. Code of arrays that are taken apart has a hundred values that wait, so half of its instructions did that. Here
//! every value has a place in memory as soon as it leaves its register: that of an input, of an output, or one of its
//! own, written once. It is read by the instruction that needs it. The value whose next use is furthest away is spilled
//! (Belady 1966).

use super::vectors::{Lines, NONE, width};
use super::{Line, Op, ScalarCode};
use crate::aval::DType;
use crate::util::FastMap;

/// So many values wait in registers; the processor has sixteen, and an instruction needs some while it computes.
pub(super) const WAITING: usize = 11;

/// A single element or a vector, as it is read: the number of its lines in [`Reads`].
pub(super) type Group = u32;

/// Where an element lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Input(u32, i32),
    Output(u32, i32),
    Stack(i32),
    Number(i32),
}

impl Place {
    /// So many bytes behind.
    pub(super) fn offset_by(self, bytes: usize) -> Place {
        let bytes = bytes as i32;
        match self {
            Place::Input(input, offset) => Place::Input(input, offset + bytes),
            Place::Output(output, offset) => Place::Output(output, offset + bytes),
            Place::Stack(offset) => Place::Stack(offset + bytes),
            Place::Number(offset) => Place::Number(offset + bytes),
        }
    }
}

/// Whether elements are floats in registers of vectors, of which this file knows when they are needed.
pub(super) fn is_float(dtype: DType) -> bool {
    width(dtype) > 1
}

/// The uses of each value, by node.
#[derive(Debug)]
pub(super) struct Reads {
    /// The first lines of what is computed, in order.
    pub nodes: Vec<Line>,
    /// For each line the first one of its vector.
    pub vectors: Vec<Line>,
    groups: Vec<Lines>,
    numbers: FastMap<Lines, Group>,
    /// For each group the nodes that read it, in order.
    of_groups: Vec<Vec<u32>>,
    /// For the first line of each vector and each other line the nodes that read any of its elements.
    of_lines: Vec<Vec<u32>>,
}

impl Reads {
    pub(super) fn of(code: &ScalarCode, needed: &[bool]) -> Reads {
        let mut reads = Reads {
            nodes: Vec::new(),
            vectors: code.vectors(needed),
            groups: Vec::new(),
            numbers: FastMap::default(),
            of_groups: Vec::new(),
            of_lines: vec![Vec::new(); code.lines.len()],
        };
        for k in (0..code.lines.len()).filter(|&k| needed[k]) {
            let op = code.lines[k].0;
            let own = k as Line;
            let first = reads.vectors[k];
            let is_given = matches!(op, Op::Number(_) | Op::Element { .. } | Op::Result { .. });
            if is_given || (first != NONE && first != own) {
                continue;
            }
            let node = reads.nodes.len() as u32;
            reads.nodes.push(own);
            for list in code.lists_of(op) {
                for lines in code.in_vectors(list, &reads.vectors) {
                    reads.read(lines, node);
                }
            }
            for (operand, &arg) in op.args().iter().enumerate() {
                let lines = if first == own {
                    code.read_by(own, operand)
                } else {
                    single(arg)
                };
                reads.read(lines, node);
            }
        }
        reads
    }

    fn read(&mut self, lines: Lines, node: u32) {
        let group = self.group(lines);
        push(&mut self.of_groups[group as usize], node);
        for line in elements(&lines) {
            let owner = self.owner(*line);
            push(&mut self.of_lines[owner as usize], node);
        }
    }

    /// The number of some lines.
    pub(super) fn group(&mut self, lines: Lines) -> Group {
        let new = self.groups.len() as Group;
        let group = *self.numbers.entry(lines).or_insert(new);
        if group == new {
            self.groups.push(lines);
            self.of_groups.push(Vec::new());
        }
        group
    }

    pub(super) fn lines(&self, group: Group) -> Lines {
        self.groups[group as usize]
    }

    /// All groups.
    pub(super) fn groups(&self) -> &[Lines] {
        &self.groups
    }

    /// What a line is computed by: the first line of its vector, or itself.
    pub(super) fn owner(&self, line: Line) -> Line {
        match self.vectors[line as usize] {
            NONE => line,
            first => first,
        }
    }

    /// What a group is computed by, if it is all of it.
    pub(super) fn computed_by(&self, group: Group) -> Option<Line> {
        let lines = self.lines(group);
        let first = lines[0];
        let vector = self.vectors[first as usize];
        if lines[1] == NONE {
            return (vector == NONE).then_some(first);
        }
        let in_order = elements(&lines).iter().zip(first..).all(|(&x, k)| x == k);
        (vector == first && in_order).then_some(first)
    }

    /// Whether a group is one element, several times.
    pub(super) fn is_repeated(&self, group: Group) -> bool {
        let lines = self.lines(group);
        lines[1] != NONE && elements(&lines).iter().all(|&line| line == lines[0])
    }

    /// The first node from this one on that reads a group as it is.
    pub(super) fn next_of_group(&self, group: Group, from: u32) -> Option<u32> {
        next(&self.of_groups[group as usize], from)
    }

    /// The first node from this one on that reads anything of what a line computes.
    pub(super) fn next_of_line(&self, owner: Line, from: u32) -> Option<u32> {
        next(&self.of_lines[owner as usize], from)
    }

    /// The last node that does.
    pub(super) fn last_of_line(&self, owner: Line) -> Option<u32> {
        self.of_lines[owner as usize].last().copied()
    }
}

fn push(nodes: &mut Vec<u32>, node: u32) {
    if nodes.last() != Some(&node) {
        nodes.push(node);
    }
}

fn next(nodes: &[u32], from: u32) -> Option<u32> {
    nodes
        .get(nodes.partition_point(|&node| node < from))
        .copied()
}

/// One line by itself.
pub(super) fn single(line: Line) -> Lines {
    [line, NONE, NONE, NONE]
}

/// The lines that there are.
pub(super) fn elements(lines: &Lines) -> &[Line] {
    let count = lines.iter().take_while(|&&line| line != NONE).count();
    &lines[..count]
}

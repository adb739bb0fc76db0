//! Finds the nodes of the tape that a program is to be made of: a walk from outputs back to leaves, or to what is
//! known.

use std::ops::Deref;

use smallvec::SmallVec;

use super::Array;
use super::node::Op;
use super::node_map::NodeMap;
use crate::error::Result;
use crate::interrupt::{Steps, room_for};
use crate::prim::{Params, Var};

/// Room for what there is of most things, so that the common case is one allocation.
pub(super) const FEW: usize = 16;
/// A variable that no program has.
pub(super) const NONE: Var = Var::MAX;

/// An array that the walk has come to: borrowed from the active node that it is an input of, or owned, since an
/// inactive one may forget its inputs meanwhile.
pub(super) enum NodeRef<'a> {
    Borrowed(&'a Array),
    Owned(Array),
}

/// The inputs of such an array.
pub(super) enum NodeInputs<'a> {
    Borrowed(&'a [Array]),
    Copied(SmallVec<[Array; 2]>),
}

pub(super) type Visited<'a> = (NodeRef<'a>, NodeInputs<'a>);

impl<'a> NodeRef<'a> {
    fn inputs(&self) -> NodeInputs<'a> {
        match self {
            NodeRef::Borrowed(array) => match array.0.kept_inputs() {
                Some(inputs) => NodeInputs::Borrowed(inputs),
                None => NodeInputs::Copied(array.0.inputs()),
            },
            NodeRef::Owned(array) => NodeInputs::Copied(array.0.inputs()),
        }
    }
}

impl Deref for NodeRef<'_> {
    type Target = Array;
    fn deref(&self) -> &Array {
        match self {
            NodeRef::Borrowed(array) => array,
            NodeRef::Owned(array) => array,
        }
    }
}

impl Deref for NodeInputs<'_> {
    type Target = [Array];
    fn deref(&self) -> &[Array] {
        match self {
            NodeInputs::Borrowed(inputs) => inputs,
            NodeInputs::Copied(inputs) => inputs,
        }
    }
}

/// What a node becomes in the program.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Input,
    Equation,
    /// A leaf of another recording: what it copies.
    LeafCopy,
    /// An application of a program, which gives several arrays and is none.
    Call,
}

/// The tag of what is closed for a run: no recording is younger.
pub(super) const RUN: u64 = u64::MAX;

/// Which part of the tape is closed: what may depend on the leaves of a recording, or, for a run, what has not
/// been computed.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub leaves: &'a [Array],
    pub tag: u64,
}

impl Scope<'_> {
    pub fn role(&self, a: &Array) -> Role {
        let tag = self.tag;
        match a.0.op {
            Op::Known | Op::Number(_) => Role::Input,
            Op::Call(..) => Role::Call,
            _ if is_literal(a) => Role::Equation,
            // The leaf of an outer recording is what it is; for a run it may be what it copies.
            Op::Leaf if a.tag() < tag && (tag != RUN || a.value().is_some()) => Role::Input,
            Op::Leaf => Role::LeafCopy,
            _ if a.tag() >= tag => Role::Equation,
            _ if a.value().is_some() => Role::Input,
            _ if a.tag() == 0 || tag == RUN => Role::Equation,
            _ => Role::Input,
        }
    }

    /// All nodes between the leaves and the outputs with their inputs.
    pub fn visit<'a>(&self, outputs: &[&'a Array], steps: &mut Steps) -> Result<Visit<'a>> {
        let mut visit = Visit::up_to(outputs.iter().copied().chain(self.leaves));
        for leaf in self.leaves {
            visit.is_new(leaf);
        }
        let mut work: Vec<NodeRef<'_>> = Vec::with_capacity(FEW);
        for &output in outputs {
            if visit.is_new(output) {
                work.push(NodeRef::Borrowed(output));
            }
        }
        while let Some(array) = work.pop() {
            steps.count()?;
            let inputs = if self.role(&array) == Role::Input {
                NodeInputs::Borrowed(&[])
            } else {
                array.inputs()
            };
            match &inputs {
                NodeInputs::Borrowed(inputs) => {
                    let new = inputs.iter().filter(|a| visit.is_new(a));
                    work.extend(new.map(NodeRef::Borrowed));
                }
                NodeInputs::Copied(inputs) => {
                    let new = inputs.iter().filter(|a| visit.is_new(a));
                    work.extend(new.cloned().map(NodeRef::Owned));
                }
            }
            visit.push(array, inputs)?;
        }
        room_for(visit.nodes.len())?;
        visit.order = visit.at.in_order().filter(|&at| at != MET).collect();
        Ok(visit)
    }
}

/// What a walk has come to.
pub(super) struct Visit<'a> {
    pub nodes: Vec<Visited<'a>>,
    /// Which of the nodes each one is, or that it has been met only.
    at: NodeMap<u32>,
    /// The nodes in order of creation: that is a topological order.
    order: Vec<u32>,
}

/// The number of a node that is none of the visited ones, yet.
const MET: u32 = NONE - 1;

impl<'a> Visit<'a> {
    /// Of nodes that are no newer than these.
    fn up_to<'n>(arrays: impl Iterator<Item = &'n Array>) -> Visit<'a> {
        Visit {
            nodes: Vec::with_capacity(FEW),
            at: NodeMap::up_to(arrays.map(Array::id).max().unwrap_or(0), NONE),
            order: Vec::new(),
        }
    }

    /// Whether a node is met for the first time.
    fn is_new(&mut self, array: &Array) -> bool {
        let at = self.at.place(array.id());
        let is_new = *at == NONE;
        if is_new {
            *at = MET;
        }
        is_new
    }

    fn push(&mut self, array: NodeRef<'a>, inputs: NodeInputs<'a>) -> Result<()> {
        if self.nodes.len() == self.nodes.capacity() {
            room_for(self.nodes.len())?;
        }
        *self.at.place(array.id()) = self.nodes.len() as u32;
        self.nodes.push((array, inputs));
        Ok(())
    }

    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = &Visited<'a>> {
        self.order.iter().map(|&at| &self.nodes[at as usize])
    }

    /// Its map, for other numbers of the same nodes.
    pub fn take_map(&mut self) -> NodeMap<u32> {
        let mut map = std::mem::replace(&mut self.at, NodeMap::up_to(0, NONE));
        map.clear();
        map
    }
}

/// Whether an array is a literal: a number that is part of the program.
pub(super) fn is_literal(array: &Array) -> bool {
    matches!(array.0.params.as_deref(), Some(Params::Literal { .. }))
}

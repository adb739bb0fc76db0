//! What a fused group computes, said without how: for devices, which write kernels of their own.

use super::builder::FusedBuilder;
use super::node::Work;
use super::reduce::ReduceOp;
use crate::aval::{DType, Shape};
use crate::kernels::lane::LaneOp;

/// The operations of a group over one space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// The space.
    pub shape: Shape,
    /// Values in the order of definition; operands are positions in this list.
    pub nodes: Vec<RecipeNode>,
    /// What is written to memory.
    pub outputs: Vec<RecipeOutput>,
}

/// A value of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecipeNode {
    /// The next input, which broadcasts to the space.
    Input(DType),
    /// An operation; unused operands are `u32::MAX`.
    Op(LaneOp, [u32; 3], DType),
    /// A conversion to a dtype.
    Cast(u32, DType),
}

/// A result of a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecipeOutput {
    /// A value at every point of the space.
    Whole(u32),
    /// The reduction of a value over the middle one of three axes that make up the space.
    Reduced(u32, ReduceOp, [usize; 3]),
}

impl RecipeNode {
    /// The dtype of the value.
    pub fn dtype(&self) -> DType {
        match *self {
            RecipeNode::Input(dtype) | RecipeNode::Op(_, _, dtype) | RecipeNode::Cast(_, dtype) => {
                dtype
            }
        }
    }
}

impl FusedBuilder {
    /// The recipe of what has been added so far; `None` where tiles are made of rows, which devices do not have.
    pub fn recipe(&self) -> Option<Recipe> {
        let node = |node: &super::node::Node| {
            Some(match (node.work, node.op) {
                (None, _) => RecipeNode::Input(node.dtype),
                (Some(Work::Tile(_)), Some(op)) => RecipeNode::Op(op, node.args, node.dtype),
                (Some(Work::Tile(_)), None) => RecipeNode::Cast(node.args[0], node.dtype),
                _ => return None,
            })
        };
        let outputs = self.requests.iter().map(|request| match request.reduce {
            None => RecipeOutput::Whole(request.reg),
            Some((op, s)) => RecipeOutput::Reduced(request.reg, op, [s.outer, s.reduced, s.inner]),
        });
        Some(Recipe {
            shape: self.shape.clone(),
            nodes: self.nodes.iter().map(node).collect::<Option<_>>()?,
            outputs: outputs.collect(),
        })
    }
}

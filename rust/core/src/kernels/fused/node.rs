//! The values of a fused program under construction: inputs, operations, and which results are wanted.

use super::plan::Split;
use super::reduce::ReduceOp;
use super::row_kernels::{Along, Expand, Fold};
use super::scalar;
use crate::aval::DType;
use crate::kernels::lane::{Lane, LaneOp};

/// A value in a program under construction: an input or the result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reg(pub(super) u32);

/// No register.
pub(super) const NONE: u32 = u32::MAX;

/// A value of the program, in the order of definition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// `None` for inputs.
    pub(super) work: Option<Work>,
    /// The operation that it is, where that is a single one.
    pub(super) op: Option<LaneOp>,
    pub(super) code: scalar::Code,
    /// Its operands; of [`Work::Both`], its operand and the node of its second result.
    pub(super) args: [u32; 3],
    pub(super) dtype: DType,
    /// Whether the lane is slower when its result lies where an operand lies.
    pub(super) long: bool,
    /// Whether it has one element for each row.
    pub(super) row: bool,
    /// Whether it is an input of one element for the whole space.
    pub(super) number: bool,
}

impl Node {
    /// The operation and its operands, where it is a single one on two elements of the space.
    pub(super) fn two(&self) -> Option<(LaneOp, [u32; 2])> {
        let [x, y, NONE] = self.args else {
            return None;
        };
        let op = self.op.filter(|_| !self.row && x != NONE && y != NONE)?;
        Some((op, [x, y]))
    }
}

/// What an instruction does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// A lane over the tile.
    Tile(Lane),
    /// A lane over one element for each row.
    Row(Lane),
    /// Folds rows into accumulators, and narrows these.
    Fold(Fold, Lane),
    /// Repeats elements along their rows.
    Expand(Expand),
    /// An operation of the tile with one element for each row.
    Along(Along),
    /// The chain of operations with this position.
    Chain(u32),
    /// A lane over the tile with a second result, whose place is the second argument.
    Both(Lane),
    /// Nothing, and no instruction: it is the second result of an earlier one.
    Beside,
    /// The machine code of the segment with this position.
    Code(u32),
    /// Nothing, and no instruction: it is inside of a segment.
    Inside,
}

/// A requested result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) reg: u32,
    /// The reduction of a reduced result, and how it splits the space.
    pub(super) reduce: Option<(ReduceOp, Split)>,
}

/// Nanoseconds that an addition takes per element, roughly.
#[allow(clippy::match_same_arms)]
pub(super) fn unit_cost(dtype: DType) -> f64 {
    match dtype {
        DType::Bool | DType::I8 | DType::U8 => 0.02,
        DType::I16 | DType::U16 => 0.04,
        DType::I32 | DType::U32 | DType::F32 => 0.04,
        DType::I64 | DType::U64 | DType::F64 => 0.07,
        DType::F16 | DType::Bf16 => 0.2,
        DType::C64 => 0.2,
        DType::C128 => 0.3,
    }
}

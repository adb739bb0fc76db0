//! Tiles of whole rows: a reduction over the last axes whose result is read again in the same pass, as
//! in a softmax or a normalisation.

use super::builder::FusedBuilder;
use super::node::{NONE, Node, Reg, Work, unit_cost};
use super::plan::Split;
use super::reduce::{ReduceOp, SHORT_ROW, kernels};
use super::row_kernels::{along, choice, count, expand};
use super::scalar::Code;
use crate::aval::{DType, Shape};
use crate::error::{Error, Result};
use crate::kernels::lane::LaneOp;
use crate::kernels::simd_level::Level;

/// Rows shorter than this are repeated instead.
const LONG_ROW: usize = 64;

impl FusedBuilder {
    /// A program over the row-major space of this shape whose tiles hold whole rows: elements that differ
    /// only in the axes from `kept` on.
    pub fn with_rows(shape: &[usize], kept: usize) -> FusedBuilder {
        let mut builder = FusedBuilder::new(shape);
        builder.rows = true;
        builder.kept = kept;
        builder.split = Some(Split {
            outer: shape[..kept].iter().product(),
            reduced: shape[kept..].iter().product(),
            inner: 1,
        });
        builder
    }

    /// The length of the rows; 0 where tiles are not made of them.
    fn row_length(&self) -> usize {
        self.split.filter(|_| self.rows).map_or(0, |s| s.reduced)
    }

    /// Whether rows of this dtype can be reduced so.
    pub fn folds(op: ReduceOp, dtype: DType) -> bool {
        kernels(op, dtype, true).is_some()
    }

    /// Whether a register has one element for each row.
    pub fn is_row(&self, x: Reg) -> bool {
        self.nodes[x.0 as usize].row
    }

    /// The next input, with one element for each row: its value broadcasts to this shape, which has as
    /// many elements as there are rows.
    pub fn row_input(&mut self, dtype: DType, shape: &[usize]) -> Reg {
        let reg = self.input(dtype);
        self.nodes[reg.0 as usize].row = true;
        self.row_inputs.push((reg.0, Shape::from_slice(shape)));
        reg
    }

    /// The reduction of each row.
    pub fn fold_rows(&mut self, op: ReduceOp, x: Reg) -> Result<Reg> {
        let dtype = self.dtype(x);
        let found = kernels(op, dtype, true).filter(|_| self.rows && !self.is_row(x));
        let Some(kernels) = found else {
            let message = format!("fused {op:?} of rows: does not exist for {dtype} here");
            return Err(Error::DType(message));
        };
        let short = self.row_length() < SHORT_ROW;
        self.cost += if short { 1.5 } else { 1.0 } * unit_cost(dtype);
        let mask = self.mask_of(x).filter(|_| op == ReduceOp::Sum);
        let (fold, x) = match mask {
            Some(mask) if kernels.acc == DType::F64 => (count(Level::best()), mask),
            _ => (kernels.of_rows(op, dtype, self.row_length()).rows, x.0),
        };
        Ok(self.push(Node {
            code: Code::Lane,
            work: Some(Work::Fold(fold, kernels.narrow)),
            op: None,
            args: [x, NONE, NONE],
            dtype,
            long: false,
            row: true,
            number: false,
        }))
    }

    /// The mask that a register is, as numbers.
    fn mask_of(&self, x: Reg) -> Option<u32> {
        let node = &self.nodes[x.0 as usize];
        let [mask, NONE, NONE] = node.args else {
            return None;
        };
        let is_cast = node.op.is_none() && matches!(node.work, Some(Work::Tile(_)));
        (is_cast && self.nodes[mask as usize].dtype == DType::Bool).then_some(mask)
    }

    /// The element of each row, repeated along it.
    pub fn expand(&mut self, x: Reg) -> Reg {
        if !self.is_row(x) {
            return x;
        }
        let dtype = self.dtype(x);
        let short = self.row_length() < SHORT_ROW;
        self.cost += if short { 2.0 } else { 0.5 } * unit_cost(dtype);
        self.push(Node {
            code: Code::Lane,
            work: Some(Work::Expand(expand(dtype.size(), self.row_length()))),
            op: None,
            args: [x.0, NONE, NONE],
            dtype,
            long: false,
            row: false,
            number: false,
        })
    }
}

/// Lets operations read the elements of rows as they are, where one operand was repeated along its rows
/// and the operation is not part of a chain. What nobody else reads is then not repeated at all.
pub(super) fn read_rows(nodes: &mut [Node], length: usize) {
    if length < LONG_ROW {
        return;
    }
    let repeated = |nodes: &[Node], x: u32| match nodes.get(x as usize)?.work {
        Some(Work::Expand(_)) => Some(nodes[x as usize].args[0]),
        _ => None,
    };
    for j in 0..nodes.len() {
        let args = nodes[j].args;
        let found = if let Some((op, [x, y])) = nodes[j].two() {
            [(x, y, false), (y, x, true)]
                .into_iter()
                .find_map(|(tile, y, turned)| {
                    let row = repeated(nodes, y).filter(|_| tile != y)?;
                    let along = along(op, turned, nodes[tile as usize].dtype)?;
                    Some((along, [tile, row, NONE]))
                })
        } else if nodes[j].op == Some(LaneOp::Where) && !nodes[j].row {
            let [mask, x, y] = args;
            [(x, y, false), (y, x, true)]
                .into_iter()
                .find_map(|(x, tile, turned)| {
                    let row = repeated(nodes, x).filter(|_| tile != x)?;
                    let choice = choice(turned, nodes[j].dtype)?;
                    Some((choice, [mask, row, tile]))
                })
        } else {
            None
        };
        if let Some((along, args)) = found {
            nodes[j].work = Some(Work::Along(along));
            nodes[j].code = Code::Lane;
            nodes[j].op = None;
            nodes[j].args = args;
        }
    }
}

//! Collecting the operations of a fused group, with the checks that a front end relies on.

use super::node::{NONE, Node, Reg, Request, Work, unit_cost};
use super::over_rows::{Over, Read, Rows};
use super::plan::Split;
use super::reduce::{self, ReduceOp};
use super::scalar;
use crate::aval::{DType, Shape};
use crate::error::{Error, Result};
use crate::kernels::lane::{self, LaneOp};

/// Collects the operations of a group.
#[derive(Debug, Clone)]
pub struct FusedBuilder {
    pub(super) shape: Shape,
    pub(super) nodes: Vec<Node>,
    pub(super) inputs: Vec<u32>,
    /// Inputs with one element for each row, and the shape that they broadcast to.
    pub(super) row_inputs: Vec<(u32, Shape)>,
    pub(super) requests: Vec<Request>,
    /// Whether tiles hold whole rows, those of `split`.
    pub(super) rows: bool,
    /// The split that the tiles follow: that of the reductions that are not full.
    pub(super) split: Option<Split>,
    /// How many axes tell rows apart.
    pub(super) kept: usize,
    /// How tiles of rows follow reductions over other axes.
    pub(super) over: Over,
    /// Nanoseconds per element.
    pub(super) cost: f64,
}

impl FusedBuilder {
    /// A program without operations over the row-major space of this shape.
    pub fn new(shape: &[usize]) -> FusedBuilder {
        FusedBuilder {
            shape: Shape::from_slice(shape),
            nodes: Vec::new(),
            inputs: Vec::new(),
            row_inputs: Vec::new(),
            requests: Vec::new(),
            rows: false,
            split: None,
            kept: 0,
            over: Over::default(),
            cost: 0.0,
        }
    }

    /// The rows that tiles are made of.
    pub(super) fn rows_of_space(&self) -> Rows {
        let split = self.split.filter(|_| self.rows);
        Rows {
            count: split.map_or(0, |s| s.outer),
            length: split.map_or(0, |s| s.reduced),
        }
    }

    /// How many elements of the space have one element of a register.
    fn shared_by(&self, is_row: bool) -> f64 {
        let length = if is_row {
            self.rows_of_space().length
        } else {
            1
        };
        length.max(1) as f64
    }

    pub(super) fn push(&mut self, node: Node) -> Reg {
        self.nodes.push(node);
        Reg((self.nodes.len() - 1) as u32)
    }

    /// The dtype of a register.
    pub fn dtype(&self, x: Reg) -> DType {
        self.nodes[x.0 as usize].dtype
    }

    /// The next input. Its value at run time has any shape that broadcasts to the program's, and
    /// any strides.
    pub fn input(&mut self, dtype: DType) -> Reg {
        let reg = self.push(Node {
            work: None,
            op: None,
            code: scalar::Code::Lane,
            args: [NONE; 3],
            dtype,
            long: false,
            row: false,
            number: false,
        });
        self.inputs.push(reg.0);
        self.cost += 0.01 * dtype.size() as f64;
        reg
    }

    /// The next input, whose value at run time has one element.
    pub fn number(&mut self, dtype: DType) -> Reg {
        let reg = self.input(dtype);
        self.nodes[reg.0 as usize].number = true;
        reg
    }

    /// An operation. Its operands have one dtype (for `Where`, a bool mask and two of one dtype).
    pub fn op(&mut self, op: LaneOp, args: &[Reg]) -> Result<Reg> {
        let refuse = |what: String| Err(Error::DType(format!("fused {op:?}: {what}")));
        if args.len() != op.arity() {
            return refuse(format!("takes {} operands, not {}", op.arity(), args.len()));
        }
        let values = if op == LaneOp::Where {
            &args[1..]
        } else {
            args
        };
        let dtype = self.dtype(values[0]);
        if values.iter().any(|&x| self.dtype(x) != dtype) {
            return refuse("operands of different dtypes".to_owned());
        }
        if op == LaneOp::Where && self.dtype(args[0]) != DType::Bool {
            return refuse(format!("the mask is {}, not bool", self.dtype(args[0])));
        }
        let row = self.is_row(args[0]);
        if args.iter().any(|&x| self.is_row(x) != row) {
            return refuse("elements of rows beside elements of the whole space".to_owned());
        }
        let Some(lane) = lane::lane(op, dtype) else {
            return refuse(format!("does not exist for {dtype}"));
        };
        if matches!(op, LaneOp::Conj | LaneOp::Real) && !dtype.is_complex() {
            return Ok(args[0]);
        }
        self.cost += op.weight() * unit_cost(dtype) / self.shared_by(row);
        let mut registers = [NONE; 3];
        for (r, x) in registers.iter_mut().zip(args) {
            *r = x.0;
        }
        Ok(self.push(Node {
            work: Some(if row {
                Work::Row(lane)
            } else {
                Work::Tile(lane)
            }),
            op: Some(op),
            code: scalar::code(op, dtype),
            args: registers,
            dtype: lane::result_dtype(op, dtype),
            long: op.is_long(),
            row,
            number: false,
        }))
    }

    /// A conversion, as NumPy's `astype`.
    pub fn cast(&mut self, x: Reg, to: DType) -> Reg {
        let from = self.dtype(x);
        if from == to {
            return x;
        }
        let (lane, row) = (lane::cast_lane(from, to), self.is_row(x));
        self.cost += unit_cost(from).max(unit_cost(to)) / self.shared_by(row);
        self.push(Node {
            work: Some(if row {
                Work::Row(lane)
            } else {
                Work::Tile(lane)
            }),
            op: None,
            code: scalar::Code::Lane,
            args: [x.0, NONE, NONE],
            dtype: to,
            long: false,
            row,
            number: false,
        })
    }

    /// Makes a register the next output: an array of the program's shape, or, from a register of rows,
    /// one element for each.
    pub fn output(&mut self, x: Reg) {
        if !self.is_row(x) {
            self.cost += 0.01 * self.dtype(x).size() as f64;
        }
        self.requests.push(Request {
            reg: x.0,
            reduce: None,
        });
    }

    /// Makes the reduction of a register over these axes, which are dropped, the next output.
    ///
    /// `false`, and nothing is added, when the pattern is not supported: axes that are kept between
    /// reduced ones, another pattern than that of an earlier reduction (a full one fits to all; for tiles of rows
    /// see [`Over::takes`]), sums and products of bool, extrema of complex numbers.
    pub fn reduce(&mut self, op: ReduceOp, x: Reg, axes: &[usize]) -> bool {
        let dtype = self.dtype(x);
        let is_row = self.is_row(x);
        let shape = if is_row {
            &self.shape[..self.kept]
        } else {
            &self.shape[..]
        };
        let Some(split) = Split::of(shape, axes) else {
            return false;
        };
        if self.rows && !is_row && Some(split) == self.split {
            // Axes of length one make other axes the same rows: a register has their results.
            let Ok(folded) = self.fold_rows(op, x) else {
                return false;
            };
            self.output(folded);
            return true;
        }
        if reduce::kernels(op, dtype, split.is_full() || split.inner == 1).is_none() {
            return false;
        }
        if self.rows {
            let size = dtype.size();
            let read = Read {
                split,
                size,
                is_row,
            };
            if !self.over.takes(read, self.rows_of_space()) {
                return false;
            }
        } else if !split.is_full() {
            if self.split.is_some_and(|s| s != split) {
                return false;
            }
            self.split = Some(split);
        }
        self.cost += unit_cost(dtype) / self.shared_by(is_row);
        self.requests.push(Request {
            reg: x.0,
            reduce: Some((op, split)),
        });
        true
    }
}

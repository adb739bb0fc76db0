//! Fused groups: a program of elementwise operations, run tile by tile.
//!
//! A group is a linear program over registers. Each operation is one lane call over a tile of some
//! hundred or thousand elements, so that intermediate results never leave the first-level cache;
//! inputs and outputs that lie contiguously are read and written in place. Reductions take their
//! operand while its tile is in the cache. Where a tile holds whole rows, the result of a reduction over
//! them can be read again in the same tile: it is a register with one element for each row.
//!
//! How the work is divided depends on the program and its shape only, never on the number of
//! threads, and partial results are combined in a fixed order: same inputs, same bits.

mod bound;
mod build;
#[cfg(test)]
mod chain_tests;
mod op_chains;
#[cfg(test)]
mod pair_tests;
mod paired_ops;
mod plan;
mod prefetch;
mod reduce;
#[cfg(test)]
mod row_tests;
mod row_tiles;
mod run;
mod scalar;
mod scratch;
mod strided_input;
#[cfg(test)]
mod tests;

pub use bound::BoundFused;

use crate::aval::{DType, Shape};
use crate::error::{Error, Result};
use crate::kernels::lane::{self, Lane, LaneOp};

/// What a reduction does with two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum; integers wrap.
    Sum,
    /// Product; integers wrap.
    Prod,
    /// Largest, NaN when there is one; on bool, whether any is true.
    Max,
    /// Smallest, NaN when there is one; on bool, whether all are true.
    Min,
}

/// A value in a program under construction: an input or the result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reg(u32);

/// No register.
const NONE: u32 = u32::MAX;

/// A value of the program, in the order of definition.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// `None` for inputs.
    work: Option<Work>,
    /// The operation that it is, where that is a single one.
    op: Option<LaneOp>,
    code: scalar::Code,
    /// Its operands; of [`Work::Both`], its operand and the node of its second result.
    args: [u32; 3],
    dtype: DType,
    /// Whether the lane is slower when its result lies where an operand lies.
    long: bool,
    /// Whether it has one element for each row.
    row: bool,
    /// Whether it is an input of one element for the whole space.
    number: bool,
}

impl Node {
    /// The operation and its operands, where it is a single one on two elements of the space.
    fn two(&self) -> Option<(LaneOp, [u32; 2])> {
        let [x, y, NONE] = self.args else {
            return None;
        };
        let op = self.op.filter(|_| !self.row && x != NONE && y != NONE)?;
        Some((op, [x, y]))
    }
}

/// What an instruction does.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// A lane over the tile.
    Tile(Lane),
    /// A lane over one element for each row.
    Row(Lane),
    /// Folds rows into accumulators, and narrows these.
    Fold(row_tiles::Fold, Lane),
    /// Repeats elements along their rows.
    Expand(row_tiles::Expand),
    /// An operation of the tile with one element for each row.
    Along(row_tiles::Along),
    /// The chain of operations with this position.
    Chain(u32),
    /// A lane over the tile with a second result, whose place is the second argument.
    Both(Lane),
    /// Nothing, and no instruction: it is the second result of an earlier one.
    Beside,
}

/// A requested result.
#[derive(Debug, Clone, Copy)]
struct Request {
    reg: u32,
    /// The reduction of a reduced result, and how it splits the space.
    reduce: Option<(ReduceOp, Split)>,
}

/// A row-major space as (outer, reduced, inner): the reduction runs over the one in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Split {
    outer: usize,
    reduced: usize,
    inner: usize,
}

impl Split {
    /// The split of a shape; `None` when other axes lie between the reduced ones.
    fn of(shape: &[usize], axes: &[usize]) -> Option<Split> {
        let mut split = Split {
            outer: 1,
            reduced: 1,
            inner: 1,
        };
        let (mut seen, mut past) = (false, false);
        for (axis, &d) in shape.iter().enumerate().filter(|&(_, &d)| d != 1) {
            match (axes.contains(&axis), seen) {
                (true, _) if past => return None,
                (true, _) => {
                    seen = true;
                    split.reduced *= d;
                }
                (false, true) => {
                    past = true;
                    split.inner *= d;
                }
                (false, false) => split.outer *= d,
            }
        }
        Some(split)
    }

    /// Whether there is a single result.
    fn is_full(self) -> bool {
        self.outer == 1 && self.inner == 1
    }
}

/// Collects the operations of a group.
#[derive(Debug)]
pub struct FusedBuilder {
    shape: Shape,
    nodes: Vec<Node>,
    inputs: Vec<u32>,
    /// Inputs with one element for each row, and the shape that they broadcast to.
    row_inputs: Vec<(u32, Shape)>,
    requests: Vec<Request>,
    /// Whether tiles hold whole rows, those of `split`.
    rows: bool,
    /// The split that the tiles follow: that of the reductions that are not full.
    split: Option<Split>,
    /// Nanoseconds per element.
    cost: f64,
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
            cost: 0.0,
        }
    }

    fn push(&mut self, node: Node) -> Reg {
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
        if !row {
            self.cost += op.weight() * unit_cost(dtype);
        }
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
        if !row {
            self.cost += unit_cost(from).max(unit_cost(to));
        }
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
    /// reduced ones, another pattern than that of an earlier reduction or of the tiles' rows (a full one fits to
    /// all, and one over all rows to tiles of rows), sums and products of bool, extrema of complex numbers.
    pub fn reduce(&mut self, op: ReduceOp, x: Reg, axes: &[usize]) -> bool {
        let dtype = self.dtype(x);
        let Some(split) = Split::of(&self.shape, axes) else {
            return false;
        };
        if self.is_row(x) {
            return false;
        }
        let free = split.is_full() || self.is_columns(split);
        let fits = free || self.split.is_none_or(|s| s == split);
        if self.rows && !free {
            // Axes of length one make other axes the same rows: a register has their results.
            let Some(folded) = fits.then(|| self.fold_rows(op, x).ok()).flatten() else {
                return false;
            };
            self.output(folded);
            return true;
        }
        if !fits || reduce::kernels(op, dtype, split.is_full() || split.inner == 1).is_none() {
            return false;
        }
        if !free {
            self.split = Some(split);
        }
        self.cost += unit_cost(dtype);
        self.requests.push(Request {
            reg: x.0,
            reduce: Some((op, split)),
        });
        true
    }

    /// The finished program: registers allotted, tiles measured.
    pub fn finish(self) -> Fused {
        build::finish(self)
    }
}

/// Nanoseconds that an addition takes per element, roughly.
#[allow(clippy::match_same_arms)]
fn unit_cost(dtype: DType) -> f64 {
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

/// An operation with its operands as positions in the table of addresses.
#[derive(Debug, Clone, Copy)]
struct Instr {
    work: Work,
    /// How it is done for a single element.
    code: scalar::Code,
    out: u32,
    args: [u32; 3],
}

/// An input of a finished program.
#[derive(Debug, Clone)]
struct Input {
    dtype: DType,
    /// Where in the scratch memory a tile of it is gathered.
    offset: usize,
    /// Position after the last instruction that reads it.
    last_read: usize,
    /// The shape that it broadcasts to, when it has one element for each row.
    row: Option<Shape>,
}

/// An output of a finished program.
#[derive(Debug, Clone, Copy)]
struct Output {
    dtype: DType,
    elements: usize,
    /// Position of the instruction that writes it; `None` for reductions.
    written: Option<usize>,
    /// Whether it has one element for each row.
    row: bool,
    /// Where in the scratch memory a tile of it waits until it is written past the caches.
    staged: Option<usize>,
}

/// A program that is ready to run, any number of times and from any thread.
#[derive(Debug)]
pub struct Fused {
    shape: Shape,
    size: usize,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    instrs: Vec<Instr>,
    chains: Vec<op_chains::Chain>,
    reductions: Vec<reduce::Reduction>,
    /// Where in the scratch memory the registers lie.
    slots: Vec<usize>,
    /// Length of the rows that tiles are made of; the whole tile where they are not.
    row: usize,
    /// Where in the scratch memory rows are folded.
    folds: usize,
    scratch: usize,
    plan: plan::Plan,
    /// Whether tiles are asked for before their turn.
    far: bool,
    cost: f64,
}

impl Fused {
    /// Roughly how many nanoseconds a run takes on one thread.
    pub fn cost(&self) -> f64 {
        self.cost * self.size as f64 + 50.0
    }

    /// The number of elements of a tile.
    pub fn tile(&self) -> usize {
        self.plan.tile
    }

    /// The number of registers.
    pub fn registers(&self) -> usize {
        self.slots.len()
    }
}

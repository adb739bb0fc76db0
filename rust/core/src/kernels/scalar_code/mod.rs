//! Straight-line code over single elements: what a program of numbers and small arrays is once its arrays are taken
//! apart.
//!
//! Each line computes one element out of earlier ones, and layouts leave no trace.
//! `machine` makes machine code of it, which computes the same bits as the kernels do: additions and comparisons become
//! instructions, `sin` and its like are calls of the lanes.
#![cfg_attr(not(feature = "machine-code"), allow(dead_code))]

mod bound;
#[cfg(feature = "machine-code")]
mod calls;
#[cfg(feature = "machine-code")]
mod function;
#[cfg(feature = "machine-code")]
mod machine;
#[cfg(feature = "machine-code")]
mod operations;
#[cfg(feature = "machine-code")]
mod places;
#[cfg(feature = "machine-code")]
mod registers;
mod turns;
#[cfg(feature = "machine-code")]
mod vectors;
#[cfg(feature = "machine-code")]
mod waiting;
#[cfg(feature = "machine-code")]
mod writer;

#[cfg(not(feature = "machine-code"))]
pub use bound::no_machine::Code;
pub use bound::{BoundCode, carve};
#[cfg(feature = "machine-code")]
pub use machine::Code;
pub use turns::{BoundTurns, Surroundings, TurnsCode};

use super::lane::{LaneOp, result_dtype};
use crate::aval::DType;
use crate::error::Error;

/// The number of a line.
pub type Line = u32;

/// How an element is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op {
    /// These bits.
    Number(u64),
    /// An element of an input.
    Element { input: u32, index: u32 },
    /// An elementwise operation.
    Lane { op: LaneOp, args: [Line; 3] },
    /// `a * b + c`, rounded once where the processor can.
    MultiplyAdd([Line; 3]),
    /// The same elementwise operation on several operands; its results are the lines after it.
    Lanes { op: LaneOp, first: u32, count: u32 },
    /// The result of this number of the line that is so many before this one.
    Result { number: u32 },
    /// The element of another dtype.
    Cast(Line),
}

/// Why code stops being able to compute what it should, as factorisations can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakdown {
    /// A pivot is zero.
    Singular = 1,
    /// A leading minor is not positive.
    NotPositive = 2,
}

impl Breakdown {
    /// What is told of it.
    pub fn error(self) -> Error {
        let text = match self {
            Breakdown::Singular => "Singular matrix",
            Breakdown::NotPositive => "Matrix is not positive definite",
        };
        Error::LinAlg(text.into())
    }
}

/// The code, and what it reads and writes.
#[derive(Debug, Clone, Default)]
pub struct ScalarCode {
    pub(super) lines: Vec<(Op, DType)>,
    /// The operands of `Lanes`: all first ones, then all second ones.
    pub(super) operands: Vec<Line>,
    /// Lines that are one operation on neighbours: the first of them, and how many they are.
    pub(super) rows: Vec<(Line, u32)>,
    pub(super) inputs: Vec<(DType, usize)>,
    pub(super) outputs: Vec<(DType, usize)>,
    /// Which element of which output a line is.
    pub(super) stores: Vec<(u32, u32, Line)>,
    /// Masks that no element may have set, the first one first.
    pub(super) breakdowns: Vec<(Line, Breakdown)>,
}

/// Whether code can have elements of a dtype: they fit into a register.
pub fn has_scalars(dtype: DType) -> bool {
    !dtype.is_complex()
}

/// Estimated nanoseconds that a long operation on so many elements takes besides.
pub fn long_cost(op: LaneOp, count: usize) -> f64 {
    match count {
        _ if !op.is_long() => 0.0,
        1 => 10.0,
        _ => 20.0 + 2.0 * count as f64,
    }
}

impl Op {
    /// What an operation on one element reads.
    pub(super) fn args(&self) -> &[Line] {
        match self {
            Op::Lane { op, args } => &args[..op.arity()],
            Op::MultiplyAdd(args) => args,
            Op::Cast(arg) => std::slice::from_ref(arg),
            _ => &[],
        }
    }

    pub(super) fn args_mut(&mut self) -> &mut [Line] {
        match self {
            Op::Lane { op, args } => &mut args[..op.arity()],
            Op::MultiplyAdd(args) => args,
            Op::Cast(arg) => std::slice::from_mut(arg),
            _ => &mut [],
        }
    }
}

impl ScalarCode {
    /// Code that does nothing.
    pub fn new() -> ScalarCode {
        ScalarCode::default()
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn push(&mut self, op: Op, dtype: DType) -> Line {
        self.lines.push((op, dtype));
        (self.lines.len() - 1) as Line
    }

    /// The dtype of an element.
    ///
    /// # Panics
    /// When there is no such line.
    pub fn dtype(&self, line: Line) -> DType {
        self.lines[line as usize].1
    }

    /// An element with these bits.
    pub fn number(&mut self, dtype: DType, bits: u64) -> Line {
        self.push(Op::Number(bits), dtype)
    }

    /// The elements of one more input.
    pub fn input(&mut self, dtype: DType, size: usize) -> Vec<Line> {
        let input = self.inputs.len() as u32;
        self.inputs.push((dtype, size));
        (0..size as u32)
            .map(|index| self.push(Op::Element { input, index }, dtype))
            .collect()
    }

    /// An elementwise operation on some elements, `args` being one list for each operand; `None` where it does not exist
    /// for them.
    pub fn lanes(&mut self, op: LaneOp, args: &[Vec<Line>]) -> Option<Vec<Line>> {
        let count = args.first()?.len();
        let typed = usize::from(op == LaneOp::Where);
        let dtype = self.dtype(*args.get(typed)?.first()?);
        let fits = args.len() == op.arity()
            && args.iter().enumerate().all(|(i, list)| {
                let wanted = if op == LaneOp::Where && i == 0 {
                    DType::Bool
                } else {
                    dtype
                };
                list.len() == count && list.iter().all(|&x| self.dtype(x) == wanted)
            });
        let result = result_dtype(op, dtype);
        if !fits
            || !has_scalars(dtype)
            || !has_scalars(result)
            || super::lane::lane(op, dtype).is_none()
        {
            return None;
        }
        if count == 1 || !op.is_long() {
            let line = |i: usize| {
                let mut lines = [0; 3];
                for (to, list) in lines.iter_mut().zip(args) {
                    *to = list[i];
                }
                Op::Lane { op, args: lines }
            };
            let lines = (0..count).map(|i| self.push(line(i), result)).collect();
            return Some(self.row(lines));
        }
        let first = self.operands.len() as u32;
        for list in args {
            self.operands.extend_from_slice(list);
        }
        let count = count as u32;
        self.push(Op::Lanes { op, first, count }, result);
        Some(
            (0..count)
                .map(|number| self.push(Op::Result { number }, result))
                .collect(),
        )
    }

    /// One elementwise operation of two elements.
    pub fn combine(&mut self, op: LaneOp, x: Line, y: Line) -> Option<Line> {
        Some(self.lanes(op, &[vec![x], vec![y]])?[0])
    }

    /// `x * y + z` as products of matrices have it, for some neighbours; `None` for elements that are not of one float
    /// type.
    pub fn multiply_add(&mut self, x: &[Line], y: &[Line], z: &[Line]) -> Option<Vec<Line>> {
        let dtype = self.dtype(*x.first()?);
        let fits = |&line: &Line| self.dtype(line) == dtype;
        let all = x.iter().chain(y).chain(z);
        let sizes = [x, y, z].map(<[Line]>::len);
        if !matches!(dtype, DType::F32 | DType::F64)
            || sizes != [x.len(); 3]
            || !all.clone().all(fits)
        {
            return None;
        }
        let args = x.iter().zip(y).zip(z);
        let lines = args.map(|((&x, &y), &z)| self.push(Op::MultiplyAdd([x, y, z]), dtype));
        let lines = lines.collect();
        Some(self.row(lines))
    }

    /// Remembers that lines are one operation on neighbours.
    fn row(&mut self, lines: Vec<Line>) -> Vec<Line> {
        if lines.len() > 1 {
            self.rows.push((lines[0], lines.len() as u32));
        }
        lines
    }

    /// An element as another dtype; `None` where code cannot have it.
    pub fn cast(&mut self, x: Line, to: DType) -> Option<Line> {
        if self.dtype(x) == to {
            return Some(x);
        }
        has_scalars(to).then(|| self.push(Op::Cast(x), to))
    }

    /// One more output, of these elements; `None` when they are not of one dtype.
    pub fn output(&mut self, dtype: DType, elements: &[Line]) -> Option<()> {
        if elements.iter().any(|&x| self.dtype(x) != dtype) {
            return None;
        }
        let output = self.outputs.len() as u32;
        self.outputs.push((dtype, elements.len()));
        let stores = elements.iter().enumerate();
        self.stores
            .extend(stores.map(|(i, &x)| (output, i as u32, x)));
        Some(())
    }

    /// A run fails if this mask is set; `None` where it is no mask.
    pub fn breaks_down(&mut self, mask: Line, why: Breakdown) -> Option<()> {
        (self.dtype(mask) == DType::Bool).then(|| self.breakdowns.push((mask, why)))
    }

    /// Estimated nanoseconds of a run.
    pub fn cost(&self) -> f64 {
        /// Of a line, and of what is written.
        const LINE: f64 = 0.4;
        /// Of one whose neighbours are computed together with it, and of what is read, with its neighbours or where an
        /// instruction needs it.
        const NEIGHBOUR: f64 = 0.2;
        let mut each = vec![LINE; self.lines.len()];
        for &(first, count) in &self.rows {
            each[first as usize..][..count as usize].fill(NEIGHBOUR);
        }
        let needed = self.needed();
        let lines = (0..each.len()).filter(|&k| needed[k]);
        let line = |k: usize| match self.lines[k].0 {
            Op::Number(_) | Op::Result { .. } => 0.0,
            Op::Element { .. } => NEIGHBOUR,
            Op::Lane { op, .. } => each[k] + long_cost(op, 1),
            Op::Lanes { op, count, .. } => LINE * f64::from(count) + long_cost(op, count as usize),
            _ => each[k],
        };
        lines.map(line).sum::<f64>() + LINE * self.stores.len() as f64
    }

    /// What a call reads, one list for each operand.
    pub(super) fn lists_of(&self, op: Op) -> impl Iterator<Item = &[Line]> {
        let (first, count, arity) = match op {
            Op::Lanes { op, first, count } => (first as usize, count as usize, op.arity()),
            _ => (0, 1, 0),
        };
        self.operands[first..first + arity * count].chunks(count)
    }

    /// For each line whether an output depends on it, or whether the run fails.
    pub(super) fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.lines.len()];
        for &(_, _, line) in &self.stores {
            needed[line as usize] = true;
        }
        for &(line, _) in &self.breakdowns {
            needed[line as usize] = true;
        }
        for k in (0..self.lines.len()).rev() {
            if !needed[k] {
                continue;
            }
            let op = self.lines[k].0;
            for &arg in self.lists_of(op).flatten().chain(op.args()) {
                needed[arg as usize] = true;
            }
            if let Op::Result { number } = op {
                needed[k - 1 - number as usize] = true;
            }
        }
        needed
    }
}

//! Straight-line code as instructions of the code generator.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::function::Writer;
use super::operations::{cast, inline, is_cast_inline, is_inline, register, side_by_side};
use super::registers::{Group, Place, is_float, single};
use super::vectors::{Lines, VECTORS};
use super::{Line, Op};
use crate::kernels::lane::{LaneOp, cast_lane, function_of_one, lane};

impl Writer<'_> {
    /// Writes the function; gives the numbers that it reads.
    pub(super) fn write(mut self) -> Box<[u128]> {
        for node in 0..self.reads.nodes.len() {
            (self.node, self.now) = (node as u32, node as u32);
            let line = self.reads.nodes[node];
            if !self.done[line as usize] {
                self.compute(line);
            }
            self.advance();
            self.forget();
        }
        self.pass_on();
        let mut number = self.b.ins().iconst(types::I32, 0);
        for &(mask, why) in self.code.breakdowns.iter().rev() {
            let mask = self.other(mask);
            let own = self.b.ins().iconst(types::I32, why as i64);
            number = self.b.ins().select(mask, own, number);
        }
        self.b.ins().return_(&[number]);
        self.b.func.sized_stack_slots[self.slot].size = self.size.next_multiple_of(16);
        self.b.finalize();
        self.pool
    }

    /// Writes one node.
    pub(super) fn compute(&mut self, line: Line) {
        if self.reads.vectors[line as usize] == line {
            self.vector(line);
            return;
        }
        let (op, dtype) = self.code.lines[line as usize];
        match op {
            Op::Number(_) | Op::Element { .. } | Op::Result { .. } => {}
            Op::Lane { op, args } => {
                // The dtype of the operands: the first one of `Where` is a mask.
                let typed = self.dtype(args[usize::from(op == LaneOp::Where)]);
                let args = &args[..op.arity()];
                if op == LaneOp::Neg && is_float(typed) {
                    let x = self.operands(args);
                    let value = self.negative(x[0]);
                    self.define(line, value);
                } else if is_inline(op, typed) {
                    let mut x = self.operands(args);
                    x.resize(3, x[0]);
                    let value = inline(&mut self.b, op, typed, [x[0], x[1], x[2]]);
                    self.define(line, value.expect("there are instructions for it"));
                } else if let Some(partner) = self.pairs.get(&line).copied() {
                    self.pair(op, line, partner, args[0]);
                } else if let Some(function) = function_of_one(op, typed) {
                    let ty = register(typed);
                    let result = self.call_of_one(function, args[0], &[ty]);
                    self.define(line, result[0]);
                } else {
                    let function = lane(op, typed).expect("code has what there is");
                    let lists: Vec<&[Line]> = args.chunks(1).collect();
                    self.call(function, &lists, line, 1);
                }
            }
            Op::MultiplyAdd(args) => {
                let x = self.operands(&args);
                let value = self.multiply_add(&args.map(single), &x);
                self.define(line, value);
            }
            Op::Lanes {
                op: lanes, count, ..
            } => {
                let code = self.code;
                let lists: Vec<&[Line]> = code.lists_of(op).collect();
                let typed = lists[usize::from(lanes == LaneOp::Where)][0];
                let function = lane(lanes, self.dtype(typed)).expect("code has what there is");
                self.call(function, &lists, line, count as usize);
            }
            Op::Cast(arg) => {
                let from = self.dtype(arg);
                if is_cast_inline(from, dtype) {
                    let x = self.operands(&[arg])[0];
                    let value = cast(&mut self.b, x, from, dtype);
                    self.define(line, value.expect("there are instructions for it"));
                } else {
                    self.call(cast_lane(from, dtype), &[&[arg]], line, 1);
                }
            }
        }
    }

    /// Writes lines that are computed side by side.
    pub(super) fn vector(&mut self, first: Line) {
        let op = self.op(first);
        let lines: Vec<Lines> = (0..op.args().len())
            .map(|operand| self.code.read_by(first, operand))
            .collect();
        let groups: Vec<Group> = lines.iter().map(|&lines| self.reads.group(lines)).collect();
        let x = self.fetch(&groups);
        let value = match op {
            Op::Lane {
                op: LaneOp::Neg, ..
            } => self.negative(x[0]),
            Op::Lane { op, .. } => side_by_side(&mut self.b, op, &x),
            _ => self.multiply_add(&[lines[0], lines[1], lines[2]], &x),
        };
        self.define(first, value);
    }

    /// `x * y + z`. The result takes the register of a factor, so one that is not needed any more comes first.
    pub(super) fn multiply_add(&mut self, lines: &[Lines; 3], x: &[Value]) -> Value {
        if !self.fma {
            let product = self.b.ins().fmul(x[0], x[1]);
            return self.b.ins().fadd(product, x[2]);
        }
        let is_needed = |w: &mut Self, lines: Lines| {
            let group = w.reads.group(lines);
            w.in_register(group).is_some() && w.reads.next_of_group(group, w.now + 1).is_some()
        };
        let swap = is_needed(self, lines[0]) && !is_needed(self, lines[1]);
        let (first, second) = if swap { (x[1], x[0]) } else { (x[0], x[1]) };
        self.b.ins().fma(first, second, x[2])
    }

    /// Writes the outputs that nothing is computed for.
    pub(super) fn pass_on(&mut self) {
        let code = self.code;
        let is_given = |line: Line| {
            matches!(
                code.lines[line as usize].0,
                Op::Element { .. } | Op::Number(_)
            )
        };
        let mut stores = code.stores.iter().filter(|s| is_given(s.2)).peekable();
        while let Some(&(output, index, line)) = stores.next() {
            let dtype = self.dtype(line);
            let size = dtype.size();
            let to = Place::Output(output, (index as usize * size) as i32);
            let mut value = None;
            if let (Op::Element { input, index: from }, 8, true) = (self.op(line), size, VECTORS) {
                let next = |&&(o, i, x): &&(u32, u32, Line)| {
                    let element = Op::Element {
                        input,
                        index: from + 1,
                    };
                    (o, i) == (output, index + 1) && code.lines[x as usize].0 == element
                };
                if stores.peek().is_some_and(next) {
                    stores.next();
                    let from = Place::Input(input, (from as usize * size) as i32);
                    value = Some(self.load(types::I64X2, from));
                }
            }
            let value = match value {
                Some(value) => value,
                None if is_float(dtype) => self.element(line),
                None => self.other(line),
            };
            self.store(value, to);
        }
    }
}

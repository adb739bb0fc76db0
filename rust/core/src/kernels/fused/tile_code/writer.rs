//! Machine code of a segment: which value is in which register, and when it is written to memory.

use std::collections::HashMap;

use super::super::node::NONE;
use super::assembler::{Assembler, Constant, REGISTERS, Source, Two};
use super::recompute::{Ops, with_copies};
use super::segments::Segment;
use crate::kernels::lane::LaneOp;

/// A value in memory is taken into a free register for its next use, if that is so near.
const NEAR: usize = 24;

/// Where the values of a segment are that others make or read.
pub(super) struct Places<'p> {
    /// The position of a value in the table of addresses.
    pub(super) address: &'p dyn Fn(u32) -> u32,
    /// Whether a value is one number for all elements.
    pub(super) is_number: &'p dyn Fn(u32) -> bool,
    /// Whether an address is that of an input, and whether it is that of an output.
    pub(super) is_input: &'p dyn Fn(u32) -> bool,
    pub(super) is_output: &'p dyn Fn(u32) -> bool,
}

/// What is known of code that has been written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) entry: usize,
    /// Blocks of local memory.
    pub(super) locals: usize,
    /// Addresses of inputs that are read after an output was written.
    pub(super) late: Vec<u32>,
}

/// Writes the function of a segment.
pub(super) fn write(code: &mut Assembler, segment: &Segment, places: &Places) -> Written {
    let (entry, start) = code.begin(segment.dtype);
    let ops = with_copies(segment, places.is_number);
    let mut writer = Writer {
        code,
        segment,
        places,
        uses: uses(&ops),
        ops,
        registers: [NONE; REGISTERS],
        in_register: HashMap::new(),
        local: HashMap::new(),
        free: Vec::new(),
        locals: 0,
        has_output: false,
        late: Vec::new(),
        position: 0,
    };
    for position in 0..writer.ops.len() {
        writer.position = position;
        writer.operation();
    }
    let (locals, late) = (writer.locals as usize, writer.late);
    code.end(start);
    Written {
        entry,
        locals,
        late,
    }
}

/// For each value the operations that read it, the last one first.
fn uses(ops: &Ops) -> HashMap<u32, Vec<usize>> {
    let mut uses: HashMap<u32, Vec<usize>> = HashMap::new();
    for (position, (_, _, args)) in ops.iter().enumerate().rev() {
        for &a in args.iter().filter(|&&a| a != NONE) {
            uses.entry(a).or_default().push(position);
        }
    }
    uses
}

struct Writer<'w> {
    code: &'w mut Assembler,
    segment: &'w Segment,
    places: &'w Places<'w>,
    ops: Ops,
    uses: HashMap<u32, Vec<usize>>,
    /// The values that registers have.
    registers: [u32; REGISTERS],
    in_register: HashMap<u32, u8>,
    /// The blocks of local memory that values are in, and those that are free.
    local: HashMap<u32, u32>,
    free: Vec<u32>,
    locals: u32,
    has_output: bool,
    late: Vec<u32>,
    position: usize,
}

impl Writer<'_> {
    /// The next operation that reads a value, after this one.
    fn next(&self, x: u32) -> Option<usize> {
        let uses = self.uses.get(&x)?;
        uses.iter().rev().copied().find(|&p| p > self.position)
    }

    /// Whether a value is in the table of addresses by now.
    fn has_address(&self, x: u32) -> bool {
        // Values of this segment are written as soon as they are there.
        self.segment.reads.binary_search(&x).is_ok()
            || self.segment.results.binary_search(&x).is_ok()
    }

    fn source(&mut self, x: u32) -> Source {
        if let Some(&r) = self.in_register.get(&x) {
            return Source::Register(r);
        }
        if let Some(&slot) = self.local.get(&x) {
            return Source::Local(slot);
        }
        let address = (self.places.address)(x);
        if (self.places.is_number)(x) {
            return Source::Number(address);
        }
        if self.has_output && (self.places.is_input)(address) {
            self.late.push(address);
        }
        Source::Tile(address)
    }

    fn operation(&mut self) {
        let (j, op, [x, y, _]) = self.ops[self.position];
        self.fetch([x, y]);
        let (two, mut first, mut second) = match op {
            LaneOp::Add => (Two::Add, self.source(x), self.source(y)),
            LaneOp::Sub => (Two::Sub, self.source(x), self.source(y)),
            LaneOp::Mul => (Two::Mul, self.source(x), self.source(y)),
            LaneOp::Div => (Two::Div, self.source(x), self.source(y)),
            LaneOp::Square => (Two::Mul, self.source(x), self.source(x)),
            LaneOp::Neg => (Two::Xor, self.source(x), Source::Constant(Constant::Sign)),
            LaneOp::Abs => (Two::And, self.source(x), Source::Constant(Constant::Rest)),
            LaneOp::Reciprocal => (Two::Div, Source::Constant(Constant::One), self.source(x)),
            // Its one operand is the first; see below.
            LaneOp::Sqrt => (Two::Add, self.source(x), self.source(x)),
            _ => unreachable!("there is no code for {op:?}"),
        };
        if matches!(two, Two::Add | Two::Mul)
            && matches!((first, second), (_, Source::Register(_)))
            && !matches!(first, Source::Register(_))
        {
            std::mem::swap(&mut first, &mut second);
        }
        let keeps = match (first, second) {
            // What is loaded must not lie where the other operand is.
            (Source::Register(_), _) => None,
            (_, Source::Register(r)) => Some(r),
            _ => None,
        };
        let to = self.room([x, y], keeps);
        if op == LaneOp::Sqrt {
            self.code.sqrt(to, first);
        } else {
            let first_register = if let Source::Register(r) = first {
                r
            } else {
                self.code.load(to, first);
                if second == first {
                    second = Source::Register(to);
                }
                to
            };
            self.code.two(two, to, first_register, second);
        }
        for a in [x, y] {
            self.drop_dead(a, to);
        }
        self.registers[to as usize] = j;
        self.in_register.insert(j, to);
        if self.segment.results.binary_search(&j).is_ok() {
            let address = (self.places.address)(j);
            self.code.store(to, Source::Tile(address));
            self.has_output |= (self.places.is_output)(address);
        }
        if self.next(j).is_none() {
            self.drop_dead(j, NONE_REGISTER);
        }
    }

    /// Takes operands that are read again soon into registers that are free.
    fn fetch(&mut self, args: [u32; 2]) {
        for x in args.into_iter().filter(|&x| x != NONE) {
            let is_near = self.next(x).is_some_and(|p| p - self.position <= NEAR);
            if self.in_register.contains_key(&x) || !is_near {
                continue;
            }
            // One has to be left for the result.
            let mut free = (0..REGISTERS).filter(|&r| self.registers[r] == NONE);
            let (Some(r), Some(_)) = (free.next(), free.next()) else {
                continue;
            };
            let from = self.source(x);
            if matches!(from, Source::Number(_)) {
                continue;
            }
            self.code.load(r as u8, from);
            self.registers[r] = x;
            self.in_register.insert(x, r as u8);
        }
    }

    /// A register for the result of an operation on these: one that is free, or will be; or that of the value whose next
    /// use is the furthest.
    fn room(&mut self, args: [u32; 2], keeps: Option<u8>) -> u8 {
        for x in args.into_iter().filter(|&x| x != NONE) {
            if let Some(&r) = self.in_register.get(&x)
                && self.next(x).is_none()
                && Some(r) != keeps
            {
                return r;
            }
        }
        if let Some(r) = self.registers.iter().position(|&x| x == NONE) {
            return r as u8;
        }
        let candidates = self.registers.iter().enumerate();
        let (r, x) = candidates
            .filter(|(_, x)| !args.contains(x))
            .map(|(r, &x)| (r as u8, x))
            .max_by_key(|&(_, x)| self.next(x))
            .expect("there are more registers than operands");
        if !self.has_address(x) && !self.local.contains_key(&x) {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.locals += 1;
                self.locals - 1
            });
            self.local.insert(x, slot);
            self.code.store(r, Source::Local(slot));
        }
        self.in_register.remove(&x);
        r
    }

    /// Gives back what a value has that is not read again; its register may be that of the result already.
    fn drop_dead(&mut self, x: u32, result: u8) {
        if x == NONE || self.next(x).is_some() {
            return;
        }
        if let Some(r) = self.in_register.remove(&x)
            && r != result
        {
            self.registers[r as usize] = NONE;
        }
        if let Some(slot) = self.local.remove(&x) {
            self.free.push(slot);
        }
    }
}

const NONE_REGISTER: u8 = u8::MAX;

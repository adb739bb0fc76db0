//! A function of the code generator while it is written, and what is known of its lines.

use cranelift_codegen::ir::{
    AbiParam, InstBuilder, SigRef, StackSlot, StackSlotData, StackSlotKind, Type, Value, types,
};
use cranelift_frontend::FunctionBuilder;

use super::operations::{has_fma, register};
use super::registers::{Group, Place, Reads, elements, single};
use super::vectors::{Lines, NONE, pairs, width};
use super::{Line, Op, ScalarCode};
use crate::aval::DType;
use crate::util::FastMap;

/// The bits of negative zeros, behind which the other numbers lie.
const SIGN_F64: u64 = 1 << 63;
const SIGN_F32: u32 = 1 << 31;

/// A function while it is written.
pub(super) struct Writer<'a> {
    pub(super) b: FunctionBuilder<'a>,
    pub(super) code: &'a ScalarCode,
    pub(super) reads: Reads,
    /// The node that is written.
    pub(super) node: u32,
    /// The same, or the next one once its operands have been read.
    pub(super) now: u32,
    pub(super) table: Value,
    /// Addresses of the table that wait in registers, the last one used last.
    pub(super) addresses: Vec<(usize, Value)>,
    /// Values that wait in registers.
    pub(super) waiting: Vec<(Group, Value)>,
    /// Where computed floats lie.
    pub(super) places: Vec<Option<Place>>,
    /// Which values have been read for the last time by a node.
    pub(super) ends: FastMap<u32, Vec<Line>>,
    /// Elements that are no floats.
    pub(super) values: Vec<Option<Value>>,
    /// Lines that have been computed before their turn.
    pub(super) done: Vec<bool>,
    /// Which elements of which outputs a line is.
    pub(super) stores: FastMap<Line, Vec<(u32, u32)>>,
    /// Where numbers lie, and these.
    pub(super) numbers: FastMap<Lines, i32>,
    pub(super) pool: Box<[u128]>,
    pub(super) pool_address: Option<Value>,
    /// How lanes are called.
    pub(super) signature: SigRef,
    /// How functions of one float are called, with so many results.
    pub(super) of_one: FastMap<(Type, usize), SigRef>,
    /// For some sines and cosines the other one of the same angle.
    pub(super) pairs: FastMap<u32, u32>,
    /// Memory of the function, where it lies, its size, and rooms in it that are free, by their bytes.
    pub(super) slot: StackSlot,
    pub(super) stack: Value,
    pub(super) size: u32,
    pub(super) free: FastMap<u32, Vec<i32>>,
    pub(super) fma: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(mut b: FunctionBuilder<'a>, code: &'a ScalarCode) -> Writer<'a> {
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let table = b.block_params(block)[0];
        let mut signature = b.func.signature.clone();
        signature.params = vec![AbiParam::new(types::I64); 6];
        signature.returns.clear();
        let signature = b.import_signature(signature);
        let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 0, 5));
        let stack = b.ins().stack_addr(types::I64, slot, 0);
        let needed = code.needed();
        let reads = Reads::of(code, &needed);
        let mut stores: FastMap<Line, Vec<(u32, u32)>> = FastMap::default();
        for &(output, index, line) in &code.stores {
            stores.entry(line).or_default().push((output, index));
        }
        let mut ends: FastMap<u32, Vec<Line>> = FastMap::default();
        for line in 0..code.lines.len() as Line {
            if let Some(last) = reads.last_of_line(line) {
                ends.entry(last).or_default().push(line);
            }
        }
        let mut writer = Writer {
            reads,
            node: 0,
            now: 0,
            table,
            addresses: Vec::new(),
            waiting: Vec::new(),
            places: vec![None; code.lines.len()],
            ends,
            values: vec![None; code.lines.len()],
            done: vec![false; code.lines.len()],
            stores,
            numbers: FastMap::default(),
            pool: Box::default(),
            pool_address: None,
            signature,
            of_one: FastMap::default(),
            pairs: pairs(code, &needed),
            slot,
            stack,
            size: 0,
            free: FastMap::default(),
            fma: has_fma(),
            b,
            code,
        };
        writer.collect_numbers(&needed);
        writer
    }
}

/// What is known of lines.
impl Writer<'_> {
    pub(super) fn op(&self, line: Line) -> Op {
        self.code.lines[line as usize].0
    }

    pub(super) fn dtype(&self, line: Line) -> DType {
        self.code.lines[line as usize].1
    }

    /// Finds places for all numbers that are read as floats, behind those that have only a sign.
    pub(super) fn collect_numbers(&mut self, needed: &[bool]) {
        // As wide as a register and as aligned, also for single elements: the instruction reads all of it.
        let mut bytes: Vec<u8> = [SIGN_F64.to_ne_bytes(); 2].concat();
        bytes.extend([SIGN_F32.to_ne_bytes(); 4].concat());
        let bits = |line: Line| match self.code.lines[line as usize] {
            (Op::Number(bits), DType::F64) => Some(bits.to_ne_bytes().to_vec()),
            (Op::Number(bits), DType::F32) => Some((bits as u32).to_ne_bytes().to_vec()),
            _ => None,
        };
        let all = self.reads.groups().iter().copied();
        let several = all.filter(|lines| lines[1] != NONE);
        let singles = (0..needed.len()).filter(|&k| needed[k]);
        for lines in several.chain(singles.map(|k| single(k as Line))) {
            let all: Option<Vec<Vec<u8>>> = elements(&lines).iter().map(|&x| bits(x)).collect();
            let Some(all) = all else { continue };
            self.numbers.insert(lines, bytes.len() as i32);
            bytes.extend(all.concat());
        }
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let word = |x: &[u8]| u128::from_ne_bytes(x.try_into().unwrap_or_default());
        self.pool = bytes.chunks(16).map(word).collect();
    }

    /// How many lines something computes that begins with this one.
    pub(super) fn count(&self, owner: Line) -> usize {
        match self.reads.vectors[owner as usize] {
            NONE => 1,
            _ => width(self.dtype(owner)),
        }
    }

    pub(super) fn ty(&self, lines: &Lines) -> Type {
        let ty = register(self.dtype(lines[0]));
        match elements(lines).len() {
            1 => ty,
            count => ty.by(count as u32).expect("vectors have 128 bits"),
        }
    }
}

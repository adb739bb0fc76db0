//! Reading and writing of elements: what waits in a register, and where the others lie.

use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlags, SigRef, StackSlot, StackSlotData, StackSlotKind, Type, Value,
    types,
};
use cranelift_frontend::FunctionBuilder;

use super::operations::{has_fma, number, register};
use super::registers::{Group, Place, Reads, WAITING, elements, is_float, single};
use super::vectors::{Lines, NONE, pairs, width};
use super::{Line, Op, ScalarCode};
use crate::aval::DType;
use crate::util::FastMap;

/// So many addresses wait in registers.
const ADDRESSES: usize = 8;
/// The bits of negative zeros.
const SIGN_F64: u64 = 1 << 63;
const SIGN_F32: u32 = 1 << 31;

/// Elements are aligned; vectors need not be.
fn flags(ty: Type) -> MemFlags {
    if ty.is_vector() {
        MemFlags::new().with_notrap()
    } else {
        MemFlags::trusted()
    }
}

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
    /// Memory of the function, where it lies, its size, and places in it that are free, of eight bytes and of sixteen.
    pub(super) slot: StackSlot,
    pub(super) stack: Value,
    pub(super) size: u32,
    pub(super) free: [Vec<i32>; 2],
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
            free: [Vec::new(), Vec::new()],
            fma: has_fma(),
            b,
            code,
        };
        writer.collect_numbers(&needed);
        writer
    }
}

/// Numbers, and memory.
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

    /// The negative of a float, or of each in a vector.
    pub(super) fn negative(&mut self, x: Value) -> Value {
        let ty = self.b.func.dfg.value_type(x);
        let offset = if ty.lane_type() == types::F64 { 0 } else { 16 };
        let sign = self.load(ty, Place::Number(offset));
        self.b.ins().bxor(x, sign)
    }

    /// An address of the table.
    pub(super) fn entry(&mut self, entry: usize) -> Value {
        let known = self.addresses.iter().position(|&(e, _)| e == entry);
        let found = if let Some(at) = known {
            self.addresses.remove(at)
        } else {
            if self.addresses.len() == ADDRESSES {
                self.addresses.remove(0);
            }
            let flags = MemFlags::trusted().with_readonly();
            let offset = (entry * 8) as i32;
            (
                entry,
                self.b.ins().load(types::I64, flags, self.table, offset),
            )
        };
        self.addresses.push(found);
        found.1
    }

    pub(super) fn address(&mut self, place: Place) -> (Value, i32) {
        match place {
            Place::Input(input, offset) => (self.entry(input as usize), offset),
            Place::Output(output, offset) => {
                (self.entry(self.code.inputs.len() + output as usize), offset)
            }
            Place::Stack(offset) => (self.stack, offset),
            Place::Number(offset) => {
                let address = match self.pool_address {
                    Some(address) => address,
                    None => self.b.ins().iconst(types::I64, self.pool.as_ptr() as i64),
                };
                self.pool_address = Some(address);
                (address, offset)
            }
        }
    }

    pub(super) fn load(&mut self, ty: Type, place: Place) -> Value {
        let (address, offset) = self.address(place);
        let flags = match place {
            Place::Input(..) | Place::Number(_) => flags(ty).with_readonly(),
            _ => flags(ty),
        };
        self.b.ins().load(ty, flags, address, offset)
    }

    pub(super) fn store(&mut self, value: Value, place: Place) {
        let (address, offset) = self.address(place);
        let flags = flags(self.b.func.dfg.value_type(value));
        self.b.ins().store(flags, value, address, offset);
    }

    /// A free place on the stack.
    pub(super) fn room(&mut self, bytes: usize) -> i32 {
        let free = match bytes {
            ..=8 => self.free[0].pop(),
            9..=16 => self.free[1].pop(),
            _ => None,
        };
        free.unwrap_or_else(|| {
            let align = if bytes > 8 { 16 } else { 8 };
            let offset = self.size.next_multiple_of(align);
            self.size = offset + (bytes as u32).next_multiple_of(8);
            offset as i32
        })
    }

    /// Where an element lies, if it does.
    pub(super) fn place(&self, line: Line) -> Option<Place> {
        match self.op(line) {
            Op::Element { input, index } => {
                let offset = index as usize * self.dtype(line).size();
                Some(Place::Input(input, offset as i32))
            }
            Op::Number(_) => self
                .numbers
                .get(&single(line))
                .map(|&offset| Place::Number(offset)),
            _ => self.places[line as usize],
        }
    }
}

/// Registers.
impl Writer<'_> {
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

    /// When a group in a register is needed again: one without a place is, too, where a part of it is.
    pub(super) fn next(&self, group: Group) -> Option<u32> {
        match self.reads.computed_by(group) {
            Some(owner) if self.place(owner).is_none() => self.reads.next_of_line(owner, self.now),
            _ => self.reads.next_of_group(group, self.now),
        }
    }

    /// Whether a value that is needed next at this node gets a register; another one may lose its.
    pub(super) fn gets_register(&mut self, next: u32) -> bool {
        if self.waiting.len() < WAITING {
            return true;
        }
        let all = self.waiting.iter().enumerate();
        let ends = all.map(|(i, &(group, _))| (self.next(group).unwrap_or(u32::MAX), i));
        let Some((end, last)) = ends.max() else {
            return false;
        };
        if end <= next {
            return false;
        }
        self.put_away(last);
        true
    }

    /// Takes a value out of its register.
    pub(super) fn put_away(&mut self, i: usize) {
        let (group, value) = self.waiting.swap_remove(i);
        let Some(owner) = self.reads.computed_by(group) else {
            return;
        };
        if self.place(owner).is_none() && self.reads.next_of_line(owner, self.now).is_some() {
            self.put(owner, value);
        }
    }

    /// Writes values that have no place yet.
    pub(super) fn put(&mut self, owner: Line, value: Value) {
        let bytes = self.count(owner) * self.dtype(owner).size();
        let place = Place::Stack(self.room(bytes));
        self.store(value, place);
        self.lies(owner, place);
    }

    pub(super) fn lies(&mut self, owner: Line, place: Place) {
        let size = self.dtype(owner).size();
        for i in 0..self.count(owner) {
            self.places[owner as usize + i] = Some(place.behind(i * size));
        }
    }

    /// The operands of the node have been read.
    pub(super) fn has_read(&mut self) {
        self.now = self.node + 1;
    }

    /// Forgets what has been read for the last time.
    pub(super) fn forget(&mut self) {
        let mut i = 0;
        while i < self.waiting.len() {
            if self.next(self.waiting[i].0).is_none() {
                self.waiting.swap_remove(i);
            } else {
                i += 1;
            }
        }
        for owner in self.ends.remove(&self.node).unwrap_or_default() {
            // Results of one call lie side by side.
            let is_narrow =
                matches!(self.op(owner), Op::Result { .. }) && self.dtype(owner).size() < 8;
            if let (Some(Place::Stack(offset)), false) = (self.places[owner as usize], is_narrow) {
                let bytes = self.count(owner) * self.dtype(owner).size();
                self.free[usize::from(bytes > 8)].push(offset);
            }
        }
    }

    pub(super) fn in_register(&self, group: Group) -> Option<Value> {
        self.waiting
            .iter()
            .find(|(g, _)| *g == group)
            .map(|&(_, value)| value)
    }

    /// What a node reads.
    pub(super) fn fetch(&mut self, groups: &[Group]) -> Vec<Value> {
        let mut values: Vec<Option<Value>> = groups.iter().map(|&g| self.in_register(g)).collect();
        let mut kept = vec![false; groups.len()];
        for (i, &group) in groups.iter().enumerate() {
            if values[i].is_none() && !groups[..i].contains(&group) && !self.is_repeated(group) {
                let next = self.reads.next_of_group(group, self.now + 1);
                kept[i] = next.is_some_and(|next| self.gets_register(next));
            }
        }
        for (i, &group) in groups.iter().enumerate() {
            if values[i].is_some() {
                continue;
            }
            let before = groups[..i].iter().position(|&g| g == group);
            let value = match before.and_then(|i| values[i]) {
                Some(value) => value,
                None => self.brought(self.reads.lines(group)),
            };
            if kept[i] {
                self.waiting.push((group, value));
            }
            values[i] = Some(value);
        }
        values.into_iter().flatten().collect()
    }

    /// Whether a vector of one element is read from memory each time. Its register is one that a product may take.
    pub(super) fn is_repeated(&mut self, group: Group) -> bool {
        let line = self.reads.lines(group)[0];
        if !self.reads.is_repeated(group) || matches!(self.op(line), Op::Number(_)) {
            return false;
        }
        let owner = self.reads.owner(line);
        if self.place(line).is_none() && self.count(owner) > 1 {
            let is_it = |&&(g, _): &&(Group, Value)| self.reads.computed_by(g) == Some(owner);
            let found = self.waiting.iter().find(is_it);
            if let Some(&(_, vector)) = found {
                self.put(owner, vector);
            }
        }
        self.place(line).is_some()
    }

    /// A value that is in no register.
    pub(super) fn brought(&mut self, lines: Lines) -> Value {
        let ty = self.ty(&lines);
        let first = lines[0];
        if lines[1] == NONE {
            return self.element(first);
        }
        if let Some(&offset) = self.numbers.get(&lines) {
            return self.load(ty, Place::Number(offset));
        }
        let size = self.dtype(first).size();
        let all = elements(&lines);
        let follow = |place: Place| {
            let place = |i: usize| Some(place.behind(i * size));
            (all.iter().enumerate()).all(|(i, &line)| self.place(line) == place(i))
        };
        match self.place(first) {
            // Neighbours that were written one by one would be waited for.
            Some(place) if follow(place) => {
                let is_vector = self.reads.vectors[first as usize] == first;
                if is_vector || self.code.lie_side_by_side(all) {
                    return self.load(ty, place);
                }
            }
            _ => {}
        }
        let is_same = all.iter().all(|&line| line == first);
        if let (true, Some(place)) = (is_same, self.place(first)) {
            let element = self.load(register(self.dtype(first)), place);
            return self.b.ins().splat(ty, element);
        }
        let element = self.element(first);
        if is_same {
            return self.b.ins().splat(ty, element);
        }
        let mut value = self.b.ins().scalar_to_vector(ty, element);
        for (i, &line) in all.iter().enumerate().skip(1) {
            let element = self.element(line);
            value = self.b.ins().insertlane(value, element, i as u8);
        }
        value
    }

    /// A float by itself.
    pub(super) fn element(&mut self, line: Line) -> Value {
        let group = self.reads.group(single(line));
        if let Some(value) = self.in_register(group) {
            return value;
        }
        if let Some(place) = self.place(line) {
            return self.load(register(self.dtype(line)), place);
        }
        let owner = self.reads.owner(line);
        let is_it = |&&(group, _): &&(Group, Value)| self.reads.computed_by(group) == Some(owner);
        let found = self.waiting.iter().find(is_it);
        let &(_, vector) = found.expect("a value without a place is in a register");
        self.b.ins().extractlane(vector, (line - owner) as u8)
    }

    /// An element that is no float.
    pub(super) fn other(&mut self, line: Line) -> Value {
        let dtype = self.dtype(line);
        match self.op(line) {
            Op::Number(bits) => number(&mut self.b, dtype, bits),
            Op::Element { input, index } => {
                let offset = index as usize * dtype.size();
                self.load(register(dtype), Place::Input(input, offset as i32))
            }
            _ => self.values[line as usize].expect("lines are written in their order"),
        }
    }

    /// The operands of a line.
    pub(super) fn operands(&mut self, args: &[Line]) -> Vec<Value> {
        let is_float = |line: Line| is_float(self.code.lines[line as usize].1);
        let groups: Vec<Group> = (args.iter().filter(|&&arg| is_float(arg)))
            .map(|&arg| self.reads.group(single(arg)))
            .collect();
        let mut floats = self.fetch(&groups).into_iter();
        let mut values = Vec::with_capacity(3);
        for &arg in args {
            let value = if is_float(arg) { floats.next() } else { None };
            values.push(value.unwrap_or_else(|| self.other(arg)));
        }
        values
    }

    /// What a line, or a vector, has become.
    pub(super) fn made(&mut self, owner: Line, value: Value) {
        self.has_read();
        let count = self.count(owner);
        self.done[owner as usize] = true;
        self.write_out(owner, count, value);
        if !is_float(self.dtype(owner)) {
            self.values[owner as usize] = Some(value);
            return;
        }
        let mut lines = [NONE; 4];
        for (line, k) in lines[..count].iter_mut().zip(owner..) {
            *line = k;
        }
        let group = self.reads.group(lines);
        let Some(next) = self.next(group) else { return };
        if self.gets_register(next) {
            self.waiting.push((group, value));
        } else if self.place(owner).is_none() {
            self.put(owner, value);
        }
    }

    /// Writes the outputs that a value is.
    pub(super) fn write_out(&mut self, owner: Line, count: usize, value: Value) {
        let size = self.dtype(owner).size();
        let place = |output, index: u32| Place::Output(output, (index as usize * size) as i32);
        let is_float = is_float(self.dtype(owner));
        let mut left: Vec<Vec<(u32, u32)>> = (0..count as Line)
            .map(|i| self.stores.get(&(owner + i)).cloned().unwrap_or_default())
            .collect();
        for (output, index) in left[0].clone() {
            let has = |(stores, index): (&Vec<(u32, u32)>, u32)| stores.contains(&(output, index));
            if !left.iter().zip(index..).all(has) {
                continue;
            }
            for (stores, index) in left.iter_mut().zip(index..) {
                stores.retain(|&store| store != (output, index));
            }
            let place = place(output, index);
            self.store(value, place);
            if is_float && self.place(owner).is_none() {
                self.lies(owner, place);
            }
        }
        for (i, stores) in left.into_iter().enumerate() {
            for (output, index) in stores {
                let element = self.b.ins().extractlane(value, i as u8);
                self.store(element, place(output, index));
            }
        }
    }
}

//! Where elements lie in memory, and how they are read and written there.

use cranelift_codegen::ir::{InstBuilder, MemFlags, Type, Value, types};

use super::function::Writer;
use super::registers::{Place, is_float, single};
use super::{Line, Op};

/// So many addresses wait in registers.
const ADDRESSES: usize = 8;

/// Elements are aligned; vectors need not be.
fn flags(ty: Type) -> MemFlags {
    if ty.is_vector() {
        MemFlags::new().with_notrap()
    } else {
        MemFlags::trusted()
    }
}

/// The bytes of the room that something has on the stack.
fn room_of(bytes: usize) -> u32 {
    let align = if bytes > 8 { 16 } else { 8 };
    bytes.next_multiple_of(align) as u32
}

impl Writer<'_> {
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
        let bytes = room_of(bytes);
        let free = self.free.get_mut(&bytes).and_then(Vec::pop);
        free.unwrap_or_else(|| {
            let offset = self.size.next_multiple_of(bytes.min(16));
            self.size = offset + bytes;
            offset as i32
        })
    }

    /// Gives a place on the stack back.
    pub(super) fn give_back(&mut self, room: i32, bytes: usize) {
        self.free.entry(room_of(bytes)).or_default().push(room);
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

    /// Writes values that have no place yet.
    pub(super) fn spill(&mut self, owner: Line, value: Value) {
        let bytes = self.count(owner) * self.dtype(owner).size();
        let place = Place::Stack(self.room(bytes));
        self.store(value, place);
        self.set_place(owner, place);
    }

    pub(super) fn set_place(&mut self, owner: Line, place: Place) {
        let size = self.dtype(owner).size();
        for i in 0..self.count(owner) {
            self.places[owner as usize + i] = Some(place.offset_by(i * size));
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
                self.set_place(owner, place);
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

//! Calls of what takes more than a few instructions: of lanes, whose operands and results are in memory, and of functions
//! of one float in a register.

use cranelift_codegen::ir::{AbiParam, InstBuilder, Type, Value, types};

use super::function::Writer;
use super::operations::register;
use super::registers::{Place, elements, is_float};
use super::vectors::{Lines, NONE};
use super::{Line, Op};
use crate::kernels::lane::{Lane, LaneOp, pair, pair_of_one};

/// Calls a lane.
///
/// # Safety
/// As for [`Lane`]; `lane` is one.
unsafe extern "C" fn call_lane(
    lane: usize,
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute::<usize, Lane>(lane)(out, a, b, c, n) }
}

impl Writer<'_> {
    /// Puts everything away that is needed after a call, which may use all registers.
    pub(super) fn evict_all(&mut self) {
        self.advance();
        while !self.waiting.is_empty() {
            self.evict(0);
        }
    }

    /// Calls a function of one float that is in a register, and so are its results.
    pub(super) fn call_of_one(
        &mut self,
        function: usize,
        arg: Line,
        results: &[Type],
    ) -> Vec<Value> {
        let x = self.operands(&[arg])[0];
        self.evict_all();
        let mut signature = self.b.func.signature.clone();
        let ty = self.b.func.dfg.value_type(x);
        signature.params = vec![AbiParam::new(ty)];
        signature.returns = results.iter().copied().map(AbiParam::new).collect();
        let known = self.of_one.get(&(ty, results.len())).copied();
        let known = known.unwrap_or_else(|| self.b.import_signature(signature));
        self.of_one.insert((ty, results.len()), known);
        let callee = self.b.ins().iconst(types::I64, function as i64);
        let call = self.b.ins().call_indirect(known, callee, &[x]);
        self.b.inst_results(call).to_vec()
    }

    /// The addresses of operands, each of so many elements, and places that are free after the call.
    pub(super) fn lay_out(&mut self, lists: &[&[Line]]) -> (Vec<Value>, Vec<(i32, usize)>) {
        let code = self.code;
        let parts = lists
            .iter()
            .map(|list| code.in_vectors(list, &self.reads.vectors));
        let parts: Vec<Vec<Lines>> = parts.collect();
        let mut values = Vec::new();
        for lines in parts.concat() {
            if lines[1] == NONE {
                values.extend(self.operands(&lines[..1]));
            } else {
                let group = self.reads.group(lines);
                values.extend(self.fetch(&[group]));
            }
        }
        self.evict_all();
        let mut values = values.into_iter();
        let mut rooms = Vec::new();
        let mut addresses = Vec::new();
        for (list, parts) in lists.iter().zip(&parts) {
            let values: Vec<Value> = values.by_ref().take(parts.len()).collect();
            let alone = Some(list[0]).filter(|&x| list.len() == 1 && is_float(self.dtype(x)));
            let known = alone.and_then(|line| self.place(line));
            let place = known.unwrap_or_else(|| {
                let size = self.dtype(list[0]).size();
                let room = self.room(list.len() * size);
                rooms.push((room, list.len() * size));
                let mut offset = 0;
                for (&value, lines) in values.iter().zip(parts) {
                    self.store(value, Place::Stack(room).offset_by(offset));
                    offset += elements(lines).len() * size;
                }
                Place::Stack(room)
            });
            addresses.push(self.address_of(place));
        }
        (addresses, rooms)
    }

    /// The address of a place.
    pub(super) fn address_of(&mut self, place: Place) -> Value {
        let (address, offset) = self.address(place);
        self.b.ins().iadd_imm(address, i64::from(offset))
    }

    /// Places for the results of a call.
    pub(super) fn places_of_results(&mut self, first: Line, count: usize) -> Place {
        let size = self.dtype(first).size();
        Place::Stack(self.room(count * size))
    }

    /// The results of a call, which lie in a row.
    pub(super) fn results(&mut self, lines: impl Iterator<Item = (Line, Place)>) {
        for (line, place) in lines {
            self.done[line as usize] = true;
            let dtype = self.dtype(line);
            if is_float(dtype) {
                self.places[line as usize] = Some(place);
            }
            if !is_float(dtype) || self.stores.contains_key(&line) {
                let value = self.load(register(dtype), place);
                if !is_float(dtype) {
                    self.values[line as usize] = Some(value);
                }
                self.write_out(line, 1, value);
            }
        }
    }

    pub(super) fn call(&mut self, function: Lane, lists: &[&[Line]], line: Line, count: usize) {
        let (addresses, rooms) = self.lay_out(lists);
        let place = self.places_of_results(line, count);
        let mut given = vec![self.b.ins().iconst(types::I64, function as usize as i64)];
        given.push(self.address_of(place));
        for i in 0..3 {
            let none = |w: &mut Self| w.b.ins().iconst(types::I64, 0);
            given.push(addresses.get(i).copied().unwrap_or_else(|| none(self)));
        }
        self.finish_call(given, count);
        for (room, bytes) in rooms {
            self.give_back(room, bytes);
        }
        let size = self.dtype(line).size();
        if count == 1 {
            self.results([(line, place)].into_iter());
            return;
        }
        let code = self.code;
        let results = (0..count).map(|i| (line + 1 + i as Line, place.offset_by(i * size)));
        let is_result = |&(k, _): &(Line, Place)| {
            matches!(code.lines.get(k as usize), Some((Op::Result { .. }, _)))
        };
        self.results(results.filter(is_result));
    }

    /// An operation together with its partner.
    pub(super) fn pair(&mut self, op: LaneOp, line: Line, partner: Line, arg: Line) {
        let Op::Lane { op: other, .. } = self.op(partner) else {
            return;
        };
        let dtype = self.dtype(arg);
        if let Some(function) = pair_of_one(op, other, dtype) {
            let results = self.call_of_one(function, arg, &[register(dtype); 2]);
            self.define(line, results[0]);
            self.define(partner, results[1]);
            return;
        }
        let lane = pair(op, other, dtype).expect("partners are pairs");
        let (addresses, rooms) = self.lay_out(&[&[arg]]);
        let places = [line, partner].map(|x| self.places_of_results(x, 1));
        let given = [places[0], places[1]].map(|place| self.address_of(place));
        let none = self.b.ins().iconst(types::I64, 0);
        let lane = self.b.ins().iconst(types::I64, lane as usize as i64);
        self.finish_call(vec![lane, given[0], addresses[0], given[1], none], 1);
        for (room, bytes) in rooms {
            self.give_back(room, bytes);
        }
        self.results([(line, places[0]), (partner, places[1])].into_iter());
    }

    /// Calls what calls lanes.
    pub(super) fn finish_call(&mut self, mut args: Vec<Value>, count: usize) {
        args.push(self.b.ins().iconst(types::I64, count as i64));
        let function = call_lane as *const () as i64;
        let callee = self.b.ins().iconst(types::I64, function);
        self.b.ins().call_indirect(self.signature, callee, &args);
    }
}

//! Spilling: which value leaves its register when there are more than registers, and how it comes back.

use cranelift_codegen::ir::{InstBuilder, Value};

use super::function::Writer;
use super::operations::{number, register};
use super::registers::{Group, Place, WAITING, elements, is_float, single};
use super::vectors::{Lines, NONE};
use super::{Line, Op};

impl Writer<'_> {
    /// When a group in a register is needed again: one without a place is, too, where a part of it is.
    pub(super) fn next(&self, group: Group) -> Option<u32> {
        match self.reads.computed_by(group) {
            Some(owner) if self.place(owner).is_none() => self.reads.next_of_line(owner, self.now),
            _ => self.reads.next_of_group(group, self.now),
        }
    }

    /// Whether a value that is needed next at this node gets a register, where so many are promised to others; another one
    /// may lose its.
    pub(super) fn gets_register(&mut self, next: u32, promised: usize) -> bool {
        if self.waiting.len() + promised < WAITING {
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
        self.evict(last);
        true
    }

    /// Takes a value out of its register.
    pub(super) fn evict(&mut self, i: usize) {
        let (group, value) = self.waiting.swap_remove(i);
        let Some(owner) = self.reads.computed_by(group) else {
            return;
        };
        if self.place(owner).is_none() && self.reads.next_of_line(owner, self.now).is_some() {
            self.spill(owner, value);
        }
    }

    /// The operands of the node have been read.
    pub(super) fn advance(&mut self) {
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
                self.give_back(offset, bytes);
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
        let mut promised = 0;
        for (i, &group) in groups.iter().enumerate() {
            if values[i].is_none() && !groups[..i].contains(&group) && !self.is_repeated(group) {
                let next = self.reads.next_of_group(group, self.now + 1);
                kept[i] = next.is_some_and(|next| self.gets_register(next, promised));
                promised += usize::from(kept[i]);
            }
        }
        for (i, &group) in groups.iter().enumerate() {
            if values[i].is_some() {
                continue;
            }
            let before = groups[..i].iter().position(|&g| g == group);
            let value = match before.and_then(|i| values[i]) {
                Some(value) => value,
                None => self.load_group(self.reads.lines(group)),
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
                self.spill(owner, vector);
            }
        }
        self.place(line).is_some()
    }

    /// A value that is in no register.
    pub(super) fn load_group(&mut self, lines: Lines) -> Value {
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
            let place = |i: usize| Some(place.offset_by(i * size));
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
    pub(super) fn define(&mut self, owner: Line, value: Value) {
        self.advance();
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
        if self.gets_register(next, 0) {
            self.waiting.push((group, value));
        } else if self.place(owner).is_none() {
            self.spill(owner, value);
        }
    }
}

//! Writes a program with its stretches as loops.

use std::sync::Arc;

use num_complex::Complex;
use smallvec::SmallVec;

use super::body::{Body, Source, written};
use super::layouts::Layouts;
use super::owners::Stretches;
use super::regions::{in_order, moving, reshaped, rows, scattered, side_by_side, turned};
use super::sequence::{Element, Piece, joined, numbers, pieces, repeated, stack};
use super::stream::Stream;
use super::stretch::{Kind, Read, TURNS};
use crate::aval::DType;
use crate::error::Result;
use crate::interrupt::Steps;
use crate::ops;
use crate::prim::{Params, V, Var};
use crate::program::{Builder, Loop, LoopOutput, Program};
use crate::util::FastMap;

/// What stretches become.
pub(super) fn write(
    stream: &Stream<'_>,
    stretches: &Stretches,
    layouts: &Layouts,
    roll: fn(&Program) -> Result<Program>,
) -> Result<Program> {
    let program = stream.program;
    let builder = Builder::alike(program, program.eqns().len() / 4);
    let mut map = vec![Var::MAX; program.num_vars()];
    for (i, name) in program.input_names().iter().enumerate() {
        map[i] = builder.input(name, program.aval(i as Var));
    }
    let mut writer = Writer {
        stream,
        stretches,
        layouts,
        builder: &builder,
        map,
        loops: Vec::new(),
        roll,
    };
    let mut steps = Steps::default();
    let mut at = 0;
    while at < stream.len() {
        steps.count()?;
        if let Some(n) = stretches.stretch_at(at) {
            writer.write_loop(n)?;
            at = stretches.all[n].range().end;
        } else {
            writer.equation(at);
            at += 1;
        }
    }
    let outs: Vec<Var> = program.outs().iter().map(|&v| writer.get(v)).collect();
    drop(writer);
    let mut new = builder.finish(outs)?;
    new.outputs.clone_from(&program.outputs);
    Ok(new)
}

struct Writer<'w, 'p> {
    stream: &'w Stream<'p>,
    stretches: &'w Stretches,
    layouts: &'w Layouts,
    builder: &'w Builder,
    /// What variables have become that have been asked for.
    map: Vec<Var>,
    loops: Vec<Written>,
    roll: fn(&Program) -> Result<Program>,
}

/// A stretch that has been written.
struct Written {
    of: Option<(Arc<Loop>, Vec<Var>)>,
    body: Body,
    /// Arrays that are stacks of places as they are.
    stacks: FastMap<usize, Var>,
    outputs: FastMap<usize, Var>,
}

impl<'w> Writer<'w, '_> {
    fn value(&self, var: Var) -> V<'w> {
        self.builder.value(var)
    }

    /// What a variable has become.
    fn get(&mut self, v: Var) -> Var {
        if self.map[v as usize] != Var::MAX {
            return self.map[v as usize];
        }
        if let Some((dtype, z)) = self.stream.program.literal(v) {
            return self.builder.complex_literal(dtype, z);
        }
        let Some(made) = self.stretches.made(self.stream, v) else {
            unreachable!("a variable is read before it is written");
        };
        let is_last = made.turn + 1 == self.stretches.all[made.stretch].count;
        let carry = self.loops[made.stretch].body.carry_of(made.place);
        let new = match carry {
            Some(carry) if is_last => self.output(made.stretch, LoopOutput::Last(carry)),
            _ => {
                let stack = self.stack(made.stretch, made.place);
                let shape = &self.stream.program.aval(v).shape;
                let row = self.stretches.row(made).index;
                reshaped(rows(self.value(stack), row, 1, 1), shape).var()
            }
        };
        self.map[v as usize] = new;
        new
    }

    /// An output of a loop.
    fn output(&mut self, n: usize, output: LoopOutput) -> Var {
        let Some((of, args)) = &self.loops[n].of else {
            unreachable!("a stretch without a loop has stacks");
        };
        let number = of.number(output);
        if let Some(&var) = self.loops[n].outputs.get(&number) {
            return var;
        }
        let params = Params::Loop {
            of: Arc::clone(of),
            output: number,
        };
        let var = self.builder.emit(ops::LOOP, params, args);
        self.loops[n].outputs.insert(number, var);
        var
    }

    /// What all turns made at a place.
    fn stack(&mut self, n: usize, place: usize) -> Var {
        if let Some(&var) = self.loops[n].stacks.get(&place) {
            return var;
        }
        let Some(i) = self.loops[n].body.stacked(place) else {
            unreachable!("a place is read that was not to be stacked");
        };
        self.output(n, LoopOutput::Stacked(i))
    }

    /// An equation that belongs to no stretch.
    fn equation(&mut self, at: usize) {
        let (stream, program) = (self.stream, self.stream.program);
        let (eqn, args, result) = (stream.eqn(at), stream.args(at), stream.result(at));
        self.builder.at(program.site(stream.number(at)));
        let many =
            args.len() >= TURNS && (args.iter()).any(|&v| self.stretches.made(stream, v).is_some());
        let in_order = |x: V<'w>| {
            let x = if self.layouts.matters(result) {
                in_order(x)
            } else {
                x
            };
            x.var()
        };
        let var = match program.params(eqn) {
            _ if many && eqn.prim == ops::STACK => in_order(self.sequence(args)),
            &Params::Axis(axis) if many && eqn.prim == ops::CONCATENATE => {
                in_order(self.concatenated(args, axis))
            }
            params => {
                let args: SmallVec<[Var; 4]> = args.iter().map(|&v| self.get(v)).collect();
                let aval = program.aval(result);
                (self.builder).push_inferred(eqn.prim, params.clone(), &args, aval)
            }
        };
        self.map[result as usize] = var;
    }

    /// Arrays one after the other along an axis: those that come out of turns together.
    fn concatenated(&mut self, args: &[Var], axis: usize) -> V<'w> {
        let mut parts: Vec<V<'w>> = Vec::new();
        let mut rest = args;
        while let Some(&first) = rest.first() {
            let is_made = |v: &Var| {
                self.stretches.made(self.stream, *v).is_some() && self.stream.alike(*v, first)
            };
            let count = rest.iter().take_while(|v| is_made(v)).count();
            if count > 1 {
                let stack = self.sequence(&rest[..count]);
                parts.push(side_by_side(stack, axis));
            } else {
                let var = self.get(first);
                parts.push(self.value(var));
            }
            rest = &rest[count.max(1)..];
        }
        match parts.as_slice() {
            [one] => *one,
            [first, others @ ..] => first.apply(ops::CONCATENATE, Params::Axis(axis), others),
            [] => unreachable!("there is an argument"),
        }
    }

    fn element(&self, v: Var) -> Element {
        if let Some((dtype, z)) = self.stream.program.literal(v) {
            return Element::Number(dtype, z);
        }
        match self.stretches.made(self.stream, v) {
            Some(made) if self.is_stacked(made.stretch, made.place) => {
                Element::Row(self.stretches.row(made))
            }
            _ => Element::Var,
        }
    }

    fn is_stacked(&self, n: usize, place: usize) -> bool {
        let written = &self.loops[n];
        let is_region = matches!(self.stretches.all[n].places[place].kind, Kind::Written(_));
        !is_region && (written.stacks.contains_key(&place) || written.body.stacked(place).is_some())
    }

    /// Variables that look the same, stacked.
    fn sequence(&mut self, vars: &[Var]) -> V<'w> {
        let found = pieces(vars, |v| self.element(v));
        let found = self.with_starts(found);
        let mut parts: Vec<V<'w>> = Vec::with_capacity(found.len());
        let mut single: Vec<V<'w>> = Vec::new();
        for piece in found {
            if let Piece::Same(v, 1) = piece {
                let var = self.get(v);
                single.push(self.value(var));
                continue;
            }
            if !single.is_empty() {
                parts.push(stack(&std::mem::take(&mut single)));
            }
            parts.push(self.piece(piece));
        }
        if !single.is_empty() {
            parts.push(stack(&single));
        }
        joined(&parts)
    }

    fn piece(&mut self, piece: Piece) -> V<'w> {
        match piece {
            Piece::Same(v, count) => {
                let var = self.get(v);
                repeated(self.value(var), count)
            }
            Piece::Rows { from, len, step } => {
                let stack = self.stack(from.stretch, from.place);
                rows(self.value(stack), from.index, len, step)
            }
            Piece::Before { from, len, step } => {
                let carry = self.loops[from.stretch].body.carry_of(from.place);
                let Some(carry) = carry else {
                    unreachable!("what was before each step is a carry");
                };
                let stack = self.output(from.stretch, LoopOutput::Before(carry));
                rows(self.value(stack), from.index, len, step)
            }
            Piece::Numbers(dtype, all) => numbers(self.builder, dtype, &all),
        }
    }

    /// What a carry is at first, and then what turns made of it, is what it was before each of them.
    fn with_starts(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut found: Vec<Piece> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let joint = found.last().and_then(|last| self.before(last, &piece));
            match joint {
                Some(joint) => {
                    found.pop();
                    found.push(joint);
                }
                None => found.push(piece),
            }
        }
        found
    }

    fn before(&self, first: &Piece, second: &Piece) -> Option<Piece> {
        let (start, from, len, step, is_first) = match (first, second) {
            (start, &Piece::Rows { from, len, step }) => (start, from, len, step, true),
            (&Piece::Rows { from, len, step }, start) => (start, from, len, step, false),
            _ => return None,
        };
        let n = from.stretch;
        let (count, row) = (self.stretches.all[n].count, |turn| {
            self.stretches.row_of_turn(n, turn)
        });
        let on = row(1) as isize - row(0) as isize;
        let written = self.loops.get(n)?;
        let init = written.body.start_of(from.place)?;
        let is_start = match start {
            Piece::Same(v, 1) => *v == init,
            Piece::Numbers(dtype, all) => match all.as_slice() {
                [z] => self.is_number(init, *dtype, *z),
                _ => false,
            },
            _ => false,
        };
        if !is_start || len >= count {
            return None;
        }
        let step = if len == 1 && is_first {
            on
        } else if len == 1 {
            -on
        } else {
            step
        };
        if is_first && from.index == row(0) && step == on {
            return Some(Piece::Before {
                from,
                len: len + 1,
                step,
            });
        }
        let end = from.index as isize + step * (len as isize - 1);
        if !is_first && end == row(0) as isize && step == -on {
            let from = super::sequence::Row {
                index: from.index.checked_add_signed(on)?,
                ..from
            };
            return Some(Piece::Before {
                from,
                len: len + 1,
                step,
            });
        }
        None
    }

    fn is_number(&self, v: Var, dtype: DType, z: Complex<f64>) -> bool {
        self.stream.program.literal(v).is_some_and(|(own, known)| {
            own == dtype
                && known.re.to_bits() == z.re.to_bits()
                && known.im.to_bits() == z.im.to_bits()
        })
    }

    /// The argument of a stretch, for all turns in the order of its slices.
    fn scanned(&mut self, n: usize, read: (usize, usize)) -> V<'w> {
        let stretch = &self.stretches.all[n];
        let mut vars: Vec<Var> = (0..stretch.count)
            .map(|turn| stretch.arg(self.stream, turn, read))
            .collect();
        if self.stretches.reverse[n] {
            vars.reverse();
        }
        self.sequence(&vars)
    }

    /// Writes what is read before all turns, the loop, and what is written after them.
    fn write_loop(&mut self, n: usize) -> Result<()> {
        let (stream, program) = (self.stream, self.stream.program);
        let stretch = &self.stretches.all[n];
        let is_reverse = self.stretches.reverse[n];
        let mut stacks: FastMap<usize, Var> = FastMap::default();
        for (j, place) in stretch.places.iter().enumerate() {
            let at = stretch.at(0, j);
            self.builder.at(program.site(stream.number(at)));
            let stack = match (place.kind, place.reads[..].first()) {
                (Kind::Moving(moves), Some(&Read::Shared(x))) => {
                    let var = self.get(x);
                    let (first, moves) = if is_reverse {
                        (stretch.at(stretch.count - 1, j), moves.backwards())
                    } else {
                        (at, moves)
                    };
                    let params = program.params(stream.eqn(first));
                    moving(self.value(var), params, moves, stretch.count)
                }
                (Kind::Reshaped, Some(&read)) => {
                    let x = match read {
                        Read::Same(i) => self.value(stacks[&i]),
                        _ => self.scanned(n, (j, 0)),
                    };
                    let mut shape = program.aval(stream.result(at)).shape.clone();
                    shape.insert(0, stretch.count);
                    reshaped(x, &shape)
                }
                _ => continue,
            };
            stacks.insert(j, stack.var());
        }
        let body = written(stream, stretch, &self.stretches.uses[n], self.layouts)?;
        let mut args: Vec<Var> = Vec::new();
        for source in body.sources() {
            let arg = match *source {
                Source::Start(v) | Source::Shared(v) => self.get(v),
                Source::Zeros(v) => {
                    let aval = program.aval(v);
                    let zero = self.value(self.builder.number(aval.dtype, 0.0));
                    zero.broadcast_to(&aval.shape).var()
                }
                Source::Stack(place) => stacks[&place],
                Source::Scanned(place, i) => self.scanned(n, (place, i)).var(),
            };
            args.push(arg);
        }
        let of = if body.is_empty() {
            None
        } else {
            let (carries, scanned) = (body.num_carries(), body.num_scanned());
            let rolled = (self.roll)(body.program())?;
            let of = Loop::new(rolled, stretch.count, carries, scanned, is_reverse)?;
            Some((Arc::new(of), args))
        };
        // Stretches are written in order.
        debug_assert_eq!(self.loops.len(), n);
        self.loops.push(Written {
            of,
            body,
            stacks,
            outputs: FastMap::default(),
        });
        self.write_regions(n);
        Ok(())
    }

    /// Regions that are written after all turns.
    fn write_regions(&mut self, n: usize) {
        let (stream, program) = (self.stream, self.stream.program);
        let stretch = &self.stretches.all[n];
        for (j, place) in stretch.places.iter().enumerate() {
            let Kind::Written(moves) = place.kind else {
                continue;
            };
            let last = stream.result(stretch.at(stretch.count - 1, j));
            if !self.stretches.uses[n][j].last {
                continue;
            }
            let eqn = stream.eqn(stretch.at(0, j));
            let Params::Slice(dims) = program.params(eqn) else {
                continue;
            };
            self.builder
                .at(program.site(stream.number(stretch.at(0, j))));
            let mut updates = match place.reads[1] {
                Read::Scanned => self.scanned(n, (j, 1)),
                Read::Same(i) if self.loops[n].stacks.contains_key(&i) => {
                    let var = self.loops[n].stacks[&i];
                    self.value(var)
                }
                _ => {
                    let var = self.stack(n, j);
                    self.value(var)
                }
            };
            let is_reverse = self.stretches.reverse[n];
            let x = self.get(stretch.arg(stream, 0, (j, 0)));
            let x = self.value(x);
            let new = if moves.is_apart(program.params(eqn)) {
                let of_last = program.params(stream.eqn(stretch.at(stretch.count - 1, j)));
                let (dims, moves) = match of_last {
                    Params::Slice(last) if is_reverse => (last, moves.backwards()),
                    _ => (dims, moves),
                };
                let (dims, turns_around) = moves.together(dims, stretch.count);
                if turns_around {
                    updates = turned(updates);
                }
                let updates = side_by_side(updates, moves.axis);
                x.apply(eqn.prim, Params::Slice(dims), &[updates])
            } else {
                // What is added first is added first.
                if is_reverse {
                    updates = turned(updates);
                }
                let prim = if eqn.prim == ops::UPDATE {
                    ops::SCATTER
                } else {
                    ops::SCATTER_ADD
                };
                scattered(x, prim, dims[moves.axis], moves, updates)
            };
            self.map[last as usize] = new.var();
        }
    }
}

//! Running a program: tiles through the registers, chunks on threads, partial results combined.

use std::ops::Range;

use smallvec::SmallVec;

use super::bound::{Address, Bound};
use super::node::Work;
use super::plan::Walk;
use super::prefetch::Ahead;
use super::program::{Fused, Input};
use super::reduce::{GROUP, Reduction};
use super::scalar;
use super::scratch::Scratch;
use super::strided_input::{Source, splat};
use crate::aval::Shape;
use crate::error::Result;
use crate::kernels::{Ctx, Value, cache, spare};

/// How far a streaming pairwise reduction has come.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Partial results pushed.
    count: usize,
    /// Tiles accumulated since.
    group: u32,
}

/// One thread's state while it runs a chunk.
struct Chunk<'a> {
    fused: &'a Fused,
    bound: &'a Bound,
    /// What instructions address: nothing, inputs, outputs, registers.
    table: SmallVec<[*mut u8; 32]>,
    scratch: *mut u8,
    progress: SmallVec<[Progress; 4]>,
    /// For each input whether its register holds what all tiles read.
    steady: SmallVec<[bool; 16]>,
    ahead: Ahead,
}

impl Fused {
    /// Runs the program.
    ///
    /// `outputs` are fresh contiguous values. One that is not reduced may share its storage with a
    /// contiguous input of the full shape and equal size of elements that is dead after the run.
    pub fn run(&self, inputs: &[Value], outputs: &[Value], ctx: &Ctx) -> Result<()> {
        self.check(inputs, outputs)?;
        if self.size == 0 {
            return self.fill_empty(outputs);
        }
        let mut places: SmallVec<[(*const u8, usize); 8]> = (outputs.iter().zip(&self.outputs))
            .filter_map(|(out, spec)| Some((out.as_ptr(), spec.written?)))
            .collect();
        places.sort_unstable();
        let sources = self.inputs.iter().zip(inputs).map(|(input, value)| {
            // A donated input that is read after its place was written has to be read before.
            let place = places.binary_search_by_key(&value.as_ptr(), |&(ptr, _)| ptr);
            let clobbered = place.is_ok_and(|i| input.last_read > places[i].1);
            Source::new(value, self.space(input), clobbered)
        });
        let mut bound = Bound {
            sources: sources.collect(),
            outputs: outputs.iter().map(|v| Address(v.as_mut_ptr())).collect(),
            partials: SmallVec::new(),
        };
        self.run_bound(&mut bound, ctx)
    }

    /// The shape that an input broadcasts to: that of the rows for one with an element for each row.
    pub(super) fn space<'a>(&'a self, input: &'a Input) -> &'a Shape {
        input.row.as_ref().unwrap_or(&self.shape)
    }

    /// Runs the program on memory that has been checked.
    pub(super) fn run_bound(&self, bound: &mut Bound, ctx: &Ctx) -> Result<()> {
        bound.partials.clear();
        let sizes = self
            .reductions
            .iter()
            .map(|r| self.partial_size(r).next_multiple_of(16));
        let bytes = sizes.clone().sum::<usize>();
        spare(bytes)?;
        let mut partials: SmallVec<[u128; 8]> = SmallVec::new();
        partials.resize(bytes / 16, 0);
        let mut offset = 0;
        for size in sizes {
            bound.partials.push(Address(
                partials.as_mut_ptr().wrapping_byte_add(offset).cast(),
            ));
            offset += size;
        }
        let bound = &*bound;
        if self.plan.chunks == 1 {
            ctx.check()?;
            self.chunk(bound, 0);
        } else {
            ctx.for_each(self.plan.chunks, |chunk| self.chunk(bound, chunk))?;
        }
        for (reduction, &Address(partial)) in self.reductions.iter().zip(&bound.partials) {
            // SAFETY: every chunk has left its partial results.
            unsafe { self.combine(reduction, partial, bound.outputs[reduction.output].0) };
        }
        Ok(())
    }

    /// Bytes of the partial results of a reduction.
    fn partial_size(&self, reduction: &Reduction) -> usize {
        let size = reduction.kernels.acc.size();
        match self.plan.walk {
            _ if reduction.full => size * self.plan.chunks * reduction.width,
            Walk::Long { parts, .. } if parts > 1 => {
                size * reduction.split.outer * parts * reduction.split.inner
            }
            _ => 0,
        }
    }

    /// Runs one chunk with this thread's scratch memory.
    fn chunk(&self, bound: &Bound, chunk: usize) {
        let scratch = Scratch::taken(self.scratch);
        let mut table: SmallVec<[*mut u8; 32]> = SmallVec::new();
        table.push(std::ptr::null_mut());
        table.resize(
            1 + self.inputs.len() + self.outputs.len(),
            std::ptr::null_mut(),
        );
        table.extend(self.slots.iter().map(|&s| scratch.ptr.wrapping_add(s)));
        let mut progress: SmallVec<[Progress; 4]> = SmallVec::new();
        progress.resize(self.reductions.len(), Progress::default());
        let mut state = Chunk {
            fused: self,
            bound,
            table,
            scratch: scratch.ptr,
            progress,
            steady: SmallVec::from_elem(false, self.inputs.len()),
            ahead: Ahead::default(),
        };
        // SAFETY: the values were checked against the program, the scratch memory is as large as
        // the program asks for, and chunks are disjoint.
        unsafe { state.run(chunk) };
        drop(state);
        scratch.kept();
    }

    /// Joins what the chunks have left, and writes the result.
    unsafe fn combine(&self, reduction: &Reduction, partial: *mut u8, out: *mut u8) {
        let kernels = &reduction.kernels;
        let (acc, size) = (kernels.acc.size(), reduction.dtype.size());
        let (outer, parts, inner) = match self.plan.walk {
            _ if reduction.full => (1, self.plan.chunks, reduction.width),
            Walk::Long { parts, .. } if parts > 1 => {
                (reduction.split.outer, parts, reduction.split.inner)
            }
            _ => return,
        };
        let null = std::ptr::null();
        for o in 0..outer {
            // SAFETY: there are `parts` rows of `inner` partial results for every outer index.
            unsafe {
                let first = partial.add(o * parts * inner * acc);
                let mut step = 1;
                while step < parts {
                    for p in (0..parts - step).step_by(2 * step) {
                        let (to, from) = (p * inner * acc, (p + step) * inner * acc);
                        (kernels.merge)(first.add(to), first.add(from), inner);
                    }
                    step *= 2;
                }
                (kernels.narrow)(out.add(o * inner * size), first, null, null, inner);
            }
        }
    }
}

impl Chunk<'_> {
    unsafe fn run(&mut self, chunk: usize) {
        let plan = &self.fused.plan;
        let first = chunk * plan.units_per_chunk;
        let end = (first + plan.units_per_chunk).min(plan.units);
        // SAFETY: the caller's contract; tiles lie inside the space.
        unsafe {
            self.start();
            match plan.walk {
                Walk::Flat => {
                    for unit in first..end {
                        let start = unit * plan.tile;
                        self.tile(start, plan.tile.min(self.fused.size - start));
                    }
                }
                Walk::Slices { split, slices } => {
                    let slice = split.reduced * split.inner;
                    for unit in first..end {
                        let start = unit * slices;
                        self.tile(start * slice, slices.min(split.outer - start) * slice);
                    }
                }
                Walk::Long {
                    split,
                    rows,
                    block,
                    blocks,
                    part,
                    parts,
                } => {
                    for unit in first..end {
                        let (rest, b) = (unit / blocks, unit % blocks);
                        let (o, p) = (rest / parts, rest % parts);
                        let column = b * block;
                        let width = block.min(split.inner - column);
                        let mut row = p * part;
                        let stop = (row + part).min(split.reduced);
                        while row < stop {
                            let m = rows.min(stop - row);
                            let start = (o * split.reduced + row) * split.inner + column;
                            self.tile(start, m * width);
                            row += m;
                        }
                        self.finish_unit(o, p, column, width);
                    }
                }
            }
            self.finish_full(chunk);
        }
        if self.fused.outputs.iter().any(|o| o.staged.is_some()) {
            cache::written();
        }
    }

    /// Fills the registers that hold one element for the whole space, or what all tiles read, and points to the others.
    unsafe fn start(&mut self) {
        let fused = self.fused;
        // Tiles begin at multiples of that.
        let step = match fused.plan.walk {
            Walk::Flat => fused.plan.tile,
            Walk::Slices { split, slices } => slices * split.reduced * split.inner,
            Walk::Long { .. } => 0,
        };
        for (k, (input, source)) in fused.inputs.iter().zip(&self.bound.sources).enumerate() {
            let register = self.scratch.wrapping_add(input.offset);
            self.table[1 + k] = register;
            let shared = if input.row.is_some() { fused.row } else { 1 };
            let (n, size) = (fused.plan.tile / shared, input.dtype.size());
            match source {
                // SAFETY: the source is an element of this dtype; the register holds a tile, or an
                // element for each of its rows.
                Source::Splat(ptr) => unsafe { splat(*ptr, size, register, n) },
                Source::Periodic(s, _) | Source::Strided(s) if s.is_same_every(step / shared) => {
                    let n = (step / shared).min(fused.size / shared);
                    // SAFETY: a tile has so many elements, and the register holds a tile.
                    unsafe { s.gather(size, 0, n, register) };
                    self.steady[k] = true;
                }
                _ => {}
            }
        }
    }

    /// Runs the program on elements `start .. start + n`.
    unsafe fn tile(&mut self, start: usize, n: usize) {
        let fused = self.fused;
        // Everything is gathered before anything is written: an output may lie in an input's place.
        for (k, (input, source)) in fused.inputs.iter().zip(&self.bound.sources).enumerate() {
            if self.steady[k] {
                continue;
            }
            let size = input.dtype.size();
            let (start, n) = match input.row {
                Some(_) => (start / fused.row, n / fused.row),
                None => (start, n),
            };
            match source {
                Source::Direct(ptr) => {
                    self.table[1 + k] = ptr.wrapping_add(start * size).cast_mut();
                }
                Source::Splat(_) => {}
                Source::Periodic(s, period) => {
                    let register = self.scratch.wrapping_add(input.offset);
                    self.table[1 + k] = if let Some(ptr) = s.inside(size, start, n, *period) {
                        ptr.cast_mut()
                    } else {
                        // SAFETY: as below.
                        unsafe { s.gather(size, start, n, register) };
                        register
                    };
                }
                // SAFETY: the tile lies in the space, and the register holds a tile.
                Source::Strided(s) => unsafe { s.gather(size, start, n, self.table[1 + k]) },
            }
        }
        let base = 1 + fused.inputs.len();
        for (k, (output, address)) in fused.outputs.iter().zip(&self.bound.outputs).enumerate() {
            if let Some(offset) = output.staged {
                self.table[base + k] = self.scratch.wrapping_add(offset);
            } else if output.written.is_some() {
                let start = if output.row { start / fused.row } else { start };
                self.table[base + k] = address.0.wrapping_add(start * output.dtype.size());
            }
        }
        if fused.far {
            self.ahead.begin(fused, self.bound, start + n, n);
        }
        let mut done = 0;
        for r in 0..fused.reductions.len() {
            let reduction = &fused.reductions[r];
            // SAFETY: the caller's contract.
            unsafe {
                self.execute(done, reduction.position, n);
                self.reduce(r, reduction, start, n);
            }
            done = reduction.position;
        }
        // SAFETY: the caller's contract.
        unsafe { self.execute(done, fused.instrs.len(), n) };
        for (output, address) in fused.outputs.iter().zip(&self.bound.outputs) {
            if let Some(offset) = output.staged {
                let size = output.dtype.size();
                let from = self.scratch.wrapping_add(offset).cast_const();
                let to = address.0.wrapping_add(start * size);
                // SAFETY: the tile was made, and has its place in the output, which is no scratch memory.
                unsafe { cache::write_past(from, to, n * size) };
            }
        }
    }

    #[inline(always)]
    unsafe fn execute(&mut self, from: usize, to: usize, n: usize) {
        let ahead = self.fused.far.then_some(&mut self.ahead);
        // SAFETY: the caller's contract.
        unsafe { execute(self.fused, &self.table, self.scratch, from..to, n, ahead) };
    }

    /// Takes a tile of an operand into its reduction.
    unsafe fn reduce(&mut self, r: usize, reduction: &Reduction, start: usize, n: usize) {
        let kernels = &reduction.kernels;
        let size = reduction.dtype.size();
        let x = self.table[reduction.source as usize].cast_const();
        let tmp = self.scratch.wrapping_add(reduction.tmp);
        let null = std::ptr::null();
        let (start, n, split) = (
            start / reduction.shared,
            n / reduction.shared,
            reduction.split,
        );
        // SAFETY: the operand has `n` elements; `tmp` and the output were measured for this plan.
        unsafe {
            match self.fused.plan.walk {
                _ if reduction.folds => {
                    (kernels.fold)(x, tmp, n / reduction.width, reduction.width);
                    self.push(r, reduction, reduction.width);
                }
                _ if reduction.columns => self.accumulate(r, reduction, x, start, n),
                Walk::Slices { .. } if !reduction.full => {
                    let out = self.bound.outputs[reduction.output].0;
                    let slice = split.reduced * split.inner;
                    let (first, slices) = (start / slice, n / slice);
                    if split.inner == 1 {
                        (kernels.rows)(x, slices, split.reduced, tmp);
                        (kernels.narrow)(out.add(first * size), tmp, null, null, slices);
                        return;
                    }
                    for s in 0..slices {
                        let to = out.add((first + s) * split.inner * size);
                        let x = x.add(s * slice * size);
                        (kernels.fold)(x, tmp, split.reduced, split.inner);
                        (kernels.narrow)(to, tmp, null, null, split.inner);
                    }
                }
                Walk::Long { rows, .. } if !reduction.full && split.inner > 1 => {
                    if rows > 1 {
                        (kernels.fold)(x, tmp, n / split.inner, split.inner);
                        self.push(r, reduction, split.inner);
                        return;
                    }
                    self.accumulate(r, reduction, x, 0, n);
                }
                _ => {
                    (kernels.rows)(x, 1, n, tmp);
                    self.push(r, reduction, 1);
                }
            }
        }
    }

    /// Takes `n` elements of what is reduced, from the one at `start` on, into the accumulators of a reduction over
    /// rows: those of a row, or of a slice that has many tiles.
    unsafe fn accumulate(
        &mut self,
        r: usize,
        reduction: &Reduction,
        x: *const u8,
        start: usize,
        n: usize,
    ) {
        let progress = &mut self.progress[r];
        let place = start % reduction.width;
        let tmp = self.scratch.wrapping_add(reduction.tmp);
        // SAFETY: the operand has `n` elements, and there is room for as many from this place on.
        unsafe {
            let tmp = tmp.add(place * reduction.kernels.acc.size());
            if progress.group == 0 {
                (reduction.kernels.fold)(x, tmp, 1, n);
            } else {
                (reduction.kernels.accumulate)(tmp, x, n);
            }
        }
        // In blocks of columns all of a row that there is has been taken.
        if reduction.columns && place + n < reduction.width {
            return;
        }
        progress.group += 1;
        if progress.group == GROUP {
            progress.group = 0;
            let width = if reduction.columns {
                reduction.width
            } else {
                n
            };
            // SAFETY: the accumulators are complete.
            unsafe { self.push(r, reduction, width) };
        }
    }

    /// Adds the partial result in `tmp` to those that wait, joining equals.
    unsafe fn push(&mut self, r: usize, reduction: &Reduction, width: usize) {
        let progress = &mut self.progress[r];
        let bytes = reduction.width * reduction.kernels.acc.size();
        let tmp = self.scratch.wrapping_add(reduction.tmp);
        let mut waiting = self.scratch.wrapping_add(reduction.stack);
        // SAFETY: the stack was measured for the number of pushes of a unit.
        unsafe {
            let mut count = progress.count;
            while count & 1 == 1 {
                (reduction.kernels.merge)(tmp, waiting, width);
                waiting = waiting.add(bytes);
                count >>= 1;
            }
            std::ptr::copy_nonoverlapping(tmp, waiting, width * reduction.kernels.acc.size());
        }
        progress.count += 1;
    }

    /// Joins all that waits into `tmp`, and starts anew.
    unsafe fn drain(&mut self, r: usize, reduction: &Reduction, width: usize) -> *mut u8 {
        let acc = reduction.kernels.acc.size();
        let tmp = self.scratch.wrapping_add(reduction.tmp);
        let mut waiting = self.scratch.wrapping_add(reduction.stack);
        let Progress { mut count, group } = std::mem::take(&mut self.progress[r]);
        let mut empty = group == 0;
        // SAFETY: as in `push`.
        unsafe {
            while count > 0 {
                if count & 1 == 1 {
                    if empty {
                        std::ptr::copy_nonoverlapping(waiting, tmp, width * acc);
                        empty = false;
                    } else {
                        (reduction.kernels.merge)(tmp, waiting, width);
                    }
                }
                waiting = waiting.add(reduction.width * acc);
                count >>= 1;
            }
        }
        tmp
    }

    /// Writes the results of a unit of long slices, or leaves them to be combined.
    unsafe fn finish_unit(&mut self, o: usize, p: usize, column: usize, width: usize) {
        let Walk::Long { parts, .. } = self.fused.plan.walk else {
            return;
        };
        for r in 0..self.fused.reductions.len() {
            let reduction = &self.fused.reductions[r];
            if reduction.full {
                continue;
            }
            let acc = reduction.kernels.acc.size();
            let null = std::ptr::null();
            let inner = reduction.split.inner;
            let (column, width) = (column / reduction.shared, width / reduction.shared);
            // SAFETY: the unit's results lie at these places and nowhere else.
            unsafe {
                let tmp = self.drain(r, reduction, width);
                if parts == 1 {
                    let out = self.bound.outputs[reduction.output].0;
                    let to = out.add((o * inner + column) * reduction.dtype.size());
                    (reduction.kernels.narrow)(to, tmp, null, null, width);
                } else {
                    let row = (o * parts + p) * inner + column;
                    let to = self.bound.partials[r].0.add(row * acc);
                    std::ptr::copy_nonoverlapping(tmp, to, width * acc);
                }
            }
        }
    }

    /// Leaves the chunk's part of the reductions over the whole space.
    unsafe fn finish_full(&mut self, chunk: usize) {
        for r in 0..self.fused.reductions.len() {
            let reduction = &self.fused.reductions[r];
            if reduction.full {
                let bytes = reduction.width * reduction.kernels.acc.size();
                // SAFETY: there is a place for every chunk.
                unsafe {
                    let tmp = self.drain(r, reduction, reduction.width);
                    let to = self.bound.partials[r].0.add(chunk * bytes);
                    std::ptr::copy_nonoverlapping(tmp, to, bytes);
                }
            }
        }
    }
}

/// Runs some instructions on `n` elements.
///
/// # Safety
/// The table has the addresses of inputs, outputs and registers, as large as these dtypes and `n` ask for.
#[inline(always)]
pub(super) unsafe fn execute(
    fused: &Fused,
    table: &[*mut u8],
    scratch: *mut u8,
    instrs: Range<usize>,
    n: usize,
    mut ahead: Option<&mut Ahead>,
) {
    let row = fused.row;
    let null = std::ptr::null();
    let is_single = fused.size == 1;
    for instr in &fused.instrs[instrs] {
        if let Some(ahead) = &mut ahead {
            ahead.step();
        }
        let [a, b, c] = instr.args.map(|a| table[a as usize].cast_const());
        let out = table[instr.out as usize];
        // SAFETY: addresses are those of registers, inputs or outputs of the dtypes that the
        // lane was chosen for, with room for `n` elements, or for those of the rows of a tile.
        unsafe {
            if is_single && scalar::step(instr.code, out, a, b) {
                continue;
            }
            match instr.work {
                Work::Tile(lane) | Work::Both(lane) => lane(out, a, b, c, n),
                Work::Row(lane) => lane(out, a, b, c, n / row),
                Work::Fold(fold, narrow) => {
                    let tmp = scratch.wrapping_add(fused.folds);
                    fold(a, n / row, row, tmp);
                    narrow(out, tmp, null, null, n / row);
                }
                Work::Expand(expand) => expand(a, n / row, row, out),
                Work::Along(along) => along(out, &[a, b, c], n / row, row),
                Work::Chain(i) => fused.chains[i as usize].run(table, out, n, row),
                Work::Code(s) => {
                    let scratch = scratch.wrapping_add(fused.locals);
                    if let Some(code) = &fused.tile_code {
                        code.run(s, table, scratch, n);
                    }
                }
                Work::Beside | Work::Inside => unreachable!("no instruction"),
            }
        }
    }
}

//! From a list of operations to a program: what is used, where it lives, how long a tile is.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::builder::FusedBuilder;
use super::lay_out::{
    Registers, Scratch, Tile, lay_out_inputs, lay_out_outputs, streamed_bytes, tile_length,
};
use super::node::{NONE, Node, Work};
use super::plan::Plan;
use super::program::{Fused, Instr};
use super::reduce::Reduction;
use super::tile_code::{self, TileCode, Writing};
use super::{op_chains, paired_ops, prefetch, row_tiles};
use crate::aval::size_of as elements_of;
use crate::kernels::lane;

impl FusedBuilder {
    /// The finished program: registers allotted, tiles measured.
    pub fn finish(self) -> Fused {
        let size = elements_of(&self.shape);
        let has_code = !self.rows && tile_code::pays(self.nodes.len(), size);
        let builder = has_code.then(|| self.clone());
        let plain = finish(self);
        builder
            .and_then(|builder| with_code(builder, &plain))
            .unwrap_or(plain)
    }
}

/// Moves a last use to a later position, never to an earlier one.
fn later(last: &mut u32, position: u32) {
    *last = if *last == NONE {
        position
    } else {
        (*last).max(position)
    };
}

/// See [`FusedBuilder::finish`].
fn finish(mut builder: FusedBuilder) -> Fused {
    let size = elements_of(&builder.shape);
    let joined = combine(&mut builder, size, false);
    let liveness = Liveness::of(&builder, &joined);
    let code = Code::written(&builder, joined, liveness);
    let tile = tile_length(&builder, size, &code.registers, &code.reductions);
    laid_out(&builder, code, tile, None)
}

/// The same program with machine code, and tiles of the same length, so that sums have the same order; `None` where
/// there is nothing for it, or no memory.
pub(super) fn with_code(mut builder: FusedBuilder, plain: &Fused) -> Option<Fused> {
    let joined = combine(&mut builder, plain.size, true);
    if joined.segments.is_empty() {
        return None;
    }
    let liveness = Liveness::of(&builder, &joined);
    let mut code = Code::written(&builder, joined, liveness);
    let tile_code = std::mem::take(&mut code.writing).finish()?;
    let tile = Tile {
        elements: plain.plan.tile,
        rows: 1,
    };
    let fused = laid_out(&builder, code, tile, Some(tile_code));
    // Code has few instructions that take long.
    Some(Fused {
        far: plain.far,
        ..fused
    })
}

/// A program whose instructions are written, with everything in its place.
fn laid_out(builder: &FusedBuilder, code: Code, tile: Tile, tile_code: Option<TileCode>) -> Fused {
    let size = elements_of(&builder.shape);
    let last_read = code.last_reads(tile_code.as_ref());
    let Code {
        registers,
        instrs,
        joined: Joined { chains, .. },
        mut reductions,
        written,
        ..
    } = code;
    let streamed = streamed_bytes(builder);
    let split = builder.over.walked(builder.rows_of_space());
    let (split, whole) = (split.or(builder.split), builder.over.whole);
    let cost = builder.cost.max(0.01);
    let plan = Plan::new(size, split, tile.elements, cost, whole);
    let far = prefetch::pays(&plan.walk, streamed.saturating_mul(size), instrs.len());
    let mut scratch = Scratch::default();
    let slots = (registers.classes.iter())
        .map(|&(class, row)| scratch.add(tile.length(row) << class))
        .collect();
    let inputs = lay_out_inputs(builder, &last_read, tile, &mut scratch);
    for reduction in &mut reductions {
        reduction.lay_out(&plan, &mut |bytes| scratch.add(bytes));
    }
    let folds = scratch.add(tile.rows * size_of::<u128>());
    let locals = scratch.add(tile_code.as_ref().map_or(0, TileCode::scratch));
    let outputs = lay_out_outputs(builder, &written, size, tile, &mut scratch);
    Fused {
        size,
        inputs,
        outputs,
        instrs,
        chains,
        tile_code,
        locals,
        reductions,
        slots,
        row: builder.row().unwrap_or(tile.elements),
        folds,
        scratch: scratch.bytes,
        plan,
        far,
        cost: builder.cost,
        shape: builder.shape.clone(),
    }
}

/// What several operations are together.
#[derive(Debug, Default)]
struct Joined {
    chains: Vec<op_chains::Chain>,
    segments: Vec<tile_code::Segment>,
}

impl Joined {
    /// The values that one is made of; [`NONE`] among them.
    fn read_by<'n>(&'n self, node: &'n Node) -> &'n [u32] {
        match node.work {
            Some(Work::Chain(i)) => &self.chains[i as usize].reads,
            Some(Work::Code(s)) => &self.segments[s as usize].reads,
            Some(Work::Both(_)) => &node.args[..1],
            _ => &node.args,
        }
    }
}

/// Joins operations that one kernel does together: pairs, segments of machine code, chains, and what reads elements of
/// rows.
fn combine(builder: &mut FusedBuilder, size: usize, has_code: bool) -> Joined {
    let (nodes, requests) = (&mut builder.nodes, &builder.requests);
    let reduced = builder.split.filter(|_| builder.rows).map(|s| s.reduced);
    // A single element is computed by what is one instruction of the machine for each operation.
    let mut joined = Joined::default();
    if size != 1 {
        paired_ops::combine(nodes, requests);
        if has_code {
            joined.segments = tile_code::form(nodes, requests);
        }
        let segments = joined.segments.iter();
        let kept: Vec<u32> = segments.flat_map(|s| s.reads.iter().copied()).collect();
        joined.chains = op_chains::combine(nodes, requests, &kept, reduced);
    }
    if let Some(reduced) = reduced {
        row_tiles::read_rows(nodes, reduced);
    }
    joined
}

/// Until when values are needed, and for what.
struct Liveness {
    /// For each value the node that reads it last; [`NONE`] where nothing needs it, and it is never computed.
    last: Vec<u32>,
    /// For each value the output that it is computed in.
    direct: Vec<u32>,
    /// For each value the outputs that are reductions of it.
    reduced: HashMap<u32, Vec<usize>>,
    /// Outputs that are copies of values.
    copies: Vec<(usize, u32)>,
}

impl Liveness {
    fn of(builder: &FusedBuilder, joined: &Joined) -> Liveness {
        let nodes = &builder.nodes;
        let mut live = Liveness {
            last: vec![NONE; nodes.len()],
            direct: vec![NONE; nodes.len()],
            reduced: HashMap::new(),
            copies: Vec::new(),
        };
        for (k, request) in builder.requests.iter().enumerate() {
            let x = request.reg as usize;
            later(&mut live.last[x], request.reg);
            if request.reduce.is_some() {
                live.reduced.entry(request.reg).or_default().push(k);
            } else if nodes[x].work.is_some() && live.direct[x] == NONE {
                live.direct[x] = k as u32;
            } else {
                live.copies.push((k, request.reg));
                live.last[x] = nodes.len() as u32;
            }
        }
        for (i, node) in nodes.iter().enumerate().rev() {
            if live.last[i] != NONE {
                for &a in joined.read_by(node).iter().filter(|&&a| a != NONE) {
                    later(&mut live.last[a as usize], i as u32);
                }
            }
        }
        // What a segment makes is there when all of it is.
        for segment in &joined.segments {
            for &x in &segment.results {
                later(&mut live.last[x as usize], segment.place());
            }
        }
        live
    }
}

/// The instructions under construction, and where values are: addresses are nothing, the inputs, the outputs, the
/// registers.
struct Code<'b> {
    builder: &'b FusedBuilder,
    joined: Joined,
    writing: Writing,
    live: Liveness,
    /// Address of every value that has been computed.
    place: Vec<u32>,
    registers: Registers,
    instrs: Vec<Instr>,
    reductions: Vec<Reduction>,
    /// For each output the instruction that writes it.
    written: Vec<Option<usize>>,
}

/// The address of the first input.
const INPUTS: u32 = 1;

impl<'b> Code<'b> {
    fn new(builder: &'b FusedBuilder, joined: Joined, live: Liveness) -> Code<'b> {
        let mut place = vec![0u32; builder.nodes.len()];
        for (address, &x) in (INPUTS..).zip(&builder.inputs) {
            place[x as usize] = address;
        }
        Code {
            builder,
            joined,
            writing: Writing::default(),
            live,
            place,
            registers: Registers::default(),
            instrs: Vec::new(),
            reductions: Vec::new(),
            written: vec![None; builder.requests.len()],
        }
    }

    /// All instructions.
    fn written(builder: &'b FusedBuilder, joined: Joined, live: Liveness) -> Code<'b> {
        let mut code = Code::new(builder, joined, live);
        for i in 0..builder.nodes.len() {
            code.compute(i);
        }
        code.copy_outputs();
        code
    }

    /// The address of the first output.
    fn outputs(&self) -> u32 {
        INPUTS + self.builder.inputs.len() as u32
    }

    /// The address of the first register.
    fn first_register(&self) -> u32 {
        self.outputs() + self.builder.requests.len() as u32
    }

    /// The register that a value is in, if it is in one.
    fn register(&self, x: usize) -> Option<u32> {
        self.place[x].checked_sub(self.first_register())
    }

    /// The instruction of a value that something needs, its reductions, and what becomes free behind it.
    fn compute(&mut self, i: usize) {
        if self.live.last[i] == NONE {
            return;
        }
        let node = &self.builder.nodes[i];
        match node.work {
            Some(Work::Inside) => return,
            Some(Work::Code(s)) => return self.compute_segment(i, s),
            _ => {}
        }
        if let Some(work) = node.work.filter(|w| !matches!(w, Work::Beside)) {
            let dying = self.dying_operands(i);
            if !node.long {
                self.free(&dying);
            }
            self.allot(i);
            if matches!(work, Work::Both(_)) {
                self.allot(node.args[1] as usize);
            }
            if node.long {
                self.free(&dying);
            }
            self.push(i, work);
        }
        self.reduce(i);
        self.give_if_dead(i, i);
    }

    /// Gives back the register of a value that nothing reads after this node.
    fn give_if_dead(&mut self, x: usize, node: usize) {
        if self.live.last[x] == node as u32
            && let Some(register) = self.register(x)
        {
            self.registers.give(register);
        }
    }

    /// The instruction of a segment, whose last operation this is.
    fn compute_segment(&mut self, i: usize, s: u32) {
        let results = self.joined.segments[s as usize].results.clone();
        let dying = self.dying_operands(i);
        for &x in &results {
            self.allot(x as usize);
        }
        self.free(&dying);
        let (inputs, outputs, registers) = (INPUTS, self.outputs(), self.first_register());
        let (builder, place) = (self.builder, &self.place);
        self.writing.add(
            &self.joined.segments[s as usize],
            &|x| place[x as usize],
            &|x| builder.nodes[x as usize].number,
            &|a| (inputs..outputs).contains(&a),
            &|a| (outputs..registers).contains(&a),
        );
        self.instrs.push(Instr {
            work: Work::Code(s),
            code: super::scalar::Code::Lane,
            out: 0,
            args: [0; 3],
        });
        for &x in &results {
            self.reduce(x as usize);
        }
        for &x in &results {
            self.give_if_dead(x as usize, i);
        }
    }

    /// The registers of operands that are read for the last time.
    fn dying_operands(&mut self, i: usize) -> SmallVec<[u32; 5]> {
        let mut dying = SmallVec::new();
        for &a in self.joined.read_by(&self.builder.nodes[i]) {
            if a != NONE
                && self.live.last[a as usize] == i as u32
                && let Some(register) = self.place[a as usize].checked_sub(self.first_register())
            {
                // An operand that stands twice dies once.
                self.live.last[a as usize] = NONE - 1;
                dying.push(register);
            }
        }
        dying
    }

    fn free(&mut self, dying: &[u32]) {
        for &register in dying {
            self.registers.give(register);
        }
    }

    /// Decides where the value of the next instruction goes: into an output, or a register.
    fn allot(&mut self, i: usize) {
        let direct = self.live.direct[i];
        self.place[i] = if direct == NONE {
            self.first_register() + self.registers.take(&self.builder.nodes[i])
        } else {
            self.written[direct as usize] = Some(self.instrs.len());
            self.outputs() + direct
        };
    }

    fn push(&mut self, i: usize, work: Work) {
        let (node, place) = (&self.builder.nodes[i], &self.place);
        let address = |a: u32| if a == NONE { 0 } else { place[a as usize] };
        if let Work::Chain(chain) = work {
            let reads = &mut self.joined.chains[chain as usize].reads;
            *reads = reads.map(address);
        }
        self.instrs.push(Instr {
            work,
            code: node.code,
            out: place[i],
            args: node.args.map(address),
        });
    }

    /// The reductions of a value, which take it while its tile is in the cache.
    fn reduce(&mut self, i: usize) {
        let (builder, position) = (self.builder, self.instrs.len());
        for &k in self.live.reduced.get(&(i as u32)).into_iter().flatten() {
            let Some((op, split)) = builder.requests[k].reduce else {
                continue;
            };
            let Node { dtype, row, .. } = builder.nodes[i];
            let reduction = Reduction::new(op, split, dtype, k, self.place[i], position);
            let rows = builder.rows.then(|| builder.rows_of_space().length);
            self.reductions
                .extend(reduction.map(|r| r.in_tiles(rows, row)));
        }
    }

    /// Outputs that are inputs, or what another output is already.
    fn copy_outputs(&mut self) {
        for &(k, x) in &self.live.copies {
            let Node { dtype, row, .. } = self.builder.nodes[x as usize];
            let lane = lane::cast_lane(dtype, dtype);
            self.written[k] = Some(self.instrs.len());
            self.instrs.push(Instr {
                work: if row {
                    Work::Row(lane)
                } else {
                    Work::Tile(lane)
                },
                code: super::scalar::Code::Lane,
                out: self.outputs() + k as u32,
                args: [self.place[x as usize], 0, 0],
            });
        }
    }

    /// For each input the position of the last instruction or reduction that reads it.
    fn last_reads(&self, tile_code: Option<&TileCode>) -> Vec<usize> {
        let mut last = vec![0; self.builder.inputs.len()];
        let mut note = |address: u32, position: usize| {
            if (INPUTS..self.outputs()).contains(&address) {
                last[(address - INPUTS) as usize] = position;
            }
        };
        for (i, instr) in self.instrs.iter().enumerate() {
            if let (Work::Code(s), Some(code)) = (instr.work, tile_code) {
                for (address, is_late) in code.reads(s) {
                    note(address, i + usize::from(is_late));
                }
            }
            let addresses = match instr.work {
                Work::Chain(i) => &self.joined.chains[i as usize].reads[..],
                _ => &instr.args,
            };
            for &address in addresses {
                note(address, i);
            }
        }
        for reduction in &self.reductions {
            note(reduction.source, reduction.position);
        }
        last
    }
}

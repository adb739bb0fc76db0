//! From a list of operations to a program: what is used, where it lives, how long a tile is.

use std::collections::HashMap;

use super::builder::FusedBuilder;
use super::node::{NONE, Node, Work};
use super::plan::Plan;
use super::program::{Fused, Input, Instr, Output};
use super::reduce::Reduction;
use super::{op_chains, paired_ops, prefetch, row_tiles};
use crate::aval::size_of as elements_of;
use crate::kernels::{ALIGN, cache, lane};

/// The bytes that a tile of all registers and streams may take: a good half of a first-level cache.
const CACHE: usize = 28 << 10;
/// The shortest and the longest tile of a large space, in elements.
const MIN_TILE: usize = 64;
const MAX_TILE: usize = 8192;
/// With many registers a tile that fits into the first-level cache is so short that calling the lanes
/// takes longer than running them: then a tile of the widest elements has so many bytes, within a part of
/// the second-level cache.
const SHORT_TILE: usize = 4096;
const SECOND_CACHE: usize = 384 << 10;
/// An output of so many bytes has left the caches before anybody reads it: it is written past them.
const LARGE: usize = 32 << 20;

impl FusedBuilder {
    /// The finished program: registers allotted, tiles measured.
    pub fn finish(self) -> Fused {
        finish(self)
    }
}

/// Allots registers: one free list for each size of element, and for tiles and rows.
#[derive(Default)]
struct Registers {
    /// Size class of every register, and whether it holds rows.
    classes: Vec<(u32, bool)>,
    free: [[Vec<u32>; 5]; 2],
}

impl Registers {
    fn take(&mut self, node: &Node) -> u32 {
        let class = node.dtype.size().trailing_zeros();
        let free = &mut self.free[usize::from(node.row)][class as usize];
        free.pop().unwrap_or_else(|| {
            self.classes.push((class, node.row));
            (self.classes.len() - 1) as u32
        })
    }

    fn give(&mut self, register: u32) {
        let (class, row) = self.classes[register as usize];
        self.free[usize::from(row)][class as usize].push(register);
    }
}

/// Moves a last use back in time, never forward.
fn later(last: &mut u32, position: u32) {
    *last = if *last == NONE {
        position
    } else {
        (*last).max(position)
    };
}

/// Areas of the scratch memory.
#[derive(Default)]
struct Scratch {
    bytes: usize,
}

impl Scratch {
    /// The offset of a new area. Areas are cache lines apart, so that tiles of a power of two do
    /// not compete for the same lines of the cache.
    fn add(&mut self, bytes: usize) -> usize {
        let offset = self.bytes;
        let gap = if bytes >= 1024 { 2 * ALIGN } else { 0 };
        self.bytes = (offset + bytes + gap).next_multiple_of(ALIGN);
        offset
    }
}

/// See [`FusedBuilder::finish`].
pub(super) fn finish(mut builder: FusedBuilder) -> Fused {
    let size = elements_of(&builder.shape);
    let chains = combine(&mut builder, size);
    let liveness = Liveness::of(&builder, &chains);
    let mut code = Code::new(&builder, chains, liveness);
    for i in 0..builder.nodes.len() {
        code.compute(i);
    }
    code.copy_outputs();
    let last_read = code.last_reads();
    let Code {
        registers,
        instrs,
        chains,
        mut reductions,
        written,
        ..
    } = code;

    let streamed = streamed_bytes(&builder);
    let tile = tile_length(&builder, size, streamed, &registers, &reductions);
    let split = builder.over.walked(builder.rows_of_space());
    let (split, whole) = (split.or(builder.split), builder.over.whole);
    let cost = builder.cost.max(0.01);
    let plan = Plan::new(size, split, tile.elements, cost, whole);
    let far = prefetch::pays(&plan.walk, streamed.saturating_mul(size), instrs.len());
    let mut scratch = Scratch::default();
    let slots = (registers.classes.iter())
        .map(|&(class, row)| scratch.add(tile.length(row) << class))
        .collect();
    let inputs = lay_out_inputs(&builder, &last_read, tile, &mut scratch);
    for reduction in &mut reductions {
        reduction.lay_out(&plan, &mut |bytes| scratch.add(bytes));
    }
    let folds = scratch.add(tile.rows * size_of::<u128>());
    let outputs = lay_out_outputs(&builder, &written, size, tile, &mut scratch);
    Fused {
        size,
        inputs,
        outputs,
        instrs,
        chains,
        reductions,
        slots,
        row: builder.row().unwrap_or(tile.elements),
        folds,
        scratch: scratch.bytes,
        plan,
        far,
        cost: builder.cost,
        shape: builder.shape,
    }
}

impl FusedBuilder {
    /// The length of the rows that tiles are made of, where they are.
    fn row(&self) -> Option<usize> {
        let split = self.split.filter(|_| self.rows);
        split.map(|s| s.reduced.max(1))
    }
}

/// Joins operations that one kernel does together: pairs, chains, and what reads elements of rows.
fn combine(builder: &mut FusedBuilder, size: usize) -> Vec<op_chains::Chain> {
    let (nodes, requests) = (&mut builder.nodes, &builder.requests);
    let reduced = builder.split.filter(|_| builder.rows).map(|s| s.reduced);
    // A single element is computed by what is one instruction of the machine for each operation.
    let mut chains = Vec::new();
    if size != 1 {
        paired_ops::combine(nodes, requests);
        chains = op_chains::combine(nodes, requests, reduced);
    }
    if let Some(reduced) = reduced {
        row_tiles::read_rows(nodes, reduced);
    }
    chains
}

/// The values that one is made of; [`NONE`] among them.
fn read_by<'n>(node: &'n Node, chains: &'n [op_chains::Chain]) -> &'n [u32] {
    match node.work {
        Some(Work::Chain(i)) => &chains[i as usize].reads,
        Some(Work::Both(_)) => &node.args[..1],
        _ => &node.args,
    }
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
    fn of(builder: &FusedBuilder, chains: &[op_chains::Chain]) -> Liveness {
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
                for &a in read_by(node, chains).iter().filter(|&&a| a != NONE) {
                    later(&mut live.last[a as usize], i as u32);
                }
            }
        }
        live
    }
}

/// The instructions under construction, and where values are: addresses are nothing, the inputs, the outputs, the
/// registers.
struct Code<'b> {
    builder: &'b FusedBuilder,
    chains: Vec<op_chains::Chain>,
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
    fn new(builder: &'b FusedBuilder, chains: Vec<op_chains::Chain>, live: Liveness) -> Code<'b> {
        let mut place = vec![0u32; builder.nodes.len()];
        for (address, &x) in (INPUTS..).zip(&builder.inputs) {
            place[x as usize] = address;
        }
        Code {
            builder,
            chains,
            live,
            place,
            registers: Registers::default(),
            instrs: Vec::new(),
            reductions: Vec::new(),
            written: vec![None; builder.requests.len()],
        }
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
        if self.live.last[i] == i as u32
            && let Some(register) = self.register(i)
        {
            self.registers.give(register);
        }
    }

    /// The registers of operands that are read for the last time.
    fn dying_operands(&mut self, i: usize) -> [u32; 5] {
        let mut dying = [NONE; 5];
        for (d, &a) in dying
            .iter_mut()
            .zip(read_by(&self.builder.nodes[i], &self.chains))
        {
            if a != NONE
                && self.live.last[a as usize] == i as u32
                && let Some(register) = self.register(a as usize)
            {
                // An operand that stands twice dies once.
                self.live.last[a as usize] = NONE - 1;
                *d = register;
            }
        }
        dying
    }

    fn free(&mut self, dying: &[u32]) {
        for &register in dying.iter().filter(|&&d| d != NONE) {
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
            let reads = &mut self.chains[chain as usize].reads;
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
    fn last_reads(&self) -> Vec<usize> {
        let mut last = vec![0; self.builder.inputs.len()];
        let mut note = |address: u32, position: usize| {
            if (INPUTS..self.outputs()).contains(&address) {
                last[(address - INPUTS) as usize] = position;
            }
        };
        for (i, instr) in self.instrs.iter().enumerate() {
            let addresses = match instr.work {
                Work::Chain(i) => &self.chains[i as usize].reads[..],
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

/// Bytes of inputs and outputs that an element of the space streams through the caches; elements of rows are few.
fn streamed_bytes(builder: &FusedBuilder) -> usize {
    let wide = |&x: &u32| {
        let node = &builder.nodes[x as usize];
        (!node.row).then(|| node.dtype.size())
    };
    let streams = builder.inputs.iter().filter_map(wide);
    let stored = builder.requests.iter().filter(|r| r.reduce.is_none());
    streams.chain(stored.filter_map(|r| wide(&r.reg))).sum()
}

/// How long tiles are.
#[derive(Clone, Copy)]
struct Tile {
    elements: usize,
    /// The most rows that one holds.
    rows: usize,
}

impl Tile {
    /// The length of a register for elements, or for elements of rows.
    fn length(self, row: bool) -> usize {
        if row { self.rows } else { self.elements }
    }
}

/// A tile of everything at once has to stay in the cache.
fn tile_length(
    builder: &FusedBuilder,
    size: usize,
    streamed: usize,
    registers: &Registers,
    reductions: &[Reduction],
) -> Tile {
    let folded = reductions.iter().map(|r| r.kernels.acc.size());
    let slots = registers.classes.iter();
    let slots = slots.filter_map(|&(class, row)| (!row).then_some(1usize << class));
    let bytes = streamed + folded.chain(slots).sum::<usize>();
    let fitting = |cache: usize| (cache / bytes.max(1)).clamp(MIN_TILE, MAX_TILE);
    let widest = builder.nodes.iter().map(|n| n.dtype.size()).max();
    let short = fitting(SECOND_CACHE).min(SHORT_TILE / widest.unwrap_or(1));
    let tile = fitting(CACHE).max(short) / MIN_TILE * MIN_TILE;
    let tile = tile.min(size).max(1);
    match builder.row() {
        // As many rows as fit, at least one.
        Some(row) => {
            let rows = builder.over.rows_together((tile / row).max(1));
            Tile {
                elements: rows * row,
                rows,
            }
        }
        None => Tile {
            elements: tile,
            rows: 1,
        },
    }
}

fn lay_out_inputs(
    builder: &FusedBuilder,
    last_read: &[usize],
    tile: Tile,
    scratch: &mut Scratch,
) -> Vec<Input> {
    (builder.inputs.iter().zip(last_read))
        .map(|(&x, &last_read)| {
            let Node { dtype, row, .. } = builder.nodes[x as usize];
            let shape = builder.row_inputs.iter().find(|(reg, _)| *reg == x);
            Input {
                dtype,
                offset: scratch.add(tile.length(row) * dtype.size()),
                last_read,
                row: shape.map(|(_, shape)| shape.clone()),
            }
        })
        .collect()
}

fn lay_out_outputs(
    builder: &FusedBuilder,
    written: &[Option<usize>],
    size: usize,
    tile: Tile,
    scratch: &mut Scratch,
) -> Vec<Output> {
    let num_rows = builder.split.map_or(0, |s| s.outer);
    (builder.requests.iter().zip(written))
        .map(|(r, &written)| {
            let Node { dtype, row, .. } = builder.nodes[r.reg as usize];
            let all = if row { num_rows } else { size };
            let is_large = !row && size.saturating_mul(dtype.size()) >= LARGE;
            let is_staged = cache::WRITES_PAST && is_large && written.is_some();
            Output {
                dtype,
                elements: r.reduce.map_or(all, |(_, s)| s.outer * s.inner),
                written,
                row,
                staged: is_staged.then(|| scratch.add(tile.elements * dtype.size())),
            }
        })
        .collect()
}

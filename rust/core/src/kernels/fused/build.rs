//! From a list of operations to a program: what is used, where it lives, how long a tile is.

use std::collections::HashMap;

use super::plan::Plan;
use super::reduce::Reduction;
use super::{Fused, FusedBuilder, Input, Instr, NONE, Node, Output, Work};
use super::{ahead, chains, pairs, rows};
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
struct Layout {
    bytes: usize,
}

impl Layout {
    /// The offset of a new area. Areas are cache lines apart, so that tiles of a power of two do
    /// not compete for the same lines of the cache.
    fn add(&mut self, bytes: usize) -> usize {
        let offset = self.bytes;
        let gap = if bytes >= 1024 { 2 * ALIGN } else { 0 };
        self.bytes = (offset + bytes + gap).next_multiple_of(ALIGN);
        offset
    }
}

/// The values that one is made of; [`NONE`] among them.
fn read_by<'n>(node: &'n Node, chains: &'n [chains::Chain]) -> &'n [u32] {
    match node.work {
        Some(Work::Chain(i)) => &chains[i as usize].reads,
        Some(Work::Both(_)) => &node.args[..1],
        _ => &node.args,
    }
}

/// See [`FusedBuilder::finish`].
pub(super) fn finish(builder: FusedBuilder) -> Fused {
    let FusedBuilder {
        shape,
        mut nodes,
        inputs,
        row_inputs,
        requests,
        rows: of_rows,
        split,
        cost,
    } = builder;
    let size = elements_of(&shape);

    // A single element is computed by what is one instruction of the machine for each operation.
    let mut chains = if size == 1 {
        Vec::new()
    } else {
        pairs::combine(&mut nodes, &requests);
        let row = split.filter(|_| of_rows).map(|s| s.reduced);
        chains::combine(&mut nodes, &requests, row)
    };
    if let Some(split) = split.filter(|_| of_rows) {
        rows::read_rows(&mut nodes, split.reduced);
    }
    // Where each value is read last: a position among the nodes. Values that nothing needs are
    // never computed.
    let mut last = vec![NONE; nodes.len()];
    let mut direct: Vec<u32> = vec![NONE; nodes.len()];
    let mut reduced: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut copies = Vec::new();
    for (k, request) in requests.iter().enumerate() {
        let x = request.reg as usize;
        later(&mut last[x], request.reg);
        if request.reduce.is_some() {
            reduced.entry(request.reg).or_default().push(k);
        } else if nodes[x].work.is_some() && direct[x] == NONE {
            direct[x] = k as u32;
        } else {
            copies.push((k, request.reg));
            last[x] = nodes.len() as u32;
        }
    }
    for (i, node) in nodes.iter().enumerate().rev() {
        if last[i] != NONE {
            for &a in read_by(node, &chains).iter().filter(|&&a| a != NONE) {
                later(&mut last[a as usize], i as u32);
            }
        }
    }

    // Addresses: nothing, the inputs, the outputs, the registers.
    let input_base = 1;
    let output_base = input_base + inputs.len() as u32;
    let slot_base = output_base + requests.len() as u32;
    let mut place = vec![0u32; nodes.len()];
    for (k, &x) in inputs.iter().enumerate() {
        place[x as usize] = input_base + k as u32;
    }
    let mut registers = Registers::default();
    let mut instrs: Vec<Instr> = Vec::new();
    let mut reductions: Vec<Reduction> = Vec::new();
    let mut written = vec![None; requests.len()];
    for (i, node) in nodes.iter().enumerate() {
        if last[i] == NONE {
            continue;
        }
        if let Some(work) = node.work.filter(|w| !matches!(w, Work::Beside)) {
            let mut dying = [NONE; 5];
            for (d, &a) in dying.iter_mut().zip(read_by(node, &chains)) {
                if a != NONE && last[a as usize] == i as u32 && place[a as usize] >= slot_base {
                    // An operand that stands twice dies once.
                    last[a as usize] = NONE - 1;
                    *d = place[a as usize] - slot_base;
                }
            }
            let free = |registers: &mut Registers| {
                dying
                    .iter()
                    .filter(|&&d| d != NONE)
                    .for_each(|&d| registers.give(d));
            };
            if !node.long {
                free(&mut registers);
            }
            let mut place_of = |i: usize| {
                if direct[i] == NONE {
                    slot_base + registers.take(&nodes[i])
                } else {
                    written[direct[i] as usize] = Some(instrs.len());
                    output_base + direct[i]
                }
            };
            place[i] = place_of(i);
            if matches!(work, Work::Both(_)) {
                place[node.args[1] as usize] = place_of(node.args[1] as usize);
            }
            if node.long {
                free(&mut registers);
            }
            let address = |a: u32| if a == NONE { 0 } else { place[a as usize] };
            if let Work::Chain(i) = work {
                let reads = &mut chains[i as usize].reads;
                *reads = reads.map(address);
            }
            instrs.push(Instr {
                work,
                code: node.code,
                out: place[i],
                args: node.args.map(address),
            });
        }
        for &k in reduced.get(&(i as u32)).into_iter().flatten() {
            let Some((op, split)) = requests[k].reduce else {
                continue;
            };
            let reduction = Reduction::new(op, split, node.dtype, k, place[i], instrs.len());
            reductions.extend(reduction.map(|r| r.over_rows(of_rows)));
        }
        if last[i] == i as u32 && place[i] >= slot_base {
            registers.give(place[i] - slot_base);
        }
    }
    for (k, x) in copies {
        let Node { dtype, row, .. } = nodes[x as usize];
        let lane = lane::cast_lane(dtype, dtype);
        written[k] = Some(instrs.len());
        instrs.push(Instr {
            work: if row {
                Work::Row(lane)
            } else {
                Work::Tile(lane)
            },
            code: super::scalar::Code::Lane,
            out: output_base + k as u32,
            args: [place[x as usize], 0, 0],
        });
    }

    let mut last_read = vec![0; inputs.len()];
    let mut note = |address: u32, position: usize| {
        if (input_base..output_base).contains(&address) {
            last_read[(address - input_base) as usize] = position;
        }
    };
    for (i, instr) in instrs.iter().enumerate() {
        let addresses = match instr.work {
            Work::Chain(i) => &chains[i as usize].reads[..],
            _ => &instr.args,
        };
        for &address in addresses {
            note(address, i);
        }
    }
    for reduction in &reductions {
        note(reduction.source, reduction.position);
    }

    // A tile of everything at once has to stay in the cache; elements of rows are few.
    let wide = |&x: &u32| (!nodes[x as usize].row).then(|| nodes[x as usize].dtype.size());
    let streams = inputs.iter().filter_map(wide);
    let stored = requests.iter().filter(|r| r.reduce.is_none());
    let stored = stored.filter_map(|r| wide(&r.reg));
    let folded = reductions.iter().map(|r| r.kernels.acc.size());
    let slots = registers.classes.iter();
    let slots = slots.filter_map(|&(class, row)| (!row).then_some(1usize << class));
    let streamed: usize = streams.chain(stored).sum();
    let bytes: usize = streamed + folded.chain(slots).sum::<usize>();
    let fitting = |cache: usize| (cache / bytes.max(1)).clamp(MIN_TILE, MAX_TILE);
    let widest = nodes.iter().map(|n| n.dtype.size()).max().unwrap_or(1);
    let short = fitting(SECOND_CACHE).min(SHORT_TILE / widest);
    let tile = fitting(CACHE).max(short) / MIN_TILE * MIN_TILE;
    let tile = tile.min(size).max(1);
    let row = split.filter(|_| of_rows).map(|s| s.reduced.max(1));
    // As many rows as fit, at least one.
    let tile = row.map_or(tile, |row| (tile / row).max(1) * row);
    let most_rows = row.map_or(1, |row| tile / row);
    let plan = Plan::new(size, split, tile, cost.max(0.01));

    let mut scratch = Layout::default();
    let length = |row: bool| if row { most_rows } else { tile };
    let slots = (registers.classes.iter())
        .map(|&(class, row)| scratch.add(length(row) << class))
        .collect();
    let inputs = (inputs.iter().zip(last_read))
        .map(|(&x, last_read)| {
            let Node { dtype, row, .. } = nodes[x as usize];
            let shape = row_inputs.iter().find(|(reg, _)| *reg == x);
            Input {
                dtype,
                offset: scratch.add(length(row) * dtype.size()),
                last_read,
                row: shape.map(|(_, shape)| shape.clone()),
            }
        })
        .collect();
    for reduction in &mut reductions {
        reduction.lay_out(&plan, &mut |bytes| scratch.add(bytes));
    }
    let folds = scratch.add(most_rows * size_of::<u128>());
    let num_rows = split.map_or(0, |s| s.outer);
    let outputs = requests
        .iter()
        .zip(written)
        .map(|(r, written)| {
            let Node { dtype, row, .. } = nodes[r.reg as usize];
            let all = if row { num_rows } else { size };
            let is_large = !row && size.saturating_mul(dtype.size()) >= LARGE;
            let is_staged = cache::WRITES_PAST && is_large && written.is_some();
            Output {
                dtype,
                elements: r.reduce.map_or(all, |(_, s)| s.outer * s.inner),
                written,
                row,
                staged: is_staged.then(|| scratch.add(tile * dtype.size())),
            }
        })
        .collect();
    let far = ahead::pays(&plan.walk, streamed.saturating_mul(size), instrs.len());
    Fused {
        shape,
        size,
        inputs,
        outputs,
        instrs,
        chains,
        reductions,
        slots,
        row: row.unwrap_or(tile),
        folds,
        scratch: scratch.bytes,
        plan,
        far,
        cost,
    }
}

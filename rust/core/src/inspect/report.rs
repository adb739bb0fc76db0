//! What a pullback holds and why, and what it has not computed.

use crate::aval::Aval;
use crate::prim::{Cost, Prim, Site, Var};
use crate::program::{Eqn, Program};
use crate::tape::Array;
use crate::tape::node::Marks;
use crate::util::FastMap;

/// Where a residual comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An input of the forward program.
    Input(usize),
    /// The result of one of its equations: the variable.
    Equation(Var, Prim, Site),
    /// That is not known any more.
    Unknown,
}

/// A value that a pullback holds.
#[derive(Debug, Clone)]
pub struct Residual {
    /// Which input of the pullback's program it is.
    pub input: usize,
    /// Dtype and shape.
    pub aval: Aval,
    /// Bytes; 0 for one that lies in the memory of one before.
    pub nbytes: usize,
    /// Where it comes from.
    pub source: Source,
    /// The first equation that reads it, unless it is handed out as it is.
    pub reader: Option<(Prim, Site)>,
    /// How many equations read it.
    pub readers: usize,
    /// The leaves whose cotangents need it.
    pub leaves: Vec<usize>,
}

/// A stretch of the forward program that could be a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Its first and its last equation.
    pub ends: [(Var, Prim, Site); 2],
    /// How many there are.
    pub equations: usize,
    /// Bytes of residuals that would not be kept.
    pub nbytes: usize,
    /// The part of the forward program's work that would be done again.
    pub work: f64,
}

/// What there is to say about a pullback.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it holds, each value once.
    pub residuals: Vec<Residual>,
    /// For each leaf, whether its cotangent was computed; `None` where it has none.
    pub computed: Vec<Option<bool>>,
    /// How many equations the program has.
    pub equations: usize,
    /// How many of them only cotangents need that were never computed,
    pub equations_avoided: usize,
    /// and how many bytes their results would have.
    pub bytes_avoided: usize,
    /// Cotangents that were not asked for when the function was differentiated, by the primitive whose
    /// rule would have computed them.
    pub skipped: Vec<(Prim, u64)>,
    /// Where a checkpoint would free the most, best first; at most three.
    pub checkpoints: Vec<Stretch>,
}

/// The parts of a pullback that a report is made of.
pub(crate) struct Subject<'a> {
    pub program: &'a Program,
    /// The program that gave the residuals, where it is known.
    pub forward: Option<&'a Program>,
    pub residuals: &'a [Array],
    /// How many outputs the function has.
    pub outputs: usize,
    /// For each leaf, which output of the program is its cotangent.
    pub gradients: &'a [Option<usize>],
    pub marks: &'a Marks,
    pub skipped: &'a [(Prim, u64)],
}

impl Subject<'_> {
    /// What it holds and why, and what it has not computed.
    pub fn report(&self) -> Report {
        let program = self.program;
        let computed: Vec<Option<bool>> = (self.gradients.iter())
            .map(|slot| slot.map(|out| self.marks.get(out)))
            .collect();
        let wanted: Vec<bool> = (0..program.outs().len())
            .map(|out| self.marks.get(out))
            .collect();
        let needed = program.needed(&wanted);
        let first = program.num_inputs();
        let avoided = || (first..program.num_vars()).filter(|&v| !needed[v]);
        Report {
            residuals: self.residuals(),
            computed,
            equations: program.eqns().len(),
            equations_avoided: avoided().count(),
            bytes_avoided: avoided().map(|v| program.aval(v as Var).nbytes()).sum(),
            skipped: self.skipped.to_vec(),
            checkpoints: self
                .forward
                .map(|f| stretches(f, self.outputs))
                .unwrap_or_default(),
        }
    }

    /// What it holds, and what for.
    fn residuals(&self) -> Vec<Residual> {
        let program = self.program;
        let count = program.num_inputs() - self.residuals.len();
        let mut readers: Vec<(u32, u32)> = vec![(u32::MAX, 0); program.num_inputs()];
        for (k, eqn) in program.eqns().iter().enumerate() {
            for &a in program.args(eqn) {
                if let Some((reader, readers)) = readers.get_mut(a as usize) {
                    *reader = (*reader).min(k as u32);
                    *readers += 1;
                }
            }
        }
        let users = self.users();
        let forward = self.forward;
        let results = self.outputs;
        let mut seen: FastMap<usize, ()> = FastMap::default();
        let mut residuals = Vec::with_capacity(self.residuals.len());
        for (i, residual) in self.residuals.iter().enumerate() {
            let address = residual.value().map(|v| v.as_ptr() as usize);
            let is_new = address.is_none_or(|a| seen.insert(a, ()).is_none());
            let source = forward.and_then(|f| {
                let var = *f.outs().get(results + i)?;
                Some(match (var as usize).checked_sub(f.num_inputs()) {
                    None => Source::Input(var as usize),
                    Some(k) => Source::Equation(var, f.eqns()[k].prim, f.site(k)),
                })
            });
            let (reader, readers) = readers[count + i];
            let reader = program
                .eqns()
                .get(reader as usize)
                .map(|e| (e.prim, reader));
            residuals.push(Residual {
                input: count + i,
                aval: residual.aval().clone(),
                nbytes: if is_new { residual.nbytes() } else { 0 },
                source: source.unwrap_or(Source::Unknown),
                reader: reader.map(|(prim, k)| (prim, program.site(k as usize))),
                readers: readers as usize,
                leaves: users.of(count + i),
            });
        }
        residuals
    }

    /// Which leaves' cotangents need which variable of the program.
    fn users(&self) -> Users {
        let program = self.program;
        let slots: Vec<(usize, usize)> = (self.gradients.iter().enumerate())
            .filter_map(|(leaf, slot)| slot.map(|out| (leaf, out)))
            .collect();
        let words = slots.len().div_ceil(64);
        let mut users = Users {
            words,
            bits: vec![0; words * program.num_vars()],
            leaves: slots.iter().map(|(leaf, _)| *leaf).collect(),
        };
        for (bit, (_, out)) in slots.iter().enumerate() {
            let var = program.outs()[*out] as usize;
            users.bits[var * words + bit / 64] |= 1 << (bit % 64);
        }
        for (k, eqn) in program.eqns().iter().enumerate().rev() {
            let var = program.result(k) as usize;
            for &a in program.args(eqn) {
                for word in 0..words {
                    users.bits[a as usize * words + word] |= users.bits[var * words + word];
                }
            }
        }
        users
    }
}

/// A set of leaves for each variable, as bits.
struct Users {
    words: usize,
    bits: Vec<u64>,
    leaves: Vec<usize>,
}

impl Users {
    fn of(&self, var: usize) -> Vec<usize> {
        let words = &self.bits[var * self.words..(var + 1) * self.words];
        (self.leaves.iter().enumerate())
            .filter(|(bit, _)| words[bit / 64] >> (bit % 64) & 1 == 1)
            .map(|(_, &leaf)| leaf)
            .collect()
    }
}

/// Into how many pieces of about equal work a program is cut.
const PIECES: u32 = 24;
/// A checkpoint has at most this part of the work: of more than that it would have to compute as much again
/// at once as it saves.
const PART: f64 = 0.34;

fn work(program: &Program, k: usize) -> f64 {
    let eqn: &Eqn = &program.eqns()[k];
    let size = |v: Var| program.aval(v).size();
    let largest = program.args(eqn).iter().map(|&a| size(a)).max();
    let out = size(program.result(k));
    let most = out.max(largest.unwrap_or(0)) as f64;
    match eqn.prim.0.cost {
        Cost::Free => 0.0,
        Cost::Cheap => most,
        Cost::Dear => 20.0 * most,
        Cost::Heavy => {
            let inner = program.args(eqn).first();
            let inner = inner.and_then(|&a| program.aval(a).shape.last().copied());
            out as f64 * inner.unwrap_or(1) as f64
        }
    }
}

/// The equations in the order in which the function computes them. What only derivatives need follows
/// what it is made of. Says which are the function's own, too.
fn in_order(forward: &Program, results: usize) -> (Vec<usize>, Vec<bool>) {
    let (first, count) = (forward.num_inputs(), forward.eqns().len());
    let wanted: Vec<bool> = (0..forward.outs().len()).map(|i| i < results).collect();
    let needed = forward.needed(&wanted);
    let own: Vec<bool> = (0..count).map(|k| needed[first + k]).collect();
    let mut home = Vec::with_capacity(count);
    for (k, eqn) in forward.eqns().iter().enumerate() {
        let behind = |&a: &Var| (a as usize).checked_sub(first).map(|of| home[of]);
        let last = forward.args(eqn).iter().filter_map(behind).max();
        home.push(if own[k] { k } else { last.unwrap_or(0) });
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&k| (home[k], !own[k]));
    (order, own)
}

/// Where a checkpoint would free the most. The program is cut where little is alive, and of the stretches
/// between two cuts those that free the most come first. What a checkpoint needs from before is kept
/// instead, and so is what comes after it reads.
fn stretches(forward: &Program, results: usize) -> Vec<Stretch> {
    let (first, count) = (forward.num_inputs(), forward.eqns().len());
    let (order, own) = in_order(forward, results);
    let mut at = vec![0; count];
    for (i, &k) in order.iter().enumerate() {
        at[k] = i;
    }
    let residuals: Vec<usize> = (forward.outs()[results..].iter())
        .filter_map(|&v| (v as usize).checked_sub(first))
        .collect();
    if residuals.is_empty() {
        return Vec::new();
    }
    let mut is_residual = vec![false; forward.num_vars()];
    for &v in &forward.outs()[results..] {
        is_residual[v as usize] = true;
    }
    // Behind which position a result is not read any more.
    let mut last: Vec<usize> = at.clone();
    for (k, eqn) in forward.eqns().iter().enumerate() {
        for &a in forward.args(eqn) {
            if let Some(of) = (a as usize).checked_sub(first) {
                last[of] = last[of].max(at[k]);
            }
        }
    }
    for &out in &forward.outs()[..results] {
        if let Some(of) = (out as usize).checked_sub(first) {
            last[of] = count;
        }
    }
    let nbytes = |k: usize| forward.aval(forward.result(k)).nbytes();
    let mut change = vec![0i64; count + 1];
    let mut done = Vec::with_capacity(count + 1);
    done.push(0.0);
    for (i, &k) in order.iter().enumerate() {
        change[i] += nbytes(k) as i64;
        change[last[k]] -= nbytes(k) as i64;
        done.push(done[i] + if own[k] { work(forward, k) } else { 0.0 });
    }
    let total = done[count];
    if total <= 0.0 {
        return Vec::new();
    }
    let cuts = cuts(&change, &done, total);
    let mut found: Vec<(usize, f64, usize, usize)> = Vec::new();
    // In which pair of cuts a variable was last counted.
    let (mut counted, mut pair) = (vec![0u32; forward.num_vars()], 0);
    for (i, &from) in cuts.iter().enumerate() {
        for &to in &cuts[i + 1..] {
            let share = (done[to] - done[from]) / total;
            if share > PART {
                break;
            }
            let inside = residuals.iter().filter(|&&k| (from..to).contains(&at[k]));
            let freed: usize = inside.filter(|&&k| last[k] < to).map(|&k| nbytes(k)).sum();
            let mut needed = 0;
            pair += 1;
            for &k in &order[from..to] {
                for &a in forward.args(&forward.eqns()[k]) {
                    let before = (a as usize)
                        .checked_sub(first)
                        .is_none_or(|of| at[of] < from);
                    if before
                        && !is_residual[a as usize]
                        && forward.literal(a).is_none()
                        && counted[a as usize] != pair
                    {
                        counted[a as usize] = pair;
                        needed += forward.aval(a).nbytes();
                    }
                }
            }
            found.push((freed.saturating_sub(needed), share, from, to));
        }
    }
    found.retain(|(freed, ..)| *freed > 0);
    found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    let mut chosen: Vec<(usize, f64, usize, usize)> = Vec::new();
    for stretch in found {
        let apart =
            |other: &(usize, f64, usize, usize)| stretch.3 <= other.2 || stretch.2 >= other.3;
        if chosen.len() < 3 && chosen.iter().all(apart) {
            chosen.push(stretch);
        }
    }
    (chosen.into_iter())
        .filter_map(|(nbytes, work, from, to)| {
            let own: Vec<usize> = (order[from..to].iter().copied())
                .filter(|&k| own[k])
                .collect();
            let end = |k: usize| (forward.result(k), forward.eqns()[k].prim, forward.site(k));
            Some(Stretch {
                ends: [end(*own.first()?), end(*own.last()?)],
                equations: own.len(),
                nbytes,
                work,
            })
        })
        .collect()
}

/// Where to cut, in numbers of equations before: in each of some pieces of about equal work where the
/// least is alive. `change` says how many bytes more are alive behind each position, `done` the work up to
/// each one.
fn cuts(change: &[i64], done: &[f64], total: f64) -> Vec<usize> {
    let count = done.len() - 1;
    let mut cuts = vec![0];
    let (mut alive, mut piece, mut best) = (0, 1, None::<(i64, usize)>);
    for i in 0..count {
        alive += change[i];
        if best.is_none_or(|(least, _)| alive <= least) {
            best = Some((alive, i + 1));
        }
        if done[i + 1] >= total * f64::from(piece) / f64::from(PIECES) {
            cuts.extend(best.take().map(|(_, cut)| cut));
            while piece <= PIECES && done[i + 1] >= total * f64::from(piece) / f64::from(PIECES) {
                piece += 1;
            }
        }
    }
    cuts.push(count);
    cuts.dedup();
    cuts
}

//! Finds the stretches of a forward program where a checkpoint would free the most memory.

use crate::prim::{Cost, Prim, Site, Var};
use crate::program::{Eqn, Program};

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

/// Into how many pieces of about equal work a program is cut.
const PIECES: u32 = 24;
/// A checkpoint has at most this part of the work: of more than that it would have to compute as much again
/// at once as it saves.
const PART: f64 = 0.34;
/// So many checkpoints are proposed at most.
const MOST: usize = 3;

/// Where a checkpoint would free the most. The program is cut where little is alive, and of the stretches
/// between two cuts those that free the most come first. What a checkpoint needs from before is kept
/// instead, and so is what comes after it reads.
pub(super) fn stretches(forward: &Program, results: usize) -> Vec<Stretch> {
    let timeline = Timeline::new(forward, results);
    if timeline.residuals.is_empty() || timeline.total() <= 0.0 {
        return Vec::new();
    }
    let mut candidates = timeline.candidates();
    candidates.retain(|c| c.freed > 0);
    candidates.sort_by(|a, b| {
        let by_work = || a.share.total_cmp(&b.share);
        (b.freed.cmp(&a.freed))
            .then_with(by_work)
            .then(a.from.cmp(&b.from))
    });
    let mut chosen: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if chosen.len() < MOST && chosen.iter().all(|other| candidate.is_apart(other)) {
            chosen.push(candidate);
        }
    }
    (chosen.iter())
        .filter_map(|candidate| timeline.stretch(candidate))
        .collect()
}

/// The equations between two positions, and what a checkpoint there does.
struct Candidate {
    from: usize,
    to: usize,
    /// Bytes that it would free.
    freed: usize,
    /// Its part of the program's work.
    share: f64,
}

impl Candidate {
    fn is_apart(&self, other: &Candidate) -> bool {
        self.to <= other.from || self.from >= other.to
    }
}

/// The equations of a forward program by their positions in the function.
struct Timeline<'p> {
    forward: &'p Program,
    /// The equation at each position, and the position of each equation.
    order: Vec<usize>,
    at: Vec<usize>,
    /// Which equations are the function's own.
    own: Vec<bool>,
    /// Behind which position the result of each equation is not read any more.
    last: Vec<usize>,
    /// The work up to each position.
    done: Vec<f64>,
    /// Equations whose results are residuals, and for each variable whether it is one.
    residuals: Vec<usize>,
    is_residual: Vec<bool>,
}

impl<'p> Timeline<'p> {
    fn new(forward: &'p Program, results: usize) -> Timeline<'p> {
        let (first, count) = (forward.num_inputs(), forward.eqns().len());
        let (order, own) = in_order(forward, results);
        let mut at = vec![0; count];
        for (i, &k) in order.iter().enumerate() {
            at[k] = i;
        }
        let (outs, kept) = forward.outs().split_at(results);
        let residuals = (kept.iter()).filter_map(|&v| (v as usize).checked_sub(first));
        let mut is_residual = vec![false; forward.num_vars()];
        for &v in kept {
            is_residual[v as usize] = true;
        }
        let mut last: Vec<usize> = at.clone();
        for (k, eqn) in forward.eqns().iter().enumerate() {
            for &a in forward.args(eqn) {
                if let Some(of) = (a as usize).checked_sub(first) {
                    last[of] = last[of].max(at[k]);
                }
            }
        }
        for &out in outs {
            if let Some(of) = (out as usize).checked_sub(first) {
                last[of] = count;
            }
        }
        let mut done = Vec::with_capacity(count + 1);
        done.push(0.0);
        for (i, &k) in order.iter().enumerate() {
            done.push(done[i] + if own[k] { work(forward, k) } else { 0.0 });
        }
        Timeline {
            forward,
            residuals: residuals.collect(),
            order,
            at,
            own,
            last,
            done,
            is_residual,
        }
    }

    fn total(&self) -> f64 {
        self.done[self.order.len()]
    }

    fn nbytes(&self, k: usize) -> usize {
        self.forward.aval(self.forward.result(k)).nbytes()
    }

    /// How many bytes more are alive behind each position.
    fn change(&self) -> Vec<i64> {
        let mut change = vec![0i64; self.order.len() + 1];
        for (i, &k) in self.order.iter().enumerate() {
            change[i] += self.nbytes(k) as i64;
            change[self.last[k]] -= self.nbytes(k) as i64;
        }
        change
    }

    /// All stretches between two cuts that have not too much of the work.
    fn candidates(&self) -> Vec<Candidate> {
        let cuts = cuts(&self.change(), &self.done, self.total());
        let mut found = Vec::new();
        // In which pair of cuts a variable was last counted.
        let (mut counted, mut pair) = (vec![0u32; self.forward.num_vars()], 0);
        for (i, &from) in cuts.iter().enumerate() {
            for &to in &cuts[i + 1..] {
                let share = (self.done[to] - self.done[from]) / self.total();
                if share > PART {
                    break;
                }
                pair += 1;
                let needed = self.needed_from_before(from, to, &mut counted, pair);
                found.push(Candidate {
                    from,
                    to,
                    freed: self.residual_bytes(from, to).saturating_sub(needed),
                    share,
                });
            }
        }
        found
    }

    /// Bytes of residuals that are made and last read between two positions.
    fn residual_bytes(&self, from: usize, to: usize) -> usize {
        (self.residuals.iter())
            .filter(|&&k| (from..to).contains(&self.at[k]) && self.last[k] < to)
            .map(|&k| self.nbytes(k))
            .sum()
    }

    /// Bytes that equations between two positions read of what was made before, and is not kept anyway.
    /// What it has counted it marks with the number of the pair.
    fn needed_from_before(&self, from: usize, to: usize, counted: &mut [u32], pair: u32) -> usize {
        let (forward, first) = (self.forward, self.forward.num_inputs());
        let mut needed = 0;
        for &k in &self.order[from..to] {
            for &a in forward.args(&forward.eqns()[k]) {
                let before = (a as usize)
                    .checked_sub(first)
                    .is_none_or(|of| self.at[of] < from);
                if before
                    && !self.is_residual[a as usize]
                    && forward.literal(a).is_none()
                    && counted[a as usize] != pair
                {
                    counted[a as usize] = pair;
                    needed += forward.aval(a).nbytes();
                }
            }
        }
        needed
    }

    /// `None` for a stretch without equations of the function's own.
    fn stretch(&self, candidate: &Candidate) -> Option<Stretch> {
        let forward = self.forward;
        let equations = self.order[candidate.from..candidate.to].iter().copied();
        let own: Vec<usize> = equations.filter(|&k| self.own[k]).collect();
        let end = |k: usize| (forward.result(k), forward.eqns()[k].prim, forward.site(k));
        Some(Stretch {
            ends: [end(*own.first()?), end(*own.last()?)],
            equations: own.len(),
            nbytes: candidate.freed,
            work: candidate.share,
        })
    }
}

/// What an equation costs, about: elements times what each takes.
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

//! Which residuals of a pullback wait until a cotangent that needs them is read.
//!
//! A residual that some cotangents need and others do not, and that the value does not need, is made when it is read
//! for the first time. What it is made of is kept instead, if it is kept anyway or takes no more memory.

use std::sync::Arc;

use super::partial_eval::Split;
use crate::ops;
use crate::prim::Var;
use crate::program::Program;

/// The early half of a program, without what waits.
#[derive(Debug)]
pub struct Deferred {
    /// From the early inputs to the wanted outputs and what is kept of this run.
    pub early: Program,
    /// For each residual where it comes from.
    pub residuals: Vec<Source>,
    /// What makes the residuals that wait. They share no work.
    pub later: Vec<Later>,
}

/// Where a residual comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// It is what the run keeps: which of these.
    Kept(usize),
    /// It is an output of what runs later: of which, and which one.
    Later(usize, usize),
}

/// A program that makes residuals from what is kept.
#[derive(Debug)]
pub struct Later {
    /// The program.
    pub program: Arc<Program>,
    /// Its inputs among what is kept.
    pub inputs: Vec<usize>,
}

/// A residual that may wait.
struct Waiting {
    residual: usize,
    /// The equations that only it, or others that wait, are made by.
    made_by: Vec<Var>,
    made_of: Vec<Var>,
}

/// Divides the early half of a program, whose first `wanted` outputs are not residuals; `None` where nothing waits.
pub fn defer(halves: &Split, wanted: usize) -> Option<Deferred> {
    let early = &halves.early;
    let residuals = &early.outs()[wanted..];
    let is_early: Vec<bool> = (0..early.outs().len()).map(|i| i < wanted).collect();
    let computed = early.needed(&is_early);
    let may_wait = read_by_some(&halves.late, residuals.len());
    if early.has_calls() || !may_wait.contains(&true) {
        return None;
    }
    let is_number = |v: Var| early.definition(v).is_some_and(|e| e.prim == ops::LITERAL);
    let is_there = |v: Var| (v as usize) < early.num_inputs() || computed[v as usize];
    let can_wait =
        |i: &usize| may_wait[*i] && !is_there(residuals[*i]) && !is_number(residuals[*i]);

    let mut is_kept = vec![false; early.num_vars()];
    for i in (0..residuals.len()).filter(|i| !can_wait(i)) {
        is_kept[residuals[i] as usize] = true;
    }
    let mut waiting: Vec<Waiting> = Vec::new();
    for residual in (0..residuals.len()).filter(can_wait) {
        let var = residuals[residual];
        let (made_by, made_of) = made(early, var, is_there, is_number);
        let bytes = |v: Var| early.aval(v).nbytes();
        let new = made_of.iter().filter(|&&v| !is_kept[v as usize]);
        if new.map(|&v| bytes(v)).sum::<usize>() > bytes(var) {
            is_kept[var as usize] = true;
            continue;
        }
        for &v in &made_of {
            is_kept[v as usize] = true;
        }
        waiting.push(Waiting {
            residual,
            made_by,
            made_of,
        });
    }
    if waiting.is_empty() {
        return None;
    }

    let kept: Vec<Var> = (0..)
        .zip(&is_kept)
        .filter(|(_, k)| **k)
        .map(|(v, _)| v)
        .collect();
    let place = |v: Var| kept.binary_search(&v).unwrap_or(0);
    let mut sources: Vec<Source> = residuals.iter().map(|&v| Source::Kept(place(v))).collect();
    let mut later = Vec::new();
    for group in groups(early.num_vars(), &waiting) {
        let mut inputs: Vec<Var> = (group.iter())
            .flat_map(|&i| waiting[i].made_of.iter().copied())
            .collect();
        inputs.sort_unstable();
        inputs.dedup();
        for (output, &i) in group.iter().enumerate() {
            sources[waiting[i].residual] = Source::Later(later.len(), output);
        }
        let outs: Vec<Var> = group
            .iter()
            .map(|&i| residuals[waiting[i].residual])
            .collect();
        later.push(Later {
            program: Arc::new(early.extract(&inputs, &outs)),
            inputs: inputs.iter().map(|&v| place(v)).collect(),
        });
    }
    let inputs: Vec<Var> = (0..early.num_inputs() as Var).collect();
    let outs: Vec<Var> = early.outs()[..wanted]
        .iter()
        .chain(&kept)
        .copied()
        .collect();
    Some(Deferred {
        early: early.extract(&inputs, &outs),
        residuals: sources,
        later,
    })
}

/// For each of the residuals, which are the last inputs of the late half, whether some of its outputs need it and
/// others do not. Outputs behind the first 63 count as one.
fn read_by_some(late: &Program, residuals: usize) -> Vec<bool> {
    let bit = |j: usize| 1u64 << j.min(63);
    let mut readers = vec![0u64; late.num_vars()];
    let mut all = 0;
    for (j, &out) in late.outs().iter().enumerate() {
        readers[out as usize] |= bit(j);
        all |= bit(j);
    }
    for k in (0..late.eqns().len()).rev() {
        let bits = readers[late.result(k) as usize];
        for &a in late.args(&late.eqns()[k]) {
            readers[a as usize] |= bits;
        }
    }
    let first = late.num_inputs() - residuals;
    (first..late.num_inputs())
        .map(|v| readers[v] != all && readers[v] != 0)
        .collect()
}

/// The equations that make a variable, and what of that is there.
fn made(
    program: &Program,
    var: Var,
    is_there: impl Fn(Var) -> bool,
    is_number: impl Fn(Var) -> bool,
) -> (Vec<Var>, Vec<Var>) {
    let (mut made_by, mut made_of) = (Vec::new(), Vec::new());
    let mut seen = crate::util::FastMap::default();
    let mut work = vec![var];
    while let Some(v) = work.pop() {
        if is_number(v) || seen.insert(v, ()).is_some() {
            continue;
        }
        match program.definition(v) {
            Some(eqn) if !is_there(v) => {
                made_by.push(v);
                work.extend(program.args(eqn));
            }
            _ => made_of.push(v),
        }
    }
    (made_by, made_of)
}

/// Numbers of those that wait, together where they share an equation.
fn groups(vars: usize, waiting: &[Waiting]) -> Vec<Vec<usize>> {
    const NOBODY: usize = usize::MAX;
    let mut group_of: Vec<usize> = (0..waiting.len()).collect();
    let mut owner = vec![NOBODY; vars];
    for (i, one) in waiting.iter().enumerate() {
        for &v in &one.made_by {
            let other = std::mem::replace(&mut owner[v as usize], i);
            if other == NOBODY || group_of[other] == group_of[i] {
                continue;
            }
            let (from, to) = (group_of[other], group_of[i]);
            for group in &mut group_of {
                *group = if *group == from { to } else { *group };
            }
        }
    }
    let members = |group: usize| -> Vec<usize> {
        (0..waiting.len())
            .filter(|&i| group_of[i] == group)
            .collect()
    };
    let all = (0..waiting.len()).map(members);
    all.filter(|group| !group.is_empty()).collect()
}

//! Dividing a program in what is known early and what waits for late inputs; what crosses the border
//! are the residuals.
//!
//! For a pullback the late inputs are the cotangents. Work that needs none of them is done once, when
//! the pullback is made. What is kept: results of dear equations and the inputs that the late part
//! reads; what is free (layouts, literals), or cheap and made of what is kept anyway, is computed again.

use crate::prim::{Cost, Var};
use crate::program::Program;

/// A program in two halves.
#[derive(Debug, Clone)]
pub struct Split {
    /// From the early inputs to `wanted` and the residuals.
    pub early: Program,
    /// From the late inputs and the residuals to the late outputs.
    pub late: Program,
    /// The early inputs, as numbered in the original program.
    pub early_inputs: Vec<usize>,
}

/// Divides a program. `is_late` marks inputs; the first `wanted` outputs are early ones, the rest
/// belongs to the late half.
pub fn split(program: &Program, is_late: &[bool], wanted: usize) -> Split {
    let late = program.depends_on(is_late);
    let outs = &program.outs[wanted..];

    // Residual candidates: what late equations (or late outputs) read directly and is not late.
    let mut live = vec![false; program.num_vars()];
    for &out in outs {
        live[out as usize] = true;
    }
    let mut reads: Vec<Var> = Vec::new();
    for k in (0..program.eqns.len()).rev() {
        let var = program.result(k) as usize;
        if live[var] && late[var] {
            for &a in program.args(&program.eqns[k]) {
                live[a as usize] = true;
                if !late[a as usize] {
                    reads.push(a);
                }
            }
        }
    }
    reads.extend(outs.iter().filter(|&&v| !late[v as usize]));
    reads.sort_unstable();
    reads.dedup();

    let residuals = choose(program, &reads);
    let mut late_inputs: Vec<Var> = (0..program.num_inputs() as Var)
        .filter(|&v| is_late[v as usize])
        .collect();
    let early_inputs: Vec<usize> = (0..program.num_inputs()).filter(|&i| !is_late[i]).collect();
    let inputs: Vec<Var> = early_inputs.iter().map(|&i| i as Var).collect();
    let mut early_outs = program.outs[..wanted].to_vec();
    early_outs.extend(&residuals);
    let early = program.extract(&inputs, &early_outs);
    late_inputs.extend(&residuals);
    let late = program.extract(&late_inputs, outs);
    early.debug_verify();
    late.debug_verify();
    Split {
        early,
        late,
        early_inputs,
    }
}

/// Which variables to keep so that all of `reads` can be had again. Sorted.
fn choose(program: &Program, reads: &[Var]) -> Vec<Var> {
    let mut kept = vec![false; program.num_vars()];
    let mut cheap: Vec<Var> = Vec::new();
    let mut seen = vec![false; program.num_vars()];
    let mut work = reads.to_vec();
    while let Some(v) = work.pop() {
        if std::mem::replace(&mut seen[v as usize], true) {
            continue;
        }
        match program.definition(v) {
            None => kept[v as usize] = true,
            // A layout costs nothing and may be smaller where it comes from.
            Some(eqn) if eqn.prim.0.cost == Cost::Free => {
                let source: usize = program
                    .args(eqn)
                    .iter()
                    .map(|&a| program.aval(a).size())
                    .sum();
                if source <= program.aval(v).size() {
                    work.extend(program.args(eqn));
                } else {
                    kept[v as usize] = true;
                }
            }
            Some(eqn) if eqn.prim.0.cost == Cost::Cheap => cheap.push(v),
            Some(_) => kept[v as usize] = true,
        }
    }
    // A cheap result is made again when what it is made of, shared with the others that are made of
    // it, needs no more memory.
    cheap.sort_unstable();
    let sources: Vec<Option<Vec<Var>>> =
        cheap.iter().map(|&v| sources(program, v, &kept)).collect();
    let mut users = vec![0usize; program.num_vars()];
    for &source in sources.iter().flatten().flatten() {
        users[source as usize] += 1;
    }
    for (&v, sources) in cheap.iter().zip(&sources) {
        let fits = |sources: &&Vec<Var>| {
            let missing = sources.iter().filter(|&&s| !kept[s as usize]);
            let share = missing.map(|&s| program.aval(s).nbytes() / users[s as usize]);
            share.sum::<usize>() <= program.aval(v).nbytes()
        };
        match sources.as_ref().filter(fits) {
            Some(sources) => sources.iter().for_each(|&s| kept[s as usize] = true),
            None => kept[v as usize] = true,
        }
    }
    (0..program.num_vars() as Var)
        .filter(|&v| kept[v as usize])
        .collect()
}

/// What a variable is made of through a few free and cheap equations: kept variables, inputs and the
/// results of dear ones. `None` when it takes more equations.
fn sources(program: &Program, v: Var, kept: &[bool]) -> Option<Vec<Var>> {
    const FEW: usize = 8;
    let mut sources = Vec::new();
    let mut work = vec![v];
    let mut steps = 0;
    while let Some(v) = work.pop() {
        match program.definition(v) {
            Some(eqn) if eqn.prim.0.cost <= Cost::Cheap && !kept[v as usize] => {
                let args = program.args(eqn);
                steps += 1;
                if steps > FEW || args.len() > FEW {
                    return None;
                }
                work.extend(args);
            }
            _ if sources.contains(&v) => {}
            _ => sources.push(v),
        }
    }
    Some(sources)
}

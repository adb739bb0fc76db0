//! Dividing a program in what is known early and what waits for late inputs; what crosses the border
//! are the residuals.
//!
//! For a pullback the late inputs are the cotangents. Work that needs none of them is done once, when
//! the pullback is made. What is dear is done once; what is free (layouts, literals) or cheap is computed
//! again where that costs less than keeping it (`residuals`).

use super::residuals::choose;
use crate::prim::Var;
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

    // With nothing wanted, the early half is there for what it keeps.
    let is_wanted: Vec<bool> = (0..program.outs.len())
        .map(|i| wanted == 0 || i < wanted)
        .collect();
    let residuals = choose(program, &reads, &program.needed(&is_wanted));
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

//! Rematerialisation of differences of all pairs, and of what else is made of arrays that are much smaller: each group that
//! reads such an array computes it again.
//!
//! An addition of what is in the first-level cache takes a fraction of the time in which its result goes to memory and
//! comes back. The reverse pass of pairwise interactions reads the differences that the forward pass made.

use super::fuse::{Fusion, Place};
use super::matmul_epilogue::LARGE;
use crate::kernels::LaneOp;
use crate::ops;
use crate::program::Program;

/// Smaller arrays stay in a cache that is near.
const LEAST: usize = 128 << 10;
/// An array has so many times the bytes of what it is made of, at least.
const TIMES: usize = 2;
/// Memory that is written and read takes as long as so many additions in the first-level cache.
const WORK: f64 = 8.0;

/// Which variables are computed again.
pub(super) struct Spreads {
    /// For each variable whether every group that reads it computes it again, so that it is never in memory.
    pub again: Vec<bool>,
    /// For each variable whether groups compute it again, to read it or for what is made of it.
    pub is_made: Vec<bool>,
}

/// What a variable that is cheap to compute is made of.
#[derive(Clone, Copy)]
struct Making {
    work: f64,
    /// Bytes that are read for it.
    bytes: usize,
}

impl Spreads {
    pub fn of(program: &Program, fusion: &Fusion<'_>) -> Spreads {
        let readers = Readers::of(program, fusion);
        let mut makings: Vec<Option<Making>> = vec![None; program.num_inputs()];
        for k in 0..program.eqns().len() {
            let made = making(program, fusion, k, &makings);
            // What is in memory anyway is read there.
            makings.push(made.filter(|_| readers.alike[program.result(k) as usize]));
        }
        let again = |var: usize| makings[var].is_some() && readers.far[var];
        let again: Vec<bool> = (0..program.num_vars()).map(again).collect();
        let mut is_made = again.clone();
        for (k, eqn) in program.eqns().iter().enumerate().rev() {
            let var = program.result(k);
            if is_made[var as usize] {
                for &arg in program.args(eqn) {
                    let is_part = program.aval(arg).shape == program.aval(var).shape;
                    is_made[arg as usize] |= is_part && makings[arg as usize].is_some();
                }
            }
        }
        Spreads { again, is_made }
    }
}

/// Who reads variables.
struct Readers {
    /// For each one whether that are groups of its shape only. Only its own one reduces it: if it cannot, it writes it to
    /// memory.
    alike: Vec<bool>,
    /// Whether others than its own group read it.
    far: Vec<bool>,
}

impl Readers {
    fn of(program: &Program, fusion: &Fusion<'_>) -> Readers {
        let mut alike = vec![true; program.num_vars()];
        let mut far = vec![false; program.num_vars()];
        for &out in program.outs() {
            alike[out as usize] = false;
        }
        for (k, eqn) in program.eqns().iter().enumerate() {
            let out = program.aval(program.result(k));
            let place = fusion.places[k];
            let in_group = matches!(place, Place::Group(_));
            for &arg in program.args(eqn) {
                let own = (arg as usize).checked_sub(program.num_inputs());
                let is_far = own.is_some_and(|own| fusion.places[own] != place);
                let takes = eqn.prim.is_elementwise() && program.aval(arg).shape == out.shape;
                alike[arg as usize] &= in_group && (takes || !is_far);
                far[arg as usize] |= is_far;
            }
            // A group behind a product is a program of its own.
            if eqn.prim == ops::MATMUL && out.nbytes() >= LARGE {
                alike.fill(false);
                break;
            }
        }
        Readers { alike, far }
    }
}

/// What the result of an equation is made of, where that is cheap and smaller.
fn making(
    program: &Program,
    fusion: &Fusion<'_>,
    k: usize,
    makings: &[Option<Making>],
) -> Option<Making> {
    let (eqn, var) = (&program.eqns()[k], program.result(k));
    let aval = program.aval(var);
    let op = eqn.prim.lane()?;
    let cheap = matches!(
        op,
        LaneOp::Add | LaneOp::Sub | LaneOp::Mul | LaneOp::Div | LaneOp::Neg | LaneOp::Square
    );
    if !cheap || aval.nbytes() < LEAST || fusion.rows.of(var).is_some() {
        return None;
    }
    let mut all = Making {
        work: op.weight(),
        bytes: 0,
    };
    for &arg in program.args(eqn) {
        let other = program.aval(arg);
        match makings[arg as usize] {
            // What is in memory, or will be.
            _ if other.shape != aval.shape => all.bytes += other.nbytes(),
            Some(made) => {
                all.work += made.work;
                all.bytes += made.bytes;
            }
            None => return None,
        }
    }
    (all.work <= WORK && all.bytes * TIMES <= aval.nbytes()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::super::fuse::fuse;
    use super::*;

    /// What is computed again in a program, by number.
    fn found(text: &str) -> Vec<usize> {
        let program = Program::parse(text).unwrap();
        let again = Spreads::of(&program, &fuse(&program, true)).again;
        (0..again.len()).filter(|&var| again[var]).collect()
    }

    #[test]
    fn differences_are_computed_again_and_what_is_large_is_not() {
        let text = |n: usize, last: &str| {
            format!(
                "program(%0: f64[{n},3], %1: f64[{n},{n},3]) {{
                   %2: f64[1,{n},3] = reshape[shape=(1, {n}, 3)](%0)
                   %3: f64[{n},1,3] = reshape[shape=({n}, 1, 3)](%0)
                   %4: f64[{n},{n},3] = sub(%2, %3)
                   %5: f64[{n},{n},3] = mul(%4, %1)
                   %6: f64[{n},{n},3] = mul(%4, %2)
                   %7: f64[] = sum[axes=(0, 1, 2)](%5)
                   %8: f64[{n},{n},3] = mul(%4, %7)
                   %9: f64[{n},{n},3] = mul(%6, %8)
                   %10: f64[{n},{n},3] = mul(%5, %9)
                   {last}
                 }}"
            )
        };
        assert_eq!(found(&text(80, "return %10")), [4, 6]);
        assert_eq!(found(&text(80, "return %10, %4")), [0; 0], "a result");
        assert_eq!(found(&text(9, "return %10")), [0; 0], "small");
        let turned = "%11: f64[3,80,80] = transpose[axes=(2, 0, 1)](%4)\n return %10, %11";
        assert_eq!(found(&text(80, turned)), [0; 0], "read by a layout");
    }
}

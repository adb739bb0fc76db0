//! The reverse pass of loops whose condition says when they end.
//!
//! The loop is taken once more, as one that knows its number of steps, in loops in loops: the reverse pass of
//! each keeps its own carries only. So what is kept grows with the width of these loops, and not with the number
//! of steps; each loop around another one costs the steps once more.

use std::sync::Arc;

use super::looped::{self, Pass, apply};
use crate::aval::{Aval, DType};
use crate::error::Result;
use crate::ops;
use crate::prim::{V, Var};
use crate::program::{Builder, End, Loop, LoopOutput};

/// The carries that the reverse pass of one loop keeps have so many bytes at most,
const KEPT: usize = 16 << 20;
/// and there are so many of them.
const WIDTHS: std::ops::RangeInclusive<usize> = 16..=1024;
/// So many steps can be reversed where the loop has no bound.
const STEPS: usize = 1 << 20;

/// The cotangents of the wanted arguments `x`, given those of the outputs, of any loop.
pub(super) fn pull<'e>(
    of: &Arc<Loop>,
    x: &[V<'e>],
    cts: &[Option<V<'e>>],
    wanted: &[bool],
    vjp: Pass,
) -> Result<Vec<Option<V<'e>>>> {
    if of.end != End::False {
        return looped::pull(of, x, cts, wanted, vjp);
    }
    let steps = number_of_steps(of, x)?;
    let nest = Nest::new(of);
    let levels = nest.lengths.len();
    let around = nest.looped(levels)?;
    let args = nest.arguments(levels, x, steps);
    let own = levels.min(2) - 1;
    let mut of_outputs = vec![None; around.num_outputs()];
    of_outputs[..of.carries].copy_from_slice(&cts[..of.carries]);
    let mut marks = wanted[..of.carries].to_vec();
    marks.extend(std::iter::repeat_n(false, own));
    marks.extend(&wanted[of.carries..]);
    marks.push(false);
    let mut found = looped::pull(&around, &args, &of_outputs, &marks, vjp)?;
    found.pop();
    found.drain(of.carries..of.carries + own);
    Ok(found)
}

/// How many steps a loop takes on these arguments: by one of its carries, if that counts them.
fn number_of_steps<'e>(of: &Arc<Loop>, x: &[V<'e>]) -> Result<V<'e>> {
    let body = of.body();
    let number = Aval::scalar(DType::I64);
    let counts = |j: usize| {
        let Some(k) = (body.outs()[j] as usize).checked_sub(body.num_inputs()) else {
            return false;
        };
        let eqn = &body.eqns()[k];
        let args = body.args(eqn);
        let is_one = |v: Var| body.literal(v).is_some_and(|(_, value)| value.re == 1.0);
        *body.aval(j as Var) == number
            && eqn.prim == ops::ADD
            && ((args[0] == j as Var && is_one(args[1]))
                || (args[1] == j as Var && is_one(args[0])))
    };
    if let Some(j) = (0..of.carries).find(|&j| counts(j)) {
        return Ok(apply(of, x, LoopOutput::Last(j)) - x[j]);
    }
    let builder = Builder::new();
    let input = |i: usize| builder.input("", body.aval(i as Var));
    let mut inputs: Vec<Var> = (0..of.carries).map(input).collect();
    let count = builder.input("", &number);
    inputs.extend((of.carries..body.num_inputs()).map(input));
    let outs = builder.inline(body, &inputs, &vec![true; of.carries]);
    let mut outs: Vec<Var> = outs.into_iter().flatten().collect();
    outs.push((builder.value(count) + builder.value(count).number(1.0)).var());
    let counted = Loop::new(builder.finish(outs)?, of.length, of.carries + 1, 0, false)?;
    let mut args = x.to_vec();
    let zero = x[0].with(x[0].to.number(DType::I64, 0.0));
    args.insert(of.carries, zero);
    let counted = Arc::new(counted.ending(End::False)?);
    Ok(apply(&counted, &args, LoopOutput::Last(of.carries)))
}

/// Loops in loops that take the steps of one.
struct Nest<'l> {
    of: &'l Loop,
    /// How long the loops are, from the innermost one on.
    lengths: Vec<usize>,
}

impl<'l> Nest<'l> {
    fn new(of: &'l Loop) -> Nest<'l> {
        let bytes = (0..of.carries).map(|j| of.body().aval(j as Var).nbytes());
        let width = KEPT / bytes.sum::<usize>().max(1);
        let width = width.clamp(*WIDTHS.start(), *WIDTHS.end());
        let mut rest = if of.length > 0 { of.length } else { STEPS };
        let mut lengths = Vec::new();
        while rest > width {
            lengths.push(width);
            rest = rest.div_ceil(width);
        }
        lengths.push(rest);
        Nest { of, lengths }
    }

    /// How many steps of the body one of a loop has, the innermost one being the first.
    fn pace(&self, level: usize) -> f64 {
        self.lengths[..level - 1]
            .iter()
            .map(|&n| n as f64)
            .product()
    }

    /// The arguments of a loop that takes so many steps of the body.
    fn arguments<'e>(&self, level: usize, x: &[V<'e>], steps: V<'e>) -> Vec<V<'e>> {
        let mut args = x.to_vec();
        let pace = steps.number(self.pace(level));
        if level > 1 {
            args.insert(self.of.carries, steps);
            let up = steps + steps.number(self.pace(level) - 1.0);
            args.push(up.combine(ops::FLOOR_DIVIDE, pace));
        } else {
            args.push(steps);
        }
        args
    }

    /// A loop. Those around others carry how many steps are left; the last argument is the number of their own.
    fn looped(&self, level: usize) -> Result<Arc<Loop>> {
        let body = self.of.body();
        let carries = self.of.carries;
        let builder = Builder::new();
        let input = |i: usize| builder.input("", body.aval(i as Var));
        let number = || builder.input("", &Aval::scalar(DType::I64));
        let mut x: Vec<Var> = (0..carries).map(input).collect();
        let left = (level > 1).then(number);
        x.extend((carries..body.num_inputs()).map(input));
        number();
        let mut outs: Vec<Var>;
        if let Some(left) = left {
            let inner = self.looped(level - 1)?;
            let left = builder.value(left);
            let steps = left.combine(ops::MINIMUM, left.number(self.pace(level)));
            let x: Vec<V<'_>> = x.iter().map(|&v| builder.value(v)).collect();
            let args = self.arguments(level - 1, &x, steps);
            outs = (0..carries)
                .map(|j| {
                    if body.outs()[j] == j as Var {
                        x[j].var()
                    } else {
                        apply(&inner, &args, LoopOutput::Last(j)).var()
                    }
                })
                .collect();
            outs.push((left - steps).var());
        } else {
            let found = builder.inline(body, &x, &vec![true; carries]);
            outs = found.into_iter().flatten().collect();
        }
        let carried = outs.len();
        let of = Loop::new(
            builder.finish(outs)?,
            self.lengths[level - 1],
            carried,
            0,
            false,
        )?;
        Ok(Arc::new(of.ending(End::Count)?))
    }
}

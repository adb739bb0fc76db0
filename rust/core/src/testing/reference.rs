//! The reverse pass as a textbook has it, to compare `transform::vjp` with: the equations backwards, the rule of each,
//! and the sum of what arrives.
//!
//! The two share the rules and `Ct`, which projects, masks and adds contributions; everything that makes the other one
//! fast is missing here. Missing too is `Ct::Part`: where a derivative is infinite outside the slice that was read
//! (`log(x)[1:]` with `x[0]` equal to 0), this pass gives NaN instead of 0, and such an element cannot be compared.

use std::cell::OnceCell;

use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Class, Prim, Rule, V, Var};
use crate::program::Program;
use crate::transform::{
    Ct, VarShift, Vjp, cotangent_inputs, differentiable, project, pull_call, start,
};

/// Differentiates a program with respect to the marked inputs.
pub fn vjp(primal: &Program, wrt: &[bool]) -> Result<Vjp> {
    let active = primal.varies_with(&differentiable(primal, wrt));
    let cotangents = cotangent_inputs(primal, &active);
    let (builder, shift) = (
        start(primal, &cotangents),
        VarShift::new(primal, &cotangents),
    );
    let mut cts = vec![Ct::Zero; primal.num_vars()];
    for (&out, slot) in primal.outs.iter().zip(&cotangents) {
        let given = slot.map_or(Ct::Zero, |slot| Ct::Dense(builder.value(slot as Var)));
        cts[out as usize] = cts[out as usize].plus(given, &builder);
    }
    let calls = primal.calls();
    for (k, eqn) in primal.eqns.iter().enumerate().rev() {
        let (args, out, starts) = (primal.args(eqn), primal.result(k), OnceCell::new());
        let members = calls.members(k);
        // Nothing is asked of an equation without influence, so it needs no rule: a comparison has none.
        if members.is_empty() && matches!(cts[out as usize], Ct::Zero) {
            continue;
        }
        let x: Vec<V<'_>> = args.iter().map(|&a| builder.value(shift.of(a))).collect();
        let (y, params) = (builder.value(shift.of(out)), primal.params(eqn));
        let rule = Rule {
            x: &x,
            out: y,
            params,
            starts: &starts,
        };
        let mut contributions = Vec::new();
        if members.is_empty() {
            for (i, &a) in args
                .iter()
                .enumerate()
                .filter(|(_, a)| active[**a as usize])
            {
                contributions.push((a, pull(eqn.prim, &rule, cts[out as usize], i)?));
            }
        } else if members[0].0 == k {
            // A call has one rule for all of its outputs.
            let (ct, shift) = (|v: Var| cts[v as usize], |v| shift.of(v));
            contributions.extend(pull_call(primal, members, &x, shift, &active, ct)?);
        }
        for (a, ct) in contributions {
            let ct = project(ct, primal.aval(a), &builder);
            cts[a as usize] = cts[a as usize].plus(ct, &builder);
        }
    }
    let mut outs: Vec<Var> = primal.outs.iter().map(|&v| shift.of(v)).collect();
    let gradients = cts[..wrt.len()].iter().map(|ct| {
        outs.push(ct.dense()?.var());
        Some(outs.len() - 1)
    });
    let gradients = gradients.collect();
    let (program, skipped) = (builder.finish(outs)?, Vec::new());
    Ok(Vjp {
        program,
        cotangents,
        gradients,
        skipped,
    })
}

/// What an equation contributes to the cotangent of its argument `i`.
fn pull<'e>(prim: Prim, rule: &Rule<'_, 'e>, ct: Ct<'e>, i: usize) -> Result<Ct<'e>> {
    Ok(match &prim.0.class {
        Class::Elementwise {
            partials: Some(of), ..
        } => ct.through(&of(rule.x, rule.out, i)),
        Class::Linear { transpose: vjp, .. } | Class::General { vjp: Some(vjp), .. } => match ct {
            // A cast is elementwise, so a mask stays outermost.
            Ct::Masked(v, mask) if prim == ops::CAST => Ct::Masked(vjp(rule, v, i), mask),
            _ => ct.dense().map_or(Ct::Zero, |v| Ct::Dense(vjp(rule, v, i))),
        },
        _ => return Err(Error::NotDifferentiable(prim.name().into())),
    })
}

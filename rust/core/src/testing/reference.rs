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
    Ct, VarShift, Vjp, cotangent_inputs, derived, differentiable, project, pull_call, start,
};

/// Differentiates a program with respect to the marked inputs.
pub fn vjp(primal: &Program, wrt: &[bool]) -> Result<Vjp> {
    let active = primal.varies_with(&differentiable(primal, wrt));
    let cotangents = cotangent_inputs(primal, &active);
    let (builder, calls) = (start(primal, &cotangents), primal.calls());
    let shift = VarShift::new(primal, &cotangents);
    let mut cts = vec![Ct::Zero; primal.num_vars()];
    for (&out, slot) in primal.outs.iter().zip(&cotangents) {
        let given = slot.map_or(Ct::Zero, |slot| Ct::Dense(builder.value(slot as Var)));
        cts[out as usize] = cts[out as usize].plus(given, &builder);
    }
    for (k, eqn) in primal.eqns.iter().enumerate().rev() {
        let (args, out) = (primal.args(eqn), primal.result(k) as usize);
        let x: Vec<V<'_>> = args.iter().map(|&a| builder.value(shift.of(a))).collect();
        let contributions = match calls.members(k) {
            [] => {
                let rule = Rule {
                    x: &x,
                    out: builder.value(shift.of(out as Var)),
                    params: primal.params(eqn),
                    starts: &OnceCell::new(),
                };
                let wanted = (0..args.len()).filter(|&i| active[args[i] as usize]);
                let pulled = wanted.map(|i| Ok((args[i], pull(eqn.prim, &rule, cts[out], i)?)));
                pulled.collect::<Result<_>>()?
            }
            // A call has one rule for all of its outputs.
            members if members[0].0 == k => {
                let (shift, ct) = (|v| shift.of(v), |v| cts[v as usize]);
                pull_call(primal, members, &x, shift, &active, ct, derived)?
            }
            _ => continue,
        };
        for (a, ct) in contributions {
            cts[a as usize] = cts[a as usize].plus(project(ct, primal.aval(a), &builder), &builder);
        }
    }
    let mut outs: Vec<Var> = primal.outs.iter().map(|&v| shift.of(v)).collect();
    let gradients = cts[..wrt.len()].iter().map(|ct| {
        outs.push(ct.dense()?.var());
        Some(outs.len() - 1)
    });
    Ok(Vjp {
        cotangents,
        gradients: gradients.collect(),
        program: builder.finish(outs)?,
        skipped: Vec::new(),
    })
}

/// What an equation contributes to the cotangent of its argument `i`.
fn pull<'e>(prim: Prim, rule: &Rule<'_, 'e>, ct: Ct<'e>, i: usize) -> Result<Ct<'e>> {
    Ok(match &prim.0.class {
        // Nothing is asked of an equation without influence, so it needs no rule: a comparison has none.
        _ if matches!(ct, Ct::Zero) => Ct::Zero,
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

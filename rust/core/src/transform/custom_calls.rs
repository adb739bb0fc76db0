//! The two directions through a call with a rule from outside: all of its outputs at once.

use std::sync::Arc;

use smallvec::SmallVec;

use super::cotangent::Ct;
use super::counted;
use super::looped::{self, Pass};
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Host, Params, V, Var};
use crate::program::Program;

/// What a call contributes to the cotangents of its active arguments. `members` are its equations and which output each
/// is, `ct` gives the cotangent of a variable, `vjp` is the reverse pass, `x` are the arguments in the joint program, where `shift` numbers
/// variables.
pub(crate) fn pull<'e>(
    primal: &Program,
    members: &[(usize, usize)],
    x: &[V<'e>],
    shift: impl Fn(Var) -> Var,
    active: &[bool],
    ct: impl Fn(Var) -> Ct<'e>,
    vjp: Pass,
) -> Result<SmallVec<[(Var, Ct<'e>); 4]>> {
    let Some(&(first, _)) = members.first() else {
        return Ok(SmallVec::new());
    };
    let eqn = &primal.eqns[first];
    let count = match primal.params(eqn) {
        Params::Custom { rule, .. } => rule.num_outputs(),
        Params::Host { call, .. } => call.outputs().len(),
        Params::Loop { of, .. } => of.num_outputs(),
        _ => return Ok(SmallVec::new()),
    };
    let mut of_outputs: SmallVec<[Option<V<'e>>; 2]> = std::iter::repeat_n(None, count).collect();
    let mut y: SmallVec<[Option<V<'e>>; 2]> = of_outputs.clone();
    for &(k, output) in members {
        y[output] = x.first().map(|to| to.with(shift(primal.result(k))));
        of_outputs[output] = ct(primal.result(k)).dense();
    }
    let args = primal.args(eqn);
    let wanted: SmallVec<[bool; 4]> = args.iter().map(|&a| active[a as usize]).collect();
    if of_outputs.iter().all(Option::is_none) || !wanted.contains(&true) {
        return Ok(SmallVec::new());
    }
    let found = match primal.params(eqn) {
        Params::Custom { rule, .. } => rule.vjp(x, &y, &of_outputs, &wanted)?,
        Params::Host { call, .. } => pull_host(&**call, x, &of_outputs)?,
        Params::Loop { of, .. } => counted::pull(of, x, &of_outputs, &wanted, vjp)?,
        _ => return Ok(SmallVec::new()),
    };
    // A rule may say that an argument has no influence.
    let found = args.iter().zip(found).filter(|(a, _)| active[**a as usize]);
    Ok(found
        .filter_map(|(&a, ct)| Some((a, Ct::Dense(ct?))))
        .collect())
}

/// The cotangents of what a function that is called back was given: calls of its pullback.
fn pull_host<'e>(
    call: &dyn Host,
    x: &[V<'e>],
    cts: &[Option<V<'e>>],
) -> Result<Vec<Option<V<'e>>>> {
    let avals: Vec<Aval> = x.iter().map(|v| v.aval()).collect();
    let pullback = call.derivative(&avals)?;
    let mut args: Vec<Var> = x.iter().map(|v| v.var()).collect();
    for (ct, aval) in cts.iter().zip(call.outputs()) {
        if aval.dtype.is_inexact() {
            let zero = || {
                x[0].with(x[0].to.number(aval.dtype, 0.0))
                    .broadcast_to(&aval.shape)
            };
            args.push(ct.unwrap_or_else(zero).var());
        }
    }
    let mut output = 0;
    Ok((x.iter().zip(&avals))
        .map(|(x, aval)| {
            aval.dtype.is_inexact().then(|| {
                let call = Arc::clone(&pullback);
                output += 1;
                let params = Params::Host {
                    call,
                    output: output - 1,
                };
                x.with(x.to.emit(ops::HOST, params, &args))
            })
        })
        .collect())
}

/// The tangents of a call's outputs, given those of its arguments: for each member its variable.
pub(super) fn push<'e>(
    primal: &Program,
    members: &[(usize, usize)],
    x: &[V<'e>],
    t: &[Option<V<'e>>],
    jvp: Pass,
) -> Result<SmallVec<[(Var, Option<V<'e>>); 2]>> {
    let Some(&(first, _)) = members.first() else {
        return Ok(SmallVec::new());
    };
    let found = match primal.params(&primal.eqns[first]) {
        Params::Custom { rule, .. } => {
            let mut wanted = vec![false; rule.num_outputs()];
            for &(k, output) in members {
                wanted[output] = primal.aval(primal.result(k)).dtype.is_inexact();
            }
            rule.jvp(x, t, &wanted)?
        }
        Params::Host { call, .. } => push_host(&**call, x, t)?,
        Params::Loop { of, .. } => {
            let wanted: Vec<usize> = members.iter().map(|&(_, output)| output).collect();
            looped::push(of, x, t, &wanted, jvp)?
        }
        _ => return Ok(SmallVec::new()),
    };
    Ok((members.iter())
        .map(|&(k, output)| (primal.result(k), found[output]))
        .collect())
}

/// The tangents of what a function that is called back gives. Its pullback is linear in the cotangents, so the pullback
/// of that, with respect to them and wherever they are, is the pushforward.
fn push_host<'e>(call: &dyn Host, x: &[V<'e>], t: &[Option<V<'e>>]) -> Result<Vec<Option<V<'e>>>> {
    let inexact = |avals: &[Aval]| -> Vec<Aval> {
        let inexact = avals.iter().filter(|aval| aval.dtype.is_inexact());
        inexact.cloned().collect()
    };
    let avals: Vec<Aval> = x.iter().map(|v| v.aval()).collect();
    let cts = inexact(call.outputs());
    let pullback = call.derivative(&avals)?;
    let both: Vec<Aval> = avals.iter().chain(&cts).cloned().collect();
    let transposed = pullback
        .derivative(&both)
        .map_err(|error| reverse_only(call.name(), error))?;
    let zeros = |aval: &Aval| {
        let zero = x[0].with(x[0].to.number(aval.dtype, 0.0));
        zero.broadcast_to(&aval.shape)
    };
    let mut args: Vec<Var> = x.iter().map(|v| v.var()).collect();
    args.extend(cts.iter().map(|aval| zeros(aval).var()));
    for (t, aval) in t.iter().zip(&avals) {
        if aval.dtype.is_inexact() {
            args.push(t.unwrap_or_else(|| zeros(aval)).var());
        }
    }
    // Cotangents of the arguments come before those of the cotangents.
    let mut next = inexact(&avals).len();
    Ok((call.outputs().iter())
        .map(|aval| {
            aval.dtype.is_inexact().then(|| {
                let params = Params::Host {
                    call: Arc::clone(&transposed),
                    output: next,
                };
                next += 1;
                x[0].with(x[0].to.emit(ops::HOST, params, &args))
            })
        })
        .collect())
}

/// The error for a rule that cannot be transposed.
pub(crate) fn reverse_only(name: &str, error: Error) -> Error {
    match error {
        Error::NotDifferentiable(_) => Error::NotDifferentiable(format!(
            "{name}: it has a reverse rule only, whose pullback cannot be differentiated, so there is no tangent; use \
             reverse mode (gradient, pullback, jacrev), or write the rule without opaque=True"
        )),
        other => other,
    }
}

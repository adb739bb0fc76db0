//! The two directions through a call with a rule from outside: all of its outputs at once.

use smallvec::SmallVec;

use super::cotangent::{Cotangents, Ct};
use crate::error::Result;
use crate::prim::{Params, V, Var};
use crate::program::Program;

/// Takes the cotangents of a call's outputs (`members`: equations and which output each is), and adds
/// those of its arguments that are active. `x` are the arguments in the program that is written.
pub(super) fn pull<'e>(
    primal: &Program,
    members: &[(usize, usize)],
    x: &[V<'e>],
    active: &[bool],
    cts: &mut Cotangents<'e>,
) -> Result<()> {
    let Some(&(first, _)) = members.first() else {
        return Ok(());
    };
    let eqn = &primal.eqns[first];
    let Params::Custom { rule, .. } = primal.params(eqn) else {
        return Ok(());
    };
    let mut of_outputs: SmallVec<[Option<V<'e>>; 2]> =
        std::iter::repeat_n(None, rule.num_outputs()).collect();
    for &(k, output) in members {
        of_outputs[output] = cts.unpack(cts.of(primal.result(k))).dense();
    }
    let args = primal.args(eqn);
    let wanted: SmallVec<[bool; 4]> = args.iter().map(|&a| active[a as usize]).collect();
    if of_outputs.iter().all(Option::is_none) || !wanted.contains(&true) {
        return Ok(());
    }
    let found = rule.vjp(x, &of_outputs, &wanted)?;
    for (&a, ct) in args.iter().zip(found) {
        // A rule may say that an argument has no influence.
        if let Some(ct) = ct.filter(|_| active[a as usize]) {
            cts.add(a, Ct::Dense(ct), primal.aval(a));
        }
    }
    Ok(())
}

/// The tangents of a call's outputs, given those of its arguments: for each member its variable.
pub(super) fn push<'e>(
    primal: &Program,
    members: &[(usize, usize)],
    x: &[V<'e>],
    t: &[Option<V<'e>>],
) -> Result<SmallVec<[(Var, Option<V<'e>>); 2]>> {
    let Some(&(first, _)) = members.first() else {
        return Ok(SmallVec::new());
    };
    let Params::Custom { rule, .. } = primal.params(&primal.eqns[first]) else {
        return Ok(SmallVec::new());
    };
    let mut wanted = vec![false; rule.num_outputs()];
    for &(k, output) in members {
        wanted[output] = primal.aval(primal.result(k)).dtype.is_inexact();
    }
    let found = rule.jvp(x, t, &wanted)?;
    Ok((members.iter())
        .map(|&(k, output)| (primal.result(k), found[output]))
        .collect())
}

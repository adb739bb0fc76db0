//! Rewriting rules. Each gives the same bits as what it replaces, for NaN, infinities and signed
//! zeros too: `x + 0` and `x * 0` are left alone.

use smallvec::SmallVec;

use crate::aval::Aval;
use crate::ops::*;
use crate::prim::{Params, Prim, Var};
use crate::program::Program;

/// What an equation becomes.
pub(super) enum Rewritten {
    /// A variable that is there already.
    Var(Var),
    /// A simpler equation.
    Eqn(Prim, Params, SmallVec<[Var; 4]>),
}

/// A simpler form of an equation whose result has this dtype and shape, if a rule knows one.
pub(super) fn rewrite(
    p: &Program,
    prim: Prim,
    params: &Params,
    args: &[Var],
    aval: &Aval,
) -> Option<Rewritten> {
    // A number, or an array of one number.
    let number = |v: Var| match p.definition(v) {
        Some(e) if e.prim == BROADCAST => p.literal(p.args(e)[0]),
        _ => p.literal(v),
    };
    let is = |v: Var, n: f64| number(v).is_some_and(|(_, x)| x.re == n && x.im == 0.0);
    // An argument can stand for the result only if it has its dtype and shape.
    let keep = |v: Var| (p.aval(v) == aval).then_some(Rewritten::Var(v));
    let unary = |prim: Prim, x: Var| {
        (p.aval(x) == aval).then(|| Rewritten::Eqn(prim, Params::None, SmallVec::from_slice(&[x])))
    };
    // The equation that defines an argument, when it applies this primitive.
    let inner = |v: Var, prim: Prim| p.definition(v).filter(|e| e.prim == prim);
    let binary = |prim: Prim, x: Var, y: Var| {
        Rewritten::Eqn(prim, Params::None, SmallVec::from_slice(&[x, y]))
    };
    let (x, y) = match *args {
        [x] => (x, x),
        [x, y] => (x, y),
        _ => return None,
    };
    match () {
        () if prim == MUL && is(y, 1.0) => keep(x),
        () if prim == MUL && is(x, 1.0) => keep(y),
        () if prim == MUL && is(y, -1.0) && !aval.dtype.is_complex() => unary(NEG, x),
        () if prim == MUL && is(x, -1.0) && !aval.dtype.is_complex() => unary(NEG, y),
        () if prim == DIV && is(y, 1.0) => keep(x),
        () if prim == SUB
            && is(y, 0.0)
            && number(y).is_some_and(|(_, z)| z.re.is_sign_positive()) =>
        {
            keep(x)
        }
        // The negative of a float is exact, and so a sum with it is a difference.
        () if prim == ADD && aval.dtype.is_inexact() && inner(y, NEG).is_some() => {
            inner(y, NEG).map(|e| binary(SUB, x, p.args(e)[0]))
        }
        () if prim == ADD && aval.dtype.is_inexact() && inner(x, NEG).is_some() => {
            inner(x, NEG).map(|e| binary(SUB, y, p.args(e)[0]))
        }
        () if prim == SUB && aval.dtype.is_inexact() && inner(y, NEG).is_some() => {
            inner(y, NEG).map(|e| binary(ADD, x, p.args(e)[0]))
        }
        () if prim == POW && is(y, 1.0) => keep(x),
        () if prim == POW && is(y, 2.0) => unary(SQUARE, x),
        () if prim == NEG => inner(x, NEG).and_then(|e| keep(p.args(e)[0])),
        () if prim == CONJ => inner(x, CONJ).and_then(|e| keep(p.args(e)[0])),
        () if prim == LOGICAL_NOT => inner(x, LOGICAL_NOT).and_then(|e| keep(p.args(e)[0])),
        () if (prim == CAST || prim == RESHAPE || prim == BROADCAST) && p.aval(x) == aval => {
            keep(x)
        }
        () if prim == RESHAPE => {
            let e = inner(x, RESHAPE)?;
            Some(Rewritten::Eqn(
                RESHAPE,
                params.clone(),
                SmallVec::from_slice(p.args(e)),
            ))
        }
        () if prim == BROADCAST => {
            let e = inner(x, BROADCAST)?;
            Some(Rewritten::Eqn(
                BROADCAST,
                params.clone(),
                SmallVec::from_slice(p.args(e)),
            ))
        }
        () if prim == TRANSPOSE => {
            let perm = params.axes();
            if perm.iter().enumerate().all(|(i, &a)| i == a) {
                return keep(x);
            }
            let e = inner(x, TRANSPOSE)?;
            let first = p.params(e).axes();
            let both = perm.iter().map(|&a| first[a]).collect();
            Some(Rewritten::Eqn(
                TRANSPOSE,
                Params::Axes(both),
                SmallVec::from_slice(p.args(e)),
            ))
        }
        () => None,
    }
}

//! The forward pass: tangents along with values. Used by forward rules and to check the reverse
//! pass against: `<ct, J t> = <Jᵀ ct, t>`.

use std::cell::OnceCell;

use smallvec::SmallVec;

use super::cotangent::meet;
use super::custom_calls;
use super::looped::Derived;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Class, Params, Partial, Prim, Rule, V, Var};
use crate::program::{Builder, Program};

/// A program with its pushforward behind it.
///
/// Its inputs are those of the original program, then one tangent for each marked input that has
/// one. Its outputs are those of the original program, then one tangent for each output that depends
/// on a marked input.
#[derive(Debug, Clone)]
pub struct Jvp {
    /// Primal and pushforward together.
    pub program: Program,
    /// For each input, which input of `program` is its tangent.
    pub tangents: Vec<Option<usize>>,
    /// For each output, which output of `program` is its tangent; `None` where it is zero.
    pub results: Vec<Option<usize>>,
}

/// Pushes tangents of the marked inputs forward through a program.
pub fn jvp(primal: &Program, wrt: &[bool]) -> Result<Jvp> {
    let builder = Builder::alike(primal, 3 * primal.eqns.len());
    for (i, name) in primal.inputs.iter().enumerate() {
        builder.input(name, primal.aval(i as Var));
    }
    let mut tangents = Vec::new();
    let mut next = primal.num_inputs();
    for (i, &w) in wrt.iter().enumerate() {
        let aval = primal.aval(i as Var);
        let has = w && aval.dtype.is_inexact();
        tangents.push(has.then_some(next));
        if has {
            builder.input(&format!("t.{}", primal.inputs[i]), aval);
            next += 1;
        }
    }
    let shift = (next - primal.num_inputs()) as Var;
    builder.copy_equations(primal, shift);
    let moved = |v: Var| {
        if (v as usize) < primal.num_inputs() {
            v
        } else {
            v + shift
        }
    };
    let mut ts: Vec<Option<V<'_>>> = vec![None; primal.num_vars()];
    for (t, slot) in ts.iter_mut().zip(&tangents) {
        *t = slot.map(|s| builder.value(s as Var));
    }
    let varies = primal.varies_with(wrt);
    let calls = primal.calls();
    for (k, eqn) in primal.eqns.iter().enumerate() {
        let out = primal.result(k);
        let args = primal.args(eqn);
        let members = calls.members(k);
        if members.first().is_some_and(|&(first, _)| k > first) {
            continue;
        }
        let t: SmallVec<[Option<V<'_>>; 4]> = args.iter().map(|&a| ts[a as usize]).collect();
        if t.iter().all(Option::is_none) || members.is_empty() && !varies[out as usize] {
            continue;
        }
        builder.at(primal.site(k));
        let x: SmallVec<[V<'_>; 4]> = args.iter().map(|&a| builder.value(moved(a))).collect();
        if !members.is_empty() {
            for (out, t) in custom_calls::push(primal, members, &x, &t, derived)? {
                ts[out as usize] = t.map(|t| fit(t, primal.aval(out)));
            }
            continue;
        }
        let rule = Rule {
            x: &x,
            out: builder.value(moved(out)),
            params: primal.params(eqn),
            starts: &OnceCell::new(),
        };
        ts[out as usize] = push(eqn.prim, &rule, &t)?.map(|v| fit(v, primal.aval(out)));
    }
    let mut outs: Vec<Var> = primal.outs.iter().map(|&v| moved(v)).collect();
    let results = (primal.outs.iter())
        .map(|&out| {
            let t = ts[out as usize]?;
            outs.push(t.var());
            Some(outs.len() - 1)
        })
        .collect();
    drop(ts);
    let program = builder.finish(outs)?;
    program.debug_verify();
    Ok(Jvp {
        program,
        tangents,
        results,
    })
}

/// [`jvp`] of the body of a loop.
fn derived(body: &Program, wrt: &[bool]) -> Result<Derived> {
    let found = jvp(body, wrt)?;
    Ok((found.program, found.tangents, found.results))
}

/// A tangent in the space of its primal.
fn fit<'e>(t: V<'e>, primal: &Aval) -> V<'e> {
    let real = t.dtype().is_complex() && !primal.dtype.is_complex();
    let t = if real { t.real() } else { t };
    t.cast(primal.dtype).broadcast_to(&primal.shape)
}

/// The tangent of one equation's result.
fn push<'e>(prim: Prim, rule: &Rule<'_, 'e>, t: &[Option<V<'e>>]) -> Result<Option<V<'e>>> {
    match &prim.0.class {
        Class::Elementwise {
            partials: Some(partials),
            ..
        } => {
            let mut sum: Option<V<'e>> = None;
            for (i, t) in t.iter().enumerate() {
                let Some(t) = *t else { continue };
                let term = match partials(rule.x, rule.out, i) {
                    Partial::Zero => continue,
                    Partial::One => t,
                    Partial::MinusOne => -t,
                    Partial::Times(p) => {
                        let (t, p) = meet(t, p);
                        t * p
                    }
                    Partial::Over(p) => {
                        let (t, p) = meet(t, p);
                        t / p
                    }
                    Partial::Steep(p) => {
                        // A tangent of 0 stays 0 where the function is infinitely steep.
                        let moves = t.combine(ops::NE, t.number(0.0));
                        let finite = p.combine(ops::NE, p.number(0.0));
                        let (t, p) = meet(t, p);
                        let moved = t / p;
                        let counts = moves.apply(ops::LOGICAL_OR, Params::None, &[finite]);
                        counts.select(moved, moved.number(0.0))
                    }
                    Partial::MinusRatio(n, d) => {
                        let (t, d) = meet(t, d);
                        let (t, n) = meet(t / d, n);
                        -(t * n)
                    }
                    Partial::TimesWhere(p, c) => {
                        let (t, p) = meet(t, p);
                        c.select(t * p, t.number(0.0))
                    }
                    Partial::Where(c, true) => c.select(t, t.number(0.0)),
                    Partial::Where(c, false) => c.select(t.number(0.0), t),
                };
                sum = Some(sum.map_or(term, |s| s + term));
            }
            Ok(sum)
        }
        Class::Linear { .. } => {
            // The map itself, with zero for the linear arguments that have no tangent.
            let args: SmallVec<[Var; 4]> = (rule.x.iter().zip(t))
                .map(|(x, t)| match t {
                    Some(t) => t.var(),
                    None if x.dtype().is_inexact() => x.full_like(0.0).var(),
                    None => x.var(),
                })
                .collect();
            let out = rule.out.to.emit(prim, rule.params.clone(), &args);
            Ok(Some(rule.out.with(out)))
        }
        Class::General { jvp: Some(jvp), .. } => Ok(Some(jvp(rule, t))),
        Class::Elementwise { partials: None, .. } | Class::General { jvp: None, .. } => Err(
            Error::NotDifferentiable(format!("{}: has no derivative rule", prim.name())),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tangent_of_a_product() {
        let text = "program(%0 \"x\": f64[3], %1 \"y\": f64[3]) {\n  %2: f64[3] = mul(%0, %1)\n  return %2\n}\n";
        let p = Program::parse(text).unwrap();
        let j = jvp(&p, &[true, true]).unwrap();
        assert_eq!(j.results, [Some(1)]);
        assert_eq!(j.program.eqns().len(), 4);
    }
}

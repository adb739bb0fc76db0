//! The reverse pass: from a program to the program that also gives its cotangents.
//!
//! From the outputs to the inputs, only through equations that lie between an input that was asked
//! for and an output, and only for the arguments on such a path. Rules emit primitives; the driver
//! accumulates and projects (`cotangent`).

use std::cell::OnceCell;

use super::cotangent::{Cotangents, Ct};
use super::{calls, parts, shifts};
use crate::error::{Error, Result};
use crate::interrupt::Steps;
use crate::prim::{Class, Params, Partial, Prim, Rule, Site, V, Var};
use crate::program::{Builder, FastMap, Program};

/// A program with its pullback behind it.
///
/// Its inputs are those of the original program, then one cotangent for each output that has one
/// (`cotangents` says which). Its outputs are those of the original program, then one cotangent for
/// each input that has influence.
#[derive(Debug, Clone)]
pub struct Vjp {
    /// Primal and pullback together; what is not needed of it is pruned by whoever takes a part.
    pub program: Program,
    /// For each output, which input of `program` is its cotangent.
    pub cotangents: Vec<Option<usize>>,
    /// For each input, which output of `program` is its cotangent; `None` where it was not asked
    /// for, has no influence or no tangents.
    pub gradients: Vec<Option<usize>>,
    /// Cotangents that were not asked for although their primal could have one, by the primitive
    /// that would have computed them.
    pub skipped: Vec<(Prim, u64)>,
}

/// Differentiates a program with respect to the marked inputs.
pub fn vjp(primal: &Program, wrt: &[bool]) -> Result<Vjp> {
    let inexact = |v: Var| primal.aval(v).dtype.is_inexact();
    let asked: Vec<bool> = wrt
        .iter()
        .enumerate()
        .map(|(i, &w)| w && inexact(i as Var))
        .collect();
    let mut active = primal.varies_with(&asked);

    let cotangents: Vec<Option<usize>> = (primal.outs.iter())
        .scan(primal.num_inputs(), |next, &out| {
            let slot = active[out as usize].then_some(*next);
            *next += usize::from(slot.is_some());
            Some(slot)
        })
        .collect();
    leave_out(primal, &mut active);
    let builder = start(primal, &cotangents);
    let shift = cotangents.iter().flatten().count() as Var;
    // Variables of the primal program, as they are numbered behind the new inputs.
    let moved = |v: Var| {
        if (v as usize) < primal.num_inputs() {
            v
        } else {
            v + shift
        }
    };

    let mut cts = Cotangents::new(&builder, primal.num_vars());
    for (&out, slot) in primal.outs.iter().zip(&cotangents) {
        if let Some(slot) = *slot {
            cts.add(
                out,
                Ct::Dense(builder.handle(slot as Var)),
                primal.aval(out),
            );
        }
    }
    let mut handles: Vec<V<'_>> = vec![builder.handle(0); 2];
    let mut skipped: Vec<(Prim, u64)> = Vec::new();
    let calls = primal.calls();
    let twins = twins(primal, &active);
    let (has_calls, has_sites) = (primal.has_calls(), primal.has_sites());
    let mut steps = Steps::default();
    let steep: OnceCell<Vec<bool>> = OnceCell::new();
    for k in (0..primal.eqns.len()).rev() {
        steps.count()?;
        let out = primal.result(k);
        if has_calls && let Some(&(first, _)) = calls.members(k).first() {
            // All outputs of a call together, once the cotangents of all are there.
            if k == first {
                builder.at(primal.site(k).pulled(primal.eqns[k].prim, 0));
                let args = primal.args(&primal.eqns[k]);
                let x: Vec<V<'_>> = args.iter().map(|&a| builder.handle(moved(a))).collect();
                calls::pull(primal, calls.members(k), &x, moved, &active, &mut cts)?;
            }
            continue;
        }
        let ct = cts.of(out);
        if !active[out as usize] || ct.is_zero() {
            continue;
        }
        if let Some(&twin) = twins.get(&out) {
            cts.add(twin, cts.unpack(ct), primal.aval(out));
            continue;
        }
        let eqn = &primal.eqns[k];
        let args = primal.args(eqn);
        // Without a loop for the usual numbers of arguments, which would cost more than what it does.
        match *args {
            [a] => handles[0].var = moved(a),
            [a, b] => (handles[0].var, handles[1].var) = (moved(a), moved(b)),
            _ => {
                handles.resize(args.len().max(handles.len()), builder.handle(0));
                for (handle, &a) in handles.iter_mut().zip(args) {
                    handle.var = moved(a);
                }
            }
        }
        let x = &handles[..args.len()];
        let y = builder.handle(moved(out));
        for (i, &a) in args.iter().enumerate() {
            if !active[a as usize] {
                if inexact(a) && primal.literal(a).is_none() {
                    count(&mut skipped, eqn.prim);
                }
                continue;
            }
            if has_sites {
                builder.at(primal.site(k).pulled(eqn.prim, i));
            }
            let partial = match &eqn.prim.0.class {
                Class::Elementwise {
                    partials: Some(partials),
                    ..
                } => {
                    if let Some(part) = cts.part(ct) {
                        let contribution = parts::pull(&builder, part, *partials, (x, y), i);
                        cts.add(a, contribution, primal.aval(a));
                        continue;
                    }
                    let partial = partials(x, y, i);
                    if cts.add_alike(a, ct, &partial, primal.var_avals[a as usize]) {
                        continue;
                    }
                    Some(partial)
                }
                _ => None,
            };
            let params = primal.params(eqn);
            let rule = Rule { x, out: y, params };
            let is_steep = || steep.get_or_init(|| parts::steep(primal))[a as usize];
            let contribution = contribution(&rule, partial, cts.unpack(ct), i, eqn.prim, is_steep)?;
            cts.add(a, contribution, primal.aval(a));
        }
    }

    builder.at(Site::NONE);
    let mut outs: Vec<Var> = primal.outs.iter().map(|&v| moved(v)).collect();
    let gradients = (0..primal.num_inputs())
        .map(|i| {
            if !asked[i] {
                return None;
            }
            let ct = cts.unpack(cts.of(i as Var)).dense()?;
            outs.push(ct.var);
            Some(outs.len() - 1)
        })
        .collect();
    drop(handles);
    let program = builder.finish(outs)?;
    program.debug_verify();
    Ok(Vjp {
        program,
        cotangents,
        gradients,
        skipped,
    })
}

/// Takes away what has influence only by way of shifts that have none; an input that was asked for and had some
/// keeps some way, or nothing is taken away: its gradient is of zeros, not missing.
fn leave_out(primal: &Program, active: &mut [bool]) {
    let shifts = shifts::without_influence(primal, active);
    let Some(&first) = shifts.iter().min() else {
        return;
    };
    let mut left = active.to_vec();
    for k in first as usize - primal.num_inputs()..primal.eqns.len() {
        let (out, args) = (primal.result(k), primal.args(&primal.eqns[k]));
        let varies = !shifts.contains(&out) && args.iter().any(|&a| left[a as usize]);
        left[out as usize] &= varies;
    }
    if with_influence(primal, active) == with_influence(primal, &left) {
        active.copy_from_slice(&left);
    }
}

/// Which inputs the outputs depend on by way of active variables.
fn with_influence(primal: &Program, active: &[bool]) -> Vec<bool> {
    let mut reached = vec![false; primal.num_vars()];
    for &out in &primal.outs {
        reached[out as usize] = active[out as usize];
    }
    for k in (0..primal.eqns.len()).rev() {
        if reached[primal.result(k) as usize] {
            for &a in primal.args(&primal.eqns[k]) {
                reached[a as usize] |= active[a as usize];
            }
        }
    }
    reached.truncate(primal.num_inputs());
    reached
}

/// What the cotangent of a result contributes to that of argument `i`. A function of its own, so that the
/// loop holds little but the shortest way.
#[inline(never)]
fn contribution<'e>(
    rule: &Rule<'_, 'e>,
    partial: Option<Partial<'e>>,
    ct: Ct<'e>,
    i: usize,
    prim: Prim,
    is_steep: impl Fn() -> bool,
) -> Result<Ct<'e>> {
    if let Some(partial) = partial {
        return Ok(ct.through(&partial));
    }
    let (Class::Linear { transpose: vjp, .. } | Class::General { vjp: Some(vjp), .. }) =
        &prim.0.class
    else {
        return Err(no_derivative(prim.name()));
    };
    let Some(given) = ct.dense() else {
        return Ok(Ct::Zero);
    };
    let pulled = vjp(rule, given, i);
    Ok(if parts::is_made_by(prim, rule, ct, is_steep) {
        Ct::Part(pulled)
    } else {
        Ct::Dense(pulled)
    })
}

/// Layouts that were made before: `p[0]`, read in every turn of a loop. Their cotangents are added before they
/// are taken back, so that the whole of `p` is not gone through each time.
fn twins(primal: &Program, active: &[bool]) -> FastMap<Var, Var> {
    let mut first: FastMap<(Prim, &Params, Var), Var> = FastMap::default();
    let mut twins: FastMap<Var, Var> = FastMap::default();
    // Two layouts have two parameters, behind that of equations without any.
    if primal.params.len() < 3 {
        return twins;
    }
    for (k, eqn) in primal.eqns.iter().enumerate() {
        if eqn.len != 1 || !eqn.prim.is_view() || !active[primal.result(k) as usize] {
            continue;
        }
        let (arg, out) = (primal.args(eqn)[0], primal.result(k));
        let arg = *twins.get(&arg).unwrap_or(&arg);
        let twin = *(first.entry((eqn.prim, primal.params(eqn), arg))).or_insert(out);
        if twin != out {
            twins.insert(out, twin);
        }
    }
    twins
}

fn count(list: &mut Vec<(Prim, u64)>, prim: Prim) {
    match list.iter_mut().find(|(p, _)| *p == prim) {
        Some((_, n)) => *n += 1,
        None => list.push((prim, 1)),
    }
}

fn no_derivative(name: &str) -> Error {
    Error::NotDifferentiable(format!(
        "{name}: has no derivative rule; hold its arguments constant with dropgrad"
    ))
}

/// A builder that holds the primal's equations behind its inputs and the cotangents of its outputs.
fn start(primal: &Program, cotangents: &[Option<usize>]) -> Builder {
    // The rules write two or three equations for each.
    let builder = Builder::alike(primal, 4 * primal.eqns.len());
    for (i, name) in primal.inputs.iter().enumerate() {
        builder.input(name, primal.aval(i as Var));
    }
    for (j, (&out, slot)) in primal.outs.iter().zip(cotangents).enumerate() {
        if slot.is_some() {
            let name = match &*primal.outputs[j] {
                "" if primal.outs.len() == 1 => "ct".to_string(),
                "" => format!("ct{j}"),
                name => format!("ct.{name}"),
            };
            builder.input(&name, primal.aval(out));
        }
    }
    builder.copy_equations(primal, cotangents.iter().flatten().count() as Var);
    builder
}

//! Many examples at once: the program that does for a batch what a program does for one example.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::aval::{Aval, Shape};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Batch, Batching, Class, Custom, Params, V, Var};
use crate::program::{Builder, Program, Splice};

/// A program over a batch: the marked inputs, and all outputs, have a new first axis of this length, along
/// which the examples lie. Inputs that are not marked are the same for all of them.
pub fn vmap(program: &Program, batched: &[bool], size: usize) -> Result<Program> {
    let builder = Builder::new();
    let mut map: Vec<Var> = vec![Var::MAX; program.num_vars()];
    let mut varies = vec![false; program.num_vars()];
    for (i, name) in program.inputs.iter().enumerate() {
        let aval = program.aval(i as Var);
        map[i] = if batched[i] {
            builder.input(name, &with_batch(aval, size))
        } else {
            builder.input(name, aval)
        };
        varies[i] = batched[i];
    }
    let calls = program.calls();
    for (k, eqn) in program.eqns.iter().enumerate() {
        let out = program.result(k);
        if map[out as usize] != Var::MAX {
            // Written together with an earlier output of its call.
            continue;
        }
        builder.at(program.site(k));
        let (args, params) = (program.args(eqn), program.params(eqn));
        let x: SmallVec<[V<'_>; 4]> = (args.iter())
            .map(|&a| builder.value(map[a as usize]))
            .collect();
        let is_batched: SmallVec<[bool; 4]> = args.iter().map(|&a| varies[a as usize]).collect();
        if !is_batched.contains(&true) {
            map[out as usize] = if let Params::Literal { dtype, value } = params {
                builder.complex_literal(*dtype, *value)
            } else {
                let args: SmallVec<[Var; 4]> = x.iter().map(|v| v.var()).collect();
                builder.push_inferred(eqn.prim, params.clone(), &args, program.aval(out))
            };
            continue;
        }
        match params {
            Params::Custom { rule, .. } if rule.is_elementwise() => {
                let rule = rule.again();
                for &(k, output) in calls.members(k) {
                    let rule = Arc::clone(&rule);
                    let out = program.result(k);
                    let batch = Batch {
                        x: &x,
                        batched: &is_batched,
                        size,
                        prim: eqn.prim,
                        params: &Params::Custom { rule, output },
                        out: program.aval(out),
                    };
                    map[out as usize] = batch.aligned().var();
                    varies[out as usize] = true;
                }
                continue;
            }
            Params::Custom { rule, .. } => {
                if let Some(name) = rule.single_call() {
                    return Err(called_back(&name));
                }
                let rule: Arc<dyn Custom> = Arc::new(Many {
                    rule: Arc::clone(rule),
                    batched: is_batched.to_vec(),
                    size,
                });
                for &(k, output) in calls.members(k) {
                    let rule = Arc::clone(&rule);
                    let params = Params::Custom { rule, output };
                    let out = program.result(k) as usize;
                    map[out] = x[0].apply(ops::CUSTOM, params, &x[1..]).var();
                    varies[out] = true;
                }
                continue;
            }
            Params::Host { call, .. } => {
                return Err(called_back(call.name()));
            }
            _ => {}
        }
        let batch = Batch {
            x: &x,
            batched: &is_batched,
            size,
            prim: eqn.prim,
            params,
            out: program.aval(out),
        };
        map[out as usize] = match &eqn.prim.0.class {
            Class::Elementwise { .. } => batch.aligned(),
            Class::Linear { batching, .. } | Class::General { batching, .. } => match batching {
                Batching::Aligned => batch.aligned(),
                Batching::Leading => batch.leading(),
                Batching::Rule(rule) => rule(&batch),
                Batching::None(reason) => {
                    let name = eqn.prim.name();
                    return Err(Error::Program(format!("vmap: {name}: {reason}")));
                }
            },
        }
        .var();
        varies[out as usize] = true;
    }
    let outs = (program.outs.iter())
        .map(|&out| {
            let v = builder.value(map[out as usize]);
            if varies[out as usize] {
                v.var()
            } else {
                v.broadcast_to(&with_batch(program.aval(out), size).shape)
                    .var()
            }
        })
        .collect();
    let mut mapped = builder.finish(outs)?;
    mapped.outputs.clone_from(&program.outputs);
    mapped.debug_verify();
    Ok(mapped)
}

fn called_back(name: &str) -> Error {
    Error::Program(format!(
        "vmap: {name} is called back with values, of one example at a time; map it with a loop"
    ))
}

fn with_batch(aval: &Aval, size: usize) -> Aval {
    let mut shape = Shape::new();
    shape.push(size);
    shape.extend_from_slice(&aval.shape);
    Aval {
        dtype: aval.dtype,
        shape,
    }
}

/// Dtype and shape of one example's argument.
fn one(aval: &Aval, batched: bool) -> Aval {
    let mut aval = aval.clone();
    if batched {
        aval.shape.remove(0);
    }
    aval
}

/// A function with a rule of its own, for many examples: its value and its rule are those of the function,
/// mapped.
struct Many {
    rule: Arc<dyn Custom>,
    batched: Vec<bool>,
    size: usize,
}

impl Many {
    /// What is written for one example, for all of them. `x` are variables there, with a first axis where
    /// `batched`; so has everything that is given.
    fn map<'e>(
        &self,
        x: &[V<'e>],
        batched: &[bool],
        write: impl for<'b> FnOnce(&[V<'b>]) -> Result<Vec<Option<V<'b>>>>,
    ) -> Result<Vec<Option<V<'e>>>> {
        let builder = Builder::new();
        let vars: Vec<Var> = (x.iter().zip(batched))
            .map(|(v, &batched)| builder.input("", &one(&v.aval(), batched)))
            .collect();
        let values: Vec<V<'_>> = vars.iter().map(|&v| builder.value(v)).collect();
        let found = write(&values)?;
        let outs: Vec<Option<Var>> = found.iter().map(|v| v.map(V::var)).collect();
        drop((values, found));
        let program = builder.finish(outs.iter().flatten().copied().collect())?;
        let mapped = vmap(&program, batched, self.size)?;
        let mut indices = 0..;
        let outs = outs.iter().map(|out| out.and_then(|_| indices.next()));
        Ok(Splice::new(&mapped, x[0], x).outputs(outs))
    }
}

/// The variables that are there.
fn there<'e>(list: &[Option<V<'e>>]) -> impl Iterator<Item = V<'e>> {
    list.iter().flatten().copied()
}

/// Takes the next variables for what is there.
fn taken<'e>(list: &[bool], from: &mut impl Iterator<Item = V<'e>>) -> Vec<Option<V<'e>>> {
    (list.iter())
        .map(|&is| if is { from.next() } else { None })
        .collect()
}

fn is_there(list: &[Option<V<'_>>]) -> Vec<bool> {
    list.iter().map(Option::is_some).collect()
}

impl Custom for Many {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn num_outputs(&self) -> usize {
        self.rule.num_outputs()
    }

    fn infer(&self, x: &[&Aval], output: usize) -> Result<Aval> {
        let one: Vec<Aval> = (x.iter().zip(&self.batched))
            .map(|(aval, &batched)| one(aval, batched))
            .collect();
        let out = self.rule.infer(&one.iter().collect::<Vec<_>>(), output)?;
        Ok(with_batch(&out, self.size))
    }

    fn lower<'e>(&self, x: &[V<'e>], wanted: &[bool]) -> Vec<Option<V<'e>>> {
        let rule = &self.rule;
        // Without outputs, the caller says which one is missing.
        self.map(x, &self.batched, |x| Ok(rule.lower(x, wanted)))
            .unwrap_or_else(|_| vec![None; wanted.len()])
    }

    fn vjp<'e>(
        &self,
        x: &[V<'e>],
        y: &[Option<V<'e>>],
        cts: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>> {
        let all: Vec<V<'e>> = x
            .iter()
            .copied()
            .chain(there(y))
            .chain(there(cts))
            .collect();
        let mut batched = self.batched.clone();
        batched.resize(all.len(), true);
        let (y, cts) = (is_there(y), is_there(cts));
        let found = self.map(&all, &batched, |all| {
            let (x, behind) = all.split_at(self.batched.len());
            let mut behind = behind.iter().copied();
            let y = taken(&y, &mut behind);
            let cts = taken(&cts, &mut behind);
            self.rule.vjp(x, &y, &cts, wanted)
        })?;
        // What all examples share has the sum of their cotangents.
        let shared = found.into_iter().zip(&self.batched);
        Ok(shared
            .map(|(ct, &batched)| {
                let ct = ct?;
                Some(if batched {
                    ct
                } else {
                    ct.reduce(ops::SUM, &[0])
                })
            })
            .collect())
    }

    fn jvp<'e>(
        &self,
        x: &[V<'e>],
        t: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>> {
        let all: Vec<V<'e>> = x.iter().copied().chain(there(t)).collect();
        let given = is_there(t);
        let tangents = self.batched.iter().zip(&given);
        let tangents = tangents.filter(|(_, given)| **given).map(|(&b, _)| b);
        let batched: Vec<bool> = self.batched.iter().copied().chain(tangents).collect();
        self.map(&all, &batched, |all| {
            let (x, behind) = all.split_at(self.batched.len());
            let t = taken(&given, &mut behind.iter().copied());
            self.rule.jvp(x, &t, wanted)
        })
    }

    fn again(&self) -> Arc<dyn Custom> {
        Arc::new(Many {
            rule: self.rule.again(),
            batched: self.batched.clone(),
            size: self.size,
        })
    }

    fn host_calls(&self) -> Vec<String> {
        self.rule.host_calls()
    }

    fn single_call(&self) -> Option<String> {
        self.rule.single_call()
    }

    fn key(&self) -> u64 {
        self.rule.key().rotate_left(7) ^ self.size as u64
    }

    fn same(&self, other: &dyn Custom) -> bool {
        let other = other as &dyn std::any::Any;
        other.downcast_ref::<Many>().is_some_and(|other| {
            self.size == other.size && self.batched == other.batched && self.rule.same(&*other.rule)
        })
    }
}

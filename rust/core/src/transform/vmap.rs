//! Many examples at once: the program that does for a batch what a program does for one example.

use std::sync::Arc;

use smallvec::SmallVec;

use super::looped;
use super::mapped_calls::{EachExample, one, with_batch};
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Batch, Batching, Class, Custom, Host, Params, V, Var};
use crate::program::{Builder, Program, Splice};

/// A program over a batch: the marked inputs, and all outputs, have a new first axis of this length, along
/// which the examples lie. Inputs that are not marked are the same for all of them.
pub fn vmap(program: &Program, batched: &[bool], size: usize) -> Result<Program> {
    let builder = Builder::new();
    let mut pass = Pass {
        program,
        builder: &builder,
        size,
        map: vec![Var::MAX; program.num_vars()],
        varies: vec![false; program.num_vars()],
    };
    pass.inputs(batched);
    pass.equations()?;
    let outs = pass.outputs();
    let mut mapped = builder.finish(outs)?;
    mapped.outputs.clone_from(&program.outputs);
    mapped.debug_verify();
    Ok(mapped)
}

/// Which outputs of a program differ between examples, if the marked inputs do.
pub fn varying(program: &Program, batched: &[bool]) -> Vec<bool> {
    let mut varies = batched.to_vec();
    varies.resize(program.num_vars(), false);
    for (k, eqn) in program.eqns.iter().enumerate() {
        varies[program.result(k) as usize] = program.args(eqn).iter().any(|&a| varies[a as usize]);
    }
    program
        .outs
        .iter()
        .map(|&out| varies[out as usize])
        .collect()
}

/// A program that is being mapped.
struct Pass<'p, 'e> {
    program: &'p Program,
    builder: &'e Builder,
    size: usize,
    /// For each variable the one that it has become.
    map: Vec<Var>,
    /// Whether that has an axis of examples.
    varies: Vec<bool>,
}

impl<'e> Pass<'_, 'e> {
    fn inputs(&mut self, batched: &[bool]) {
        for (i, name) in self.program.inputs.iter().enumerate() {
            let aval = self.program.aval(i as Var);
            self.map[i] = if batched[i] {
                self.builder.input(name, &with_batch(aval, self.size))
            } else {
                self.builder.input(name, aval)
            };
            self.varies[i] = batched[i];
        }
    }

    fn equations(&mut self) -> Result<()> {
        let program = self.program;
        let calls = program.calls();
        for (k, eqn) in program.eqns.iter().enumerate() {
            if self.map[program.result(k) as usize] != Var::MAX {
                // Written together with an earlier output of its call.
                continue;
            }
            self.builder.at(program.site(k));
            let args = program.args(eqn);
            let x: SmallVec<[V<'e>; 4]> = (args.iter())
                .map(|&a| self.builder.value(self.map[a as usize]))
                .collect();
            let batched: SmallVec<[bool; 4]> =
                (args.iter()).map(|&a| self.varies[a as usize]).collect();
            match program.params(eqn) {
                _ if !batched.contains(&true) => self.shared(k, &x),
                Params::Custom { rule, .. } => self.custom(rule, calls.members(k), &x, &batched),
                Params::Host { call, .. } => self.host(call, calls.members(k), &x, &batched),
                Params::Loop { of, .. } => {
                    let members = calls.members(k);
                    let wanted: Vec<usize> = members.iter().map(|&(_, output)| output).collect();
                    let outs = looped::map(of, &x, &batched, self.size, &wanted, vmap)?;
                    for (&(k, _), (out, varies)) in members.iter().zip(outs) {
                        let var = program.result(k) as usize;
                        self.map[var] = out.var();
                        self.varies[var] = varies;
                    }
                }
                params => {
                    let mapped = self.mapped(k, params, &x, &batched)?;
                    self.set(k, mapped);
                }
            }
        }
        Ok(())
    }

    /// The result of an equation, which differs between examples.
    fn set(&mut self, k: usize, mapped: V<'e>) {
        let out = self.program.result(k) as usize;
        self.map[out] = mapped.var();
        self.varies[out] = true;
    }

    /// An equation that is the same for all examples.
    fn shared(&mut self, k: usize, x: &[V<'e>]) {
        let (program, out) = (self.program, self.program.result(k));
        let eqn = &program.eqns[k];
        self.map[out as usize] = if let Params::Literal { dtype, value } = program.params(eqn) {
            self.builder.complex_literal(*dtype, *value)
        } else {
            let args: SmallVec<[Var; 4]> = x.iter().map(|v| v.var()).collect();
            let params = program.params(eqn).clone();
            (self.builder).push_inferred(eqn.prim, params, &args, program.aval(out))
        };
    }

    /// All outputs of a call of a function with a rule of its own: the equations of these numbers.
    fn custom(
        &mut self,
        rule: &Arc<dyn Custom>,
        members: &[(usize, usize)],
        x: &[V<'e>],
        batched: &[bool],
    ) {
        if rule.is_elementwise() {
            let rule = rule.again();
            for &(k, output) in members {
                let rule = Arc::clone(&rule);
                let batch = self
                    .batch(k, &Params::Custom { rule, output }, x, batched)
                    .aligned();
                self.set(k, batch);
            }
            return;
        }
        let rule: Arc<dyn Custom> = Arc::new(Many {
            rule: Arc::clone(rule),
            batched: batched.to_vec(),
            size: self.size,
        });
        for &(k, output) in members {
            let rule = Arc::clone(&rule);
            let params = Params::Custom { rule, output };
            self.set(k, x[0].apply(ops::CUSTOM, params, &x[1..]));
        }
    }

    /// All outputs of a function that is called back: the equations of these numbers.
    fn host(
        &mut self,
        call: &Arc<dyn Host>,
        members: &[(usize, usize)],
        x: &[V<'e>],
        batched: &[bool],
    ) {
        let args: SmallVec<[Var; 4]> = x.iter().map(|v| v.var()).collect();
        let call: Arc<dyn Host> = Arc::new(EachExample::new(call, batched, self.size));
        for &(k, output) in members {
            let call = Arc::clone(&call);
            let params = Params::Host { call, output };
            self.set(k, x[0].with(x[0].to.emit(ops::HOST, params, &args)));
        }
    }

    /// An equation of a primitive for all examples, as the primitive says.
    fn mapped(&self, k: usize, params: &Params, x: &[V<'e>], batched: &[bool]) -> Result<V<'e>> {
        let batch = self.batch(k, params, x, batched);
        Ok(match &batch.prim.0.class {
            Class::Elementwise { .. } => batch.aligned(),
            Class::Linear { batching, .. } | Class::General { batching, .. } => match batching {
                Batching::Aligned => batch.aligned(),
                Batching::Leading => batch.leading(),
                Batching::Rule(rule) => rule(&batch),
                Batching::None(reason) => {
                    let name = batch.prim.name();
                    return Err(Error::Program(format!("vmap: {name}: {reason}")));
                }
            },
        })
    }

    fn batch<'a>(
        &'a self,
        k: usize,
        params: &'a Params,
        x: &'a [V<'e>],
        batched: &'a [bool],
    ) -> Batch<'a, 'e> {
        Batch {
            x,
            batched,
            size: self.size,
            prim: self.program.eqns[k].prim,
            params,
            out: self.program.aval(self.program.result(k)),
        }
    }

    /// The outputs, those that are the same for all examples repeated.
    fn outputs(&self) -> Vec<Var> {
        (self.program.outs.iter())
            .map(|&out| {
                let v = self.builder.value(self.map[out as usize]);
                if self.varies[out as usize] {
                    return v.var();
                }
                let aval = with_batch(self.program.aval(out), self.size);
                v.broadcast_to(&aval.shape).var()
            })
            .collect()
    }
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

//! Small editions of programs: which variables are needed, keeping some outputs only, cutting.

use super::builder::empty_name;
use super::{Builder, Eqn, Program};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Params, Var};

impl Program {
    /// For every variable, whether a wanted output needs it.
    pub fn needed(&self, wanted: &[bool]) -> Vec<bool> {
        let outs = self.outs.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        self.needed_for(outs.map(|(&out, _)| out), |_| false)
    }

    /// For every variable, whether one of these needs it, where what is known needs nothing.
    pub(crate) fn needed_for(
        &self,
        vars: impl IntoIterator<Item = Var>,
        is_known: impl Fn(Var) -> bool,
    ) -> Vec<bool> {
        let mut needed = vec![false; self.num_vars()];
        for var in vars {
            needed[var as usize] = true;
        }
        for k in (0..self.eqns.len()).rev() {
            let var = self.result(k);
            if needed[var as usize] && !is_known(var) {
                for &a in self.args(&self.eqns[k]) {
                    needed[a as usize] = true;
                }
            }
        }
        needed
    }

    /// For every variable, whether it depends on one of the marked inputs.
    pub fn depends_on(&self, inputs: &[bool]) -> Vec<bool> {
        let mut depends = vec![false; self.num_vars()];
        depends[..inputs.len()].copy_from_slice(inputs);
        for (k, eqn) in self.eqns.iter().enumerate() {
            if eqn.args.any(&self.args, |a| depends[a as usize]) {
                depends[self.result(k) as usize] = true;
            }
        }
        depends
    }

    /// For every variable, whether it varies with one of the marked inputs: like
    /// [`Program::depends_on`], but nothing varies behind `dropgrad`.
    pub fn varies_with(&self, inputs: &[bool]) -> Vec<bool> {
        let mut varies = vec![false; self.num_vars()];
        varies[..inputs.len()].copy_from_slice(inputs);
        let inexact: Vec<bool> = self.avals.iter().map(|a| a.dtype.is_inexact()).collect();
        let first = self.inputs.len();
        for (k, (eqn, &aval)) in self.eqns.iter().zip(&self.var_avals[first..]).enumerate() {
            let varied = eqn.args.any(&self.args, |a| varies[a as usize]);
            varies[first + k] = varied && inexact[aval as usize] && eqn.prim != ops::DROPGRAD;
        }
        varies
    }

    /// The program without the equations that no output needs; its inputs stay.
    #[must_use]
    pub fn pruned(&self) -> Program {
        let inputs: Vec<Var> = (0..self.inputs.len() as Var).collect();
        self.extract(&inputs, &self.outs)
    }

    /// The program that computes `outs` (variables of this one) from `inputs` (variables too).
    /// What lies behind the new inputs is cut off.
    ///
    /// # Panics
    /// When an output needs an input of this program that is not among the new ones.
    #[must_use]
    pub fn extract(&self, inputs: &[Var], outs: &[Var]) -> Program {
        let mut map: Vec<Var> = vec![Var::MAX; self.num_vars()];
        let mut needed = vec![false; self.num_vars()];
        for (i, &v) in inputs.iter().enumerate() {
            map[v as usize] = i as Var;
        }
        for &out in outs {
            needed[out as usize] = true;
        }
        for k in (0..self.eqns.len()).rev() {
            let var = self.result(k) as usize;
            if needed[var] && map[var] == Var::MAX {
                for &a in self.args(&self.eqns[k]) {
                    needed[a as usize] = true;
                }
            }
        }
        let is_taken = |k: &usize| {
            let var = self.result(*k) as usize;
            needed[var] && map[var] == Var::MAX
        };
        let taken: Vec<usize> = (0..self.eqns.len()).filter(is_taken).collect();
        let name = |v: Var| {
            self.inputs
                .get(v as usize)
                .cloned()
                .unwrap_or_else(empty_name)
        };
        let mut new = Program {
            inputs: inputs.iter().map(|&v| name(v)).collect(),
            avals: self.avals.clone(),
            var_avals: Vec::with_capacity(inputs.len() + taken.len()),
            eqns: Vec::with_capacity(taken.len()),
            ..Program::new()
        };
        (new.var_avals).extend(inputs.iter().map(|&v| self.var_avals[v as usize]));
        for k in taken {
            let (eqn, var) = (&self.eqns[k], self.result(k) as usize);
            map[var] = new.var_avals.len() as Var;
            let args = eqn.args.mapped(&self.args, &mut new.args, |a| {
                let a = map[a as usize];
                assert!(a != Var::MAX, "an input that is needed was cut off");
                a
            });
            let params = if eqn.params == 0 {
                0
            } else {
                new.params.push(self.params[eqn.params as usize].clone());
                (new.params.len() - 1) as u32
            };
            new.sites.set(new.eqns.len(), self.site(k));
            new.eqns.push(Eqn {
                prim: eqn.prim,
                params,
                args,
            });
            new.var_avals.push(self.var_avals[var]);
        }
        new.outs = outs.iter().map(|&v| map[v as usize]).collect();
        assert!(
            !new.outs.contains(&Var::MAX),
            "an input that is an output was cut off"
        );
        new.outputs = vec![empty_name(); outs.len()];
        if outs == self.outs {
            new.outputs.clone_from(&self.outputs);
        }
        new.compact_avals();
        new
    }

    /// The same program with its tables of avals and parameters in order of first use, so that programs
    /// with the same equations are equal, whatever way they were made.
    #[must_use]
    pub fn compacted(mut self) -> Program {
        self.compact_avals();
        let all = std::mem::replace(&mut self.params, vec![Params::None]);
        for eqn in &mut self.eqns {
            let params = &all[eqn.params as usize];
            eqn.params = if matches!(params, Params::None) {
                0
            } else {
                self.params.push(params.clone());
                (self.params.len() - 1) as u32
            };
        }
        let mut args = Vec::with_capacity(self.args.len());
        for eqn in &mut self.eqns {
            eqn.args = eqn.args.mapped(&self.args, &mut args, |a| a);
        }
        self.args = args;
        self
    }

    /// The program with these inputs alone, in this order, among which are all that are needed.
    #[must_use]
    pub fn with_inputs(&self, inputs: &[Var]) -> Program {
        let mut new = self.extract(inputs, &self.outs);
        new.outputs.clone_from(&self.outputs);
        new
    }

    /// What `first` computes, as inputs of `then`: its outputs are the first inputs there. The other
    /// inputs of `then` come behind those of `first`.
    pub fn compose(first: &Program, then: &Program) -> Result<Program> {
        let count = first.outs.len();
        if count > then.num_inputs() {
            return Err(Error::Program(format!(
                "compose: the first program has {count} outputs, the second takes {} inputs",
                then.num_inputs()
            )));
        }
        for (i, &out) in first.outs.iter().enumerate() {
            let (given, taken) = (first.aval(out), then.aval(i as Var));
            if given != taken {
                let name = |kind: &str, name: &str| match name {
                    "" => format!("{kind} {i}"),
                    name => format!("{kind} {i} ({name})"),
                };
                return Err(Error::Shape(format!(
                    "compose: {} of the first program is {given}, but {} of the second is {taken}",
                    name("output", &first.outputs[i]),
                    name("input", &then.inputs[i]),
                )));
            }
        }
        let builder = Builder::new();
        let mut firsts = Vec::with_capacity(first.num_inputs());
        for (i, name) in first.inputs.iter().enumerate() {
            firsts.push(builder.input(name, first.aval(i as Var)));
        }
        let rest = count..then.num_inputs();
        let rest: Vec<Var> = rest
            .map(|i| builder.input(&then.inputs[i], then.aval(i as Var)))
            .collect();
        let middle = builder.inline(first, &firsts, &vec![true; count]);
        let inputs: Vec<Var> = middle.into_iter().flatten().chain(rest).collect();
        let outs = builder.inline(then, &inputs, &vec![true; then.outs.len()]);
        let mut program = builder.finish(outs.into_iter().flatten().collect())?;
        program.outputs.clone_from(&then.outputs);
        program.debug_verify();
        Ok(program)
    }

    /// Forgets avals that no variable has, and numbers the rest in order of first use, so that equal
    /// programs are equal whatever they were cut from.
    fn compact_avals(&mut self) {
        let mut map = vec![u32::MAX; self.avals.len()];
        let mut kept = Vec::new();
        for aval in &mut self.var_avals {
            let slot = &mut map[*aval as usize];
            if *slot == u32::MAX {
                *slot = kept.len() as u32;
                kept.push(self.avals[*aval as usize].clone());
            }
            *aval = *slot;
        }
        self.avals = kept;
    }
}

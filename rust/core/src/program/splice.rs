//! Copies the equations of one program into another: this is how checkpoints and functions with custom rules are lowered,
//! differentiated and mapped.

use smallvec::SmallVec;

use super::Program;
use crate::prim::{Params, Site, V, Var};

/// A program whose equations are being copied into another one.
#[derive(Debug)]
pub struct Splice<'p, 'e> {
    program: &'p Program,
    /// A variable of the target program, whose builder receives the equations.
    to: V<'e>,
    /// The target's variable for each variable of `program`; `Var::MAX` where there is none yet.
    map: Vec<Var>,
}

impl<'p, 'e> Splice<'p, 'e> {
    /// Starts with the target's variables for the first inputs.
    pub fn new(program: &'p Program, to: V<'e>, inputs: &[V<'e>]) -> Splice<'p, 'e> {
        let mut map = vec![Var::MAX; program.num_vars()];
        for (slot, v) in map.iter_mut().zip(inputs) {
            *slot = v.var();
        }
        Splice { program, to, map }
    }

    /// Sets the target's variable for `var`.
    pub fn set(&mut self, var: Var, v: V<'e>) {
        self.map[var as usize] = v.var();
    }

    /// The same, with an array of zeros in the place of `None`.
    pub fn set_or_zero(&mut self, var: Var, v: Option<V<'e>>) {
        let zero = || {
            let aval = self.program.aval(var);
            let zero = self.to.to.number(aval.dtype, 0.0);
            self.to.with(zero).broadcast_to(&aval.shape)
        };
        let v = v.unwrap_or_else(zero);
        self.set(var, v);
    }

    /// Whether the target has a variable for `var` already.
    pub fn has(&self, var: Var) -> bool {
        self.map[var as usize] != Var::MAX
    }

    /// Copies the equations that `wanted` need, and returns the target's variables for them.
    pub fn variables(&mut self, wanted: &[Var]) -> Vec<V<'e>> {
        self.write(wanted);
        let of = |&v: &Var| self.to.with(self.map[v as usize]);
        wanted.iter().map(of).collect()
    }

    /// The same for outputs of the program, by index.
    pub fn outputs(&mut self, outs: impl IntoIterator<Item = Option<usize>>) -> Vec<Option<V<'e>>> {
        let of = |out: Option<usize>| out.map(|out| self.program.outs()[out]);
        let vars: Vec<Option<Var>> = outs.into_iter().map(of).collect();
        self.write(&vars.iter().copied().flatten().collect::<Vec<Var>>());
        let target = |v: Var| self.to.with(self.map[v as usize]);
        vars.into_iter().map(|v| v.map(target)).collect()
    }

    /// Copies the equations that `wanted` need and that are not in the target yet.
    fn write(&mut self, wanted: &[Var]) {
        let (program, map, to) = (self.program, &mut self.map, self.to.to);
        let mut needed = vec![false; program.num_vars()];
        for &v in wanted {
            needed[v as usize] = true;
        }
        for k in (0..program.eqns.len()).rev() {
            let var = program.result(k) as usize;
            if needed[var] && map[var] == Var::MAX {
                for &a in program.args(&program.eqns[k]) {
                    needed[a as usize] = true;
                }
            }
        }
        let call = to.at(Site::NONE);
        for (k, eqn) in program.eqns.iter().enumerate() {
            let var = program.result(k) as usize;
            if !needed[var] || map[var] != Var::MAX {
                continue;
            }
            to.at(program.site(k).or(call));
            map[var] = match program.params(eqn) {
                Params::Literal { dtype, value } if value.im == 0.0 => to.number(*dtype, value.re),
                params => {
                    let args = program.args(eqn).iter().map(|&a| map[a as usize]);
                    let args: SmallVec<[Var; 4]> = args.collect();
                    to.emit(eqn.prim, params.clone(), &args)
                }
            };
        }
        to.at(call);
    }
}

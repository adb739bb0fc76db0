//! The structural hash of programs, by which caches find what was derived from one like it.

use std::hash::{Hash, Hasher};

use super::Program;
use crate::prim::Params;
use crate::util::FastHasher;

impl Hash for Program {
    /// Everything but names: programs that compute the same in the same way share their plan.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.inputs.len());
        for aval in &self.avals {
            aval.hash(state);
        }
        for &aval in &self.var_avals {
            state.write_u32(aval);
        }
        for eqn in &self.eqns {
            eqn.prim.hash(state);
            state.write_u64(u64::from(eqn.params) << 32 | eqn.args.len() as u64);
            state.write_u64(eqn.args.key());
        }
        for &arg in &self.args {
            state.write_u32(arg);
        }
        for params in &self.params[1..] {
            params.hash(state);
        }
        for &out in &self.outs {
            state.write_u32(out);
        }
    }
}

impl Program {
    /// The structural hash: equal programs have equal ones. Not the same in another process.
    pub fn structural_hash(&self) -> u64 {
        let mut hasher = FastHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether two programs compute the same in the same way, whatever they call their inputs.
    pub fn same_structure(&self, other: &Program) -> bool {
        self.same_equations(other) && self.params == other.params
    }

    /// The same, but for functions with rules of their own and those that are called back, of which
    /// only names are compared: closures that were made anew are other objects.
    pub fn same_but_for_calls(&self, other: &Program) -> bool {
        let alike = |(a, b): (&Params, &Params)| match (a, b) {
            (Params::Custom { rule: a, output: i }, Params::Custom { rule: b, output: j }) => {
                i == j && a.name() == b.name()
            }
            (Params::Host { call: a, output: i }, Params::Host { call: b, output: j }) => {
                i == j && a.name() == b.name()
            }
            (a, b) => a == b,
        };
        self.same_equations(other)
            && self.params.len() == other.params.len()
            && self.params.iter().zip(&other.params).all(alike)
    }

    fn same_equations(&self, other: &Program) -> bool {
        self.inputs.len() == other.inputs.len()
            && self.var_avals == other.var_avals
            && self.eqns == other.eqns
            && self.args == other.args
            && self.outs == other.outs
            && self.avals == other.avals
            // One call with two outputs is not two calls with one each: their rules see other cotangents.
            && (!self.has_calls() || self.calls() == other.calls())
    }
}

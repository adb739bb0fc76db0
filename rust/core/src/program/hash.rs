//! A structural hash of programs, and the fast hash tables that recording uses.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::Program;
use crate::prim::Params;

/// Multiply-and-rotate hashing as in Firefox and rustc: two instructions a word, no defence against
/// chosen keys, which tables over our own counters and structures do not need.
#[derive(Debug, Default, Clone, Copy)]
pub struct FastHasher(u64);

/// 2^64 divided by the golden ratio.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

impl FastHasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(SEED);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.add(u64::from(n));
    }
    fn write_u32(&mut self, n: u32) {
        self.add(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    fn finish(&self) -> u64 {
        // The low bits select the bucket; mix the high ones into them.
        self.0 ^ (self.0 >> 32)
    }
}

/// A hash map with [`FastHasher`]. Never iterated over: order comes from indices.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

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

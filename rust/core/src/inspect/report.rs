//! What a pullback holds and why, and what it has not computed.

use super::stretches::{Stretch, stretches};
use crate::aval::Aval;
use crate::kernels::Value;
use crate::prim::{Prim, Site, Var};
use crate::program::Program;
use crate::tape::Array;
use crate::tape::node::Applied;
use crate::util::FastMap;

/// Where a residual comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An input of the forward program.
    Input(usize),
    /// The result of one of its equations: the variable.
    Equation(Var, Prim, Site),
    /// That is not known any more.
    Unknown,
}

/// A value that a pullback holds.
#[derive(Debug, Clone)]
pub struct Residual {
    /// Which input of the pullback's program it is.
    pub input: usize,
    /// Dtype and shape.
    pub aval: Aval,
    /// Bytes; 0 for one that lies in the memory of one before.
    pub nbytes: usize,
    /// Where it comes from.
    pub source: Source,
    /// The first equation that reads it, unless it is handed out as it is.
    pub reader: Option<(Prim, Site)>,
    /// How many equations read it.
    pub readers: usize,
    /// The leaves whose cotangents need it.
    pub leaves: Vec<usize>,
}

/// What there is to say about a pullback.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it holds, each value once.
    pub residuals: Vec<Residual>,
    /// For each leaf, whether its cotangent was computed; `None` where it has none.
    pub computed: Vec<Option<bool>>,
    /// How many equations the program has.
    pub equations: usize,
    /// How many of them only cotangents need that were never computed,
    pub equations_avoided: usize,
    /// and how many bytes their results would have.
    pub bytes_avoided: usize,
    /// Cotangents that were not asked for when the function was differentiated, by the primitive whose
    /// rule would have computed them.
    pub skipped: Vec<(Prim, u64)>,
    /// Where a checkpoint would free the most, best first; at most three.
    pub checkpoints: Vec<Stretch>,
}

/// The parts of a pullback that a report is made of.
pub(crate) struct Subject<'a> {
    pub program: &'a Program,
    /// The program that gave the residuals, where it is known.
    pub forward: Option<&'a Program>,
    pub residuals: &'a [Array],
    /// How many outputs the function has.
    pub outputs: usize,
    /// For each leaf, which output of the program is its cotangent.
    pub gradients: &'a [Option<usize>],
    pub applied: &'a Applied,
    pub skipped: &'a [(Prim, u64)],
}

impl Subject<'_> {
    /// What it holds and why, and what it has not computed.
    pub fn report(&self) -> Report {
        let program = self.program;
        let computed: Vec<Option<bool>> = (self.gradients.iter())
            .map(|slot| slot.map(|out| self.applied.get(out)))
            .collect();
        let wanted: Vec<bool> = (0..program.outs().len())
            .map(|out| self.applied.get(out))
            .collect();
        let needed = program.needed(&wanted);
        let first = program.num_inputs();
        let avoided = || (first..program.num_vars()).filter(|&v| !needed[v]);
        Report {
            residuals: self.residuals(),
            computed,
            equations: program.eqns().len(),
            equations_avoided: avoided().count(),
            bytes_avoided: avoided().map(|v| program.aval(v as Var).nbytes()).sum(),
            skipped: self.skipped.to_vec(),
            checkpoints: self
                .forward
                .map(|f| stretches(f, self.outputs))
                .unwrap_or_default(),
        }
    }

    /// What it holds, and what for.
    fn residuals(&self) -> Vec<Residual> {
        let program = self.program;
        let count = program.num_inputs() - self.residuals.len();
        let mut readers: Vec<(u32, u32)> = vec![(u32::MAX, 0); program.num_inputs()];
        for (k, eqn) in program.eqns().iter().enumerate() {
            for &a in program.args(eqn) {
                if let Some((reader, readers)) = readers.get_mut(a as usize) {
                    *reader = (*reader).min(k as u32);
                    *readers += 1;
                }
            }
        }
        let users = self.users();
        let forward = self.forward;
        let results = self.outputs;
        let mut seen: FastMap<usize, ()> = FastMap::default();
        let mut residuals = Vec::with_capacity(self.residuals.len());
        for (i, residual) in self.residuals.iter().enumerate() {
            let address = residual.value().map(Value::address);
            let is_new = address.is_none_or(|a| seen.insert(a, ()).is_none());
            let source = forward.and_then(|f| {
                let var = *f.outs().get(results + i)?;
                Some(match (var as usize).checked_sub(f.num_inputs()) {
                    None => Source::Input(var as usize),
                    Some(k) => Source::Equation(var, f.eqns()[k].prim, f.site(k)),
                })
            });
            let (reader, readers) = readers[count + i];
            let reader = program
                .eqns()
                .get(reader as usize)
                .map(|e| (e.prim, reader));
            residuals.push(Residual {
                input: count + i,
                aval: residual.aval().clone(),
                nbytes: if is_new { residual.nbytes() } else { 0 },
                source: source.unwrap_or(Source::Unknown),
                reader: reader.map(|(prim, k)| (prim, program.site(k as usize))),
                readers: readers as usize,
                leaves: users.of(count + i),
            });
        }
        residuals
    }

    /// Which leaves' cotangents need which variable of the program.
    fn users(&self) -> Users {
        let program = self.program;
        let slots: Vec<(usize, usize)> = (self.gradients.iter().enumerate())
            .filter_map(|(leaf, slot)| slot.map(|out| (leaf, out)))
            .collect();
        let words = slots.len().div_ceil(64);
        let mut users = Users {
            words,
            bits: vec![0; words * program.num_vars()],
            leaves: slots.iter().map(|(leaf, _)| *leaf).collect(),
        };
        for (bit, (_, out)) in slots.iter().enumerate() {
            let var = program.outs()[*out] as usize;
            users.bits[var * words + bit / 64] |= 1 << (bit % 64);
        }
        for (k, eqn) in program.eqns().iter().enumerate().rev() {
            let var = program.result(k) as usize;
            for &a in program.args(eqn) {
                for word in 0..words {
                    users.bits[a as usize * words + word] |= users.bits[var * words + word];
                }
            }
        }
        users
    }
}

/// A set of leaves for each variable, as bits.
struct Users {
    words: usize,
    bits: Vec<u64>,
    leaves: Vec<usize>,
}

impl Users {
    fn of(&self, var: usize) -> Vec<usize> {
        let words = &self.bits[var * self.words..(var + 1) * self.words];
        (self.leaves.iter().enumerate())
            .filter(|(bit, _)| words[bit / 64] >> (bit % 64) & 1 == 1)
            .map(|(_, &leaf)| leaf)
            .collect()
    }
}

//! Equations that are outputs of one call: of a function with a rule of its own, say.

use std::sync::Arc;

use super::{Program, SameLoops};
use crate::prim::{Custom, Host, Params, Var};
use crate::util::FastMap;

/// The calls of a program. Outputs of one call are separate equations of the same object on the same
/// arguments; the same output once more is another call.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Calls {
    of: FastMap<usize, usize>,
    members: Vec<Vec<(usize, usize)>>,
}

impl Calls {
    /// The equations of the call that equation `k` belongs to, with the output that each one is, in the
    /// order of the program; none when it is no call.
    pub fn members(&self, k: usize) -> &[(usize, usize)] {
        self.of.get(&k).map_or(&[], |&call| &self.members[call])
    }
}

impl Program {
    /// Which equations belong together.
    pub fn calls(&self) -> Calls {
        let mut calls = Calls::default();
        if !self.has_calls() {
            return calls;
        }
        let mut open: FastMap<(usize, &[Var]), usize> = FastMap::default();
        let mut same = SameLoops::default();
        for (k, eqn) in self.eqns.iter().enumerate() {
            let Some((mut callee, output)) = self.params(eqn).call() else {
                continue;
            };
            if let Params::Loop { of, .. } = self.params(eqn) {
                callee = Arc::as_ptr(&same.of(of)) as usize;
            }
            let members = &mut calls.members;
            let call = open.entry((callee, self.args(eqn))).or_insert(usize::MAX);
            let again = members
                .get(*call)
                .is_none_or(|m: &Vec<_>| m.iter().any(|&(_, o)| o == output));
            if again {
                *call = members.len();
                members.push(Vec::new());
            }
            members[*call].push((k, output));
            calls.of.insert(k, *call);
        }
        calls
    }

    /// Whether an equation is an output of a call.
    pub(crate) fn has_calls(&self) -> bool {
        self.params.iter().any(|p| p.call().is_some())
    }

    /// Whether it calls back when it runs. Such a program is not kept for later: it would keep what it
    /// calls alive, and nothing else is equal to it.
    pub fn has_host_calls(&self) -> bool {
        (self.params.iter()).any(|p| match p {
            Params::Host { .. } => true,
            Params::Custom { rule, .. } => !rule.host_calls().is_empty(),
            Params::Loop { of, .. } => of.body().has_host_calls(),
            _ => false,
        })
    }

    /// Whether all that it calls back when it runs is exact; so it is where it calls nothing back.
    pub fn calls_exactly(&self) -> bool {
        (self.params.iter()).all(|p| match p {
            Params::Host { call, .. } => call.is_exact(),
            Params::Custom { rule, .. } => rule.host_calls().is_empty(),
            Params::Loop { of, .. } => !of.body().has_host_calls(),
            _ => true,
        })
    }

    /// Exchanges each function that is called back for another, and makes other calls out of those of
    /// rules: for one application of a program, which is not another one.
    pub(crate) fn renew_calls(&mut self, mut new: impl FnMut(&Arc<dyn Host>) -> Arc<dyn Host>) {
        let mut hosts: FastMap<usize, Arc<dyn Host>> = FastMap::default();
        let mut rules: FastMap<usize, Arc<dyn Custom>> = FastMap::default();
        for params in &mut self.params {
            let Some((key, _)) = params.call() else {
                continue;
            };
            match params {
                Params::Host { call, .. } => {
                    *call = Arc::clone(hosts.entry(key).or_insert_with(|| new(call)));
                }
                Params::Custom { rule, .. } => {
                    *rule = Arc::clone(rules.entry(key).or_insert_with(|| rule.again()));
                }
                _ => {}
            }
        }
    }

    /// The names of what it calls back when it runs; such a program cannot leave this process.
    pub fn host_calls(&self) -> Vec<String> {
        let mut names = Vec::new();
        for params in &self.params {
            let found = match params {
                Params::Custom { rule, .. } => rule.host_calls(),
                Params::Host { call, .. } => vec![call.name().to_string()],
                Params::Loop { of, .. } => of.body().host_calls(),
                _ => continue,
            };
            for name in found {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }
}

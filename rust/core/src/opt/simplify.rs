//! Common subexpressions, folding and rewriting in one walk: each equation that is needed is written
//! again, unless it turns out to be something that is there already.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use super::rewrite::{Rewritten, rewrite};
use crate::error::Result;
use crate::interrupt::{Steps, room_for};
use crate::ops;
use crate::prim::{Params, Prim, Var};
use crate::program::{Builder, Program};
use crate::util::FastHasher;

/// Which passes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passes {
    /// Equal equations are computed once.
    pub cse: bool,
    /// Equations that are equal to a simpler one, in the last bit, become it.
    pub rewrite: bool,
    /// Equations that no output needs are dropped.
    pub dce: bool,
}

impl Passes {
    /// All of them.
    pub const ALL: Passes = Passes {
        cse: true,
        rewrite: true,
        dce: true,
    };

    /// One of them, by its name.
    pub fn by_name(name: &str) -> Option<Passes> {
        let passes = Passes {
            cse: name == "cse",
            rewrite: name == "rewrite",
            dce: name == "dce",
        };
        Passes::NAMES.contains(&name).then_some(passes)
    }

    /// Their names.
    pub const NAMES: [&str; 3] = ["rewrite", "cse", "dce"];
}

/// Runs passes over a program.
pub fn optimize(program: &Program, passes: Passes) -> Result<Program> {
    rewritten(program, passes, true)
}

/// Takes the barriers away, and runs all passes: what they kept apart is put together.
pub fn without_barriers(program: &Program) -> Result<Program> {
    rewritten(program, Passes::ALL, false)
}

fn rewritten(program: &Program, passes: Passes, barriers: bool) -> Result<Program> {
    room_for(program.eqns.len())?;
    let needed = if passes.dce {
        program.needed(&vec![true; program.outs.len()])
    } else {
        vec![true; program.num_vars()]
    };
    let builder = Builder::alike(program, program.eqns.len());
    let mut map: Vec<Var> = vec![Var::MAX; program.num_vars()];
    for (i, name) in program.inputs.iter().enumerate() {
        map[i] = builder.input(name, program.aval(i as Var));
    }
    let mut seen = Seen::new(if passes.cse { program.eqns.len() } else { 0 });
    let mut args: SmallVec<[Var; 4]> = SmallVec::new();
    let mut steps = Steps::default();
    for (k, eqn) in program.eqns.iter().enumerate() {
        steps.count()?;
        let var = program.result(k);
        if !needed[var as usize] {
            continue;
        }
        builder.at(program.site(k));
        let (mut prim, mut params) = (eqn.prim, program.params(eqn).clone());
        args.clear();
        for &a in program.args(eqn) {
            args.push(map[a as usize]);
        }
        if let Params::Literal { dtype, value } = params {
            map[var as usize] = builder.complex_literal(dtype, value);
            continue;
        }
        if prim == ops::BARRIER && !barriers {
            map[var as usize] = args[0];
            continue;
        }
        let number = program.var_avals[var as usize];
        let aval = &program.avals[number as usize];
        let mut result = None;
        if passes.rewrite {
            // A rewritten equation may be rewritten again; each step makes it smaller.
            while let Some(new) = builder.with(|p| rewrite(p, prim, &params, &args, aval)) {
                match new {
                    Rewritten::Var(v) => {
                        result = Some(v);
                        break;
                    }
                    Rewritten::Eqn(p, q, a) => (prim, params, args) = (p, q, a),
                }
            }
        }
        map[var as usize] = match result {
            Some(v) => v,
            None if passes.cse && params.may_be_shared() => {
                seen.find(&builder, prim, &params, &args, |args| {
                    builder.push_numbered(prim, params.clone(), args, number)
                })
            }
            None => builder.push_numbered(prim, params, &args, number),
        };
    }
    let outs: Vec<Var> = program.outs.iter().map(|&v| map[v as usize]).collect();
    let mut new = builder.finish(outs)?;
    new = if passes.dce && passes.rewrite {
        new.pruned()
    } else {
        new.compacted()
    };
    new.outputs.clone_from(&program.outputs);
    new.debug_verify();
    Ok(new)
}

/// The equations written so far, by hash, with open addressing. An entry is some bits of the hash and the
/// variable plus one, so that the table of a huge program is as small as can be.
///
/// An equation lies near the place of its latest argument: most are followed by what reads them, so that
/// the table is gone through in order. What finds no room there, because an argument is read often, lies
/// wherever its hash says.
struct Seen {
    table: Vec<(u32, Var)>,
}

/// So many entries lie near an argument.
const NEAR: usize = 8;

impl Seen {
    /// A table for at most this many equations; at most half of it is ever taken.
    fn new(count: usize) -> Seen {
        let size = (2 * count).next_power_of_two().max(16);
        Seen {
            table: vec![(0, 0); size],
        }
    }

    /// The variable of an equal equation, or of a new one.
    fn find(
        &mut self,
        builder: &Builder,
        prim: Prim,
        params: &Params,
        args: &[Var],
        new: impl FnOnce(&[Var]) -> Var,
    ) -> Var {
        let mut hasher = FastHasher::default();
        prim.hash(&mut hasher);
        params.hash(&mut hasher);
        args.hash(&mut hasher);
        let hash = hasher.finish();
        let tag = (hash >> 32) as u32;
        let home = 2 * args.iter().max().map_or(0, |&v| v as usize);
        let near = home..home + NEAR;
        // In growing steps, which go through the whole table: what lies near others has no gaps.
        let far = (0..).scan((hash >> 16) as usize, |at, step: usize| {
            *at = at.wrapping_add(step);
            Some(*at)
        });
        // No entry is ever taken away: where there is room, nothing equal lies further on.
        for at in near.chain(far) {
            let at = at & (self.table.len() - 1);
            let (found, var) = self.table[at];
            if var == 0 {
                let var = new(args);
                self.table[at] = (tag, var + 1);
                return var;
            }
            let equal = |p: &Program| {
                p.definition(var - 1)
                    .is_some_and(|e| e.prim == prim && p.args(e) == args && p.params(e) == params)
            };
            if found == tag && builder.with(equal) {
                return var - 1;
            }
        }
        unreachable!("half of the table is free")
    }
}

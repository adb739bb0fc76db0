//! Which values to keep between two halves of a program, and which to make again.

use super::min_cut::{NEVER, Network};
use crate::prim::{Cost, Var};
use crate::program::Program;

/// What keeping a result costs in units of what a cheap equation costs: it is written and read again, and
/// memory is slower by this than an instruction of a fused group.
const KEEP: u64 = 8;

/// What is in memory anyway (inputs, outputs) need not be written.
const KEEP_THERE: u64 = KEEP / 2;

/// What a variable without elements costs, in bytes.
const LEAST: u64 = 64;

/// Larger networks are divided, so that the time grows with the program only. What lies between two parts
/// is had by the later one at no cost.
const MANY: usize = 1024;

/// Which variables to keep so that all of `reads` can be had again, at the least cost in bytes that are kept
/// and equations that are computed twice, or too early: for nobody but those who keep their results, while
/// `computed` says which are computed anyway. Sorted.
///
/// A variable is two nodes. Cut between them it is kept; cut between the source and them it is made again,
/// and then what it is made of has to be on the sink's side too.
pub(super) fn choose(program: &Program, reads: &[Var], computed: &[bool]) -> Vec<Var> {
    let region = Region::new(program, reads, computed);
    let mut kept: Vec<Var> = Vec::new();
    for part in region.vars.chunks(MANY) {
        region.keep(part, &mut kept);
    }
    kept
}

/// What can take part: all that is read, and what it could be made of.
struct Region<'p> {
    program: &'p Program,
    /// Sorted.
    vars: Vec<Var>,
    /// For each variable of the program whether it has to be there whatever else is: it is read, or an earlier
    /// part makes it for a later one.
    needed: Vec<bool>,
    /// Whether it is an output of the program.
    is_out: Vec<bool>,
    /// What has to be computed only to keep it: nothing of what is computed anyway.
    early: Vec<u64>,
}

/// Whether a variable is the result of an equation that may be computed twice.
fn can_be_made(program: &Program, var: Var) -> bool {
    (program.definition(var)).is_some_and(|eqn| eqn.prim.0.cost <= Cost::Cheap)
}

impl<'p> Region<'p> {
    fn new(program: &'p Program, reads: &[Var], computed: &[bool]) -> Region<'p> {
        let mut needed = vec![false; program.num_vars()];
        let mut is_out = vec![false; program.num_vars()];
        for &out in program.outs() {
            is_out[out as usize] = true;
        }
        let mut seen = vec![false; program.num_vars()];
        let mut vars = Vec::new();
        let mut work = reads.to_vec();
        for &read in reads {
            needed[read as usize] = true;
        }
        while let Some(var) = work.pop() {
            if std::mem::replace(&mut seen[var as usize], true) {
                continue;
            }
            vars.push(var);
            if let Some(eqn) = program.definition(var)
                && can_be_made(program, var)
            {
                work.extend(program.args(eqn));
            }
        }
        vars.sort_unstable();
        let mut region = Region {
            program,
            vars,
            needed,
            is_out,
            early: vec![0; program.num_vars()],
        };
        region.divide();
        region.count_early(computed);
        region
    }

    /// What later parts read of earlier ones has to be there.
    fn divide(&mut self) {
        for part in self.vars.chunks(MANY).skip(1) {
            for &var in part {
                for &arg in self.sources(var) {
                    if arg < part[0] {
                        self.needed[arg as usize] = true;
                    }
                }
            }
        }
    }

    /// What several results are made of counts for each of them: that is on the safe side.
    fn count_early(&mut self, computed: &[bool]) {
        for i in 0..self.vars.len() {
            let var = self.vars[i];
            if computed[var as usize] || !can_be_made(self.program, var) {
                continue;
            }
            let sources = self.sources(var).iter().map(|&v| self.early[v as usize]);
            let all = sources.fold(self.cost_of_making(var), u64::saturating_add);
            self.early[var as usize] = all.min(KEEP * self.size(var));
        }
    }

    /// What a variable would be made of.
    fn sources(&self, var: Var) -> &'p [Var] {
        match self.program.definition(var) {
            Some(eqn) if can_be_made(self.program, var) => self.program.args(eqn),
            _ => &[],
        }
    }

    fn keep(&self, part: &[Var], kept: &mut Vec<Var>) {
        // What is needed and cannot be made is kept, and then there for the others.
        let given = |var: Var| self.needed[var as usize] && !can_be_made(self.program, var);
        let (source, sink) = (2 * part.len(), 2 * part.len() + 1);
        let mut network = Network::new(2 * part.len() + 2);
        for (i, &var) in part.iter().enumerate() {
            if given(var) {
                continue;
            }
            let (made, there) = (2 * i, 2 * i + 1);
            network.edge(source, made, self.cost_of_making(var));
            network.edge(made, there, self.cost_of_keeping(var));
            if self.needed[var as usize] {
                network.edge(there, sink, NEVER);
            }
            for &arg in self.sources(var) {
                if let Ok(j) = part.binary_search(&arg)
                    && !given(arg)
                {
                    network.edge(2 * j + 1, made, NEVER);
                }
            }
        }
        let early = network.cut(source, sink);
        kept.extend(part.iter().enumerate().filter_map(|(i, &var)| {
            let is_cut = early[2 * i] && !early[2 * i + 1];
            (given(var) || is_cut).then_some(var)
        }));
    }

    /// What it costs to write or read a variable.
    fn size(&self, var: Var) -> u64 {
        let size = self.program.aval(var).nbytes() as u64 + LEAST;
        // No sum of them reaches what is never cut.
        size.min(NEVER / (KEEP * 4 * MANY as u64))
    }

    fn cost_of_making(&self, var: Var) -> u64 {
        match self.program.definition(var).map(|eqn| eqn.prim.0.cost) {
            Some(Cost::Free) => 0,
            Some(Cost::Cheap) => self.size(var),
            _ => NEVER,
        }
    }

    fn cost_of_keeping(&self, var: Var) -> u64 {
        let is_there = self.is_out[var as usize] || self.program.definition(var).is_none();
        let factor = if is_there { KEEP_THERE } else { KEEP };
        factor * self.size(var) + self.early[var as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::testing::random::Random;

    /// What a choice costs, or `None` if something that is read cannot be had.
    fn cost(region: &Region<'_>, reads: &[Var], kept: u32) -> Option<u64> {
        let program = region.program;
        let is_kept = |v: Var| kept >> v & 1 == 1;
        let mut seen = vec![false; program.num_vars()];
        let mut work = reads.to_vec();
        let mut sum = 0;
        while let Some(v) = work.pop() {
            if std::mem::replace(&mut seen[v as usize], true) {
                continue;
            }
            if is_kept(v) {
                sum += region.cost_of_keeping(v);
                continue;
            }
            let eqn = program.definition(v).filter(|_| can_be_made(program, v))?;
            sum += region.cost_of_making(v);
            work.extend(program.args(eqn));
        }
        Some(sum)
    }

    /// Against every choice, in random programs.
    #[test]
    fn no_choice_costs_less() {
        let mut random = Random::new(7);
        let mut random = |below: usize| random.below(below);
        for _ in 0..200 {
            let sizes = ["4", "1000"];
            let size = sizes[random(2)];
            let mut text = format!("program(%0: f64[{size}], %1: f64[{size}]) {{\n");
            for v in 2..10 {
                let (a, b) = (random(v), random(v));
                let aval = format!("f64[{size}]");
                match random(5) {
                    0 => writeln!(text, "  %{v}: {aval} = exp(%{a})"),
                    1 => writeln!(text, "  %{v}: {aval} = reshape[shape=({size},)](%{a})"),
                    _ => writeln!(text, "  %{v}: {aval} = mul(%{a}, %{b})"),
                }
                .unwrap();
            }
            writeln!(text, "  return %{}\n}}", 2 + random(8)).unwrap();
            let program = Program::parse(&text).unwrap();
            let mut reads: Vec<Var> = (0..4).map(|_| random(10) as Var).collect();
            reads.sort_unstable();
            reads.dedup();
            let computed = program.needed(&[true]);
            let kept = choose(&program, &reads, &computed);
            let set = kept.iter().fold(0, |set, v| set | 1u32 << v);
            let region = Region::new(&program, &reads, &computed);
            let least = (0..1u32 << 10)
                .filter_map(|set| cost(&region, &reads, set))
                .min();
            assert_eq!(
                cost(&region, &reads, set),
                least,
                "{kept:?} for {reads:?} in\n{program}"
            );
        }
    }
}

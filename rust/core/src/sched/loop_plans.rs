//! Plans of programs in pieces, of which those that are alike share one plan.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::loop_detection::Piece;
use super::matrix_passes::MatrixPass;
use super::plan::{Plan, Slot, Step, Work, cost_of, counts, note_deaths};
use crate::error::Result;
use crate::interrupt::Steps;
use crate::ops;
use crate::prim::{Params, Var};
use crate::program::{Eqn, Program};
use crate::util::FastMap;

impl Plan {
    /// Plans the pieces of a program.
    pub(super) fn of_pieces(program: &Program, pieces: &[Piece]) -> Result<Plan> {
        let inputs = program.num_inputs();
        let mut cutter = Cutter::new(program, pieces);
        let crossing = cutter.crossing(pieces);
        // Where a variable lies that is read outside of its piece.
        let mut slots: Vec<Slot> = vec![Slot::MAX; program.num_vars()];
        for (i, slot) in slots[..inputs].iter_mut().enumerate() {
            *slot = i as Slot;
        }
        let mut num_slots = inputs;
        let mut known: FastMap<u64, Vec<(Program, Arc<Plan>)>> = FastMap::default();
        let mut steps: Vec<Step> = Vec::with_capacity(pieces.len());
        let mut weight = 16;
        let mut progress = Steps::default();
        for piece in pieces {
            for _ in &piece.eqns {
                progress.count()?;
            }
            let outs = piece.eqns.iter().map(|&k| program.result(k));
            let outs: Vec<Var> = outs.filter(|&v| crossing[v as usize]).collect();
            if outs.is_empty() {
                continue;
            }
            let first = &program.eqns()[piece.eqns[0]];
            let (read, work, origins, cost) = if let Some(pass) = &piece.pass {
                let strips = pass.planned(program, &outs, Plan::as_a_whole)?;
                weight += 3 * strips.main.weight;
                let cost = strips.cost();
                let work = Work::Strips(Box::new(strips));
                (pass.inputs().collect(), work, pass.origins(program), cost)
            } else {
                let (part, read) = cutter.cut(&piece.eqns, &outs);
                let alike = known.entry(part.structural_hash()).or_default();
                let is_it = |p: &Program| p.same_structure(&part) && p.sites() == part.sites();
                let found = alike.iter().find(|(p, _)| is_it(p));
                let plan = if let Some((_, plan)) = found {
                    Arc::clone(plan)
                } else {
                    let plan = Plan::as_a_whole(&part)?;
                    let plan = Arc::new(plan.with_source(&part));
                    weight += plan.weight;
                    alike.push((part, Arc::clone(&plan)));
                    plan
                };
                let cost = plan.cost;
                (read, Work::Part(plan), Box::default(), cost)
            };
            weight += (read.len() + outs.len()) / 8;
            let outputs = outs.iter().map(|&v| {
                slots[v as usize] = num_slots as Slot;
                num_slots += 1;
                (slots[v as usize], program.aval(v).clone())
            });
            let outputs: SmallVec<[_; 2]> = outputs.collect();
            let inputs = read.iter().map(|&v| slots[v as usize]).collect();
            steps.push(Step::new(work, first.prim, origins, inputs, outputs, cost));
        }
        let outs: Vec<Slot> = program.outs().iter().map(|&v| slots[v as usize]).collect();
        note_deaths(&mut steps, num_slots, &outs, &[]);
        Ok(Plan {
            calls_back: false,
            cost: cost_of(&steps),
            steps,
            num_slots,
            constants: Vec::new(),
            outs,
            counts: counts(program),
            weight,
            source: None,
            for_devices: OnceLock::new(),
        })
    }
}

/// The pieces of a program with passes over matrices: these, and what comes before, between and after them; `None` where
/// there are no passes.
pub(super) fn around(program: &Program, mut passes: Vec<MatrixPass>) -> Option<Vec<Piece>> {
    let mut places = Err(usize::MAX);
    while let Err(number) = places {
        // One that waits for a later one is computed as it is written.
        if number < passes.len() {
            passes.remove(number);
        }
        if passes.is_empty() {
            return None;
        }
        places = places_of(program, &passes);
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for pass in passes {
        pieces.push(Piece::once(Vec::new()));
        pieces.push(Piece {
            pass: Some(pass),
            ..Piece::once(Vec::new())
        });
    }
    pieces.push(Piece::once(Vec::new()));
    for (k, place) in places.into_iter().flatten().enumerate() {
        if let Some(place) = place {
            pieces[place].eqns.push(k);
        }
    }
    pieces.retain(|piece| !piece.eqns.is_empty());
    Some(pieces)
}

/// The number of its piece for each equation.
type Places = Vec<Option<usize>>;

/// In which piece each equation is: passes have the odd numbers, everything else is as late as what reads it. `None` for
/// what nobody reads then. The error is the number of a pass that would wait for a later one.
fn places_of(program: &Program, passes: &[MatrixPass]) -> std::result::Result<Places, usize> {
    let count = program.eqns().len();
    let mut of_pass: Vec<Option<usize>> = vec![None; count];
    for (i, pass) in passes.iter().enumerate() {
        pass.eqns.iter().for_each(|&k| of_pass[k] = Some(i));
    }
    let made = |var: Var| (var as usize).checked_sub(program.num_inputs());
    let args = |k: usize| program.args(&program.eqns()[k]).iter();
    let mut earliest = vec![0; count];
    for k in 0..count {
        let after = |j: usize| {
            let leaves = of_pass[j].is_some() && of_pass[j] != of_pass[k];
            earliest[j] + usize::from(leaves)
        };
        let first = args(k).filter_map(|&arg| made(arg)).map(after).max();
        earliest[k] = match of_pass[k] {
            Some(i) if first.is_some_and(|first| first > 2 * i + 1) => return Err(i),
            Some(i) => 2 * i + 1,
            None => first.unwrap_or(0),
        };
    }
    let mut places: Vec<Option<usize>> = vec![None; count];
    for k in program.outs().iter().filter_map(|&out| made(out)) {
        places[k] = Some(earliest[k]);
    }
    for k in (0..count).rev() {
        if let Some(i) = of_pass[k] {
            places[k] = Some(2 * i + 1);
        }
        let Some(place) = places[k] else {
            continue;
        };
        for j in args(k).filter_map(|&arg| made(arg)) {
            let is_spared = of_pass[k].is_some_and(|i| passes[i].transposes(program, j));
            if is_spared || of_pass[j].is_some() {
                continue;
            }
            // What a pass reads is there before.
            let before = place - usize::from(of_pass[k].is_some());
            places[j] = Some(places[j].map_or(before, |other| other.min(before)));
        }
    }
    Ok(places)
}

/// Cuts pieces out of a program, each in time that does not grow with the program.
struct Cutter<'p> {
    program: &'p Program,
    /// For every variable whether it is a literal that is made wherever it is read.
    everywhere: Vec<bool>,
    /// What stands for a variable in the piece of this number.
    vars: Vec<(u32, Var)>,
    /// The same for avals.
    avals: Vec<(u32, u32)>,
    piece: u32,
}

impl<'p> Cutter<'p> {
    fn new(program: &'p Program, pieces: &[Piece]) -> Cutter<'p> {
        let mut everywhere = vec![false; program.num_vars()];
        // One that varies would make bodies differ.
        for &k in pieces.iter().filter(|p| !p.varies).flat_map(|p| &p.eqns) {
            everywhere[program.result(k) as usize] = program.eqns()[k].prim == ops::LITERAL;
        }
        Cutter {
            program,
            everywhere,
            vars: vec![(0, 0); program.num_vars()],
            avals: vec![(0, 0); program.avals.len()],
            piece: 0,
        }
    }

    /// For every variable whether it is read outside of its piece.
    fn crossing(&self, pieces: &[Piece]) -> Vec<bool> {
        let program = self.program;
        let mut crossing = vec![false; program.num_vars()];
        let mut piece_of = vec![u32::MAX; program.num_vars()];
        for (i, piece) in pieces.iter().enumerate() {
            for &k in &piece.eqns {
                piece_of[program.result(k) as usize] = i as u32;
            }
        }
        for (k, eqn) in program.eqns().iter().enumerate() {
            let own = piece_of[program.result(k) as usize];
            for &arg in program.args(eqn) {
                let there = piece_of[arg as usize] == own || self.everywhere[arg as usize];
                crossing[arg as usize] |= !there;
            }
        }
        for &out in program.outs() {
            crossing[out as usize] = true;
        }
        crossing
    }

    /// A piece as a program, and the variables that are its inputs.
    fn cut(&mut self, piece: &[usize], outs: &[Var]) -> (Program, Vec<Var>) {
        let program = self.program;
        self.piece += 1;
        let mut new = Program::new();
        for &k in piece {
            self.vars[program.result(k) as usize] = (self.piece, Var::MAX);
        }
        let mut literals: Vec<Var> = Vec::new();
        let mut read: Vec<Var> = Vec::new();
        for &k in piece {
            for &arg in program.args(&program.eqns()[k]) {
                if self.vars[arg as usize].0 != self.piece {
                    self.vars[arg as usize] = (self.piece, Var::MAX);
                    let list = if self.everywhere[arg as usize] {
                        &mut literals
                    } else {
                        &mut read
                    };
                    list.push(arg);
                }
            }
        }
        for &var in &read {
            new.inputs.push("".into());
            self.define(&mut new, var);
        }
        let first = program.num_inputs();
        let literals = literals.into_iter().map(|v| v as usize - first);
        for k in literals.chain(piece.iter().copied()) {
            let eqn = &program.eqns()[k];
            let args = (eqn.args).mapped(&program.args, &mut new.args, |a| self.vars[a as usize].1);
            let params = match program.params(eqn) {
                Params::None => 0,
                params => {
                    new.params.push(params.clone());
                    new.params.len() as u32 - 1
                }
            };
            new.set_site(new.eqns.len(), program.site(k));
            new.eqns.push(Eqn {
                prim: eqn.prim,
                params,
                args,
            });
            self.define(&mut new, program.result(k));
        }
        new.outs = outs.iter().map(|&v| self.vars[v as usize].1).collect();
        new.set_output_names([]);
        new.debug_verify();
        (new, read)
    }

    /// Gives a variable the next number.
    fn define(&mut self, new: &mut Program, var: Var) {
        self.vars[var as usize].1 = new.var_avals.len() as Var;
        let own = self.program.var_avals[var as usize] as usize;
        if self.avals[own].0 != self.piece {
            self.avals[own] = (self.piece, new.avals.len() as u32);
            new.avals.push(self.program.avals[own].clone());
        }
        new.var_avals.push(self.avals[own].1);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::kernels::Value;
    use crate::sched::loop_detection::pieces;
    use crate::util::MAX_KEPT;

    /// A loop of so many turns as it is recorded: products, elements read by number, elements added to by
    /// number, numbers that vary, the last result but one.
    fn program(turns: usize) -> Program {
        let mut text = format!("program(%0: f64[3,3], %1: f64[{turns},3], %2: f64[3]) {{\n");
        let mut next = 3;
        let mut line = |aval: &str, rest: &str| {
            writeln!(text, "  %{next}: f64[{aval}] = {rest}").unwrap();
            next += 1;
            next - 1
        };
        let scale = line("", "literal[dtype=f64, value=0.3]()");
        let mut sums = line(
            &format!("{turns},3"),
            &format!("broadcast[shape=({turns}, 3)](%{scale})"),
        );
        let (mut h, mut before) = (2, 2);
        for t in 0..turns {
            let at = format!("start=({t}, 0), len=(1, 3), step=(1, 1)");
            let column = line("3,1", &format!("reshape[shape=(3, 1)](%{h})"));
            let product = line("3,1", &format!("matmul(%0, %{column})"));
            let flat = line("3", &format!("reshape[shape=(3,)](%{product})"));
            let row = line("1,3", &format!("slice[{at}](%1)"));
            let row = line("3", &format!("reshape[shape=(3,)](%{row})"));
            let number = line("", &format!("literal[dtype=f64, value=0.{t}1]()"));
            let forced = line("3", &format!("mul(%{row}, %{number})"));
            let sum = line("3", &format!("add(%{flat}, %{forced})"));
            let old = line("3", &format!("mul(%{before}, %{scale})"));
            let sum = line("3", &format!("add(%{sum}, %{old})"));
            (before, h) = (h, line("3", &format!("tanh(%{sum})")));
            let row = line("1,3", &format!("reshape[shape=(1, 3)](%{h})"));
            sums = line(
                &format!("{turns},3"),
                &format!("update_add[{at}](%{sums}, %{row})"),
            );
        }
        writeln!(text, "  return %{h}, %{sums}, %{}\n}}", sums - 30).unwrap();
        Program::parse(&text).unwrap()
    }

    fn distinct_plans(plan: &Plan) -> usize {
        let mut plans: Vec<*const Plan> = (plan.steps.iter())
            .filter_map(|step| match &step.work {
                Work::Part(part) => Some(Arc::as_ptr(part)),
                _ => None,
            })
            .collect();
        plans.sort_unstable();
        plans.dedup();
        plans.len()
    }

    /// A loop of nothing but elementwise operations, and the sum of one of its values in ten.
    fn passes(turns: usize, len: usize) -> Program {
        let mut text = format!("program(%0: f64[{len}], %1: f64[]) {{\n");
        let mut next = 2;
        let mut line = |rest: &str| {
            writeln!(text, "  %{next}: f64[{len}] = {rest}").unwrap();
            next += 1;
            next - 1
        };
        let (mut h, mut sum) = (0, 0);
        for t in 0..turns {
            let one = line(&format!("mul(%{h}, %1)"));
            let two = line(&format!("sin(%{one})"));
            let three = line(&format!("mul(%{two}, %{h})"));
            h = line(&format!("sub(%{one}, %{three})"));
            if t % 10 == 0 {
                sum = line(&format!("add(%{sum}, %{h})"));
            }
        }
        writeln!(text, "  return %{h}, %{sum}\n}}").unwrap();
        Program::parse(&text).unwrap()
    }

    /// The plan in pieces, which gives what the plan of the whole gives.
    fn checked(program: &Program) -> Plan {
        program.verify().unwrap();
        let plan = Plan::of_pieces(program, &pieces(program).unwrap().unwrap()).unwrap();
        let whole = Plan::as_a_whole(program).unwrap();
        assert_eq!(plan.counts(), whole.counts());
        let inputs = (0..program.num_inputs() as Var).map(|i| {
            let numbers = (0..program.aval(i).size()).map(|k| (k as f64 + 1.0).sin());
            let numbers: Vec<f64> = numbers.collect();
            Value::from_slice(&program.aval(i).shape, &numbers).unwrap()
        });
        let inputs: Vec<Value> = inputs.collect();
        let run = |plan: &Plan| super::super::run(plan, inputs.clone(), &mut || false).unwrap();
        for (a, b) in run(&plan).iter().zip(&run(&whole)) {
            assert_eq!(a.aval(), b.aval());
            assert_eq!(a.as_slice::<f64>().unwrap(), b.as_slice::<f64>().unwrap());
        }
        plan
    }

    #[test]
    fn bodies_share_a_plan_and_give_the_same_bits() {
        for turns in [200, 1000] {
            let plan = checked(&program(turns));
            assert!(plan.steps.len() > turns / 30, "{}", plan.steps.len());
            assert!(distinct_plans(&plan) <= 6, "{}", distinct_plans(&plan));
        }
    }

    #[test]
    fn so_do_bodies_of_passes_where_a_plan_of_the_whole_would_not_be_kept() {
        let turns = MAX_KEPT / 4;
        let plan = checked(&passes(turns, 3));
        assert!(plan.steps.len() > 100, "{}", plan.steps.len());
        assert!(distinct_plans(&plan) <= 4, "{}", distinct_plans(&plan));
        assert!(plan.weight < MAX_KEPT / 10, "{}", plan.weight);
        // A tile of long arrays is all that a single pass needs; and what is kept is run as a whole.
        assert!(pieces(&passes(turns, 65)).unwrap().is_none());
        assert!(pieces(&passes(turns / 2, 3)).unwrap().is_none());
    }

    #[test]
    fn what_repeats_nothing_is_planned_as_a_whole() {
        let short = program(20);
        assert!(pieces(&short).unwrap().is_none());
        let mut text = String::from("program(%0: f64[2,2]) {\n");
        for k in 1..3000u64 {
            // Now and then another operation, by no rule.
            let other = k.wrapping_mul(k).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
            let operation = ["matmul", "add", "mul", "sub"][(other % 4) as usize];
            writeln!(text, "  %{k}: f64[2,2] = {operation}(%{}, %0)", k - 1).unwrap();
        }
        text.push_str("  return %2999\n}\n");
        assert!(pieces(&Program::parse(&text).unwrap()).unwrap().is_none());
    }
}

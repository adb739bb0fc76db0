//! From a program to the steps of its run: an order of groups, products with what reads them, and single equations.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::fuse::{Fusion, Place, fuse};
use super::group_code::GroupCodes;
use super::matmul_epilogue::{self, Found};
use super::plan::{Plan, Slot, Step, Work, add_loops, cost_of, counts, note_deaths};
use super::profile::Origin;
use super::reversal::Reversals;
use crate::error::Result;
use crate::interrupt::{Steps, room_for};
use crate::kernels::{Ctx, FusedBuilder, Recipe, Value};
use crate::ops;
use crate::prim::{Cost, Kernel, Params, Var};
use crate::program::{Calls, Program};

impl Plan {
    /// Plans a program whose equations are primitives, without looking for parts that repeat.
    pub(super) fn as_a_whole(program: &Program) -> Result<Plan> {
        room_for(program.eqns().len())?;
        let fusion = fuse(program, true);
        let mut planner = Planner::new(program, &fusion);
        planner.literals()?;
        planner.steps()?;
        Ok(planner.finish())
    }

    /// The same without what only processors have: tiles of rows, and products in strips. For each step the recipe, if
    /// it is a group.
    pub(super) fn with_recipes(program: &Program) -> Result<(Plan, Vec<Option<Recipe>>)> {
        room_for(program.eqns().len())?;
        let fusion = fuse(program, false);
        let mut planner = Planner::new(program, &fusion);
        let mut recipes = Vec::new();
        planner.recipes = Some(Vec::new());
        planner.literals()?;
        planner.steps()?;
        for (step, recipe) in planner.recipes.take().into_iter().flatten() {
            recipes.resize(step, None);
            recipes.push(Some(recipe));
        }
        recipes.resize(planner.steps.len(), None);
        Ok((planner.finish(), recipes))
    }
}

struct Planner<'p> {
    program: &'p Program,
    fusion: &'p Fusion<'p>,
    slots: Vec<Slot>,
    next: Slot,
    steps: Vec<Step>,
    constants: Vec<(Slot, Value)>,
    progress: Steps,
    codes: GroupCodes<'p>,
    calls: Calls,
    reversals: Reversals,
    /// Recipes of groups and the steps that they belong to, where they are asked for.
    recipes: Option<Vec<(usize, Recipe)>>,
}

const NO_SLOT: Slot = Slot::MAX;

impl<'p> Planner<'p> {
    fn new(program: &'p Program, fusion: &'p Fusion<'p>) -> Planner<'p> {
        let inputs = program.num_inputs();
        let mut slots = vec![NO_SLOT; program.num_vars()];
        for (i, slot) in slots[..inputs].iter_mut().enumerate() {
            *slot = i as Slot;
        }
        let calls = program.calls();
        Planner {
            program,
            fusion,
            slots,
            next: inputs as Slot,
            steps: Vec::new(),
            constants: Vec::new(),
            progress: Steps::default(),
            codes: GroupCodes::new(program, fusion),
            reversals: Reversals::find(program, &calls),
            calls,
            recipes: None,
        }
    }

    fn slot(&mut self, var: Var) -> Slot {
        let slot = &mut self.slots[var as usize];
        if *slot == NO_SLOT {
            *slot = self.next;
            self.next += 1;
        }
        *slot
    }

    /// Literals are buffers that are there from the start.
    fn literals(&mut self) -> Result<()> {
        let cancel = std::sync::atomic::AtomicBool::new(false);
        let ctx = Ctx::new(&cancel, 1);
        for (k, place) in self.fusion.places.iter().enumerate() {
            if *place != Place::Literal {
                continue;
            }
            let eqn = &self.program.eqns()[k];
            let var = self.program.result(k);
            let Some(Kernel::Call(call)) = eqn.prim.kernel_ref() else {
                continue;
            };
            let value = call(
                self.program.params(eqn),
                &mut [],
                self.program.aval(var),
                &ctx,
            )?;
            let slot = self.slot(var);
            self.constants.push((slot, value));
        }
        Ok(())
    }

    /// All steps, level by level; inside a level in the order of the program.
    fn steps(&mut self) -> Result<()> {
        let read_outside = self.codes.read_outside().to_vec();
        let mut epilogues = if self.recipes.is_some() {
            Vec::new()
        } else {
            matmul_epilogue::find(self.program, self.fusion, &read_outside, Plan::as_a_whole)?
        };
        let mut behind = vec![false; self.program.eqns().len()];
        for found in epilogues.iter().flatten() {
            behind[found.product] = true;
        }
        // (level, position) of each step; a view comes before what else happens at its level.
        let mut order: Vec<(u32, u32, Item)> = Vec::new();
        for (k, place) in self.fusion.places.iter().enumerate() {
            match *place {
                Place::View(level) => {
                    // Groups read layouts of row values without them.
                    let out = self.program.result(k);
                    if self.fusion.rows.of(out).is_none() || read_outside[out as usize] {
                        order.push((level, k as u32, Item::Eqn(k)));
                    }
                }
                Place::Alone(_) if behind[k] => {}
                Place::Alone(level) => order.push((level, k as u32, Item::Eqn(k))),
                Place::Group(_) | Place::Literal => {}
            }
        }
        for (g, group) in self.fusion.groups.iter().enumerate() {
            let last = *group.eqns.last().expect("a group has an equation");
            order.push((group.level, last as u32, Item::Group(g)));
        }
        // Views of what a level has produced belong to the next level, in program order, because a
        // view of a view comes after it; groups and calls of one level are independent.
        order.sort_by_key(|(level, at, item)| {
            let view =
                matches!(item, Item::Eqn(k) if matches!(self.fusion.places[*k], Place::View(_)));
            (*level, !view, *at)
        });
        for (_, _, item) in order {
            match item {
                Item::Eqn(k) => {
                    self.progress.count()?;
                    self.single(k)?;
                }
                Item::Group(g) => match epilogues.get_mut(g).and_then(Option::take) {
                    Some(found) => self.matmul_epilogue(found, g),
                    None => self.group(g)?,
                },
            }
        }
        Ok(())
    }

    fn single(&mut self, k: usize) -> Result<()> {
        if self.program.eqns()[k].prim == ops::HOST {
            self.host(k);
            return Ok(());
        }
        if self.program.eqns()[k].prim == ops::LOOP {
            return self.looped(k);
        }
        let eqn = &self.program.eqns()[k];
        let out = self.program.result(k);
        let aval = self.program.aval(out).clone();
        let inputs = self
            .program
            .args(eqn)
            .iter()
            .map(|&a| self.slot(a))
            .collect();
        let work = if eqn.prim.is_view() {
            Work::View
        } else {
            Work::Call
        };
        let cost = match work {
            Work::Call => self.call_cost(k),
            _ => 0.0,
        };
        let outputs = SmallVec::from_iter([(self.slot(out), aval)]);
        self.steps.push(Step {
            params: self.program.params(eqn).clone(),
            ..Step::new(work, eqn.prim, self.origins(&[k]), inputs, outputs, cost)
        });
        Ok(())
    }

    /// All outputs of a loop at once.
    fn looped(&mut self, k: usize) -> Result<()> {
        let program = self.program;
        let members = self.reversals.computed(program, self.calls.members(k));
        if members.first().is_none_or(|&(first, _)| k != first) {
            return Ok(());
        }
        let eqn = &program.eqns()[k];
        let (looped, reads) = self.reversals.plan(program, &self.calls, &members)?;
        let inputs = reads.iter().map(|&var| self.slot(var)).collect();
        let outputs = members.iter().map(|&(k, _)| {
            let var = program.result(k);
            (self.slot(var), program.aval(var).clone())
        });
        let outputs = outputs.collect();
        let cost = looped.cost();
        // Profiles name the equations of the body.
        let origins = Box::default();
        let work = Work::Loop(Box::new(looped));
        self.steps
            .push(Step::new(work, eqn.prim, origins, inputs, outputs, cost));
        Ok(())
    }

    /// All outputs of a call at once.
    fn host(&mut self, k: usize) {
        let program = self.program;
        let members = self.calls.members(k);
        let (Params::Host { call, .. }, Some(&(first, _))) =
            (program.params(&program.eqns()[k]), members.first())
        else {
            return;
        };
        if k > first {
            return;
        }
        let members = members.to_vec();
        let eqn = &program.eqns()[k];
        let inputs = program.args(eqn).iter().map(|&a| self.slot(a)).collect();
        let outputs = members.iter().map(|&(k, _)| {
            let var = program.result(k);
            (self.slot(var), program.aval(var).clone())
        });
        let outputs = outputs.collect();
        let used = members.iter().map(|&(_, output)| output).collect();
        let work = Work::Host(Arc::clone(call), used);
        let origins = self.origins(&[k]);
        self.steps
            .push(Step::new(work, eqn.prim, origins, inputs, outputs, 0.0));
    }

    /// Equations that one step computes.
    fn origins(&self, eqns: &[usize]) -> Box<[Origin]> {
        let program = self.program;
        Origin::shares(eqns.iter().map(|&k| {
            let eqn = &program.eqns()[k];
            let cost = match eqn.prim.lane() {
                Some(lane) => lane.weight() * program.aval(program.result(k)).size() as f64,
                None => self.call_cost(k),
            };
            (eqn.prim, program.site(k), cost)
        }))
    }

    /// A rough guess: bytes at 10 GB/s, and 2 n^3 operations of a product at 50 GFLOP/s.
    fn call_cost(&self, k: usize) -> f64 {
        let eqn = &self.program.eqns()[k];
        let out = self.program.aval(self.program.result(k));
        let bytes: usize = self
            .program
            .args(eqn)
            .iter()
            .map(|&a| self.program.aval(a).nbytes())
            .sum();
        let mut cost = (bytes + out.nbytes()) as f64 * 0.1;
        if eqn.prim.0.cost == Cost::Heavy
            && let Some(inner) = self
                .program
                .args(eqn)
                .first()
                .and_then(|&a| self.program.aval(a).shape.last())
        {
            cost += 2.0 * out.size() as f64 * *inner as f64 / 50.0;
        }
        cost
    }

    /// A group together with the product that it reads.
    fn matmul_epilogue(&mut self, found: Found, g: usize) {
        let program = self.program;
        let inputs = found.inputs.iter().map(|&v| self.slot(v)).collect();
        let outputs = (found.outputs.iter()).map(|&v| (self.slot(v), program.aval(v).clone()));
        let outputs = outputs.collect();
        let cost = found.strips.cost();
        let work = Work::Strips(Box::new(found.strips));
        let eqns = [&[found.product][..], &self.fusion.groups[g].eqns].concat();
        let origins = self.origins(&eqns);
        self.steps
            .push(Step::new(work, ops::MATMUL, origins, inputs, outputs, cost));
    }

    /// One fused kernel for a group.
    fn group(&mut self, g: usize) -> Result<()> {
        let (program, group) = (self.program, &self.fusion.groups[g]);
        let progress = &mut self.progress;
        let code = self.codes.write(g, &mut || progress.count())?;
        if !code.outputs.is_empty() {
            if let Some(recipes) = &mut self.recipes
                && let Some(recipe) = code.fused.recipe()
            {
                recipes.push((self.steps.len(), recipe));
            }
            let fused = code.fused.finish();
            let cost = fused.cost();
            let first = self.program.eqns()[group.eqns[0]].prim;
            let in_place =
                code.outputs.len() == 1 && program.aval(code.outputs[0]).shape == group.shape;
            let work = Work::Fused(Box::new(fused));
            let computed = group.eqns.iter().filter(|k| !code.refused.contains(k));
            let origins = self.origins(&computed.copied().collect::<Vec<_>>());
            let inputs = code.inputs.iter().map(|&var| self.slot(var)).collect();
            let outputs = (code.outputs.iter()).map(|&v| (self.slot(v), program.aval(v).clone()));
            let outputs = outputs.collect();
            self.steps.push(Step {
                in_place,
                ..Step::new(work, first, origins, inputs, outputs, cost)
            });
        }
        for k in code.refused {
            match self.reduction_alone(k) {
                Some(step) => self.steps.push(step),
                None => self.single(k)?,
            }
        }
        Ok(())
    }

    /// A reduction that its group refused as a pass of its own: it adds in the same order as in a group.
    fn reduction_alone(&mut self, k: usize) -> Option<Step> {
        let program = self.program;
        let eqn = &program.eqns()[k];
        let (arg, out) = (program.args(eqn)[0], program.result(k));
        let Some(Kernel::Reduce(op)) = eqn.prim.kernel_ref() else {
            return None;
        };
        let aval = program.aval(arg);
        if self.recipes.is_some() || aval.size() == 0 {
            return None;
        }
        let mut fused = FusedBuilder::new(&aval.shape);
        let x = fused.input(aval.dtype);
        if !fused.reduce(*op, x, program.params(eqn).axes()) {
            return None;
        }
        let fused = fused.finish();
        let cost = fused.cost();
        let inputs = [self.slot(arg)].into_iter().collect();
        let outputs = [(self.slot(out), program.aval(out).clone())]
            .into_iter()
            .collect();
        let work = Work::Fused(Box::new(fused));
        Some(Step::new(
            work,
            eqn.prim,
            self.origins(&[k]),
            inputs,
            outputs,
            cost,
        ))
    }

    /// Fills in where buffers die.
    fn finish(mut self) -> Plan {
        let outs: Vec<Slot> = self
            .program
            .outs()
            .to_vec()
            .iter()
            .map(|&v| self.slot(v))
            .collect();
        let num_slots = self.next as usize;
        note_deaths(&mut self.steps, num_slots, &outs, &self.constants);
        let mut counts = counts(self.program);
        let mut weight = self.program.eqns().len() + 16;
        add_loops(&self.steps, &mut counts, &mut weight);
        Plan {
            calls_back: self.program.has_host_calls(),
            cost: cost_of(&self.steps),
            steps: self.steps,
            num_slots,
            constants: self.constants,
            outs,
            counts,
            weight,
            source: None,
            for_devices: OnceLock::new(),
        }
    }
}

enum Item {
    Eqn(usize),
    Group(usize),
}

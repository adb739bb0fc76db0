//! Loops that go backwards through another one, whose steps they take again: what its carries were is kept for as
//! many steps as a budget allows.

use smallvec::SmallVec;

use super::looped::{Running, Scanned};
use super::plan::{Again, LoopPlan};
use super::profile::Stopwatch;
use super::revolve::{self, Steps, revolve};
use crate::error::{Error, Result};
use crate::kernels::{Ctx, Value};
use crate::ops;
use crate::prim::{Params, Var};
use crate::program::{Calls, End, Loop, LoopOutput, Program};
use crate::util::FastMap;

impl Again {
    /// How many steps are taken again.
    pub fn repeated(&self) -> usize {
        revolve::repeated(self.forward.of.length, self.slots)
    }

    /// How many bytes are kept, and needed for a step.
    pub fn peak(&self) -> usize {
        let kept = self.slots.min(self.forward.of.length);
        kept.saturating_mul(state_bytes(&self.forward.of)) + self.forward.plan.peak()
    }
}

fn state_bytes(of: &Loop) -> usize {
    let bytes = (0..of.carries).map(|j| of.body().aval(j as Var).nbytes());
    bytes.sum::<usize>().max(1)
}

impl LoopPlan {
    /// Plans a loop that goes backwards through another one: `before` says of which carry an argument is what it
    /// was. Says which arguments it reads, its own and those of the other loop.
    pub fn reversal(
        of: &Loop,
        outputs: &[usize],
        forward: &Loop,
        before: impl Fn(usize) -> Option<usize>,
    ) -> Result<(LoopPlan, Vec<usize>, Vec<usize>)> {
        let (mut plan, inputs) = LoopPlan::new(of, outputs)?;
        let own = of.carries..of.carries + of.scanned;
        let scanned = inputs.iter().filter(|i| own.contains(i)).enumerate();
        let found: Vec<(usize, usize)> = scanned
            .filter_map(|(place, &i)| Some((place, before(i)?)))
            .collect();
        let inputs = inputs
            .into_iter()
            .filter(|&i| before(i).is_none())
            .collect();
        let wanted: Vec<usize> = (found.iter())
            .map(|&(_, j)| forward.number(LoopOutput::Before(j)))
            .collect();
        if wanted.is_empty() {
            return Ok((plan, inputs, Vec::new()));
        }
        let (slim, reads, numbers) = forward.slim(&wanted)?;
        let budget = slim.budget.unwrap_or(usize::MAX);
        let reads_of = |n: usize| match slim.output(n) {
            Some(LoopOutput::Before(j)) => j,
            _ => 0,
        };
        let slots = (budget / state_bytes(&slim)).clamp(1, slim.length.max(1));
        let all = found.iter().zip(&numbers);
        let pairs = all.map(|(&(place, _), &n)| (place, reads_of(n))).collect();
        let forward = LoopPlan::of_steps(slim)?;
        plan.again = Some(Box::new(Again {
            forward,
            reads: pairs,
            slots,
        }));
        Ok((plan, inputs, reads))
    }

    /// The outputs that are asked for, of a loop that takes another one again.
    pub(super) fn run_backwards(
        &self,
        again: &Again,
        mut args: Vec<Value>,
        targets: &[Option<&Value>],
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<Value>> {
        let of = &self.of;
        let forward = &again.forward;
        let mut others = args.split_off(args.len() - forward.of.body().num_inputs());
        let others_shared = others.split_off(forward.of.carries + forward.of.scanned);
        let others_scanned = forward.in_order(others.split_off(forward.of.carries), ctx)?;
        let shared = args.split_off(of.carries + of.scanned - again.reads.len());
        let arrays = self.in_order(args.split_off(of.carries), ctx)?;
        let stacks = self.stacks(targets)?;
        let mut scanned: Vec<Reads<'_>> = arrays.iter().map(Reads::Array).collect();
        for &(place, carry) in &again.reads {
            scanned.insert(place, Reads::Former(carry));
        }
        let first = others.clone();
        let mut both = Both {
            back: Running::new(self, args, &shared, of.length)?,
            forward: Running::new(forward, others, &others_shared, of.length)?,
            again,
            scanned,
            others_scanned: others_scanned.iter().map(Scanned::Array).collect(),
            stacked: self.stacked(&stacks),
            stopwatch,
            ctx,
        };
        revolve(&mut both, of.length, again.slots, first)?;
        let carried = both.back.into_carried();
        self.results(&carried, stacks)
    }
}

/// What a step that goes backwards gets of a scanned array.
enum Reads<'a> {
    /// The slice of its number.
    Array(&'a Value),
    /// What this carry of the other loop was before the step.
    Former(usize),
}

/// Two loops, one of which goes backwards through the other.
struct Both<'a, 'c> {
    back: Running<'a>,
    forward: Running<'a>,
    again: &'a Again,
    scanned: Vec<Reads<'a>>,
    others_scanned: Vec<Scanned<'a>>,
    stacked: Vec<(LoopOutput, &'a Value)>,
    stopwatch: &'a mut Stopwatch,
    ctx: &'a Ctx<'c>,
}

impl Steps for Both<'_, '_> {
    type State = Vec<Value>;
    type Error = Error;

    fn restore(&mut self, state: &Vec<Value>) -> Result<()> {
        self.forward.set(state)
    }

    fn keep(&mut self) -> Result<Vec<Value>> {
        self.forward.kept(self.ctx)
    }

    fn advance(&mut self, n: usize) -> Result<()> {
        self.ctx.check()?;
        let of = &self.again.forward.of;
        let place = if of.reverse { of.length - 1 - n } else { n };
        (self.forward).step(place, &self.others_scanned, &[], self.stopwatch, self.ctx)
    }

    fn reverse(&mut self, n: usize) -> Result<()> {
        self.ctx.check()?;
        let of = &self.again.forward.of;
        let place = if of.reverse { of.length - 1 - n } else { n };
        let state = self.forward.carried();
        let reads = self.scanned.iter().map(|reads| match *reads {
            Reads::Array(array) => Scanned::Array(array),
            Reads::Former(carry) => Scanned::Slice(&state[carry]),
        });
        let scanned: SmallVec<[Scanned<'_>; 8]> = reads.collect();
        (self.back).step(place, &scanned, &self.stacked, self.stopwatch, self.ctx)
    }
}

/// Which loops of a program are taken again by those that go backwards through them.
#[derive(Debug, Default)]
pub(super) struct Reversals {
    /// By the first equation of the loop that goes backwards: the first one of the other.
    of: FastMap<usize, usize>,
    /// What carries were, by variable: of which loop and which carry.
    before: FastMap<Var, (usize, usize)>,
}

impl Reversals {
    /// Finds loops with a budget whose former carries nothing else reads.
    pub fn find(program: &Program, calls: &Calls) -> Reversals {
        let looped = |k: usize| match program.params(&program.eqns()[k]) {
            Params::Loop { of, output } => Some((of, *output)),
            _ => None,
        };
        let first = |k: usize| calls.members(k).first().map_or(k, |&(first, _)| first);
        let mut before: FastMap<Var, (usize, usize)> = FastMap::default();
        for (k, eqn) in program.eqns().iter().enumerate() {
            if eqn.prim == ops::LOOP
                && let Some((of, output)) = looped(k)
                && of.budget.is_some()
                && of.end == End::Length
                && let Some(LoopOutput::Before(j)) = of.output(output)
            {
                before.insert(program.result(k), (first(k), j));
            }
        }
        if before.is_empty() {
            return Reversals::default();
        }
        // For each of the loops the one that goes backwards through it, or that there is another reader.
        let mut readers: FastMap<usize, Option<usize>> = FastMap::default();
        let mut note = |loop_at: usize, reader: Option<usize>| {
            let known = readers.entry(loop_at).or_insert(reader);
            if *known != reader {
                *known = None;
            }
        };
        for &out in program.outs() {
            if let Some(&(k, _)) = before.get(&out) {
                note(k, None);
            }
        }
        for (r, eqn) in program.eqns().iter().enumerate() {
            for (i, arg) in program.args(eqn).iter().enumerate() {
                let Some(&(k, _)) = before.get(arg) else {
                    continue;
                };
                let fits = looped(r)
                    .zip(looped(k))
                    .is_some_and(|((back, _), (of, _))| {
                        let scanned = back.carries..back.carries + back.scanned;
                        scanned.contains(&i)
                            && back.end == End::Length
                            && back.length == of.length
                            && back.reverse != of.reverse
                    });
                note(k, fits.then(|| first(r)));
            }
        }
        let mut of: FastMap<usize, usize> = FastMap::default();
        let mut refused: Vec<usize> = Vec::new();
        let mut pairs: Vec<(usize, Option<usize>)> = readers.into_iter().collect();
        pairs.sort_unstable();
        for (k, reader) in pairs {
            match reader {
                Some(r) if !of.contains_key(&r) => {
                    of.insert(r, k);
                }
                _ => refused.push(k),
            }
        }
        before.retain(|_, (k, _)| !refused.contains(k));
        Reversals { of, before }
    }

    /// The equations of a loop that are computed where they stand, and not where they are read.
    pub fn computed(&self, program: &Program, members: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let is_here = |(k, _): &&(usize, usize)| !self.before.contains_key(&program.result(*k));
        members.iter().filter(is_here).copied().collect()
    }

    /// The plan for these equations of a loop, and what it reads.
    pub fn plan(
        &self,
        program: &Program,
        calls: &Calls,
        members: &[(usize, usize)],
    ) -> Result<(LoopPlan, Vec<Var>)> {
        let numbers: Vec<usize> = members.iter().map(|&(_, output)| output).collect();
        let parts = |k: usize| {
            let eqn = &program.eqns()[k];
            match program.params(eqn) {
                Params::Loop { of, .. } => Some((of, program.args(eqn))),
                _ => None,
            }
        };
        let no_loop = || Error::Program("loop: an equation is none".into());
        let here = members.first().ok_or_else(no_loop)?.0;
        let (of, args) = parts(here).ok_or_else(no_loop)?;
        let first = calls.members(here).first().map_or(here, |&(k, _)| k);
        let Some((forward, others)) = self.of.get(&first).and_then(|&k| parts(k)) else {
            let (looped, reads) = LoopPlan::new(of, &numbers)?;
            return Ok((looped, reads.iter().map(|&i| args[i]).collect()));
        };
        let before = |i: usize| self.before.get(&args[i]).map(|&(_, j)| j);
        let (looped, own, again) = LoopPlan::reversal(of, &numbers, forward, before)?;
        let own = own.iter().map(|&i| args[i]);
        Ok((
            looped,
            own.chain(again.iter().map(|&i| others[i])).collect(),
        ))
    }
}

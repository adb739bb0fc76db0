//! Machine code for loops: several turns of a body are one function, so that what is carried stays in registers from
//! turn to turn, and what a call costs is divided among them. Loops inside of the body are written out in it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::compilation::{Attempt, Draft, Runs};
use super::compiled::{PiecesDraft, STEP, cost_of_kernels};
use super::plan::{LoopCode, Plan, Turns};
use super::profile::Origin;
use super::scalars::{Writer, array_of, can_be_read, is_scalar, lines_of};
use super::stages::for_devices;
use crate::error::Result;
use crate::kernels::{Code, Line, ScalarCode, TurnsCode, Value};
use crate::prim::{Params, Var};
use crate::program::{End, Eqn, Loop, LoopOutput, Program, stacked};

/// A function of several turns has about so many lines, and so many turns at most.
const LINES: usize = 256;
const TURNS: usize = 16;
/// A body of more lines, with those of the loops inside, is cut into pieces.
const LARGE: usize = 4096;
/// Sums have more lines than results: a function of more lines is given up.
const MOST: usize = 16 * LARGE;
/// Estimated nanoseconds of a call.
const CALL: f64 = 8.0;

/// The code of a loop before it is compiled.
pub(super) enum LoopDraft {
    Turns(Box<TurnsDraft>),
    Pieces(Box<PiecesDraft>),
}

pub(super) struct TurnsDraft {
    one: ScalarCode,
    several: Option<(usize, ScalarCode)>,
    origins: Arc<[Origin]>,
}

impl LoopDraft {
    /// What comes of a loop of which these outputs are asked for, `plan` being that of its body.
    pub fn attempt(
        plan: &Plan,
        of: &Loop,
        outputs: &[LoopOutput],
        runs: Option<Runs>,
    ) -> Result<Attempt<LoopDraft>> {
        let Some((draft, kernels)) = TurnsDraft::of(plan, of, outputs)? else {
            return LoopDraft::of_pieces(plan, runs);
        };
        let draft = LoopDraft::Turns(Box::new(draft));
        Ok(Attempt::weighed(draft, runs, || kernels))
    }

    /// The same where turns are taken one by one.
    pub fn of_pieces(plan: &Plan, runs: Option<Runs>) -> Result<Attempt<LoopDraft>> {
        Ok(match PiecesDraft::attempt(plan, runs)? {
            Attempt::Draft(draft) => Attempt::Draft(Box::new(LoopDraft::Pieces(draft))),
            Attempt::Later(price) => Attempt::Later(price),
            Attempt::Nothing => Attempt::Nothing,
        })
    }
}

impl Draft for LoopDraft {
    type Code = LoopCode;

    fn cost(&self) -> f64 {
        match self {
            LoopDraft::Turns(draft) => draft.cost(),
            LoopDraft::Pieces(draft) => draft.cost(),
        }
    }

    fn lines(&self) -> usize {
        match self {
            LoopDraft::Turns(draft) => draft.codes().map(ScalarCode::len).sum(),
            LoopDraft::Pieces(draft) => draft.lines(),
        }
    }

    fn compile(self) -> Option<LoopCode> {
        match self {
            LoopDraft::Turns(draft) => draft.compile().map(LoopCode::Turns),
            LoopDraft::Pieces(draft) => draft.compile().map(LoopCode::Pieces),
        }
    }
}

impl TurnsDraft {
    /// The draft, and roughly how many nanoseconds a turn takes without it; `None` where something in the body cannot be
    /// taken apart.
    fn of(plan: &Plan, of: &Loop, outputs: &[LoopOutput]) -> Result<Option<(TurnsDraft, f64)>> {
        let body = for_devices(of.body())?;
        let inputs = (0..body.num_inputs()).map(|i| body.aval(i as Var));
        if !inputs.into_iter().all(can_be_read) || lines(&body).is_none_or(|n| n > LARGE) {
            return Ok(None);
        }
        let kernels = cost_of_kernels(&body) + (STEP as usize * (1 + plan.num_passes())) as f64;
        let of = of.with_body(body)?;
        let Some(one) = code_of_turns(&of, outputs, 1) else {
            return Ok(None);
        };
        let turns = (LINES / one.len().max(1)).min(TURNS);
        let several = match of.end {
            End::False => None,
            _ => (2..=of.length)
                .contains(&turns)
                .then(|| code_of_turns(&of, outputs, turns)),
        };
        let draft = TurnsDraft {
            one,
            several: several.flatten().map(|code| (turns, code)),
            origins: plan.origins(),
        };
        Ok(Some((draft, kernels)))
    }

    fn codes(&self) -> impl Iterator<Item = &ScalarCode> {
        let several = self.several.iter().map(|(_, code)| code);
        std::iter::once(&self.one).chain(several)
    }

    /// Roughly how many nanoseconds a turn takes.
    fn cost(&self) -> f64 {
        match &self.several {
            Some((turns, code)) => (code.cost() + CALL) / *turns as f64,
            None => self.one.cost() + CALL,
        }
    }

    fn compile(self) -> Option<Turns> {
        let codes: Vec<ScalarCode> = self.codes().cloned().collect();
        let mut functions = Code::compile(&codes)?.into_iter();
        let one = functions.next()?;
        let several = self
            .several
            .as_ref()
            .map(|(turns, _)| *turns)
            .zip(functions.next());
        Some(Turns {
            code: TurnsCode { one, several },
            cost: self.cost(),
            origins: self.origins,
        })
    }
}

/// Roughly how many lines a turn of this body is; `None` where something cannot be taken apart.
fn lines(body: &Program) -> Option<usize> {
    let mut sum = 0usize;
    for (k, eqn) in body.eqns().iter().enumerate() {
        sum = sum.saturating_add(match body.params(eqn) {
            Params::Loop { of, .. } => match of.end {
                // A turn that only moves elements is written out, too.
                End::Length => (lines(of.body())?.max(1)).saturating_mul(of.length),
                End::Count | End::False => return None,
            },
            _ if is_scalar(body, k) => lines_of(body, k),
            _ => return None,
        });
    }
    Some(sum)
}

/// Code for so many turns of a loop, whose body consists of primitives: its inputs are what is carried, as many slices
/// of each scanned array, and what all turns read; its outputs are what is carried on, and as many slices of each of
/// these outputs of the loop that is stacked.
fn code_of_turns(of: &Loop, outputs: &[LoopOutput], turns: usize) -> Option<ScalarCode> {
    let cancel = AtomicBool::new(false);
    let mut writer = Writer::new(&cancel);
    let body = of.body();
    let scanned = of.carries..of.carries + of.scanned;
    let inputs = (0..body.num_inputs()).map(|i| {
        let aval = body.aval(i as Var);
        if scanned.contains(&i) {
            writer.input(&stacked(aval, turns))
        } else {
            writer.input(aval)
        }
    });
    let inputs = inputs.collect::<Option<Vec<Value>>>()?;
    let (carried, stacks) = writer.turns(of, inputs, turns, outputs)?;
    let dtypes = (0..of.carries).map(|j| body.aval(j as Var).dtype);
    for (value, dtype) in carried.iter().zip(dtypes) {
        let lines = writer.lines(value)?;
        writer.code.output(dtype, &lines)?;
    }
    for (output, lines) in stacks {
        let dtype = body.aval(of.of_step(output)?).dtype;
        writer.code.output(dtype, &lines)?;
    }
    Some(writer.code)
}

impl Writer<'_> {
    /// Writes so many turns of a loop whose body consists of primitives. What is carried on, and for each of these
    /// outputs that is stacked the lines of its slices.
    fn turns(
        &mut self,
        of: &Loop,
        mut inputs: Vec<Value>,
        turns: usize,
        outputs: &[LoopOutput],
    ) -> Option<(Vec<Value>, Vec<(LoopOutput, Vec<Line>)>)> {
        let shared = inputs.split_off(of.carries + of.scanned);
        let scanned = inputs.split_off(of.carries);
        let mut carried = inputs;
        let mut slices: Vec<Vec<Vec<Line>>> = vec![vec![Vec::new(); turns]; outputs.len()];
        for turn in 0..turns {
            let place = if of.reverse { turns - 1 - turn } else { turn };
            let mut args = carried.clone();
            for array in &scanned {
                args.push(array.slice_at(place)?);
            }
            args.extend(shared.iter().cloned());
            let made = self.program(of.body(), args)?;
            if self.code.len() > MOST {
                return None;
            }
            for (slices, &output) in slices.iter_mut().zip(outputs) {
                slices[place] = match output {
                    LoopOutput::Last(_) => Vec::new(),
                    LoopOutput::Before(j) => self.lines(&carried[j])?,
                    LoopOutput::Stacked(i) => self.lines(&made[of.carries + i])?,
                };
            }
            carried = made;
            carried.truncate(of.carries);
        }
        let is_stacked = |output: &LoopOutput| !matches!(output, LoopOutput::Last(_));
        let stacks = outputs.iter().copied().zip(slices);
        let stacks = stacks.filter(|(output, _)| is_stacked(output));
        Some((
            carried,
            stacks.map(|(o, slices)| (o, slices.concat())).collect(),
        ))
    }

    /// An output of a loop inside of the code.
    pub(super) fn looped(&mut self, program: &Program, eqn: &Eqn) -> Option<Value> {
        let Params::Loop { of, output } = program.params(eqn) else {
            return None;
        };
        let of = of.with_body(for_devices(of.body()).ok()?).ok()?;
        let inputs = program.args(eqn).iter();
        let inputs = inputs
            .map(|&arg| self.arrays[arg as usize].clone())
            .collect();
        let output = of.output(*output)?;
        let (carried, stacks) = self.turns(&of, inputs, of.length, &[output])?;
        let Some((_, lines)) = stacks.first() else {
            return match output {
                LoopOutput::Last(j) => carried.get(j).cloned(),
                _ => None,
            };
        };
        let aval = of.body().aval(of.of_step(output)?);
        array_of(&stacked(aval, of.length).shape, lines)
    }
}

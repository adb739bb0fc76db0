//! Records loops: a step that was traced becomes one equation for each result.

use std::sync::Arc;

use crate::array::Array;
use crate::aval::Aval;
use crate::error::Result;
use crate::ops;
use crate::prim::{Params, Var};
use crate::program::{End, FastMap, Loop, LoopOutput, Program};
use crate::tape::Recording;
use crate::tape::close::close;
use crate::tape::node::Op;
use crate::transform::vmap;

/// A step of a loop that is being traced: nobody knows the values of what it is given.
#[derive(Debug)]
pub struct Step {
    recording: Recording,
    leaves: Vec<Array>,
}

/// A step as a program, and the arrays that it closes over.
#[derive(Debug)]
pub struct TracedStep {
    program: Program,
    captured: Vec<Array>,
}

impl Step {
    /// Starts with what the arguments look like.
    pub fn new(args: &[Aval]) -> Step {
        let recording = Recording::new();
        Step {
            leaves: args
                .iter()
                .map(|aval| recording.placeholder(aval))
                .collect(),
            recording,
        }
    }

    /// What the step is called with.
    pub fn args(&self) -> &[Array] {
        &self.leaves
    }

    /// Ends with the results of the step.
    pub fn finish(self, outs: &[Array]) -> Result<TracedStep> {
        let outs: Vec<&Array> = outs.iter().collect();
        let closed = close(&outs, Some((&self.leaves, self.recording.tag())))?;
        Ok(TracedStep {
            captured: closed.inputs[self.leaves.len()..].to_vec(),
            program: closed.program,
        })
    }
}

impl TracedStep {
    /// Whether another step does the same, with the same numbers and arrays.
    pub fn does_the_same(&self, other: &TracedStep) -> bool {
        let both = self.captured.iter().zip(&other.captured);
        self.program.same_but_for_calls(&other.program)
            && self.captured.len() == other.captured.len()
            && are_same(both.map(|(a, b)| (a.clone(), b.clone())).collect())
    }

    /// Whether it calls back when it runs.
    pub fn calls_back(&self) -> bool {
        self.program.has_host_calls()
    }

    /// Records the loop: its last carries, and its stacked results. `None` where a step does not carry on
    /// what it is given.
    pub fn repeat(
        &self,
        carried: &[Array],
        scanned: &[Array],
        length: usize,
        reverse: bool,
        end: End,
        budget: Option<usize>,
    ) -> Result<Option<(Vec<Array>, Vec<Array>)>> {
        let (carries, body) = (carried.len(), &self.program);
        let is_same = |j: usize| {
            let out = body.outs().get(j).map(|&out| body.aval(out));
            out == Some(body.aval(j as Var))
        };
        if !(0..carries).all(is_same) {
            return Ok(None);
        }
        let (body, ahead) = self.read_ahead(carries, scanned, length)?;
        let count = scanned.len() + ahead.len();
        let of = Loop::new(body, length, carries, count, reverse)?
            .ending(end)?
            .keeping(budget);
        let inputs: Vec<&Array> = (carried.iter().chain(scanned))
            .chain(&ahead)
            .chain(&self.captured)
            .collect();
        // Slices that no step reads, as the number of the step, are no arguments.
        let all: Vec<usize> = (0..of.body().outs().len()).collect();
        let (of, reads, _) = of.slim(&all)?;
        let inputs: Vec<&Array> = reads.iter().map(|&i| inputs[i]).collect();
        if inputs.is_empty() {
            return Ok(None);
        }
        let body = of.body().clone();
        let of = Arc::new(of);
        let output = |output: LoopOutput| {
            let params = Params::Loop {
                of: Arc::clone(&of),
                output: of.number(output),
            };
            Array::apply(ops::LOOP, params, &inputs)
        };
        // What no step changes is what it was.
        let last = (0..carries).map(|j| {
            if body.outs()[j] == j as Var {
                Ok(carried[j].clone())
            } else {
                output(LoopOutput::Last(j))
            }
        });
        let last = last.collect::<Result<_>>()?;
        let stacks = (0..of.num_stacked()).map(|i| output(LoopOutput::Stacked(i)));
        Ok(Some((last, stacks.collect::<Result<_>>()?)))
    }
}

impl TracedStep {
    /// The body without its reads of captured arrays at places that each step knows beforehand, `x[i]` for the
    /// number of the step: they are done for all steps at once, and scanned. The cotangent of the array then is
    /// made once, and not added to in each step.
    fn read_ahead(
        &self,
        carries: usize,
        scanned: &[Array],
        length: usize,
    ) -> Result<(Program, Vec<Array>)> {
        let body = &self.program;
        let (first, inputs) = (carries + scanned.len(), body.num_inputs());
        let marked = |range: std::ops::Range<usize>| {
            let marks: Vec<bool> = (0..inputs).map(|i| range.contains(&i)).collect();
            body.depends_on(&marks)
        };
        let (late, moves) = (marked(0..carries), marked(carries..first));
        let reads: Vec<Var> = (body.eqns().iter().enumerate())
            .filter(|(k, eqn)| {
                let (var, source) = (body.result(*k), body.args(eqn).first().copied());
                let is_shared = source.is_some_and(|v| {
                    !moves[v as usize] && body.aval(v).size() > body.aval(var).size()
                });
                eqn.prim == ops::GATHER && is_shared && moves[var as usize] && !late[var as usize]
            })
            .map(|(k, _)| body.result(k))
            .collect();
        if reads.is_empty() {
            return Ok((body.clone(), Vec::new()));
        }
        let known: Vec<Var> = (carries as Var..inputs as Var).collect();
        let marks: Vec<bool> = known.iter().map(|&v| (v as usize) < first).collect();
        let all = vmap(&body.extract(&known, &reads), &marks, length)?;
        let given: Vec<Array> = scanned.iter().chain(&self.captured).cloned().collect();
        let ahead = Array::call(&all.into(), &given);
        let split = first as Var;
        let vars: Vec<Var> = (0..split)
            .chain(reads)
            .chain(split..inputs as Var)
            .collect();
        Ok((body.extract(&vars, body.outs()), ahead))
    }
}

/// Whether arrays are the same in pairs: one and the same, equal values, or made in the same way of such.
fn are_same(mut pairs: Vec<(Array, Array)>) -> bool {
    let mut seen: FastMap<(u64, u64), ()> = FastMap::default();
    while let Some((a, b)) = pairs.pop() {
        if a.id() == b.id() || seen.insert((a.id(), b.id()), ()).is_some() {
            continue;
        }
        if a.aval() != b.aval() {
            return false;
        }
        match (&a.0.op, &b.0.op) {
            (Op::Number(x), Op::Number(y)) if x == y => continue,
            (Op::Prim(p), Op::Prim(q)) if p == q && a.0.params == b.0.params => {
                let (x, y) = (a.0.inputs(), b.0.inputs());
                // A constant that has been computed has forgotten them.
                if x.len() == y.len() && (!x.is_empty() || *p == ops::LITERAL) {
                    pairs.extend(x.into_iter().zip(y));
                    continue;
                }
            }
            _ => {}
        }
        let is_known =
            matches!(a.0.op, Op::Known | Op::Prim(_)) && !a.is_active() && !b.is_active();
        let equal = || Some(a.value()?.same_bits(b.value()?));
        if !is_known || equal() != Some(true) {
            return false;
        }
    }
    true
}

//! Forward mode: tangents of recorded functions, along with their values or as a linear map that is applied later.

use std::sync::Arc;

use super::forward_cache::{ForwardPrograms, Planned};
use super::pullback::{Closed, run_early};
use crate::array::Array;
use crate::array::force::values;
use crate::error::{Error, Result};
use crate::inspect::nonfinite;
use crate::prim::Var;
use crate::program::Program;
use crate::sched;
use crate::tape::Recording;

/// Values of outputs, and for each that is differentiated its tangent, `None` for zero.
pub type Pushed = (Vec<Array>, Vec<Option<Array>>);

/// The linear map from tangents of leaves to tangents of outputs: a program and the values that it keeps.
#[derive(Debug, Clone)]
pub struct Pushforward {
    program: Arc<Program>,
    /// The values that are kept, in the order of the program's inputs behind the tangents.
    residuals: Vec<Array>,
    /// For each leaf, which input of the program is its tangent.
    tangents: Vec<Option<usize>>,
    /// For each output of the function, which output of the program is its tangent; `None` where it is zero.
    results: Vec<Option<usize>>,
}

/// The values of outputs and their tangents along the tangents of leaves (`None` for zero): in one run, or lazy where
/// an outer recording takes part. The `aux` last outputs have no tangents.
pub fn value_and_pushforward(
    recording: &Recording,
    outputs: &[&Array],
    aux: usize,
    leaves: &[Array],
    tangents: &[Option<Array>],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Pushed> {
    let (is_lazy, inputs, forward) = along(recording, outputs, aux, leaves, tangents)?;
    let outs = pushed(is_lazy, &inputs, forward.whole()?, interrupted)?;
    let tangents = (forward.results.iter())
        .map(|slot| slot.map(|i| outs[i].clone()))
        .collect();
    Ok((outs[..outputs.len()].to_vec(), tangents))
}

/// The same tangents alone: what only the values need is not computed.
pub fn pushforward_alone(
    recording: &Recording,
    outputs: &[&Array],
    leaves: &[Array],
    tangents: &[Option<Array>],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Option<Array>>> {
    if nonfinite::looks().is_some() {
        // Who looks for the origin of a NaN wants to know of one in the values, too.
        let all = value_and_pushforward(recording, outputs, 0, leaves, tangents, interrupted)?;
        return Ok(all.1);
    }
    let (is_lazy, inputs, forward) = along(recording, outputs, 0, leaves, tangents)?;
    let outs = pushed(is_lazy, &inputs, forward.alone()?, interrupted)?;
    let mut outs = outs.into_iter();
    let tangents = forward.results.iter();
    Ok(tangents
        .map(|slot| slot.and_then(|_| outs.next()))
        .collect())
}

/// The programs for what was recorded, whether they are lazy, and their inputs, tangents among them.
fn along(
    recording: &Recording,
    outputs: &[&Array],
    aux: usize,
    leaves: &[Array],
    tangents: &[Option<Array>],
) -> Result<(bool, Vec<Array>, Arc<ForwardPrograms>)> {
    let Closed {
        program: closed,
        mut inputs,
        nested,
    } = Closed::of(recording, outputs, leaves)?;
    let wrt = marked(
        closed.program.num_inputs(),
        tangents.iter().map(Option::is_some),
    );
    let forward = ForwardPrograms::of(&closed, &wrt, outputs.len() - aux)?;
    let first = closed.program.num_inputs();
    let given: Vec<Array> = (leaves.iter().zip(tangents))
        .filter_map(|(leaf, t)| t.as_ref().map(|t| (leaf, t)))
        .map(|(leaf, t)| fitting(leaf.aval(), t))
        .collect::<Result<_>>()?;
    let is_lazy = nested || given.iter().any(Array::is_recorded);
    inputs.splice(first..first, given);
    Ok((is_lazy, inputs, forward))
}

/// The outputs of a program, lazy or not.
fn pushed(
    is_lazy: bool,
    inputs: &[Array],
    planned: &Planned,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Array>> {
    if is_lazy {
        return Ok(Array::call(&planned.program, inputs));
    }
    if nonfinite::looks().is_some() {
        let outs = Array::call(&planned.program, inputs);
        Array::force_all(&outs.iter().collect::<Vec<_>>(), interrupted)?;
        return Ok(outs);
    }
    let results = sched::run(planned.plan()?, values(inputs, interrupted)?, interrupted)?;
    Ok(results.into_iter().map(Array::constant).collect())
}

/// Marks the first inputs.
fn marked(count: usize, first: impl Iterator<Item = bool>) -> Vec<bool> {
    let mut marks: Vec<bool> = first.collect();
    marks.resize(count, false);
    marks
}

/// A tangent for a leaf of this dtype and shape.
fn fitting(aval: &crate::aval::Aval, t: &Array) -> Result<Array> {
    if t.aval() == aval {
        return Ok(t.clone());
    }
    Err(Error::Shape(format!(
        "a tangent of {aval} is needed here, not {}",
        t.aval()
    )))
}

impl Pushforward {
    /// The pushforward of what was recorded between leaves and outputs; also gives the outputs, which no longer
    /// belong to the recording. The `aux` last ones have no tangents.
    pub fn new(
        recording: &Recording,
        outputs: &[&Array],
        aux: usize,
        leaves: &[Array],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(Vec<Array>, Pushforward)> {
        let Closed {
            program: closed,
            inputs,
            nested,
        } = Closed::of(recording, outputs, leaves)?;
        let first = closed.program.num_inputs();
        let wrt = marked(first, leaves.iter().map(|_| true));
        let forward = ForwardPrograms::of(&closed, &wrt, outputs.len() - aux)?;
        let halves = forward.halves()?;
        let count = forward.tangents.iter().flatten().count();
        let at = |i: usize| if i < first { i } else { i - count };
        let inputs: Vec<Array> = (halves.early_inputs.iter())
            .map(|&i| inputs[at(i)].clone())
            .collect();
        let early = &halves.early;
        let mut outs = if nested {
            Array::call(&early.program, &inputs)
        } else {
            let recorded = || {
                let all: Vec<Var> = (halves.early_inputs.iter().map(|&i| i as Var)).collect();
                (forward.joint).extract(&all, &forward.joint.outs()[..outputs.len()])
            };
            run_early(
                &early.program,
                early.plan()?,
                &inputs,
                outputs.len(),
                &recorded,
                interrupted,
            )?
        };
        let residuals = outs.split_off(outputs.len());
        let numbered = forward.tangents[..leaves.len()]
            .iter()
            .scan(0, |next, slot| {
                *next += usize::from(slot.is_some());
                Some(slot.map(|_| *next - 1))
            });
        let pushforward = Pushforward {
            program: Arc::clone(&halves.late),
            residuals,
            tangents: numbered.collect(),
            results: (forward.results.iter())
                .map(|slot| slot.map(|i| i - outputs.len()))
                .collect(),
        };
        Ok((outs, pushforward))
    }

    /// The tangents of the outputs along these tangents of the leaves (`None` for zero): lazy arrays, `None` where
    /// nothing depends on the leaves.
    pub fn apply(&self, tangents: &[Option<Array>]) -> Result<Vec<Option<Array>>> {
        let mut inputs: Vec<Array> = Vec::with_capacity(self.program.num_inputs());
        for (slot, t) in self.tangents.iter().zip(tangents) {
            let Some(slot) = *slot else { continue };
            let aval = self.program.aval(slot as Var);
            inputs.push(match t {
                Some(t) => fitting(aval, t)?,
                None => Array::zeros(aval.dtype, &aval.shape)?,
            });
        }
        inputs.extend_from_slice(&self.residuals);
        let outs = Array::call(&self.program, &inputs);
        Ok((self.results.iter())
            .map(|slot| slot.map(|i| outs[i].clone()))
            .collect())
    }

    /// The program that it applies: tangents and residuals in, tangents of outputs out.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// For each leaf, which input of the program is its tangent.
    pub fn tangents(&self) -> &[Option<usize>] {
        &self.tangents
    }

    /// For each output, which output of the program is its tangent.
    pub fn results(&self) -> &[Option<usize>] {
        &self.results
    }

    /// The values that it keeps, in the order of the program's inputs behind the tangents.
    pub fn residuals(&self) -> &[Array] {
        &self.residuals
    }
}

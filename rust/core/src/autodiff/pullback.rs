//! Pullbacks of recorded functions: `gradient` and `value_and_gradient` close the tape into a
//! program, look up or derive its reverse pass, and run the parts that are demanded.

use std::sync::Arc;

use num_complex::Complex;

use super::cache::DerivedPrograms;
use crate::array::Array;
use crate::array::force::{described, values};
use crate::error::{Error, Result};
use crate::inspect::nonfinite::{self, Reached};
use crate::inspect::report::{Report, Subject};
use crate::kernels::{self, Value};
use crate::prim::{Prim, Site, Var};
use crate::program::Program;
use crate::sched::{self, Plan, note};
use crate::tape::Recording;
use crate::tape::close::{ClosedProgram, close, close_with};
use crate::tape::node::{Applied, Node};
use crate::transform::defer::{Deferred, Source};
use crate::util::FastMap;

/// The linear map from cotangents of outputs to cotangents of leaves: a program and the values that
/// it keeps. Reusable, cheap to clone, independent of the function it came from.
#[derive(Debug, Clone)]
pub struct Pullback {
    pub(super) program: Arc<Program>,
    /// What was run to get the residuals, to be looked at.
    pub(super) forward: Option<Arc<Program>>,
    /// The nodes that were its inputs.
    pub(super) sources: Arc<[u64]>,
    /// The values that are kept, in the order of the program's inputs behind the cotangents.
    pub(super) residuals: Vec<Array>,
    /// For each output of the function, which input of the program is its cotangent.
    pub(super) cotangents: Vec<Option<usize>>,
    /// For each leaf, which output of the program is its cotangent.
    pub(super) gradients: Vec<Option<usize>>,
    pub(super) skipped: Vec<(Prim, u64)>,
    /// Which outputs of the program have been computed.
    pub(super) applied: Arc<Applied>,
}

/// What was recorded, closed and differentiated.
struct Recorded {
    derived: Arc<DerivedPrograms>,
    /// The inputs of the joint program but for the cotangents; leaves are replaced by what they copy.
    inputs: Vec<Array>,
    /// Whether something takes part that is active in an outer recording.
    nested: bool,
}

/// Closes and differentiates what was recorded, but for the `aux` last outputs, which are computed along with the rest.
fn differentiate(
    recording: &Recording,
    outputs: &[&Array],
    aux: usize,
    leaves: &[Array],
) -> Result<Recorded> {
    let Closed {
        program: closed,
        inputs,
        nested,
    } = Closed::of(recording, outputs, leaves)?;
    let derived = DerivedPrograms::of(&closed, leaves.len(), outputs.len() - aux)?;
    note(|counts| counts.add_skipped(&derived.skipped));
    Ok(Recorded {
        derived,
        inputs,
        nested,
    })
}

/// What was recorded, closed into a program.
pub(super) struct Closed {
    pub program: ClosedProgram,
    /// The arrays that are its inputs, with what they copy in place of leaves; then the values that are known.
    pub inputs: Vec<Array>,
    /// Whether something takes part that an outer recording follows: an example's index, too, which nobody knows.
    pub nested: bool,
}

impl Closed {
    pub fn of(recording: &Recording, outputs: &[&Array], leaves: &[Array]) -> Result<Closed> {
        let mut closed = close(outputs, Some((leaves, recording.tag())))?;
        closed.note_computed();
        let mut inputs: Vec<Array> = Vec::with_capacity(closed.inputs.len() + closed.known.len());
        inputs.extend(leaves.iter().map(Array::source));
        inputs.extend_from_slice(&closed.inputs[leaves.len()..]);
        // A known value is of this recording, hence constant here; outside it is what it was made of.
        let nested = inputs.iter().any(Array::is_recorded);
        if nested {
            // Its history matters to the outer recording: compute it again from the inputs.
            closed.known.clear();
        }
        inputs.extend(closed.known.iter().map(|(_, array)| array.clone()));
        Ok(Closed {
            program: closed,
            inputs,
            nested,
        })
    }
}

/// The value of a scalar output and its gradients with respect to leaves of a recording. Gradients
/// of leaves without influence are `None`. Where an outer recording takes part, the results stay
/// lazy; else they are computed, in one run.
pub fn value_and_gradient(
    recording: &Recording,
    output: &Array,
    leaves: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(Array, Vec<Option<Array>>)> {
    let (value, _, gradients) =
        value_aux_and_gradient(recording, output, &[], leaves, interrupted)?;
    Ok((value, gradients))
}

/// A value, auxiliary arrays, and the gradients of the value.
pub type WithAux = (Array, Vec<Array>, Vec<Option<Array>>);

/// [`value_and_gradient`] with further arrays of the recording, which are computed in the same run and are not
/// differentiated.
pub fn value_aux_and_gradient(
    recording: &Recording,
    output: &Array,
    aux: &[&Array],
    leaves: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<WithAux> {
    let (mut outs, slots) = seeded(recording, output, aux, leaves, true, interrupted)?;
    let gradients = (slots.iter())
        .map(|slot| slot.map(|i| outs[i].clone()))
        .collect();
    outs.truncate(1 + aux.len());
    let aux = outs.split_off(1);
    Ok((outs.swap_remove(0), aux, gradients))
}

/// Like [`value_and_gradient`], but the value is never computed unless a gradient needs it.
pub fn gradient(
    recording: &Recording,
    output: &Array,
    leaves: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Option<Array>>> {
    let (outs, slots) = seeded(recording, output, &[], leaves, false, interrupted)?;
    Ok(slots
        .iter()
        .map(|slot| slot.map(|i| outs[i - 1].clone()))
        .collect())
}

/// The program between the leaves of a recording and outputs, with the arrays that are its inputs
/// behind the leaves. Nothing is computed.
pub fn trace(
    recording: &Recording,
    outputs: &[&Array],
    leaves: &[Array],
) -> Result<(Program, Vec<Array>)> {
    trace_with(recording, outputs, leaves, &|_| None)
}

/// The same, where arrays that `number` gives a number for are literals instead of inputs.
pub fn trace_with(
    recording: &Recording,
    outputs: &[&Array],
    leaves: &[Array],
    number: &dyn Fn(&Array) -> Option<Complex<f64>>,
) -> Result<(Program, Vec<Array>)> {
    let closed = close_with(outputs, Some((leaves, recording.tag())), number)?;
    Ok((closed.program, closed.inputs[leaves.len()..].to_vec()))
}

type Outs = (Vec<Array>, Vec<Option<usize>>);

fn seeded(
    recording: &Recording,
    output: &Array,
    aux: &[&Array],
    leaves: &[Array],
    with_value: bool,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Outs> {
    if output.aval().size() != 1 || !output.dtype().is_inexact() {
        return Err(Error::Shape(format!(
            "a gradient needs a scalar output, not {}",
            output.aval()
        )));
    }
    let outputs: Vec<&Array> = std::iter::once(output).chain(aux.iter().copied()).collect();
    let recorded = differentiate(recording, &outputs, aux.len(), leaves)?;
    let slots = recorded.derived.gradients.clone();
    if !recorded.nested && nonfinite::looks().is_some() {
        let results = watched(&recorded, with_value, interrupted)?;
        return Ok((results.into_iter().map(Array::constant).collect(), slots));
    }
    let seeded = recorded.derived.seeded(with_value)?;
    if recorded.nested {
        return Ok((Array::call(&seeded.program, &recorded.inputs), slots));
    }
    let inputs = values(&recorded.inputs, interrupted)?;
    let results = seeded.run(&inputs, interrupted)?;
    Ok((results.into_iter().map(Array::constant).collect(), slots))
}

/// The results of a run whose results are looked at.
fn watched(
    recorded: &Recorded,
    with_value: bool,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    let derived = &recorded.derived;
    let inputs = values(&recorded.inputs, interrupted)?;
    // What is called back is not to be called once more when the origin is looked for.
    let logged = (derived.joint.has_host_calls()).then(|| nonfinite::logged(&derived.joint));
    let results = match &logged {
        Some(joint) => {
            let plan = Plan::new(&derived.seed(joint, with_value)?)?;
            sched::run(&plan, inputs, interrupted)?
        }
        None => derived.seeded(with_value)?.run(&inputs, interrupted)?,
    };
    let Some((look, out)) = nonfinite::found(&results)? else {
        return Ok(results);
    };
    let program = derived.seed(logged.as_ref().unwrap_or(&derived.joint), with_value)?;
    let inputs = described(&recorded.inputs, interrupted)?;
    // The value is output 0 of the joint program.
    let slot = out + usize::from(!with_value);
    let leaf = derived.gradients.iter().position(|g| *g == Some(slot));
    let reached = leaf.map_or(Reached::Value(slot), Reached::Gradient);
    let (found, reached) = ((look, &results[out]), (reached, "".into()));
    Err(nonfinite::explain(
        &program,
        &inputs,
        out,
        found,
        reached,
        interrupted,
    ))
}

impl Pullback {
    /// The pullback of what was recorded between leaves and outputs; also gives the outputs, which
    /// no longer belong to the recording.
    pub fn new(
        recording: &Recording,
        outputs: &[&Array],
        leaves: &[Array],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(Vec<Array>, Pullback)> {
        Pullback::with_aux(recording, outputs, 0, leaves, interrupted)
    }

    /// The same, where the `aux` last outputs are only computed: they have no cotangents.
    pub fn with_aux(
        recording: &Recording,
        outputs: &[&Array],
        aux: usize,
        leaves: &[Array],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(Vec<Array>, Pullback)> {
        let recorded = differentiate(recording, outputs, aux, leaves)?;
        let derived = &recorded.derived;
        let programs = derived.pullback_programs()?;
        let cotangents = derived.cotangents.iter().flatten().count();
        // The forward program has no cotangents among its inputs.
        let first = derived.primal.num_inputs();
        let at = |i: usize| if i < first { i } else { i - cotangents };
        let inputs: Vec<Array> = programs
            .forward_inputs
            .iter()
            .map(|&i| recorded.inputs[at(i)].clone())
            .collect();
        let mut outs: Vec<Array> = if recorded.nested {
            Array::call(&programs.forward, &inputs)
        } else {
            let count = outputs.len();
            let recorded = || derived.forward();
            let mut run = |program: &Program, plan: &Plan| {
                run_early(program, plan, &inputs, count, &recorded, &mut *interrupted)
            };
            // What is looked at is computed at once.
            let looks = nonfinite::looks().is_some();
            match &programs.deferred {
                Some(deferred) if !looks => {
                    let mut outs = run(&deferred.early, &programs.plan)?;
                    let kept = outs.split_off(count);
                    outs.extend(residuals(deferred, &kept));
                    outs
                }
                Some(_) => run(
                    &programs.forward,
                    &*sched::plan_optimized(&programs.forward)?,
                )?,
                None => run(&programs.forward, &programs.plan)?,
            }
        };
        let residuals = outs.split_off(outputs.len());
        let sources = inputs.iter().map(Array::id).collect();
        let mut next = 0;
        let slots = derived.cotangents.iter().map(|c| {
            c.map(|_| {
                next += 1;
                next - 1
            })
        });
        let mut slots: Vec<Option<usize>> = slots.collect();
        let mut forward = Arc::clone(&programs.forward);
        if aux > 0 {
            // It is the pullback of the others.
            let heads = outputs.len() - aux;
            slots.truncate(heads);
            let (heads, behind) = forward.outs().split_at(heads);
            let kept: Vec<Var> = heads.iter().chain(&behind[aux..]).copied().collect();
            let all: Vec<Var> = (0..forward.num_inputs() as Var).collect();
            forward = Arc::new(forward.extract(&all, &kept));
        }
        let gradients = derived
            .gradients
            .iter()
            .map(|g| g.map(|g| g - outputs.len()))
            .collect();
        let program = Arc::clone(&programs.backward);
        let applied = Applied::new(program.outs().len());
        let skipped = derived.skipped.clone();
        Ok((
            outs,
            Pullback {
                program,
                forward: Some(forward),
                sources,
                residuals,
                cotangents: slots,
                gradients,
                skipped,
                applied,
            },
        ))
    }

    /// The cotangents of the leaves, given those of the outputs (`None` for zero): lazy arrays, each
    /// computed only when it is read. `None` for leaves without influence.
    pub fn apply(&self, cotangents: &[Option<Array>]) -> Result<Vec<Option<Array>>> {
        let mut inputs: Vec<Array> = Vec::with_capacity(self.program.num_inputs());
        for (slot, ct) in self.cotangents.iter().zip(cotangents) {
            let Some(slot) = slot else { continue };
            let aval = self.program.aval(*slot as Var);
            inputs.push(match ct {
                Some(ct) if ct.aval() == aval => ct.clone(),
                Some(ct) => {
                    let message =
                        format!("a cotangent of {} is needed here, not {}", aval, ct.aval());
                    return Err(Error::Shape(message));
                }
                None => Array::number(aval.dtype, crate::array::Number::Float(0.0))
                    .broadcast_to(&aval.shape)?,
            });
        }
        inputs.extend_from_slice(&self.residuals);
        let outs = Array::call_applied(&self.program, &inputs, Some(&self.applied));
        Ok(self
            .gradients
            .iter()
            .map(|g| g.map(|g| outs[g].clone()))
            .collect())
    }

    /// The pullback with respect to some of the leaves only. What only the others need is not kept.
    #[must_use]
    pub fn wrt(&self, leaves: &[bool]) -> Pullback {
        let mut outs = Vec::new();
        let gradients = (self.gradients.iter().zip(leaves))
            .map(|(g, &wanted)| {
                g.filter(|_| wanted).map(|g| {
                    outs.push(self.program.outs()[g]);
                    outs.len() - 1
                })
            })
            .collect();
        let count = self.cotangents.iter().flatten().count();
        let mut wanted = vec![false; self.program.outs().len()];
        for (g, _) in self
            .gradients
            .iter()
            .zip(leaves)
            .filter(|(_, wanted)| **wanted)
        {
            if let Some(g) = g {
                wanted[*g] = true;
            }
        }
        let needed = self.program.needed(&wanted);
        let inputs: Vec<Var> = (0..self.program.num_inputs() as Var)
            .filter(|&v| (v as usize) < count || needed[v as usize])
            .collect();
        let residuals = inputs[count..]
            .iter()
            .map(|&v| self.residuals[v as usize - count].clone())
            .collect();
        let forward = self.forward.as_ref().map(|forward| {
            let count_outs = self.cotangents.len();
            let (values, residuals) = forward.outs().split_at(count_outs);
            let kept = inputs[count..]
                .iter()
                .map(|&v| residuals[v as usize - count]);
            let outs: Vec<Var> = values.iter().copied().chain(kept).collect();
            let all: Vec<Var> = (0..forward.num_inputs() as Var).collect();
            Arc::new(forward.extract(&all, &outs))
        });
        let count_outs = outs.len();
        Pullback {
            program: Arc::new(self.program.extract(&inputs, &outs)),
            forward,
            sources: self.sources.clone(),
            residuals,
            cotangents: self.cotangents.clone(),
            gradients,
            skipped: self.skipped.clone(),
            applied: Applied::new(count_outs),
        }
    }

    /// Names the cotangents of the leaves in the program that it applies.
    pub fn name_gradients(&mut self, names: &[Arc<str>]) {
        let mut outputs: Vec<Arc<str>> = self.program.output_names().to_vec();
        for (slot, name) in self.gradients.iter().zip(names) {
            if let Some(out) = *slot {
                outputs[out] = Arc::clone(name);
            }
        }
        Arc::make_mut(&mut self.program).set_output_names(outputs);
    }

    /// The same linear map at another point: with other residuals, of the same dtypes and shapes.
    ///
    /// # Errors
    /// When one has another dtype or shape, or there are too few.
    pub fn with_residuals(&self, residuals: Vec<Array>) -> Result<Pullback> {
        let first = self.cotangents.iter().flatten().count();
        let wanted = (first..self.program.num_inputs()).map(|i| self.program.aval(i as Var));
        if !wanted.eq(residuals.iter().map(Array::aval)) {
            let message = "a pullback: these residuals are not like its own";
            return Err(Error::Shape(message.into()));
        }
        Ok(Pullback {
            residuals,
            ..self.clone()
        })
    }

    /// The program that it applies: cotangents and residuals in, cotangents of leaves out.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The same, to be applied in other ways.
    pub fn shared_program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The program that gave the residuals: from the leaves of the recording and what it closed over to
    /// the outputs, then the residuals. None when that is not known any more.
    pub fn forward(&self) -> Option<&Arc<Program>> {
        self.forward.as_ref()
    }

    /// The ids of the arrays that were the inputs of [`Pullback::forward`].
    pub fn sources(&self) -> &[u64] {
        &self.sources
    }

    /// For each output, which input of the program is its cotangent.
    pub fn cotangents(&self) -> &[Option<usize>] {
        &self.cotangents
    }

    /// For each leaf, which output of the program is its cotangent.
    pub fn gradients(&self) -> &[Option<usize>] {
        &self.gradients
    }

    /// The values that it keeps, in the order of the program's inputs behind the cotangents.
    pub fn residuals(&self) -> &[Array] {
        &self.residuals
    }

    /// What it holds and why, and what it has not computed.
    pub fn report(&self) -> Report {
        let subject = Subject {
            program: &self.program,
            forward: self.forward.as_deref(),
            residuals: &self.residuals,
            outputs: self.cotangents.len(),
            gradients: &self.gradients,
            applied: &self.applied,
            skipped: &self.skipped,
        };
        subject.report()
    }

    /// Bytes of the values that it keeps.
    pub fn nbytes(&self) -> usize {
        let mut seen: FastMap<usize, ()> = FastMap::default();
        let mut bytes = 0;
        for residual in &self.residuals {
            // Two residuals may be one value; what is not computed yet has no address to compare.
            let address = residual.value().map(Value::address);
            if address.is_none_or(|a| seen.insert(a, ()).is_none()) {
                bytes += residual.nbytes();
            }
        }
        bytes
    }
}

/// Runs the early half of a program: `count` results and then the residuals. `recorded` gives the equations as they
/// were recorded, for an error that names one.
pub(super) fn run_early(
    early: &Program,
    plan: &Plan,
    inputs: &[Array],
    count: usize,
    recorded: &dyn Fn() -> Program,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Array>> {
    // What is called back is not to be called once more when an origin is looked for.
    let is_logged = nonfinite::looks().is_some() && early.has_host_calls();
    let logged = is_logged.then(|| nonfinite::logged(early));
    let own_plan = logged.as_ref().map(Plan::of_optimized).transpose()?;
    let plan = own_plan.as_ref().unwrap_or(plan);
    let results = sched::run(plan, values(inputs, interrupted)?, interrupted)?;
    if let Some((look, out)) = nonfinite::found(&results[..count])? {
        let inputs = described(inputs, interrupted)?;
        let (found, reached) = ((look, &results[out]), (Reached::Value(out), "".into()));
        let program = logged.unwrap_or_else(recorded);
        return Err(nonfinite::explain(
            &program,
            &inputs,
            out,
            found,
            reached,
            interrupted,
        ));
    }
    let first = early.num_inputs();
    let site = |i: usize| {
        let var = early.outs()[i] as usize;
        var.checked_sub(first).map_or(Site::NONE, |k| early.site(k))
    };
    let keep = |(i, value)| if i < count { Ok(value) } else { keep(value) };
    let results: Result<Vec<Value>> = results.into_iter().enumerate().map(keep).collect();
    Ok((results?.into_iter().enumerate())
        .map(|(i, value)| Array(Node::known_at(value, site(i))))
        .collect())
}

/// The residuals of a pullback: what was kept, and lazy arrays of it where only some cotangents need them.
fn residuals(deferred: &Deferred, kept: &[Array]) -> impl Iterator<Item = Array> {
    let later: Vec<Vec<Array>> = (deferred.later.iter())
        .map(|later| {
            let inputs: Vec<Array> = later.inputs.iter().map(|&i| kept[i].clone()).collect();
            Array::call(&later.program, &inputs)
        })
        .collect();
    (deferred.residuals.iter()).map(move |&source| match source {
        Source::Kept(i) => kept[i].clone(),
        Source::Later(group, output) => later[group][output].clone(),
    })
}

/// A value that may be kept: one that nobody can write to, and that does not hold much more memory
/// than it needs.
pub(super) fn keep(value: Value) -> Result<Value> {
    if value.is_remote() {
        return Ok(value);
    }
    let borrowed = value.storage().is_borrowed();
    if !borrowed && value.storage().len() <= 2 * value.aval().nbytes() + kernels::ALIGN {
        return Ok(value);
    }
    if borrowed {
        note(|counts| counts.bytes_copied += value.aval().nbytes() as u64);
    }
    sched::copied(&value)
}

impl Array {
    /// What a leaf copies.
    fn source(&self) -> Array {
        self.0
            .inputs()
            .first()
            .cloned()
            .unwrap_or_else(|| self.clone())
    }
}

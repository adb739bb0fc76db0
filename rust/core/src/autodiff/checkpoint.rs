//! Checkpoints: what a function computes on its way is computed again when the reverse pass needs it,
//! instead of being kept.
//!
//! The function is traced into a program, and equations `custom`, one for each result, refer to it.
//! Its reverse rule writes the program once more behind barriers that wait for the cotangents, and
//! then the program's own reverse pass. What a policy keeps is taken from the first time.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use crate::array::Array;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Cost, Custom, Params, V, Var};
use crate::program::{Eqn, Program, Splice};
use crate::tape::Recording;
use crate::tape::close::{ClosedProgram, close};
use crate::transform::{Vjp, jvp, vjp};

/// What a checkpoint keeps besides its arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// Nothing.
    Nothing,
    /// The results of matrix products and whatever else takes more than one pass over its arguments.
    Products,
    /// What [`name`] gave one of these names.
    Named(Vec<String>),
    /// At most this many bytes, chosen so that the longest piece that is computed again is as cheap
    /// as possible.
    Budget(usize),
}

thread_local! {
    /// What has been named, for each checkpoint that is being traced.
    static NAMED: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// The names in a checkpoint.
struct Frame {
    /// Those that its policy keeps.
    wanted: Vec<String>,
    /// What was given one. What is held constant is there anyway; only that it has a name matters.
    found: Vec<(String, Option<Array>)>,
}

/// Gives a value a name, for [`Policy::Named`] of the checkpoints around it.
#[must_use]
pub fn name(x: &Array, name: &str) -> Array {
    note_name(name, Some(x));
    x.clone()
}

/// Notes that a name was given; to nothing that is differentiated, if there is no array.
pub fn note_name(name: &str, x: Option<&Array>) {
    NAMED.with_borrow_mut(|frames| {
        if let Some(frame) = frames.last_mut() {
            frame.found.push((name.into(), x.cloned()));
        }
    });
}

/// Whether names matter: a checkpoint is being traced.
pub fn names_matter() -> bool {
    NAMED.with_borrow(|frames| !frames.is_empty())
}

/// Traces one call of a function whose intermediate values are not kept.
#[derive(Debug)]
pub struct Checkpoint {
    label: String,
    policy: Policy,
    recording: Recording,
    sources: Vec<Array>,
    leaves: Vec<Array>,
    /// Whether its frame of names is still there.
    open: bool,
}

/// What was traced: the program to its results and to what is named, and which of that is wanted.
struct Traced {
    closed: ClosedProgram,
    /// For each name that a policy around this one keeps, its variable.
    outer: Vec<(String, Var)>,
    /// The variables that its own policy keeps.
    own: Vec<Var>,
    /// All names, for the policies around this one.
    names: Vec<String>,
}

impl Checkpoint {
    /// Starts with the arguments of the call.
    pub fn new(label: &str, args: &[&Array], policy: &Policy) -> Checkpoint {
        let recording = Recording::new();
        let wanted = match policy {
            Policy::Named(names) => names.clone(),
            _ => Vec::new(),
        };
        let found = Vec::new();
        NAMED.with_borrow_mut(|frames| frames.push(Frame { wanted, found }));
        Checkpoint {
            label: label.into(),
            policy: policy.clone(),
            leaves: args.iter().map(|x| recording.leaf(x)).collect(),
            recording,
            sources: args.iter().map(|&x| x.clone()).collect(),
            open: true,
        }
    }

    /// What the function is called with: equal to the arguments.
    pub fn args(&self) -> &[Array] {
        &self.leaves
    }

    fn named(&mut self) -> Vec<(String, Option<Array>)> {
        self.open = false;
        let frame = NAMED.with_borrow_mut(Vec::pop);
        frame.map(|f| f.found).unwrap_or_default()
    }

    /// The program from the leaves to the results and to what policies keep by name.
    fn close(&mut self, outs: &[Array]) -> Result<Traced> {
        let named = self.named();
        let own = match &self.policy {
            Policy::Named(names) => names.as_slice(),
            _ => &[],
        };
        if let Some(unknown) = own.iter().find(|n| named.iter().all(|(m, _)| m != *n)) {
            return Err(self.nothing_named(unknown, &named));
        }
        let around: Vec<String> = NAMED.with_borrow(|frames| {
            let wanted = frames.iter().flat_map(|f| &f.wanted);
            wanted.cloned().collect()
        });
        let (mut outputs, mut of_own, mut of_outer): (Vec<&Array>, Vec<usize>, Vec<_>) =
            (outs.iter().collect(), Vec::new(), Vec::new());
        for (name, array) in &named {
            let Some(array) = array else { continue };
            if own.contains(name) {
                of_own.push(outputs.len());
            }
            if around.contains(name) {
                of_outer.push((name.clone(), outputs.len()));
            }
            if own.contains(name) || around.contains(name) {
                outputs.push(array);
            }
        }
        let closed = close(&outputs, Some((&self.leaves, self.recording.tag())))?;
        let all = &closed.program.outs;
        Ok(Traced {
            outer: of_outer.into_iter().map(|(n, i)| (n, all[i])).collect(),
            own: of_own.into_iter().map(|i| all[i]).collect(),
            names: named.into_iter().map(|(n, _)| n).collect(),
            closed,
        })
    }

    fn nothing_named(&self, unknown: &str, named: &[(String, Option<Array>)]) -> Error {
        let mut there: Vec<String> = named.iter().map(|(n, _)| format!("{n:?}")).collect();
        there.dedup();
        let there = if there.is_empty() {
            "nothing has a name; give one with name(x, \"...\")".into()
        } else {
            format!("there are: {}", there.join(", "))
        };
        Error::Program(format!(
            "checkpoint {}: nothing in it is named {unknown:?}; {there}",
            self.label
        ))
    }

    /// Ends with the results of the function; gives those of the call, and the program that was traced,
    /// for [`Checkpoint::compare`].
    pub fn finish(mut self, outs: &[Array]) -> Result<(Vec<Array>, Program)> {
        let found = self.close(outs)?;
        let traced = found.closed.program;
        let mut inputs: Vec<&Array> = self.sources.iter().collect();
        // What the function closes over takes part like an argument.
        inputs.extend(&found.closed.inputs[self.leaves.len()..]);
        for name in &found.names {
            note_name(name, None);
        }
        if inputs.is_empty() {
            return Ok((outs.to_vec(), traced));
        }
        let first = traced.num_inputs() as Var;
        let mut program = traced.clone();
        program.outs.truncate(outs.len());
        program.outputs.truncate(outs.len());
        let mut kept = match &self.policy {
            Policy::Nothing => Vec::new(),
            Policy::Products => products(&program),
            Policy::Named(_) => found.own,
            Policy::Budget(bytes) => affordable(&program, *bytes),
        };
        // What is kept around this call is a further result of it: there it is found again.
        for (_, var) in found.outer.iter().filter(|(_, v)| *v >= first) {
            program.outs.push(*var);
            program.outputs.push("".into());
            kept.push(*var);
        }
        // Inputs are there anyway.
        kept.retain(|&v| v >= first);
        kept.sort_unstable();
        kept.dedup();
        let rule: Arc<dyn Custom> = Arc::new(Rematerialized {
            label: self.label.clone(),
            program: Arc::new(program),
            results: outs.len(),
            kept,
            backward: Arc::default(),
        });
        let result = |output: usize| {
            let rule = Arc::clone(&rule);
            Array::apply(ops::CUSTOM, Params::Custom { rule, output }, &inputs)
        };
        let mut further = outs.len();
        for (name, var) in &found.outer {
            if *var < first {
                note_name(name, Some(inputs[*var as usize]));
            } else {
                note_name(name, Some(&result(further)?));
                further += 1;
            }
        }
        let results = (outs.iter().enumerate())
            .map(|(output, known)| {
                let out = result(output)?;
                if let Some(value) = known.value() {
                    out.0.set_value(value.clone());
                }
                Ok(out)
            })
            .collect::<Result<_>>()?;
        Ok((results, traced))
    }

    /// Ends a second call, which has to do what the first one did.
    pub fn compare(mut self, outs: &[Array], first: &Program) -> Result<()> {
        let found = self.close(outs)?;
        if found.closed.program.same_but_for_calls(first) {
            return Ok(());
        }
        Err(Error::Program(format!(
            "checkpoint {}: the function did something else when it ran again; it must not depend on \
             what it or other code changes",
            self.label
        )))
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if self.open {
            self.named();
        }
    }
}

/// Applies a function without keeping what it computes on its way: the reverse pass computes it again.
/// Gradients are the same, up to the order in which sums are added up.
///
/// ```
/// use cotan::autodiff::{Policy, checkpoint};
/// use cotan::{Arg, Array, pullback};
///
/// let x = Array::from_slice(&[1000], &vec![0.5; 1000])?;
/// let f = |x: &[Array]| {
///     let chain = |x: &[Array]| Ok(vec![x[0].sin()?.exp()?.sin()?.exp()?]);
///     checkpoint("chain", chain, &Policy::Nothing, &[&x[0]])?[0].sum(..)
/// };
/// let (_, back) = pullback(f, &[Arg::from(&x)])?;
/// assert_eq!(back.nbytes(), x.nbytes());
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn checkpoint<F>(label: &str, f: F, policy: &Policy, args: &[&Array]) -> Result<Vec<Array>>
where
    F: FnOnce(&[Array]) -> Result<Vec<Array>>,
{
    let call = Checkpoint::new(label, args, policy);
    let outs = f(call.args())?;
    Ok(call.finish(&outs)?.0)
}

/// Results that are dear enough to be kept by [`Policy::Products`].
fn products(program: &Program) -> Vec<Var> {
    let heavy = |k: &usize| program.eqns[*k].prim.0.cost == Cost::Heavy;
    (0..program.eqns.len())
        .filter(heavy)
        .map(|k| program.result(k))
        .collect()
}

/// Estimated work of an equation, in elementary operations.
fn work(program: &Program, eqn: &Eqn, out: &Aval) -> f64 {
    let args = program.args(eqn);
    let reads = args.iter().map(|&a| program.aval(a).size()).max();
    let size = out.size().max(reads.unwrap_or(0)) as f64;
    match eqn.prim.0.cost {
        Cost::Free => 0.0,
        Cost::Cheap => size,
        Cost::Dear => 20.0 * size,
        Cost::Heavy => {
            let inner = args.first().and_then(|&a| program.aval(a).shape.last());
            out.size() as f64 * inner.map_or(1.0, |&n| n as f64)
        }
    }
}

/// What to keep within so many bytes. A result is kept when it and what has to be computed again to
/// have it cost more, per byte, than a threshold, which is as low as the budget allows: of a chain of
/// equal steps it keeps every n-th.
fn affordable(program: &Program, budget: usize) -> Vec<Var> {
    let choose = |threshold: f64| {
        let mut again = vec![0.0f64; program.num_vars()];
        let mut kept = Vec::new();
        let mut bytes = 0;
        for (k, eqn) in program.eqns.iter().enumerate() {
            let var = program.result(k);
            let aval = program.aval(var);
            let args = program.args(eqn).iter();
            let cost = work(program, eqn, aval) + args.map(|&a| again[a as usize]).sum::<f64>();
            let free = eqn.prim.0.cost == Cost::Free;
            if !free && cost > threshold * aval.nbytes() as f64 {
                kept.push(var);
                bytes += aval.nbytes();
            } else {
                // A value that is used twice is computed again once: bounded, so that chains of
                // squares do not overflow.
                again[var as usize] = cost.min(1e30);
            }
        }
        (kept, bytes)
    };
    let (mut low, mut high) = (0.0f64, 1.0f64);
    let fits = |threshold: f64| choose(threshold).1 <= budget;
    if fits(0.0) {
        return choose(0.0).0;
    }
    while !fits(high) && high < 1e30 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..24 {
        let middle = f64::midpoint(low, high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    choose(high).0
}

/// The rule of a checkpoint: the function again, then its reverse pass.
#[derive(Clone)]
struct Rematerialized {
    label: String,
    /// Inputs: the arguments, then what was closed over.
    program: Arc<Program>,
    /// How many outputs are results; the others are values that are kept around the call.
    results: usize,
    kept: Vec<Var>,
    backward: Arc<[OnceLock<Result<Vjp>>; 2]>,
}

impl Rematerialized {
    /// The reverse pass, from the results, or from all outputs: under a second derivative a cotangent of
    /// what is kept around the call arrives, too.
    fn backward(&self, from_all: bool) -> Result<&Vjp> {
        let kept = &self.backward[usize::from(from_all)];
        // Made outside of `get_or_init`: the child of a fork never meets it half made.
        let made = if let Some(made) = kept.get() {
            made
        } else {
            let mut program = (*self.program).clone();
            if !from_all {
                program.outs.truncate(self.results);
                program.outputs.truncate(self.results);
            }
            let new = vjp(&program, &vec![true; program.num_inputs()]);
            kept.get_or_init(|| new)
        };
        made.as_ref().map_err(Clone::clone)
    }
}

impl Custom for Rematerialized {
    fn name(&self) -> &str {
        &self.label
    }

    fn num_outputs(&self) -> usize {
        self.program.outs.len()
    }

    fn infer(&self, x: &[&Aval], output: usize) -> Result<Aval> {
        let program = &self.program;
        let same =
            x.len() == program.num_inputs() && (0..x.len()).all(|i| x[i] == program.aval(i as Var));
        match program.outs.get(output) {
            Some(&out) if same => Ok(program.aval(out).clone()),
            _ => Err(Error::Program(format!(
                "checkpoint {}: it was traced for other arguments; trace it anew",
                self.label
            ))),
        }
    }

    fn lower<'e>(&self, x: &[V<'e>], wanted: &[bool]) -> Vec<Option<V<'e>>> {
        let outs = wanted.iter().enumerate();
        let outs = outs.map(|(i, &wanted)| wanted.then_some(i));
        Splice::new(&self.program, x[0], x).outputs(outs)
    }

    fn vjp<'e>(
        &self,
        x: &[V<'e>],
        y: &[Option<V<'e>>],
        cts: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>> {
        let backward = self.backward(cts[self.results..].iter().any(Option::is_some))?;
        let to = x[0];
        // What is kept: a result of the call, or merged with the first time, because it is written in
        // the same way.
        let mut first = Splice::new(&self.program, to, x);
        for (&out, &y) in self.program.outs.iter().zip(y) {
            if let Some(y) = y.filter(|_| !first.has(out)) {
                first.set(out, y);
            }
        }
        let kept = first.variables(&self.kept);
        let arrived: Vec<V<'e>> = (cts.iter().flatten())
            .map(|ct| ct.apply(ops::DROPGRAD, Params::None, &[]))
            .collect();
        let later = |v: V<'e>| v.apply(ops::BARRIER, Params::None, &arrived);
        let inputs: Vec<V<'e>> = x.iter().map(|&v| later(v)).collect();
        let mut again = Splice::new(&backward.program, to, &inputs);
        for (slot, &ct) in backward.cotangents.iter().zip(cts) {
            if let Some(slot) = *slot {
                again.set_or_zero(slot as Var, ct);
            }
        }
        let shift = backward.cotangents.iter().flatten().count() as Var;
        for (&var, &v) in self.kept.iter().zip(&kept) {
            again.set(var + shift, later(v));
        }
        let outs = backward.gradients.iter().zip(wanted);
        Ok(again.outputs(outs.map(|(slot, &wanted)| slot.filter(|_| wanted))))
    }

    fn jvp<'e>(
        &self,
        x: &[V<'e>],
        t: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>> {
        // Forwards, nothing is kept anyway.
        let marked: Vec<bool> = t.iter().map(Option::is_some).collect();
        let forward = jvp(&self.program, &marked)?;
        let mut splice = Splice::new(&forward.program, x[0], x);
        for (slot, t) in forward.tangents.iter().zip(t) {
            if let (Some(slot), Some(t)) = (*slot, *t) {
                splice.set(slot as Var, t);
            }
        }
        let outs = forward.results.iter().zip(wanted);
        Ok(splice.outputs(outs.map(|(slot, &wanted)| slot.filter(|_| wanted))))
    }

    fn again(&self) -> Arc<dyn Custom> {
        Arc::new(self.clone())
    }

    fn host_calls(&self) -> Vec<String> {
        self.program.host_calls()
    }

    fn key(&self) -> u64 {
        self.program.structural_hash() ^ self.kept.len() as u64
    }

    fn same(&self, other: &dyn Custom) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Rematerialized>().is_some_and(|o| {
            self.label == o.label
                && self.kept == o.kept
                && self.results == o.results
                && self.program.same_structure(&o.program)
        })
    }
}

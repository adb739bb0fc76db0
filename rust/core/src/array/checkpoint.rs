//! Checkpoints: what a function computes on its way is computed again when the reverse pass needs it,
//! instead of being kept.
//!
//! The function is traced into a program, and equations `custom`, one for each result, refer to it.
//! Its reverse rule writes the program once more behind barriers that wait for the cotangents, and
//! then the program's own reverse pass. What a policy keeps is taken from the first time.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use super::close::{Closed, close};
use super::{Array, Recording};
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Cost, Custom, Params, V, Var};
use crate::program::{Eqn, Program};
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
    /// What has been named, for each function that is being traced.
    static NAMED: RefCell<Vec<Vec<(String, Array)>>> = const { RefCell::new(Vec::new()) };
}

/// Gives a value a name, for [`Policy::Named`] of the innermost checkpoint around it.
#[must_use]
pub fn name(x: &Array, name: &str) -> Array {
    NAMED.with_borrow_mut(|frames| {
        if let Some(frame) = frames.last_mut() {
            frame.push((name.into(), x.clone()));
        }
    });
    x.clone()
}

/// Traces one call of a function whose intermediate values are not kept.
#[derive(Debug)]
pub struct Checkpoint {
    label: String,
    recording: Recording,
    sources: Vec<Array>,
    leaves: Vec<Array>,
    /// Whether its frame of names is still there.
    open: bool,
}

impl Checkpoint {
    /// Starts with the arguments of the call.
    pub fn new(label: &str, args: &[&Array]) -> Checkpoint {
        let recording = Recording::new();
        NAMED.with_borrow_mut(|frames| frames.push(Vec::new()));
        Checkpoint {
            label: label.into(),
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

    fn named(&mut self) -> Vec<(String, Array)> {
        self.open = false;
        NAMED.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// The program from the leaves to the results and what is named, and the names' variables.
    fn close(&mut self, outs: &[Array], policy: &Policy) -> Result<(Closed, Vec<Var>)> {
        let mut named = self.named();
        match policy {
            Policy::Named(names) => {
                if let Some(unknown) = names.iter().find(|n| named.iter().all(|(m, _)| m != *n)) {
                    return Err(self.nothing_named(unknown, &named));
                }
                named.retain(|(n, _)| names.contains(n));
            }
            _ => named.clear(),
        }
        let outputs: Vec<&Array> = outs.iter().chain(named.iter().map(|(_, a)| a)).collect();
        let closed = close(&outputs, Some((&self.leaves, self.recording.tag())))?;
        let inputs = closed.program.num_inputs() as Var;
        let marked = closed.program.outs[outs.len()..].iter().copied();
        // Inputs are there anyway.
        let marked = marked.filter(|&v| v >= inputs).collect();
        Ok((closed, marked))
    }

    fn nothing_named(&self, unknown: &str, named: &[(String, Array)]) -> Error {
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
    pub fn finish(mut self, outs: &[Array], policy: &Policy) -> Result<(Vec<Array>, Program)> {
        let (closed, marked) = self.close(outs, policy)?;
        let traced = closed.program;
        let mut inputs: Vec<&Array> = self.sources.iter().collect();
        // What the function closes over takes part like an argument.
        inputs.extend(&closed.inputs[self.leaves.len()..]);
        if inputs.is_empty() {
            return Ok((outs.to_vec(), traced));
        }
        let mut program = traced.clone();
        program.outs.truncate(outs.len());
        program.outputs.truncate(outs.len());
        let kept = match policy {
            Policy::Nothing => Vec::new(),
            Policy::Products => products(&program),
            Policy::Named(_) => marked,
            Policy::Budget(bytes) => affordable(&program, *bytes),
        };
        let rule: Arc<dyn Custom> = Arc::new(Rematerialized {
            label: self.label.clone(),
            program: Arc::new(program),
            kept,
            backward: Arc::default(),
        });
        let results = (outs.iter().enumerate())
            .map(|(output, known)| {
                let rule = Arc::clone(&rule);
                let out = Array::apply(ops::CUSTOM, Params::Custom { rule, output }, &inputs)?;
                if let Some(value) = known.value() {
                    out.0.set_value(value.clone());
                }
                Ok(out)
            })
            .collect::<Result<_>>()?;
        Ok((results, traced))
    }

    /// Ends a second call, which has to do what the first one did.
    pub fn compare(mut self, outs: &[Array], policy: &Policy, first: &Program) -> Result<()> {
        let (closed, _) = self.close(outs, policy)?;
        if closed.program.same_but_for_calls(first) {
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
/// use cotan::array::{Policy, checkpoint};
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
    let call = Checkpoint::new(label, args);
    let outs = f(call.args())?;
    Ok(call.finish(&outs, policy)?.0)
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
    kept: Vec<Var>,
    backward: Arc<OnceLock<Result<Vjp>>>,
}

impl Rematerialized {
    fn inputs(&self, x: &[V<'_>]) -> Vec<Var> {
        let mut map = vec![Var::MAX; self.program.num_vars()];
        for (slot, v) in map.iter_mut().zip(x) {
            *slot = v.var;
        }
        map
    }

    fn backward(&self) -> Result<&Vjp> {
        let all = || vjp(&self.program, &vec![true; self.program.num_inputs()]);
        self.backward
            .get_or_init(all)
            .as_ref()
            .map_err(Clone::clone)
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
        let outs = &self.program.outs;
        let needed: Vec<Var> = (outs.iter().zip(wanted))
            .filter_map(|(&v, &wanted)| wanted.then_some(v))
            .collect();
        let mut map = self.inputs(x);
        self.program.write(x[0], &mut map, &needed);
        (outs.iter().zip(wanted))
            .map(|(&v, &wanted)| wanted.then(|| x[0].with(map[v as usize])))
            .collect()
    }

    fn vjp<'e>(
        &self,
        x: &[V<'e>],
        cts: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>> {
        let backward = self.backward()?;
        let to = x[0];
        // What is kept: merged with the first time, because it is written in the same way.
        let mut first = self.inputs(x);
        self.program.write(to, &mut first, &self.kept);
        let arrived: Vec<V<'e>> = (cts.iter().flatten())
            .map(|ct| ct.apply(ops::DROPGRAD, Params::None, &[]))
            .collect();
        let joint = &backward.program;
        let mut map = vec![Var::MAX; joint.num_vars()];
        let later = |v: Var| to.with(v).apply(ops::BARRIER, Params::None, &arrived).var;
        for (slot, v) in map.iter_mut().zip(x) {
            *slot = later(v.var);
        }
        for ((slot, ct), &out) in backward.cotangents.iter().zip(cts).zip(&self.program.outs) {
            if let Some(slot) = *slot {
                let aval = self.program.aval(out);
                let zero = || {
                    let zero = to.with(to.emit.number(aval.dtype, 0.0));
                    zero.broadcast_to(&aval.shape)
                };
                map[slot] = ct.unwrap_or_else(zero).var;
            }
        }
        let shift = backward.cotangents.iter().flatten().count();
        for &v in &self.kept {
            map[v as usize + shift] = later(first[v as usize]);
        }
        let outs: Vec<Option<Var>> = (backward.gradients.iter().zip(wanted))
            .map(|(g, &wanted)| g.filter(|_| wanted).map(|g| joint.outs[g]))
            .collect();
        let needed: Vec<Var> = outs.iter().flatten().copied().collect();
        joint.write(to, &mut map, &needed);
        Ok((outs.iter())
            .map(|v| v.map(|v| to.with(map[v as usize])))
            .collect())
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
        let mut map = vec![Var::MAX; forward.program.num_vars()];
        for (slot, v) in map.iter_mut().zip(x) {
            *slot = v.var;
        }
        for (slot, t) in forward.tangents.iter().zip(t) {
            if let (Some(slot), Some(t)) = (slot, t) {
                map[*slot] = t.var;
            }
        }
        let outs: Vec<Option<Var>> = (forward.results.iter().zip(wanted))
            .map(|(r, &wanted)| r.filter(|_| wanted).map(|r| forward.program.outs[r]))
            .collect();
        let needed: Vec<Var> = outs.iter().flatten().copied().collect();
        forward.program.write(x[0], &mut map, &needed);
        Ok((outs.iter())
            .map(|v| v.map(|v| x[0].with(map[v as usize])))
            .collect())
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
            self.label == o.label && self.kept == o.kept && self.program.same_structure(&o.program)
        })
    }
}

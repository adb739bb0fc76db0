//! Traces a custom rule once, so that its tangents or cotangents become equations of a program.

use std::sync::{Arc, OnceLock};

use super::custom_prim::{Call, Forward, Traced, transpose};
use super::linearity::{fault, is_zero};
use crate::array::Array;
use crate::array::force::values;
use crate::aval::{Aval, broadcast, tuple};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Custom, Params, V, Var};
use crate::program::{Program, Splice};
use crate::tape::Recording;
use crate::tape::close::close;
use crate::tape::node::{Number, Op};

/// Traces one call of a function with a rule of its own.
///
/// First the function is called with [`Tracer::args`]. For a reverse rule its results go to
/// [`Tracer::cotangents`], which gives what the pullback is called with, and the pullback's results to
/// [`Tracer::reverse`]. For a forward rule [`Tracer::tangents`] come first, and [`Tracer::forward`] last.
#[derive(Debug)]
pub struct Tracer {
    /// What sort of rule it is, and its name: what errors start with.
    kind: &'static str,
    name: String,
    recording: Recording,
    sources: Vec<Array>,
    labels: Vec<String>,
    /// Stand for the arguments; then the cotangents or tangents.
    leaves: Vec<Array>,
    outs: Vec<Array>,
    /// For each output (reverse) or argument (forward), which leaf is its cotangent or tangent.
    linear: Vec<Option<usize>>,
    passes: bool,
}

impl Tracer {
    /// Starts with the arguments of the call.
    pub fn new(name: &str, args: &[&Array]) -> Result<Tracer> {
        if args.is_empty() {
            return Err(Error::Program(format!(
                "custom rule {name}: it has no argument to differentiate"
            )));
        }
        let recording = Recording::new();
        Ok(Tracer {
            kind: "custom rule",
            name: name.into(),
            leaves: args.iter().map(|x| recording.leaf(x)).collect(),
            recording,
            sources: args.iter().map(|&x| x.clone()).collect(),
            labels: (0..args.len()).map(|i| format!("argument {i}")).collect(),
            outs: Vec::new(),
            linear: Vec::new(),
            passes: false,
        })
    }

    /// What errors call a rule of this sort.
    #[must_use]
    pub fn called(mut self, kind: &'static str) -> Tracer {
        self.kind = kind;
        self
    }

    /// Says that the rule only looks at cotangents, and gives its arguments back: tangents pass as they are.
    #[must_use]
    pub fn passing(mut self) -> Tracer {
        self.passes = true;
        self
    }

    fn who(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    /// What errors call the arguments.
    #[must_use]
    pub fn labelled(mut self, labels: Vec<String>) -> Tracer {
        self.labels = labels;
        self
    }

    /// What the function is called with: equal to the arguments.
    pub fn args(&self) -> &[Array] {
        &self.leaves[..self.sources.len()]
    }

    /// The tangents that a forward rule is called with; `None` for arguments that have none.
    pub fn tangents(&mut self) -> Vec<Option<Array>> {
        let avals: Vec<Aval> = self.sources.iter().map(|a| a.aval().clone()).collect();
        self.placeholders(&avals)
    }

    /// The cotangents that the pullback is called with, given the results of the function; `None` for
    /// results that have none.
    pub fn cotangents(&mut self, outs: Vec<Array>) -> Vec<Option<Array>> {
        let avals: Vec<Aval> = outs.iter().map(|a| a.aval().clone()).collect();
        self.outs = outs;
        self.placeholders(&avals)
    }

    fn placeholders(&mut self, avals: &[Aval]) -> Vec<Option<Array>> {
        (avals.iter())
            .map(|aval| {
                let has = aval.dtype.is_inexact();
                self.linear.push(has.then_some(self.leaves.len()));
                let leaf = has.then(|| self.recording.placeholder(aval))?;
                self.leaves.push(leaf.clone());
                Some(leaf)
            })
            .collect()
    }

    /// Ends a reverse rule with the cotangents of the arguments; gives the results of the call.
    pub fn reverse(self, cts: &[Option<Array>]) -> Result<Vec<Array>> {
        let count = self.sources.len();
        if cts.len() != count {
            return Err(Error::Program(format!(
                "{}: its pullback gave {} cotangents for {count} arguments; give one for each, None for \
                 those without influence",
                self.who(),
                cts.len(),
            )));
        }
        let who = self.who();
        let cts: Vec<Option<Array>> = (0..count)
            .map(|i| {
                let (label, of) = (&self.labels[i], self.sources[i].aval());
                let ct = cts[i].as_ref();
                ct.map(|ct| project(&who, "cotangent", label, ct, of))
                    .transpose()
            })
            .collect::<Result<_>>()?;
        let (program, captured) = self.close(&cts)?;
        let traced = Traced {
            kind: self.kind,
            name: self.name.clone(),
            args: count,
            outs: self.outs.len(),
            cts: self.linear.clone(),
            gradients: numbered(&cts, self.outs.len()),
            program,
            passes: self.passes,
            forward: OnceLock::new(),
        };
        self.applied(traced, &captured)
    }

    /// Ends a forward rule with the results of the function and their tangents; gives the results of
    /// the call.
    pub fn forward(mut self, outs: Vec<Array>, tangents: &[Option<Array>]) -> Result<Vec<Array>> {
        let (who, count) = (self.who(), self.sources.len());
        if tangents.len() != outs.len() {
            return Err(Error::Program(format!(
                "{who}: it gave {} tangents for {} results; give one for each, None for zero",
                tangents.len(),
                outs.len(),
            )));
        }
        self.outs = outs;
        let tangents: Vec<Option<Array>> = (self.outs.iter().zip(tangents).enumerate())
            .map(|(i, (out, t))| {
                let label = match self.outs.len() {
                    1 => "the result".to_string(),
                    _ => format!("result {i}"),
                };
                let t = t.as_ref();
                t.map(|t| project(&who, "tangent", &label, t, out.aval()))
                    .transpose()
            })
            .collect::<Result<_>>()?;
        let (program, captured) = self.close(&tangents)?;
        let keep = self.outs.len();
        let linear = self.leaves.len() - count;
        let mut is_tangent = vec![false; program.num_inputs()];
        is_tangent[count..count + linear].fill(true);
        let late = program.depends_on(&is_tangent);
        if let Some(i) = (0..keep).find(|&i| late[program.outs()[i] as usize]) {
            return Err(Error::Program(format!(
                "{who}: result {i} depends on the tangents; compute it from the arguments alone"
            )));
        }
        let mut zeros = vec![false; count + linear];
        zeros.extend(captured.iter().map(|a| a.value().is_some_and(is_zero)));
        let not_linear = |why: &str| {
            Error::Program(format!(
                "{who}: the tangent of the result must be linear in the tangents of the arguments, but {why}"
            ))
        };
        if let Some(why) = fault(&program, &is_tangent, &zeros, keep)? {
            return Err(not_linear(&why));
        }
        let (reverse, found, reads) = transpose(&program, count, linear, keep, true)?;
        if reads {
            return Err(not_linear("its derivative depends on them"));
        }
        let mut next = count;
        let cts = (tangents.iter())
            .map(|t| {
                next += usize::from(t.is_some());
                t.is_some().then(|| next - 1)
            })
            .collect();
        let gradients = (self.linear.iter())
            .map(|slot| found[(*slot)? - count])
            .collect();
        let forward = Forward {
            program,
            tangents: self.linear.clone(),
            results: numbered(&tangents, keep),
        };
        let traced = Traced {
            kind: self.kind,
            name: self.name.clone(),
            args: count,
            outs: keep,
            cts,
            gradients,
            program: reverse,
            passes: false,
            forward: OnceLock::from(Ok(forward)),
        };
        self.applied(traced, &captured)
    }

    /// The program from the leaves to the results and what belongs to them, and what it captured.
    fn close(&self, behind: &[Option<Array>]) -> Result<(Program, Vec<Array>)> {
        let outputs: Vec<&Array> = self.outs.iter().chain(behind.iter().flatten()).collect();
        let closed = close(&outputs, Some((&self.leaves, self.recording.tag())))?;
        let captured = closed.inputs[self.leaves.len()..].to_vec();
        Ok((closed.program, captured))
    }

    /// The results of the call.
    fn applied(self, traced: Traced, captured: &[Array]) -> Result<Vec<Array>> {
        let who = self.who();
        // From here on what depends on the traced leaves only is not active any more.
        drop(self.recording);
        if let Some(active) = captured.iter().find(|a| a.is_active()) {
            return Err(Error::NotDifferentiable(format!(
                "{}: it uses an array ({}) that is being differentiated but is not among its arguments; \
                 pass it as one, or hold it constant with dropgrad()",
                who,
                active.aval()
            )));
        }
        let mut inputs: Vec<&Array> = self.sources.iter().collect();
        inputs.extend(captured);
        let rule: Arc<dyn Custom> = Arc::new(Call(Arc::new(traced)));
        (self.outs.iter().enumerate())
            .map(|(output, known)| {
                let rule = Arc::clone(&rule);
                let out = Array::apply(ops::CUSTOM, Params::Custom { rule, output }, &inputs)?;
                // What the rule has looked at need not be computed again.
                if let Some(value) = known.value() {
                    out.0.set_value(value.clone());
                }
                Ok(out)
            })
            .collect()
    }
}

/// A cotangent (or a tangent, as `what` says) as an array like what it belongs to: of its dtype, and the
/// real part of a complex cotangent where that is real. It has the shape already, or is the number 0.
/// Errors start with `rule` and name the argument.
pub fn project(rule: &str, what: &str, label: &str, given: &Array, of: &Aval) -> Result<Array> {
    if !of.dtype.is_inexact() {
        return Err(Error::DType(format!(
            "{rule}: {label} is {} and has no {what}; give None for it",
            of.dtype.numpy_name()
        )));
    }
    let real = given.dtype().is_complex() && !of.dtype.is_complex();
    if real && what == "tangent" {
        return Err(Error::DType(format!(
            "{rule}: {label} is {}, so its tangent is real, not {}",
            of.dtype.numpy_name(),
            given.dtype().numpy_name()
        )));
    }
    let fit = if real {
        Array::apply(ops::REAL, Params::None, &[given])?
    } else {
        given.clone()
    };
    let fit = fit.cast(of.dtype)?;
    if fit.shape() == of.shape.as_slice() {
        return Ok(fit);
    }
    if is_number_zero(given) {
        return fit.broadcast_to(&of.shape);
    }
    let instead = match broadcast(given.shape(), &of.shape) {
        Some(both) if both == of.shape => "; repeat it with broadcast_to",
        Some(both) if both.as_slice() == given.shape() => {
            "; where an argument is repeated, its cotangent is the sum along those axes"
        }
        _ => "",
    };
    Err(Error::Shape(format!(
        "{rule}: the {what} of {label} has shape {}, but {label} has {}{instead}",
        tuple(given.shape()),
        tuple(&of.shape)
    )))
}

/// Whether it is the number 0, written as one.
fn is_number_zero(array: &Array) -> bool {
    if !array.shape().is_empty() {
        return false;
    }
    match (&array.0.op, array.0.params.as_deref()) {
        (Op::Number(number), _) => *number == Number::Int(0) || number.as_f64() == Some(0.0),
        (Op::Prim(_), Some(Params::Literal { value, .. })) => value.re == 0.0 && value.im == 0.0,
        _ => false,
    }
}

/// Traces a function of arrays of which only dtypes and shapes are known, and writes what it gives behind
/// `x`, which stands for these arrays. Besides them it may use numbers, but no other arrays.
pub fn write_traced<'e>(
    name: &str,
    x: &[V<'e>],
    function: impl FnOnce(&[Array]) -> Result<Vec<Option<Array>>>,
) -> Result<Vec<Option<V<'e>>>> {
    let Some(&to) = x.first() else {
        return Err(Error::Program(format!("{name}: no arguments")));
    };
    let recording = Recording::new();
    let leaves: Vec<Array> = (x.iter())
        .map(|v| recording.placeholder(&v.aval()))
        .collect();
    let found = function(&leaves)?;
    let outputs: Vec<&Array> = found.iter().flatten().collect();
    let closed = close(&outputs, Some((&leaves, recording.tag())))?;
    let mut splice = Splice::new(&closed.program, to, x);
    let captured = values(&closed.inputs[x.len()..], &mut || false)?;
    for (value, input) in captured.iter().zip(x.len()..) {
        let number = value.item().ok_or_else(|| {
            Error::Program(format!(
                "{name}: its rule uses an array ({}) that is none of its arguments",
                value.aval()
            ))
        })?;
        let literal = Params::Literal {
            dtype: value.dtype(),
            value: number,
        };
        let literal = to.with(to.to.emit(ops::LITERAL, literal, &[]));
        splice.set(input as Var, literal.broadcast_to(value.shape()));
    }
    Ok(splice.outputs(numbered(&found, 0)))
}

/// For each of a list, its position among those that are there, counted from `first`.
fn numbered(list: &[Option<Array>], first: usize) -> Vec<Option<usize>> {
    let mut next = first;
    (list.iter())
        .map(|item| {
            next += usize::from(item.is_some());
            item.is_some().then(|| next - 1)
        })
        .collect()
}

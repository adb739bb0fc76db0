//! A traced function with a rule of its own as a primitive: how it is lowered, and both directions of it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::prim::{Custom, V, Var};
use crate::program::{Builder, Program, Splice};
use crate::transform::{reverse_only, vjp};

/// The transpose of the part of a program that is linear in the `linear` inputs behind the first `args`:
/// from a cotangent for each output behind the first `keep` to cotangents of these inputs. Its inputs are
/// the arguments, the cotangents, and what was captured; its outputs the kept ones, if they are asked
/// for, and the cotangents. A map that is not linear is taken at zero; the last of what is returned says
/// whether the transposed map depends on where it is taken, which that of a linear one does not.
pub(super) fn transpose(
    program: &Program,
    args: usize,
    linear: usize,
    keep: usize,
    with_kept: bool,
) -> Result<(Program, Vec<Option<usize>>, bool)> {
    let mut wrt = vec![false; program.num_inputs()];
    wrt[args..args + linear].fill(true);
    let both = vjp(program, &wrt)?;
    let mut is_linear = wrt.clone();
    is_linear.resize(both.program.num_inputs(), false);
    let late = both.program.depends_on(&is_linear);
    let transposed = &both.program.outs()[program.outs().len()..];
    let reads = transposed.iter().any(|&v| late[v as usize]);
    let builder = Builder::new();
    let mut inputs = vec![Var::MAX; both.program.num_inputs()];
    for (i, slot) in inputs[..args].iter_mut().enumerate() {
        *slot = builder.input("", program.aval(i as Var));
    }
    for (&out, slot) in program.outs()[keep..].iter().zip(&both.cotangents[keep..]) {
        let ct = builder.input("", program.aval(out));
        if let Some(slot) = *slot {
            inputs[slot] = ct;
        }
    }
    let captured = (args + linear)..program.num_inputs();
    for (i, slot) in captured.clone().zip(&mut inputs[captured]) {
        *slot = builder.input("", program.aval(i as Var));
    }
    for (i, slot) in inputs[args..args + linear].iter_mut().enumerate() {
        let aval = program.aval((args + i) as Var);
        let zero = builder.number(aval.dtype, 0.0);
        *slot = builder.value(zero).broadcast_to(&aval.shape).var();
    }
    let mut wanted = vec![true; both.program.outs().len()];
    wanted[..program.outs().len()].fill(false);
    wanted[..keep].fill(with_kept);
    let outs: Vec<Option<Var>> = builder.inline(&both.program, &inputs, &wanted);
    let mut at = vec![None; outs.len()];
    let mut vars = Vec::new();
    for (slot, out) in at.iter_mut().zip(&outs) {
        if let Some(out) = *out {
            *slot = Some(vars.len());
            vars.push(out);
        }
    }
    let gradients = both.gradients[args..args + linear].iter();
    let found = gradients.map(|g| at[(*g)?]).collect();
    Ok((builder.finish(vars)?.pruned(), found, reads))
}

/// A call of a traced function.
pub(super) struct Call(pub(super) Arc<Traced>);

/// A traced function and its traced pullback.
pub(super) struct Traced {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Number of the arguments proper.
    pub(super) args: usize,
    /// Number of the results.
    pub(super) outs: usize,
    /// For each result, which input of the program is its cotangent.
    pub(super) cts: Vec<Option<usize>>,
    /// Inputs: arguments, cotangents, captured arrays. Outputs: results, then cotangents.
    pub(super) program: Program,
    /// For each argument, which output is its cotangent.
    pub(super) gradients: Vec<Option<usize>>,
    /// Whether it only looks at cotangents, so that tangents pass as they are.
    pub(super) passes: bool,
    /// The other direction, made when it is asked for.
    pub(super) forward: OnceLock<Result<Forward>>,
}

/// The forward direction.
#[derive(Debug)]
pub(super) struct Forward {
    /// Inputs: arguments, tangents, captured arrays.
    pub(super) program: Program,
    /// For each argument, which input is its tangent.
    pub(super) tangents: Vec<Option<usize>>,
    /// For each result, which output is its tangent.
    pub(super) results: Vec<Option<usize>>,
}

impl Traced {
    fn forward(&self) -> Result<&Forward> {
        // Made outside of `get_or_init`: the child of a fork never meets it half made.
        let made = if let Some(made) = self.forward.get() {
            made
        } else {
            let new = self.make_forward();
            self.forward.get_or_init(|| new)
        };
        made.as_ref().map_err(Clone::clone)
    }

    /// For each argument with a cotangent, which input of the forward program is its tangent.
    fn tangent_inputs(&self) -> Vec<Option<usize>> {
        let mut next = self.args;
        (self.gradients.iter())
            .map(|g| {
                next += usize::from(g.is_some());
                g.is_some().then(|| next - 1)
            })
            .collect()
    }

    /// The forward direction of a function that gives arguments back as they are, and does something to their
    /// cotangents only: tangents pass as they are, too.
    fn identity(&self) -> Option<Forward> {
        let outs = &self.program.outs()[..self.outs];
        if outs.iter().any(|&v| v as usize >= self.args) {
            return None;
        }
        let tangents = self.tangent_inputs();
        let builder = Builder::new();
        for v in 0..self.args as Var {
            builder.input("", self.program.aval(v));
        }
        let pushed: Vec<Var> = (tangents.iter().enumerate())
            .filter(|(_, slot)| slot.is_some())
            .map(|(i, _)| builder.input("", self.program.aval(i as Var)))
            .collect();
        for v in self.args + self.cts.iter().flatten().count()..self.program.num_inputs() {
            builder.input("", self.program.aval(v as Var));
        }
        let results = outs
            .iter()
            .map(|&v| Some(tangents[v as usize]? - self.args));
        Some(Forward {
            results: results.collect(),
            program: builder.finish(pushed).ok()?,
            tangents,
        })
    }

    fn make_forward(&self) -> Result<Forward> {
        if self.passes
            && let Some(identity) = self.identity()
        {
            return Ok(identity);
        }
        let linear = self.cts.iter().flatten().count();
        let who = || format!("{} {}", self.kind, self.name);
        let (program, found, reads) = transpose(&self.program, self.args, linear, self.outs, false)
            .map_err(|error| reverse_only(&who(), error))?;
        if reads {
            if let Some(identity) = self.identity() {
                return Ok(identity);
            }
            return Err(Error::NotDifferentiable(format!(
                "{}: its pullback is not linear in the cotangent, so there is no tangent; use reverse mode (gradient, \
                 pullback, jacrev)",
                who()
            )));
        }
        let results = self.cts.iter().map(|slot| found[(*slot)? - self.args]);
        Ok(Forward {
            results: results.collect(),
            program,
            tangents: self.tangent_inputs(),
        })
    }

    /// Writes outputs of a program whose inputs are the arguments, those of `linear` (zero where there is
    /// none) in the places that `slots` says, and what was captured.
    fn write<'e>(
        &self,
        program: &Program,
        x: &[V<'e>],
        slots: &[Option<usize>],
        linear: &[Option<V<'e>>],
        outs: &[Option<usize>],
    ) -> Vec<Option<V<'e>>> {
        let (args, captured) = x.split_at(self.args);
        let mut splice = Splice::new(program, x[0], args);
        let first = program.num_inputs() - captured.len();
        for (i, &v) in captured.iter().enumerate() {
            splice.set((first + i) as Var, v);
        }
        for (slot, &v) in slots.iter().zip(linear) {
            if let Some(slot) = *slot {
                splice.set_or_zero(slot as Var, v);
            }
        }
        splice.outputs(outs.iter().copied())
    }
}

/// Those that are wanted.
fn only(list: &[Option<usize>], wanted: &[bool]) -> Vec<Option<usize>> {
    let both = list.iter().zip(wanted);
    both.map(|(item, &wanted)| item.filter(|_| wanted))
        .collect()
}

impl Custom for Call {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn num_outputs(&self) -> usize {
        self.0.outs
    }

    fn infer(&self, x: &[&Aval], output: usize) -> Result<Aval> {
        let program = &self.0.program;
        let linear = self.0.cts.iter().flatten().count();
        if x.len() + linear != program.num_inputs() || output >= self.0.outs {
            let wanted = program.num_inputs() - linear;
            return Err(Error::Program(format!(
                "{} {}: takes {wanted} arguments and has {} results; {} given, for result {output}",
                self.0.kind,
                self.0.name,
                self.0.outs,
                x.len()
            )));
        }
        for (i, aval) in x.iter().enumerate() {
            let behind = if i >= self.0.args { linear } else { 0 };
            let wanted = program.aval((i + behind) as Var);
            if *aval != wanted {
                return Err(Error::Shape(format!(
                    "{} {}: argument {i} was {wanted} when it was traced, not {aval}; trace it anew",
                    self.0.kind, self.0.name
                )));
            }
        }
        Ok(program.aval(program.outs()[output]).clone())
    }

    fn lower<'e>(&self, x: &[V<'e>], wanted: &[bool]) -> Vec<Option<V<'e>>> {
        let all: Vec<Option<usize>> = (0..self.0.outs).map(Some).collect();
        self.0
            .write(&self.0.program, x, &[], &[], &only(&all, wanted))
    }

    fn vjp<'e>(
        &self,
        x: &[V<'e>],
        _: &[Option<V<'e>>],
        cts: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>> {
        let outs = only(&self.0.gradients, wanted);
        let mut found = self.0.write(&self.0.program, x, &self.0.cts, cts, &outs);
        found.resize(x.len(), None);
        Ok(found)
    }

    fn jvp<'e>(
        &self,
        x: &[V<'e>],
        t: &[Option<V<'e>>],
        wanted: &[bool],
    ) -> Result<Vec<Option<V<'e>>>> {
        let forward = self.0.forward()?;
        let outs = only(&forward.results, wanted);
        Ok(self
            .0
            .write(&forward.program, x, &forward.tangents, t, &outs))
    }

    fn again(&self) -> Arc<dyn Custom> {
        Arc::new(Call(Arc::clone(&self.0)))
    }

    fn host_calls(&self) -> Vec<String> {
        self.0.program.host_calls()
    }

    fn key(&self) -> u64 {
        self.0.program.structural_hash()
    }

    fn same(&self, other: &dyn Custom) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Call>().is_some_and(|Call(o)| {
            Arc::ptr_eq(&self.0, o)
                || self.0.name == o.name
                    && self.0.args == o.args
                    && self.0.outs == o.outs
                    && self.0.cts == o.cts
                    && self.0.gradients == o.gradients
                    && self.0.program.same_structure(&o.program)
        })
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:\n{}", self.kind, self.name, self.program)
    }
}

//! Derivatives and batches of loops, which are loops again.
//!
//! The reverse pass goes through the steps from the last to the first. It carries the cotangents of what the
//! loop carries, and sums of those of what is the same in all steps; it scans what the carries were before
//! each step, and computes the rest of a step again.

use std::sync::Arc;

use super::mapped_calls::with_batch;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Params, V, Var};
use crate::program::{Builder, End, Loop, LoopOutput, Program, stacked};

/// What a pass makes of a body: the program with cotangents or tangents behind it, and the places of these among its
/// inputs and outputs. Of the reverse pass, first for each output which input is its cotangent, then for each input
/// which output is; of the forward pass, first for each input which input is its tangent, then for each output which
/// output is.
pub(crate) type Derived = (Program, Vec<Option<usize>>, Vec<Option<usize>>);
/// A pass over a body, with respect to the marked inputs. It is handed in, since the pass itself comes to loops.
pub(crate) type Pass = fn(&Program, &[bool]) -> Result<Derived>;

/// An output of a loop on these arguments.
pub(super) fn apply<'e>(of: &Arc<Loop>, x: &[V<'e>], output: LoopOutput) -> V<'e> {
    let params = Params::Loop {
        of: Arc::clone(of),
        output: of.number(output),
    };
    let vars: Vec<Var> = x.iter().map(|v| v.var()).collect();
    x[0].with(x[0].to.emit(ops::LOOP, params, &vars))
}

/// Arguments for a loop whose body is being written: in three parts, in the order in which it takes them.
struct Arguments<'e, 'b> {
    builder: &'b Builder,
    length: usize,
    carried: Vec<V<'e>>,
    scanned: Vec<V<'e>>,
    shared: Vec<V<'e>>,
}

impl<'e, 'b> Arguments<'e, 'b> {
    fn new(builder: &'b Builder, length: usize) -> Arguments<'e, 'b> {
        Arguments {
            builder,
            length,
            carried: Vec::new(),
            scanned: Vec::new(),
            shared: Vec::new(),
        }
    }

    /// An input of the body, carried from this value on.
    fn carry(&mut self, x: V<'e>) -> Var {
        debug_assert!(self.scanned.is_empty() && self.shared.is_empty());
        self.carried.push(x);
        self.builder.input("", &x.aval())
    }

    /// One that is a slice of this array, and looks like this.
    fn scan(&mut self, x: V<'e>, slice: &Aval) -> Var {
        debug_assert!(self.shared.is_empty() && x.aval() == stacked(slice, self.length));
        self.scanned.push(x);
        self.builder.input("", slice)
    }

    /// One that is the same in all steps.
    fn share(&mut self, x: V<'e>) -> Var {
        self.shared.push(x);
        self.builder.input("", &x.aval())
    }

    /// The loop's arguments, and how many are carried and scanned.
    fn finish(self) -> (Vec<V<'e>>, usize, usize) {
        let (carried, scanned) = (self.carried.len(), self.scanned.len());
        let all = self.carried.into_iter().chain(self.scanned);
        (all.chain(self.shared).collect(), carried, scanned)
    }
}

/// The cotangents of the wanted arguments `x`, given those of the outputs.
pub(super) fn pull<'e>(
    of: &Arc<Loop>,
    x: &[V<'e>],
    cts: &[Option<V<'e>>],
    wanted: &[bool],
    vjp: Pass,
) -> Result<Vec<Option<V<'e>>>> {
    let (body, carries) = (of.body(), of.carries);
    let inputs = body.num_inputs();
    let marks = (0..inputs).map(|i| wanted[i] && body.aval(i as Var).dtype.is_inexact());
    let varies = of.spread(marks.collect(), |marks| body.varies_with(marks));
    let before = |j: usize| cts[of.number(LoopOutput::Before(j))];

    // Which outputs of a step have a cotangent: carries also where a later step gives them one.
    let mut lives: Vec<bool> = (0..body.outs().len())
        .map(|o| {
            if o < carries {
                varies[o] && (cts[o].is_some() || before(o).is_some())
            } else {
                cts[o].is_some()
            }
        })
        .collect();
    loop {
        let needed = body.needed(&lives);
        let more: Vec<usize> = (0..carries)
            .filter(|&j| needed[j] && varies[j] && !lives[j])
            .collect();
        if more.is_empty() {
            break;
        }
        for j in more {
            lives[j] = true;
        }
    }
    let wrt: Vec<bool> = (0..inputs)
        .map(|i| varies[i] && (i >= carries || lives[i]))
        .collect();
    let kept: Vec<usize> = (0..lives.len()).filter(|&o| lives[o]).collect();
    let all: Vec<Var> = (0..inputs as Var).collect();
    let outs: Vec<Var> = kept.iter().map(|&o| body.outs()[o]).collect();
    let (back, cotangents, slots) = vjp(&body.extract(&all, &outs), &wrt)?;

    // What a step of the reverse pass reads.
    let is_gradient: Vec<bool> = {
        let mut mask = vec![false; back.outs().len()];
        for slot in slots.iter().flatten() {
            mask[*slot] = true;
        }
        mask
    };
    let reads = back.needed(&is_gradient);
    let is_invariant = |j: usize| body.outs()[j] == j as Var;

    let builder = Builder::new();
    let mut args = Arguments::new(&builder, of.length);
    let mut places = vec![Var::MAX; back.num_inputs()];
    let active: Vec<usize> = (0..carries).filter(|&j| wrt[j]).collect();
    let mut carried = vec![Var::MAX; inputs];
    for &j in &active {
        carried[j] = args.carry(cts[j].unwrap_or_else(|| x[j].full_like(0.0)));
    }
    let first_shared = carries + of.scanned;
    let summed: Vec<usize> = (first_shared..inputs)
        .filter(|&i| wrt[i] && slots[i].is_some())
        .collect();
    for &i in &summed {
        carried[i] = args.carry(x[i].full_like(0.0));
    }
    // Within a budget the steps are taken again once the cotangents are there.
    let arrived: Vec<V<'e>> = (cts.iter().flatten())
        .map(|ct| ct.apply(ops::DROPGRAD, Params::None, &[]))
        .collect();
    let later: Vec<V<'e>> = match of.budget {
        Some(_) => (x.iter())
            .map(|v| v.apply(ops::BARRIER, Params::None, &arrived))
            .collect(),
        None => x.to_vec(),
    };
    for j in (0..carries).filter(|&j| reads[j] && !is_invariant(j)) {
        let values = apply(of, &later, LoopOutput::Before(j));
        places[j] = args.scan(values, body.aval(j as Var));
    }
    for i in (carries..first_shared).filter(|&i| reads[i]) {
        places[i] = args.scan(x[i], body.aval(i as Var));
    }
    for (&o, slot) in kept.iter().zip(&cotangents) {
        let Some(slot) = *slot else { continue };
        if o < carries {
            places[slot] = carried[o];
        } else if let Some(ct) = cts[o] {
            places[slot] = args.scan(ct, body.aval(body.outs()[o]));
        }
    }
    let mut arriving = vec![None; carries];
    for &j in &active {
        arriving[j] = before(j).map(|ct| args.scan(ct, body.aval(j as Var)));
    }
    for j in (0..carries).filter(|&j| reads[j] && is_invariant(j)) {
        places[j] = args.share(x[j]);
    }
    // How many steps there are comes last.
    let is_count = |i: usize| of.end == End::Count && i + 1 == inputs;
    for i in (first_shared..inputs).filter(|&i| reads[i] || is_count(i)) {
        places[i] = args.share(x[i]);
    }
    let found = builder.inline(&back, &places, &is_gradient);
    let gradient = |i: usize| slots[i].and_then(|slot| found[slot]);
    let sum = |a: Var, b: Var| (builder.value(a) + builder.value(b)).var();
    let mut outs: Vec<Var> = Vec::new();
    for &j in &active {
        outs.push(match (gradient(j), arriving[j]) {
            (Some(a), Some(b)) => sum(a, b),
            (Some(a), None) | (None, Some(a)) => a,
            (None, None) => zeros(&builder, body.aval(j as Var)),
        });
    }
    for &i in &summed {
        outs.push(gradient(i).map_or(carried[i], |g| sum(carried[i], g)));
    }
    let slices: Vec<usize> = (carries..first_shared)
        .filter(|&i| wrt[i] && gradient(i).is_some())
        .collect();
    outs.extend(slices.iter().filter_map(|&i| gradient(i)));
    let (args, carried, scanned) = args.finish();
    let mut gradients = vec![None; inputs];
    // A cotangent arrives nowhere.
    let Some(program) = (!outs.is_empty()).then(|| builder.finish(outs)) else {
        return Ok(gradients);
    };
    let reversed =
        Arc::new(Loop::new(program?, of.length, carried, scanned, !of.reverse)?.ending(of.end)?);
    for (n, &i) in active.iter().chain(&summed).enumerate() {
        if wanted[i] {
            gradients[i] = Some(apply(&reversed, &args, LoopOutput::Last(n)));
        }
    }
    for (n, &i) in slices.iter().enumerate() {
        gradients[i] = Some(apply(&reversed, &args, LoopOutput::Stacked(n)));
    }
    Ok(gradients)
}

fn zeros(builder: &Builder, aval: &Aval) -> Var {
    let zero = builder.value(builder.number(aval.dtype, 0.0));
    zero.broadcast_to(&aval.shape).var()
}

/// The tangents of the wanted outputs, given those of the arguments `x`: a loop that carries both values
/// and tangents, so that nothing has to be kept.
pub(super) fn push<'e>(
    of: &Arc<Loop>,
    x: &[V<'e>],
    t: &[Option<V<'e>>],
    wanted: &[usize],
    jvp: Pass,
) -> Result<Vec<Option<V<'e>>>> {
    let (body, carries) = (of.body(), of.carries);
    let inputs = body.num_inputs();
    let marks = (0..inputs).map(|i| t[i].is_some() && body.aval(i as Var).dtype.is_inexact());
    let varies = of.spread(marks.collect(), |marks| body.varies_with(marks));
    let (forward, tangents, pushes) = jvp(body, &varies)?;
    let tangent = |i: usize| t[i].unwrap_or_else(|| x[i].full_like(0.0));

    let builder = Builder::new();
    let mut args = Arguments::new(&builder, of.length);
    let mut places = vec![Var::MAX; forward.num_inputs()];
    let moving = |range: std::ops::Range<usize>| -> Vec<(usize, usize)> {
        range.filter_map(|i| Some((i, tangents[i]?))).collect()
    };
    let (carried, first_shared) = (moving(0..carries), carries + of.scanned);
    for j in 0..carries {
        places[j] = args.carry(x[j]);
    }
    for &(j, slot) in &carried {
        places[slot] = args.carry(tangent(j));
    }
    for i in carries..first_shared {
        places[i] = args.scan(x[i], body.aval(i as Var));
    }
    for (i, slot) in moving(carries..first_shared) {
        places[slot] = args.scan(tangent(i), body.aval(i as Var));
    }
    let behind = inputs - usize::from(of.end == End::Count);
    for i in first_shared..behind {
        places[i] = args.share(x[i]);
    }
    for (i, slot) in moving(first_shared..behind) {
        places[slot] = args.share(tangent(i));
    }
    for i in behind..inputs {
        places[i] = args.share(x[i]);
    }
    let every = vec![true; forward.outs().len()];
    let found = builder.inline(&forward, &places, &every);
    let var = |slot: usize| found[slot].unwrap_or(Var::MAX);
    let mut outs: Vec<Var> = (0..carries).map(var).collect();
    for &(j, _) in &carried {
        let zero = || zeros(&builder, body.aval(j as Var));
        outs.push(pushes[j].map_or_else(zero, var));
    }
    outs.extend((carries..body.outs().len()).map(var));
    let pushed: Vec<usize> = (carries..body.outs().len())
        .filter(|&o| pushes[o].is_some())
        .collect();
    outs.extend(pushed.iter().filter_map(|&o| pushes[o].map(var)));
    let (args, num_carried, scanned) = args.finish();
    let program = builder.finish(outs)?;
    let both = Arc::new(
        Loop::new(program, of.length, num_carried, scanned, of.reverse)?
            .ending(of.end)?
            .keeping(of.budget),
    );
    let mut results = vec![None; of.num_outputs()];
    for &output in wanted {
        let of_carry = |j: usize| carried.iter().position(|&(i, _)| i == j);
        let found = match of.output(output) {
            Some(LoopOutput::Last(j)) => of_carry(j).map(|n| LoopOutput::Last(carries + n)),
            Some(LoopOutput::Before(j)) => of_carry(j).map(|n| LoopOutput::Before(carries + n)),
            Some(LoopOutput::Stacked(i)) => (pushed.iter())
                .position(|&o| o == carries + i)
                .map(|n| LoopOutput::Stacked(of.num_stacked() + n)),
            None => None,
        };
        results[output] = found.map(|found| apply(&both, &args, found));
    }
    Ok(results)
}

/// The wanted outputs for many examples, and whether they differ between these: then they have an axis of
/// examples in front.
pub(super) fn map<'e>(
    of: &Arc<Loop>,
    x: &[V<'e>],
    batched: &[bool],
    size: usize,
    wanted: &[usize],
    vmap: fn(&Program, &[bool], usize) -> Result<Program>,
) -> Result<Vec<(V<'e>, bool)>> {
    let (body, carries) = (of.body(), of.carries);
    let inputs = body.num_inputs();
    let varies = of.spread(batched.to_vec(), |marks| body.depends_on(marks));
    let ends_differ = match of.end {
        End::Length => false,
        End::Count => batched[inputs - 1],
        End::False => varies[0],
    };
    if ends_differ {
        return Err(Error::Program(
            "while_loop: inside vmap the condition differs between examples, and so does the number of steps; repeat \
             as often as the longest needs with fori_loop and keep what is finished with where(), or map with a loop"
                .into(),
        ));
    }
    let differs = {
        let depends = body.depends_on(&varies);
        let outs = body.outs().iter().enumerate();
        let differs = outs.map(|(o, &v)| {
            if o < carries {
                varies[o]
            } else {
                depends[v as usize]
            }
        });
        differs.collect::<Vec<bool>>()
    };
    let mapped = vmap(body, &varies, size)?;
    let builder = Builder::new();
    let places: Vec<Var> = (0..inputs)
        .map(|i| {
            let aval = body.aval(i as Var);
            if varies[i] {
                builder.input("", &with_batch(aval, size))
            } else {
                builder.input("", aval)
            }
        })
        .collect();
    let shared: Vec<bool> = differs.iter().map(|d| !d).collect();
    let (many, one) = (
        builder.inline(&mapped, &places, &differs),
        builder.inline(body, &places, &shared),
    );
    let outs = many
        .into_iter()
        .zip(one)
        .map(|(a, b)| a.or(b).unwrap_or(Var::MAX));
    let program = builder.finish(outs.collect())?;
    let of_many = Loop::new(program, of.length, carries, of.scanned, of.reverse)?;
    let of_many = Arc::new(of_many.ending(of.end)?.keeping(of.budget));
    let args: Vec<V<'e>> = (0..inputs)
        .map(|i| {
            let is_scanned = (carries..carries + of.scanned).contains(&i);
            if is_scanned && batched[i] {
                swap_first(x[i])
            } else if varies[i] && !batched[i] {
                x[i].broadcast_to(&with_batch(&x[i].aval(), size).shape)
            } else {
                x[i]
            }
        })
        .collect();
    Ok((wanted.iter())
        .filter_map(|&output| {
            let output = of.output(output)?;
            let out = apply(&of_many, &args, output);
            Some(match output {
                LoopOutput::Last(j) => (out, differs[j]),
                LoopOutput::Before(j) if differs[j] => (swap_first(out), true),
                LoopOutput::Stacked(i) if differs[carries + i] => (swap_first(out), true),
                _ => (out, false),
            })
        })
        .collect())
}

/// The axis of examples and that of steps exchanged.
fn swap_first(x: V<'_>) -> V<'_> {
    let mut axes: Vec<usize> = (0..x.shape().len()).collect();
    axes.swap(0, 1);
    x.transpose(&axes)
}

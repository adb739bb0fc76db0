//! What the tests of the primitive table are made of: random arguments for a sample, programs
//! evaluated on numbers, differences, and the identities that derivatives obey. Public, because who
//! adds rules of his own wants to check them in the same way.

#[cfg(test)]
pub(crate) mod random;
pub mod reference;

use num_complex::Complex;

use crate::array::Array;
use crate::aval::{Aval, DType};
use crate::error::{Error, Result};
use crate::kernels::Value;
use crate::prim::{Class, Params, Prim, Sample, Samples, Var};
use crate::program::{Builder, Program};
use crate::sched;
use crate::transform::{self, Vjp};

/// A small random number generator with reproducible results (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from an interval.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An array from an interval; the imaginary parts of complex numbers are smaller.
    pub fn array(&mut self, dtype: DType, shape: &[usize], low: f64, high: f64) -> Result<Value> {
        let size = shape.iter().product();
        let numbers: Vec<Complex<f64>> = (0..size)
            .map(|_| {
                let re = self.uniform(low, high);
                let im = if dtype.is_complex() {
                    self.uniform(0.05, 0.5)
                } else {
                    0.0
                };
                Complex::new(re, im)
            })
            .collect();
        value(dtype, shape, &numbers)
    }
}

/// An array of this dtype from numbers. A bool is whether a number is positive.
pub fn value(dtype: DType, shape: &[usize], numbers: &[Complex<f64>]) -> Result<Value> {
    if dtype == DType::Bool {
        let bools: Vec<bool> = numbers.iter().map(|z| z.re > 0.0).collect();
        return Value::from_slice(shape, &bools);
    }
    let real: Vec<f64> = numbers.iter().map(|z| z.re).collect();
    let array = if dtype.is_complex() {
        Array::from_slice(shape, numbers)?
    } else {
        Array::from_slice(shape, &real)?
    };
    array.cast(dtype)?.evaluate().cloned()
}

/// The elements of an array as numbers, in row-major order.
pub fn numbers(value: &Value) -> Result<Vec<Complex<f64>>> {
    Array::constant(value.clone()).cast(DType::C128)?.to_vec()
}

/// The samples of a primitive. For an elementwise one, arguments of one shape, broadcast ones and
/// scalars.
pub fn samples(prim: Prim) -> Vec<Sample> {
    let intervals = match prim.0.samples {
        Samples::List(list) => return list(),
        Samples::None(_) => return Vec::new(),
        Samples::Intervals(intervals) => intervals,
    };
    let shapes: [[&[usize]; 3]; 4] = [
        [&[3, 4], &[3, 4], &[3, 4]],
        [&[3, 1], &[4], &[2, 1, 1]],
        [&[], &[5], &[]],
        [&[2, 0], &[], &[2, 1]],
    ];
    (shapes.iter())
        .map(|shapes| Sample {
            inputs: (intervals.iter().zip(shapes))
                .map(|(&(low, high), shape)| (shape.to_vec(), low, high))
                .collect(),
            params: Params::None,
        })
        .collect()
}

/// The dtypes of a primitive's arguments when it is tested in this dtype.
fn argument_dtype(prim: Prim, i: usize, dtype: DType) -> DType {
    match (&prim.0.class, prim.0.args.get(i).copied()) {
        (_, Some("index")) => DType::I64,
        (_, Some("cond")) => DType::Bool,
        (Class::Elementwise { types, .. }, _) if !types.accept(DType::F64) => {
            if types.accept(DType::I64) {
                DType::I64
            } else {
                DType::Bool
            }
        }
        _ => dtype,
    }
}

/// The program that applies a primitive to a sample's arguments, and random arguments for it; `None`
/// when the primitive does not take this dtype.
pub fn instance(
    prim: Prim,
    sample: &Sample,
    dtype: DType,
    rng: &mut Rng,
) -> Result<Option<(Program, Vec<Value>)>> {
    let avals: Vec<Aval> = (sample.inputs.iter().enumerate())
        .map(|(i, (shape, ..))| Aval::new(argument_dtype(prim, i, dtype), shape))
        .collect();
    if prim
        .infer(&sample.params, &avals.iter().collect::<Vec<_>>())
        .is_err()
    {
        return Ok(None);
    }
    let program = single(prim, &sample.params, &avals)?;
    let values = (sample.inputs.iter().zip(&avals))
        .map(|((shape, low, high), aval)| rng.array(aval.dtype, shape, *low, *high))
        .collect::<Result<_>>()?;
    Ok(Some((program, values)))
}

/// A program of one equation.
pub fn single(prim: Prim, params: &Params, inputs: &[Aval]) -> Result<Program> {
    let builder = Builder::new();
    let vars: Vec<Var> = inputs.iter().map(|aval| builder.input("", aval)).collect();
    let out = builder.push(prim, params.clone(), &vars)?;
    builder.finish(vec![out])
}

/// Runs a program.
pub fn run(program: &Program, inputs: &[Value]) -> Result<Vec<Value>> {
    sched::run(&*sched::plan(program)?, inputs.to_vec(), &mut || false)
}

/// Runs a program one equation at a time: nothing is fused, rewritten or reused.
pub fn run_stepwise(program: &Program, inputs: &[Value]) -> Result<Vec<Value>> {
    let mut values: Vec<Value> = inputs.to_vec();
    for (k, eqn) in program.eqns().iter().enumerate() {
        let args = program.args(eqn);
        let avals: Vec<Aval> = args.iter().map(|&a| program.aval(a).clone()).collect();
        let step = single(eqn.prim, program.params(eqn), &avals)?;
        let args: Vec<Value> = args.iter().map(|&a| values[a as usize].clone()).collect();
        let mut out = run(&step, &args)?;
        let value = out
            .pop()
            .ok_or_else(|| Error::Program(format!("equation {k} left no value")))?;
        values.push(value);
    }
    Ok(program
        .outs()
        .iter()
        .map(|&v| values[v as usize].clone())
        .collect())
}

/// Which inputs can be differentiated with respect to.
pub fn inexact_inputs(program: &Program) -> Vec<bool> {
    (0..program.num_inputs())
        .map(|i| program.aval(i as Var).dtype.is_inexact())
        .collect()
}

/// The real part of the inner product of lists of arrays.
pub fn inner(a: &[Value], b: &[Value]) -> Result<f64> {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        for (x, y) in numbers(a)?.iter().zip(numbers(b)?) {
            sum += (x.conj() * y).re;
        }
    }
    Ok(sum)
}

/// A check that failed, and by how much.
fn differ(what: &str, program: &Program, a: f64, b: f64, tolerance: f64) -> Result<()> {
    if (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs())) {
        return Ok(());
    }
    Err(Error::Program(format!(
        "{what}: {a} and {b} differ in\n{program}"
    )))
}

/// Random directions of the shapes and dtypes of these values.
fn directions(rng: &mut Rng, values: &[&Value]) -> Result<Vec<Value>> {
    values
        .iter()
        .map(|v| rng.array(v.dtype(), v.shape(), -1.0, 1.0))
        .collect()
}

/// Checks a program's derivatives at a point, where they exist: `<ct, J t> = <Jᵀ ct, t>` with `J t`
/// from the forward rules and from differences, for each input in turn, then for the reverse pass
/// itself, up to this order.
///
/// Inputs and outputs should be `f64` or `c128`: differences of narrower floats say little.
pub fn check_derivatives(
    program: &Program,
    inputs: &[Value],
    order: u32,
    tolerance: f64,
    rng: &mut Rng,
) -> Result<()> {
    if order == 0 {
        return Ok(());
    }
    let wrt = inexact_inputs(program);
    let vjp = checked_vjp(program, &wrt, inputs)?;
    vjp.program.verify()?;
    // The outputs that depend on an input; the others have no cotangent.
    let outs: Vec<usize> = (0..program.outs().len())
        .filter(|&j| vjp.cotangents[j].is_some())
        .collect();
    let primal = run(program, inputs)?;
    let active: Vec<&Value> = outs.iter().map(|&j| &primal[j]).collect();
    let cts = directions(rng, &active)?;
    let mut arguments = inputs.to_vec();
    arguments.extend(cts.iter().cloned());
    let results = run(&vjp.program, &arguments)?;
    for i in (0..inputs.len()).filter(|&i| wrt[i]) {
        let t = directions(rng, &[&inputs[i]])?.remove(0);
        let numeric = inner(&cts, &difference(program, inputs, i, &t, &outs)?)?;
        let reverse = match vjp.gradients[i] {
            Some(g) => {
                if results[g].aval() != inputs[i].aval() {
                    return Err(Error::Program(format!(
                        "a cotangent of another kind in\n{program}"
                    )));
                }
                inner(&results[g..=g], std::slice::from_ref(&t))?
            }
            None => 0.0,
        };
        differ(
            &format!("reverse pass and differences, input {i}"),
            program,
            reverse,
            numeric,
            tolerance,
        )?;
        forward(program, inputs, i, &t, &outs, &cts, reverse)?;
    }
    check_derivatives(&vjp.program, &arguments, order - 1, 30.0 * tolerance, rng)
}

/// The reverse pass of a program, after its cotangents at a point have been compared with those of the
/// [reference], for random cotangents of the outputs: they differ by rounding only.
pub fn checked_vjp(program: &Program, wrt: &[bool], inputs: &[Value]) -> Result<Vjp> {
    let (vjp, reference) = (transform::vjp(program, wrt)?, reference::vjp(program, wrt)?);
    let differ = |what: String| Err(Error::Program(format!("{what} in\n{program}")));
    let has = |v: &Vjp| v.gradients.iter().map(Option::is_some).collect::<Vec<_>>();
    if vjp.cotangents != reference.cotangents || has(&vjp) != has(&reference) {
        return differ("cotangents are missing, or too many".into());
    }
    let mut rng = Rng::new(17);
    let mut arguments = inputs.to_vec();
    for v in program.num_inputs()..vjp.program.num_inputs() {
        let aval = vjp.program.aval(v as Var);
        arguments.push(rng.array(aval.dtype, &aval.shape, -1.0, 1.0)?);
    }
    let (found, wanted) = (
        run(&vjp.program, &arguments)?,
        run(&reference.program.pruned(), &arguments)?,
    );
    for (i, (a, b)) in vjp.gradients.iter().zip(&reference.gradients).enumerate() {
        let (Some(a), Some(b)) = (*a, *b) else {
            continue;
        };
        if found[a].aval() != wanted[b].aval() {
            return differ(format!("the cotangent of input {i} is of another kind"));
        }
        let (a, b) = (numbers(&found[a])?, numbers(&wanted[b])?);
        let size = a.iter().chain(&b).map(|z| z.norm()).fold(0.0, f64::max);
        let rounding = match program.aval(i as Var).dtype {
            DType::F16 | DType::Bf16 => 0.05,
            DType::F32 | DType::C64 => 1e-4,
            _ => 1e-10,
        };
        for (a, b) in a.iter().zip(&b) {
            // See the reference for what it has NaN for. Overflow may come earlier in another order.
            let agree =
                a == b || (a - b).norm() <= rounding * (1.0 + size) || b.is_nan() || size > 1e30;
            if !agree {
                return differ(format!("input {i}: {a} and, by the reference, {b}"));
            }
        }
    }
    Ok(vjp)
}

/// The forward pass against the reverse pass; the rules are exact, so rounding is all that differs.
fn forward(
    program: &Program,
    inputs: &[Value],
    i: usize,
    t: &Value,
    outs: &[usize],
    cts: &[Value],
    reverse: f64,
) -> Result<()> {
    let mut wrt = vec![false; inputs.len()];
    wrt[i] = true;
    let jvp = match transform::jvp(program, &wrt) {
        Ok(jvp) => jvp,
        // What calls back into another language may have no forward direction.
        Err(Error::NotDifferentiable(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut arguments = inputs.to_vec();
    arguments.push(t.clone());
    let results = run(&jvp.program, &arguments)?;
    let mut sum = 0.0;
    for (&j, ct) in outs.iter().zip(cts) {
        if let Some(slot) = jvp.results[j] {
            sum += inner(std::slice::from_ref(ct), &results[slot..=slot])?;
        }
    }
    differ(
        &format!("forward and reverse pass, input {i}"),
        program,
        sum,
        reverse,
        1e-10,
    )
}

/// Outputs' change along a direction of input `i`, by central differences.
pub fn difference(
    program: &Program,
    inputs: &[Value],
    i: usize,
    t: &Value,
    outs: &[usize],
) -> Result<Vec<Value>> {
    const STEP: f64 = 1e-5;
    let at = |step: f64| -> Result<Vec<Value>> {
        let moved: Vec<Complex<f64>> = numbers(&inputs[i])?
            .iter()
            .zip(numbers(t)?)
            .map(|(x, t)| x + t * step)
            .collect();
        let mut inputs = inputs.to_vec();
        inputs[i] = value(inputs[i].dtype(), inputs[i].shape(), &moved)?;
        run(program, &inputs)
    };
    let (above, below) = (at(STEP)?, at(-STEP)?);
    (outs.iter())
        .map(|&j| {
            let change: Vec<Complex<f64>> = (numbers(&above[j])?.iter())
                .zip(numbers(&below[j])?)
                .map(|(a, b)| (a - b) / (2.0 * STEP))
                .collect();
            value(above[j].dtype(), above[j].shape(), &change)
        })
        .collect()
}

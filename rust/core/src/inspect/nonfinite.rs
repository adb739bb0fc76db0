//! Where a NaN or an infinity comes from.
//!
//! Runs happen as always, and only what leaves a run is looked at. When there is something in it, the
//! same program is run again from the same inputs, one equation after the other, to find the first one
//! that made it. What is called back is not called again: its results are remembered for that.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex;

use crate::aval::{Aval, tuple};
use crate::error::{Error, Foreign, Result};
use crate::kernels::{Look, Value, contiguous, first_found, for_each};
use crate::opt;
use crate::prim::{Host, Lines, Params, Place, Var};
use crate::program::{Builder, Program};
use crate::sched::{self, Plan};

thread_local! {
    /// What is looked for in this thread, the innermost last. Lines are recorded all the while.
    static ACTIVE: RefCell<Vec<(u64, Option<Look>, Lines)>> = const { RefCell::new(Vec::new()) };
}

/// How many there are in all threads.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Looks, from now on and in this thread, at what leaves a run; without anything to look for it records
/// lines only. Gives the number with which to end it.
pub fn begin_detection(look: Option<Look>) -> u64 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    ACTIVE.with_borrow_mut(|active| active.push((id, look, Lines::new())));
    COUNT.fetch_add(1, Ordering::Relaxed);
    id
}

/// Ends what [`begin_detection`] began in this thread, be it the innermost or not.
pub fn end_detection(id: u64) {
    ACTIVE.with_borrow_mut(|active| {
        if let Some(i) = active.iter().rposition(|(known, ..)| *known == id) {
            active.remove(i);
            COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    });
}

/// Whether this thread looks for anything.
pub fn is_detecting() -> bool {
    looks().is_some()
}

/// What the innermost detection of this thread looks for.
#[inline]
pub(crate) fn looks() -> Option<Look> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    ACTIVE.with_borrow(|active| {
        let look = active.iter().rev().find_map(|(_, look, _)| *look)?;
        (look.nan || look.inf).then_some(look)
    })
}

/// What the elements of an array are like.
#[derive(Debug, Clone)]
pub struct Range {
    /// Its name, where it has one.
    pub name: String,
    /// Dtype and shape.
    pub aval: Aval,
    /// The least and the greatest element but for NaN; of complex ones the absolute value. `None` when
    /// there is none.
    pub bounds: Option<(f64, f64)>,
    /// How many are NaN.
    pub nans: usize,
    /// How many are infinite.
    pub infs: usize,
    /// The first place with what was looked for, if any.
    pub index: Option<Vec<usize>>,
    /// The element that the result's first bad element was computed from, for elementwise primitives.
    pub at: Option<Complex<f64>>,
}

/// What made a NaN or an infinity.
#[derive(Debug, Clone)]
pub enum Origin {
    /// An equation none of whose arguments has one.
    Equation {
        /// The primitive.
        prim: &'static str,
        /// Its parameters, as they are printed.
        params: String,
        /// Where it was recorded; for the reverse pass also which rule wrote it.
        place: Option<Place>,
        /// What it was applied to.
        args: Vec<Range>,
        /// Which of these is to blame, if one alone is.
        argument: Option<usize>,
        /// The result.
        value: Range,
    },
    /// A value that was there before.
    Input {
        /// Which input of the program that was run it is.
        input: usize,
        /// The identity of the array.
        id: u64,
        /// The value.
        value: Range,
        /// Where it was computed, if that is known.
        place: Option<Place>,
    },
    /// It does not appear when equations are computed one by one.
    Unknown,
}

/// Which result it reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// A value of the function: which of its outputs.
    Value(usize),
    /// The cotangent of a leaf: which of them.
    Gradient(usize),
    /// A value that was read.
    Read,
}

/// A NaN or an infinity in a result.
#[derive(Debug, Clone)]
pub struct NonFinite {
    /// Whether it is NaN at its origin.
    pub is_nan: bool,
    /// Where it comes from.
    pub origin: Origin,
    /// Where it was seen.
    pub reached: Reached,
    /// The name of the cotangent that was read, where it has one.
    pub name: Arc<str>,
    /// The result.
    pub result: Range,
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_nan { "NaN" } else { "infinity" };
        match &self.origin {
            Origin::Equation { prim, place, .. } => {
                write!(f, "{prim} gave the first {what}")?;
                place.as_ref().map_or(Ok(()), |p| write!(f, " ({p})"))
            }
            Origin::Input { value, .. } => write!(f, "an input ({}) holds {what}", value.aval),
            Origin::Unknown => write!(f, "a result ({}) holds {what}", self.result.aval),
        }
    }
}

impl std::error::Error for NonFinite {}

/// The place of an element in an array of this shape.
fn unravel(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = (shape.iter().rev())
        .map(|&n| {
            let i = at % n.max(1);
            at /= n.max(1);
            i
        })
        .collect();
    index.reverse();
    index
}

/// The element at an index of an array that is repeated to the index's shape.
fn repeated(value: &Value, index: &[usize]) -> Option<Complex<f64>> {
    let shape = value.shape();
    let index = index.get(index.len().checked_sub(shape.len())?..)?;
    let mut at = 0;
    for (&i, &n) in index.iter().zip(shape) {
        at = at * n + if n == 1 { 0 } else { i };
    }
    (at < value.aval().size()).then(|| value.element(at).item())?
}

fn range(name: &str, value: &Value, look: Look, at: Option<&[usize]>) -> Result<Range> {
    let value = contiguous(value)?;
    let complex = value.dtype().is_complex();
    let (mut bounds, mut nans, mut infs, mut first) = (None, 0, 0, None);
    for_each(&value, |i, z| {
        if first.is_none() && look.is_at(z) {
            first = Some(i);
        }
        if z.is_nan() {
            nans += 1;
            return;
        }
        infs += usize::from(!z.is_finite());
        let x = if complex { z.norm() } else { z.re };
        let (low, high) = bounds.unwrap_or((x, x));
        bounds = Some((x.min(low), x.max(high)));
    });
    Ok(Range {
        name: name.into(),
        aval: value.aval().clone(),
        bounds,
        nans,
        infs,
        index: first.map(|i| unravel(i, value.shape())),
        at: at.and_then(|index| repeated(&value, index)),
    })
}

/// A call that remembers all that it gave, so that a second run calls nothing.
struct Logged {
    call: Arc<dyn Host>,
    log: Mutex<Vec<(Vec<Value>, Vec<Value>)>>,
}

impl Host for Logged {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn outputs(&self) -> &[Aval] {
        self.call.outputs()
    }

    fn call(&self, x: &[Value]) -> Result<Vec<Value>> {
        let log = || self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &[Value]| {
            known.len() == x.len() && known.iter().zip(x).all(|(a, b)| a.same_bits(b))
        };
        if let Some((_, outs)) = log().iter().find(|(known, _)| same(known)) {
            return Ok(outs.clone());
        }
        let outs = self.call.call(x)?;
        log().push((x.to_vec(), outs.clone()));
        Ok(outs)
    }

    fn derivative(&self, x: &[Aval]) -> Result<Arc<dyn Host>> {
        self.call.derivative(x)
    }

    fn bare(&self) -> Option<Arc<dyn Host>> {
        Some(Arc::clone(&self.call))
    }
}

/// The program with calls that can be repeated without being made again.
pub(crate) fn logged(program: &Program) -> Program {
    let mut program = program.clone();
    program.renew_calls(|call| {
        Arc::new(Logged {
            call: Arc::clone(call),
            log: Mutex::default(),
        })
    });
    program
}

/// The first of some results of a run in which there is what this thread looks for.
pub(crate) fn found(results: &[Value]) -> Result<Option<(Look, usize)>> {
    let Some(look) = looks() else {
        return Ok(None);
    };
    for (i, value) in results.iter().enumerate() {
        if first_found(value, look)?.is_some() {
            return Ok(Some((look, i)));
        }
    }
    Ok(None)
}

/// The error for a result of a run: output `out` of this program, applied to these values of arrays with
/// these identities.
pub(crate) fn explain(
    program: &Program,
    inputs: &[(u64, Option<Place>, Value)],
    out: usize,
    (look, result): (Look, &Value),
    (reached, name): (Reached, Arc<str>),
    interrupted: &mut dyn FnMut() -> bool,
) -> Error {
    let found = search(program, inputs, out, look, interrupted)
        .and_then(|origin| Ok((origin, range("", result, look, None)?)));
    let (origin, result) = match found {
        Ok(found) => found,
        Err(error) => return error,
    };
    let nans = match &origin {
        Origin::Equation { value, .. } | Origin::Input { value, .. } => value.nans,
        Origin::Unknown => result.nans,
    };
    Error::Foreign(Foreign(Arc::new(NonFinite {
        is_nan: look.nan && nans > 0,
        origin,
        reached,
        name,
        result,
    })))
}

/// Runs equation after equation and gives what made the first value that is bad in an unbroken line of
/// bad values up to the output.
fn search(
    program: &Program,
    inputs: &[(u64, Option<Place>, Value)],
    out: usize,
    look: Look,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Origin> {
    let all: Vec<Var> = (0..program.num_inputs() as Var).collect();
    let program = program.extract(&all, &[program.outs()[out]]);
    let program = opt::inline_rules(program)?;
    let target = program.outs()[0];
    let mut values: Vec<Option<Value>> = inputs.iter().map(|(_, _, v)| Some(v.clone())).collect();
    values.resize(program.num_vars(), None);
    let mut last = vec![0usize; program.num_vars()];
    for (k, eqn) in program.eqns().iter().enumerate() {
        for &a in program.args(eqn) {
            last[a as usize] = k;
        }
    }
    let mut bad = vec![false; program.num_vars()];
    for (i, (_, _, value)) in inputs.iter().enumerate() {
        bad[i] = first_found(value, look)?.is_some();
    }
    let mut suspects: Vec<(Var, Origin)> = Vec::new();
    for (k, eqn) in program.eqns().iter().enumerate() {
        let var = program.result(k);
        let args: Vec<Value> = (program.args(eqn).iter())
            .filter_map(|&a| values[a as usize].clone())
            .collect();
        let value = compute(&program, k, &args, interrupted)?;
        if let Some(at) = first_found(&value, look)? {
            bad[var as usize] = true;
            if !program.args(eqn).iter().any(|&a| bad[a as usize]) {
                suspects.push((var, blame(&program, k, &args, &value, at, look)?));
            }
        }
        values[var as usize] = Some(value);
        for &a in program.args(eqn) {
            if last[a as usize] == k && a as usize >= inputs.len() {
                values[a as usize] = None;
            }
        }
    }
    // Which of the bad values have a part in the result.
    let mut reaches = vec![false; program.num_vars()];
    reaches[target as usize] = bad[target as usize];
    for (k, eqn) in program.eqns().iter().enumerate().rev() {
        if reaches[program.result(k) as usize] {
            for &a in program.args(eqn) {
                reaches[a as usize] |= bad[a as usize];
            }
        }
    }
    if let Some(input) = (0..inputs.len()).find(|&i| reaches[i]) {
        let (id, place, value) = &inputs[input];
        return Ok(Origin::Input {
            input,
            id: *id,
            value: range("", value, look, None)?,
            place: place.clone(),
        });
    }
    let first = suspects.into_iter().find(|(v, _)| reaches[*v as usize]);
    Ok(first.map_or(Origin::Unknown, |(_, origin)| origin))
}

/// One equation alone.
fn compute(
    program: &Program,
    k: usize,
    args: &[Value],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Value> {
    let eqn = &program.eqns()[k];
    let builder = Builder::new();
    let vars: Vec<Var> = (args.iter()).map(|a| builder.input("", a.aval())).collect();
    let params = program.params(eqn);
    let out = match params {
        Params::Literal { dtype, value } => builder.complex_literal(*dtype, *value),
        _ => builder.push(eqn.prim, params.clone(), &vars)?,
    };
    let plan = Plan::new(&builder.finish(vec![out])?)?;
    let mut outs = sched::run(&plan, args.to_vec(), interrupted)?;
    Ok(outs.swap_remove(0))
}

/// What is to be said of the equation that made it, whose result is bad at `at`.
fn blame(
    program: &Program,
    k: usize,
    args: &[Value],
    value: &Value,
    at: usize,
    look: Look,
) -> Result<Origin> {
    let eqn = &program.eqns()[k];
    let prim = eqn.prim;
    let index = unravel(at, value.shape());
    let is_elementwise = prim.is_elementwise();
    let at = is_elementwise.then_some(index.as_slice());
    let names = prim.0.args;
    let named = |i: usize| {
        let name = names.get(i).or(names.last()).copied().unwrap_or("");
        name.trim_end_matches("...").to_string()
    };
    let args_ranges: Vec<Range> = (args.iter().enumerate())
        .map(|(i, a)| range(&named(i), a, look, at))
        .collect::<Result<_>>()?;
    let argument = match args_ranges.as_slice() {
        [_] => Some(0),
        _ if is_elementwise => guilty(program, k, &args_ranges)?,
        // The one that is not finite although that was not looked for.
        several => several.iter().position(|r| r.nans + r.infs > 0),
    };
    Ok(Origin::Equation {
        prim: prim.name(),
        params: format!("{:?}", program.params(eqn)),
        place: program.site(k).place(),
        args: args_ranges,
        argument,
        value: range("", value, look, None)?,
    })
}

/// Which argument of an elementwise equation is to blame: the one without which, a 1 in its place, the
/// bad element would be finite.
fn guilty(program: &Program, k: usize, args: &[Range]) -> Result<Option<usize>> {
    let Some(numbers) = args.iter().map(|r| r.at).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    for changed in 0..args.len() {
        let mut values = Vec::with_capacity(args.len());
        for (i, (range, &number)) in args.iter().zip(&numbers).enumerate() {
            let number = if i == changed {
                Complex::new(1.0, 0.0)
            } else {
                number
            };
            values.push(Value::number(range.aval.dtype, number)?);
        }
        let value = compute(program, k, &values, &mut || false)?;
        if args[changed].aval.dtype.is_inexact() && value.item().is_some_and(Complex::is_finite) {
            return Ok(Some(changed));
        }
    }
    Ok(None)
}

impl fmt::Display for Range {
    /// `x: f64[3], from -1 to 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.aval)?;
        if let Some((low, high)) = self.bounds {
            write!(f, ", from {low} to {high}")?;
        }
        self.index
            .as_ref()
            .map_or(Ok(()), |i| write!(f, ", first at {}", tuple(i)))
    }
}

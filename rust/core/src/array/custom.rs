//! Functions with a derivative rule of their own.
//!
//! The function and the pullback that it returns are traced once, into one program: from the
//! arguments and the cotangent to the result and the cotangents of the arguments. An equation
//! `custom` refers to it. Running it writes the first half in its place, differentiating it the
//! second; common subexpressions then make what both share one computation.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::close::close;
use super::{Array, Recording};
use crate::aval::{Aval, tuple};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Custom, Params, V, Var};
use crate::program::Program;

/// Applies a function that brings its own derivative rule.
///
/// `rule` gets the arguments and gives the result together with its pullback: a closure from the
/// cotangent of the result to one cotangent for each argument, `None` for those without influence.
/// Both are traced into primitives when `custom` is called, so they run fused, take part in programs
/// and are differentiated again. Other arrays that they use are held constant.
///
/// A gradient that is clipped on its way back:
///
/// ```
/// use cotan::{Arg, Array, custom, gradient};
/// use ndarray::array;
///
/// fn clip(x: &Array) -> cotan::Result<Array> {
///     custom("clip", |x| {
///         let y = x[0].clone();
///         Ok((y, |ct: &Array| Ok(vec![Some(ct.maximum(-1.0)?.minimum(1.0)?)])))
///     }, &[x])
/// }
///
/// let x = Array::from_ndarray(&array![0.1, 3.0])?;
/// let g = gradient(|x| clip(&x[0])?.square()?.sum(..), &[Arg::from(&x)])?;
/// assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>()?, [0.2, 1.0]);
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn custom<F, B>(name: &str, rule: F, args: &[&Array]) -> Result<Array>
where
    F: Fn(&[Array]) -> Result<(Array, B)>,
    B: FnOnce(&Array) -> Result<Vec<Option<Array>>>,
{
    if args.is_empty() {
        return Err(Error::Program(format!(
            "custom rule {name}: it has no argument to differentiate"
        )));
    }
    let (traced, captured) = Traced::new(name, rule, args)?;
    let mut inputs = args.to_vec();
    inputs.extend(&captured);
    Array::apply(ops::CUSTOM, Params::Custom(Arc::new(traced)), &inputs)
}

/// A traced function and its traced pullback.
struct Traced {
    name: String,
    /// Number of the arguments proper; captured arrays follow behind the cotangent.
    args: usize,
    /// Inputs: arguments, cotangent, captured arrays. Outputs: the result, then cotangents.
    program: Program,
    /// For each argument, which output is its cotangent.
    gradients: Vec<Option<usize>>,
}

impl Traced {
    fn new<F, B>(name: &str, rule: F, args: &[&Array]) -> Result<(Traced, Vec<Array>)>
    where
        F: Fn(&[Array]) -> Result<(Array, B)>,
        B: FnOnce(&Array) -> Result<Vec<Option<Array>>>,
    {
        let recording = Recording::new();
        let mut leaves: Vec<Array> = args.iter().map(|x| recording.leaf(x)).collect();
        let (y, back) = rule(&leaves)?;
        let ct = recording.placeholder(y.aval());
        let cts = if y.dtype().is_inexact() {
            back(&ct)?
        } else {
            vec![None; args.len()]
        };
        check(name, &cts, args)?;
        leaves.push(ct);
        let mut outputs = vec![&y];
        let gradients = (cts.iter())
            .map(|ct| {
                outputs.push(ct.as_ref()?);
                Some(outputs.len() - 1)
            })
            .collect();
        let closed = close(&outputs, Some((&leaves, recording.tag())))?;
        let captured = closed.inputs[leaves.len()..].to_vec();
        drop(recording);
        if let Some(active) = captured.iter().find(|a| a.is_active()) {
            return Err(Error::NotDifferentiable(format!(
                "custom rule {name}: it uses an array ({}) that is being differentiated but is not among \
                 its arguments; pass it as one, or hold it constant with dropgrad()",
                active.aval()
            )));
        }
        let program = closed.program;
        Ok((
            Traced {
                name: name.into(),
                args: args.len(),
                program,
                gradients,
            },
            captured,
        ))
    }

    /// The program's inputs, given the equation's arguments and the cotangent.
    fn inputs(&self, x: &[V<'_>], ct: Option<V<'_>>) -> Vec<Var> {
        let (args, captured) = x.split_at(self.args);
        let mut inputs: Vec<Var> = args.iter().map(|v| v.var).collect();
        inputs.push(ct.map_or(Var::MAX, |ct| ct.var));
        inputs.extend(captured.iter().map(|v| v.var));
        inputs
    }

    /// Writes what output `i` needs.
    fn write<'e>(&self, to: V<'e>, inputs: &[Var], i: usize) -> V<'e> {
        let program = &self.program;
        let mut wanted = vec![false; program.outs().len()];
        wanted[i] = true;
        let needed = program.needed(&wanted);
        let mut map = inputs.to_vec();
        for (k, eqn) in program.eqns().iter().enumerate() {
            let var = if !needed[program.result(k) as usize] {
                Var::MAX
            } else if let Params::Literal { dtype, value } = program.params(eqn)
                && value.im == 0.0
            {
                to.emit.number(*dtype, value.re)
            } else {
                let args: Vec<Var> = program.args(eqn).iter().map(|&a| map[a as usize]).collect();
                to.emit.emit(eqn.prim, program.params(eqn).clone(), &args)
            };
            map.push(var);
        }
        to.with(map[program.outs()[i] as usize])
    }
}

/// Whether a rule gave what it has to give.
fn check(name: &str, cts: &[Option<Array>], args: &[&Array]) -> Result<()> {
    if cts.len() != args.len() {
        return Err(Error::Program(format!(
            "custom rule {name}: its pullback gave {} cotangents for {} arguments; give one for each, \
             None for those without influence",
            cts.len(),
            args.len()
        )));
    }
    for (i, (ct, x)) in cts.iter().zip(args).enumerate() {
        let Some(ct) = ct else { continue };
        if !x.dtype().is_inexact() {
            return Err(Error::DType(format!(
                "custom rule {name}: argument {i} is {} and has no cotangent; give None for it",
                x.dtype().numpy_name()
            )));
        }
        if ct.shape() != x.shape() {
            return Err(Error::Shape(format!(
                "custom rule {name}: the cotangent of argument {i} has shape {}, but the argument has {}",
                tuple(ct.shape()),
                tuple(x.shape())
            )));
        }
        if ct.dtype() != x.dtype() {
            return Err(Error::DType(format!(
                "custom rule {name}: the cotangent of argument {i} is {}, but the argument is {}; cast it",
                ct.dtype().numpy_name(),
                x.dtype().numpy_name()
            )));
        }
    }
    Ok(())
}

impl Custom for Traced {
    fn name(&self) -> &str {
        &self.name
    }

    fn infer(&self, x: &[&Aval]) -> Result<Aval> {
        let program = &self.program;
        if x.len() + 1 != program.num_inputs() {
            let wanted = program.num_inputs() - 1;
            return Err(Error::Program(format!(
                "custom rule {}: takes {wanted} arguments, {} given",
                self.name,
                x.len()
            )));
        }
        for (i, aval) in x.iter().enumerate() {
            let wanted = program.aval((i + usize::from(i >= self.args)) as Var);
            if *aval != wanted {
                return Err(Error::Shape(format!(
                    "custom rule {}: argument {i} was {wanted} when it was traced, not {aval}; trace it anew",
                    self.name
                )));
            }
        }
        Ok(program.aval(program.outs()[0]).clone())
    }

    fn lower<'e>(&self, x: &[V<'e>]) -> V<'e> {
        self.write(x[0], &self.inputs(x, None), 0)
    }

    fn vjp<'e>(&self, x: &[V<'e>], _: V<'e>, ct: V<'e>, i: usize) -> Option<V<'e>> {
        let out = (*self.gradients.get(i)?)?;
        Some(self.write(ct, &self.inputs(x, Some(ct)), out))
    }

    fn key(&self) -> u64 {
        self.program.structural_hash()
    }

    fn same(&self, other: &dyn Custom) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Traced>().is_some_and(|o| {
            self.name == o.name
                && self.args == o.args
                && self.gradients == o.gradients
                && self.program.same_structure(&o.program)
        })
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "custom rule {}:\n{}", self.name, self.program)
    }
}

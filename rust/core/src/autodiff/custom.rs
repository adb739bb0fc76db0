//! Functions with a derivative rule of their own.
//!
//! The function and its rule are traced once, into one program: from the arguments and the cotangents
//! of the results to the results and the cotangents of the arguments. Equations `custom`, one for each
//! result, refer to it. Running them writes the first half in their place, differentiating them the
//! second; common subexpressions then make what both share one computation.

use super::trace_rule::Tracer;
use crate::array::Array;
use crate::error::{Error, Result};

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
    let rule = |x: &[Array]| {
        let (y, back) = rule(x)?;
        Ok((vec![y], move |cts: &[Option<Array>]| match &cts[0] {
            Some(ct) => back(ct),
            // Booleans and integers have no cotangent.
            None => Ok(vec![None; args.len()]),
        }))
    };
    let outs = custom_many(name, rule, args)?;
    (outs.into_iter().next())
        .ok_or_else(|| Error::Program(format!("custom rule {name}: no result")))
}

/// [`custom`] for a function with several results. Its pullback gets the cotangents of all of them at
/// once, `None` for results that cannot have one; those that nothing depends on are zero.
///
/// ```
/// use cotan::{Arg, Array, custom_many, gradient};
///
/// /// The two halves of a number; only the sum of their cotangents is clipped.
/// fn halves(x: &Array) -> cotan::Result<Vec<Array>> {
///     custom_many("halves", |x| {
///         let half = x[0].mul(0.5)?;
///         Ok((vec![half.clone(), half], |ct: &[Option<Array>]| {
///             let sum = ct[0].as_ref().unwrap().add(ct[1].as_ref().unwrap())?;
///             Ok(vec![Some(sum.minimum(1.0)?)])
///         }))
///     }, &[x])
/// }
///
/// let f = |x: &[Array]| {
///     let h = halves(&x[0])?;
///     h[0].add(&h[1].mul(3.0)?)
/// };
/// let g = gradient(f, &[Arg::from(Array::from(2.0))])?;
/// assert_eq!(g[0].as_ref().unwrap().item()?, 1.0);
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn custom_many<F, B>(name: &str, rule: F, args: &[&Array]) -> Result<Vec<Array>>
where
    F: FnOnce(&[Array]) -> Result<(Vec<Array>, B)>,
    B: FnOnce(&[Option<Array>]) -> Result<Vec<Option<Array>>>,
{
    let mut tracer = Tracer::new(name, args)?;
    let (outs, back) = rule(tracer.args())?;
    let cts = tracer.cotangents(outs);
    let found = back(&cts)?;
    tracer.reverse(&found)
}

/// Applies a function that brings its own forward rule: from its arguments and their tangents to its
/// results and their tangents (`None` for zero). The reverse direction is the transpose of that map,
/// which has to be linear in the tangents.
///
/// Arguments that have no tangents (integers) get `None`.
///
/// ```
/// use cotan::{Arg, Array, custom_jvp, gradient};
///
/// fn sine(x: &Array) -> cotan::Result<Array> {
///     let outs = custom_jvp("sine", |x, t| {
///         let dy = t[0].as_ref().map(|t| t.mul(&x[0].cos()?)).transpose()?;
///         Ok((vec![x[0].sin()?], vec![dy]))
///     }, &[x])?;
///     Ok(outs[0].clone())
/// }
///
/// let g = gradient(|x| sine(&x[0]), &[Arg::from(Array::from(0.5))])?;
/// assert_eq!(g[0].as_ref().unwrap().item()?, 0.5f64.cos());
/// # Ok::<(), cotan::Error>(())
/// ```
pub fn custom_jvp<F>(name: &str, rule: F, args: &[&Array]) -> Result<Vec<Array>>
where
    F: FnOnce(&[Array], &[Option<Array>]) -> Result<(Vec<Array>, Vec<Option<Array>>)>,
{
    let mut tracer = Tracer::new(name, args)?;
    let tangents = tracer.tangents();
    let (outs, found) = rule(tracer.args(), &tangents)?;
    tracer.forward(outs, &found)
}

//! Applies the program of a linear map, a pullback or a pushforward, to many arguments at once: to those of a basis it
//! gives the matrix.

use std::sync::Arc;

use crate::array::Array;
use crate::aval::{Aval, Shape};
use crate::error::Result;
use crate::kernels::Value;
use crate::prim::Var;
use crate::program::Program;
use crate::transform::vmap;

/// About so many elements of each intermediate value are computed at a time.
const CHUNK: usize = 1 << 23;

/// The outputs of a program for each element of its first `linear` inputs being 1 and all others 0, along a new first
/// axis: the elements of the first input come first. Computed, unless another recording takes part.
pub fn on_basis(
    program: &Arc<Program>,
    linear: usize,
    residuals: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Array>> {
    let avals: Vec<Aval> = (0..linear as Var)
        .map(|v| program.aval(v).clone())
        .collect();
    let total: usize = avals.iter().map(Aval::size).sum();
    let largest = (0..program.num_vars() as Var).map(|v| program.aval(v).size());
    let is_lazy = residuals.iter().any(Array::is_recorded);
    // What is called back takes one argument at a time.
    let one_by_one = program.has_host_calls();
    let chunk = match () {
        () if one_by_one => 1,
        () if is_lazy => total,
        () => CHUNK / largest.max().unwrap_or(1).max(1),
    };
    let chunk = chunk.clamp(1, total.max(1));
    let mut parts: Vec<Vec<Array>> = Vec::new();
    let mut mapped: Option<(usize, Arc<Program>)> = None;
    let mut first = 0;
    while first < total || parts.is_empty() {
        let count = chunk.min(total - first);
        let mut inputs: Vec<Array> = units(&avals, first, count)?;
        inputs.extend_from_slice(residuals);
        let outs = if one_by_one && count == 1 {
            for (input, aval) in inputs.iter_mut().zip(&avals) {
                *input = input.reshape(&aval.shape)?;
            }
            let outs = Array::call(program, &inputs);
            (outs.iter())
                .map(|out| out.reshape(&with_axis(1, out.shape())))
                .collect::<Result<_>>()?
        } else {
            let program = match &mapped {
                Some((size, program)) if *size == count => Arc::clone(program),
                _ => {
                    let is_linear: Vec<bool> = (0..inputs.len()).map(|i| i < linear).collect();
                    let program = Arc::new(vmap(program, &is_linear, count)?);
                    mapped = Some((count, Arc::clone(&program)));
                    program
                }
            };
            Array::call(&program, &inputs)
        };
        if !is_lazy {
            Array::force_all(&outs.iter().collect::<Vec<_>>(), interrupted)?;
        }
        parts.push(outs);
        first += count.max(1);
    }
    if let [_] = parts.as_slice() {
        return Ok(parts.swap_remove(0));
    }
    (0..program.outs().len())
        .map(|i| {
            let column: Vec<&Array> = parts.iter().map(|outs| &outs[i]).collect();
            Array::concatenate(&column, 0)
        })
        .collect()
}

/// A shape with a new first axis.
fn with_axis(length: usize, shape: &[usize]) -> Shape {
    let mut whole = Shape::new();
    whole.push(length);
    whole.extend_from_slice(shape);
    whole
}

/// Of the unit vectors of several arrays together, `count` ones from `first` on.
fn units(avals: &[Aval], first: usize, count: usize) -> Result<Vec<Array>> {
    let mut offset = 0;
    (avals.iter())
        .map(|aval| {
            let size = aval.size();
            let (start, end) = (offset, offset + size);
            offset = end;
            let mut elements = vec![0.0; count * size];
            for i in first.max(start)..(first + count).min(end) {
                elements[(i - first) * size + i - start] = 1.0;
            }
            let units = Value::from_slice(&with_axis(count, &aval.shape), &elements)?;
            Array::constant(units).cast(aval.dtype)
        })
        .collect()
}

//! Calls back once for each example of a batch: code of users takes one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::aval::{Aval, Shape, SliceDim};
use crate::error::{Error, Result};
use crate::kernels::{self, Ctx, ReduceOp, Value};
use crate::prim::Host;

/// Dtype and shape of as many examples.
pub(super) fn with_batch(aval: &Aval, size: usize) -> Aval {
    let mut shape = Shape::new();
    shape.push(size);
    shape.extend_from_slice(&aval.shape);
    Aval {
        dtype: aval.dtype,
        shape,
    }
}

/// Dtype and shape of one example's argument.
pub(super) fn one(aval: &Aval, batched: bool) -> Aval {
    let mut aval = aval.clone();
    if batched {
        aval.shape.remove(0);
    }
    aval
}

/// A function that is called back, for many examples: its results have a first axis of these.
pub(super) struct EachExample {
    call: Arc<dyn Host>,
    /// Which arguments have that axis.
    batched: Vec<bool>,
    /// Which results are sums over the examples instead: cotangents of what all of them share.
    summed: Vec<bool>,
    size: usize,
    outputs: Vec<Aval>,
}

impl EachExample {
    pub fn new(call: &Arc<dyn Host>, batched: &[bool], size: usize) -> EachExample {
        let summed = vec![false; call.outputs().len()];
        EachExample::with_sums(call, batched.to_vec(), summed, size)
    }

    fn with_sums(
        call: &Arc<dyn Host>,
        batched: Vec<bool>,
        summed: Vec<bool>,
        size: usize,
    ) -> EachExample {
        // Not the wrapper that caches the last call: each example has other arguments.
        let call = call.bare().unwrap_or_else(|| Arc::clone(call));
        let outputs = (call.outputs().iter().zip(&summed))
            .map(|(aval, &summed)| {
                if summed {
                    aval.clone()
                } else {
                    with_batch(aval, size)
                }
            })
            .collect();
        EachExample {
            call,
            batched,
            summed,
            size,
            outputs,
        }
    }
}

/// The value of one example.
fn example(batch: &Value, k: usize) -> Option<Value> {
    let axis = |start, len| SliceDim {
        start,
        len,
        step: 1,
    };
    let inner = &batch.shape()[1..];
    let dims: Vec<SliceDim> = std::iter::once(axis(k, 1))
        .chain(inner.iter().map(|&len| axis(0, len)))
        .collect();
    batch.sliced(&dims).reshaped(inner)
}

impl Host for EachExample {
    fn name(&self) -> &str {
        self.call.name()
    }

    fn outputs(&self) -> &[Aval] {
        &self.outputs
    }

    fn call(&self, x: &[Value]) -> Result<Vec<Value>> {
        let cancel = AtomicBool::new(false);
        let ctx = Ctx::new(&cancel, 1);
        let fault = |what: String| Error::Program(format!("{}: {what}", self.name()));
        let batches = (self.call.outputs().iter())
            .map(|aval| Value::empty(with_batch(aval, self.size)))
            .collect::<Result<Vec<Value>>>()?;
        for k in 0..self.size {
            let args = (x.iter().zip(&self.batched))
                .map(|(value, &batched)| {
                    if !batched {
                        return Ok(value.clone());
                    }
                    let one = example(value, k).ok_or_else(|| fault("no example".to_owned()))?;
                    // What is called may keep it.
                    kernels::copy(&one, &ctx)
                })
                .collect::<Result<Vec<Value>>>()?;
            let found = self.call.call(&args)?;
            for (i, batch) in batches.iter().enumerate() {
                let to = example(batch, k);
                let (Some(to), Some(value)) = (to, found.get(i)) else {
                    return Err(fault(format!("gave no output {i}")));
                };
                if value.aval() != to.aval() {
                    return Err(fault(format!("output {i} is not {}", to.aval())));
                }
                kernels::copy_into(&to, value, &ctx)?;
            }
        }
        (batches.into_iter().zip(&self.summed))
            .map(|(batch, &summed)| {
                if summed {
                    kernels::reduce(ReduceOp::Sum, &batch, &[0], &ctx)
                } else {
                    Ok(batch)
                }
            })
            .collect()
    }

    fn derivative(&self, x: &[Aval]) -> Result<Arc<dyn Host>> {
        let ones: Vec<Aval> = (x.iter().zip(&self.batched))
            .map(|(aval, &batched)| one(aval, batched))
            .collect();
        let pullback = self.call.derivative(&ones)?;
        // It takes the arguments, then cotangents of inexact results, and gives those of inexact arguments.
        let results = self.call.outputs().iter().zip(&self.summed);
        let cotangents = results.filter(|(aval, _)| aval.dtype.is_inexact());
        let cotangents = cotangents.map(|(_, &summed)| !summed);
        let batched = self.batched.iter().copied().chain(cotangents).collect();
        let arguments = x.iter().zip(&self.batched);
        let summed = (arguments.filter(|(aval, _)| aval.dtype.is_inexact()))
            .map(|(_, &batched)| !batched)
            .collect();
        Ok(Arc::new(EachExample::with_sums(
            &pullback, batched, summed, self.size,
        )))
    }
}

//! Runs equations in strips of rows: what a strip makes is read while it is in the cache, and large arrays are read once, or
//! never in memory.

use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use super::plan::{Over, Plan, Strips};
use crate::aval::SliceDim;
use crate::error::Result;
use crate::kernels::{self, Ctx, Value};

/// Runs a plan on inputs, into values of the shapes of its results.
type RunStrip = fn(&Plan, Vec<Value>, &[Value], &Ctx<'_>) -> Result<()>;

impl Strips {
    /// Roughly how many nanoseconds it takes on one thread.
    pub fn cost(&self) -> f64 {
        self.main.cost() * self.count() as f64
    }

    fn count(&self) -> usize {
        self.rows.div_ceil(self.height)
    }

    /// The most bytes that each thread holds at a time.
    pub fn peak(&self) -> usize {
        self.main.peak()
    }

    /// Computes the outputs, into these values where there are any. `run` runs the plan of a strip, with memory for
    /// all of its results.
    pub fn run(
        &self,
        inputs: &[Value],
        targets: &[Option<Value>],
        run: RunStrip,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<Value>> {
        if let Some(plan) = &self.otherwise
            && !self.are_plain(inputs)
        {
            let outs = self.outputs.iter().zip(targets);
            let outs = outs.map(|(output, target)| match target {
                Some(target) => Ok(target.clone()),
                None => Value::empty(output.aval.clone()),
            });
            let outs = outs.collect::<Result<Vec<Value>>>()?;
            run(plan, inputs.to_vec(), &outs, ctx)?;
            return Ok(outs);
        }
        let count = self.count();
        // Rows of the result, or one result for each strip.
        let wholes =
            self.outputs
                .iter()
                .zip(targets)
                .map(|(output, target)| match (output.over, target) {
                    (Over::Rows, Some(target)) => Ok(target.clone()),
                    (Over::Rows, None) => Value::empty(output.aval.clone()),
                    (Over::Reduction(_) | Over::Terms, _) => {
                        let mut aval = output.aval.clone();
                        aval.shape.insert(0, count);
                        Value::empty(aval)
                    }
                });
        let wholes = wholes.collect::<Result<Vec<Value>>>()?;
        let failed = Mutex::new(None);
        ctx.for_each(count, |i| {
            if let Err(error) = self.strip(i, inputs, &wholes, run, &ctx.alone()) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        })?;
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let joined = self
            .outputs
            .iter()
            .zip(wholes)
            .map(|(output, whole)| match output.over {
                Over::Rows => Ok(whole),
                Over::Reduction(op) => kernels::reduce(op, &whole, &[0], ctx),
                Over::Terms => kernels::sum_of_parts(&whole),
            });
        joined.collect()
    }

    /// Whether the matrix is in row-major order at an address of its elements, and nothing that all strips read repeats
    /// itself: kernels multiply what is not like that in other ways.
    fn are_plain(&self, inputs: &[Value]) -> bool {
        let matrix = &inputs[0];
        let is_aligned = (matrix.as_ptr() as usize).is_multiple_of(matrix.dtype().size());
        let repeats = |value: &Value| {
            let mut axes = value.shape().iter().zip(value.strides());
            axes.any(|(&len, &stride)| len > 1 && stride == 0)
        };
        let mut read = inputs.iter().zip(&self.by_rows);
        is_aligned
            && matrix.is_contiguous()
            && read.all(|(value, &by_rows)| by_rows || !repeats(value))
    }

    fn strip(
        &self,
        i: usize,
        inputs: &[Value],
        wholes: &[Value],
        run: RunStrip,
        ctx: &Ctx<'_>,
    ) -> Result<()> {
        let first = i * self.height;
        let len = self.height.min(self.rows - first);
        let plan = match &self.last {
            Some(last) if len < self.height => last,
            _ => &self.main,
        };
        let inputs = inputs.iter().zip(&self.by_rows).map(|(value, &by_rows)| {
            if by_rows {
                rows_of(value, first, len)
            } else {
                value.clone()
            }
        });
        let targets = self.outputs.iter().zip(wholes).map(|(output, whole)| {
            if matches!(output.over, Over::Rows) {
                return rows_of(whole, first, len);
            }
            let row = rows_of(whole, i, 1);
            row.reshaped(&output.aval.shape).unwrap_or(row)
        });
        let targets: SmallVec<[Value; 4]> = targets.collect();
        run(plan, inputs.collect(), &targets, ctx)
    }
}

/// Some rows of an array.
fn rows_of(value: &Value, first: usize, len: usize) -> Value {
    let dims = value.shape().iter().enumerate().map(|(axis, &d)| SliceDim {
        start: if axis == 0 { first } else { 0 },
        len: if axis == 0 { len } else { d },
        step: 1,
    });
    value.sliced(&dims.collect::<SmallVec<[SliceDim; 4]>>())
}

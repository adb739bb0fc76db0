//! Whether values fit a program, and what a program over nothing gives.

use super::program::Fused;
use super::reduce::ReduceOp;
use super::strided_input::splat;
use crate::aval::{DType, tuple};
use crate::error::{Error, Result};
use crate::kernels::{Value, lane};

impl Fused {
    pub(super) fn check(&self, inputs: &[Value], outputs: &[Value]) -> Result<()> {
        let refuse = |what: String| Err(Error::Program(format!("fused group: {what}")));
        if inputs.len() != self.inputs.len() || outputs.len() != self.outputs.len() {
            return refuse(format!(
                "{} inputs and {} outputs",
                inputs.len(),
                outputs.len()
            ));
        }
        for (value, input) in inputs.iter().zip(&self.inputs) {
            let target = self.space(input).as_slice();
            let shape = value.shape();
            let fits = shape == target
                || (shape.len() <= target.len()
                    && shape
                        .iter()
                        .rev()
                        .zip(target.iter().rev())
                        .all(|(&s, &t)| s == t || s == 1));
            if !fits || value.dtype() != input.dtype {
                let (aval, target) = (value.aval(), tuple(target));
                return refuse(format!("input {aval} for {} {target}", input.dtype));
            }
        }
        for (value, output) in outputs.iter().zip(&self.outputs) {
            let elements = value.shape().iter().product::<usize>();
            if value.dtype() != output.dtype
                || elements != output.elements
                || !value.is_contiguous()
                || value.as_ptr().addr() % value.dtype().size().min(8) != 0
            {
                return refuse(format!("output {} does not fit", value.aval()));
            }
        }
        Ok(())
    }

    /// Reductions of nothing.
    pub(super) fn fill_empty(&self, outputs: &[Value]) -> Result<()> {
        for reduction in &self.reductions {
            let value = &outputs[reduction.output];
            let elements = self.outputs[reduction.output].elements;
            let identity = match reduction.op {
                ReduceOp::Sum => 0u8,
                ReduceOp::Prod => 1,
                ReduceOp::Max | ReduceOp::Min if elements == 0 => continue,
                ReduceOp::Max | ReduceOp::Min => {
                    let what = "an extremum of nothing does not exist".to_owned();
                    return Err(Error::Shape(what));
                }
            };
            let mut element = [0u128; 1];
            let null = std::ptr::null();
            let to = element.as_mut_ptr().cast::<u8>();
            // SAFETY: `element` has room for one element of any dtype, the output for `elements`.
            unsafe {
                lane::cast_lane(DType::U8, reduction.dtype)(to, &raw const identity, null, null, 1);
                splat(to, reduction.dtype.size(), value.as_mut_ptr(), elements);
            }
        }
        Ok(())
    }
}

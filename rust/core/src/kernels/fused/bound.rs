//! A program with the memory that it works on, for running it again and again there.

use super::Fused;
use super::run::{Address, Bound};
use super::strided_input::Source;
use crate::error::Result;
use crate::kernels::{Ctx, Value};

/// Inputs and outputs of a program, checked once.
#[derive(Debug)]
pub struct BoundFused {
    bound: Bound,
    /// What keeps the memory alive.
    _inputs: Vec<Value>,
    outputs: Vec<Value>,
}

impl Fused {
    /// Checks the memory for later runs. Nothing else may read the outputs while one goes on, and none of
    /// them lies in the memory of an input.
    pub fn bind(&self, inputs: Vec<Value>, outputs: Vec<Value>) -> Result<BoundFused> {
        self.check(&inputs, &outputs)?;
        let sources = (self.inputs.iter().zip(&inputs))
            .map(|(input, v)| Source::new(v, self.space(input), false));
        let bound = Bound {
            sources: sources.collect(),
            outputs: outputs.iter().map(|v| Address(v.as_mut_ptr())).collect(),
            partials: smallvec::SmallVec::new(),
        };
        Ok(BoundFused {
            bound,
            _inputs: inputs,
            outputs,
        })
    }

    /// Runs the program where it was bound to.
    pub fn run_again(&self, bound: &mut BoundFused, ctx: &Ctx) -> Result<()> {
        if self.size == 0 {
            return self.fill_empty(&bound.outputs);
        }
        self.run_bound(&mut bound.bound, ctx)
    }
}

//! A program with the memory that it works on, for running it again and again there.

use smallvec::SmallVec;

use super::program::Fused;
use super::strided_input::Source;
use crate::error::Result;
use crate::kernels::{Ctx, Value};

/// An address that threads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address(pub(super) *mut u8);

// SAFETY: chunks write to disjoint elements behind it.
unsafe impl Sync for Address {}
// SAFETY: as above.
unsafe impl Send for Address {}

/// What a run knows of its values.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) sources: SmallVec<[Source; 8]>,
    pub(super) outputs: SmallVec<[Address; 4]>,
    /// For every reduction, where partial results that chunks leave go.
    pub(super) partials: SmallVec<[Address; 4]>,
}

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
            partials: SmallVec::new(),
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

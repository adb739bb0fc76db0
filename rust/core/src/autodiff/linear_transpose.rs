//! The transpose of a recorded function that is linear: a pullback that keeps nothing of the arguments.

use std::sync::Arc;

use super::custom_prim::transpose;
use super::linearity::{fault, is_zero};
use super::pullback::Pullback;
use crate::array::Array;
use crate::error::{Error, Result};
use crate::opt::{self, Passes};
use crate::tape::Recording;
use crate::tape::close::close;
use crate::tape::node::Applied;

impl Pullback {
    /// The transpose of what was recorded between leaves and outputs. Nothing is computed.
    ///
    /// # Errors
    /// When it is not linear in the leaves; it says why.
    pub fn transposed(
        recording: &Recording,
        outputs: &[&Array],
        leaves: &[Array],
    ) -> Result<Pullback> {
        let closed = close(outputs, Some((leaves, recording.tag())))?;
        let program = closed.program;
        let captured = closed.inputs[leaves.len()..].to_vec();
        let is_leaf: Vec<bool> = (0..program.num_inputs())
            .map(|i| i < leaves.len())
            .collect();
        let mut zeros = vec![false; leaves.len()];
        zeros.extend(captured.iter().map(|a| a.value().is_some_and(is_zero)));
        let not_linear = |why: &str| {
            Error::Program(format!(
                "linear_transpose: the function must be linear in its arguments, but {why}"
            ))
        };
        if let Some(why) = fault(&program, &is_leaf, &zeros, 0)? {
            return Err(not_linear(&why.replace("a tangent", "an argument")));
        }
        let (transposed, gradients, reads) = transpose(&program, 0, leaves.len(), 0, false)?;
        if reads {
            return Err(not_linear("its derivative depends on them"));
        }
        let program = Arc::new(opt::optimize(&transposed, Passes::ALL)?);
        let applied = Applied::new(program.outs().len());
        Ok(Pullback {
            program,
            forward: None,
            sources: Arc::new([]),
            residuals: captured,
            cotangents: (0..outputs.len()).map(Some).collect(),
            gradients,
            skipped: Vec::new(),
            applied,
        })
    }
}

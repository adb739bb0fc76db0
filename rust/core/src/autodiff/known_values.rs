//! Values that were computed while a function was recorded need not be computed again by what is derived from it.

use crate::prim::Var;
use crate::program::Program;

/// The joint program with known variables of the primal as further inputs, so that they are not
/// computed again.
pub(super) fn cut(joint: &Program, primal_inputs: usize, known: &[Var]) -> Program {
    if known.is_empty() {
        return joint.pruned();
    }
    let shift = (joint.num_inputs() - primal_inputs) as Var;
    let mut inputs: Vec<Var> = (0..joint.num_inputs() as Var).collect();
    inputs.extend(known.iter().map(|v| v + shift));
    joint.extract(&inputs, joint.outs())
}

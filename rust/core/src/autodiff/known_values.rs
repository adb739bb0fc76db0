//! Values that were computed while a function was recorded need not be computed again by what is derived from it.

use crate::prim::Var;
use crate::program::Program;

/// The program of these outputs of a joint program, with known variables of the primal as further
/// inputs, so that they are not computed again. The joint program must be as it was derived: it has
/// all equations of the primal, so that variables are numbered as there but for a shift.
pub(super) fn cut(joint: &Program, outs: &[Var], primal_inputs: usize, known: &[Var]) -> Program {
    let shift = (joint.num_inputs() - primal_inputs) as Var;
    let mut inputs: Vec<Var> = (0..joint.num_inputs() as Var).collect();
    inputs.extend(known.iter().map(|v| v + shift));
    joint.extract(&inputs, outs)
}

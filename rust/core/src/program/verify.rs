//! The executable definition of a well-formed program. Run before and after every pass in debug
//! builds, and on everything that comes from outside.

use super::Program;
use crate::aval::Aval;
use crate::error::{Error, Result};

impl Program {
    /// Checks scoping, arity, parameters and every dtype and shape.
    pub fn verify(&self) -> Result<()> {
        let bad = |what: String| Err(Error::Program(format!("not a well-formed program: {what}")));
        if self.var_avals.len() != self.inputs.len() + self.eqns.len() {
            return bad("the number of variables is not that of inputs and equations".into());
        }
        if self.outputs.len() != self.outs.len() {
            return bad("the number of output names is not that of outputs".into());
        }
        if self
            .var_avals
            .iter()
            .any(|&a| a as usize >= self.avals.len())
        {
            return bad("a variable has no dtype and shape".into());
        }
        for (k, eqn) in self.eqns.iter().enumerate() {
            let var = self.result(k);
            if !eqn.args.are_within(self.args.len()) || eqn.params as usize >= self.params.len() {
                return bad(format!(
                    "equation %{var} refers to arguments that are not there"
                ));
            }
            if let Some(late) = self.args(eqn).iter().find(|&&a| a >= var) {
                return bad(format!(
                    "equation %{var} uses %{late}, which is defined after it"
                ));
            }
            let avals: Vec<&Aval> = self.args(eqn).iter().map(|&a| self.aval(a)).collect();
            let aval = eqn.prim.infer(self.params(eqn), &avals)?;
            if aval != *self.aval(var) {
                return bad(format!("equation %{var} is {aval}, not {}", self.aval(var)));
            }
        }
        if let Some(out) = self.outs.iter().find(|&&v| v as usize >= self.num_vars()) {
            return bad(format!("the output %{out} is not defined"));
        }
        Ok(())
    }

    /// [`Program::verify`] in debug builds.
    ///
    /// # Panics
    /// When the program is not well formed: a transform that made it has a bug.
    pub fn debug_verify(&self) {
        if cfg!(debug_assertions)
            && let Err(error) = self.verify()
        {
            panic!("{error}\n{self}");
        }
    }
}

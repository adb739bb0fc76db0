//! A program: a closed, dense list of equations over numbered variables, like a jaxpr.
//!
//! Inputs are the variables `0 .. inputs`, equation `k` defines the variable `inputs + k`; so a
//! variable is always defined before it is used, and no order has to be computed. Dtypes and shapes
//! are stored once for each distinct one. Transforms read programs and write programs; they never see
//! values.

mod args;
mod builder;
mod call_groups;
mod hash;
mod literals;
mod looped;
mod prune;
mod sites;
mod splice;
mod text;
mod text_parts;
mod verify;

use std::fmt;
use std::sync::Arc;

pub use crate::util::{FastHasher, FastMap};
pub use builder::Builder;
pub use call_groups::Calls;
pub use literals::{literal_of, number_text};
pub use looped::{End, Loop, LoopOutput};
pub(crate) use looped::{SameLoops, stacked};
use sites::Sites;
pub use splice::Splice;

pub(crate) use args::Args;

use crate::aval::{Aval, DType};
use crate::prim::{Params, Prim, Var};

/// One equation: a primitive applied to variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eqn {
    /// What is applied.
    pub prim: Prim,
    /// Index into the program's parameters.
    pub(crate) params: u32,
    /// What it is applied to.
    pub(crate) args: Args,
}

/// A closed list of equations, with named inputs and outputs.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    pub(crate) inputs: Vec<Arc<str>>,
    pub(crate) outputs: Vec<Arc<str>>,
    pub(crate) avals: Vec<Aval>,
    /// For every variable, which of `avals` it has.
    pub(crate) var_avals: Vec<u32>,
    pub(crate) eqns: Vec<Eqn>,
    /// The arguments of equations with many of them.
    pub(crate) args: Vec<Var>,
    /// `params[0]` is `Params::None`.
    pub(crate) params: Vec<Params>,
    pub(crate) outs: Vec<Var>,
    pub(crate) sites: Sites,
}

impl Program {
    /// A program without inputs, equations and outputs.
    pub fn new() -> Program {
        let mut params = Vec::with_capacity(4);
        params.push(Params::None);
        Program {
            inputs: Vec::new(),
            outputs: Vec::new(),
            avals: Vec::new(),
            var_avals: Vec::new(),
            eqns: Vec::new(),
            args: Vec::new(),
            params,
            outs: Vec::new(),
            sites: Sites::default(),
        }
    }

    /// Number of inputs.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Names of the inputs; empty where there is none.
    pub fn input_names(&self) -> &[Arc<str>] {
        &self.inputs
    }

    /// Names of the outputs; empty where there is none.
    pub fn output_names(&self) -> &[Arc<str>] {
        &self.outputs
    }

    /// The variables that are its outputs.
    pub fn outs(&self) -> &[Var] {
        &self.outs
    }

    /// Its equations; equation `k` defines the variable `num_inputs() + k`.
    pub fn eqns(&self) -> &[Eqn] {
        &self.eqns
    }

    /// Number of variables: inputs and equations.
    pub fn num_vars(&self) -> usize {
        self.var_avals.len()
    }

    /// The arguments of an equation.
    #[inline]
    pub fn args<'a>(&'a self, eqn: &'a Eqn) -> &'a [Var] {
        eqn.args.get(&self.args)
    }

    /// The parameters of an equation.
    pub fn params(&self, eqn: &Eqn) -> &Params {
        &self.params[eqn.params as usize]
    }

    /// Dtype and shape of a variable.
    pub fn aval(&self, var: Var) -> &Aval {
        &self.avals[self.var_avals[var as usize] as usize]
    }

    /// The equation that defines a variable, unless it is an input.
    pub fn definition(&self, var: Var) -> Option<&Eqn> {
        self.eqns
            .get((var as usize).checked_sub(self.inputs.len())?)
    }

    /// The known number and dtype of a variable that a literal defines.
    pub fn literal(&self, var: Var) -> Option<(DType, num_complex::Complex<f64>)> {
        match self.params(self.definition(var)?) {
            Params::Literal { dtype, value } => Some((*dtype, *value)),
            _ => None,
        }
    }

    /// The variable that equation `k` defines.
    pub fn result(&self, k: usize) -> Var {
        (self.inputs.len() + k) as Var
    }

    /// Names the first inputs.
    pub fn name_inputs<N: Into<Arc<str>>>(&mut self, names: impl IntoIterator<Item = N>) {
        for (slot, name) in self.inputs.iter_mut().zip(names) {
            *slot = name.into();
        }
    }

    /// Names the outputs.
    pub fn set_output_names(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        self.outputs = names.into_iter().collect();
        self.outputs.resize(self.outs.len(), "".into());
    }
}

impl Default for Program {
    fn default() -> Program {
        Program::new()
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! Which values lie in memory in their own order, and which kernels that matters to.
//!
//! Sums and products of many terms add in an order that depends on how their arguments lie. What goes from turn to turn
//! of a loop, or into it as a slice, lies in its own order there; so it has to without the loop.

use crate::error::Result;
use crate::interrupt::Steps;
use crate::kernels;
use crate::ops;
use crate::prim::{Params, Prim, Var};
use crate::program::{Eqn, Program};

/// What is known of the variables of a program.
pub(super) struct Layouts {
    /// Whether it is contiguous.
    plain: Vec<bool>,
    /// Whether a kernel whose bits depend on it reads it, perhaps by way of views.
    matters: Vec<bool>,
}

impl Layouts {
    pub fn new(program: &Program) -> Result<Layouts> {
        let mut steps = Steps::default();
        let inputs = program.num_inputs();
        let mut plain = vec![true; program.num_vars()];
        for (k, eqn) in program.eqns().iter().enumerate() {
            steps.count()?;
            if eqn.prim.is_view() {
                plain[inputs + k] = is_plain_view(program, eqn, &plain);
            }
        }
        let mut matters = vec![false; program.num_vars()];
        for (k, eqn) in program.eqns().iter().enumerate().rev() {
            steps.count()?;
            if has_an_order(program, k) || (eqn.prim.is_view() && matters[inputs + k]) {
                for &a in program.args(eqn) {
                    matters[a as usize] = true;
                }
            }
        }
        Ok(Layouts { plain, matters })
    }

    /// Whether a contiguous copy of a variable is as good.
    pub fn may_be_copied(&self, v: Var) -> bool {
        self.plain[v as usize] || !self.matters[v as usize]
    }

    /// What a view is a view of, where that is contiguous; then a body can have the view itself.
    pub fn root(&self, program: &Program, v: Var) -> Option<Var> {
        let mut v = v;
        while !self.plain[v as usize] {
            let eqn = program.definition(v).filter(|eqn| eqn.prim.is_view())?;
            v = program.args(eqn)[0];
        }
        Some(v)
    }

    pub fn matters(&self, v: Var) -> bool {
        self.matters[v as usize]
    }
}

/// Whether the bits of results may depend on how arguments lie.
fn has_an_order(program: &Program, k: usize) -> bool {
    const MOVES: [Prim; 11] = [
        ops::CONCATENATE,
        ops::STACK,
        ops::PAD,
        ops::GATHER,
        ops::SCATTER,
        ops::SCATTER_ADD,
        ops::UPDATE,
        ops::UPDATE_ADD,
        ops::IOTA,
        ops::LITERAL,
        ops::BARRIER,
    ];
    let prim = program.eqns()[k].prim;
    let is_ordered = !prim.is_elementwise() && !prim.is_view() && !MOVES.contains(&prim);
    let is_small =
        |a: Var| kernels::is_small_product(program.aval(a), program.aval(program.result(k)));
    is_ordered && !(prim == ops::MATMUL && is_small(program.args(&program.eqns()[k])[0]))
}

/// Whether a view of what is contiguous or not is contiguous.
fn is_plain_view(program: &Program, eqn: &Eqn, plain: &[bool]) -> bool {
    let x = program.args(eqn)[0];
    if !plain[x as usize] {
        return false;
    }
    let shape = &program.aval(x).shape;
    match program.params(eqn) {
        Params::Shape(_) if eqn.prim == ops::RESHAPE => true,
        Params::Shape(new) => new.iter().product::<usize>() == shape.iter().product::<usize>(),
        Params::Axes(order) if eqn.prim == ops::TRANSPOSE => {
            let long = order.iter().filter(|&&axis| shape[axis] != 1);
            long.is_sorted()
        }
        Params::Slice(dims) => {
            // Behind the first axis of several elements everything is taken.
            let first = dims.iter().position(|d| d.len != 1);
            first.is_none_or(|first| {
                dims[first].step == 1
                    && (dims[first + 1..].iter().zip(&shape[first + 1..]))
                        .all(|(d, &len)| (d.start, d.len, d.step) == (0, len, 1))
            })
        }
        _ => false,
    }
}

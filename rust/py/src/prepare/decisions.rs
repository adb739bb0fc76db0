//! The values that decide which way a function takes, as few outputs of its program.
//!
//! A loop that looks at a number in each step takes thousands of decisions. Outputs are copied and compared one by one,
//! which took ten times as long as machine code took to compute them, so numbers become the elements of a few arrays.

use cotan::aval::SliceDim;
use cotan::kernels::Value;
use cotan::ops;
use cotan::prim::Params;
use cotan::{Array, DType};
use pyo3::prelude::*;

use crate::array::escapes::{Decision, compute};
use crate::ndarray::memory::to_owned;
use crate::runtime::error::OrRaise;

/// Fewer numbers stay outputs of their own.
const FEW: usize = 4;
/// An array has at most so many elements: machine code copies larger ones by kernels.
const MANY: usize = 1024;

/// One decision, as it was taken.
pub struct Taken {
    pub value: Value,
    /// The line of the code that took it.
    pub place: String,
}

/// What a replay has to decide as the recorded call did.
#[derive(Default)]
pub struct Decisions {
    taken: Vec<Taken>,
    /// What the outputs have to be, and which decisions each one has.
    outputs: Vec<(Value, Vec<usize>)>,
}

impl Decisions {
    /// Those of a recording, and the arrays that are the outputs.
    pub fn of(py: Python<'_>, decisions: Vec<Decision>) -> PyResult<(Decisions, Vec<Array>)> {
        let mut arrays = Vec::new();
        let mut made = Decisions::default();
        for chosen in groups(&decisions) {
            let members = || chosen.iter().map(|&i| &decisions[i]);
            let (array, value) = if let &[i] = &*chosen {
                (decisions[i].array.clone(), decisions[i].value.clone())
            } else {
                let values: Vec<Array> = (members().map(|d| d.value.clone()))
                    .map(Array::constant)
                    .collect();
                let array = stacked(members().map(|d| &d.array))?;
                (array, compute(py, &stacked(values.iter())?)?)
            };
            arrays.push(array);
            made.outputs.push((to_owned(value)?, chosen));
        }
        for Decision { value, place, .. } in decisions {
            let value = to_owned(value)?;
            made.taken.push(Taken { value, place });
        }
        Ok((made, arrays))
    }

    /// How many outputs they are.
    pub fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// All of them, in the order in which they were taken.
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// The first decision that came out otherwise, and its value.
    pub fn first_difference(&self, outputs: &[Value]) -> Option<(usize, Value)> {
        // What cannot be fetched has not been decided; whoever records anew meets the error.
        let differ = |a: &Value, b: &Value| a.bring_here().is_err() || !a.same_bits(b);
        let pairs = outputs.iter().zip(&self.outputs);
        let others = pairs.filter(|(found, (value, _))| differ(found, value));
        // What was decided after the first one means nothing.
        let firsts = others.filter_map(|(found, (_, chosen))| {
            if let &[at] = &**chosen {
                return Some((at, found.clone()));
            }
            let elements = chosen.iter().enumerate();
            let mut elements = elements.map(|(i, &at)| (at, element(found, i)));
            elements.find(|(at, value)| differ(value, &self.taken[*at].value))
        });
        firsts.min_by_key(|&(at, _)| at)
    }
}

/// An element of an output of several decisions, without axes.
fn element(output: &Value, i: usize) -> Value {
    let element = SliceDim {
        start: i,
        len: 1,
        step: 1,
    };
    let element = output.sliced(&[element]);
    element.reshaped(&[]).unwrap_or(element)
}

/// Which decisions become one output: numbers of one dtype, if there are some.
fn groups(decisions: &[Decision]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut open: Vec<(DType, Vec<usize>)> = Vec::new();
    for (i, decision) in decisions.iter().enumerate() {
        if !decision.array.shape().is_empty() {
            groups.push(vec![i]);
            continue;
        }
        let dtype = decision.array.dtype();
        match open.iter_mut().find(|(of, _)| *of == dtype) {
            Some((_, group)) if group.len() < MANY => group.push(i),
            Some((_, group)) => groups.push(std::mem::replace(group, vec![i])),
            None => open.push((dtype, vec![i])),
        }
    }
    for (_, group) in open {
        if group.len() < FEW {
            groups.extend(group.into_iter().map(|i| vec![i]));
        } else {
            groups.push(group);
        }
    }
    groups
}

fn stacked<'a>(arrays: impl Iterator<Item = &'a Array>) -> PyResult<Array> {
    let arrays: Vec<&Array> = arrays.collect();
    Array::apply(ops::STACK, Params::None, &arrays).or_raise()
}

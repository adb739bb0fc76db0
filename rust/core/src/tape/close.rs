//! Cutting a program out of the tape.

use std::sync::Arc;

use num_complex::Complex;
use smallvec::SmallVec;

use super::Array;
use super::application::Application;
use super::node::{Applied, Node, Op, Shared};
use super::node_map::NodeMap;
use super::same_values::SameValues;
use super::visit::{FEW, NONE, NodeInputs, NodeRef, RUN, Role, Scope, Visit, is_literal};
use crate::error::{Error, Result};
use crate::interrupt::Steps;
use crate::prim::{Cost, Params, Site, Var};
use crate::program::{Builder, Program};
use crate::util::FastMap;

/// A program, and the arrays that are its inputs.
#[derive(Debug)]
pub struct ClosedProgram {
    /// The program.
    pub program: Program,
    /// Its inputs: the leaves of the recording first, if it was closed for one.
    pub inputs: Vec<Array>,
    /// Variables whose values are known already, although an equation defines them.
    pub known: Vec<(Var, Array)>,
    /// For a run: further arrays on the way whose values are worth keeping. They are the outputs of the
    /// program behind those that were asked for.
    pub kept: Vec<Array>,
    /// For a run: what applications of programs keep for their other outputs. These variables are the last outputs.
    pub(crate) shared: Vec<(Arc<Application>, Var)>,
    /// What is to be noted when it has been run: outputs of pullbacks.
    pub(crate) computed: Vec<(Arc<Applied>, usize)>,
}

/// Values on the way to what is asked for are kept up to this many bytes.
const SMALL: usize = 64 << 10;

/// And larger ones where so many pending operations would have to be done again.
const LONG: u32 = 16;

impl ClosedProgram {
    /// Notes which outputs of pullbacks have been computed.
    pub(crate) fn note_computed(&self) {
        for (applied, output) in &self.computed {
            applied.set(*output);
        }
    }
}

/// Closes the graph behind `outputs`.
///
/// Without leaves, for a run: everything that is not computed yet becomes an equation. With the leaves
/// of a recording, to be differentiated: what may depend on them becomes equations too, computed or
/// not; what belongs to outer recordings only becomes inputs.
pub(crate) fn close(outputs: &[&Array], leaves: Option<(&[Array], u64)>) -> Result<ClosedProgram> {
    close_with(outputs, leaves, &|_| None)
}

/// The same, where inputs that `number` gives a number for become literals. Each stands just before the first
/// equation that reads it, so that the same function gives the same program, whichever of its numbers were met
/// before.
pub(crate) fn close_with(
    outputs: &[&Array],
    leaves: Option<(&[Array], u64)>,
    number: &dyn Fn(&Array) -> Option<Complex<f64>>,
) -> Result<ClosedProgram> {
    let (leaves, tag) = leaves.map_or((&[][..], RUN), |(l, t)| (l, t));
    let scope = Scope { leaves, tag };
    let mut steps = Steps::default();
    let mut visit = scope.visit(outputs, &mut steps)?;
    let vars = Vars::new(visit.take_map());
    let mut closing = Closing::new(scope, &visit, vars);
    closing.inputs(outputs, number)?;
    closing.equations(&mut steps)?;
    closing.finish(outputs)
}

/// The program that visited nodes become, under construction.
struct Closing<'v, 'a> {
    scope: Scope<'v>,
    visit: &'v Visit<'a>,
    builder: Builder,
    vars: Vars,
    inputs: Vec<Array>,
    known: Vec<(Var, Array)>,
    computed: Vec<(Arc<Applied>, usize)>,
    calls: Vec<CallInRun>,
    /// Where a call is, by its id.
    call_at: FastMap<u64, usize>,
    same: SameValues,
}

/// An application of a program of which some outputs are asked for.
struct CallInRun {
    application: Arc<Application>,
    wanted: Vec<bool>,
    /// Variables of its program whose values are known, and theirs in the program that is built.
    known: Vec<(Var, Var)>,
    /// All of its variables in the program that is built, once it has been written.
    vars: Vec<Var>,
}

impl<'v, 'a> Closing<'v, 'a> {
    /// With the leaves as its first inputs.
    fn new(scope: Scope<'v>, visit: &'v Visit<'a>, vars: Vars) -> Closing<'v, 'a> {
        let count = scope.leaves.len() + FEW;
        let (calls, call_at) = collect_calls(&scope, visit);
        let mut closing = Closing {
            scope,
            visit,
            builder: Builder::with_capacity(count, visit.nodes.len()),
            vars,
            inputs: Vec::with_capacity(count),
            known: Vec::new(),
            computed: Vec::new(),
            calls,
            call_at,
            same: SameValues::default(),
        };
        for leaf in scope.leaves {
            closing.input(leaf);
        }
        closing
    }

    fn input(&mut self, array: &Array) {
        let var = self.builder.input("", array.aval());
        self.vars.insert(array.id(), var);
        self.inputs.push(array.clone());
    }

    /// Makes an input of an array, or finds the one that holds the same. Not for a run, whose plan would depend on values.
    fn shared_input(&mut self, array: &Array) {
        let number = self.inputs.len();
        let known = match self.scope.tag {
            RUN => number,
            _ => self.same.number(array, number),
        };
        if known == number {
            self.input(array);
        } else {
            let var = self.vars.get(self.inputs[known].id());
            self.vars.insert(array.id(), var);
        }
    }

    /// Makes inputs and literals of what is none of the equations.
    fn inputs(
        &mut self,
        outputs: &[&Array],
        number: &dyn Fn(&Array) -> Option<Complex<f64>>,
    ) -> Result<()> {
        let mut has_numbers = false;
        for (array, inputs) in self.visit.in_order() {
            let role = self.scope.role(array);
            if role == Role::LeafCopy && inputs.is_empty() {
                return Err(unknown(array));
            }
            // Another thread may have forced it meanwhile; then it has forgotten its inputs.
            let forced_meanwhile =
                inputs.is_empty() && array.value().is_some() && !is_literal(array);
            let is_input = role == Role::Input || forced_meanwhile;
            if is_input && let Some(z) = number(array) {
                self.vars.numbers.insert(array.id(), z);
            } else if is_number(array) {
                has_numbers = true;
            } else if is_input {
                self.shared_input(array);
            }
        }
        if has_numbers {
            self.numbers(outputs);
        }
        if self.scope.tag == RUN {
            self.shared_inputs();
        }
        Ok(())
    }

    /// Makes inputs of what applications have kept of earlier runs.
    fn shared_inputs(&mut self) {
        for i in 0..self.calls.len() {
            let call = &self.calls[i];
            for (var, value) in call.application.known(&call.wanted) {
                let array = Array(Node::known(value));
                self.input(&array);
                let input = self.vars.get(array.id());
                self.calls[i].known.push((var, input));
            }
        }
    }

    /// Writes an application, if that has not been done.
    fn write_call(&mut self, id: u64, args: &[Var]) -> usize {
        let at = self.call_at[&id];
        let call = &mut self.calls[at];
        if call.vars.is_empty() {
            let program = &call.application.program;
            call.vars = self
                .builder
                .inline_with(program, args, &call.wanted, &call.known);
        }
        at
    }

    /// A number that was met before is an older node or a new one, as it happens: as an input it stands where it is read
    /// first.
    fn numbers(&mut self, outputs: &[&Array]) {
        let read = self.visit.in_order().flat_map(|(_, inputs)| inputs.iter());
        for array in read.chain(outputs.iter().copied()) {
            if is_number(array) && !self.vars.has(array.id()) {
                self.input(array);
            }
        }
    }

    /// Writes the equations.
    fn equations(&mut self, steps: &mut Steps) -> Result<()> {
        let mut args: SmallVec<[Var; 4]> = SmallVec::new();
        for (array, inputs) in self.visit.in_order() {
            steps.count()?;
            if self.vars.has(array.id()) || is_literal(array) {
                continue;
            }
            args.clear();
            for a in inputs.iter().filter(|a| self.scope.role(a) != Role::Call) {
                args.push(self.vars.of(a, &self.builder));
            }
            self.builder.at(array.0.site);
            let var = match &array.0.op {
                Op::Prim(prim) => {
                    let params = array.0.params.as_deref().cloned();
                    let params = params.unwrap_or(Params::None);
                    (self.builder).push_inferred(*prim, params, &args, array.aval())
                }
                Op::Call(call) => {
                    if self.call_at.contains_key(&call.id) {
                        self.write_call(call.id, &args);
                    }
                    continue;
                }
                Op::Output(output) => {
                    let (of, index) = (&output.of, output.index as usize);
                    if let Some(applied) = &of.applied {
                        self.computed.push((Arc::clone(applied), index));
                    }
                    let at = self.write_call(of.id, &args);
                    self.calls[at].vars[of.program.outs()[index] as usize]
                }
                Op::Leaf | Op::Known | Op::Number(_) => args[0],
            };
            let is_known = array.value().is_some() && self.scope.tag != RUN;
            if is_known && is_worth_knowing(array) {
                self.known.push((var, Array::clone(array)));
            }
            self.vars.insert(array.id(), var);
        }
        Ok(())
    }

    /// The program of the outputs and, for a run, of what is worth keeping besides.
    fn finish(mut self, outputs: &[&Array]) -> Result<ClosedProgram> {
        let (vars, builder) = (&mut self.vars, &self.builder);
        let mut outs: Vec<Var> = outputs.iter().map(|a| vars.of(a, builder)).collect();
        let (mut kept, mut shared) = (Vec::new(), Vec::new());
        if self.scope.tag == RUN {
            let (vars, count) = (&self.vars, self.inputs.len());
            let is_made = self
                .builder
                .with(|program| program.needed_for(outs.iter().copied(), |_| false));
            kept = shared_elsewhere(self.visit, outputs);
            kept.retain(|a| {
                let is_equation = self.scope.role(a) == Role::Equation;
                is_equation && !vars.is_input(a.id(), count) && is_made[vars.get(a.id()) as usize]
            });
            outs.extend(kept.iter().map(|a| vars.get(a.id())));
            for call in self.calls.iter().filter(|call| !call.vars.is_empty()) {
                let is_equation = |v: Var| v != NONE && v as usize >= count;
                let made: Vec<bool> = (call.vars.iter())
                    .map(|&var| is_equation(var) && is_made[var as usize])
                    .collect();
                // Those that are only on the way to others have no other readers.
                let outs_of_call = call.application.program.outs().iter();
                let becomes_known: Vec<bool> = (outs_of_call.zip(&call.wanted))
                    .map(|(&out, &wanted)| wanted && made[out as usize])
                    .collect();
                for var in call.application.worth_keeping(&becomes_known, &made) {
                    outs.push(call.vars[var as usize]);
                    shared.push((Arc::clone(&call.application), var));
                }
            }
        }
        Ok(ClosedProgram {
            program: self.builder.finish(outs)?,
            inputs: self.inputs,
            known: self.known,
            kept,
            shared,
            computed: self.computed,
        })
    }
}

/// The error that reading a cotangent leads to while its rule is traced.
fn unknown(array: &Array) -> Error {
    Error::UnknownValue(array.aval().to_string())
}

/// Pending arrays on the way that somebody else holds, too: he is likely to ask for more of them, as
/// a loop does that looks at its state in every step, and should not start from the beginning then.
fn shared_elsewhere(visit: &Visit<'_>, outputs: &[&Array]) -> Vec<Array> {
    let newest = visit.in_order().next_back().map_or(0, |(a, _)| a.id());
    let mut uses: NodeMap<usize> = NodeMap::up_to(newest, 0);
    for (array, inputs) in visit.in_order().rev() {
        // The walk itself holds references to what inactive nodes may forget.
        let copies = 1 + usize::from(matches!(inputs, NodeInputs::Copied(_)));
        for input in inputs.iter() {
            *uses.place(input.id()) += copies;
        }
        if let NodeRef::Owned(_) = array {
            *uses.place(array.id()) += 1;
        }
    }
    let asked: FastMap<u64, ()> = outputs.iter().map(|o| (o.id(), ())).collect();
    let is_output = |a: &Array| asked.contains_key(&a.id());
    (visit.in_order().map(|(array, _)| array))
        .filter(|a| a.value().is_none() && is_worth_keeping(a))
        .filter(|a| Shared::strong_count(&a.0) > uses.get(a.id()) && !is_output(a))
        .map(|a| Array::clone(a))
        .collect()
}

/// Whether computing it again would cost more than the memory that a value takes.
fn is_worth_keeping(array: &Array) -> bool {
    match array.primitive().map(|p| p.0.cost) {
        Some(Cost::Free) => false,
        Some(Cost::Cheap) => array.nbytes() <= SMALL || array.0.depth >= LONG,
        _ => true,
    }
}

/// The variables of nodes.
struct Vars {
    of: NodeMap<Var>,
    /// Nodes that become literals when they are read.
    numbers: FastMap<u64, Complex<f64>>,
}

impl Vars {
    fn new(of: NodeMap<Var>) -> Vars {
        Vars {
            of,
            numbers: FastMap::default(),
        }
    }

    fn insert(&mut self, id: u64, var: Var) {
        *self.of.place(id) = var;
    }

    fn contains(&self, id: u64) -> bool {
        self.get(id) != NONE
    }

    /// Whether a node has a variable, or will have that of a literal.
    fn has(&self, id: u64) -> bool {
        self.contains(id) || (!self.numbers.is_empty() && self.numbers.contains_key(&id))
    }

    /// Whether a node is one of so many inputs.
    fn is_input(&self, id: u64, inputs: usize) -> bool {
        (self.get(id) as usize) < inputs
    }

    /// The variable of a node, which has one, or is a literal that is read for the first time.
    fn of(&mut self, array: &Array, builder: &Builder) -> Var {
        if !self.contains(array.id()) {
            let literal = match array.0.params.as_deref() {
                Some(Params::Literal { dtype, value }) => (*dtype, *value),
                _ => (array.dtype(), self.numbers[&array.id()]),
            };
            builder.at(Site::NONE);
            self.insert(array.id(), builder.complex_literal(literal.0, literal.1));
        }
        self.get(array.id())
    }

    /// The variable of a node that has one: inputs come before what is made of them.
    fn get(&self, id: u64) -> Var {
        self.of.get(id)
    }
}

/// Whether a program is the better for the value of an array that it computes. A leaf of an inner recording is what it
/// copies, perhaps an input: nothing to be cut there. An operation on numbers takes less time than handing over its
/// result.
fn is_worth_knowing(array: &Array) -> bool {
    match array.0.op {
        Op::Leaf => false,
        Op::Prim(prim) => !(prim.is_elementwise() && array.shape().is_empty()),
        _ => true,
    }
}

fn is_number(array: &Array) -> bool {
    matches!(array.0.op, Op::Number(_))
}

/// The applications of programs, in the order of their outputs, with the outputs that are wanted.
fn collect_calls(scope: &Scope<'_>, visit: &Visit<'_>) -> (Vec<CallInRun>, FastMap<u64, usize>) {
    let mut calls: Vec<CallInRun> = Vec::new();
    let mut at: FastMap<u64, usize> = FastMap::default();
    for (array, _) in visit.in_order() {
        if let Op::Output(output) = &array.0.op
            && scope.role(array) == Role::Equation
        {
            let i = *at.entry(output.of.id).or_insert_with(|| {
                calls.push(CallInRun {
                    application: Arc::clone(&output.of),
                    wanted: vec![false; output.of.program.outs().len()],
                    known: Vec::new(),
                    vars: Vec::new(),
                });
                calls.len() - 1
            });
            calls[i].wanted[output.index as usize] = true;
        }
    }
    (calls, at)
}

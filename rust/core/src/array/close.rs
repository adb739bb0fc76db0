//! Cutting a program out of the session graph.

use std::ops::Deref;
use std::sync::Arc;

use num_complex::Complex;
use smallvec::SmallVec;

use super::Array;
use super::node::{Op, Shared};
use super::report::Marks;
use crate::error::{Error, Result};
use crate::interrupt::{Steps, room_for};
use crate::kernels::Value;
use crate::prim::{Cost, Params, Place, Site, Var};
use crate::program::{Builder, FastMap, Program};

/// A program, and the arrays that are its inputs.
#[derive(Debug)]
pub struct Closed {
    /// The program.
    pub program: Program,
    /// Its inputs: the leaves of the recording first, if it was closed for one.
    pub inputs: Vec<Array>,
    /// Variables whose values are known already, although an equation defines them.
    pub known: Vec<(Var, Array)>,
    /// For a run: further arrays on the way whose values are worth keeping. They are the outputs of the
    /// program behind those that were asked for.
    pub kept: Vec<Array>,
    /// What is to be noted when it has been run: outputs of pullbacks.
    pub(super) computed: Vec<(Arc<Marks>, usize)>,
}

/// Room for what there is of most things, so that the common case is one allocation.
const FEW: usize = 16;

/// Values on the way to what is asked for are kept up to this many bytes.
const SMALL: usize = 64 << 10;

/// And larger ones where so many pending operations would have to be done again.
const LONG: u32 = 16;

impl Closed {
    /// The values of the inputs, computed where they are not known.
    pub fn values(&self, interrupted: &mut dyn FnMut() -> bool) -> Result<Vec<Value>> {
        values(&self.inputs, interrupted)
    }

    /// Notes which outputs of pullbacks have been computed.
    pub(super) fn note_computed(&self) {
        for (marks, output) in &self.computed {
            marks.set(*output);
        }
    }

    /// The values of the inputs with what is known of these: identity and site.
    pub(super) fn described(
        &self,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(u64, Option<Place>, Value)>> {
        described(&self.inputs, interrupted)
    }
}

/// The values of arrays with what is known of these.
pub(super) fn described(
    arrays: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<(u64, Option<Place>, Value)>> {
    let values = values(arrays, interrupted)?;
    Ok((arrays.iter().zip(values))
        .map(|(a, value)| (a.id(), a.site().place(), value))
        .collect())
}

/// The values of arrays, computed in one run where they are not known.
pub(super) fn values(
    arrays: &[Array],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    let pending: Vec<&Array> = arrays.iter().filter(|a| a.value().is_none()).collect();
    if !pending.is_empty() {
        Array::force_all(&pending, interrupted)?;
    }
    arrays
        .iter()
        .map(|a| a.force(interrupted).cloned())
        .collect()
}

/// How the error begins that reading a cotangent leads to while its rule is traced.
pub const UNKNOWN: &str = "the value of a cotangent";

/// An array that a walk has come to: borrowed from the active node that it is an input of, or held, since an
/// inactive one may forget its inputs meanwhile.
enum Held<'a> {
    Ref(&'a Array),
    Own(Array),
}

/// The inputs of such an array.
enum Next<'a> {
    Kept(&'a [Array]),
    Copied(SmallVec<[Array; 2]>),
}

type Reached<'a> = (Held<'a>, Next<'a>);

impl<'a> Held<'a> {
    fn next(&self) -> Next<'a> {
        match self {
            Held::Ref(array) => match array.0.kept_inputs() {
                Some(inputs) => Next::Kept(inputs),
                None => Next::Copied(array.0.inputs()),
            },
            Held::Own(array) => Next::Copied(array.0.inputs()),
        }
    }

    /// How many references to the node the walk itself holds.
    fn count(&self) -> usize {
        usize::from(matches!(self, Held::Own(_)))
    }
}

impl Deref for Held<'_> {
    type Target = Array;
    fn deref(&self) -> &Array {
        match self {
            Held::Ref(array) => array,
            Held::Own(array) => array,
        }
    }
}

impl Deref for Next<'_> {
    type Target = [Array];
    fn deref(&self) -> &[Array] {
        match self {
            Next::Kept(inputs) => inputs,
            Next::Copied(inputs) => inputs,
        }
    }
}

/// What a node becomes in the program.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Input,
    Equation,
    /// A leaf of another recording: what it copies.
    Alias,
    /// An application of a program, which gives several arrays and is none.
    Call,
}

/// Closes the graph behind `outputs`.
///
/// Without leaves, for a run: everything that is not computed yet becomes an equation. With the leaves
/// of a recording, to be differentiated: what may depend on them becomes equations too, computed or
/// not; what belongs to outer recordings only becomes inputs.
pub(super) fn close(outputs: &[&Array], leaves: Option<(&[Array], u64)>) -> Result<Closed> {
    close_with(outputs, leaves, &|_| None)
}

/// The same, where inputs that `number` gives a number for become literals. Each stands just before the first
/// equation that reads it, so that the same function gives the same program, whichever of its numbers were met
/// before.
pub(super) fn close_with(
    outputs: &[&Array],
    leaves: Option<(&[Array], u64)>,
    number: &dyn Fn(&Array) -> Option<Complex<f64>>,
) -> Result<Closed> {
    let (leaves, tag) = leaves.map_or((&[][..], u64::MAX), |(l, t)| (l, t));
    let mut seen = Seen::below(outputs.iter().copied().chain(leaves));
    for leaf in leaves {
        seen.is_new(leaf);
    }

    let role = |a: &Array| match a.0.op {
        Op::Known | Op::Number(_) => Role::Input,
        Op::Call(..) => Role::Call,
        _ if is_literal(a) => Role::Equation,
        // The leaf of an outer recording is what it is; for a run it may be what it copies.
        Op::Leaf if a.tag() < tag && (tag != u64::MAX || a.value().is_some()) => Role::Input,
        Op::Leaf => Role::Alias,
        _ if a.tag() >= tag => Role::Equation,
        _ if a.value().is_some() => Role::Input,
        _ if a.tag() == 0 || tag == u64::MAX => Role::Equation,
        _ => Role::Input,
    };
    // What is reachable, in order of creation: that is a topological order.
    let mut reached: Vec<Reached<'_>> = Vec::with_capacity(FEW);
    let mut work: Vec<Held<'_>> = Vec::with_capacity(FEW);
    let mut is_new = |a: &Array| seen.is_new(a);
    for &output in outputs {
        if is_new(output) {
            work.push(Held::Ref(output));
        }
    }
    let mut steps = Steps::default();
    while let Some(array) = work.pop() {
        steps.count()?;
        let next = if role(&array) == Role::Input {
            Next::Kept(&[])
        } else {
            array.next()
        };
        match &next {
            Next::Kept(inputs) => {
                work.extend(inputs.iter().filter(|a| is_new(a)).map(Held::Ref));
            }
            Next::Copied(inputs) => {
                work.extend(inputs.iter().filter(|a| is_new(a)).cloned().map(Held::Own));
            }
        }
        if reached.len() == reached.capacity() {
            room_for(reached.len())?;
        }
        reached.push((array, next));
    }
    room_for(reached.len())?;
    // Mostly in reverse order already.
    reached.reverse();
    reached.sort_by_key(|(a, _)| a.id());
    let mut vars = Vars::new(&reached);
    let builder = Builder::with_capacity(leaves.len() + FEW, reached.len());
    let mut inputs: Vec<Array> = Vec::with_capacity(leaves.len() + FEW);
    for (i, leaf) in leaves.iter().enumerate() {
        builder.input("", leaf.aval());
        inputs.push(leaf.clone());
        vars.insert(leaf.id(), i as Var);
    }

    let mut has_numbers = false;
    for (array, next) in &reached {
        if role(array) == Role::Alias && next.is_empty() {
            return Err(Error::Program(format!(
                "{UNKNOWN} ({}) is not known while its rule is traced, so it cannot be printed, branched on or \
                 handed to other libraries; choose with where(), or use a rule that is called with values: \
                 adjoint(opaque=True), or hook",
                array.aval()
            )));
        }
        // Another thread may have forced it meanwhile; then it has forgotten its inputs.
        let forced_meanwhile = next.is_empty() && array.value().is_some() && !is_literal(array);
        let is_input = role(array) == Role::Input || forced_meanwhile;
        if is_input && let Some(z) = number(array) {
            vars.numbers.insert(array.id(), z);
        } else if is_number(array) {
            has_numbers = true;
        } else if is_input {
            vars.insert(array.id(), builder.input("", array.aval()));
            inputs.push(Array::clone(array));
        }
    }
    // A number that was met before is an older node or a new one, as it happens: it stands where it is read first.
    if has_numbers {
        let read = reached.iter().flat_map(|(_, next)| next.iter());
        for array in read.chain(outputs.iter().copied()) {
            if is_number(array) && !vars.has(array.id()) {
                vars.insert(array.id(), builder.input("", array.aval()));
                inputs.push(Array::clone(array));
            }
        }
    }
    let calls = collect_calls(&reached);
    let mut known = Vec::new();
    let mut computed = Vec::new();
    let mut inlined: FastMap<u64, Vec<Option<Var>>> = FastMap::default();
    let mut args: SmallVec<[Var; 4]> = SmallVec::new();
    for (array, next) in &reached {
        steps.count()?;
        if vars.has(array.id()) || is_literal(array) {
            continue;
        }
        args.clear();
        for a in next.iter().filter(|a| role(a) != Role::Call) {
            args.push(vars.of(a, &builder));
        }
        builder.at(array.0.site);
        let var = match &array.0.op {
            Op::Prim(prim) => {
                let params = array.0.params.as_deref().cloned();
                let params = params.unwrap_or(Params::None);
                builder.push_inferred(*prim, params, &args, array.aval())
            }
            Op::Call(program, call) => {
                if let Some(wanted) = calls.get(call) {
                    inlined.insert(*call, builder.inline(program, &args, wanted));
                }
                continue;
            }
            Op::Output(program, i, call, marks) => {
                if let Some(marks) = marks {
                    computed.push((Arc::clone(marks), *i as usize));
                }
                let outs = inlined
                    .entry(*call)
                    .or_insert_with(|| builder.inline(program, &args, &calls[call]));
                outs[*i as usize].expect("wanted outputs of a call are computed")
            }
            Op::Leaf | Op::Known | Op::Number(_) => args[0],
        };
        // A leaf of an inner recording is what it copies, perhaps an input: nothing to be cut there.
        if array.value().is_some() && tag != u64::MAX && !matches!(array.0.op, Op::Leaf) {
            known.push((var, Array::clone(array)));
        }
        vars.insert(array.id(), var);
    }
    let mut outs: Vec<Var> = outputs.iter().map(|a| vars.of(a, &builder)).collect();
    let mut kept = Vec::new();
    if tag == u64::MAX {
        kept = held_elsewhere(&reached, outputs);
        kept.retain(|a| role(a) == Role::Equation && !vars.is_input(a.id(), inputs.len()));
        outs.extend(kept.iter().map(|a| vars.get(a.id())));
    }
    Ok(Closed {
        program: builder.finish(outs)?,
        inputs,
        known,
        kept,
        computed,
    })
}

/// Pending arrays on the way that somebody else holds, too: he is likely to ask for more of them, as
/// a loop does that looks at its state in every step, and should not start from the beginning then.
fn held_elsewhere(reached: &[Reached<'_>], outputs: &[&Array]) -> Vec<Array> {
    let mut uses: FastMap<u64, usize> = FastMap::default();
    for (array, next) in reached {
        let copies = 1 + usize::from(matches!(next, Next::Copied(_)));
        for input in next.iter() {
            *uses.entry(input.id()).or_default() += copies;
        }
        *uses.entry(array.id()).or_default() += array.count();
    }
    let asked: FastMap<u64, ()> = outputs.iter().map(|o| (o.id(), ())).collect();
    let is_output = |a: &Array| asked.contains_key(&a.id());
    (reached.iter().map(|(array, _)| array))
        .filter(|a| a.value().is_none() && (a.nbytes() <= SMALL || a.0.depth >= LONG))
        .filter(|a| a.primitive().is_none_or(|p| p.0.cost != Cost::Free))
        .filter(|a| Shared::strong_count(&a.0) > uses[&a.id()] && !is_output(a))
        .map(|a| Array::clone(a))
        .collect()
}

/// Which nodes a walk has come to. Most of them were recorded shortly before the newest one: these are bits.
struct Seen {
    newest: u64,
    near: Vec<u64>,
    far: FastMap<u64, ()>,
}

impl Seen {
    /// For nodes that are no newer than these.
    fn below<'a>(arrays: impl Iterator<Item = &'a Array>) -> Seen {
        Seen {
            newest: arrays.map(Array::id).max().unwrap_or(0),
            near: vec![0; FEW],
            far: FastMap::default(),
        }
    }

    /// Whether a node is met for the first time.
    fn is_new(&mut self, array: &Array) -> bool {
        let age = self.newest.wrapping_sub(array.id());
        let (word, bit) = ((age / 64) as usize, 1 << (age % 64));
        // Bits grow with the walk; what lies far behind it does not make room for all between.
        if word >= self.near.len() && word < 2 * self.near.len() {
            self.near.resize(2 * self.near.len(), 0);
        }
        let Some(word) = self.near.get_mut(word) else {
            return self.far.insert(array.id(), ()).is_none();
        };
        let is_new =
            *word & bit == 0 && (self.far.is_empty() || !self.far.contains_key(&array.id()));
        *word |= bit;
        is_new
    }
}

/// The variables of nodes. Ids of what was recorded together lie close together, so most of them are
/// an index into a list.
struct Vars {
    base: u64,
    dense: Vec<Var>,
    sparse: FastMap<u64, Var>,
    /// Nodes that become literals when they are read.
    numbers: FastMap<u64, Complex<f64>>,
}

/// A variable that no program has.
const NONE: Var = Var::MAX;

impl Vars {
    /// For nodes in order of their ids.
    fn new(reached: &[Reached<'_>]) -> Vars {
        let first = reached.first().map_or(0, |(a, _)| a.id());
        let last = reached.last().map_or(0, |(a, _)| a.id());
        let range = (last - first + 1) as usize;
        let dense = if range <= 8 * reached.len() {
            vec![NONE; range]
        } else {
            Vec::new()
        };
        Vars {
            base: first,
            dense,
            sparse: FastMap::default(),
            numbers: FastMap::default(),
        }
    }

    fn slot(&self, id: u64) -> Option<usize> {
        let at = id.wrapping_sub(self.base);
        (at < self.dense.len() as u64).then_some(at as usize)
    }

    fn insert(&mut self, id: u64, var: Var) {
        match self.slot(id) {
            Some(at) => self.dense[at] = var,
            None => {
                self.sparse.insert(id, var);
            }
        }
    }

    fn contains(&self, id: u64) -> bool {
        match self.slot(id) {
            Some(at) => self.dense[at] != NONE,
            None => self.sparse.contains_key(&id),
        }
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
        match self.slot(id) {
            Some(at) => self.dense[at],
            None => self.sparse[&id],
        }
    }
}

fn is_number(array: &Array) -> bool {
    matches!(array.0.op, Op::Number(_))
}

fn is_literal(array: &Array) -> bool {
    matches!(array.0.params.as_deref(), Some(Params::Literal { .. }))
}

/// For each call, which of its outputs are wanted.
fn collect_calls(reached: &[Reached<'_>]) -> FastMap<u64, Vec<bool>> {
    let mut calls: FastMap<u64, Vec<bool>> = FastMap::default();
    for (array, _) in reached {
        if let Op::Output(program, i, call, _) = &array.0.op {
            let program: &Arc<Program> = program;
            let wanted = calls
                .entry(*call)
                .or_insert_with(|| vec![false; program.outs().len()]);
            wanted[*i as usize] = true;
        }
    }
    calls
}

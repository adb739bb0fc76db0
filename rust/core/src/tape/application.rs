//! One application of a program: what its outputs have in common is computed once, although each waits until
//! it is read.
//!
//! When some outputs are computed while others wait, values on the border of what was computed are kept: those
//! that the rest reads. They go when nobody can need them any more: when the outputs have been computed, or
//! nobody refers to them. At most as many bytes are kept as the inputs and outputs of the program have.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kernels::Value;
use crate::ops;
use crate::prim::{Cost, Var};
use crate::program::Program;

/// For each output of a pullback's program, whether it has been computed.
#[derive(Debug, Default)]
pub(crate) struct Marks(Box<[AtomicBool]>);

impl Marks {
    pub fn new(count: usize) -> Arc<Marks> {
        Arc::new(Marks((0..count).map(|_| AtomicBool::new(false)).collect()))
    }

    pub fn set(&self, output: usize) {
        if let Some(mark) = self.0.get(output) {
            mark.store(true, Ordering::Relaxed);
        }
    }

    pub fn get(&self, output: usize) -> bool {
        self.0
            .get(output)
            .is_some_and(|m| m.load(Ordering::Relaxed))
    }
}

/// A program that was applied to arrays.
pub(crate) struct Application {
    pub program: Arc<Program>,
    pub id: u64,
    /// Where to note which outputs were computed.
    pub marks: Option<Arc<Marks>>,
    /// Which outputs have no value yet, and somebody who may ask for it.
    waiting: Box<[AtomicBool]>,
    left: AtomicUsize,
    /// Values of variables of the program.
    kept: Mutex<Vec<(Var, Value)>>,
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "application {}", self.id)
    }
}

impl Application {
    pub fn new(program: Arc<Program>, id: u64, marks: Option<Arc<Marks>>) -> Arc<Application> {
        let count = program.outs().len();
        Arc::new(Application {
            program,
            id,
            marks,
            waiting: (0..count).map(|_| AtomicBool::new(true)).collect(),
            left: AtomicUsize::new(count),
            kept: Mutex::default(),
        })
    }

    /// An output has a value, or nobody refers to it.
    fn done(&self, output: u32) {
        if !self.waiting[output as usize].swap(false, Ordering::Relaxed) {
            return;
        }
        let left = self.left.fetch_sub(1, Ordering::Relaxed) - 1;
        // A walk through the program each time would make many outputs dear.
        if left == 0 || left.is_power_of_two() {
            self.forget();
        }
    }

    fn is_waiting(&self, output: usize) -> bool {
        self.waiting[output].load(Ordering::Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Var, Value)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values that are kept and that these outputs need.
    pub fn known(&self, wanted: &[bool]) -> Vec<(Var, Value)> {
        let kept = self.kept().clone();
        if kept.is_empty() {
            return kept;
        }
        let outs = (self.program.outs().iter().zip(wanted)).filter(|(_, wanted)| **wanted);
        let is_kept = marked(&self.program, &kept);
        let needed = (self.program).needed_for(outs.map(|(&out, _)| out), |v| is_kept[v as usize]);
        let mut kept = kept;
        kept.retain(|(var, _)| needed[*var as usize]);
        kept
    }

    /// Which variables to keep for the outputs that go on waiting, of those that a run makes.
    pub fn worth_keeping(&self, becomes_known: &[bool], made: &[bool]) -> Vec<Var> {
        let program = &*self.program;
        let is_made = |v: Var| made[v as usize];
        let waiting = |i: usize| self.is_waiting(i) && !becomes_known[i];
        let others = (0..).zip(program.outs()).filter(|(i, _)| waiting(*i));
        let others: Vec<Var> = others.map(|(_, &out)| out).collect();
        if others.is_empty() {
            return Vec::new();
        }
        let kept: Vec<(Var, Value)> = self.kept().clone();
        let is_kept = marked(program, &kept);
        let is_there = |v: Var| is_kept[v as usize] || is_made(v);
        // What they need and is not there reads what is.
        let needed = program.needed_for(others, is_there);
        let mut border: Vec<Var> = Vec::new();
        let mut seen = vec![false; program.num_vars()];
        for k in (0..program.eqns().len()).rev() {
            let var = program.result(k);
            if needed[var as usize] && is_made(var) {
                source(program, var, &is_made, &mut seen, &mut border);
            }
        }
        border.sort_unstable();
        let bytes = |v: &Var| program.aval(*v).nbytes();
        let inputs = 0..program.num_inputs() as Var;
        let mut room: usize = inputs
            .chain(program.outs().iter().copied())
            .map(|v| bytes(&v))
            .sum();
        room = room.saturating_sub(kept.iter().map(|(v, _)| bytes(v)).sum());
        border.retain(|v| {
            let fits = bytes(v) <= room;
            room -= if fits { bytes(v) } else { 0 };
            fits
        });
        border
    }

    /// Keeps values that [`Application::worth_keeping`] has named.
    pub fn keep(&self, values: impl Iterator<Item = (Var, Value)>) {
        self.kept().extend(values);
        self.forget();
    }

    /// Lets go of what no output needs that waits.
    fn forget(&self) {
        let mut kept = self.kept();
        if kept.is_empty() {
            return;
        }
        let outs = (self.program.outs().iter().enumerate()).filter(|(i, _)| self.is_waiting(*i));
        let is_kept = marked(&self.program, &kept);
        let needed = (self.program).needed_for(outs.map(|(_, &out)| out), |v| is_kept[v as usize]);
        let gone = kept.extract_if(.., |(var, _)| !needed[*var as usize]);
        let gone: Vec<(Var, Value)> = gone.collect();
        drop(kept);
        drop(gone);
    }
}

/// One output of an application, as a node refers to it.
pub(crate) struct Output {
    pub of: Arc<Application>,
    pub index: u32,
}

impl Output {
    /// It has been computed.
    pub fn done(&self) {
        self.of.done(self.index);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.done();
    }
}

/// For every variable of a program whether its value is kept.
fn marked(program: &Program, kept: &[(Var, Value)]) -> Vec<bool> {
    let mut marked = vec![false; program.num_vars()];
    for (var, _) in kept {
        marked[*var as usize] = true;
    }
    marked
}

/// What to keep for a variable that a run makes: itself, or, of another layout, what it is one of. Nothing where it
/// is a step from the inputs.
fn source(
    program: &Program,
    var: Var,
    is_made: &impl Fn(Var) -> bool,
    seen: &mut [bool],
    border: &mut Vec<Var>,
) {
    let mut var = var;
    loop {
        if std::mem::replace(&mut seen[var as usize], true) || !is_made(var) {
            return;
        }
        let Some(eqn) = program.definition(var).filter(|e| e.prim != ops::LITERAL) else {
            return;
        };
        let args = program.args(eqn);
        match (eqn.prim.0.cost, args) {
            (Cost::Free, &[arg]) => var = arg,
            (Cost::Cheap, args) if args.iter().all(|&a| is_at_hand(program, a)) => return,
            _ => return border.push(var),
        }
    }
}

/// Whether a variable is an input or another layout of one, or a number.
fn is_at_hand(program: &Program, mut var: Var) -> bool {
    while let Some(eqn) = program.definition(var) {
        match (eqn.prim.0.cost, program.args(eqn)) {
            _ if eqn.prim == ops::LITERAL => return true,
            (Cost::Free, &[arg]) => var = arg,
            _ => return false,
        }
    }
    true
}

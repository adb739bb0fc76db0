//! One application of a program: what its outputs have in common is computed once, although each waits until
//! it is read.
//!
//! When some outputs are computed while others wait, values on the border of what was computed are kept: those
//! that the rest reads. They go when nobody can need them any more: when the outputs have been computed, or
//! nobody refers to them. At most as many bytes are kept as the inputs and outputs of the program have.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::kernels::Value;
use crate::ops;
use crate::prim::{Cost, Site, Var};
use crate::program::Program;

/// What the applications of one program have in common.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// For each output, whether it has been computed.
    computed: Box<[AtomicBool]>,
    parts: Mutex<Vec<Arc<Part>>>,
}

impl Applied {
    pub fn new(count: usize) -> Arc<Applied> {
        Arc::new(Applied {
            computed: (0..count).map(|_| AtomicBool::new(false)).collect(),
            parts: Mutex::default(),
        })
    }

    pub fn set(&self, output: usize) {
        if let Some(computed) = self.computed.get(output) {
            computed.store(true, Ordering::Relaxed);
        }
    }

    pub fn get(&self, output: usize) -> bool {
        (self.computed.get(output)).is_some_and(|computed| computed.load(Ordering::Relaxed))
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Arc<Part>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of an output in a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Turn {
    Asked,
    Waiting,
    Gone,
}

/// The part of a program that a run of some outputs needs, cut out once for all applications.
#[derive(Debug)]
pub(crate) struct Part {
    turns: SmallVec<[Turn; 8]>,
    /// The line that applied the program.
    call: Site,
    /// Gives what is asked for, then what is kept for the outputs that wait.
    pub program: Program,
    /// Which inputs of the whole program it has.
    pub inputs: Vec<usize>,
    pub kept: Vec<Var>,
}

/// How many parts of a program are kept: whoever reads its outputs in the same way again and again needs one or two.
const MANY_PARTS: usize = 8;

/// A program that was applied to arrays.
pub(crate) struct Application {
    pub program: Arc<Program>,
    pub id: u64,
    pub applied: Option<Arc<Applied>>,
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
    pub fn new(program: Arc<Program>, id: u64, applied: Option<Arc<Applied>>) -> Arc<Application> {
        let count = program.outs().len();
        Arc::new(Application {
            program,
            id,
            applied,
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

    /// The part of the program that these outputs need. None where values were kept of an earlier run, and where the
    /// program is applied once only, or calls back: those are closed into a program of their own.
    pub fn part(&self, asked: &[u32], call: Site) -> Option<Arc<Part>> {
        let applied = self.applied.as_ref()?;
        if self.program.has_calls() || !self.kept().is_empty() {
            return None;
        }
        let mut turns: SmallVec<[Turn; 8]> = (0..self.waiting.len())
            .map(|i| {
                if self.is_waiting(i) {
                    Turn::Waiting
                } else {
                    Turn::Gone
                }
            })
            .collect();
        for &output in asked {
            turns[output as usize] = Turn::Asked;
        }
        let found = applied
            .parts()
            .iter()
            .find(|part| part.turns == turns && part.call == call)
            .cloned();
        found.or_else(|| {
            let part = Arc::new(self.cut(asked, turns, call));
            let mut parts = applied.parts();
            if parts.len() == MANY_PARTS {
                parts.remove(0);
            }
            parts.push(Arc::clone(&part));
            Some(part)
        })
    }

    fn cut(&self, asked: &[u32], turns: SmallVec<[Turn; 8]>, call: Site) -> Part {
        let (program, count) = (&*self.program, self.program.num_inputs());
        let mut outs: Vec<Var> = asked.iter().map(|&i| program.outs()[i as usize]).collect();
        let needed = program.needed_for(outs.iter().copied(), |_| false);
        let inputs: Vec<usize> = (0..count).filter(|&i| needed[i]).collect();
        let made: Vec<bool> = (needed.iter().enumerate())
            .map(|(var, needed)| *needed && var >= count)
            .collect();
        let becomes_known: Vec<bool> = (turns.iter().zip(program.outs()))
            .map(|(&turn, &out)| turn == Turn::Asked && made[out as usize])
            .collect();
        let kept = self.worth_keeping(&becomes_known, &made);
        outs.extend(&kept);
        let vars: Vec<Var> = inputs.iter().map(|&i| i as Var).collect();
        let mut program = program.extract(&vars, &outs);
        program.complete_sites(call);
        Part {
            turns,
            call,
            program,
            inputs,
            kept,
        }
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

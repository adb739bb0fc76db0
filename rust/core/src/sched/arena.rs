//! The memory of a run of kernels in one piece: each buffer has its place before the run begins, nothing is allocated,
//! and a place is used again once nothing reads what lies there.
//!
//! The bodies of a program's loops are laid out once (`bodies.rs`) and run where their inputs and outputs lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::bodies::{Body, PATIENCE};
use super::homes::Outcome;
use super::plan::{Plan, Slot, Work};
use super::profile::Stopwatch;
use super::room::Room;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::{self, ALIGN, Ctx, Form, Storage, Value};
use crate::util::FastMap;

/// Such a memory has at most so many bytes,
pub(super) const LARGEST: usize = 16 << 20;
/// and all of them together: they are kept between the runs.
const MOST: usize = 128 << 20;
/// Roughly how many bytes say what an act does, which count, too.
const ACT: usize = 512;
/// What they have now.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// A plan with the memory for its runs.
#[derive(Debug)]
pub(super) struct Arena {
    memory: Arc<Storage>,
    _held: Held,
    bodies: Vec<Body>,
    /// What is run one after the other: the number of a body, and where its inputs and outputs begin.
    calls: Vec<(usize, Box<[usize]>)>,
    inputs: Vec<Value>,
    outs: Vec<Value>,
}

/// Bytes that count among those that are held.
#[derive(Debug)]
pub(super) struct Held(usize);

impl Held {
    /// Nothing where there is no room for them.
    pub(super) fn new(bytes: usize) -> Option<Held> {
        let before = HELD.fetch_add(bytes, Ordering::Relaxed);
        let held = Held(bytes);
        (before + bytes <= MOST).then_some(held)
    }

    pub(super) fn nbytes(&self) -> usize {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A buffer of the outer plan: a part of what lies at the place of a root.
#[derive(Debug, Clone)]
struct Cell {
    root: usize,
    shift: isize,
    form: Form,
}

/// A call before it is known where anything lies.
struct Draft {
    body: usize,
    inputs: Vec<Cell>,
    /// The roots of what it writes, and which input's place each may take.
    outputs: Vec<(usize, Option<usize>)>,
}

/// What a memory is made of, before it is known where it lies.
#[derive(Default)]
struct Drafts {
    /// Bytes of each root, and the number of the last call that reads it.
    roots: Vec<(usize, usize)>,
    cells: Vec<Option<Cell>>,
    bodies: Vec<Body>,
    calls: Vec<Draft>,
}

impl Arena {
    /// The memory for a plan with these inputs and, behind them, `more`; `None` where a step needs some that is not
    /// known before, or it would be too large.
    pub fn new(plan: &Arc<Plan>, inputs: &[Aval], more: &[Value]) -> Result<Option<Arena>> {
        let own = inputs.len() - more.len();
        if inputs.iter().map(Aval::nbytes).sum::<usize>() > LARGEST {
            return Ok(None);
        }
        let Some(drafts) = Drafts::of(plan, inputs)? else {
            return Ok(None);
        };
        let Drafts {
            roots,
            cells,
            bodies,
            calls,
        } = drafts;
        // Inputs and constants keep their places.
        let mut room = Room::default();
        let mut places: Vec<Option<usize>> = vec![None; roots.len()];
        for (place, (bytes, _)) in places.iter_mut().zip(&roots).take(inputs.len()) {
            *place = Some(room.take(*bytes));
        }
        let constants: Vec<Vec<usize>> = (bodies.iter())
            .map(|b| {
                b.constants()
                    .map(|v| room.take(v.aval().nbytes()))
                    .collect()
            })
            .collect();
        let mut dying: Vec<Vec<usize>> = vec![Vec::new(); calls.len()];
        for (root, &(_, last)) in roots.iter().enumerate().skip(inputs.len()) {
            if let Some(dying) = dying.get_mut(last) {
                dying.push(root);
            }
        }
        let mut located = Vec::with_capacity(calls.len());
        for (number, call) in calls.iter().enumerate() {
            for &(root, over) in &call.outputs {
                let taken = over.and_then(|input| {
                    let cell = &call.inputs[input];
                    let once = call.inputs.iter().filter(|c| c.root == cell.root).count() == 1;
                    let dies = dying[number].iter().position(|&r| r == cell.root)?;
                    let fits = once && cell.shift == 0 && roots[cell.root].0 == roots[root].0;
                    fits.then(|| dying[number].swap_remove(dies))
                });
                places[root] = match taken {
                    Some(donor) => places[donor],
                    None => Some(room.take(roots[root].0)),
                };
            }
            let at = |root: usize| places[root].ok_or_else(unplaced);
            let mut all = Vec::with_capacity(call.inputs.len() + call.outputs.len());
            for cell in &call.inputs {
                all.push(at(cell.root)?.wrapping_add_signed(cell.shift));
            }
            for &(root, _) in &call.outputs {
                all.push(at(root)?);
            }
            located.push((call.body, all.into_boxed_slice()));
            for &root in &dying[number] {
                room.give(at(root)?, roots[root].0);
            }
            if room.end > LARGEST {
                return Ok(None);
            }
        }
        // Bodies run one after the other, in the same room.
        let inside = room.end;
        let end = inside + bodies.iter().map(Body::size).max().unwrap_or(0);
        if end > LARGEST {
            return Ok(None);
        }
        let acts = bodies.iter().map(Body::len).sum::<usize>() * ACT;
        let Some(held) = Held::new(end + acts).filter(|_| acts <= LARGEST) else {
            return Ok(None);
        };
        let memory = Arc::new(Storage::allocate(end)?);
        let cancel = AtomicBool::new(false);
        let ctx = Ctx::new(&cancel, 1);
        let put = |value: &Value, place: usize| {
            let to = Form::dense(value.aval().clone()).at(&memory, place)?;
            kernels::copy_into(&to, value, &ctx)
        };
        let mut bodies = bodies;
        for (body, places) in bodies.iter_mut().zip(&constants) {
            for (value, &place) in body.constants().zip(places) {
                put(value, place)?;
            }
            body.settle(places, inside);
        }
        for (value, place) in more.iter().zip(&places[own..]) {
            put(value, place.ok_or_else(unplaced)?)?;
        }
        let value = |cell: &Cell| {
            let place = places[cell.root].ok_or_else(unplaced)?;
            (cell.form).at(&memory, place.wrapping_add_signed(cell.shift))
        };
        let of = |slot: Slot| match &cells[slot as usize] {
            Some(cell) => value(cell),
            None => Err(unplaced()),
        };
        Ok(Some(Arena {
            inputs: (0..own as Slot).map(of).collect::<Result<_>>()?,
            outs: plan.outs.iter().map(|&s| of(s)).collect::<Result<_>>()?,
            memory,
            _held: held,
            bodies,
            calls: located,
        }))
    }

    /// How many bytes it has.
    pub fn nbytes(&self) -> usize {
        self.memory.len()
    }

    /// The buffers of the inputs, contiguous.
    pub fn inputs(&self) -> &[Value] {
        &self.inputs
    }

    /// Those of the results. Some may share memory.
    pub fn outs(&self) -> &[Value] {
        &self.outs
    }

    /// Runs it on what lies in the buffers of the inputs.
    pub fn run(
        &mut self,
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut since = 0;
        for (body, places) in &self.calls {
            let body = &self.bodies[*body];
            since += body.len();
            if since >= PATIENCE {
                since = 0;
                if interrupted() {
                    return Err(Error::Interrupted);
                }
            }
            body.run(&self.memory, places, stopwatch, ctx, interrupted)?;
        }
        Ok(())
    }
}

fn unplaced() -> Error {
    Error::Program("a buffer of a run has no place".into())
}

impl Drafts {
    /// What is to be laid out; `None` where that cannot be.
    fn of(plan: &Arc<Plan>, inputs: &[Aval]) -> Result<Option<Drafts>> {
        let mut drafts = Drafts {
            cells: vec![None; plan.num_slots],
            ..Drafts::default()
        };
        for (slot, aval) in inputs.iter().enumerate() {
            let root = drafts.root(aval.nbytes());
            drafts.cells[slot] = Some(Cell {
                root,
                shift: 0,
                form: Form::dense(aval.clone()),
            });
        }
        let in_parts = !plan.steps.is_empty()
            && (plan.steps.iter()).all(|step| matches!(step.work, Work::Part(_)));
        if in_parts {
            let mut known: FastMap<*const Plan, Vec<usize>> = FastMap::default();
            for step in &plan.steps {
                let Work::Part(part) = &step.work else {
                    return Ok(None);
                };
                let outputs: Vec<Slot> = step.outputs.iter().map(|(slot, _)| *slot).collect();
                let known = known.entry(Arc::as_ptr(part)).or_default();
                if !drafts.call(part, &step.inputs, &outputs, known)? {
                    return Ok(None);
                }
            }
        } else {
            let own: Vec<Slot> = (0..inputs.len() as Slot).collect();
            // Several outputs may be one buffer, which is in each of their places.
            let end = plan.num_slots + plan.outs.len();
            let outs: Vec<Slot> = (plan.num_slots as Slot..end as Slot).collect();
            drafts.cells.resize(end, None);
            if !drafts.call(plan, &own, &outs, &mut Vec::new())? {
                return Ok(None);
            }
            for (&slot, out) in plan.outs.iter().zip(outs) {
                let cell = drafts.cells[out as usize].clone();
                drafts.cells[slot as usize] = cell;
            }
        }
        for &slot in &plan.outs {
            let Some(cell) = &drafts.cells[slot as usize] else {
                return Ok(None);
            };
            drafts.roots[cell.root].1 = usize::MAX;
        }
        Ok(Some(drafts))
    }

    fn root(&mut self, bytes: usize) -> usize {
        self.roots.push((bytes, usize::MAX));
        self.roots.len() - 1
    }

    /// A run of a plan; false where it cannot be laid out. `known` are the bodies that were made of it.
    fn call(
        &mut self,
        plan: &Arc<Plan>,
        inputs: &[Slot],
        outputs: &[Slot],
        known: &mut Vec<usize>,
    ) -> Result<bool> {
        let number = self.calls.len();
        let read = inputs.iter().map(|&slot| self.cells[slot as usize].clone());
        let Some(read) = read.collect::<Option<Vec<Cell>>>() else {
            return Ok(false);
        };
        // Places are multiples of `ALIGN`.
        let forms: Vec<(Form, usize)> = (read.iter())
            .map(|cell| {
                (
                    cell.form.clone(),
                    cell.shift.rem_euclid(ALIGN as isize) as usize,
                )
            })
            .collect();
        let found = known.iter().find(|&&b| self.bodies[b].inputs() == forms);
        let body = if let Some(&body) = found {
            body
        } else {
            let Some(body) = Body::new(plan, forms)? else {
                return Ok(false);
            };
            known.push(self.bodies.len());
            self.bodies.push(body);
            self.bodies.len() - 1
        };
        for cell in &read {
            self.roots[cell.root].1 = number;
        }
        let outcomes = self.bodies[body].outcomes().to_vec();
        let mut written = Vec::with_capacity(outputs.len());
        for (&slot, outcome) in outputs.iter().zip(outcomes) {
            let cell = match outcome {
                Outcome::Written { aval, over } => {
                    let root = self.root(aval.nbytes());
                    // Until something reads it.
                    self.roots[root].1 = number;
                    written.push((root, over));
                    Cell {
                        root,
                        shift: 0,
                        form: Form::dense(aval),
                    }
                }
                Outcome::Seen { input, shift, form } => Cell {
                    root: read[input].root,
                    shift: read[input].shift + shift,
                    form,
                },
            };
            self.cells[slot as usize] = Some(cell);
        }
        self.calls.push(Draft {
            body,
            inputs: read,
            outputs: written,
        });
        Ok(true)
    }
}

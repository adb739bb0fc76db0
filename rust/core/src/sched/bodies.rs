//! A plan laid out for memory that begins anywhere: what its steps read and write, relative to where its inputs and
//! outputs lie and to a room of its own, is known before it runs.

use std::sync::Arc;

use smallvec::SmallVec;

use super::homes::{Home, Homes, Outcome, Succession};
use super::plan::{Plan, Step, Work};
use super::profile::Stopwatch;
use super::run::kernel;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::{self, ALIGN, Ctx, Form, FusedLayout, LaidOut, Moved, Storage, Value};
use crate::prim::{Kernel, Own, UpdateFn, WriteFn};

/// After so many acts it is asked whether to stop.
pub(super) const PATIENCE: usize = 1024;

/// A plan that is laid out.
#[derive(Debug)]
pub(super) struct Body {
    plan: Arc<Plan>,
    /// Dtypes, shapes and strides of its inputs, and how far they lie off a multiple of `ALIGN`.
    inputs: Vec<(Form, usize)>,
    outcomes: Vec<Outcome>,
    acts: Vec<Act>,
    /// Where constants and what stays inside lie: at first relative to the room, then in the memory.
    fixed: Vec<usize>,
    /// Bytes of the room.
    size: usize,
}

/// Where a value begins: so many bytes from the place of this number. Those of the inputs come first, then those of
/// the outputs, and what is fixed.
#[derive(Debug, Clone, Copy)]
struct Operand {
    place: u32,
    shift: isize,
}

/// A value, wherever it lies.
type Located = (Operand, Form);

/// What is done, and by which step.
#[derive(Debug)]
struct Act {
    step: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Fused(FusedLayout, Box<[Operand]>),
    Call(Box<[Located]>, Located),
    Write(WriteFn, Box<[Located]>, Located),
    /// A short kernel with its operands. Before it, where what it writes has another place than the array that it
    /// changes, that is copied there.
    LaidOut(LaidOut, Box<[Operand]>, Option<(LaidOut, [Operand; 2])>),
    /// An array that is changed where it lies, if its place is that of the result.
    Update(UpdateFn, Located, Box<[Located]>, Located),
    Copy(Located, Located),
}

/// A buffer while it is laid out: a value in memory that stands for that of its root.
struct Cell {
    root: usize,
    value: Value,
}

/// Memory that is written as a whole, or that of an input or a constant.
struct Root {
    /// Where its first element lies in the memory that stands for it.
    first: usize,
    aval: Aval,
    /// The last act that reads it.
    last: usize,
    home: Home,
}

/// An act before it is known where anything lies: cells that it reads, and roots that it writes.
struct Sketch {
    step: usize,
    kind: Kind,
    reads: Vec<usize>,
    writes: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Kind {
    Fused,
    Call,
    Write(&'static Own<WriteFn>),
    Update(&'static Own<UpdateFn>),
    Copy,
}

/// What is known of a plan while it is laid out.
struct Sketches<'p> {
    plan: &'p Plan,
    /// Memory that stands for all that is laid out, to see what views do. Nothing is read from it.
    stand_in: Arc<Storage>,
    cells: Vec<Cell>,
    slots: Vec<Option<usize>>,
    roots: Vec<Root>,
    acts: Vec<Sketch>,
}

impl Body {
    /// Lays out a plan for inputs of these forms; `None` where a step needs memory that is not known before.
    pub fn new(plan: &Arc<Plan>, inputs: Vec<(Form, usize)>) -> Result<Option<Body>> {
        let Some(mut sketches) = Sketches::of(plan, &inputs)? else {
            return Ok(None);
        };
        let successions = sketches.succeed();
        let mut homes = Homes {
            inputs: inputs.len(),
            constants: plan.constants.len(),
            outcomes: Vec::new(),
            successions,
            numbers: Vec::new(),
        };
        sketches.end(&mut homes)?;
        let (fixed, size) = homes.settle(sketches.acts.len());
        let acts = sketches.write(&homes)?;
        Ok(Some(Body {
            plan: Arc::clone(plan),
            inputs,
            outcomes: homes.outcomes,
            acts,
            fixed,
            size,
        }))
    }

    /// What its inputs have to be.
    pub fn inputs(&self) -> &[(Form, usize)] {
        &self.inputs
    }

    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The constants that have to lie somewhere.
    pub fn constants(&self) -> impl Iterator<Item = &Value> {
        self.plan.constants.iter().map(|(_, value)| value)
    }

    /// Bytes of the room for what stays inside.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many acts it has.
    pub fn len(&self) -> usize {
        self.acts.len()
    }

    /// Says where its constants and its room are.
    pub fn settle(&mut self, constants: &[usize], room: usize) {
        let (known, inside) = self.fixed.split_at_mut(constants.len());
        known.copy_from_slice(constants);
        for place in inside {
            *place += room;
        }
    }

    /// Runs it where its inputs and outputs are.
    pub fn run(
        &self,
        memory: &Arc<Storage>,
        places: &[usize],
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let place = |operand: &Operand| {
            let number = operand.place as usize;
            let place = match number.checked_sub(places.len()) {
                None => places[number],
                Some(inside) => self.fixed[inside],
            };
            place.wrapping_add_signed(operand.shift)
        };
        let value = |(operand, form): &Located| form.at(memory, place(operand));
        // Collecting them as a `Result` would move them.
        let located = |all: &[Located]| -> Result<SmallVec<[Value; 3]>> {
            let mut values = SmallVec::new();
            for each in all {
                values.push(value(each)?);
            }
            Ok(values)
        };
        for (number, act) in self.acts.iter().enumerate() {
            if number % PATIENCE == PATIENCE - 1 && interrupted() {
                return Err(Error::Interrupted);
            }
            let start = stopwatch.start();
            let step = &self.plan.steps[act.step];
            match &act.what {
                What::Fused(layout, operands) => {
                    if let Work::Fused(fused) = &step.work {
                        fused.run_at(layout, memory, operands.iter().map(place), ctx)?;
                    }
                }
                What::Update(write, base, rest, out) => {
                    let target = value(out)?;
                    if place(&base.0) != place(&out.0) {
                        kernels::copy_into(&target, &value(base)?, ctx)?;
                    }
                    write(&step.params, &target, &located(rest)?, ctx)?;
                }
                What::Call(args, out) => {
                    let mut args = located(args)?;
                    let result = kernel(step, &mut args, out.1.aval(), ctx)?;
                    kernels::copy_into(&value(out)?, &result, ctx)?;
                }
                What::Write(write, args, out) => {
                    let args = located(args)?;
                    write(&step.params, &args, &value(out)?, ctx)?;
                }
                What::LaidOut(kernel, operands, base) => {
                    if let Some((copy, both)) = base
                        && place(&both[0]) != place(&both[1])
                    {
                        copy.run_at(memory, both.iter().map(place))?;
                    }
                    kernel.run_at(memory, operands.iter().map(place))?;
                }
                What::Copy(from, to) => kernels::copy_into(&value(to)?, &value(from)?, ctx)?,
            }
            stopwatch.stop(start, &step.origins);
        }
        Ok(())
    }
}

impl<'p> Sketches<'p> {
    fn of(plan: &'p Plan, inputs: &[(Form, usize)]) -> Result<Option<Sketches<'p>>> {
        if plan.steps.is_empty() {
            return Ok(None);
        }
        let reach = |form: &Form| form.reach().before.next_multiple_of(ALIGN) + form.reach().behind;
        let made = plan.steps.iter().flat_map(|step| &step.outputs);
        let constants = plan.constants.iter().map(|(_, value)| value.aval());
        let sizes = made.map(|(_, aval)| aval).chain(constants);
        let largest = (sizes.map(Aval::nbytes))
            .chain(inputs.iter().map(|(form, _)| reach(form)))
            .max();
        let stand_in = Arc::new(Storage::allocate(largest.unwrap_or(0) + 2 * ALIGN)?);
        let mut sketches = Sketches {
            plan,
            stand_in,
            cells: Vec::new(),
            slots: vec![None; plan.num_slots],
            roots: Vec::new(),
            acts: Vec::new(),
        };
        for (i, (form, off)) in inputs.iter().enumerate() {
            let first = form.reach().before.next_multiple_of(ALIGN) + off;
            let cell = sketches.root(form, first, Home::Input(i))?;
            sketches.slots[i] = Some(cell);
        }
        for (i, (slot, value)) in plan.constants.iter().enumerate() {
            let form = Form::dense(value.aval().clone());
            let cell = sketches.root(&form, 0, Home::Constant(i))?;
            sketches.slots[*slot as usize] = Some(cell);
        }
        for (k, step) in plan.steps.iter().enumerate() {
            if !sketches.step(k, step)? {
                return Ok(None);
            }
        }
        Ok(Some(sketches))
    }

    /// A cell that is a root by itself.
    fn root(&mut self, form: &Form, first: usize, home: Home) -> Result<usize> {
        let value = form.at(&self.stand_in, first)?;
        self.roots.push(Root {
            first,
            aval: form.aval().clone(),
            last: 0,
            home,
        });
        Ok(self.cell(self.roots.len() - 1, value))
    }

    fn cell(&mut self, root: usize, value: Value) -> usize {
        self.cells.push(Cell { root, value });
        self.cells.len() - 1
    }

    /// The acts of a step; false where there are none for it.
    fn step(&mut self, k: usize, step: &Step) -> Result<bool> {
        let read = step.inputs.iter().map(|&slot| self.slots[slot as usize]);
        let Some(reads) = read.collect::<Option<Vec<usize>>>() else {
            return Ok(false);
        };
        let kind = match (&step.work, step.prim.kernel_ref()) {
            (Work::View, Some(Kernel::View(layout))) => {
                let (slot, aval) = &step.outputs[0];
                let seen = |cell: &Cell| layout(&step.params, &cell.value, aval);
                let mut source = reads[0];
                let mut view = seen(&self.cells[source]);
                if view.is_none() {
                    // No strides describe it: in row-major order they do.
                    let form = Form::dense(self.cells[source].value.aval().clone());
                    source = self.root(&form, 0, Home::Unknown)?;
                    self.act(k, Kind::Copy, reads, vec![source]);
                    view = seen(&self.cells[source]);
                }
                let Some(view) = view else { return Ok(false) };
                let cell = self.cell(self.cells[source].root, view);
                self.slots[*slot as usize] = Some(cell);
                return Ok(true);
            }
            (Work::Fused(fused), _) if !fused.is_empty() => Kind::Fused,
            (Work::Call, Some(Kernel::Write(write))) => Kind::Write(write),
            (Work::Call, Some(Kernel::Update(write))) => Kind::Update(write),
            (Work::Call, _) => Kind::Call,
            _ => return Ok(false),
        };
        let mut writes = Vec::with_capacity(step.outputs.len());
        for (slot, aval) in &step.outputs {
            let cell = self.root(&Form::dense(aval.clone()), 0, Home::Unknown)?;
            self.slots[*slot as usize] = Some(cell);
            writes.push(cell);
        }
        self.act(k, kind, reads, writes);
        Ok(true)
    }

    fn act(&mut self, step: usize, kind: Kind, reads: Vec<usize>, writes: Vec<usize>) {
        for &cell in &reads {
            self.roots[self.cells[cell].root].last = self.acts.len();
        }
        for &cell in &writes {
            self.roots[self.cells[cell].root].last = self.acts.len();
        }
        self.acts.push(Sketch {
            step,
            kind,
            reads,
            writes,
        });
    }

    /// Whether a cell is all of its root.
    fn is_whole(&self, cell: usize) -> bool {
        let Cell { root, value } = &self.cells[cell];
        let root = &self.roots[*root];
        value.is_contiguous() && self.shift(cell) == 0 && *value.aval() == root.aval
    }

    /// How far a cell begins from where its root does.
    fn shift(&self, cell: usize) -> isize {
        let Cell { root, value } = &self.cells[cell];
        let place = value.address() - self.stand_in.as_ptr().addr();
        place as isize - self.roots[*root].first as isize
    }

    /// Gives each root that is written a place: that of the array that it is a changed copy of, if nothing reads that
    /// any more.
    fn succeed(&mut self) -> Vec<Succession> {
        let mut last: Vec<usize> = self.roots.iter().map(|root| root.last).collect();
        for &slot in &self.plan.outs {
            if let Some(cell) = self.slots[slot as usize] {
                last[self.cells[cell].root] = usize::MAX;
            }
        }
        let mut successions: Vec<Succession> = Vec::new();
        for number in 0..self.acts.len() {
            let act = &self.acts[number];
            let mut place = None;
            if let Kind::Update(_) = act.kind {
                let base = self.cells[act.reads[0]].root;
                let once = act.reads[1..].iter().all(|&c| self.cells[c].root != base);
                if last[base] == number && once && self.is_whole(act.reads[0]) {
                    place = Some(self.roots[base].home);
                }
            }
            for &cell in &self.acts[number].writes {
                let root = self.cells[cell].root;
                let home = if let Some(Home::Shared(s)) = place {
                    s
                } else {
                    successions.push(Succession {
                        bytes: self.roots[root].aval.nbytes(),
                        output: None,
                        over: match place {
                            Some(Home::Input(i)) => Some(i),
                            _ => None,
                        },
                        first: number,
                        last: number,
                    });
                    successions.len() - 1
                };
                successions[home].last = last[root];
                self.roots[root].home = Home::Shared(home);
            }
        }
        successions
    }

    /// Says how each output comes about; what is not written where it has to be is copied there.
    fn end(&mut self, homes: &mut Homes) -> Result<()> {
        let last = self.plan.steps.len() - 1;
        for (j, &slot) in self.plan.outs.iter().enumerate() {
            let Some(cell) = self.slots[slot as usize] else {
                return Err(Error::Program("no step makes an output".into()));
            };
            let aval = self.cells[cell].value.aval().clone();
            let outcome = match self.roots[self.cells[cell].root].home {
                Home::Input(input) => self.seen(cell, input),
                Home::Shared(s) if homes.successions[s].output.is_none() && self.is_whole(cell) => {
                    homes.successions[s].output = Some(j);
                    let over = homes.successions[s].over;
                    Outcome::Written { aval, over }
                }
                _ => {
                    let number = self.acts.len();
                    homes.successions.push(Succession {
                        bytes: aval.nbytes(),
                        output: Some(j),
                        over: None,
                        first: number,
                        last: usize::MAX,
                    });
                    self.roots.push(Root {
                        first: 0,
                        aval: aval.clone(),
                        last: number,
                        home: Home::Shared(homes.successions.len() - 1),
                    });
                    let value = self.cells[cell].value.clone();
                    let to = self.cell(self.roots.len() - 1, value);
                    self.act(last, Kind::Copy, vec![cell], vec![to]);
                    Outcome::Written { aval, over: None }
                }
            };
            homes.outcomes.push(outcome);
        }
        Ok(())
    }

    fn seen(&self, cell: usize, input: usize) -> Outcome {
        Outcome::Seen {
            input,
            shift: self.shift(cell),
            form: Form::of(&self.cells[cell].value),
        }
    }

    /// A short kernel; with one that copies the array that it changes.
    fn laid_out(&self, act: &Sketch) -> Option<(LaidOut, Option<LaidOut>)> {
        let params = &self.plan.steps[act.step].params;
        let value = |&cell: &usize| self.cells[cell].value.clone();
        let reads: SmallVec<[Value; 3]> = act.reads.iter().map(value).collect();
        // What is written is row-major, whatever is copied there.
        let written = self.cells[act.writes[0]].value.aval().clone();
        let out = Form::dense(written).at(&self.stand_in, 0).ok()?;
        let copied = |x: &Value| {
            let whole = std::slice::from_ref(&out);
            kernels::laid_out(std::slice::from_ref(x), &out, whole, Moved::Copied)
        };
        match act.kind {
            Kind::Copy => Some((copied(&reads[0])?, None)),
            Kind::Write(write) => Some((write.lay_out?(params, &reads, &out)?, None)),
            Kind::Update(write) => {
                let (base, rest) = reads.split_first()?;
                Some((write.lay_out?(params, rest, &out)?, Some(copied(base)?)))
            }
            Kind::Fused | Kind::Call => None,
        }
    }

    /// The acts, now that it is known where everything lies.
    fn write(&self, homes: &Homes) -> Result<Vec<Act>> {
        let operand = |cell: usize| Operand {
            place: homes.number(self.roots[self.cells[cell].root].home),
            shift: self.shift(cell),
        };
        let located = |cell: usize| (operand(cell), Form::of(&self.cells[cell].value));
        // What is written is row-major, whatever was copied there.
        let target = |cell: usize| {
            let place = homes.number(self.roots[self.cells[cell].root].home);
            let form = Form::dense(self.cells[cell].value.aval().clone());
            (Operand { place, shift: 0 }, form)
        };
        let all = |cells: &[usize]| cells.iter().map(|&c| located(c)).collect();
        let values = |cells: &[usize]| -> Vec<Value> {
            cells.iter().map(|&c| self.cells[c].value.clone()).collect()
        };
        let act = |act: &Sketch| {
            let Sketch { reads, writes, .. } = act;
            if let Some((kernel, base)) = self.laid_out(act) {
                let first = usize::from(base.is_some());
                let to = target(writes[0]).0;
                let read = reads[first..].iter().map(|&c| operand(c));
                let all = read.chain([to]);
                let both = [operand(reads[0]), to];
                return Ok(Act {
                    step: act.step,
                    what: What::LaidOut(kernel, all.collect(), base.map(|copy| (copy, both))),
                });
            }
            let what = match act.kind {
                Kind::Fused => {
                    let Work::Fused(fused) = &self.plan.steps[act.step].work else {
                        unreachable!("it is a group")
                    };
                    let layout = fused.layout(&values(reads), &values(writes))?;
                    What::Fused(
                        layout,
                        reads.iter().chain(writes).map(|&c| operand(c)).collect(),
                    )
                }
                Kind::Call => What::Call(all(reads), target(writes[0])),
                Kind::Write(write) => What::Write(write.run, all(reads), target(writes[0])),
                Kind::Update(write) => What::Update(
                    write.run,
                    located(reads[0]),
                    all(&reads[1..]),
                    target(writes[0]),
                ),
                Kind::Copy => What::Copy(located(reads[0]), target(writes[0])),
            };
            Ok(Act {
                step: act.step,
                what,
            })
        };
        self.acts.iter().map(act).collect()
    }
}

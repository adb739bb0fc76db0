//! Groups along rows in one kernel: softmax, layer norm and their kind, which reduce a row and compute with the result.
//!
//! A chain of groups is one where each walks the same rows, or has one value for each. A workgroup takes a row, or a thread
//! does where rows are short, and does what the groups do one after the other: what a row was reduced to stays with it, and
//! elements that were written are read again by the thread that wrote them. Threads take neighbours together where these lie
//! side by side. The order of sums is that of rows alone.

use std::fmt::Write;
use std::sync::Arc;

use cotan::aval::{Aval, broadcast_strides, row_major};
use cotan::kernels::{Recipe, RecipeOutput, Value};
use cotan::sched::{DevicePlan, DeviceStep, Task};
use cotan::{Error, Result};

use crate::fold::Fold;
use crate::group::Group;
use crate::memory::Memory;
use crate::recorded::Steps;
use crate::run::{Run, args_of, is_long, keep};
use crate::shader::{Dispatch, Shader, Source};
use crate::types::Type;
use crate::vectors::{self, Computed, Vector};

/// Rows of so many elements have a team of threads each, shorter ones a thread.
const SHORT: usize = 64;
/// With fewer rows than this, longer ones are cut, which one kernel cannot do.
const FEW_ROWS: usize = 32;
const LONG_ROW: usize = 16_384;

/// Steps that one kernel may take: groups, and layouts between them.
#[derive(Debug)]
pub struct Chain {
    first: usize,
    last: usize,
    rows: usize,
    columns: usize,
    /// What they read that was there before.
    inputs: Vec<u32>,
    /// What the groups make, one after the other.
    outputs: Vec<(u32, Aval)>,
    /// Those that something reads afterwards.
    kept: Vec<u32>,
}

/// Rows and columns of a recipe that reduces rows.
fn rows_of(recipe: &Recipe) -> Option<[usize; 2]> {
    let mut found = None;
    for output in &recipe.outputs {
        let RecipeOutput::Reduced(_, _, [outer, reduced, inner]) = *output else {
            continue;
        };
        if inner != 1 || found.is_some_and(|f| f != [outer, reduced]) {
            return None;
        }
        found = Some([outer, reduced]);
    }
    found
}

/// Whether a recipe computes at each element of rows, or once for each row, and reduces nothing else.
fn goes_along(recipe: &Recipe, [rows, columns]: [usize; 2]) -> bool {
    let size: usize = recipe.shape.iter().product();
    let is_whole = |o: &RecipeOutput| matches!(o, RecipeOutput::Whole(_));
    if recipe.outputs.iter().all(is_whole) {
        return size == rows || size == rows * columns;
    }
    size == rows * columns && rows_of(recipe) == Some([rows, columns])
}

impl Chain {
    /// The longest chain that begins with a step.
    fn at(plan: &DevicePlan, first: usize) -> Option<Chain> {
        let Task::Group(recipe) = plan.step(first).task else {
            return None;
        };
        let [rows, columns] = rows_of(recipe)?;
        if columns < 2 || !goes_along(recipe, [rows, columns]) {
            return None;
        }
        if rows < FEW_ROWS && columns > LONG_ROW {
            return None;
        }
        let mut made: Vec<u32> = plan.step(first).outputs.iter().map(|o| o.0).collect();
        let mut last = first;
        for number in first + 1..plan.num_steps() {
            let step = plan.step(number);
            match step.task {
                Task::View => {}
                Task::Group(recipe)
                    if goes_along(recipe, [rows, columns])
                        && step.inputs.iter().any(|i| made.contains(i)) =>
                {
                    last = number;
                }
                _ => break,
            }
            made.extend(step.outputs.iter().map(|o| o.0));
        }
        (last > first).then(|| Chain::of(plan, [first, last], [rows, columns]))
    }

    fn of(plan: &DevicePlan, [first, last]: [usize; 2], [rows, columns]: [usize; 2]) -> Chain {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let (mut made, mut gone) = (Vec::new(), Vec::new());
        for number in first..=last {
            let step = plan.step(number);
            for slot in step.inputs {
                if !made.contains(slot) && !inputs.contains(slot) {
                    inputs.push(*slot);
                }
            }
            made.extend(step.outputs.iter().map(|o| o.0));
            if matches!(step.task, Task::Group(_)) {
                outputs.extend(step.outputs.iter().cloned());
            }
            gone.extend(step.dying.iter().chain(step.unread));
        }
        let mut kept: Vec<u32> = made.into_iter().filter(|s| !gone.contains(s)).collect();
        // Another layout keeps the memory of what it is a layout of.
        for number in (first..=last).rev() {
            let step = plan.step(number);
            if matches!(step.task, Task::View) && kept.contains(&step.outputs[0].0) {
                kept.push(step.inputs[0]);
            }
        }
        Chain {
            first,
            last,
            rows,
            columns,
            inputs,
            outputs,
            kept,
        }
    }

    /// The chains of a plan, by their first steps; those that begin inside of another one are left out.
    pub fn all(plan: &DevicePlan) -> Vec<Option<Arc<Chain>>> {
        let mut all: Vec<Option<Arc<Chain>>> = vec![None; plan.num_steps()];
        let mut number = 0;
        while number < plan.num_steps() {
            let chain = Chain::at(plan, number);
            let next = chain.as_ref().map_or(number, |c| c.last) + 1;
            all[number] = chain.map(Arc::new);
            number = next;
        }
        all
    }
}

/// Whether elements lie at their number in row-major order, over all axes of a shape or over the first ones, whose
/// product is `rows`, and are the same along the others.
fn lies_in_order(value: &Value, shape: &[usize], rows: Option<usize>) -> bool {
    let own = broadcast_strides(value.shape(), value.strides(), shape);
    let mut split = shape.len();
    if let Some(rows) = rows {
        let mut product = 1;
        split = 0;
        while product < rows && split < shape.len() {
            product *= shape[split];
            split += 1;
        }
        if product != rows {
            return false;
        }
    }
    let wanted = row_major(&shape[..split]);
    let fits = (0..shape.len())
        .filter(|&axis| shape[axis] != 1)
        .all(|axis| own[axis] == wanted.get(axis).copied().unwrap_or(0));
    fits && value.first() == 0
}

/// What the groups of a chain have made so far, in a kernel that is being written.
struct Phases<'c> {
    shader: Shader<'c>,
    text: String,
    rows: usize,
    columns: usize,
    /// Whether a workgroup takes a row.
    together: bool,
    /// How many neighbours a thread takes at once.
    unit: usize,
    /// How many groups there are so far.
    groups: usize,
    /// What has one value for each row, and the variable that holds it.
    totals: Vec<(Arc<Memory>, String)>,
    /// What has a value for each element.
    wholes: Vec<Arc<Memory>>,
}

impl Phases<'_> {
    /// How a group reads a value; nothing where it would read what another row has.
    fn source(&self, value: &Value, source: Source, shape: &[usize]) -> Option<Source> {
        let Source::Array(_, memory) = &source else {
            return Some(source);
        };
        let is_it = |m: &Arc<Memory>| Arc::ptr_eq(m, memory);
        if let Some((_, name)) = self.totals.iter().find(|(m, _)| is_it(m)) {
            let fits = lies_in_order(value, shape, Some(self.rows));
            return fits.then(|| Source::Given(name.clone()));
        }
        if self.wholes.iter().any(is_it) {
            let size: usize = shape.iter().product();
            let fits = size == self.rows * self.columns && lies_in_order(value, shape, None);
            return fits.then_some(source);
        }
        Some(source)
    }

    /// Adds what a group does; `None` where it cannot be done for rows alone.
    fn add(&mut self, group: &Group<'_>, memories: &[Arc<Memory>], kept: &[bool]) -> Option<()> {
        let recipe = group.recipe();
        let roots: Vec<u32> = (recipe.outputs.iter())
            .map(|output| match *output {
                RecipeOutput::Whole(x) | RecipeOutput::Reduced(x, ..) => x,
            })
            .collect();
        let size: usize = recipe.shape.iter().product();
        if size == self.rows {
            let body = group.body(&mut self.shader, &roots);
            self.once(group, &roots, &body, memories, kept);
            return Some(());
        }
        self.groups += 1;
        let (outside, mut inside, values) = self.computed(group, &roots)?;
        let (mut folds, mut starts) = (Vec::new(), String::new());
        for ((output, memory), values) in recipe.outputs.iter().zip(memories).zip(values) {
            match *output {
                RecipeOutput::Whole(x) => {
                    inside += &self.written(group.kind(x), memory, &values)?;
                    self.wholes.push(Arc::clone(memory));
                }
                RecipeOutput::Reduced(x, op, _) => {
                    let fold = Fold::new(op, group.kind(x))?;
                    let acc = format!("acc{}", self.totals.len() + folds.len());
                    let prelude = &mut self.shader.prelude;
                    let value = fold.tree(&values, prelude);
                    let sum = fold.combined(&acc, &value, prelude);
                    if self.unit == 1 {
                        let _ = writeln!(starts, "  var {acc} = {}();", fold.name);
                        let _ = writeln!(
                            inside,
                            "  if (column == begin) {{ {acc} = {value}; }} else {{ {acc} = {sum}; }}"
                        );
                    } else {
                        let start = fold.identity(prelude);
                        let _ = writeln!(starts, "  var {acc} = {start};");
                        let _ = writeln!(inside, "  {acc} = {sum};");
                    }
                    folds.push((fold, acc, memory));
                }
            }
        }
        let columns = self.shader.param((self.columns / self.unit) as u32);
        let team = self.shader.context.team();
        let step = if self.together { team } else { 1 };
        let _ = writeln!(
            self.text,
            "{outside}{starts}  for (var column = begin; column < {columns}; column = column + {step}u) {{\n  \
             let i = row * {columns} + column;\n{inside}  }}"
        );
        let reduced = recipe.outputs.iter().zip(kept);
        let kept = reduced.filter(|(o, _)| matches!(o, RecipeOutput::Reduced(..)));
        let kept: Vec<bool> = kept.map(|(_, kept)| *kept).collect();
        for ((fold, acc, memory), kept) in folds.into_iter().zip(kept) {
            self.total(fold, &acc, memory, kept);
        }
        Some(())
    }

    /// Statements for a row and for each step along it, and the values that these give for each root; nothing where they
    /// cannot be had so many at once.
    fn computed(
        &mut self,
        group: &Group<'_>,
        roots: &[u32],
    ) -> Option<(String, String, Vec<Vec<String>>)> {
        if self.unit == 1 {
            let body = group.body(&mut self.shader, roots);
            let values = roots.iter().map(|x| vec![format!("v{x}")]);
            return Some((String::new(), body, values.collect()));
        }
        if !vectors::fits(self.unit, group.recipe().nodes.len()) {
            return None;
        }
        let (shader, tag) = (&mut self.shader, format!("g{}_", self.groups));
        let rows = Some([self.rows, self.columns / self.unit]);
        let computed = Computed::new(shader, group, roots, rows, self.unit, &tag)?;
        let values = (0..roots.len()).map(|k| computed.values(k)).collect();
        Some((computed.outside, computed.inside, values))
    }

    /// The statement that writes values from number `i` on.
    fn written(&mut self, kind: Type, memory: &Memory, values: &[String]) -> Option<String> {
        if self.unit > 1 {
            let vector = Vector::new(self.shader.context, kind, self.unit)?;
            return Some(vector.write(&mut self.shader, memory, "i", values));
        }
        let name = self.shader.bind(memory.buffer(), kind.stored, true);
        Some(format!("  {name}[i] = {};\n", kind.store(&values[0])))
    }

    /// What a group computes once for a row: each thread does.
    fn once(
        &mut self,
        group: &Group<'_>,
        roots: &[u32],
        body: &str,
        memories: &[Arc<Memory>],
        kept: &[bool],
    ) {
        let (mut before, mut after) = (String::new(), String::new());
        for ((x, memory), kept) in roots.iter().zip(memories).zip(kept) {
            let kind = group.kind(*x);
            let name = format!("t{}", self.totals.len());
            let _ = writeln!(before, "  var {name} = {}();", kind.name);
            let _ = writeln!(after, "  {name} = v{x};");
            after += &self.stored(kind, &name, memory, *kept);
            self.totals.push((Arc::clone(memory), name));
        }
        let _ = write!(
            self.text,
            "{before}  {{\n  let i = row;\n{body}{after}  }}\n"
        );
    }

    /// What threads have reduced their elements to becomes one value.
    fn total(&mut self, fold: Fold, acc: &str, memory: &Arc<Memory>, kept: bool) {
        let name = format!("t{}", self.totals.len());
        if self.together {
            let columns = self.shader.param(self.columns as u32);
            let team = self.shader.context.team() as usize;
            let some = (self.unit == 1 && self.columns < team).then_some(columns.as_str());
            self.text += &fold.across(&mut self.shader, acc, some);
        }
        let _ = writeln!(self.text, "  let {name} = {};", fold.kind.narrowed(acc));
        let stored = self.stored(fold.kind, &name, memory, kept);
        self.text += &stored;
        self.totals.push((Arc::clone(memory), name));
    }

    /// Writes the value of a row to memory, where somebody reads it there.
    fn stored(&mut self, kind: Type, name: &str, memory: &Arc<Memory>, kept: bool) -> String {
        if !kept {
            return String::new();
        }
        let out = self.shader.bind(memory.buffer(), kind.stored, true);
        let first = if self.together { "if (l == 0u) " } else { "" };
        format!("  {first}{{ {out}[row] = {}; }}\n", kind.store(name))
    }

    /// The kernel.
    fn finish(self) -> Result<Dispatch> {
        let Phases {
            shader,
            text,
            rows,
            together,
            ..
        } = self;
        if !together {
            let body = format!("  let row = i; let begin = 0u;\n{text}");
            return shader.over(rows, &body);
        }
        let body = format!("  let row = i; let begin = l;\n{text}");
        shader.over_teams(rows, &body)
    }
}

impl Run<'_> {
    /// Takes the steps of a chain, if the device can take them at once; the number of the last one.
    pub fn rows(
        &mut self,
        plan: &DevicePlan,
        steps: &Steps,
        number: usize,
        slots: &mut [Option<Value>],
    ) -> Result<Option<usize>> {
        let Some(chain) = steps.chain(plan, number) else {
            return Ok(None);
        };
        let args: Vec<Value> = (chain.inputs.iter())
            .map(|&s| slots[s as usize].clone())
            .collect::<Option<_>>()
            .ok_or_else(|| Error::Program("a step runs before what it reads".into()))?;
        let fits = |a: &Aval| a.size() > 0 && !is_long(a) && self.kind(a.dtype).is_some();
        if !args.iter().all(|v| fits(v.aval())) || !chain.outputs.iter().all(|(_, a)| fits(a)) {
            return Ok(None);
        }
        let made = self.again(steps, (number, &chain.outputs[..]), &args, |run, args| {
            run.written_rows(plan, &chain, args)
        })?;
        let Some(made) = made else {
            steps.give_up(number);
            return Ok(None);
        };
        let mut made = made.into_iter();
        for number in chain.first..=chain.last {
            let step = plan.step(number);
            let results = if matches!(step.task, Task::View) {
                let args = args_of(&step, slots)?;
                self.view(&step, &args[0])?
            } else {
                made.by_ref().take(step.outputs.len()).collect()
            };
            keep(&step, results, slots);
        }
        Ok(Some(chain.last))
    }

    /// Writes the kernel of a chain: its threads take as many neighbours at once as they can.
    fn written_rows(
        &mut self,
        plan: &DevicePlan,
        chain: &Chain,
        args: &[Value],
    ) -> Result<Option<Vec<Value>>> {
        let context = self.context;
        let together = chain.columns >= SHORT && context.team() > 1;
        let threads = if together { context.team() as usize } else { 1 };
        for &unit in vectors::units(context) {
            // No thread is to have nothing.
            let fits = chain.columns.is_multiple_of(unit) && chain.columns >= unit * threads;
            let fits = fits && chain.columns / (unit * threads) < context.longest_loop;
            if fits && let Some(made) = self.written_rows_by(plan, chain, args, together, unit)? {
                return Ok(Some(made));
            }
        }
        if chain.columns.div_ceil(threads) > context.longest_loop {
            return Ok(None);
        }
        self.written_rows_by(plan, chain, args, together, 1)
    }

    /// The kernel whose threads take so many neighbours at once.
    fn written_rows_by(
        &mut self,
        plan: &DevicePlan,
        chain: &Chain,
        args: &[Value],
        together: bool,
        unit: usize,
    ) -> Result<Option<Vec<Value>>> {
        let mut phases = Phases {
            shader: Shader::new(self.context),
            text: String::new(),
            rows: chain.rows,
            columns: chain.columns,
            together,
            unit,
            groups: 0,
            totals: Vec::new(),
            wholes: Vec::new(),
        };
        let mut known: Vec<(u32, Value)> = Vec::new();
        known.extend(chain.inputs.iter().copied().zip(args.iter().cloned()));
        let mut made = Vec::new();
        for number in chain.first..=chain.last {
            let step = plan.step(number);
            let Some(values) = read(&step, &known) else {
                return Ok(None);
            };
            let Task::Group(recipe) = step.task else {
                let Some(value) = crate::run::layout(&step, &values[0])? else {
                    return Ok(None);
                };
                known.push((step.outputs[0].0, value));
                continue;
            };
            let mut sources = Vec::with_capacity(values.len());
            for value in &values {
                let source = self.source(value)?;
                let Some(source) = phases.source(value, source, &recipe.shape) else {
                    return Ok(None);
                };
                sources.push(source);
            }
            let Some(group) = Group::new(self.context, recipe, sources) else {
                return Ok(None);
            };
            let Some((values, memories)) = self.room(step.outputs)? else {
                return Ok(None);
            };
            let kept: Vec<bool> = (step.outputs.iter())
                .map(|(slot, _)| chain.kept.contains(slot))
                .collect();
            if phases.add(&group, &memories, &kept).is_none() {
                return Ok(None);
            }
            let slots = step.outputs.iter().map(|o| o.0);
            known.extend(slots.zip(values.iter().cloned()));
            made.extend(values);
        }
        if phases.shader.num_bound() > self.context.most_bound() {
            return Ok(None);
        }
        self.waiting.push(phases.finish()?);
        Ok(Some(made))
    }
}

/// What a step of a chain reads.
fn read(step: &DeviceStep<'_>, known: &[(u32, Value)]) -> Option<Vec<Value>> {
    let find = |slot: &u32| {
        known
            .iter()
            .find(|(s, _)| s == slot)
            .map(|(_, v)| v.clone())
    };
    step.inputs.iter().map(find).collect()
}

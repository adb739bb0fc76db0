//! A run of a plan: steps become dispatches, which are submitted together.

use std::sync::{Arc, MutexGuard, PoisonError};

use cotan::aval::Aval;
use cotan::kernels::{RecipeOutput, Remote, Value};
use cotan::prim::{Kernel, Params, Prim};
use cotan::sched::{DevicePlan, DeviceStep, Task, note};
use cotan::{DType, Error, Result, ops};

use crate::calls::{self, Lists, Region};
use crate::context::Context;
use crate::group::{Epilogue, Group};
use crate::memory::Memory;
use crate::product::{self, Finish, Plain};
use crate::recorded::{Layout, Recorded, Steps};
use crate::scan::{self, Lines, Running};
use crate::shader::{Dispatch, Source};
use crate::types::Type;
use crate::window::{self, Greatest, Windows};

/// So many dispatches are submitted at once at most: what comes later need not wait for all to be written.
const MANY: usize = 512;

/// A run that goes on.
struct Run<'c> {
    context: &'c Arc<Context>,
    waiting: Vec<Dispatch>,
    turn: Option<MutexGuard<'c, ()>>,
}

/// The memory of a value on this device.
fn memory_of(value: &Value, context: &Arc<Context>) -> Result<Option<Arc<Memory>>> {
    let Some(remote) = value.storage().as_remote() else {
        return Ok(None);
    };
    let any: Arc<dyn std::any::Any + Send + Sync> = Arc::<dyn Remote>::clone(remote);
    match any.downcast::<Memory>() {
        Ok(memory) if memory.is_of(context) => Ok(Some(memory)),
        Ok(_) => Err(Error::Device(format!(
            "{}: the device was lost, and with it the arrays on it; copy them to it again",
            context.name
        ))),
        Err(_) => Err(Error::Device(format!(
            "{}: memory of another device",
            context.name
        ))),
    }
}

/// A new array of the device.
fn empty(context: &Arc<Context>, aval: &Aval, kind: Type) -> Result<(Value, Arc<Memory>)> {
    let size = aval.size();
    let (memory, _) = Memory::new(context, kind, size)?;
    let memory = Arc::new(memory);
    let strides = cotan::aval::row_major(&aval.shape);
    let value = Value::on_device(
        aval.clone(),
        strides,
        0,
        size,
        Arc::<Memory>::clone(&memory),
    )?;
    Ok((value, memory))
}

/// Copies a value to the device; `flush` submits what waits, because memory may be used again.
pub fn put(
    context: &Arc<Context>,
    value: &Value,
    flush: &mut dyn FnMut() -> Result<()>,
) -> Result<Value> {
    if memory_of(value, context)?.is_some() {
        return Ok(value.clone());
    }
    value.bring_here()?;
    let Some(kind) = Type::of(value.dtype(), context.features) else {
        return Err(Error::Device(format!(
            "{}: the device has no {}; use {}",
            context.name,
            value.dtype(),
            match value.dtype() {
                DType::F64 => "float32",
                DType::I64 => "int32",
                DType::U64 => "uint32",
                _ => "another dtype, or leave the array on the processor",
            }
        )));
    };
    let size = value.aval().size();
    let (value, first) = match value.stretch(2 * size + 64) {
        Some((_, first)) => (value.clone(), first),
        None => (cotan::sched::copied(value)?, 0),
    };
    let is_whole = value.is_contiguous() && !value.storage().is_borrowed();
    let is_known = |memory: &Arc<dyn Remote>| {
        let any: Arc<dyn std::any::Any + Send + Sync> = Arc::<dyn Remote>::clone(memory);
        any.downcast::<Memory>()
            .is_ok_and(|m| m.is_of(context) && m.elements == size && m.kind == kind)
    };
    let covers = is_whole && value.storage().len() == value.aval().nbytes();
    if covers && let Some(known) = value.storage().copy_on(context.id).filter(is_known) {
        let strides = value.strides().iter().copied().collect();
        return Value::on_device(value.aval().clone(), strides, 0, size, known);
    }
    let (bytes, _) = value.stretch(usize::MAX).unwrap_or_default();
    let elements = bytes.len() / value.dtype().size();
    let (memory, is_used) = Memory::new(context, kind, elements)?;
    if is_used {
        flush()?;
    }
    if elements > 0 {
        let mut wide = if kind.is_alike() && bytes.len().is_multiple_of(4) {
            Vec::new()
        } else {
            kind.widened(bytes)
        };
        if !wide.is_empty() {
            wide.resize(wide.len().next_multiple_of(4), 0);
        }
        let bytes = if wide.is_empty() { bytes } else { &wide };
        context.queue.write_buffer(memory.buffer(), 0, bytes);
        context.check()?;
    }
    let memory = Arc::new(memory);
    if covers {
        let copy: Arc<dyn Remote> = Arc::<Memory>::clone(&memory);
        value.storage().keep_copy(copy);
    }
    let strides = value.strides().iter().copied().collect();
    Value::on_device(value.aval().clone(), strides, first, elements, memory)
}

/// Whether numbers of elements do not fit a kernel.
fn is_long(aval: &Aval) -> bool {
    aval.size() > i32::MAX as usize
}

/// Runs a plan.
pub fn run(
    context: &Arc<Context>,
    plan: &DevicePlan,
    inputs: Vec<Value>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<Vec<Value>> {
    context.check()?;
    let mut run = Run {
        context,
        waiting: Vec::new(),
        turn: Some(context.turn.lock().unwrap_or_else(PoisonError::into_inner)),
    };
    let mut slots: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
    slots.resize(plan.num_arrays(), None);
    for (slot, value) in plan.constants() {
        slots[*slot as usize] = Some(value.clone());
    }
    let steps = plan.compiled(context.id, Steps::default);
    let mut held: Option<Held> = None;
    for number in 0..plan.num_steps() {
        let step = plan.step(number);
        if let Some(reader) = reader_of(plan, number) {
            let args = args_of(&step, &slots)?;
            held = Some(Held {
                number,
                reader,
                args,
            });
            forget(&step, &mut slots);
            continue;
        }
        if let Some(product) = held.take_if(|held| held.reader == number) {
            let first = plan.step(product.number);
            if let Some(results) =
                run.product_and_group(&steps, (number, &first), &product.args, &step, &slots)?
            {
                keep(&step, results, &mut slots);
                continue;
            }
            let results = run.results(plan, &steps, product.number, &product.args)?;
            slots[first.outputs[0].0 as usize] = results.into_iter().next();
        }
        let args = args_of(&step, &slots)?;
        let results = run.results(plan, &steps, number, &args)?;
        keep(&step, results, &mut slots);
        if run.waiting.len() >= MANY {
            run.submit()?;
            if interrupted() {
                return Err(Error::Interrupted);
            }
        }
    }
    let mut outs = Vec::with_capacity(plan.outs().len());
    for &slot in plan.outs() {
        let value = slots[slot as usize]
            .clone()
            .ok_or_else(|| Error::Program("a run left no value".into()))?;
        let has = Type::of(value.dtype(), context.features).is_some();
        outs.push(if has { run.put(&value)? } else { value });
    }
    run.submit()?;
    Ok(outs)
}

/// A product that waits for the group that reads it, to be computed together with it.
struct Held {
    number: usize,
    reader: usize,
    args: Vec<Value>,
}

/// The group that computes with a product right where it is made: nothing else reads it, and only layouts come between.
fn reader_of(plan: &DevicePlan, number: usize) -> Option<usize> {
    let step = plan.step(number);
    if !matches!(step.task, Task::Call) || !matches!(step.prim.name(), "matmul" | "conv") {
        return None;
    }
    let (slot, aval) = &step.outputs[0];
    for next in number + 1..plan.num_steps() {
        let reader = plan.step(next);
        let reads = reader.inputs.contains(slot);
        match reader.task {
            Task::View if !reads => {}
            Task::Group(recipe) => {
                let whole = |o: &RecipeOutput| matches!(o, RecipeOutput::Whole(_));
                let fits = reads
                    && reader.dying.contains(slot)
                    && recipe.shape == aval.shape
                    && recipe.outputs.iter().all(whole);
                return fits.then_some(next);
            }
            _ => return None,
        }
    }
    None
}

/// What a step reads.
fn args_of(step: &DeviceStep<'_>, slots: &[Option<Value>]) -> Result<Vec<Value>> {
    (step.inputs.iter())
        .map(|&s| slots[s as usize].clone())
        .collect::<Option<_>>()
        .ok_or_else(|| Error::Program("a step runs before what it reads".into()))
}

/// Lets go of what nothing reads after a step.
fn forget(step: &DeviceStep<'_>, slots: &mut [Option<Value>]) {
    for &slot in step.dying {
        slots[slot as usize] = None;
    }
}

/// Keeps the results of a step.
fn keep(step: &DeviceStep<'_>, results: Vec<Value>, slots: &mut [Option<Value>]) {
    forget(step, slots);
    for ((slot, _), value) in step.outputs.iter().zip(results) {
        slots[*slot as usize] = Some(value);
    }
    for &slot in step.unread {
        slots[slot as usize] = None;
    }
}

impl Run<'_> {
    /// The results of a step, here or on the processor.
    fn results(
        &mut self,
        plan: &DevicePlan,
        steps: &Steps,
        number: usize,
        args: &[Value],
    ) -> Result<Vec<Value>> {
        let step = plan.step(number);
        if let Some(results) = self.step(steps, number, &step, args)? {
            return Ok(results);
        }
        self.submit()?;
        if matches!(step.task, Task::Host) {
            // What is called may use the device itself.
            self.turn = None;
        } else if step.outputs.iter().any(|(_, aval)| aval.size() > 0) {
            note(|counts| counts.add_on_processor(plan.prims(number)));
        }
        let results = plan.take_here(number, args.to_vec());
        self.take_turn();
        results
    }

    /// A product and the group that reads it in one kernel, where the device has one.
    fn product_and_group(
        &mut self,
        steps: &Steps,
        (number, product): (usize, &DeviceStep<'_>),
        args: &[Value],
        group: &DeviceStep<'_>,
        slots: &[Option<Value>],
    ) -> Result<Option<Vec<Value>>> {
        let Task::Group(recipe) = group.task else {
            return Ok(None);
        };
        let (slot, aval) = &product.outputs[0];
        let Some(kind) = self.kind(aval.dtype) else {
            return Ok(None);
        };
        // The arguments of the product, and behind them those of the group but for the product.
        let mut all = args.to_vec();
        for input in group.inputs.iter().filter(|&i| i != slot) {
            let value = slots[*input as usize].clone();
            all.push(
                value.ok_or_else(|| Error::Program("a step runs before what it reads".into()))?,
            );
        }
        let fits = |a: &Aval| a.size() > 0 && !is_long(a);
        let has = |v: &Value| fits(v.aval()) && self.kind(v.dtype()).is_some();
        if !fits(aval) || !all.iter().all(has) {
            return Ok(None);
        }
        let of_product = args.len();
        self.again(steps, (number, group.outputs), &all, |run, all| {
            let (args, others) = all.split_at(of_product);
            let mut others = others.iter();
            let mut sources = Vec::with_capacity(group.inputs.len());
            for input in group.inputs {
                if input == slot {
                    sources.push(Source::Given(kind.narrowed("x")));
                } else if let Some(value) = others.next() {
                    sources.push(run.source(value)?);
                }
            }
            let Some(own) = Group::new(run.context, recipe, sources) else {
                return Ok(None);
            };
            let Some((values, memories)) = run.room(group.outputs)? else {
                return Ok(None);
            };
            let finish = Epilogue::new(&own, &memories);
            let passes = run.product(product.prim, product.params, args, aval, kind, &finish)?;
            Ok(passes.map(|passes| {
                run.waiting.extend(passes);
                values
            }))
        })
    }

    /// The passes of a product or a convolution.
    fn product(
        &mut self,
        prim: Prim,
        params: &Params,
        args: &[Value],
        aval: &Aval,
        kind: Type,
        finish: &dyn Finish,
    ) -> Result<Option<Vec<Dispatch>>> {
        if let Params::Windows(dims) = params
            && prim == ops::CONV
        {
            let ((x, from), (y, by)) = (self.plain(&args[0])?, self.plain(&args[1])?);
            let both = [(&from, x.shape()), (&by, y.shape())];
            return product::conv(self.context, both, dims, &aval.shape, kind, finish);
        }
        let (a, b) = (self.put(&args[0])?, self.put(&args[1])?);
        let (am, bm) = (self.memory(&a)?, self.memory(&b)?);
        let pairs = [(&a, &am), (&b, &bm)];
        product::matmul(self.context, pairs, &aval.shape, kind, finish)
    }

    /// Memory for results; nothing where the device lacks a dtype.
    fn room(&self, outputs: &[(u32, Aval)]) -> Result<Option<(Vec<Value>, Vec<Arc<Memory>>)>> {
        let (mut values, mut memories) = (Vec::new(), Vec::new());
        for (_, aval) in outputs {
            let Some(kind) = self.kind(aval.dtype) else {
                return Ok(None);
            };
            let (value, memory) = empty(self.context, aval, kind)?;
            values.push(value);
            memories.push(memory);
        }
        Ok(Some((values, memories)))
    }

    fn take_turn(&mut self) {
        if self.turn.is_none() {
            let turn = self.context.turn.lock();
            self.turn = Some(turn.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Sends what waits to the device.
    fn submit(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        submit(self.context, waiting)
    }

    fn put(&mut self, value: &Value) -> Result<Value> {
        let (context, waiting) = (self.context, &mut self.waiting);
        put(context, value, &mut || {
            submit(context, std::mem::take(waiting))
        })
    }

    /// A value as shaders read it: single elements of the processor's memory are sent with the parameters.
    fn source(&mut self, value: &Value) -> Result<Source> {
        if value.aval().size() == 1
            && !value.is_remote()
            && let Some(kind) = Type::of(value.dtype(), self.context.features)
            && let Some((bytes, _)) = value.stretch(1)
        {
            return Ok(Source::Number(kind.words(bytes)));
        }
        let value = self.put(value)?;
        let memory = self.memory(&value)?;
        Ok(Source::Array(value, memory))
    }

    fn memory(&self, value: &Value) -> Result<Arc<Memory>> {
        memory_of(value, self.context)?
            .ok_or_else(|| Error::Device(format!("{}: an array is not there", self.context.name)))
    }

    /// A value on the device in row-major order, from the first element of its memory on.
    fn plain(&mut self, value: &Value) -> Result<(Value, Arc<Memory>)> {
        let value = self.put(value)?;
        let memory = self.memory(&value)?;
        if value.is_contiguous() {
            return Ok((value, memory));
        }
        self.copied(&Source::Array(value.clone(), memory), value.aval())
    }

    fn kind(&self, dtype: DType) -> Option<Type> {
        Type::of(dtype, self.context.features)
    }

    /// A copy in row-major order.
    fn copied(&mut self, source: &Source, aval: &Aval) -> Result<(Value, Arc<Memory>)> {
        let kind = (self.kind(aval.dtype))
            .ok_or_else(|| Error::Device(format!("{}: no {}", self.context.name, aval.dtype)))?;
        let (value, memory) = empty(self.context, aval, kind)?;
        if aval.size() > 0 {
            let region = Region::whole(&aval.shape);
            let dispatch = calls::copy(
                self.context,
                source,
                &aval.shape,
                kind,
                &memory,
                &region,
                false,
            )?;
            self.waiting.push(dispatch);
        }
        Ok((value, memory))
    }

    /// The results of kernels that were written before for arguments of the same layouts, or else of those that `make`
    /// writes now, which are kept.
    fn again(
        &mut self,
        steps: &Steps,
        (number, outputs): (usize, &[(u32, Aval)]),
        args: &[Value],
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Option<Vec<Value>>>,
    ) -> Result<Option<Vec<Value>>> {
        let mut sent = Vec::with_capacity(args.len());
        let (mut memories, mut words) = (Vec::new(), Vec::new());
        for arg in args {
            if self.kind(arg.dtype()).is_none() {
                return make(self, args);
            }
            match self.source(arg)? {
                Source::Array(value, memory) => {
                    sent.push(value);
                    memories.push(Some(memory));
                    words.push(Vec::new());
                }
                Source::Number(bits) => {
                    sent.push(arg.clone());
                    memories.push(None);
                    words.push(bits);
                }
                // A source is one of these two.
                Source::Given(_) => return Ok(None),
            }
        }
        let layout = Layout::of(&sent, &memories, &words);
        if let Some(known) = steps.find(self.context, number, &layout) {
            let Some((values, results)) = self.room(outputs)? else {
                return Ok(None);
            };
            let dispatches = known.dispatches(self.context, &memories, &results)?;
            self.waiting.extend(dispatches);
            return Ok(Some(values));
        }
        let before = self.waiting.len();
        let made = make(self, &sent)?;
        if let Some(values) = &made
            && self.waiting.len() > before
        {
            let results: Vec<Arc<Memory>> = (values.iter())
                .map(|v| self.memory(v))
                .collect::<Result<_>>()?;
            let own = &self.waiting[before..];
            steps.keep(
                number,
                Recorded::new(self.context, layout, own, &memories, &results),
            );
        }
        Ok(made)
    }

    /// The results of a step, or nothing where the device has no kernel for it.
    fn step(
        &mut self,
        steps: &Steps,
        number: usize,
        step: &DeviceStep<'_>,
        args: &[Value],
    ) -> Result<Option<Vec<Value>>> {
        let is_empty = args.iter().any(|a| a.aval().size() == 0)
            || step.outputs.iter().any(|(_, a)| a.size() == 0);
        if args.iter().any(|a| is_long(a.aval())) || step.outputs.iter().any(|(_, a)| is_long(a)) {
            return Err(Error::Device(format!(
                "{}: {}: arrays of more than {} elements are too large for a kernel; compute with parts of them",
                self.context.name,
                step.prim.name(),
                i32::MAX
            )));
        }
        match step.task {
            Task::View => self.view(step, &args[0]).map(Some),
            Task::Host => Ok(None),
            _ if is_empty => Ok(None),
            Task::Group(recipe) => self.again(steps, (number, step.outputs), args, |run, args| {
                let mut sources = Vec::with_capacity(args.len());
                for arg in args {
                    if run.kind(arg.dtype()).is_none() {
                        return Ok(None);
                    }
                    sources.push(run.source(arg)?);
                }
                let Some(group) = Group::new(run.context, recipe, sources) else {
                    return Ok(None);
                };
                run.group(&group, step)
            }),
            // What these write depends on indices.
            Task::Call if matches!(step.prim.name(), "gather" | "scatter" | "scatter_add") => {
                self.call(step.prim, step.params, args, &step.outputs[0].1)
            }
            Task::Call => self.again(steps, (number, step.outputs), args, |run, args| {
                run.call(step.prim, step.params, args, &step.outputs[0].1)
            }),
        }
    }

    fn group(&mut self, group: &Group<'_>, step: &DeviceStep<'_>) -> Result<Option<Vec<Value>>> {
        let Some((values, memories)) = self.room(step.outputs)? else {
            return Ok(None);
        };
        let most = self.context.most_bound();
        let Some(dispatches) = group.dispatches(self.context, &memories, most)? else {
            return Ok(None);
        };
        self.waiting.extend(dispatches);
        Ok(Some(values))
    }

    fn view(&mut self, step: &DeviceStep<'_>, source: &Value) -> Result<Vec<Value>> {
        let Some(Kernel::View(layout)) = step.prim.kernel_ref() else {
            return Err(Error::Program(format!("{}: is no view", step.prim.name())));
        };
        let (_, aval) = &step.outputs[0];
        if let Some(value) = layout(step.params, source, aval) {
            return Ok(vec![value]);
        }
        let plain = if source.is_remote() {
            self.plain(source)?.0
        } else {
            cotan::sched::copied(source)?
        };
        let value = layout(step.params, &plain, aval)
            .ok_or_else(|| Error::Program(format!("{}: has no layout", step.prim.name())))?;
        Ok(vec![value])
    }

    fn call(
        &mut self,
        prim: Prim,
        params: &Params,
        args: &[Value],
        aval: &Aval,
    ) -> Result<Option<Vec<Value>>> {
        let Some(kind) = self.kind(aval.dtype) else {
            return Ok(None);
        };
        if let Some(Kernel::Reduce(op)) = prim.kernel_ref() {
            let source = self.source(&args[0])?;
            let value = match &source {
                Source::Array(value, _) => value.clone(),
                _ => args[0].clone(),
            };
            let (result, memory) = empty(self.context, aval, kind)?;
            let axes = params.axes();
            let passes = calls::reduce(self.context, *op, &source, &value, axes, kind, &memory)?;
            return Ok(self.sent(passes, result));
        }
        let value = match prim.name() {
            "matmul" | "conv" => {
                let (result, memory) = empty(self.context, aval, kind)?;
                let finish = Plain(&memory);
                let passes = self.product(prim, params, args, aval, kind, &finish)?;
                return Ok(self.sent(passes, result));
            }
            "cumsum" | "cummax" | "cummin" | "linear_recurrence" => {
                let Params::Scan { axis, reverse } = *params else {
                    return Ok(None);
                };
                let (_, x) = self.plain(&args[0])?;
                let (result, memory) = empty(self.context, aval, kind)?;
                let lines = Lines::of(&aval.shape, axis, reverse);
                let op = match prim.name() {
                    "cumsum" => Running::Sum,
                    "cummax" => Running::Max,
                    "cummin" => Running::Min,
                    _ => {
                        let (_, terms) = self.plain(&args[1])?;
                        let both = [&x, &terms];
                        let passes = scan::recurrence(self.context, both, lines, kind, &memory)?;
                        return Ok(self.sent(passes, result));
                    }
                };
                let passes = scan::running(self.context, op, &x, lines, kind, &memory)?;
                return Ok(self.sent(passes, result));
            }
            "argmax" | "argmin" => {
                let (Params::Axis(axis), Some(own)) = (params, self.kind(args[0].dtype())) else {
                    return Ok(None);
                };
                let (x, from) = self.plain(&args[0])?;
                let (result, memory) = empty(self.context, aval, kind)?;
                let lines = Lines::of(x.shape(), *axis, false);
                let max = prim.name() == "argmax";
                let passes = scan::place(self.context, max, &from, lines, own, kind, &memory)?;
                return Ok(self.sent(passes, result));
            }
            "window_sum" | "window_max" | "window_pick" | "window_unpick" => {
                let Params::Windows(dims) = params else {
                    return Ok(None);
                };
                let (x, from) = self.plain(&args[0])?;
                let shape = x.shape();
                let windows = Windows { dims, shape };
                let other = match args.get(1) {
                    Some(y) => Some(self.plain(y)?.1),
                    None => None,
                };
                let (result, memory) = empty(self.context, aval, kind)?;
                let context = self.context;
                let ask = |asked| {
                    let pass = window::greatest(context, &from, windows, kind, asked, &memory)?;
                    Ok::<_, Error>(Some(vec![pass]))
                };
                let passes = match (prim.name(), &other) {
                    ("window_sum", _) => {
                        let pass = window::sums(context, &from, windows, kind, &memory)?;
                        Some(vec![pass])
                    }
                    ("window_pick", Some(y)) => ask(Greatest::Of(y))?,
                    ("window_unpick", Some(y)) => Some(window::spread_back(
                        context,
                        [&from, y],
                        windows,
                        kind,
                        &memory,
                    )?),
                    _ => ask(Greatest::Itself)?,
                };
                return Ok(self.sent(passes, result));
            }
            "update" | "update_add" => {
                let Params::Slice(dims) = params else {
                    return Ok(None);
                };
                if prim == ops::UPDATE_ADD && kind.name == "bool" {
                    return Ok(None);
                }
                let (base, update) = (self.source(&args[0])?, self.source(&args[1])?);
                let (result, memory) = self.copied(&base, aval)?;
                let region = Region::of(&aval.shape, dims);
                let (shape, adds) = (args[1].shape(), prim == ops::UPDATE_ADD);
                let write =
                    calls::copy(self.context, &update, shape, kind, &memory, &region, adds)?;
                self.waiting.push(write);
                result
            }
            "pad" => {
                let Params::Region { dims, .. } = params else {
                    return Ok(None);
                };
                let source = self.source(&args[0])?;
                let zero = Source::Number(vec![0, 0]);
                let (result, memory) = self.copied(&zero, aval)?;
                let region = Region::of(&aval.shape, dims);
                let shape = args[0].shape();
                let write =
                    calls::copy(self.context, &source, shape, kind, &memory, &region, false)?;
                self.waiting.push(write);
                result
            }
            "concatenate" | "stack" => {
                let axis = match params {
                    Params::Axis(axis) if prim == ops::CONCATENATE => Some(*axis),
                    _ if prim == ops::STACK => None,
                    _ => return Ok(None),
                };
                self.joined(args, axis, aval, kind)?
            }
            "gather" => {
                let Some(indices) = self.indices(prim, &args[1], args[0].shape()[0])? else {
                    return Ok(None);
                };
                let x = self.put(&args[0])?;
                let from = self.memory(&x)?;
                let numbers: Vec<u32> = indices.iter().map(|&i| i as u32).collect();
                let list = self.list(&numbers)?;
                let (result, memory) = empty(self.context, aval, kind)?;
                let dispatch = calls::gather(
                    self.context,
                    (&x, &from),
                    &list,
                    numbers.len(),
                    kind,
                    &memory,
                )?;
                self.waiting.push(dispatch);
                result
            }
            "scatter_add" | "scatter" => {
                let adds = prim == ops::SCATTER_ADD;
                let Some(indices) = self.indices(prim, &args[1], aval.shape[0])? else {
                    return Ok(None);
                };
                if adds && kind.name == "bool" {
                    return Ok(None);
                }
                let lists = Lists::of(&indices);
                let base = self.source(&args[0])?;
                let (updates, from) = self.plain(&args[2])?;
                let rows = self.list(&lists.rows)?;
                let starts = self.list(&lists.starts)?;
                let order = self.list(&lists.order)?;
                let (result, memory) = self.copied(&base, aval)?;
                let row: usize = aval.shape[1..].iter().product();
                let from = (&updates, &from);
                let numbers = [&rows, &starts, &order];
                let dispatch = calls::scatter(
                    self.context,
                    &lists,
                    numbers,
                    from,
                    row,
                    kind,
                    &memory,
                    adds,
                )?;
                self.waiting.push(dispatch);
                result
            }
            _ => return Ok(None),
        };
        Ok(Some(vec![value]))
    }

    /// The result of passes that the device has a kernel for.
    fn sent(&mut self, passes: Option<Vec<Dispatch>>, result: Value) -> Option<Vec<Value>> {
        passes.map(|passes| {
            self.waiting.extend(passes);
            vec![result]
        })
    }

    /// Arrays one behind the other along an axis, or along a new first one.
    fn joined(
        &mut self,
        args: &[Value],
        axis: Option<usize>,
        aval: &Aval,
        kind: Type,
    ) -> Result<Value> {
        let (result, memory) = empty(self.context, aval, kind)?;
        let own = cotan::aval::row_major(&aval.shape);
        let mut at = 0;
        for arg in args {
            let source = self.source(arg)?;
            let region = match axis {
                Some(axis) => Region {
                    first: at * own[axis] as usize,
                    strides: own.to_vec(),
                },
                None => Region {
                    first: at * own[0] as usize,
                    strides: own[1..].to_vec(),
                },
            };
            at += axis.map_or(1, |axis| arg.shape()[axis]);
            let dispatch = calls::copy(
                self.context,
                &source,
                arg.shape(),
                kind,
                &memory,
                &region,
                false,
            )?;
            self.waiting.push(dispatch);
        }
        Ok(result)
    }

    /// Indices, which are looked at on the processor: one that is out of range is an error.
    fn indices(&mut self, prim: Prim, index: &Value, n: usize) -> Result<Option<Vec<i64>>> {
        if index.is_remote() {
            self.submit()?;
            index.bring_here()?;
        }
        let here = if index.is_contiguous() {
            index.clone()
        } else {
            cotan::sched::copied(index)?
        };
        let Some(indices) = here.as_slice::<i64>() else {
            return Ok(None);
        };
        if let Some(bad) = indices.iter().find(|&&i| i as u64 >= n as u64) {
            return Err(Error::Index(format!(
                "{}: index {bad} is out of bounds for axis 0 with size {n}",
                prim.name()
            )));
        }
        Ok(Some(indices.to_vec()))
    }

    /// Numbers on the device.
    fn list(&mut self, numbers: &[u32]) -> Result<Arc<Memory>> {
        let value = self.put(&Value::from_slice(&[numbers.len()], numbers)?)?;
        self.memory(&value)
    }
}

/// Sends dispatches to the device, in their order.
fn submit(context: &Arc<Context>, waiting: Vec<Dispatch>) -> Result<()> {
    if waiting.is_empty() {
        return context.check();
    }
    let device = &context.device;
    let align = context.limits.min_storage_buffer_offset_alignment as usize / 4;
    let mut words: Vec<u8> = Vec::new();
    let mut places = Vec::with_capacity(waiting.len());
    for dispatch in &waiting {
        let at = words.len().next_multiple_of(align.max(4) * 4);
        words.resize(at, 0);
        words.extend(dispatch.params.iter().flat_map(|w| w.to_le_bytes()));
        places.push((at as u64, dispatch.params.len() as u64 * 4));
    }
    // Never the pool's: it is written before these dispatches run.
    let params = {
        let mut kept = context
            .params
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match kept.take_if(|buffer| buffer.size() >= words.len() as u64) {
            Some(buffer) => kept.insert(buffer).clone(),
            None => {
                let made = device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: (words.len() as u64).next_power_of_two().max(4096),
                    usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                });
                context.check()?;
                kept.insert(made).clone()
            }
        }
    };
    context.queue.write_buffer(&params, 0, &words);
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (dispatch, (at, size)) in waiting.iter().zip(places) {
            let mut entries = vec![wgpu::BindGroupEntry {
                binding: 0,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &params,
                    offset: at,
                    size: std::num::NonZeroU64::new(size),
                }),
            }];
            for (i, buffer) in dispatch.buffers.iter().enumerate() {
                entries.push(wgpu::BindGroupEntry {
                    binding: i as u32 + 1,
                    resource: buffer.as_entire_binding(),
                });
            }
            let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &dispatch.pipeline.layout,
                entries: &entries,
            });
            pass.set_pipeline(&dispatch.pipeline.pipeline);
            pass.set_bind_group(0, &group, &[]);
            let [x, y, z] = dispatch.groups;
            pass.dispatch_workgroups(x, y, z);
        }
    }
    context.queue.submit([encoder.finish()]);
    // Lets go of what has ended.
    let _ = device.poll(wgpu::PollType::Poll);
    context.check()
}

//! A run of a plan: steps become dispatches, which are submitted together.

use std::sync::{Arc, MutexGuard, PoisonError};

use cotan::aval::Aval;
use cotan::kernels::{Remote, Value};
use cotan::prim::{Kernel, Params, Prim};
use cotan::sched::{DevicePlan, DeviceStep, Task, note};
use cotan::{DType, Error, Result, ops};

use crate::calls::{self, Lists, Region};
use crate::context::Context;
use crate::group::Group;
use crate::memory::Memory;
use crate::shader::{Dispatch, Source};
use crate::types::Type;

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
    for number in 0..plan.num_steps() {
        let step = plan.step(number);
        let args: Vec<Value> = (step.inputs.iter())
            .map(|&s| slots[s as usize].clone())
            .collect::<Option<_>>()
            .ok_or_else(|| Error::Program("a step runs before what it reads".into()))?;
        let results = match run.step(&step, &args)? {
            Some(results) => results,
            None => {
                run.submit()?;
                if matches!(step.task, Task::Host) {
                    // What is called may use the device itself.
                    run.turn = None;
                } else if step.outputs.iter().any(|(_, aval)| aval.size() > 0) {
                    note(|counts| counts.add_on_processor(plan.prims(number)));
                }
                let results = plan.take_here(number, args)?;
                run.take_turn();
                results
            }
        };
        for &slot in step.dying {
            slots[slot as usize] = None;
        }
        for ((slot, _), value) in step.outputs.iter().zip(results) {
            slots[*slot as usize] = Some(value);
        }
        for &slot in step.unread {
            slots[slot as usize] = None;
        }
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

impl Run<'_> {
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

    /// The results of a step, or nothing where the device has no kernel for it.
    fn step(&mut self, step: &DeviceStep<'_>, args: &[Value]) -> Result<Option<Vec<Value>>> {
        let is_empty = args.iter().any(|a| a.aval().size() == 0)
            || step.outputs.iter().any(|(_, a)| a.size() == 0);
        let is_long = |aval: &Aval| aval.size() > i32::MAX as usize;
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
            Task::Group(recipe) => {
                let mut sources = Vec::with_capacity(args.len());
                for arg in args {
                    if self.kind(arg.dtype()).is_none() {
                        return Ok(None);
                    }
                    sources.push(self.source(arg)?);
                }
                let Some(group) = Group::new(self.context, recipe, sources) else {
                    return Ok(None);
                };
                self.group(&group, step)
            }
            Task::Call => self.call(step.prim, step.params, args, &step.outputs[0].1),
        }
    }

    fn group(&mut self, group: &Group<'_>, step: &DeviceStep<'_>) -> Result<Option<Vec<Value>>> {
        let (mut values, mut memories) = (Vec::new(), Vec::new());
        for (_, aval) in step.outputs {
            let Some(kind) = self.kind(aval.dtype) else {
                return Ok(None);
            };
            let (value, memory) = empty(self.context, aval, kind)?;
            values.push(value);
            memories.push(memory);
        }
        let limits = self.context.device.limits();
        let most = limits.max_storage_buffers_per_shader_stage as usize - 1;
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
                Source::Number(_) => args[0].clone(),
            };
            let (result, memory) = empty(self.context, aval, kind)?;
            let axes = params.axes();
            let passes = calls::reduce(self.context, *op, &source, &value, axes, kind, &memory)?;
            return Ok(passes.map(|passes| {
                self.waiting.extend(passes);
                vec![result]
            }));
        }
        let value = match prim.name() {
            "matmul" => {
                let a = self.put(&args[0])?;
                let b = self.put(&args[1])?;
                let (am, bm) = (self.memory(&a)?, self.memory(&b)?);
                let (result, memory) = empty(self.context, aval, kind)?;
                let pairs = [(&a, &am), (&b, &bm)];
                match calls::matmul(self.context, pairs, &aval.shape, kind, &memory)? {
                    Some(dispatch) => self.waiting.push(dispatch),
                    None => return Ok(None),
                }
                result
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
    let align = device.limits().min_storage_buffer_offset_alignment as usize / 4;
    let mut words: Vec<u8> = Vec::new();
    let mut places = Vec::with_capacity(waiting.len());
    for dispatch in &waiting {
        let at = words.len().next_multiple_of(align.max(4) * 4);
        words.resize(at, 0);
        words.extend(dispatch.params.iter().flat_map(|w| w.to_le_bytes()));
        places.push((at as u64, dispatch.params.len() as u64 * 4));
    }
    // Never the pool's: it is written before earlier dispatches run.
    let params = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: words.len() as u64,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    context.check()?;
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
                layout: &dispatch.pipeline.get_bind_group_layout(0),
                entries: &entries,
            });
            pass.set_pipeline(&dispatch.pipeline);
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

//! Arrays of a run: copied to the device, in row-major order where a kernel asks for that, and room for results.

use std::sync::Arc;

use cotan::aval::Aval;
use cotan::kernels::{Remote, Value};
use cotan::prim::Prim;
use cotan::{DType, Error, Result};

use crate::calls::{self, Region};
use crate::context::Context;
use crate::memory::Memory;
use crate::run::Run;
use crate::shader::Source;
use crate::submission::submit;
use crate::types::Type;

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
pub fn empty(context: &Arc<Context>, aval: &Aval, kind: Type) -> Result<(Value, Arc<Memory>)> {
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

impl Run<'_> {
    /// Memory for results; nothing where the device lacks a dtype.
    pub fn room(&self, outputs: &[(u32, Aval)]) -> Result<Option<(Vec<Value>, Vec<Arc<Memory>>)>> {
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

    pub fn put(&mut self, value: &Value) -> Result<Value> {
        let (context, waiting) = (self.context, &mut self.waiting);
        put(context, value, &mut || {
            submit(context, &std::mem::take(waiting))
        })
    }

    /// Values on the device, as far as it has their dtypes.
    pub fn all_put(&mut self, values: &[Value]) -> Result<Vec<Value>> {
        (values.iter())
            .map(|value| match self.kind(value.dtype()) {
                Some(_) => self.put(value),
                None => Ok(value.clone()),
            })
            .collect()
    }

    /// A value as shaders read it: single elements of the processor's memory are sent with the parameters.
    pub fn source(&mut self, value: &Value) -> Result<Source> {
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

    pub fn memory(&self, value: &Value) -> Result<Arc<Memory>> {
        memory_of(value, self.context)?
            .ok_or_else(|| Error::Device(format!("{}: an array is not there", self.context.name)))
    }

    /// A value on the device in row-major order, from the first element of its memory on.
    pub fn plain(&mut self, value: &Value) -> Result<(Value, Arc<Memory>)> {
        let value = self.put(value)?;
        let memory = self.memory(&value)?;
        if value.is_contiguous() {
            return Ok((value, memory));
        }
        self.copied(&Source::Array(value.clone(), memory), value.aval())
    }

    pub fn kind(&self, dtype: DType) -> Option<Type> {
        Type::of(dtype, self.context.features)
    }

    /// A copy in row-major order.
    pub fn copied(&mut self, source: &Source, aval: &Aval) -> Result<(Value, Arc<Memory>)> {
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

    /// Indices, which are looked at on the processor: one that is out of range is an error.
    pub fn indices(&mut self, prim: Prim, index: &Value, n: usize) -> Result<Option<Vec<i64>>> {
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
    pub fn list(&mut self, numbers: &[u32]) -> Result<Arc<Memory>> {
        let value = self.put(&Value::from_slice(&[numbers.len()], numbers)?)?;
        self.memory(&value)
    }
}

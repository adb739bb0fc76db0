//! Memory of the device: buffers that are used again, within a limit.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use cotan::kernels::{Remote, Storage};
use cotan::{Error, Result};

use crate::context::Context;
use crate::types::Type;

/// Buffers that nobody uses, by their size, and how much there is of all.
#[derive(Debug, Default)]
pub struct Pool {
    free: HashMap<u64, Vec<wgpu::Buffer>>,
    used: u64,
    kept: u64,
    limit: Option<u64>,
}

impl Pool {
    /// Bytes that are used, and that are kept.
    pub fn bytes(&self) -> (u64, u64) {
        (self.used, self.kept)
    }

    pub fn set_limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// Gives what is kept back to the driver.
    pub fn release(&mut self) {
        self.free.clear();
        self.kept = 0;
    }
}

/// The size of the buffer for so many bytes: at most an eighth of it is lost.
fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (bytes.next_power_of_two() / 16).max(256);
    bytes.next_multiple_of(step)
}

/// A buffer of the device, which goes back to the pool when nobody refers to it.
pub struct Memory {
    context: Arc<Context>,
    buffer: wgpu::Buffer,
    class: u64,
    pub kind: Type,
    pub elements: usize,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} {})", self.elements, self.kind.dtype)
    }
}

impl Memory {
    /// Memory with undefined contents; whether it was used before.
    pub fn new(context: &Arc<Context>, kind: Type, elements: usize) -> Result<(Memory, bool)> {
        let bytes = (elements as u64).saturating_mul(kind.size as u64);
        let limits = &context.limits;
        let most = limits
            .max_buffer_size
            .min(limits.max_storage_buffer_binding_size);
        let class = size_class(bytes.min(u64::MAX / 2));
        let class = if class > most {
            bytes.next_multiple_of(32)
        } else {
            class
        };
        if class > most {
            return Err(Error::Device(format!(
                "{}: an array of {bytes} bytes is larger than the largest buffer of the device, {most} bytes; compute \
                 with parts of it",
                context.name
            )));
        }
        let (buffer, is_used) = context.take_buffer(class)?;
        let memory = Memory {
            context: Arc::clone(context),
            buffer,
            class,
            kind,
            elements,
        };
        Ok((memory, is_used))
    }

    /// Memory of a size that another one had.
    pub fn of_size(context: &Arc<Context>, class: u64) -> Result<Memory> {
        let (buffer, _) = context.take_buffer(class)?;
        Ok(Memory {
            context: Arc::clone(context),
            buffer,
            class,
            kind: Type::WORD,
            elements: (class / 4) as usize,
        })
    }

    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    pub fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let context = &self.context;
        if context.is_forked() {
            // The driver's threads stayed in the parent, and its locks as they were.
            std::mem::forget(self.buffer.clone());
            return;
        }
        let mut pool = context.pool();
        pool.used -= self.class;
        if !context.is_lost() {
            pool.kept += self.class;
            let list = pool.free.entry(self.class).or_default();
            list.push(self.buffer.clone());
        }
    }
}

impl Remote for Memory {
    fn device(&self) -> u32 {
        self.context.id
    }

    fn fetch(&self) -> Result<Storage> {
        let bytes = self.elements * self.kind.size;
        let kind = self.kind;
        self.context.read(&self.buffer, bytes, |bytes| {
            if kind.is_alike() {
                Storage::copied(&bytes[..self.elements * kind.size])
            } else {
                Storage::copied(&kind.shortened(bytes, self.elements))
            }
        })
    }
}

impl Context {
    pub fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of a size class; whether it was used before.
    pub fn take_buffer(&self, class: u64) -> Result<(wgpu::Buffer, bool)> {
        self.check()?;
        let mut pool = self.pool();
        if let Some(buffer) = pool.free.get_mut(&class).and_then(Vec::pop) {
            pool.kept -= class;
            pool.used += class;
            return Ok((buffer, true));
        }
        if let Some(limit) = pool.limit
            && pool.used + pool.kept + class > limit
        {
            pool.release();
            if pool.used + class > limit {
                return Err(Error::Memory(class as usize));
            }
        }
        let make = || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: class,
                usage: wgpu::BufferUsages::STORAGE
                    | wgpu::BufferUsages::COPY_SRC
                    | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let checked = |buffer| match self.check() {
            Ok(()) => Ok(buffer),
            Err(Error::Memory(_)) => Err(Error::Memory(class as usize)),
            Err(error) => Err(error),
        };
        let mut made = checked(make());
        if matches!(made, Err(Error::Memory(_))) && pool.kept > 0 {
            // What is kept may be what is missing.
            pool.release();
            let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
            made = checked(make());
        }
        let buffer = made?;
        pool.used += class;
        Ok((buffer, false))
    }
}

/// The pool of a device.
pub type Buffers = Mutex<Pool>;

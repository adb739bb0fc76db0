//! An open device: its queue, its pipelines, and what went wrong with it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use cotan::{Error, Result};
use wgpu::Features;

use crate::memory::{Buffers, Pool};
use crate::shader::GROUP;
use crate::units::Units;

/// So long an answer of a device may be on its way between two threads.
const HANDED_OVER: Duration = Duration::from_secs(10);

/// What shaders are compiled with, where the device has it.
const WANTED: Features = Features::SHADER_F16
    .union(Features::SHADER_F64)
    .union(Features::SHADER_INT64)
    .union(Features::SUBGROUP);

/// A compiled shader, and what it binds.
#[derive(Debug)]
pub struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// An open device. When it is lost, another one takes its place.
pub struct Context {
    pub id: u32,
    pub name: String,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub features: Features,
    pub(crate) buffers: Buffers,
    /// By the text of the shader.
    pipelines: Mutex<HashMap<String, Arc<Pipeline>>>,
    pub limits: wgpu::Limits,
    /// How many threads a subgroup has, where that is the same for all.
    pub subgroup: Option<u32>,
    /// What multiplies matrices for a subgroup.
    pub units: Arc<Units>,
    /// Whether the driver computes on the processor. There, threads that wait for each other and memory that they share cost
    /// a hundred times what arithmetic does.
    pub is_soft: bool,
    /// How often a loop of a shader goes round at most: Mesa's software driver leaves longer ones, and says nothing.
    pub longest_loop: usize,
    /// Where the parameters of a submission are: it is written when the one before has read them.
    pub params: Mutex<Option<wgpu::Buffer>>,
    /// One run at a time: what it has not submitted yet refers to buffers that are in the pool.
    pub turn: Mutex<()>,
    failed: Arc<Mutex<Option<wgpu::Error>>>,
    lost: Arc<AtomicBool>,
    process: u32,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The result of a future that is ready when it is asked a few times.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = std::task::Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}

/// The size of subgroups, if they all have one.
fn subgroup(info: &wgpu::AdapterInfo, features: Features) -> Option<u32> {
    let size = info.subgroup_min_size;
    let is_one = features.contains(Features::SUBGROUP) && size == info.subgroup_max_size;
    (is_one && size.is_power_of_two() && (4..=GROUP).contains(&size)).then_some(size)
}

impl Context {
    /// Opens a device.
    pub fn open(
        id: u32,
        name: &str,
        adapter: &wgpu::Adapter,
        units: Arc<Units>,
    ) -> Result<Arc<Context>> {
        let features = adapter.features() & (WANTED | units.features());
        let opened = ready(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("cotan"),
            required_features: features,
            required_limits: adapter.limits(),
            experimental_features: units.consent(),
            ..Default::default()
        }));
        let (device, queue) =
            opened.map_err(|error| Error::Device(format!("{name} cannot be opened: {error}")))?;
        let failed: Arc<Mutex<Option<wgpu::Error>>> = Arc::default();
        let lost = Arc::new(AtomicBool::new(false));
        let first = Arc::clone(&failed);
        device.on_uncaptured_error(Arc::new(move |error| {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        }));
        let is_lost = Arc::clone(&lost);
        device.set_device_lost_callback(move |_, _| is_lost.store(true, Ordering::Release));
        let info = adapter.get_info();
        let is_soft = info.device_type == wgpu::DeviceType::Cpu;
        Ok(Arc::new(Context {
            id,
            name: name.to_owned(),
            device,
            queue,
            features,
            buffers: Mutex::new(Pool::default()),
            pipelines: Mutex::default(),
            limits: adapter.limits(),
            subgroup: subgroup(&info, features),
            units,
            is_soft,
            longest_loop: if is_soft { 65_535 } else { usize::MAX },
            params: Mutex::default(),
            turn: Mutex::default(),
            failed,
            lost,
            process: std::process::id(),
        }))
    }

    /// How many arrays a shader binds at most, besides its parameters.
    pub fn most_bound(&self) -> usize {
        self.limits.max_storage_buffers_per_shader_stage as usize - 1
    }

    /// How many threads take a row together: a workgroup, or on the processor a subgroup, whose threads wait for nobody.
    pub fn team(&self) -> u32 {
        match self.subgroup {
            _ if !self.is_soft => GROUP,
            Some(threads) => threads,
            None => 1,
        }
    }

    /// Whether this process was forked from the one that opened the device.
    pub fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Loses the device, as when its driver fails.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.device.destroy();
        let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
    }

    /// The first error since the last time.
    pub fn check(&self) -> Result<()> {
        if self.is_forked() {
            return Err(Error::Device(format!(
                "{}: this process was forked from one that uses the device, which its driver does not survive; start \
                 workers with the method \"spawn\"",
                self.name
            )));
        }
        let failed = (self.failed.lock().unwrap_or_else(PoisonError::into_inner)).take();
        if failed.is_some() && !self.is_lost() {
            // What uses a device that is just being lost is invalid before it is told that.
            let _ = self.device.poll(wgpu::PollType::Poll);
        }
        if self.is_lost() {
            return Err(Error::Device(format!(
                "{}: the device was lost, and with it the arrays on it; copy them to it again",
                self.name
            )));
        }
        match failed {
            None => Ok(()),
            Some(wgpu::Error::OutOfMemory { .. }) => Err(Error::Memory(0)),
            Some(error) => Err(Error::Device(format!("{}: {error}", self.name))),
        }
    }

    /// The pipeline of a shader, compiled when it is met first.
    pub fn pipeline(&self, source: String) -> Result<Arc<Pipeline>> {
        #[cfg(test)]
        let source = crate::units_test::noted(source);
        let lock = || {
            self.pipelines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(found) = lock().get(&source) {
            return Ok(Arc::clone(found));
        }
        self.check()?;
        let module = self
            .device
            .create_shader_module(wgpu::ShaderModuleDescriptor {
                label: None,
                source: wgpu::ShaderSource::Wgsl(source.as_str().into()),
            });
        self.check()?;
        let pipeline = self
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: None,
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            });
        self.check()?;
        let layout = pipeline.get_bind_group_layout(0);
        let pipeline = Arc::new(Pipeline { pipeline, layout });
        lock().insert(source, Arc::clone(&pipeline));
        Ok(pipeline)
    }

    /// Reads the first bytes of a buffer, when all that was submitted has ended.
    pub fn read<T>(
        &self,
        buffer: &wgpu::Buffer,
        bytes: usize,
        read: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        self.check()?;
        if bytes == 0 {
            return read(&[]);
        }
        let size = (bytes as u64).next_multiple_of(4);
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.check()?;
        let mut encoder = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, size);
        self.queue.submit([encoder.finish()]);
        let (done, is_done) = mpsc::channel();
        staging
            .slice(..)
            .map_async(wgpu::MapMode::Read, move |result| {
                let _ = done.send(result);
            });
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check()?;
        if let Err(error) = polled {
            return Err(Error::Device(format!("{}: {error}", self.name)));
        }
        // Another thread that waits may have taken the answer, and be about to hand it over.
        match is_done.recv_timeout(HANDED_OVER) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Error::Device(format!("{}: {error}", self.name))),
            Err(_) => return Err(Error::Device(format!("{}: nothing came back", self.name))),
        }
        let result = match staging.slice(..).get_mapped_range() {
            Ok(view) => read(&view),
            Err(error) => Err(Error::Device(format!("{}: {error}", self.name))),
        };
        staging.unmap();
        result
    }

    /// Waits until all that was submitted has ended.
    pub fn wait(&self) -> Result<()> {
        self.check()?;
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check()?;
        (polled.map(drop)).map_err(|error| Error::Device(format!("{}: {error}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shader_that_does_not_compile_is_an_error_and_the_next_one_works() {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapters = ready(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        let Some(adapter) = adapters.first() else {
            eprintln!("no GPU: nothing is compiled");
            return;
        };
        let context = Context::open(1, "gpu:0", adapter, Arc::default()).unwrap();
        let main = "@compute @workgroup_size(1) fn main() { X }";
        let error = context.pipeline(main.to_owned()).unwrap_err();
        assert!(matches!(error, Error::Device(_)), "{error:?}");
        assert!(error.to_string().starts_with("gpu:0: "), "{error}");
        assert!(context.pipeline(main.replace('X', "")).is_ok());
        assert!(context.check().is_ok());
    }
}

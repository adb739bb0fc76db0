//! GPUs for cotan, through wgpu: Vulkan, Metal and Direct3D 12.
//!
//! A plan of the core is a list of steps. Here each step becomes kernels in WGSL: a fused group one for its elementwise
//! results ([`fours`] and [`vectors`] where elements lie side by side) and one or two for each reduction ([`group`], [`fold`]), other primitives ([`primitives`]) one or a few ([`calls`],
//! [`product`], [`lanes`], [`units`], which [`units_check`] tries out, [`scan`], [`window`]); what has none is computed on the processor, and counted. [`run`] walks the steps and
//! [`submission`] sends what they have become; nothing is waited for until somebody reads a result. A product is computed
//! together with the group that reads it ([`epilogue`]), and groups along rows together ([`rows`]). A step keeps what it has become ([`recorded`]); shaders are found
//! again by their text ([`context`]), memory comes from a pool ([`memory`], [`arrays`]).

mod arrays;
mod calls;
mod context;
mod epilogue;
mod expression;
mod fold;
mod fours;
mod functions;
mod group;
mod lanes;
mod memory;
mod primitives;
mod product;
mod recorded;
mod rows;
mod run;
mod scan;
mod shader;
mod submission;
mod types;
mod units;
mod units_check;
#[cfg(test)]
mod units_test;
mod vectors;
mod window;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cotan::kernels::Value;
use cotan::sched::{Backend, Device, DevicePlan, register_backend};
use cotan::{DType, Result};

use crate::context::{Context, ready};
use crate::types::Type;
use crate::units::Units;

/// The first number of a device of this crate: the processor has none.
const FIRST: u32 = 1;

/// A GPU, which is opened when it is used first, and again when it was lost.
struct Gpu {
    id: u32,
    name: String,
    adapter: wgpu::Adapter,
    units: Arc<Units>,
    open: Mutex<Option<Arc<Context>>>,
    limit: Mutex<Option<usize>>,
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.description())
    }
}

impl Gpu {
    fn context(&self) -> Result<Arc<Context>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = open.as_ref().filter(|c| c.is_forked() || !c.is_lost()) {
            return Ok(Arc::clone(context));
        }
        let context = Context::open(self.id, &self.name, &self.adapter, Arc::clone(&self.units))?;
        let limit = *self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        context.pool().set_limit(limit.map(|bytes| bytes as u64));
        *open = Some(Arc::clone(&context));
        Ok(context)
    }

    fn opened(&self) -> Option<Arc<Context>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().filter(|c| !c.is_forked()).cloned()
    }
}

impl Device for Gpu {
    fn id(&self) -> u32 {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> String {
        let info = self.adapter.get_info();
        let soft = match info.device_type {
            wgpu::DeviceType::Cpu => ", on the processor",
            _ => "",
        };
        let units = self.units.description();
        format!("{} ({:?}{soft}{units})", info.name, info.backend)
    }

    fn has(&self, dtype: DType) -> bool {
        Type::of(dtype, self.adapter.features()).is_some()
    }

    fn put(&self, value: &Value) -> Result<Value> {
        let context = self.context()?;
        context.check()?;
        // A run may hold memory of the pool that it has not submitted yet.
        let _turn = context.turn.lock().unwrap_or_else(PoisonError::into_inner);
        arrays::put(&context, value, &mut || Ok(()))
    }

    fn run(
        &self,
        plan: &DevicePlan,
        inputs: Vec<Value>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Value>> {
        run::run(&self.context()?, plan, inputs, interrupted)
    }

    fn synchronize(&self) -> Result<()> {
        self.opened().map_or(Ok(()), |context| context.wait())
    }

    fn memory(&self) -> (usize, usize) {
        let bytes = self
            .opened()
            .map_or((0, 0), |context| context.pool().bytes());
        (bytes.0 as usize, bytes.1 as usize)
    }

    fn set_memory_limit(&self, bytes: Option<usize>) {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
        if let Some(context) = self.opened() {
            context.pool().set_limit(bytes.map(|bytes| bytes as u64));
        }
    }

    fn release(&self) {
        if let Some(context) = self.opened() {
            context.pool().release();
        }
    }

    fn lose(&self) {
        if let Some(context) = self.opened() {
            context.lose();
        }
    }
}

/// The GPUs of this machine.
struct Gpus;

impl Backend for Gpus {
    fn kind(&self) -> &'static str {
        "gpu"
    }

    fn devices(&self) -> Result<Vec<Arc<dyn Device>>> {
        static FOUND: OnceLock<Vec<Arc<dyn Device>>> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
            descriptor.backends = wgpu::Backends::PRIMARY;
            descriptor.flags = wgpu::InstanceFlags::empty();
            let instance = wgpu::Instance::new(descriptor);
            let mut adapters = ready(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
            // Cards first, then what shares memory with the processor, then the processor.
            adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
                wgpu::DeviceType::DiscreteGpu => 0,
                wgpu::DeviceType::IntegratedGpu => 1,
                wgpu::DeviceType::VirtualGpu => 2,
                wgpu::DeviceType::Other => 3,
                wgpu::DeviceType::Cpu => 4,
            });
            let make = |(i, adapter)| {
                Arc::new(Gpu {
                    id: FIRST + i as u32,
                    name: format!("gpu:{i}"),
                    units: Arc::new(Units::of(&adapter)),
                    adapter,
                    open: Mutex::default(),
                    limit: Mutex::default(),
                }) as Arc<dyn Device>
            };
            adapters.into_iter().enumerate().map(make).collect()
        });
        Ok(found.clone())
    }
}

/// Makes the GPUs of this machine known to cotan. They are looked for when somebody asks for one.
pub fn register() {
    register_backend(Arc::new(Gpus));
}

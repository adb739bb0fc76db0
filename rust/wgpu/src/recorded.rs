//! What a step became the last times: its kernels, for arrays that lie in memory as those did.
//!
//! Writing a shader takes longer than sending it. A plan is run again and again with arrays of the same layouts, so each
//! step keeps its dispatches with the places of its arrays left open. Numbers among the parameters are a part of the layout.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cotan::Result;
use cotan::kernels::Value;
use cotan::sched::DevicePlan;

use crate::context::{Context, Pipeline};
use crate::memory::Memory;
use crate::rows::Chain;
use crate::shader::Dispatch;

/// So many layouts are kept of each step.
const LAYOUTS: usize = 4;

/// Which array a kernel binds.
#[derive(Debug, Clone, Copy)]
enum Role {
    Arg(usize),
    Result(usize),
    /// Memory that is only there between the kernels of the step.
    Between(usize),
}

#[derive(Debug)]
struct Kernel {
    pipeline: Arc<Pipeline>,
    roles: Vec<Role>,
    params: Arc<[u32]>,
    groups: [u32; 3],
}

/// A step as kernels.
#[derive(Debug)]
pub struct Recorded {
    layout: Layout,
    /// The device that the pipelines are of.
    context: Weak<Context>,
    kernels: Vec<Kernel>,
    /// The sizes of the memory between them.
    between: Vec<u64>,
}

/// How the arguments of a step lie in memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout(Vec<u64>);

impl Layout {
    /// That of arguments, of which those on the device are in these memories, and numbers are these words.
    pub fn of(args: &[Value], memories: &[Option<Arc<Memory>>], words: &[Vec<u32>]) -> Layout {
        let mut layout = Vec::with_capacity(4 * args.len());
        for (arg, (memory, words)) in args.iter().zip(memories.iter().zip(words)) {
            layout.push(words.len() as u64);
            layout.extend(words.iter().map(|&w| u64::from(w)));
            let Some(memory) = memory else { continue };
            let first = (memories.iter().flatten()).position(|m| m.buffer() == memory.buffer());
            layout.push(first.unwrap_or_default() as u64);
            layout.push(arg.first() as u64);
            layout.extend(arg.strides().iter().map(|&s| s as u64));
        }
        Layout(layout)
    }
}

impl Recorded {
    /// What became of a step: what it binds is an argument, a result, or else its own.
    pub fn new(
        context: &Arc<Context>,
        layout: Layout,
        dispatches: &[Dispatch],
        args: &[Option<Arc<Memory>>],
        results: &[Arc<Memory>],
    ) -> Recorded {
        let mut between: Vec<wgpu::Buffer> = Vec::new();
        let mut role = |buffer: &wgpu::Buffer| {
            let is = |m: &Arc<Memory>| m.buffer() == buffer;
            if let Some(k) = results.iter().position(is) {
                return Role::Result(k);
            }
            if let Some(k) = args.iter().position(|m| m.as_ref().is_some_and(is)) {
                return Role::Arg(k);
            }
            let known = between.iter().position(|b| b == buffer);
            Role::Between(known.unwrap_or_else(|| {
                between.push(buffer.clone());
                between.len() - 1
            }))
        };
        let kernels = (dispatches.iter())
            .map(|dispatch| Kernel {
                pipeline: Arc::clone(&dispatch.pipeline),
                roles: dispatch.buffers.iter().map(&mut role).collect(),
                params: Arc::clone(&dispatch.params),
                groups: dispatch.groups,
            })
            .collect();
        Recorded {
            layout,
            context: Arc::downgrade(context),
            kernels,
            between: between.iter().map(wgpu::Buffer::size).collect(),
        }
    }

    /// The dispatches for other memory.
    pub fn dispatches(
        &self,
        context: &Arc<Context>,
        args: &[Option<Arc<Memory>>],
        results: &[Arc<Memory>],
    ) -> Result<Vec<Dispatch>> {
        let between: Vec<Memory> = (self.between.iter())
            .map(|&size| Memory::of_size(context, size))
            .collect::<Result<_>>()?;
        let buffer = |role: &Role| match *role {
            Role::Arg(k) => args[k].as_ref().map(|m| m.buffer().clone()),
            Role::Result(k) => Some(results[k].buffer().clone()),
            Role::Between(k) => Some(between[k].buffer().clone()),
        };
        let dispatch = |kernel: &Kernel| Dispatch {
            pipeline: Arc::clone(&kernel.pipeline),
            buffers: kernel.roles.iter().filter_map(buffer).collect(),
            params: Arc::clone(&kernel.params),
            groups: kernel.groups,
        };
        Ok(self.kernels.iter().map(dispatch).collect())
    }
}

/// The steps of a plan.
#[derive(Debug, Default)]
pub struct Steps {
    recorded: Mutex<HashMap<usize, Vec<Arc<Recorded>>>>,
    /// The chains of groups that one kernel takes, by their first steps.
    chains: Mutex<Option<Vec<Option<Arc<Chain>>>>>,
}

impl Steps {
    /// The chain that begins with a step.
    pub fn chain(&self, plan: &DevicePlan, step: usize) -> Option<Arc<Chain>> {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        chains.get_or_insert_with(|| Chain::all(plan))[step].clone()
    }

    /// Forgets a chain that one kernel cannot take after all.
    pub fn give_up(&self, step: usize) {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chains) = chains.as_mut() {
            chains[step] = None;
        }
    }

    /// What a step became with arguments of this layout.
    pub fn find(
        &self,
        context: &Arc<Context>,
        step: usize,
        layout: &Layout,
    ) -> Option<Arc<Recorded>> {
        let steps = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |r: &&Arc<Recorded>| {
            r.layout == *layout && std::ptr::eq(r.context.as_ptr(), Arc::as_ptr(context))
        };
        steps.get(&step)?.iter().find(is_it).cloned()
    }

    /// Keeps what a step became.
    pub fn keep(&self, step: usize, recorded: Recorded) {
        let mut steps = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let list = steps.entry(step).or_default();
        if list.len() == LAYOUTS {
            list.remove(0);
        }
        list.push(Arc::new(recorded));
    }
}

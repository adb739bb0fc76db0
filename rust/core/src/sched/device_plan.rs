//! How devices run a program: the steps of a plan whose groups come with recipes, and no step that only processors take.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::plan::{Plan, Work};
use super::run::take_step;
use super::stages::for_devices;
use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::kernels::{Recipe, Value};
use crate::prim::{Params, Prim};

/// What a step does.
#[derive(Debug, Clone, Copy)]
pub enum Task<'p> {
    /// Another layout of its input.
    View,
    /// Elementwise operations and reductions over one space.
    Group(&'p Recipe),
    /// One primitive.
    Call,
    /// A function that is called back.
    Host,
}

/// A step, for a device. Arrays have numbers: the inputs of the program first, then constants and results.
#[derive(Debug, Clone, Copy)]
pub struct DeviceStep<'p> {
    /// What it does.
    pub task: Task<'p>,
    /// Its primitive, if it is a view or a call; one of several in a group.
    pub prim: Prim,
    /// The parameters of the primitive.
    pub params: &'p Params,
    /// What it reads.
    pub inputs: &'p [u32],
    /// What it makes.
    pub outputs: &'p [(u32, Aval)],
    /// Arrays that nothing reads after this step.
    pub dying: &'p [u32],
    /// Results that nothing reads at all.
    pub unread: &'p [u32],
}

/// The plan of a program for devices, and what each of them has made of it.
pub struct DevicePlan {
    plan: Plan,
    recipes: Vec<Option<Recipe>>,
    compiled: Mutex<Vec<(u32, Arc<dyn Any + Send + Sync>)>>,
}

impl fmt::Debug for DevicePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.plan.steps).finish()
    }
}

impl Plan {
    /// The plan of the same program for devices, made when the first one asks.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn for_devices(&self) -> Result<Arc<DevicePlan>> {
        if let Some(Ok(made)) = self.for_devices.get().map(|m| Arc::clone(m).downcast()) {
            return Ok(made);
        }
        let source = (self.source.as_ref())
            .ok_or_else(|| Error::Program("a part of a plan is run by a device".into()))?;
        let (plan, recipes) = Plan::with_recipes(&for_devices(source)?)?;
        let made = Arc::new(DevicePlan {
            plan,
            recipes,
            compiled: Mutex::default(),
        });
        let _ = self.for_devices.set(Arc::<DevicePlan>::clone(&made));
        Ok(made)
    }
}

impl DevicePlan {
    /// How many numbers of arrays there are.
    pub fn num_arrays(&self) -> usize {
        self.plan.num_slots
    }

    /// Numbers that are there from the start.
    pub fn constants(&self) -> &[(u32, Value)] {
        &self.plan.constants
    }

    /// The results.
    pub fn outs(&self) -> &[u32] {
        &self.plan.outs
    }

    /// How many equations of each primitive a run computes.
    pub fn counts(&self) -> &[(Prim, u64)] {
        &self.plan.counts
    }

    /// How many steps there are.
    pub fn num_steps(&self) -> usize {
        self.plan.steps.len()
    }

    /// The primitives that a step computes.
    pub fn prims(&self, step: usize) -> impl Iterator<Item = Prim> + '_ {
        self.plan.steps[step]
            .origins
            .iter()
            .map(|origin| origin.prim)
    }

    /// A step.
    pub fn step(&self, number: usize) -> DeviceStep<'_> {
        let step = &self.plan.steps[number];
        let task = match (&step.work, &self.recipes[number]) {
            (Work::View, _) => Task::View,
            (Work::Fused(_), Some(recipe)) => Task::Group(recipe),
            (Work::Host(..), _) => Task::Host,
            _ => Task::Call,
        };
        DeviceStep {
            task,
            prim: step.prim,
            params: &step.params,
            inputs: &step.inputs,
            outputs: &step.outputs,
            dying: &step.dying,
            unread: &step.unread,
        }
    }

    /// Takes a step on the processor. What it reads is fetched.
    ///
    /// # Errors
    /// Those of the step, and those of fetching.
    pub fn take_here(&self, step: usize, args: Vec<Value>) -> Result<Vec<Value>> {
        for arg in &args {
            arg.bring_here()?;
        }
        take_step(&self.plan, step, args)
    }

    /// What a device has made of the plan; made now, if it has not yet.
    pub fn compiled<T: Any + Send + Sync>(&self, device: u32, make: impl FnOnce() -> T) -> Arc<T> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let found = compiled.iter().find(|(d, _)| *d == device);
        if let Some(Ok(found)) = found.map(|(_, c)| Arc::clone(c).downcast()) {
            return found;
        }
        let made = Arc::new(make());
        compiled.retain(|(d, _)| *d != device);
        compiled.push((device, Arc::<T>::clone(&made)));
        made
    }
}

//! Runs loops: the plan of a body, again and again. A small body runs in the buffers of one frame, so that
//! steps allocate nothing.

use std::sync::Arc;

use super::frame::Frame;
use super::plan::{Compilation, LoopPlan, Plan};
use super::profile::Stopwatch;
use super::run::{WORTH_THREADS, take_all};
use crate::aval::{Aval, SliceDim};
use crate::error::{Error, Result};
use crate::kernels::{self, Ctx, Value};
use crate::prim::Var;
use crate::program::{Loop, LoopOutput};

/// What a step costs besides its equations, in nanoseconds.
const STEP: f64 = 100.0;
/// Bodies whose buffers take up to so many bytes have all of them at once.
const SMALL: usize = 256 << 10;

impl LoopPlan {
    /// Plans a loop for these outputs, and says which arguments it reads.
    pub fn new(of: &Loop, outputs: &[usize]) -> Result<(LoopPlan, Vec<usize>)> {
        let (of, inputs, outputs) = of.slim(outputs)?;
        if let Some(name) = of.body().host_calls().first() {
            return Err(Error::Program(format!(
                "loop: its body calls {name} back, which only steps that are written out can do; use a Python loop"
            )));
        }
        let plan = Arc::new(Plan::new(of.body())?);
        let first = of.carries + of.scanned;
        let own = (0..first).map(|i| of.body().aval(i as Var).nbytes());
        let made = plan.steps.iter().flat_map(|s| &s.outputs);
        let bytes: usize = own.chain(made.map(|(_, aval)| aval.nbytes())).sum();
        let outputs = outputs.iter().filter_map(|&o| of.output(o)).collect();
        let fits_frame = bytes <= SMALL && plan.cost < WORTH_THREADS;
        let looped = LoopPlan {
            plan,
            of,
            outputs,
            fits_frame,
            compiled: Compilation::default(),
        };
        Ok((looped, inputs))
    }

    /// Estimated nanoseconds of all steps.
    pub fn cost(&self) -> f64 {
        (self.plan.cost + STEP) * self.of.length as f64
    }

    /// The outputs that are asked for.
    pub fn run(
        &self,
        mut args: Vec<Value>,
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<Value>> {
        let of = &self.of;
        let shared = args.split_off(of.carries + of.scanned);
        let scanned = args.split_off(of.carries);
        let mut carried = args;
        let mut stacks = Vec::with_capacity(self.outputs.len());
        for output in &self.outputs {
            let of_step = match *output {
                LoopOutput::Last(_) => None,
                LoopOutput::Before(j) => Some(of.body().outs()[j]),
                LoopOutput::Stacked(i) => Some(of.body().outs()[of.carries + i]),
            };
            let stack = of_step
                .map(|var| Value::empty(crate::program::stacked(of.body().aval(var), of.length)));
            stacks.push(stack.transpose()?);
        }
        if of.length > 0 {
            let scanned = (scanned.into_iter())
                .map(|x| {
                    if slices_lie_in_order(&x) {
                        Ok(x)
                    } else {
                        kernels::copy(&x, ctx)
                    }
                })
                .collect::<Result<Vec<Value>>>()?;
            let frame = self.frame(&shared)?;
            carried = self.compiled.timed(of.length, || match frame {
                Some(frame) => self.in_frame(frame, &carried, &scanned, &stacks, stopwatch, ctx),
                None => self.in_turn(carried, &scanned, &shared, &stacks, stopwatch, ctx),
            })?;
        }
        let outs = self
            .outputs
            .iter()
            .zip(stacks)
            .map(|(output, stack)| match (output, stack) {
                (_, Some(stack)) => Ok(stack),
                (LoopOutput::Last(j), None) => Ok(carried[*j].clone()),
                _ => Err(Error::Program("loop: no place for an output".into())),
            });
        outs.collect()
    }

    /// The slices in the order of the steps.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (length, reverse) = (self.of.length, self.of.reverse);
        (0..length).map(move |n| if reverse { length - 1 - n } else { n })
    }

    /// Where a value of each step goes that is stacked: what it is and where it goes.
    fn stacked<'s>(&self, stacks: &'s [Option<Value>]) -> Vec<(LoopOutput, &'s Value)> {
        let stacks = self.outputs.iter().zip(stacks);
        stacks
            .filter_map(|(&output, stack)| Some((output, stack.as_ref()?)))
            .collect()
    }

    fn frame(&self, shared: &[Value]) -> Result<Option<Frame>> {
        let body = self.of.body();
        let inputs: Vec<Aval> = (0..body.num_inputs() as Var)
            .map(|v| body.aval(v).clone())
            .collect();
        let shared = Arc::from(shared);
        if let Some(compiled) = self.compiled.get_for(&self.plan, self.of.length)? {
            let frame = Frame::new(&compiled.plan, Some(compiled), &inputs, &shared)?;
            if frame.is_some() {
                return Ok(frame);
            }
        }
        if !self.fits_frame {
            return Ok(None);
        }
        Frame::new(&self.plan, None, &inputs, &shared)
    }

    /// All steps in the same buffers; gives the last carries.
    fn in_frame(
        &self,
        mut frame: Frame,
        carried: &[Value],
        scanned: &[Value],
        stacks: &[Option<Value>],
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<Value>> {
        let carries = self.of.carries;
        for (j, value) in carried.iter().enumerate() {
            frame.write(j, value)?;
        }
        let stacked = self.stacked(stacks);
        // What a step carries on may be what it got, or lie where something else does that it got.
        let (mut moves, mut spare) = (Vec::new(), Vec::new());
        for j in 0..carries {
            let (from, to) = (&frame.outs()[j], &frame.inputs()[j]);
            if from.is_contiguous() && from.as_ptr() == to.as_ptr() {
                continue;
            }
            let is_input = |x: &Value| Arc::ptr_eq(x.storage(), from.storage());
            if frame.inputs()[..carries].iter().any(is_input) || !from.is_contiguous() {
                spare.push((j, Value::empty(to.aval().clone())?));
            } else {
                moves.push(j);
            }
        }
        for i in self.order() {
            ctx.check()?;
            for (to, from) in frame.inputs()[carries..].iter().zip(scanned) {
                kernels::read_slice(to, from, i);
            }
            for &(output, stack) in &stacked {
                if let LoopOutput::Before(j) = output {
                    kernels::write_slice(stack, i, &frame.inputs()[j]);
                }
            }
            frame.advance(stopwatch, &ctx.alone(), &mut || false)?;
            for &(output, stack) in &stacked {
                if let LoopOutput::Stacked(k) = output {
                    let value = &frame.outs()[carries + k];
                    if value.is_contiguous() {
                        kernels::write_slice(stack, i, value);
                    } else {
                        kernels::copy_into(&slice(stack, i)?, value, ctx)?;
                    }
                }
            }
            for (j, value) in &spare {
                kernels::copy_into(value, &frame.outs()[*j], ctx)?;
            }
            for &j in &moves {
                kernels::copy_whole(&frame.inputs()[j], &frame.outs()[j]);
            }
            for (j, value) in &spare {
                kernels::copy_whole(&frame.inputs()[*j], value);
            }
        }
        Ok(frame.inputs()[..carries].to_vec())
    }

    /// Steps that take their buffers from the pool; gives the last carries.
    fn in_turn(
        &self,
        mut carried: Vec<Value>,
        scanned: &[Value],
        shared: &[Value],
        stacks: &[Option<Value>],
        stopwatch: &mut Stopwatch,
        ctx: &Ctx<'_>,
    ) -> Result<Vec<Value>> {
        let carries = self.of.carries;
        let stacked = self.stacked(stacks);
        for i in self.order() {
            ctx.check()?;
            let mut targets = Vec::new();
            for &(output, stack) in &stacked {
                match output {
                    LoopOutput::Before(j) => {
                        kernels::copy_into(&slice(stack, i)?, &carried[j], ctx)?;
                    }
                    LoopOutput::Stacked(k) => targets.push((carries + k, slice(stack, i)?)),
                    LoopOutput::Last(_) => {}
                }
            }
            let mut inputs = std::mem::take(&mut carried);
            for x in scanned {
                inputs.push(slice(x, i)?);
            }
            inputs.extend(shared.iter().cloned());
            let mut outs = take_all(&self.plan, inputs, &targets, stopwatch, ctx)?;
            for (out, target) in &targets {
                if outs[*out].as_ptr() != target.as_ptr() {
                    kernels::copy_into(target, &outs[*out], ctx)?;
                }
            }
            outs.truncate(carries);
            carried = outs;
        }
        Ok(carried)
    }
}

/// Whether each slice along the first axis is contiguous.
fn slices_lie_in_order(x: &Value) -> bool {
    slice(x, 0).is_ok_and(|first| first.is_contiguous())
}

/// A slice along the first axis.
fn slice(x: &Value, i: usize) -> Result<Value> {
    let inner = &x.shape()[1..];
    let dims: Vec<SliceDim> = std::iter::once((i, 1))
        .chain(inner.iter().map(|&len| (0, len)))
        .map(|(start, len)| SliceDim {
            start,
            len,
            step: 1,
        })
        .collect();
    let slice = x.sliced(&dims).reshaped(inner);
    slice.ok_or_else(|| Error::Program("loop: a slice has no layout".into()))
}

//! Products together with the group that reads them: its operations are done with each result where it is made.

use cotan::aval::Aval;
use cotan::kernels::{RecipeOutput, Value};
use cotan::prim::{Params, Prim};
use cotan::sched::{DevicePlan, DeviceStep, Task};
use cotan::{Error, Result, ops};

use crate::group::{Epilogue, Group};
use crate::product::{self, Finish};
use crate::recorded::Steps;
use crate::run::{Run, is_long};
use crate::shader::{Dispatch, Source};
use crate::types::Type;

/// A product that waits for the group that reads it, to be computed together with it.
pub struct Held {
    pub number: usize,
    pub reader: usize,
    pub args: Vec<Value>,
}

/// The group that computes with a product right where it is made: nothing else reads it, and only layouts come between.
pub fn reader_of(plan: &DevicePlan, number: usize) -> Option<usize> {
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

impl Run<'_> {
    /// A product and the group that reads it in one kernel, where the device has one.
    pub fn product_and_group(
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
        let factors = self.all_put(&all[..of_product])?;
        all[..of_product].clone_from_slice(&factors);
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
    pub fn product(
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
}

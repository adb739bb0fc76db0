//! Which kernels a primitive becomes: those that are no part of a group.

use cotan::aval::Aval;
use cotan::kernels::{ReduceOp, Value};
use cotan::prim::{Kernel, Params, Prim};
use cotan::{Result, ops};

use crate::arrays::empty;
use crate::calls::{self, Lists, Region};
use crate::product::Plain;
use crate::run::Run;
use crate::scan::{self, Lines, Running};
use crate::shader::{Dispatch, Source};
use crate::types::Type;
use crate::window::{self, Greatest, Windows};

/// Primitives that are computed alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Reduction(ReduceOp),
    /// Products of matrices and convolutions.
    Product,
    Running(Running),
    Recurrence,
    /// The place of the greatest or least element.
    Place,
    Windows,
    /// Writing a slice, or adding to it.
    Write,
    Pad,
    Join,
    Gather,
    Scatter,
}

impl Family {
    /// That of a primitive; `None` where it has no kernels.
    pub fn of(prim: Prim) -> Option<Family> {
        if let Some(Kernel::Reduce(op)) = prim.kernel_ref() {
            return Some(Family::Reduction(*op));
        }
        Some(match prim.name() {
            "matmul" | "conv" => Family::Product,
            "cumsum" => Family::Running(Running::Sum),
            "cummax" => Family::Running(Running::Max),
            "cummin" => Family::Running(Running::Min),
            "linear_recurrence" => Family::Recurrence,
            "argmax" | "argmin" => Family::Place,
            "window_sum" | "window_max" | "window_pick" | "window_unpick" => Family::Windows,
            "update" | "update_add" => Family::Write,
            "pad" => Family::Pad,
            "concatenate" | "stack" => Family::Join,
            "gather" => Family::Gather,
            "scatter_add" | "scatter" => Family::Scatter,
            _ => return None,
        })
    }

    /// Whether kernels bind each argument as an array, single elements, too. Those have to be on the device before a
    /// step is recorded: what is copied there meanwhile would not be copied again.
    pub fn binds_arguments(self) -> bool {
        matches!(
            self,
            Family::Product
                | Family::Running(_)
                | Family::Recurrence
                | Family::Place
                | Family::Windows
        )
    }

    /// Whether what is written depends on numbers of an argument, so that kernels cannot be kept for its layout.
    pub fn reads_indices(self) -> bool {
        matches!(self, Family::Gather | Family::Scatter)
    }
}

/// A primitive with its arguments, and the kind of its result.
struct Call<'c> {
    prim: Prim,
    params: &'c Params,
    args: &'c [Value],
    aval: &'c Aval,
    kind: Type,
}

impl Run<'_> {
    /// The result of a primitive, or nothing where the device has no kernel for these arguments.
    pub fn call(
        &mut self,
        family: Family,
        (prim, params): (Prim, &Params),
        args: &[Value],
        aval: &Aval,
    ) -> Result<Option<Vec<Value>>> {
        let Some(kind) = self.kind(aval.dtype) else {
            return Ok(None);
        };
        let call = Call {
            prim,
            params,
            args,
            aval,
            kind,
        };
        match family {
            Family::Reduction(op) => self.reduction(op, &call),
            Family::Product => {
                let (result, memory) = empty(self.context, aval, kind)?;
                let passes = self.product(prim, params, args, aval, kind, &Plain(&memory))?;
                Ok(self.sent(passes, result))
            }
            Family::Running(op) => self.running(Some(op), &call),
            Family::Recurrence => self.running(None, &call),
            Family::Place => self.place(&call),
            Family::Windows => self.windows(&call),
            Family::Write => self.write(&call),
            Family::Pad => self.pad(&call),
            Family::Join => self.joined(&call),
            Family::Gather => self.gather(&call),
            Family::Scatter => self.scatter(&call),
        }
    }

    fn reduction(&mut self, op: ReduceOp, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let source = self.source(&call.args[0])?;
        let value = match &source {
            Source::Array(value, _) => value.clone(),
            _ => call.args[0].clone(),
        };
        let (result, memory) = empty(self.context, call.aval, call.kind)?;
        let axes = call.params.axes();
        let passes = calls::reduce(self.context, op, &source, &value, axes, call.kind, &memory)?;
        Ok(self.sent(passes, result))
    }

    /// A running sum or extremum, or else a recurrence.
    fn running(&mut self, op: Option<Running>, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let Params::Scan { axis, reverse } = *call.params else {
            return Ok(None);
        };
        let (_, x) = self.plain(&call.args[0])?;
        let (result, memory) = empty(self.context, call.aval, call.kind)?;
        let lines = Lines::of(&call.aval.shape, axis, reverse);
        let passes = if let Some(op) = op {
            scan::running(self.context, op, &x, lines, call.kind, &memory)?
        } else {
            let (_, terms) = self.plain(&call.args[1])?;
            scan::recurrence(self.context, [&x, &terms], lines, call.kind, &memory)?
        };
        Ok(self.sent(passes, result))
    }

    fn place(&mut self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let (Params::Axis(axis), Some(own)) = (call.params, self.kind(call.args[0].dtype())) else {
            return Ok(None);
        };
        let (x, from) = self.plain(&call.args[0])?;
        let (result, memory) = empty(self.context, call.aval, call.kind)?;
        let lines = Lines::of(x.shape(), *axis, false);
        let max = call.prim.name() == "argmax";
        let passes = scan::place(self.context, max, &from, lines, own, call.kind, &memory)?;
        Ok(self.sent(passes, result))
    }

    fn windows(&mut self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let Params::Windows(dims) = call.params else {
            return Ok(None);
        };
        let (x, from) = self.plain(&call.args[0])?;
        let shape = x.shape();
        let windows = Windows { dims, shape };
        if dims.iter().map(|d| d.len).product::<usize>() > self.context.longest_loop {
            return Ok(None);
        }
        let other = match call.args.get(1) {
            Some(y) => Some(self.plain(y)?.1),
            None => None,
        };
        let (result, memory) = empty(self.context, call.aval, call.kind)?;
        let (context, kind) = (self.context, call.kind);
        let ask = |asked| {
            let pass = window::greatest(context, &from, windows, kind, asked, &memory)?;
            Ok::<_, cotan::Error>(vec![pass])
        };
        let passes = match (call.prim.name(), &other) {
            ("window_sum", _) => vec![window::sums(context, &from, windows, kind, &memory)?],
            ("window_pick", Some(y)) => ask(Greatest::Of(y))?,
            ("window_unpick", Some(y)) => {
                window::spread_back(context, [&from, y], windows, kind, &memory)?
            }
            _ => ask(Greatest::Itself)?,
        };
        Ok(self.sent(Some(passes), result))
    }

    fn write(&mut self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let Params::Slice(dims) = call.params else {
            return Ok(None);
        };
        let adds = call.prim == ops::UPDATE_ADD;
        if adds && call.kind.name == "bool" {
            return Ok(None);
        }
        let (base, update) = (self.source(&call.args[0])?, self.source(&call.args[1])?);
        let (result, memory) = self.copied(&base, call.aval)?;
        let region = Region::of(&call.aval.shape, dims);
        let (shape, kind) = (call.args[1].shape(), call.kind);
        let write = calls::copy(self.context, &update, shape, kind, &memory, &region, adds)?;
        Ok(self.sent(Some(vec![write]), result))
    }

    fn pad(&mut self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let Params::Region { dims, .. } = call.params else {
            return Ok(None);
        };
        let source = self.source(&call.args[0])?;
        let zero = Source::Number(vec![0, 0]);
        let (result, memory) = self.copied(&zero, call.aval)?;
        let region = Region::of(&call.aval.shape, dims);
        let (shape, kind) = (call.args[0].shape(), call.kind);
        let write = calls::copy(self.context, &source, shape, kind, &memory, &region, false)?;
        Ok(self.sent(Some(vec![write]), result))
    }

    /// Arrays one behind the other along an axis, or along a new first one.
    fn joined(&mut self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let axis = match call.params {
            Params::Axis(axis) if call.prim == ops::CONCATENATE => Some(*axis),
            _ if call.prim == ops::STACK => None,
            _ => return Ok(None),
        };
        let (result, memory) = empty(self.context, call.aval, call.kind)?;
        let own = cotan::aval::row_major(&call.aval.shape);
        let mut at = 0;
        for arg in call.args {
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
            let (shape, kind) = (arg.shape(), call.kind);
            let copy = calls::copy(self.context, &source, shape, kind, &memory, &region, false)?;
            self.waiting.push(copy);
        }
        Ok(Some(vec![result]))
    }

    fn gather(&mut self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let [array, index] = [&call.args[0], &call.args[1]];
        let Some(indices) = self.indices(call.prim, index, array.shape()[0])? else {
            return Ok(None);
        };
        let x = self.put(array)?;
        let from = self.memory(&x)?;
        let numbers: Vec<u32> = indices.iter().map(|&i| i as u32).collect();
        let list = self.list(&numbers)?;
        let (result, memory) = empty(self.context, call.aval, call.kind)?;
        let (context, count) = (self.context, numbers.len());
        let read = calls::gather(context, (&x, &from), &list, count, call.kind, &memory)?;
        Ok(self.sent(Some(vec![read]), result))
    }

    fn scatter(&mut self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let (aval, kind) = (call.aval, call.kind);
        let adds = call.prim == ops::SCATTER_ADD;
        let Some(indices) = self.indices(call.prim, &call.args[1], aval.shape[0])? else {
            return Ok(None);
        };
        if adds && kind.name == "bool" {
            return Ok(None);
        }
        let lists = Lists::of(&indices);
        if lists.longest() > self.context.longest_loop {
            return Ok(None);
        }
        let base = self.source(&call.args[0])?;
        let (updates, from) = self.plain(&call.args[2])?;
        let numbers = [
            self.list(&lists.rows)?,
            self.list(&lists.starts)?,
            self.list(&lists.order)?,
        ];
        let (result, memory) = self.copied(&base, aval)?;
        let row: usize = aval.shape[1..].iter().product();
        let write = calls::scatter(
            self.context,
            (lists.rows.len(), numbers.each_ref()),
            (&updates, &from),
            row,
            &memory,
            adds,
        )?;
        Ok(self.sent(Some(vec![write]), result))
    }

    /// The result of passes that the device has a kernel for.
    fn sent(&mut self, passes: Option<Vec<Dispatch>>, result: Value) -> Option<Vec<Value>> {
        passes.map(|passes| {
            self.waiting.extend(passes);
            vec![result]
        })
    }
}

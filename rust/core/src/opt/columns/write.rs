//! Writes a program again, with columns for what was chosen.

use smallvec::SmallVec;

use super::choice::{Chosen, Form};
use crate::aval::{DType, Shape, SliceDim};
use crate::error::Result;
use crate::interrupt::Steps;
use crate::ops;
use crate::opt::{Passes, optimize};
use crate::prim::{Params, V, Var};
use crate::program::{Builder, Eqn, Program};
use crate::util::FastMap;

type Columns = SmallVec<[Var; 4]>;

/// The program in columns.
pub(super) fn written(program: &Program, chosen: &Chosen) -> Result<Program> {
    let builder = Builder::new();
    let mut writer = Writer {
        program,
        builder: &builder,
        whole: vec![Var::MAX; program.num_vars()],
        columns: FastMap::default(),
    };
    for (i, name) in program.inputs.iter().enumerate() {
        writer.whole[i] = builder.input(name, program.aval(i as Var));
    }
    let mut steps = Steps::default();
    for (k, eqn) in program.eqns().iter().enumerate() {
        steps.count()?;
        builder.at(program.site(k));
        let out = program.result(k);
        match chosen.0[k] {
            None => writer.whole[out as usize] = writer.as_it_was(eqn, out),
            Some(Form::Joined) => writer.whole[out as usize] = writer.joined(eqn, out),
            Some(Form::Column) => {
                let shape = rows(&program.aval(out).shape);
                let column = writer.value(program.args(eqn)[0]).reshape(&shape).var();
                writer.columns.insert(out, SmallVec::from_slice(&[column]));
            }
            Some(Form::Columns) => {
                let columns = writer.columns(eqn, out);
                writer.columns.insert(out, columns);
            }
        }
    }
    let outs = program.outs().iter();
    let outs = outs.map(|&out| writer.value(out).var()).collect();
    let mut written = builder.finish(outs)?;
    written.outputs.clone_from(&program.outputs);
    // Columns that nobody reads go, and what was written for several readers.
    optimize(&written, Passes::ALL)
}

/// All axes but the last.
fn rows(shape: &[usize]) -> Shape {
    Shape::from_slice(&shape[..shape.len() - 1])
}

struct Writer<'p, 'b> {
    program: &'p Program,
    builder: &'b Builder,
    /// What each variable of the program is; `Var::MAX` where it was not needed whole.
    whole: Vec<Var>,
    /// The columns that it has, as far as they were needed.
    columns: FastMap<Var, Columns>,
}

impl<'b> Writer<'_, 'b> {
    /// A variable of the program, put together from its columns if need be.
    fn value(&mut self, var: Var) -> V<'b> {
        let known = self.whole[var as usize];
        if known != Var::MAX {
            return self.builder.value(known);
        }
        let shape = &self.program.aval(var).shape;
        let mut one = rows(shape);
        one.push(1);
        // It belongs to the equation that made the columns.
        let made = var as usize - self.program.num_inputs();
        let reader = self.builder.at(self.program.site(made));
        let columns = &self.columns[&var];
        let columns: Vec<Var> = (columns.iter())
            .map(|&column| self.builder.value(column).reshape(&one).var())
            .collect();
        let whole = match columns[..] {
            [column] => column,
            _ => (self.builder).emit(ops::CONCATENATE, Params::Axis(shape.len() - 1), &columns),
        };
        self.builder.at(reader);
        self.whole[var as usize] = whole;
        self.builder.value(whole)
    }

    fn as_it_was(&mut self, eqn: &Eqn, out: Var) -> Var {
        let program = self.program;
        if let Params::Literal { dtype, value } = program.params(eqn) {
            return self.builder.complex_literal(*dtype, *value);
        }
        let args = program.args(eqn).iter();
        let args: SmallVec<[Var; 4]> = args.map(|&arg| self.value(arg).var()).collect();
        let params = program.params(eqn).clone();
        (self.builder).push_inferred(eqn.prim, params, &args, program.aval(out))
    }

    /// The columns of any variable that has an axis.
    fn of(&mut self, var: Var) -> Columns {
        if let Some(columns) = self.columns.get(&var) {
            return columns.clone();
        }
        let shape = &self.program.aval(var).shape;
        let (whole, below) = (self.value(var), rows(shape));
        let column = |i| {
            let mut dims: SmallVec<[SliceDim; 4]> = below.iter().map(|&n| dim(0, n)).collect();
            dims.push(dim(i, 1));
            whole.slice(&dims).reshape(&below).var()
        };
        let columns: Columns = (0..shape[shape.len() - 1]).map(column).collect();
        self.columns.insert(var, columns.clone());
        columns
    }

    /// What an operand of any shape has for each of `count` columns.
    fn operand(&mut self, var: Var, count: usize) -> Columns {
        if self.program.aval(var).rank() == 0 {
            return SmallVec::from_elem(self.value(var).var(), count);
        }
        let columns = self.of(var);
        match columns[..] {
            [column] => SmallVec::from_elem(column, count),
            _ => columns,
        }
    }

    fn zero(&self, dtype: DType) -> V<'b> {
        self.builder.value(self.builder.number(dtype, 0.0))
    }

    /// The sum of the columns, in the order and the dtype in which kernels add short rows, or the only one.
    fn joined(&mut self, eqn: &Eqn, out: Var) -> Var {
        let program = self.program;
        let columns = self.of(program.args(eqn)[0]);
        let aval = program.aval(out);
        if eqn.prim == ops::RESHAPE {
            return self.builder.value(columns[0]).reshape(&aval.shape).var();
        }
        let wide = match aval.dtype {
            DType::F32 => DType::F64,
            dtype => dtype,
        };
        let first = self.zero(wide);
        let add = |sum: V<'b>, &column: &Var| sum + self.builder.value(column).cast(wide);
        columns.iter().fold(first, add).cast(aval.dtype).var()
    }

    /// The columns of a result.
    fn columns(&mut self, eqn: &Eqn, out: Var) -> Columns {
        let program = self.program;
        let builder = self.builder;
        let args = program.args(eqn);
        let aval = program.aval(out);
        let below = rows(&aval.shape);
        let count = aval.shape[below.len()];
        let params = program.params(eqn);
        let each = |columns: Columns, change: &dyn Fn(V<'b>) -> V<'b>| -> Columns {
            let changed = columns.iter().map(|&x| change(builder.value(x)).var());
            changed.collect()
        };
        match params {
            _ if eqn.prim == ops::BROADCAST => {
                each(self.operand(args[0], count), &|x| x.broadcast_to(&below))
            }
            _ if eqn.prim == ops::RESHAPE => each(self.of(args[0]), &|x| x.reshape(&below)),
            Params::Axes(axes) if eqn.prim == ops::TRANSPOSE => {
                each(self.of(args[0]), &|x| x.transpose(&axes[..below.len()]))
            }
            Params::Slice(dims) if eqn.prim == ops::SLICE => {
                let (rows, place) = (&dims[..below.len()], &dims[below.len()]);
                if let Some(columns) = self.columns.get(&args[0]) {
                    let region = places(place).map(|i| columns[i]);
                    return each(region.collect(), &|x| x.slice(rows));
                }
                // What may have many columns is read where it is asked for.
                let whole = self.value(args[0]);
                let column = |i| {
                    let mut dims: SmallVec<[SliceDim; 4]> = SmallVec::from_slice(rows);
                    dims.push(dim(i, 1));
                    whole.slice(&dims).reshape(&below).var()
                };
                places(place).map(column).collect()
            }
            Params::Slice(dims) => {
                let (mut columns, new) = (self.of(args[0]), self.of(args[1]));
                for (i, new) in places(&dims[below.len()]).zip(new) {
                    columns[i] = if eqn.prim == ops::UPDATE_ADD {
                        (builder.value(columns[i]) + builder.value(new)).var()
                    } else {
                        new
                    };
                }
                columns
            }
            Params::Region { dims, .. } => {
                let zeros = self.zero(aval.dtype).broadcast_to(&below).var();
                let mut columns: Columns = SmallVec::from_elem(zeros, count);
                for (i, column) in places(&dims[below.len()]).zip(self.of(args[0])) {
                    columns[i] = column;
                }
                columns
            }
            Params::Axis(_) => args.iter().flat_map(|&arg| self.of(arg)).collect(),
            _ => {
                let operands: SmallVec<[Columns; 3]> =
                    args.iter().map(|&arg| self.operand(arg, count)).collect();
                let column = |i| {
                    let args: Columns = operands.iter().map(|operand| operand[i]).collect();
                    let made = builder.emit(eqn.prim, params.clone(), &args);
                    // One that was spread over all rows.
                    builder.value(made).broadcast_to(&below).var()
                };
                (0..count).map(column).collect()
            }
        }
    }
}

fn dim(start: usize, len: usize) -> SliceDim {
    SliceDim {
        start,
        len,
        step: 1,
    }
}

/// The indices along an axis.
fn places(dim: &SliceDim) -> impl Iterator<Item = usize> + use<> {
    let SliceDim { start, len, step } = *dim;
    (0..len).map(move |i| start.wrapping_add_signed(i as isize * step))
}

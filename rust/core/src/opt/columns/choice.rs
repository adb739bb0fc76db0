//! Which arrays are taken apart: those that are computed from each other row by row, if that saves more than it costs to
//! put columns together again where somebody needs the array.

use crate::aval::{Aval, DType, SliceDim};
use crate::kernels::SHORT_ROW;
use crate::ops;
use crate::prim::{Kernel, Params, Var};
use crate::program::{Eqn, Program};

/// The longest rows that are taken apart: kernels add their elements one after the other.
const LONGEST: usize = 15;
const _: () = assert!(LONGEST < SHORT_ROW);
/// Shorter columns are not worth an operation each.
const LEAST: usize = 128;
/// What an element costs that is spread along its row, or added to the others of it, beyond an operation on a vector.
const ROW: f64 = 1.0;
/// What an element costs that a kernel of its own puts among others.
const MOVED: f64 = 3.0;
/// What an element costs in addition that would never have been in memory, since the pass that makes it adds it up.
const PASS: f64 = 3.0;
/// What an element costs that is read with others in between.
const APART: f64 = 1.0;

/// Whether arrays like this may be held as columns.
pub(super) fn has_columns(aval: &Aval) -> bool {
    match aval.shape.split_last() {
        Some((&last, rest)) => {
            (1..=LONGEST).contains(&last) && rest.iter().product::<usize>() >= LEAST
        }
        None => false,
    }
}

/// How an equation is written in columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Columns from columns.
    Columns,
    /// A column of any array, the result having rows of one element.
    Column,
    /// The sum of the columns, or the only one.
    Joined,
}

/// How each equation is written: `None` as it was.
pub(super) struct Chosen(pub Vec<Option<Form>>);

/// What to take apart; `None` for nothing.
pub(super) fn chosen(program: &Program) -> Option<Chosen> {
    let mut forms: Vec<Option<Form>> = (0..program.eqns().len())
        .map(|k| form(program, k))
        .collect();
    let mut sets = Sets((0..program.num_vars() as Var).collect());
    for (k, eqn) in program.eqns().iter().enumerate() {
        if forms[k] == Some(Form::Columns) {
            for &arg in program.args(eqn) {
                if has_columns(program.aval(arg)) {
                    sets.join(arg, program.result(k));
                }
            }
        }
    }
    let gains = gains(program, &forms, &mut sets);
    let mut any = false;
    for (k, form) in forms.iter_mut().enumerate() {
        if let Some(var) = form.map(|form| member(program, k, form)) {
            if gains[sets.of(var) as usize] > 0.0 {
                any = true;
            } else {
                *form = None;
            }
        }
    }
    any.then_some(Chosen(forms))
}

/// The variable of whose set an equation is.
fn member(program: &Program, k: usize, form: Form) -> Var {
    match form {
        Form::Columns | Form::Column => program.result(k),
        Form::Joined => program.args(&program.eqns()[k])[0],
    }
}

/// What each set saves, at its root.
fn gains(program: &Program, forms: &[Option<Form>], sets: &mut Sets) -> Vec<f64> {
    let size = |var: Var| program.aval(var).size() as f64;
    let mut gains = vec![0.0; program.num_vars()];
    // Whether a variable was counted as spread, is read in columns, is put together, and only to be reduced.
    let mut spread = vec![false; program.num_vars()];
    let mut read = vec![false; program.num_vars()];
    let mut whole = vec![false; program.num_vars()];
    let mut reduced = vec![false; program.num_vars()];
    for (k, eqn) in program.eqns().iter().enumerate() {
        let args = program.args(eqn);
        let Some(form) = forms[k] else {
            let is_reduction = matches!(eqn.prim.kernel_ref(), Some(Kernel::Reduce(_)));
            let needed = if is_reduction {
                &mut reduced
            } else {
                &mut whole
            };
            for &arg in args {
                needed[arg as usize] = true;
            }
            continue;
        };
        let out = program.result(k);
        let set = sets.of(member(program, k, form)) as usize;
        match form {
            Form::Column => {
                whole[args[0] as usize] = true;
                continue;
            }
            Form::Joined => {
                if eqn.prim == ops::SUM {
                    gains[set] += ROW * size(args[0]);
                }
            }
            Form::Columns => gains[set] += saved(program, eqn, out, &mut spread),
        }
        for &arg in args {
            read[arg as usize] = true;
        }
    }
    program
        .outs()
        .iter()
        .for_each(|&out| whole[out as usize] = true);
    for var in 0..program.num_vars() as Var {
        let aval = program.aval(var);
        if !has_columns(aval) || aval.shape.last() == Some(&1) {
            continue;
        }
        let made = (var as usize).checked_sub(program.num_inputs());
        let in_columns = made.is_some_and(|k| forms[k] == Some(Form::Columns));
        let set = sets.of(var) as usize;
        if in_columns && whole[var as usize] {
            gains[set] -= MOVED * size(var);
        } else if in_columns && reduced[var as usize] {
            gains[set] -= (MOVED + PASS) * size(var);
        }
        if !in_columns && read[var as usize] {
            gains[set] -= APART * size(var);
        }
    }
    gains
}

/// What an equation saves whose result is columns.
fn saved(program: &Program, eqn: &Eqn, out: Var, spread: &mut [bool]) -> f64 {
    let aval = program.aval(out);
    let size = aval.size() as f64;
    if last(aval) == 1 {
        return 0.0;
    }
    if [ops::CONCATENATE, ops::PAD, ops::UPDATE, ops::UPDATE_ADD].contains(&eqn.prim) {
        return MOVED * size;
    }
    if eqn.prim == ops::SLICE {
        // Of what is no columns they are read with others in between.
        let from = program.aval(program.args(eqn)[0]);
        let is_part = has_columns(from) && last(from) != last(aval);
        return if is_part { ROW * size } else { 0.0 };
    }
    let is_spread = |&&arg: &&Var| {
        let other = program.aval(arg);
        let is_row = other.size() == last(aval);
        let apart = other.size() > 1 && (last(other) == 1 || is_row);
        apart && !std::mem::replace(&mut spread[arg as usize], true)
    };
    program.args(eqn).iter().filter(is_spread).count() as f64 * ROW * size
}

fn last(aval: &Aval) -> usize {
    aval.shape.last().copied().unwrap_or(1)
}

/// How an equation can be written in columns.
fn form(program: &Program, k: usize) -> Option<Form> {
    let eqn = &program.eqns()[k];
    let args = program.args(eqn);
    let out = program.aval(program.result(k));
    let params = program.params(eqn);
    let arg = args.first().map(|&arg| program.aval(arg));
    if !has_columns(out) {
        let arg = arg.filter(|arg| has_columns(arg))?;
        let is_joined = (eqn.prim == ops::RESHAPE && last(arg) == 1)
            || (eqn.prim == ops::SUM && is_row_sum(arg, params.axes()));
        return is_joined.then_some(Form::Joined);
    }
    let can_be_added = matches!(out.dtype, DType::F64 | DType::F32 | DType::I64);
    let in_columns = match params {
        _ if eqn.prim.is_elementwise() => true,
        _ if eqn.prim == ops::BROADCAST => true,
        _ if eqn.prim == ops::RESHAPE => {
            if arg.is_some_and(|arg| arg.shape.last() == out.shape.last()) {
                true
            } else if last(out) == 1 {
                return Some(Form::Column);
            } else {
                false
            }
        }
        Params::Slice(_) if eqn.prim == ops::SLICE => true,
        Params::Slice(dims) if eqn.prim == ops::UPDATE => has_all_rows(dims, out),
        Params::Slice(dims) if eqn.prim == ops::UPDATE_ADD => {
            can_be_added && has_all_rows(dims, out)
        }
        Params::Region { dims, .. } if eqn.prim == ops::PAD => has_all_rows(dims, out),
        Params::Axes(axes) if eqn.prim == ops::TRANSPOSE => axes.last() == Some(&(axes.len() - 1)),
        Params::Axis(axis) if eqn.prim == ops::CONCATENATE => axis + 1 == out.rank(),
        // A sum over the rows of rows.
        Params::Axes(axes) if eqn.prim == ops::SUM => {
            let arg = arg.filter(|arg| has_columns(arg) && is_row_sum(arg, axes))?;
            return (last(arg) > 1).then_some(Form::Joined);
        }
        _ => false,
    };
    in_columns.then_some(Form::Columns)
}

/// Whether a sum over these axes is one over each row, which vectors can make in the order of kernels.
fn is_row_sum(arg: &Aval, axes: &[usize]) -> bool {
    axes == [arg.rank() - 1] && matches!(arg.dtype, DType::F64 | DType::F32 | DType::I64)
}

/// Whether a region has whole columns.
fn has_all_rows(dims: &[SliceDim], out: &Aval) -> bool {
    let rows = dims.iter().zip(&out.shape).take(out.rank() - 1);
    let mut whole = rows.map(|(d, &n)| d.start == 0 && d.len == n && d.step == 1);
    whole.all(|whole| whole)
}

/// Sets of variables, each with the parent on the way to its root.
struct Sets(Vec<Var>);

impl Sets {
    fn of(&mut self, var: Var) -> Var {
        let mut root = var;
        while self.0[root as usize] != root {
            let above = self.0[root as usize];
            self.0[root as usize] = self.0[above as usize];
            root = above;
        }
        root
    }

    fn join(&mut self, a: Var, b: Var) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a as usize] = b;
    }
}

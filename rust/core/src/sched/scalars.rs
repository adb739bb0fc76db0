//! Takes the small arrays of a program apart: from equations to straight-line code over their elements.
//!
//! An array becomes an array of line numbers, of the same shape and, where the equation is a layout, with the same
//! strides. So layouts and copies need no rule of their own: their kernels move numbers of lines as they move
//! anything else. Sums are written in the order in which fused groups add, products in that of the kernels, so that the
//! code gives the bits that a plan gives.

use std::sync::atomic::AtomicBool;

#[cfg(feature = "linalg")]
use super::scalar_systems;
use crate::aval::{Aval, DType};
use crate::kernels::{
    self, Ctx, Line, ROW_LANES, ReduceOp, SHORT_ROW, ScalarCode, Split, Value, has_scalars,
};
use crate::ops;
use crate::prim::{Kernel, Prim, Var};
use crate::program::{Eqn, Program};

/// Arrays of more elements than that are computed with by kernels, which take several at once.
const ELEMENTS: usize = 64;
/// Arrays that are only copied may have so many.
const COPIED: usize = 1 << 10;

/// Whether an equation can be taken apart, as far as its kind and sizes say.
pub(super) fn is_scalar(program: &Program, k: usize) -> bool {
    let eqn = &program.eqns()[k];
    let out = program.aval(program.result(k));
    let args = || program.args(eqn).iter().map(|&a| program.aval(a));
    let sizes = || args().map(Aval::size).chain([out.size()]);
    if sizes().any(|n| n > COPIED)
        || !has_scalars(out.dtype)
        || args().any(|a| !has_scalars(a.dtype))
    {
        return false;
    }
    if eqn.prim.is_elementwise() {
        return out.size() <= ELEMENTS;
    }
    match eqn.prim.kernel_ref() {
        Some(Kernel::View(_)) => true,
        Some(Kernel::Reduce(_)) => {
            is_reducible(out.dtype)
                && sizes().all(|n| (1..=ELEMENTS).contains(&n))
                && split(program, eqn).is_some()
        }
        Some(Kernel::Call(_)) if eqn.prim == ops::LITERAL => true,
        Some(Kernel::Update(_)) if eqn.prim == ops::UPDATE_ADD => {
            program.aval(program.args(eqn)[1]).size() <= ELEMENTS
        }
        Some(Kernel::Call(_)) if eqn.prim == ops::MATMUL => {
            kernels::is_small_product(program.aval(program.args(eqn)[0]), out)
        }
        Some(Kernel::Call(_)) if is_small_system(program, k) => true,
        Some(Kernel::Write(_) | Kernel::Update(_)) => copies(eqn.prim),
        _ => false,
    }
}

/// Whether an equation is a small system, or the factors of one.
pub(super) fn is_small_system(program: &Program, k: usize) -> bool {
    #[cfg(feature = "linalg")]
    return scalar_systems::lines(program, k).is_some();
    #[cfg(not(feature = "linalg"))]
    return {
        let _ = (program, k);
        false
    };
}

/// Roughly how many lines an equation is that can be taken apart.
pub(super) fn lines_of(program: &Program, k: usize) -> usize {
    let eqn = &program.eqns()[k];
    if eqn.prim.is_view() {
        return 0;
    }
    #[cfg(feature = "linalg")]
    if let Some(lines) = scalar_systems::lines(program, k) {
        return lines;
    }
    program.aval(program.result(k)).size()
}

/// Whether code reduces elements of a dtype: groups do, and not by way of others.
fn is_reducible(dtype: DType) -> bool {
    use DType::{F32, F64, I32, I64, U64};
    matches!(dtype, F64 | F32 | I64 | I32 | U64)
}

/// Whether a kernel only copies elements, or puts zeros.
fn copies(prim: Prim) -> bool {
    [ops::PAD, ops::CONCATENATE, ops::STACK, ops::UPDATE].contains(&prim)
}

/// Code for a program; `None` where an equation cannot be taken apart.
pub(super) fn scalar_code(program: &Program) -> Option<ScalarCode> {
    let cancel = AtomicBool::new(false);
    let mut writer = Writer::new(&cancel);
    let inputs = (0..program.num_inputs()).map(|i| program.aval(i as Var));
    let inputs = inputs.map(|aval| can_be_read(aval).then(|| writer.input(aval))?);
    let inputs = inputs.collect::<Option<_>>()?;
    for (array, &out) in writer.program(program, inputs)?.iter().zip(program.outs()) {
        let lines = writer.lines(array)?;
        writer.code.output(program.aval(out).dtype, &lines)?;
    }
    Some(writer.code)
}

/// Writes code.
pub(super) struct Writer<'c> {
    pub(super) code: ScalarCode,
    /// For each variable of the program that is written, the lines of its elements.
    pub(super) arrays: Vec<Value>,
    ctx: Ctx<'c>,
}

impl<'c> Writer<'c> {
    pub(super) fn new(cancel: &'c AtomicBool) -> Writer<'c> {
        let mut code = ScalarCode::new();
        // Zeros that copies put have the number of the first line.
        code.number(DType::F64, 0);
        Writer {
            code,
            arrays: Vec::new(),
            ctx: Ctx::new(cancel, 1),
        }
    }

    /// The lines of one more input.
    pub(super) fn input(&mut self, aval: &Aval) -> Option<Value> {
        let lines = self.code.input(aval.dtype, aval.size());
        array_of(&aval.shape, &lines)
    }

    /// The outputs of a program whose inputs are these lines.
    pub(super) fn program(&mut self, program: &Program, inputs: Vec<Value>) -> Option<Vec<Value>> {
        let outside = std::mem::replace(&mut self.arrays, inputs);
        for k in 0..program.eqns().len() {
            self.equation(program, k)?;
        }
        let arrays = std::mem::replace(&mut self.arrays, outside);
        let outs = program.outs().iter();
        Some(outs.map(|&out| arrays[out as usize].clone()).collect())
    }

    fn define(&mut self, aval: &Aval, lines: &[Line]) -> Option<()> {
        self.arrays.push(array_of(&aval.shape, lines)?);
        Some(())
    }

    /// The lines of an array, in row-major order.
    pub(super) fn lines(&self, array: &Value) -> Option<Vec<Line>> {
        let dense = kernels::copy(array, &self.ctx).ok()?;
        Some(
            dense
                .as_slice::<i64>()?
                .iter()
                .map(|&x| x as Line)
                .collect(),
        )
    }

    fn equation(&mut self, program: &Program, k: usize) -> Option<()> {
        let eqn = &program.eqns()[k];
        if eqn.prim == ops::LOOP {
            let output = self.looped(program, eqn)?;
            self.arrays.push(output);
            return Some(());
        }
        if !is_scalar(program, k) {
            return None;
        }
        let out = program.aval(program.result(k));
        let args: Vec<Value> = program
            .args(eqn)
            .iter()
            .map(|&a| self.arrays[a as usize].clone())
            .collect();
        if let Some(op) = eqn.prim.lane() {
            let spread = |a: &Value| self.lines(&a.broadcast_to(&out.shape));
            let operands = args.iter().map(spread).collect::<Option<Vec<_>>>()?;
            let lines = if out.size() == 0 {
                Vec::new()
            } else {
                self.code.lanes(op, &operands)?
            };
            return self.define(out, &lines);
        }
        match eqn.prim.kernel_ref()? {
            Kernel::Cast => {
                let lines = self.lines(&args[0])?;
                let cast = |&x: &Line| self.code.cast(x, out.dtype);
                let lines = lines.iter().map(cast).collect::<Option<Vec<_>>>()?;
                self.define(out, &lines)
            }
            Kernel::View(layout) => {
                let numbers = out.with_dtype(DType::I64);
                let array = layout(program.params(eqn), &args[0], &numbers).or_else(|| {
                    let dense = kernels::copy(&args[0], &self.ctx).ok()?;
                    layout(program.params(eqn), &dense, &numbers)
                })?;
                self.arrays.push(array);
                Some(())
            }
            Kernel::Reduce(op) => {
                let lines = self.lines(&args[0])?;
                let lines = self.reduction(*op, split(program, eqn)?, &lines)?;
                self.define(out, &lines)
            }
            Kernel::Call(call) => {
                if eqn.prim == ops::LITERAL {
                    let value = call(program.params(eqn), &mut [], out, &self.ctx).ok()?;
                    let lines = self.numbers(&value);
                    return self.define(out, &lines);
                }
                if eqn.prim == ops::MATMUL {
                    let lines = self.product(&args[0], &args[1])?;
                    return self.define(out, &lines);
                }
                #[cfg(feature = "linalg")]
                if is_small_system(program, k) {
                    let lists = args.iter().map(|a| self.lines(a));
                    let lists = lists.collect::<Option<Vec<_>>>()?;
                    let lines = scalar_systems::system(&mut self.code, program, eqn, &lists, out)?;
                    return self.define(out, &lines);
                }
                self.copied(program, eqn, args, out)
            }
            Kernel::Write(_) | Kernel::Update(_) => self.copied(program, eqn, args, out),
            Kernel::Lane(_) | Kernel::Lower(_) => None,
        }
    }

    /// The elements of a constant.
    fn numbers(&mut self, value: &Value) -> Vec<Line> {
        let dtype = value.dtype();
        let bits = |x: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..x.len()].copy_from_slice(x);
            u64::from_le_bytes(bytes)
        };
        let bytes = value.bytes_in_order();
        let elements = bytes.chunks(dtype.size());
        elements.map(|x| self.code.number(dtype, bits(x))).collect()
    }

    /// What only copies elements, and additions to a region.
    fn copied(
        &mut self,
        program: &Program,
        eqn: &Eqn,
        mut args: Vec<Value>,
        out: &Aval,
    ) -> Option<()> {
        let params = program.params(eqn);
        let (prim, added) = if eqn.prim == ops::UPDATE_ADD {
            (ops::UPDATE, Some(args[0].clone()))
        } else {
            (eqn.prim, None)
        };
        let numbers = out.with_dtype(DType::I64);
        if let Some(before) = added {
            // Which element is added where: zero for none.
            let updates = self.lines(&args[1])?;
            let count: Vec<i64> = (1..=updates.len() as i64).collect();
            args[0] = Value::from_slice(&out.shape, &vec![0i64; out.size()]).ok()?;
            args[1] = Value::from_slice(args[1].shape(), &count).ok()?;
            let places = self.lines(&prim.call(params, &mut args, &numbers, &self.ctx)?.ok()?)?;
            let mut lines = self.lines(&before)?;
            for (line, place) in lines.iter_mut().zip(places).filter(|(_, place)| *place > 0) {
                let update = updates[place as usize - 1];
                *line = self.code.combine(kernels::LaneOp::Add, *line, update)?;
            }
            return self.define(out, &lines);
        }
        let mut lines = self.lines(&prim.call(params, &mut args, &numbers, &self.ctx)?.ok()?)?;
        if lines.contains(&0) {
            let zero = self.code.number(out.dtype, 0);
            for line in lines.iter_mut().filter(|line| **line == 0) {
                *line = zero;
            }
        }
        self.define(out, &lines)
    }

    /// A reduction, in the order and the dtype in which fused groups fold (`kernels/fused/reduce.rs`).
    fn reduction(&mut self, op: ReduceOp, split: Split, lines: &[Line]) -> Option<Vec<Line>> {
        let Split {
            outer,
            reduced,
            inner,
        } = split;
        let mut results = Vec::with_capacity(outer * inner);
        for slice in 0..outer {
            let slice = &lines[slice * reduced * inner..(slice + 1) * reduced * inner];
            if inner == 1 {
                results.push(self.row(op, slice)?);
            } else {
                results.extend(self.fold(op, slice, reduced, inner)?);
            }
        }
        Some(results)
    }

    /// All elements of a row.
    fn row(&mut self, op: ReduceOp, row: &[Line]) -> Option<Line> {
        let dtype = self.code.dtype(*row.first()?);
        // Sums and products of rows are made in the wider type.
        let wide = dtype == DType::F32 && matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        let acc = if wide { DType::F64 } else { dtype };
        let row: Option<Vec<Line>> = row.iter().map(|&x| self.code.cast(x, acc)).collect();
        let row = row?;
        let identity = self.identity(op, acc);
        let join = joining(op);
        if row.len() < SHORT_ROW {
            let sum = row
                .iter()
                .try_fold(identity, |sum, &x| self.code.combine(join, sum, x))?;
            return self.code.cast(sum, dtype);
        }
        let mut sums = [identity; ROW_LANES];
        for x in row.chunks(ROW_LANES) {
            let more = self
                .code
                .lanes(join, &[sums[..x.len()].to_vec(), x.to_vec()])?;
            sums[..x.len()].copy_from_slice(&more);
        }
        let mut width = ROW_LANES;
        while width > 1 {
            width /= 2;
            let parts = [sums[..width].to_vec(), sums[width..2 * width].to_vec()];
            sums[..width].copy_from_slice(&self.code.lanes(join, &parts)?);
        }
        self.code.cast(sums[0], dtype)
    }

    /// All rows of a slice.
    fn fold(
        &mut self,
        op: ReduceOp,
        slice: &[Line],
        rows: usize,
        inner: usize,
    ) -> Option<Vec<Line>> {
        let mut sums = slice.to_vec();
        let mut left = rows;
        while left > 1 {
            let half = left / 2;
            left -= half;
            let (size, behind) = (half * inner, left * inner);
            let parts = [sums[..size].to_vec(), sums[behind..behind + size].to_vec()];
            sums[..size].copy_from_slice(&self.code.lanes(joining(op), &parts)?);
        }
        sums.truncate(inner);
        Some(sums)
    }

    /// What is there before the first element of a row.
    fn identity(&mut self, op: ReduceOp, dtype: DType) -> Line {
        let float = match op {
            ReduceOp::Sum => 0.0,
            ReduceOp::Prod => 1.0,
            ReduceOp::Max => f64::NEG_INFINITY,
            ReduceOp::Min => f64::INFINITY,
        };
        let bits = match (dtype, op) {
            (DType::F64, _) => float.to_bits(),
            (DType::F32, _) => u64::from((float as f32).to_bits()),
            (_, ReduceOp::Sum) => 0,
            (_, ReduceOp::Prod) => 1,
            (DType::I32, ReduceOp::Max) => i32::MIN as u64,
            (DType::I32, ReduceOp::Min) => i32::MAX as u64,
            (DType::U64, ReduceOp::Max) => 0,
            (DType::U64, ReduceOp::Min) => u64::MAX,
            (_, ReduceOp::Max) => i64::MIN as u64,
            (_, ReduceOp::Min) => i64::MAX as u64,
        };
        self.code.number(dtype, bits)
    }

    /// A product of matrices, each sum in the order of the kernels (`kernels/gemm`): small ones have one, however the
    /// matrices lie.
    fn product(&mut self, a: &Value, b: &Value) -> Option<Vec<Line>> {
        let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
        let columns = b.transposed(&[1, 0]);
        let (a, b) = (self.lines(a)?, self.lines(&columns)?);
        let dtype = self.code.dtype(*a.first()?);
        // Products with vectors are made in several sums side by side.
        let lanes = if m == 1 || n == 1 {
            kernels::lanes_of_dots(dtype)
        } else {
            1
        };
        let zero = self.code.number(dtype, 0);
        let mut results = Vec::with_capacity(m * n);
        for row in a.chunks(k) {
            if lanes > 1 {
                for column in b.chunks(k) {
                    results.push(self.dot(row, column, zero, lanes)?);
                }
                continue;
            }
            // All sums of a row side by side.
            let mut sums = vec![zero; n];
            for (l, &x) in row.iter().enumerate() {
                let y: Vec<Line> = b.chunks(k).map(|column| column[l]).collect();
                sums = self.code.multiply_add(&vec![x; n], &y, &sums)?;
            }
            results.extend(sums);
        }
        Some(results)
    }

    /// A dot product in several sums.
    fn dot(&mut self, x: &[Line], y: &[Line], zero: Line, lanes: usize) -> Option<Line> {
        let mut sums = vec![zero; lanes];
        for (x, y) in x.chunks(lanes).zip(y.chunks(lanes)) {
            let more = self.code.multiply_add(x, y, &sums[..x.len()])?;
            sums[..x.len()].copy_from_slice(&more);
        }
        // Whether a sum is no negative zero any more: what is added to it later changes nothing then, if it is zero.
        let mut positive = vec![false; lanes];
        let mut half = lanes / 2;
        while half > 0 {
            let adds = |i: &usize| {
                let other = sums[i + half];
                sums[*i] != zero && (other != zero || !positive[*i])
            };
            let added: Vec<usize> = (0..half).filter(adds).collect();
            let list = |from: usize| added.iter().map(|i| sums[i + from]).collect::<Vec<Line>>();
            if !added.is_empty() {
                let joined = self
                    .code
                    .lanes(kernels::LaneOp::Add, &[list(0), list(half)])?;
                for (&i, line) in added.iter().zip(joined) {
                    positive[i] = sums[i + half] == zero || (positive[i] && positive[i + half]);
                    sums[i] = line;
                }
            }
            half /= 2;
        }
        Some(sums[0])
    }
}

/// Whether code can have an array as an input.
pub(super) fn can_be_read(aval: &Aval) -> bool {
    aval.size() <= COPIED && has_scalars(aval.dtype)
}

/// An array of lines.
pub(super) fn array_of(shape: &[usize], lines: &[Line]) -> Option<Value> {
    let numbers: Vec<i64> = lines.iter().map(|&x| i64::from(x)).collect();
    Value::from_slice(shape, &numbers).ok()
}

/// How two partial results are joined.
fn joining(op: ReduceOp) -> kernels::LaneOp {
    match op {
        ReduceOp::Sum => kernels::LaneOp::Add,
        ReduceOp::Prod => kernels::LaneOp::Mul,
        ReduceOp::Max => kernels::LaneOp::Maximum,
        ReduceOp::Min => kernels::LaneOp::Minimum,
    }
}

/// How a reduction lies in its array; `None` where axes that are kept lie between those that are not.
fn split(program: &Program, eqn: &Eqn) -> Option<Split> {
    Split::of(
        &program.aval(program.args(eqn)[0]).shape,
        program.params(eqn).axes(),
    )
}

//! Kernels of primitives that are no groups: copies at any strides, reductions, reads and writes at indices.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::aval::{SliceDim, row_major};
use cotan::kernels::{ReduceOp, Value};

use crate::context::Context;
use crate::fold::Fold;
use crate::memory::Memory;
use crate::shader::{Dispatch, Shader, Source, Space};
use crate::types::Type;

/// Where a copy writes: element `i` of its source goes to the element with these strides behind the first.
#[derive(Debug, Clone)]
pub struct Region {
    pub first: usize,
    pub strides: Vec<isize>,
}

impl Region {
    /// All of an array of this shape.
    pub fn whole(shape: &[usize]) -> Region {
        Region {
            first: 0,
            strides: row_major(shape).to_vec(),
        }
    }

    /// A strided region of an array of this shape.
    pub fn of(shape: &[usize], dims: &[SliceDim]) -> Region {
        let own = row_major(shape);
        let first: isize = (dims.iter().zip(&own))
            .filter(|(d, _)| d.len > 0)
            .map(|(d, s)| d.start as isize * s)
            .sum();
        Region {
            first: first.unsigned_abs(),
            strides: dims.iter().zip(&own).map(|(d, s)| d.step * s).collect(),
        }
    }
}

/// Copies a value of this shape into a region of `to`, or adds it to what is there.
pub fn copy(
    context: &Arc<Context>,
    source: &Source,
    shape: &[usize],
    kind: Type,
    to: &Arc<Memory>,
    region: &Region,
    adds: bool,
) -> Result<Dispatch> {
    let mut shader = Shader::new(context);
    let space = Space::new(shape);
    let (mut body, read) = shader.read(&space, &[(source.clone(), kind)], shape);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let _ = writeln!(body, "  var left = i;");
    let mut index = shader.param(region.first as u32);
    for axis in (0..shape.len()).rev() {
        let (dim, stride) = (
            shader.param(shape[axis] as u32),
            shader.param(region.strides[axis] as u32),
        );
        let quotient = shader.quotient("left", &dim);
        let _ = writeln!(
            body,
            "  let m{axis} = {quotient}; let d{axis} = left - m{axis} * {dim}; left = m{axis};"
        );
        let _ = write!(index, " + d{axis} * {stride}");
    }
    let _ = writeln!(body, "  let to = {index};");
    let value = if adds {
        let sum = format!("{} + {}", kind.load(&format!("{out}[to]")), read[0]);
        kind.narrowed(&format!("({sum})"))
    } else {
        read[0].clone()
    };
    let _ = writeln!(body, "  {out}[to] = {};", kind.store(&value));
    shader.over(space.size, &body)
}

/// Reduces a value over axes, in whatever order they lie.
pub fn reduce(
    context: &Arc<Context>,
    op: ReduceOp,
    source: &Source,
    value: &Value,
    axes: &[usize],
    kind: Type,
    to: &Arc<Memory>,
) -> Result<Option<Vec<Dispatch>>> {
    let Some(fold) = Fold::new(op, kind) else {
        return Ok(None);
    };
    let kept = (0..value.shape().len()).filter(|a| !axes.contains(a));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let turned = value.transposed(&order);
    let source = match source {
        Source::Array(_, memory) => Source::Array(turned.clone(), Arc::clone(memory)),
        other => other.clone(),
    };
    let mut shader = Shader::new(context);
    let shape = turned.shape().to_vec();
    let (before, read) = shader.read(&Space::new(&shape), &[(source, kind)], &shape);
    let _ = writeln!(
        shader.functions,
        "fn at(i: u32) -> {} {{\n{before}  return {};\n}}",
        kind.name, read[0]
    );
    let reduced: usize = axes.iter().map(|&a| value.shape()[a]).product();
    let outer = value.aval().size() / reduced.max(1);
    fold.passes(shader, [outer, reduced, 1], to, 1).map(Some)
}

/// Rows of `x` at indices: `out[i, j] = x[index[i], j]`.
pub fn gather(
    context: &Arc<Context>,
    (x, memory): (&Value, &Arc<Memory>),
    index: &Arc<Memory>,
    count: usize,
    kind: Type,
    to: &Arc<Memory>,
) -> Result<Dispatch> {
    let mut shader = Shader::new(context);
    let row: usize = x.shape()[1..].iter().product();
    let name = shader.bind(memory.buffer(), kind.stored, false);
    let list = shader.bind(index.buffer(), "u32", false);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let p_row = shader.param(row as u32);
    let (mut from, step) = (
        shader.param(x.first() as u32),
        shader.param(x.strides()[0] as u32),
    );
    let _ = write!(from, " + {list}[i / {p_row}] * {step}");
    let mut body = format!("  var rest = i % {p_row};\n");
    for axis in (1..x.shape().len()).rev() {
        let (dim, stride) = (
            shader.param(x.shape()[axis] as u32),
            shader.param(x.strides()[axis] as u32),
        );
        let _ = writeln!(body, "  let c{axis} = rest % {dim}; rest = rest / {dim};");
        let _ = write!(from, " + c{axis} * {stride}");
    }
    let _ = writeln!(body, "  {out}[i] = {name}[{from}];");
    shader.over(count * row, &body)
}

/// Writes updates to rows of `to`, which holds the array already: for each row that is written, the updates of it in
/// the order of the indices, one after the other, so that sums have the same bits in each run.
pub fn scatter(
    context: &Arc<Context>,
    (count, [rows, starts, order]): (usize, [&Arc<Memory>; 3]),
    (updates, memory): (&Value, &Arc<Memory>),
    row: usize,
    to: &Arc<Memory>,
    adds: bool,
) -> Result<Dispatch> {
    let (mut shader, kind) = (Shader::new(context), to.kind);
    let name = shader.bind(memory.buffer(), kind.stored, false);
    let [rows, starts, order] =
        [rows, starts, order].map(|m| shader.bind(m.buffer(), "u32", false));
    let out = shader.bind(to.buffer(), kind.stored, true);
    let p_row = shader.param(row as u32);
    let first = shader.param(updates.first() as u32);
    let update = kind.load(&format!("{name}[{first} + {order}[t] * {p_row} + j]"));
    let step = if adds {
        kind.narrowed(&format!("(acc + {update})"))
    } else {
        update
    };
    let body = format!(
        "  let k = i / {p_row}; let j = i % {p_row};\n  let place = {rows}[k] * {p_row} + j;\n  \
         var acc = {};\n  for (var t = {starts}[k]; t < {starts}[k + 1u]; t = t + 1u) {{ acc = {step}; }}\n  \
         {out}[place] = {};\n",
        kind.load(&format!("{out}[place]")),
        kind.store("acc"),
    );
    shader.over(count * row, &body)
}

/// The updates of each row that has some.
#[derive(Debug, Default)]
pub struct Lists {
    pub rows: Vec<u32>,
    pub starts: Vec<u32>,
    pub order: Vec<u32>,
}

impl Lists {
    /// The most updates that a row has.
    pub fn longest(&self) -> usize {
        let counts = self.starts.windows(2).map(|w| w[1] - w[0]);
        counts.max().unwrap_or(0) as usize
    }

    /// Sorts updates by their rows, each row's in their order.
    pub fn of(indices: &[i64]) -> Lists {
        let mut order: Vec<u32> = (0..indices.len() as u32).collect();
        order.sort_by_key(|&k| indices[k as usize]);
        let mut lists = Lists::default();
        for (at, &k) in order.iter().enumerate() {
            let row = indices[k as usize] as u32;
            if lists.rows.last() != Some(&row) {
                lists.rows.push(row);
                lists.starts.push(at as u32);
            }
        }
        lists.starts.push(order.len() as u32);
        lists.order = order;
        lists
    }
}

//! Scans along an axis: running sums and extrema, recurrences, and the places of extrema.
//!
//! Many short lines have a thread each. A long line is cut into stretches: each is scanned by a workgroup, then their
//! totals are scanned, and added to the stretches behind them. The cuts depend on the shape only.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;

use crate::context::Context;
use crate::memory::Memory;
use crate::shader::{Dispatch, GROUP, Shader};
use crate::types::Type;

/// Elements of a stretch at least.
const STRETCH: usize = 2048;
/// So many workgroups keep a device busy.
const BUSY: usize = 512;
/// On drivers that compute on the processor, so many lines have a thread each.
const FEW_APART: usize = 16;
/// A recurrence along fewer lines than this, and longer ones than that, is computed on the processor: its factors cannot be
/// multiplied in another order, since products may overflow that are then multiplied by zero.
const FEW_LINES: usize = 64;
const LONG_LINE: usize = 8192;

/// Lines along an axis of an array in row-major order.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    pub outer: usize,
    pub length: usize,
    pub inner: usize,
    pub reverse: bool,
}

impl Lines {
    pub fn of(shape: &[usize], axis: usize, reverse: bool) -> Lines {
        Lines {
            outer: shape[..axis].iter().product(),
            length: shape[axis],
            inner: shape[axis + 1..].iter().product(),
            reverse,
        }
    }

    fn count(self) -> usize {
        self.outer * self.inner
    }

    /// Whether each has a thread because others would wait for it on the processor.
    fn are_apart(self, context: &Context) -> bool {
        context.is_soft && self.count() >= FEW_APART && self.length <= context.longest_loop
    }

    /// Statements that find line `q`; element `r` of it is then `first + r * step` in wrapping numbers.
    fn found(self, shader: &mut Shader<'_>) -> String {
        let inner = shader.param(self.inner as u32);
        let length = shader.param(self.length as u32);
        let (from, step) = if self.reverse {
            (
                format!("({length} - 1u) * {inner}"),
                format!("0u - {inner}"),
            )
        } else {
            ("0u".to_owned(), inner.clone())
        };
        format!(
            "  let first = (q / {inner}) * {length} * {inner} + q % {inner} + {from};\n  let step = {step};\n"
        )
    }
}

/// What a scan does with what came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    Sum,
    Max,
    Min,
}

impl Running {
    fn combined(self, shader: &mut Shader<'_>, kind: Type, before: &str, now: &str) -> String {
        let name = match self {
            Running::Sum => return kind.narrowed(&format!("({before} + {now})")),
            Running::Max => "max",
            Running::Min => "min",
        };
        if !matches!(kind.name, "f32" | "f64") {
            return format!("{name}({before}, {now})");
        }
        let function = format!("{name}imum_{}", kind.name);
        shader.prelude.add(&function);
        format!("{function}({before}, {now})")
    }
}

/// A running sum or extremum.
pub fn running(
    context: &Arc<Context>,
    op: Running,
    from: &Arc<Memory>,
    lines: Lines,
    kind: Type,
    to: &Arc<Memory>,
) -> Result<Option<Vec<Dispatch>>> {
    if kind.name == "bool" {
        return Ok(None);
    }
    let is_many = lines.count() >= BUSY * GROUP as usize && lines.inner >= 32;
    if lines.length < 64 || is_many || lines.are_apart(context) {
        return one_each(context, op, from, lines, kind, to).map(|d| Some(vec![d]));
    }
    let wanted = BUSY.div_ceil(lines.count());
    let stretch = (lines.length.div_ceil(wanted).max(STRETCH)).next_multiple_of(GROUP as usize);
    let parts = lines.length.div_ceil(stretch);
    if parts == 1 {
        return stretches(context, op, from, lines, to, lines.length, None).map(|d| Some(vec![d]));
    }
    let size = lines.count() * parts;
    let total = Arc::new(Memory::new(context, kind, size)?.0);
    let scanned = Arc::new(Memory::new(context, kind, size)?.0);
    let first = stretches(context, op, from, lines, to, stretch, Some(&total))?;
    let between = Lines {
        outer: lines.count(),
        length: parts,
        inner: 1,
        reverse: false,
    };
    let second = stretches(context, op, &total, between, &scanned, parts, None)?;
    let mut shader = Shader::new(context);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let list = shader.bind(scanned.buffer(), kind.stored, false);
    let (p_length, p_parts) = (
        shader.param(lines.length as u32),
        shader.param(parts as u32),
    );
    let p_stretch = shader.param(stretch as u32);
    let found = lines.found(&mut shader);
    let now = kind.load(&format!("{out}[at]"));
    let before = kind.load(&format!("{list}[q * {p_parts} + r / {p_stretch} - 1u]"));
    let sum = op.combined(&mut shader, kind, &before, &now);
    let body = format!(
        "  let left = {p_length} - {p_stretch}; let q = i / left; let r = i % left + {p_stretch};\n{found}  \
         let at = first + r * step;\n  {out}[at] = {};\n",
        kind.store(&sum)
    );
    let third = shader.over(lines.count() * (lines.length - stretch), &body)?;
    Ok(Some(vec![first, second, third]))
}

/// A thread for each line.
fn one_each(
    context: &Arc<Context>,
    op: Running,
    from: &Arc<Memory>,
    lines: Lines,
    kind: Type,
    to: &Arc<Memory>,
) -> Result<Dispatch> {
    let mut shader = Shader::new(context);
    let x = shader.bind(from.buffer(), kind.stored, false);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let found = lines.found(&mut shader);
    let length = shader.param(lines.length as u32);
    let load = kind.load(&format!("{x}[at]"));
    let sum = op.combined(&mut shader, kind, "acc", &load);
    let store = kind.store("acc");
    let body = format!(
        "  let q = i;\n{found}  var at = first;\n  var acc = {load};\n  {out}[at] = {store};\n  \
         for (var r = 1u; r < {length}; r = r + 1u) {{ at = at + step; acc = {sum}; {out}[at] = {store}; }}\n"
    );
    shader.over(lines.count(), &body)
}

/// A workgroup for each stretch of each line; its total, where somebody asks for it.
fn stretches(
    context: &Arc<Context>,
    op: Running,
    from: &Arc<Memory>,
    lines: Lines,
    to: &Arc<Memory>,
    stretch: usize,
    totals: Option<&Arc<Memory>>,
) -> Result<Dispatch> {
    let (mut shader, kind) = (Shader::new(context), to.kind);
    let x = shader.bind(from.buffer(), kind.stored, false);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let total = totals.map(|t| shader.bind(t.buffer(), kind.stored, true));
    let parts = lines.length.div_ceil(stretch);
    let count = lines.count() * parts;
    let found = lines.found(&mut shader);
    let [p_parts, p_stretch, p_length] =
        [parts, stretch, lines.length].map(|n| shader.param(n as u32));
    let name = kind.name;
    let scanned = shader.shared(name);
    let load = kind.load(&format!("{x}[first + r * step]"));
    let before = format!("{scanned}[l - d]");
    let inside = op.combined(&mut shader, kind, &before, "t");
    let after = op.combined(&mut shader, kind, "carry", "v");
    let last = total.map_or_else(String::new, |total| {
        format!(
            "  if (l == 0u) {{ {total}[i] = {}; }}\n",
            kind.store("carry")
        )
    });
    let body = format!(
        "  let q = i / {p_parts}; let part = i % {p_parts};\n{found}  \
         let begin = part * {p_stretch}; let end = min(begin + {p_stretch}, {p_length});\n  var carry = {name}(0);\n  \
         for (var b = begin; b < end; b = b + {GROUP}u) {{\n    let r = b + l;\n    var v = {name}(0);\n    \
         if (r < end) {{ v = {load}; }}\n    {scanned}[l] = v;\n    workgroupBarrier();\n    \
         for (var d = 1u; d < {GROUP}u; d = d * 2u) {{\n      var t = {scanned}[l];\n      \
         if (l >= d) {{ t = {inside}; }}\n      workgroupBarrier();\n      {scanned}[l] = t;\n      workgroupBarrier();\n    }}\n    \
         v = {scanned}[l];\n    if (b > begin) {{ v = {after}; }}\n    \
         if (r < end) {{ {out}[first + r * step] = {store}; }}\n    \
         workgroupBarrier();\n    {scanned}[l] = v;\n    workgroupBarrier();\n    \
         carry = {scanned}[min(end - b, {GROUP}u) - 1u];\n    workgroupBarrier();\n  }}\n{last}",
        store = kind.store("v"),
    );
    shader.over_groups(count, &body)
}

/// `y[i] = a[i] * y[i-1] + b[i]`, which begins with `b`.
pub fn recurrence(
    context: &Arc<Context>,
    [a, b]: [&Arc<Memory>; 2],
    lines: Lines,
    kind: Type,
    to: &Arc<Memory>,
) -> Result<Option<Vec<Dispatch>>> {
    let is_slow = lines.count() < FEW_LINES && lines.length > LONG_LINE;
    if kind.name == "bool" || is_slow || lines.length > context.longest_loop {
        return Ok(None);
    }
    let mut shader = Shader::new(context);
    let a = shader.bind(a.buffer(), kind.stored, false);
    let b = shader.bind(b.buffer(), kind.stored, false);
    let out = shader.bind(to.buffer(), kind.stored, true);
    let found = lines.found(&mut shader);
    let length = shader.param(lines.length as u32);
    let [factor, term] = [&a, &b].map(|x| kind.load(&format!("{x}[at]")));
    let product = kind.narrowed(&format!("({factor} * acc)"));
    let next = kind.narrowed(&format!("({product} + {term})"));
    let store = kind.store("acc");
    let body = format!(
        "  let q = i;\n{found}  var at = first;\n  var acc = {term};\n  {out}[at] = {store};\n  \
         for (var r = 1u; r < {length}; r = r + 1u) {{ at = at + step; acc = {next}; {out}[at] = {store}; }}\n"
    );
    shader.over(lines.count(), &body).map(|d| Some(vec![d]))
}

/// The index of the first largest or smallest element of each line, or of its first NaN.
pub fn place(
    context: &Arc<Context>,
    max: bool,
    from: &Arc<Memory>,
    lines: Lines,
    kind: Type,
    index: Type,
    to: &Arc<Memory>,
) -> Result<Option<Vec<Dispatch>>> {
    if kind.name == "bool" {
        return Ok(None);
    }
    let mut shader = Shader::new(context);
    let x = shader.bind(from.buffer(), kind.stored, false);
    let out = shader.bind(to.buffer(), index.stored, true);
    let found = lines.found(&mut shader);
    let length = shader.param(lines.length as u32);
    let sign = if max { ">" } else { "<" };
    let name = kind.name;
    let better = if matches!(name, "f32" | "f64") {
        let nan = format!("isnan_{name}");
        shader.prelude.add(&nan);
        format!("  if ({nan}(v) || {nan}(w)) {{ return {nan}(v) && (!{nan}(w) || i < j); }}\n")
    } else {
        String::new()
    };
    let _ = writeln!(
        shader.functions,
        "fn is_before(v: {name}, i: u32, w: {name}, j: u32) -> bool {{\n{better}  \
         return v {sign} w || (v == w && i < j);\n}}"
    );
    let load = kind.load(&format!("{x}[first + r * step]"));
    let take =
        format!("let v = {load}; if (is_before(v, r, best, which)) {{ best = v; which = r; }}");
    let store = format!("{}(which)", index.name);
    let is_many = lines.inner >= 32 && lines.length <= context.longest_loop;
    if lines.length < 64 || is_many || lines.are_apart(context) {
        let body = format!(
            "  let q = i;\n{found}  var r = 0u;\n  var best = {load};\n  var which = 0u;\n  \
             for (r = 1u; r < {length}; r = r + 1u) {{ {take} }}\n  {out}[i] = {store};\n"
        );
        return shader.over(lines.count(), &body).map(|d| Some(vec![d]));
    }
    let _ = writeln!(
        shader.functions,
        "var<workgroup> values: array<{name}, {GROUP}>;\nvar<workgroup> places: array<u32, {GROUP}>;"
    );
    let body = format!(
        "  let q = i;\n{found}  var r = min(l, {length} - 1u);\n  var best = {load};\n  var which = r;\n  \
         for (r = l; r < {length}; r = r + {GROUP}u) {{ {take} }}\n  \
         values[l] = best; places[l] = which;\n  workgroupBarrier();\n  \
         for (var half = {}u; half > 0u; half = half / 2u) {{\n    if (l < half) {{\n      \
         if (is_before(values[l + half], places[l + half], values[l], places[l])) {{\n        \
         values[l] = values[l + half]; places[l] = places[l + half];\n      }}\n    }}\n    workgroupBarrier();\n  }}\n  \
         if (l == 0u) {{ which = places[0]; {out}[i] = {store}; }}\n",
        GROUP / 2,
    );
    let search = shader.over_groups(lines.count(), &body)?;
    Ok(Some(vec![search]))
}

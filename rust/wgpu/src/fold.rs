//! Kernels of reductions: what is done with two values, and how threads put together what each has.
//!
//! Where a device has subgroups of one size, the threads of one exchange values without memory. The order is fixed in
//! either case, so the same run has the same bits.

use std::fmt::Write;
use std::sync::Arc;

use cotan::kernels::ReduceOp;
use cotan::{DType, Error, Result};

use crate::expression::Prelude;
use crate::memory::Memory;
use crate::shader::{Dispatch, Shader};
use crate::types::Type;
use crate::vectors::Vector;

/// A reduction with fewer results than this is cut in parts, which a second pass adds up.
const FEW: usize = 16_384;
/// The same for drivers that compute on the processor.
const FEW_SOFT: usize = 512;
/// Elements that one thread reduces at least before a reduction is cut.
const LONG: usize = 64;

/// How many neighbours a thread takes at once: of a row, or as many columns.
#[derive(Debug, Clone, Copy)]
struct Unit {
    of_row: usize,
    of_columns: usize,
}

/// How a reduction is done with elements of a type.
#[derive(Debug, Clone, Copy)]
pub struct Fold {
    op: ReduceOp,
    pub kind: Type,
    /// The type of partial results.
    pub name: &'static str,
}

impl Fold {
    pub fn new(op: ReduceOp, kind: Type) -> Option<Fold> {
        let name = match (op, kind.dtype) {
            (ReduceOp::Sum | ReduceOp::Prod, DType::Bool) => return None,
            _ => kind.name,
        };
        Some(Fold { op, kind, name })
    }

    /// Where nothing has been reduced.
    fn start(self) -> String {
        match (self.op, self.name) {
            (ReduceOp::Sum, name) => format!("{name}(0)"),
            (ReduceOp::Prod, name) => format!("{name}(1)"),
            // The first element, which the loops begin with.
            _ => String::new(),
        }
    }

    /// What changes no value that it is reduced with.
    pub fn identity(self, prelude: &mut Prelude) -> String {
        let text = match (self.op, self.name) {
            (ReduceOp::Sum | ReduceOp::Prod, _) => return self.start(),
            (ReduceOp::Max, "bool") => "false",
            (ReduceOp::Min, "bool") => "true",
            (ReduceOp::Max, "i32") => "bitcast<i32>(0x80000000u)",
            (ReduceOp::Min, "i32") => "0x7fffffff",
            (ReduceOp::Max, "u32") => "0u",
            (ReduceOp::Min, "u32") => "0xffffffffu",
            (op, name) => {
                let infinity = format!("inf_{name}");
                prelude.add(&infinity);
                let sign = if op == ReduceOp::Max { "-" } else { "" };
                return format!("{sign}{infinity}()");
            }
        };
        text.to_owned()
    }

    /// The expression that reduces neighbours to one value, two and two.
    pub fn tree(self, values: &[String], prelude: &mut Prelude) -> String {
        if let [one] = values {
            return one.clone();
        }
        let (left, right) = values.split_at(values.len() / 2);
        let (a, b) = (self.tree(left, prelude), self.tree(right, prelude));
        format!("({})", self.combined(&a, &b, prelude))
    }

    /// The expression that reduces two values to one.
    pub fn combined(self, a: &str, b: &str, prelude: &mut Prelude) -> String {
        let is_float = matches!(self.name, "f32" | "f64");
        match (self.op, self.name) {
            (ReduceOp::Sum, _) => format!("{a} + {b}"),
            (ReduceOp::Prod, _) => format!("{a} * {b}"),
            (ReduceOp::Max, "bool") => format!("{a} || {b}"),
            (ReduceOp::Min, "bool") => format!("{a} && {b}"),
            (ReduceOp::Max | ReduceOp::Min, name) => {
                let max = self.op == ReduceOp::Max;
                if is_float {
                    let function = format!("{}_{name}", if max { "maximum" } else { "minimum" });
                    prelude.add(&function);
                    format!("{function}({a}, {b})")
                } else {
                    format!("{}({a}, {b})", if max { "max" } else { "min" })
                }
            }
        }
    }

    /// The passes that reduce what the function `at` of a shader gives: one, or two with partial results between them.
    /// Where `unit` is more than 1, it is the function `many`: along rows it gives what so many neighbours are reduced to, and
    /// along columns an array of so many neighbours.
    pub fn passes(
        self,
        shader: Shader<'_>,
        [outer, reduced, inner]: [usize; 3],
        memory: &Arc<Memory>,
        unit: usize,
    ) -> Result<Vec<Dispatch>> {
        let context = shader.context;
        let (of_row, of_columns) = if inner == 1 { (unit, 1) } else { (1, unit) };
        // Neighbouring columns are one here.
        let inner = inner / of_columns;
        let results = outer * inner;
        // A whole workgroup for each result where elements lie one after the other.
        let soft = context.is_soft;
        let team = context.team() as usize;
        let is_line = inner * of_columns == 1;
        let together = is_line && reduced >= 64 && team > 1;
        let threads = if together { team } else { 1 };
        let wanted = if soft { FEW_SOFT } else { FEW }.div_ceil(results * threads);
        let parts = reduced.div_ceil(LONG * threads).min(wanted).max(1);
        let parts = parts.max(reduced.div_ceil(context.longest_loop.saturating_mul(threads)));
        let unit = Unit { of_row, of_columns };
        if parts == 1 {
            let (split, length) = ([outer, reduced, inner], reduced);
            let last = self.pass(shader, split, (length, unit), memory, together)?;
            return Ok(vec![last]);
        }
        let length = reduced.div_ceil(parts).next_multiple_of(of_row);
        let parts = reduced.div_ceil(length);
        let between = self.kind.plain();
        let partials = outer * parts * inner * of_columns;
        let (partial, _) = Memory::new(context, between, partials)?;
        let partial = Arc::new(partial);
        let first = Fold {
            kind: between,
            ..self
        };
        let split = [outer, reduced, inner];
        let first = first.pass(shader, split, (length, unit), &partial, together)?;
        let mut second = Shader::new(context);
        let vector = Vector::new(context, between, of_columns);
        if let Some(vector) = vector.filter(|_| of_columns > 1) {
            let name = vector.bind(&mut second, &partial, false);
            let values = vector.elements("q").join(", ");
            let _ = writeln!(
                second.functions,
                "fn many(i: u32) -> array<{0}, {of_columns}> {{ let q = {name}[i]; return array<{0}, {of_columns}>({values}); }}",
                self.name
            );
        } else {
            let name = second.bind(partial.buffer(), between.stored, false);
            let value = between.load(&format!("{name}[i]"));
            let _ = writeln!(
                second.functions,
                "fn at(i: u32) -> {} {{ return {value}; }}",
                self.name
            );
        }
        let together = is_line && parts >= 64 && team > 1;
        let unit = Unit {
            of_row: 1,
            of_columns,
        };
        let second = self.pass(
            second,
            [outer, parts, inner],
            (parts, unit),
            memory,
            together,
        )?;
        Ok(vec![first, second])
    }

    /// A pass that reduces stretches of `length` elements each, some of them at a time.
    fn pass(
        self,
        mut shader: Shader<'_>,
        [outer, reduced, inner]: [usize; 3],
        (length, unit): (usize, Unit),
        memory: &Arc<Memory>,
        together: bool,
    ) -> Result<Dispatch> {
        let parts = reduced.div_ceil(length);
        let (p_inner, p_parts) = (shader.param(inner as u32), shader.param(parts as u32));
        let (p_reduced, p_length) = (shader.param(reduced as u32), shader.param(length as u32));
        let place = format!(
            "let inside = i % {p_inner}; let part = (i / {p_inner}) % {p_parts}; let outside = i / ({p_inner} * {p_parts});\n  \
             let first = outside * {p_reduced} * {p_inner} + inside;\n  \
             let begin = part * {p_length}; let end = min(begin + {p_length}, {p_reduced});\n"
        );
        let results = outer * parts * inner;
        if unit.of_columns > 1 {
            return self.pass_of_columns(shader, results, (&place, &p_inner), unit, memory);
        }
        let out = shader.bind(memory.buffer(), self.kind.stored, true);
        let result = self.kind.store(&self.kind.narrowed("acc"));
        let name = self.name;
        let (start, step, from, to) = if unit.of_row > 1 {
            let n = unit.of_row;
            let read = format!("many(first / {n}u + r)");
            let step = self.combined("acc", &read, &mut shader.prelude);
            let start = self.identity(&mut shader.prelude);
            (start, step, format!("begin / {n}u"), format!("end / {n}u"))
        } else {
            let read = format!("at(first + r * {p_inner})");
            let step = self.combined("acc", &read, &mut shader.prelude);
            let (start, from) = match self.start() {
                empty if empty.is_empty() && together => {
                    (format!("at(first + begin * {p_inner})"), "begin")
                }
                empty if empty.is_empty() => {
                    (format!("at(first + begin * {p_inner})"), "begin + 1u")
                }
                start => (start, "begin"),
            };
            (start, step, from.to_owned(), String::from("end"))
        };
        if !together {
            let body = format!(
                "  {place}  var acc: {name} = {start};\n  for (var r = {from}; r < {to}; r = r + 1u) {{ acc = {step}; }}\n  \
                 {out}[i] = {result};\n"
            );
            return shader.over(results, &body);
        }
        let total = self.across(&mut shader, "acc", None);
        let team = shader.context.team();
        let body = format!(
            "  {place}  var acc: {name} = {start};\n  \
             for (var r = {from} + l; r < {to}; r = r + {team}u) {{ acc = {step}; }}\n{total}  \
             if (l == 0u) {{ {out}[i] = {result}; }}\n"
        );
        shader.over_teams(results, &body)
    }

    /// A pass whose threads reduce neighbouring columns: there are so many of them, each begins with these statements.
    fn pass_of_columns(
        self,
        mut shader: Shader<'_>,
        threads: usize,
        (place, p_inner): (&str, &str),
        unit: Unit,
        memory: &Arc<Memory>,
    ) -> Result<Dispatch> {
        let start = self.identity(&mut shader.prelude);
        let mut body = format!("  {place}");
        let mut steps = String::new();
        let mut results = Vec::new();
        for k in 0..unit.of_columns {
            let (acc, value) = (format!("acc{k}"), format!("q[{k}]"));
            let _ = writeln!(body, "  var {acc}: {} = {start};", self.name);
            let step = self.combined(&acc, &value, &mut shader.prelude);
            let _ = writeln!(steps, "    {acc} = {step};");
            results.push(self.kind.narrowed(&acc));
        }
        let _ = writeln!(
            body,
            "  for (var r = begin; r < end; r = r + 1u) {{\n    let q = many(first + r * {p_inner});\n{steps}  }}"
        );
        let vector = Vector::new(shader.context, self.kind, unit.of_columns)
            .ok_or_else(|| Error::Program("a reduction has no vectors of results".into()))?;
        body += &vector.write(&mut shader, memory, "i", &results);
        shader.over(threads, &body)
    }

    /// Statements that put the values of a workgroup's threads together: afterwards the variable `acc` of each of them is
    /// the result. Where only some of the first threads have values, `count` says how many.
    pub fn across(self, shader: &mut Shader<'_>, acc: &str, count: Option<&str>) -> String {
        let mut text = String::new();
        let team = shader.context.team();
        let exchanges = matches!(self.name, "f32" | "i32" | "u32") && count.is_none();
        if let Some(size) = shader.context.subgroup.filter(|_| exchanges) {
            shader.uses_subgroups = true;
            let mut distance = 1;
            while distance < size {
                let other = format!("subgroupShuffleXor({acc}, {distance}u)");
                let both = self.combined(acc, &other, &mut shader.prelude);
                let _ = writeln!(text, "  {acc} = {both};");
                distance *= 2;
            }
            if size == team {
                return text;
            }
            let list = shader.shared(self.name);
            let next = self.combined(acc, &format!("{list}[k]"), &mut shader.prelude);
            let _ = writeln!(
                text,
                "  if (lane == 0u) {{ {list}[subgroup] = {acc}; }}\n  workgroupBarrier();\n  {acc} = {list}[0];\n  \
                 for (var k = 1u; k < {}u; k = k + 1u) {{ {acc} = {next}; }}\n  workgroupBarrier();",
                team / size,
            );
            return text;
        }
        let list = shader.shared(self.name);
        let (a, b) = (format!("{list}[l]"), format!("{list}[l + half]"));
        let merge = self.combined(&a, &b, &mut shader.prelude);
        let bound = count.map_or_else(String::new, |count| format!(" && l + half < {count}"));
        let _ = writeln!(
            text,
            "  {list}[l] = {acc};\n  workgroupBarrier();\n  \
             for (var half = {}u; half > 0u; half = half / 2u) {{\n    \
             if (l < half{bound}) {{ {list}[l] = {merge}; }}\n    workgroupBarrier();\n  }}\n  \
             {acc} = {list}[0];\n  workgroupBarrier();",
            team / 2,
        );
        text
    }
}

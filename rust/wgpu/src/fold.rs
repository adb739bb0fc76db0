//! Kernels of reductions: what is done with two values, and how threads put together what each has.
//!
//! Where a device has subgroups of one size, the threads of one exchange values without memory. The order is fixed in
//! either case, so the same run has the same bits.

use std::fmt::Write;
use std::sync::Arc;

use cotan::kernels::ReduceOp;
use cotan::{DType, Result};

use crate::expression::Prelude;
use crate::memory::Memory;
use crate::shader::{Dispatch, Shader};
use crate::types::Type;

/// A reduction with fewer results than this is cut in parts, which a second pass adds up.
const FEW: usize = 16_384;
/// The same for drivers that compute on the processor.
const FEW_SOFT: usize = 512;
/// Elements that one thread reduces at least before a reduction is cut.
const LONG: usize = 64;

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
    /// Where `unit` is 4, it is the function `four`, which gives sums of four neighbours along rows of at least 64 elements.
    pub fn passes(
        self,
        shader: Shader<'_>,
        [outer, reduced, inner]: [usize; 3],
        memory: &Arc<Memory>,
        unit: usize,
    ) -> Result<Vec<Dispatch>> {
        let context = shader.context;
        let results = outer * inner;
        // A whole workgroup for each result where elements lie one after the other.
        let soft = context.is_soft;
        let team = context.team() as usize;
        let together = inner == 1 && reduced >= 64 && team > 1;
        let threads = if together { team } else { 1 };
        let wanted = if soft { FEW_SOFT } else { FEW }.div_ceil(results * threads);
        let parts = reduced.div_ceil(LONG * threads).min(wanted).max(1);
        let parts = parts.max(reduced.div_ceil(context.longest_loop.saturating_mul(threads)));
        if parts == 1 {
            let (split, reads) = ([outer, reduced, inner], (reduced, unit));
            let last = self.pass(shader, split, reads, memory, together)?;
            return Ok(vec![last]);
        }
        let length = reduced.div_ceil(parts).next_multiple_of(unit);
        let parts = reduced.div_ceil(length);
        let between = self.kind.plain();
        let (partial, _) = Memory::new(context, between, outer * parts * inner)?;
        let partial = Arc::new(partial);
        let first = Fold {
            kind: between,
            ..self
        };
        let (split, reads) = ([outer, reduced, inner], (length, unit));
        let first = first.pass(shader, split, reads, &partial, together)?;
        let mut second = Shader::new(context);
        let name = second.bind(partial.buffer(), between.stored, false);
        let value = between.load(&format!("{name}[i]"));
        let _ = writeln!(
            second.functions,
            "fn at(i: u32) -> {} {{ return {value}; }}",
            self.name
        );
        let together = inner == 1 && parts >= 64 && team > 1;
        let (split, reads) = ([outer, parts, inner], (parts, 1));
        let second = self.pass(second, split, reads, memory, together)?;
        Ok(vec![first, second])
    }

    /// A pass that reduces stretches of `length` elements each, `unit` of them at a time.
    fn pass(
        self,
        mut shader: Shader<'_>,
        [outer, reduced, inner]: [usize; 3],
        (length, unit): (usize, usize),
        memory: &Arc<Memory>,
        together: bool,
    ) -> Result<Dispatch> {
        let parts = reduced.div_ceil(length);
        let out = shader.bind(memory.buffer(), self.kind.stored, true);
        let (p_inner, p_parts) = (shader.param(inner as u32), shader.param(parts as u32));
        let (p_reduced, p_length) = (shader.param(reduced as u32), shader.param(length as u32));
        let step = self
            .combined("acc", "at(first + r * STEP)", &mut shader.prelude)
            .replace("STEP", &p_inner);
        let result = |value: &str| self.kind.store(&self.kind.narrowed(value));
        let place = format!(
            "let inside = i % {p_inner}; let part = (i / {p_inner}) % {p_parts}; let outside = i / ({p_inner} * {p_parts});\n  \
             let first = outside * {p_reduced} * {p_inner} + inside;\n  \
             let begin = part * {p_length}; let end = min(begin + {p_length}, {p_reduced});\n"
        );
        let results = outer * parts * inner;
        let (start, offset) = match self.start() {
            empty if empty.is_empty() => (format!("at(first + begin * {p_inner})"), 1),
            start => (start, 0),
        };
        if !together && unit == 4 {
            let step = self.combined("acc", "four(first / 4u + r)", &mut shader.prelude);
            let body = format!(
                "  {place}  var acc: {} = {start};\n  for (var r = begin / 4u; r < end / 4u; r = r + 1u) {{ acc = {step}; }}\n  \
                 {out}[i] = {};\n",
                self.name,
                result("acc"),
            );
            return shader.over(results, &body);
        }
        if !together {
            let body = format!(
                "  {place}  var acc: {} = {start};\n  for (var r = begin + {offset}u; r < end; r = r + 1u) {{ acc = {step}; }}\n  \
                 {out}[i] = {};\n",
                self.name,
                result("acc"),
            );
            return shader.over(results, &body);
        }
        let total = self.across(&mut shader, "acc", None);
        let team = shader.context.team();
        if unit == 4 {
            let step = self.combined("acc", "four(first / 4u + r)", &mut shader.prelude);
            let body = format!(
                "  {place}  var acc: {name} = {start};\n  \
                 for (var r = begin / 4u + l; r < end / 4u; r = r + {team}u) {{ acc = {step}; }}\n{total}  \
                 if (l == 0u) {{ {out}[i] = {}; }}\n",
                result("acc"),
                name = self.name,
            );
            return shader.over_teams(results, &body);
        }
        let body = format!(
            "  {place}  var acc: {name} = {start};\n  \
             for (var r = begin + l; r < end; r = r + {team}u) {{ acc = {step}; }}\n{total}  \
             if (l == 0u) {{ {out}[i] = {}; }}\n",
            result("acc"),
            name = self.name,
        );
        shader.over_teams(results, &body)
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

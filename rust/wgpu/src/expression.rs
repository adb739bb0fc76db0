//! Operations as expressions of WGSL: the texts of the table of primitives, for each type of the shader.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::OnceLock;

use cotan::DType;
use cotan::kernels::LaneOp;
use cotan::ops;
use cotan::prim::Wgsl;

use crate::functions::functions;
use crate::types::Type;

/// The text of the table for an operation.
fn text(op: LaneOp) -> Option<&'static str> {
    static TEXTS: OnceLock<HashMap<LaneOp, &'static str>> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let entries = ops::table().iter().filter_map(|prim| match prim.0.wgsl {
            Wgsl::Expr(text) => Some((prim.lane()?, text)),
            Wgsl::None(_) => None,
        });
        entries.collect()
    });
    texts.get(&op).copied()
}

/// Functions of WGSL that naga has for a type.
fn is_built_in(name: &str, kind: &str) -> bool {
    match kind {
        "f32" => !name.contains('_'),
        "f64" => matches!(
            name,
            "abs"
                | "sign"
                | "floor"
                | "ceil"
                | "round"
                | "trunc"
                | "sqrt"
                | "min"
                | "max"
                | "select"
        ),
        "i32" | "i64" => matches!(name, "abs" | "sign" | "min" | "max" | "select"),
        "u32" | "u64" => matches!(name, "min" | "max" | "select"),
        _ => name == "select",
    }
}

/// The names of what an expression calls.
fn calls(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').filter_map(|(end, _)| {
        let head = &text[..end];
        let start = head.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &head[start.map_or(0, |s| s + 1)..];
        (!name.is_empty() && name.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(name)
    })
}

/// What a shader has to define before it can use some expressions.
#[derive(Debug, Default)]
pub struct Prelude(Vec<&'static str>);

impl Prelude {
    /// Adds a function and what it calls; false where there is none for the type.
    pub fn add(&mut self, name: &str) -> bool {
        let Some((name, source)) = functions().get_key_value(name) else {
            return false;
        };
        if self.0.contains(name) {
            return true;
        }
        for called in calls(source) {
            if called != *name && functions().contains_key(called) {
                self.add(called);
            }
        }
        self.0.push(name);
        true
    }

    /// The definitions, callees first.
    pub fn source(&self) -> String {
        let mut source = String::new();
        for name in &self.0 {
            let _ = writeln!(source, "{}", functions()[name]);
        }
        source
    }
}

/// An operation on booleans, which WGSL does not count with.
fn of_bool(op: LaneOp) -> Option<&'static str> {
    Some(match op {
        LaneOp::Add | LaneOp::Maximum | LaneOp::Fmax | LaneOp::Or | LaneOp::BitOr => "({0} || {1})",
        LaneOp::Mul | LaneOp::Minimum | LaneOp::Fmin | LaneOp::And | LaneOp::BitAnd => {
            "({0} && {1})"
        }
        LaneOp::Xor | LaneOp::BitXor | LaneOp::Ne => "({0} != {1})",
        LaneOp::Eq => "({0} == {1})",
        LaneOp::Lt => "(!{0} && {1})",
        LaneOp::Le => "(!{0} || {1})",
        LaneOp::Gt => "({0} && !{1})",
        LaneOp::Ge => "({0} || !{1})",
        LaneOp::Not | LaneOp::Invert => "!{0}",
        LaneOp::Where => "select({2}, {1}, {0})",
        _ => return None,
    })
}

/// The expression of an operation on values of a type; `None` where the device has no such operation.
pub fn expression(
    op: LaneOp,
    kind: &Type,
    result: &Type,
    args: &[String],
    prelude: &mut Prelude,
) -> Option<String> {
    let is_float = matches!(kind.name, "f32" | "f64");
    let text = match op {
        _ if kind.dtype == DType::Bool => of_bool(op)?,
        LaneOp::Not => "({0} == {type}(0))",
        LaneOp::And => "(({0} != {type}(0)) && ({1} != {type}(0)))",
        LaneOp::Or => "(({0} != {type}(0)) || ({1} != {type}(0)))",
        LaneOp::Xor => "(({0} != {type}(0)) != ({1} != {type}(0)))",
        LaneOp::Conj | LaneOp::Real => "{0}",
        LaneOp::IsNan | LaneOp::IsInf if !is_float => "false",
        LaneOp::IsFinite if !is_float => "true",
        LaneOp::Floor | LaneOp::Ceil | LaneOp::Round | LaneOp::Trunc if !is_float => "{0}",
        LaneOp::Abs if kind.name.starts_with('u') => "{0}",
        LaneOp::Neg if kind.name.starts_with('u') => "({type}(0) - {0})",
        LaneOp::Maximum | LaneOp::Fmax if !is_float => "max({0}, {1})",
        LaneOp::Minimum | LaneOp::Fmin if !is_float => "min({0}, {1})",
        LaneOp::Relu if !is_float => "max({0}, {type}(0))",
        _ => text(op)?,
    };
    let mut written = text.replace("{type}", kind.name);
    for called in calls(&written) {
        let is_known = is_built_in(called, kind.name)
            || matches!(
                called,
                "f32" | "f64" | "i32" | "u32" | "i64" | "u64" | "bool" | "select"
            );
        if !is_known && !prelude.add(called) {
            return None;
        }
    }
    for (i, arg) in args.iter().enumerate() {
        written = written.replace(&format!("{{{i}}}"), arg);
    }
    Some(result.narrowed(&written))
}

/// A conversion, as `astype` does it.
pub fn cast(value: &str, from: &Type, to: &Type, prelude: &mut Prelude) -> Option<String> {
    let is_float = |kind: &Type| matches!(kind.name, "f32" | "f64");
    if from.dtype == to.dtype {
        return Some(value.to_owned());
    }
    let written = match (from.name, to.name) {
        (_, "bool") if from.dtype == DType::Bool => value.to_owned(),
        (_, "bool") => format!("({value} != {}(0))", from.name),
        ("bool", _) => format!("select({0}(0), {0}(1), {value})", to.name),
        (a, b) if a == b => value.to_owned(),
        // Saturates, and makes 0 of NaN.
        _ if is_float(from) && !is_float(to) => {
            let short = matches!(to.dtype, DType::I8 | DType::I16 | DType::U8 | DType::U16);
            let name = format!("to_{}_{}", to.name, from.name);
            if short || !prelude.add(&name) {
                return None;
            }
            format!("{name}({value})")
        }
        _ => format!("{}({value})", to.name),
    };
    Some(to.narrowed(&written))
}

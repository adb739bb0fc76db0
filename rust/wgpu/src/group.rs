//! Kernels of fused groups and of reductions.

use std::fmt::Write;
use std::sync::Arc;

use cotan::DType;
use cotan::Result;
use cotan::kernels::{Recipe, RecipeNode, RecipeOutput, ReduceOp};

use crate::context::Context;
use crate::expression::{Prelude, cast, expression};
use crate::memory::Memory;
use crate::product::Finish;
use crate::shader::{Dispatch, GROUP, Shader, Source, Space, spread};
use crate::types::Type;

/// A reduction with fewer results than this is cut in parts, which a second pass adds up.
const FEW: usize = 16_384;
/// Elements that one thread reduces at least before a reduction is cut.
const LONG: usize = 64;

/// Inputs of a recipe as a shader reads them, with the type of each value.
pub struct Group<'r> {
    recipe: &'r Recipe,
    types: Vec<Type>,
    sources: Vec<Source>,
}

impl<'r> Group<'r> {
    /// A group that the device can compute: it has all dtypes and operations.
    pub fn new(context: &Context, recipe: &'r Recipe, sources: Vec<Source>) -> Option<Group<'r>> {
        let types: Vec<Type> = (recipe.nodes.iter())
            .map(|node| Type::of(node.dtype(), context.features))
            .collect::<Option<_>>()?;
        let group = Group {
            recipe,
            types,
            sources,
        };
        let mut prelude = Prelude::default();
        let all = vec![true; recipe.nodes.len()];
        let names = vec![String::new(); recipe.nodes.len()];
        group.statements(&all, &names, &mut prelude)?;
        let reduces = |output: &RecipeOutput| match *output {
            RecipeOutput::Reduced(x, op, _) => Fold::new(op, group.types[x as usize]).is_some(),
            RecipeOutput::Whole(_) => true,
        };
        recipe.outputs.iter().all(reduces).then_some(group)
    }

    /// Assignments of all needed nodes but inputs.
    fn statements(
        &self,
        needed: &[bool],
        reads: &[String],
        prelude: &mut Prelude,
    ) -> Option<String> {
        let mut text = String::new();
        let mut input = 0;
        for (k, node) in self.recipe.nodes.iter().enumerate() {
            let kind = &self.types[k];
            let written = match *node {
                RecipeNode::Input(_) => {
                    input += 1;
                    reads[input - 1].clone()
                }
                _ if !needed[k] => continue,
                RecipeNode::Op(op, args, _) => {
                    let names: Vec<String> = (args[..op.arity()].iter())
                        .map(|a| format!("v{a}"))
                        .collect();
                    let of = args[op.arity() - 1] as usize;
                    expression(op, &self.types[of], kind, &names, prelude)?
                }
                RecipeNode::Cast(x, _) => {
                    cast(&format!("v{x}"), &self.types[x as usize], kind, prelude)?
                }
            };
            if needed[k] {
                let _ = writeln!(text, "  let v{k}: {} = {written};", kind.name);
            }
        }
        Some(text)
    }

    /// Which nodes some of them need.
    fn needed(&self, roots: impl Iterator<Item = u32>) -> Vec<bool> {
        let mut needed = vec![false; self.recipe.nodes.len()];
        for root in roots {
            needed[root as usize] = true;
        }
        for k in (0..needed.len()).rev().filter(|&k| k < usize::MAX) {
            if !needed[k] {
                continue;
            }
            match self.recipe.nodes[k] {
                RecipeNode::Input(_) => {}
                RecipeNode::Op(op, args, _) => {
                    for &a in &args[..op.arity()] {
                        needed[a as usize] = true;
                    }
                }
                RecipeNode::Cast(x, _) => needed[x as usize] = true,
            }
        }
        needed
    }

    /// The statements that compute some nodes at the point `i`.
    fn body(&self, shader: &mut Shader<'_>, roots: &[u32]) -> String {
        let needed = self.needed(roots.iter().copied());
        let shape = &self.recipe.shape;
        let mut inputs = Vec::new();
        let mut number = 0;
        for (k, node) in self.recipe.nodes.iter().enumerate() {
            if matches!(node, RecipeNode::Input(_)) {
                if needed[k] {
                    inputs.push((number, (self.sources[number].clone(), self.types[k])));
                }
                number += 1;
            }
        }
        let mut reads = vec![String::new(); number];
        let (numbers, wanted): (Vec<usize>, Vec<_>) = inputs.into_iter().unzip();
        let (before, read) = shader.read(&Space::new(shape), &wanted, shape);
        for (number, read) in numbers.into_iter().zip(read) {
            reads[number] = read;
        }
        // `new` has seen that all of it can be written.
        let rest = self
            .statements(&needed, &reads, &mut shader.prelude)
            .unwrap_or_default();
        before + &rest
    }

    /// The kernels that compute the outputs into memory; `None` where one needs more arrays than the device binds.
    pub fn dispatches(
        &self,
        context: &Arc<Context>,
        outputs: &[Arc<Memory>],
        most: usize,
    ) -> Result<Option<Vec<Dispatch>>> {
        let mut all = Vec::new();
        let whole: Vec<(u32, &Arc<Memory>)> = (self.recipe.outputs.iter().zip(outputs))
            .filter_map(|(output, memory)| match output {
                RecipeOutput::Whole(x) => Some((*x, memory)),
                RecipeOutput::Reduced(..) => None,
            })
            .collect();
        if !whole.is_empty() {
            let together = self.whole(context, &whole, most)?;
            match together {
                Some(dispatch) => all.push(dispatch),
                None => {
                    for one in whole.chunks(1) {
                        let Some(dispatch) = self.whole(context, one, most)? else {
                            return Ok(None);
                        };
                        all.push(dispatch);
                    }
                }
            }
        }
        for (output, memory) in self.recipe.outputs.iter().zip(outputs) {
            if let RecipeOutput::Reduced(x, op, split) = *output {
                let Some(passes) = self.reduced(context, x, op, split, memory, most)? else {
                    return Ok(None);
                };
                all.extend(passes);
            }
        }
        Ok(Some(all))
    }

    /// The statements that compute outputs at the point `i` and write them.
    fn written(&self, shader: &mut Shader<'_>, outputs: &[(u32, &Arc<Memory>)]) -> String {
        let roots: Vec<u32> = outputs.iter().map(|(x, _)| *x).collect();
        let mut body = self.body(shader, &roots);
        for (x, memory) in outputs {
            let kind = self.types[*x as usize];
            let name = shader.bind(memory.buffer(), kind.stored, true);
            let _ = writeln!(body, "  {name}[i] = {};", kind.store(&format!("v{x}")));
        }
        body
    }

    fn whole(
        &self,
        context: &Arc<Context>,
        outputs: &[(u32, &Arc<Memory>)],
        most: usize,
    ) -> Result<Option<Dispatch>> {
        let mut shader = Shader::new(context);
        let body = self.written(&mut shader, outputs);
        if shader.num_bound() > most {
            return Ok(None);
        }
        let threads = self.recipe.shape.iter().product();
        shader.over(threads, &body).map(Some)
    }

    fn reduced(
        &self,
        context: &Arc<Context>,
        x: u32,
        op: ReduceOp,
        split: [usize; 3],
        memory: &Arc<Memory>,
        most: usize,
    ) -> Result<Option<Vec<Dispatch>>> {
        let kind = self.types[x as usize];
        let Some(fold) = Fold::new(op, kind) else {
            return Ok(None);
        };
        let mut shader = Shader::new(context);
        let body = self.body(&mut shader, &[x]);
        if shader.num_bound() >= most {
            return Ok(None);
        }
        let _ = writeln!(
            shader.functions,
            "fn at(i: u32) -> {} {{\n{body}  return {};\n}}",
            fold.name,
            fold.widened(&format!("v{x}")),
        );
        fold.passes(shader, split, memory).map(Some)
    }
}

/// A group that computes with each result of a product where it is made: its source for the product is the name `x`.
pub struct Epilogue<'g> {
    group: &'g Group<'g>,
    outputs: &'g [Arc<Memory>],
}

impl<'g> Epilogue<'g> {
    pub fn new(group: &'g Group<'g>, outputs: &'g [Arc<Memory>]) -> Epilogue<'g> {
        Epilogue { group, outputs }
    }
}

impl Finish for Epilogue<'_> {
    fn write(&self, shader: &mut Shader<'_>) -> String {
        let outputs = self.group.recipe.outputs.iter().zip(self.outputs);
        let roots: Vec<(u32, &Arc<Memory>)> = outputs
            .filter_map(|(output, memory)| match output {
                RecipeOutput::Whole(x) => Some((*x, memory)),
                RecipeOutput::Reduced(..) => None,
            })
            .collect();
        self.group.written(shader, &roots)
    }
}

/// How a reduction is done with elements of a type.
#[derive(Debug, Clone, Copy)]
pub struct Fold {
    op: ReduceOp,
    kind: Type,
    /// The type of partial results.
    name: &'static str,
}

impl Fold {
    pub fn new(op: ReduceOp, kind: Type) -> Option<Fold> {
        let name = match (op, kind.dtype) {
            (ReduceOp::Sum | ReduceOp::Prod, DType::Bool) => return None,
            _ => kind.name,
        };
        Some(Fold { op, kind, name })
    }

    fn widened(self, value: &str) -> String {
        value.to_owned()
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

    fn combined(self, a: &str, b: &str, prelude: &mut Prelude) -> String {
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
    pub fn passes(
        self,
        shader: Shader<'_>,
        [outer, reduced, inner]: [usize; 3],
        memory: &Arc<Memory>,
    ) -> Result<Vec<Dispatch>> {
        let context = shader.context;
        let results = outer * inner;
        // A whole workgroup for each result where elements lie one after the other.
        let together = inner == 1 && reduced >= 64;
        let threads = if together { GROUP as usize } else { 1 };
        let wanted = FEW.div_ceil(results * threads);
        let parts = reduced.div_ceil(LONG * threads).min(wanted).max(1);
        if parts == 1 {
            let last = self.pass(shader, [outer, reduced, inner], reduced, memory, together)?;
            return Ok(vec![last]);
        }
        let length = reduced.div_ceil(parts);
        let parts = reduced.div_ceil(length);
        let between = self.kind.plain();
        let (partial, _) = Memory::new(context, between, outer * parts * inner)?;
        let partial = Arc::new(partial);
        let first = Fold {
            kind: between,
            ..self
        };
        let first = first.pass(shader, [outer, reduced, inner], length, &partial, together)?;
        let mut second = Shader::new(context);
        let name = second.bind(partial.buffer(), between.stored, false);
        let value = between.load(&format!("{name}[i]"));
        let _ = writeln!(
            second.functions,
            "fn at(i: u32) -> {} {{ return {value}; }}",
            self.name
        );
        let together = inner == 1 && parts >= 64;
        let second = self.pass(second, [outer, parts, inner], parts, memory, together)?;
        Ok(vec![first, second])
    }

    /// A pass that reduces stretches of `length` elements each.
    fn pass(
        self,
        mut shader: Shader<'_>,
        [outer, reduced, inner]: [usize; 3],
        length: usize,
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
        let merge = self.combined("shared_acc[l]", "shared_acc[l + half]", &mut shader.prelude);
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
        if !together {
            let body = format!(
                "  {place}  var acc: {} = {start};\n  for (var r = begin + {offset}u; r < end; r = r + 1u) {{ acc = {step}; }}\n  \
                 {out}[i] = {};\n",
                self.name,
                result("acc"),
            );
            return shader.over(results, &body);
        }
        let count = shader.param(results as u32);
        let main = format!(
            "var<workgroup> shared_acc: array<{name}, {GROUP}>;\n\
             @compute @workgroup_size({GROUP})\nfn main(@builtin(workgroup_id) w: vec3<u32>, \
             @builtin(local_invocation_index) l: u32, @builtin(num_workgroups) g: vec3<u32>) {{\n  \
             let i = min(w.y * g.x + w.x, {count} - 1u);\n  {place}  var acc: {name} = {start};\n  \
             for (var r = begin + l; r < end; r = r + {GROUP}u) {{ acc = {step}; }}\n  \
             shared_acc[l] = acc;\n  workgroupBarrier();\n  \
             for (var half = {}u; half > 0u; half = half / 2u) {{\n    \
             if (l < half) {{ shared_acc[l] = {merge}; }}\n    workgroupBarrier();\n  }}\n  \
             if (l == 0u) {{ {out}[i] = {}; }}\n}}\n",
            GROUP / 2,
            result("shared_acc[0]"),
            name = self.name,
        );
        shader.finish(&main, spread(results as u32))
    }
}

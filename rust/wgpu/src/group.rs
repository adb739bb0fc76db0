//! Kernels of fused groups.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::kernels::{Recipe, RecipeNode, RecipeOutput, ReduceOp};

use crate::context::Context;
use crate::expression::{Prelude, cast, expression};
use crate::fold::Fold;
use crate::fours;
use crate::memory::Memory;
use crate::product::Finish;
use crate::shader::{Dispatch, Shader, Source, Space};
use crate::types::Type;

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

    pub fn recipe(&self) -> &'r Recipe {
        self.recipe
    }

    /// The type of a value.
    pub fn kind(&self, x: u32) -> Type {
        self.types[x as usize]
    }

    /// Assignments of all needed nodes; `reads` are the expressions of the inputs.
    pub fn statements(
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
    pub fn needed(&self, roots: impl Iterator<Item = u32>) -> Vec<bool> {
        let mut needed = vec![false; self.recipe.nodes.len()];
        for root in roots {
            needed[root as usize] = true;
        }
        for k in (0..needed.len()).rev() {
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

    /// The numbers of the inputs among needed nodes, and where these are read.
    pub fn inputs(&self, needed: &[bool]) -> (Vec<usize>, Vec<(Source, Type)>) {
        let is_input = |(_, node): &(usize, &RecipeNode)| matches!(node, RecipeNode::Input(_));
        let inputs = (self.recipe.nodes.iter().enumerate()).filter(is_input);
        (inputs.enumerate())
            .filter(|(_, (k, _))| needed[*k])
            .map(|(number, (k, _))| (number, (self.sources[number].clone(), self.types[k])))
            .unzip()
    }

    /// The statements that compute some nodes at the point `i`.
    pub fn body(&self, shader: &mut Shader<'_>, roots: &[u32]) -> String {
        let needed = self.needed(roots.iter().copied());
        let shape = &self.recipe.shape;
        let (numbers, wanted) = self.inputs(&needed);
        let mut reads = vec![String::new(); self.sources.len()];
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
        if let Some(passes) = fours::with_sum(self, context, outputs, most)? {
            return Ok(Some(passes));
        }
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
        if let Some(dispatch) = fours::whole(self, context, outputs, most)? {
            return Ok(Some(dispatch));
        }
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
        if let Some(passes) = fours::reduced(self, context, op, &[], (x, split, memory), most)? {
            return Ok(Some(passes));
        }
        let mut shader = Shader::new(context);
        let body = self.body(&mut shader, &[x]);
        if shader.num_bound() >= most {
            return Ok(None);
        }
        let _ = writeln!(
            shader.functions,
            "fn at(i: u32) -> {} {{\n{body}  return {};\n}}",
            fold.name,
            format_args!("v{x}"),
        );
        fold.passes(shader, split, memory, 1).map(Some)
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

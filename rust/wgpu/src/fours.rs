//! Elementwise kernels and sums whose threads compute neighbours together ([`vectors`](crate::vectors)).

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::kernels::{RecipeOutput, ReduceOp};

use crate::context::Context;
use crate::fold::Fold;
use crate::group::Group;
use crate::memory::Memory;
use crate::shader::{Dispatch, Shader};
use crate::vectors::{Computed, Vector, fits, units};

/// Fewer elements have a thread each.
const FEW: usize = 1024;

/// How many neighbours the threads of a group may take, the most first.
fn units_of<'c>(group: &Group<'_>, context: &'c Context) -> impl Iterator<Item = usize> + use<'c> {
    let recipe = group.recipe();
    let size: usize = recipe.shape.iter().product();
    let operations = recipe.nodes.len();
    let possible = units(context).iter().copied();
    possible.filter(move |&unit| size >= FEW && fits(unit, operations))
}

/// The kernel that computes some outputs of a group, if vectors can be read and written.
pub fn whole(
    group: &Group<'_>,
    context: &Arc<Context>,
    outputs: &[(u32, &Arc<Memory>)],
    most: usize,
) -> Result<Option<Dispatch>> {
    let roots: Vec<u32> = outputs.iter().map(|(x, _)| *x).collect();
    let size: usize = group.recipe().shape.iter().product();
    for unit in units_of(group, context) {
        let mut shader = Shader::new(context);
        let written = Computed::new(&mut shader, group, &roots, None, unit, "").and_then(|own| {
            let stored = own.stored(&mut shader, group, outputs)?;
            Some(own.outside + &own.inside + &stored)
        });
        if let Some(body) = written
            && shader.num_bound() <= most
        {
            return shader.over(size.div_ceil(unit), &body).map(Some);
        }
    }
    Ok(None)
}

/// The passes of a group that has one sum along rows, and else elements that the first pass writes on its way, if
/// vectors can be read and written.
pub fn with_sum(
    group: &Group<'_>,
    context: &Arc<Context>,
    outputs: &[Arc<Memory>],
    most: usize,
) -> Result<Option<Vec<Dispatch>>> {
    let (mut wholes, mut sum) = (Vec::new(), None);
    for (output, memory) in group.recipe().outputs.iter().zip(outputs) {
        match *output {
            RecipeOutput::Whole(x) => wholes.push((x, memory)),
            RecipeOutput::Reduced(x, ReduceOp::Sum, split) if sum.is_none() && split[2] == 1 => {
                sum = Some((x, split, memory));
            }
            RecipeOutput::Reduced(..) => return Ok(None),
        }
    }
    match sum {
        None => Ok(None),
        Some(sum) => reduced(group, context, ReduceOp::Sum, &wholes, sum, most),
    }
}

/// The passes of one reduction of a group, and of elements that the first pass writes on its way: along rows, or along
/// columns, a thread then takes neighbouring ones.
pub fn reduced(
    group: &Group<'_>,
    context: &Arc<Context>,
    op: ReduceOp,
    wholes: &[(u32, &Arc<Memory>)],
    (x, split, memory): (u32, [usize; 3], &Arc<Memory>),
    most: usize,
) -> Result<Option<Vec<Dispatch>>> {
    let [_, reduced, inner] = split;
    let Some(fold) = Fold::new(op, group.kind(x)) else {
        return Ok(None);
    };
    let roots: Vec<u32> = wholes.iter().map(|(x, _)| *x).chain([x]).collect();
    for unit in units_of(group, context) {
        let along_rows = inner == 1 && reduced >= FEW;
        let line = if along_rows { reduced } else { inner };
        if !line.is_multiple_of(unit) {
            continue;
        }
        // Results along columns are vectors, too.
        if !along_rows && Vector::new(context, group.kind(x), unit).is_none() {
            continue;
        }
        let mut shader = Shader::new(context);
        let written = Computed::new(&mut shader, group, &roots, None, unit, "").and_then(|own| {
            let stored = own.stored(&mut shader, group, wholes)?;
            let body = format!("{}{}{stored}", own.outside, own.inside);
            Some((own.values(wholes.len()), body))
        });
        let Some((values, body)) = written else {
            continue;
        };
        if shader.num_bound() >= most {
            continue;
        }
        let (name, given) = if along_rows {
            let tree = fold.tree(&values, &mut shader.prelude);
            (fold.name.to_owned(), tree)
        } else {
            let name = format!("array<{}, {unit}>", fold.name);
            let given = format!("{name}({})", values.join(", "));
            (name, given)
        };
        let _ = writeln!(
            shader.functions,
            "fn many(i: u32) -> {name} {{\n{body}  return {given};\n}}"
        );
        return fold.passes(shader, split, memory, unit).map(Some);
    }
    Ok(None)
}

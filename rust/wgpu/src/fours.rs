//! Elementwise kernels and sums whose threads compute four neighbours each: vectors are read and written.
//!
//! Buffers have room up to a multiple of 16 bytes, so the last vector of an array lies in its buffer. What is computed
//! from the elements behind the last one is written behind the last one of the result, where nobody reads it.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::kernels::{RecipeOutput, ReduceOp};
use wgpu::Features;

use crate::context::Context;
use crate::fold::Fold;
use crate::group::Group;
use crate::memory::Memory;
use crate::shader::{Access, Dispatch, Shader, Source, accesses};
use crate::types::Type;

/// Fewer elements have a thread each.
const FEW: usize = 1024;
/// Longer groups, too: their text is compiled four times, and they wait for arithmetic and not for memory.
const LONG: usize = 48;
const LANES: [char; 4] = ['x', 'y', 'z', 'w'];
/// Four words as two of twice the length: drivers that compute on the processor read one component after the other.
const PAIRS: &str = "vec2<u64>";
/// The word with this number of such four.
const WORD_OF: &str =
    "fn word_of(q: vec2<u64>, k: u32) -> u32 { return u32(q[k / 2u] >> (32u * (k % 2u))); }\n";

/// Whether vectors of an element have at most 16 bytes.
fn is_short(kind: Type) -> bool {
    kind.size <= 4
}

/// Whether arrays of this kind are read as pairs.
fn reads_pairs(context: &Context, kind: Type) -> bool {
    context.is_soft && context.features.contains(Features::SHADER_INT64) && kind.stored != "f16"
}

/// An element of memory, from its word.
fn from_word(kind: Type, word: &str) -> String {
    match kind.stored {
        "u32" => word.to_owned(),
        stored => format!("bitcast<{stored}>({word})"),
    }
}

/// Reads arrays at the four points of a shape from number `4 * i` on: statements before, and four expressions for each;
/// nothing where the elements of an array do not lie side by side.
fn read(
    shader: &mut Shader<'_>,
    sources: &[(Source, Type)],
    shape: &[usize],
) -> Option<(String, Vec<[String; 4]>)> {
    let (dims, found) = accesses(sources, shape);
    let line = *dims.last()?;
    let (mut before, mut read) = (String::new(), Vec::new());
    let is_strided = |a: &Option<Access>| matches!(a, Some(Access::Strided(_)));
    if found.iter().any(is_strided) {
        if !line.is_multiple_of(4) {
            return None;
        }
        before += "  var rest = i;\n";
        for axis in (0..dims.len()).rev() {
            let is_last = axis + 1 == dims.len();
            let n = if is_last { line / 4 } else { dims[axis] };
            let n = shader.param(n as u32);
            let quotient = shader.quotient("rest", &n);
            let _ = writeln!(
                before,
                "  let n{axis} = {quotient}; let c{axis} = rest - n{axis} * {n}; rest = n{axis};"
            );
        }
    }
    for (number, ((source, kind), access)) in sources.iter().zip(found).enumerate() {
        let (value, memory) = match source {
            Source::Number(words) => {
                let at = shader.params.len();
                shader.params.extend(words);
                read.push([(); 4].map(|()| kind.number_at(at)));
                continue;
            }
            Source::Array(value, memory) if is_short(*kind) => (value, memory),
            _ => return None,
        };
        // The strides of lines, and where in a line a vector is; nothing where all of a line reads one element.
        let column = format!("c{}", dims.len() - 1);
        let (strides, column) = match access? {
            Access::Contiguous => (Vec::new(), Some(String::from("i"))),
            Access::Constant => (Vec::new(), None),
            Access::Strided(mut strides) => match strides.pop()? {
                0 => (strides, None),
                1 if strides.iter().all(|s| s % 4 == 0) => (strides, Some(column)),
                _ => return None,
            },
        };
        if column.is_some() && !value.first().is_multiple_of(4) {
            return None;
        }
        let pairs = reads_pairs(shader.context, *kind);
        let vector = if pairs {
            PAIRS.to_owned()
        } else {
            format!("vec4<{}>", kind.stored)
        };
        let name = shader.bind(memory.buffer(), &vector, false);
        let unit = if column.is_some() { 4 } else { 1 };
        let mut index = shader.param(value.first() as u32 / unit);
        for (axis, &stride) in strides.iter().enumerate().filter(|(_, s)| **s != 0) {
            let stride = shader.param((stride / unit as isize) as u32);
            let _ = write!(index, " + c{axis} * {stride}");
        }
        if let Some(column) = column {
            let _ = writeln!(before, "  let q{number} = {name}[{index} + {column}];");
            read.push(if pairs {
                let word = |pair: &str, by: &str| {
                    kind.load(&from_word(*kind, &format!("u32(q{number}.{pair}{by})")))
                };
                [("x", ""), ("x", " >> 32u"), ("y", ""), ("y", " >> 32u")]
                    .map(|(p, by)| word(p, by))
            } else {
                LANES.map(|lane| kind.load(&format!("q{number}.{lane}")))
            });
        } else if pairs {
            if !shader.functions.contains(WORD_OF) {
                shader.functions += WORD_OF;
            }
            let word = format!("word_of({name}[p{number} / 4u], p{number} % 4u)");
            let element = kind.load(&from_word(*kind, &word));
            let _ = writeln!(
                before,
                "  let p{number} = {index};\n  let q{number} = {element};"
            );
            read.push([(); 4].map(|()| format!("q{number}")));
        } else {
            let _ = writeln!(
                before,
                "  let p{number} = {index};\n  let q{number} = {name}[p{number} / 4u][p{number} % 4u];"
            );
            read.push([(); 4].map(|()| kind.load(&format!("q{number}"))));
        }
    }
    Some((before, read))
}

/// Whether the elements of a group are computed four at a time.
fn fits(group: &Group<'_>, outputs: &[(u32, &Arc<Memory>)]) -> bool {
    let recipe = group.recipe();
    let size: usize = recipe.shape.iter().product();
    let is_short = |(x, _): &(u32, &Arc<Memory>)| is_short(group.kind(*x));
    size >= FEW && recipe.nodes.len() <= LONG && outputs.iter().all(is_short)
}

/// Statements that compute some nodes at the four points from number `4 * i` on: `r0` to `r3` have a field for each,
/// `o0`, `o1`, and so on. Nothing where an array cannot be read so.
fn computed(shader: &mut Shader<'_>, group: &Group<'_>, roots: &[u32]) -> Option<String> {
    let recipe = group.recipe();
    let needed = group.needed(roots.iter().copied());
    let (numbers, wanted) = group.inputs(&needed);
    let (mut body, read) = read(shader, &wanted, &recipe.shape)?;
    let mut reads = vec![String::new(); recipe.nodes.len()];
    let mut parameters = Vec::new();
    for (number, (_, kind)) in numbers.iter().zip(&wanted) {
        reads[*number] = format!("x{number}");
        parameters.push(format!("x{number}: {}", kind.name));
    }
    let statements = group.statements(&needed, &reads, &mut shader.prelude)?;
    let kinds = roots.iter().map(|x| group.kind(*x).name).enumerate();
    let fields = kinds.map(|(k, kind)| format!("o{k}: {kind}"));
    let values = roots.iter().map(|x| format!("v{x}"));
    let _ = writeln!(
        shader.functions,
        "struct Results {{ {} }}\nfn one({}) -> Results {{\n{statements}  return Results({});\n}}",
        fields.collect::<Vec<_>>().join(", "),
        parameters.join(", "),
        values.collect::<Vec<_>>().join(", "),
    );
    for lane in 0..4 {
        let own: Vec<&str> = read.iter().map(|four| four[lane].as_str()).collect();
        let _ = writeln!(body, "  let r{lane} = one({});", own.join(", "));
    }
    Some(body)
}

/// Statements that write the first fields of `r0` to `r3`.
fn stored(shader: &mut Shader<'_>, group: &Group<'_>, outputs: &[(u32, &Arc<Memory>)]) -> String {
    let mut text = String::new();
    for (k, (x, memory)) in outputs.iter().enumerate() {
        let kind = group.kind(*x);
        let vector = format!("vec4<{}>", kind.stored);
        let name = shader.bind(memory.buffer(), &vector, true);
        let four = [0, 1, 2, 3].map(|lane| kind.store(&format!("r{lane}.o{k}")));
        let _ = writeln!(text, "  {name}[i] = {vector}({});", four.join(", "));
    }
    text
}

/// The kernel that computes some outputs of a group, if vectors can be read and written.
pub fn whole(
    group: &Group<'_>,
    context: &Arc<Context>,
    outputs: &[(u32, &Arc<Memory>)],
    most: usize,
) -> Result<Option<Dispatch>> {
    let roots: Vec<u32> = outputs.iter().map(|(x, _)| *x).collect();
    if !fits(group, outputs) {
        return Ok(None);
    }
    let mut shader = Shader::new(context);
    let Some(mut body) = computed(&mut shader, group, &roots) else {
        return Ok(None);
    };
    body += &stored(&mut shader, group, outputs);
    if shader.num_bound() > most {
        return Ok(None);
    }
    let size: usize = group.recipe().shape.iter().product();
    shader.over(size.div_ceil(4), &body).map(Some)
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
            RecipeOutput::Reduced(x, ReduceOp::Sum, split) if sum.is_none() => {
                sum = Some((x, split, memory));
            }
            RecipeOutput::Reduced(..) => return Ok(None),
        }
    }
    match sum {
        None => Ok(None),
        Some(sum) => summed(group, context, &wholes, sum, most),
    }
}

/// The passes of one sum along rows of a group, and of elements that the first pass writes on its way.
pub fn summed(
    group: &Group<'_>,
    context: &Arc<Context>,
    wholes: &[(u32, &Arc<Memory>)],
    (x, split, memory): (u32, [usize; 3], &Arc<Memory>),
    most: usize,
) -> Result<Option<Vec<Dispatch>>> {
    let [_, reduced, inner] = split;
    let kind = group.kind(x);
    let is_along = inner == 1 && reduced >= FEW && reduced.is_multiple_of(4);
    if !is_along || !is_short(kind) || !fits(group, wholes) {
        return Ok(None);
    }
    let Some(fold) = Fold::new(ReduceOp::Sum, kind) else {
        return Ok(None);
    };
    let mut shader = Shader::new(context);
    let roots: Vec<u32> = wholes.iter().map(|(x, _)| *x).chain([x]).collect();
    let Some(mut body) = computed(&mut shader, group, &roots) else {
        return Ok(None);
    };
    body += &stored(&mut shader, group, wholes);
    if shader.num_bound() >= most {
        return Ok(None);
    }
    let last = wholes.len();
    let _ = writeln!(
        shader.functions,
        "fn four(i: u32) -> {name} {{\n{body}  return (r0.o{last} + r1.o{last}) + (r2.o{last} + r3.o{last});\n}}",
        name = fold.name,
    );
    fold.passes(shader, split, memory, 4).map(Some)
}

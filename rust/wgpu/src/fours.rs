//! Elementwise kernels whose threads compute four neighbours each: vectors are read and written.
//!
//! Buffers have room up to a multiple of 16 bytes, so the last vector of an array lies in its buffer. What is computed
//! from the elements behind the last one is written behind the last one of the result, where nobody reads it.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;

use crate::context::Context;
use crate::group::Group;
use crate::memory::Memory;
use crate::shader::{Access, Dispatch, Shader, Source, accesses};
use crate::types::Type;

/// Fewer elements have a thread each.
const FEW: usize = 1024;
/// Longer groups, too: their text is compiled four times, and they wait for arithmetic and not for memory.
const LONG: usize = 48;
const LANES: [char; 4] = ['x', 'y', 'z', 'w'];

/// Whether vectors of an element have at most 16 bytes.
fn is_short(kind: Type) -> bool {
    kind.size <= 4
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
            let _ = writeln!(before, "  let c{axis} = rest % {n}; rest = rest / {n};");
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
        let name = shader.bind(memory.buffer(), &format!("vec4<{}>", kind.stored), false);
        let unit = if column.is_some() { 4 } else { 1 };
        let mut index = shader.param(value.first() as u32 / unit);
        for (axis, &stride) in strides.iter().enumerate().filter(|(_, s)| **s != 0) {
            let stride = shader.param((stride / unit as isize) as u32);
            let _ = write!(index, " + c{axis} * {stride}");
        }
        if let Some(column) = column {
            let _ = writeln!(before, "  let q{number} = {name}[{index} + {column}];");
            read.push(LANES.map(|lane| kind.load(&format!("q{number}.{lane}"))));
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

/// The kernel that computes some outputs of a group, if vectors can be read and written.
pub fn whole(
    group: &Group<'_>,
    context: &Arc<Context>,
    outputs: &[(u32, &Arc<Memory>)],
    most: usize,
) -> Result<Option<Dispatch>> {
    let recipe = group.recipe();
    let size: usize = recipe.shape.iter().product();
    let is_short = |(x, _): &(u32, &Arc<Memory>)| is_short(group.kind(*x));
    if size < FEW || recipe.nodes.len() > LONG || !outputs.iter().all(is_short) {
        return Ok(None);
    }
    let needed = group.needed(outputs.iter().map(|(x, _)| *x));
    let (numbers, wanted) = group.inputs(&needed);
    let mut shader = Shader::new(context);
    let Some((mut body, read)) = read(&mut shader, &wanted, &recipe.shape) else {
        return Ok(None);
    };
    let mut reads = vec![String::new(); recipe.nodes.len()];
    let mut parameters = Vec::new();
    for (number, (_, kind)) in numbers.iter().zip(&wanted) {
        reads[*number] = format!("x{number}");
        parameters.push(format!("x{number}: {}", kind.name));
    }
    let Some(statements) = group.statements(&needed, &reads, &mut shader.prelude) else {
        return Ok(None);
    };
    let kinds = outputs.iter().map(|(x, _)| group.kind(*x).name).enumerate();
    let fields = kinds.map(|(k, kind)| format!("o{k}: {kind}"));
    let values = outputs.iter().map(|(x, _)| format!("v{x}"));
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
    for (k, (x, memory)) in outputs.iter().enumerate() {
        let kind = group.kind(*x);
        let stored = format!("vec4<{}>", kind.stored);
        let name = shader.bind(memory.buffer(), &stored, true);
        let four = [0, 1, 2, 3].map(|lane| kind.store(&format!("r{lane}.o{k}")));
        let _ = writeln!(body, "  {name}[i] = {stored}({});", four.join(", "));
    }
    if shader.num_bound() > most {
        return Ok(None);
    }
    shader.over(size.div_ceil(4), &body).map(Some)
}

//! Neighbours that a thread takes at once: vectors of four elements, or of eight for drivers that compute on the processor.
//!
//! Such drivers read the components of a vector one after the other, but those of one thread in the shadow of each other,
//! and 64 bits as fast as 32: eight words are read as four of twice the length.
//!
//! Buffers have room up to a multiple of 32 bytes, so the last vector of an array lies in its buffer. What is computed
//! from the elements behind the last one is written behind the last one of the result, where nobody reads it.

use std::fmt::Write;
use std::sync::Arc;

use wgpu::Features;

use crate::context::Context;
use crate::group::Group;
use crate::memory::Memory;
use crate::shader::{Access, Shader, Source, accesses};
use crate::types::Type;

/// Groups of more operations have an element a thread: their text is compiled once for each element of a vector, and they
/// wait for arithmetic and not for memory.
const LONG: usize = 48;
/// The same for vectors of eight.
const LONG_EIGHT: usize = 32;
const LANES: [char; 4] = ['x', 'y', 'z', 'w'];
const PAIR: &str = "fn pair(a: u32, b: u32) -> u64 { return u64(a) | (u64(b) << 32u); }\n";

/// Whether words are read and written as pairs.
fn has_pairs(context: &Context) -> bool {
    context.is_soft && context.features.contains(Features::SHADER_INT64)
}

/// How many neighbours a thread may take, the most first.
pub fn units(context: &Context) -> &'static [usize] {
    if has_pairs(context) { &[8, 4] } else { &[4] }
}

/// How many neighbours with so many operations a thread may take.
pub fn fits(unit: usize, operations: usize) -> bool {
    operations <= if unit == 8 { LONG_EIGHT } else { LONG }
}

/// Neighbouring elements of a type in memory.
#[derive(Clone, Copy)]
pub struct Vector {
    kind: Type,
    unit: usize,
    pairs: bool,
}

impl Vector {
    /// Vectors of a type that a device reads at once; they have at most 16 bytes, or 32 as pairs.
    pub fn new(context: &Context, kind: Type, unit: usize) -> Option<Vector> {
        let pairs = has_pairs(context) && kind.size == 4;
        let fits = kind.size <= 4 && (unit == 4 || (unit == 8 && pairs));
        fits.then_some(Vector { kind, unit, pairs })
    }

    /// The type of one in memory.
    fn stored(self) -> String {
        if self.pairs {
            format!("vec{}<u64>", self.unit / 2)
        } else {
            format!("vec4<{}>", self.kind.stored)
        }
    }

    /// A word of a pair as an element.
    fn of_word(self, word: &str) -> String {
        self.kind.load(&match self.kind.stored {
            "u32" => word.to_owned(),
            stored => format!("bitcast<{stored}>({word})"),
        })
    }

    /// The elements of the vector with this name.
    pub fn elements(self, name: &str) -> Vec<String> {
        let element = |k: usize| {
            if !self.pairs {
                return self.kind.load(&format!("{name}.{}", LANES[k]));
            }
            let pair = format!("{name}.{}", LANES[k / 2]);
            let word = ["", " >> 32u"][k % 2];
            self.of_word(&format!("u32({pair}{word})"))
        };
        (0..self.unit).map(element).collect()
    }

    /// The element with the number `at`, the name of a variable, of an array of vectors.
    fn element(self, array: &str, at: &str) -> String {
        let unit = self.unit;
        if !self.pairs {
            return self.kind.load(&format!("{array}[{at} / 4u][{at} % 4u]"));
        }
        let pair = format!("{array}[{at} / {unit}u][({at} % {unit}u) / 2u]");
        self.of_word(&format!("u32({pair} >> (32u * ({at} % 2u)))"))
    }

    /// The vector of some values.
    fn packed(self, shader: &mut Shader<'_>, values: &[String]) -> String {
        let values = values.iter().map(|v| self.kind.store(v));
        let of = self.stored();
        if !self.pairs {
            return format!("{of}({})", values.collect::<Vec<_>>().join(", "));
        }
        if !shader.functions.contains(PAIR) {
            shader.functions = format!("{PAIR}{}", shader.functions);
        }
        let is_word = self.kind.stored == "u32";
        let words: Vec<String> = values
            .map(|v| {
                if is_word {
                    v
                } else {
                    format!("bitcast<u32>({v})")
                }
            })
            .collect();
        let pairs: Vec<String> = (words.chunks(2))
            .map(|two| format!("pair({})", two.join(", ")))
            .collect();
        format!("{of}({})", pairs.join(", "))
    }

    /// Binds memory of such vectors; its name.
    pub fn bind(self, shader: &mut Shader<'_>, memory: &Memory, is_written: bool) -> String {
        shader.bind(memory.buffer(), &self.stored(), is_written)
    }

    /// The statement that writes values as a vector of memory.
    pub fn write(
        self,
        shader: &mut Shader<'_>,
        memory: &Memory,
        index: &str,
        values: &[String],
    ) -> String {
        let name = self.bind(shader, memory, true);
        format!("  {name}[{index}] = {};\n", self.packed(shader, values))
    }
}

/// How many rows a shape has, and how many vectors each of them, for a thread that goes along a row.
pub type Rows = Option<[usize; 2]>;

/// Arrays that are read a vector at a time.
struct Vectors {
    /// Statements for a row, and for each vector of it.
    outside: String,
    inside: String,
    /// The elements of each array.
    elements: Vec<Vec<String>>,
}

/// Reads arrays of a shape at the vector with the number `i`, which is that at `row` and `column` of so many rows;
/// nothing where the elements of an array do not lie side by side. Names begin with a tag.
fn read(
    shader: &mut Shader<'_>,
    (sources, shape): (&[(Source, Type)], &[usize]),
    rows: Rows,
    unit: usize,
    tag: &str,
) -> Option<Vectors> {
    let (dims, found) = accesses(sources, shape);
    let line = *dims.last()?;
    let mut all = Vectors {
        outside: String::new(),
        inside: String::new(),
        elements: Vec::new(),
    };
    let last = dims.len() - 1;
    let by_rows = rows.is_some_and(|[rows, vectors]| dims == [rows, vectors * unit]);
    let place = |axis: usize| match (by_rows, axis) {
        (true, 0) => String::from("row"),
        (true, _) => String::from("column"),
        _ => format!("{tag}c{axis}"),
    };
    let is_strided = |a: &Option<Access>| matches!(a, Some(Access::Strided(_)));
    if found.iter().any(is_strided) {
        if !line.is_multiple_of(unit) {
            return None;
        }
        if !by_rows {
            let mut rest = String::from("i");
            for axis in (0..dims.len()).rev() {
                let n = if axis == last {
                    line / unit
                } else {
                    dims[axis]
                };
                let n = shader.param(n as u32);
                let quotient = shader.quotient(&rest, &n);
                let _ = writeln!(
                    all.inside,
                    "  let {tag}n{axis} = {quotient}; let {tag}c{axis} = {rest} - {tag}n{axis} * {n};"
                );
                rest = format!("{tag}n{axis}");
            }
        }
    }
    for (number, ((source, kind), access)) in sources.iter().zip(found).enumerate() {
        let (value, memory) = match source {
            Source::Number(words) => {
                let at = shader.params.len();
                shader.params.extend(words);
                all.elements.push(vec![kind.number_at(at); unit]);
                continue;
            }
            Source::Given(name) => {
                all.elements.push(vec![name.clone(); unit]);
                continue;
            }
            Source::Array(value, memory) => (value, memory),
        };
        let vector = Vector::new(shader.context, *kind, unit)?;
        // The strides of lines, and where in a line a vector is; nothing where all of a line reads one element.
        let (strides, column) = match access? {
            Access::Contiguous => (Vec::new(), Some(String::from("i"))),
            Access::Constant => (Vec::new(), None),
            Access::Strided(mut strides) => match strides.pop()? {
                0 => (strides, None),
                1 if strides.iter().all(|s| s % unit as isize == 0) => (strides, Some(place(last))),
                _ => return None,
            },
        };
        if column.is_some() && !value.first().is_multiple_of(unit) {
            return None;
        }
        let name = vector.bind(shader, memory, false);
        let step = if column.is_some() { unit } else { 1 };
        let mut index = shader.param((value.first() / step) as u32);
        for (axis, &stride) in strides.iter().enumerate().filter(|(_, s)| **s != 0) {
            let stride = shader.param((stride / step as isize) as u32);
            let _ = write!(index, " + {} * {stride}", place(axis));
        }
        let own = format!("{tag}q{number}");
        if let Some(column) = column {
            let _ = writeln!(all.inside, "  let {own} = {name}[{index} + {column}];");
            all.elements.push(vector.elements(&own));
            continue;
        }
        let at = format!("{tag}p{number}");
        let element = vector.element(&name, &at);
        let text = if by_rows || strides.is_empty() {
            &mut all.outside
        } else {
            &mut all.inside
        };
        let _ = writeln!(text, "  let {at} = {index};\n  let {own} = {element};");
        all.elements.push(vec![own; unit]);
    }
    Some(all)
}

/// A group that is computed a vector at a time.
pub struct Computed {
    /// Statements for a row, and for each vector of it: afterwards `r0`, `r1`, and so on have the fields `o0`, `o1`, and so
    /// on, one for each root. Names begin with a tag.
    pub outside: String,
    pub inside: String,
    tag: String,
    unit: usize,
}

impl Computed {
    /// Computes some nodes of a group; nothing where an array cannot be read so.
    pub fn new(
        shader: &mut Shader<'_>,
        group: &Group<'_>,
        roots: &[u32],
        rows: Rows,
        unit: usize,
        tag: &str,
    ) -> Option<Computed> {
        let recipe = group.recipe();
        let needed = group.needed(roots.iter().copied());
        let (numbers, wanted) = group.inputs(&needed);
        let mut read = read(shader, (&wanted, &recipe.shape), rows, unit, tag)?;
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
            "struct Results{tag} {{ {} }}\nfn one{tag}({}) -> Results{tag} {{\n{statements}  return Results{tag}({});\n}}",
            fields.collect::<Vec<_>>().join(", "),
            parameters.join(", "),
            values.collect::<Vec<_>>().join(", "),
        );
        for lane in 0..unit {
            let own: Vec<&str> = read.elements.iter().map(|v| v[lane].as_str()).collect();
            let _ = writeln!(
                read.inside,
                "  let {tag}r{lane} = one{tag}({});",
                own.join(", ")
            );
        }
        Some(Computed {
            outside: read.outside,
            inside: read.inside,
            tag: tag.to_owned(),
            unit,
        })
    }

    /// The values of a root.
    pub fn values(&self, root: usize) -> Vec<String> {
        let tag = &self.tag;
        (0..self.unit)
            .map(|lane| format!("{tag}r{lane}.o{root}"))
            .collect()
    }

    /// The statements that write the first roots to the vectors with the number `i`; nothing where one is too long.
    pub fn stored(
        &self,
        shader: &mut Shader<'_>,
        group: &Group<'_>,
        outputs: &[(u32, &Arc<Memory>)],
    ) -> Option<String> {
        let mut text = String::new();
        for (k, (x, memory)) in outputs.iter().enumerate() {
            let vector = Vector::new(shader.context, group.kind(*x), self.unit)?;
            text += &vector.write(shader, memory, "i", &self.values(k));
        }
        Some(text)
    }
}

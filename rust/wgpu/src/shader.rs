//! Writing shaders: parameters, arrays that are read at any strides, and the text around it all.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::aval::broadcast_strides;
use cotan::kernels::Value;
use wgpu::Features;

use crate::context::{Context, Pipeline};
use crate::expression::Prelude;
use crate::memory::Memory;
use crate::types::{Type, word};

/// Threads of a workgroup.
pub const GROUP: u32 = 256;
/// Workgroups along one axis of a dispatch.
const LINE: u32 = 65_535;

const QUOTIENT: &str =
    "fn quotient(a: u32, b: u32) -> u32 { return u32(i32(f64(i32(a)) / f64(i32(b)))); }\n";

/// One call of a shader.
#[derive(Debug)]
pub struct Dispatch {
    pub pipeline: Arc<Pipeline>,
    /// What is bound behind the parameters.
    pub buffers: Vec<wgpu::Buffer>,
    pub params: Arc<[u32]>,
    pub groups: [u32; 3],
}

/// A space that is walked in row-major order, its axes merged as far as all arrays allow.
#[derive(Debug)]
pub struct Space {
    pub size: usize,
    dims: Vec<usize>,
}

/// An array that a shader reads at points of a space.
#[derive(Debug)]
pub enum Access {
    /// Element by element.
    Contiguous,
    /// One element everywhere.
    Constant,
    /// With these strides for the axes of the space.
    Strided(Vec<isize>),
}

/// A shader while it is written.
pub struct Shader<'c> {
    pub context: &'c Arc<Context>,
    pub prelude: Prelude,
    pub params: Vec<u32>,
    declarations: String,
    buffers: Vec<wgpu::Buffer>,
    /// What the elements of these are.
    stored: Vec<String>,
    /// Functions besides the prelude.
    pub functions: String,
    /// The types that threads of a workgroup share an array of.
    shared: Vec<&'static str>,
    /// Whether threads ask for their subgroup, `subgroup`, and their place in it, `lane`.
    pub uses_subgroups: bool,
}

/// What a shader reads: a number as words of parameters, an array of the device, or what it has computed itself.
#[derive(Debug, Clone)]
pub enum Source {
    Number(Vec<u32>),
    Array(Value, Arc<Memory>),
    /// What the shader has at hand, by the name of it.
    Given(String),
}

impl<'c> Shader<'c> {
    pub fn new(context: &'c Arc<Context>) -> Shader<'c> {
        Shader {
            context,
            prelude: Prelude::default(),
            params: Vec::new(),
            declarations: String::new(),
            buffers: Vec::new(),
            stored: Vec::new(),
            functions: String::new(),
            shared: Vec::new(),
            uses_subgroups: false,
        }
    }

    /// Adds a parameter; its expression.
    pub fn param(&mut self, value: u32) -> String {
        self.params.push(value);
        word(self.params.len() - 1)
    }

    /// Binds an array of elements or vectors; its name.
    pub fn bind(&mut self, buffer: &wgpu::Buffer, stored: &str, is_written: bool) -> String {
        let mut known = self.buffers.iter().zip(&self.stored);
        let known = known.position(|(b, of)| b == buffer && of == stored);
        if let Some(known) = known.filter(|_| !is_written) {
            return format!("b{}", known + 1);
        }
        self.buffers.push(buffer.clone());
        self.stored.push(stored.to_owned());
        let at = self.buffers.len();
        let access = if is_written { "read_write" } else { "read" };
        let _ = writeln!(
            self.declarations,
            "@group(0) @binding({at}) var<storage, {access}> b{at}: array<{stored}>;"
        );
        format!("b{at}")
    }

    /// An array that the threads of a workgroup share, one element for each; its name.
    pub fn shared(&mut self, kind: &'static str) -> String {
        if !self.shared.contains(&kind) {
            self.shared.push(kind);
            let _ = writeln!(
                self.functions,
                "var<workgroup> shared_{kind}: array<{kind}, {GROUP}>;"
            );
        }
        format!("shared_{kind}")
    }

    /// A quotient of numbers up to 2^31. Processors divide integers one after the other, and float64 four at a time; its
    /// quotient is off by less than the distance of a fraction to the next integer.
    pub fn quotient(&mut self, a: &str, b: &str) -> String {
        let context = self.context;
        if !context.is_soft || !context.features.contains(Features::SHADER_F64) {
            return format!("{a} / {b}");
        }
        if !self.functions.contains(QUOTIENT) {
            self.functions += QUOTIENT;
        }
        format!("quotient({a}, {b})")
    }

    /// How many arrays are bound.
    pub fn num_bound(&self) -> usize {
        self.buffers.len()
    }

    /// Reads arrays at the point `i` of a space: statements before, and an expression for each.
    pub fn read(
        &mut self,
        space: &Space,
        sources: &[(Source, Type)],
        shape: &[usize],
    ) -> (String, Vec<String>) {
        let (dims, accesses) = accesses(sources, shape);
        let mut before = String::new();
        if accesses
            .iter()
            .flatten()
            .any(|a| matches!(a, Access::Strided(_)))
        {
            let _ = writeln!(before, "  var rest = i;");
            for axis in (0..dims.len()).rev() {
                if axis == 0 {
                    let _ = writeln!(before, "  let c0 = rest;");
                } else {
                    let dim = self.param(dims[axis] as u32);
                    let quotient = self.quotient("rest", &dim);
                    let _ = writeln!(
                        before,
                        "  let n{axis} = {quotient}; let c{axis} = rest - n{axis} * {dim}; rest = n{axis};"
                    );
                }
            }
        }
        debug_assert_eq!(space.dims.len(), shape.len());
        let mut read = Vec::new();
        for ((source, kind), access) in sources.iter().zip(accesses) {
            read.push(match (source, access) {
                (Source::Number(words), _) => {
                    let at = self.params.len();
                    self.params.extend(words);
                    kind.number_at(at)
                }
                (Source::Array(value, memory), Some(access)) => {
                    let name = self.bind(memory.buffer(), kind.stored, false);
                    let mut index = self.param(value.first() as u32);
                    match access {
                        Access::Contiguous => index += " + i",
                        Access::Constant => {}
                        Access::Strided(strides) => {
                            for (axis, &stride) in strides.iter().enumerate() {
                                if stride != 0 {
                                    let stride = self.param(stride as u32);
                                    let _ = write!(index, " + c{axis} * {stride}");
                                }
                            }
                        }
                    }
                    kind.load(&format!("{name}[{index}]"))
                }
                (Source::Given(name), _) => name.clone(),
                // Each array has strides.
                (Source::Array(..), None) => String::new(),
            });
        }
        (before, read)
    }

    /// The dispatch of a shader whose `main` has these statements, over `threads` points: `i` is the number of one.
    pub fn over(mut self, threads: usize, body: &str) -> Result<Dispatch> {
        let count = self.param(threads as u32);
        let main = format!(
            "@compute @workgroup_size({GROUP})\nfn main(@builtin(workgroup_id) w: vec3<u32>, \
             @builtin(local_invocation_index) l: u32, @builtin(num_workgroups) g: vec3<u32>) {{\n  \
             let i = (w.y * g.x + w.x) * {GROUP}u + l;\n  if (i >= {count}) {{ return; }}\n{body}}}\n"
        );
        let groups = threads.div_ceil(GROUP as usize) as u32;
        self.finish(&main, spread(groups))
    }

    /// The dispatch of a shader that a workgroup runs for each of `count` points: `i` is the number of the point, `l` that
    /// of the thread.
    pub fn over_groups(self, count: usize, body: &str) -> Result<Dispatch> {
        self.over_groups_of(GROUP, count, body)
    }

    /// The same for teams ([`Context::team`]).
    pub fn over_teams(self, count: usize, body: &str) -> Result<Dispatch> {
        let team = self.context.team();
        self.over_groups_of(team, count, body)
    }

    fn over_groups_of(mut self, threads: u32, count: usize, body: &str) -> Result<Dispatch> {
        let last = self.param(count as u32);
        let more = if self.uses_subgroups {
            ", @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32"
        } else {
            ""
        };
        let main = format!(
            "@compute @workgroup_size({threads})\nfn main(@builtin(workgroup_id) w: vec3<u32>, \
             @builtin(local_invocation_index) l: u32, @builtin(num_workgroups) g: vec3<u32>{more}) {{\n  \
             let i = min(w.y * g.x + w.x, {last} - 1u);\n{body}}}\n"
        );
        self.finish(&main, spread(count as u32))
    }

    /// The dispatch of a shader with this text behind the declarations.
    pub fn finish(self, main: &str, groups: [u32; 3]) -> Result<Dispatch> {
        let half = self.context.features.contains(Features::SHADER_F16);
        let enable = if half && self.declarations.contains("f16") {
            "enable f16;\n"
        } else {
            ""
        };
        let matrices = if main.contains("coop_mat") {
            "enable wgpu_cooperative_matrix;\n"
        } else {
            ""
        };
        // In uniform memory, which is read once for many threads. A kernel of hundreds of arrays may have more of them.
        let vectors = self.params.len().div_ceil(4).max(1);
        let space = if vectors as u64 * 16 <= self.context.limits.max_uniform_buffer_binding_size {
            "uniform"
        } else {
            "storage, read"
        };
        let source = format!(
            "{enable}{matrices}@group(0) @binding(0) var<{space}> P: array<vec4<u32>, {vectors}>;\n{}\
             var<private> INFINITY: u32 = 0x7f800000u;\n{}{}{main}",
            self.declarations,
            self.prelude.source(),
            self.functions,
        );
        let mut params = self.params;
        params.resize(vectors * 4, 0);
        Ok(Dispatch {
            pipeline: self.context.pipeline(source)?,
            buffers: self.buffers,
            params: params.into(),
            groups,
        })
    }
}

/// So many workgroups in one line, or in several.
fn spread(groups: u32) -> [u32; 3] {
    let lines = groups.div_ceil(LINE).max(1);
    [groups.div_ceil(lines).max(1), lines, 1]
}

impl Space {
    pub fn new(shape: &[usize]) -> Space {
        Space {
            size: shape.iter().product(),
            dims: shape.to_vec(),
        }
    }
}

/// Axes merged with the next one where all strides allow it; those of length one are left out.
fn merged(
    shape: &[usize],
    strides: &[Option<Vec<isize>>],
) -> (Vec<usize>, Vec<Option<Vec<isize>>>) {
    let mut dims: Vec<usize> = Vec::new();
    let mut kept: Vec<Option<Vec<isize>>> = strides
        .iter()
        .map(|s| s.as_ref().map(|_| Vec::new()))
        .collect();
    for (axis, &n) in shape.iter().enumerate().filter(|&(_, &n)| n != 1) {
        let joins = !dims.is_empty()
            && strides.iter().zip(&kept).all(|(s, k)| match (s, k) {
                (Some(s), Some(k)) => k[k.len() - 1] == s[axis] * n as isize,
                _ => true,
            });
        if joins {
            *dims.last_mut().unwrap_or(&mut 0) *= n;
        } else {
            dims.push(n);
        }
        for (s, k) in strides.iter().zip(&mut kept) {
            if let (Some(s), Some(k)) = (s, k) {
                if joins {
                    k.pop();
                }
                k.push(s[axis]);
            }
        }
    }
    (dims, kept)
}

/// How arrays are read at points of a shape, whose axes are merged as far as all of them allow.
pub fn accesses(sources: &[(Source, Type)], shape: &[usize]) -> (Vec<usize>, Vec<Option<Access>>) {
    let strides: Vec<Option<Vec<isize>>> = (sources.iter())
        .map(|(source, _)| match source {
            Source::Array(value, _) => {
                Some(broadcast_strides(value.shape(), value.strides(), shape).to_vec())
            }
            Source::Number(_) | Source::Given(_) => None,
        })
        .collect();
    let (dims, merged) = merged(shape, &strides);
    let found = (merged.into_iter()).map(|s| s.map(|s| access(&dims, s)));
    let found = found.collect();
    (dims, found)
}

fn access(dims: &[usize], strides: Vec<isize>) -> Access {
    if strides.iter().all(|&s| s == 0) {
        return Access::Constant;
    }
    let mut step = 1isize;
    for (&n, &s) in dims.iter().zip(&strides).rev() {
        if s != step {
            return Access::Strided(strides);
        }
        step *= n as isize;
    }
    Access::Contiguous
}

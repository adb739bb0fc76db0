//! Products of matrices, and convolutions, which are such products: tiles in shared memory, and some rows and columns of
//! each tile in the registers of each thread.
//!
//! Which shape tiles have depends on the product's, and on the device: drivers that compute on the processor have tiles
//! without shared memory ([`crate::lanes`]). A product with few results and a long sum is cut into parts of the sum,
//! which are added up in one order.

use std::fmt::Write;
use std::sync::Arc;

use cotan::Result;
use cotan::aval::{WindowDim, broadcast_strides};
use cotan::kernels::Value;

use crate::context::Context;
use crate::lanes;
use crate::memory::Memory;
use crate::shader::{Dispatch, Shader};
use crate::types::Type;
use crate::units::{self, Unit};
use crate::window::{Seen, places};

/// Rows and columns of a tile, how many of both a thread computes, and how far a tile goes along the sum.
#[derive(Debug, Clone, Copy)]
pub struct Tile {
    pub rows: usize,
    pub columns: usize,
    pub own_rows: usize,
    pub own_columns: usize,
    pub depth: usize,
    /// What multiplies matrices for a subgroup, which has the own rows and columns then.
    pub unit: Option<Unit>,
}

const fn tile(rows: usize, columns: usize, own: [usize; 2], depth: usize) -> Tile {
    Tile {
        rows,
        columns,
        own_rows: own[0],
        own_columns: own[1],
        depth,
        unit: None,
    }
}

/// The largest first. Each has 256 threads.
const TILES: [Tile; 3] = [
    tile(128, 128, [8, 8], 8),
    tile(64, 64, [4, 4], 16),
    tile(32, 32, [2, 2], 32),
];
/// For few columns, and for few rows.
const TALL: Tile = tile(128, 16, [8, 1], 16);
const WIDE: Tile = tile(16, 128, [1, 8], 16);
const THREADS: usize = 256;
/// So many workgroups keep a device busy.
pub const BUSY: usize = 256;
/// A part of a sum has so many terms at least.
const PART: usize = 256;
/// Most workgroups along an axis of a dispatch.
const MOST: usize = 65_535;
/// A convolution with fewer results of a group than this has no tiles.
const FEW_RESULTS: usize = 8;

impl Tile {
    /// The tile for a product.
    fn of(context: &Context, shape: [usize; 4], kind: Type) -> Tile {
        let [rows, columns, _, batches] = shape;
        if let Some(tile) = units::tile(context, shape, kind) {
            return tile;
        }
        if context.is_soft {
            return lanes::tile(context, [rows, columns], kind);
        }
        if columns <= 16 && rows > 32 {
            return TALL;
        }
        if rows <= 16 && columns > 32 {
            return WIDE;
        }
        let fits = |t: &&Tile| {
            let is_full = t.rows <= 2 * rows && t.columns <= 2 * columns;
            is_full && t.count(rows, columns) * batches >= BUSY
        };
        *TILES.iter().find(fits).unwrap_or(&TILES[2])
    }

    /// The workgroups of a pass: one for each tile of each layer.
    pub fn groups(&self, rows: usize, columns: usize, layers: usize) -> [u32; 3] {
        let counts = [
            columns.div_ceil(self.columns),
            rows.div_ceil(self.rows),
            layers,
        ];
        counts.map(|count| count as u32)
    }

    pub fn count(&self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(self.rows) * columns.div_ceil(self.columns)
    }
}

/// Texts that find the elements of a right factor for terms from `first` on; names that end in `_here` depend on the column.
pub struct Walk {
    /// Statements for `column_here`.
    pub of_column: String,
    /// Statements for `first`.
    pub of_sum: String,
    /// Statements that find `y_here`.
    pub read: String,
    /// Statements that go on to the next term.
    pub next: String,
}

/// A product while it is written. The functions `left_at(row, k)` and `right_at(k, column)` of the shader give its factors
/// for the batch `z`; `starts` are statements that run before the first of these is called.
pub struct Product<'c> {
    pub shader: Shader<'c>,
    pub kind: Type,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub batches: usize,
    pub starts: String,
    /// Whether neighbours along the sum lie side by side: in the left factor, and in the right one.
    left_is_deep: bool,
    right_is_deep: bool,
    /// Where the result at `row` and `column` belongs.
    pub place: String,
    /// How often the one row and the one column come in the result: more than once where a factor has the same in all.
    pub repeats: [usize; 2],
    /// How elements of the right factor are found one after the other, where `right_at` takes long.
    pub walk: Option<Walk>,
}

/// What becomes of a result `x` that belongs to place `i`: statements.
pub trait Finish {
    /// Writes them, and binds what they need.
    fn write(&self, shader: &mut Shader<'_>) -> String;

    /// Whether they are so few that a kernel may have them hundreds of times.
    fn is_short(&self) -> bool {
        false
    }
}

/// Writes it to memory.
pub struct Plain<'m>(pub &'m Arc<Memory>);

impl Finish for Plain<'_> {
    fn write(&self, shader: &mut Shader<'_>) -> String {
        let kind = self.0.kind;
        let out = shader.bind(self.0.buffer(), kind.stored, true);
        format!("  {out}[i] = {};\n", kind.store(&kind.narrowed("x")))
    }

    fn is_short(&self) -> bool {
        true
    }
}

impl Product<'_> {
    /// The passes, and the shape of their parts.
    fn passes(self, finish: &dyn Finish) -> Result<Option<Vec<Dispatch>>> {
        let shape = [self.rows, self.columns, self.depth, self.batches];
        let tile = Tile::of(self.shader.context, shape, self.kind);
        self.passes_of(tile, finish)
    }

    /// The passes with a tile.
    pub fn passes_of(mut self, tile: Tile, finish: &dyn Finish) -> Result<Option<Vec<Dispatch>>> {
        let (context, kind) = (self.shader.context, self.kind);
        // Whether threads have so many results that a group is not computed for each of them.
        let soft = context.is_soft && tile.unit.is_none();
        let count = tile.count(self.rows, self.columns) * self.batches;
        let busy = if soft { lanes::BUSY } else { BUSY };
        let wanted = busy.div_ceil(count).min(self.depth / PART).max(1);
        let wanted = wanted.max(
            self.depth
                .div_ceil(context.longest_loop.saturating_mul(tile.depth)),
        );
        let length = (self.depth.div_ceil(wanted)).next_multiple_of(tile.depth);
        let parts = self.depth.div_ceil(length).max(1);
        if self.batches * parts > MOST
            || self.rows.div_ceil(tile.rows) > MOST
            || self.columns.div_ceil(tile.columns) > MOST
        {
            return Ok(None);
        }
        let most = context.most_bound();
        let repeats = self.repeats;
        let is_alone = parts == 1 && repeats == [1, 1];
        if is_alone && (!soft || finish.is_short()) {
            let last = finish.write(&mut self.shader);
            if self.shader.num_bound() > most {
                return Ok(None);
            }
            return self.pass(tile, 1, length, &last).map(|d| Some(vec![d]));
        }
        let size = self.rows * self.columns * self.batches;
        let results = size * repeats[0] * repeats[1];
        if size * parts > i32::MAX as usize {
            return Ok(None);
        }
        let between = kind.plain();
        let partial = Arc::new(Memory::new(context, between, size * parts)?.0);
        let out = self.shader.bind(partial.buffer(), between.stored, true);
        let p_size = self.shader.param(size as u32);
        let last = format!("  {out}[part * {p_size} + i] = x;\n");
        let (rows, columns) = (self.rows * repeats[0], self.columns * repeats[1]);
        let first = self.pass(tile, parts, length, &last)?;
        let mut shader = Shader::new(context);
        let list = shader.bind(partial.buffer(), between.stored, false);
        let (s_size, s_parts) = (shader.param(size as u32), shader.param(parts as u32));
        let last = finish.write(&mut shader);
        if shader.num_bound() > most {
            return Ok(None);
        }
        let place = match repeats {
            [1, 1] => "i".to_owned(),
            [1, _] => format!("i / {}", shader.param(columns as u32)),
            [_, repeated] => {
                let (p_columns, p_size) = (
                    shader.param(columns as u32),
                    shader.param((rows * columns) as u32),
                );
                if repeated == 1 {
                    format!("(i / {p_size}) * {p_columns} + i % {p_columns}")
                } else {
                    format!("i / {p_size}")
                }
            }
        };
        let body = format!(
            "  let place = {place};\n  var x = {list}[place];\n  for (var part = 1u; part < {s_parts}; part = part + 1u) {{ \
             x = x + {list}[part * {s_size} + place]; }}\n{last}"
        );
        let second = shader.over(results, &body)?;
        Ok(Some(vec![first, second]))
    }

    /// A pass over parts of the sum of so many terms.
    fn pass(self, tile: Tile, parts: usize, length: usize, last: &str) -> Result<Dispatch> {
        if let Some(unit) = tile.unit {
            return units::pass(self, (tile, unit), parts, length, last);
        }
        if self.shader.context.is_soft {
            return lanes::pass(self, tile, parts, length, last);
        }
        let [left_place, right_place] = staged(&self, &tile);
        let Product {
            mut shader,
            kind,
            rows,
            columns,
            depth,
            batches,
            starts,
            place,
            ..
        } = self;
        let name = kind.name;
        let [pm, pn, pk, p_length, p_parts] =
            [rows, columns, depth, length, parts].map(|d| shader.param(d as u32));
        let (tm, tn, td) = (tile.rows, tile.columns, tile.depth);
        let across = tn / tile.own_columns;
        let (mut zero, mut products, mut stores) = (String::new(), String::new(), String::new());
        for i in 0..tile.own_rows {
            let own = tile.own_rows;
            let _ = writeln!(
                products,
                "      let x{i} = left[t * {tm}u + ty * {own}u + {i}u];"
            );
        }
        for j in 0..tile.own_columns {
            let own = tile.own_columns;
            let _ = writeln!(
                products,
                "      let y{j} = right[t * {tn}u + tx * {own}u + {j}u];"
            );
        }
        for i in 0..tile.own_rows {
            for j in 0..tile.own_columns {
                let _ = writeln!(zero, "  var s{i}_{j} = {name}(0);");
                let _ = writeln!(products, "      s{i}_{j} = s{i}_{j} + x{i} * y{j};");
                let _ = writeln!(
                    stores,
                    "  if (row0 + {i}u < {pm} && col0 + {j}u < {pn}) {{ finish(row0 + {i}u, col0 + {j}u, s{i}_{j}); }}"
                );
            }
        }
        let main = format!(
            "fn finish(row: u32, column: u32, x: {name}) {{\n  let i = {place};\n{last}}}\n\
             var<workgroup> left: array<{name}, {left_area}>;\nvar<workgroup> right: array<{name}, {right_area}>;\n\
             @compute @workgroup_size({THREADS})\nfn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) l: u32) {{\n  \
             z = w.z / {p_parts}; part = w.z % {p_parts};\n{starts}  let tx = l % {across}u;\n  let ty = l / {across}u;\n{zero}  \
             let end = min((part + 1u) * {p_length}, {pk});\n  \
             for (var k0 = part * {p_length}; k0 < end; k0 = k0 + {td}u) {{\n    \
             for (var e = l; e < {left_area}u; e = e + {THREADS}u) {{\n      \
             {left_place}\n      let row = w.y * {tm}u + r; let col = k0 + c;\n      \
             var v = {name}(0);\n      if (row < {pm} && col < end) {{ v = left_at(row, col); }}\n      left[c * {tm}u + r] = v;\n    }}\n    \
             for (var e = l; e < {right_area}u; e = e + {THREADS}u) {{\n      \
             {right_place}\n      let row = k0 + r; let col = w.x * {tn}u + c;\n      \
             var v = {name}(0);\n      if (row < end && col < {pn}) {{ v = right_at(row, col); }}\n      right[r * {tn}u + c] = v;\n    }}\n    \
             workgroupBarrier();\n    for (var t = 0u; t < {td}u; t = t + 1u) {{\n{products}    }}\n    workgroupBarrier();\n  }}\n  \
             let row0 = w.y * {tm}u + ty * {own_rows}u;\n  let col0 = w.x * {tn}u + tx * {own_columns}u;\n{stores}}}\n",
            left_area = tm * td,
            right_area = tn * td,
            own_rows = tile.own_rows,
            own_columns = tile.own_columns,
        );
        let groups = tile.groups(rows, columns, batches * parts);
        declare(&mut shader);
        shader.finish(&main, groups)
    }
}

/// Declares what the functions of a product read besides their arguments.
pub fn declare(shader: &mut Shader<'_>) {
    shader.functions = format!(
        "var<private> z: u32;\nvar<private> part: u32;\nvar<private> left0: u32;\nvar<private> right0: u32;\n{}",
        shader.functions
    );
}

/// Which row `r` and column `c` of the stretches of both factors in shared memory is element `e`: threads that lie side by
/// side read elements that lie side by side.
pub fn staged(product: &Product<'_>, tile: &Tile) -> [String; 2] {
    let place = |is_deep: bool, wide: usize, other: &str, along: &str| {
        if is_deep {
            let td = tile.depth;
            format!("let {other} = e / {td}u; let {along} = e % {td}u;")
        } else {
            format!("let {other} = e % {wide}u; let {along} = e / {wide}u;")
        }
    };
    [
        place(product.left_is_deep, tile.rows, "r", "c"),
        place(product.right_is_deep, tile.columns, "c", "r"),
    ]
}

/// A product of matrices, with axes before the last two that broadcast. Both lie on the device.
pub fn matmul(
    context: &Arc<Context>,
    factors: [(&Value, &Arc<Memory>); 2],
    shape: &[usize],
    kind: Type,
    finish: &dyn Finish,
) -> Result<Option<Vec<Dispatch>>> {
    if kind.name == "bool" {
        return Ok(None);
    }
    of_matrices(context, factors, shape, kind).passes(finish)
}

/// The product of matrices.
pub fn of_matrices<'c>(
    context: &'c Arc<Context>,
    [(a, a_memory), (b, b_memory)]: [(&Value, &Arc<Memory>); 2],
    shape: &[usize],
    kind: Type,
) -> Product<'c> {
    let rank = shape.len();
    let (m, n) = (shape[rank - 2], shape[rank - 1]);
    let k = a.shape()[a.shape().len() - 1];
    let heads = &shape[..rank - 2];
    let mut shader = Shader::new(context);
    let a_name = shader.bind(a_memory.buffer(), kind.stored, false);
    let b_name = shader.bind(b_memory.buffer(), kind.stored, false);
    let mut starts = String::from("  var rest = z;\n");
    let (mut a_first, mut b_first) = (
        shader.param(a.first() as u32),
        shader.param(b.first() as u32),
    );
    let own = |v: &Value| {
        let inner = v.shape().len() - 2;
        broadcast_strides(&v.shape()[..inner], &v.strides()[..inner], heads)
    };
    let (a_heads, b_heads) = (own(a), own(b));
    for axis in (0..heads.len()).rev() {
        let dim = shader.param(heads[axis] as u32);
        let (sa, sb) = (
            shader.param(a_heads[axis] as u32),
            shader.param(b_heads[axis] as u32),
        );
        let _ = writeln!(starts, "  let h{axis} = rest % {dim}; rest = rest / {dim};");
        let _ = write!(a_first, " + h{axis} * {sa}");
        let _ = write!(b_first, " + h{axis} * {sb}");
    }
    let _ = writeln!(starts, "  left0 = {a_first};\n  right0 = {b_first};");
    let last = |v: &Value, back: usize| v.strides()[v.strides().len() - back];
    let [sam, sak, sbk, sbn] =
        [last(a, 2), last(a, 1), last(b, 2), last(b, 1)].map(|s| shader.param(s as u32));
    let a_load = kind.load(&format!("{a_name}[left0 + row * {sam} + k * {sak}]"));
    let b_load = kind.load(&format!("{b_name}[right0 + k * {sbk} + column * {sbn}]"));
    let name = kind.name;
    shader.functions = format!(
        "fn left_at(row: u32, k: u32) -> {name} {{ return {a_load}; }}\n\
         fn right_at(k: u32, column: u32) -> {name} {{ return {b_load}; }}\n"
    );
    // What all rows or all columns have in common is computed once.
    let repeats = [(a, 2, m), (b, 1, n)].map(|(v, axis, n)| if last(v, axis) == 0 { n } else { 1 });
    let (m, n) = (m / repeats[0], n / repeats[1]);
    let (pm, pn) = (shader.param(m as u32), shader.param(n as u32));
    Product {
        shader,
        kind,
        rows: m,
        columns: n,
        depth: k,
        batches: heads.iter().product(),
        starts,
        left_is_deep: last(a, 1) == 1,
        right_is_deep: last(b, 1) != 1,
        place: format!("(z * {pm} + row) * {pn} + column"),
        repeats,
        walk: None,
    }
}

/// The convolution of images `(n, g, c, ...)` with kernels `(g, o, c, ...)`, both in row-major order.
pub fn conv(
    context: &Arc<Context>,
    [(x, x_shape), (y, y_shape)]: [(&Arc<Memory>, &[usize]); 2],
    dims: &[WindowDim],
    shape: &[usize],
    kind: Type,
    finish: &dyn Finish,
) -> Result<Option<Vec<Dispatch>>> {
    let (groups, channels, results) = (x_shape[1], x_shape[2], y_shape[1]);
    let taps: usize = y_shape[3..].iter().product();
    let spots: usize = shape[3..].iter().product();
    let pixels: usize = x_shape[3..].iter().product();
    let mut shader = Shader::new(context);
    let image = shader.bind(x.buffer(), kind.stored, false);
    let kernel = shader.bind(y.buffer(), kind.stored, false);
    let [p_groups, p_channels, p_results, p_taps, p_spots, p_pixels] =
        [groups, channels, results, taps, spots, pixels].map(|n| shader.param(n as u32));
    let seen = places(&mut shader, dims, &x_shape[3..], "spot", "tap");
    let Seen { inside, at, .. } = &seen;
    let name = kind.name;
    let x_load = kind.load(&format!("{image}[line * {p_pixels} + u32({at})]"));
    let y_load = kind.load(&format!(
        "{kernel}[(z * {p_results} + row) * {p_channels} * {p_taps} + k]"
    ));
    shader.functions = format!(
        "fn left_at(row: u32, k: u32) -> {name} {{ return {y_load}; }}\n\
         fn right_at(k: u32, column: u32) -> {name} {{\n  let tap = k % {p_taps}; let spot = column % {p_spots};\n{}  \
         if (!({inside})) {{ return {name}(0); }}\n  \
         let line = ((column / {p_spots}) * {p_groups} + z) * {p_channels} + k / {p_taps};\n  return {x_load};\n}}\n",
        seen.before(),
    );
    let walk = Walk {
        of_column: format!(
            "  let spot_of_here = column_here % {p_spots};\n{}  \
             let line_here = ((column_here / {p_spots}) * {p_groups} + z) * {p_channels};\n",
            seen.of_spot.replace("= spot;", "= spot_of_here;")
        ),
        of_sum: format!(
            "  let tap = first % {p_taps}; var channel = first / {p_taps};\n{}",
            seen.of_tap
        ),
        // Behind the last tap of a channel comes the first one of the next.
        next: match dims.len() {
            0 => "  channel = channel + 1u;\n".to_owned(),
            _ => seen
                .next_tap
                .replace("{ tap0 = 0u; }", "{ tap0 = 0u; channel = channel + 1u; }"),
        },
        read: format!(
            "{}  let inside_here = {inside};\n  \
             let read_here = {};\n  let y_here = select({name}(0), read_here, inside_here);\n",
            seen.of_both,
            kind.load(&format!(
                "{image}[select(0u, (line_here + channel) * {p_pixels} + u32({at}), inside_here)]"
            )),
        ),
    };
    let place = format!(
        "(((column / {p_spots}) * {p_groups} + z) * {p_results} + row) * {p_spots} + column % {p_spots}"
    );
    let (columns, depth) = (shape[0] * spots, channels * taps);
    if results >= FEW_RESULTS || depth > context.longest_loop {
        let product = Product {
            shader,
            kind,
            rows: results,
            columns,
            depth,
            batches: groups,
            starts: String::new(),
            left_is_deep: true,
            right_is_deep: false,
            place,
            repeats: [1, 1],
            walk: Some(walk),
        };
        return product.passes(finish);
    }
    // A thread for each result.
    shader.functions = format!("var<private> z: u32;\n{}", shader.functions);
    let p_depth = shader.param(depth as u32);
    let last = finish.write(&mut shader);
    if shader.num_bound() > context.most_bound() {
        return Ok(None);
    }
    let body = format!(
        "  let spot = i % {p_spots}; let row = (i / {p_spots}) % {p_results};\n  \
         z = (i / ({p_spots} * {p_results})) % {p_groups};\n  \
         let column = (i / ({p_spots} * {p_results} * {p_groups})) * {p_spots} + spot;\n  var x = {name}(0);\n  \
         for (var k = 0u; k < {p_depth}; k = k + 1u) {{ x = x + left_at(row, k) * right_at(k, column); }}\n{last}"
    );
    let one = shader.over(results * groups * columns, &body)?;
    Ok(Some(vec![one]))
}

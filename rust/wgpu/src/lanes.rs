//! Tiles of products for drivers that compute on the processor: no shared memory, and no thread waits for another one.
//!
//! Such a driver computes the threads of a subgroup with one vector instruction, and reads their elements one after the
//! other. So a subgroup takes a tile: each thread columns of its own and all rows. A row's element is read by one thread,
//! which hands it to the others, as long as devices let threads of a subgroup do so.

use std::fmt::Write;

use cotan::Result;

use crate::context::Context;
use crate::product::{Product, Tile, declare};
use crate::shader::Dispatch;
use crate::types::Type;
use crate::window::Seen;

/// So many tiles keep a processor busy.
pub const BUSY: usize = 16;
/// Threads of a tile where subgroups have several sizes.
const LANES: usize = 8;
/// Rows of a tile where threads cannot hand elements to each other: each reads all of them.
const APART: usize = 8;

/// How many threads hand elements of this type to each other.
fn together(context: &Context, kind: Type) -> Option<usize> {
    let exchanges = matches!(kind.name, "f32" | "f64" | "i32" | "u32");
    context.subgroup.filter(|_| exchanges).map(|n| n as usize)
}

/// The tile for a product of so many rows and columns.
pub fn tile(context: &Context, [rows, columns]: [usize; 2], kind: Type) -> Tile {
    let size = together(context, kind);
    let lanes = size.unwrap_or(LANES);
    let (most_rows, most_columns) = if kind.size > 4 { (16, 8) } else { (32, 8) };
    let most_rows = if size.is_some() { most_rows } else { APART };
    let own_rows = rows.next_power_of_two().min(most_rows);
    let wanted = columns.div_ceil(lanes).next_power_of_two();
    let own_columns = wanted.min(most_columns);
    Tile {
        rows: own_rows,
        columns: lanes * own_columns,
        own_rows,
        own_columns,
        depth: 1,
        unit: None,
    }
}

/// A pass over parts of the sum of so many terms; `last` are the statements for a result `x` that belongs to place `i`.
pub fn pass(
    product: Product<'_>,
    tile: Tile,
    parts: usize,
    length: usize,
    last: &str,
) -> Result<Dispatch> {
    let Product {
        mut shader,
        kind,
        rows,
        columns,
        depth,
        batches,
        starts,
        place,
        walk,
        ..
    } = product;
    let name = kind.name;
    let size = together(shader.context, kind);
    let lanes = tile.columns / tile.own_columns;
    let [pm, pn, pk, p_length, p_parts] =
        [rows, columns, depth, length, parts].map(|d| shader.param(d as u32));
    let (mut before, mut body, mut stores) = (String::new(), String::new(), String::new());
    // Places behind the last row and column are read as those, and not written.
    let step = size.unwrap_or(1);
    let lane = if size.is_some() { "lane" } else { "0u" };
    for g in 0..tile.own_rows.div_ceil(step) {
        let _ = writeln!(
            before,
            "  let row{g} = min(first_row + {}u + {lane}, {pm} - 1u);",
            g * step
        );
        let _ = writeln!(body, "    let x{g} = left_at(row{g}, k);");
    }
    for j in 0..tile.own_columns {
        let _ = writeln!(
            before,
            "  let column{j} = min(first_column + {}u, {pn} - 1u);",
            j * lanes
        );
        match &walk {
            None => {
                let _ = writeln!(body, "    let y{j} = right_at(k, column{j});");
            }
            Some(walk) => {
                let numbered = |text: &str| Seen::numbered(text, j);
                let _ = writeln!(before, "  let column_{j} = column{j};");
                before += &numbered(&walk.of_column);
                body += &numbered(&walk.read);
                let _ = writeln!(body, "    let y{j} = y_{j};");
            }
        }
    }
    let (of_sum, next) = walk.map_or_else(Default::default, |walk| (walk.of_sum, walk.next));
    let is_fused = matches!(name, "f32" | "f64");
    for i in 0..tile.own_rows {
        let element = match size {
            Some(n) => format!("subgroupBroadcast(x{}, {}u)", i / n, i % n),
            None => format!("x{i}"),
        };
        let _ = writeln!(body, "    let r{i} = {element};");
        for j in 0..tile.own_columns {
            let _ = writeln!(before, "  var s{i}_{j} = {name}(0);");
            let sum = if is_fused {
                format!("fma(r{i}, y{j}, s{i}_{j})")
            } else {
                format!("s{i}_{j} + r{i} * y{j}")
            };
            let _ = writeln!(body, "    s{i}_{j} = {sum};");
            let (row, column) = (
                format!("first_row + {i}u"),
                format!("first_column + {}u", j * lanes),
            );
            let _ = writeln!(
                stores,
                "  if ({row} < {pm} && {column} < {pn}) {{ finish({row}, {column}, s{i}_{j}); }}"
            );
        }
    }
    let thread = if size.is_some() {
        "@builtin(subgroup_invocation_id) lane: u32"
    } else {
        "@builtin(local_invocation_index) lane: u32"
    };
    let main = format!(
        "fn finish(row: u32, column: u32, x: {name}) {{\n  let i = {place};\n{last}}}\n\
         @compute @workgroup_size({lanes})\nfn main(@builtin(workgroup_id) w: vec3<u32>, {thread}) {{\n  \
         z = w.z / {p_parts}; part = w.z % {p_parts};\n{starts}  \
         let first_row = w.y * {}u; let first_column = w.x * {}u + lane;\n{before}  \
         let first = part * {p_length}; let end = min(first + {p_length}, {pk});\n{of_sum}  \
         for (var k = first; k < end; k = k + 1u) {{\n{body}{next}  }}\n{stores}}}\n",
        tile.rows, tile.columns,
    );
    let groups = tile.groups(rows, columns, batches * parts);
    declare(&mut shader);
    shader.finish(&main, groups)
}

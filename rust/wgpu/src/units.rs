//! Matrix units: tiles of products whose subgroups multiply small matrices at once, where the device can (tensor cores,
//! simdgroup matrices; wgpu calls them cooperative matrices).
//!
//! A workgroup brings a stretch of both factors to shared memory, as for the other tiles: at any strides, with zeros behind
//! the last row, column and term. Each subgroup then multiplies its block, matrix by matrix, and hands the sums through
//! shared memory to its threads, which do with each result what the other tiles do. So a unit sees whole matrices alone.
//!
//! Units are taken only where they lose nothing: factors of float16 with sums of float32, which is what the processor
//! computes, and factors of float32 with sums of float32. Each kind is tried out once ([`crate::units_check`]).

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use cotan::DType;
use cotan::Result;
use wgpu::{CooperativeMatrixProperties, CooperativeScalarType, Features};

use crate::context::Context;
use crate::product::{BUSY, Product, Tile, declare, staged};
use crate::shader::Dispatch;
use crate::types::Type;

/// Blocks of a tile: two rows of two.
const BLOCKS: usize = 4;
/// Rows and columns of a block, the largest first.
const SIZES: [[usize; 2]; 3] = [[64, 32], [32, 32], [16, 16]];
/// Products with fewer rows or columns have narrow tiles, which wait for memory.
const NARROW: usize = 16;
/// Threads that are meant for a block where subgroups have several sizes.
const LANES: u32 = 32;

/// How a shader says what units do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Units,
    /// Without units, and with so many subgroups.
    #[cfg(test)]
    Plain(u32),
    /// The same with a right factor that is read the wrong way round.
    #[cfg(test)]
    Turned,
    /// The same with other factors and other sums: texts in which these are `$`.
    #[cfg(test)]
    Flawed(&'static str, &'static str),
    /// What does not compile.
    #[cfg(test)]
    Broken,
}

/// A unit: it adds products of matrices with `size` rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    pub size: usize,
    /// The type of the factors; sums are float32.
    pub factors: &'static str,
    pub form: Form,
}

/// What is known of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    Unknown,
    /// It is being tried out, or the device was lost while it was.
    Trying,
    Right,
    Wrong(String),
}

/// The units of a device, which stay when it is lost and opened again.
#[derive(Debug, Default)]
pub struct Units {
    found: Vec<(Unit, Mutex<Trust>)>,
}

/// When units are used: the variable `COTAN_MATRIX_UNITS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    No,
    OfHardware,
    /// For tests: also where a driver computes on the processor, which takes long.
    Always,
}

impl Wanted {
    fn of(text: Option<&str>) -> Wanted {
        match text {
            Some("0") => Wanted::No,
            Some("always") => Wanted::Always,
            _ => Wanted::OfHardware,
        }
    }
}

/// The features that units need besides.
const NEEDED: Features = Features::SUBGROUP.union(Features::EXPERIMENTAL_COOPERATIVE_MATRIX);

/// The units among what an adapter reports: for each type of factors the largest that lose nothing and that wgpu has a type
/// for.
pub fn reported(properties: &[CooperativeMatrixProperties], features: Features) -> Vec<Unit> {
    if !features.contains(NEEDED) {
        return Vec::new();
    }
    let mut found: Vec<Unit> = Vec::new();
    for p in properties {
        let factors = match (p.ab_type, p.cr_type) {
            (CooperativeScalarType::F16, CooperativeScalarType::F32) => "f16",
            (CooperativeScalarType::F32, CooperativeScalarType::F32) => "f32",
            _ => continue,
        };
        let has = factors == "f32" || features.contains(Features::SHADER_F16);
        let is_square = p.m_size == p.n_size && p.n_size == p.k_size;
        if !has || !is_square || !matches!(p.m_size, 8 | 16) || p.saturating_accumulation {
            continue;
        }
        let unit = Unit {
            size: p.m_size as usize,
            factors,
            form: Form::Units,
        };
        match found.iter_mut().find(|known| known.factors == factors) {
            Some(known) if known.size < unit.size => *known = unit,
            Some(_) => {}
            None => found.push(unit),
        }
    }
    found
}

impl Units {
    /// The units of an adapter, as far as they are wanted.
    pub fn of(adapter: &wgpu::Adapter) -> Units {
        let wanted = std::env::var("COTAN_MATRIX_UNITS").ok();
        let is_soft = adapter.get_info().device_type == wgpu::DeviceType::Cpu;
        let properties = adapter.cooperative_matrix_properties();
        match Wanted::of(wanted.as_deref()) {
            Wanted::No => Units::default(),
            Wanted::OfHardware if is_soft => Units::default(),
            _ => Units::new(reported(&properties, adapter.features())),
        }
    }

    pub fn new(units: Vec<Unit>) -> Units {
        let with_trust = |unit| (unit, Mutex::new(Trust::Unknown));
        Units {
            found: units.into_iter().map(with_trust).collect(),
        }
    }

    /// The features that a device needs besides.
    pub fn features(&self) -> Features {
        if self.found.is_empty() {
            Features::empty()
        } else {
            NEEDED
        }
    }

    /// That their features are experimental is known, where they are used.
    #[allow(unsafe_code)]
    pub fn consent(&self) -> wgpu::ExperimentalFeatures {
        if self.found.is_empty() {
            return wgpu::ExperimentalFeatures::disabled();
        }
        // SAFETY: nothing is promised here but that errors of wgpu are reported. Shaders bound each access by themselves: a
        // matrix lies in an array of the workgroup that has room for it, whatever the shape of the product.
        unsafe { wgpu::ExperimentalFeatures::enabled() }
    }

    fn entry(&self, kind: Type) -> Option<&(Unit, Mutex<Trust>)> {
        let factors = match kind.dtype {
            DType::F16 => "f16",
            DType::F32 => "f32",
            _ => return None,
        };
        self.found.iter().find(|(unit, _)| unit.factors == factors)
    }

    /// The unit for products of a type, and what is known of it.
    pub fn known(&self, kind: Type) -> Option<(Unit, Trust)> {
        let (unit, trust) = self.entry(kind)?;
        let trust = trust.lock().unwrap_or_else(PoisonError::into_inner);
        Some((*unit, trust.clone()))
    }

    pub fn set_trust(&self, kind: Type, trust: Trust) {
        if let Some((_, known)) = self.entry(kind) {
            *known.lock().unwrap_or_else(PoisonError::into_inner) = trust;
        }
    }

    /// What there is to say of them, for people.
    pub fn description(&self) -> String {
        let mut text = String::new();
        for (unit, trust) in &self.found {
            let trust = trust.lock().unwrap_or_else(PoisonError::into_inner);
            let bits = &unit.factors[1..];
            let _ = match &*trust {
                Trust::Unknown => continue,
                Trust::Right => write!(text, ", matrix units for float{bits}"),
                Trust::Trying => write!(
                    text,
                    ", matrix units for float{bits} not used: the device was lost while they were tried out"
                ),
                Trust::Wrong(why) => {
                    write!(text, ", matrix units for float{bits} not used: {why}")
                }
            };
        }
        text
    }
}

impl Unit {
    /// Bytes of an element of a factor.
    fn bytes(self) -> usize {
        if self.factors == "f16" { 2 } else { 4 }
    }

    /// The tiles, the largest first.
    pub fn tiles(self) -> [Tile; 3] {
        SIZES.map(|[rows, columns]| Tile {
            rows: 2 * rows,
            columns: 2 * columns,
            own_rows: rows,
            own_columns: columns,
            depth: 64 / self.bytes(),
            unit: Some(self),
        })
    }

    /// Elements from a row of a factor to the next one in shared memory, where it has so many columns. 16 bytes more than
    /// these, so that rows begin in other banks, and still where units may begin to read.
    fn stride(self, columns: usize) -> usize {
        columns + 16 / self.bytes()
    }

    /// The threads of a workgroup.
    fn threads(self, context: &Context) -> u32 {
        match self.form {
            Form::Units => context.subgroup.unwrap_or(LANES) * BLOCKS as u32,
            #[cfg(test)]
            form => form.subgroups() * self.size as u32,
        }
    }

    /// Whether a device has room for a tile.
    pub fn fits(self, context: &Context, tile: &Tile) -> bool {
        let left = tile.rows * self.stride(tile.depth);
        let right = tile.depth * self.stride(tile.columns);
        let results = BLOCKS * self.size * tile.own_columns;
        let shared = (left + right) * self.bytes() + results * 4;
        let limits = &context.limits;
        #[cfg(test)]
        if !self.form.fits(tile.own_rows * tile.own_columns / self.size) {
            return false;
        }
        shared <= limits.max_compute_workgroup_storage_size as usize
            && self.threads(context) <= limits.max_compute_invocations_per_workgroup
    }

    /// The expression of a matrix in shared memory, in row-major order.
    fn load(self, role: char, array: &str, at: &str, stride: usize) -> String {
        match self.form {
            Form::Units => {
                let (size, kind) = (self.size, if role == 'C' { "f32" } else { self.factors });
                format!(
                    "coopLoadT<coop_mat{size}x{size}<{kind}, {role}>>(&{array}[{at}], {stride}u)"
                )
            }
            #[cfg(test)]
            _ => format!("load_{array}({at}, {stride}u)"),
        }
    }

    fn multiply_add(self, [a, b, c]: [&str; 3]) -> String {
        match self.form {
            Form::Units => format!("coopMultiplyAdd({a}, {b}, {c})"),
            #[cfg(test)]
            _ => format!("multiply_add({a}, {b}, {c})"),
        }
    }

    /// The statement that writes a matrix to the shared results.
    fn store(self, matrix: &str, at: &str, stride: usize) -> String {
        match self.form {
            Form::Units => format!("coopStoreT({matrix}, &results[{at}], {stride}u);"),
            #[cfg(test)]
            _ => format!("store({matrix}, {at}, {stride}u);"),
        }
    }

    /// Functions, arguments of `main`, and its first statements: afterwards there are `subgroup`, `subgroups`, `lane` and
    /// `lanes`.
    fn frame(self) -> (String, &'static str, String) {
        match self.form {
            Form::Units => {
                let arguments = ", @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32, \
                                 @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) lanes: u32";
                (String::new(), arguments, String::new())
            }
            #[cfg(test)]
            _ => crate::units_test::frame(self),
        }
    }
}

/// The tile for a product, where it has one with units.
pub fn tile(context: &Context, shape: [usize; 4], kind: Type) -> Option<Tile> {
    let (unit, trust) = context.units.known(kind)?;
    let [rows, columns, depth, batches] = shape;
    if trust != Trust::Right || rows <= NARROW || columns <= NARROW || depth < unit.size {
        return None;
    }
    let tiles: Vec<Tile> = (unit.tiles().into_iter())
        .filter(|t| unit.fits(context, t))
        .collect();
    let is_good = |t: &Tile| {
        let is_full = t.rows <= 2 * rows && t.columns <= 2 * columns;
        is_full && t.count(rows, columns) * batches >= BUSY
    };
    let found = tiles.iter().find(|t| is_good(t));
    found.or(tiles.last()).copied()
}

/// A pass over parts of the sum of so many terms; `last` are the statements for a result `x` that belongs to place `i`.
pub fn pass(
    product: Product<'_>,
    (tile, unit): (Tile, Unit),
    parts: usize,
    length: usize,
    last: &str,
) -> Result<Dispatch> {
    let staging = staged(&product, &tile);
    let Product {
        mut shader,
        rows,
        columns,
        depth,
        batches,
        starts,
        place,
        ..
    } = product;
    let [pm, pn, pk, p_length, p_parts] =
        [rows, columns, depth, length, parts].map(|d| shader.param(d as u32));
    let (size, factors) = (unit.size, unit.factors);
    let (tm, tn, td) = (tile.rows, tile.columns, tile.depth);
    let (down, across) = (tile.own_rows / size, tile.own_columns / size);
    let (left_stride, right_stride) = (unit.stride(td), unit.stride(tn));
    let own = tile.own_columns;
    let area = size * own;
    let (mut zero, mut products, mut stores) = (String::new(), String::new(), String::new());
    for i in 0..down {
        let at = format!("(first_row + {}u) * {left_stride}u + t", i * size);
        let a = unit.load('A', "left", &at, left_stride);
        let _ = writeln!(products, "        let a{i} = {a};");
    }
    for j in 0..across {
        let at = format!("t * {right_stride}u + first_column + {}u", j * size);
        let b = unit.load('B', "right", &at, right_stride);
        let _ = writeln!(products, "        let b{j} = {b};");
    }
    for i in 0..down {
        let _ = writeln!(stores, "    if (block < {BLOCKS}u) {{");
        for j in 0..across {
            let sum = format!("s{i}_{j}");
            let nothing = unit.load('C', "results", "0u", own);
            let _ = writeln!(zero, "    var {sum} = {nothing};");
            let added = unit.multiply_add([&format!("a{i}"), &format!("b{j}"), &sum]);
            let _ = writeln!(products, "        {sum} = {added};");
            let at = format!("block * {area}u + {}u", j * size);
            let _ = writeln!(stores, "      {}", unit.store(&sum, &at, own));
        }
        let _ = writeln!(
            stores,
            "    }}\n    workgroupBarrier();\n    if (block < {BLOCKS}u) {{\n      \
             for (var e = lane; e < {area}u; e = e + lanes) {{\n        \
             let row = w.y * {tm}u + first_row + {}u + e / {own}u;\n        \
             let column = w.x * {tn}u + first_column + e % {own}u;\n        \
             if (row < {pm} && column < {pn}) {{ finish(row, column, results[block * {area}u + e]); }}\n      }}\n    }}\n    \
             workgroupBarrier();",
            i * size,
        );
    }
    let threads = unit.threads(shader.context);
    let (functions, arguments, first) = unit.frame();
    // A workgroup has as many subgroups as blocks where these have the size that is expected. Where they have another one,
    // blocks are taken in turns, or some subgroups have none.
    let main = format!(
        "fn finish(row: u32, column: u32, x: f32) {{\n  let i = {place};\n{last}}}\n\
         var<workgroup> left: array<{factors}, {left_area}>;\nvar<workgroup> right: array<{factors}, {right_area}>;\n\
         var<workgroup> results: array<f32, {results}>;\n{functions}\
         @compute @workgroup_size({threads})\nfn main(@builtin(workgroup_id) w: vec3<u32>, \
         @builtin(local_invocation_index) l: u32{arguments}) {{\n{first}  \
         z = w.z / {p_parts}; part = w.z % {p_parts};\n{starts}  \
         let end = min((part + 1u) * {p_length}, {pk});\n  \
         for (var turn = 0u; turn * subgroups < {BLOCKS}u; turn = turn + 1u) {{\n    \
         let block = turn * subgroups + subgroup;\n    \
         let first_row = ((block / 2u) % 2u) * {own_rows}u;\n    let first_column = (block % 2u) * {own}u;\n    \
         for (var e = l; e < {area}u; e = e + {threads}u) {{ results[e] = 0.0; }}\n    workgroupBarrier();\n{zero}    \
         for (var k0 = part * {p_length}; k0 < end; k0 = k0 + {td}u) {{\n      \
         for (var e = l; e < {left_size}u; e = e + {threads}u) {{\n        \
         {left_place}\n        let row = w.y * {tm}u + r; let col = k0 + c;\n        \
         var v = 0.0f;\n        if (row < {pm} && col < end) {{ v = left_at(row, col); }}\n        \
         left[r * {left_stride}u + c] = {factors}(v);\n      }}\n      \
         for (var e = l; e < {right_size}u; e = e + {threads}u) {{\n        \
         {right_place}\n        let row = k0 + r; let col = w.x * {tn}u + c;\n        \
         var v = 0.0f;\n        if (row < end && col < {pn}) {{ v = right_at(row, col); }}\n        \
         right[r * {right_stride}u + c] = {factors}(v);\n      }}\n      \
         workgroupBarrier();\n      for (var t = 0u; t < {td}u; t = t + {size}u) {{\n{products}      }}\n      \
         workgroupBarrier();\n    }}\n{stores}  }}\n}}\n",
        left_place = staging[0],
        right_place = staging[1],
        left_area = tm * left_stride,
        right_area = td * right_stride,
        left_size = tm * td,
        right_size = td * tn,
        results = BLOCKS * area,
        own_rows = tile.own_rows,
    );
    let groups = tile.groups(rows, columns, batches * parts);
    declare(&mut shader);
    shader.finish(&main, groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use CooperativeScalarType::{F16, F32, I32};

    fn report(
        [m, n, k]: [u32; 3],
        ab_type: CooperativeScalarType,
        cr_type: CooperativeScalarType,
    ) -> CooperativeMatrixProperties {
        CooperativeMatrixProperties {
            m_size: m,
            n_size: n,
            k_size: k,
            ab_type,
            cr_type,
            saturating_accumulation: false,
        }
    }

    fn sizes(properties: &[CooperativeMatrixProperties], features: Features) -> Vec<(usize, &str)> {
        let found = reported(properties, features);
        found.iter().map(|u| (u.size, u.factors)).collect()
    }

    #[test]
    fn units_are_those_that_lose_nothing() {
        let all = NEEDED | Features::SHADER_F16;
        // As an adapter of NVIDIA's reports them: also sums of float16, matrices that are not square, integers.
        let tensor_cores = [
            report([16, 16, 16], F16, F16),
            report([16, 8, 16], F16, F32),
            report([8, 8, 8], F16, F32),
            report([16, 16, 16], F16, F32),
            report([16, 16, 16], I32, I32),
        ];
        assert_eq!(sizes(&tensor_cores, all), [(16, "f16")]);
        // As one of Apple's does.
        let simdgroup = [
            report([8, 8, 8], F32, F32),
            report([8, 8, 8], F16, F16),
            report([8, 8, 8], F16, F32),
        ];
        assert_eq!(sizes(&simdgroup, all), [(8, "f32"), (8, "f16")]);
        assert_eq!(sizes(&simdgroup, NEEDED), [(8, "f32")]);
        assert!(sizes(&simdgroup, Features::SHADER_F16 | Features::SUBGROUP).is_empty());
        assert!(sizes(&simdgroup, all - Features::SUBGROUP).is_empty());
        assert!(
            sizes(
                &[report([32, 32, 32], F16, F32), report([8, 8, 8], F32, F16)],
                all
            )
            .is_empty()
        );
        assert!(sizes(&[], all).is_empty());
    }

    #[test]
    fn float32_is_never_multiplied_as_float16() {
        let half = Units::new(reported(&[report([16, 16, 16], F16, F32)], Features::all()));
        let kind = |dtype| Type::of(dtype, Features::all()).unwrap();
        assert!(half.known(kind(DType::F32)).is_none());
        assert!(half.known(kind(DType::F64)).is_none());
        assert!(half.known(kind(DType::I32)).is_none());
        let (unit, trust) = half.known(kind(DType::F16)).unwrap();
        assert_eq!((unit.factors, trust), ("f16", Trust::Unknown));
    }

    #[test]
    fn the_variable_says_when_they_are_used() {
        assert_eq!(Wanted::of(Some("0")), Wanted::No);
        assert_eq!(Wanted::of(Some("always")), Wanted::Always);
        assert_eq!(Wanted::of(Some("1")), Wanted::OfHardware);
        assert_eq!(Wanted::of(None), Wanted::OfHardware);
    }

    #[test]
    fn tiles_hold_whole_matrices_and_rows_begin_where_units_may_read() {
        for (size, factors) in [(8, "f16"), (16, "f16"), (8, "f32"), (16, "f32")] {
            let form = Form::Units;
            let unit = Unit {
                size,
                factors,
                form,
            };
            for tile in unit.tiles() {
                assert_eq!(tile.own_rows % size, 0);
                assert_eq!(tile.own_columns % size, 0);
                assert_eq!(tile.depth % size, 0);
                assert_eq!(
                    [tile.rows, tile.columns],
                    [2 * tile.own_rows, 2 * tile.own_columns]
                );
                for columns in [tile.depth, tile.columns] {
                    assert_eq!(unit.stride(columns) * unit.bytes() % 16, 0);
                }
            }
        }
    }
}

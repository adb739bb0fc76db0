//! Whether matrix units compute what they should: products of integers whose sums have no rounding, compared bit by bit
//! when a device multiplies matrices of a type first.
//!
//! All tiles are tried, with factors in every order of memory, rows, columns and terms that are no multiples of a tile's. The
//! numbers need more bits than narrower types have: units that round factors of float32 to TF32 or bfloat16, that lose
//! subnormal numbers of float16, or that add in float16 differ. So do drivers that read a matrix the wrong way round.

use std::sync::Arc;

use cotan::aval::{Aval, row_major};
use cotan::kernels::Value;
use cotan::sched::{DeviceStep, Task};
use cotan::{DType, Error, Result};

use crate::context::Context;
use crate::memory::Memory;
use crate::product::{Finish, Tile, of_matrices};
use crate::run::Run;
use crate::shader::Shader;
use crate::submission::submit;
use crate::types::Type;
use crate::units::{Trust, Unit};

/// Writes sums as they are.
struct Sums<'m>(&'m Arc<Memory>);

impl Finish for Sums<'_> {
    fn write(&self, shader: &mut Shader<'_>) -> String {
        let out = shader.bind(self.0.buffer(), "f32", true);
        format!("  {out}[i] = x;\n")
    }
}

/// The factors of a test, and their product.
struct Sample {
    shape: [usize; 3],
    left: Vec<f32>,
    right: Vec<f32>,
    product: Vec<f32>,
}

/// Whole numbers without a pattern.
struct Numbers(u32);

impl Numbers {
    /// The next one, from `-most` to `most`.
    fn next(&mut self, most: i32) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let range = 2 * most.unsigned_abs() + 1;
        ((self.0 >> 8) % range) as f32 - most as f32
    }
}

impl Sample {
    fn new(tile: &Tile, unit: Unit) -> Sample {
        let (m, n) = (tile.rows + unit.size + 3, tile.columns + 5);
        let k = 2 * tile.depth + 3;
        let is_half = unit.factors == "f16";
        // All bits of a float16; more than TF32 and bfloat16 have. Sums stay below 2^24.
        let most = if is_half { 2047 } else { 65_535 };
        let mut numbers = Numbers(7);
        // A term has one large factor, in turns the left and the right one.
        let mut left: Vec<f32> = (0..m * k)
            .map(|i| numbers.next(if (i % k).is_multiple_of(2) { most } else { 2 }))
            .collect();
        let right: Vec<f32> = (0..k * n)
            .map(|i| numbers.next(if (i / n).is_multiple_of(2) { 2 } else { most }))
            .collect();
        for t in 0..k {
            left[k + t] = match t {
                _ if is_half && t.is_multiple_of(2) => numbers.next(1023) * 2f32.powi(-24),
                0 => 8_388_609.0,
                _ => 0.0,
            };
        }
        let mut product = vec![0.0f32; m * n];
        for (row, sums) in left.chunks(k).zip(product.chunks_mut(n)) {
            for (x, terms) in row.iter().zip(right.chunks(n)) {
                for (sum, y) in sums.iter_mut().zip(terms) {
                    *sum += x * y;
                }
            }
        }
        Sample {
            shape: [m, k, n],
            left,
            right,
            product,
        }
    }
}

/// The bits of a float16 that is an integer up to 2047, or such a multiple of the smallest one.
fn half_bits(x: f32) -> u16 {
    let sign = u16::from(x.is_sign_negative()) << 15;
    let (bits, size) = (x.abs().to_bits(), x.abs());
    let magnitude = if size < 2f32.powi(-14) {
        (size * 2f32.powi(24)) as u16
    } else {
        ((bits >> 13) - (112 << 10)) as u16
    };
    sign | magnitude
}

/// Copies a matrix to the device, in row-major order or the other one.
fn put(
    context: &Arc<Context>,
    kind: Type,
    (elements, [rows, columns]): (&[f32], [usize; 2]),
    is_turned: bool,
) -> Result<(Value, Arc<Memory>)> {
    let memory = Arc::new(Memory::new(context, kind, elements.len())?.0);
    let mut bytes = Vec::with_capacity(4 * elements.len());
    for i in 0..elements.len() {
        let x = elements[if is_turned {
            i % rows * columns + i / rows
        } else {
            i
        }];
        match kind.dtype {
            DType::F16 => bytes.extend(half_bits(x).to_le_bytes()),
            _ => bytes.extend(x.to_le_bytes()),
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    context.queue.write_buffer(memory.buffer(), 0, &bytes);
    context.check()?;
    let shape = if is_turned {
        [columns, rows]
    } else {
        [rows, columns]
    };
    let value = Value::on_device(
        Aval::new(kind.dtype, &shape),
        row_major(&shape),
        0,
        elements.len(),
        Arc::<Memory>::clone(&memory),
    )?;
    let value = if is_turned {
        value.transposed(&[1, 0])
    } else {
        value
    };
    Ok((value, memory))
}

/// What a unit computes otherwise than it should.
fn difference(context: &Arc<Context>, kind: Type, unit: Unit) -> Result<Option<String>> {
    for tile in unit.tiles() {
        if !unit.fits(context, &tile) {
            continue;
        }
        let sample = Sample::new(&tile, unit);
        let [m, k, n] = sample.shape;
        for turned in 0..4 {
            let left = put(context, kind, (&sample.left, [m, k]), turned % 2 == 1)?;
            let right = put(context, kind, (&sample.right, [k, n]), turned / 2 == 1)?;
            let out = Arc::new(Memory::new(context, kind.plain(), m * n)?.0);
            let factors = [(&left.0, &left.1), (&right.0, &right.1)];
            let product = of_matrices(context, factors, &[m, n], kind);
            let Some(passes) = product.passes_of(tile, &Sums(&out))? else {
                return Ok(Some("a product has no kernel".to_owned()));
            };
            submit(context, &passes)?;
            let wrong = context.read(out.buffer(), 4 * m * n, |bytes| {
                let found = bytes.chunks_exact(4);
                let found = found.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                Ok(found.zip(&sample.product).filter(|(x, y)| x != *y).count())
            })?;
            #[cfg(test)]
            let wrong = if crate::units_test::is_noting() {
                0
            } else {
                wrong
            };
            if wrong > 0 {
                return Ok(Some(format!(
                    "{wrong} of {} elements of a product were wrong",
                    m * n
                )));
            }
        }
    }
    Ok(None)
}

/// Tries the unit of a type out, if that was not done before. Nothing may wait to be submitted.
pub fn try_out(context: &Arc<Context>, kind: Type) -> Result<()> {
    let Some((unit, Trust::Unknown)) = context.units.known(kind) else {
        return Ok(());
    };
    context.units.set_trust(kind, Trust::Trying);
    let trust = match difference(context, kind, unit) {
        Ok(None) => Trust::Right,
        Ok(Some(why)) => Trust::Wrong(why),
        // The device is opened again, and then has no units.
        Err(error) if context.is_lost() => return Err(error),
        // Another time.
        Err(Error::Memory(_)) => Trust::Unknown,
        Err(error) => {
            let text = error.to_string();
            Trust::Wrong(text.lines().next().unwrap_or_default().to_owned())
        }
    };
    context.units.set_trust(kind, trust);
    Ok(())
}

impl Run<'_> {
    /// Tries the units out that a step may use.
    pub fn try_units(&mut self, step: &DeviceStep<'_>) -> Result<()> {
        if !matches!(step.task, Task::Call) || !matches!(step.prim.name(), "matmul" | "conv") {
            return Ok(());
        }
        let Some(kind) = self.kind(step.outputs[0].1.dtype) else {
            return Ok(());
        };
        if !matches!(self.context.units.known(kind), Some((_, Trust::Unknown))) {
            return Ok(());
        }
        self.submit()?;
        try_out(self.context, kind)
    }
}

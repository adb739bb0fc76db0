//! `f16` and `bf16` as they lie in memory, and their conversions from and to `f32`, without branches.

/// An `f16` as it lies in memory.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct F16Bits(pub(super) u16);

/// A `bf16` as it lies in memory.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Bf16Bits(pub(super) u16);

impl F16Bits {
    /// Exact.
    #[inline(always)]
    pub(in crate::kernels) fn to_f32(self) -> f32 {
        f16_to_f32(self.0)
    }
}

impl Bf16Bits {
    /// Exact.
    #[inline(always)]
    pub(in crate::kernels) fn to_f32(self) -> f32 {
        bf16_to_f32(self.0)
    }
}

/// Bits of an `f16` as `f32`; exact.
#[inline(always)]
fn f16_to_f32(h: u16) -> f32 {
    // Exponent and mantissa move into place; the product corrects the bias, subnormals included.
    const REBIAS: f32 = f32::from_bits((254 - 15) << 23);
    let magnitude = u32::from(h & 0x7fff) << 13;
    let scaled = (f32::from_bits(magnitude) * REBIAS).to_bits();
    let special = magnitude | 0x7f80_0000;
    let magnitude = if h & 0x7c00 == 0x7c00 {
        special
    } else {
        scaled
    };
    f32::from_bits(magnitude | (u32::from(h & 0x8000) << 16))
}

/// The nearest `f16`, halfway cases to even.
#[inline(always)]
pub(super) fn f32_to_f16(x: f32) -> u16 {
    const SHIFT: u32 = ((127 - 15) + (23 - 10) + 1) << 23;
    let bits = x.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: round the 13 bits that go, to even, then correct the exponent's bias.
    let rounded = magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1));
    let normal = rounded.wrapping_sub((127 - 15) << 23) >> 13;
    // Subnormal results: an addition puts the unit of the sum where that of the result is.
    let tiny = (f32::from_bits(magnitude) + f32::from_bits(SHIFT))
        .to_bits()
        .wrapping_sub(SHIFT);
    let finite = if magnitude < (113 << 23) {
        tiny
    } else {
        normal
    };
    let infinite = if magnitude > 0x7f80_0000 {
        0x7e00
    } else {
        0x7c00
    };
    // From 65520 on, the nearest is infinity.
    let result = if magnitude >= 0x477f_f000 {
        infinite
    } else {
        finite
    };
    result as u16 | sign
}

/// Bits of a `bf16` as `f32`; exact.
#[inline(always)]
fn bf16_to_f32(b: u16) -> f32 {
    f32::from_bits(u32::from(b) << 16)
}

/// The nearest `bf16`, halfway cases to even.
#[inline(always)]
pub(super) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if x.is_nan() { quiet } else { rounded }) as u16
}

/// Rounds to `f32` so that a second rounding to a narrower type gives what a single one would: the
/// result is truncated, and its last bit is set when it is not exact.
#[inline(always)]
pub(super) fn round_to_odd(x: f64) -> f32 {
    let y = x as f32;
    let bits = y.to_bits();
    let away = f64::from(y).abs() > x.abs();
    let odd = f32::from_bits((bits - u32::from(away)) | 1);
    if f64::from(y) == x || x.is_nan() {
        y
    } else {
        odd
    }
}

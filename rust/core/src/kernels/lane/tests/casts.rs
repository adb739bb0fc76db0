//! Casts against those of NumPy, and half precision against rounding once.

use super::*;

#[test]
fn casts_are_those_of_numpy() {
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.5,
        -2.5,
        255.9,
        256.0,
        1e6,
        -1e6,
        65519.9,
        65520.0,
        1e20,
        -1e20,
        1e300,
        2147483647.0,
        2147483648.0,
        9.3e18,
        -9.3e18,
        6e-8,
        2.9e-8,
        1e-40,
        1.0 + 2f64.powi(-11),
        1.0 + 2f64.powi(-11) + 2f64.powi(-40),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let values: Vec<_> = values
        .iter()
        .cycle()
        .take(300)
        .map(|&v| Complex::new(v, 0.0))
        .collect();
    let n = values.len();
    for level in Level::ALL.into_iter().filter(|l| l.is_supported()) {
        for from in DType::ALL {
            let x = pack(from, &values);
            let numbers = unpack(from, &x, n);
            for to in DType::ALL {
                let mut out = vec![0u64; 2 * n + 2];
                call(cast::cast_at(level, from, to), &mut out, &x, &[], n);
                let got = unpack(to, &out, n);
                for i in 0..n {
                    let v = numbers[i].re;
                    // The numbers of `u64` are not all those of `f64`.
                    let bits = if from == DType::U64 {
                        x[i] as i64
                    } else {
                        v as i64
                    };
                    let wide = if v >= 2_147_483_647.0 { 0 } else { v as i32 };
                    let want = match to {
                        DType::Bool => f64::from(u8::from(v != 0.0)),
                        DType::I8 if from.kind() <= Kind::Integer => f64::from(bits as i8),
                        DType::I8 => f64::from(wide as i8),
                        DType::U8 if from.kind() <= Kind::Integer => f64::from(bits as u8),
                        DType::U8 => f64::from(wide as u8),
                        DType::I16 if from.kind() <= Kind::Integer => f64::from(bits as i16),
                        DType::I16 => f64::from(wide as i16),
                        DType::U16 if from.kind() <= Kind::Integer => f64::from(bits as u16),
                        DType::U16 => f64::from(wide as u16),
                        DType::U32 if from.kind() <= Kind::Integer => f64::from(bits as u32),
                        DType::U32 if v >= i64::MAX as f64 => 0.0,
                        DType::U32 => f64::from(v as i64 as u32),
                        DType::U64 if from.kind() <= Kind::Integer => bits as u64 as f64,
                        DType::U64 if v < 0.0 => v as i64 as u64 as f64,
                        DType::U64 => v as u64 as f64,
                        DType::I32 if from.kind() <= Kind::Integer => f64::from(bits as i32),
                        DType::I32 => f64::from(v as i32),
                        DType::I64 => bits as f64,
                        DType::F16 => exact_f16(v),
                        DType::Bf16 => ::half::bf16::from_f64(v).to_f64(),
                        DType::F32 | DType::C64 => f64::from(v as f32),
                        DType::F64 | DType::C128 => v,
                    };
                    let g = got[i].re;
                    assert!(
                        g == want || (g.is_nan() && want.is_nan()),
                        "{from} to {to}: {v} gives {g}, not {want}"
                    );
                }
            }
        }
    }
}

/// The nearest `f16`, rounded once.
fn exact_f16(v: f64) -> f64 {
    let near = ::half::f16::from_f64(v);
    if !near.is_finite() || v.abs() >= 65520.0 {
        return if v.is_nan() { v } else { near.to_f64() };
    }
    let neighbour = |d: i32| ::half::f16::from_bits((i32::from(near.to_bits()) + d) as u16);
    let candidates = [near, neighbour(1), neighbour(-1)].map(::half::f16::to_f64);
    let distance = |c: &f64| (c - v).abs();
    let best = candidates.iter().copied().filter(|c| c.is_finite());
    best.min_by(|a, b| distance(a).total_cmp(&distance(b)))
        .unwrap()
}

#[test]
fn every_half_survives_a_round_trip() {
    for bits in 0..=u16::MAX {
        let (h, b) = (::half::f16::from_bits(bits), ::half::bf16::from_bits(bits));
        let (x, y) = (F16Bits(bits).to_f32(), Bf16Bits(bits).to_f32());
        assert!(x == h.to_f32() || x.is_nan() && h.is_nan());
        assert!(y == b.to_f32() || y.is_nan() && b.is_nan());
        assert!(half_bits::f32_to_f16(x) == bits || h.is_nan());
        assert!(half_bits::f32_to_bf16(y) == bits || b.is_nan());
        // Between two neighbours: as the half crate rounds.
        for x in [
            x * 1.000_3,
            x * 1.000_488_3,
            x + 1e-8,
            f32::from_bits(u32::from(bits) << 16 | 0x8000),
        ] {
            let want = ::half::f16::from_f32_const(x);
            assert!(
                half_bits::f32_to_f16(x) == want.to_bits() || x.is_nan(),
                "{x}"
            );
            let want = ::half::bf16::from_f32(x);
            assert!(
                half_bits::f32_to_bf16(x) == want.to_bits() || x.is_nan(),
                "{x}"
            );
        }
    }
}

//! Every lane against plain scalar code, at every level that the machine has.
#![allow(clippy::cast_ptr_alignment, clippy::match_same_arms)]

mod casts;
mod powers;

use num_complex::Complex;

use super::*;
use crate::aval::Kind;
use crate::testing::random::Random;

/// Bytes of `n` elements, converted from numbers.
fn pack(dtype: DType, values: &[Complex<f64>]) -> Vec<u64> {
    let mut out = vec![0u64; (values.len() * dtype.size()).div_ceil(8) + 2];
    let (to, from) = (out.as_mut_ptr().cast(), values.as_ptr().cast());
    let lane = cast_lane(DType::C128, dtype);
    // SAFETY: both buffers hold that many elements.
    unsafe { lane(to, from, std::ptr::null(), std::ptr::null(), values.len()) };
    out
}

/// The numbers that bytes stand for.
fn unpack(dtype: DType, bytes: &[u64], n: usize) -> Vec<Complex<f64>> {
    let at = |i: usize| bytes.as_ptr().cast::<u8>().wrapping_add(i * dtype.size());
    let real = |re: f64| Complex::new(re, 0.0);
    let read = |i| {
        let p = at(i);
        // SAFETY: there are `n` elements of the dtype.
        unsafe {
            match dtype {
                DType::Bool | DType::U8 => real(f64::from(p.read())),
                DType::I8 => real(f64::from(p.cast::<i8>().read())),
                DType::I16 => real(f64::from(p.cast::<i16>().read())),
                DType::U16 => real(f64::from(p.cast::<u16>().read())),
                DType::I32 => real(f64::from(p.cast::<i32>().read())),
                DType::U32 => real(f64::from(p.cast::<u32>().read())),
                DType::I64 => real(p.cast::<i64>().read() as f64),
                DType::U64 => real(p.cast::<u64>().read() as f64),
                DType::F16 => real(p.cast::<::half::f16>().read().to_f64()),
                DType::Bf16 => real(p.cast::<::half::bf16>().read().to_f64()),
                DType::F32 => real(f64::from(p.cast::<f32>().read())),
                DType::F64 => real(p.cast::<f64>().read()),
                DType::C64 => {
                    let z = p.cast::<Complex<f32>>().read();
                    Complex::new(f64::from(z.re), f64::from(z.im))
                }
                DType::C128 => p.cast::<Complex<f64>>().read(),
            }
        }
    };
    (0..n).map(read).collect()
}

/// Operands of a dtype: special values first, then a mixture of magnitudes.
fn samples(dtype: DType, n: usize, seed: u64) -> Vec<Complex<f64>> {
    let mut random = Random::new(seed);
    let mut next = move || random.unit();
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        0.5,
        2.0,
    ];
    (0..n)
        .map(|i| match dtype.kind() {
            Kind::Bool => Complex::new((next() * 2.0).floor(), 0.0),
            Kind::Integer => {
                let low = if dtype.is_unsigned() { 0.0 } else { -9.0 };
                Complex::new((low + next() * 18.0).floor().max(low), 0.0)
            }
            Kind::Float if i % 11 == 3 => {
                Complex::new(specials[(next() * specials.len() as f64) as usize], 0.0)
            }
            Kind::Float => Complex::new((next() - 0.5) * [2.0, 8.0, 60.0][i % 3], 0.0),
            Kind::Complex => Complex::new((next() - 0.5) * 6.0, (next() - 0.5) * 6.0),
        })
        .collect()
}

/// What an operation means, in the widest type; `None` where no plain formula is at hand.
fn reference(op: LaneOp, kind: Kind, x: Complex<f64>, y: Complex<f64>) -> Option<Complex<f64>> {
    let truth = |b: bool| Complex::new(f64::from(u8::from(b)), 0.0);
    let nonzero = |z: Complex<f64>| z.re != 0.0 || z.im != 0.0;
    let complex = kind == Kind::Complex;
    let boolean = kind == Kind::Bool;
    let nan = |z: Complex<f64>| z.re.is_nan() || z.im.is_nan();
    let less = |a: Complex<f64>, b: Complex<f64>| a.re < b.re || (a.re == b.re && a.im < b.im);
    let r = |v: f64| Complex::new(v, 0.0);
    let (a, b) = (x.re, y.re);
    Some(match op {
        LaneOp::Neg => -x,
        LaneOp::Abs => r(if complex { x.norm() } else { a.abs() }),
        LaneOp::Sign if complex => x / x.norm(),
        LaneOp::Sign => r(if a.is_nan() || a == 0.0 {
            a.abs()
        } else {
            a.signum()
        }),
        LaneOp::Floor => r(a.floor()),
        LaneOp::Ceil => r(a.ceil()),
        LaneOp::Round => Complex::new(a.round_ties_even(), x.im.round_ties_even()),
        LaneOp::Trunc => r(a.trunc()),
        LaneOp::Exp => x.exp(),
        LaneOp::Exp2 => x.expf(2.0),
        LaneOp::Expm1 if complex => x.exp() - 1.0,
        LaneOp::Expm1 => r(a.exp_m1()),
        LaneOp::Log if complex => x.ln(),
        LaneOp::Log => r(a.ln()),
        LaneOp::Log2 if complex => x.ln() / 2f64.ln(),
        LaneOp::Log2 => r(a.log2()),
        LaneOp::Log10 if complex => x.ln() / 10f64.ln(),
        LaneOp::Log10 => r(a.log10()),
        LaneOp::Log1p if complex => (x + 1.0).ln(),
        LaneOp::Log1p => r(a.ln_1p()),
        LaneOp::Sqrt if complex => x.sqrt(),
        LaneOp::Sqrt => r(a.sqrt()),
        LaneOp::Cbrt => r(a.cbrt()),
        LaneOp::Reciprocal if complex => x.inv(),
        LaneOp::Reciprocal => r(1.0 / a),
        LaneOp::Square if complex => x * x,
        LaneOp::Square => r(a * a),
        LaneOp::Sin if complex => x.sin(),
        LaneOp::Sin => r(a.sin()),
        LaneOp::Cos if complex => x.cos(),
        LaneOp::Cos => r(a.cos()),
        LaneOp::Tan if complex => x.tan(),
        LaneOp::Tan => r(a.tan()),
        LaneOp::Asin if complex => x.asin(),
        LaneOp::Asin => r(a.asin()),
        LaneOp::Acos if complex => x.acos(),
        LaneOp::Acos => r(a.acos()),
        LaneOp::Atan if complex => x.atan(),
        LaneOp::Atan => r(a.atan()),
        LaneOp::Sinh if complex => x.sinh(),
        LaneOp::Sinh => r(a.sinh()),
        LaneOp::Cosh if complex => x.cosh(),
        LaneOp::Cosh => r(a.cosh()),
        LaneOp::Tanh if complex => x.tanh(),
        LaneOp::Tanh => r(a.tanh()),
        LaneOp::Asinh if complex => x.asinh(),
        LaneOp::Asinh => r(a.abs().asinh().copysign(a)),
        LaneOp::Acosh if complex => x.acosh(),
        LaneOp::Acosh => r(a.acosh()),
        LaneOp::Atanh if complex => x.atanh(),
        LaneOp::Atanh => r(a.atanh()),
        LaneOp::Sigmoid if complex => Complex::new(1.0, 0.0) / ((-x).exp() + 1.0),
        LaneOp::Sigmoid => r(1.0 / (1.0 + (-a).exp())),
        LaneOp::Softplus if complex => return None,
        LaneOp::Softplus if a.is_nan() => r(a),
        LaneOp::Softplus => r(a.max(0.0) + (-a.abs()).exp().ln_1p()),
        LaneOp::Conj => x.conj(),
        LaneOp::Real => r(a),
        LaneOp::Imag => r(x.im),
        LaneOp::Not => truth(!nonzero(x)),
        LaneOp::Invert if boolean => truth(a == 0.0),
        LaneOp::IsNan => truth(nan(x)),
        LaneOp::IsInf => truth(a.is_infinite() || x.im.is_infinite()),
        LaneOp::IsFinite => truth(a.is_finite() && x.im.is_finite()),
        LaneOp::Add if boolean => truth(nonzero(x) || nonzero(y)),
        LaneOp::Add => x + y,
        LaneOp::Sub => x - y,
        LaneOp::Mul if complex => x * y,
        LaneOp::Mul => r(a * b),
        LaneOp::Div if complex => x / y,
        LaneOp::Div => r(a / b),
        LaneOp::Pow if kind == Kind::Float => r(a.powf(b)),
        LaneOp::Pow if complex => x.powc(y),
        LaneOp::Maximum if nan(x) || nan(y) => r(f64::NAN),
        LaneOp::Minimum if nan(x) || nan(y) => r(f64::NAN),
        LaneOp::Maximum | LaneOp::Fmax if complex => {
            if less(y, x) {
                x
            } else {
                y
            }
        }
        LaneOp::Minimum | LaneOp::Fmin if complex => {
            if less(x, y) {
                x
            } else {
                y
            }
        }
        LaneOp::Maximum | LaneOp::Fmax => r(a.max(b)),
        LaneOp::Minimum | LaneOp::Fmin => r(a.min(b)),
        LaneOp::Atan2 => r(a.atan2(b)),
        LaneOp::Hypot => r(a.hypot(b)),
        LaneOp::Logaddexp if a.is_nan() || b.is_nan() => r(f64::NAN),
        LaneOp::Logaddexp if a == b => r(a + 2f64.ln()),
        LaneOp::Logaddexp => r(a.max(b) + (-(a - b).abs()).exp().ln_1p()),
        LaneOp::FloorDivide if kind == Kind::Integer && b == 0.0 => r(0.0),
        LaneOp::FloorDivide if kind == Kind::Integer => r((a / b).floor()),
        LaneOp::Remainder if kind == Kind::Integer && b == 0.0 => r(0.0),
        LaneOp::Remainder if kind == Kind::Integer => r(a - b * (a / b).floor()),
        LaneOp::Fmod if kind == Kind::Integer && b == 0.0 => r(0.0),
        LaneOp::Fmod => r(a % b),
        LaneOp::Copysign => r(a.copysign(b)),
        LaneOp::Complex => Complex::new(a, b),
        LaneOp::Eq => truth(x == y),
        LaneOp::Ne => truth(x != y),
        LaneOp::Lt => truth(less(x, y)),
        LaneOp::Le => truth(less(x, y) || x == y),
        LaneOp::Gt => truth(less(y, x)),
        LaneOp::Ge => truth(less(y, x) || x == y),
        LaneOp::And => truth(nonzero(x) && nonzero(y)),
        LaneOp::Or => truth(nonzero(x) || nonzero(y)),
        LaneOp::Xor => truth(nonzero(x) != nonzero(y)),
        LaneOp::BitAnd => r((a as i64 & b as i64) as f64),
        LaneOp::BitOr => r((a as i64 | b as i64) as f64),
        LaneOp::BitXor => r((a as i64 ^ b as i64) as f64),
        _ => return None,
    })
}

/// Relative error that a dtype's results may have.
fn tolerance(op: LaneOp, dtype: DType) -> f64 {
    let exact = dtype.kind() <= Kind::Integer || is_exact(op);
    match dtype {
        _ if exact && !matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::C64) => 0.0,
        DType::F16 => 1e-3,
        DType::Bf16 => 8e-3,
        DType::F32 | DType::C64 => 5e-7,
        _ => 2e-13,
    }
}

fn is_exact(op: LaneOp) -> bool {
    use LaneOp::*;
    matches!(
        op,
        Neg | Floor
            | Ceil
            | Round
            | Trunc
            | Maximum
            | Minimum
            | Fmax
            | Fmin
            | Eq
            | Ne
            | Lt
            | Le
            | Gt
            | Ge
            | And
            | Or
            | Xor
            | Not
            | IsNan
            | IsInf
            | IsFinite
            | Copysign
            | Complex
            | Real
            | Imag
            | Conj
    )
}

fn call(lane: Lane, out: &mut [u64], a: &[u64], b: &[u64], n: usize) {
    // SAFETY: the buffers hold `n` elements of the dtypes of the lane.
    unsafe {
        lane(
            out.as_mut_ptr().cast(),
            a.as_ptr().cast(),
            b.as_ptr().cast(),
            std::ptr::null(),
            n,
        );
    }
}

#[test]
fn lanes_agree_with_scalar_code() {
    let mut wrong = Vec::new();
    for level in Level::ALL.into_iter().filter(|l| l.is_supported()) {
        for dtype in DType::ALL {
            for &op in LaneOp::ALL.iter().filter(|&&op| op != LaneOp::Where) {
                let Some(lane) = lane_at(level, op, dtype) else {
                    continue;
                };
                let result = result_dtype(op, dtype);
                let n = 533;
                let mut b = samples(dtype, n, 77);
                if op == LaneOp::Pow && dtype.kind() == Kind::Integer {
                    for b in &mut b {
                        b.re = b.re.abs();
                    }
                }
                let (a, b) = (pack(dtype, &samples(dtype, n, 5)), pack(dtype, &b));
                let mut out = vec![0u64; 2 * n + 4];
                call(lane, &mut out, &a, &b, n);
                let (x, y) = (unpack(dtype, &a, n), unpack(dtype, &b, n));
                let got = unpack(result, &out, n);
                for i in 0..n {
                    let Some(want) = reference(op, dtype.kind(), x[i], y[i]) else {
                        break;
                    };
                    let want = match result {
                        DType::I8 => Complex::new(f64::from(want.re as i64 as i8), 0.0),
                        DType::U8 => Complex::new(f64::from(want.re as i64 as u8), 0.0),
                        DType::I16 => Complex::new(f64::from(want.re as i64 as i16), 0.0),
                        DType::U16 => Complex::new(f64::from(want.re as i64 as u16), 0.0),
                        DType::U32 => Complex::new(f64::from(want.re as i64 as u32), 0.0),
                        DType::U64 => Complex::new(want.re as i64 as u64 as f64, 0.0),
                        _ => unpack(result, &pack(result, &[want]), 1)[0],
                    };
                    let scale = if result.is_complex() {
                        want.norm()
                    } else {
                        want.re.abs()
                    };
                    let close = |g: f64, w: f64| {
                        g == w
                            || (g.is_nan() && w.is_nan())
                            || (g - w).abs() <= tolerance(op, dtype) * scale.max(1e-3)
                    };
                    let fine = close(got[i].re, want.re) && close(got[i].im, want.im);
                    if !fine {
                        let (x, y, got) = (x[i], y[i], got[i]);
                        wrong.push(format!(
                            "{op:?} {dtype} {level:?}: {x} {y} gives {got}, not {want}"
                        ));
                        break;
                    }
                }
                // Any length, and the result in the place of either operand: the same bits.
                for n in [1, 2, 7, 16, 31, 64, 129, 200] {
                    let bytes = |v: &[u64]| -> Vec<u8> {
                        v.iter()
                            .flat_map(|w| w.to_le_bytes())
                            .take(n * result.size())
                            .collect()
                    };
                    let mut part = vec![0u64; out.len()];
                    call(lane, &mut part, &a, &b, n);
                    assert_eq!(bytes(&part), bytes(&out), "{op:?} {dtype} {level:?} {n}");
                    if result.size() == dtype.size() {
                        for first in [true, false] {
                            let mut place = if first { a.clone() } else { b.clone() };
                            let p: *mut u8 = place.as_mut_ptr().cast();
                            let (a, b) = (a.as_ptr().cast::<u8>(), b.as_ptr().cast::<u8>());
                            let (a, b) = if first {
                                (p.cast_const(), b)
                            } else {
                                (a, p.cast_const())
                            };
                            // SAFETY: the buffers hold `n` elements; `out` is one of them.
                            unsafe { lane(p, a, b, std::ptr::null(), n) };
                            assert_eq!(bytes(&place), bytes(&out), "{op:?} {dtype} in place");
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn levels_agree_bit_for_bit() {
    let n = 400;
    for dtype in DType::ALL {
        for &op in LaneOp::ALL.iter().filter(|&&op| op != LaneOp::Where) {
            let Some(base) = lane_at(Level::Baseline, op, dtype) else {
                continue;
            };
            let (a, b) = (
                pack(dtype, &samples(dtype, n, 9)),
                pack(dtype, &samples(dtype, n, 3)),
            );
            let mut want = vec![0u64; 2 * n + 4];
            call(base, &mut want, &a, &b, n);
            let result = result_dtype(op, dtype);
            for level in Level::ALL.into_iter().filter(|l| l.is_supported()) {
                let Some(lane) = lane_at(level, op, dtype) else {
                    continue;
                };
                let mut got = vec![0u64; 2 * n + 4];
                call(lane, &mut got, &a, &b, n);
                let (got, want) = (unpack(result, &got, n), unpack(result, &want, n));
                for (g, w) in got.iter().zip(&want) {
                    let same =
                        |g: f64, w: f64| g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan();
                    assert!(
                        same(g.re, w.re) && same(g.im, w.im),
                        "{op:?} {dtype} {level:?} {g} {w}"
                    );
                }
            }
        }
    }
}

#[test]
fn where_selects_in_place_too() {
    let n = 301;
    for level in Level::ALL.into_iter().filter(|l| l.is_supported()) {
        for dtype in DType::ALL {
            let lane = lane_at(level, LaneOp::Where, dtype).unwrap();
            let mask: Vec<u8> = (0..n).map(|i| u8::from(i * 7 % 5 < 2)).collect();
            let (b, c) = (samples(dtype, n, 1), samples(dtype, n, 2));
            let (b, c) = (pack(dtype, &b), pack(dtype, &c));
            let (x, y) = (unpack(dtype, &b, n), unpack(dtype, &c, n));
            for place in 0..4 {
                let (mut b, mut c, mut mask) = (b.clone(), c.clone(), mask.clone());
                let mut fresh = vec![0u64; 2 * n + 2];
                let out: *mut u8 = match place {
                    0 => fresh.as_mut_ptr().cast(),
                    1 => b.as_mut_ptr().cast(),
                    2 => c.as_mut_ptr().cast(),
                    _ if dtype.size() == 1 => mask.as_mut_ptr(),
                    _ => continue,
                };
                let want: Vec<_> = (0..n)
                    .map(|i| if mask[i] == 1 { x[i] } else { y[i] })
                    .collect();
                // SAFETY: all buffers hold `n` elements; `out` is one of them or apart.
                unsafe { lane(out, mask.as_ptr(), b.as_ptr().cast(), c.as_ptr().cast(), n) };
                let got = match place {
                    0 => fresh,
                    1 => b,
                    2 => c,
                    _ => {
                        mask.resize(mask.len().next_multiple_of(8), 0);
                        let word =
                            |w: &[u8]| w.iter().rev().fold(0, |acc, &b| acc << 8 | u64::from(b));
                        mask.chunks(8).map(word).collect()
                    }
                };
                let got = unpack(dtype, &got, n);
                for (g, w) in got.iter().zip(&want) {
                    let same =
                        |g: f64, w: f64| g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan();
                    assert!(same(g.re, w.re) && same(g.im, w.im), "{dtype} {level:?}");
                }
            }
        }
    }
}

#[test]
fn tables_and_dtypes_are_consistent() {
    for (i, &op) in LaneOp::ALL.iter().enumerate() {
        assert_eq!(op as usize, i);
        assert!((1..=3).contains(&op.arity()));
    }
    assert_eq!(result_dtype(LaneOp::Abs, DType::C64), DType::F32);
    assert_eq!(result_dtype(LaneOp::Complex, DType::F64), DType::C128);
    assert_eq!(result_dtype(LaneOp::Lt, DType::C64), DType::Bool);
    assert!(lane(LaneOp::Sin, DType::I32).is_none());
    assert!(lane(LaneOp::Complex, DType::F16).is_none());
    assert!(lane(LaneOp::Sub, DType::Bool).is_none());
}

#[test]
fn huge_arguments_take_the_slow_form() {
    let mut x: Vec<f64> = (0..200).map(f64::from).collect();
    x[150] = 1e22;
    for op in [LaneOp::Sin, LaneOp::Cos, LaneOp::Tan] {
        let mut out = vec![0f64; 200];
        let (o, a) = (out.as_mut_ptr().cast(), x.as_ptr().cast());
        // SAFETY: both hold 200 elements.
        unsafe { lane(op, DType::F64).unwrap()(o, a, std::ptr::null(), std::ptr::null(), 200) };
        let want = match op {
            LaneOp::Sin => 1e22f64.sin(),
            LaneOp::Cos => 1e22f64.cos(),
            _ => 1e22f64.tan(),
        };
        assert!((out[150] - want).abs() <= 1e-15 * want.abs());
        assert_eq!(out[0], if op == LaneOp::Cos { 1.0 } else { 0.0 });
    }
}

#[test]
fn complex_formulas_hold_where_textbook_ones_fail() {
    use super::cmath;
    let c = |re: f64, im: f64| Complex::new(re, im);
    let near = |got: Complex<f64>, want: Complex<f64>| {
        assert!(
            (got - want).norm() <= 4e-16 * want.norm(),
            "{got} is not {want}"
        );
    };
    near(cmath::div(c(1e200, 1e200), c(1e200, 1e200)), c(1.0, 0.0));
    near(cmath::div(c(1.0, 2.0), c(0.0, 4.0)), c(0.5, -0.25));
    assert!(cmath::div(c(1.0, 0.0), c(0.0, 0.0)).re.is_infinite());
    near(cmath::sqrt(c(-4.0, -0.0)), c(0.0, -2.0));
    near(
        cmath::sqrt(c(1e308, 1e308)),
        c(1.098_684_113_467_81e154, 4.550_898_605_622_273e153),
    );
    near(cmath::log(c(1.0, 1e-10)), c(5e-21, 1e-10));
    assert!((cmath::log(c(1.0, 1e-10)).re / 5e-21 - 1.0).abs() < 1e-15);
    near(
        cmath::log(c(1e308, 1e308)),
        c(709.542_782_232_446_1, std::f64::consts::FRAC_PI_4),
    );
    near(
        cmath::expm1(c(1e-12, 1e-12)),
        c(1e-12, 1.000_000_000_001e-12),
    );
    near(cmath::tanh(c(800.0, 1.0)), c(1.0, 0.0));
    near(
        cmath::acos(c(2_051_601_408.0, -1.0)),
        c(4.874_241_146_946_9e-10, 22.135_033_680_332_72),
    );
    near(
        cmath::asin(c(-3e10, 4e-3)),
        c(-1.570_796_326_794_763_3, 24.817_610_399_168_51),
    );
    near(
        cmath::asinh(c(1e200, 1e200)),
        c(461.556_739_369_649_05, std::f64::consts::FRAC_PI_4),
    );
    near(
        cmath::acosh(c(-2.0, -0.0)),
        c(1.316_957_896_924_816_7, -std::f64::consts::PI),
    );
    near(
        cmath::atanh(c(1e-9, 1e12)),
        c(1e-33, 1.570_796_326_793_896_6),
    );
    near(
        cmath::atanh(c(2.0, -0.0)),
        c(0.549_306_144_334_054_8, -std::f64::consts::FRAC_PI_2),
    );
    assert!(cmath::atanh(c(f64::NAN, 1e200)).re.is_nan());
    assert!(cmath::atanh(c(1e200, f64::NAN)).im.is_nan());
    let infinite = cmath::acos(c(f64::NEG_INFINITY, f64::INFINITY));
    assert_eq!(infinite.re, 0.75 * std::f64::consts::PI);
    assert_eq!(infinite.im, f64::NEG_INFINITY);
    near(cmath::pow(c(0.0, 1.0), c(2.0, 0.0)), c(-1.0, 0.0));
    near(cmath::pow(c(0.0, 0.0), c(0.0, 0.0)), c(1.0, 0.0));
    assert!(cmath::exp(c(710.0, 1.5)).re.is_finite());
    near(
        cmath::exp(c(f64::NEG_INFINITY, f64::NAN)) + 1.0,
        c(1.0, 0.0),
    );
}

#[test]
fn long_functions_of_one_float_can_have_it_in_a_register() {
    for &op in LaneOp::ALL {
        for dtype in DType::ALL {
            let is_float = matches!(dtype, DType::F32 | DType::F64);
            let wanted = is_float && op.arity() == 1 && op.is_long();
            assert_eq!(
                function_of_one(op, dtype).is_some(),
                wanted,
                "{op:?} of {dtype}"
            );
        }
    }
}

//! Tests of the vector mathematics: every `f64` function against high-precision reference values
//! (`tests/data/math_f64.bin`, written by `tools/math_reference.py`), every `f32` function against
//! its `f64` counterpart over a sweep of all bit patterns, the special values of C99, and the
//! exact operations. The worst errors are printed (`cargo test math -- --nocapture`).

#![allow(clippy::print_stdout, clippy::excessive_precision)]

use super::{f32 as single, f64 as double};

/// The accuracy promised, in units in the last place.
const BOUND: f64 = 2.0;

type Unary<T> = fn(T) -> T;
type Binary<T> = fn(T, T) -> T;

/// Every approximated function of one argument, for both widths. The trigonometric functions
/// appear with their slow form, which covers every argument and contains the fast one.
const UNARY: [(&str, Unary<f64>, Unary<f32>); 26] = [
    ("exp", double::exp, single::exp),
    ("exp2", double::exp2, single::exp2),
    ("expm1", double::expm1, single::expm1),
    ("log", double::log, single::log),
    ("log2", double::log2, single::log2),
    ("log10", double::log10, single::log10),
    ("log1p", double::log1p, single::log1p),
    ("sqrt", double::sqrt, single::sqrt),
    ("cbrt", double::cbrt, single::cbrt),
    ("sin", double::sin_slow, single::sin_slow),
    ("cos", double::cos_slow, single::cos_slow),
    ("tan", double::tan_slow, single::tan_slow),
    ("asin", double::asin, single::asin),
    ("acos", double::acos, single::acos),
    ("atan", double::atan, single::atan),
    ("sinh", double::sinh, single::sinh),
    ("cosh", double::cosh, single::cosh),
    ("tanh", double::tanh, single::tanh),
    ("asinh", double::asinh, single::asinh),
    ("acosh", double::acosh, single::acosh),
    ("atanh", double::atanh, single::atanh),
    ("sigmoid", double::sigmoid, single::sigmoid),
    ("softplus", double::softplus, single::softplus),
    ("erf", double::erf, single::erf),
    ("erfc", double::erfc, single::erfc),
    ("erfinv", double::erfinv, single::erfinv),
];

const BINARY: [(&str, Binary<f64>, Binary<f32>); 4] = [
    ("pow", double::pow, single::pow),
    ("atan2", double::atan2, single::atan2),
    ("hypot", double::hypot, single::hypot),
    ("logaddexp", double::logaddexp, single::logaddexp),
];

/// The unit in the last place of the doubles around `v`.
fn unit(v: f64) -> f64 {
    let exponent = (v.abs().to_bits() >> 52).max(1);
    if exponent > 52 {
        f64::from_bits((exponent - 52) << 52)
    } else {
        f64::from_bits(1 << (exponent - 1))
    }
}

/// The error of `got`, in units in the last place, where `want` is the rounded exact value and
/// `rest` what rounding took away.
fn error(got: f64, want: f64, rest: f64, scale: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        return f64::INFINITY;
    }
    ((got - want) / unit(want.abs().max(scale)) - if scale == 0.0 { rest } else { 0.0 }).abs()
}

/// The same for `f32`, against an `f64` value that is nearly exact.
fn error_single(got: f32, want: f64, scale: f64) -> f64 {
    #[allow(clippy::cast_possible_truncation)]
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        // Rounding just to either side of the overflow threshold is not an error of note.
        let limit = f64::from(f32::MAX) * (1.0 + 1e-7);
        let near = (want.abs() - limit).abs() < limit * 2e-7 && got.abs() >= f32::MAX;
        return if near { 1.0 } else { f64::INFINITY };
    }
    let exponent = (want.abs().max(scale).to_bits() >> 52).max(1023 - 126);
    (f64::from(got) - want).abs() / f64::from_bits((exponent - 23) << 52)
}

/// Where a sum nearly cancels, the error is measured against the terms.
fn scale_of(name: &str, x: f64, y: f64) -> f64 {
    if name == "logaddexp" {
        x.abs().max(y.abs()).max(1.0)
    } else {
        0.0
    }
}

#[test]
fn double_functions_match_the_reference() {
    let data = include_bytes!("../../../../../tests/data/math_f64.bin");
    let float = |at: usize| f64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let count = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 0;
    let mut sections = 0;
    while at < data.len() {
        let name = std::str::from_utf8(&data[at..at + 12])
            .unwrap()
            .trim_end_matches('\0');
        let (arity, records) = (count(at + 12), count(at + 16));
        at += 20;
        let unary = UNARY.iter().find(|f| f.0 == name).map(|f| f.1);
        let binary = BINARY.iter().find(|f| f.0 == name).map(|f| f.1);
        let mut worst = (0.0, 0.0, 0.0);
        for _ in 0..records {
            let x = float(at);
            let y = if arity == 2 { float(at + 8) } else { 0.0 };
            at += 8 * arity;
            let want = float(at);
            let rest = f32::from_le_bytes(data[at + 8..at + 12].try_into().unwrap());
            at += 12;
            let got = match (unary, binary) {
                (Some(f), _) => f(x),
                (_, Some(f)) => f(x, y),
                _ => panic!("unknown function {name}"),
            };
            let e = error(got, want, f64::from(rest), scale_of(name, x, y));
            if e > worst.0 {
                worst = (e, x, y);
            }
        }
        println!(
            "f64 {name:10} {records:5} points, worst {:.3} ulp at {:e}, {:e}",
            worst.0, worst.1, worst.2
        );
        assert!(
            worst.0 <= BOUND,
            "{name}: {} ulp at {:e}, {:e}",
            worst.0,
            worst.1,
            worst.2
        );
        sections += 1;
    }
    assert_eq!(sections, UNARY.len() + BINARY.len());
}

/// A step through all bit patterns of `f32`, coprime to 2 and large where code is not optimised.
const STEP: usize = if cfg!(debug_assertions) { 81929 } else { 4099 };

#[test]
fn single_unary_functions_match_the_double_ones() {
    for (name, wide, narrow) in UNARY {
        let mut worst = (0.0, 0.0);
        for bits in (0..=u32::MAX).step_by(STEP) {
            let x = f32::from_bits(bits);
            let e = error_single(narrow(x), wide(f64::from(x)), 0.0);
            if e > worst.0 {
                worst = (e, x);
            }
        }
        println!("f32 {name:10} worst {:.3} ulp at {:e}", worst.0, worst.1);
        assert!(worst.0 <= BOUND, "{name}: {} ulp at {:e}", worst.0, worst.1);
    }
}

#[test]
fn single_binary_functions_match_the_double_ones() {
    for (name, wide, narrow) in BINARY {
        let mut worst = (0.0, 0.0, 0.0);
        let mut state = 1u64;
        for i in 0..(1usize << 33) / STEP {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let mut x = f32::from_bits((state >> 32) as u32);
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let mut y = f32::from_bits((state >> 32) as u32);
            // Half of the pairs of ordinary size, where most results are.
            if i % 2 == 0 && x.is_finite() && y.is_finite() {
                x = x.abs().log2() / 8.0;
                y = y.log2().abs() / 8.0;
            }
            let scale = scale_of(name, f64::from(x), f64::from(y));
            let e = error_single(narrow(x, y), wide(f64::from(x), f64::from(y)), scale);
            if e > worst.0 {
                worst = (e, x, y);
            }
        }
        println!(
            "f32 {name:10} worst {:.3} ulp at {:e}, {:e}",
            worst.0, worst.1, worst.2
        );
        assert!(
            worst.0 <= BOUND,
            "{name}: {} ulp at {:e}, {:e}",
            worst.0,
            worst.1,
            worst.2
        );
    }
}

/// Equal including the sign of zero, NaN equal to NaN.
fn same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a == b && a.is_sign_negative() == b.is_sign_negative())
}

#[test]
#[allow(clippy::cast_possible_truncation)]
fn unary_special_values() {
    const I: f64 = f64::INFINITY;
    const N: f64 = f64::NAN;
    let half_pi = std::f64::consts::FRAC_PI_2;
    // Name, then the values at -inf, -0, 0, inf.
    let table: [(&str, [f64; 4]); 26] = [
        ("exp", [0.0, 1.0, 1.0, I]),
        ("exp2", [0.0, 1.0, 1.0, I]),
        ("expm1", [-1.0, -0.0, 0.0, I]),
        ("log", [N, -I, -I, I]),
        ("log2", [N, -I, -I, I]),
        ("log10", [N, -I, -I, I]),
        ("log1p", [N, -0.0, 0.0, I]),
        ("sqrt", [N, -0.0, 0.0, I]),
        ("cbrt", [-I, -0.0, 0.0, I]),
        ("sin", [N, -0.0, 0.0, N]),
        ("cos", [N, 1.0, 1.0, N]),
        ("tan", [N, -0.0, 0.0, N]),
        ("asin", [N, -0.0, 0.0, N]),
        ("acos", [N, half_pi, half_pi, N]),
        ("atan", [-half_pi, -0.0, 0.0, half_pi]),
        ("sinh", [-I, -0.0, 0.0, I]),
        ("cosh", [I, 1.0, 1.0, I]),
        ("tanh", [-1.0, -0.0, 0.0, 1.0]),
        ("asinh", [-I, -0.0, 0.0, I]),
        ("acosh", [N, N, N, I]),
        ("atanh", [N, -0.0, 0.0, N]),
        ("sigmoid", [0.0, 0.5, 0.5, 1.0]),
        (
            "softplus",
            [0.0, std::f64::consts::LN_2, std::f64::consts::LN_2, I],
        ),
        ("erf", [-1.0, -0.0, 0.0, 1.0]),
        ("erfc", [2.0, 1.0, 1.0, 0.0]),
        ("erfinv", [N, -0.0, 0.0, N]),
    ];
    for ((name, wants), (other, wide, narrow)) in table.into_iter().zip(UNARY) {
        assert_eq!(name, other);
        for (x, want) in [-I, -0.0, 0.0, I].into_iter().zip(wants) {
            assert!(same(wide(x), want), "f64 {name}({x}) = {}", wide(x));
            let got = f64::from(narrow(x as f32));
            assert!(same(got, f64::from(want as f32)), "f32 {name}({x}) = {got}");
        }
        assert!(wide(N).is_nan() && narrow(f32::NAN).is_nan(), "{name}(NaN)");
    }
    for (x, want) in [(1.0, 0.0), (-1.0, N)] {
        assert!(same(double::log(x), want) && same(double::acosh(x), want));
        assert!(same(f64::from(single::log(x as f32)), want));
        assert!(same(f64::from(single::acosh(x as f32)), want));
    }
    for x in [1.0f64, -1.0] {
        assert!(same(double::atanh(x), I.copysign(x)));
        assert!(same(f64::from(single::atanh(x as f32)), I.copysign(x)));
        assert!(same(double::erfinv(x), I.copysign(x)));
        assert!(same(f64::from(single::erfinv(x as f32)), I.copysign(x)));
    }
    assert!(same(double::log1p(-1.0), -I) && single::log1p(-1.0) == f32::NEG_INFINITY);
    assert!(double::log1p(-1.5).is_nan() && single::log1p(-1.5).is_nan());
    assert!(double::asin(1.1).is_nan() && single::acos(-1.1).is_nan());
    assert!(double::atanh(1.1).is_nan() && single::atanh(-1.1).is_nan());
    assert!(double::erfinv(1.1).is_nan() && single::erfinv(-1.1).is_nan());
    for n in -1074..1024 {
        let x = if n < -1022 {
            f64::from_bits(1 << (n + 1074))
        } else {
            2f64.powi(n)
        };
        assert_eq!(double::exp2(f64::from(n)), x);
        assert_eq!(double::log2(x), f64::from(n));
    }
}

#[test]
#[allow(clippy::cast_possible_truncation)]
fn pow_special_values() {
    const I: f64 = f64::INFINITY;
    const N: f64 = f64::NAN;
    let cases = [
        (1.0, N, 1.0),
        (N, 0.0, 1.0),
        (N, -0.0, 1.0),
        (N, 1.0, N),
        (2.0, N, N),
        (0.0, 0.0, 1.0),
        (-0.0, 3.0, -0.0),
        (-0.0, 2.0, 0.0),
        (-0.0, 2.5, 0.0),
        (0.0, -3.0, I),
        (-0.0, -3.0, -I),
        (-0.0, -2.0, I),
        (-0.0, -0.5, I),
        (0.0, I, 0.0),
        (0.0, -I, I),
        (-1.0, I, 1.0),
        (-1.0, -I, 1.0),
        (1.0, I, 1.0),
        (0.5, I, 0.0),
        (0.5, -I, I),
        (-2.0, I, I),
        (-2.0, -I, 0.0),
        (I, 2.0, I),
        (I, -2.0, 0.0),
        (-I, 3.0, -I),
        (-I, 2.0, I),
        (-I, 2.5, I),
        (-I, -3.0, -0.0),
        (-I, -2.0, 0.0),
        (I, I, I),
        (I, -I, 0.0),
        (-8.0, 3.0, -512.0),
        (-8.0, 0.5, N),
        (-2.0, -1.0, -0.5),
        (2.0, 10.0, 1024.0),
        (2.0, 1e300, I),
        (0.5, 1e300, 0.0),
        (-3.0, 1e300, I),
    ];
    for (x, y, want) in cases {
        assert!(
            same(double::pow(x, y), want),
            "pow({x}, {y}) = {}",
            double::pow(x, y)
        );
        let got = single::pow(x as f32, y as f32);
        assert!(same(f64::from(got), want), "powf({x}, {y}) = {got}");
    }
}

#[test]
#[allow(clippy::cast_possible_truncation)]
fn other_binary_special_values() {
    const I: f64 = f64::INFINITY;
    const N: f64 = f64::NAN;
    // atan2 agrees with the standard library at every pair of special values.
    let values = [0.0, -0.0, 1.0, -1.0, I, -I, N, 1e-320, -1e308];
    for y in values {
        for x in values {
            let (got, want) = (double::atan2(y, x), y.atan2(x));
            assert!(
                same(got, want) || (got - want).abs() < 1e-15,
                "atan2({y}, {x}) = {got}"
            );
            assert_eq!(
                got.is_sign_negative(),
                want.is_sign_negative() && !want.is_nan()
            );
            let (y, x) = (y as f32, x as f32);
            let (got, want) = (single::atan2(y, x), y.atan2(x));
            let close = (got - want).abs() < 3e-7;
            assert!(
                close || (got.is_nan() && want.is_nan()),
                "atan2f({y}, {x}) = {got}"
            );
        }
    }
    let hypot = [
        (I, N, I),
        (N, -I, I),
        (N, 1.0, N),
        (0.0, -0.0, 0.0),
        (-3.0, 4.0, 5.0),
    ];
    for (x, y, want) in hypot {
        assert!(same(double::hypot(x, y), want));
        assert!(same(f64::from(single::hypot(x as f32, y as f32)), want));
    }
    assert_eq!(double::hypot(3e307, 4e307), 5e307);
    let logaddexp = [
        (I, 1.0, I),
        (I, I, I),
        (-I, -I, -I),
        (-I, 2.0, 2.0),
        (I, -I, I),
        (N, 1.0, N),
    ];
    for (x, y, want) in logaddexp {
        for (x, y) in [(x, y), (y, x)] {
            assert!(same(double::logaddexp(x, y), want), "logaddexp({x}, {y})");
            assert!(same(f64::from(single::logaddexp(x as f32, y as f32)), want));
        }
    }
}

#[test]
fn exact_operations() {
    const N: f64 = f64::NAN;
    const I: f64 = f64::INFINITY;
    assert_eq!(
        [-1.5, -0.5, 0.5, 1.5, 2.5].map(double::round_half_even),
        [-2.0, 0.0, 0.0, 2.0, 2.0]
    );
    assert_eq!(
        (double::floor(-1.5), double::ceil(-1.5), double::trunc(-1.5)),
        (-2.0, -1.0, -1.0)
    );
    assert_eq!(
        [-2.0, -0.0, 0.0, 3.0].map(double::sign),
        [-1.0, 0.0, 0.0, 1.0]
    );
    assert!(double::sign(N).is_nan() && single::sign(f32::NAN).is_nan());
    assert_eq!(double::copysign(3.0, -0.0), -3.0);
    for (x, y) in [(1.0, N), (N, 1.0), (N, N)] {
        assert!(double::maximum(x, y).is_nan() && double::minimum(x, y).is_nan());
    }
    assert_eq!((double::fmax(1.0, N), double::fmax(N, 1.0)), (1.0, 1.0));
    assert_eq!((double::fmin(1.0, N), double::fmin(N, 1.0)), (1.0, 1.0));
    assert!(double::fmax(N, N).is_nan() && double::fmin(N, N).is_nan());
    assert_eq!(
        (double::maximum(1.0, 2.0), double::minimum(1.0, 2.0)),
        (2.0, 1.0)
    );
    assert_eq!((double::fmax(1.0, 2.0), double::fmin(1.0, 2.0)), (2.0, 1.0));
    // x, y, fmod, remainder, floor_divide: NumPy's values.
    let divisions = [
        (7.0, 3.0, 1.0, 1.0, 2.0),
        (-7.0, 3.0, -1.0, 2.0, -3.0),
        (7.0, -3.0, 1.0, -2.0, -3.0),
        (-7.0, -3.0, -1.0, -1.0, 2.0),
        (6.0, -3.0, 0.0, -0.0, -2.0),
        (-1.0, I, -1.0, I, -1.0),
        (1.0, I, 1.0, 1.0, 0.0),
        (1.0, 0.0, N, N, I),
        (-1.0, 0.0, N, N, -I),
        (0.0, 0.0, N, N, N),
        (I, 2.0, N, N, N),
        (1.0, 0.1, 0.09999999999999995, 0.09999999999999995, 9.0),
        (-0.0, 1.0, -0.0, 0.0, -0.0),
        (N, 1.0, N, N, N),
    ];
    for (x, y, fmod, remainder, quotient) in divisions {
        assert!(same(double::fmod(x, y), fmod), "fmod({x}, {y})");
        assert!(
            same(double::remainder(x, y), remainder),
            "remainder({x}, {y})"
        );
        assert!(
            same(double::floor_divide(x, y), quotient),
            "floor_divide({x}, {y})"
        );
    }
    assert_eq!(
        (
            single::remainder(-7.0, 3.0),
            single::floor_divide(-7.0, 3.0)
        ),
        (2.0, -3.0)
    );
}

#[test]
fn slow_forms_continue_the_fast_ones() {
    let pairs = [
        (double::sin as Unary<f64>, double::sin_slow as Unary<f64>),
        (double::cos, double::cos_slow),
        (double::tan, double::tan_slow),
    ];
    let single_pairs = [
        (single::sin as Unary<f32>, single::sin_slow as Unary<f32>),
        (single::cos, single::cos_slow),
        (single::tan, single::tan_slow),
    ];
    for i in 0..1000 {
        let x = f64::from(i) * 0.37 - 100.0;
        for (fast, slow) in pairs {
            assert!(same(fast(x), slow(x)));
        }
        for (fast, slow) in single_pairs {
            assert_eq!(fast(x as f32), slow(x as f32));
        }
    }
    assert!(!double::needs_fixup(1e9) && double::needs_fixup(-1e10));
    assert!(!single::needs_fixup(9e4) && single::needs_fixup(-1e6));
    assert!(double::needs_fixup(f64::INFINITY) && single::needs_fixup(f32::NEG_INFINITY));
    assert!(!double::needs_fixup(f64::NAN) && double::sin(f64::NAN).is_nan());
    assert!((double::sin_slow(1e22) + 0.8522008497671888).abs() < 1.2e-16);
    assert!((double::cos_slow(-1e22) - 0.5232147853951389).abs() < 1.2e-16);
}

//! Every primitive of the table: its value against a definition, its derivatives to second order,
//! its text.

use cotan::aval::Axes;
use cotan::kernels::Value;
use cotan::prim::{Class, Params, Prim, Samples};
use cotan::testing::{self, Rng};
use cotan::{Aval, DType, Program, ops, transform};

/// All instances of a primitive in this dtype.
fn instances(prim: Prim, dtype: DType, rng: &mut Rng) -> Vec<(Program, Vec<Value>)> {
    (testing::samples(prim).iter())
        .filter_map(|sample| testing::instance(prim, sample, dtype, rng).unwrap())
        .collect()
}

fn is_differentiable(prim: Prim) -> bool {
    match &prim.0.class {
        Class::Elementwise { partials, .. } => partials.is_some(),
        Class::Linear { .. } => true,
        Class::General { vjp, .. } => vjp.is_some(),
    }
}

#[test]
fn every_primitive_has_a_test_instance() {
    let mut rng = Rng::new(1);
    for &prim in ops::table() {
        let found = [DType::F64, DType::C128].map(|d| instances(prim, d, &mut rng).len());
        let none = matches!(prim.0.samples, Samples::None(_));
        assert!(
            (found[0] + found[1] > 0) != none,
            "{prim:?}: no sample fits, or there are some and a reason why there are none"
        );
        assert!(ops::by_name(prim.name()) == Some(prim));
        assert!(
            !prim.0.doc.trim().is_empty(),
            "{prim:?} has no documentation"
        );
    }
}

/// ⟨ct, J t⟩ = ⟨Jᵀ ct, t⟩ with J t from differences and from the forward rules, and the same for the
/// reverse pass itself.
fn check(prim: Prim, dtype: DType) {
    let mut rng = Rng::new(2);
    for (program, values) in instances(prim, dtype, &mut rng) {
        // z / |z| has no derivative that a single factor could be.
        let order = if prim == ops::SIGN && dtype.is_complex() {
            0
        } else {
            2
        };
        testing::check_derivatives(&program, &values, order, 1e-6, &mut rng)
            .unwrap_or_else(|e| panic!("{dtype}: {e}"));
    }
}

#[test]
fn derivatives_of_every_primitive_in_float64() {
    for &prim in ops::table()
        .iter()
        .filter(|&&p| is_differentiable(p) && p != ops::CAST)
    {
        check(prim, DType::F64);
    }
}

#[test]
fn derivatives_of_every_primitive_in_complex128() {
    for &prim in ops::table()
        .iter()
        .filter(|&&p| is_differentiable(p) && p != ops::CAST)
    {
        check(prim, DType::C128);
    }
}

/// Casts between widths: the cotangent comes back in the dtype of the argument.
#[test]
fn casts_are_linear() {
    for (from, to) in [
        (DType::F32, DType::F64),
        (DType::F64, DType::F32),
        (DType::F64, DType::C128),
    ] {
        let program =
            testing::single(ops::CAST, &Params::DType(to), &[Aval::new(from, &[2])]).unwrap();
        let vjp = transform::vjp(&program, &[true]).unwrap();
        let out = vjp.program.outs()[vjp.gradients[0].unwrap()];
        assert_eq!(*vjp.program.aval(out), Aval::new(from, &[2]));
    }
}

/// The value and the reverse pass in float32 against those in float64.
#[test]
fn float32_agrees_with_float64() {
    for &prim in ops::table() {
        // Differences of order one where the argument crosses a step.
        let steps = [
            "floor",
            "ceil",
            "round",
            "trunc",
            "floor_divide",
            "remainder",
            "fmod",
            "cast",
        ];
        if steps.contains(&prim.name()) {
            continue;
        }
        let mut rng = Rng::new(4);
        for (program, values) in instances(prim, DType::F32, &mut rng) {
            let wide: Vec<Value> = values.iter().map(widen).collect();
            let avals: Vec<Aval> = wide.iter().map(|v| v.aval().clone()).collect();
            let params = program.params(&program.eqns()[0]).clone();
            let params = match params {
                Params::Literal { value, .. } => Params::literal(DType::F32, value.re),
                other => other,
            };
            let double = testing::single(prim, &params, &avals).unwrap();
            close(&program, &double, &values, &wide, 2e-5);
            if !is_differentiable(prim) {
                continue;
            }
            let wrt = testing::inexact_inputs(&program);
            let narrow = testing::checked_vjp(&program, &wrt, &values).unwrap();
            let double = testing::checked_vjp(&double, &wrt, &wide).unwrap();
            if narrow.cotangents[0].is_none() {
                continue;
            }
            let out = program.aval(program.outs()[0]);
            let ct = rng.array(out.dtype, &out.shape, 0.5, 1.0).unwrap();
            let wide_ct = widen(&ct);
            let push = |values: &[Value], ct: Value| [values, &[ct]].concat();
            close(
                &narrow.program,
                &double.program,
                &push(&values, ct),
                &push(&wide, wide_ct),
                2e-4,
            );
        }
    }
}

/// The same numbers in twice as many bits.
fn widen(x: &Value) -> Value {
    let dtype = match x.dtype() {
        DType::F32 => DType::F64,
        DType::C64 => DType::C128,
        _ => return x.clone(),
    };
    testing::value(dtype, x.shape(), &testing::numbers(x).unwrap()).unwrap()
}

fn close(narrow: &Program, double: &Program, x: &[Value], y: &[Value], tolerance: f64) {
    let (a, b) = (
        testing::run(narrow, x).unwrap(),
        testing::run(double, y).unwrap(),
    );
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a.shape(), b.shape());
        for (p, q) in testing::numbers(a)
            .unwrap()
            .iter()
            .zip(testing::numbers(b).unwrap())
        {
            let error = (p - q).norm() / (1.0 + q.norm());
            assert!(error < tolerance, "{p} and {q} in\n{narrow}");
        }
    }
}

/// `parse(print(p)) == p`, for each primitive and for its reverse pass.
#[test]
fn text_reads_back() {
    let mut rng = Rng::new(5);
    for &prim in ops::table() {
        for dtype in [DType::F32, DType::F64, DType::C128] {
            for (program, _) in instances(prim, dtype, &mut rng) {
                assert_eq!(Program::parse(&program.to_string()).unwrap(), program);
                if is_differentiable(prim) {
                    let wrt = testing::inexact_inputs(&program);
                    let vjp = transform::vjp(&program, &wrt).unwrap().program.pruned();
                    assert_eq!(Program::parse(&vjp.to_string()).unwrap(), vjp);
                }
            }
        }
    }
}

/// Values against their definitions, where the standard library has them.
#[test]
fn unary_functions_follow_their_definitions() {
    let definitions: [(&str, fn(f64) -> f64); 33] = [
        ("neg", |x| -x),
        ("abs", f64::abs),
        ("sign", f64::signum),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("round", f64::round_ties_even),
        ("trunc", f64::trunc),
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("expm1", f64::exp_m1),
        ("log", f64::ln),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("sqrt", f64::sqrt),
        ("cbrt", f64::cbrt),
        ("reciprocal", f64::recip),
        ("square", |x| x * x),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tan", f64::tan),
        ("asin", f64::asin),
        ("acos", f64::acos),
        ("atan", f64::atan),
        ("sinh", f64::sinh),
        ("cosh", f64::cosh),
        ("tanh", f64::tanh),
        ("asinh", f64::asinh),
        ("acosh", f64::acosh),
        ("atanh", f64::atanh),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
        ("softplus", |x| x.exp().ln_1p()),
        ("conj", |x| x),
    ];
    let mut rng = Rng::new(6);
    for (name, f) in definitions {
        let prim = ops::by_name(name).unwrap();
        for (program, values) in instances(prim, DType::F64, &mut rng) {
            let out = testing::run(&program, &values).unwrap();
            let x = testing::numbers(&values[0]).unwrap();
            for (x, y) in x.iter().zip(testing::numbers(&out[0]).unwrap()) {
                let wanted = f(x.re);
                assert!(
                    (y.re - wanted).abs() <= 1e-13 * (1.0 + wanted.abs()),
                    "{name}({x}): {y}"
                );
            }
        }
    }
}

#[test]
fn binary_functions_follow_their_definitions_and_broadcast() {
    let definitions: [(&str, fn(f64, f64) -> f64); 22] = [
        ("add", |x, y| x + y),
        ("sub", |x, y| x - y),
        ("mul", |x, y| x * y),
        ("div", |x, y| x / y),
        ("pow", f64::powf),
        ("maximum", f64::max),
        ("minimum", f64::min),
        ("fmax", f64::max),
        ("fmin", f64::min),
        ("atan2", f64::atan2),
        ("hypot", f64::hypot),
        ("logaddexp", |x, y| (x.exp() + y.exp()).ln()),
        ("floor_divide", |x, y| (x / y).floor()),
        ("remainder", f64::rem_euclid),
        ("fmod", |x, y| x % y),
        ("copysign", f64::copysign),
        ("eq", |x, y| f64::from(x == y)),
        ("ne", |x, y| f64::from(x != y)),
        ("lt", |x, y| f64::from(x < y)),
        ("le", |x, y| f64::from(x <= y)),
        ("gt", |x, y| f64::from(x > y)),
        ("ge", |x, y| f64::from(x >= y)),
    ];
    let mut rng = Rng::new(7);
    for (name, f) in definitions {
        let prim = ops::by_name(name).unwrap();
        for (program, values) in instances(prim, DType::F64, &mut rng) {
            let out = testing::run(&program, &values).unwrap().remove(0);
            let wide = |v: &Value| testing::numbers(&v.broadcast_to(out.shape())).unwrap();
            let (x, y) = (wide(&values[0]), wide(&values[1]));
            for ((x, y), z) in x.iter().zip(y).zip(testing::numbers(&out).unwrap()) {
                let wanted = f(x.re, y.re);
                assert!(
                    (z.re - wanted).abs() <= 1e-12 * (1.0 + wanted.abs()),
                    "{name}({x}, {y}): {z}"
                );
            }
        }
    }
}

#[test]
fn reductions_follow_their_definitions() {
    let definitions: [(&str, fn(&[f64]) -> f64); 6] = [
        ("sum", |x| x.iter().sum()),
        ("mean", |x| x.iter().sum::<f64>() / x.len() as f64),
        ("prod", |x| x.iter().product()),
        ("max", |x| {
            x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        }),
        ("min", |x| x.iter().copied().fold(f64::INFINITY, f64::min)),
        ("logsumexp", |x| x.iter().map(|x| x.exp()).sum::<f64>().ln()),
    ];
    let mut rng = Rng::new(8);
    for (name, f) in definitions {
        let prim = ops::by_name(name).unwrap();
        for (program, values) in instances(prim, DType::F64, &mut rng) {
            let axes = program.params(&program.eqns()[0]).axes().to_vec();
            let out = testing::run(&program, &values).unwrap().remove(0);
            // Kept axes first: then each result reduces one run of elements.
            let rank = values[0].shape().len();
            let perm: Vec<usize> = (0..rank)
                .filter(|i| !axes.contains(i))
                .chain(axes.iter().copied())
                .collect();
            let x: Vec<f64> = testing::numbers(&values[0].transposed(&perm))
                .unwrap()
                .iter()
                .map(|z| z.re)
                .collect();
            let results = testing::numbers(&out).unwrap();
            for (row, y) in x.chunks(x.len() / results.len()).zip(results) {
                assert!((f(row) - y.re).abs() < 1e-12, "{name} of {row:?}: {y}");
            }
        }
    }
}

#[test]
fn a_matrix_product_follows_its_definition() {
    let mut rng = Rng::new(9);
    let a = rng.array(DType::F64, &[3, 4], -1.0, 1.0).unwrap();
    let b = rng.array(DType::F64, &[4, 2], -1.0, 1.0).unwrap();
    let avals = [a.aval().clone(), b.aval().clone()];
    let program = testing::single(ops::MATMUL, &Params::None, &avals).unwrap();
    let (x, y) = (testing::numbers(&a).unwrap(), testing::numbers(&b).unwrap());
    let out = testing::numbers(&testing::run(&program, &[a, b]).unwrap()[0]).unwrap();
    for i in 0..3 {
        for j in 0..2 {
            let wanted: f64 = (0..4).map(|k| x[4 * i + k].re * y[2 * k + j].re).sum();
            assert!((out[2 * i + j].re - wanted).abs() < 1e-14);
        }
    }
}

/// A product is differentiated exactly where factors are zero, to second order too.
#[test]
fn products_with_zeros() {
    let x = Value::from_slice(&[4], &[2.0, 0.0, 3.0, 0.0]).unwrap();
    let one = Value::from_slice(&[4], &[2.0, 0.0, 3.0, 5.0]).unwrap();
    let params = Params::Axes(Axes::from_slice(&[0]));
    let program = testing::single(ops::PROD, &params, &[Aval::new(DType::F64, &[4])]).unwrap();
    let vjp = testing::checked_vjp(&program, &[true], std::slice::from_ref(&x)).unwrap();
    let ct = Value::scalar(1.0).unwrap();
    let gradient = |x: &Value| {
        let out = testing::run(&vjp.program, &[x.clone(), ct.clone()]).unwrap();
        out[1].as_slice::<f64>().unwrap().to_vec()
    };
    assert_eq!(gradient(&x), [0.0; 4]);
    assert_eq!(gradient(&one), [0.0, 30.0, 0.0, 0.0]);
    let mut rng = Rng::new(10);
    testing::check_derivatives(&program, &[x], 3, 1e-6, &mut rng).unwrap();
}

#[test]
fn ties_are_shared_and_rectifiers_stop() {
    let x = Value::from_slice(&[3], &[1.0, 2.0, 2.0]).unwrap();
    let params = Params::Axes(Axes::from_slice(&[0]));
    let program = testing::single(ops::MAX, &params, &[Aval::new(DType::F64, &[3])]).unwrap();
    let vjp = testing::checked_vjp(&program, &[true], std::slice::from_ref(&x)).unwrap();
    let out = testing::run(&vjp.program, &[x, Value::scalar(1.0).unwrap()]).unwrap();
    assert_eq!(out[1].as_slice::<f64>().unwrap(), [0.0, 0.5, 0.5]);
}

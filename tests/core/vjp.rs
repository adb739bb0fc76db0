//! The reverse pass: what it computes, what it leaves out, and what a pullback keeps.

use cotan::sched::Profile;
use cotan::{Arg, Array, DType, Program, constant, ones_like, trace, transform};

use crate::common::{gradient, pullback};

fn vector(elements: &[f64]) -> Array {
    Array::from_slice(&[elements.len()], elements).unwrap()
}

#[test]
fn a_mask_stays_outermost() {
    let x = vector(&[0.0, 2.0, -1.0]);
    let f = |x: &[Array]| {
        let inside = x[0].gt(0.0)?;
        inside.r#where(&x[0].log()?, 0.0)?.sum(..)
    };
    let g = gradient(f, &[Arg::from(&x)]).unwrap();
    assert_eq!(
        g[0].as_ref().unwrap().to_vec::<f64>().unwrap(),
        [0.0, 0.5, 0.0]
    );
}

#[test]
fn a_mask_survives_a_chain_and_a_second_derivative() {
    let x = vector(&[0.0, 4.0]);
    let slope = |x: &[Array]| {
        let f = |x: &[Array]| {
            let root = x[0].sqrt()?.mul(3.0)?.neg()?;
            x[0].gt(0.0)?.r#where(&root, 0.0)?.sum(..)
        };
        gradient(f, &[Arg::from(&x[0])])?[0]
            .as_ref()
            .unwrap()
            .sum(..)
    };
    let g = gradient(slope, &[Arg::from(&x)]).unwrap();
    assert_eq!(
        g[0].as_ref().unwrap().to_vec::<f64>().unwrap(),
        [0.0, 3.0 / 32.0]
    );
}

/// A constant costs no equation: the pullback of a product has one multiplication, not two.
#[test]
fn constants_give_no_equation() {
    let (x, c) = (vector(&[1.0, 2.0]), vector(&[3.0, 4.0]));
    let f = |v: &[Array]| v[0].mul(&v[1]);
    let (_, back) = pullback(f, &[Arg::from(&x), constant(&c)]).unwrap();
    assert_eq!(back.program().eqns().len(), 1);
    assert_eq!(back.residuals().len(), 1, "only the constant is kept");
    let (_, both) = pullback(f, &[Arg::from(&x), Arg::from(&c)]).unwrap();
    assert_eq!(both.program().eqns().len(), 2);
}

#[test]
fn cotangents_that_nobody_reads_are_not_computed() {
    let (x, w) = (vector(&[1.0, 2.0]), vector(&[3.0, 4.0]));
    let f = |v: &[Array]| v[0].sin()?.mul(&v[1].exp()?);
    let (y, back) = pullback(f, &[Arg::from(&x), Arg::from(&w)]).unwrap();
    assert_eq!(y.shape(), [2]);
    let cts = back.apply(&vector(&[0.5, 2.0])).unwrap();
    let profile = Profile::default();
    profile.enter();
    let first = cts[0].as_ref().unwrap();
    assert!(!first.is_forced());
    first.evaluate().unwrap();
    assert!(first.is_forced() && !cts[1].as_ref().unwrap().is_forced());
    profile.exit();
    let counts = profile.counts();
    assert_eq!(counts.runs, 1);
    let muls = counts
        .equations
        .iter()
        .find(|(p, _)| p.name() == "mul")
        .map_or(0, |(_, n)| *n);
    assert_eq!(
        muls, 2,
        "only the equations of the first cotangent: {counts:?}"
    );
}

#[test]
fn without_influence_there_is_none() {
    let (x, y) = (vector(&[1.0]), vector(&[2.0]));
    let g = gradient(|v| v[0].sum(..), &[Arg::from(&x), Arg::from(&y)]).unwrap();
    assert!(g[0].is_some() && g[1].is_none());
    let g = gradient(|v| v[0].dropgrad().sum(..), &[Arg::from(&x)]).unwrap();
    assert!(g[0].is_none());
    let g = gradient(|_| Ok(Array::from(1.0)), &[Arg::from(&x)]).unwrap();
    assert!(g[0].is_none());
}

/// What is dear is kept, what is free or cheap is made again.
#[test]
fn a_pullback_keeps_little() {
    let n = 1000;
    let x = Array::from_slice(&[n], &vec![0.5; n]).unwrap();
    let nbytes = |f: &dyn Fn(&[Array]) -> cotan::Result<Array>| {
        pullback(f, &[Arg::from(&x)]).unwrap().1.nbytes()
    };
    assert_eq!(nbytes(&|x| x[0].sum(..)), 0, "a sum is linear");
    assert_eq!(nbytes(&|x| x[0].mul(3.0)?.neg()?.add(1.0)), 8, "a number");
    assert_eq!(nbytes(&|x| x[0].exp()), 8 * n, "the result");
    assert_eq!(
        nbytes(&|x| x[0].tanh()?.square()?.neg()?.sum(..)),
        8 * n,
        "the result of tanh"
    );
    let shifted = nbytes(&|x| x[0].add(1.0)?.square()?.sum(..));
    assert!(
        shifted <= 8 * n + 8,
        "x, from which the rest follows: {shifted}"
    );
    let transposed = nbytes(&|x| x[0].reshape(&[10, 100])?.t()?.square());
    assert_eq!(transposed, 8 * n, "layouts are free");
}

#[test]
fn a_pullback_for_some_arguments_keeps_only_theirs() {
    let (x, y) = (vector(&[1.0, 2.0]), vector(&[3.0, 4.0]));
    let f = |v: &[Array]| v[0].mul(&v[1]);
    let (out, back) = pullback(f, &[Arg::from(&x), Arg::from(&y)]).unwrap();
    let first = back.wrt(&[true, false]);
    assert_eq!(first.nbytes(), 16);
    let cts = first.apply(&ones_like(&out).unwrap()).unwrap();
    assert_eq!(
        cts[0].as_ref().unwrap().to_vec::<f64>().unwrap(),
        [3.0, 4.0]
    );
    assert!(cts[1].is_none());
}

#[test]
fn a_pullback_is_reusable_and_linear() {
    let x = vector(&[1.0, 2.0]);
    let (_, back) = pullback(|v| v[0].square(), &[Arg::from(&x)]).unwrap();
    for k in [1.0, 2.0] {
        let cts = back.apply(&vector(&[k, k])).unwrap();
        assert_eq!(
            cts[0].as_ref().unwrap().to_vec::<f64>().unwrap(),
            [2.0 * k, 4.0 * k]
        );
    }
    let error = back.apply(&vector(&[1.0])).unwrap_err().to_string();
    assert!(
        error.contains("f64[2]") && error.contains("f64[1]"),
        "{error}"
    );
}

#[test]
fn broadcast_arguments_get_sums() {
    let (x, b) = (
        Array::from_slice(&[2, 3], &[1.0f32; 6]).unwrap(),
        Array::from(2.0f32),
    );
    let f = |v: &[Array]| v[0].mul(&v[1])?.sum(..);
    let g = gradient(f, &[Arg::from(&x), Arg::from(&b)]).unwrap();
    let b = g[1].as_ref().unwrap();
    assert_eq!(
        (b.shape(), b.dtype(), b.to_vec::<f32>().unwrap()),
        (&[][..], DType::F32, vec![6.0])
    );
}

/// The gradient of |z|² at 1 + 2i is 2 + 4i: `back` applies the conjugate transpose.
#[test]
fn complex_gradients() {
    use num_complex::Complex;
    let z = Array::from(Complex::new(1.0, 2.0));
    let g = gradient(|z| z[0].abs()?.square(), &[Arg::from(&z)]).unwrap();
    let g = g[0].as_ref().unwrap().to_vec::<Complex<f64>>().unwrap()[0];
    assert!((g - Complex::new(2.0, 4.0)).norm() < 1e-14);
    // A real argument of a complex function gets a real cotangent.
    let g = gradient(
        |x| x[0].mul(Complex::new(0.0, 1.0))?.abs(),
        &[Arg::from(Array::from(3.0))],
    );
    assert_eq!(g.unwrap()[0].as_ref().unwrap().item().unwrap(), 1.0);
}

#[test]
fn kinks_have_the_documented_derivatives() {
    let g = |f: fn(&[Array]) -> cotan::Result<Array>, x: f64| {
        gradient(f, &[Arg::from(Array::from(x))]).unwrap()[0]
            .as_ref()
            .map_or(0.0, |g| g.item().unwrap())
    };
    assert_eq!(g(|x| x[0].abs(), 0.0), 0.0);
    assert_eq!(g(|x| x[0].maximum(0.0), 0.0), 0.0);
    assert_eq!(g(|x| x[0].maximum(0.0), 1.0), 1.0);
    assert_eq!(g(|x| x[0].hypot(0.0), 0.0), 0.0);
    assert_eq!(g(|x| x[0].pow(2.0), 0.0), 0.0);
    assert_eq!(g(|x| x[0].pow(0.0), 0.0), 0.0);
    assert_eq!(g(|x| x[0].floor(), 1.5), 0.0);
}

#[test]
fn integers_have_no_cotangents() {
    let index = Array::from_slice(&[2], &[1i64, 1]).unwrap();
    let x = vector(&[1.0, 2.0]);
    let g = gradient(|v| v[0].gather(&index)?.sum(..), &[Arg::from(&x)]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>().unwrap(), [0.0, 2.0]);
    let error = gradient(|v| v[0].sum(..), &[Arg::from(&index)])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("argument 0") && error.contains("int64") && error.contains("constant()"),
        "{error}"
    );
}

/// The names of a reverse pass's inputs tell which output they belong to.
#[test]
fn inputs_are_named() {
    let x = vector(&[1.0]);
    let (mut program, _) = trace(|v| v[0].sin(), &[&x]).unwrap();
    program.name_inputs(["x".to_string()]);
    let vjp = transform::vjp(&program, &[true]).unwrap();
    let text = vjp.program.to_string();
    assert!(
        text.starts_with("program(%x: f64[1], %ct: f64[1])"),
        "{text}"
    );
    assert_eq!(Program::parse(&text).unwrap(), vjp.program);
}

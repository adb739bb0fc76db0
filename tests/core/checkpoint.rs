//! Checkpoints: the same gradients, less memory, more work.

use cotan::autodiff::{Policy, checkpoint, name};
use cotan::sched::Profile;
use cotan::{Arg, Array, constant};

use crate::common::{gradient, pullback, value_and_gradient};

fn points(n: usize) -> Array {
    let values: Vec<f64> = (0..n).map(|i| 0.1 + 0.8 * i as f64 / n as f64).collect();
    Array::from_slice(&[n], &values).unwrap()
}

/// Twenty steps of a nonlinear map.
fn chain(x: &[Array]) -> cotan::Result<Vec<Array>> {
    let y = (0..20).try_fold(x[0].clone(), |y, _| y.sin()?.mul(&y.neg()?.exp()?));
    Ok(vec![y?])
}

fn plain(x: &[Array]) -> cotan::Result<Array> {
    chain(x)?[0].sum(..)
}

fn saved(policy: &Policy) -> impl Fn(&[Array]) -> cotan::Result<Array> {
    let policy = policy.clone();
    move |x| checkpoint("chain", chain, &policy, &[&x[0]])?[0].sum(..)
}

fn values(g: &[Option<Array>]) -> Vec<f64> {
    g[0].as_ref().unwrap().to_vec::<f64>().unwrap()
}

#[test]
fn gradients_are_the_same_to_the_last_bit() {
    let x = points(100);
    let wanted = values(&gradient(plain, &[Arg::from(&x)]).unwrap());
    let budget = Policy::Budget(3 * x.nbytes());
    for policy in [Policy::Nothing, Policy::Products, budget] {
        let (y, g) = value_and_gradient(saved(&policy), &[Arg::from(&x)]).unwrap();
        assert_eq!(values(&g), wanted, "{policy:?}");
        assert_eq!(
            y.item().unwrap(),
            plain(std::slice::from_ref(&x)).unwrap().item().unwrap()
        );
    }
}

#[test]
fn a_pullback_keeps_the_argument_and_what_the_policy_says() {
    let x = points(1000);
    let bytes = |policy: &Policy| {
        let (_, back) = pullback(saved(policy), &[Arg::from(&x)]).unwrap();
        let one = Array::from(1.0);
        assert!(
            values(&back.apply(&one).unwrap())
                .iter()
                .all(|v| v.is_finite())
        );
        back.nbytes()
    };
    let (_, back) = pullback(plain, &[Arg::from(&x)]).unwrap();
    assert!(back.nbytes() >= 20 * x.nbytes());
    assert_eq!(bytes(&Policy::Nothing), x.nbytes());
    let some = bytes(&Policy::Budget(5 * x.nbytes()));
    assert!(some > x.nbytes() && some <= 6 * x.nbytes(), "{some}");
    assert!(bytes(&Policy::Budget(usize::MAX)) >= 20 * x.nbytes());
}

#[test]
fn work_is_done_again_for_what_is_not_kept() {
    let x = points(64);
    let sines = |f: &dyn Fn(&[Array]) -> cotan::Result<Array>, apart: bool| {
        let profile = Profile::default();
        profile.enter();
        if apart {
            let (_, back) = cotan::pullback(f, &[Arg::from(&x)]).unwrap();
            values(&back.apply(&Array::from(1.0)).unwrap());
        } else {
            cotan::value_and_gradient(f, &[Arg::from(&x)]).unwrap();
        }
        profile.exit();
        let counts = profile.counts();
        counts
            .equations
            .iter()
            .find(|(p, _)| p.name() == "sin")
            .map_or(0, |(_, n)| *n)
    };
    assert_eq!(sines(&plain, true), 20);
    assert_eq!(sines(&saved(&Policy::Nothing), true), 40);
    assert_eq!(sines(&saved(&Policy::Budget(usize::MAX)), true), 20);
    // In a single pass they stay in its tiles, and nothing is saved by doing them again.
    assert_eq!(sines(&saved(&Policy::Nothing), false), 20);
}

#[test]
fn products_and_names_are_kept() {
    let x = Array::from_slice(&[30, 30], &[0.01; 900]).unwrap();
    let f = |policy: Policy| {
        move |x: &[Array]| {
            let block = |x: &[Array]| {
                let h = name(&x[0].matmul(&x[1])?.tanh()?, "h");
                Ok(vec![h.matmul(&x[1])?.tanh()?.square()?])
            };
            checkpoint("block", block, &policy, &[&x[0], &x[1]])?[0].sum(..)
        }
    };
    let bytes = |policy| {
        pullback(f(policy), &[Arg::from(&x), constant(&x)])
            .unwrap()
            .1
            .nbytes()
    };
    // The weights are the argument itself here.
    assert_eq!(bytes(Policy::Nothing), x.nbytes());
    assert_eq!(bytes(Policy::Products), 3 * x.nbytes());
    assert_eq!(bytes(Policy::Named(vec!["h".into()])), 2 * x.nbytes());
    let error = pullback(
        f(Policy::Named(vec!["g".into()])),
        &[Arg::from(&x), Arg::from(&x)],
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("\"g\"") && error.contains("\"h\""),
        "{error}"
    );
}

#[test]
fn what_is_closed_over_has_its_gradient() {
    let x = points(5);
    let f = |v: &[Array]| {
        let w = v[1].clone();
        checkpoint(
            "scaled",
            |x| Ok(vec![x[0].mul(&w)?.sin()?]),
            &Policy::Nothing,
            &[&v[0]],
        )?[0]
            .sum(..)
    };
    let g = gradient(f, &[constant(&x), Arg::from(Array::from(2.0))]).unwrap();
    let wanted: f64 = x
        .to_vec::<f64>()
        .unwrap()
        .iter()
        .map(|x| x * (2.0 * x).cos())
        .sum();
    let got = g[1].as_ref().unwrap().item().unwrap();
    assert!((got - wanted).abs() < 1e-14);
}

#[test]
fn checkpoints_nest_and_are_differentiated_again() {
    let x = Array::from(0.7);
    let cube = |x: &[Array]| {
        let inner = |x: &[Array]| Ok(vec![x[0].mul(&x[0])?]);
        let square = checkpoint("inner", inner, &Policy::Nothing, &[&x[0]])?;
        Ok(vec![square[0].mul(&x[0])?])
    };
    let f = |x: &[Array]| Ok(checkpoint("cube", cube, &Policy::Nothing, &[&x[0]])?[0].clone());
    let slope = |x: &[Array]| Ok(gradient(f, &[Arg::from(&x[0])])?[0].clone().unwrap());
    let bend = |x: &[Array]| Ok(gradient(slope, &[Arg::from(&x[0])])?[0].clone().unwrap());
    let third = gradient(bend, &[Arg::from(&x)]).unwrap();
    assert!((slope(std::slice::from_ref(&x)).unwrap().item().unwrap() - 3.0 * 0.49).abs() < 1e-15);
    assert!((third[0].as_ref().unwrap().item().unwrap() - 6.0).abs() < 1e-14);
}

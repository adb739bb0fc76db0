//! Rules that users write.

use cotan::{Arg, Array, Program, constant, custom, gradient, trace, value_and_gradient};

/// `log(1 + exp(x))` with a rule that shares an intermediate value.
fn softplus(x: &Array) -> cotan::Result<Array> {
    custom(
        "softplus_rule",
        |x| {
            let e = x[0].exp()?;
            let y = e.log1p()?;
            Ok((y, move |ct: &Array| {
                Ok(vec![Some(ct.mul(&e.div(&e.add(1.0)?)?)?)])
            }))
        },
        &[x],
    )
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn a_rule_is_used_and_differentiated_again() {
    let x = Array::from(0.3);
    let (y, g) = value_and_gradient(|x| softplus(&x[0]), &[Arg::from(&x)]).unwrap();
    assert!((y.item().unwrap() - 0.3f64.exp().ln_1p()).abs() < 1e-15);
    assert!((g[0].as_ref().unwrap().item().unwrap() - sigmoid(0.3)).abs() < 1e-15);
    let slope = |x: &[Array]| {
        Ok(gradient(|x| softplus(&x[0]), &[Arg::from(&x[0])])?[0]
            .clone()
            .unwrap())
    };
    let g = gradient(slope, &[Arg::from(&x)]).unwrap();
    let wanted = sigmoid(0.3) * (1.0 - sigmoid(0.3));
    assert!((g[0].as_ref().unwrap().item().unwrap() - wanted).abs() < 1e-15);
}

#[test]
fn a_rule_may_say_anything() {
    let f = |x: &[Array]| {
        custom(
            "wrong",
            |x| Ok((x[0].sin()?, |ct: &Array| Ok(vec![Some(ct.mul(7.0)?)]))),
            &[&x[0]],
        )
    };
    let g = gradient(f, &[Arg::from(Array::from(0.3))]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().item().unwrap(), 7.0);
}

/// What the function and its pullback share is computed once.
#[test]
fn shared_intermediates_are_computed_once() {
    let profile = cotan::sched::Profile::default();
    let x = Array::from_slice(&[3], &[0.1, 0.2, 0.3]).unwrap();
    profile.enter();
    value_and_gradient(|x| softplus(&x[0])?.sum(..), &[Arg::from(&x)]).unwrap();
    profile.exit();
    let counts = profile.counts();
    let exps = counts
        .equations
        .iter()
        .find(|(p, _)| p.name() == "exp")
        .map(|(_, n)| *n);
    assert_eq!(exps, Some(1), "{counts:?}");
}

#[test]
fn captured_arrays_are_arguments_of_the_equation() {
    let c = Array::from_slice(&[2], &[2.0, 3.0]).unwrap();
    let scale = |x: &Array| {
        let c = &c;
        custom(
            "scale",
            move |x| Ok((x[0].mul(c)?, move |ct: &Array| Ok(vec![Some(ct.mul(c)?)]))),
            &[x],
        )
    };
    let x = Array::from_slice(&[2], &[1.0, 1.0]).unwrap();
    let g = gradient(|x| scale(&x[0])?.sum(..), &[Arg::from(&x)]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>().unwrap(), [2.0, 3.0]);
    let (program, captured) = trace(|x| scale(&x[0]), &[&x]).unwrap();
    assert_eq!(captured.len(), 1);
    assert!(
        program.to_string().contains("custom[name=scale](%0, %1)"),
        "{program}"
    );
    let error = Program::parse(&program.to_string())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("scale") && error.contains("line 2"),
        "{error}"
    );
}

#[test]
fn several_arguments_with_and_without_influence() {
    let f = |v: &[Array]| {
        custom(
            "second_only",
            |v| {
                let x = v[0].clone();
                Ok((v[0].mul(&v[1])?, move |ct: &Array| {
                    Ok(vec![None, Some(ct.mul(&x)?)])
                }))
            },
            &[&v[0], &v[1]],
        )
    };
    let (x, y) = (Array::from(2.0), Array::from(5.0));
    let g = gradient(f, &[Arg::from(&x), Arg::from(&y)]).unwrap();
    assert!(g[0].is_none());
    assert_eq!(g[1].as_ref().unwrap().item().unwrap(), 2.0);
    let g = gradient(f, &[constant(&x), Arg::from(&y)]).unwrap();
    assert_eq!(g[1].as_ref().unwrap().item().unwrap(), 2.0);
}

/// Two calls with one rule have equal programs, so they share a plan.
#[test]
fn equal_rules_are_equal() {
    let x = Array::from(0.3);
    let program = || trace(|x| softplus(&x[0]), &[&x]).unwrap().0;
    assert_eq!(program(), program());
    assert_eq!(program().structural_hash(), program().structural_hash());
}

#[test]
fn what_a_rule_gives_is_checked() {
    let x = Array::from_slice(&[2], &[1.0, 2.0]).unwrap();
    let try_rule = |cts: fn(&Array) -> cotan::Result<Vec<Option<Array>>>| {
        custom("mine", move |x| Ok((x[0].exp()?, cts)), &[&x])
            .unwrap_err()
            .to_string()
    };
    let number = try_rule(|_| Ok(vec![]));
    assert!(
        number.contains("mine") && number.contains("0 cotangents for 1 argument"),
        "{number}"
    );
    let shape = try_rule(|ct| Ok(vec![Some(ct.sum(..)?)]));
    assert!(
        shape.contains("mine") && shape.contains("argument 0") && shape.contains("(2,)"),
        "{shape}"
    );
    let dtype = try_rule(|ct| Ok(vec![Some(ct.cast(cotan::DType::F32)?)]));
    assert!(
        dtype.contains("mine") && dtype.contains("float32") && dtype.contains("float64"),
        "{dtype}"
    );
    let branch = try_rule(|ct| {
        ct.evaluate()?;
        Ok(vec![None])
    });
    assert!(branch.contains("where()"), "{branch}");
}

#[test]
fn nothing_detaches_in_silence() {
    let outer = |x: &[Array]| {
        let y = &x[0];
        custom(
            "hidden",
            move |v| Ok((v[0].mul(y)?, move |ct: &Array| Ok(vec![Some(ct.mul(y)?)]))),
            &[&x[1]],
        )
    };
    let args = [Arg::from(Array::from(1.0)), Arg::from(Array::from(2.0))];
    let error = gradient(outer, &args).unwrap_err().to_string();
    assert!(
        error.contains("hidden") && error.contains("dropgrad"),
        "{error}"
    );
}

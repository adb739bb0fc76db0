//! Rules that users write.

use cotan::transform::jvp;
use cotan::{
    Arg, Array, Program, Recording, constant, custom, custom_jvp, custom_many, trace,
    value_and_gradient,
};

use crate::common::{gradient, pullback};

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
    let shape = try_rule(|_| Ok(vec![Some(Array::from_slice(&[3], &[1.0, 2.0, 3.0])?)]));
    assert!(
        shape.contains("mine") && shape.contains("argument 0") && shape.contains("(2,)"),
        "{shape}"
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

/// What a rule gives is brought to the dtype of its argument, and has its shape.
#[test]
fn cotangents_are_projected() {
    let x = Array::from_slice(&[2], &[1.0f32, 2.0]).unwrap();
    let slope = |rule: fn(&Array) -> cotan::Result<Array>| -> cotan::Result<Vec<f32>> {
        let f = move |x: &[Array]| {
            let rule =
                move |x: &[Array]| Ok((x[0].sum(..)?, move |ct: &Array| Ok(vec![Some(rule(ct)?)])));
            custom("mine", rule, &[&x[0]])
        };
        let g = gradient(f, &[Arg::from(&x)])?;
        g[0].as_ref().unwrap().to_vec::<f32>()
    };
    let double = slope(|ct| ct.cast(cotan::DType::F64)?.broadcast_to(&[2]));
    assert_eq!(double.unwrap(), [1.0, 1.0]);
    let complex = slope(|ct| ct.cast(cotan::DType::C128)?.broadcast_to(&[2]));
    assert_eq!(complex.unwrap(), [1.0, 1.0]);
    assert_eq!(slope(|_| Ok(Array::from(0.0))).unwrap(), [0.0, 0.0]);
    let larger = slope(|ct| ct.broadcast_to(&[3, 2]));
    let smaller = slope(|ct| Ok(ct.clone()));
    for (error, given) in [(larger, "(3, 2)"), (smaller, "()")] {
        let error = error.unwrap_err().to_string();
        let wanted =
            format!("custom rule mine: the cotangent of argument 0 has shape {given}, but");
        assert!(error.contains(&wanted), "{error}");
    }
}

/// Only the transpose of a linear map is a derivative.
#[test]
fn forward_rules_have_to_be_linear() {
    type Tangent = fn(&Array, &Array) -> cotan::Result<Array>;
    let slope = |tangent: Tangent| -> cotan::Result<f64> {
        let f = move |x: &[Array]| {
            let rule = |x: &[Array], t: &[Option<Array>]| {
                let dy = tangent(&x[0], t[0].as_ref().unwrap())?;
                Ok((vec![x[0].square()?], vec![Some(dy)]))
            };
            Ok(custom_jvp("mine", rule, &[&x[0]])?.swap_remove(0))
        };
        let g = gradient(f, &[Arg::from(Array::from(3.0))])?;
        g[0].as_ref().unwrap().item()
    };
    assert_eq!(slope(|x, t| t.mul(x)?.mul(2.0)).unwrap(), 6.0);
    assert_eq!(slope(|x, t| t.add(&t.div(x)?)).unwrap(), 1.0 + 1.0 / 3.0);
    let wrong: [Tangent; 5] = [
        |_, t| t.square(),
        |_, t| t.mul(t),
        |x, t| t.add(x),
        |x, _| Ok(x.clone()),
        |_, t| t.sin(),
    ];
    for rule in wrong {
        let error = slope(rule).unwrap_err().to_string();
        assert!(error.contains("custom rule mine"), "{error}");
        assert!(error.contains("linear in the tangents"), "{error}");
    }
}

/// `(x, y)` scaled so that the joint norm of their cotangents is at most 1.
fn clipped(x: &Array, y: &Array) -> cotan::Result<Vec<Array>> {
    let rule = |v: &[Array]| {
        let back = |ct: &[Option<Array>]| {
            let (a, b) = (ct[0].as_ref().unwrap(), ct[1].as_ref().unwrap());
            let norm = a.square()?.add(&b.square()?)?.sqrt()?;
            let scale = norm.maximum(1.0)?;
            Ok(vec![Some(a.div(&scale)?), Some(b.div(&scale)?)])
        };
        Ok((vec![v[0].clone(), v[1].clone()], back))
    };
    custom_many("clipped", rule, &[x, y])
}

fn slopes(f: impl Fn(&[Array]) -> cotan::Result<Array>, x: &[f64]) -> Vec<f64> {
    let args: Vec<Arg> = x.iter().map(|&x| Arg::from(Array::from(x))).collect();
    let g = gradient(f, &args).unwrap();
    g.iter()
        .map(|g| g.as_ref().unwrap().item().unwrap())
        .collect()
}

#[test]
fn a_pullback_sees_the_cotangents_of_all_results() {
    let both = |v: &[Array]| {
        let c = clipped(&v[0], &v[1])?;
        c[0].mul(3.0)?.add(&c[1].mul(4.0)?)
    };
    assert_eq!(slopes(both, &[1.0, 1.0]), [3.0 / 5.0, 4.0 / 5.0]);
    // One that nothing depends on is zero.
    let one = |v: &[Array]| clipped(&v[0], &v[1])?[1].mul(4.0);
    assert_eq!(slopes(one, &[1.0, 1.0]), [0.0, 1.0]);
}

/// Two calls are two, although their programs are equal: before they are differentiated, and when one
/// of them uses what the other does not.
#[test]
fn calls_are_not_merged() {
    let clip = |x: &Array| {
        let rule = |x: &[Array]| {
            let y = x[0].clone();
            Ok((y, |ct: &Array| Ok(vec![Some(ct.minimum(1.0)?)])))
        };
        custom("clip", rule, &[x])
    };
    let twice = |v: &[Array]| clip(&v[0])?.mul(3.0)?.add(&clip(&v[0])?.mul(4.0)?);
    assert_eq!(slopes(twice, &[1.0]), [2.0]);
    let x = Array::from(1.0);
    let (program, _) = trace(twice, &[&x]).unwrap();
    let tidy = cotan::opt::optimize(&program, cotan::opt::Passes::ALL).unwrap();
    let calls = |p: &Program| {
        p.eqns()
            .iter()
            .filter(|e| e.prim.name() == "custom")
            .count()
    };
    assert_eq!(calls(&tidy), 2);

    let apart = |v: &[Array]| {
        let (c, d) = (clipped(&v[0], &v[1])?, clipped(&v[0], &v[1])?);
        c[0].mul(3.0)?.add(&d[1].mul(4.0)?)
    };
    let joint = |v: &[Array]| {
        let c = clipped(&v[0], &v[1])?;
        c[0].mul(3.0)?.add(&c[1].mul(4.0)?)
    };
    for _ in 0..2 {
        assert_eq!(slopes(apart, &[1.0, 1.0]), [1.0, 1.0]);
        assert_eq!(slopes(joint, &[1.0, 1.0]), [3.0 / 5.0, 4.0 / 5.0]);
    }
    let program = |f: &dyn Fn(&[Array]) -> cotan::Result<Array>| trace(f, &[&x, &x]).unwrap().0;
    assert!(!program(&apart).same_structure(&program(&joint)));

    // Two applications of one program are two calls as well.
    let recording = Recording::new();
    let leaves = [recording.leaf(&x), recording.leaf(&x)];
    let c = clipped(&leaves[0], &leaves[1]).unwrap();
    let traced = cotan::autodiff::trace(&recording, &[&c[0], &c[1]], &leaves).unwrap();
    let program = std::sync::Arc::new(traced.0);
    let applied = |v: &[Array]| {
        let (c, d) = (Array::call(&program, v), Array::call(&program, v));
        c[0].mul(3.0)?.add(&d[1].mul(4.0)?)
    };
    assert_eq!(slopes(applied, &[1.0, 1.0]), [1.0, 1.0]);
    let once = |v: &[Array]| {
        let c = Array::call(&program, v);
        c[0].mul(3.0)?.add(&c[1].mul(4.0)?)
    };
    assert_eq!(slopes(once, &[1.0, 1.0]), [3.0 / 5.0, 4.0 / 5.0]);
}

#[test]
fn results_without_cotangent_and_constant_ones() {
    let f = |v: &[Array]| {
        let rule = |v: &[Array]| {
            let x = v[0].clone();
            let back = move |ct: &[Option<Array>]| {
                assert!(ct[0].is_none());
                Ok(vec![Some(ct[1].as_ref().unwrap().mul(&x)?)])
            };
            Ok((vec![v[0].gt(0.0)?, v[0].square()?], back))
        };
        let outs = custom_many("signed", rule, &[&v[0]])?;
        outs[0].r#where(&outs[1], &outs[1].mul(2.0)?)
    };
    assert_eq!(slopes(f, &[3.0]), [3.0]);
    assert_eq!(slopes(f, &[-3.0]), [-6.0]);
}

/// The forward direction of a reverse rule is the transpose of its pullback, and the other way round.
#[test]
fn rules_have_both_directions() {
    let rules: [(&str, fn(&Array) -> cotan::Result<Array>); 2] = [
        ("softplus", softplus),
        ("sine", |x| {
            let rule = |x: &[Array], t: &[Option<Array>]| {
                let dy = t[0].as_ref().map(|t| t.mul(&x[0].cos()?)).transpose()?;
                Ok((vec![x[0].sin()?], vec![dy]))
            };
            Ok(custom_jvp("sine", rule, &[x])?.swap_remove(0))
        }),
    ];
    for (name, f) in rules {
        let x = Array::from_slice(&[2], &[0.3, -0.7]).unwrap();
        let (program, _) = trace(|v: &[Array]| f(&v[0]), &[&x]).unwrap();
        let values = [x.evaluate().unwrap().clone()];
        cotan::testing::check_derivatives(
            &program,
            &values,
            2,
            1e-5,
            &mut cotan::testing::Rng::new(7),
        )
        .unwrap_or_else(|e| panic!("{name}: {e}"));
        let forward = jvp(&program, &[true]).unwrap();
        assert_eq!(forward.results, [Some(1)], "{name}");
    }
}

#[test]
fn a_forward_rule_with_several_results() {
    let f = |v: &[Array]| {
        let rule = |x: &[Array], t: &[Option<Array>]| {
            let (a, b) = (t[0].as_ref().unwrap(), t[1].as_ref().unwrap());
            let product = a.mul(&x[1])?.add(&x[0].mul(b)?)?;
            let outs = vec![x[0].mul(&x[1])?, x[0].clone()];
            Ok((outs, vec![Some(product), None]))
        };
        let outs = custom_jvp("product", rule, &[&v[0], &v[1]])?;
        outs[0].mul(2.0)?.add(&outs[1])
    };
    assert_eq!(slopes(f, &[3.0, 5.0]), [10.0, 6.0]);
    let x = Array::from(1.0);
    let wrong = |_: &[Array], t: &[Option<Array>]| Ok((vec![t[0].clone().unwrap()], vec![None]));
    let error = custom_jvp("wrong", wrong, &[&x]).unwrap_err().to_string();
    assert!(
        error.contains("wrong") && error.contains("depends on the tangents"),
        "{error}"
    );
    let few = |x: &[Array], _: &[Option<Array>]| Ok((vec![x[0].clone()], vec![]));
    let error = custom_jvp("few", few, &[&x]).unwrap_err().to_string();
    assert!(
        error.contains("few") && error.contains("0 tangents for 1 results"),
        "{error}"
    );
}

/// A complex rule gives what the plain function gives: `back` applies the adjoint.
#[test]
fn a_complex_forward_rule_is_transposed_conjugated() {
    let rule = |x: &[Array], t: &[Option<Array>]| {
        let dy = t[0].as_ref().unwrap().mul(&x[0])?.mul(2.0)?;
        Ok((vec![x[0].square()?], vec![Some(dy)]))
    };
    let z = Array::from_slice(&[1], &[num_complex::Complex::new(1.0, 2.0)]).unwrap();
    let mine = |v: &[Array]| Ok(custom_jvp("square_rule", rule, &[&v[0]])?.swap_remove(0));
    let apply = |f: &dyn Fn(&[Array]) -> cotan::Result<Array>| {
        let (y, back) = pullback(f, &[Arg::from(&z)]).unwrap();
        let ct = back.apply(&y).unwrap()[0].clone().unwrap();
        ct.to_vec::<num_complex::Complex<f64>>().unwrap()
    };
    assert_eq!(apply(&mine), apply(&|v: &[Array]| v[0].square()));
}

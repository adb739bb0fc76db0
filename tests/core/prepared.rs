//! Programs that are run again: the same as a single run, whatever is held constant, in frames and without,
//! from several threads; and numbers that are computed where they stand.

use std::cell::Cell;
use std::thread;

use cotan::autodiff::Prepared;
use cotan::kernels::Value;
use cotan::testing::Rng;
use cotan::{Array, DType, Number, sched};
use proptest::prelude::*;

use super::common::{close, gradient, random_program, same_bits};

fn never() -> bool {
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_prepared_program_gives_the_same(seed: u64, length in 1usize..30, mask in 0u8..16) {
        let (program, inputs) = random_program(seed, length, DType::F64);
        let plan = sched::plan(&program).unwrap();
        let wanted = sched::run(&plan, inputs.clone(), &mut never).unwrap();
        let held: Vec<bool> = (0..inputs.len()).map(|i| mask >> i & 1 == 1).collect();
        let prepared = Prepared::new(&program, &held).unwrap();
        let of = |wanted: bool| -> Vec<Value> {
            let all = inputs.iter().zip(&held);
            all.filter(|(_, h)| **h == wanted).map(|(v, _)| v.clone()).collect()
        };
        let nothing_held = !held.contains(&true);
        let check = |outs: &[Value], wanted: &[Value]| {
            for (a, b) in outs.iter().zip(wanted) {
                if nothing_held {
                    same_bits(a, b, &program);
                } else {
                    close(a, b, &program, 1e-12);
                }
            }
        };
        let constants = prepared.hold(of(true), &mut never).unwrap();
        for _ in 0..2 {
            let outs = prepared.run(&constants, &of(false), &[], &mut never).unwrap();
            check(&outs, &wanted);
            let Some(mut frame) = prepared.frame(&constants).unwrap() else {
                continue;
            };
            for (i, value) in of(false).iter().enumerate() {
                frame.write(i, value).unwrap();
            }
            prepared.run_in(&mut frame).unwrap();
            check(frame.outs(), &wanted);
            prepared.give_back(frame);
        }
    }
}

#[test]
fn constants_that_change_from_run_to_run() {
    let (program, inputs) = random_program(11, 25, DType::F64);
    let plan = sched::plan(&program).unwrap();
    let held = [true, false, true, false];
    let prepared = Prepared::new(&program, &held).unwrap();
    let mut rng = Rng::new(12);
    let own = vec![inputs[1].clone(), inputs[3].clone()];
    let sets: Vec<_> = (0..3)
        .map(|_| {
            let mut all = inputs.clone();
            for i in [0, 2] {
                all[i] = rng.array(DType::F64, all[i].shape(), -1.0, 1.0).unwrap();
            }
            let constants = vec![all[0].clone(), all[2].clone()];
            let wanted = sched::run(&plan, all, &mut never).unwrap();
            (prepared.hold(constants, &mut never).unwrap(), wanted)
        })
        .collect();
    // Each for some runs, then in turns.
    let order = [0, 0, 0, 0, 1, 1, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2, 2, 1];
    for (constants, wanted) in order.map(|i: usize| &sets[i]) {
        let outs = prepared.run(constants, &own, &[], &mut never).unwrap();
        for (a, b) in outs.iter().zip(wanted) {
            close(a, b, &program, 1e-12);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (program, inputs) = random_program(1, 5, DType::F64);
    assert!(Prepared::new(&program, &[true]).is_err());
    let prepared = Prepared::new(&program, &[false; 4]).unwrap();
    let constants = prepared.hold(Vec::new(), &mut never).unwrap();
    assert!(
        prepared
            .run(&constants, &inputs[1..], &[], &mut never)
            .is_err()
    );
    let mut wrong = inputs.clone();
    wrong.swap(0, 2);
    assert!(prepared.run(&constants, &wrong, &[], &mut never).is_err());
    assert!(prepared.hold(inputs, &mut never).is_err());
}

#[test]
fn threads_share_a_prepared_program() {
    let (program, inputs) = random_program(7, 20, DType::F64);
    let prepared = Prepared::new(&program, &[false; 4]).unwrap();
    let constants = prepared.hold(Vec::new(), &mut never).unwrap();
    let wanted = prepared.run(&constants, &inputs, &[], &mut never).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let outs = prepared.run(&constants, &inputs, &[], &mut never).unwrap();
                    (outs.iter().zip(&wanted)).for_each(|(a, b)| same_bits(a, b, &program));
                }
            });
        }
    });
}

/// Newton's method for the square root, looking at its values.
fn root(a: &Array) -> cotan::Result<Array> {
    let mut x = a.clone();
    while x.mul(&x)?.sub(a)?.abs()?.item()? > 1e-12 {
        x = x.add(&a.div(&x)?)?.mul(0.5)?;
    }
    Ok(x)
}

/// A recurrence on elements of an array and a number; with `looks`, each step is looked at.
fn recurrence(v: &Array, k: &Array, looks: bool) -> cotan::Result<Array> {
    let element = |i: usize| v.slice(std::slice::from_ref(&(i..i + 1)))?.reshape(&[]);
    let (mut x, rate) = (element(0)?, element(2)?);
    for _ in 0..40 {
        x = x.mul(&rate)?.add(k)?.sin()?.add(&element(1)?)?;
        if looks
            && x.abs()?
                .gt(1e6)?
                .evaluate()?
                .item()
                .is_some_and(|z| z.re != 0.0)
        {
            break;
        }
    }
    Ok(x)
}

#[test]
fn looking_at_elements_and_captured_numbers_changes_no_bits() {
    for dtype in [DType::F32, DType::F64] {
        let v = Array::from_slice(&[3], &[0.3, -0.7, 1.9]).unwrap();
        let v = Array::constant(v.cast(dtype).unwrap().evaluate().unwrap().clone());
        let k = Array::number(dtype, Number::Float(0.37));
        let run = |looks: bool| {
            let planned = Cell::new(0.0);
            let f = |x: &[Array]| {
                let profile = sched::Profile::default();
                profile.enter();
                let out = recurrence(&x[0], &x[1], looks);
                profile.exit();
                planned.set(profile.counts().seconds(sched::Phase::Plan));
                out
            };
            let args = [(&v).into(), (&k).into()];
            let (value, found) = cotan::value_and_gradient(f, &args).unwrap();
            let all = std::iter::once(value).chain(found.into_iter().flatten());
            let all = all.map(|x| x.cast(DType::F64).unwrap().to_vec::<f64>().unwrap());
            (all.collect::<Vec<_>>(), planned.get())
        };
        let ((looked, planned), (wanted, _)) = (run(true), run(false));
        assert_eq!(planned, 0.0, "looks at numbers of {dtype:?} were planned");
        assert_eq!((looked.len(), &looked), (3, &wanted));
    }
}

#[test]
fn numbers_are_computed_where_they_stand() {
    let mut rng = Rng::new(3);
    for _ in 0..20 {
        let number = 1.0 + (rng.bits() % 1000) as f64 / 7.0;
        let found = root(&Array::from(number)).unwrap().item().unwrap();
        assert!((found - number.sqrt()).abs() < 1e-12);
        let slope = gradient(|v| root(&v[0]), &[(&Array::from(number)).into()]).unwrap();
        let slope = slope[0].as_ref().unwrap().item().unwrap();
        assert!((slope - 0.5 / number.sqrt()).abs() < 1e-9);
    }
    // Longer chains than are computed one by one.
    let mut x = Array::from(1.0);
    let mut wanted = 1.0f64;
    for _ in 0..500 {
        x = x.mul(1.0009765625).unwrap().add(0.25).unwrap();
        wanted = wanted * 1.0009765625 + 0.25;
    }
    assert_eq!(x.item().unwrap(), wanted);
}

/// Code that runs for long does not fall back to a frame of kernels.
#[cfg(feature = "machine-code")]
#[test]
fn code_that_runs_long_is_not_left_for_kernels() {
    let line = |k| format!("  %{}: f64[3] = sin(%{k})\n", k + 1);
    let lines: String = (0..6000).map(line).collect();
    let text = format!("program(%0: f64[3]) {{\n{lines}  return %6000\n}}");
    let program = cotan::Program::parse(&text).unwrap();
    let plan = sched::plan(&program).unwrap();
    let replay = sched::Replay::new(plan, vec![program.aval(0).clone()]);
    assert!(replay.compile().unwrap() && replay.cost() > 100_000.0);
    let nothing: std::sync::Arc<[Value]> = std::sync::Arc::from([]);
    for _ in 0..3 {
        assert!(replay.frame(&nothing).unwrap().is_none());
        let x = [Value::from_slice(&[3], &[0.1, 0.2, 0.3]).unwrap()];
        replay.run(&x, &nothing, &[], &mut || false).unwrap();
    }
}

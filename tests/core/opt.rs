//! The optimiser: fewer equations, the same bits.

use cotan::kernels::Value;
use cotan::opt::{self, Passes};
use cotan::testing::{self, Rng};
use cotan::{DType, Program, ops, transform};

use super::common::{checked_vjp, same_bits};

fn program(body: &str, out: &str) -> Program {
    let text = format!("program(%0: f64[4], %1: f64[4]) {{\n{body}  return {out}\n}}\n");
    Program::parse(&text).unwrap()
}

fn optimized(body: &str, out: &str) -> Vec<&'static str> {
    let new = opt::optimize(&program(body, out), Passes::ALL).unwrap();
    new.verify().unwrap();
    new.eqns().iter().map(|e| e.prim.name()).collect()
}

#[test]
fn common_subexpressions_are_computed_once() {
    let body = "  %2: f64[4] = sin(%0)\n  %3: f64[4] = sin(%0)\n  %4: f64[4] = mul(%2, %3)\n";
    assert_eq!(optimized(body, "%4"), ["sin", "mul"]);
    let body = "  %2: f64[4] = sin(%0)\n  %3: f64[4] = sin(%1)\n  %4: f64[4] = mul(%2, %3)\n";
    assert_eq!(optimized(body, "%4"), ["sin", "sin", "mul"]);
}

#[test]
fn dead_equations_are_dropped() {
    let body = "  %2: f64[4] = sin(%0)\n  %3: f64[4] = exp(%2)\n";
    assert_eq!(optimized(body, "%2"), ["sin"]);
}

#[test]
fn neutral_factors_and_double_negatives_go() {
    let one = "  %2: f64[] = literal[dtype=f64, value=1.0]()\n  %3: f64[4] = mul(%0, %2)\n";
    assert_eq!(optimized(one, "%3"), [""; 0]);
    let twice = "  %2: f64[4] = neg(%0)\n  %3: f64[4] = neg(%2)\n";
    assert_eq!(optimized(twice, "%3"), [""; 0]);
    let square = "  %2: f64[] = literal[dtype=f64, value=2.0]()\n  %3: f64[4] = pow(%0, %2)\n";
    assert_eq!(optimized(square, "%3"), ["square"]);
    let turned =
        "  %2: f64[2,2] = reshape[shape=(2, 2)](%0)\n  %3: f64[4] = reshape[shape=(4,)](%2)\n";
    assert_eq!(optimized(turned, "%3"), [""; 0]);
}

/// `x + 0`, `x * 0` and `x - x` are left alone: they are not `x` and 0 for -0, NaN and infinity.
#[test]
fn what_is_not_equal_in_every_bit_stays() {
    for (op, value) in [("add", "0.0"), ("mul", "0.0"), ("sub", "-0.0")] {
        let body = format!(
            "  %2: f64[] = literal[dtype=f64, value={value}]()\n  %3: f64[4] = {op}(%0, %2)\n"
        );
        assert_eq!(optimized(&body, "%3"), ["literal", op]);
    }
    assert_eq!(optimized("  %2: f64[4] = sub(%0, %0)\n", "%2"), ["sub"]);
}

/// Special values through every primitive and its reverse pass: the same bits, optimised or not.
#[test]
fn optimising_changes_no_bit() {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        1.0,
        -1.0,
        2.5,
        1e-310,
        1e308,
    ];
    let mut rng = Rng::new(1);
    for &prim in ops::table() {
        for sample in testing::samples(prim) {
            let Some((primal, values)) =
                testing::instance(prim, &sample, DType::F64, &mut rng).unwrap()
            else {
                continue;
            };
            let joint = checked_vjp(&primal, &values).map_or(primal, |v| v.program);
            let mut inputs: Vec<Value> = Vec::new();
            for i in 0..joint.num_inputs() {
                let aval = joint.aval(i as u32);
                let given = values.get(i).filter(|v| v.dtype() != DType::F64).cloned();
                inputs.push(given.unwrap_or_else(|| {
                    let pick = |_| special[(rng.bits() % 10) as usize].into();
                    let numbers: Vec<num_complex::Complex<f64>> =
                        (0..aval.size()).map(pick).collect();
                    testing::value(aval.dtype, &aval.shape, &numbers).unwrap()
                }));
            }
            let plain = testing::run_stepwise(&joint, &inputs).unwrap();
            for passes in [
                Passes {
                    cse: true,
                    rewrite: false,
                    dce: false,
                },
                Passes {
                    cse: false,
                    rewrite: true,
                    dce: false,
                },
                Passes::ALL,
            ] {
                let new = opt::optimize(&joint, passes).unwrap();
                let fast = testing::run_stepwise(&new, &inputs).unwrap();
                for (a, b) in plain.iter().zip(&fast) {
                    same_bits(a, b, &joint);
                }
            }
        }
    }
}

#[test]
fn a_program_is_split_at_what_waits() {
    let body = "  %2: f64[4] = exp(%0)\n  %3: f64[4] = neg(%2)\n  %4: f64[4] = mul(%1, %3)\n";
    let halves = transform::split(&program(body, "%2, %4"), &[false, true], 1);
    assert_eq!(halves.early_inputs, [0]);
    let names = |p: &Program| p.eqns().iter().map(|e| e.prim.name()).collect::<Vec<_>>();
    assert_eq!(names(&halves.early), ["exp"]);
    assert_eq!(names(&halves.late), ["neg", "mul"]);
}

#[test]
fn scattered_axes_are_reduced_one_run_after_the_other() {
    let source = "program(%0: f64[3,1,4,5,2]) {\n  %1: f64[4] = sum[axes=(0, 1, 3, 4)](%0)\n  \
                  %2: f64[1,4] = max[axes=(0, 3, 4)](%0)\n  %3: f64[3,1] = sum[axes=(2, 3, 4)](%0)\n  \
                  return %1, %2, %3\n}\n";
    let program = Program::parse(source).unwrap();
    let parts = opt::in_neighbouring_axes(&program).unwrap().unwrap();
    parts.verify().unwrap();
    let text = parts.to_string();
    assert!(
        text.contains("sum[axes=(3, 4)]") && text.contains("sum[axes=(0, 1)]"),
        "{text}"
    );
    assert!(
        text.contains("max[axes=(3, 4)]") && text.contains("max[axes=(0,)]"),
        "{text}"
    );
    assert!(opt::in_neighbouring_axes(&parts).unwrap().is_none());
    let x: Vec<f64> = (0..120).map(|i| f64::from(i * 37 % 101)).collect();
    let inputs = [Value::from_slice(&[3, 1, 4, 5, 2], &x).unwrap()];
    let outs = testing::run(&program, &inputs).unwrap();
    for c in 0..4 {
        let of: Vec<f64> = (0..120).filter(|i| i / 10 % 4 == c).map(|i| x[i]).collect();
        // Integers, so every order gives the same sum.
        assert_eq!(
            outs[0].as_slice::<f64>().unwrap()[c],
            of.iter().sum::<f64>()
        );
        assert_eq!(
            outs[1].as_slice::<f64>().unwrap()[c],
            of.iter().copied().fold(0.0, f64::max)
        );
    }
}

#[test]
fn composites_are_written_out() {
    let body = "  %2: f64[] = mean[axes=(0,)](%0)\n  %3: f64[] = logsumexp[axes=(0,)](%1)\n";
    let lowered = opt::lower(program(body, "%2, %3")).unwrap();
    lowered.verify().unwrap();
    assert!(
        lowered
            .eqns()
            .iter()
            .all(|e| !["mean", "logsumexp"].contains(&e.prim.name()))
    );
}

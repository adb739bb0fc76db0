//! Programs over batches: the same as one example after the other.

use cotan::kernels::Value;
use cotan::prim::Params;
use cotan::testing::{self, Rng};
use cotan::{DType, Program, ops, transform};

use super::common::{checked_vjp, close};

const SIZE: usize = 3;

/// Example `k` of what is batched, the rest as it is.
fn example(values: &[Value], batched: &[bool], k: usize) -> Vec<Value> {
    (values.iter().zip(batched))
        .map(|(v, &batched)| if batched { row(v, k) } else { v.clone() })
        .collect()
}

fn row(v: &Value, k: usize) -> Value {
    let numbers = testing::numbers(v).unwrap();
    let one: usize = v.shape()[1..].iter().product();
    testing::value(v.dtype(), &v.shape()[1..], &numbers[k * one..(k + 1) * one]).unwrap()
}

fn check(program: &Program, values: &[Value], batched: &[bool], tolerance: f64) {
    let mapped = transform::vmap(program, batched, SIZE).unwrap();
    mapped.verify().unwrap();
    let outs = testing::run(&mapped, values).unwrap();
    for k in 0..SIZE {
        let single = testing::run(program, &example(values, batched, k)).unwrap();
        for (all, one) in outs.iter().zip(&single) {
            assert_eq!(&all.shape()[1..], one.shape(), "{program}");
            close(&row(all, k), one, program, tolerance);
        }
    }
}

/// Every primitive of the table, and its reverse pass, with all and with single arguments as batches.
#[test]
fn a_batch_is_one_example_after_the_other() {
    let mut rng = Rng::new(11);
    for &prim in ops::table() {
        for dtype in [DType::F64, DType::C128] {
            for sample in testing::samples(prim) {
                let Some((program, point)) =
                    testing::instance(prim, &sample, dtype, &mut rng).unwrap()
                else {
                    continue;
                };
                let vjp = checked_vjp(&program, &point);
                let count = program.num_inputs();
                for only in 0..=count {
                    let batched: Vec<bool> =
                        (0..count).map(|i| only == count || i == only).collect();
                    let values = draw(&program, &sample.inputs, &batched, &mut rng);
                    check(&program, &values, &batched, 1e-12);
                    let Some(vjp) = &vjp else {
                        continue;
                    };
                    let cts = (count..vjp.program.num_inputs()).map(|i| {
                        let aval = vjp.program.aval(i as u32);
                        let shape: Vec<usize> = std::iter::once(SIZE)
                            .chain(aval.shape.iter().copied())
                            .collect();
                        rng.array(aval.dtype, &shape, -1.0, 1.0).unwrap()
                    });
                    let values: Vec<Value> = values.into_iter().chain(cts).collect();
                    let mut batched = batched;
                    batched.resize(values.len(), true);
                    check(&vjp.program, &values, &batched, 1e-10);
                }
            }
        }
    }
}

/// Random arguments of a program of one equation, with a first axis where they are batches.
fn draw(
    program: &Program,
    inputs: &[(Vec<usize>, f64, f64)],
    batched: &[bool],
    rng: &mut Rng,
) -> Vec<Value> {
    (inputs.iter().zip(batched).enumerate())
        .map(|(i, ((shape, low, high), &batched))| {
            let front = batched.then_some(SIZE);
            let shape: Vec<usize> = front.into_iter().chain(shape.iter().copied()).collect();
            let dtype = program.aval(i as u32).dtype;
            rng.array(dtype, &shape, *low, *high).unwrap()
        })
        .collect()
}

#[test]
fn indices_are_checked_for_each_example() {
    let text = "program(%0: f64[4], %1: i64[2]) {\n  %2: f64[2] = gather(%0, %1)\n  return %2\n}\n";
    let program = Program::parse(text).unwrap();
    let mut rng = Rng::new(12);
    let x = rng.array(DType::F64, &[SIZE, 4], -1.0, 1.0).unwrap();
    let index = Value::from_slice(&[SIZE, 2], &[3i64, 0, 3, 1, 1, 2]).unwrap();
    check(&program, &[x.clone(), index], &[true, true], 0.0);
    let mapped = transform::vmap(&program, &[true, true], SIZE).unwrap();
    for wrong in [4i64, -1] {
        let index = Value::from_slice(&[SIZE, 2], &[0i64, 0, wrong, 0, 0, 0]).unwrap();
        assert!(
            testing::run(&mapped, &[x.clone(), index]).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn what_does_not_vary_is_computed_once() {
    let text = "program(%0: f64[4], %1: f64[4]) {\n  %2: f64[4] = exp(%0)\n  %3: f64[4] = mul(%2, %1)\n  \
                return %3\n}\n";
    let program = Program::parse(text).unwrap();
    let mapped = transform::vmap(&program, &[false, true], SIZE).unwrap();
    let exp = mapped
        .eqns()
        .iter()
        .position(|e| e.prim == ops::EXP)
        .unwrap();
    assert_eq!(mapped.aval(mapped.result(exp)).shape.as_slice(), [4]);
    assert!(!mapped.eqns().iter().any(|e| e.prim == ops::BROADCAST));
    assert!(matches!(mapped.params(&mapped.eqns()[0]), Params::None));
}

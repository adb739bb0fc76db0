//! Products with a matrix and with its transpose in one pass give the bits of two, whatever lies between them, on any number of
//! threads, and for matrices in any layout.

use std::sync::atomic::AtomicBool;

use cotan::aval::SliceDim;
use cotan::kernels::{self, Ctx, Value};
use cotan::prim::Var;
use cotan::testing::{self, Rng};
use cotan::{Program, sched};

use crate::common::{on_threads, same_bits};

/// The gradient of a logistic regression with `n` rows of `m` numbers; `between` is computed from the product `%5`.
fn regression(dtype: &str, n: usize, m: usize, between: &str, outs: &str) -> Program {
    let text = format!(
        "program(%0: {dtype}[{n},{m}], %1: {dtype}[{m}], %2: {dtype}[{n}], %3: {dtype}[]) {{
           %4: {dtype}[{m},1] = reshape[shape=({m}, 1)](%1)
           %5: {dtype}[{n},1] = matmul(%0, %4)
           %6: {dtype}[{n}] = reshape[shape=({n},)](%5)
           %7: {dtype}[{n}] = mul(%6, %2)
           %8: {dtype}[{n}] = sigmoid(%7)
           %9: {dtype}[{m},{n}] = transpose[axes=(1, 0)](%0)
           {between}
           return {outs}
         }}"
    );
    Program::parse(&text).unwrap()
}

/// What usual gradients compute: a value, and the product of the transpose with something of each row.
fn usual(dtype: &str, n: usize, m: usize) -> Program {
    let between = format!(
        "%10: {dtype}[{n}] = mul(%8, %3)
         %11: {dtype}[{n},1] = reshape[shape=({n}, 1)](%10)
         %12: {dtype}[{m},1] = matmul(%9, %11)
         %13: {dtype}[{m}] = reshape[shape=({m},)](%12)
         %14: {dtype}[{m}] = mul(%13, %1)"
    );
    regression(dtype, n, m, &between, "%14, %8, %12")
}

/// Runs a program in all ways; how many passes over memory it makes.
fn check(program: &Program) -> usize {
    let mut rng = Rng::new(4);
    let inputs = (0..program.num_inputs() as Var).map(|i| {
        let aval = program.aval(i);
        rng.array(aval.dtype, &aval.shape, -1.0, 1.0).unwrap()
    });
    let inputs: Vec<Value> = inputs.collect();
    let cancel = AtomicBool::new(false);
    let copy = |value: &Value| kernels::copy(value, &Ctx::new(&cancel, 1)).unwrap();
    let with = |matrix: Value, inputs: &[Value]| [&[matrix], &inputs[1..]].concat();
    // The same matrix, with its columns in memory one after the other, backwards, and with numbers that are not finite.
    let turned = copy(&inputs[0].transposed(&[1, 0])).transposed(&[1, 0]);
    let backwards: Vec<SliceDim> = (inputs[0].shape().iter())
        .map(|&len| SliceDim {
            start: len - 1,
            len,
            step: -1,
        })
        .collect();
    let turned_round = copy(&inputs[0].sliced(&backwards)).sliced(&backwards);
    let mut special = testing::numbers(&inputs[0]).unwrap();
    let len = special.len();
    (special[len / 3], special[len - 1]) = (f64::INFINITY.into(), f64::NAN.into());
    let aval = inputs[0].aval();
    let special = testing::value(aval.dtype, &aval.shape, &special).unwrap();
    // Weights that repeat one number.
    let number = Value::from_slice(&[1], &[0.25f64]).unwrap();
    let mut alike = inputs.clone();
    if inputs[1].dtype() == number.dtype() {
        alike[1] = number.broadcast_to(inputs[1].shape());
    }
    let more = [turned, turned_round, special].map(|matrix| with(matrix, &inputs));
    for inputs in [inputs, alike].into_iter().chain(more) {
        let wanted = testing::run_stepwise(program, &inputs).unwrap();
        for results in on_threads(|| testing::run(program, &inputs).unwrap()) {
            for (a, b) in results.iter().zip(&wanted) {
                same_bits(a, b, program);
            }
        }
    }
    sched::plan(program).unwrap().num_passes()
}

#[test]
fn gradients_of_linear_models_read_the_matrix_once() {
    // Strips that fit, a shorter last one, the least matrix, one with long rows.
    for (dtype, n, m) in [
        ("f64", 10_000, 200),
        ("f64", 10_007, 201),
        ("f32", 10_007, 199),
        ("f64", 52_500, 10),
        ("f64", 1_500, 1_500),
        // A few columns more than what a task of the product has.
        ("f64", 512, 1_025),
        ("f64", 4_000, 1_026),
        ("f32", 7_000, 513),
    ] {
        assert_eq!(check(&usual(dtype, n, m)), 2, "{dtype} {n} {m}");
    }
    // Smaller matrices stay in the caches, and very long rows do not fit.
    for (dtype, n, m) in [
        ("f64", 5_000, 100),
        ("f64", 300, 30_000),
        ("f64", 6_000_000, 1),
    ] {
        assert!(check(&usual(dtype, n, m)) > 2, "{dtype} {n} {m}");
    }
}

#[test]
fn a_product_of_the_hessian_with_a_vector_reads_it_once_too() {
    let (n, m) = (9_000, 120);
    let between = format!(
        "%10: f64[{n}] = mul(%8, %2)
         %11: f64[1,{m}] = reshape[shape=(1, {m})](%1)
         %12: f64[{m},1] = reshape[shape=({m}, 1)](%11)
         %13: f64[{m},1] = sin(%12)
         %14: f64[{n},1] = matmul(%0, %13)
         %15: f64[{n}] = reshape[shape=({n},)](%14)
         %16: f64[{n}] = mul(%15, %10)
         %17: f64[1,{n}] = reshape[shape=(1, {n})](%16)
         %18: f64[1,{m}] = matmul(%17, %0)"
    );
    assert_eq!(
        check(&regression("f64", n, m, &between, "%18")),
        2,
        "the sine, and a pass"
    );
    // Two passes one after the other, as in steps of descent.
    let between = format!(
        "%10: f64[{n},1] = reshape[shape=({n}, 1)](%8)
         %11: f64[{m},1] = matmul(%9, %10)
         %12: f64[{n},1] = matmul(%0, %11)
         %13: f64[{n},1] = sin(%12)
         %14: f64[{m},1] = matmul(%9, %13)
         %15: f64[] = sum[axes=(0, 1)](%12)"
    );
    assert_eq!(
        check(&regression("f64", n, m, &between, "%14, %11, %15")),
        3
    );
}

#[test]
fn of_passes_that_wait_for_each_other_one_is_left() {
    // The weights of the second product with each matrix come from the pass over the other one.
    let (n, m) = (2_000, 500);
    let mut text = format!(
        "program(%0: f64[{n},{m}], %1: f64[{n},{m}], %2: f64[{m},1]) {{
           %3: f64[{m},{n}] = transpose[axes=(1, 0)](%0)
           %4: f64[{m},{n}] = transpose[axes=(1, 0)](%1)
           %5: f64[{n},1] = matmul(%1, %2)
           %6: f64[1,1] = slice[start=(0, 0), len=(1, 1), step=(1, 1)](%5)
           %7: f64[{m},1] = mul(%2, %6)
           %8: f64[{n},1] = matmul(%0, %7)
           %9: f64[{n},1] = sin(%8)
           %10: f64[{m},1] = matmul(%3, %9)
           %11: f64[{n},1] = sin(%5)
           %12: f64[{m},1] = matmul(%4, %11)
        "
    );
    text.push_str("return %10, %12, %11\n}");
    // A product, the rest of it, a pass, a product.
    assert!(check(&Program::parse(&text).unwrap()) < 8);
}

#[test]
fn what_needs_all_rows_in_between_is_no_pass() {
    let (n, m) = (2_000, 2_000);
    // Rows over the largest of them; a product of products; weights that are read by rows, too.
    for between in [
        "%10: f64[] = max[axes=(0,)](%8)
         %11: f64[2000] = div(%8, %10)
         %12: f64[2000,1] = reshape[shape=(2000, 1)](%11)
         %13: f64[2000,1] = matmul(%9, %12)",
        "%10: f64[2000,1] = matmul(%0, %5)
         %11: f64[2000,1] = sin(%10)
         %12: f64[2000,1] = sin(%11)
         %13: f64[2000,1] = matmul(%9, %12)",
        "%10: f64[2000,1] = mul(%5, %4)
         %11: f64[2000,1] = sin(%10)
         %12: f64[2000,1] = sin(%11)
         %13: f64[2000,1] = matmul(%9, %12)",
    ] {
        assert!(
            check(&regression("f64", n, m, between, "%13")) > 2,
            "{between}"
        );
    }
}

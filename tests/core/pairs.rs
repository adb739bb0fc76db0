//! Interactions of all pairs: what is reduced in the pass that makes it, and what is computed again where it is read.

use cotan::kernels::Value;
use cotan::testing::{self, Rng};
use cotan::{DType, Program, sched};

use super::common::{close, on_threads};

/// Runs a program as a plan, on one thread and on three, and one equation at a time.
fn check(text: &str, passes: usize) {
    let program = Program::parse(text).unwrap();
    let mut rng = Rng::new(7);
    let inputs: Vec<Value> = (0..program.num_inputs())
        .map(|i| {
            let shape = program.aval(i as u32).shape.to_vec();
            rng.array(DType::F64, &shape, 0.5, 2.0).unwrap()
        })
        .collect();
    let plain = testing::run_stepwise(&program, &inputs).unwrap();
    let [one, two, three] = on_threads(|| testing::run(&program, &inputs).unwrap());
    for (k, a) in one.iter().enumerate() {
        close(&plain[k], a, &program, 1e-11);
        assert!(
            a.same_bits(&two[k]) && a.same_bits(&three[k]),
            "threads change {program}"
        );
    }
    let plan = sched::plan(&program).unwrap();
    assert_eq!(plan.num_passes(), passes, "{program}");
}

/// Forces between points, and sums of them as the reverse pass makes them: over the first two axes at once, over the
/// last two, and over the first of what is a number for each pair.
#[test]
fn forces_are_summed_where_they_are_made() {
    check(
        "program(%0: f64[90,3], %1: f64[90]) {
           %2: f64[1,90,3] = reshape[shape=(1, 90, 3)](%0)
           %3: f64[90,1,3] = reshape[shape=(90, 1, 3)](%0)
           %4: f64[90,90,3] = sub(%2, %3)
           %5: f64[90,90,3] = square(%4)
           %6: f64[90,90] = sum[axes=(2,)](%5)
           %7: f64[] = literal[dtype=f64, value=0.1]()
           %8: f64[90,90] = add(%6, %7)
           %9: f64[90,90] = sqrt(%8)
           %10: f64[90,90,1] = reshape[shape=(90, 90, 1)](%9)
           %11: f64[1,90,1] = reshape[shape=(1, 90, 1)](%1)
           %12: f64[90,90,3] = mul(%11, %4)
           %13: f64[90,90,3] = div(%12, %10)
           %14: f64[90,3] = sum[axes=(1,)](%13)
           %15: f64[90,3] = sum[axes=(0,)](%13)
           %16: f64[90] = sum[axes=(0,)](%9)
           %17: f64[] = sum[axes=(0, 1)](%9)
           %18: f64[90] = sum[axes=(0, 2)](%13)
           return %14, %15, %16, %17, %18
         }",
        1,
    );
}

/// The second pass reads neither the differences of the first one nor what it made of them by a division.
#[test]
fn differences_are_computed_again() {
    check(
        "program(%0: f64[90,3], %1: f64[90]) {
           %2: f64[1,90,3] = reshape[shape=(1, 90, 3)](%0)
           %3: f64[90,1,3] = reshape[shape=(90, 1, 3)](%0)
           %4: f64[90,90,3] = sub(%2, %3)
           %5: f64[90,90,3] = square(%4)
           %6: f64[90,90] = sum[axes=(2,)](%5)
           %7: f64[] = literal[dtype=f64, value=0.1]()
           %8: f64[90,90] = add(%6, %7)
           %9: f64[90,90,1] = reshape[shape=(90, 90, 1)](%8)
           %10: f64[1,90,1] = reshape[shape=(1, 90, 1)](%1)
           %11: f64[90,90,3] = mul(%10, %4)
           %12: f64[90,90,3] = div(%11, %9)
           %13: f64[90,3] = sum[axes=(1,)](%12)
           %14: f64[1,90,3] = reshape[shape=(1, 90, 3)](%13)
           %15: f64[90,90,3] = mul(%14, %4)
           %16: f64[90,90,3] = mul(%15, %12)
           %17: f64[90,90] = sum[axes=(2,)](%16)
           %18: f64[90,90,1] = reshape[shape=(90, 90, 1)](%17)
           %19: f64[90,90,3] = mul(%18, %12)
           %20: f64[90,3] = sum[axes=(0,)](%19)
           return %20
         }",
        2,
    );
}

/// What something else reads than groups of its shape, and what is a result, is in memory as before.
#[test]
fn what_others_read_is_in_memory() {
    check(
        "program(%0: f64[90,3]) {
           %1: f64[1,90,3] = reshape[shape=(1, 90, 3)](%0)
           %2: f64[90,1,3] = reshape[shape=(90, 1, 3)](%0)
           %3: f64[90,90,3] = sub(%1, %2)
           %4: f64[90,90,3] = mul(%1, %2)
           %5: f64[90,90,3] = mul(%3, %4)
           %6: f64[] = sum[axes=(0, 1, 2)](%5)
           %7: f64[90,90,3] = mul(%3, %6)
           %8: f64[90,90,3] = div(%4, %7)
           %9: f64[90,90,3] = transpose[axes=(1, 0, 2)](%4)
           %10: f64[90,90,3] = add(%9, %8)
           %11: f64[90,90,3] = mul(%5, %6)
           return %10, %11, %7
         }",
        2,
    );
}

//! Matrix products in strips, with what reads them.

use cotan::kernels::Value;
use cotan::testing::{self, Rng};
use cotan::{DType, Program, sched};

use super::common::{close, on_threads, same_bits};

fn program(inputs: &str, body: &[&str], outs: &str) -> Program {
    let body = body.join("\n  ");
    let text = format!("program({inputs}) {{\n  {body}\n  return {outs}\n}}\n");
    Program::parse(&text).unwrap()
}

/// The results are those of one equation at a time, by so many passes over memory, with the same bits on
/// any number of threads.
fn check(program: &Program, passes: usize) {
    let mut rng = Rng::new(11);
    let inputs = (0..program.num_inputs() as u32).map(|v| {
        let aval = program.aval(v);
        rng.array(aval.dtype, &aval.shape, -1.0, 1.0).unwrap()
    });
    let inputs: Vec<Value> = inputs.collect();
    let plan = sched::plan(program).unwrap();
    assert_eq!(plan.num_passes(), passes, "{program}");
    let plain = testing::run_stepwise(program, &inputs).unwrap();
    let tolerance = match program.aval(0).dtype {
        DType::F32 | DType::C64 => 1e-4,
        _ => 1e-9,
    };
    let runs = on_threads(|| testing::run(program, &inputs).unwrap());
    for run in &runs {
        for ((a, b), first) in run.iter().zip(&plain).zip(&runs[0]) {
            close(a, b, program, tolerance);
            same_bits(a, first, program);
        }
    }
}

/// Distances between points, as kernel methods have them: with sums over rows and over columns, whole
/// strips and a shorter one.
#[test]
fn a_kernel_matrix() {
    for (dtype, m, n) in [("f64", 1000, 900), ("f32", 1500, 1024), ("c128", 800, 700)] {
        let p = program(
            &format!(
                "%x: {dtype}[{m},3], %y: {dtype}[3,{n}], %s: {dtype}[{m},1], %t: {dtype}[{n}]"
            ),
            &[
                &format!("%4: {dtype}[{m},{n}] = matmul(%x, %y)"),
                &format!("%5: {dtype}[{m},{n}] = add(%4, %s)"),
                &format!("%6: {dtype}[{m},{n}] = sub(%5, %t)"),
                &format!("%7: {dtype}[{m},{n}] = exp(%6)"),
                &format!("%8: {dtype}[{n}] = sum[axes=(0,)](%7)"),
                &format!("%9: {dtype}[] = sum[axes=(0, 1)](%6)"),
            ],
            "%7, %8, %9",
        );
        check(&p, 1);
    }
}

/// A softmax over the rows of a product, which reads what it reduces again.
#[test]
fn an_attention() {
    let p = program(
        "%q: f32[1100,64], %k: f32[1200,64]",
        &[
            "%2: f32[64,1200] = transpose[axes=(1, 0)](%k)",
            "%3: f32[1100,1200] = matmul(%q, %2)",
            "%4: f32[1100] = max[axes=(1,)](%3)",
            "%5: f32[1100,1] = reshape[shape=(1100, 1)](%4)",
            "%6: f32[1100,1200] = sub(%3, %5)",
            "%7: f32[1100,1200] = exp(%6)",
            "%8: f32[1100] = sum[axes=(1,)](%7)",
            "%9: f32[1100,1] = reshape[shape=(1100, 1)](%8)",
            "%10: f32[1100,1200] = div(%7, %9)",
        ],
        "%10, %8",
    );
    check(&p, 1);
}

/// Square arrays that are read by rows and as a whole, and extrema over the rows.
#[test]
fn what_is_read_in_two_ways() {
    let p = program(
        "%x: f64[900,16], %b: f64[900], %w: f64[900,900]",
        &[
            "%3: f64[16,900] = transpose[axes=(1, 0)](%x)",
            "%4: f64[900,900] = matmul(%x, %3)",
            "%5: f64[900,900] = add(%4, %b)",
            "%6: f64[900,900] = mul(%5, %w)",
            "%7: f64[900] = max[axes=(0,)](%6)",
            "%8: f64[900] = min[axes=(1,)](%6)",
        ],
        "%7, %8, %6",
    );
    let plan = sched::plan(&p).unwrap();
    check(&p, plan.num_passes());
    assert!(plan.num_passes() <= 2);
}

/// A batch, in which both operands go with the rows, or one is there for all.
#[test]
fn batches() {
    for y in ["12,8,300", "1,8,300"] {
        let p = program(
            &format!("%x: f64[12,300,8], %y: f64[{y}], %c: f64[300,300]"),
            &[
                "%3: f64[12,300,300] = matmul(%x, %y)",
                "%4: f64[12,300,300] = mul(%3, %c)",
                "%5: f64[12,300] = sum[axes=(2,)](%4)",
                "%6: f64[300] = sum[axes=(0, 2)](%4)",
                "%7: f64[12,300,300] = tanh(%4)",
            ],
            "%5, %6, %7",
        );
        let passes = sched::plan(&p).unwrap().num_passes();
        check(&p, passes);
    }
}

/// What somebody else reads too, or what is small, is computed as a whole.
#[test]
fn others_are_not_cut() {
    let p = program(
        "%x: f64[1000,3], %y: f64[3,900]",
        &[
            "%2: f64[1000,900] = matmul(%x, %y)",
            "%3: f64[1000,900] = exp(%2)",
        ],
        "%2, %3",
    );
    check(&p, 2);
    let p = program(
        "%x: f64[100,3], %y: f64[3,90]",
        &[
            "%2: f64[100,90] = matmul(%x, %y)",
            "%3: f64[100,90] = exp(%2)",
        ],
        "%3",
    );
    check(&p, 2);
}

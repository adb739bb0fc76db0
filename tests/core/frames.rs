//! Runs that have all their memory before they begin give the bits of other runs: every primitive, random programs,
//! loops, arrays that are changed where they lie.

use std::fmt::Write as _;
use std::sync::Arc;

use cotan::kernels::Value;
use cotan::prim::Var;
use cotan::sched::{self, Replay};
use cotan::testing::{self, Rng};
use cotan::{DType, Program, ops, transform};

use crate::common::{random_program, same_bits};

/// Other inputs of the same dtypes and shapes, which leave something else in the memory.
fn others(inputs: &[Value], rng: &mut Rng) -> Vec<Value> {
    let other = |v: &Value| match v.dtype() {
        // Indices stay what they are.
        DType::I64 => v.clone(),
        dtype => rng.array(dtype, v.shape(), 0.0, 1.0).unwrap(),
    };
    inputs.iter().map(other).collect()
}

/// Compares runs in a frame with one by itself; whether there are frames for the program.
fn check(program: &Program, inputs: &[Value], rng: &mut Rng) -> bool {
    let Ok(wanted) = testing::run(program, inputs) else {
        return false;
    };
    let avals = (0..program.num_inputs() as Var).map(|i| program.aval(i).clone());
    let replay = Replay::new(sched::plan(program).unwrap(), avals.collect());
    let nothing: Arc<[Value]> = Arc::from([]);
    let Some(frame) = replay.frame(&nothing).unwrap() else {
        return false;
    };
    replay.give_back(frame);
    let run = |inputs: &[Value]| replay.run(inputs, &nothing, &[], &mut || false);
    let compare = |results: &[Value]| {
        assert_eq!(results.len(), wanted.len());
        for (a, b) in results.iter().zip(&wanted) {
            same_bits(a, b, program);
        }
    };
    let mut earlier: Vec<Vec<Value>> = Vec::new();
    for _ in 0..5 {
        earlier.push(run(inputs).unwrap());
        // Some are refused: a matrix that has no factors.
        let _ = run(&others(inputs, rng));
    }
    // Results are not changed by what is run later.
    for results in &earlier {
        compare(results);
    }
    true
}

/// The same for the program and for its derivative.
fn check_both(program: &Program, values: &[Value], rng: &mut Rng) -> usize {
    let mut taken = usize::from(check(program, values, rng));
    if let Ok(vjp) = transform::vjp(program, &testing::inexact_inputs(program)) {
        let mut inputs = values.to_vec();
        for i in inputs.len()..vjp.program.num_inputs() {
            let aval = vjp.program.aval(i as Var);
            inputs.push(rng.array(aval.dtype, &aval.shape, -1.0, 1.0).unwrap());
        }
        taken += usize::from(check(&vjp.program, &inputs, rng));
    }
    taken
}

#[test]
fn every_primitive_and_its_derivative() {
    let mut rng = Rng::new(15);
    let mut taken = 0;
    for &prim in ops::table() {
        for dtype in [DType::F64, DType::F32, DType::I64, DType::Bool, DType::C128] {
            for sample in testing::samples(prim) {
                if let Ok(Some((program, values))) =
                    testing::instance(prim, &sample, dtype, &mut rng)
                {
                    taken += check_both(&program, &values, &mut rng);
                }
            }
        }
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn random_programs_and_their_gradients() {
    let mut rng = Rng::new(18);
    let mut taken = 0;
    for seed in 0..150 {
        let (program, values) = random_program(seed, 15, DType::F64);
        taken += check_both(&program, &values, &mut rng);
    }
    assert!(taken > 250, "{taken}");
}

/// A program of vectors that are changed in parts, with the same body again and again: earlier versions, views and
/// several updates of one array are read later, too.
fn changes(seed: u64, body: usize, turns: usize) -> Program {
    let mut text = String::from("program(%0: f64[6], %1: f64[6], %2: i64[2], %3: f64[]) {\n");
    let mut next = 4;
    let mut state = vec![0, 1];
    for _ in 0..turns {
        // The same choices in each turn.
        let mut rng = Rng::new(seed);
        let mut vectors = state.clone();
        for _ in 0..body {
            let mut pick = |n: usize| (rng.bits() % n as u64) as usize;
            let mut any = || vectors[pick(vectors.len())];
            let (x, y) = (any(), any());
            let mut line = |aval: &str, rest: String| {
                writeln!(text, "  %{next}: f64[{aval}] = {rest}").unwrap();
                next += 1;
                next - 1
            };
            let start = pick(5);
            let region = format!("start=({start},), len=(2,), step=(1,)");
            let new = match pick(9) {
                0 => line("6", format!("add(%{x}, %{y})")),
                1 => line("6", format!("sin(%{x})")),
                2 => line("6", format!("mul(%{x}, %3)")),
                3 => line("6", format!("flip[axes=(0,)](%{x})")),
                4 => {
                    let part = line("2", format!("slice[{region}](%{y})"));
                    line("6", format!("update[{region}](%{x}, %{part})"))
                }
                5 => {
                    let part = line("2", format!("slice[{region}](%{y})"));
                    let sine = line("2", format!("sin(%{part})"));
                    line("6", format!("update_add[{region}](%{x}, %{sine})"))
                }
                6 => {
                    let part = line("2", format!("gather(%{y}, %2)"));
                    line("6", format!("scatter_add(%{x}, %2, %{part})"))
                }
                7 => {
                    let part = line("2", format!("gather(%{y}, %2)"));
                    line("6", format!("scatter(%{x}, %2, %{part})"))
                }
                _ => {
                    let sum = line("", format!("sum[axes=(0,)](%{x})"));
                    line("6", format!("broadcast[shape=(6,)](%{sum})"))
                }
            };
            vectors.push(new);
        }
        let n = vectors.len();
        state = vec![vectors[n - 1], vectors[n - 2]];
    }
    writeln!(
        text,
        "  return %{}, %{}, %{}\n}}",
        state[0], state[1], state[0]
    )
    .unwrap();
    Program::parse(&text).unwrap()
}

#[test]
fn arrays_that_are_changed_where_they_lie() {
    let mut rng = Rng::new(21);
    let mut taken = 0;
    for seed in 0..120 {
        for turns in [1, 3, 30] {
            let program = changes(seed, 2 + seed as usize % 7, turns);
            let inputs = [
                rng.array(DType::F64, &[6], -1.0, 1.0).unwrap(),
                rng.array(DType::F64, &[6], -1.0, 1.0).unwrap(),
                Value::from_slice(&[2], &[4i64, 1]).unwrap(),
                rng.array(DType::F64, &[], 0.1, 0.5).unwrap(),
            ];
            taken += check_both(&program, &inputs, &mut rng);
        }
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn results_are_parts_of_what_is_computed() {
    let text = "program(%0: f64[6]) {\n  %1: f64[6] = sin(%0)\n  \
                %2: f64[3] = slice[start=(2,), len=(3,), step=(1,)](%1)\n  \
                %3: f64[3] = slice[start=(5,), len=(3,), step=(-2,)](%1)\n  \
                %4: f64[2,3] = reshape[shape=(2, 3)](%1)\n  %5: f64[3,2] = transpose[axes=(1, 0)](%4)\n  \
                %6: f64[] = sum[axes=(0,)](%0)\n  %7: f64[4] = broadcast[shape=(4,)](%6)\n  \
                %8: f64[6] = pad[shape=(6,), start=(1,), len=(3,), step=(1,)](%3)\n  \
                %9: f64[6] = update_add[start=(2,), len=(3,), step=(1,)](%8, %2)\n  \
                %10: f64[2] = slice[start=(3,), len=(2,), step=(1,)](%9)\n  \
                return %2, %3, %5, %7, %10, %1, %2\n}\n";
    let program = Program::parse(text).unwrap();
    let x = Value::from_slice(&[6], &[0.1, -0.2, 0.3, 2.0, -0.0, 5.0]).unwrap();
    assert!(check_both(&program, &[x], &mut Rng::new(5)) > 0);
}

#[test]
fn errors_come_through_and_the_next_run_is_right() {
    let text = "program(%0: f64[3], %1: i64[2]) {\n  %2: f64[3] = sin(%0)\n  %3: f64[2] = gather(%2, %1)\n  \
                return %3\n}\n";
    let program = Program::parse(text).unwrap();
    let x = Value::from_slice(&[3], &[0.1, 0.2, 0.3]).unwrap();
    let (good, bad) = ([2i64, 0], [0i64, 3]);
    let index = |i: &[i64; 2]| Value::from_slice(&[2], i).unwrap();
    let avals = [&x, &index(&good)].map(|v| v.aval().clone());
    let replay = Replay::new(sched::plan(&program).unwrap(), avals.to_vec());
    let nothing: Arc<[Value]> = Arc::from([]);
    for _ in 0..4 {
        let run = |i: &[i64; 2]| replay.run(&[x.clone(), index(i)], &nothing, &[], &mut || false);
        assert!(matches!(run(&bad), Err(cotan::Error::Index(_))));
        let found = run(&good).unwrap();
        assert_eq!(
            found[0].as_slice::<f64>().unwrap(),
            &[0.3f64.sin(), 0.1f64.sin()]
        );
    }
}

#[test]
fn a_run_can_be_interrupted() {
    let region = "start=(1,), len=(90,), step=(1,)";
    let mut text = String::from("program(%0: f64[100]) {\n");
    let (mut h, mut next) = (0, 1);
    for _ in 0..2_000 {
        writeln!(text, "  %{next}: f64[100] = sin(%{h})").unwrap();
        let part = next + 1;
        writeln!(text, "  %{part}: f64[90] = slice[{region}](%{h})").unwrap();
        h = next + 2;
        writeln!(
            text,
            "  %{h}: f64[100] = update_add[{region}](%{next}, %{part})"
        )
        .unwrap();
        next += 3;
    }
    writeln!(text, "  return %{h}\n}}").unwrap();
    let program = Program::parse(&text).unwrap();
    let inputs = [Rng::new(23).array(DType::F64, &[100], -0.1, 0.1).unwrap()];
    let avals = inputs.iter().map(|v| v.aval().clone()).collect();
    let replay = Replay::new(sched::plan(&program).unwrap(), avals);
    let nothing: Arc<[Value]> = Arc::from([]);
    let run = |stop: bool| replay.run(&inputs, &nothing, &[], &mut || stop);
    let wanted = run(false).unwrap();
    for _ in 0..4 {
        run(false).unwrap();
    }
    assert!(matches!(run(true), Err(cotan::Error::Interrupted)));
    for (a, b) in run(false).unwrap().iter().zip(&wanted) {
        same_bits(a, b, &program);
    }
}

/// They are computed all the same: an output may be there for the error that it raises.
#[test]
fn results_that_nobody_reads_are_not_copied() {
    let program = Program::parse(
        "program(%0: f64[4], %1: i64[2]) {\n  %2: f64[2] = gather(%0, %1)\n  \
         %3: f64[4] = add(%0, %0)\n  return %3, %2\n}\n",
    )
    .unwrap();
    let x = Value::from_slice(&[4], &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let index = |i: i64| Value::from_slice(&[2], &[0, i]).unwrap();
    let avals = vec![x.aval().clone(), index(0).aval().clone()];
    let replay = Replay::new(sched::plan(&program).unwrap(), avals).reading(1);
    let nothing: Arc<[Value]> = Arc::from([]);
    let run = |i: i64| replay.run(&[x.clone(), index(i)], &nothing, &[], &mut || false);
    for _ in 0..5 {
        run(3).unwrap();
    }
    let results = run(3).unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].as_slice::<f64>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    assert!(run(4).is_err());
    assert_eq!(run(1).unwrap().len(), 1);
}

//! Running: fused equals one equation at a time, any number of threads gives the same bits, and the
//! tables of plans are bounded.

use cotan::kernels::Value;
use cotan::testing::{self, Rng};
use cotan::{Arg, Array, DType, Program, gradient, ops, sched};
use proptest::prelude::*;

use super::common::{close, on_threads, random_program, same_bits, turn};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fused_equals_one_equation_at_a_time(seed: u64, length in 1usize..40, double: bool) {
        let dtype = if double { DType::F64 } else { DType::F32 };
        let (program, values) = random_program(seed, length, dtype);
        program.verify().unwrap();
        prop_assert_eq!(&Program::parse(&program.to_string()).unwrap(), &program);
        let plain = testing::run_stepwise(&program, &values).unwrap();
        let fused = testing::run(&program, &values).unwrap();
        for (a, b) in plain.iter().zip(&fused) {
            close(a, b, &program, if double { 1e-12 } else { 1e-4 });
        }
    }

    #[test]
    fn reverse_passes_of_random_programs_verify(seed: u64, length in 1usize..25) {
        let (program, values) = random_program(seed, length, DType::F64);
        let wrt = vec![true; program.num_inputs()];
        let vjp = testing::checked_vjp(&program, &wrt, &values).unwrap();
        vjp.program.verify().unwrap();
        let mut inputs = values;
        for (j, &out) in program.outs().iter().enumerate() {
            if vjp.cotangents[j].is_some() {
                let aval = program.aval(out);
                inputs.push(Value::from_slice(&aval.shape, &vec![1.0; aval.size()]).unwrap());
            }
        }
        let plain = testing::run_stepwise(&vjp.program, &inputs).unwrap();
        let fused = testing::run(&vjp.program, &inputs).unwrap();
        for (a, b) in plain.iter().zip(&fused) {
            close(a, b, &vjp.program, 1e-9);
        }
    }
}

fn large() -> (Array, Array) {
    let n = 1 << 20;
    let mut rng = Rng::new(3);
    let x = rng.array(DType::F64, &[n / 64, 64], -1.0, 1.0).unwrap();
    let w = rng.array(DType::F64, &[64, 64], -1.0, 1.0).unwrap();
    (Array::constant(x), Array::constant(w))
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let (x, w) = large();
    let run = || {
        let f = |v: &[Array]| {
            v[0].matmul(&v[1])?
                .tanh()?
                .square()?
                .mean(0)?
                .exp()?
                .sum(..)
        };
        let g = gradient(f, &[Arg::from(&x), Arg::from(&w)]).unwrap();
        g.into_iter()
            .map(|g| g.unwrap().evaluate().unwrap().clone())
            .collect::<Vec<_>>()
    };
    let program = Program::new();
    let runs = on_threads(run);
    for other in &runs[1..] {
        for (a, b) in runs[0].iter().zip(other) {
            same_bits(a, b, &program);
        }
    }
}

/// A run that the user stops ends with an error, and the next one is right.
#[test]
fn a_run_is_interrupted() {
    let _turn = turn();
    let n = 1500;
    // Written out: products of an array that repeats one element are sums.
    let x = Array::from_slice(&[n, n], &vec![1e-3; n * n]).unwrap();
    // As many products as this machine does not end in time.
    let mut interrupted = (0..12).map(|doublings| {
        let y = (0..6 << doublings)
            .try_fold(x.clone(), |y, _| y.matmul(&x))
            .unwrap();
        let started = std::time::Instant::now();
        let run = y.force(&mut || started.elapsed().as_millis() > 30);
        run.err().map(|error| (y, error))
    });
    let (y, error) = interrupted.find_map(|run| run).unwrap();
    assert_eq!(error, cotan::Error::Interrupted);
    assert!(!y.is_forced());
    assert_eq!(
        x.sum(..).unwrap().item().unwrap().round(),
        (n * n) as f64 * 1e-3
    );
}

/// Ever new shapes do not fill the memory.
#[test]
fn tables_of_plans_are_bounded() {
    for n in 1..2000 {
        let x = Array::from_slice(&[n], &vec![1.0; n]).unwrap();
        let g = gradient(|x| x[0].square()?.sum(..), &[Arg::from(&x)]).unwrap();
        assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>().unwrap()[n - 1], 2.0);
    }
    assert!(sched::num_plans() <= 512, "{}", sched::num_plans());
}

/// A chain of elementwise functions with a sum behind it is one pass over memory.
#[test]
fn chains_are_fused() {
    let text = "\
program(%0: f64[1000], %1: f64[1000]) {
  %2: f64[1000] = sin(%0)
  %3: f64[1000] = cos(%1)
  %4: f64[1000] = mul(%2, %3)
  %5: f64[] = sum[axes=(0,)](%4)
  return %5
}
";
    let plan = sched::plan(&Program::parse(text).unwrap()).unwrap();
    assert_eq!(plan.num_passes(), 1);
    let steps: u64 = plan.counts().iter().map(|(_, n)| n).sum();
    assert_eq!(steps, 4);
}

/// What a later product meets is computed beside it, not before: it needs no memory then.
#[test]
fn what_is_made_of_inputs_is_made_where_it_is_read() {
    let text = "\
program(%0: f64[8,8], %1: f64[8,8]) {
  %2: f64[8,8] = matmul(%0, %0)
  %3: f64[8,8] = square(%1)
  %4: f64[] = literal[dtype=f64, value=1.0]()
  %5: f64[8,8] = sub(%4, %3)
  %6: f64[8,8] = mul(%2, %5)
  return %6
}
";
    let plan = sched::plan(&Program::parse(text).unwrap()).unwrap();
    assert_eq!(plan.num_passes(), 2);
}

/// A step that reads an array twice must not put its first result in that array's place.
#[test]
fn an_input_is_not_overwritten_before_its_last_use() {
    let text = "\
program(%0: f64[3,4]) {
  %1: f64[4] = sum[axes=(0,)](%0)
  %2: f64[4] = square(%1)
  %3: f64[4] = sin(%1)
  %4: f64[] = sum[axes=(0,)](%1)
  return %2, %3, %4
}
";
    let program = Program::parse(text).unwrap();
    let x = Rng::new(1).array(DType::F64, &[3, 4], 1.0, 2.0).unwrap();
    let plain = testing::run_stepwise(&program, std::slice::from_ref(&x)).unwrap();
    let fused = testing::run(&program, &[x]).unwrap();
    for (a, b) in plain.iter().zip(&fused) {
        close(a, b, &program, 1e-14);
    }
}

/// What barriers keep apart is put together where that needs no more memory, and only there.
/// Where an axis has length one, reductions over other axes may have the same rows: a row that is read again,
/// and one that is a result.
#[test]
fn axes_of_length_one_make_the_same_rows() {
    for (shape, axes, others, left) in [
        ("2,1,3", "(1, 2)", "(2,)", "2,1"),
        ("2,1,3", "(2,)", "(1, 2)", "2"),
        ("1,2,3", "(2,)", "(0, 2)", "2"),
        ("1,2,3", "(2,)", "(2,)", "1,2"),
    ] {
        let dims: Vec<usize> = shape.split(',').map(|d| d.parse().unwrap()).collect();
        let column = [&dims[..2], &[1]].concat();
        let listed = |dims: &[usize]| {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            dims.join(", ")
        };
        let kept: Vec<usize> = if axes == "(2,)" {
            dims[..2].to_vec()
        } else {
            dims[..1].to_vec()
        };
        let text = format!(
            "program(%0: f64[{shape}]) {{
               %1: f64[{}] = mean[axes={axes}](%0)
               %2: f64[{}] = reshape[shape=({})](%1)
               %3: f64[{shape}] = sub(%0, %2)
               %4: f64[{shape}] = mul(%3, %0)
               %5: f64[{left}] = sum[axes={others}](%4)
               return %5, %4
             }}",
            listed(&kept).replace(' ', ""),
            listed(&column).replace(' ', ""),
            listed(&column),
        );
        let program = Program::parse(&text).unwrap();
        let x = Value::from_slice(&dims, &[1.0, 2.0, 4.0, 8.0, 16.0, 40.0]).unwrap();
        let plain = testing::run_stepwise(&program, std::slice::from_ref(&x)).unwrap();
        let fused = testing::run(&program, &[x]).unwrap();
        for (a, b) in plain.iter().zip(&fused) {
            close(a, b, &program, 1e-12);
        }
    }
}

#[test]
fn barriers_hold_where_they_save_memory() {
    let count = |text: &str, prim| {
        let program = Program::parse(text).unwrap();
        let plan = sched::Plan::new(&program).unwrap();
        let counts = plan.counts().iter();
        counts
            .filter(|(p, _)| *p == prim)
            .map(|(_, n)| n)
            .sum::<u64>()
    };
    // One pass, in whose tiles the sine stays.
    let text = "program(%0: f64[9]) {
      %1: f64[9] = sin(%0)
      %2: f64[9] = cos(%1)
      %3: f64[9] = barrier(%0, %2)
      %4: f64[9] = sin(%3)
      %5: f64[9] = mul(%4, %2)
      return %5
    }";
    assert_eq!(count(text, ops::SIN), 1);
    // Two stretches of products: those of the first would wait for the end of the second.
    let text = "program(%0: f64[9,9]) {
      %1: f64[9,9] = matmul(%0, %0)
      %2: f64[9,9] = matmul(%1, %1)
      %3: f64[9,9] = matmul(%2, %2)
      %4: f64[9,9] = matmul(%3, %3)
      %5: f64[9,9] = matmul(%4, %4)
      %6: f64[9,9] = matmul(%5, %5)
      %7: f64[9,9] = barrier(%3, %6)
      %8: f64[9,9] = matmul(%7, %7)
      %9: f64[9,9] = matmul(%8, %8)
      %10: f64[9,9] = matmul(%9, %6)
      %11: f64[9,9] = matmul(%8, %10)
      %12: f64[9,9] = barrier(%0, %11)
      %13: f64[9,9] = matmul(%12, %12)
      %14: f64[9,9] = matmul(%13, %13)
      %15: f64[9,9] = matmul(%14, %11)
      %16: f64[9,9] = matmul(%13, %15)
      return %16
    }";
    assert_eq!(count(text, ops::MATMUL), 14);
}

#[test]
fn a_profile_divides_the_time_of_a_run_among_its_equations() {
    let x = Array::from(0.5);
    let profile = sched::Profile::default();
    profile.enter();
    cotan::value_and_gradient(|v| v[0].sin()?.mul(&v[0])?.exp(), &[Arg::from(&x)]).unwrap();
    profile.exit();
    let counts = profile.counts();
    let computed = |name: &str| {
        let of = counts
            .work
            .iter()
            .filter(|((prim, _), _)| prim.name() == name);
        of.map(|(_, work)| work.equations).sum::<u64>()
    };
    assert_eq!(
        (computed("sin"), computed("cos"), computed("exp")),
        (1, 1, 1)
    );
    let steps: f64 = counts.work.values().map(|work| work.seconds).sum();
    assert!(0.0 < steps && steps <= counts.seconds(sched::Phase::Run));
    // What is computed later is not counted.
    cotan::value_and_gradient(|v| v[0].sin()?.sum(..), &[Arg::from(&x)]).unwrap();
    assert_eq!(profile.counts().runs, counts.runs);
}

//! Patterns of programs: no dependence that values show is missing, and structured programs have sparse ones.

use cotan::kernels::Value;
use cotan::prim::Var;
use cotan::sparsity::{Pattern, dependence};
use cotan::testing::{self, Rng};
use cotan::{DType, Program, ops, transform};

use super::common::random_program;

/// Whether two numbers differ, where every NaN counts as equal to every other.
fn differs(a: num_complex::Complex<f64>, b: num_complex::Complex<f64>) -> bool {
    let differs = |a: f64, b: f64| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
    differs(a.re, b.re) || differs(a.im, b.im)
}

fn outputs(program: &Program, values: &[Value]) -> Option<Vec<num_complex::Complex<f64>>> {
    let outs = testing::run(program, values).ok()?;
    Some(
        outs.iter()
            .flat_map(|v| testing::numbers(v).unwrap())
            .collect(),
    )
}

/// That whatever changes when one element of a marked input does is in the pattern; gives the pattern.
fn covered(program: &Program, marked: &[bool], values: &[Value], rng: &mut Rng) -> Pattern {
    let known: Vec<Option<Value>> = (values.iter().zip(marked))
        .map(|(v, &marked)| (!marked && v.dtype() == DType::I64).then(|| v.clone()))
        .collect();
    let pattern = dependence(program, marked, &known).unwrap();
    let Some(before) = outputs(program, values) else {
        return pattern;
    };
    assert_eq!(pattern.num_rows(), before.len());
    let mut column = 0;
    for i in (0..values.len()).filter(|&i| marked[i]) {
        let value = &values[i];
        for at in 0..value.aval().size() {
            let mut numbers = testing::numbers(value).unwrap();
            let other = rng.array(value.dtype(), &[], 0.1, 0.9).unwrap();
            numbers[at] = testing::numbers(&other).unwrap()[0];
            let mut changed = values.to_vec();
            changed[i] = testing::value(value.dtype(), value.shape(), &numbers).unwrap();
            if let Some(after) = outputs(program, &changed) {
                for (row, (&a, &b)) in before.iter().zip(&after).enumerate() {
                    assert!(
                        !differs(a, b) || pattern.row(row).contains(&(column as u32)),
                        "element {row} of the outputs depends on element {column} of the inputs in\n{program}"
                    );
                }
            }
            column += 1;
        }
    }
    assert_eq!(pattern.num_columns(), column);
    pattern
}

/// Every primitive of the table, with respect to each and to all of its arguments, and its pullback with
/// respect to the cotangent.
#[test]
fn no_primitive_hides_a_dependence() {
    let mut rng = Rng::new(21);
    for &prim in ops::table() {
        for sample in testing::samples(prim) {
            let Some((program, point)) =
                testing::instance(prim, &sample, DType::F64, &mut rng).unwrap()
            else {
                continue;
            };
            let count = program.num_inputs();
            for only in 0..=count {
                let marked: Vec<bool> = (0..count).map(|i| only == count || i == only).collect();
                covered(&program, &marked, &point, &mut rng);
            }
            let wrt = testing::inexact_inputs(&program);
            if let Ok(vjp) = transform::vjp(&program, &wrt) {
                pulled_back(&vjp.program, count, point, &mut rng);
            }
        }
    }
}

/// The same for the cotangents alone of a program with its pullback.
fn pulled_back(joint: &Program, count: usize, mut point: Vec<Value>, rng: &mut Rng) {
    for i in count..joint.num_inputs() {
        let aval = joint.aval(i as Var);
        point.push(rng.array(aval.dtype, &aval.shape, -1.0, 1.0).unwrap());
    }
    let marked: Vec<bool> = (0..point.len()).map(|i| i >= count).collect();
    covered(joint, &marked, &point, rng);
}

#[test]
fn no_random_program_hides_a_dependence() {
    let mut rng = Rng::new(4);
    for seed in 0..40 {
        let (program, point) = random_program(seed, 12, DType::F64);
        covered(&program, &vec![true; point.len()], &point, &mut rng);
        if let Ok(vjp) = transform::vjp(&program, &vec![true; point.len()]) {
            pulled_back(&vjp.program, point.len(), point, &mut rng);
        }
    }
}

fn rows_of(text: &str, known: &[Option<Value>]) -> Vec<Vec<u32>> {
    let program = Program::parse(text).unwrap();
    let mut marked = vec![false; program.num_inputs()];
    marked[0] = true;
    let pattern = dependence(&program, &marked, known).unwrap();
    (0..pattern.num_rows())
        .map(|i| pattern.row(i).to_vec())
        .collect()
}

#[test]
fn neighbors_depend_on_neighbors() {
    let text = "program(%0 \"x\": f64[4]) {
  %1: f64[3] = slice[start=(1,), len=(3,), step=(1,)](%0)
  %2: f64[3] = slice[start=(0,), len=(3,), step=(1,)](%0)
  %3: f64[3] = mul(%1, %2)
  %4: f64[] = sum[axes=(0,)](%2)
  return %3, %4
}
";
    assert_eq!(
        rows_of(text, &[]),
        [vec![0, 1], vec![1, 2], vec![2, 3], vec![0, 1, 2]]
    );
}

#[test]
fn an_index_selects_when_it_is_known() {
    let text = "program(%0 \"x\": f64[3,2], %1 \"i\": i64[2]) {
  %2: f64[2,2] = gather(%0, %1)
  return %2
}
";
    let index = Value::from_slice(&[2], &[2i64, 0]).unwrap();
    assert_eq!(
        rows_of(text, &[None, Some(index)]),
        [vec![4], vec![5], vec![0], vec![1]]
    );
    // Any row, but of the same column.
    let any = [vec![0, 2, 4], vec![1, 3, 5], vec![0, 2, 4], vec![1, 3, 5]];
    assert_eq!(rows_of(text, &[]), any);
}

#[test]
fn a_pattern_that_no_memory_holds_is_refused() {
    let text = "program(%0 \"x\": f64[100000]) {
  %1: f64[] = sum[axes=(0,)](%0)
  %2: f64[100000] = sub(%0, %1)
  return %2
}
";
    let program = Program::parse(text).unwrap();
    let error = dependence(&program, &[true], &[]).unwrap_err();
    assert!(error.to_string().contains("dense"), "{error}");
}

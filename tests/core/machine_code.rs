//! Machine code gives the bits that the kernels give: every primitive, random programs and their derivatives, loops.

use std::fmt::Write as _;
use std::sync::Arc;

use cotan::aval::SliceDim;
use cotan::kernels::Value;
use cotan::prim::Var;
use cotan::sched::{self, Replay};
use cotan::testing::{self, Rng};
use cotan::{DType, Program, ops, transform};
use num_complex::Complex;

use crate::common::{compiled, random_program, same_bits};

/// Compares both ways; whether there is machine code.
fn check(program: &Program, inputs: &[Value]) -> bool {
    // Some composites are not there for every dtype.
    let Ok(wanted) = testing::run(program, inputs) else {
        return false;
    };
    let Some(results) = compiled(program, inputs).unwrap() else {
        return false;
    };
    assert_eq!(results.len(), wanted.len());
    for (a, b) in results.iter().zip(&wanted) {
        same_bits(a, b, program);
    }
    true
}

/// The program and its derivatives, of which the cotangents are inputs.
fn with_derivatives(
    program: &Program,
    values: &[Value],
    rng: &mut Rng,
) -> Vec<(Program, Vec<Value>)> {
    let mut all = vec![(program.clone(), values.to_vec())];
    let wrt = testing::inexact_inputs(program);
    if let Ok(vjp) = transform::vjp(program, &wrt) {
        let mut inputs = values.to_vec();
        for i in inputs.len()..vjp.program.num_inputs() {
            let aval = vjp.program.aval(i as Var);
            inputs.push(rng.array(aval.dtype, &aval.shape, -1.0, 1.0).unwrap());
        }
        all.push((vjp.program, inputs));
    }
    all
}

#[test]
fn sines_and_cosines_of_one_angle_and_powers() {
    let mut rng = Rng::new(77);
    for dtype in [DType::F64, DType::F32] {
        let mut text = format!("program(%0: {dtype}[], %1: {dtype}[], %2: {dtype}[]) {{\n");
        let ops = [
            ("sin", "%0"),
            ("cos", "%0"),
            ("cos", "%1"),
            ("sin", "%1"),
            ("sin", "%2"),
            ("cos", "%3"),
            ("sin", "%3"),
            ("pow", "%1, %2"),
            ("pow", "%4, %0"),
            ("pow", "%0, %0"),
        ];
        for (op, args) in ops {
            let next = text.matches('=').count() + 3;
            writeln!(text, "  %{next}: {dtype}[] = {op}({args})").unwrap();
        }
        writeln!(
            text,
            "  return %3, %4, %5, %6, %7, %8, %9, %10, %11, %12\n}}"
        )
        .unwrap();
        let program = Program::parse(&text).unwrap();
        for special in [1.5, -1.5, 0.5, 3.0, 1e9, 0.0, f64::INFINITY, f64::NAN] {
            let number = |x: f64| match dtype {
                DType::F64 => Value::from_slice(&[], &[x]).unwrap(),
                _ => Value::from_slice(&[], &[x as f32]).unwrap(),
            };
            let any = rng.array(dtype, &[], 0.1, 2.0).unwrap();
            assert!(check(
                &program,
                &[any.clone(), number(special), number(special)]
            ));
            assert!(check(&program, &[number(special), any, number(special)]));
        }
    }
}

#[test]
fn every_primitive_and_its_derivative() {
    let mut rng = Rng::new(5);
    let mut taken = 0;
    for &prim in ops::table() {
        for dtype in [
            DType::F64,
            DType::F32,
            DType::I64,
            DType::I32,
            DType::U8,
            DType::Bool,
        ] {
            for sample in testing::samples(prim) {
                let Ok(Some((program, values))) = testing::instance(prim, &sample, dtype, &mut rng)
                else {
                    continue;
                };
                for (program, values) in with_derivatives(&program, &values, &mut rng) {
                    taken += usize::from(check(&program, &values));
                }
            }
        }
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn numbers_that_are_none_infinite_or_signed_zeros() {
    let odd = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1.5,
        -2.5,
        1e300,
        5e-324,
    ];
    for &prim in ops::table() {
        let (Some(lane), Some(_)) = (prim.lane(), prim.ufunc()) else {
            continue;
        };
        for dtype in [DType::F64, DType::F32] {
            let pairs: Vec<(f64, f64)> = odd
                .iter()
                .flat_map(|&x| odd.iter().map(move |&y| (x, y)))
                .take(64)
                .collect();
            let value = |of: fn(&(f64, f64)) -> f64| {
                let z: Vec<_> = pairs.iter().map(|p| of(p).into()).collect();
                testing::value(dtype, &[pairs.len()], &z).unwrap()
            };
            let all = [value(|p| p.0), value(|p| p.1)];
            if lane.arity() > 2 {
                continue;
            }
            let inputs = &all[..lane.arity()];
            let avals: Vec<_> = inputs.iter().map(|v| v.aval().clone()).collect();
            if let Ok(program) = testing::single(prim, &cotan::prim::Params::None, &avals) {
                assert!(check(&program, inputs), "{prim:?} {dtype}");
            }
        }
    }
}

#[test]
fn sums_of_signed_zeros_and_of_any_length() {
    let mut rng = Rng::new(6);
    for (shape, axes) in [
        (&[1][..], "0"),
        (&[2], "0"),
        (&[3], "0"),
        (&[15], "0"),
        (&[16], "0"),
        (&[17], "0"),
        (&[64], "0"),
        (&[3, 4], "0"),
        (&[3, 4], "1"),
        (&[4, 3], "0, 1"),
        (&[5, 2], "0"),
        (&[2, 3, 4], "1"),
        (&[2, 1, 4], "1"),
        (&[7, 3], "0"),
        (&[1, 3], "0"),
    ] {
        let list: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let dims = list.join(",");
        let kept: Vec<String> = (0..shape.len())
            .filter(|a| !axes.split(", ").any(|x| x == a.to_string()))
            .map(|a| shape[a].to_string())
            .collect();
        for reduction in ["sum", "prod", "max", "min"] {
            let comma = if axes.len() == 1 { "," } else { "" };
            let text = format!(
                "program(%0: f64[{dims}]) {{\n  %1: f64[{}] = {reduction}[axes=({axes}{comma})](%0)\n  \
                 return %1\n}}\n",
                kept.join(",")
            );
            let program = Program::parse(&text).unwrap();
            let random = rng.array(DType::F64, shape, -2.0, 2.0).unwrap();
            assert!(check(&program, &[random]), "{program}");
            let size: usize = shape.iter().product();
            let zeros = Value::from_slice(shape, &vec![-0.0f64; size]).unwrap();
            assert!(check(&program, &[zeros]), "{program}");
        }
    }
}

#[test]
fn products_of_small_matrices() {
    let mut rng = Rng::new(7);
    let sizes = [1, 2, 3, 4, 5, 8, 17];
    let all = sizes
        .iter()
        .flat_map(|&m| sizes.iter().map(move |&k| (m, k)));
    let all = all.flat_map(|(m, k)| [1, 2, 3, 4, 8].map(|n| (m, k, n)));
    for (m, k, n) in all.filter(|(m, k, n)| m * k * n <= 512) {
        for (dtype, name) in [(DType::F64, "f64"), (DType::F32, "f32")] {
            for transposed in [[false, false], [true, false], [false, true], [true, true]] {
                let shape = |rows: usize, columns: usize, turned: bool| {
                    if turned {
                        [columns, rows]
                    } else {
                        [rows, columns]
                    }
                };
                let shapes = [shape(m, k, transposed[0]), shape(k, n, transposed[1])];
                let dims = shapes.map(|[rows, columns]| format!("{rows},{columns}"));
                let mut text = format!(
                    "program(%0: {name}[{}], %1: {name}[{}]) {{\n",
                    dims[0], dims[1]
                );
                let (mut args, mut next) = ([0, 1], 2);
                for (i, [rows, columns]) in [[m, k], [k, n]].into_iter().enumerate() {
                    if transposed[i] {
                        let of = format!("transpose[axes=(1, 0)](%{i})");
                        writeln!(text, "  %{next}: {name}[{rows},{columns}] = {of}").unwrap();
                        (args[i], next) = (next, next + 1);
                    }
                }
                let [a, b] = args;
                writeln!(text, "  %{next}: {name}[{m},{n}] = matmul(%{a}, %{b})").unwrap();
                writeln!(text, "  return %{next}\n}}").unwrap();
                let program = Program::parse(&text).unwrap();
                let values = shapes.map(|s| rng.array(dtype, &s, -2.0, 2.0).unwrap());
                assert!(check(&program, &values), "{program}");
            }
        }
    }
}

#[test]
fn products_of_reversed_matrices() {
    let mut rng = Rng::new(9);
    for n in [2, 3, 4, 6, 8] {
        for (dtype, name) in [(DType::F64, "f64"), (DType::F32, "f32")] {
            for (axes_a, axes_b) in [("1,", "0,"), ("0,", "1,"), ("0, 1", "0, 1")] {
                let of = format!("{name}[{n},{n}]");
                let text = format!(
                    "program(%0: {of}, %1: {of}) {{\n  %2: {of} = flip[axes=({axes_a})](%0)\n  \
                     %3: {of} = flip[axes=({axes_b})](%1)\n  %4: {of} = matmul(%0, %3)\n  \
                     %5: {of} = matmul(%2, %3)\n  %6: {of} = matmul(%2, %1)\n  \
                     %7: {of} = matmul(%5, %6)\n  return %4, %7\n}}"
                );
                let program = Program::parse(&text).unwrap();
                let values = [(); 2].map(|()| rng.array(dtype, &[n, n], -2.0, 2.0).unwrap());
                assert!(check(&program, &values), "{program}");
            }
        }
    }
}

/// Matrices that wait for others, in rows and in columns, with calls between: more than there are registers.
#[test]
fn more_values_than_registers() {
    let mut rng = Rng::new(10);
    let dtypes = [DType::F64, DType::F32].into_iter();
    for (n, dtype) in (2..8).zip(dtypes.cycle()) {
        let of = format!("{dtype}[{n},{n}]");
        let mut text = format!("program(%0: {of}, %1: {of}) {{\n");
        let mut next = 2;
        let mut line = |op: &str, args: &str| {
            writeln!(text, "  %{next}: {of} = {op}({args})").unwrap();
            next += 1;
            format!("%{}", next - 1)
        };
        let (mut all, mut outs) = (vec!["%0".to_string(), "%1".to_string()], Vec::new());
        for k in 0..6 {
            let turned = line("transpose[axes=(1, 0)]", &all[k + 1]);
            let product = line("matmul", &format!("{}, {turned}", all[k]));
            let sum = line("add", &format!("{product}, {turned}"));
            let size = line("neg", &sum);
            let size = line("abs", &size);
            let root = line("sqrt", &size);
            all.push(line("sin", &root));
            all.push(line("div", &format!("{sum}, {root}")));
            outs.push(line("transpose[axes=(1, 0)]", &product));
        }
        for x in all.iter().rev() {
            outs.push(line("sub", &format!("{x}, {}", outs[outs.len() - 1])));
        }
        writeln!(text, "  return {}, %0, %1\n}}", outs.join(", ")).unwrap();
        let program = Program::parse(&text).unwrap();
        let values = [(); 2].map(|()| rng.array(dtype, &[n, n], -2.0, 2.0).unwrap());
        for (program, values) in with_derivatives(&program, &values, &mut rng) {
            assert!(check(&program, &values), "{program}");
        }
    }
}

#[test]
fn random_programs_and_their_gradients() {
    let mut rng = Rng::new(8);
    let mut taken = 0;
    for seed in 0..60 {
        for dtype in [DType::F64, DType::F32] {
            let (program, values) = random_program(seed, 12, dtype);
            for (program, values) in with_derivatives(&program, &values, &mut rng) {
                taken += usize::from(check(&program, &values));
            }
        }
    }
    assert!(taken > 60, "{taken}");
}

/// A loop of numbers and short arrays, with an element read and one written by number in each turn.
fn turns(turns: usize) -> Program {
    let mut text = format!("program(%0: f64[3], %1: f64[{turns}], %2: f64[]) {{\n");
    let mut next = 3;
    let mut line = |aval: &str, rest: &str| {
        writeln!(text, "  %{next}: f64[{aval}] = {rest}").unwrap();
        next += 1;
        next - 1
    };
    let zero = line("", "literal[dtype=f64, value=0.0]()");
    let mut sums = line(
        &format!("{turns}"),
        &format!("broadcast[shape=({turns},)](%{zero})"),
    );
    let mut h = 0;
    for t in 0..turns {
        let at = format!("start=({t},), len=(1,), step=(1,)");
        let element = line("1", &format!("slice[{at}](%1)"));
        let number = line("", &format!("reshape[shape=()](%{element})"));
        let scaled = line("3", &format!("mul(%{h}, %2)"));
        let sine = line("3", &format!("sin(%{scaled})"));
        let turned = line("3", &format!("flip[axes=(0,)](%{sine})"));
        h = line("3", &format!("add(%{turned}, %{number})"));
        let sum = line("", &format!("sum[axes=(0,)](%{h})"));
        let sum = line("1", &format!("reshape[shape=(1,)](%{sum})"));
        sums = line(
            &format!("{turns}"),
            &format!("update_add[{at}](%{sums}, %{sum})"),
        );
    }
    writeln!(text, "  return %{h}, %{sums}\n}}").unwrap();
    Program::parse(&text).unwrap()
}

#[test]
fn loops_share_code_and_give_the_same_bits() {
    let mut rng = Rng::new(9);
    for count in [4, 40, 400] {
        let program = turns(count);
        let inputs = [
            rng.array(DType::F64, &[3], -1.0, 1.0).unwrap(),
            rng.array(DType::F64, &[count], -1.0, 1.0).unwrap(),
            rng.array(DType::F64, &[], 0.5, 1.5).unwrap(),
        ];
        for (program, inputs) in with_derivatives(&program, &inputs, &mut rng) {
            assert!(check(&program, &inputs), "{count}");
        }
    }
}

#[test]
fn what_is_no_code_stays_between_it() {
    // A sort, which has a kernel of its own.
    let text = "program(%0: f64[5]) {\n  %1: f64[5] = sin(%0)\n  %2: i64[5] = argsort[axis=0](%1)\n  \
                %3: f64[5] = gather(%1, %2)\n  %4: f64[5] = mul(%3, %3)\n  return %4, %3\n}\n";
    let program = Program::parse(text).unwrap();
    let inputs = [Value::from_slice(&[5], &[3.0, 1.0, -2.0, 0.5, 4.0]).unwrap()];
    assert!(check(&program, &inputs));
}

#[test]
fn a_run_can_be_interrupted() {
    let program = turns(20_000);
    let inputs = [
        Value::from_slice(&[3], &[0.1, 0.2, 0.3]).unwrap(),
        Value::from_slice(&[20_000], &vec![0.1; 20_000]).unwrap(),
        Value::scalar(1.0).unwrap(),
    ];
    let avals = inputs.iter().map(|v| v.aval().clone()).collect();
    let replay = Replay::new(sched::plan(&program).unwrap(), avals);
    replay.compile().unwrap();
    let nothing: Arc<[Value]> = Arc::from([]);
    let stopped = replay.run(&inputs, &nothing, &[], &mut || true);
    assert!(matches!(stopped, Err(cotan::Error::Interrupted)));
    let again = replay.run(&inputs, &nothing, &[], &mut || false).unwrap();
    for (a, b) in again.iter().zip(&testing::run(&program, &inputs).unwrap()) {
        same_bits(a, b, &program);
    }
}

#[test]
fn what_is_added_may_be_what_is_there() {
    let text = "program(%0: f64[]) {\n  %1: f64[4] = broadcast[shape=(4,)](%0)\n  \
                %2: f64[3] = broadcast[shape=(3,)](%0)\n  \
                %3: f64[4] = update_add[start=(1,), len=(3,), step=(1,)](%1, %2)\n  return %3\n}\n";
    let program = Program::parse(text).unwrap();
    assert!(check(&program, &[Value::scalar(1.5).unwrap()]));
}

#[test]
fn dot_products_that_underflow() {
    let text =
        "program(%0: f64[1,2], %1: f64[2,1]) {\n  %2: f64[1,1] = matmul(%0, %1)\n  return %2\n}\n";
    let program = Program::parse(text).unwrap();
    let row = Value::from_slice(&[1, 2], &[1e-200, 1e-200]).unwrap();
    let column = Value::from_slice(&[2, 1], &[-1e-200, -1e-200]).unwrap();
    assert!(check(&program, &[row, column]));
}

#[test]
fn layouts_of_matrices_do_not_show_in_loops() {
    let mut text = String::from("program(%0: f64[5,5], %1: f64[5,1]) {\n");
    writeln!(text, "  %2: f64[5,5] = transpose[axes=(1, 0)](%0)").unwrap();
    let mut h = 1;
    for k in 0..200 {
        let next = 3 + 2 * k;
        writeln!(text, "  %{next}: f64[5,1] = matmul(%2, %{h})").unwrap();
        h = next + 1;
        writeln!(text, "  %{h}: f64[5,1] = tanh(%{next})").unwrap();
    }
    writeln!(text, "  return %{h}\n}}").unwrap();
    let program = Program::parse(&text).unwrap();
    let mut rng = Rng::new(10);
    let matrix = rng.array(DType::F64, &[5, 5], -1.0, 1.0).unwrap();
    let vector = rng.array(DType::F64, &[5, 1], -1.0, 1.0).unwrap();
    for (program, inputs) in with_derivatives(&program, &[matrix, vector], &mut rng) {
        assert!(check(&program, &inputs));
    }
}

/// What kernels and code give for factors and systems of this matrix, and whether it was refused.
fn check_systems(n: usize, dtype: DType, a: &Value, b: &Value) -> bool {
    let name = if dtype == DType::F64 { "f64" } else { "f32" };
    let (matrix, packed) = (
        format!("{name}[{n},{n}]"),
        format!("{name}[{}]", n * n + n + 1),
    );
    let right = format!("{name}[{n},2]");
    let triangle = |lower: bool, transposed: bool, unit: bool| {
        format!("triangular_solve[lower={lower}, transposed={transposed}, unit={unit}](%0, %1)")
    };
    let mut refused = false;
    for lu in ["lu", "nonsingular_lu"] {
        let solve = |transposed: bool| {
            format!("lu_solve[lower=false, transposed={transposed}, unit=false](%0, %2, %1)")
        };
        let text = format!(
            "program(%0: {matrix}, %1: {right}) {{\n  %2: {packed} = {lu}(%0)\n  %3: {right} = {}\n  \
             %4: {right} = {}\n  %5: {right} = mul(%3, %4)\n  return %2, %3, %4, %5\n}}\n",
            solve(false),
            solve(true)
        );
        refused |= !same_or_refused(&Program::parse(&text).unwrap(), &[a.clone(), b.clone()]);
    }
    for k in 0..8 {
        let text = format!(
            "program(%0: {matrix}, %1: {right}) {{\n  %2: {right} = {}\n  return %2\n}}\n",
            triangle(k & 1 > 0, k & 2 > 0, k & 4 > 0)
        );
        same_or_refused(&Program::parse(&text).unwrap(), &[a.clone(), b.clone()]);
    }
    let text =
        format!("program(%0: {matrix}) {{\n  %1: {matrix} = cholesky(%0)\n  return %1\n}}\n");
    refused | !same_or_refused(&Program::parse(&text).unwrap(), std::slice::from_ref(a))
}

/// Compares both ways, also what they refuse; false if they do.
fn same_or_refused(program: &Program, inputs: &[Value]) -> bool {
    let (wanted, found) = (testing::run(program, inputs), compiled(program, inputs));
    match (wanted, found) {
        (Ok(wanted), Ok(found)) => {
            for (a, b) in found.expect("it is code").iter().zip(&wanted) {
                same_bits(a, b, program);
            }
            true
        }
        (Err(wanted), Err(found)) => {
            assert_eq!(wanted.to_string(), found.to_string(), "{program}");
            false
        }
        (wanted, found) => panic!("{wanted:?} and {found:?} in\n{program}"),
    }
}

#[cfg(feature = "linalg")]
#[test]
fn small_systems() {
    let mut rng = Rng::new(11);
    for dtype in [DType::F64, DType::F32] {
        for n in 1..=6 {
            let b = rng.array(dtype, &[n, 2], -2.0, 2.0).unwrap();
            let at = |i: usize, j: usize| (i * n + j) as f64;
            let matrix = |of: &dyn Fn(usize, usize) -> f64| {
                let all = (0..n * n).map(|k| of(k / n, k % n).into());
                testing::value(dtype, &[n, n], &all.collect::<Vec<_>>()).unwrap()
            };
            for _ in 0..6 {
                let a = rng.array(dtype, &[n, n], -2.0, 2.0).unwrap();
                check_systems(n, dtype, &a, &b);
            }
            let equal = |i: usize, j: usize| f64::from(u8::from(i == j));
            // A positive one, and those with zeros as pivots, equal pivots, what is no number.
            let positive = matrix(&|i, j| 3.0 * equal(i, j) + 0.1 * (at(i, j) + at(j, i)).cos());
            assert!(!check_systems(n, dtype, &positive, &b));
            check_systems(n, dtype, &matrix(&|i, j| equal(i, n - 1 - j)), &b);
            check_systems(
                n,
                dtype,
                &matrix(&|i, j| if (i + j) % 2 == 0 { 1.0 } else { -1.0 }),
                &b,
            );
            assert!(check_systems(n, dtype, &matrix(&|_, _| 0.0), &b));
            check_systems(
                n,
                dtype,
                &matrix(&|i, j| if i >= j { 1.0 } else { -0.0 }),
                &b,
            );
            for odd in [f64::NAN, f64::INFINITY, -0.0, 5e-324, 1e300] {
                for place in 0..n * n {
                    let a = matrix(&|i, j| {
                        if i * n + j == place {
                            odd
                        } else {
                            at(i, j).sin()
                        }
                    });
                    check_systems(n, dtype, &a, &b);
                }
            }
        }
    }
}

#[cfg(feature = "linalg")]
#[test]
fn a_filter_with_its_systems() {
    let mut text = String::from("program(%0: f64[2,2], %1: f64[2,3]) {\n");
    let (mut next, mut a, mut b) = (2, 0, 1);
    let mut line = |aval: &str, rest: &str| {
        writeln!(text, "  %{next}: f64[{aval}] = {rest}").unwrap();
        next += 1;
        next - 1
    };
    for _ in 0..40 {
        let lu = line("7", &format!("nonsingular_lu(%{a})"));
        let how = "lower=false, transposed=false, unit=false";
        let solved = line("2,3", &format!("lu_solve[{how}](%{a}, %{lu}, %{b})"));
        b = line("2,3", &format!("tanh(%{solved})"));
        let turned = line("3,2", &format!("transpose[axes=(1, 0)](%{b})"));
        let product = line("2,2", &format!("matmul(%{b}, %{turned})"));
        a = line("2,2", &format!("add(%{product}, %0)"));
    }
    writeln!(text, "  return %{b}, %{a}\n}}").unwrap();
    let program = Program::parse(&text).unwrap();
    let mut rng = Rng::new(12);
    let matrix = Value::from_slice(&[2, 2], &[1.5, 0.2, -0.3, 1.1]).unwrap();
    let right = rng.array(DType::F64, &[2, 3], -1.0, 1.0).unwrap();
    for (program, inputs) in with_derivatives(&program, &[matrix.clone(), right.clone()], &mut rng)
    {
        assert!(check(&program, &inputs));
    }
    let singular = Value::from_slice(&[2, 2], &[1.0, 2.0, 2.0, 4.0]).unwrap();
    assert!(!same_or_refused(&program, &[singular, right]));
}

/// A loop with a loop of a few turns in it: what is carried, read, stacked, and kept of each step.
fn looped(length: usize, reverse: bool, shape: &str) -> Program {
    let inner = format!(
        "program(%0: f64[{shape}], %1: f64[{shape}]) {{
      %2: f64[{shape}] = mul(%0, %1)
      %3: f64[{shape}] = tanh(%2)
      return %3, %2
    }}"
    );
    let rows = if shape.is_empty() {
        format!("{length}")
    } else {
        format!("{length},{shape}")
    };
    let few = if shape.is_empty() {
        "3".into()
    } else {
        format!("3,{shape}")
    };
    let text = format!(
        "program(%0: f64[{shape}], %1: f64[{rows}], %2: f64[{shape}], %3: i64[{length}]) {{
  %4: f64[{shape}] = loop[length={length}, carries=2, scanned=2, reverse={reverse}, output=0](%0, %2, %1, %3, %2) program(
    %0: f64[{shape}], %1: f64[{shape}], %2: f64[{shape}], %3: i64[], %4: f64[{shape}]
  ) {{
    %5: f64[{shape}] = loop[length=3, carries=1, scanned=0, reverse={reverse}, output=0](%0, %4) {inner}
    %6: f64[{few}] = loop[of=5, output=1](%0, %4)
    %7: f64[{few}] = loop[of=5, output=2](%0, %4)
    %8: f64[{few}] = mul(%6, %7)
    %9: f64[{shape}] = sum[axes=(0,)](%8)
    %10: f64[] = cast[dtype=f64](%3)
    %11: f64[] = sin(%10)
    %12: f64[{shape}] = {spread}
    %13: f64[{shape}] = add(%5, %2)
    %14: f64[{shape}] = mul(%13, %12)
    %15: f64[{shape}] = add(%14, %9)
    return %15, %0, %9, %3
  }}
  %5: f64[{shape}] = loop[of=4, output=1](%0, %2, %1, %3, %2)
  %6: f64[{rows}] = loop[of=4, output=2](%0, %2, %1, %3, %2)
  %7: i64[{length}] = loop[of=4, output=3](%0, %2, %1, %3, %2)
  %8: f64[{rows}] = loop[of=4, output=4](%0, %2, %1, %3, %2)
  %9: f64[{rows}] = loop[of=4, output=5](%0, %2, %1, %3, %2)
  return %4, %5, %6, %7, %8, %9
}}",
        spread = if shape.is_empty() {
            "neg(%11)".into()
        } else {
            format!("broadcast[shape=({shape},)](%11)")
        }
    );
    Program::parse(&text).unwrap_or_else(|e| panic!("{e} in\n{text}"))
}

#[test]
fn turns_of_loops_and_their_derivatives() {
    let mut rng = Rng::new(41);
    for length in [1, 2, 7, 16, 33, 130] {
        for (reverse, shape) in [(false, ""), (true, ""), (false, "3"), (true, "4")] {
            let program = looped(length, reverse, shape);
            let mut inputs: Vec<Value> = (0..3)
                .map(|v| {
                    let shape = &program.aval(v).shape;
                    rng.array(DType::F64, shape, -1.0, 1.0).unwrap()
                })
                .collect();
            let places: Vec<i64> = (0..length as i64).map(|i| i * 7 % 5).collect();
            inputs.push(Value::from_slice(&[length], &places).unwrap());
            for (program, inputs) in with_derivatives(&program, &inputs, &mut rng) {
                assert!(check(&program, &inputs), "{program}");
                // Slices with gaps between them, and one that all turns read.
                let gaps: Vec<Value> = inputs.iter().map(spaced).collect();
                assert!(check(&program, &gaps));
            }
        }
    }
}

/// The same elements in every other place of a larger array.
fn spaced(x: &Value) -> Value {
    let Some(&len) = x.shape().first() else {
        return x.clone();
    };
    let twice: Vec<usize> = std::iter::once(2 * len)
        .chain(x.shape()[1..].iter().copied())
        .collect();
    let dims: Vec<SliceDim> = (x.shape().iter().enumerate())
        .map(|(axis, &len)| SliceDim {
            start: 0,
            len,
            step: if axis == 0 { 2 } else { 1 },
        })
        .collect();
    let own = testing::numbers(x).unwrap();
    let row = own.len() / len;
    let mut all = vec![Complex::default(); 2 * own.len()];
    for (i, number) in own.into_iter().enumerate() {
        all[i / row * 2 * row + i % row] = number;
    }
    let room = testing::value(x.dtype(), &twice, &all).unwrap();
    room.sliced(&dims)
}

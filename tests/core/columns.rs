//! Programs whose arrays of points are taken apart compute the same bits: random programs and their derivatives, with
//! signed zeros, infinities and NaN among the numbers.

use cotan::aval::SliceDim;
use cotan::kernels::Value;
use cotan::prim::{Params, V, Var};
use cotan::program::Builder;
use cotan::testing::{self, Rng};
use cotan::{Aval, DType, Program, ops, opt, transform};

use crate::common::same_bits;

const ROWS: usize = 140;

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[(rng.bits() % from.len() as u64) as usize]
}

/// Numbers of which some are special.
fn numbers(rng: &mut Rng, aval: &Aval) -> Value {
    if aval.dtype == DType::I64 {
        let indices: Vec<i64> = (0..aval.size())
            .map(|_| (rng.bits() % ROWS as u64) as i64)
            .collect();
        return Value::from_slice(&aval.shape, &indices).unwrap();
    }
    let special = [0.0, -0.0, f64::INFINITY, f64::NAN, 1e300];
    let numbers: Vec<_> = (0..aval.size())
        .map(|_| match rng.bits() % 40 {
            0 => pick(rng, &special).into(),
            _ => rng.uniform(-2.0, 2.0).into(),
        })
        .collect();
    testing::value(aval.dtype, &aval.shape, &numbers).unwrap()
}

/// A step of a point program; `None` where it does not fit.
fn step<'e>(rng: &mut Rng, builder: &'e Builder, x: V<'e>, y: V<'e>) -> Option<V<'e>> {
    let shape = x.shape();
    let (&last, rest) = shape.split_last()?;
    let whole = |dims: &[usize]| -> Vec<SliceDim> {
        (dims.iter().map(|&len| SliceDim {
            start: 0,
            len,
            step: 1,
        }))
        .collect()
    };
    let unary = [ops::SIN, ops::NEG, ops::SQUARE, ops::SQRT];
    let binary = [ops::ADD, ops::MUL, ops::SUB, ops::DIV, ops::MAXIMUM];
    Some(match rng.bits() % 12 {
        0 => x.map(pick(rng, &unary)),
        1..=4 => {
            let args = [x.var(), y.var()];
            let var = builder.push(pick(rng, &binary), Params::None, &args).ok()?;
            let fits = builder.with(|p| p.aval(var).size() <= 4 * ROWS);
            fits.then(|| builder.value(var))?
        }
        5 => {
            let sum = x.reduce(
                pick(rng, &[ops::SUM, ops::SUM, ops::MAX]),
                &[shape.len() - 1],
            );
            match rng.bits() % 2 {
                0 => sum,
                _ => sum.reshape(&[rest, &[1]].concat()),
            }
        }
        6 if last > 1 => {
            // Some columns, perhaps backwards, perhaps of some rows only.
            let mut dims = whole(&shape);
            let rows = rest.first().copied().filter(|&n| n == ROWS);
            if let Some(n) = rows.filter(|_| rng.bits().is_multiple_of(4)) {
                dims[0] = SliceDim {
                    start: n - 1,
                    len: n,
                    step: -1,
                };
            }
            dims[rest.len()] = match rng.bits() % 3 {
                0 => SliceDim {
                    start: 1,
                    len: 1,
                    step: 1,
                },
                1 => SliceDim {
                    start: last - 1,
                    len: last,
                    step: -1,
                },
                _ => SliceDim {
                    start: 0,
                    len: 2,
                    step: last as isize - 1,
                },
            };
            let part = x.slice(&dims);
            if dims[rest.len()].len == 1 && rng.bits().is_multiple_of(2) {
                part.reshape(rest)
            } else {
                part
            }
        }
        7 => {
            let mut dims = whole(&shape);
            dims[rest.len()].start = 1;
            x.pad(&[rest, &[last + 2]].concat(), &dims)
        }
        8 if last > 1 && y.shape()[..] == [rest, &[1]].concat() => {
            let mut dims = whole(&shape);
            dims[rest.len()] = SliceDim {
                start: last - 1,
                len: 1,
                step: 1,
            };
            let prim = pick(rng, &[ops::UPDATE, ops::UPDATE_ADD]);
            x.apply(prim, Params::Slice(dims.into()), &[y])
        }
        9 => {
            let fits = x.shape().len() == y.shape().len() && y.shape()[..rest.len()] == *rest;
            fits.then(|| x.apply(ops::CONCATENATE, Params::Axis(rest.len()), &[y]))?
        }
        10 => match rng.bits() % 3 {
            0 => x.reshape(&[&shape[..], &[1]].concat()),
            1 if last == 1 => x.reshape(rest).broadcast_to(&[&[2][..], rest].concat()),
            _ => x.broadcast_to(&[&[2][..], &shape].concat()),
        },
        11 if rest.len() == 2 => x.transpose(&[1, 0, 2]),
        _ => {
            let zero = x.number(0.0);
            x.combine(ops::GT, zero).select(x, x.square())
        }
    })
}

fn random_points(seed: u64, length: usize, dtype: DType) -> Program {
    let mut rng = Rng::new(seed);
    let builder = Builder::new();
    let n = ROWS;
    let shapes: [&[usize]; 5] = [&[n, 3], &[n, 3], &[n, 1], &[n], &[3]];
    let mut vars: Vec<Var> = (shapes.iter())
        .map(|shape| builder.input("", &Aval::new(dtype, shape)))
        .collect();
    let indices = builder.input("", &Aval::new(DType::I64, &[n]));
    let gathered = builder.emit(ops::GATHER, Params::None, &[vars[0], indices]);
    vars.push(gathered);
    for _ in 0..length {
        let x = builder.value(pick(&mut rng, &vars));
        let y = builder.value(pick(&mut rng, &vars));
        let small = |v: &V<'_>| v.shape().iter().product::<usize>() <= 16 * ROWS;
        if let Some(new) = step(&mut rng, &builder, x, y).filter(small) {
            vars.push(new.var());
        }
    }
    let outs = vars[6..].iter().rev().step_by(4).copied().collect();
    builder.finish(outs).unwrap()
}

/// Whether a program is taken apart, and computes the same then, equation by equation.
fn check(program: &Program, rng: &mut Rng) -> bool {
    let Some(columns) = opt::in_columns(program).unwrap() else {
        return false;
    };
    let inputs: Vec<Value> = (0..program.num_inputs())
        .map(|i| numbers(rng, program.aval(i as Var)))
        .collect();
    let wanted = testing::run_stepwise(program, &inputs).unwrap();
    let found = testing::run_stepwise(&columns, &inputs).unwrap();
    for (a, b) in found.iter().zip(&wanted) {
        same_bits(a, b, program);
    }
    true
}

#[test]
fn random_programs_of_points_and_their_derivatives() {
    let mut rng = Rng::new(3);
    let (mut taken, mut derivatives) = (0, 0);
    for seed in 0..200 {
        let dtype = if seed % 3 == 0 {
            DType::F32
        } else {
            DType::F64
        };
        let program = random_points(seed, 30, dtype);
        taken += usize::from(check(&program, &mut rng));
        let vjp = transform::vjp(&program, &testing::inexact_inputs(&program)).unwrap();
        derivatives += usize::from(check(&vjp.program, &mut rng));
    }
    assert!(taken > 60 && derivatives > 60, "{taken} {derivatives}");
}

#[test]
fn rows_of_every_length_and_dtype() {
    let mut rng = Rng::new(8);
    for dtype in ["f64", "f32", "i64", "f16", "c128"] {
        for len in 2..=18 {
            let text = format!(
                "program(%0: {dtype}[200,{len}], %1: {dtype}[200,1], %2: {dtype}[200,{}]) {{
                   %3: {dtype}[200,{len}] = mul(%0, %1)
                   %4: {dtype}[200] = sum[axes=(1,)](%3)
                   %5: {dtype}[200,1] = reshape[shape=(200, 1)](%4)
                   %6: {dtype}[200,{len}] = add(%5, %3)
                   %7: {dtype}[200,{len}] = update_add[start=(0, {}), len=(200, {}), step=(1, -2)](%6, %2)
                   %8: {dtype}[200,{len}] = update[start=(0, 0), len=(200, {}), step=(1, 2)](%7, %2)
                   %9: {dtype}[200] = sum[axes=(1,)](%8)
                   return %4, %9, %7
                 }}",
                len / 2,
                len - 1,
                len / 2,
                len / 2
            );
            let program = Program::parse(&text).unwrap();
            let taken = check(&program, &mut rng);
            let adds = ["f64", "f32", "i64"].contains(&dtype);
            assert_eq!(taken, adds && len < 16, "{dtype} {len}");
        }
    }
}

#[test]
fn few_columns_of_many_are_read_alone() {
    let text = "program(%0: f64[200,5000]) {
        %1: f64[200,3] = slice[start=(0, 1), len=(200, 3), step=(1, 1000)](%0)
        %2: f64[200,3] = square(%1)
        %3: f64[200] = sum[axes=(1,)](%2)
        %4: f64[200,1] = reshape[shape=(200, 1)](%3)
        %5: f64[200,3] = div(%1, %4)
        %6: f64[200] = sum[axes=(1,)](%5)
        return %6
      }";
    let program = Program::parse(text).unwrap();
    assert!(check(&program, &mut Rng::new(2)));
    let columns = opt::in_columns(&program).unwrap().unwrap();
    assert!(columns.eqns().len() < 40, "{columns}");
}

#[test]
fn arrays_that_are_only_added_stay_as_they_are() {
    let text = |rest: &str, out: &str| {
        format!(
            "program(%0: f64[200,3], %1: f64[200,3], %2: f64[200,1]) {{
               %3: f64[200,3] = sub(%0, %1)
               {rest}
               return {out}
             }}"
        )
    };
    let taken = |text: String| opt::in_columns(&Program::parse(&text).unwrap()).unwrap();
    assert!(taken(text("%4: f64[200,3] = mul(%3, %3)", "%4")).is_none());
    let weighed = text("%4: f64[200,3] = mul(%3, %2)", "%4");
    assert!(
        taken(weighed).is_none(),
        "two arrays are read and one is written"
    );
    let norm = "%4: f64[200,3] = mul(%3, %3)
                %5: f64[200] = sum[axes=(1,)](%4)
                %6: f64[200,1] = slice[start=(0, 1), len=(200, 1), step=(1, 1)](%3)
                %7: f64[200,1] = slice[start=(0, 2), len=(200, 1), step=(1, 1)](%3)
                %8: f64[200,2] = concatenate[axis=1](%6, %7)
                %9: f64[200,2] = mul(%8, %2)
                %10: f64[200] = sum[axes=(1,)](%9)";
    let program = taken(text(norm, "%5, %10")).unwrap();
    let is_vector = |v: Var| {
        program.aval(v).rank() < 2 || !program.definition(v).unwrap().prim.is_elementwise()
    };
    assert!(
        (program.num_inputs() as Var..program.num_vars() as Var).all(is_vector),
        "{program}"
    );
}

//! What several files of tests use: random programs, when results are the same, numbers of threads, gradients that are
//! compared with those of the reference.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cotan::kernels::Value;
use cotan::prim::{Params, Var};
use cotan::program::Builder;
use cotan::sched::Replay;
use cotan::testing::{self, Rng};
use cotan::transform::Vjp;
use cotan::{Arg, Array, Aval, DType, Error, Program, Pullback, Result, ops, sched, trace};

/// Tests that change the number of threads, or that rely on it, take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static THREADS: Mutex<()> = Mutex::new(());
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a computation gives on one, two and three threads.
pub fn on_threads<T>(run: impl Fn() -> T) -> [T; 3] {
    let _turn = turn();
    let runs = [1, 2, 3].map(|threads| {
        sched::set_num_threads(threads);
        assert_eq!(sched::num_threads(), threads);
        run()
    });
    sched::set_num_threads(0);
    runs
}

/// Equal up to the order in which reductions add.
pub fn close(a: &Value, b: &Value, program: &Program, tolerance: f64) {
    assert_eq!(a.aval(), b.aval());
    let (a, b) = (testing::numbers(a).unwrap(), testing::numbers(b).unwrap());
    for (x, y) in a.iter().zip(&b) {
        let size = x.norm().max(y.norm());
        let same = |x: f64, y: f64| {
            let size = if size.is_finite() { size } else { x.abs() };
            (x - y).abs() <= tolerance * (1.0 + size)
                || x.to_bits() == y.to_bits()
                || (x.is_nan() && y.is_nan())
        };
        // Overflow may come a little earlier in another order.
        assert!(
            same(x.re, y.re) && same(x.im, y.im) || x.norm() > 1e30,
            "{x} and {y} in\n{program}"
        );
    }
}

/// Equal bits, where every NaN counts as equal to every other.
pub fn same_bits(a: &Value, b: &Value, program: &Program) {
    assert_eq!(a.aval(), b.aval());
    let (a, b) = (testing::numbers(a).unwrap(), testing::numbers(b).unwrap());
    for (x, y) in a.iter().zip(&b) {
        let same = |x: f64, y: f64| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
        assert!(
            same(x.re, y.re) && same(x.im, y.im),
            "{x} and {y} in\n{program}"
        );
    }
}

/// A random program over arrays of shape (3, 4), perhaps with an axis of length one, and what reductions and
/// layouts make of them.
pub fn random_program(seed: u64, length: usize, dtype: DType) -> (Program, Vec<Value>) {
    let mut rng = Rng::new(seed);
    let builder = Builder::new();
    let (whole, column): (&[usize], &[usize]) = match rng.bits() % 3 {
        0 => (&[3, 4], &[3, 1]),
        1 => (&[3, 1, 4], &[3, 1, 1]),
        _ => (&[1, 3, 4], &[1, 3, 1]),
    };
    let shapes = [whole, whole, &[4], column];
    let mut vars: Vec<Var> = shapes
        .iter()
        .map(|s| builder.input("", &Aval::new(dtype, s)))
        .collect();
    let unary = [
        ops::SIN,
        ops::NEG,
        ops::TANH,
        ops::SQUARE,
        ops::ABS,
        ops::SIGMOID,
        ops::FLOOR,
    ];
    let binary = [
        ops::ADD,
        ops::MUL,
        ops::SUB,
        ops::MAXIMUM,
        ops::HYPOT,
        ops::ATAN2,
    ];
    let reductions = [
        ops::SUM,
        ops::MAX,
        ops::MEAN,
        ops::MIN,
        ops::LOGSUMEXP,
        ops::PROD,
    ];
    for _ in 0..length {
        let pick = |rng: &mut Rng, n: usize| (rng.bits() % n as u64) as usize;
        let x = builder.value(vars[pick(&mut rng, vars.len())]);
        let y = builder.value(vars[pick(&mut rng, vars.len())]);
        let rank = x.shape().len();
        let new = match rng.bits() % 8 {
            0 | 1 => x.map(unary[pick(&mut rng, unary.len())]),
            2..=4 => {
                let prim = binary[pick(&mut rng, binary.len())];
                match builder.push(prim, Params::None, &[x.var(), y.var()]) {
                    Ok(var) if builder.with(|p| p.aval(var).size()) < 5000 => builder.value(var),
                    _ => continue,
                }
            }
            5 if rank > 0 => {
                let some = 1 + pick(&mut rng, (1 << rank) - 1);
                let axes: Vec<usize> = (0..rank).filter(|a| some >> a & 1 == 1).collect();
                let out = x.reduce(reductions[pick(&mut rng, reductions.len())], &axes);
                let mut kept = x.shape();
                for &a in &axes {
                    kept[a] = 1;
                }
                match pick(&mut rng, 2) {
                    0 => out,
                    _ => out.reshape(&kept),
                }
            }
            6 if rank > 1 => {
                let perm: Vec<usize> = (0..rank).rev().collect();
                x.transpose(&perm)
            }
            7 if rank < 3 => {
                let shape = x.shape();
                x.broadcast_to(&[&[2][..], &shape].concat())
            }
            _ => {
                let zero = x.number(0.0);
                x.combine(ops::GT, zero).select(x, x.square())
            }
        };
        vars.push(new.var());
    }
    let outs: Vec<Var> = vars[4..].iter().rev().step_by(3).copied().collect();
    let values = shapes
        .iter()
        .map(|s| rng.array(dtype, s, -2.0, 2.0).unwrap())
        .collect();
    (builder.finish(outs).unwrap(), values)
}

/// `cotan::gradient`, after the program of `f` has been differentiated by the reference, too.
pub fn gradient<F>(f: F, args: &[Arg]) -> Result<Vec<Option<Array>>>
where
    F: Fn(&[Array]) -> Result<Array>,
{
    let f = |x: &[Array]| {
        check_reverse_pass(&f, x)?;
        f(x)
    };
    cotan::gradient(f, args)
}

/// `cotan::pullback`, after the program of `f` has been differentiated by the reference, too.
pub fn pullback<F>(f: F, args: &[Arg]) -> Result<(Array, Pullback)>
where
    F: Fn(&[Array]) -> Result<Array>,
{
    let f = |x: &[Array]| {
        check_reverse_pass(&f, x)?;
        f(x)
    };
    cotan::pullback(f, args)
}

/// `cotan::value_and_gradient`, after the program of `f` has been differentiated by the reference, too.
pub fn value_and_gradient<F>(f: F, args: &[Arg]) -> Result<(Array, Vec<Option<Array>>)>
where
    F: Fn(&[Array]) -> Result<Array>,
{
    let f = |x: &[Array]| {
        check_reverse_pass(&f, x)?;
        f(x)
    };
    cotan::value_and_gradient(f, args)
}

/// The reverse pass of a program, compared with that of the reference; `None` for one that has no derivative.
pub fn checked_vjp(program: &Program, values: &[Value]) -> Option<Vjp> {
    match testing::checked_vjp(program, &testing::inexact_inputs(program), values) {
        Ok(vjp) => Some(vjp),
        Err(Error::NotDifferentiable(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Compares the reverse pass of what `f` records with that of the reference. Gradients inside of `f` are a part of its
/// program, and not compared once more.
fn check_reverse_pass(f: impl Fn(&[Array]) -> Result<Array>, x: &[Array]) -> Result<()> {
    thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });
    if INSIDE.replace(true) {
        return Ok(());
    }
    let traced = trace(f, &x.iter().collect::<Vec<_>>());
    INSIDE.set(false);
    // Errors are those of the test itself.
    let Ok((program, constants)) = traced else {
        return Ok(());
    };
    let values = x.iter().chain(&constants).map(|x| x.evaluate().cloned());
    let values = values.collect::<Result<Vec<Value>>>()?;
    let mut wrt = testing::inexact_inputs(&program);
    wrt[x.len()..].fill(false);
    testing::checked_vjp(&program, &wrt, &values).map(drop)
}

/// What machine code gives, and then once more in the same memory; `None` where there is none.
pub fn compiled(program: &Program, inputs: &[Value]) -> Result<Option<Vec<Value>>> {
    let avals = (0..program.num_inputs() as Var).map(|i| program.aval(i).clone());
    let replay = Replay::new(sched::plan(program)?, avals.collect());
    if !replay.compile()? {
        return Ok(None);
    }
    let nothing: Arc<[Value]> = Arc::from([]);
    let first = replay.run(inputs, &nothing, &[], &mut || false)?;
    let second = replay.run(inputs, &nothing, &[], &mut || false)?;
    for (a, b) in first.iter().zip(&second) {
        same_bits(a, b, program);
    }
    Ok(Some(first))
}

//! The reverse pass over a chain of 1,000 equations, and what follows it.
#![allow(missing_docs)]

use std::hint::black_box;

use cotan::opt::{self, Passes};
use cotan::{Array, Program, Result, sched, trace, transform};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A step `count` times: of what there is so far and of what there was first.
fn program(count: usize, step: fn(&Array, &Array) -> Result<Array>) -> Program {
    let x = Array::from_slice(&[8], &[1.0; 8]).expect("eight elements");
    let f = |v: &[Array]| (0..count).try_fold(v[0].clone(), |y, _| step(&y, &v[1]));
    trace(f, &[&x, &x]).expect("it closes").0
}

fn reverse(c: &mut Criterion) {
    let program = program(500, |y, x| y.mul(x)?.sin());
    let joint = transform::vjp(&program, &[true, true])
        .expect("it has derivatives")
        .program;
    let mut group = c.benchmark_group("reverse");
    group.throughput(Throughput::Elements(program.eqns().len() as u64));
    group.bench_function("vjp", |b| {
        b.iter(|| transform::vjp(black_box(&program), &[true, true]));
    });
    // One cotangent for each equation, and two with their sum.
    for (name, wrt) in [("factors", [true, false]), ("products", [true, true])] {
        let products = self::program(1000, |y, x| y.mul(x));
        group.bench_function(name, |b| {
            b.iter(|| transform::vjp(black_box(&products), &wrt));
        });
    }
    group.bench_function("hash", |b| b.iter(|| black_box(&program).structural_hash()));
    group.bench_function("prune", |b| b.iter(|| black_box(&joint).pruned()));
    group.bench_function("optimize", |b| {
        b.iter(|| opt::optimize(black_box(&joint), Passes::ALL));
    });
    group.bench_function("split", |b| {
        b.iter(|| transform::split(black_box(&joint), &[false, false, true], 1));
    });
    group.bench_function("plan", |b| b.iter(|| sched::Plan::new(black_box(&joint))));
    group.finish();
}

criterion_group!(benches, reverse);
criterion_main!(benches);

//! Reductions of a matrix over rows, columns and everything.
#![allow(missing_docs)]

use cotan::Array;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn reduce(c: &mut Criterion) {
    let (rows, columns) = (1000, 1000);
    let elements: Vec<f64> = (0..rows * columns).map(|i| f64::from(i).sin()).collect();
    let x = Array::from_slice(&[rows as usize, columns as usize], &elements).expect("it fits");
    let mut group = c.benchmark_group("reduce");
    group.throughput(Throughput::Bytes(8 * elements.len() as u64));
    group.bench_function("sum of all", |b| {
        b.iter(|| x.sum(..)?.evaluate().map(|_| ()));
    });
    group.bench_function("sum over rows", |b| {
        b.iter(|| x.sum(0)?.evaluate().map(|_| ()));
    });
    group.bench_function("sum over columns", |b| {
        b.iter(|| x.sum(1)?.evaluate().map(|_| ()));
    });
    group.bench_function("max over rows", |b| {
        b.iter(|| x.max(0)?.evaluate().map(|_| ()));
    });
    group.bench_function("logsumexp over columns", |b| {
        b.iter(|| x.logsumexp(1)?.evaluate().map(|_| ()));
    });
    group.finish();
}

criterion_group!(benches, reduce);
criterion_main!(benches);

//! Fused groups: `sum(sin(x) * cos(c))` with its gradient, and a chain of 20 elementwise functions.
#![allow(missing_docs)]

use cotan::kernels::Element;
use cotan::{Arg, Array, constant, value_and_gradient};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn vector<T: Element>(n: usize, of: impl Fn(usize) -> T) -> Array {
    Array::from_slice(&[n], &(0..n).map(of).collect::<Vec<T>>()).expect("it fits")
}

fn sum(v: &[Array]) -> cotan::Result<Array> {
    v[0].sin()?.mul(&v[1].cos()?)?.sum(..)
}

fn chain(x: &Array) -> cotan::Result<Array> {
    (0..10).try_fold(x.clone(), |y, _| y.mul(x)?.add(0.5))
}

fn fused(c: &mut Criterion) {
    for n in [1_000usize, 1_000_000] {
        let mut group = c.benchmark_group("fused");
        group.throughput(Throughput::Elements(n as u64));
        let doubles = vector(n, |i| (i as f64).sin());
        let floats = vector(n, |i| (i as f32).sin());
        for (name, x) in [("f64", doubles), ("f32", floats)] {
            let id = |what: &str| BenchmarkId::new(format!("{what} {name}"), n);
            group.bench_function(id("value"), |b| {
                b.iter(|| sum(&[x.clone(), x.clone()])?.evaluate().map(|_| ()));
            });
            group.bench_function(id("value and gradient"), |b| {
                b.iter(|| value_and_gradient(sum, &[Arg::from(&x), constant(&x)]));
            });
            group.bench_function(id("chain of 20"), |b| {
                b.iter(|| chain(&x)?.evaluate().map(|_| ()));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, fused);
criterion_main!(benches);

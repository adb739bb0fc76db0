//! Recording operations on arrays, and closing what was recorded.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use cotan::{Array, trace};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A chain of multiplications.
fn chain(x: &Array, n: usize) -> cotan::Result<Array> {
    (0..n).try_fold(x.clone(), |y, _| y.mul(x))
}

fn record(c: &mut Criterion) {
    let n = 20_000;
    let x = Array::from_slice(&[8], &[1.0; 8]).expect("eight elements");
    let mut group = c.benchmark_group("record");
    group.throughput(Throughput::Elements(n as u64));
    group.bench_function("mul", |b| {
        b.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                // Inside a recording, where nothing is forced by itself.
                let recording = cotan::Recording::new();
                let leaf = recording.leaf(&x);
                let started = Instant::now();
                let y = black_box(chain(&leaf, n));
                total += started.elapsed();
                drop(y);
            }
            total
        });
    });
    group.bench_function("mul, closed and dropped", |b| {
        b.iter(|| trace(|v| chain(&v[0], n), &[&x]).expect("it closes").0);
    });
    group.finish();
}

criterion_group!(benches, record);
criterion_main!(benches);

//! Matrix products: square ones, and those of a small network's layer.
#![allow(missing_docs)]

use cotan::{Array, DType};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn matmul(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul");
    for (m, k, n) in [
        (64, 64, 64),
        (256, 256, 256),
        (1024, 1024, 1024),
        (128, 784, 256),
    ] {
        group.throughput(Throughput::Elements(2 * (m * k * n) as u64));
        for dtype in [DType::F32, DType::F64] {
            let matrix = |shape: &[usize]| {
                let x = Array::full(dtype, shape, 0.5)?.add(1.0)?;
                x.evaluate()?;
                Ok::<Array, cotan::Error>(x)
            };
            let (Ok(x), Ok(y)) = (matrix(&[m, k]), matrix(&[k, n])) else {
                continue;
            };
            group.bench_function(
                BenchmarkId::new(dtype.name(), format!("{m}x{k}x{n}")),
                |b| {
                    b.iter(|| x.matmul(&y)?.evaluate().map(|_| ()));
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, matmul);
criterion_main!(benches);

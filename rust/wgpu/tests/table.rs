//! The primitives of the table on the GPU and on the processor: their samples, and the gradients of these.

use cotan::aval::DType;
use cotan::kernels::Value;
use cotan::prim::{Prim, Samples};
use cotan::sched::{self, Device};
use cotan::testing::{Rng, instance, samples};
use cotan::{Program, ops};
use std::sync::Arc;

/// The first GPU, if there is one.
fn gpu() -> Option<Arc<dyn Device>> {
    cotan_wgpu::register();
    sched::device("gpu").ok().flatten()
}

fn run(program: &Program, inputs: Vec<Value>) -> cotan::Result<Vec<Value>> {
    sched::run(&*sched::plan(program)?, inputs, &mut || false)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.bring_here().unwrap();
    let value = sched::copied(value).unwrap();
    (0..value.aval().size())
        .map(|i| value.element(i).item().unwrap().re)
        .collect()
}

fn compare(
    prim: Prim,
    dtype: DType,
    here: &[Value],
    there: &[Value],
    tolerance: f64,
) -> Vec<String> {
    let mut bad = Vec::new();
    for (a, b) in here.iter().zip(there) {
        assert_eq!(a.aval(), b.aval(), "{}", prim.name());
        for (x, y) in numbers(a).into_iter().zip(numbers(b)) {
            let same = (x.is_nan() && y.is_nan()) || x == y;
            let close = (x - y).abs() <= tolerance * (1.0 + x.abs());
            if !same && !close {
                bad.push(format!(
                    "{} {dtype}: {x} on the processor, {y} on the GPU",
                    prim.name()
                ));
                break;
            }
        }
    }
    bad
}

#[test]
fn results_are_those_of_the_processor() {
    let Some(gpu) = gpu() else {
        eprintln!("no GPU: nothing is compared");
        return;
    };
    eprintln!("{gpu:?}");
    let mut rng = Rng::new(7);
    let mut bad = Vec::new();
    let mut left: Vec<String> = Vec::new();
    for &prim in ops::table() {
        if matches!(prim.0.samples, Samples::None(_)) {
            continue;
        }
        for (dtype, tolerance) in [
            (DType::F32, 4e-6),
            (DType::F64, 1e-14),
            (DType::I32, 0.0),
            (DType::I64, 0.0),
            (DType::U8, 0.0),
            (DType::F16, 2e-3),
            (DType::Bool, 0.0),
        ] {
            if !gpu.has(dtype) {
                continue;
            }
            for sample in samples(prim) {
                let Ok(Some((program, inputs))) = instance(prim, &sample, dtype, &mut rng) else {
                    continue;
                };
                let Ok(here) = run(&program, inputs.clone()) else {
                    continue;
                };
                let sent: Vec<Value> = (inputs.iter())
                    .map(|v| {
                        if gpu.has(v.dtype()) {
                            gpu.put(v).unwrap()
                        } else {
                            v.clone()
                        }
                    })
                    .collect();
                let profile = sched::Profile::default();
                profile.enter();
                let there = run(&program, sent);
                profile.exit();
                for (prim, _) in profile.counts().on_processor {
                    left.push(format!("{} {dtype}", prim.name()));
                }
                match there {
                    Ok(there) => bad.extend(compare(prim, dtype, &here, &there, tolerance)),
                    Err(error) => bad.push(format!("{} {dtype}: {error}", prim.name())),
                }
            }
        }
    }
    left.dedup();
    for &prim in ops::table() {
        let has = matches!(prim.0.wgsl, cotan::prim::Wgsl::Expr(_)) && prim.lane().is_some();
        let here = left.contains(&format!("{} f32", prim.name()))
            || left.contains(&format!("{} float32", prim.name()));
        assert!(
            !(has && here),
            "{} has a text, and was computed on the processor",
            prim.name()
        );
    }
    eprintln!("computed on the processor: {}", left.join(", "));
    bad.dedup();
    assert!(bad.is_empty(), "{} differ:\n{}", bad.len(), bad.join("\n"));
}

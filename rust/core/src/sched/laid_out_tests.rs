//! Kernels of known layout give the bits and the errors that they give as usual, wherever their operands lie.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::aval::{DType, SliceDim};
use crate::error::{Error, Result};
use crate::kernels::{ALIGN, Ctx, Form, LaidOut, Storage, Value, copy, copy_into};
use crate::ops;
use crate::prim::{Kernel, Params, Prim};
use crate::testing::{Rng, instance, samples};

static STOP: AtomicBool = AtomicBool::new(false);

fn ctx() -> Ctx<'static> {
    Ctx::new(&STOP, 1)
}

/// What a primitive gives as usual; of an update, a changed copy.
fn usual(prim: Prim, params: &Params, args: &[Value]) -> Result<Value> {
    let avals: Vec<_> = args.iter().map(Value::aval).collect();
    let aval = prim.infer(params, &avals)?;
    prim.call(params, &mut args.to_vec(), &aval, &ctx())
        .unwrap_or_else(|| Err(Error::Program("no kernel".into())))
}

/// The kernel for these operands, if they lie so that it can be laid out, and whether it is an update.
fn kernel(prim: Prim, params: &Params, args: &[Value], out: &Value) -> (Option<LaidOut>, bool) {
    match prim.kernel_ref() {
        Some(Kernel::Write(own)) => (own.lay_out.and_then(|f| f(params, args, out)), false),
        Some(Kernel::Update(own)) => (own.lay_out.and_then(|f| f(params, &args[1..], out)), true),
        _ => (None, false),
    }
}

/// What it gives where operands lie at odd places of one memory; nothing where it is not laid out.
fn laid_out(prim: Prim, params: &Params, args: &[Value]) -> Result<Option<Value>> {
    let avals: Vec<_> = args.iter().map(Value::aval).collect();
    let out = Value::empty(prim.infer(params, &avals)?)?;
    let (Some(kernel), is_update) = kernel(prim, params, args, &out) else {
        return Ok(None);
    };
    let memory = Arc::new(Storage::allocate(1 << 16)?);
    let mut next = 0;
    let mut places = Vec::new();
    let mut put = |value: &Value, off: usize| {
        let form = Form::of(value);
        next = (next + form.reach().before).next_multiple_of(ALIGN) + off;
        let place = next;
        next += form.reach().behind;
        let there = form.at(&memory, place)?;
        copy_into(&there, value, &ctx())?;
        places.push(place);
        Ok::<_, Error>(there)
    };
    for arg in &args[usize::from(is_update)..] {
        // Numbers need not lie at multiples of their size.
        put(arg, if arg.dtype() == DType::I64 { 8 } else { 1 })?;
    }
    let result = if is_update {
        put(&copy(&args[0], &ctx())?, 3)?
    } else {
        put(&copy(&usual(prim, params, args)?, &ctx())?, 3)?
    };
    if !is_update {
        // What is there already is no help.
        let zeros = Value::from_slice(
            &[result.aval().nbytes()],
            &vec![7u8; result.aval().nbytes()],
        )?;
        let form = Form::of(&zeros);
        copy_into(&form.at(&memory, places[places.len() - 1])?, &zeros, &ctx())?;
    }
    kernel.run_at(&memory, places.iter().copied())?;
    // Places outside are refused.
    let mut outside = places.clone();
    outside[0] = memory.len();
    let is_empty = args[usize::from(is_update)].aval().size() == 0;
    assert!(is_empty || kernel.run_at(&memory, outside.into_iter()).is_err());
    assert!(kernel.run_at(&memory, places.into_iter().skip(1)).is_err());
    Ok(Some(result))
}

/// The same elements in other orders, and a row again and again.
fn layouts(x: &Value) -> Vec<Value> {
    let rank = x.shape().len();
    let back: Vec<SliceDim> = (x.shape().iter())
        .map(|&len| SliceDim {
            start: len.saturating_sub(1),
            len,
            step: -1,
        })
        .collect();
    let turned: Vec<usize> = (0..rank).rev().collect();
    let column_major = copy(&x.transposed(&turned), &ctx())
        .unwrap()
        .transposed(&turned);
    let mut all = vec![x.clone(), column_major];
    if x.aval().size() > 0 {
        let there = copy(&x.sliced(&back), &ctx()).unwrap();
        all.push(there.sliced(&back));
        let one: Vec<SliceDim> = back
            .iter()
            .map(|d| SliceDim {
                len: 1,
                step: 1,
                ..*d
            })
            .collect();
        all.push(x.sliced(&one).broadcast_to(x.shape()));
    }
    all
}

/// Compares both for all layouts of one operand at a time; how often there was a kernel.
fn compared(prim: Prim, params: &Params, args: &[Value]) -> usize {
    let mut count = 0;
    for i in 0..args.len() {
        for other in layouts(&args[i]) {
            let mut args = args.to_vec();
            args[i] = other;
            let wanted = usual(prim, params, &args).unwrap();
            let Some(found) = laid_out(prim, params, &args).unwrap() else {
                continue;
            };
            assert_eq!(found.aval(), wanted.aval());
            assert_eq!(
                found.bytes_in_order(),
                wanted.bytes_in_order(),
                "{} of {:?}, argument {i}",
                prim.name(),
                args.iter().map(Value::strides).collect::<Vec<_>>()
            );
            count += 1;
        }
    }
    count
}

fn is_laid_out(prim: Prim) -> bool {
    match prim.kernel_ref() {
        Some(Kernel::Write(own)) => own.lay_out.is_some(),
        Some(Kernel::Update(own)) => own.lay_out.is_some(),
        _ => false,
    }
}

#[test]
fn samples_of_all_dtypes_and_layouts() {
    let mut rng = Rng::new(7);
    let prims: Vec<Prim> = ops::table()
        .iter()
        .copied()
        .filter(|&p| is_laid_out(p))
        .collect();
    assert!(prims.contains(&ops::GATHER) && prims.contains(&ops::UPDATE_ADD));
    for prim in prims {
        let mut count = 0;
        for sample in samples(prim) {
            for dtype in DType::ALL {
                if let Some((_, args)) = instance(prim, &sample, dtype, &mut rng).unwrap() {
                    count += compared(prim, &sample.params, &args);
                }
            }
        }
        assert!(count > 20, "{}: {count}", prim.name());
    }
}

#[test]
fn lines_of_all_lengths_and_special_numbers() {
    for n in [1, 7, 8, 9, 31, 64, 199, 1000] {
        let numbers = |from: usize| -> Vec<f64> {
            let special = [
                f64::NAN,
                -0.0,
                f64::INFINITY,
                0.1,
                5e-324,
                -f64::INFINITY,
                3.5,
            ];
            (0..n)
                .map(|i| special[(i * 5 + from) % 7] + (i / 7) as f64)
                .collect()
        };
        let x = Value::from_slice(&[n + 2], &[&[1.0, -0.0], &numbers(0)[..]].concat()).unwrap();
        let y = Value::from_slice(&[n], &numbers(3)).unwrap();
        for (start, step) in [(0, 1), (2, 1), (n + 1, -1), (n, -1)] {
            let params = Params::Slice(Box::new([SliceDim {
                start,
                len: n,
                step,
            }]));
            for prim in [ops::UPDATE, ops::UPDATE_ADD] {
                assert!(compared(prim, &params, &[x.clone(), y.clone()]) > 0);
            }
        }
        let at = |k: usize| {
            (0..n)
                .map(|i| ((i * k + i / 3) % (n + 2)) as i64)
                .collect::<Vec<_>>()
        };
        for k in [1, 0, 7] {
            let idx = Value::from_slice(&[n], &at(k)).unwrap();
            assert!(compared(ops::GATHER, &Params::None, &[x.clone(), idx.clone()]) > 0);
            for prim in [ops::SCATTER, ops::SCATTER_ADD] {
                assert!(compared(prim, &Params::None, &[x.clone(), idx.clone(), y.clone()]) > 0);
            }
        }
    }
}

#[test]
fn indices_out_of_bounds_are_the_usual_error() {
    let x = Value::from_slice(&[3], &[1.0, 2.0, 3.0]).unwrap();
    let u = Value::from_slice(&[2], &[1.0, 2.0]).unwrap();
    for bad in [-1i64, 3, i64::MAX] {
        let idx = Value::from_slice(&[2], &[0, bad]).unwrap();
        let wanted = format!("index {bad} is out of bounds for axis 0 with size 3");
        let gathered = kernel(ops::GATHER, &Params::None, &[x.clone(), idx.clone()], &u).0;
        let args = [x.clone(), idx.clone(), u.clone()];
        let added = kernel(ops::SCATTER_ADD, &Params::None, &args, &x).0;
        let memory = Storage::allocate(1 << 10).unwrap();
        let memory = Arc::new(memory);
        let put = |value: &Value, place: usize| {
            let there = Form::of(value).at(&memory, place).unwrap();
            copy_into(&there, value, &ctx()).unwrap();
        };
        put(&x, 0);
        put(&idx, 64);
        put(&u, 128);
        for (kernel, places) in [(gathered, [0, 64, 128]), (added, [64, 128, 0])] {
            let Err(Error::Index(message)) = kernel.unwrap().run_at(&memory, places.into_iter())
            else {
                panic!("no error")
            };
            assert!(message.ends_with(&wanted), "{message}");
            // Nothing was written before.
            let there = Form::of(&x).at(&memory, 0).unwrap();
            assert_eq!(there.as_slice::<f64>().unwrap(), &[1.0, 2.0, 3.0]);
        }
    }
}

#[test]
fn long_arrays_are_not() {
    let x = Value::from_slice(&[1 << 14], &vec![0.5f64; 1 << 14]).unwrap();
    let dims = SliceDim {
        start: 0,
        len: 1 << 14,
        step: 1,
    };
    let params = Params::Slice(Box::new([dims]));
    let args = [x.clone(), x.clone()];
    assert!(kernel(ops::UPDATE_ADD, &params, &args, &x).0.is_none());
}

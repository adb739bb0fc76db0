//! Sizes at which recursion, quadratic loops and leaks show, and failures that must leave nothing
//! behind.

use std::time::Instant;

use cotan::{Arg, Array, DType, Error, gradient, pullback, value_and_gradient};

/// Recorded, differentiated and dropped without recursion: on a stack of 256 KiB.
#[test]
fn a_chain_of_200_000_operations() {
    let work = || {
        let x = Array::from(1.0);
        let f = |x: &[Array]| {
            let step = Array::from(1.0 - 1e-6);
            (0..200_000).try_fold(x[0].clone(), |y, _| y.mul(&step))
        };
        let (y, g) = value_and_gradient(f, &[Arg::from(&x)]).unwrap();
        let (y, g) = (y.item().unwrap(), g[0].as_ref().unwrap().item().unwrap());
        assert!(
            (y - (-0.2f64).exp()).abs() < 1e-6 && (y - g).abs() < 1e-12,
            "{y} {g}"
        );
    };
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn a_value_that_is_used_100_000_times() {
    let x = Array::from_slice(&[2], &[1.0, 2.0]).unwrap();
    let f = |x: &[Array]| {
        let mut sum = Array::from(0.0);
        for _ in 0..100_000 {
            sum = sum.add(&x[0])?;
        }
        sum.sum(..)
    };
    let g = gradient(f, &[Arg::from(&x)]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().to_vec::<f64>().unwrap(), [1e5, 1e5]);
}

#[test]
fn many_arguments() {
    let args: Vec<Arg> = (0..20_000)
        .map(|i| Arg::from(Array::from(f64::from(i))))
        .collect();
    let f = |v: &[Array]| {
        v[1..]
            .iter()
            .try_fold(v[0].clone(), |sum, x| sum.add(&x.square()?))
    };
    let started = Instant::now();
    let g = gradient(f, &args).unwrap();
    assert_eq!(g.len(), 20_000);
    assert_eq!(g[19_999].as_ref().unwrap().item().unwrap(), 39_998.0);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// Outside a recording a long loop needs constant memory: the chain is forced now and then.
#[test]
fn a_long_loop_outside_a_recording() {
    let mut x = Array::from(0.0);
    let one = Array::from(1.0);
    for _ in 0..50_000 {
        x = x.add(&one).unwrap();
    }
    assert_eq!(x.item().unwrap(), 50_000.0);
}

#[test]
fn an_error_in_the_function_leaves_no_recording() {
    let x = Array::from(2.0);
    let mut leaked = None;
    let result = gradient(
        |v| {
            leaked = Some(v[0].square()?);
            Err(Error::Index("mine".into()))
        },
        &[Arg::from(&x)],
    );
    assert_eq!(result.unwrap_err(), Error::Index("mine".into()));
    let leaked = leaked.unwrap();
    assert!(!leaked.is_active());
    assert_eq!(leaked.item().unwrap(), 4.0);
    let g = gradient(|v| v[0].mul(&leaked), &[Arg::from(&x)]).unwrap();
    assert_eq!(
        g[0].as_ref().unwrap().item().unwrap(),
        4.0,
        "what leaked is a constant"
    );
}

#[test]
fn a_panic_in_the_function_leaves_no_recording() {
    let x = Array::from(2.0);
    let seen = std::sync::Mutex::new(None);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        gradient(
            |v| {
                *seen.lock().unwrap() = Some(v[0].clone());
                panic!("mine")
            },
            &[Arg::from(&x)],
        )
    }));
    assert!(caught.is_err());
    let leaf = seen
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .unwrap();
    assert!(!leaf.is_active());
    assert!(gradient(|v| v[0].square(), &[Arg::from(&x)]).is_ok());
}

/// Memory that cannot be had is an error, and a small computation works afterwards.
#[test]
fn an_allocation_that_fails() {
    let huge = Array::zeros(DType::F64, &[1 << 30, 1 << 20])
        .unwrap()
        .add(1.0)
        .unwrap();
    assert!(matches!(huge.evaluate().unwrap_err(), Error::Memory(_)));
    assert_eq!(Array::from(1.0).add(1.0).unwrap().item().unwrap(), 2.0);
}

#[test]
fn empty_arrays() {
    let x = Array::zeros(DType::F64, &[0, 3]).unwrap();
    let (y, g) = value_and_gradient(|x| x[0].exp()?.sum(..), &[Arg::from(&x)]).unwrap();
    assert_eq!(y.item().unwrap(), 0.0);
    assert_eq!(g[0].as_ref().unwrap().shape(), [0, 3]);
    assert!(x.max(0).is_err());
}

#[test]
fn gradients_in_eight_threads() {
    std::thread::scope(|scope| {
        for k in 1..=8u32 {
            scope.spawn(move || {
                let x = Array::from_slice(&[3], &[f64::from(k), 1.0, 2.0]).unwrap();
                for _ in 0..50 {
                    let (y, back) = pullback(|v| v[0].square(), &[Arg::from(&x)]).unwrap();
                    let cts = back.apply(&y).unwrap();
                    let ct = cts[0].as_ref().unwrap().to_vec::<f64>().unwrap();
                    assert_eq!(ct, [2.0 * f64::from(k).powi(3), 2.0, 16.0]);
                }
            });
        }
    });
}

//! Functions that a program calls back while it runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cotan::autodiff::Tracer;
use cotan::kernels::Value;
use cotan::ops;
use cotan::prim::{Host, Params};
use cotan::{
    Arg, Array, Aval, Error, Foreign, Prepared, Recording, Result, gradient, pullback,
    value_and_gradient,
};

type Function = Box<dyn Fn(&[Value]) -> Result<Vec<Value>> + Send + Sync>;

struct Callback {
    name: String,
    outputs: Vec<Aval>,
    function: Function,
    is_exact: bool,
}

impl Host for Callback {
    fn name(&self) -> &str {
        &self.name
    }

    fn outputs(&self) -> &[Aval] {
        &self.outputs
    }

    fn call(&self, x: &[Value]) -> Result<Vec<Value>> {
        (self.function)(x)
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn derivative(&self, _: &[Aval]) -> Result<Arc<dyn Host>> {
        Err(Error::NotDifferentiable(format!(
            "{}: only once",
            self.name
        )))
    }
}

/// The identity, with a function on the way back.
fn hook(
    name: &str,
    x: &Array,
    f: impl Fn(&Value) -> Result<Value> + Send + Sync + 'static,
) -> Result<Array> {
    let call: Arc<dyn Host> = Arc::new(Callback {
        name: name.into(),
        outputs: vec![x.aval().clone()],
        function: Box::new(move |x| Ok(vec![f(&x[0])?])),
        is_exact: false,
    });
    let mut tracer = Tracer::new(name, &[x])?;
    let ct = tracer.cotangents(vec![tracer.args()[0].clone()]);
    let params = Params::Host { call, output: 0 };
    let out = Array::apply(ops::HOST, params, &[ct[0].as_ref().unwrap()])?;
    Ok(tracer.reverse(&[Some(out)])?.swap_remove(0))
}

#[test]
fn a_hook_runs_once_on_the_calling_thread_in_the_order_of_the_reverse_pass() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let me = std::thread::current().id();
    let look = |name: &'static str, x: &Array| {
        let seen = Arc::clone(&seen);
        hook(name, x, move |v| {
            assert_eq!(std::thread::current().id(), me);
            seen.lock()
                .unwrap()
                .push(format!("{name} {}", v.item().unwrap().re));
            Ok(v.clone())
        })
    };
    // The large array makes the run worth the pool, before and behind the calls.
    let large = Array::zeros(cotan::DType::F64, &[1 << 21]).unwrap();
    let f = |x: &[Array]| {
        let a = look("first", &x[0])?;
        let b = look("second", &a.mul(2.0)?)?;
        let rows = large.add(&b)?.exp()?.mean(..)?;
        look("last", &rows.log()?)?.mul(&a)
    };
    let (y, g) = value_and_gradient(f, &[Arg::from(Array::from(0.5))]).unwrap();
    assert!((y.item().unwrap() - 0.5).abs() < 1e-9);
    assert!((g[0].as_ref().unwrap().item().unwrap() - 2.0).abs() < 1e-9);
    let seen = seen.lock().unwrap();
    let names: Vec<&str> = seen.iter().map(|s| s.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["last", "second", "first"]);
}

/// Only what is read is computed, and what two readers need is called once for both.
#[test]
fn a_hook_of_a_pullback_runs_when_its_cotangent_is_read() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let f = |x: &[Array]| {
        let counted = Arc::clone(&counted);
        let product = x[0].mul(&x[1])?;
        hook("count", &product, move |v| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(v.clone())
        })?
        .add(&x[2])
    };
    let args: Vec<Arg> = [2.0, 3.0, 4.0].map(|x| Arg::from(Array::from(x))).into();
    let (_, back) = pullback(f, &args).unwrap();
    for round in 1..3 {
        let cts = back.apply(&Array::from(1.0)).unwrap();
        assert_eq!(cts[2].as_ref().unwrap().item().unwrap(), 1.0);
        assert_eq!(calls.load(Ordering::Relaxed), round - 1);
        assert_eq!(cts[0].as_ref().unwrap().item().unwrap(), 3.0);
        assert_eq!(cts[1].as_ref().unwrap().item().unwrap(), 2.0);
        assert_eq!(calls.load(Ordering::Relaxed), round);
    }
    assert_eq!(back.program().host_calls(), ["count"]);
}

#[derive(Debug)]
struct Mine;

impl std::fmt::Display for Mine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("mine")
    }
}

impl std::error::Error for Mine {}

#[test]
fn errors_arrive_as_they_are_and_panics_are_errors() {
    let with = |f: fn(&Value) -> Result<Value>| {
        let f = |x: &[Array]| hook("bad", &x[0], f)?.mul(2.0);
        gradient(f, &[Arg::from(Array::from(0.5))]).unwrap_err()
    };
    let Error::Foreign(Foreign(error)) = with(|_| Err(Error::Foreign(Foreign(Arc::new(Mine)))))
    else {
        panic!("another error");
    };
    assert!(error.downcast_ref::<Mine>().is_some());
    let panicked = with(|_| panic!("oh")).to_string();
    assert!(
        panicked.contains("bad") && panicked.contains("panicked"),
        "{panicked}"
    );
    let shape = with(|_| Value::from_slice(&[2], &[1.0, 2.0])).to_string();
    assert!(shape.contains("bad") && shape.contains("f64[]"), "{shape}");
}

#[test]
fn differentiating_what_has_no_derivative_is_an_error_by_name() {
    let slope = |x: &[Array]| {
        let f = |x: &[Array]| hook("flat", &x[0], |v| Ok(v.clone()))?.square();
        Ok(gradient(f, &[Arg::from(&x[0])])?[0].clone().unwrap())
    };
    let error = gradient(slope, &[Arg::from(Array::from(0.5))]).unwrap_err();
    assert!(error.to_string().contains("flat: only once"), "{error}");
}

/// Threads inside of calls hold no worker of the pool: large runs go on elsewhere, and inside.
#[test]
fn calls_that_compute_do_not_block_the_pool() {
    let heavy = |x: f64| {
        let large = Array::zeros(cotan::DType::F64, &[1 << 20]).unwrap();
        large
            .add(x)
            .unwrap()
            .exp()
            .unwrap()
            .mean(..)
            .unwrap()
            .item()
            .unwrap()
    };
    let inside = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let inside = Arc::clone(&inside);
            std::thread::spawn(move || {
                let f = |x: &[Array]| {
                    let large = Array::zeros(cotan::DType::F64, &[1 << 20])?;
                    let inside = Arc::clone(&inside);
                    let y = hook("heavy", &x[0], move |v| {
                        inside.store(true, Ordering::Relaxed);
                        assert!(heavy(f64::from(i)) > 0.0);
                        Ok(v.clone())
                    })?;
                    large.add(&y)?.exp()?.mean(..)
                };
                gradient(f, &[Arg::from(Array::from(0.0))]).unwrap()[0]
                    .as_ref()
                    .unwrap()
                    .item()
                    .unwrap()
            })
        })
        .collect();
    for thread in threads {
        assert!((thread.join().unwrap() - 1.0).abs() < 1e-9);
    }
    assert!(inside.load(Ordering::Relaxed));
}

/// What is called is let go: nothing that is kept for later holds it.
#[test]
fn nothing_keeps_what_is_called() {
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let f = move |x: &[Array]| {
        let held = Arc::clone(&held);
        hook("held", &x[0], move |v| {
            let _ = &held;
            Ok(v.clone())
        })?
        .square()
    };
    gradient(&f, &[Arg::from(Array::from(0.5))]).unwrap();
    drop(f);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_program_calls_exactly_if_all_that_it_calls_is_exact() {
    let prepared = |exact: &[bool]| {
        let recording = Recording::new();
        let x = recording.leaf(&Array::constant(Value::scalar(2.0).unwrap()));
        let mut y = x.clone();
        for (i, &is_exact) in exact.iter().enumerate() {
            let call: Arc<dyn Host> = Arc::new(Callback {
                name: format!("call {i}"),
                outputs: vec![y.aval().clone()],
                function: Box::new(|x| Ok(x.to_vec())),
                is_exact,
            });
            y = Array::apply(ops::HOST, Params::Host { call, output: 0 }, &[&y]).unwrap();
        }
        Prepared::of(&recording, &[&y], &[x], &[false], 1, &mut || false)
            .unwrap()
            .0
    };
    let found = [&[][..], &[true], &[false], &[true, true], &[true, false]].map(|exact| {
        (
            prepared(exact).calls_back(),
            prepared(exact).calls_exactly(),
        )
    });
    assert_eq!(
        found,
        [
            (false, true),
            (true, true),
            (true, false),
            (true, true),
            (true, false)
        ]
    );
}

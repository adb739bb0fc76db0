//! Gradients of gradients.

use cotan::{Arg, Array, DType, constant};

use crate::common::{gradient, pullback};

/// The derivative of this order of a function of one number.
fn derivative(
    f: &dyn Fn(&Array) -> cotan::Result<Array>,
    order: u32,
    x: &Array,
) -> cotan::Result<Array> {
    if order == 0 {
        return f(x);
    }
    let g = gradient(|x| derivative(f, order - 1, &x[0]), &[Arg::from(x)])?;
    match &g[0] {
        Some(g) => Ok(g.clone()),
        None => Array::zeros(DType::F64, &[]),
    }
}

#[test]
fn derivatives_of_the_sine_to_order_five() {
    let x = 0.7f64;
    let wanted = [x.sin(), x.cos(), -x.sin(), -x.cos(), x.sin(), x.cos()];
    for (order, wanted) in wanted.into_iter().enumerate() {
        let found = derivative(&|x| x.sin(), order as u32, &Array::from(x)).unwrap();
        assert!(
            (found.item().unwrap() - wanted).abs() < 1e-14,
            "order {order}"
        );
    }
}

#[test]
fn twelve_nested_gradients() {
    // The twelfth derivative of x^12 is 12!.
    let power = |x: &Array| (1..12).try_fold(x.clone(), |y, _| y.mul(x));
    let found = derivative(&power, 12, &Array::from(1.0)).unwrap();
    assert_eq!(found.item().unwrap(), 479_001_600.0);
    let found = derivative(&|x| x.exp(), 12, &Array::from(0.5)).unwrap();
    assert!((found.item().unwrap() - 0.5f64.exp()).abs() < 1e-12);
}

/// x d/dy (x + y) = x, whose derivative with respect to x is 1: an inner perturbation must not be
/// taken for the outer one.
#[test]
fn perturbations_are_not_confused() {
    let outer = |x: &[Array]| {
        let inner = gradient(|y| x[0].add(&y[0]), &[Arg::from(Array::from(1.0))])?;
        x[0].mul(inner[0].as_ref().unwrap())
    };
    let g = gradient(outer, &[Arg::from(Array::from(2.0))]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().item().unwrap(), 1.0);
}

/// An inner constant may be an outer variable.
#[test]
fn an_inner_constant_is_active_outside() {
    let outer = |x: &[Array]| {
        let f = |v: &[Array]| v[0].square()?.mul(&v[1]);
        let g = gradient(f, &[Arg::from(Array::from(3.0)), constant(&x[0])])?;
        Ok(g[0].clone().unwrap())
    };
    let g = gradient(outer, &[Arg::from(Array::from(5.0))]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().item().unwrap(), 6.0);
}

/// A pullback made inside may be used inside, and what it keeps is differentiated.
#[test]
fn pullbacks_inside_gradients() {
    let outer = |x: &[Array]| {
        let (_, back) = pullback(|v| v[0].mul(&v[0])?.mul(&v[0]), &[Arg::from(&x[0])])?;
        Ok(back.apply(&x[0])?[0].clone().unwrap())
    };
    // x * 3 x^2, whose derivative is 9 x^2.
    let g = gradient(outer, &[Arg::from(Array::from(2.0))]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().item().unwrap(), 36.0);
}

/// Values that were forced on the way (for an `if`, say) do not cut the chain.
#[test]
fn forcing_inside_detaches_nothing() {
    let slope = |x: &[Array]| {
        let f = |x: &[Array]| {
            let y = x[0].square()?;
            let z = if y.item()? > 1.0 { y.mul(&x[0])? } else { y };
            z.item()?;
            Ok(z)
        };
        let g = gradient(f, &[Arg::from(&x[0])])?[0].clone().unwrap();
        g.item()?;
        Ok(g)
    };
    let g = gradient(slope, &[Arg::from(Array::from(2.0))]).unwrap();
    assert_eq!(g[0].as_ref().unwrap().item().unwrap(), 12.0);
}

/// The Hessian of a function, row by row, is symmetric and right.
#[test]
fn a_hessian() {
    let x = Array::from_slice(&[3], &[0.3, -0.4, 0.5]).unwrap();
    let f = |x: &Array| x.sin()?.mul(&x.cumsum(0)?)?.sum(..);
    let mut rows = Vec::new();
    for i in 0..3 {
        let component = |v: &[Array]| {
            let g = gradient(|v| f(&v[0]), &[Arg::from(&v[0])])?[0]
                .clone()
                .unwrap();
            g.slice(std::slice::from_ref(&(i..i + 1)))?.sum(..)
        };
        let row = gradient(component, &[Arg::from(&x)]).unwrap()[0]
            .clone()
            .unwrap();
        rows.push(row.to_vec::<f64>().unwrap());
    }
    let x = x.to_vec::<f64>().unwrap();
    for (i, j) in [(0, 1), (0, 2), (1, 2)] {
        assert!((rows[i][j] - rows[j][i]).abs() < 1e-15);
    }
    // d2/dx0 dx1 of sin(x1) x0 is cos(x1).
    assert!((rows[0][1] - x[1].cos()).abs() < 1e-15);
}

#[test]
fn nested_in_threads() {
    std::thread::scope(|scope| {
        for k in 0..8 {
            scope.spawn(move || {
                for i in 0..20 {
                    let x = f64::from(k) + f64::from(i) / 20.0;
                    let found = derivative(&|x| x.sin(), 3, &Array::from(x)).unwrap();
                    assert!((found.item().unwrap() + x.cos()).abs() < 1e-13);
                }
            });
        }
    });
}

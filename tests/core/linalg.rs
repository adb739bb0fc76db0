//! Decompositions and systems of equations as methods of arrays.

use cotan::{Arg, Array, Error};

use crate::common::gradient;
use ndarray::array;

fn matrix() -> Array {
    Array::from_ndarray(&array![[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]).unwrap()
}

fn near(x: &Array, y: &Array) -> bool {
    let (x, y) = (x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap());
    x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-12)
}

#[test]
fn factors_give_the_matrix_back() {
    let a = matrix();
    let l = a.cholesky().unwrap();
    assert!(near(&l.matmul(&l.t().unwrap()).unwrap(), &a));
    let (w, v) = a.eigh().unwrap();
    let scaled = v.mul(&w).unwrap();
    assert!(near(&scaled.matmul(&v.t().unwrap()).unwrap(), &a));
    let (u, s, vh) = a.svd().unwrap();
    assert!(near(&u.mul(&s).unwrap().matmul(&vh).unwrap(), &a));
    assert!(near(
        &a.solve(&a).unwrap(),
        &Array::from_ndarray(&ndarray::Array2::<f64>::eye(3)).unwrap()
    ));
}

#[test]
fn the_gradient_of_a_determinant_is_made_of_cofactors() {
    let singular = Array::from_ndarray(&array![[1.0, 2.0], [2.0, 4.0]]).unwrap();
    let g = gradient(|x| x[0].det(), &[Arg::from(&singular)]).unwrap();
    let expected = Array::from_ndarray(&array![[4.0, -2.0], [-2.0, 1.0]]).unwrap();
    assert!(near(g[0].as_ref().unwrap(), &expected));
}

#[test]
fn what_fails_on_values_fails_at_once() {
    let singular = Array::from_ndarray(&array![[1.0, 1.0], [0.0, 0.0]]).unwrap();
    assert!(matches!(singular.solve(&singular), Err(Error::LinAlg(_))));
    assert!(matches!(singular.cholesky(), Err(Error::LinAlg(_))));
    let wide = Array::from_ndarray(&array![[1.0, 1.0]]).unwrap();
    assert!(matches!(wide.cholesky(), Err(Error::LinAlg(_))));
    assert!(matches!(matrix().solve(&wide), Err(Error::Shape(_))));
}

#[test]
fn second_derivatives() {
    // The sum of squares of the solution of a system, along the first element: by differences.
    let f = |x: &[Array]| {
        x[0].solve(&x[0].matmul(&x[0])?.square()?)?
            .square()?
            .sum(..)
    };
    let slope = |x: &[Array]| {
        let g = gradient(f, &[Arg::from(&x[0])])?;
        g[0].as_ref().unwrap().slice(&[0..1, 1..2])?.sum(..)
    };
    let a = matrix();
    let second = gradient(slope, &[Arg::from(&a)]).unwrap();
    let second = second[0].as_ref().unwrap().to_vec::<f64>().unwrap();
    let moved = |h: f64| {
        let mut elements = a.to_vec::<f64>().unwrap();
        elements[2] += h;
        let x = Array::from_slice(&[3, 3], &elements).unwrap();
        slope(&[x]).unwrap().item().unwrap()
    };
    let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    assert!((second[2] - expected).abs() < 1e-4 * expected.abs().max(1.0));
}

#[test]
fn a_traced_program_decomposes_the_matrices_of_each_call() {
    let rhs = matrix();
    let solved = |x: &[Array]| x[0].solve(&rhs)?.sum(..)?.add(&x[0].cholesky()?.sum(..)?);
    let singular = Array::zeros(cotan::DType::F64, &[3, 3]).unwrap();
    // What fails on values fails when it runs, so it can be recorded with any.
    let (program, constants) = cotan::trace(solved, &[&singular]).unwrap();
    let run = |a: &Array| {
        let inputs = [std::slice::from_ref(a), &constants[..]].concat();
        Array::call(&program.clone().into(), &inputs).remove(0)
    };
    let other = matrix().mul(&Array::from(2.0)).unwrap();
    for a in [matrix(), other] {
        assert!(near(&run(&a), &solved(std::slice::from_ref(&a)).unwrap()));
    }
    assert!(matches!(run(&singular).evaluate(), Err(Error::LinAlg(_))));
}

//! Detection: which equation made what is not finite, and that it ends with its block.

use cotan::inspect::{NonFinite, Origin, Reached, begin_detection, end_detection};
use cotan::kernels::Look;
use cotan::{Arg, Array, Error, gradient, value_and_gradient};

const BOTH: Option<Look> = Some(Look {
    nan: true,
    inf: true,
});

fn found(error: &Error) -> &NonFinite {
    let Error::Foreign(foreign) = error else {
        panic!("{error}");
    };
    foreign.0.downcast_ref::<NonFinite>().expect("a NonFinite")
}

#[test]
fn the_equation_and_the_argument_to_blame_are_named() {
    let x = Array::from_slice(&[2], &[0.0, 1.0]).unwrap();
    let y = Array::from_slice(&[2], &[0.0, 2.0]).unwrap();
    let f = |v: &[Array]| v[0].div(&v[1])?.sum(..);
    let args = [Arg::from(&x), Arg::from(&y)];
    let id = begin_detection(BOTH);
    let error = value_and_gradient(f, &args).unwrap_err();
    end_detection(id);
    let error = found(&error);
    assert!(error.is_nan && error.reached == Reached::Value(0));
    let Origin::Equation {
        prim,
        args: ranges,
        argument,
        value,
        ..
    } = &error.origin
    else {
        panic!("{error}");
    };
    assert_eq!((*prim, *argument), ("div", Some(1)));
    assert_eq!(value.index.as_deref(), Some(&[0][..]));
    assert_eq!(ranges[1].bounds, Some((0.0, 2.0)));
    assert!(value_and_gradient(f, &args).is_ok(), "the block has ended");
}

#[test]
fn blocks_end_in_any_order() {
    let x = Array::from_slice(&[1], &[0.0]).unwrap();
    let run = || gradient(|v| v[0].sqrt()?.sum(..), &[Arg::from(&x)]);
    let (outer, inner) = (begin_detection(BOTH), begin_detection(None));
    let error = run().unwrap_err();
    assert_eq!(found(&error).reached, Reached::Gradient(0));
    end_detection(outer);
    assert!(run().is_ok());
    end_detection(inner);
    end_detection(inner);
    let off = begin_detection(Some(Look {
        nan: true,
        inf: false,
    }));
    assert!(run().is_ok(), "1 / 0 is no NaN");
    end_detection(off);
}

#[test]
fn an_input_is_named_by_its_identity() {
    let x = Array::from_slice(&[2], &[1.0, f64::NAN]).unwrap();
    let id = begin_detection(BOTH);
    let error = gradient(|v| v[0].mul(&v[0])?.sum(..), &[Arg::from(&x)]).unwrap_err();
    end_detection(id);
    let Origin::Input { id, value, .. } = &found(&error).origin else {
        panic!("{error}");
    };
    assert_eq!((*id, value.nans), (x.id(), 1));
}

//! What a Rust user sees: `ndarray` in and out, dtypes, errors.

use cotan::{Array, DType, kernels::Element};
use half::{bf16, f16};
use ndarray::{Array2, ArrayD, array, s};
use num_complex::Complex;

fn round_trip<T: Element + PartialEq + std::fmt::Debug + Default>(elements: [T; 4]) {
    let a = Array2::from_shape_vec((2, 2), elements.to_vec()).unwrap();
    let x = Array::from_ndarray(&a).unwrap();
    assert_eq!(x.dtype(), T::DTYPE);
    assert_eq!(x.to_ndarray::<T>().unwrap(), a.clone().into_dyn());
    let t = Array::from_ndarray(&a.t()).unwrap();
    assert_eq!(t.to_ndarray::<T>().unwrap(), a.t().to_owned().into_dyn());
    assert_eq!(
        x.t().unwrap().to_ndarray::<T>().unwrap(),
        a.t().to_owned().into_dyn()
    );
}

#[test]
fn every_dtype_goes_in_and_out() {
    round_trip([true, false, false, true]);
    round_trip([1u8, 2, 3, 255]);
    round_trip([1i32, -2, 3, i32::MIN]);
    round_trip([1i64, -2, 3, i64::MAX]);
    round_trip([1.0f32, -2.5, 0.0, f32::INFINITY]);
    round_trip([1.0f64, -2.5, 0.0, f64::MIN_POSITIVE]);
    round_trip([1.0, -2.5, 0.0, 65504.0].map(f16::from_f64));
    round_trip([1.0, -2.5, 0.0, 1e38].map(bf16::from_f64));
    round_trip([1.0f32, 2.0, 3.0, 4.0].map(|x| Complex::new(x, -x)));
    round_trip([1.0f64, 2.0, 3.0, 4.0].map(|x| Complex::new(x, -x)));
}

#[test]
fn layouts_of_views() {
    let a = Array2::from_shape_fn((4, 5), |(i, j)| (10 * i + j) as f64);
    let view = a.slice(s![..;-2, 1..4]);
    let x = Array::from_ndarray(&view).unwrap();
    assert_eq!(x.to_ndarray::<f64>().unwrap(), view.to_owned().into_dyn());
    let empty: ArrayD<f64> = ArrayD::zeros(vec![0, 3]);
    assert_eq!(
        Array::from_ndarray(&empty)
            .unwrap()
            .to_ndarray::<f64>()
            .unwrap(),
        empty
    );
    let scalar = ndarray::arr0(2.0);
    assert_eq!(Array::from_ndarray(&scalar).unwrap().item().unwrap(), 2.0);
}

#[test]
fn dtypes_promote_as_in_numpy() {
    let of = |dtype| Array::zeros(dtype, &[2]).unwrap();
    let (i, f, d) = (of(DType::I64), of(DType::F32), of(DType::F64));
    assert_eq!(f.add(&d).unwrap().dtype(), DType::F64);
    assert_eq!(i.add(&f).unwrap().dtype(), DType::F64);
    assert_eq!(f.mul(2.0).unwrap().dtype(), DType::F32, "numbers are weak");
    assert_eq!(f.mul(2).unwrap().dtype(), DType::F32);
    assert_eq!(i.mul(2).unwrap().dtype(), DType::I64);
    assert_eq!(i.mul(2.0).unwrap().dtype(), DType::F64);
    assert_eq!(f.mul(Complex::new(0.0, 1.0)).unwrap().dtype(), DType::C64);
    assert_eq!(i.sin().unwrap().dtype(), DType::F64);
    assert_eq!(i.div(&i).unwrap().dtype(), DType::F64);
    assert_eq!(f.lt(0.0).unwrap().dtype(), DType::Bool);
    assert_eq!(of(DType::Bool).sum(..).unwrap().dtype(), DType::I64);
    assert_eq!(of(DType::U8).mean(..).unwrap().dtype(), DType::F64);
    assert_eq!(i.r#where(&f, 0.0).unwrap().dtype(), DType::F32);
}

#[test]
fn products_by_numpys_rules() {
    let ones = |shape: &[usize]| Array::full(DType::F64, shape, 1.0).unwrap();
    let shape = |a: &[usize], b: &[usize]| ones(a).matmul(&ones(b)).unwrap().shape().to_vec();
    assert_eq!(shape(&[3], &[3]), [0; 0]);
    assert_eq!(shape(&[2, 3], &[3]), [2]);
    assert_eq!(shape(&[3], &[3, 4]), [4]);
    assert_eq!(shape(&[3], &[5, 3, 4]), [5, 4]);
    assert_eq!(shape(&[5, 2, 3], &[3]), [5, 2]);
    assert_eq!(shape(&[5, 1, 2, 3], &[7, 3, 4]), [5, 7, 2, 4]);
    assert_eq!(ones(&[3]).matmul(&ones(&[3])).unwrap().item().unwrap(), 3.0);
}

#[test]
fn methods_compute() -> cotan::Result<()> {
    let x = Array::from_ndarray(&array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
    let v = |a: cotan::Result<Array>| a.unwrap().to_vec::<f64>().unwrap();
    assert_eq!(v(x.sum(..)), [21.0]);
    assert_eq!(v(x.sum(0)), [5.0, 7.0, 9.0]);
    assert_eq!(v(x.mean(-1)), [2.0, 5.0]);
    assert_eq!(v(x.max([0, 1])), [6.0]);
    assert_eq!(v(x.cumsum(1)), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    assert_eq!(v(x.flip(1)?.slice(&[0..1, 0..3])), [3.0, 2.0, 1.0]);
    assert_eq!(
        v(Array::concatenate(&[&x, &x], 0)?.sum(0)),
        [10.0, 14.0, 18.0]
    );
    assert_eq!(x.argmax(1).unwrap().to_vec::<i64>().unwrap(), [2, 2]);
    let index = Array::from_slice(&[1], &[-1i64]).unwrap();
    assert_eq!(v(x.gather(&index)), [4.0, 5.0, 6.0]);
    Ok(())
}

#[test]
fn errors_name_what_does_not_fit() {
    let a = Array::zeros(DType::F64, &[2, 3]).unwrap();
    let b = Array::zeros(DType::F64, &[4]).unwrap();
    let message = |r: cotan::Result<Array>| r.unwrap_err().to_string();
    let add = message(a.add(&b));
    assert!(
        add.contains("add") && add.contains("(2, 3)") && add.contains("(4,)"),
        "{add}"
    );
    let matmul = message(a.matmul(&a));
    assert!(
        matmul.contains("matmul") && matmul.contains("(2, 3)"),
        "{matmul}"
    );
    let axis = message(a.sum(2));
    assert!(axis.contains("sum") && axis.contains("axis 2"), "{axis}");
    let reshape = message(a.reshape(&[4]));
    assert!(
        reshape.contains("(2, 3)") && reshape.contains("(4,)"),
        "{reshape}"
    );
    let index = message(a.gather(&Array::from_slice(&[1], &[2i64]).unwrap()));
    assert!(
        index.contains("index 2") && index.contains("(2, 3)"),
        "{index}"
    );
    let dtype = a.to_vec::<f32>().unwrap_err().to_string();
    assert!(
        dtype.contains("float64") && dtype.contains("float32") && dtype.contains("cast()"),
        "{dtype}"
    );
    let shape = message(Array::from_slice(&[2], &[1.0]));
    assert!(
        shape.contains("(2,)") && shape.contains("1 given"),
        "{shape}"
    );
    let huge = message(Array::zeros(DType::F64, &[usize::MAX, 2]));
    assert!(huge.contains("too large"), "{huge}");
    let scalar = cotan::gradient(|x| x[0].neg(), &[cotan::Arg::from(&a)])
        .unwrap_err()
        .to_string();
    assert!(
        scalar.contains("f64[2,3]") && scalar.contains("sum(..)"),
        "{scalar}"
    );
}

#[test]
fn a_region_of_windows_is_gathered_alone() {
    use cotan::{aval::SliceDim, kernels::Value, ops, prim::Params};
    let x = Array::from_slice(&[6], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let places = Value::from_slice(&[6], &[0i64, 1, 2, 3, 4, 5]).unwrap();
    assert!(places.windows(&[5, 3], &[1, 1]).is_none());
    let places = Array::constant(places.windows(&[4, 3], &[1, 1]).unwrap());
    let windows = Array::apply(ops::GATHER, Params::None, &[&x, &places]).unwrap();
    let dim = |start, len, step| SliceDim { start, len, step };
    let every_other = windows.slice_steps(&[dim(0, 2, 2), dim(0, 3, 1)]).unwrap();
    assert_eq!(every_other.primitive(), Some(ops::GATHER));
    assert_eq!(
        every_other.to_vec::<f64>().unwrap(),
        [0.0, 1.0, 2.0, 2.0, 3.0, 4.0]
    );
    // Windows that have been computed, and rows at other places, are a view.
    let rows = x.gather(&Array::from_slice(&[4], &[0i64, 0, 1, 1]).unwrap());
    let some = rows.unwrap().slice_steps(&[dim(1, 2, 1)]).unwrap();
    assert_eq!(some.primitive(), Some(ops::SLICE));
    windows.to_vec::<f64>().unwrap();
    let known = windows.slice_steps(&[dim(3, 1, 1), dim(2, 1, 1)]).unwrap();
    assert_eq!(known.primitive(), Some(ops::SLICE));
    assert_eq!(known.to_vec::<f64>().unwrap(), [5.0]);
}

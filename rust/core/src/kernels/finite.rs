//! Looking for NaN and infinity.

use num_complex::Complex;

use super::{Ctx, Value, copy};
use crate::aval::DType;
use crate::error::Result;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether NaN is.
    pub nan: bool,
    /// Whether infinity is.
    pub inf: bool,
}

impl Look {
    /// Whether this is found in a number.
    pub fn is_at(self, z: Complex<f64>) -> bool {
        self.nan && z.is_nan() || self.inf && (z.re.is_infinite() || z.im.is_infinite())
    }
}

/// The first element, in row-major order, at which there is what is looked for.
pub fn first_found(value: &Value, look: Look) -> Result<Option<usize>> {
    if !value.dtype().is_inexact() || may_be_finite(value) == Some(true) {
        return Ok(None);
    }
    let value = contiguous(value)?;
    if may_be_finite(&value) == Some(true) {
        return Ok(None);
    }
    let mut found = None;
    for_each(&value, |at, z| {
        if found.is_none() && look.is_at(z) {
            found = Some(at);
        }
    });
    Ok(found)
}

/// The same elements in row-major order.
pub fn contiguous(value: &Value) -> Result<Value> {
    if value.is_contiguous() {
        return Ok(value.clone());
    }
    let cancel = std::sync::atomic::AtomicBool::new(false);
    copy(value, &Ctx::new(&cancel, 1))
}

/// Every element of a contiguous value with its position, as a number.
pub fn for_each(value: &Value, mut see: impl FnMut(usize, Complex<f64>)) {
    macro_rules! each {
        ($ty:ty, $to:expr) => {
            for (i, &x) in value.as_slice::<$ty>().unwrap_or(&[]).iter().enumerate() {
                see(i, $to(x));
            }
        };
    }
    let real = |x: f64| Complex::new(x, 0.0);
    match value.dtype() {
        DType::Bool => each!(bool, |x| real(f64::from(u8::from(x)))),
        DType::I8 => each!(i8, |x| real(f64::from(x))),
        DType::U8 => each!(u8, |x| real(f64::from(x))),
        DType::I16 => each!(i16, |x| real(f64::from(x))),
        DType::U16 => each!(u16, |x| real(f64::from(x))),
        DType::I32 => each!(i32, |x| real(f64::from(x))),
        DType::U32 => each!(u32, |x| real(f64::from(x))),
        DType::I64 => each!(i64, |x| real(x as f64)),
        DType::U64 => each!(u64, |x| real(x as f64)),
        DType::F16 => each!(half::f16, |x: half::f16| real(x.to_f64())),
        DType::Bf16 => each!(half::bf16, |x: half::bf16| real(x.to_f64())),
        DType::F32 => each!(f32, |x| real(f64::from(x))),
        DType::F64 => each!(f64, real),
        DType::C64 => each!(Complex<f32>, |z: Complex<f32>| Complex::new(
            f64::from(z.re),
            f64::from(z.im)
        )),
        DType::C128 => each!(Complex<f64>, |z| z),
    }
}

/// Whether all elements are finite; `None` when that cannot be seen at once.
fn may_be_finite(value: &Value) -> Option<bool> {
    // Zero times a finite number is zero, times any other it is NaN, which stays: no branch, so the
    // loop runs as fast as memory.
    macro_rules! all {
        ($ty:ty) => {{
            const LANES: usize = 16;
            let slice = value.as_slice::<$ty>()?;
            let mut sums = [0.0; LANES];
            let chunks = slice.chunks_exact(LANES);
            let rest = chunks.remainder();
            for chunk in chunks {
                for (sum, x) in sums.iter_mut().zip(chunk) {
                    *sum += x * 0.0;
                }
            }
            for (sum, x) in sums.iter_mut().zip(rest) {
                *sum += x * 0.0;
            }
            Some(sums.iter().all(|x| *x == 0.0))
        }};
    }
    match value.dtype() {
        DType::F32 => all!(f32),
        DType::F64 => all!(f64),
        _ => {
            if !value.is_contiguous() {
                return None;
            }
            let mut finite = true;
            for_each(value, |_, z| finite &= z.is_finite());
            Some(finite)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aval::{Shape, Strides};

    #[test]
    fn the_first_one_is_found() {
        let both = Look {
            nan: true,
            inf: true,
        };
        let nan = Look {
            nan: true,
            inf: false,
        };
        for at in [0, 15, 16, 36] {
            let mut x = vec![1.0f64; 37];
            x[at] = f64::INFINITY;
            let value = Value::from_slice(&[37], &x).unwrap();
            assert_eq!(first_found(&value, both).unwrap(), Some(at));
            assert_eq!(first_found(&value, nan).unwrap(), None);
            x[36] = f64::NAN;
            let value = Value::from_slice(&[37], &x).unwrap();
            assert_eq!(first_found(&value, nan).unwrap(), Some(36));
        }
        let x = [1.0f32, 2.0, f32::NAN, 4.0, 5.0, 6.0];
        let value = Value::from_slice(&[2, 3], &x).unwrap();
        // SAFETY: the transposed layout reaches the same six elements.
        let turned =
            unsafe { value.view(Shape::from_slice(&[3, 2]), Strides::from_slice(&[1, 3]), 0) };
        assert_eq!(first_found(&turned, both).unwrap(), Some(4));
        let z = Value::from_slice(&[2], &[Complex::new(0.0, 1.0), Complex::new(0.0, f64::NAN)]);
        assert_eq!(first_found(&z.unwrap(), nan).unwrap(), Some(1));
        assert_eq!(
            first_found(&Value::scalar(3i64).unwrap(), both).unwrap(),
            None
        );
    }
}

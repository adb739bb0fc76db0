//! Arrays from `ndarray` and back, and numbers as arrays.

use ndarray::{ArrayD, ArrayRef, Dimension, IxDyn};

use super::{Array, Number};
use crate::aval::{DType, tuple};
use crate::error::{Error, Result};
use crate::kernels::{self, Ctx, Element, Value};

impl Array {
    /// A constant with a copy of these elements: of an owned array, or of a view of any layout.
    ///
    /// ```
    /// use cotan::Array;
    /// use ndarray::array;
    ///
    /// let a = array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let x = Array::from_ndarray(&a)?;
    /// let t = Array::from_ndarray(&a.t())?;
    /// assert_eq!(t.to_ndarray::<f32>()?, a.t().into_dyn());
    /// assert_eq!(x.shape(), [2, 2]);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn from_ndarray<T: Element, D: Dimension>(array: &ArrayRef<T, D>) -> Result<Array> {
        Array::from_elements(array.shape(), |shape| match array.as_slice() {
            Some(elements) => Value::from_slice(shape, elements),
            None => Value::from_slice(shape, &array.iter().copied().collect::<Vec<T>>()),
        })
    }

    /// A constant of this shape with a copy of these elements, in row-major order.
    ///
    /// ```
    /// let x = cotan::Array::from_slice(&[2, 2], &[1i64, 2, 3, 4])?;
    /// assert_eq!(x.to_vec::<i64>()?, [1, 2, 3, 4]);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn from_slice<T: Element>(shape: &[usize], elements: &[T]) -> Result<Array> {
        let size = crate::aval::checked_size("from_slice", shape)?;
        if size != elements.len() {
            return Err(Error::Shape(format!(
                "from_slice: shape {} needs {size} elements, {} given",
                tuple(shape),
                elements.len()
            )));
        }
        Array::from_elements(shape, |shape| Value::from_slice(shape, elements))
    }

    fn from_elements(
        shape: &[usize],
        value: impl FnOnce(&[usize]) -> Result<Value>,
    ) -> Result<Array> {
        crate::aval::checked_size("array", shape)?;
        Ok(Array::constant(value(shape)?))
    }

    /// Its elements as an `ndarray`, computed if need be. `T` must be the type of its dtype.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let elements = self.to_vec::<T>()?;
        ArrayD::from_shape_vec(IxDyn(self.shape()), elements)
            .map_err(|e| Error::Shape(format!("to_ndarray: shape {}: {e}", tuple(self.shape()))))
    }

    /// Its elements in row-major order, computed if need be. `T` must be the type of its dtype.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype() {
            return Err(Error::DType(format!(
                "to_vec: the elements are {}, not {}; cast() the array first",
                self.dtype().numpy_name(),
                T::DTYPE.numpy_name()
            )));
        }
        let value = self.evaluate()?;
        if let Some(elements) = value.as_slice::<T>() {
            return copied(elements);
        }
        let cancel = std::sync::atomic::AtomicBool::new(false);
        let value = kernels::copy(value, &Ctx::new(&cancel, 1))?;
        let elements = value.as_slice::<T>();
        copied(elements.ok_or_else(|| Error::Program("to_vec: a copy has gaps".into()))?)
    }

    /// Its only element as a float, computed if need be.
    ///
    /// ```
    /// let x = cotan::Array::from(2.0);
    /// assert_eq!(x.exp()?.item()?, 2.0f64.exp());
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn item(&self) -> Result<f64> {
        if self.aval().size() != 1 {
            let message = format!("item: shape {} is not one element", tuple(self.shape()));
            return Err(Error::Shape(message));
        }
        if self.dtype().is_complex() {
            let message = "item: a complex number is no float; take real() or imag() first";
            return Err(Error::DType(message.into()));
        }
        Ok(self.evaluate()?.item().map_or(f64::NAN, |z| z.re))
    }

    /// Computes its value, if that has not been done yet.
    pub fn evaluate(&self) -> Result<&Value> {
        self.force(&mut || false)
    }

    /// Zeros.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Array> {
        Array::full(dtype, shape, 0.0)
    }

    /// One number everywhere.
    pub fn full(dtype: DType, shape: &[usize], number: impl Into<Number>) -> Result<Array> {
        crate::aval::checked_size("full", shape)?;
        Array::number(dtype, number.into()).broadcast_to(shape)
    }
}

/// Elements in a list of their own.
fn copied<T: Element>(elements: &[T]) -> Result<Vec<T>> {
    let mut list = kernels::empty_list(elements.len())?;
    list.extend_from_slice(elements);
    Ok(list)
}

macro_rules! numbers {
    ($($ty:ty => $kind:ident($as:ty) $dtype:ident),*) => { $(
        impl From<$ty> for Number {
            fn from(x: $ty) -> Number {
                Number::$kind(<$as>::from(x))
            }
        }
        impl From<$ty> for Array {
            /// A zero-dimensional constant.
            fn from(x: $ty) -> Array {
                Array::number(DType::$dtype, x.into())
            }
        }
    )* };
}
numbers!(
    bool => Int(i64) Bool, i8 => Int(i64) I8, u8 => Int(i64) U8, i16 => Int(i64) I16, u16 => Int(i64) U16,
    i32 => Int(i64) I32, u32 => Int(i64) U32, i64 => Int(i64) I64,
    f32 => Float(f64) F32, f64 => Float(f64) F64
);

impl From<num_complex::Complex<f64>> for Number {
    fn from(z: num_complex::Complex<f64>) -> Number {
        Number::Complex(z)
    }
}

impl From<num_complex::Complex<f64>> for Array {
    /// A zero-dimensional constant.
    fn from(z: num_complex::Complex<f64>) -> Array {
        Array::number(DType::C128, Number::Complex(z))
    }
}

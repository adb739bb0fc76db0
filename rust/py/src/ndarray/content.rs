//! Remembers what an ndarray that anybody can write to held, and says whether it still does: small arrays as a copy,
//! large ones as a fingerprint, which takes a 256th of their memory and is compared in one read.

use cotan::aval::{Aval, DType};
use cotan::kernels::Value;
use cotan::sched::{Fingerprint, WIDE_COPY};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::ndarray::dtype::dtype_of;
use crate::ndarray::memory::{Borrow, dense_bytes, from_ndarray, kept, same_elements};
use crate::runtime::error::enter;

/// The elements that an ndarray had.
pub enum Content {
    /// A copy of them.
    Copy(Value),
    /// What tells them from others, in the order in which they lie in memory.
    Fingerprint {
        aval: Aval,
        is_row_major: bool,
        fingerprint: Fingerprint,
    },
}

/// The dtype and shape of an ndarray that is large enough for a fingerprint, and lies in memory without gaps.
fn large(array: &Bound<'_, PyUntypedArray>) -> Option<Aval> {
    let descr = array.dtype();
    if array.len() * descr.itemsize() < WIDE_COPY || !array.is_contiguous() {
        return None;
    }
    // Any byte but 0 is true.
    let dtype = dtype_of(&descr).ok().filter(|&d| d != DType::Bool)?;
    (descr.is_native_byteorder() != Some(false)).then(|| Aval {
        dtype,
        shape: array.shape().into(),
    })
}

impl Content {
    /// Whether an ndarray has a fingerprint, in row-major order.
    pub fn is_large(array: &Bound<'_, PyUntypedArray>) -> bool {
        large(array).is_some() && array.is_c_contiguous()
    }

    /// What an ndarray holds now.
    pub fn of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Content> {
        let py = array.py();
        let Some((aval, bytes)) = large(array).zip(dense_bytes(array)) else {
            let value = kept(py, &from_ndarray(array, Borrow::Copy)?)?;
            return Ok(Content::Copy(value));
        };
        Ok(Content::Fingerprint {
            aval,
            is_row_major: array.is_c_contiguous(),
            fingerprint: enter(py, |_| Ok(Fingerprint::of(bytes)))?,
        })
    }

    /// What an ndarray held when this was read from it.
    pub fn read(array: &Bound<'_, PyUntypedArray>, value: &Value) -> PyResult<Content> {
        if large(array).as_ref() != Some(value.aval()) || !array.is_c_contiguous() {
            return Ok(Content::Copy(value.clone()));
        }
        let Some(bytes) = value.stored().filter(|_| value.is_contiguous()) else {
            return Ok(Content::Copy(value.clone()));
        };
        Ok(Content::Fingerprint {
            aval: value.aval().clone(),
            is_row_major: true,
            fingerprint: enter(array.py(), |_| Ok(Fingerprint::of(bytes)))?,
        })
    }

    /// Whether an ndarray holds the same.
    pub fn is_in(&self, array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
        match self {
            Content::Copy(value) => same_elements(array, value),
            Content::Fingerprint {
                aval,
                is_row_major,
                fingerprint,
            } => {
                if large(array).as_ref() != Some(aval) || array.is_c_contiguous() != *is_row_major {
                    return Ok(false);
                }
                let Some(bytes) = dense_bytes(array) else {
                    return Ok(false);
                };
                enter(array.py(), |_| Ok(fingerprint.is_of(bytes)))
            }
        }
    }

    /// Whether it is a fingerprint of an array in row-major order, of the dtype and shape of a value.
    pub fn is_like(&self, value: &Value) -> bool {
        matches!(self, Content::Fingerprint { aval, is_row_major: true, .. } if aval == value.aval())
    }

    pub fn shape(&self) -> &[usize] {
        match self {
            Content::Copy(value) => value.shape(),
            Content::Fingerprint { aval, .. } => &aval.shape,
        }
    }
}

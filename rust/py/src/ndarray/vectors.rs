//! Reads and writes short vectors of float64 where they lie, with nothing around it: solvers do that thousands of times.
#![allow(unsafe_code)]

use cotan::DType;
use numpy::npyffi;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use smallvec::SmallVec;

use crate::ndarray::dtype::descr;

/// The numbers of a vector.
pub type Row = SmallVec<[f64; 16]>;

/// The numbers of a vector of float64; nothing for anything else.
pub fn row(object: &Bound<'_, PyAny>) -> Option<Row> {
    let array = vector(object)?;
    let (count, step) = (array.len(), array.strides()[0]);
    // SAFETY: an ndarray's header is valid while we hold a reference to it, and its elements, of this dtype, lie `step`
    // bytes apart from there. No other code runs meanwhile.
    unsafe {
        let data = (*array.as_array_ptr()).fields.data.cast::<u8>();
        let at = |i: usize| data.offset(step * i.cast_signed()).cast::<[u8; 8]>();
        Some(
            (0..count)
                .map(|i| f64::from_ne_bytes(at(i).read()))
                .collect(),
        )
    }
}

/// Writes numbers to a contiguous array of float64 from this position on; false where they do not fit.
pub fn write(array: &Bound<'_, PyUntypedArray>, from: usize, numbers: &[f64]) -> bool {
    let fits = array.is_c_contiguous() && from + numbers.len() <= array.len();
    if !fits || !is_float64(array) {
        return false;
    }
    // SAFETY: as above; there is room for these elements, and NumPy lets them be written to.
    unsafe {
        let fields = &(*array.as_array_ptr()).fields;
        if fields.flags & npyffi::NPY_ARRAY_WRITEABLE == 0 {
            return false;
        }
        let data = fields.data.cast::<u8>().add(from * size_of::<f64>());
        let bytes = size_of_val(numbers);
        std::ptr::copy_nonoverlapping(numbers.as_ptr().cast::<u8>(), data, bytes);
    }
    true
}

fn vector<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyUntypedArray>> {
    let array = object.cast::<PyUntypedArray>().ok()?;
    (array.ndim() == 1 && is_float64(array)).then_some(array)
}

/// Whether an array has NumPy's own float64 as its dtype, not another one that equals it.
fn is_float64(array: &Bound<'_, PyUntypedArray>) -> bool {
    let Ok(float64) = descr(array.py(), DType::F64) else {
        return false;
    };
    // SAFETY: an ndarray's header is valid while we hold a reference to it.
    unsafe { (*array.as_array_ptr()).fields.descr.cast() == float64.as_ptr() }
}

//! Makes an ndarray that shows elements of another one's memory, by strides.
#![allow(unsafe_code)]

use cotan::DType;
use numpy::npyffi::{self, PY_ARRAY_API, npy_intp};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::ndarray::export::on_memory;

/// An ndarray of this shape whose elements are in the memory of another one, which is contiguous and of the same dtype. The
/// strides and the position of the first element count elements.
///
/// Raises `ValueError` for elements beyond that memory.
pub fn strided_view<'py>(
    memory: &Bound<'py, PyUntypedArray>,
    dtype: DType,
    shape: &[usize],
    strides: &[isize],
    start: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let py = memory.py();
    let (mut low, mut high) = (start.cast_signed(), start.cast_signed());
    for (&n, &step) in shape.iter().zip(strides) {
        let reach = step * n.saturating_sub(1).cast_signed();
        low += reach.min(0);
        high += reach.max(0);
    }
    let is_empty = shape.contains(&0);
    let is_inside = low >= 0 && high < memory.len().cast_signed();
    if !memory.is_c_contiguous() || !(is_empty || is_inside) {
        return Err(PyValueError::new_err(
            "a view reaches beyond the memory of its base",
        ));
    }
    let size = dtype.size();
    let dims: Vec<npy_intp> = shape.iter().map(|&n| n as npy_intp).collect();
    let steps: Vec<npy_intp> = (strides.iter())
        .map(|&step| step as npy_intp * size as npy_intp)
        .collect();
    let offset = if is_empty { 0 } else { start * size };
    // SAFETY: all elements lie in the memory of an ndarray of this dtype, which the new one keeps alive as its base.
    unsafe {
        let data = (*memory.as_array_ptr()).fields.data.cast::<u8>();
        let (owner, data) = (memory.clone().into_any(), data.add(offset));
        let array = on_memory(
            owner,
            dtype,
            dims,
            Some(steps),
            data,
            npyffi::NPY_ARRAY_WRITEABLE,
        )?;
        // NumPy is told whether they are contiguous after the base is.
        PY_ARRAY_API.PyArray_UpdateFlags(
            py,
            array.as_ptr().cast(),
            npyffi::NPY_ARRAY_C_CONTIGUOUS | npyffi::NPY_ARRAY_F_CONTIGUOUS,
        );
        Ok(array)
    }
}

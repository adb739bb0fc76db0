//! Hands a value of the core to NumPy: as a new ndarray, as read-only bytes, or as a scalar. All `unsafe` code for that
//! is here.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cotan::aval::DType;
use cotan::kernels::{self, Ctx, Storage, Value};
use cotan::sched;
use numpy::npyffi::{self, PY_ARRAY_API, npy_intp};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::ndarray::dtype::descr;
use crate::runtime::error::{OrRaise, enter};

/// Arrays of fewer bytes than this are copied even where they could be borrowed.
pub const SMALL: usize = 1 << 18;

/// Keeps cotan's memory alive for an ndarray that uses it.
#[pyclass(frozen, module = "cotan._core", name = "_Memory")]
pub struct Memory {
    _storage: Arc<Storage>,
}

/// A new ndarray with these elements. `value` is given up: when nothing else uses its memory,
/// the array takes it over instead of copying.
pub fn to_ndarray(py: Python<'_>, mut value: Value) -> PyResult<Bound<'_, PyAny>> {
    if value.is_remote() {
        enter(py, |_| value.bring_here())?;
    }
    let can_hand_over = value.is_contiguous() && value.is_unique();
    let bytes = value.aval().nbytes();
    // What has to be copied anyway is copied into NumPy's memory.
    let small = bytes < 4096 || (!can_hand_over && bytes < SMALL);
    if !small && !can_hand_over {
        value = enter(py, |_| sched::copied(&value))?;
    }
    let mut dims: Vec<npy_intp> = value.shape().iter().map(|&d| d as npy_intp).collect();
    if !small {
        let memory = Bound::new(
            py,
            Memory {
                _storage: Arc::clone(value.storage()),
            },
        )?;
        let flags = npyffi::NPY_ARRAY_WRITEABLE | npyffi::NPY_ARRAY_C_CONTIGUOUS;
        // SAFETY: the memory is contiguous, holds the elements that dtype and shape describe, and is
        // used by nobody else; `memory` keeps it alive.
        return unsafe {
            let data = value.as_mut_ptr();
            on_memory(memory.into_any(), value.dtype(), dims, None, data, flags)
        };
    }
    if !value.is_contiguous() {
        let cancel = AtomicBool::new(false);
        value = kernels::copy(&value, &Ctx::new(&cancel, 1)).or_raise()?;
    }
    let descr = descr(py, value.dtype())?;
    // SAFETY: a fresh array of the same dtype and shape is filled with the elements.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr.into_ptr().cast(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            0,
            ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let data = (*array.as_ptr().cast::<npyffi::PyArrayObject>())
            .fields
            .data
            .cast::<u8>();
        ptr::copy_nonoverlapping(value.as_ptr(), data, value.aval().nbytes());
        Ok(array)
    }
}

/// The memory of a value that is dense, as a read-only ndarray of bytes: nothing is copied.
pub fn lent_bytes<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    value.bring_here().or_raise()?;
    let bytes = (value.stored()).ok_or_else(|| PyTypeError::new_err("the value is not dense"))?;
    let memory = Bound::new(
        py,
        Memory {
            _storage: Arc::clone(value.storage()),
        },
    )?;
    let (dims, data) = (vec![bytes.len() as npy_intp], bytes.as_ptr().cast_mut());
    let flags = npyffi::NPY_ARRAY_C_CONTIGUOUS;
    // SAFETY: the bytes are initialised, nobody writes to them, and `memory` keeps them alive. The array cannot be
    // written to either.
    unsafe { on_memory(memory.into_any(), DType::U8, dims, None, data, flags) }
}

/// An ndarray on memory that `owner` keeps alive, as its base: aligned, and with these further flags of NumPy. Strides count
/// bytes; without them it lies in row-major order.
///
/// # Safety
///
/// All elements that dtype, shape and strides describe lie in this memory, and may be used as the flags say for as long as
/// `owner` lives.
pub unsafe fn on_memory(
    owner: Bound<'_, PyAny>,
    dtype: DType,
    mut dims: Vec<npy_intp>,
    strides: Option<Vec<npy_intp>>,
    data: *mut u8,
    flags: c_int,
) -> PyResult<Bound<'_, PyAny>> {
    let py = owner.py();
    let descr = descr(py, dtype)?;
    let mut strides = strides.unwrap_or_default();
    let steps = if strides.is_empty() {
        ptr::null_mut()
    } else {
        strides.as_mut_ptr()
    };
    // SAFETY: says the caller. NumPy copies shape and strides, and takes the references to dtype and owner over.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr.into_ptr().cast(),
            dims.len() as c_int,
            dims.as_mut_ptr(),
            steps,
            data.cast::<c_void>(),
            flags | npyffi::NPY_ARRAY_ALIGNED,
            ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

/// A number as `np.float64`.
pub fn to_float64(py: Python<'_>, number: f64) -> PyResult<Bound<'_, PyAny>> {
    let descr = descr(py, DType::F64)?;
    // SAFETY: there is an element of this dtype at the address; NumPy copies it.
    unsafe {
        let scalar = PY_ARRAY_API.PyArray_Scalar(
            py,
            ptr::from_ref(&number).cast_mut().cast(),
            descr.as_ptr().cast(),
            ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, scalar)
    }
}

/// A NumPy scalar with the only element of a value.
pub fn to_numpy_scalar<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    if value.is_remote() {
        enter(py, |_| value.bring_here())?;
    }
    let descr = descr(py, value.dtype())?;
    // SAFETY: the value has an element of this dtype at its address; NumPy copies it.
    unsafe {
        let scalar = PY_ARRAY_API.PyArray_Scalar(
            py,
            value.as_ptr().cast_mut().cast(),
            descr.as_ptr().cast(),
            ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, scalar)
    }
}

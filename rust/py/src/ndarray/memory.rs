//! Reads the memory of an ndarray as a value of the core, and writes a value into an ndarray that is there. All `unsafe`
//! code for that is here.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cotan::aval::{Aval, DType, Shape, Strides};
use cotan::kernels::{self, Ctx, Storage, Value};
use cotan::sched::{self, note};
use numpy::npyffi;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};

use crate::ndarray::dtype::dtype_of;
use crate::ndarray::export::{Memory, SMALL, to_ndarray};
use crate::runtime::error::{OrRaise, enter};
use crate::runtime::once_cell::OnceImported;

/// How long memory of NumPy may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Borrow {
    /// Only now: take a copy, unless nobody else can write to it.
    Copy,
    /// While the current call runs.
    Call,
}

/// The original of a name of a module, whatever overrides it at the moment.
pub fn original<'py>(py: Python<'py>, module: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import(module)?;
    match module.dict().get_item(name)? {
        Some(found) => Ok(found),
        None => module.getattr(name),
    }
}

/// A value that has the elements of an ndarray.
pub fn from_ndarray(array: &Bound<'_, PyUntypedArray>, borrow: Borrow) -> PyResult<Value> {
    crate::ndarray::subclass::expect_plain(array)?;
    let descr = array.dtype();
    let dtype = dtype_of(&descr)?;
    if descr.is_native_byteorder() == Some(false) || !array.is_aligned() {
        // NumPy knows how to read it; nobody else refers to the copy.
        let native = descr.call_method1("newbyteorder", ("=",))?;
        let copy = array.call_method1("astype", (native,))?;
        return from_ndarray(copy.cast::<PyUntypedArray>()?, Borrow::Call);
    }
    if dtype == DType::Bool && !has_plain_bits(array) {
        let bytes = array.call_method1("view", ("u1",))?;
        let plain = bytes.call_method1("astype", ("?", "C"))?;
        return from_ndarray(plain.cast::<PyUntypedArray>()?, Borrow::Call);
    }
    let size = dtype.size() as isize;
    let shape = Shape::from_slice(array.shape());
    let stable = is_frozen(array)?;
    // SAFETY: `array` is an ndarray, so its data pointer is valid for the layout it describes.
    let data = unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() };
    if !stable && array.is_c_contiguous() {
        let aval = Aval {
            dtype,
            shape: shape.clone(),
        };
        let bytes = aval.nbytes();
        if bytes < SMALL {
            if borrow == Borrow::Copy {
                note(|counts| counts.bytes_copied += bytes as u64);
            }
            let value = Value::empty(aval).or_raise()?;
            // SAFETY: both are contiguous and of this many bytes, and the value is fresh.
            unsafe { ptr::copy_nonoverlapping(data, value.as_mut_ptr(), bytes) };
            return Ok(value);
        }
    }
    let strides = array.strides();
    if strides
        .iter()
        .zip(&shape)
        .any(|(&s, &n)| n > 1 && s % size != 0)
    {
        let copy = array.call_method0("copy")?;
        return from_ndarray(copy.cast::<PyUntypedArray>()?, Borrow::Call);
    }
    let strides: Strides = strides
        .iter()
        .zip(&shape)
        .map(|(&s, &n)| if n > 1 { s / size } else { 0 })
        .collect();
    // The lowest address that is reached, and the first one behind the highest.
    let (mut low, mut high) = (0isize, size);
    if shape.contains(&0) {
        high = 0;
    } else {
        for (&s, &n) in strides.iter().zip(&shape) {
            let reach = s * (n as isize - 1) * size;
            if reach < 0 {
                low += reach;
            } else {
                high += reach;
            }
        }
    }
    let aval = Aval { dtype, shape };
    let keep = Box::new(array.clone().unbind());
    // SAFETY: the elements lie between the two addresses, inside memory that `array` keeps alive.
    // Nobody writes to it while the call that borrows it runs, or ever, if it is frozen.
    let value = unsafe {
        let storage = Storage::foreign(data.offset(low), (high - low) as usize, keep, !stable);
        Value::from_parts(aval, strides, low.unsigned_abs(), Arc::new(storage))
    };
    let large = value.aval().nbytes() >= SMALL;
    if stable || borrow == Borrow::Call && large {
        return Ok(value);
    }
    let bytes = value.aval().nbytes() as u64;
    if borrow == Borrow::Copy {
        note(|counts| counts.bytes_copied += bytes);
    }
    copied(array.py(), &value)
}

/// Whether the booleans of an array are bytes of 0 and 1, as the kernels take them: in NumPy every other byte is true,
/// too, as in views of integers.
fn has_plain_bits(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: an ndarray's header is valid while we hold a reference to it, and so are its elements.
    unsafe {
        let data = (*array.as_array_ptr()).fields.data.cast::<u8>();
        if array.is_contiguous() {
            return bits(data, &[array.len()], &[1]) <= 1;
        }
        bits(data, array.shape(), array.strides()) <= 1
    }
}

/// The bits that are set in any byte of an array; what is repeated is read once.
///
/// # Safety
/// All elements of this layout can be read.
unsafe fn bits(data: *const u8, shape: &[usize], strides: &[isize]) -> u8 {
    // SAFETY (all blocks): the caller's promise.
    match (shape, strides) {
        ([n], [1]) => {
            let bytes = unsafe { std::slice::from_raw_parts(data, *n) };
            bytes.iter().fold(0, |all, byte| all | byte)
        }
        ([n], [stride]) => {
            let byte = |k: usize| unsafe { data.offset(k as isize * stride).read() };
            (0..*n).fold(0, |all, k| all | byte(k))
        }
        ([n, shape @ ..], [stride, strides @ ..]) => {
            let n = if *stride == 0 { (*n).min(1) } else { *n };
            let part = |k: usize| unsafe { bits(data.offset(k as isize * stride), shape, strides) };
            (0..n).fold(0, |all, k| all | part(k))
        }
        _ => unsafe { data.read() },
    }
}

/// A copy in cotan's memory. A large one is made without the interpreter lock.
pub fn copied(py: Python<'_>, value: &Value) -> PyResult<Value> {
    if value.aval().nbytes() < sched::WIDE_COPY {
        return sched::copied(value).or_raise();
    }
    enter(py, |_| sched::copied(value))
}

/// A value to compare with later: itself where nobody can write to it, else a copy.
pub fn kept(py: Python<'_>, value: &Value) -> PyResult<Value> {
    if value.storage().is_foreign() {
        return copied(py, value);
    }
    Ok(value.clone())
}

/// Whether two values have the same elements, bit by bit. Large ones are compared without the interpreter lock.
pub fn same_bits(py: Python<'_>, a: &Value, b: &Value) -> PyResult<bool> {
    if a.aval() != b.aval() || a.aval().nbytes() < sched::WIDE_COPY {
        return Ok(a.same_bits(b));
    }
    enter(py, |_| {
        Ok(sched::same_bytes(&a.bytes_in_order(), &b.bytes_in_order()))
    })
}

/// How many references to an object there are.
pub fn references(object: &Bound<'_, PyAny>) -> isize {
    // SAFETY: the object is alive.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// Whether an ndarray has these elements, bit by bit, and this dtype and shape.
pub fn same_elements(array: &Bound<'_, PyUntypedArray>, value: &Value) -> PyResult<bool> {
    if array.shape() != value.shape() {
        return Ok(false);
    }
    let descr = array.dtype();
    let is_native = descr.is_native_byteorder() != Some(false);
    if is_native
        && array.is_c_contiguous()
        && value.is_contiguous()
        && dtype_of(&descr).is_ok_and(|dtype| dtype == value.dtype())
    {
        return is_constant(array, value);
    }
    let now = from_ndarray(array, Borrow::Call)?;
    same_bits(array.py(), &now, value)
}

/// An ndarray, and no subclass of it, of exactly this dtype object and this shape.
pub fn exactly<'a, 'py>(
    object: &'a Bound<'py, PyAny>,
    descr: &Py<PyArrayDescr>,
    shape: &[usize],
) -> Option<&'a Bound<'py, PyUntypedArray>> {
    let array = object.cast_exact::<PyUntypedArray>().ok()?;
    // SAFETY: an ndarray's header is valid while we hold a reference to it.
    let found = unsafe { (*array.as_array_ptr()).fields.descr };
    (found.cast() == descr.as_ptr() && array.shape() == shape).then_some(array)
}

/// Copies the elements of an ndarray to a value of its dtype and shape that nobody else refers to now;
/// false where they do not lie in row-major order, or are booleans of other bytes than 0 and 1.
pub fn copy_elements(array: &Bound<'_, PyUntypedArray>, to: &Value) -> bool {
    if !array.is_c_contiguous() || array.len() * to.dtype().size() != to.aval().nbytes() {
        return false;
    }
    if to.dtype() == DType::Bool && !has_plain_bits(array) {
        return false;
    }
    // SAFETY: both are contiguous and of this many bytes.
    unsafe {
        let data = (*array.as_array_ptr()).fields.data.cast::<u8>();
        ptr::copy_nonoverlapping(data, to.as_mut_ptr(), to.aval().nbytes());
    }
    true
}

/// Writes a number to a float64 that nobody else refers to now.
// Values are aligned.
#[allow(clippy::cast_ptr_alignment)]
pub fn set_number(to: &Value, number: f64) -> bool {
    if to.dtype() != DType::F64 || to.aval().size() != 1 {
        return false;
    }
    // SAFETY: there is room for one element of this dtype.
    unsafe { to.as_mut_ptr().cast::<f64>().write(number) };
    true
}

/// Whether an ndarray of the dtype and shape of a value has its elements, bit by bit; false where that is
/// not simple to say.
pub fn is_constant(array: &Bound<'_, PyUntypedArray>, value: &Value) -> PyResult<bool> {
    // SAFETY: an ndarray's header is valid while we hold a reference to it.
    let data = unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() };
    let is_contiguous = array.is_c_contiguous() && value.is_contiguous();
    if !is_contiguous {
        return Ok(false);
    }
    let bytes = value.aval().nbytes();
    // SAFETY: both are contiguous and of this many bytes.
    let (now, then) = unsafe {
        (
            std::slice::from_raw_parts(data, bytes),
            std::slice::from_raw_parts(value.as_ptr(), bytes),
        )
    };
    let same_truth = || now.iter().zip(then).all(|(x, y)| (*x != 0) == (*y != 0));
    let is_same = if bytes < sched::WIDE_COPY {
        now == then
    } else {
        enter(array.py(), |_| Ok(sched::same_bytes(now, then)))?
    };
    Ok(is_same || value.dtype() == DType::Bool && same_truth())
}

/// The bytes of an ndarray as they lie in memory, where there are no gaps between them.
pub fn dense_bytes<'a>(array: &'a Bound<'_, PyUntypedArray>) -> Option<&'a [u8]> {
    if !array.is_contiguous() {
        return None;
    }
    let bytes = array.len() * array.dtype().itemsize();
    // SAFETY: an ndarray's header is valid while we hold a reference to it, and so are its elements, which begin there.
    unsafe {
        let data = (*array.as_array_ptr()).fields.data.cast::<u8>();
        Some(std::slice::from_raw_parts(data, bytes))
    }
}

/// Whether NumPy lets an array be written to.
pub fn is_writeable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: an ndarray's header is valid while we hold a reference to it.
    unsafe { (*array.as_array_ptr()).fields.flags & npyffi::NPY_ARRAY_WRITEABLE != 0 }
}

/// The lowest address that an ndarray reaches, and the first one behind the highest.
pub fn span(array: &Bound<'_, PyUntypedArray>) -> (usize, usize) {
    // SAFETY: an ndarray's header is valid while we hold a reference to it.
    let data = unsafe { (*array.as_array_ptr()).fields.data as isize };
    let (mut low, mut high) = (data, data + array.dtype().itemsize() as isize);
    for (&s, &n) in array.strides().iter().zip(array.shape()) {
        let reach = s * (n as isize - 1);
        if n == 0 {
            return (data as usize, data as usize);
        }
        low += reach.min(0);
        high += reach.max(0);
    }
    (low as usize, high as usize)
}

/// The memory of an ndarray to compute in, if it lies in row-major order and is aligned. The caller makes
/// sure that nothing reads it in the meantime.
pub fn as_target(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<Value>> {
    if !array.is_c_contiguous() || !array.is_aligned() || !is_writeable(array) || array.is_empty() {
        return Ok(None);
    }
    let aval = Aval {
        dtype: dtype_of(&array.dtype())?,
        shape: Shape::from_slice(array.shape()),
    };
    let strides = cotan::aval::row_major(&aval.shape);
    let keep = Box::new(array.clone().unbind());
    let bytes = aval.nbytes();
    // SAFETY: the array is contiguous, of this dtype and shape, and kept alive.
    Ok(Some(unsafe {
        let data = (*array.as_array_ptr()).fields.data.cast::<u8>();
        let storage = Storage::foreign(data, bytes, keep, true);
        Value::from_parts(aval, strides, 0, Arc::new(storage))
    }))
}

/// Writes the elements of a value into an ndarray of the same dtype and shape, unless they are there.
pub fn write_elements(array: &Bound<'_, PyUntypedArray>, value: &Value) -> PyResult<()> {
    value.bring_here().or_raise()?;
    // SAFETY: an ndarray's header is valid while we hold a reference to it.
    let data = unsafe { (*array.as_array_ptr()).fields.data.cast::<u8>() };
    if !is_writeable(array) {
        return Err(pyo3::exceptions::PyValueError::new_err("out= is read-only"));
    }
    if array.is_c_contiguous() && value.is_contiguous() && array.len() == value.aval().size() {
        if data.cast_const() != value.as_ptr() {
            // SAFETY: both are contiguous and of this many bytes; they may overlap.
            unsafe { ptr::copy(value.as_ptr(), data, value.aval().nbytes()) };
        }
        return Ok(());
    }
    let plain = to_ndarray(array.py(), value.clone())?;
    original(array.py(), "numpy", "copyto")?.call1((array, plain))?;
    Ok(())
}

/// Whether nobody can write to an array any more: it is read-only, and so is everything that it is a
/// view of, down to an owner of its memory.
fn is_frozen(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    let mut current = array.clone();
    loop {
        // SAFETY: an ndarray's header is valid while we hold a reference to it.
        let (flags, base) = unsafe {
            let header = &*current.as_array_ptr();
            (header.fields.flags, header.fields.base)
        };
        if flags & npyffi::NPY_ARRAY_WRITEABLE != 0 {
            return Ok(false);
        }
        if base.is_null() {
            return Ok(flags & npyffi::NPY_ARRAY_OWNDATA != 0);
        }
        // SAFETY: a borrowed reference that the array holds.
        let base = unsafe { Bound::from_borrowed_ptr(array.py(), base) };
        match base.cast_into::<PyUntypedArray>() {
            Ok(next) => current = next,
            // Memory that is not NumPy's: cotan's is frozen once it is handed out read-only, that of
            // other libraries may be written to without NumPy.
            Err(other) => return Ok(other.into_inner().is_instance_of::<Memory>()),
        }
    }
}

/// A fingerprint of borrowed memory: one word of every page. `None` for memory of cotan's.
///
/// Arguments of a gradient call are borrowed while it runs. Should the function write to one of them
/// unnoticed, results would be wrong in silence; comparing fingerprints before and after it
/// catches whoever writes to a whole array, or to any large part of one, at the price of a page table
/// walk.
pub fn fingerprint(value: &Value) -> Option<u64> {
    const PAGE: usize = 4096;
    let storage = value.storage();
    if !storage.is_borrowed() {
        return None;
    }
    let start = storage.as_ptr();
    let words = storage.len() / 8;
    let mut hash = 0u64;
    for i in (0..words).step_by(PAGE / 8) {
        // SAFETY: the word lies inside the borrowed memory, which its owner keeps alive; another
        // thread may be writing to it, so the result is only compared, never used.
        let word = unsafe { start.add(i * 8).cast::<u64>().read_unaligned() };
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    Some(hash)
}

/// The memory behind a buffer: used as it is when it is read-only, which is whoever hands it over saying
/// that it stays as it is; copied otherwise.
pub fn storage_of(buffer: &Bound<'_, PyAny>) -> PyResult<Arc<Storage>> {
    let py = buffer.py();
    if let Ok(bytes) = buffer.cast::<PyBytes>()
        && bytes.as_bytes().len() < SMALL
    {
        return Ok(Arc::new(Storage::copied(bytes.as_bytes()).or_raise()?));
    }
    let array = original(py, "numpy", "frombuffer")?.call1((buffer, "u1"))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    // SAFETY: an ndarray's header is valid while we hold a reference to it.
    let (data, flags) = unsafe {
        let header = &*array.as_array_ptr();
        (header.fields.data.cast::<u8>(), header.fields.flags)
    };
    let (length, is_writable) = (array.len(), flags & npyffi::NPY_ARRAY_WRITEABLE != 0);
    // SAFETY: the array is contiguous and of this many bytes, and keeps them alive. Nobody writes to them
    // while this call runs, or at all when they are read-only.
    let lent = unsafe { Storage::foreign(data, length, Box::new(array.unbind()), is_writable) };
    if is_writable {
        let bytes = lent.foreign_bytes().unwrap_or_default();
        return Ok(Arc::new(Storage::copied(bytes).or_raise()?));
    }
    Ok(Arc::new(lent))
}

/// Whether an object is a NumPy scalar (`np.float64(1)`, not `np.array(1.0)`).
pub fn is_numpy_scalar(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static GENERIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let generic = GENERIC.found(object.py(), "numpy", "generic")?;
    object.is_instance(generic)
}

/// The class of NumPy's ufuncs.
pub fn ufunc_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static UFUNC: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    UFUNC.found(py, "numpy", "ufunc")
}

/// A contiguous value that is not borrowed, so that it can be kept.
pub fn to_owned(value: Value) -> PyResult<Value> {
    if value.is_remote() || value.is_contiguous() && !value.storage().is_borrowed() {
        return Ok(value);
    }
    let cancel = AtomicBool::new(false);
    kernels::copy(&value, &Ctx::new(&cancel, 1)).or_raise()
}

/// Fills a buffer with the memory of an ndarray, which the buffer keeps alive.
///
/// # Safety
///
/// `view` is a buffer to fill, as the interpreter hands it over.
pub unsafe fn fill_buffer(
    array: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    // SAFETY: says the caller. The buffer belongs to the array from now on, which releases it.
    if unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), view, flags) } < 0 {
        return Err(PyErr::fetch(array.py()));
    }
    Ok(())
}

//! Maps NumPy's dtypes to those of the core, and back.

use cotan::aval::DType;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::runtime::once_cell::Once;
use crate::runtime::text;

/// The [`DType`] that equals a NumPy dtype; an error that names it when there is none.
pub fn dtype_of(descr: &Bound<'_, PyArrayDescr>) -> PyResult<DType> {
    let found = match (descr.kind(), descr.itemsize()) {
        (b'b', 1) => Some(DType::Bool),
        (b'i', 1) => Some(DType::I8),
        (b'u', 1) => Some(DType::U8),
        (b'i', 2) => Some(DType::I16),
        (b'u', 2) => Some(DType::U16),
        (b'i', 4) => Some(DType::I32),
        (b'u', 4) => Some(DType::U32),
        (b'i', 8) => Some(DType::I64),
        (b'u', 8) => Some(DType::U64),
        (b'f', 2) => Some(DType::F16),
        (b'f', 4) => Some(DType::F32),
        (b'f', 8) => Some(DType::F64),
        (b'c', 8) => Some(DType::C64),
        (b'c', 16) => Some(DType::C128),
        (b'V', 2) if is_bfloat16(descr) => Some(DType::Bf16),
        _ => None,
    };
    found.ok_or_else(|| {
        let remedy = remedy(descr);
        text::text(descr).map_or_else(
            |error| error,
            |name| PyTypeError::new_err(format!("dtype {name} is not supported; {remedy}")),
        )
    })
}

/// What to write instead of an array of a dtype that has no [`DType`].
fn remedy(descr: &Bound<'_, PyArrayDescr>) -> &'static str {
    match descr.kind() {
        b'O' => {
            "its elements are Python objects: make numbers of them with astype(float), or one array of the arrays \
             among them with np.stack"
        }
        b'U' | b'S' | b'T' => {
            "text has no arithmetic: make numbers of those that it spells with astype(float)"
        }
        b'M' => {
            "points in time have no gradient: make numbers of them, as in \
             (t - t[0]) / np.timedelta64(1, 's')"
        }
        b'm' => "make numbers of the durations, as in t / np.timedelta64(1, 's')",
        b'V' if descr.has_fields() => "take one of its fields, as in x['name']",
        b'V' => "its elements are bytes without a meaning: give them one with view",
        _ => {
            "use astype with a dtype of integers, or one of bool, float16, bfloat16, float32, float64, complex64, \
             complex128"
        }
    }
}

fn is_bfloat16(descr: &Bound<'_, PyArrayDescr>) -> bool {
    descr
        .getattr("name")
        .is_ok_and(|n| n.eq("bfloat16").is_ok_and(|is| is))
}

/// The dtype of a NumPy scalar of one of the commonest classes; `None` for anything else. Asking the object itself
/// takes longer than an operation does.
pub fn dtype_of_scalar(object: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    static CLASSES: PyOnceLock<[(Py<PyType>, DType); 4]> = PyOnceLock::new();
    let py = object.py();
    let classes = CLASSES.made(py, || {
        let numpy = py.import("numpy")?;
        let class = |name| Ok::<_, PyErr>(numpy.getattr(name)?.cast_into::<PyType>()?.unbind());
        Ok([
            (class("float64")?, DType::F64),
            (class("float32")?, DType::F32),
            (class("int64")?, DType::I64),
            (class("int32")?, DType::I32),
        ])
    })?;
    let class_of_object = object.get_type_ptr();
    Ok((classes.iter())
        .find(|(class, _)| class.as_ptr().cast() == class_of_object)
        .map(|(_, dtype)| *dtype))
}

/// The dtype that a user names: a NumPy dtype, its name, a Python type.
pub fn dtype_from(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<DType> {
    // `np.dtype(None)` is float64; the converter behind `new` has no answer for it.
    if object.is_none() {
        return Ok(DType::F64);
    }
    dtype_of(&PyArrayDescr::new(py, object)?)
}

/// Has the table of dtypes made now, when no other thread needs it.
pub fn warm_up(py: Python<'_>) -> PyResult<()> {
    dtype_of(&descr(py, DType::F64)?).map(drop)
}

/// The NumPy dtype that equals a [`DType`].
pub fn descr(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    static CACHE: PyOnceLock<Vec<Py<PyArrayDescr>>> = PyOnceLock::new();
    if dtype == DType::Bf16 {
        let ml = py.import("ml_dtypes").map_err(|_| {
            PyTypeError::new_err(
                "bfloat16 arrays need the package ml_dtypes; cast to float32 first",
            )
        })?;
        return PyArrayDescr::new(py, ml.getattr("bfloat16")?);
    }
    let all = CACHE.made(py, || {
        let of = |d: DType| {
            let name = if d == DType::Bf16 {
                "float16"
            } else {
                d.numpy_name()
            };
            PyArrayDescr::new(py, name).map(Bound::unbind)
        };
        DType::ALL.into_iter().map(of).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(all[dtype as usize].bind(py).clone())
}

//! Gives scalars classes that compare equal to those which NumPy or Python would have handed out, so that
//! `type(x) == float` and `type(x) in (int, float)` answer as they do outside a recording.
//!
//! Comparing classes asks their metaclass, and a class of the bindings cannot have one. So Python code makes subclasses of
//! `Array` without anything of their own, and a scalar that has just been made is given one of them, as
//! `x.__class__ = subclass` would. It gets back the class `Array` before it is deallocated, by the function that made it.
#![allow(unsafe_code)]

use std::ffi::{c_ulong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use cotan::DType;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::ndarray::dtype::dtype_from;
use crate::runtime::exports::exports;
use crate::runtime::type_object::{TypeObject, is_layout_known};

exports!(set_scalar_classes);

/// The classes of scalars, Python's and NumPy's, by dtype. Null is `Array`.
static CLASSES: [[AtomicPtr<PyTypeObject>; DTYPES]; 2] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; DTYPES] }; 2];
const DTYPES: usize = DType::ALL.len();

/// `Array`, and what deallocates one.
static ARRAY: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());
static DEALLOC: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// `Py_TPFLAGS_BASETYPE`: the class may have subclasses.
const BASETYPE: c_ulong = 1 << 10;

/// Takes the classes of scalars that a function makes of `Array`: dictionaries of Python's and of NumPy's, by dtype.
#[pyfunction]
#[pyo3(signature = (
    array: "type[Array]",
    make: "Callable[[type[Array]], tuple[dict[Any, type], dict[Any, type]]]"
) -> "None")]
pub fn set_scalar_classes(array: &Bound<'_, PyType>, make: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = array.py();
    if !is_layout_known(py) {
        return Ok(());
    }
    let object = array.as_type_ptr().cast::<TypeObject>();
    // SAFETY: the layout of classes is known. Nobody else can have a subclass made: the interpreter lock, or the import of
    // cotan, keeps other threads out for that long.
    let made = unsafe {
        (*object).flags |= BASETYPE;
        let made = make.call1((array,));
        (*object).flags &= !BASETYPE;
        made
    };
    let [python, numpy]: [Bound<'_, PyDict>; 2] = made?.extract::<(_, _)>()?.into();
    ARRAY.store(array.as_type_ptr(), Ordering::Release);
    // SAFETY: as above.
    DEALLOC.store(unsafe { (*object).dealloc }, Ordering::Release);
    for (classes, table) in [python, numpy].into_iter().zip(&CLASSES) {
        for (dtype, class) in classes {
            let class = class.cast_into::<PyType>()?;
            // SAFETY: it is a subclass of `Array` with the same layout, which is kept alive for ever.
            unsafe {
                let fields = class.as_type_ptr().cast::<TypeObject>();
                (*fields).dealloc = dealloc as *mut c_void;
                (*fields).flags &= !BASETYPE;
                // Messages of compiled code name the class as they name `Array`.
                (*fields).name = c"cotan.Array".as_ptr();
            }
            let place = dtype_from(py, &dtype)? as usize;
            table[place].store(class.into_ptr().cast(), Ordering::Release);
        }
    }
    Ok(())
}

/// Gives a scalar that has just been made the class of its kind.
#[inline]
pub fn classify(scalar: &Bound<'_, PyAny>, is_numpy: bool, dtype: DType) {
    let class = CLASSES[usize::from(is_numpy)][dtype as usize].load(Ordering::Acquire);
    if !class.is_null() {
        // SAFETY: nobody else has the object yet, and the class is a subclass of its own with the same layout.
        unsafe { reclass(scalar.as_ptr(), class) };
    }
}

/// Exchanges the class of an object, and the reference to it.
///
/// # Safety
///
/// The classes have one layout, and nobody reads the class meanwhile.
unsafe fn reclass(object: *mut PyObject, class: *mut PyTypeObject) {
    // SAFETY: says the caller.
    unsafe {
        let before = ffi::Py_TYPE(object);
        ffi::Py_INCREF(class.cast());
        (*object).ob_type = class;
        ffi::Py_DECREF(before.cast());
    }
}

/// Deallocates a scalar as the `Array` that it was made as.
unsafe extern "C" fn dealloc(object: *mut PyObject) {
    // SAFETY: the interpreter hands over the last reference to a scalar, whose classes were stored before it was made.
    unsafe {
        reclass(object, ARRAY.load(Ordering::Acquire));
        let dealloc = DEALLOC.load(Ordering::Acquire);
        std::mem::transmute::<*mut c_void, ffi::destructor>(dealloc)(object);
    }
}

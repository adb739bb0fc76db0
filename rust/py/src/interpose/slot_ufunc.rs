//! Catches calls of ufuncs while something is recorded: lists of arrays (`np.log([x, y])`), and primitives
//! (`np.sin(x)`), which need not go through NumPy.
//!
//! NumPy asks arrays among the arguments of a ufunc what to do, not those in lists. A ufunc cannot be
//! replaced on its module, since `activation is np.tanh` would be false then. So the entry by which the interpreter calls
//! it leads here: in a context that records, lists that hold an `Array` become one array, and NumPy's own entry goes on. Where the arguments are arrays of
//! ours themselves, the primitive is recorded at once, since asking takes NumPy longer than that.
//! The entry is a field of the structure which NumPy publishes (`PyUFuncObject.vectorcall`).
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

use cotan::prim::{Class, Prim};
use cotan::program::FastMap;
use cotan::{DType, ops};
use numpy::npyffi::PyUFuncObject;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyTuple};
use smallvec::SmallVec;

use crate::array::cell::PyArray;
use crate::array::cell::ScalarKind;
use crate::array::operand::given_out_as;
use crate::array::operators::apply_elementwise;
use crate::interpose::contains_array::contains_array;
use crate::interpose::slot::{Arguments, Vectorcall, guarded, is_list};
use crate::ndarray::dtype::{dtype_from, dtype_of, dtype_of_scalar};
use crate::ndarray::memory::is_numpy_scalar;
use crate::runtime::interpreter_exit;
use crate::runtime::once_cell::Once;
use crate::runtime::recording_state::{is_anything_recorded, is_lifting};

/// NumPy's own entry, the same for all of its ufuncs.
static ENTRY: OnceLock<Vectorcall> = OnceLock::new();

/// Lets a ufunc be called here from now on, unless it is called in another way than NumPy's first one.
pub fn add(py: Python<'_>, ufunc: Py<PyAny>) -> PyResult<()> {
    if !ufunc
        .bind(py)
        .is_instance(crate::ndarray::memory::ufunc_class(py)?)?
    {
        return Ok(());
    }
    let field = entry(&ufunc);
    // SAFETY: it is a ufunc, whose field can be read.
    let found = unsafe { *field };
    if found.is_null() || found == call as *mut c_void {
        return Ok(());
    }
    // SAFETY: NumPy keeps a function of this signature there, or nothing.
    let own = unsafe { std::mem::transmute::<*mut c_void, Vectorcall>(found) };
    if ptr::fn_addr_eq(*ENTRY.get_or_init(|| own), own) {
        // SAFETY: the field is an aligned pointer. Threads that read it meanwhile, where they run in parallel, find one
        // function or the other, and either may be called with what the interpreter calls it with.
        unsafe { AtomicPtr::from_ptr(field) }.store(call as *mut c_void, Ordering::Release);
    }
    Ok(())
}

/// Where a ufunc keeps its entry.
fn entry(ufunc: &Py<PyAny>) -> *mut *mut c_void {
    let object = ufunc.as_ptr().cast::<PyUFuncObject>();
    // SAFETY: it is a ufunc, and NumPy publishes the structure; no reference to it is made.
    unsafe { &raw mut (*object).fields.vectorcall }.cast()
}

/// What the interpreter calls in the place of NumPy's own entry.
unsafe extern "C" fn call(
    ufunc: *mut PyObject,
    args: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    let Some(own) = ENTRY.get() else {
        return ptr::null_mut(); // Not reached: it is set before this function is put in place.
    };
    // SAFETY: as we were called ourselves.
    let numpys = || unsafe { own(ufunc, args, count, names) };
    if !is_anything_recorded() {
        return numpys();
    }
    // SAFETY: the interpreter called us, so this thread is attached, with these arguments.
    let args = unsafe { Arguments::new(Python::assume_attached(), args, count, names) };
    let py = args.py();
    let class = py.get_type::<PyArray>().as_type_ptr();
    let (mut has_array, mut has_list) = (false, false);
    for &arg in &args.pointers()[..args.positional()] {
        // SAFETY: it is alive for the call.
        unsafe {
            let is_array = ffi::PyObject_TypeCheck(arg, class) != 0;
            has_array |= is_array;
            has_list |= is_list(arg) || (!is_array && is_of_user(arg));
        }
    }
    // NumPy knows nothing of a list's elements. Of arrays it does, in every context, so that none is asked for them.
    has_list = has_list && is_lifting();
    if !has_list && (!has_array || args.has_keywords()) {
        return numpys();
    }
    let called = guarded(py, || {
        let given: Given<'_> = args.all().collect();
        if has_list {
            return together(&given, args.positional()).map(Called::With);
        }
        // NumPy would look for who answers, and come to the same by way of our arrays.
        interpreter_exit::rest(py);
        Ok(direct(py, ufunc, &given)?.map_or(Called::NotHere, Called::Done))
    });
    match called {
        None => ptr::null_mut(),
        Some(Called::Done(result)) => result.into_ptr(),
        Some(Called::NotHere) => numpys(),
        Some(Called::With(given)) => {
            let pointers: Vec<*mut PyObject> = given.iter().map(Bound::as_ptr).collect();
            // SAFETY: as many arguments as we were called with, alive until the call is over; no slot is lent.
            unsafe { own(ufunc, pointers.as_ptr(), args.positional(), names) }
        }
    }
}

/// The arguments of a ufunc.
type Given<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;

/// What became of a call.
enum Called<'py> {
    /// Its result.
    Done(Bound<'py, PyAny>),
    /// It is NumPy's.
    NotHere,
    /// It is NumPy's, with these arguments.
    With(Given<'py>),
}

/// Whether an object is of a class that is made at run time, and not an array of ours.
///
/// # Safety
///
/// It is alive, and the thread is attached.
unsafe fn is_of_user(object: *mut PyObject) -> bool {
    // SAFETY: says the caller.
    unsafe { ffi::PyType_HasFeature(ffi::Py_TYPE(object), ffi::Py_TPFLAGS_HEAPTYPE) != 0 }
}

/// The arguments, where each list that holds arrays of ours is one array, and so is an object whose `__array__` gives one:
/// NumPy takes none but its own from there.
fn together<'py>(given: &[Bound<'py, PyAny>], positional: usize) -> PyResult<Given<'py>> {
    let convert = |(i, item): (usize, &Bound<'py, PyAny>)| {
        let py = item.py();
        let is_list = item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>();
        if i < positional
            && is_list
            && contains_array(&PyTuple::new(py, [item])?, &PyDict::new(py))?
        {
            return crate::functions::creation::array(py, item, None, None);
        }
        // SAFETY: it is alive, and this thread is attached.
        let is_user = unsafe { is_of_user(item.as_ptr()) };
        if i < positional
            && is_user
            && !is_list
            && let Some(array) = given_out_as(item)?
        {
            return Ok(array);
        }
        Ok(item.clone())
    };
    given.iter().enumerate().map(convert).collect()
}

/// The ufuncs that are primitives, by address; each is kept alive.
struct Table {
    prims: FastMap<usize, Prim>,
    /// `np.matmul`, which is more than a primitive.
    matmul: usize,
    kept: Vec<Py<PyAny>>,
}

fn ufuncs(py: Python<'_>) -> PyResult<&Table> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    TABLE.made(py, || {
        let numpy = py.import("numpy")?;
        let class = numpy.getattr("ufunc")?;
        let matmul = numpy.getattr("matmul")?;
        let mut table = Table {
            prims: FastMap::default(),
            matmul: matmul.as_ptr() as usize,
            kept: vec![matmul.unbind()],
        };
        for &prim in ops::table() {
            let Some(("np", name)) = prim.ufunc() else {
                continue;
            };
            let ufunc = numpy.getattr(name)?;
            // `np.where` is a plain function.
            if ufunc.is_instance(&class)? {
                table.prims.insert(ufunc.as_ptr() as usize, prim);
                table.kept.push(ufunc.unbind());
            }
        }
        Ok(table)
    })
}

/// The ufuncs, by address, that a rule of user code computes: they are no primitives as long as that is so. Who gave the
/// rule keeps them alive.
static RULED: RwLock<Vec<usize>> = RwLock::new(Vec::new());
/// Whether there are any.
static IS_ANY_RULED: AtomicBool = AtomicBool::new(false);

/// Notes whether a rule of user code computes a ufunc.
pub fn set_ruled(ufunc: &Bound<'_, PyAny>, is_ruled: bool) {
    let mut ruled = RULED.write().unwrap_or_else(PoisonError::into_inner);
    let address = ufunc.as_ptr() as usize;
    ruled.retain(|&other| other != address);
    if is_ruled {
        ruled.push(address);
    }
    IS_ANY_RULED.store(!ruled.is_empty(), Ordering::Release);
}

fn is_ruled(ufunc: *mut PyObject) -> bool {
    let ruled = || RULED.read().unwrap_or_else(PoisonError::into_inner);
    IS_ANY_RULED.load(Ordering::Acquire) && ruled().contains(&(ufunc as usize))
}

/// `ufunc(*inputs)` where that is a primitive or the matrix product, and its operands are arrays of ours and what has
/// a common dtype with them: what NumPy would come back with.
pub fn direct<'py>(
    py: Python<'py>,
    ufunc: *mut PyObject,
    inputs: &[Bound<'py, PyAny>],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if is_ruled(ufunc) {
        return Ok(None);
    }
    let table = ufuncs(py)?;
    let Some(&prim) = table.prims.get(&(ufunc as usize)) else {
        return match inputs {
            [x, y] if ufunc as usize == table.matmul && common(inputs)?.is_some() => {
                crate::array::matmul::matmul(x, y).map(Some)
            }
            _ => Ok(None),
        };
    };
    let Class::Elementwise { types, .. } = prim.0.class else {
        return Ok(None);
    };
    // One more would be where to write the result.
    if inputs.len() != prim.0.args.len()
        || !common(inputs)?.is_some_and(|dtype| types.accept(dtype))
    {
        return Ok(None);
    }
    let inputs: SmallVec<[&Bound<'_, PyAny>; 2]> = inputs.iter().collect();
    apply_elementwise(py, prim, &inputs).map(Some)
}

/// The dtype in which NumPy computes with arrays of ours, ndarrays, NumPy scalars, and Python numbers, which take over
/// that of the others, where it is one of 32 bits or more with a fraction: then the primitive is what NumPy computes.
/// Everything else asks NumPy for its dtypes.
fn common(operands: &[Bound<'_, PyAny>]) -> PyResult<Option<DType>> {
    let (mut strong, mut weak) = (None::<DType>, None);
    for x in operands {
        let dtype = if let Ok(array) = x.cast::<PyArray>() {
            let dtype = array.get().own_dtype();
            if array.get().scalar_kind() == ScalarKind::PythonNumber && dtype == DType::F64 {
                weak = Some(dtype);
                continue;
            }
            dtype
        } else if x.is_exact_instance_of::<PyFloat>() || x.is_exact_instance_of::<PyInt>() {
            continue;
        } else if let Some(dtype) = dtype_of_scalar(x)? {
            dtype
        } else if let Ok(array) = x.cast_exact::<PyUntypedArray>() {
            match dtype_of(&array.dtype()) {
                Ok(dtype) => dtype,
                Err(_) => return Ok(None),
            }
        } else if is_numpy_scalar(x)? {
            match dtype_from(x.py(), &x.getattr("dtype")?) {
                Ok(dtype) => dtype,
                Err(_) => return Ok(None),
            }
        } else {
            return Ok(None);
        };
        strong = Some(strong.map_or(dtype, |other| other.promote(dtype)));
    }
    Ok(strong
        .or(weak)
        .filter(|d| matches!(d, DType::F32 | DType::F64 | DType::C64 | DType::C128)))
}

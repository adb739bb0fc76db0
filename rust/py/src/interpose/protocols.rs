//! NumPy's ufunc protocol: the short way for `np.sin(x)`, all else in `cotan._ufunc`.

use cotan::prim::{Class, Prim};
use cotan::program::FastMap;
use cotan::{DType, ops};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFloat, PyInt, PyString, PyTuple};
use smallvec::SmallVec;

use crate::array::cell::{PyArray, Rank};
use crate::array::operators::apply_elementwise;
use crate::ndarray::dtype::{dtype_from, dtype_of, dtype_of_scalar};
use crate::ndarray::memory::{is_numpy_scalar, original};
use crate::ndarray::subclass::is_plain_class;
use crate::runtime::hooks;
use crate::runtime::interpreter_exit;
use crate::runtime::once_cell::Once;

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

/// `ufunc(*inputs)` where that is a primitive or the matrix product, and its operands are arrays of ours and what has
/// a common dtype with them: what NumPy would come back with.
pub fn direct<'py>(
    py: Python<'py>,
    ufunc: *mut PyObject,
    inputs: &[Bound<'py, PyAny>],
) -> PyResult<Option<Bound<'py, PyAny>>> {
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

/// `np.ufunc(*inputs, **kwargs)` with an `Array` among the arguments.
pub fn array_ufunc(
    py: Python<'_>,
    ufunc: &Bound<'_, PyAny>,
    method: &Bound<'_, PyString>,
    inputs: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    interpreter_exit::rest(py);
    if kwargs.is_none_or(PyDictMethods::is_empty) && method.to_str()? == "__call__" {
        let given: SmallVec<[Bound<'_, PyAny>; 2]> = inputs.iter().collect();
        if let Some(out) = direct(py, ufunc.as_ptr(), &given)? {
            return Ok(out.unbind());
        }
    }
    let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
    let rule = hooks::ARRAY_UFUNC.get(py)?;
    Ok(rule.call1((ufunc, method, inputs, kwargs))?.unbind())
}

/// `func(*args, **kwargs)` with an `Array` among the arguments, for a NumPy function.
pub fn array_function<'py>(
    py: Python<'py>,
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    // A reduction over everything, by far the commonest call, needs no look at keywords.
    static WHOLE: PyOnceLock<Vec<(Py<PyAny>, Prim)>> = PyOnceLock::new();
    // A subclass that is no array like others is refused, or answers itself.
    for class in types.try_iter()? {
        let class = class?;
        let known = class.is(py.get_type::<PyArray>()) || class.is(py.get_type::<PyUntypedArray>());
        if !known && !is_plain_class(&class)? {
            return hooks::FUNCTION_OF_SUBCLASSES
                .get(py)?
                .call1((func, args, kwargs));
        }
    }
    let whole = WHOLE.made(py, || {
        let of = |(name, prim): (&str, Prim)| Ok((original(py, "numpy", name)?.unbind(), prim));
        [
            ("sum", ops::SUM),
            ("mean", ops::MEAN),
            ("max", ops::MAX),
            ("min", ops::MIN),
            ("prod", ops::PROD),
        ]
        .map(of)
        .into_iter()
        .collect::<PyResult<Vec<_>>>()
    })?;
    if args.len() == 1
        && kwargs.is_empty()
        && let Some((_, prim)) = whole.iter().find(|(f, _)| f.is(func))
    {
        return crate::functions::primitives::reduction(&args.get_item(0)?, *prim, None, false);
    }
    let functions = hooks::ARRAY_FUNCTIONS.get(py)?.cast::<PyDict>()?;
    match functions.get_item(func)? {
        Some(implementation) => implementation.call(args, Some(kwargs)),
        None => hooks::ARRAY_FUNCTION
            .get(py)?
            .call1((func, types, args, kwargs)),
    }
}

/// The dtype in which NumPy computes with arrays of ours, ndarrays, NumPy scalars, and Python numbers, which take over
/// that of the others, where it is one of 32 bits or more with a fraction: then the primitive is what NumPy computes.
/// Everything else asks NumPy for its dtypes.
fn common(operands: &[Bound<'_, PyAny>]) -> PyResult<Option<DType>> {
    let (mut strong, mut weak) = (None::<DType>, None);
    for x in operands {
        let dtype = if let Ok(array) = x.cast_exact::<PyArray>() {
            let dtype = array.get().own_dtype();
            if array.get().rank() == Rank::Number && dtype == DType::F64 {
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

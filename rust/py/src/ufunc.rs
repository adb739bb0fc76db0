//! NumPy's ufunc protocol: the short way for `np.sin(x)`, all else in `cotan._ufunc`.

use cotan::ops;
use cotan::prim::{Class, Prim};
use cotan::program::FastMap;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyComplex, PyDict, PyFloat, PyInt, PyString, PyTuple};

use crate::array::PyArray;
use crate::operators::apply_elementwise;

/// The ufuncs that are primitives, by address; each is kept alive.
struct Table {
    prims: FastMap<usize, Prim>,
    kept: Vec<Py<PyAny>>,
}

fn ufuncs(py: Python<'_>) -> PyResult<&Table> {
    static TABLE: PyOnceLock<Table> = PyOnceLock::new();
    TABLE.get_or_try_init(py, || {
        let numpy = py.import("numpy")?;
        let class = numpy.getattr("ufunc")?;
        let mut table = Table {
            prims: FastMap::default(),
            kept: Vec::new(),
        };
        for &prim in ops::table() {
            let Some(name) = prim
                .0
                .numpy
                .strip_prefix("np.")
                .and_then(|t| t.split('(').next())
            else {
                continue;
            };
            if !matches!(prim.0.class, Class::Elementwise { .. }) {
                continue;
            }
            let ufunc = numpy.getattr(name)?;
            // `np.where` is a plain function.
            if ufunc.is_instance(&class)?
                && prim.0.args.len() == ufunc.getattr("nin")?.extract::<usize>()?
            {
                table.prims.insert(ufunc.as_ptr() as usize, prim);
                table.kept.push(ufunc.unbind());
            }
        }
        Ok(table)
    })
}

/// `np.ufunc(*inputs, **kwargs)` with an `Array` among the arguments.
pub fn array_ufunc(
    py: Python<'_>,
    ufunc: &Bound<'_, PyAny>,
    method: &Bound<'_, PyString>,
    inputs: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<PyAny>> {
    if kwargs.is_none_or(PyDictMethods::is_empty)
        && let Some(&prim) = ufuncs(py)?.prims.get(&(ufunc.as_ptr() as usize))
        && method.to_str()? == "__call__"
    {
        let out = match inputs.len() {
            1 => Some(apply_elementwise(py, prim, &[&inputs.get_item(0)?])?),
            2 => {
                let (x, y) = (inputs.get_item(0)?, inputs.get_item(1)?);
                let ours = x.is_instance_of::<PyArray>() && y.is_instance_of::<PyArray>();
                // Whatever else takes part may want to answer itself.
                if ours || plain(&x)? && plain(&y)? {
                    Some(apply_elementwise(py, prim, &[&x, &y])?)
                } else {
                    None
                }
            }
            _ => None,
        };
        if let Some(out) = out {
            return Ok(out.unbind());
        }
    }
    let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
    let python = py.import("cotan._ufunc")?;
    Ok(python
        .call_method1("array_ufunc", (ufunc, method, inputs, kwargs))?
        .unbind())
}

/// `func(*args, **kwargs)` with an `Array` among the arguments, for a NumPy function.
pub fn array_function<'py>(
    py: Python<'py>,
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    static FUNCTIONS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    // A reduction over everything, by far the commonest call, needs no look at keywords.
    static WHOLE: PyOnceLock<Vec<(Py<PyAny>, Prim)>> = PyOnceLock::new();
    let whole = WHOLE.get_or_try_init(py, || {
        let numpy = py.import("numpy")?;
        let of = |(name, prim): (&str, Prim)| Ok((numpy.getattr(name)?.unbind(), prim));
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
        return crate::ops::reduction(&args.get_item(0)?, *prim, None, false);
    }
    let functions = FUNCTIONS.get_or_try_init(py, || {
        Ok::<_, PyErr>(
            py.import("cotan._numpy")?
                .getattr("FUNCTIONS")?
                .cast_into::<PyDict>()?
                .unbind(),
        )
    })?;
    match functions.bind(py).get_item(func)? {
        Some(implementation) => implementation.call(args, Some(kwargs)),
        None => py
            .import("cotan._numpy")?
            .call_method1("array_function", (func, types, args, kwargs)),
    }
}

/// Whether an operand is an array or a number that we know.
fn plain(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(x.is_instance_of::<PyArray>()
        || x.is_instance_of::<PyFloat>()
        || x.is_instance_of::<PyInt>()
        || x.is_instance_of::<PyComplex>()
        || x.is_exact_instance_of::<numpy::PyUntypedArray>()
        || crate::convert::is_numpy_scalar(x)?)
}

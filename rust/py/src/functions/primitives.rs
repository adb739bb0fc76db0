//! Exports the table of primitives as Python functions. Elementwise ones are stamped from their entries; the others
//! have signatures of their own.

use cotan::aval::{Axes, Kind, Shape, SliceDim, broadcast, normalize_axes, tuple};
use cotan::prim::{Params, Prim};
use cotan::{Array, DType, ops};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::axes::shape_for;
use crate::array::axes::{axes_of, axis_error, axis_of, is_only_axis, names_only_axis, sizes};
use crate::array::cell::{PyArray, ScalarKind, wrap, wrap_result};
use crate::array::operand::{Operand, common_dtype};
use crate::array::operators::apply_elementwise;
use crate::array::view::{reshape_view, transpose_view};
use crate::ndarray::dtype::dtype_from;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;

exports!(
    sum,
    prod,
    max,
    min,
    mean,
    logsumexp,
    argmax,
    argmin,
    argsort,
    cumsum,
    cummax,
    cummin,
    linear_recurrence,
    reshape,
    transpose,
    broadcast_to,
    concatenate,
    stack,
    flip,
    pad,
    cast,
    searchsorted,
    gather,
    scatter_add,
    scatter,
    dropgrad
);

/// Stamps one Python function for each elementwise entry.
macro_rules! stamp {
    ($($NAME:ident $name:ident($($arg:ident),*) $doc:expr;)*) => {
        /// The elementwise functions, under the names of their entries.
        #[allow(non_snake_case, missing_docs)]
        pub mod stamped {
            use super::*;
            $(
                #[pyfunction]
                #[pyo3(signature = ($($arg,)* /))]
                #[doc = $doc]
                pub fn $name<'py>(py: Python<'py>, $($arg: &Bound<'py, PyAny>),*) -> PyResult<Bound<'py, PyAny>> {
                    apply_elementwise(py, ops::$NAME, &[$($arg),*])
                }
            )*

            /// Adds them to a module.
            pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
                $( module.add_function(wrap_pyfunction!($name, module)?)?; )*
                Ok(())
            }
        }
    };
}
cotan::for_each_elementwise!(stamp);

fn operand(name: &str, x: &Bound<'_, PyAny>) -> PyResult<Array> {
    Operand::expect(name, x)?.array()
}

/// Reduced axes back with length 1, when they are to be kept.
fn keep(array: Array, axes: &[usize], shape: &[usize], keepdims: bool) -> PyResult<Array> {
    if !keepdims {
        return Ok(array);
    }
    let kept: Shape = (0..shape.len())
        .map(|i| if axes.contains(&i) { 1 } else { shape[i] })
        .collect();
    array.reshape(&kept).or_raise()
}

/// A reduction in the dtype in which NumPy does it.
pub fn reduction<'py>(
    x: &Bound<'py, PyAny>,
    prim: Prim,
    axis: Option<&Bound<'py, PyAny>>,
    keepdims: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let name = prim.name();
    let mut array = operand(name, x)?;
    let kind = array.dtype().kind();
    let dtype = match (name, kind) {
        ("sum" | "prod", Kind::Bool | Kind::Integer) => array.dtype().widest(),
        ("mean", Kind::Bool | Kind::Integer) => DType::F64,
        ("logsumexp", Kind::Bool | Kind::Integer) => array.dtype().inexact(),
        _ => array.dtype(),
    };
    array = array.cast(dtype).or_raise()?;
    let shape = Shape::from_slice(array.shape());
    let axes = if name != "mean" && shape.is_empty() && names_only_axis(axis) {
        Axes::new()
    } else {
        axes_of(name, axis, shape.len())?
    };
    // Of booleans the primitives are `all` and `any`, which have a neutral element; NumPy's have none.
    if matches!(name, "max" | "min") && axes.iter().any(|&i| shape[i] == 0) {
        return Err(PyValueError::new_err(format!(
            "{name}: no element to choose from: axes {} of shape {}; give an initial= to start with",
            tuple(&axes),
            tuple(&shape)
        )));
    }
    let out = if axes.is_empty() {
        array
    } else {
        Array::apply(prim, Params::Axes(axes.clone()), &[&array]).or_raise()?
    };
    wrap_result(x.py(), keep(out, &axes, &shape, keepdims)?)
}

macro_rules! reductions {
    ($($name:ident $NAME:ident;)*) => { $(
        /// A reduction over `axis` (an integer, a tuple, or None for all).
        #[pyfunction]
        #[pyo3(signature = (x: "_Values", axis: "_Axes" = None, keepdims: "bool" = false) -> "Array")]
        pub fn $name<'py>(
            x: &Bound<'py, PyAny>,
            axis: Option<&Bound<'py, PyAny>>,
            keepdims: bool,
        ) -> PyResult<Bound<'py, PyAny>> {
            reduction(x, ops::$NAME, axis, keepdims)
        }
    )* };
}
reductions! { sum SUM; prod PROD; max MAX; min MIN; mean MEAN; logsumexp LOGSUMEXP; }

fn arg<'py>(
    x: &Bound<'py, PyAny>,
    prim: Prim,
    axis: Option<isize>,
    keepdims: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let name = prim.name();
    let mut array = operand(name, x)?;
    let shape = Shape::from_slice(array.shape());
    let axis = axis.filter(|&a| !shape.is_empty() || !is_only_axis(a));
    let (at, axes): (usize, Axes) = if let Some(axis) = axis {
        let at = axis_of(x.py(), name, axis, shape.len())?;
        (at, Axes::from_slice(&[at]))
    } else {
        array = array.reshape(&[array.aval().size()]).or_raise()?;
        (0, (0..shape.len()).collect())
    };
    let out = Array::apply(prim, Params::Axis(at), &[&array]).or_raise()?;
    wrap_result(x.py(), keep(out, &axes, &shape, keepdims)?)
}

/// The index of the first largest element along `axis`, or in the flattened array.
#[pyfunction]
#[pyo3(signature = (x: "_Values", axis: "int | None" = None, keepdims: "bool" = false) -> "Array")]
pub fn argmax<'py>(
    x: &Bound<'py, PyAny>,
    axis: Option<isize>,
    keepdims: bool,
) -> PyResult<Bound<'py, PyAny>> {
    arg(x, ops::ARGMAX, axis, keepdims)
}

/// The index of the first smallest element along `axis`, or in the flattened array.
#[pyfunction]
#[pyo3(signature = (x: "_Values", axis: "int | None" = None, keepdims: "bool" = false) -> "Array")]
pub fn argmin<'py>(
    x: &Bound<'py, PyAny>,
    axis: Option<isize>,
    keepdims: bool,
) -> PyResult<Bound<'py, PyAny>> {
    arg(x, ops::ARGMIN, axis, keepdims)
}

/// The indices that sort along `axis`: stable, NaN last.
#[pyfunction]
#[pyo3(signature = (x: "_Values", axis: "int" = -1) -> "Array")]
pub fn argsort<'py>(x: &Bound<'py, PyAny>, axis: isize) -> PyResult<Bound<'py, PyAny>> {
    let array = operand("argsort", x)?;
    let at = axis_of(x.py(), "argsort", axis, array.shape().len())?;
    wrap_result(
        x.py(),
        Array::apply(ops::ARGSORT, Params::Axis(at), &[&array]).or_raise()?,
    )
}

fn scan<'py>(
    x: &Bound<'py, PyAny>,
    prim: Prim,
    axis: Option<isize>,
    reverse: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let name = prim.name();
    let mut array = operand(name, x)?;
    if prim == ops::CUMSUM && !array.dtype().is_inexact() {
        array = array.cast(array.dtype().widest()).or_raise()?;
    }
    let axis = axis.filter(|&a| !array.shape().is_empty() || !is_only_axis(a));
    let axis = if let Some(axis) = axis {
        axis_of(x.py(), name, axis, array.shape().len())?
    } else {
        array = array.reshape(&[array.aval().size()]).or_raise()?;
        0
    };
    wrap_result(
        x.py(),
        Array::apply(prim, Params::Scan { axis, reverse }, &[&array]).or_raise()?,
    )
}

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident $NAME:ident;)*) => { $(
        $(#[doc = $doc])*
        #[pyfunction]
        #[pyo3(signature = (x: "_Values", axis: "int | None" = None, reverse: "bool" = false) -> "Array")]
        pub fn $name<'py>(
            x: &Bound<'py, PyAny>,
            axis: Option<isize>,
            reverse: bool,
        ) -> PyResult<Bound<'py, PyAny>> {
            scan(x, ops::$NAME, axis, reverse)
        }
    )* };
}
scans! {
    /// The sums of all elements up to each one along `axis`; from its end when `reverse`.
    cumsum CUMSUM;
    /// The largest of all elements up to each one along `axis`; from its end when `reverse`.
    cummax CUMMAX;
    /// The smallest of all elements up to each one along `axis`; from its end when `reverse`.
    cummin CUMMIN;
}

/// The sequence `y[i] = a[i] * y[i - 1] + b[i]` along `axis`, which begins with `b`; from its end when `reverse`.
/// Both broadcast.
#[pyfunction]
#[pyo3(signature = (a: "_Values", b: "_Values", axis: "int" = -1, reverse: "bool" = false) -> "Array")]
pub fn linear_recurrence<'py>(
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    axis: isize,
    reverse: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let name = ops::LINEAR_RECURRENCE.name();
    let (mut a_array, mut b_array) = (operand(name, a)?, operand(name, b)?);
    let dtype = a_array.dtype().promote(b_array.dtype());
    let shape = broadcast(a_array.shape(), b_array.shape()).ok_or_else(|| {
        PyValueError::new_err(format!(
            "{name}: shapes {} and {} do not broadcast together",
            tuple(a_array.shape()),
            tuple(b_array.shape())
        ))
    })?;
    for array in [&mut a_array, &mut b_array] {
        *array = (array.cast(dtype).or_raise()?)
            .broadcast_to(&shape)
            .or_raise()?;
    }
    let axis = axis_of(a.py(), name, axis, shape.len())?;
    let params = Params::Scan { axis, reverse };
    let result = Array::apply(ops::LINEAR_RECURRENCE, params, &[&a_array, &b_array]);
    wrap_result(a.py(), result.or_raise()?)
}

/// The same elements in another shape; one length may be -1. A view where NumPy gives one.
#[pyfunction]
#[pyo3(signature = (x: "_Values", shape: "_Shape") -> "Array")]
pub fn reshape<'py>(
    x: &Bound<'py, PyAny>,
    shape: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = operand("reshape", x)?;
    let shape = shape_for(&array, shape)?;
    if let Ok(x) = x.cast::<PyArray>() {
        return reshape_view(x, &shape);
    }
    wrap(x.py(), array.reshape(&shape).or_raise()?, ScalarKind::Array)
}

/// Axes in another order, reversed by default. A view.
#[pyfunction]
#[pyo3(signature = (x: "_Values", axes: "Sequence[int] | None" = None) -> "Array")]
pub fn transpose<'py>(
    x: &Bound<'py, PyAny>,
    axes: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = operand("transpose", x)?;
    let rank = array.shape().len();
    let perm: Axes = match axes.filter(|a| !a.is_none()) {
        None => (0..rank).rev().collect(),
        Some(axes) => {
            let list: Vec<isize> = sizes("transpose", axes)?;
            if list.len() != rank {
                return Err(PyValueError::new_err(format!(
                    "transpose: axes don't match array: {} axes for shape {}",
                    list.len(),
                    tuple(array.shape())
                )));
            }
            normalize_axes("transpose", &list, rank)
                .map_err(|e| axis_error(x.py(), &e.to_string()))?
        }
    };
    if let Ok(x) = x.cast::<PyArray>() {
        return transpose_view(x, &perm);
    }
    wrap(
        x.py(),
        Array::apply(ops::TRANSPOSE, Params::Axes(perm), &[&array]).or_raise()?,
        ScalarKind::Array,
    )
}

/// Repeated to a shape that it broadcasts to.
#[pyfunction]
#[pyo3(signature = (x: "_Values", shape: "_Shape") -> "Array")]
pub fn broadcast_to<'py>(
    x: &Bound<'py, PyAny>,
    shape: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = operand("broadcast_to", x)?;
    let shape = sizes("broadcast_to", shape)?;
    if shape.iter().any(|&d| d < 0) {
        return Err(PyValueError::new_err(
            "broadcast_to: all lengths must be non-negative",
        ));
    }
    let shape: Vec<usize> = shape.into_iter().map(|d| d as usize).collect();
    wrap(
        x.py(),
        array.broadcast_to(&shape).or_raise()?,
        ScalarKind::Array,
    )
}

/// Arrays one after the other along `axis`.
#[pyfunction]
#[pyo3(signature = (arrays: "Sequence[_Values]", axis: "int" = 0) -> "Array")]
pub fn concatenate<'py>(
    py: Python<'py>,
    arrays: &Bound<'py, PyAny>,
    axis: isize,
) -> PyResult<Bound<'py, PyAny>> {
    let operands: Vec<Operand> = arrays
        .try_iter()?
        .map(|a| Operand::expect("concatenate", &a?))
        .collect::<PyResult<_>>()?;
    if operands.is_empty() {
        return Err(PyValueError::new_err(
            "concatenate: need at least one array to concatenate",
        ));
    }
    let dtype = common_dtype(&operands);
    let arrays: Vec<Array> = operands
        .into_iter()
        .map(|o| o.cast(dtype))
        .collect::<PyResult<_>>()?;
    let rank = arrays[0].shape().len();
    if rank == 0 {
        return Err(PyValueError::new_err(
            "concatenate: zero-dimensional arrays cannot be concatenated",
        ));
    }
    let axis = axis_of(py, "concatenate", axis, rank)?;
    let inputs: Vec<&Array> = arrays.iter().collect();
    wrap(
        py,
        Array::apply(ops::CONCATENATE, Params::Axis(axis), &inputs).or_raise()?,
        ScalarKind::Array,
    )
}

/// Arrays of one shape along a new first axis.
#[pyfunction]
#[pyo3(signature = (arrays: "Sequence[_Values]") -> "Array")]
pub fn stack<'py>(py: Python<'py>, arrays: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let operands: Vec<Operand> = arrays
        .try_iter()?
        .map(|a| {
            // A number counts as it does in an array of its own.
            let array = Operand::expect("stack", &a?)?.array()?;
            Ok(Operand::Strong(array, ScalarKind::Array))
        })
        .collect::<PyResult<_>>()?;
    wrap(py, stack_all(operands)?, ScalarKind::Array)
}

/// Operands of one shape along a new first axis.
pub fn stack_all(operands: Vec<Operand>) -> PyResult<Array> {
    if operands.is_empty() {
        return Err(PyValueError::new_err("need at least one array to stack"));
    }
    let dtype = common_dtype(&operands);
    let arrays: Vec<Array> = operands
        .into_iter()
        .map(|o| o.cast(dtype))
        .collect::<PyResult<_>>()?;
    let inputs: Vec<&Array> = arrays.iter().collect();
    Array::apply(ops::STACK, Params::None, &inputs).or_raise()
}

/// The order of elements reversed along `axis`.
#[pyfunction]
#[pyo3(signature = (x: "_Values", axis: "_Axes" = None) -> "Array")]
pub fn flip<'py>(
    x: &Bound<'py, PyAny>,
    axis: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = operand("flip", x)?;
    let axes = axes_of("flip", axis, array.shape().len())?;
    wrap(
        x.py(),
        Array::apply(ops::FLIP, Params::Axes(axes), &[&array]).or_raise()?,
        ScalarKind::Array,
    )
}

/// Zeros of `shape` with `x` as a strided region: along each axis `start`, `start + step`, ...
#[pyfunction]
#[pyo3(signature = (
    x: "_Values",
    shape: "Sequence[int]",
    start: "Sequence[int]",
    step: "Sequence[int]"
) -> "Array")]
pub fn pad<'py>(
    x: &Bound<'py, PyAny>,
    shape: Vec<usize>,
    start: Vec<usize>,
    step: Vec<isize>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = operand("pad", x)?;
    if start.len() != shape.len() || step.len() != shape.len() || array.shape().len() != shape.len()
    {
        return Err(PyValueError::new_err(
            "pad: x, shape, start and step must have one entry for each axis",
        ));
    }
    let dims: Box<[SliceDim]> = (0..shape.len())
        .map(|i| SliceDim {
            start: start[i],
            len: array.shape()[i],
            step: step[i],
        })
        .collect();
    let params = Params::Region {
        shape: shape.into(),
        dims,
    };
    wrap(
        x.py(),
        Array::apply(ops::PAD, params, &[&array]).or_raise()?,
        ScalarKind::Array,
    )
}

/// The same numbers in another dtype.
#[pyfunction]
#[pyo3(signature = (x: "_Values", dtype: "_DTypeLike") -> "Array")]
pub fn cast<'py>(x: &Bound<'py, PyAny>, dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let dtype = dtype_from(x.py(), dtype)?;
    let array = Operand::expect("cast", x)?.cast(dtype)?;
    let scalar_kind = if array.shape().is_empty() && !is_array(x) {
        ScalarKind::NumpyScalar
    } else {
        ScalarKind::Array
    };
    wrap(x.py(), array, scalar_kind)
}

fn is_array(x: &Bound<'_, PyAny>) -> bool {
    x.cast::<PyArray>()
        .map_or(true, |a| a.get().scalar_kind() == ScalarKind::Array)
}

/// For each element of `x` how many elements of a sorted array of one axis come before it, and with `right` those
/// equal to it, too: int64, of the shape of `x`. NaN comes last. In an array that is not sorted the places are arbitrary.
///
/// >>> import cotan as ct
/// >>> ct.searchsorted([1.0, 2.0, 2.0, 3.0], [2.0, 2.5])
/// Array([1, 3])
#[pyfunction]
#[pyo3(signature = (sorted: "_Values", x: "_Values", right: "bool" = false) -> "Array")]
pub fn searchsorted<'py>(
    sorted: &Bound<'py, PyAny>,
    x: &Bound<'py, PyAny>,
    right: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let operands = [
        Operand::expect("searchsorted", sorted)?,
        Operand::expect("searchsorted", x)?,
    ];
    let dtype = common_dtype(&operands);
    let [table, keys] = operands.map(|operand| operand.cast(dtype));
    let (table, keys) = (table?, keys?);
    if table.shape().len() != 1 {
        return Err(PyValueError::new_err(format!(
            "searchsorted: the sorted array has one axis, not the shape {}",
            tuple(table.shape())
        )));
    }
    let line = keys.reshape(&[keys.aval().size()]).or_raise()?;
    let found = Array::apply(ops::SEARCHSORTED, Params::Side { right }, &[&table, &line]);
    wrap_result(x.py(), found.or_raise()?.reshape(keys.shape()).or_raise()?)
}

/// The rows of `x` at int64 indices.
#[pyfunction]
#[pyo3(signature = (x: "_Values", index: "_Values") -> "Array")]
pub fn gather<'py>(
    x: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (rows, index) = (operand("gather", x)?, operand("gather", index)?);
    wrap_result(
        x.py(),
        Array::apply(ops::GATHER, Params::None, &[&rows, &index]).or_raise()?,
    )
}

/// `x` with updates added to its rows at int64 indices.
#[pyfunction]
#[pyo3(signature = (x: "_Values", index: "_Values", updates: "_Values") -> "Array")]
pub fn scatter_add<'py>(
    x: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
    updates: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    scattered(x, index, updates, ops::SCATTER_ADD)
}

/// `x` with its rows at int64 indices replaced.
#[pyfunction]
#[pyo3(signature = (x: "_Values", index: "_Values", updates: "_Values") -> "Array")]
pub fn scatter<'py>(
    x: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
    updates: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    scattered(x, index, updates, ops::SCATTER)
}

fn scattered<'py>(
    x: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
    updates: &Bound<'py, PyAny>,
    prim: Prim,
) -> PyResult<Bound<'py, PyAny>> {
    let name = prim.name();
    let (base, index) = (operand(name, x)?, operand(name, index)?);
    let updates = operand(name, updates)?.cast(base.dtype()).or_raise()?;
    let out = Array::apply(prim, Params::None, &[&base, &index, &updates]).or_raise()?;
    wrap(x.py(), out, ScalarKind::Array)
}

/// The same values, held constant for every derivative.
///
/// >>> import cotan as ct
/// >>> ct.gradient(lambda x: ct.dropgrad(x) * x, 3.0)
/// (3.0,)
#[pyfunction]
#[pyo3(signature = (x: "_R") -> "_R")]
pub fn dropgrad<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match x.cast::<PyArray>() {
        Ok(array) => wrap(
            x.py(),
            array.get().read()?.dropgrad(),
            array.get().scalar_kind(),
        ),
        Err(_) => Ok(x.clone()),
    }
}

//! Reads and writes `x[key]`: basic keys here, the commonest index arrays in `fancy_index`, all others in Python.

use cotan::aval::{Shape, SliceDim, tuple};
use cotan::prim::Params;
use cotan::{Array, DType, Number, aval, ops};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyEllipsis, PyFloat, PyInt, PyList, PySlice, PyTuple};
use smallvec::SmallVec;

use crate::array::cell::Element;
use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::escapes;
use crate::array::fancy_index::is_made_by;
use crate::array::operand::Operand;
use crate::array::unknown_index::Unknown;
use crate::array::view_op::ViewOp;
use crate::ndarray::dtype::descr;
use crate::ndarray::memory::{is_numpy_scalar, original};
use crate::ndarray::subclass::is_plain;
use crate::runtime::error::{NotDifferentiableError, OrRaise};
use crate::runtime::exports::exports;
use crate::runtime::hooks;
use crate::runtime::once_cell::intern;
use crate::runtime::text;

exports!(index_update, index_add, fitted);

/// A basic key, resolved against a shape.
pub struct Basic {
    /// The region.
    pub dims: Box<[SliceDim]>,
    /// Its shape once axes of integers are dropped and new axes added.
    pub shape: Shape,
    /// Whether every axis was indexed by an integer, so that the result is a scalar.
    pub scalar: bool,
    /// Whether an array without axes stood for an integer: what it selects is a copy in NumPy.
    pub copies: bool,
}

impl Basic {
    /// Where the first element that it selects is, in row-major order.
    fn first(&self, shape: &[usize]) -> usize {
        let dims = self.dims.iter().zip(shape);
        dims.fold(0, |at, (d, n)| at * n + d.start)
    }
}

/// Resolves a key made of integers, slices, `None` and `...`; `None` if it is of another kind.
pub fn basic(key: &Bound<'_, PyAny>, shape: &[usize]) -> PyResult<Option<Basic>> {
    let items: SmallVec<[Bound<'_, PyAny>; 4]> = match key.cast::<PyTuple>() {
        Ok(items) => items.iter().collect(),
        Err(_) => SmallVec::from_iter([key.clone()]),
    };
    let mut used = 0;
    let (mut ellipsis, mut copies) = (false, false);
    for item in &items {
        if item.is_none() {
            continue;
        }
        if item.is_instance_of::<PyEllipsis>() {
            if ellipsis {
                return Err(PyIndexError::new_err(
                    "an index can only have a single ellipsis ('...')",
                ));
            }
            ellipsis = true;
        } else if item.is_instance_of::<PySlice>() {
            used += 1;
        } else if let Some(array) = is_integer(item)? {
            used += 1;
            copies |= array;
        } else {
            return Ok(None);
        }
    }
    if used > shape.len() {
        return Err(PyIndexError::new_err(format!(
            "too many indices for array: array is {}-dimensional, but {used} were indexed",
            shape.len()
        )));
    }
    let mut dims: Vec<SliceDim> = Vec::with_capacity(shape.len());
    let mut out = Shape::new();
    let mut scalar = !ellipsis && used == shape.len();
    let whole = |n: usize| SliceDim {
        start: 0,
        len: n,
        step: 1,
    };
    for item in &items {
        if item.is_none() {
            out.push(1);
            scalar = false;
        } else if item.is_instance_of::<PyEllipsis>() {
            for _ in 0..shape.len() - used {
                let n = shape[dims.len()];
                dims.push(whole(n));
                out.push(n);
            }
        } else {
            let n = shape[dims.len()];
            if let Ok(slice) = item.cast::<PySlice>() {
                let s = slice.indices(n as isize)?;
                let (start, len) = (
                    if s.slicelength == 0 {
                        0
                    } else {
                        s.start as usize
                    },
                    s.slicelength,
                );
                dims.push(SliceDim {
                    start,
                    len,
                    step: if len <= 1 { 1 } else { s.step },
                });
                out.push(len);
                scalar = false;
            } else {
                let start = position(item, n, dims.len())?;
                dims.push(SliceDim {
                    start,
                    len: 1,
                    step: 1,
                });
            }
        }
    }
    while dims.len() < shape.len() {
        let n = shape[dims.len()];
        dims.push(whole(n));
        out.push(n);
    }
    Ok(Some(Basic {
        dims: dims.into(),
        shape: out,
        scalar,
        copies,
    }))
}

/// Whether an item is one integer, `None` if not; and whether it is an array of one.
fn is_integer(item: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    if item.is_exact_instance_of::<PyInt>() {
        return Ok(Some(false));
    }
    if item.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if let Ok(cell) = item.cast::<PyArray>() {
        let array = cell.get().read()?;
        // Nobody knows the number where a function is mapped over examples.
        let integer = array.shape().is_empty()
            && array.dtype().kind() == aval::Kind::Integer
            && !crate::array::traced::is_mapped(cell)?;
        return Ok(integer.then(|| cell.get().scalar_kind() == ScalarKind::Array));
    }
    // NumPy's integers, zero-dimensional integer arrays, and whatever has `__index__`; NumPy's bools had
    // it once, without being integers.
    if item.hasattr("__index__")? && !item.hasattr("__len__")? {
        let is_bool = match item.getattr_opt("dtype")? {
            Some(dtype) => dtype.getattr("kind")?.eq("b")?,
            None => false,
        };
        return Ok((!is_bool).then_some(false));
    }
    if item.hasattr("__index__")?
        && item.hasattr("dtype")?
        && item.getattr("ndim")?.extract::<usize>()? == 0
    {
        let kind = item.getattr("dtype")?.getattr("kind")?;
        return Ok((kind.eq("i")? || kind.eq("u")?).then_some(true));
    }
    Ok(None)
}

fn position(item: &Bound<'_, PyAny>, n: usize, axis: usize) -> PyResult<usize> {
    let number = if item.is_exact_instance_of::<PyInt>() {
        item.clone()
    } else {
        item.call_method0(intern!(item.py(), "__index__"))?
    };
    let out_of_bounds = || match text::text(item) {
        Ok(item) => PyIndexError::new_err(format!(
            "index {item} is out of bounds for axis {axis} with size {n}"
        )),
        Err(failed) => failed,
    };
    let index: isize = number.extract().map_err(|_| out_of_bounds())?;
    let at = if index < 0 { index + n as isize } else { index };
    if at < 0 || at >= n as isize {
        Err(out_of_bounds())
    } else {
        Ok(at as usize)
    }
}

/// What Python says of an index into a number: user code tries one to find out what they were given.
fn no_sequence(number: &Bound<'_, PyArray>) -> PyErr {
    let class = match number.get().read().map(|a| a.dtype()) {
        Ok(dtype) if dtype.is_complex() => "complex",
        Ok(dtype) if dtype.is_inexact() => "float",
        Ok(_) => "int",
        Err(error) => return error,
    };
    PyTypeError::new_err(format!("'{class}' object is not subscriptable"))
}

/// `x[key]`.
pub fn getitem<'py>(
    slf: &Bound<'py, PyArray>,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let shape = slf.get().own_shape();
    let resolved = basic(key, &shape).map_err(|error| {
        let is_number = slf.get().scalar_kind() == ScalarKind::PythonNumber
            && error.is_instance_of::<PyIndexError>(py);
        if is_number { no_sequence(slf) } else { error }
    });
    let Some(basic) = resolved? else {
        if let Some(taken) = crate::array::fancy_index::read(slf, key, &shape)? {
            return Ok(taken);
        }
        if let Some((unknown, first)) = Unknown::of(key)?
            && let Ok(Some(region)) = basic(&first, &shape)
            && !region.scalar
            && !region.copies
        {
            let op = unknown.view(region.dims, region.shape);
            return Ok(Bound::new(py, PyArray::view_of(slf, op)?)?.into_any());
        }
        return hooks::GETITEM.get(py)?.call1((slf, key));
    };
    if basic.scalar
        && let Some(element) = slf.get().element(py, basic.first(&shape))?
    {
        return Ok(element);
    }
    let op = ViewOp::Index(basic.dims, basic.shape);
    if basic.scalar || basic.copies || slf.get().scalar_kind() != ScalarKind::Array {
        let array = op.read(&slf.get().read()?)?;
        // An ellipsis gives an array, of a scalar, too.
        let scalar_kind = if basic.scalar {
            ScalarKind::NumpyScalar
        } else {
            ScalarKind::Array
        };
        return wrap(py, array, scalar_kind);
    }
    Ok(Bound::new(py, PyArray::view_of(slf, op)?)?.into_any())
}

/// The numbers of an `np.matrix`, NumPy's or cotan's: it differs from other arrays by its products only, and
/// takes no part in one where it is written.
fn numbers_of_matrix<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    if value.is_instance_of::<PyArray>() || value.is_exact_instance_of::<PyFloat>() {
        return Ok(None);
    }
    if value.is_exact_instance(hooks::MATRIX_CLASS.get(py)?) {
        return value.getattr("A").map(Some);
    }
    if value.is_exact_instance_of::<PyUntypedArray>()
        || !value.is_instance_of::<PyUntypedArray>()
        || !value.is_instance(&original(py, "numpy", "matrix")?)?
    {
        return Ok(None);
    }
    original(py, "numpy", "asarray")?.call1((value,)).map(Some)
}

/// What a value becomes when it is written into a region of this dtype and shape.
pub fn fit(value: &Bound<'_, PyAny>, dtype: DType, region: &[usize]) -> PyResult<Array> {
    let plain = numbers_of_matrix(value)?;
    let value = plain.as_ref().unwrap_or(value);
    let operand = match Operand::of(value) {
        Ok(Some(operand)) => operand,
        // What NumPy makes a number of: None is NaN, fractions and others know how to be a float.
        Ok(None) if !value.is_instance_of::<PyUntypedArray>() => {
            let of = original(value.py(), "numpy", "asarray")?;
            Operand::expect("assignment", &of.call1((value, dtype.numpy_name()))?)?
        }
        found => match converted(value, found.err(), dtype, region)? {
            Some(written) => Operand::expect("assignment", &written)?,
            None => Operand::expect("assignment", value)?,
        },
    };
    let source = operand.dtype();
    if source.is_complex() && !dtype.is_complex() {
        discard_imaginary(value, dtype)?;
    }
    if let (
        Operand::Number(Number::Float(x)) | Operand::Scalar(_, Number::Float(x)),
        aval::Kind::Integer,
    ) = (&operand, dtype.kind())
        && !x.is_finite()
    {
        let what = if x.is_nan() { "NaN" } else { "infinity" };
        let message = format!("assignment: cannot convert float {what} to integer");
        return Err(if x.is_nan() {
            PyValueError::new_err(message)
        } else {
            PyOverflowError::new_err(message)
        });
    }
    if let Operand::Number(Number::Int(_)) = operand {
        // Refuses what the dtype cannot hold.
        let value = operand.cast(dtype)?;
        return value.broadcast_to(region).or_raise();
    }
    let value = operand.array()?;
    if !dtype.is_inexact() && value.is_active() && value.dtype().is_inexact() {
        return Err(NotDifferentiableError::new_err(format!(
            "assignment: writing into an array of dtype {} would drop the gradient; use a float array, or \
             ct.dropgrad(x) to drop it on purpose",
            dtype.numpy_name()
        )));
    }
    // As NumPy does: leading axes of length 1 may be left over.
    let mut shape = value.shape();
    while shape.len() > region.len() && shape[0] == 1 {
        shape = &shape[1..];
    }
    let fits = aval::broadcast(shape, region);
    if fits.as_deref() != Some(region) {
        return Err(PyValueError::new_err(format!(
            "assignment: could not broadcast input array from shape {} into shape {}",
            tuple(value.shape()),
            tuple(region)
        )));
    }
    let value = value.cast(dtype).or_raise()?;
    let shape = Shape::from_slice(shape);
    value
        .reshape(&shape)
        .or_raise()?
        .broadcast_to(region)
        .or_raise()
}

/// What NumPy makes of values whose dtype no `Array` has where it writes them to one that an `Array` does have: numbers of
/// text that spells them, of objects, of spans of time. `None` for what is not NumPy's to write; the error that says what
/// the values are where they are refused.
fn converted<'py>(
    value: &Bound<'py, PyAny>,
    refused: Option<PyErr>,
    dtype: DType,
    region: &[usize],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let of_dtype = |e: &PyErr| {
        e.is_instance_of::<PyTypeError>(py) && !e.is_instance_of::<NotDifferentiableError>(py)
    };
    let array = value.cast::<PyUntypedArray>().ok();
    let is_written = match array {
        // A replay would not see that it has changed.
        Some(array) => is_plain(array)? && !escapes::is_on(),
        None => {
            value.is_instance_of::<PyList>()
                || value.is_instance_of::<PyTuple>()
                || is_numpy_scalar(value)?
        }
    };
    if !is_written || refused.as_ref().is_some_and(|e| !of_dtype(e)) {
        return refused.map_or(Ok(None), Err);
    }
    let shape = PyTuple::new(py, region)?;
    let written = original(py, "numpy", "empty")?.call1((shape, descr(py, dtype)?))?;
    match written.set_item(PyEllipsis::get(py), value) {
        Ok(()) => Ok(Some(written)),
        Err(e) if e.is_instance_of::<NotDifferentiableError>(py) => Err(refused.unwrap_or(e)),
        Err(e) => Err(e),
    }
}

/// Warns, as NumPy does, that complex values lose their imaginary part; a number of Python's has to be written as what
/// is meant.
fn discard_imaginary(value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<()> {
    let py = value.py();
    let of_numpy = match value.cast::<PyArray>() {
        Ok(cell) => cell.get().scalar_kind() != ScalarKind::PythonNumber,
        Err(_) => is_numpy_scalar(value)? || value.is_instance_of::<PyUntypedArray>(),
    };
    if !of_numpy {
        return Err(PyTypeError::new_err(format!(
            "assignment: complex values do not fit into an array of dtype {}; write their real part",
            dtype.numpy_name()
        )));
    }
    let category = py.import("numpy.exceptions")?.getattr("ComplexWarning")?;
    let message = c"Casting complex values to real discards the imaginary part";
    PyErr::warn(py, &category, message, 1)
}

/// What a value is as one element, where that is simple.
fn element(value: &Bound<'_, PyAny>) -> PyResult<Option<Element>> {
    if value.is_instance_of::<PyFloat>() {
        // NumPy's float64 is one, too.
        return Ok(Some(Element::Number(Number::Float(value.extract()?))));
    }
    if value.is_exact_instance_of::<PyInt>() {
        let small = value.extract::<i64>().ok();
        return Ok(small.map(|n| Element::Number(Number::Int(n))));
    }
    if let Ok(cell) = value.cast::<PyArray>() {
        let array = cell.get().read()?;
        let is_one = array.shape().is_empty();
        return Ok(is_one.then_some(Element::Array(array)));
    }
    if value.is_exact_instance_of::<PyBool>() {
        return Ok(Some(Element::Number(Number::Int(
            value.extract::<bool>()?.into(),
        ))));
    }
    if value.is_instance_of::<PyComplex>() {
        return Ok(Some(Element::Number(Number::Complex(value.extract()?))));
    }
    if is_numpy_scalar(value)? {
        // A Python number, or something that is not as simple.
        let item = value.call_method0("item")?;
        return if is_numpy_scalar(&item)? {
            Ok(None)
        } else {
            element(&item)
        };
    }
    Ok(None)
}

/// `x[key] = value`.
pub fn setitem<'py>(
    slf: &Bound<'py, PyArray>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let py = slf.py();
    if slf.get().scalar_kind() != ScalarKind::Array {
        return Err(PyTypeError::new_err(
            "a scalar does not support item assignment",
        ));
    }
    let shape = slf.get().own_shape();
    let Some(basic) = basic(key, &shape)? else {
        hooks::SETITEM.get(py)?.call1((slf, key, value))?;
        return Ok(());
    };
    if is_made_by(slf.get(), |prim| ops::STEEP.contains(&prim)) && !basic.shape.contains(&0) {
        let array = slf.get().read()?;
        let value = fit(value, array.dtype(), &basic.shape)?;
        let op = ViewOp::Index(basic.dims, basic.shape);
        return slf.get().write(chosen(&array, &op, &value)?);
    }
    if basic.scalar
        && let Some(new) = element(value)?
        && slf.get().set_element(basic.first(&shape), &new)?
    {
        return Ok(());
    }
    if basic.scalar && (value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>()) {
        return Err(PyValueError::new_err(
            "assignment: setting an array element with a sequence; write the number itself",
        ));
    }
    if basic.scalar {
        expect_element(value)?;
    }
    if let Ok(value) = value.cast::<PyArray>() {
        let part = ViewOp::Index(basic.dims.clone(), basic.shape.clone());
        if slf.get().shows_in(part, value.get()) {
            return Ok(());
        }
    }
    let value = fit(value, slf.get().own_dtype(), &basic.shape)?;
    let op = ViewOp::Index(basic.dims, basic.shape);
    if slf.get().is_view() && slf.get().overlaps() {
        // The other windows would be written as they were before, over what is new.
        return PyArray::view_of(slf, op)?.write_all(py, value);
    }
    if slf.get().set_row(&op, &value)? {
        return Ok(());
    }
    let array = slf.get().read()?;
    slf.get().write(op.write(&array, &value)?)
}

/// Lets NumPy refuse to write an array with axes to one element, which it does since 2.4, or warn of it.
fn expect_element(value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = value.py();
    let shape = if let Ok(cell) = value.cast::<PyArray>() {
        cell.get().own_shape().to_vec()
    } else if let Ok(array) = value.cast::<PyUntypedArray>() {
        array.shape().to_vec()
    } else {
        return Ok(());
    };
    if shape.is_empty() || shape.iter().product::<usize>() != 1 {
        return Ok(());
    }
    let zeros = original(py, "numpy", "zeros")?;
    let (one, given) = (
        zeros.call1((1,))?,
        zeros.call1((PyTuple::new(py, shape)?,))?,
    );
    one.set_item(0, given)
}

/// An array with a part overwritten, as a choice: what was there has no derivative, whatever it was.
///
/// User code mends quotients so where it divides by zero: `h = sin(w * n) / n; h[middle] = w`.
fn chosen(array: &Array, op: &ViewOp, value: &Array) -> PyResult<Array> {
    let zeros = Array::zeros(array.dtype(), array.shape()).or_raise()?;
    let nowhere = Array::zeros(DType::Bool, array.shape()).or_raise()?;
    let all = Array::full(DType::Bool, value.shape(), true).or_raise()?;
    let new = op.write(&zeros, value)?;
    let mask = op.write(&nowhere, &all)?;
    Array::apply(ops::WHERE, Params::None, &[&mask, &new, array]).or_raise()
}

/// `x[...] = value`, where `whole` says that all of it is written; else some of it is as it was.
pub fn assign(slf: &Bound<'_, PyArray>, value: &Bound<'_, PyAny>, whole: bool) -> PyResult<()> {
    let array = slf.get().read()?;
    let value = fit(value, array.dtype(), array.shape())?;
    if whole {
        slf.get().write_all(slf.py(), value)
    } else {
        slf.get().write(value)
    }
}

/// `x` with `x[key]` replaced, as a new array; for a basic key only.
pub fn updated<'py>(
    x: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    add: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = x.py();
    let array = Operand::expect("index_update", x)?.array()?;
    let Some(basic) = basic(key, array.shape())? else {
        return Ok(None);
    };
    let op = ViewOp::Index(basic.dims, basic.shape.clone());
    let mut value = fit(value, array.dtype(), &basic.shape)?;
    if add {
        let old = op.read(&array)?;
        value = Array::apply(ops::ADD, Params::None, &[&old, &value]).or_raise()?;
    }
    Ok(Some(wrap(
        py,
        op.write(&array, &value)?,
        ScalarKind::Array,
    )?))
}

/// `x` with `x[key]` replaced by `value`, as a new array.
#[pyfunction]
#[pyo3(signature = (x: "_Values", key: "_Key", value: "_Values") -> "Array")]
pub fn index_update<'py>(
    x: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(out) = updated(x, key, value, false)? {
        return Ok(out);
    }
    hooks::UPDATED.get(x.py())?.call1((x, key, value, false))
}

/// `x` with `value` added to `x[key]`, as a new array; an index may occur several times.
#[pyfunction]
#[pyo3(signature = (x: "_Values", key: "_Key", value: "_Values") -> "Array")]
pub fn index_add<'py>(
    x: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Some(out) = updated(x, key, value, true)? {
        return Ok(out);
    }
    hooks::UPDATED.get(x.py())?.call1((x, key, value, true))
}

/// A value brought to a dtype and shape, as NumPy does in an assignment.
#[pyfunction]
#[pyo3(name = "fit", signature = (value: "_Values", target: "_Values", shape: "Sequence[int]") -> "Array")]
pub fn fitted<'py>(
    value: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    shape: Vec<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let target = Operand::expect("assignment", target)?;
    wrap(
        value.py(),
        fit(value, target.dtype(), &shape)?,
        ScalarKind::Array,
    )
}

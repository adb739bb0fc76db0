//! Records operators and elementwise functions: at once for arrays that need no promotion, by NumPy's rules for
//! everything else.

use cotan::aval::{DType, Kind};
use cotan::prim::{Class, Params, Prim};
use cotan::{Array, Number, ops};
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::array::cell::{PyArray, ScalarKind, wrap, wrap_result};
use crate::array::comparisons;
use crate::array::escapes;
use crate::array::operand::{EXACT, Operand, common_dtype};
use crate::ndarray::dtype::dtype_of_scalar;
use crate::ndarray::memory::is_numpy_scalar;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;
use crate::runtime::interpreter_exit;
use crate::runtime::once_cell::intern;

pub fn unary(slf: &Bound<'_, PyArray>, prim: Prim) -> PyResult<Py<PyAny>> {
    let scalar_kind = slf.get().scalar_kind();
    if scalar_kind == ScalarKind::PythonNumber {
        let array = slf.get().read()?;
        if accepts(prim, &array) {
            escapes::capture_array(slf, &array);
            let out = Array::apply1(prim, array).or_raise()?;
            return Ok(wrap(slf.py(), out, scalar_kind)?.unbind());
        }
    }
    let operand = Operand::expect(prim.name(), slf.as_any())?;
    let (array, scalar_kind) = elementwise(slf.py(), prim, vec![operand], true)?;
    Ok(wrap(slf.py(), array, scalar_kind)?.unbind())
}

/// What `+x` is: not for booleans of NumPy's.
pub fn positive(slf: &Bound<'_, PyArray>) -> PyResult<Py<PyAny>> {
    let array = slf.get().read()?;
    let is_bool = array.dtype() == DType::Bool;
    let out = match slf.get().scalar_kind() {
        ScalarKind::PythonNumber if is_bool => wrap(
            slf.py(),
            array.cast(DType::I64).or_raise()?,
            ScalarKind::PythonNumber,
        )?,
        _ if is_bool => {
            return Err(PyTypeError::new_err("positive: not defined for dtype bool"));
        }
        ScalarKind::Array => wrap_result(slf.py(), array)?,
        scalar_kind => wrap(slf.py(), array, scalar_kind)?,
    };
    Ok(out.unbind())
}

/// Arrays of one inexact dtype, or such an array and a Python number or a NumPy scalar, meet without any promotion. With
/// them, whether the other one is a number of Python.
#[inline]
pub fn fast(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
) -> PyResult<Option<(Array, Array, bool)>> {
    let x = read_number(slf)?;
    if !x.dtype().is_inexact() {
        return Ok(None);
    }
    if other.is_exact_instance_of::<PyFloat>() {
        let y = Array::float(x.dtype(), other.extract()?);
        return Ok(Some((x, y, true)));
    }
    if other.is_exact_instance_of::<PyInt>() {
        let exact = other
            .extract()
            .ok()
            .filter(|n: &i64| n.unsigned_abs() <= EXACT);
        return Ok(exact.map(|n| {
            let y = Array::float(x.dtype(), n as f64);
            (x, y, true)
        }));
    }
    let Ok(other) = other.cast::<PyArray>() else {
        // A float of NumPy's, of the same dtype.
        let found = dtype_of_scalar(other)?.filter(|&dtype| dtype == x.dtype());
        return found.map_or(Ok(None), |dtype| {
            Ok(Some((x, Array::float(dtype, other.extract()?), false)))
        });
    };
    let y = read_number(other)?;
    let is_number = other.get().scalar_kind() == ScalarKind::PythonNumber;
    Ok((y.dtype() == x.dtype()).then_some((x, y, is_number)))
}

/// What is in a cell; a number of Python that is captured is noted, as [`Operand::of`] does.
#[inline]
fn read_number(cell: &Bound<'_, PyArray>) -> PyResult<Array> {
    let array = cell.get().read()?;
    if cell.get().scalar_kind() == ScalarKind::PythonNumber {
        escapes::capture_array(cell, &array);
    }
    Ok(array)
}

pub fn binary(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
    prim: Prim,
    swapped: bool,
) -> PyResult<Py<PyAny>> {
    let py = slf.py();
    interpreter_exit::rest(py);
    if let Some((x, y, is_number)) = fast(slf, other)? {
        let (x, y) = if swapped { (y, x) } else { (x, y) };
        let out = Array::apply2(prim, x, y).or_raise()?;
        let scalar_kind = if !out.shape().is_empty() {
            ScalarKind::Array
        } else if is_number && slf.get().scalar_kind() == ScalarKind::PythonNumber {
            guard_number(py, prim, &out)?;
            ScalarKind::PythonNumber
        } else {
            ScalarKind::NumpyScalar
        };
        return Ok(wrap(py, out, scalar_kind)?.unbind());
    }
    if !swapped && is_answered_by(slf, other, prim)? || prim == ops::MUL && repeats(slf, other)? {
        return Ok(py.NotImplemented()); // the sequence is asked next
    }
    let operand = Operand::of(other);
    if !matches!(operand, Ok(Some(_))) {
        if let Some((prim, number)) = comparisons::as_with_float(slf, other, prim)? {
            return binary(slf, PyFloat::new(py, number).as_any(), prim, false);
        }
        if let Some(out) = comparisons::unequal(slf, other, prim)? {
            return Ok(out);
        }
    }
    if operand.is_err() && !slf.get().read()?.is_active() && is_of_numpy(other)? {
        // A dtype that no `Array` has, beside a constant.
        return called(slf, other, prim.0.numpy, swapped)
            .map(|out| out.unwrap_or(py.NotImplemented()));
    }
    let Some(y) = operand? else {
        // A text would otherwise try to repeat itself, or to be concatenated.
        if other.is_instance_of::<PyString>() || other.is_instance_of::<PyBytes>() {
            Operand::expect(prim.name(), other)?;
        }
        return foreign(slf, other, prim.0.numpy, swapped);
    };
    let x = Operand::expect(prim.name(), slf.as_any())?;
    let operands = if swapped { vec![y, x] } else { vec![x, y] };
    let (array, scalar_kind) = elementwise(py, prim, operands, true)?;
    Ok(wrap(py, array, scalar_kind)?.unbind())
}

/// What `divmod` gives; `NotImplemented` where the other one is asked next.
pub fn quotient_and_rest(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
    swapped: bool,
) -> PyResult<Py<PyAny>> {
    let py = slf.py();
    let quotient = binary(slf, other, ops::FLOOR_DIVIDE, swapped)?;
    if quotient.is(py.NotImplemented()) {
        return Ok(quotient);
    }
    let rest = binary(slf, other, ops::REMAINDER, swapped)?;
    Ok((quotient, rest).into_pyobject(py)?.into_any().unbind())
}

/// How the right operand is asked.
const REFLECTED: [(Prim, &str); 15] = [
    (ops::ADD, "__radd__"),
    (ops::SUB, "__rsub__"),
    (ops::MUL, "__rmul__"),
    (ops::DIV, "__rtruediv__"),
    (ops::FLOOR_DIVIDE, "__rfloordiv__"),
    (ops::REMAINDER, "__rmod__"),
    (ops::POW, "__rpow__"),
    (ops::LEFT_SHIFT, "__rlshift__"),
    (ops::RIGHT_SHIFT, "__rrshift__"),
    (ops::EQ, "__eq__"),
    (ops::NE, "__ne__"),
    (ops::LT, "__gt__"),
    (ops::LE, "__ge__"),
    (ops::GT, "__lt__"),
    (ops::GE, "__le__"),
];

/// Whether Python asks the right operand, one of a class that derives from `list`, `tuple`, `str` or `bytes` and has this
/// operator: a number of Python knows no sequences.
fn is_answered_by(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
    prim: Prim,
) -> PyResult<bool> {
    if slf.get().scalar_kind() != ScalarKind::PythonNumber {
        return Ok(false);
    }
    let py = slf.py();
    let base = if other.is_instance_of::<PyTuple>() {
        py.get_type::<PyTuple>()
    } else if other.is_instance_of::<PyList>() {
        py.get_type::<PyList>()
    } else if other.is_instance_of::<PyString>() {
        py.get_type::<PyString>()
    } else if other.is_instance_of::<PyBytes>() {
        py.get_type::<PyBytes>()
    } else {
        return Ok(false);
    };
    let class = other.get_type();
    if class.is(&base) {
        return Ok(false);
    }
    let Some((_, name)) = REFLECTED.iter().find(|(known, _)| *known == prim) else {
        return Ok(false);
    };
    // Sequences have some of them: `__rmul__`, and comparisons with each other.
    let Some(own) = class.getattr_opt(*name)? else {
        return Ok(false);
    };
    Ok((base.getattr_opt(*name)?).is_none_or(|inherited| !inherited.is(&own)))
}

/// Whether a product is a sequence that is repeated: `[x] * n`, where `n` is an integer that was computed. Other numbers
/// of Python are refused, as by Python.
fn repeats(slf: &Bound<'_, PyArray>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_sequence = other.is_instance_of::<PyList>()
        || other.is_instance_of::<PyTuple>()
        || other.is_instance_of::<PyString>()
        || other.is_instance_of::<PyBytes>();
    if !is_sequence {
        return Ok(false);
    }
    let dtype = slf.get().read()?.dtype();
    match (slf.get().scalar_kind(), dtype.kind()) {
        (ScalarKind::Array, _) => Ok(false),
        (_, Kind::Integer) | (ScalarKind::PythonNumber, Kind::Bool) => Ok(true),
        (ScalarKind::NumpyScalar, _) => Ok(false),
        (ScalarKind::PythonNumber, _) => Err(PyTypeError::new_err(format!(
            "multiply: cannot repeat a {} by a number of dtype {}: where an integer argument counts, hold it \
             constant with ct.const; to multiply the elements, make an array of them",
            other.get_type().name()?.to_string_lossy(),
            dtype.numpy_name(),
        ))),
    }
}

/// What an operator gives for an object that is no [`Operand`]. One that knows ufuncs is asked as a
/// ufunc asks it; one that has none of them, and a subclass of ndarray, is left to its own operators, as by
/// NumPy's arrays.
///
/// `spelled` is how the operation is written in NumPy, such as `np.add({0}, {1})`.
pub fn foreign(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
    spelled: &str,
    swapped: bool,
) -> PyResult<Py<PyAny>> {
    let py = slf.py();
    let knows = (other.get_type())
        .getattr_opt(intern!(py, "__array_ufunc__"))?
        .is_some_and(|method| !method.is_none());
    if !knows || other.is_instance_of::<PyUntypedArray>() {
        return Ok(py.NotImplemented());
    }
    called(slf, other, spelled, swapped).map(|out| out.unwrap_or(py.NotImplemented()))
}

/// What the ufunc of an operator gives; `None` where it is none of NumPy's.
fn called(
    slf: &Bound<'_, PyArray>,
    other: &Bound<'_, PyAny>,
    spelled: &str,
    swapped: bool,
) -> PyResult<Option<Py<PyAny>>> {
    let name = spelled
        .strip_prefix("np.")
        .and_then(|text| text.split('(').next());
    let Some(name) = name else {
        return Ok(None);
    };
    let ufunc = slf.py().import("numpy")?.getattr(name)?;
    let arguments = if swapped {
        (other, slf.as_any())
    } else {
        (slf.as_any(), other)
    };
    Ok(Some(ufunc.call1(arguments)?.unbind()))
}

/// Whether something is an array or a scalar of NumPy's.
fn is_of_numpy(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyUntypedArray>() || is_numpy_scalar(object)?)
}

/// Logical on bools, bitwise on integers.
pub fn bits(slf: &Bound<'_, PyArray>, other: &Bound<'_, PyAny>, prim: Prim) -> PyResult<Py<PyAny>> {
    binary(slf, other, prim, false)
}

/// Whether an array of this inexact dtype needs no promotion for a primitive.
fn accepts(prim: Prim, x: &Array) -> bool {
    let dtype = x.dtype();
    dtype.is_inexact()
        && matches!(&prim.0.class, Class::Elementwise { types, .. } if types.accept(dtype))
}

/// Operands of an elementwise primitive given as Python objects.
pub fn apply_elementwise<'py>(
    py: Python<'py>,
    prim: Prim,
    arguments: &[&Bound<'py, PyAny>],
) -> PyResult<Bound<'py, PyAny>> {
    // The commonest call: one array of an inexact dtype.
    if let [x] = arguments
        && let Ok(array) = x.cast::<PyArray>()
    {
        let scalar_kind = array.get().scalar_kind();
        let array = array.get().read()?;
        if prim == ops::SIGN && array.dtype().is_complex() && array.is_active() {
            return hooks::SIGN_OF_COMPLEX.get(py)?.call1((*x,));
        }
        if scalar_kind != ScalarKind::PythonNumber && accepts(prim, &array) {
            return wrap_result(py, Array::apply1(prim, array).or_raise()?);
        }
    }
    if let [x, y] = arguments
        && let Ok(x) = x.cast::<PyArray>()
        && let Some((x, y, _)) = fast(x, y)?
        && accepts(prim, &x)
    {
        return wrap_result(py, Array::apply2(prim, x, y).or_raise()?);
    }
    let mut operands = Vec::with_capacity(arguments.len());
    for argument in arguments {
        operands.push(Operand::expect(prim.name(), argument)?);
    }
    let (array, scalar_kind) = elementwise(py, prim, operands, false)?;
    wrap(py, array, scalar_kind)
}

/// Records an elementwise primitive on operands: common dtype, then the dtype it computes in.
fn elementwise(
    py: Python<'_>,
    prim: Prim,
    operands: Vec<Operand>,
    keeps_numbers: bool,
) -> PyResult<(Array, ScalarKind)> {
    let Class::Elementwise { types, .. } = &prim.0.class else {
        return Err(PyTypeError::new_err(format!(
            "{}: is not elementwise",
            prim.name()
        )));
    };
    let is_where = prim.0.args.len() == 3;
    let scalar_kind = result_kind(&operands, keeps_numbers);
    let mut operands = operands.into_iter();
    let mut arrays: smallvec::SmallVec<[Array; 3]> = smallvec::SmallVec::new();
    if is_where && let Some(cond) = operands.next() {
        arrays.push(cond.cast(DType::Bool)?);
    }
    let rest: Vec<Operand> = operands.collect();
    let common = match common_dtype(&rest) {
        // Python's own booleans are integers: `(x > 0) + (y > 0)`.
        DType::Bool
            if keeps_numbers && scalar_kind == ScalarKind::PythonNumber && !joins_bits(prim) =>
        {
            DType::I64
        }
        dtype => dtype,
    };
    let dtype = types.compute(common).ok_or_else(|| {
        let message = format!(
            "{}: not defined for dtype {}",
            prim.name(),
            common.numpy_name()
        );
        PyTypeError::new_err(message)
    })?;
    // An integer that the dtype cannot hold can still be compared with.
    let compares = [ops::EQ, ops::NE, ops::LT, ops::LE, ops::GT, ops::GE].contains(&prim);
    let wide = compares && rest.iter().any(|o| o.beyond(dtype).is_some());
    let dtype = match wide {
        false => dtype,
        // A float is good enough to tell on which side of all others a number lies.
        true if dtype == DType::U64 || rest.iter().any(|o| o.huge().is_some()) => DType::F64,
        true => DType::I64,
    };
    for operand in rest {
        arrays.push(operand.cast(dtype)?);
    }
    if prim == ops::POW && dtype.kind() == Kind::Integer {
        expect_natural(py, &arrays)?;
    }
    let inputs: smallvec::SmallVec<[&Array; 3]> = arrays.iter().collect();
    let mut out = Array::apply(prim, Params::None, &inputs).or_raise()?;
    if prim == ops::RECIPROCAL && matches!(common.kind(), Kind::Bool | Kind::Integer) {
        // NumPy divides integers as C does: the quotient is cut off.
        let whole = if common == DType::Bool {
            DType::I8
        } else {
            common
        };
        out = out.cast(whole).or_raise()?;
    }
    let scalar_kind = if out.shape().is_empty() {
        scalar_kind
    } else {
        ScalarKind::Array
    };
    if scalar_kind == ScalarKind::PythonNumber {
        guard_number(py, prim, &out)?;
    }
    Ok((out, scalar_kind))
}

/// Lets a prepared function notice where Python raises an error for its numbers.
fn guard_number(py: Python<'_>, prim: Prim, out: &Array) -> PyResult<()> {
    let may_raise = [ops::DIV, ops::FLOOR_DIVIDE, ops::REMAINDER, ops::POW];
    if may_raise.contains(&prim) {
        escapes::guard_finite(py, out)?;
    }
    Ok(())
}

/// Whether an operator gives a boolean for two of Python's.
fn joins_bits(prim: Prim) -> bool {
    [ops::BITWISE_AND, ops::BITWISE_OR, ops::BITWISE_XOR].contains(&prim)
}

/// Refuses integer powers with a negative exponent somewhere, as NumPy does: the result would not be an
/// integer. The exponents are computed for that.
fn expect_natural(py: Python<'_>, arrays: &[Array]) -> PyResult<()> {
    let [base, exponent] = arrays else {
        return Ok(());
    };
    if base.aval().size() == 0 || exponent.aval().size() == 0 || exponent.dtype().is_unsigned() {
        return Ok(());
    }
    let axes = (0..exponent.shape().len()).collect();
    let zero = Array::number(exponent.dtype(), Number::Int(0));
    let least = Array::apply(ops::MIN, Params::Axes(axes), &[exponent]).or_raise()?;
    let is_negative = Array::apply(ops::LT, Params::None, &[&least, &zero]).or_raise()?;
    if (escapes::guard(py, &is_negative)?.item()).is_some_and(|z| z.re != 0.0) {
        return Err(PyValueError::new_err(
            "pow: integers to negative integer powers are not allowed; make the base a float, as in \
             x.astype(float) ** -1",
        ));
    }
    Ok(())
}

/// What NumPy would hand out for a zero-dimensional result: a scalar, or a Python number when only
/// those went in and no ufunc was called.
fn result_kind(operands: &[Operand], keeps_numbers: bool) -> ScalarKind {
    let numbers = operands
        .iter()
        .all(|o| o.scalar_kind() == ScalarKind::PythonNumber);
    if keeps_numbers && numbers {
        ScalarKind::PythonNumber
    } else {
        ScalarKind::NumpyScalar
    }
}

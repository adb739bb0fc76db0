//! What a rule of a solver computes of a solution that was found, and of the result that it is a part of.

use std::borrow::Cow;

use cotan::DType;
use cotan::kernels::dense;
use numpy::ndarray::Dimension;
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDyn, PyArrayMethods, PyReadonlyArray, PyReadonlyArray2,
    PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::array::cell::{PyArray, ScalarKind};
use crate::ndarray::dtype::{dtype_of, dtype_of_scalar};
use crate::runtime::error::enter;
use crate::runtime::exports::exports;
use crate::runtime::once_cell::intern;
use crate::solvers::outputs::expect;

exports!(
    are_outputs,
    leaves_like,
    regular_inverse,
    slopes_of_solution
);

/// The inverse of a matrix that is far from a singular one, whose condition is below `most`; None of another one.
#[pyfunction]
#[pyo3(signature = (matrix: "NDArray", most: "float") -> "NDArray | None")]
pub fn regular_inverse<'py>(
    py: Python<'py>,
    matrix: PyReadonlyArray2<'py, f64>,
    most: f64,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let order = matrix.shape()[0];
    expect(matrix.shape() == [order, order])?;
    let elements = matrix.as_slice()?;
    let found = enter(py, |_| Ok(dense::regular_inverse(order, elements, most)))?;
    let found = found.map(|found| PyArray1::from_vec(py, found).reshape([order, order]));
    Ok(found.transpose()?.map(Bound::into_any))
}

/// The elements in C order.
fn in_order<'a, D: Dimension>(array: &'a PyReadonlyArray<'_, f64, D>) -> Cow<'a, [f64]> {
    match array.as_slice() {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(array.as_array().iter().copied().collect()),
    }
}

/// How a solution moves with numbers that its equations depend on: a row for each of its own numbers, with the derivatives
/// with respect to all leaves.
///
/// Takes the inverse of the derivatives of the equations with respect to the solution, what they leave there, and their
/// derivatives with respect to each leaf. None where a step of Newton's method would move the solution by more than `far`
/// times its size, or where a derivative is infinite or NaN.
#[pyfunction]
#[pyo3(signature = (
    x: "NDArray",
    rest: "NDArray",
    inverse: "NDArray",
    of_leaves: "Sequence[NDArray]",
    far: "float"
) -> "NDArray | None")]
pub fn slopes_of_solution<'py>(
    x: PyReadonlyArrayDyn<'py, f64>,
    rest: PyReadonlyArrayDyn<'py, f64>,
    inverse: PyReadonlyArray2<'py, f64>,
    of_leaves: Vec<PyReadonlyArrayDyn<'py, f64>>,
    far: f64,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, n) = (x.py(), x.len());
    let parts: Vec<_> = of_leaves.iter().map(in_order).collect();
    let parts: Vec<&[f64]> = parts.iter().map(AsRef::as_ref).collect();
    let fits = n > 0 && parts.iter().all(|part| part.len() % n == 0);
    expect(fits && rest.len() == n && inverse.shape() == [n, n])?;
    let (x, rest, inverse) = (in_order(&x), in_order(&rest), in_order(&inverse));
    let found = enter(py, |_| {
        Ok(dense::slopes_of_solution(&x, &rest, &inverse, &parts, far))
    })?;
    let found = found.map(|found| {
        let width = found.len() / n;
        PyArray1::from_vec(py, found).reshape([n, width])
    });
    Ok(found.transpose()?.map(Bound::into_any))
}

/// The arrays and numbers in a result that is built like another one, whose layout is given (`kit/result_layout.py`): its
/// parts, and of what kind its arrays and numbers are. None where it is built otherwise, and where that takes long to
/// tell. An `Array` has to be one of those that are known.
#[pyfunction]
#[pyo3(signature = (
    result: "object",
    parts: "tuple[Any, ...]",
    ranks: "tuple[str, ...]",
    known: "Sequence[Array]"
) -> "list[Any] | None")]
pub fn leaves_like<'py>(
    result: &Bound<'py, PyAny>,
    parts: &Bound<'py, PyTuple>,
    ranks: &Bound<'py, PyTuple>,
    known: Vec<PyRef<'py, PyArray>>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let mut taking = Taking {
        ranks,
        known: &known,
        leaves: Vec::with_capacity(ranks.len()),
    };
    let is_like = taking.of(result, parts)? && taking.leaves.len() == ranks.len();
    let leaves = is_like.then(|| PyList::new(result.py(), taking.leaves));
    leaves.transpose()
}

/// Takes a result apart along a layout.
struct Taking<'a, 'py> {
    ranks: &'a Bound<'py, PyTuple>,
    known: &'a [PyRef<'py, PyArray>],
    leaves: Vec<Bound<'py, PyAny>>,
}

impl<'py> Taking<'_, 'py> {
    /// Whether a value is built like that.
    fn of(&mut self, value: &Bound<'py, PyAny>, parts: &Bound<'py, PyTuple>) -> PyResult<bool> {
        let part = |i: usize| parts.get_item(i);
        let sort = part(0)?;
        match sort.cast::<PyString>()?.to_str()? {
            "leaf" => self.leaf(value),
            "constant" => Ok(
                value.get_type().is(&part(1)?) && (value.is(&part(2)?) || value.eq(part(2)?)?)
            ),
            "object" => {
                let is_class = value.get_type().is(&part(1)?);
                let (items, names, inner) = (part(2)?, part(3)?, part(4)?);
                Ok(is_class
                    && self.items(value, items.cast()?)?
                    && self.attributes(value, names.cast()?, inner.cast()?)?)
            }
            // An object that is there more than once.
            _ => Ok(false),
        }
    }

    fn leaf(&mut self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        let Ok(rank) = self.ranks.get_item(self.leaves.len()) else {
            return Ok(false);
        };
        let found = if let Ok(array) = value.cast::<PyArray>() {
            if !self
                .known
                .iter()
                .any(|known| known.as_ptr() == value.as_ptr())
            {
                return Ok(false);
            }
            array.get().scalar_kind()
        } else if value.is_exact_instance_of::<PyUntypedArray>() {
            ScalarKind::Array
        } else if dtype_of_python(value).is_some() {
            ScalarKind::PythonNumber
        } else if dtype_of_scalar(value)?.is_some() {
            ScalarKind::NumpyScalar
        } else {
            return Ok(false);
        };
        self.leaves.push(value.clone());
        Ok(rank.cast::<PyString>()?.to_str()? == found.name())
    }

    /// What a dictionary, a list or a tuple has in it.
    fn items(&mut self, value: &Bound<'py, PyAny>, items: &Bound<'py, PyTuple>) -> PyResult<bool> {
        if let Ok(dict) = value.cast::<PyDict>() {
            if dict.len() != items.len() {
                return Ok(false);
            }
            // What compares keys may be anybody's code.
            let pairs: Vec<_> = dict.iter().collect();
            for ((key, value), item) in pairs.iter().zip(items) {
                let (known, part): (Bound<'py, PyAny>, Bound<'py, PyTuple>) = item.extract()?;
                if !(key.is(&known) || key.eq(known)?) || !self.of(value, &part)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let values: Vec<_> = if let Ok(tuple) = value.cast::<PyTuple>() {
            tuple.iter().collect()
        } else if let Ok(list) = value.cast::<PyList>() {
            list.iter().collect()
        } else {
            Vec::new()
        };
        if values.len() != items.len() {
            return Ok(false);
        }
        for (value, part) in values.iter().zip(items) {
            if !self.of(value, part.cast()?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn attributes(
        &mut self,
        value: &Bound<'py, PyAny>,
        names: &Bound<'py, PyTuple>,
        inner: &Bound<'py, PyTuple>,
    ) -> PyResult<bool> {
        let Some(attributes) = value.getattr_opt(intern!(value.py(), "__dict__"))? else {
            return Ok(names.is_empty());
        };
        let Ok(attributes) = attributes.cast_into::<PyDict>() else {
            return Ok(false);
        };
        if attributes.len() != names.len() {
            return Ok(false);
        }
        let pairs: Vec<_> = attributes.iter().collect();
        for ((name, value), (known, part)) in pairs.iter().zip(names.iter().zip(inner)) {
            if !name.eq(known)? || !self.of(value, part.cast()?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The dtype that NumPy gives a number of Python's.
fn dtype_of_python(value: &Bound<'_, PyAny>) -> Option<DType> {
    if value.is_exact_instance_of::<PyFloat>() {
        Some(DType::F64)
    } else if value.is_exact_instance_of::<PyBool>() {
        Some(DType::Bool)
    } else if value.is_exact_instance_of::<PyInt>() {
        Some(DType::I64)
    } else if value.is_exact_instance_of::<PyComplex>() {
        Some(DType::C128)
    } else {
        None
    }
}

fn dtype_of_number(value: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    match dtype_of_python(value) {
        Some(dtype) => Ok(Some(dtype)),
        None => dtype_of_scalar(value),
    }
}

/// Whether all numbers are; of dtypes that no solver gives, none is.
fn is_finite(value: &Bound<'_, PyAny>) -> bool {
    if let Ok(number) = value.extract::<f64>() {
        return number.is_finite();
    }
    match value.cast::<PyArrayDyn<f64>>() {
        Ok(array) => {
            (array.try_readonly()).is_ok_and(|array| array.as_array().iter().all(|x| x.is_finite()))
        }
        Err(_) => false,
    }
}

/// Whether numbers and arrays have these dtypes and shapes, and whether those with these numbers are finite.
#[pyfunction]
#[pyo3(signature = (
    values: "Sequence[Any]",
    outputs: "Sequence[tuple[np.dtype[Any], tuple[int, ...]]]",
    finite: "Iterable[int]"
) -> "bool")]
pub fn are_outputs(
    values: Vec<Bound<'_, PyAny>>,
    outputs: Vec<(Bound<'_, PyArrayDescr>, Vec<usize>)>,
    finite: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    if values.len() != outputs.len() {
        return Ok(false);
    }
    for (value, (dtype, shape)) in values.iter().zip(&outputs) {
        let is_one = match value.cast_exact::<PyUntypedArray>() {
            Ok(array) => {
                array.shape() == shape.as_slice() && dtype_of(&array.dtype())? == dtype_of(dtype)?
            }
            Err(_) => shape.is_empty() && dtype_of_number(value)? == Some(dtype_of(dtype)?),
        };
        if !is_one {
            return Ok(false);
        }
    }
    for i in finite.try_iter()? {
        let Some(value) = values.get(i?.extract::<usize>()?) else {
            return Ok(false);
        };
        if !is_finite(value) {
            return Ok(false);
        }
    }
    Ok(true)
}

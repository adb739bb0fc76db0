//! Reads the commonest keys with index arrays without a call of Python: arrays of integers, and masks, for the
//! first axes. Other keys, and wrong ones, are left to the general code in Python, whose errors say what is wrong.

use cotan::aval::{Shape, broadcast};
use cotan::prim::{Class, Params, Prim};
use cotan::{Array, DType, Number, aval, kernels, ops};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use crate::array::cell::{PyArray, ScalarKind, wrap};
use crate::array::escapes;
use crate::array::operand::Operand;
use crate::runtime::error::OrRaise;
use crate::runtime::exports::exports;

exports!(is_elementwise);

/// Positions along one axis, and their shape.
type Positions = (Shape, Vec<i64>);

/// `x[key]` for index arrays and masks that stand at the first axes.
pub fn read<'py>(
    slf: &Bound<'py, PyArray>,
    key: &Bound<'py, PyAny>,
    shape: &[usize],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if escapes::is_on() {
        return Ok(None);
    }
    let items: SmallVec<[Bound<'py, PyAny>; 4]> = match key.cast::<PyTuple>() {
        Ok(items) => items.iter().collect(),
        Err(_) => SmallVec::from_iter([key.clone()]),
    };
    let mut indices: SmallVec<[Positions; 4]> = SmallVec::new();
    let mut chosen = None;
    for item in &items {
        let Some(array) = index(item)? else {
            return Ok(None);
        };
        let rest = &shape[indices.len().min(shape.len())..];
        let found = if array.dtype() == DType::Bool {
            mask(&array, rest)?
        } else {
            integers(&array, rest)?
        };
        let Some(found) = found else {
            return Ok(None);
        };
        indices.extend(found);
        chosen = (items.len() == 1 && array.dtype() == DType::Bool).then_some(array);
    }
    let Some((common, rows)) = combined(&indices, shape)? else {
        return Ok(None);
    };
    let (first, rest) = shape.split_at(indices.len());
    let mut front = Shape::from_slice(&[first.iter().product()]);
    front.extend_from_slice(rest);
    let x = slf.get().read()?;
    let x = match chosen.filter(|_| is_elementwise(slf)) {
        Some(mask) => only(&mask, &x).or_raise()?,
        None => x,
    };
    let x = x.reshape(&front).or_raise()?;
    let rows = Array::from_slice(&common, &rows).or_raise()?;
    let taken = Array::apply(ops::GATHER, Params::None, &[&x, &rows]).or_raise()?;
    Ok(Some(wrap(slf.py(), taken, ScalarKind::Array)?))
}

/// An array, but for elements that a mask of its first axes leaves out. What is not read has no derivative then,
/// whatever it is: `y = log(x); y[x > 0]`.
fn only(mask: &Array, x: &Array) -> cotan::Result<Array> {
    let mut shape = Shape::from_slice(mask.shape());
    shape.resize(x.shape().len(), 1);
    let mask = mask.reshape(&shape)?.broadcast_to(x.shape())?;
    let zero = Array::number(x.dtype(), Number::Int(0));
    Array::apply(ops::WHERE, Params::None, &[&mask, x, &zero])
}

/// An item of a key as an array whose elements are known.
fn index(item: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let known = item.is_exact_instance_of::<PyUntypedArray>()
        || item.is_instance_of::<PyArray>() && !crate::array::traced::is_traced(item)?;
    if !known {
        return Ok(None);
    }
    let array = match Operand::of(item) {
        Ok(Some(operand)) => operand.array()?,
        // A dtype that cotan does not have, say.
        _ => return Ok(None),
    };
    let fits = array.dtype() == DType::Bool || array.dtype().kind() == aval::Kind::Integer;
    Ok((fits && !array.shape().is_empty() && !array.is_active()).then_some(array))
}

/// An array of integers as positions along the first of these axes.
fn integers(array: &Array, axes: &[usize]) -> PyResult<Option<SmallVec<[Positions; 4]>>> {
    let Some(&n) = axes.first() else {
        return Ok(None);
    };
    let n = n as i64;
    let index = array.cast(DType::I64).or_raise()?;
    let mut positions = index.to_vec::<i64>().or_raise()?;
    for p in &mut positions {
        *p += if *p < 0 { n } else { 0 };
        if *p < 0 || *p >= n {
            return Ok(None);
        }
    }
    Ok(Some(SmallVec::from_iter([(
        array.shape().into(),
        positions,
    )])))
}

/// A mask as positions along the axes that it selects from.
fn mask(array: &Array, axes: &[usize]) -> PyResult<Option<SmallVec<[Positions; 4]>>> {
    let shape = array.shape();
    if axes.get(..shape.len()) != Some(shape) {
        return Ok(None);
    }
    let mask = array.to_vec::<bool>().or_raise()?;
    let mut chosen = kernels::empty_list(mask.iter().filter(|&&m| m).count()).or_raise()?;
    chosen.extend((0..).zip(&mask).filter_map(|(i, &m)| m.then_some(i)));
    let mut found = SmallVec::new();
    let mut size = mask.len() as i64;
    for &n in shape {
        size /= (n as i64).max(1);
        let along = |&at: &i64| at / size.max(1) % n as i64;
        let mut positions = kernels::empty_list(chosen.len()).or_raise()?;
        positions.extend(chosen.iter().map(along));
        found.push((Shape::from_slice(&[chosen.len()]), positions));
    }
    Ok(Some(found))
}

/// Positions along the first axes as positions along them taken as one.
fn combined(indices: &[Positions], shape: &[usize]) -> PyResult<Option<Positions>> {
    let Some((first, others)) = indices.split_first() else {
        return Ok(None);
    };
    let mut common = first.0.clone();
    for (shape, _) in others {
        let Some(both) = broadcast(&common, shape) else {
            return Ok(None);
        };
        common = both;
    }
    let count = common.iter().product();
    let mut rows = kernels::empty_list(count).or_raise()?;
    rows.resize(count, 0);
    for ((own, positions), &n) in indices.iter().zip(shape) {
        if *own == common {
            for (row, p) in rows.iter_mut().zip(positions) {
                *row = *row * n as i64 + p;
            }
            continue;
        }
        for (at, row) in rows.iter_mut().enumerate() {
            *row = *row * n as i64 + positions[repeated(at, &common, own)];
        }
    }
    Ok(Some((common, rows)))
}

/// Which element of an array of the shape `own` stands at a place of the shape that it broadcasts to.
fn repeated(mut at: usize, common: &[usize], own: &[usize]) -> usize {
    let (mut found, mut stride) = (0, 1);
    for (&n, &m) in common.iter().rev().zip(own.iter().rev()) {
        if m != 1 {
            found += at % n * stride;
        }
        stride *= m;
        at /= n;
    }
    found
}

/// Whether an array is what such a primitive has just made, and active.
pub fn is_made_by(x: &PyArray, test: impl Fn(Prim) -> bool) -> bool {
    x.holds(|array| array.primitive().is_some_and(test) && escapes::loses_derivative(array))
}

/// Whether an elementwise operation has just made an active array: elements of it may be infinite, or
/// have an infinite slope.
#[pyfunction]
#[pyo3(signature = (x: "Array") -> "bool")]
pub fn is_elementwise(x: &Bound<'_, PyArray>) -> bool {
    is_made_by(x.get(), |prim| {
        matches!(prim.0.class, Class::Elementwise { .. })
    })
}

//! Writes to views in which an element occurs several times, such as overlapping windows.

use std::sync::Arc;

use cotan::Array;
use cotan::aval::{Shape, row_major};
use cotan::ops;
use cotan::prim::Params;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::array::cell::PyArray;
use crate::array::escapes::compute;
use crate::array::view_op::Gathered;
use crate::array::view_op::ViewOp;
use crate::ndarray::export::to_ndarray;
use crate::runtime::error::OrRaise;
use crate::runtime::hooks;

impl PyArray {
    /// Where its elements are, in row-major order, in the array that its chain of views begins at, and that.
    pub(crate) fn traced_back(&self) -> PyResult<(Array, &PyArray)> {
        let (chain, first) = self.chain();
        let shape = chain
            .last()
            .map_or_else(|| self.own_shape(), |view| view.shape.clone());
        let all: Vec<i64> = (0..shape.iter().product::<usize>() as i64).collect();
        let mut at = Array::from_slice(&shape, &all).or_raise()?;
        for view in chain.iter().rev() {
            at = view.op.read(&at.reshape(&view.shape).or_raise()?)?;
        }
        Ok((at.reshape(&self.own_shape()).or_raise()?, first))
    }

    /// The array that its chain of views begins at, along one axis, and where its own elements are in that.
    pub fn beneath<'py>(
        slf: &Bound<'py, PyArray>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let (positions, _) = slf.get().traced_back()?;
        let (chain, _) = slf.get().chain();
        let first = chain
            .last()
            .map_or_else(|| slf.clone(), |view| view.base.bind(py).clone());
        let size = first.get().cell().array.aval().size();
        let flat = ViewOp::Reshape(Shape::from_slice(&[size]));
        let flat = Bound::new(py, PyArray::view_of(&first, flat)?)?.into_any();
        Ok((flat, to_ndarray(py, compute(py, &positions)?)?))
    }

    /// Whether it shows windows that overlap, or something of them, and can be written to.
    pub fn overlaps(&self) -> bool {
        let mut array = self;
        while let Some(view) = array.view.as_deref() {
            if view.op.overlaps() {
                return self.is_writeable();
            }
            array = view.base.get();
        }
        false
    }

    /// Writes to windows that overlap, or to something of them: to where the chain of views begins, so that nothing
    /// else is written. An element that is there twice is refused.
    pub(crate) fn write_beneath(&self, array: &Array) -> PyResult<()> {
        self.expect_positions()?;
        let (positions, first) = self.traced_back()?;
        let positions = positions.to_vec::<i64>().or_raise()?;
        scattered(first, &positions, &self.own_shape(), array)
    }

    /// Parts of complex numbers have no positions of their own in what they are parts of.
    fn expect_positions(&self) -> PyResult<()> {
        if self.chain().0.is_empty() {
            return Err(PyTypeError::new_err(
                "the real or imaginary part of windows that overlap cannot be written; write to the windows \
                 themselves, or to the part of the array that they show",
            ));
        }
        Ok(())
    }

    /// Gives it another value as an assignment does that writes all of it: of elements that are there twice, the
    /// one stays that NumPy writes last.
    pub fn write_all(&self, py: Python<'_>, array: Array) -> PyResult<()> {
        if !self.overlaps() {
            return self.write(array);
        }
        self.expect_positions()?;
        let (positions, first) = self.traced_back()?;
        let rule = hooks::WRITTEN_LAST.get(py)?;
        let known = to_ndarray(py, compute(py, &positions)?)?;
        let last: Vec<i64> = rule
            .call1((known, self.own_strides().to_vec()))?
            .extract()?;
        let positions = positions.to_vec::<i64>().or_raise()?;
        let positions: Vec<i64> = last.iter().map(|&i| positions[i as usize]).collect();
        let flat = array.reshape(&[array.aval().size()]).or_raise()?;
        let which = Array::from_slice(&[last.len()], &last).or_raise()?;
        let value = Array::apply(ops::GATHER, Params::None, &[&flat, &which]).or_raise()?;
        scattered(first, &positions, value.shape(), &value)
    }
}

/// Writes elements to their positions in an array.
fn scattered(to: &PyArray, positions: &[i64], shape: &[usize], value: &Array) -> PyResult<()> {
    let gathered = Gathered::new(positions, shape, &row_major(shape), true, None)?;
    to.write(ViewOp::Gather(Arc::new(gathered)).write(&to.read()?, value)?)
}

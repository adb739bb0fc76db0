//! Writes to an array in place: whole values, rows and single elements, through views and into memory that is lent.

use cotan::Array;
use cotan::aval::Shape;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

use crate::array::captured_leaves;
use crate::array::cell::{Element, PyArray, is_read_otherwise};
use crate::array::host_inputs;
use crate::array::pending_writes;
use crate::array::view_op::ViewOp;
use crate::runtime::error::OrRaise;

impl PyArray {
    /// Gives the array another value of the same dtype and size, and whatever it is a view of.
    pub fn write(&self, array: Array) -> PyResult<()> {
        if self.view.is_some() && self.overlaps() {
            return self.write_beneath(&array);
        }
        if host_inputs::any() {
            self.note_write();
        }
        if captured_leaves::any() && self.write_bound(&array)? {
            return Ok(());
        }
        let mut seen = 0;
        if let Some(view) = &self.view {
            let base = view.base.get();
            let is_same = base.cell().array.shape() == view.shape.as_slice();
            if is_same && base.set_row(&view.op, &array)? {
                seen = base.cell().version;
            } else {
                let (source, _) = base.read_versioned()?;
                let source = source.reshape(&view.shape).or_raise()?;
                base.write(view.op.write(&source, &array)?)?;
                seen = base.read_versioned()?.1;
            }
        }
        let lent = self.cell().lent.clone();
        let goes_on = lent.as_ref().map_or(Ok(true), |lent| lent.write(&array))?;
        let mut cell = self.cell();
        if !goes_on {
            cell.end_lending();
        }
        cell.pieces = None;
        cell.array = array.reshape(cell.array.shape()).or_raise()?;
        cell.version += 1;
        cell.seen = seen;
        Ok(())
    }

    /// Writes an element, by its position in row-major order; false where that is not as simple.
    pub fn set_element(&self, at: usize, new: &Element) -> PyResult<bool> {
        if is_read_otherwise() {
            return Ok(false);
        }
        let Some((owner, at)) = self.owner(at) else {
            return Ok(false);
        };
        let mut cell = owner.cell();
        let dtype = cell.array.dtype();
        if cell.lent.is_some() || !dtype.is_inexact() || (new.is_complex() && !dtype.is_complex()) {
            return Ok(false);
        }
        let depth = cell.array.shape().len();
        if let Element::Number(number) = new {
            if cell.pieces.as_ref().is_some_and(|p| p.depth() != depth) {
                cell.settle()?;
            }
            if cell
                .array
                .write_number(at, number.as_complex())
                .or_raise()?
            {
                if let Some(pieces) = &mut cell.pieces {
                    pieces.remove(at);
                }
                cell.version += 1;
                return Ok(true);
            }
        }
        let array = match new {
            Element::Number(number) => Array::number(dtype, *number),
            Element::Array(array) => array.cast(dtype).or_raise()?,
        };
        cell.pieces(depth)?.insert(at, array);
        cell.version += 1;
        Ok(true)
    }

    /// Lets a row wait that a view of this shows; false where it is not one, or this is a view.
    pub fn set_row(&self, op: &ViewOp, new: &Array) -> PyResult<bool> {
        if self.view.is_some() || is_read_otherwise() {
            return Ok(false);
        }
        let mut cell = self.cell();
        let row = pending_writes::row(cell.array.shape(), op);
        let Some((depth, at)) = row.filter(|_| cell.lent.is_none()) else {
            return Ok(false);
        };
        let shape = Shape::from_slice(&cell.array.shape()[depth..]);
        let new = new.reshape(&shape).or_raise()?;
        cell.pieces(depth)?.insert(at, new);
        cell.version += 1;
        Ok(true)
    }

    /// Whether `value` is the view of this array that `part` selects. `x[1:] += y` writes through the view `x[1:]`, and then
    /// assigns that to `x[1:]`: everything is there already.
    pub fn shows_in(&self, part: ViewOp, value: &PyArray) -> bool {
        let Some(view) = value.view.as_deref() else {
            return false;
        };
        let is_view_of = |base: &PyArray| std::ptr::eq(base, view.base.get());
        let part = match self.view.as_deref() {
            None if is_view_of(self) && view.shape == self.own_shape() => Some(part),
            Some(outer) if is_view_of(outer.base.get()) && view.shape == outer.shape => {
                part.after(&outer.op, &outer.shape, &self.own_shape())
            }
            _ => None,
        };
        let (Some(ViewOp::Index(dims, shape)), ViewOp::Index(own, seen)) = (part, &view.op) else {
            return false;
        };
        dims == *own && shape == *seen && shape == value.own_shape() && self.is_writeable()
    }

    /// Notes a write for calls that are watched.
    pub(super) fn note_write(&self) {
        let mut owner = self;
        while let Some(view) = &owner.view {
            owner = view.base.get();
        }
        let bound = captured_leaves::get(owner);
        let array = bound.unwrap_or_else(|| owner.cell().array.clone());
        host_inputs::written(&array);
    }

    /// Writes to the leaf that it, or what it is a view of, is bound to in this thread; false if there is none.
    pub(super) fn write_bound(&self, array: &Array) -> PyResult<bool> {
        if captured_leaves::set(self, array) {
            return Ok(true);
        }
        let Some(view) = &self.view else {
            return Ok(false);
        };
        let base = view.base.get();
        match base.read_bound()? {
            Some(source) => base.write_bound(&view.op.write(&source, array)?),
            None => Ok(false),
        }
    }

    /// Gives the array another shape. Its views go on showing what they showed: the elements stay in
    /// their order.
    pub(crate) fn set_own_shape(&self, shape: &[usize]) -> PyResult<()> {
        let array = self.read()?;
        let op = ViewOp::Reshape(shape.into());
        let mut cell = self.cell();
        if !op.fits(array.shape(), cell.strides.as_deref()) {
            return Err(PyAttributeError::new_err(format!(
                "shape: a view of shape {} that is not contiguous cannot be given the shape {} in place; \
                 use x.reshape(shape), which makes a copy",
                cotan::aval::tuple(array.shape()),
                cotan::aval::tuple(shape)
            )));
        }
        cell.strides = (op.strides(array.shape(), cell.strides.as_deref())).map(Box::new);
        cell.array = array.reshape(shape).or_raise()?;
        Ok(())
    }
}

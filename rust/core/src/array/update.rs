//! Writes a strided region of an array, and tells what is written there from what is added to it.
//!
//! `x[1:] += y` reads a region, adds, and writes it back. As a replacement it would erase the cotangent of the region,
//! only to add the same one again, and everything behind it would have to be told where zeros are. As a sum, the
//! cotangent of `x` is that of the result as it stands.

use super::Array;
use crate::aval::{Shape, SliceDim};
use crate::error::Result;
use crate::ops;
use crate::prim::{Params, Prim};

impl Array {
    /// A copy in which a strided region is replaced.
    ///
    /// ```
    /// let x = cotan::Array::from_slice(&[3], &[1.0, 2.0, 3.0])?;
    /// let last = [cotan::aval::SliceDim { start: 1, len: 2, step: 1 }];
    /// let y = x.update(&last, &cotan::Array::from_slice(&[2], &[8.0, 9.0])?)?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 8.0, 9.0]);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn update(&self, dims: &[SliceDim], values: &Array) -> Result<Array> {
        let region: Shape = dims.iter().map(|d| d.len).collect();
        let values = values.cast(self.dtype())?.broadcast_to(&region)?;
        let params = Params::Slice(dims.into());
        match self.added(dims, &values)? {
            Some(term) => {
                let term = term.reshape(&region)?;
                Array::apply(ops::UPDATE_ADD, params, &[self, &term])
            }
            None => Array::apply(ops::UPDATE, params, &[self, &values]),
        }
    }

    /// What was added to a region of this array, if `values` are the sum of both; with as many elements.
    fn added(&self, dims: &[SliceDim], values: &Array) -> Result<Option<Array>> {
        // Without a derivative nothing is gained, and what is known need not be added again.
        if !values.is_active() || values.value().is_some() {
            return Ok(None);
        }
        let sum = values.before_reshapes();
        let is_region = |x: &Array| self.has_region(dims, x.before_reshapes());
        let Some((prim, x, y)) = sum.terms() else {
            return Ok(None);
        };
        let term = if prim == ops::ADD && is_region(x) {
            y.clone()
        } else if prim == ops::ADD && is_region(y) {
            x.clone()
        } else if prim == ops::SUB && is_region(x) {
            Array::apply1(ops::NEG, y.clone())?
        } else {
            return Ok(None);
        };
        Ok(Some(term.broadcast_to(sum.shape())?))
    }

    /// Whether `x` is this region, as read from this very array.
    fn has_region(&self, dims: &[SliceDim], x: &Array) -> bool {
        let is_same = matches!(x.0.params.as_deref(), Some(Params::Slice(own)) if **own == *dims);
        is_same
            && x.primitive() == Some(ops::SLICE)
            && matches!(x.0.kept_inputs(), Some([from]) if from.id() == self.id())
    }

    /// What it was before it got its shape.
    fn before_reshapes(&self) -> &Array {
        let mut array = self;
        while array.primitive() == Some(ops::RESHAPE)
            && let Some([before]) = array.0.kept_inputs()
        {
            array = before;
        }
        array
    }

    /// The two operands of what a primitive made of two.
    fn terms(&self) -> Option<(Prim, &Array, &Array)> {
        match self.0.kept_inputs() {
            Some([x, y]) => Some((self.primitive()?, x, y)),
            _ => None,
        }
    }
}

//! Reductions, layouts, indexing and products as methods: what a user calls, with axes as they are
//! written (negative ones count from the end) and dtypes as NumPy chooses them.

use std::ops::{Range, RangeFull};
use std::sync::Arc;

use super::Array;
use crate::aval::{Axes, DType, Kind, Shape, SliceDim, normalize_axes, normalize_axis, tuple};
use crate::error::{Error, Result};
use crate::ops;
use crate::prim::{Params, Prim};
use crate::program::Program;

/// Axes of a reduction: `..` for all, one number, or several.
pub trait Over {
    /// Their positions in an array with this many axes.
    fn positions(&self, op: &str, rank: usize) -> Result<Axes>;
}

impl Over for RangeFull {
    fn positions(&self, _: &str, rank: usize) -> Result<Axes> {
        Ok((0..rank).collect())
    }
}

impl Over for isize {
    fn positions(&self, op: &str, rank: usize) -> Result<Axes> {
        normalize_axes(op, &[*self], rank)
    }
}

impl Over for [isize] {
    fn positions(&self, op: &str, rank: usize) -> Result<Axes> {
        normalize_axes(op, self, rank)
    }
}

impl<const N: usize> Over for [isize; N] {
    fn positions(&self, op: &str, rank: usize) -> Result<Axes> {
        normalize_axes(op, self, rank)
    }
}

impl<T: Over + ?Sized> Over for &T {
    fn positions(&self, op: &str, rank: usize) -> Result<Axes> {
        (**self).positions(op, rank)
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $NAME:ident;)*) => {
        impl Array { $(
            $(#[$doc])*
            pub fn $name(&self, axes: impl Over) -> Result<Array> {
                self.reduce(ops::$NAME, &axes)
            }
        )* }
    };
}
reductions! {
    /// The sum over axes: `x.sum(..)` over all, `x.sum(0)`, `x.sum([0, -1])`.
    sum SUM;
    /// The mean over axes.
    mean MEAN;
    /// The product over axes; differentiable at zeros too.
    prod PROD;
    /// The largest element over axes. Those that tie for it share the cotangent.
    max MAX;
    /// The smallest element over axes. Those that tie for it share the cotangent.
    min MIN;
    /// `log(sum(exp(x)))` over axes, without overflow.
    logsumexp LOGSUMEXP;
}

impl Array {
    /// A reduction, in the dtype in which NumPy does it.
    fn reduce(&self, prim: Prim, axes: &impl Over) -> Result<Array> {
        let axes = axes.positions(prim.name(), self.shape().len())?;
        let exact = matches!(self.dtype().kind(), Kind::Bool | Kind::Integer);
        let dtype = match prim.name() {
            "sum" | "prod" if exact => self.dtype().widest(),
            "mean" if exact => DType::F64,
            "logsumexp" => self.dtype().inexact(),
            _ => self.dtype(),
        };
        let x = self.cast(dtype)?;
        if axes.is_empty() {
            return Ok(x);
        }
        Array::apply(prim, Params::Axes(axes), &[&x])
    }

    /// The sums of all elements up to each one along an axis.
    pub fn cumsum(&self, axis: isize) -> Result<Array> {
        let x = if self.dtype().is_inexact() {
            self.clone()
        } else {
            self.cast(self.dtype().widest())?
        };
        let axis = normalize_axis("cumsum", axis, x.shape().len())?;
        Array::apply(
            ops::CUMSUM,
            Params::Scan {
                axis,
                reverse: false,
            },
            &[&x],
        )
    }

    /// The index of the first largest element along an axis.
    pub fn argmax(&self, axis: isize) -> Result<Array> {
        self.along(ops::ARGMAX, axis)
    }

    /// The index of the first smallest element along an axis.
    pub fn argmin(&self, axis: isize) -> Result<Array> {
        self.along(ops::ARGMIN, axis)
    }

    /// The indices that sort along an axis: stable, NaN last.
    pub fn argsort(&self, axis: isize) -> Result<Array> {
        self.along(ops::ARGSORT, axis)
    }

    fn along(&self, prim: Prim, axis: isize) -> Result<Array> {
        let axis = normalize_axis(prim.name(), axis, self.shape().len())?;
        Array::apply(prim, Params::Axis(axis), &[self])
    }

    /// The axes in the opposite order.
    pub fn t(&self) -> Result<Array> {
        let axes: Vec<isize> = (0..self.shape().len() as isize).rev().collect();
        self.transpose(&axes)
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]` of this.
    pub fn transpose(&self, axes: &[isize]) -> Result<Array> {
        let perm = normalize_axes("transpose", axes, self.shape().len())?;
        if perm.iter().copied().eq(0..self.shape().len()) {
            return Ok(self.clone());
        }
        Array::apply(ops::TRANSPOSE, Params::Axes(perm), &[self])
    }

    /// With a new axis of length 1 before position `axis` of the result.
    pub fn expand_dims(&self, axis: isize) -> Result<Array> {
        let axis = normalize_axis("expand_dims", axis, self.shape().len() + 1)?;
        let mut shape = Shape::from_slice(self.shape());
        shape.insert(axis, 1);
        self.reshape(&shape)
    }

    /// The order of elements reversed along axes.
    pub fn flip(&self, axes: impl Over) -> Result<Array> {
        let axes = axes.positions("flip", self.shape().len())?;
        Array::apply(ops::FLIP, Params::Axes(axes), &[self])
    }

    /// A region: one range for each axis.
    ///
    /// ```
    /// let x = cotan::Array::from_slice(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(x.slice(&[0..2, 1..2])?.to_vec::<f64>()?, [2.0, 5.0]);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn slice(&self, ranges: &[Range<usize>]) -> Result<Array> {
        let dims: Vec<SliceDim> = (ranges.iter())
            .map(|r| SliceDim {
                start: r.start,
                len: r.end.saturating_sub(r.start),
                step: 1,
            })
            .collect();
        self.slice_steps(&dims)
    }

    /// A strided region: start, length and step for each axis.
    pub fn slice_steps(&self, dims: &[SliceDim]) -> Result<Array> {
        if let Some(windows) = self.windows_in_region(dims)? {
            return Ok(windows);
        }
        Array::apply(ops::SLICE, Params::Slice(dims.into()), &[self])
    }

    /// A region of windows that are to be gathered as the region of their places: windows overlap, and all of them have many
    /// times the elements of the array.
    fn windows_in_region(&self, dims: &[SliceDim]) -> Result<Option<Array>> {
        if self.primitive() != Some(ops::GATHER) || self.0.value().is_some() {
            return Ok(None);
        }
        let inputs = self.0.inputs();
        let [x, index] = inputs.as_slice() else {
            return Ok(None); // It has been computed meanwhile.
        };
        let Some((region, row)) = dims.split_at_checked(index.shape().len()) else {
            return Ok(None);
        };
        let is_whole = |(d, &n): (&SliceDim, &usize)| d.start == 0 && d.step == 1 && d.len == n;
        // Known by its layout and not by its size, so that programs for other sizes are alike.
        let places = index.value().filter(|places| !places.is_contiguous());
        let Some(places) = places.filter(|_| row.iter().zip(&x.shape()[1..]).all(is_whole)) else {
            return Ok(None);
        };
        let index = Array::constant(places.sliced(region));
        Array::apply(ops::GATHER, Params::None, &[x, &index]).map(Some)
    }

    /// Arrays one behind the other along an axis, in their common dtype.
    pub fn concatenate(arrays: &[&Array], axis: isize) -> Result<Array> {
        let Some(first) = arrays.first() else {
            return Err(Error::Shape("concatenate: there is no array".into()));
        };
        let axis = normalize_axis("concatenate", axis, first.shape().len())?;
        let dtype = arrays
            .iter()
            .map(|a| a.dtype())
            .fold(first.dtype(), DType::promote);
        let cast: Vec<Array> = arrays
            .iter()
            .map(|a| a.cast(dtype))
            .collect::<Result<_>>()?;
        Array::apply(
            ops::CONCATENATE,
            Params::Axis(axis),
            &cast.iter().collect::<Vec<_>>(),
        )
    }

    /// The rows (along the first axis) at these indices; negative ones count from the end. The indices
    /// are looked at now, so that one out of range is an error here.
    ///
    /// ```
    /// let x = cotan::Array::from_slice(&[3], &[1.0, 2.0, 3.0])?;
    /// let i = cotan::Array::from_slice(&[2], &[2i64, 0])?;
    /// assert_eq!(x.gather(&i)?.to_vec::<f64>()?, [3.0, 1.0]);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn gather(&self, index: &Array) -> Result<Array> {
        Array::apply(
            ops::GATHER,
            Params::None,
            &[self, &self.rows("gather", index)?],
        )
    }

    /// A copy with updates added to the rows at these indices, one of which may occur several times.
    pub fn scatter_add(&self, index: &Array, updates: &Array) -> Result<Array> {
        let index = self.rows("scatter_add", index)?;
        let updates = updates.cast(self.dtype())?;
        Array::apply(ops::SCATTER_ADD, Params::None, &[self, &index, &updates])
    }

    /// Indices of rows, all of them in range and none negative.
    fn rows(&self, op: &str, index: &Array) -> Result<Array> {
        let Some(&len) = self.shape().first() else {
            return Err(Error::Shape(format!("{op}: a scalar has no rows to index")));
        };
        if index.dtype().kind() != Kind::Integer {
            let name = index.dtype().numpy_name();
            return Err(Error::DType(format!(
                "{op}: indices are integers, not {name}"
            )));
        }
        let mut elements = index.cast(DType::I64)?.to_vec::<i64>()?;
        for i in &mut elements {
            let at = if *i < 0 { *i + len as i64 } else { *i };
            if at < 0 || at >= len as i64 {
                return Err(Error::Index(format!(
                    "{op}: index {i} is out of bounds for axis 0 of shape {}",
                    tuple(self.shape())
                )));
            }
            *i = at;
        }
        Array::from_slice(index.shape(), &elements)
    }

    /// The matrix product by NumPy's rules: vectors count as a row on the left, as a column on the
    /// right, and axes before the last two broadcast.
    pub fn matmul(&self, other: &Array) -> Result<Array> {
        let (x, y) = (self, other);
        if x.shape().is_empty() || y.shape().is_empty() {
            return Err(Error::Shape(format!(
                "matmul: shapes {} and {}: a scalar is no matrix; multiply with mul()",
                tuple(x.shape()),
                tuple(y.shape())
            )));
        }
        let dtype = x.dtype().promote(y.dtype());
        let (row, column) = (x.shape().len() == 1, y.shape().len() == 1);
        let a = x.cast(dtype)?;
        let a = if row { a.expand_dims(0)? } else { a };
        let b = y.cast(dtype)?;
        let b = if column { b.expand_dims(-1)? } else { b };
        let out = Array::apply(ops::MATMUL, Params::None, &[&a, &b])?;
        let mut shape = Shape::from_slice(out.shape());
        if column {
            shape.pop();
        }
        if row {
            shape.remove(shape.len() - usize::from(!column) - 1);
        }
        out.reshape(&shape)
    }

    /// The real part; itself when it is real.
    pub fn real(&self) -> Result<Array> {
        if !self.dtype().is_complex() {
            return Ok(self.clone());
        }
        Array::apply(ops::REAL, Params::None, &[self])
    }

    /// The imaginary part.
    pub fn imag(&self) -> Result<Array> {
        if !self.dtype().is_complex() {
            return Array::zeros(self.dtype(), self.shape());
        }
        Array::apply(ops::IMAG, Params::None, &[self])
    }

    /// The complex conjugate; itself when it is real.
    pub fn conj(&self) -> Result<Array> {
        if !self.dtype().is_complex() {
            return Ok(self.clone());
        }
        Array::apply(ops::CONJ, Params::None, &[self])
    }
}

impl Program {
    /// Applies the program to arrays: one lazy array for each of its outputs, computed only when it
    /// is read, and then without what only the others need.
    ///
    /// ```
    /// use cotan::{Array, Program};
    ///
    /// let p = Program::parse("program(%0: f64[]) {\n  %1: f64[] = exp(%0)\n  return %1\n}\n")?;
    /// let y = p.call(&[Array::from(0.0)])?;
    /// assert_eq!(y[0].item()?, 1.0);
    /// # Ok::<(), cotan::Error>(())
    /// ```
    pub fn call(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        if inputs.len() != self.num_inputs() {
            return Err(Error::Program(format!(
                "the program takes {} arguments, {} given",
                self.num_inputs(),
                inputs.len()
            )));
        }
        for (i, x) in inputs.iter().enumerate() {
            let wanted = self.aval(i as crate::prim::Var);
            if x.aval() != wanted {
                let name = &self.input_names()[i];
                let message = format!(
                    "argument {i} {name} of the program is {wanted}, not {}",
                    x.aval()
                );
                return Err(Error::Shape(message));
            }
        }
        Ok(Array::call(&Arc::new(self.clone()), inputs))
    }
}

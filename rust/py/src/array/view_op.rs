//! Maps the elements of a view to those of its base: reading it, writing through it, and the strides that it would
//! have in NumPy.

use std::sync::Arc;

use cotan::Array;
use cotan::aval::{Axes, Shape, SliceDim, Strides, row_major, tuple};
use cotan::kernels::{Value, reshape_strides};
use cotan::ops;
use cotan::prim::Params;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::runtime::error::OrRaise;

/// What a view shows.
pub enum ViewOp {
    /// A strided region, then in another shape (axes of integer indices dropped, new ones added).
    Index(Box<[SliceDim]>, Shape),
    /// Axes in another order.
    Transpose(Axes),
    /// Another shape.
    Reshape(Shape),
    /// The real part.
    Real,
    /// The imaginary part.
    Imag,
    /// Repeated to a shape; read-only.
    Broadcast(Shape),
    /// Elements at positions in row-major order, one for each of its own.
    Gather(Arc<Gathered>),
    /// A region that begins where an integer says which is not known while a function is mapped over examples.
    Unknown(Box<dyn Region>),
}

/// What a view shows that no numbers describe.
pub trait Region: Send + Sync {
    /// What it shows of a base.
    fn read(&self, base: &Array) -> PyResult<Array>;

    /// The base after it got this value.
    fn write(&self, base: &Array, value: &Array) -> PyResult<Array>;

    /// As for [`ViewOp::strides`].
    fn strides(&self, shape: &[usize], base: Option<&Strides>) -> Option<Strides>;
}

/// A view that is no region: a diagonal.
pub struct Gathered {
    /// Where the elements are, an array of the view's shape.
    positions: Array,
    /// As many elements apart along every axis.
    strides: Strides,
    /// Whether it may be written to.
    pub writeable: bool,
    /// Whether it may be, and an element is there twice: windows that overlap.
    overlaps: bool,
}

impl Gathered {
    /// Elements at constant positions, `strides` apart in memory. Where `apart` is given, those of the positions that are
    /// so many apart: windows that overlap have many times the elements of the array, and their list is not written out.
    pub fn new(
        positions: &[i64],
        shape: &[usize],
        strides: &[isize],
        writeable: bool,
        apart: Option<&[isize]>,
    ) -> PyResult<Gathered> {
        let value = match apart {
            None => Value::from_slice(shape, positions).or_raise()?,
            Some(apart) => Value::from_slice(&[positions.len()], positions)
                .or_raise()?
                .windows(shape, apart)
                .ok_or_else(|| PyValueError::new_err("the windows leave the array"))?,
        };
        let is_longer = value.aval().size() > positions.len();
        let places = Array::constant(value);
        let overlaps = writeable && (is_longer || has_twice(&places.to_vec::<i64>().or_raise()?));
        Ok(Gathered {
            positions: places,
            strides: Strides::from_slice(strides),
            writeable,
            overlaps,
        })
    }
}

/// Whether a position is there twice.
fn has_twice(positions: &[i64]) -> bool {
    let last = positions.iter().max().copied().unwrap_or(0);
    let mut seen = vec![false; last as usize + 1];
    (positions.iter()).any(|&p| std::mem::replace(&mut seen[p as usize], true))
}

impl ViewOp {
    /// What the view shows of a base.
    pub fn read(&self, base: &Array) -> PyResult<Array> {
        match self {
            ViewOp::Index(dims, shape) => {
                let whole = dims
                    .iter()
                    .zip(base.shape())
                    .all(|(d, &n)| d.start == 0 && d.step == 1 && d.len == n);
                let region = if whole {
                    base.clone()
                } else {
                    base.slice_steps(dims).or_raise()?
                };
                region.reshape(shape).or_raise()
            }
            ViewOp::Transpose(perm) => {
                if perm.iter().enumerate().all(|(i, &p)| i == p) {
                    return Ok(base.clone());
                }
                Array::apply(ops::TRANSPOSE, Params::Axes(perm.clone()), &[base]).or_raise()
            }
            ViewOp::Reshape(shape) => base.reshape(shape).or_raise(),
            ViewOp::Real => Array::apply(ops::REAL, Params::None, &[base]).or_raise(),
            ViewOp::Imag => Array::apply(ops::IMAG, Params::None, &[base]).or_raise(),
            ViewOp::Broadcast(shape) => base.broadcast_to(shape).or_raise(),
            ViewOp::Gather(gathered) => {
                let flat = base.reshape(&[base.aval().size()]).or_raise()?;
                Array::apply(ops::GATHER, Params::None, &[&flat, &gathered.positions]).or_raise()
            }
            ViewOp::Unknown(region) => region.read(base),
        }
    }

    /// The base after the view got this value, in whatever shape the view is now.
    pub fn write(&self, base: &Array, value: &Array) -> PyResult<Array> {
        match self {
            ViewOp::Index(dims, _) => {
                let region: Shape = dims.iter().map(|d| d.len).collect();
                let value = value.reshape(&region).or_raise()?;
                if region.as_slice() == base.shape() && dims.iter().all(|d| d.step == 1) {
                    return Ok(value);
                }
                base.update(dims, &value).or_raise()
            }
            ViewOp::Transpose(perm) => {
                let mut inverse = Axes::from_elem(0, perm.len());
                for (i, &p) in perm.iter().enumerate() {
                    inverse[p] = i;
                }
                let shape: Shape = perm.iter().map(|&p| base.shape()[p]).collect();
                ViewOp::Transpose(inverse).read(&value.reshape(&shape).or_raise()?)
            }
            ViewOp::Reshape(_) => value.reshape(base.shape()).or_raise(),
            ViewOp::Real => {
                let imag = ViewOp::Imag.read(base)?;
                let value = value.reshape(base.shape()).or_raise()?;
                Array::apply(ops::COMPLEX, Params::None, &[&value, &imag]).or_raise()
            }
            ViewOp::Imag => {
                let real = ViewOp::Real.read(base)?;
                let value = value.reshape(base.shape()).or_raise()?;
                Array::apply(ops::COMPLEX, Params::None, &[&real, &value]).or_raise()
            }
            ViewOp::Gather(gathered) if gathered.writeable && !gathered.overlaps => {
                let flat = base.reshape(&[base.aval().size()]).or_raise()?;
                let value = value.reshape(gathered.positions.shape()).or_raise()?;
                let operands = [&flat, &gathered.positions, &value];
                let written = Array::apply(ops::SCATTER, Params::None, &operands).or_raise()?;
                written.reshape(base.shape()).or_raise()
            }
            ViewOp::Gather(gathered) if gathered.writeable => Err(PyValueError::new_err(format!(
                "assignment: the view of shape {} has elements twice, as windows that overlap have, and what stays \
                 there would go by the order of the writes; write one window after the other (w[i, j] = ...), or \
                 into the array that it is a view of",
                tuple(gathered.positions.shape())
            ))),
            ViewOp::Unknown(region) => region.write(base, value),
            ViewOp::Broadcast(_) | ViewOp::Gather(_) => {
                Err(PyValueError::new_err("assignment destination is read-only"))
            }
        }
    }

    /// The shape of what a base of this shape is seen as, for what views of views are joined of.
    fn shape(&self, base: &[usize]) -> Option<Shape> {
        match self {
            ViewOp::Index(_, shape) | ViewOp::Reshape(shape) => Some(shape.clone()),
            ViewOp::Transpose(perm) => Some(perm.iter().map(|&p| base[p]).collect()),
            _ => None,
        }
    }

    /// What a view shows of the base of a view `outer`. The base had the shape `base` then, and the view is seen as
    /// another shape now: views of views make no chain then. `None` where there is no such view.
    pub fn after(&self, outer: &ViewOp, base: &[usize], seen: &[usize]) -> Option<ViewOp> {
        if outer.shape(base)?.as_slice() != seen {
            return None;
        }
        match (outer, self) {
            (ViewOp::Index(dims, _), ViewOp::Index(inner, shape)) => {
                // Axes that came or went are not those of the base.
                if !dims.iter().map(|d| d.len).eq(seen.iter().copied()) {
                    return None;
                }
                let dims = dims.iter().zip(inner.iter()).map(|(d, i)| within(d, i));
                Some(ViewOp::Index(dims.collect(), shape.clone()))
            }
            (ViewOp::Transpose(first), ViewOp::Transpose(then)) => Some(ViewOp::Transpose(
                then.iter().map(|&axis| first[axis]).collect(),
            )),
            (ViewOp::Reshape(_), ViewOp::Reshape(shape)) => Some(ViewOp::Reshape(shape.clone())),
            _ => None,
        }
    }

    /// Whether each element of the view is one of the base, at a known place of its own or repeated.
    pub fn has_positions(&self) -> bool {
        !matches!(self, ViewOp::Real | ViewOp::Imag | ViewOp::Unknown(_))
    }

    /// Whether it can be written through.
    pub fn is_writeable(&self) -> bool {
        match self {
            ViewOp::Broadcast(_) => false,
            ViewOp::Gather(gathered) => gathered.writeable,
            _ => true,
        }
    }

    /// Whether what is written through it would have to go by an order.
    pub fn overlaps(&self) -> bool {
        matches!(self, ViewOp::Gather(gathered) if gathered.overlaps)
    }

    /// One element of an array with one axis.
    pub fn element(at: usize) -> ViewOp {
        let dim = SliceDim {
            start: at,
            len: 1,
            step: 1,
        };
        ViewOp::Index(Box::new([dim]), Shape::new())
    }

    /// Where an element of the view is in a base of this shape, both counted in row-major order;
    /// `None` for parts of complex numbers.
    pub fn source(&self, base: &[usize], at: usize) -> Option<usize> {
        match self {
            ViewOp::Index(dims, _) => {
                let (mut rest, mut from, mut stride) = (at, 0, 1);
                for (d, &n) in dims.iter().zip(base).rev() {
                    let i = (rest % d.len) as isize;
                    rest /= d.len;
                    from += (d.start as isize + i * d.step) as usize * stride;
                    stride *= n;
                }
                Some(from)
            }
            ViewOp::Transpose(perm) => {
                let strides = row_major(base);
                let (mut rest, mut from) = (at, 0);
                for &p in perm.iter().rev() {
                    from += rest % base[p] * strides[p] as usize;
                    rest /= base[p];
                }
                Some(from)
            }
            ViewOp::Reshape(_) => Some(at),
            ViewOp::Real
            | ViewOp::Imag
            | ViewOp::Broadcast(_)
            | ViewOp::Gather(_)
            | ViewOp::Unknown(_) => None,
        }
    }

    /// Whether NumPy makes a view of it, of a base with these strides, and no copy.
    pub fn fits(&self, shape: &[usize], base: Option<&Strides>) -> bool {
        match (self, base) {
            (ViewOp::Reshape(new), Some(strides)) => {
                shape.contains(&0) || reshape_strides(shape, strides, new).is_some()
            }
            _ => true,
        }
    }

    /// The strides, in elements, of the view of a base with these, as NumPy's memory would have them.
    /// `None` for row-major ones.
    pub fn strides(&self, shape: &[usize], base: Option<&Strides>) -> Option<Strides> {
        let strides_of = |shape: &[usize]| base.cloned().unwrap_or_else(|| row_major(shape));
        let (shape, strides): (Shape, Strides) = match self {
            ViewOp::Index(dims, out) => {
                let strides = strides_of(shape);
                let mut long = dims
                    .iter()
                    .zip(&strides)
                    .filter(|(d, _)| d.len != 1)
                    .map(|(d, s)| s * d.step);
                // Axes of length 1 come and go, the others stay in their order.
                let next = |&n: &usize| if n == 1 { 0 } else { long.next().unwrap_or(0) };
                let strides: Strides = out.iter().map(next).collect();
                (out.clone(), strides)
            }
            ViewOp::Transpose(perm) => {
                let strides = strides_of(shape);
                (
                    perm.iter().map(|&p| shape[p]).collect(),
                    perm.iter().map(|&p| strides[p]).collect(),
                )
            }
            ViewOp::Reshape(new) => (new.clone(), reshape_strides(shape, base?, new)?),
            ViewOp::Real | ViewOp::Imag => (
                shape.into(),
                strides_of(shape).iter().map(|s| 2 * s).collect(),
            ),
            ViewOp::Broadcast(new) => {
                let old = strides_of(shape);
                let added = new.len() - shape.len();
                let repeated = |i: usize| i < added || shape[i - added] != new[i];
                let step = |i: usize| if repeated(i) { 0 } else { old[i - added] };
                (new.clone(), (0..new.len()).map(step).collect())
            }
            ViewOp::Gather(gathered) => {
                (gathered.positions.shape().into(), gathered.strides.clone())
            }
            ViewOp::Unknown(region) => return region.strides(shape, base),
        };
        (!is_row_major(&shape, &strides)).then_some(strides)
    }
}

/// A region of a region, along one axis.
fn within(outer: &SliceDim, inner: &SliceDim) -> SliceDim {
    if inner.len == 0 {
        return SliceDim {
            start: 0,
            len: 0,
            step: 1,
        };
    }
    SliceDim {
        start: (outer.start as isize + inner.start as isize * outer.step) as usize,
        len: inner.len,
        step: outer.step * inner.step,
    }
}

fn is_row_major(shape: &[usize], strides: &[isize]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut step = 1;
    for (&n, &s) in shape.iter().zip(strides).rev().filter(|(n, _)| **n != 1) {
        if s != step {
            return false;
        }
        step *= n as isize;
    }
    true
}

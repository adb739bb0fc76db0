//! Other layouts of the same memory: transposition, slicing, broadcasting, reshaping. None of them
//! touches an element.

use super::Value;
use crate::aval::{Shape, SliceDim, Strides, broadcast_strides, row_major};

impl Value {
    /// Axis `i` of the result is axis `perm[i]` of this.
    #[must_use]
    pub fn transposed(&self, perm: &[usize]) -> Value {
        let shape = perm.iter().map(|&p| self.shape()[p]).collect();
        let strides = perm.iter().map(|&p| self.strides()[p]).collect();
        // SAFETY: the same elements in another order of axes.
        unsafe { self.view(shape, strides, 0) }
    }

    /// Repeated to a shape that it broadcasts to.
    #[must_use]
    pub fn broadcast_to(&self, shape: &[usize]) -> Value {
        let strides = broadcast_strides(self.shape(), self.strides(), shape);
        // SAFETY: repeated axes have stride 0, so only elements of this value are reached.
        unsafe { self.view(Shape::from_slice(shape), strides, 0) }
    }

    /// A strided region. The caller has checked that it lies inside.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn sliced(&self, dims: &[SliceDim]) -> Value {
        let mut shift = 0isize;
        let mut strides = Strides::new();
        for (i, d) in dims.iter().enumerate() {
            if d.len > 0 {
                let last = d.start as isize + (d.len as isize - 1) * d.step;
                let n = self.shape()[i] as isize;
                assert!(
                    (d.start as isize) < n && last >= 0 && last < n,
                    "a slice outside its array"
                );
                shift += d.start as isize * self.strides()[i];
            }
            strides.push(self.strides()[i] * d.step);
        }
        let shape: Shape = dims.iter().map(|d| d.len).collect();
        let shift = if shape.contains(&0) { 0 } else { shift };
        // SAFETY: checked above, axis by axis; an empty region reaches nothing.
        unsafe { self.view(shape, strides, shift * self.dtype().size() as isize) }
    }

    /// Slice `i` along the first axis; `None` where it is no layout of the same memory.
    pub fn slice_at(&self, i: usize) -> Option<Value> {
        let inner = &self.shape()[1..];
        let dims: Vec<SliceDim> = std::iter::once((i, 1))
            .chain(inner.iter().map(|&len| (0, len)))
            .map(|(start, len)| SliceDim {
                start,
                len,
                step: 1,
            })
            .collect();
        self.sliced(&dims).reshaped(inner)
    }

    /// Elements so many apart along each axis, as in windows that overlap; `None` where they would not all lie inside.
    #[must_use]
    pub fn windows(&self, shape: &[usize], strides: &[isize]) -> Option<Value> {
        let mut last = Some(0usize);
        for (&n, &step) in shape.iter().zip(strides) {
            let reach = (n.saturating_sub(1)).checked_mul(usize::try_from(step).ok()?);
            last = last.zip(reach).and_then(|(a, b)| a.checked_add(b));
        }
        let is_inside = shape.contains(&0) || last? < self.aval().size();
        let fits = self.is_contiguous() && shape.len() == strides.len() && is_inside;
        // SAFETY: the first element and the last lie inside, and those between them, too.
        fits.then(|| unsafe {
            self.view(Shape::from_slice(shape), Strides::from_slice(strides), 0)
        })
    }

    /// The same elements in row-major order under another shape of equal size; `None` when no
    /// strides describe that, so that a copy is needed.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Value> {
        let strides = if self.is_contiguous() {
            row_major(shape)
        } else {
            reshape_strides(self.shape(), self.strides(), shape)?
        };
        // SAFETY: the strides reach the same elements in the same order.
        Some(unsafe { self.view(Shape::from_slice(shape), strides, 0) })
    }
}

/// NumPy's rule for a reshape without a copy: match groups of old axes with groups of new axes of
/// equal size; the old axes of a group must be stepped through as one. `None` when a copy is needed.
/// There are elements.
pub fn reshape_strides(old: &[usize], strides: &[isize], new: &[usize]) -> Option<Strides> {
    let axes: Vec<(usize, isize)> = old
        .iter()
        .zip(strides)
        .filter(|(d, _)| **d != 1)
        .map(|(&d, &s)| (d, s))
        .collect();
    let mut out: Strides = Strides::from_elem(0, new.len());
    let (mut i, mut j) = (0, 0);
    while i < axes.len() && j < new.len() {
        let (mut size_old, mut size_new) = (axes[i].0, new[j]);
        let (first_i, first_j) = (i, j);
        while size_old != size_new {
            if size_new < size_old {
                j += 1;
                size_new *= *new.get(j)?;
            } else {
                i += 1;
                size_old *= axes.get(i)?.0;
            }
        }
        for k in first_i..i {
            if axes[k].1 != axes[k + 1].0 as isize * axes[k + 1].1 {
                return None;
            }
        }
        let mut step = axes[i].1;
        for k in (first_j..=j).rev() {
            out[k] = step;
            step *= new[k] as isize;
        }
        i += 1;
        j += 1;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        let v = Value::from_slice(&[2, 3], &[0i64, 1, 2, 3, 4, 5]).unwrap();
        let t = v.transposed(&[1, 0]);
        assert_eq!((t.shape(), t.strides()), (&[3, 2][..], &[1, 3][..]));
        assert!(t.reshaped(&[6]).is_none());
        assert_eq!(t.reshaped(&[3, 1, 2]).unwrap().strides(), &[1, 6, 3]);
        let column = v.sliced(&[
            SliceDim {
                start: 0,
                len: 2,
                step: 1,
            },
            SliceDim {
                start: 2,
                len: 1,
                step: 1,
            },
        ]);
        assert_eq!(column.reshaped(&[2]).unwrap().strides(), &[3]);
        let back = v.sliced(&[
            SliceDim {
                start: 1,
                len: 2,
                step: -1,
            },
            SliceDim {
                start: 2,
                len: 2,
                step: -2,
            },
        ]);
        assert_eq!((back.strides(), back.item()), (&[-3, -2][..], None));
        assert_eq!(v.broadcast_to(&[4, 2, 3]).strides(), &[0, 3, 1]);
    }
}

//! Shapes, axes, strides and broadcasting.

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// The length of every axis; empty for a scalar.
pub type Shape = SmallVec<[usize; 4]>;
/// Distance between neighbours along every axis, in elements; may be zero or negative.
pub type Strides = SmallVec<[isize; 4]>;
/// A list of axes.
pub type Axes = SmallVec<[usize; 4]>;

/// The order of axes that takes this one back.
pub(crate) fn inverse(perm: &[usize]) -> Axes {
    let mut inverse = Axes::from_elem(0, perm.len());
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    inverse
}

/// As many axes as a NumPy array can have.
const MAX_RANK: usize = 64;

/// The number of elements, or an error when it does not fit into memory addresses.
pub fn size_of(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The number of elements of a shape that came from outside, checked for overflow.
pub fn checked_size(op: &str, shape: &[usize]) -> Result<usize> {
    if shape.len() > MAX_RANK {
        return Err(Error::Shape(format!(
            "{op}: {} axes, but at most {MAX_RANK} are possible",
            shape.len()
        )));
    }
    // An empty axis makes the array empty, however long the other axes are.
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .filter(|&n| n <= (isize::MAX as usize) / 16)
        .ok_or_else(|| Error::Shape(format!("{op}: shape {} is too large", tuple(shape))))
}

/// Strides of a row-major array of this shape.
pub fn row_major(shape: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(0, shape.len());
    let mut step = 1isize;
    for (s, &d) in strides.iter_mut().zip(shape).rev() {
        *s = step;
        step *= d.max(1) as isize;
    }
    strides
}

/// A shape as NumPy prints it: `(2, 3)`, `(4,)`, `()`.
pub fn tuple(shape: &[usize]) -> String {
    match shape {
        [d] => format!("({d},)"),
        _ => format!(
            "({})",
            shape
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

/// The shape that NumPy broadcasts the operands to; `None` when they do not fit.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Shape> {
    if a == b {
        return Some(Shape::from_slice(a));
    }
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut out = Shape::from_slice(long);
    let offset = long.len() - short.len();
    for (o, &s) in out[offset..].iter_mut().zip(short) {
        match (*o, s) {
            (x, y) if x == y => {}
            (1, y) => *o = y,
            (_, 1) => {}
            _ => return None,
        }
    }
    Some(out)
}

/// The axes of `target` along which an operand of shape `from` was repeated: the leading ones
/// that it lacks, and those where it has length 1 and the target has not.
pub fn broadcast_axes(from: &[usize], target: &[usize]) -> Axes {
    let offset = target.len() - from.len();
    (0..target.len())
        .filter(|&i| i < offset || (from[i - offset] == 1 && target[i] != 1))
        .collect()
}

/// Strides with which an operand (shape, strides) is read at the broadcast shape `target`.
pub fn broadcast_strides(shape: &[usize], strides: &[isize], target: &[usize]) -> Strides {
    let offset = target.len() - shape.len();
    (0..target.len())
        .map(|i| {
            if i < offset || (shape[i - offset] == 1 && target[i] != 1) {
                0
            } else {
                strides[i - offset]
            }
        })
        .collect()
}

/// Turns axes as users write them (negative counts from the end) into positions; refuses axes
/// that do not exist or stand twice.
pub fn normalize_axes(op: &str, axes: &[isize], rank: usize) -> Result<Axes> {
    let mut out = Axes::new();
    for &axis in axes {
        let a = normalize_axis(op, axis, rank)?;
        if out.contains(&a) {
            return Err(Error::Shape(format!(
                "{op}: axis {axis} stands twice in the axes"
            )));
        }
        out.push(a);
    }
    Ok(out)
}

/// One axis as users write it, as a position.
pub fn normalize_axis(op: &str, axis: isize, rank: usize) -> Result<usize> {
    let a = if axis < 0 { axis + rank as isize } else { axis };
    if a < 0 || a >= rank as isize {
        return Err(Error::Shape(format!(
            "{op}: axis {axis} is out of bounds for an array of {rank} dimensions"
        )));
    }
    Ok(a as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_as_numpy_does_it() {
        assert_eq!(broadcast(&[2, 3], &[3]).unwrap().as_slice(), &[2, 3]);
        assert_eq!(broadcast(&[2, 1], &[1, 3]).unwrap().as_slice(), &[2, 3]);
        assert_eq!(broadcast(&[], &[4]).unwrap().as_slice(), &[4]);
        assert_eq!(broadcast(&[0], &[1]).unwrap().as_slice(), &[0]);
        assert!(broadcast(&[2], &[3]).is_none());
        assert_eq!(broadcast_axes(&[1, 3], &[5, 2, 3]).as_slice(), &[0, 1]);
        assert_eq!(
            broadcast_strides(&[1, 3], &[3, 1], &[5, 2, 3]).as_slice(),
            &[0, 0, 1]
        );
    }

    #[test]
    fn strides_and_axes() {
        assert_eq!(row_major(&[2, 3, 4]).as_slice(), &[12, 4, 1]);
        assert_eq!(
            normalize_axes("sum", &[-1, 0], 3).unwrap().as_slice(),
            &[2, 0]
        );
        assert!(normalize_axes("sum", &[0, -3], 3).is_err());
        assert!(normalize_axis("sum", 3, 3).is_err());
        assert!(checked_size("zeros", &[usize::MAX, 2]).is_err());
        assert_eq!(checked_size("zeros", &[usize::MAX, 0]).unwrap(), 0);
    }
}

//! Abstract values: what is known of an array before it is computed, its dtype and its shape.

mod dtype;
mod shape;

use std::fmt;

pub use dtype::{DType, Kind};
pub(crate) use shape::inverse;
pub use shape::{
    Axes, Shape, Strides, broadcast, broadcast_axes, broadcast_strides, checked_size,
    normalize_axes, normalize_axis, row_major, size_of, tuple,
};

/// One axis of a strided region: `start`, `start + step`, ..., `len` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceDim {
    /// First index.
    pub start: usize,
    /// Number of indices.
    pub len: usize,
    /// Distance between them; negative to go backwards.
    pub step: isize,
}

/// How a window moves along one axis: its tap `k` at place `p` sees the element
/// `(p * stride + k * dilation - pad) / expansion`, or zero where that is no index of the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WindowDim {
    /// Number of places: the length of the result.
    pub size: usize,
    /// Number of taps.
    pub len: usize,
    /// How far before the first element the first window begins; negative to begin behind it.
    pub pad: isize,
    /// Distance between places.
    pub stride: usize,
    /// Distance between taps.
    pub dilation: usize,
    /// Distance between elements, with zeros between them.
    pub expansion: usize,
}

impl WindowDim {
    /// The window of the transposed map, back to an axis of `length`, whose taps come in reverse order.
    #[must_use]
    pub fn transposed(self, length: usize) -> WindowDim {
        let span = (self.len as isize - 1) * self.dilation as isize;
        WindowDim {
            size: length,
            len: self.len,
            pad: span - self.pad,
            stride: self.expansion,
            dilation: self.dilation,
            expansion: self.stride,
        }
    }

    /// With places and taps exchanged.
    #[must_use]
    pub fn swapped(self) -> WindowDim {
        WindowDim {
            size: self.len,
            len: self.size,
            stride: self.dilation,
            dilation: self.stride,
            ..self
        }
    }
}

/// The dtype and shape of an array.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Aval {
    /// Type of the elements.
    pub dtype: DType,
    /// Length of every axis.
    pub shape: Shape,
}

impl Clone for Aval {
    /// Every node of a recording makes a copy: numbers are moved faster one by one than as a list.
    #[inline]
    fn clone(&self) -> Aval {
        let shape = match *self.shape {
            [] => Shape::new(),
            [a] => Shape::from_slice(&[a]),
            [a, b] => Shape::from_slice(&[a, b]),
            ref longer => Shape::from_slice(longer),
        };
        Aval {
            dtype: self.dtype,
            shape,
        }
    }
}

impl Aval {
    /// An abstract value of this dtype and shape.
    pub fn new(dtype: DType, shape: &[usize]) -> Aval {
        Aval {
            dtype,
            shape: Shape::from_slice(shape),
        }
    }

    /// A zero-dimensional one.
    pub fn scalar(dtype: DType) -> Aval {
        Aval {
            dtype,
            shape: Shape::new(),
        }
    }

    /// The same shape with another dtype.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Aval {
        Aval {
            dtype,
            shape: self.shape.clone(),
        }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        size_of(&self.shape)
    }

    /// Bytes that the elements need.
    pub fn nbytes(&self) -> usize {
        self.size() * self.dtype.size()
    }
}

impl fmt::Display for Aval {
    /// `f64[3,2]`, `f32[]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, d) in self.shape.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

//! What rules write with: arithmetic on variables, and a method for each primitive they use.

use std::ops;

use super::*;
use crate::aval::{Axes, DType, Shape, SliceDim, broadcast_axes};
use crate::prim::{Params, V};

/// Operators between variables, and between a variable and a number of its dtype.
macro_rules! operators {
    ($($trait:ident $method:ident $prim:ident),*) => { $(
        impl<'e> ops::$trait for V<'e> {
            type Output = V<'e>;
            fn $method(self, other: V<'e>) -> V<'e> {
                self.combine(super::$prim, other)
            }
        }
        impl<'e> ops::$trait<f64> for V<'e> {
            type Output = V<'e>;
            fn $method(self, other: f64) -> V<'e> {
                self.combine(super::$prim, self.number(other))
            }
        }
        impl<'e> ops::$trait<V<'e>> for f64 {
            type Output = V<'e>;
            fn $method(self, other: V<'e>) -> V<'e> {
                other.number(self).combine(super::$prim, other)
            }
        }
    )* };
}
operators!(Add add ADD, Sub sub SUB, Mul mul MUL, Div div DIV);

impl<'e> ops::Neg for V<'e> {
    type Output = V<'e>;
    fn neg(self) -> V<'e> {
        self.map(NEG)
    }
}

impl<'e> V<'e> {
    /// The same values in another dtype; nothing when it is the same dtype.
    #[must_use]
    pub fn cast(self, dtype: DType) -> V<'e> {
        if self.dtype() == dtype {
            self
        } else {
            self.apply(CAST, Params::DType(dtype), &[])
        }
    }

    /// Repeated to a shape that it broadcasts to; nothing when it has that shape.
    #[must_use]
    pub fn broadcast_to(self, shape: &[usize]) -> V<'e> {
        if self.shape().as_slice() == shape {
            return self;
        }
        self.apply(BROADCAST, Params::Shape(Shape::from_slice(shape)), &[])
    }

    /// Summed over what broadcasting from `shape` repeated.
    #[must_use]
    pub fn sum_to(self, shape: &[usize]) -> V<'e> {
        let own = self.shape();
        if own.as_slice() == shape {
            return self;
        }
        self.reduce(SUM, &broadcast_axes(shape, &own))
            .reshape(shape)
    }

    /// The same elements in another shape; nothing when it has that shape.
    #[must_use]
    pub fn reshape(self, shape: &[usize]) -> V<'e> {
        if self.shape().as_slice() == shape {
            return self;
        }
        self.apply(RESHAPE, Params::Shape(Shape::from_slice(shape)), &[])
    }

    /// With axis `i` of the result being axis `perm[i]`.
    #[must_use]
    pub fn transpose(self, perm: &[usize]) -> V<'e> {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return self;
        }
        self.apply(TRANSPOSE, Params::Axes(Axes::from_slice(perm)), &[])
    }

    /// With the last two axes exchanged.
    #[must_use]
    pub fn swap_last(self) -> V<'e> {
        let n = self.shape().len();
        let mut perm: Vec<usize> = (0..n).collect();
        perm.swap(n - 1, n - 2);
        self.transpose(&perm)
    }

    /// A reduction over these axes; nothing when there are none.
    #[must_use]
    pub fn reduce(self, prim: Prim, axes: &[usize]) -> V<'e> {
        if axes.is_empty() {
            return self;
        }
        self.apply(prim, Params::Axes(Axes::from_slice(axes)), &[])
    }

    /// A reduced value back at the shape it was reduced from.
    #[must_use]
    pub fn expand(self, axes: &[usize], shape: &[usize]) -> V<'e> {
        // Broadcasting brings leading axes back by itself.
        if axes.iter().all(|&a| a < axes.len()) {
            return self.broadcast_to(shape);
        }
        let kept: Vec<usize> = shape
            .iter()
            .enumerate()
            .map(|(i, &d)| if axes.contains(&i) { 1 } else { d })
            .collect();
        self.reshape(&kept).broadcast_to(shape)
    }

    /// A strided region.
    #[must_use]
    pub fn slice(self, dims: &[SliceDim]) -> V<'e> {
        let whole = dims
            .iter()
            .zip(self.shape())
            .all(|(d, n)| d.start == 0 && d.step == 1 && d.len == n);
        if whole {
            self
        } else {
            self.apply(SLICE, Params::Slice(dims.into()), &[])
        }
    }

    /// Zeros of `shape` with this as a strided region.
    #[must_use]
    pub fn pad(self, shape: &[usize], dims: &[SliceDim]) -> V<'e> {
        let whole = dims
            .iter()
            .zip(shape)
            .all(|(d, &n)| d.start == 0 && d.step == 1 && d.len == n);
        if whole {
            return self;
        }
        self.apply(
            PAD,
            Params::Region {
                shape: Shape::from_slice(shape),
                dims: dims.into(),
            },
            &[],
        )
    }

    /// Where `self` (a condition) holds, `yes`, elsewhere `no`.
    #[must_use]
    pub fn select(self, yes: V<'e>, no: V<'e>) -> V<'e> {
        self.apply(WHERE, Params::None, &[yes, no])
    }

    /// The conjugate; nothing for a real variable.
    #[must_use]
    pub fn conj_if_complex(self) -> V<'e> {
        if self.dtype().is_complex() {
            self.conj()
        } else {
            self
        }
    }

    /// An elementwise function of one argument.
    #[inline]
    #[must_use]
    pub fn map(self, prim: Prim) -> V<'e> {
        self.with(self.to.map(prim, self.var()))
    }

    /// An elementwise function of two arguments.
    #[inline]
    #[must_use]
    pub fn combine(self, prim: Prim, other: V<'e>) -> V<'e> {
        self.with(self.to.combine(prim, self.var(), other.var()))
    }

    /// Whether each element is zero.
    #[must_use]
    pub fn is_zero(self) -> V<'e> {
        self.combine(EQ, self.number(0.0))
    }

    /// A number at this variable's dtype and shape.
    #[must_use]
    pub fn full_like(self, value: f64) -> V<'e> {
        self.number(value).broadcast_to(&self.shape())
    }
}

macro_rules! methods {
    ($($method:ident $prim:ident),*) => {
        #[allow(clippy::should_implement_trait)] // `not` is a primitive like the others.
        impl<'e> V<'e> { $(
            #[doc = concat!("The primitive `", stringify!($method), "`.")]
            #[must_use]
            pub fn $method(self) -> V<'e> {
                self.map($prim)
            }
        )* }
    };
}
methods!(
    exp EXP, exp2 EXP2, log LOG, sqrt SQRT, square SQUARE, reciprocal RECIPROCAL, sin SIN, cos COS, sinh SINH,
    cosh COSH, sign SIGN, sigmoid SIGMOID, conj CONJ, real REAL, abs ABS, not LOGICAL_NOT, isnan ISNAN
);

macro_rules! binary_methods {
    ($($method:ident $prim:ident),*) => {
        impl<'e> V<'e> { $(
            #[doc = concat!("The primitive `", stringify!($prim), "`.")]
            #[must_use]
            pub fn $method(self, other: V<'e>) -> V<'e> {
                self.combine($prim, other)
            }
        )* }
    };
}
binary_methods!(pow POW, minimum MINIMUM, equals EQ, and LOGICAL_AND, or LOGICAL_OR);

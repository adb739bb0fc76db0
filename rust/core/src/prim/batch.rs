//! How primitives act on many examples at once.

use super::{Params, Prim, V};
use crate::aval::{Aval, Shape, SliceDim};

/// How a primitive acts on a batch: on arguments that have a new first axis, along which examples lie.
#[derive(Debug, Clone, Copy)]
pub enum Batching {
    /// Its arguments broadcast, those of examples too: elementwise along all axes, or along all but the
    /// last ones.
    Aligned,
    /// It takes a further first axis of all arguments, with axes in its parameters counted from there.
    Leading,
    /// In its own way.
    Rule(BatchFn),
    /// In no way, for this reason.
    None(&'static str),
}

/// Writes a primitive for a batch; what it gives has the batch's axis first.
pub type BatchFn = for<'e> fn(&Batch<'_, 'e>) -> V<'e>;

/// An equation of which some arguments are batches.
#[derive(Debug)]
pub struct Batch<'a, 'e> {
    /// The arguments.
    pub x: &'a [V<'e>],
    /// Which of them have a first axis of examples.
    pub batched: &'a [bool],
    /// How many examples there are.
    pub size: usize,
    /// The primitive.
    pub prim: Prim,
    /// The parameters for one example.
    pub params: &'a Params,
    /// The result for one example.
    pub out: &'a Aval,
}

impl<'e> Batch<'_, 'e> {
    /// Each argument with a first axis: those that examples share are repeated.
    pub fn full(&self, i: usize) -> V<'e> {
        let x = self.x[i];
        if self.batched[i] {
            return x;
        }
        x.broadcast_to(&self.shape(&x.shape()))
    }

    /// A shape with the batch's axis in front.
    pub fn shape(&self, one: &[usize]) -> Shape {
        std::iter::once(self.size)
            .chain(one.iter().copied())
            .collect()
    }

    /// With ones behind the axis of examples, so that the other axes broadcast as they did.
    pub fn aligned(&self) -> V<'e> {
        let rank = self.out.shape.len() + 1;
        let x: Vec<V<'e>> = (self.x.iter().zip(self.batched))
            .map(|(&x, &batched)| {
                let shape = x.shape();
                if !batched || shape.len() == rank {
                    return x;
                }
                let mut wide = Shape::new();
                wide.push(self.size);
                wide.resize(1 + rank - shape.len(), 1);
                wide.extend_from_slice(&shape[1..]);
                x.reshape(&wide)
            })
            .collect();
        x[0].apply(self.prim, self.params.batched(self.size), &x[1..])
    }

    /// With a first axis of all arguments.
    pub fn leading(&self) -> V<'e> {
        let x: Vec<V<'e>> = (0..self.x.len()).map(|i| self.full(i)).collect();
        x[0].apply(self.prim, self.params.batched(self.size), &x[1..])
    }
}

impl Params {
    /// With a further axis of this length in front of the others.
    #[must_use]
    pub fn batched(&self, size: usize) -> Params {
        let shape = |shape: &Shape| -> Shape {
            std::iter::once(size).chain(shape.iter().copied()).collect()
        };
        let dims = |dims: &[SliceDim]| -> Box<[SliceDim]> {
            let whole = SliceDim {
                start: 0,
                len: size,
                step: 1,
            };
            std::iter::once(whole).chain(dims.iter().copied()).collect()
        };
        match self {
            Params::Axes(axes) => Params::Axes(axes.iter().map(|a| a + 1).collect()),
            Params::Axis(axis) => Params::Axis(axis + 1),
            Params::Scan { axis, reverse } => Params::Scan {
                axis: axis + 1,
                reverse: *reverse,
            },
            Params::Fourier {
                axes,
                inverse,
                scale,
            } => Params::Fourier {
                axes: axes.iter().map(|a| a + 1).collect(),
                inverse: *inverse,
                scale: *scale,
            },
            Params::RealFourier {
                axis,
                length,
                folded,
                scale,
            } => Params::RealFourier {
                axis: axis + 1,
                length: *length,
                folded: *folded,
                scale: *scale,
            },
            Params::Shape(one) => Params::Shape(shape(one)),
            Params::Slice(one) => Params::Slice(dims(one)),
            Params::Region {
                shape: one,
                dims: region,
            } => Params::Region {
                shape: shape(one),
                dims: dims(region),
            },
            other => other.clone(),
        }
    }
}

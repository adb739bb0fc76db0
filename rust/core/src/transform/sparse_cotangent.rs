//! Cotangents that are zero but for a part: of arrays of which a slice was read, or rows by their numbers.
//!
//! Elementwise operations are pulled back on the part alone. What was left out stays exactly zero then, where
//! the derivative is infinite, too: `log(x)[1:]` where `x[0]` is 0.

use num_complex::Complex;

use super::cotangent::Ct;
use crate::aval::{Axes, Shape, SliceDim, broadcast, broadcast_axes, inverse};
use crate::ops;
use crate::prim::{Class, Params, Partial, PartialFn, Prim, Rule, V, Var};
use crate::program::{Builder, Program};

/// A step from a whole to a part of it, as the transpose of what was read.
enum Step<'e> {
    /// The part has this shape, and the same elements.
    Reshape(Shape),
    /// The part has the axes in another order, which this brings back.
    Transpose(Axes),
    /// A region.
    Slice(Box<[SliceDim]>),
    /// Rows by their numbers.
    Gather(V<'e>),
}

/// Where a part is: steps from the whole, each with the shape that it begins at.
struct Place<'e>(Vec<(Shape, Step<'e>)>);

/// As many steps are followed.
const STEPS: usize = 8;

impl<'e> Place<'e> {
    /// The part that a variable is zero but for, and where that is.
    fn of(builder: &'e Builder, whole: V<'e>) -> Option<(V<'e>, Place<'e>)> {
        let known = [ops::PAD, ops::SCATTER_ADD, ops::RESHAPE, ops::TRANSPOSE];
        let (mut part, mut steps, mut found) = (whole, Vec::new(), None);
        while let Some((params, args)) = builder.made_by(part.var(), &known)
            && steps.len() < STEPS
        {
            let shape = part.shape();
            let value = |i: usize| builder.value(args[i]);
            let (step, inner) = match params {
                Params::Region { dims, .. } => (Step::Slice(dims), value(0)),
                Params::Axes(perm) => (Step::Transpose(perm), value(0)),
                Params::Shape(_) => (Step::Reshape(value(0).shape()), value(0)),
                Params::None if is_zero(builder, args[0]) => (Step::Gather(value(1)), value(2)),
                _ => break,
            };
            let leaves_out = matches!(step, Step::Slice(_) | Step::Gather(_));
            steps.push((shape, step));
            part = inner;
            if leaves_out {
                found = Some((part, steps.len()));
            }
        }
        let (part, count) = found?;
        steps.truncate(count);
        Some((part, Place(steps)))
    }

    /// The same part of another variable that is as large, or is repeated to that.
    fn take(&self, v: V<'e>) -> V<'e> {
        if v.shape().is_empty() {
            return v;
        }
        self.0.iter().fold(v, |v, (shape, step)| {
            let v = v.broadcast_to(shape);
            match step {
                Step::Reshape(shape) => v.reshape(shape),
                Step::Transpose(perm) => v.transpose(&inverse(perm)),
                Step::Slice(dims) => v.slice(dims),
                Step::Gather(rows) => v.apply(ops::GATHER, Params::None, &[*rows]),
            }
        })
    }

    /// A part at its place among zeros.
    fn put(&self, part: V<'e>) -> V<'e> {
        self.0
            .iter()
            .rev()
            .fold(part, |v, (shape, step)| match step {
                Step::Reshape(_) => v.reshape(shape),
                Step::Transpose(perm) => v.transpose(perm),
                Step::Slice(dims) => v.pad(shape, dims),
                Step::Gather(rows) => {
                    let zeros = v.number(0.0).broadcast_to(shape);
                    zeros.apply(ops::SCATTER_ADD, Params::None, &[*rows, v])
                }
            })
    }
}

/// Whether a variable is zero everywhere, as far as can be seen at once.
pub(super) fn is_zero(builder: &Builder, var: Var) -> bool {
    builder.with(|program| {
        let source = match program.definition(var) {
            Some(eqn) if eqn.prim == ops::BROADCAST => program.args(eqn)[0],
            _ => var,
        };
        let zero = Complex::new(0.0, 0.0);
        program.literal(source).is_some_and(|(_, z)| z == zero)
    })
}

/// Rows of small arrays are cut always, of others where that halves the work.
const FEW: usize = 1024;

/// Which variables of a program may have infinite derivatives in single elements: what such primitives gave, and what
/// elementwise operations and layouts made of that.
pub(super) fn steep(program: &Program) -> Vec<bool> {
    let mut steep = vec![false; program.num_vars()];
    for k in 0..program.eqns.len() {
        let (eqn, out) = (&program.eqns[k], program.result(k));
        let args = program.args(eqn);
        let is_one = |v: &Var| program.aval(*v).shape.is_empty();
        let is_steep = if eqn.prim == ops::DIV {
            !is_one(&args[1])
        } else if eqn.prim == ops::POW {
            (program.literal(args[1])).is_none_or(|(_, power)| power.re < 1.0)
        } else {
            ops::STEEP.contains(&eqn.prim)
        };
        let hands_on = matches!(eqn.prim.0.class, Class::Elementwise { .. })
            || [ops::RESHAPE, ops::TRANSPOSE].contains(&eqn.prim);
        steep[out as usize] = is_steep || hands_on && args.iter().any(|&a| steep[a as usize]);
    }
    steep
}

/// Whether the cotangent that the rule of a primitive gives is zero but for a part that is worth knowing.
pub(super) fn is_made_by<'e>(
    prim: Prim,
    rule: &Rule<'_, 'e>,
    ct: Ct<'e>,
    is_steep: impl Fn() -> bool,
) -> bool {
    let is_part = matches!(ct, Ct::Part(_));
    (prim == ops::SLICE && is_steep())
        || (is_part && (prim == ops::RESHAPE || prim == ops::TRANSPOSE))
        || (prim == ops::GATHER && {
            let (count, rows) = (rule.x[1].aval().size(), rule.x[0].shape()[0]);
            count < rows && (rows <= FEW || 2 * count <= rows) && is_steep()
        })
}

/// What an elementwise operation contributes to argument `i`, by a cotangent that is zero but for a part. `through`
/// says what a cotangent contributes through a partial derivative.
pub(super) fn pull<'e>(
    (builder, ct): (&'e Builder, V<'e>),
    partials: PartialFn,
    (x, out): (&[V<'e>], V<'e>),
    i: usize,
    through: &mut dyn FnMut(Ct<'e>, &Partial<'e>) -> Ct<'e>,
) -> Ct<'e> {
    let known = builder.num_vars();
    let partial = partials(x, out, i);
    // Masks stay outermost.
    if let Partial::Where(..) | Partial::TimesWhere(..) | Partial::Steep(_) = partial {
        return through(Ct::Dense(ct), &partial);
    }
    let Some((part, place)) = Place::of(builder, ct) else {
        return through(Ct::Dense(ct), &partial);
    };
    // What was there before is cut; what would have to be computed is computed of the parts.
    let is_there = |v: V<'_>| (v.var() as usize) < known;
    let partial = match partial {
        Partial::Times(p) if is_there(p) => Partial::Times(place.take(p)),
        Partial::Over(p) if is_there(p) => Partial::Over(place.take(p)),
        Partial::MinusRatio(n, d) if is_there(n) && is_there(d) => {
            Partial::MinusRatio(place.take(n), place.take(d))
        }
        Partial::Times(_) | Partial::Over(_) | Partial::MinusRatio(..) => {
            let parts: Vec<V<'e>> = x.iter().map(|&v| place.take(v)).collect();
            partials(&parts, place.take(out), i)
        }
        _ => partial,
    };
    let pulled = through(Ct::Dense(part), &partial);
    (pulled.dense()).map_or(Ct::Zero, |part| Ct::Part(place.put(part)))
}

/// The sum of two cotangents that are zero but for the same region.
pub(super) fn joined<'e>(builder: &'e Builder, a: V<'e>, b: V<'e>) -> Option<V<'e>> {
    let (region, args) = builder.made_by(a.var(), &[ops::PAD])?;
    let (other, others) = builder.made_by(b.var(), &[ops::PAD])?;
    if region != other || a.dtype() != b.dtype() {
        return None;
    }
    let sum = builder.value(args[0]) + builder.value(others[0]);
    Some(sum.apply(ops::PAD, region, &[]))
}

/// The sum over what broadcasting from `shape` repeated, of a cotangent that is zero but for a region.
pub(super) fn summed<'e>(builder: &'e Builder, ct: V<'e>, shape: &[usize]) -> Option<V<'e>> {
    let (params, args) = builder.made_by(ct.var(), &[ops::PAD])?;
    let Params::Region { shape: wide, dims } = params else {
        return None;
    };
    if broadcast(shape, &wide)? != wide {
        return None;
    }
    let (offset, repeated) = (wide.len() - shape.len(), broadcast_axes(shape, &wide));
    let one = SliceDim {
        start: 0,
        len: 1,
        step: 1,
    };
    let kept = (offset..wide.len()).map(|i| if repeated.contains(&i) { one } else { dims[i] });
    let kept: Vec<SliceDim> = kept.collect();
    let lengths: Shape = kept.iter().map(|d| d.len).collect();
    Some(builder.value(args[0]).sum_to(&lengths).pad(shape, &kept))
}

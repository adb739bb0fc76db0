//! Where a cotangent is exactly zero because of how it was made, however its elements were moved since.
//!
//! A selection gives zero to what it leaves out, and a derivative may be infinite or NaN there. Zero times that is not a
//! number, so what passes such a derivative is masked again. The mask is not carried along: most cotangents never need
//! one. It is found in the equations that made the cotangent, back to the selection, a slice or an index, and
//! brought the same way as the cotangent. A zero that was computed is none of these: `exp(log(x))` has the slope 1 at 0,
//! and its NaN stays.

use smallvec::SmallVec;

use super::sparse_cotangent::is_zero;
use crate::aval::{Axes, DType, Shape, SliceDim};
use crate::ops;
use crate::prim::{Class, Params, Partial, Prim, V, Var};
use crate::program::Builder;

/// Whether zeros have to be kept through a derivative: a factor may be infinite.
pub(super) fn multiplies(partial: &Partial<'_>) -> bool {
    !matches!(
        partial,
        Partial::Zero | Partial::One | Partial::MinusOne | Partial::Where(..)
    )
}

/// How the elements of a cotangent come from those of the one before it.
enum Step<'e> {
    /// One by one.
    Same,
    /// Zero where the condition does not hold.
    And(V<'e>),
    /// Moved, by a primitive that moves masks as well.
    Move(Prim, Params),
    /// Rows by their numbers.
    Rows(V<'e>),
    /// Summed over axes.
    Sum(Axes),
    /// Summed along an axis up to each one.
    Scan(Params),
    /// A region among zeros.
    Pad(Shape, Box<[SliceDim]>),
    /// Zeros in a region.
    Erase(Shape, Box<[SliceDim]>),
}

/// A region, and the mask of what was added to it.
type Part<'e> = (Box<[SliceDim]>, Option<V<'e>>);

/// What is known of a cotangent at once.
enum Found<'e> {
    /// It comes from another one.
    From(Var, Step<'e>),
    /// A mask that holds wherever it may differ from zero; `None` where that is everywhere.
    Mask(Option<V<'e>>),
}

/// Whether a primitive gives zeros to the cotangents of what it leaves out.
pub(super) fn leaves_out(prim: Prim) -> bool {
    const SELECTING: [Prim; 6] = [
        ops::SLICE,
        ops::GATHER,
        ops::UPDATE,
        ops::SCATTER,
        ops::MAX,
        ops::MIN,
    ];
    let is_general = matches!(prim.0.class, Class::General { .. }) && prim != ops::MATMUL;
    is_general || SELECTING.contains(&prim)
}

/// So many sums are followed in one another.
const DEPTH: usize = 12;

/// Arrays of so many elements are looked at one by one, to see whether slices cover them.
const FEW: usize = 1 << 16;

/// The masks of cotangents that were asked for.
pub(super) struct StructuralZeros<'e> {
    builder: &'e Builder,
    /// The first variable behind the primal and its inputs: cotangents are made from here on.
    first: Var,
    /// What is known of them.
    known: Vec<Known>,
}

/// What is known of the zeros of a variable.
#[derive(Clone, Copy)]
enum Known {
    Nothing,
    /// It has none by its making.
    None,
    /// It is zero outside of this mask.
    Mask(Var),
}

impl<'e> StructuralZeros<'e> {
    pub fn new(builder: &'e Builder) -> StructuralZeros<'e> {
        StructuralZeros {
            builder,
            first: builder.num_vars() as Var,
            known: Vec::new(),
        }
    }

    /// A mask outside of which a cotangent is zero by its making, if there is an outside.
    pub fn of(&mut self, ct: V<'e>) -> Option<V<'e>> {
        self.find(ct.var(), DEPTH)
    }

    fn known(&self, var: Var) -> Known {
        let at = (var - self.first) as usize;
        self.known.get(at).copied().unwrap_or(Known::Nothing)
    }

    fn note(&mut self, var: Var, mask: Option<V<'e>>) {
        let Some(at) = var.checked_sub(self.first) else {
            return;
        };
        let at = at as usize;
        if self.known.len() <= at {
            self.known.resize(2 * at + 64, Known::Nothing);
        }
        self.known[at] = mask.map_or(Known::None, |mask| Known::Mask(mask.var()));
    }

    fn find(&mut self, var: Var, depth: usize) -> Option<V<'e>> {
        let (mut at, mut steps) = (var, SmallVec::<[(Var, Step<'e>); 4]>::new());
        let source = loop {
            if at < self.first {
                break None;
            }
            match self.known(at) {
                Known::Nothing => {}
                Known::None => break None,
                Known::Mask(mask) => break Some(self.builder.value(mask)),
            }
            match self.look(at, depth) {
                Found::Mask(mask) => break mask,
                Found::From(inner, step) => {
                    steps.push((at, step));
                    at = inner;
                }
            }
        };
        let mask =
            (steps.iter().rev()).fold(source, |mask, (whole, step)| self.after(mask, step, *whole));
        self.note(var, mask);
        mask
    }

    fn look(&mut self, var: Var, depth: usize) -> Found<'e> {
        // The cotangent is the first operand of what the reverse pass multiplies.
        const ONE_BY_ONE: [Prim; 7] = [
            ops::MUL,
            ops::DIV,
            ops::NEG,
            ops::CAST,
            ops::CONJ,
            ops::REAL,
            ops::IMAG,
        ];
        const MOVING: [Prim; 4] = [ops::RESHAPE, ops::TRANSPOSE, ops::BROADCAST, ops::SLICE];
        let builder = self.builder;
        let Some((prim, args)) = builder.with(|program| {
            let eqn = program.definition(var)?;
            let args: SmallVec<[Var; 4]> = program.args(eqn).into();
            Some((eqn.prim, args))
        }) else {
            return Found::Mask(None);
        };
        let zero = |i: usize| is_zero(builder, args[i]);
        let from = |i: usize, step: Step<'e>| Found::From(args[i], step);
        if ONE_BY_ONE.contains(&prim) {
            return from(0, Step::Same);
        }
        if prim == ops::WHERE && zero(2) {
            return from(1, Step::And(builder.value(args[0])));
        }
        if prim == ops::WHERE && zero(1) {
            return from(2, Step::And(builder.value(args[0]).not()));
        }
        let params = || {
            builder.with(|program| {
                let eqn = program.definition(var);
                eqn.map_or(Params::None, |eqn| program.params(eqn).clone())
            })
        };
        if MOVING.contains(&prim) {
            return from(0, Step::Move(prim, params()));
        }
        if prim == ops::COMPLEX && (zero(0) || zero(1)) {
            return from(usize::from(zero(0)), Step::Same);
        }
        if prim == ops::GATHER {
            return from(0, Step::Rows(builder.value(args[1])));
        }
        if prim == ops::SUM {
            return from(0, Step::Sum(Axes::from_slice(params().axes())));
        }
        let mask = if depth == 0 {
            None
        } else if prim == ops::ADD || prim == ops::SUB {
            self.sum(&args, depth)
        } else if prim == ops::MATMUL {
            self.product(var, &args, depth)
        } else if prim == ops::UPDATE_ADD {
            self.patched(var, depth)
        } else if prim == ops::SCATTER_ADD {
            self.scattered(var, &args, depth)
        } else {
            return match params() {
                Params::Region { shape, dims } if prim == ops::PAD => {
                    from(0, Step::Pad(shape, dims))
                }
                Params::Slice(dims) if prim == ops::UPDATE && zero(1) => {
                    from(0, Step::Erase(builder.aval(var).shape, dims))
                }
                params if prim == ops::CUMSUM => from(0, Step::Scan(params)),
                _ => Found::Mask(None),
            };
        };
        Found::Mask(mask)
    }

    /// The mask behind a step to `whole`, given the one before it.
    fn after(&self, mask: Option<V<'e>>, step: &Step<'e>, whole: Var) -> Option<V<'e>> {
        let everywhere = |shape: &[usize]| self.everywhere(DType::Bool, shape);
        match step {
            Step::Same => {
                // A factor may be larger than the cotangent.
                let shape = self.builder.aval(whole).shape;
                mask.map(|mask| mask.broadcast_to(&shape))
            }
            Step::And(cond) => {
                let shape = self.builder.aval(whole).shape;
                let cond = if cond.dtype() == DType::Bool {
                    *cond
                } else {
                    cond.combine(ops::NE, cond.number(0.0))
                };
                let cond = cond.broadcast_to(&shape);
                Some(mask.map_or(cond, |mask| mask.broadcast_to(&shape).and(cond)))
            }
            Step::Move(prim, params) => mask.map(|mask| mask.apply(*prim, params.clone(), &[])),
            Step::Rows(index) => mask.map(|mask| mask.apply(ops::GATHER, Params::None, &[*index])),
            Step::Sum(axes) => {
                let mask = mask?;
                // Sums of nothing leave nothing out.
                if axes.iter().any(|&a| mask.shape()[a] == 0) {
                    return None;
                }
                let once = self.repeated(mask, axes);
                Some(once.unwrap_or_else(|| mask.reduce(ops::MAX, axes)))
            }
            Step::Scan(params) => mask.map(|mask| {
                let counts = mask.cast(DType::F32);
                positive(counts.apply(ops::CUMSUM, params.clone(), &[]))
            }),
            Step::Pad(shape, dims) => {
                let part: Shape = dims.iter().map(|d| d.len).collect();
                // Elements in another order are all there.
                if mask.is_none() && part == *shape {
                    return None;
                }
                let mask = mask.unwrap_or_else(|| everywhere(&part));
                Some(mask.pad(shape, dims))
            }
            Step::Erase(shape, dims) => {
                let part: Shape = dims.iter().map(|d| d.len).collect();
                let mask = mask.unwrap_or_else(|| everywhere(shape));
                let nothing = mask.number(0.0).broadcast_to(&part);
                Some(mask.apply(ops::UPDATE, Params::Slice(dims.clone()), &[nothing]))
            }
        }
    }

    /// Ones of a shape.
    fn everywhere(&self, dtype: DType, shape: &[usize]) -> V<'e> {
        let one = self.builder.value(self.builder.number(dtype, 1.0));
        one.broadcast_to(shape)
    }

    /// Of a sum, which is zero where both terms are.
    fn sum(&mut self, args: &[Var], depth: usize) -> Option<V<'e>> {
        let a = self.find(args[0], depth - 1)?;
        let b = self.find(args[1], depth - 1)?;
        Some(a.or(b))
    }

    /// A mask without axes that it is only repeated along, or that have one element.
    fn repeated(&self, mask: V<'e>, axes: &[usize]) -> Option<V<'e>> {
        let shape = mask.shape();
        if axes.iter().all(|&a| shape[a] == 1) {
            let kept = (0..shape.len()).filter(|i| !axes.contains(i));
            return Some(mask.reshape(&kept.map(|i| shape[i]).collect::<Shape>()));
        }
        let (_, args) = self.builder.made_by(mask.var(), &[ops::BROADCAST])?;
        let (once, wide) = (self.builder.value(args[0]), mask.shape());
        let mut shape = Shape::from_elem(1, wide.len() - once.shape().len());
        shape.extend(once.shape());
        if axes.iter().any(|&a| shape[a] != 1) {
            return None;
        }
        let without = |shape: &[usize]| -> Shape {
            let kept = (0..shape.len()).filter(|i| !axes.contains(i));
            kept.map(|i| shape[i]).collect()
        };
        let once = once.reshape(&without(&shape));
        Some(once.broadcast_to(&without(&wide)))
    }

    /// Of a product of matrices, if whole rows of the first or columns of the second are left out.
    fn product(&mut self, out: Var, args: &[Var], depth: usize) -> Option<V<'e>> {
        let shape = self.builder.aval(out).shape;
        let mut lines = |i: usize| {
            let mask = self.find(args[i], depth - 1)?;
            let (own, axis) = (mask.shape(), mask.shape().len() - 1 - i);
            let once = self.repeated(mask, &[axis])?;
            let mut wide = own;
            wide[axis] = 1;
            Some(once.reshape(&wide).broadcast_to(&shape))
        };
        match (lines(0), lines(1)) {
            (Some(rows), Some(columns)) => Some(rows.and(columns)),
            (rows, columns) => rows.or(columns),
        }
    }

    /// Of an array to whose regions others were added, one after the other.
    fn patched(&mut self, whole: Var, depth: usize) -> Option<V<'e>> {
        let builder = self.builder;
        let (mut base, mut regions) = (whole, Vec::new());
        while let Some((Params::Slice(dims), args)) = builder.made_by(base, &[ops::UPDATE_ADD]) {
            regions.push((dims, args[1]));
            base = args[0];
        }
        let shape = builder.aval(whole).shape;
        let mut parts: Vec<Part<'e>> = (regions.into_iter())
            .map(|(dims, part)| (dims, self.find(part, depth - 1)))
            .collect();
        if self.is_filled(base, &parts, depth) {
            return None;
        }
        let base = self.find(base, depth - 1)?;
        let whole_base = builder
            .made_by(base.var(), &[ops::PAD])
            .and_then(|(params, args)| {
                let is_full = builder
                    .made_by(args[0], &[ops::BROADCAST])
                    .is_some_and(|(_, args)| builder.literal(args[0]) == Some(1.0));
                match params {
                    Params::Region { dims, .. } if is_full => Some(dims),
                    _ => None,
                }
            });
        let full = parts.iter().filter(|(_, mask)| mask.is_none());
        let regions = full.map(|(dims, _)| &**dims).chain(whole_base.as_deref());
        if covers(&shape, regions) {
            return None;
        }
        let counts = parts
            .drain(..)
            .fold(base.cast(DType::F32), |counts, (dims, mask)| {
                let part: Shape = dims.iter().map(|d| d.len).collect();
                let part = match mask {
                    Some(mask) => mask.cast(DType::F32),
                    None => self.everywhere(DType::F32, &part),
                };
                counts.apply(ops::UPDATE_ADD, Params::Slice(dims), &[part])
            });
        Some(positive(counts))
    }

    /// Whether the regions that were erased from an array are those that something was added to since: what an operator
    /// in place does, `x[1:] *= y`.
    fn is_filled(&mut self, base: Var, added: &[Part<'e>], depth: usize) -> bool {
        let (mut source, mut is_erased) = (base, false);
        while let Some((Params::Slice(dims), args)) = self.builder.made_by(source, &[ops::UPDATE]) {
            let is_added = |(region, mask): &Part<'e>| mask.is_none() && *region == dims;
            if !is_zero(self.builder, args[1]) || !added.iter().any(is_added) {
                return false;
            }
            (source, is_erased) = (args[0], true);
        }
        is_erased && self.find(source, depth - 1).is_none()
    }

    /// Of an array to whose rows others were added.
    fn scattered(&mut self, whole: Var, args: &[Var], depth: usize) -> Option<V<'e>> {
        let shape = self.builder.aval(whole).shape;
        let base = if is_zero(self.builder, args[0]) {
            let zero = self.builder.value(self.builder.number(DType::F32, 0.0));
            zero.broadcast_to(&shape)
        } else {
            self.find(args[0], depth - 1)?.cast(DType::F32)
        };
        let rows = match self.find(args[2], depth - 1) {
            Some(mask) => mask.cast(DType::F32),
            None => self.everywhere(DType::F32, &self.builder.aval(args[2]).shape),
        };
        let index = self.builder.value(args[1]);
        Some(positive(base.apply(
            ops::SCATTER_ADD,
            Params::None,
            &[index, rows],
        )))
    }
}

fn positive(counts: V<'_>) -> V<'_> {
    counts.combine(ops::GT, counts.number(0.0))
}

/// Whether regions leave out no element of a shape, as far as can be told with little work.
fn covers<'a>(shape: &[usize], regions: impl Iterator<Item = &'a [SliceDim]>) -> bool {
    let is_whole = |d: &SliceDim, n: usize| d.len == n && n > 0;
    let size: usize = shape.iter().product();
    if size > FEW {
        // Along one axis, of which each region has a stretch and all of the others.
        let mut axis = None;
        let mut regions: Vec<&[SliceDim]> = regions.collect();
        for dims in &regions {
            for (i, (d, &n)) in dims.iter().zip(shape).enumerate() {
                if !is_whole(d, n) && *axis.get_or_insert(i) != i {
                    return false;
                }
            }
        }
        let Some(axis) = axis else {
            return !regions.is_empty();
        };
        regions.retain(|dims| dims[axis].step == 1);
        regions.sort_by_key(|dims| dims[axis].start);
        let reached = regions.iter().try_fold(0, |end, dims| {
            let d = dims[axis];
            (d.start <= end).then(|| end.max(d.start + d.len))
        });
        return reached.is_some_and(|end| end >= shape[axis]);
    }
    let (mut seen, mut left) = (vec![false; size], size);
    for dims in regions {
        let mut offsets = vec![0usize];
        for (d, &n) in dims.iter().zip(shape) {
            let at = |i: usize| (d.start as isize + i as isize * d.step) as usize;
            offsets = (offsets.iter())
                .flat_map(|&o| (0..d.len).map(move |i| o * n + at(i)))
                .collect();
        }
        for offset in offsets {
            left -= usize::from(!std::mem::replace(&mut seen[offset], true));
        }
        if left == 0 {
            return true;
        }
    }
    left == 0
}

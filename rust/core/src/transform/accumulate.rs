//! The cotangents of all variables of a program, and how contributions to them come together.
//!
//! Rules state one contribution; this file brings it into the space of its primal (sums over what
//! was broadcast, takes the real part, casts) and adds it to those that are there.

use super::cotangent::Ct;
use super::sparse_cotangent::{self, is_zero};
use crate::aval::{Aval, broadcast};
use crate::ops;
use crate::prim::{Params, Partial, V, Var};
use crate::program::Builder;

/// The cotangents of all variables of a primal program, as far as they have arrived.
pub(super) struct Cotangents<'e> {
    builder: &'e Builder,
    slots: Vec<Slot>,
}

/// A [`Ct`], packed, since a long chain has many of them: its variable, `NONE` for a structural zero, and above that
/// its mask, `NONE` where there is none, `PART` where there is a part. One number, because two that are written
/// one by one and read at once are waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot(u64);

/// No variable has this number.
const NONE: Var = Var::MAX;

/// Nor this one, which stands in the place of a mask where the variable is zero but for a part.
const PART: Var = Var::MAX - 1;

impl Slot {
    #[inline]
    fn new(var: Var, mask: Var) -> Slot {
        Slot(u64::from(mask) << 32 | u64::from(var))
    }

    fn pack(ct: Ct<'_>) -> Slot {
        match ct {
            Ct::Zero => Slot::new(NONE, NONE),
            Ct::Dense(v) => Slot::new(v.var(), NONE),
            Ct::Masked(v, mask) => Slot::new(v.var(), mask.var()),
            Ct::Part(v) => Slot::new(v.var(), PART),
        }
    }

    #[inline]
    fn var(self) -> Var {
        self.0 as Var
    }

    #[inline]
    fn mask(self) -> Var {
        (self.0 >> 32) as Var
    }

    /// Whether nothing has arrived.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.var() == NONE
    }

    /// Whether it is zero but for a part.
    #[inline]
    pub fn is_part(self) -> bool {
        self.mask() == PART
    }

    /// Whether it is one variable, or nothing.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.mask() == NONE
    }
}

impl<'e> Cotangents<'e> {
    /// Structural zeros.
    pub fn new(builder: &'e Builder, count: usize) -> Cotangents<'e> {
        let slots = vec![Slot::new(NONE, NONE); count];
        Cotangents { builder, slots }
    }

    /// What has arrived for a variable.
    #[inline]
    pub fn of(&self, var: Var) -> Slot {
        self.slots[var as usize]
    }

    /// The same, unpacked.
    pub fn unpack(&self, slot: Slot) -> Ct<'e> {
        let value = |var| self.builder.value(var);
        match (slot.var(), slot.mask()) {
            (NONE, _) => Ct::Zero,
            (v, NONE) => Ct::Dense(value(v)),
            (v, PART) => Ct::Part(value(v)),
            (v, mask) => Ct::Masked(value(v), value(mask)),
        }
    }

    /// What is zero but for a part, if it is.
    #[inline]
    pub fn part(&self, slot: Slot) -> Option<V<'e>> {
        slot.is_part().then(|| self.builder.value(slot.var()))
    }

    /// Adds a contribution to the cotangent of a variable like `primal`.
    pub fn add(&mut self, var: Var, contribution: Ct<'e>, primal: &Aval) {
        let sum = self.unpack(self.of(var));
        let contribution = project(contribution, primal, self.builder);
        let sum = match (sum, contribution) {
            (Ct::Part(a), Ct::Part(b)) => match sparse_cotangent::joined(self.builder, a, b) {
                Some(sum) => Ct::Part(sum),
                None => Ct::Dense(self.in_part(a, b).unwrap_or_else(|| a + b)),
            },
            (Ct::Dense(a) | Ct::Part(a), Ct::Dense(b) | Ct::Part(b)) => {
                Ct::Dense(self.in_part(a, b).unwrap_or_else(|| a + b))
            }
            _ => sum.plus(contribution, self.builder),
        };
        self.slots[var as usize] = Slot::pack(sum);
    }

    /// The sum of two arrays one of which is zero but for a part that was read: the part is added in
    /// place, so that reading an array of n elements one by one costs n steps and not n arrays.
    fn in_part(&self, a: V<'e>, b: V<'e>) -> Option<V<'e>> {
        self.part_added(a, b).or_else(|| self.part_added(b, a))
    }

    fn part_added(&self, sum: V<'e>, part: V<'e>) -> Option<V<'e>> {
        let (params, args) = self
            .builder
            .made_by(part.var(), &[ops::PAD, ops::SCATTER_ADD])?;
        let value = |i: usize| self.builder.value(args[i]);
        match params {
            Params::Region { dims, .. } => {
                Some(sum.apply(ops::UPDATE_ADD, Params::Slice(dims), &[value(0)]))
            }
            Params::None if is_zero(self.builder, args[0]) => {
                let rest = [value(1), value(2)];
                Some(sum.apply(ops::SCATTER_ADD, Params::None, &rest))
            }
            _ => None,
        }
    }

    /// The short way for what is met most: the plain cotangent of a result goes, perhaps by a factor, to an argument
    /// that is of real numbers and of the same dtype and shape, `aval`. False where the factor or what has arrived is
    /// not like that, and nothing is added.
    #[inline(always)]
    pub fn add_alike(&mut self, var: Var, ct: Slot, partial: &Partial<'e>, aval: u32) -> bool {
        let slot = &mut self.slots[var as usize];
        if !slot.is_plain() {
            return false;
        }
        let sum = (!slot.is_zero()).then(|| slot.var());
        let sum = match partial {
            Partial::One => {
                self.builder
                    .add_product((ops::MUL, ops::ADD), sum, ct.var(), None, aval)
            }
            Partial::Times(p) => {
                self.builder
                    .add_product((ops::MUL, ops::ADD), sum, ct.var(), Some(p.var()), aval)
            }
            _ => return false,
        };
        let Some(sum) = sum else {
            return false;
        };
        *slot = Slot::new(sum, NONE);
        true
    }
}

/// A contribution in the space of a primal of this dtype and shape.
pub(crate) fn project<'e>(ct: Ct<'e>, primal: &Aval, builder: &'e Builder) -> Ct<'e> {
    let fit = |v: V<'e>| {
        let v = if v.dtype().is_complex() && !primal.dtype.is_complex() {
            v.real()
        } else {
            v
        };
        v.cast(primal.dtype)
    };
    match ct {
        Ct::Zero => Ct::Zero,
        Ct::Masked(v, mask) if v.shape() == primal.shape && mask.shape() == primal.shape => {
            Ct::Masked(fit(v), mask)
        }
        Ct::Part(v) if v.dtype() == primal.dtype && v.shape() == primal.shape => ct,
        Ct::Part(v)
            if v.dtype() == primal.dtype
                && let Some(sum) = sparse_cotangent::summed(builder, v, &primal.shape) =>
        {
            Ct::Part(sum)
        }
        other => {
            // The sum over repeated axes has to see the zeros of the mask.
            let Some(v) = other.dense() else {
                return Ct::Zero;
            };
            let v = fit(v);
            // Most contributions have the shape of the result, which the argument was repeated to;
            // a rule may also give a smaller one, which stands for its repetition.
            let both = broadcast(&v.shape(), &primal.shape);
            let v = both.map_or(v, |both| v.broadcast_to(&both));
            if v.shape() == primal.shape {
                return Ct::Dense(v);
            }
            // The sign changes once for each sum, not for each element of it.
            Ct::Dense(match builder.made_by(v.var(), &[ops::NEG]) {
                Some((_, args)) => -builder.value(args[0]).sum_to(&primal.shape),
                None => v.sum_to(&primal.shape),
            })
        }
    }
}

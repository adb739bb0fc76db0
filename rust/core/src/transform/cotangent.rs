//! What a cotangent can be while the reverse pass runs, and how contributions come together.
//!
//! Rules state one contribution; this file brings it into the space of its primal (sums over what
//! was broadcast, takes the real part, casts) and adds it to those that are there.

use crate::aval::{Aval, broadcast};
use crate::ops;
use crate::prim::{Partial, V};

/// The cotangent of one variable so far.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ct<'e> {
    /// Nothing has arrived: a structural zero, which costs nothing.
    Zero,
    /// A variable.
    Dense(V<'e>),
    /// A variable where the mask holds, exactly zero elsewhere - even where the variable is NaN.
    Masked(V<'e>, V<'e>),
}

impl<'e> Ct<'e> {
    /// As one variable; `None` for a structural zero.
    pub fn dense(self) -> Option<V<'e>> {
        match self {
            Ct::Zero => None,
            Ct::Dense(v) => Some(v),
            Ct::Masked(v, mask) => Some(mask.select(v, v.number(0.0))),
        }
    }

    /// The cotangent of an argument whose partial derivative this is. A mask stays outermost.
    pub fn through(self, partial: &Partial<'e>) -> Ct<'e> {
        let apply = |v: V<'e>| match *partial {
            Partial::One | Partial::Where(..) | Partial::Zero => v,
            Partial::MinusOne => -v,
            Partial::Times(p) => {
                if let Some(product) = v.emit.combine(ops::MUL, v.var, p.var) {
                    return v.with(product);
                }
                let (v, p) = meet(v, p);
                v * p.conj_if_complex()
            }
            Partial::Over(p) => {
                let (v, p) = meet(v, p);
                v / p.conj_if_complex()
            }
        };
        if let Partial::Zero = partial {
            return Ct::Zero;
        }
        let out = match self {
            Ct::Zero => return Ct::Zero,
            Ct::Dense(v) => Ct::Dense(apply(v)),
            Ct::Masked(v, mask) => Ct::Masked(apply(v), mask),
        };
        let Partial::Where(cond, flag) = *partial else {
            return out;
        };
        let cond = if flag { cond } else { cond.not() };
        match out {
            Ct::Dense(v) => Ct::Masked(v, cond),
            Ct::Masked(v, mask) => Ct::Masked(
                v,
                mask.apply(ops::LOGICAL_AND, crate::prim::Params::None, &[cond]),
            ),
            Ct::Zero => Ct::Zero,
        }
    }

    /// In the space of a primal of this dtype and shape.
    pub fn project(self, primal: &Aval) -> Ct<'e> {
        // Nothing was repeated and nothing cast: the common case.
        if let Ct::Dense(v) = self
            && v.emit.is_like(v.var, primal)
        {
            return self;
        }
        let fit = |v: V<'e>| {
            let v = if v.dtype().is_complex() && !primal.dtype.is_complex() {
                v.real()
            } else {
                v
            };
            v.cast(primal.dtype)
        };
        match self {
            Ct::Zero => Ct::Zero,
            Ct::Masked(v, mask) if v.shape() == primal.shape && mask.shape() == primal.shape => {
                Ct::Masked(fit(v), mask)
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
                Ct::Dense(v.sum_to(&primal.shape))
            }
        }
    }

    /// Both together.
    pub fn plus(self, other: Ct<'e>) -> Ct<'e> {
        match (self, other) {
            (Ct::Zero, ct) | (ct, Ct::Zero) => ct,
            (Ct::Dense(a), Ct::Dense(b)) => Ct::Dense(
                a.emit
                    .combine(ops::ADD, a.var, b.var)
                    .map_or_else(|| a + b, |sum| a.with(sum)),
            ),
            (Ct::Masked(a, m), Ct::Masked(b, n)) if m.var == n.var => Ct::Masked(a + b, m),
            (a, b) => match (a.dense(), b.dense()) {
                (Some(a), Some(b)) => Ct::Dense(a + b),
                (Some(v), None) | (None, Some(v)) => Ct::Dense(v),
                (None, None) => Ct::Zero,
            },
        }
    }
}

/// Two variables in their common dtype (a real cotangent meets a complex factor).
pub(super) fn meet<'e>(a: V<'e>, b: V<'e>) -> (V<'e>, V<'e>) {
    let (x, y) = (a.dtype(), b.dtype());
    if x == y {
        return (a, b);
    }
    let dtype = x.promote(y);
    (a.cast(dtype), b.cast(dtype))
}

//! What a cotangent can be while the reverse pass runs: zero, a variable, a masked one, or zero but for a part.

use crate::ops;
use crate::prim::{Params, Partial, V};
use crate::program::Builder;

/// The cotangent of one variable so far.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ct<'e> {
    /// Nothing has arrived: a structural zero, which costs nothing.
    Zero,
    /// A variable.
    Dense(V<'e>),
    /// A variable where the mask holds, exactly zero elsewhere - even where the variable is NaN.
    Masked(V<'e>, V<'e>),
    /// A variable that is exactly zero but for a part, which it was made of (see `sparse_cotangent`).
    Part(V<'e>),
}

impl<'e> Ct<'e> {
    /// As one variable; `None` for a structural zero.
    pub fn dense(self) -> Option<V<'e>> {
        match self {
            Ct::Zero => None,
            Ct::Dense(v) | Ct::Part(v) => Some(v),
            Ct::Masked(v, mask) => Some(mask.select(v, v.number(0.0))),
        }
    }

    /// The cotangent of an argument whose partial derivative this is. A mask stays outermost.
    pub fn through(self, partial: &Partial<'e>) -> Ct<'e> {
        let apply = |v: V<'e>| match *partial {
            Partial::One | Partial::Where(..) | Partial::Zero => v,
            Partial::MinusOne => -v,
            Partial::Times(p) | Partial::TimesWhere(p, _) => {
                let (v, p) = meet(v, p);
                v * p.conj_if_complex()
            }
            Partial::Over(p) | Partial::Steep(p) => {
                let (v, p) = meet(v, p);
                v / p.conj_if_complex()
            }
            Partial::MinusRatio(n, d) => {
                let (v, d) = meet(v, d);
                let (v, n) = meet(v / d.conj_if_complex(), n);
                -(v * n.conj_if_complex())
            }
        };
        if let Partial::Zero = partial {
            return Ct::Zero;
        }
        let out = match self {
            Ct::Zero => return Ct::Zero,
            Ct::Dense(v) | Ct::Part(v) => Ct::Dense(apply(v)),
            Ct::Masked(v, mask) => Ct::Masked(apply(v), mask),
        };
        let cond = match (partial, self) {
            (&(Partial::Where(cond, true) | Partial::TimesWhere(_, cond)), _) => cond,
            (&Partial::Where(cond, false), _) => cond.not(),
            // Where the function is not steep, a cotangent of 0 is like any other: what it comes from
            // may have a derivative of its own.
            (&Partial::Steep(p), Ct::Dense(v) | Ct::Part(v) | Ct::Masked(v, _)) => {
                let given = v.combine(ops::NE, v.number(0.0));
                let finite = p.combine(ops::NE, p.number(0.0));
                given.apply(ops::LOGICAL_OR, Params::None, &[finite])
            }
            _ => return out,
        };
        out.masked(cond)
    }

    /// Zero where a mask does not hold, too.
    pub fn masked(self, mask: V<'e>) -> Ct<'e> {
        match self {
            Ct::Zero => Ct::Zero,
            Ct::Dense(v) | Ct::Part(v) => Ct::Masked(v, mask),
            Ct::Masked(v, other) if other.var() == mask.var() => Ct::Masked(v, other),
            Ct::Masked(v, other) => Ct::Masked(v, other.and(mask)),
        }
    }

    /// Both together, in a program that is being built.
    pub fn plus(self, other: Ct<'e>, builder: &Builder) -> Ct<'e> {
        match (self, other) {
            (Ct::Zero, ct) | (ct, Ct::Zero) => ct,
            (Ct::Dense(a), Ct::Dense(b)) => Ct::Dense(a + b),
            (Ct::Masked(a, m), Ct::Masked(b, n)) if m.var() == n.var() => Ct::Masked(a + b, m),
            (Ct::Masked(a, m), Ct::Masked(b, n)) if m.shape() == n.shape() => {
                // Still exactly zero where neither holds, whatever comes after. One that came about
                // behind the other one holds nowhere else.
                let zeroed = |v: V<'e>, mask: V<'e>| mask.select(v, v.number(0.0));
                if narrows(builder, n, m) {
                    Ct::Masked(a + zeroed(b, n), m)
                } else if narrows(builder, m, n) {
                    Ct::Masked(zeroed(a, m) + b, n)
                } else {
                    let either = m.apply(ops::LOGICAL_OR, Params::None, &[n]);
                    Ct::Masked(zeroed(a, m) + zeroed(b, n), either)
                }
            }
            (a, b) => match (a.dense(), b.dense()) {
                (Some(a), Some(b)) => Ct::Dense(a + b),
                (Some(v), None) | (None, Some(v)) => Ct::Dense(v),
                (None, None) => Ct::Zero,
            },
        }
    }
}

/// Whether a mask is another one and something else.
fn narrows(builder: &Builder, mask: V<'_>, other: V<'_>) -> bool {
    let made = builder.made_by(mask.var(), &[ops::LOGICAL_AND]);
    made.is_some_and(|(_, args)| args.contains(&other.var()))
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

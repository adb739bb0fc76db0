//! Rule values, through which derivative rules write equations.

use std::fmt;

use super::{Params, Prim, Var};
use crate::aval::{Aval, DType, Shape};
use crate::program::Builder;

/// A variable together with the program it belongs to: operators and methods write equations.
#[derive(Clone, Copy)]
pub struct V<'e> {
    /// The variable. Wide, so that a rule value has no padding: four bytes that are written and copied as eight are
    /// waited for.
    var: u64,
    /// Where equations go.
    pub to: &'e Builder,
}

impl fmt::Debug for V<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.var())
    }
}

impl<'e> V<'e> {
    /// A variable as a rule value.
    #[inline]
    pub fn new(var: Var, to: &'e Builder) -> V<'e> {
        let var = u64::from(var);
        V { var, to }
    }

    /// The variable.
    #[inline]
    pub fn var(self) -> Var {
        self.var as Var
    }

    /// Makes it the value of another variable of the same program.
    #[inline]
    pub fn point_to(&mut self, var: Var) {
        self.var = u64::from(var);
    }

    /// The result of a primitive.
    #[inline]
    pub fn apply(self, prim: Prim, params: Params, others: &[V<'e>]) -> V<'e> {
        match (others, &params) {
            ([], Params::None) => self.with(self.to.map(prim, self.var())),
            ([y], Params::None) => self.with(self.to.combine(prim, self.var(), y.var())),
            _ => self.apply_with(prim, params, others),
        }
    }

    fn apply_with(self, prim: Prim, params: Params, others: &[V<'e>]) -> V<'e> {
        match others {
            [] => self.with(self.to.emit(prim, params, &[self.var()])),
            [y] => self.with(self.to.emit(prim, params, &[self.var(), y.var()])),
            [y, z] => {
                let vars = [self.var(), y.var(), z.var()];
                self.with(self.to.emit(prim, params, &vars))
            }
            _ => {
                let mut vars = vec![self.var()];
                vars.extend(others.iter().map(|v| v.var()));
                self.with(self.to.emit(prim, params, &vars))
            }
        }
    }

    /// Another variable of the same program.
    #[inline]
    pub fn with(self, var: Var) -> V<'e> {
        V::new(var, self.to)
    }

    /// Dtype and shape.
    pub fn aval(self) -> Aval {
        self.to.aval(self.var())
    }

    /// Dtype.
    pub fn dtype(self) -> DType {
        self.to.dtype(self.var())
    }

    /// Shape.
    pub fn shape(self) -> Shape {
        self.to.aval(self.var()).shape
    }

    /// A number of this variable's dtype.
    pub fn number(self, value: f64) -> V<'e> {
        self.with(self.to.number(self.dtype(), value))
    }

    /// Whether this is a literal of this value.
    pub fn is(self, value: f64) -> bool {
        self.to.literal(self.var()) == Some(value)
    }
}

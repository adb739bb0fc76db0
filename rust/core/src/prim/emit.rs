//! The handle through which derivative rules write equations.

use std::fmt;

use super::{Params, Prim, Site};
use crate::aval::{Aval, DType, Shape};

/// A variable of a program: its inputs come first, then one variable for each equation.
pub type Var = u32;

/// Something that equations can be written to.
pub trait Emit {
    /// Adds an equation and gives its result. A rule's arguments fit by construction; should they
    /// not, the emitter keeps the error and reports it at the end.
    fn emit(&self, prim: Prim, params: Params, x: &[Var]) -> Var;
    /// The same without parameters, as most equations are.
    fn plain(&self, prim: Prim, x: &[Var]) -> Var {
        self.emit(prim, Params::None, x)
    }
    /// Dtype and shape of a variable.
    fn aval(&self, var: Var) -> Aval;
    /// Dtype of a variable.
    fn dtype(&self, var: Var) -> DType;
    /// The known value of a literal.
    fn literal(&self, var: Var) -> Option<f64>;
    /// A number as a zero-dimensional literal.
    fn number(&self, dtype: DType, value: f64) -> Var;
    /// The site of what is written from now on; gives the one until now.
    fn at(&self, site: Site) -> Site;
}

/// A variable together with the program it belongs to: operators and methods write equations.
#[derive(Clone, Copy)]
pub struct V<'e> {
    /// The variable. Wide, so that a handle has no padding: four bytes that are written and copied as eight are
    /// waited for.
    var: u64,
    /// Where equations go.
    pub emit: &'e dyn Emit,
}

impl fmt::Debug for V<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.var())
    }
}

impl<'e> V<'e> {
    /// The handle of a variable.
    #[inline]
    pub fn new(var: Var, emit: &'e dyn Emit) -> V<'e> {
        let var = u64::from(var);
        V { var, emit }
    }

    /// The variable.
    #[inline]
    pub fn var(self) -> Var {
        self.var as Var
    }

    /// Makes it the handle of another variable of the same program.
    #[inline]
    pub fn point_to(&mut self, var: Var) {
        self.var = u64::from(var);
    }

    /// The result of a primitive.
    #[inline]
    pub fn apply(self, prim: Prim, params: Params, others: &[V<'e>]) -> V<'e> {
        match (others, &params) {
            ([], Params::None) => self.with(self.emit.plain(prim, &[self.var()])),
            ([y], Params::None) => self.with(self.emit.plain(prim, &[self.var(), y.var()])),
            _ => self.apply_with(prim, params, others),
        }
    }

    fn apply_with(self, prim: Prim, params: Params, others: &[V<'e>]) -> V<'e> {
        match others {
            [] => self.with(self.emit.emit(prim, params, &[self.var()])),
            [y] => self.with(self.emit.emit(prim, params, &[self.var(), y.var()])),
            [y, z] => self.with(
                self.emit
                    .emit(prim, params, &[self.var(), y.var(), z.var()]),
            ),
            _ => {
                let mut vars = vec![self.var()];
                vars.extend(others.iter().map(|v| v.var()));
                self.with(self.emit.emit(prim, params, &vars))
            }
        }
    }

    /// Another variable of the same program.
    pub fn with(self, var: Var) -> V<'e> {
        V::new(var, self.emit)
    }

    /// Dtype and shape.
    pub fn aval(self) -> Aval {
        self.emit.aval(self.var())
    }

    /// Dtype.
    pub fn dtype(self) -> DType {
        self.emit.dtype(self.var())
    }

    /// Shape.
    pub fn shape(self) -> Shape {
        self.emit.aval(self.var()).shape
    }

    /// A number of this variable's dtype.
    pub fn number(self, value: f64) -> V<'e> {
        self.with(self.emit.number(self.dtype(), value))
    }

    /// Whether this is a literal of this value.
    pub fn is(self, value: f64) -> bool {
        self.emit.literal(self.var()) == Some(value)
    }
}

//! The elementwise functions as methods, stamped from the table of primitives, and the dtypes in
//! which they compute: NumPy 2's promotion, in which numbers are weak and arrays are not.

use smallvec::SmallVec;

use super::{Array, Number};
use crate::aval::{DType, Kind};
use crate::error::{Error, Result};
use crate::kernels::LaneOp;
use crate::ops;
use crate::prim::{Class, Params, Prim, Types};

/// An argument of an elementwise function: an array, or a number, which takes the dtype of the arrays
/// beside it.
#[derive(Debug, Clone, Copy)]
pub enum Operand<'a> {
    /// An array.
    Array(&'a Array),
    /// A number.
    Number(Number),
}

impl<'a> From<&'a Array> for Operand<'a> {
    fn from(x: &'a Array) -> Operand<'a> {
        Operand::Array(x)
    }
}

impl<T: Into<Number>> From<T> for Operand<'_> {
    fn from(x: T) -> Operand<'static> {
        Operand::Number(x.into())
    }
}

impl Number {
    fn kind(self) -> Kind {
        match self {
            Number::Int(_) => Kind::Integer,
            Number::Float(_) => Kind::Float,
            Number::Complex(_) => Kind::Complex,
        }
    }
}

impl Array {
    /// Applies an elementwise primitive: promotes and casts the arguments, then broadcasts them.
    pub fn elementwise(prim: Prim, x: &[Operand<'_>]) -> Result<Array> {
        let (Class::Elementwise { types, .. }, Some(lane)) = (&prim.0.class, prim.lane()) else {
            return Err(Error::Program(format!(
                "{}: does not act elementwise",
                prim.name()
            )));
        };
        // The condition of a selection takes no part in promotion.
        let skip = usize::from(lane == LaneOp::Where);
        let dtype = compute_dtype(prim, *types, &x[skip..])?;
        let args: SmallVec<[Array; 3]> = (x.iter().enumerate())
            .map(|(i, x)| x.to_array(if i < skip { DType::Bool } else { dtype }))
            .collect::<Result<_>>()?;
        Array::apply(
            prim,
            Params::None,
            &args.iter().collect::<SmallVec<[&Array; 3]>>(),
        )
    }
}

impl Operand<'_> {
    fn to_array(self, dtype: DType) -> Result<Array> {
        match self {
            Operand::Array(x) if dtype == DType::Bool && x.dtype() != DType::Bool => {
                let zero = Array::number(x.dtype(), Number::Int(0));
                Array::apply(ops::NE, Params::None, &[x, &zero])
            }
            Operand::Array(x) => x.cast(dtype),
            Operand::Number(n) => Ok(Array::number(dtype, n)),
        }
    }
}

/// The dtype in which NumPy computes an elementwise function of these operands.
fn compute_dtype(prim: Prim, types: Types, x: &[Operand<'_>]) -> Result<DType> {
    let mut strong: Option<DType> = None;
    let mut weak: Option<Kind> = None;
    for x in x {
        match *x {
            Operand::Array(x) => strong = Some(strong.map_or(x.dtype(), |d| d.promote(x.dtype()))),
            Operand::Number(n) => weak = weak.max(Some(n.kind())),
        }
    }
    let dtype = match (strong, weak) {
        (Some(dtype), None) => dtype,
        (Some(dtype), Some(kind)) if kind <= dtype.kind() => dtype,
        (strong, Some(Kind::Complex)) => strong.map_or(DType::C128, DType::complex),
        (_, Some(Kind::Float)) => DType::F64,
        _ => DType::I64,
    };
    types.compute(dtype).ok_or_else(|| {
        let name = prim.name();
        Error::DType(format!(
            "{name}: takes no {}; cast() the arguments first",
            dtype.numpy_name()
        ))
    })
}

/// One method for each entry.
macro_rules! stamp {
    ($($NAME:ident $name:ident($first:ident $(, $rest:ident)*) $doc:expr;)*) => {
        // They can fail, so they are no operators; and functions of one argument need no lifetime.
        #[allow(clippy::should_implement_trait, clippy::needless_lifetimes)]
        impl Array { $(
            #[doc = $doc]
            pub fn $name<'a>(&'a self $(, $rest: impl Into<Operand<'a>>)*) -> Result<Array> {
                Array::elementwise(ops::$NAME, &[Operand::Array(self) $(, $rest.into())*])
            }
        )* }
    };
}
for_each_elementwise!(stamp);

//! The shape rule of elementwise primitives, and the errors that arguments which do not fit lead to.

use super::{PrimDef, Types};
use crate::aval::{Aval, DType, Kind, Shape, broadcast, tuple};
use crate::error::{Error, Result};
use crate::kernels::{LaneOp, result_dtype};

impl Types {
    /// Whether a dtype is among them.
    pub const fn accept(self, dtype: DType) -> bool {
        match self {
            Types::Any => true,
            Types::Number | Types::Power => !matches!(dtype, DType::Bool),
            Types::Real => !dtype.is_complex(),
            Types::RealNumber => matches!(dtype.kind(), Kind::Integer | Kind::Float),
            Types::Inexact | Types::Quotient | Types::Complex => dtype.is_inexact(),
            Types::Float => matches!(dtype.kind(), Kind::Float),
            Types::Logical => matches!(dtype, DType::Bool),
            Types::IntegerNumber => matches!(dtype.kind(), Kind::Integer),
            Types::Integer => matches!(dtype.kind(), Kind::Bool | Kind::Integer),
        }
    }

    /// The dtype in which NumPy computes for this input; `None` when it refuses.
    pub fn compute(self, dtype: DType) -> Option<DType> {
        let out = match self {
            // As the shortest integers there are.
            Types::Power | Types::RealNumber | Types::IntegerNumber
                if matches!(dtype, DType::Bool) =>
            {
                DType::I8
            }
            Types::Any
            | Types::Real
            | Types::RealNumber
            | Types::Number
            | Types::Power
            | Types::Integer
            | Types::IntegerNumber => dtype,
            Types::Quotient if !dtype.is_inexact() => DType::F64,
            Types::Quotient => dtype,
            Types::Inexact | Types::Float | Types::Complex => dtype.inexact(),
            Types::Logical => DType::Bool,
        };
        self.accept(out).then_some(out)
    }

    /// What to say of a dtype that is refused.
    fn wanted(self) -> &'static str {
        match self {
            Types::Any => "any dtype",
            Types::Number | Types::Power => "numbers, not bool",
            Types::Real | Types::RealNumber => "real numbers",
            Types::Inexact | Types::Quotient => "floats or complex numbers",
            Types::Float => "floats",
            Types::Logical => "bool",
            Types::Integer => "bool or integers",
            Types::IntegerNumber => "integers",
            Types::Complex => "floats or complex numbers",
        }
    }
}

/// The bits of [`super::Prim::keeps`], for the table.
pub(crate) const fn kept(types: Types, lane: LaneOp) -> u16 {
    let (mut bits, mut i) = (0, 0);
    while i < DType::ALL.len() {
        let dtype = DType::ALL[i];
        let same = result_dtype(lane, dtype) as u8 == dtype as u8;
        // The condition of a selection has a dtype of its own.
        if same && dtype.is_inexact() && types.accept(dtype) && !matches!(lane, LaneOp::Where) {
            bits |= 1 << dtype as u16;
        }
        i += 1;
    }
    bits
}

pub(super) fn check_arity(def: &PrimDef, n: usize) -> Result<()> {
    let variadic = def.args.last().is_some_and(|a| a.ends_with("..."));
    if n == def.args.len() || (variadic && n >= def.args.len()) {
        return Ok(());
    }
    Err(Error::Program(format!(
        "{}: takes {} arguments, {n} given",
        def.name,
        def.args.len()
    )))
}

pub(super) fn infer_elementwise(
    def: &PrimDef,
    types: Types,
    lane: LaneOp,
    x: &[&Aval],
) -> Result<Aval> {
    check_arity(def, x.len())?;
    // A selection's condition is a bool of its own; the other arguments share one dtype.
    let numbers = if lane == LaneOp::Where { &x[1..] } else { x };
    let dtype = numbers[0].dtype;
    if lane == LaneOp::Where && x[0].dtype != DType::Bool {
        return Err(Error::DType(format!(
            "{}: the condition must be bool, not {}",
            def.name, x[0].dtype
        )));
    }
    if let Some(other) = numbers.iter().find(|a| a.dtype != dtype) {
        return Err(Error::DType(format!(
            "{}: arguments of different dtypes {dtype} and {}; cast one of them",
            def.name, other.dtype
        )));
    }
    if !types.accept(dtype) {
        return Err(Error::DType(format!(
            "{}: takes {}, not {}",
            def.name,
            types.wanted(),
            dtype.numpy_name()
        )));
    }
    Ok(Aval {
        dtype: result_dtype(lane, dtype),
        shape: broadcast_all(def.name, x)?,
    })
}

/// The common shape of all arguments, or an error that names them.
fn broadcast_all(name: &str, x: &[&Aval]) -> Result<Shape> {
    let mut shape = x[0].shape.clone();
    for a in &x[1..] {
        if a.shape == shape {
            continue;
        }
        shape = broadcast(&shape, &a.shape).ok_or_else(|| {
            let shapes: Vec<_> = x.iter().map(|a| tuple(&a.shape)).collect();
            Error::Shape(format!(
                "{name}: shapes {} do not broadcast together",
                shapes.join(" and ")
            ))
        })?;
    }
    Ok(shape)
}

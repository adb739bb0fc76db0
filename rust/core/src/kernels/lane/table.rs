//! What there is to say of an elementwise operation besides its code, one row for each.
//!
//! The enum, its facts and the lists of lanes that need no code of their own are made from these rows, and so
//! is the cost of an elementwise primitive.

use crate::aval::DType;

/// Hands the rows to another macro. A row: name, number of operands, weight, dtype of the result (that of
/// the operands, bool, or their real or complex counterpart), and the function of `kernels::math` that is its
/// lane for `f32` and `f64`, when a vector function alone is.
macro_rules! for_each_lane_op {
    ($callback:ident) => {
        $callback! {
            Neg         1   1.0 same,
            Abs         1   1.0 real,
            Sign        1   1.0 same,
            Floor       1   1.0 same,
            Ceil        1   1.0 same,
            /// To the nearest integer, halves to the even one.
            Round       1   1.0 same,
            Trunc       1   1.0 same,
            Exp         1  10.0 same    exp,
            Exp2        1  10.0 same    exp2,
            Expm1       1  10.0 same    expm1,
            Log         1  10.0 same    log,
            Log2        1  12.0 same    log2,
            Log10       1  12.0 same    log10,
            Log1p       1  12.0 same    log1p,
            Sqrt        1   3.0 same,
            Cbrt        1  12.0 same    cbrt,
            Reciprocal  1   3.0 same,
            Square      1   1.0 same,
            Sin         1   8.0 same,
            Cos         1   8.0 same,
            Tan         1  20.0 same,
            Asin        1  15.0 same    asin,
            Acos        1  15.0 same    acos,
            Atan        1  15.0 same    atan,
            Sinh        1  15.0 same    sinh,
            Cosh        1  15.0 same    cosh,
            Tanh        1  15.0 same    tanh,
            Asinh       1  20.0 same    asinh,
            Acosh       1  20.0 same    acosh,
            Atanh       1  20.0 same    atanh,
            /// `1 / (1 + exp(-x))`.
            Sigmoid     1  10.0 same    sigmoid,
            /// `log(1 + exp(x))`.
            Softplus    1  15.0 same    softplus,
            Erf         1  25.0 same    erf,
            Erfc        1  25.0 same    erfc,
            Erfinv      1  50.0 same    erfinv,
            /// The positive part.
            Relu        1   1.0 same,
            Conj        1   1.0 same,
            Real        1   1.0 real,
            Imag        1   1.0 real,
            /// Logical.
            Not         1   1.0 bool,
            /// Bitwise; logical for bool.
            Invert      1   1.0 same,
            IsNan       1   1.0 bool,
            IsInf       1   1.0 bool,
            IsFinite    1   1.0 bool,
            Add         2   1.0 same,
            Sub         2   1.0 same,
            Mul         2   1.0 same,
            Div         2   3.0 same,
            Pow         2  40.0 same,
            /// NaN when an operand is NaN.
            Maximum     2   1.0 same,
            /// NaN when an operand is NaN.
            Minimum     2   1.0 same,
            /// The other operand when one is NaN.
            Fmax        2   1.0 same,
            /// The other operand when one is NaN.
            Fmin        2   1.0 same,
            Atan2       2  20.0 same    atan2,
            Hypot       2  12.0 same    hypot,
            Logaddexp   2  25.0 same    logaddexp,
            FloorDivide 2  60.0 same,
            /// With the sign of the divisor.
            Remainder   2  60.0 same,
            /// With the sign of the dividend.
            Fmod        2  60.0 same,
            Copysign    2   1.0 same,
            /// A complex number of a real and an imaginary part.
            Complex     2   1.0 complex,
            Eq          2   1.0 bool,
            Ne          2   1.0 bool,
            Lt          2   1.0 bool,
            Le          2   1.0 bool,
            Gt          2   1.0 bool,
            Ge          2   1.0 bool,
            /// Logical.
            And         2   1.0 bool,
            /// Logical.
            Or          2   1.0 bool,
            /// Logical.
            Xor         2   1.0 bool,
            BitAnd      2   1.0 same,
            BitOr       2   1.0 same,
            BitXor      2   1.0 same,
            ShiftLeft   2   1.0 same,
            ShiftRight  2   1.0 same,
            /// `a` where it is a bool mask, selecting from `b` and `c`.
            Where       3   1.0 same,
        }
    };
}
pub(super) use for_each_lane_op;

macro_rules! result {
    (same, $dtype:ident) => {
        $dtype
    };
    (bool, $dtype:ident) => {
        DType::Bool
    };
    (real, $dtype:ident) => {
        $dtype.real()
    };
    (complex, $dtype:ident) => {
        $dtype.complex()
    };
}

macro_rules! define {
    ($($(#[$meta:meta])* $name:ident $arity:literal $weight:literal $result:ident $($function:ident)?,)*) => {
        /// An elementwise operation, named as in NumPy.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum LaneOp {
            $($(#[$meta])* $name,)*
        }

        impl LaneOp {
            /// Every operation, in the order of the discriminants.
            pub const ALL: &[LaneOp] = &[$(LaneOp::$name,)*];

            /// The number of operands.
            pub const fn arity(self) -> usize {
                const ARITY: &[usize] = &[$($arity),*];
                ARITY[self as usize]
            }

            /// Roughly how many times longer it takes than an addition.
            pub const fn weight(self) -> f64 {
                const WEIGHT: &[f64] = &[$($weight),*];
                WEIGHT[self as usize]
            }
        }

        /// The dtype of an operation's result, given the dtype of its inputs.
        pub const fn result_dtype(op: LaneOp, dtype: DType) -> DType {
            match op {
                $(LaneOp::$name => result!($result, dtype),)*
            }
        }
    };
}
for_each_lane_op!(define);

impl LaneOp {
    /// Whether it costs more than a few instructions per vector.
    pub const fn is_long(self) -> bool {
        self.weight() >= 4.0
    }
}

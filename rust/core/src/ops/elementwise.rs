//! Elementwise primitives: partial derivatives only; shape rules, jvp, vjp and fusion follow.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

use super::long_partials::{
    abs_partial, extremum_partial, finite, hypot_partial, pow_partial, sign_partial,
};
use super::macros::unraw;
use crate::kernels::LaneOp;
use crate::prim::Partial::{MinusOne, MinusRatio, One, Over, Steep, Times, Zero};
use crate::prim::{Class, Cost, Onnx, Partial, Prim, PrimDef, Samples, Types, Wgsl, kept};

elementwise! { $

    /// The negative: `-x`.
    NEG neg(x) {
        types: Number,
        lane: Neg,
        partials: Some(|_, _, _| MinusOne),
        onnx: Onnx::Op("Neg", 1),
        wgsl: Wgsl::Expr("(-{0})"),
        numpy: "np.negative({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The absolute value; 0 has the derivative 0. Of a complex number: its modulus, a real number.
    ABS abs(x) {
        types: Any,
        lane: Abs,
        partials: Some(abs_partial),
        onnx: Onnx::Op("Abs", 1),
        wgsl: Wgsl::Expr("abs({0})"),
        numpy: "np.absolute({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The sign: -1, 0 or 1; `z / |z|` of a complex number (whose derivative is not taken).
    SIGN sign(x) {
        types: Number,
        lane: Sign,
        partials: Some(sign_partial),
        onnx: Onnx::Recipe("sign"),
        wgsl: Wgsl::Expr("sign_{type}({0})"),
        numpy: "np.sign({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The largest integer that is not above `x`. Its derivative is 0.
    FLOOR floor(x) {
        types: Real,
        lane: Floor,
        partials: Some(|_, _, _| Zero),
        onnx: Onnx::Op("Floor", 1),
        wgsl: Wgsl::Expr("floor({0})"),
        numpy: "np.floor({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The smallest integer that is not below `x`. Its derivative is 0.
    CEIL ceil(x) {
        types: Real,
        lane: Ceil,
        partials: Some(|_, _, _| Zero),
        onnx: Onnx::Op("Ceil", 1),
        wgsl: Wgsl::Expr("ceil({0})"),
        numpy: "np.ceil({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The nearest integer; halves are rounded to the even one. Its derivative is 0.
    ROUND round(x) {
        types: Float,
        lane: Round,
        partials: Some(|_, _, _| Zero),
        onnx: Onnx::Op("Round", 11),
        wgsl: Wgsl::Expr("round({0})"),
        numpy: "np.rint({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The integer next to `x`, towards zero. Its derivative is 0.
    TRUNC trunc(x) {
        types: Real,
        lane: Trunc,
        partials: Some(|_, _, _| Zero),
        onnx: Onnx::Recipe("trunc"),
        wgsl: Wgsl::Expr("trunc({0})"),
        numpy: "np.trunc({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The exponential function.
    EXP exp(x) {
        types: Inexact,
        lane: Exp,
        partials: Some(|_, out, _| Times(finite(out))),
        onnx: Onnx::Op("Exp", 6),
        wgsl: Wgsl::Expr("exp_{type}({0})"),
        numpy: "np.exp({0})",
        samples: [(-4.0, 4.0)],
    }

    /// 2 to the power `x`.
    EXP2 exp2(x) {
        types: Float,
        lane: Exp2,
        partials: Some(|_, out, _| Times(finite(out) * LN_2)),
        onnx: Onnx::Recipe("exp2"),
        wgsl: Wgsl::Expr("exp2_{type}({0})"),
        numpy: "np.exp2({0})",
        samples: [(-4.0, 4.0)],
    }

    /// `exp(x) - 1`, accurate near 0.
    EXPM1 expm1(x) {
        types: Inexact,
        lane: Expm1,
        partials: Some(|_, out, _| Times(finite(out) + 1.0)),
        onnx: Onnx::Recipe("expm1"),
        wgsl: Wgsl::Expr("expm1_{type}({0})"),
        numpy: "np.expm1({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The natural logarithm.
    LOG log(x) {
        types: Inexact,
        lane: Log,
        partials: Some(|x, _, _| Over(x[0])),
        onnx: Onnx::Op("Log", 6),
        wgsl: Wgsl::Expr("log_{type}({0})"),
        numpy: "np.log({0})",
        samples: [(0.05, 5.0)],
    }

    /// The logarithm to base 2.
    LOG2 log2(x) {
        types: Inexact,
        lane: Log2,
        partials: Some(|x, _, _| Over(x[0] * LN_2)),
        onnx: Onnx::Recipe("log2"),
        wgsl: Wgsl::Expr("log2_{type}({0})"),
        numpy: "np.log2({0})",
        samples: [(0.05, 5.0)],
    }

    /// The logarithm to base 10.
    LOG10 log10(x) {
        types: Inexact,
        lane: Log10,
        partials: Some(|x, _, _| Over(x[0] * LN_10)),
        onnx: Onnx::Recipe("log10"),
        wgsl: Wgsl::Expr("log10_{type}({0})"),
        numpy: "np.log10({0})",
        samples: [(0.05, 5.0)],
    }

    /// `log(1 + x)`, accurate near 0.
    LOG1P log1p(x) {
        types: Inexact,
        lane: Log1p,
        partials: Some(|x, _, _| Over(x[0] + 1.0)),
        onnx: Onnx::Recipe("log1p"),
        wgsl: Wgsl::Expr("log1p_{type}({0})"),
        numpy: "np.log1p({0})",
        samples: [(-0.9, 4.0)],
    }

    /// The square root.
    SQRT sqrt(x) {
        types: Inexact,
        lane: Sqrt,
        partials: Some(|_, out, _| Steep(out * 2.0)),
        onnx: Onnx::Op("Sqrt", 6),
        wgsl: Wgsl::Expr("sqrt({0})"),
        numpy: "np.sqrt({0})",
        samples: [(0.05, 5.0)],
    }

    /// The cube root, of negative numbers too.
    CBRT cbrt(x) {
        types: Float,
        lane: Cbrt,
        partials: Some(|_, out, _| Over(out.square() * 3.0)),
        onnx: Onnx::Recipe("cbrt"),
        wgsl: Wgsl::Expr("cbrt_{type}({0})"),
        numpy: "np.cbrt({0})",
        samples: [(0.05, 5.0)],
    }

    /// `1 / x`.
    RECIPROCAL reciprocal(x) {
        types: Inexact,
        lane: Reciprocal,
        partials: Some(|_, out, _| Times(-out.square())),
        onnx: Onnx::Op("Reciprocal", 6),
        wgsl: Wgsl::Expr("({type}(1) / {0})"),
        numpy: "np.reciprocal({0})",
        samples: [(0.05, 5.0)],
    }

    /// `x * x`.
    SQUARE square(x) {
        types: Power,
        lane: Square,
        partials: Some(|x, _, _| Times(x[0] * 2.0)),
        onnx: Onnx::Recipe("square"),
        wgsl: Wgsl::Expr("({0} * {0})"),
        numpy: "np.square({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The sine; `x` in radians.
    SIN sin(x) {
        types: Inexact,
        lane: Sin,
        partials: Some(|x, _, _| Times(x[0].cos())),
        onnx: Onnx::Op("Sin", 7),
        wgsl: Wgsl::Expr("sin_{type}({0})"),
        numpy: "np.sin({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The cosine; `x` in radians.
    COS cos(x) {
        types: Inexact,
        lane: Cos,
        partials: Some(|x, _, _| Times(-x[0].sin())),
        onnx: Onnx::Op("Cos", 7),
        wgsl: Wgsl::Expr("cos_{type}({0})"),
        numpy: "np.cos({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The tangent; `x` in radians.
    TAN tan(x) {
        types: Inexact,
        lane: Tan,
        partials: Some(|_, out, _| Times(out.square() + 1.0)),
        onnx: Onnx::Op("Tan", 7),
        wgsl: Wgsl::Expr("tan_{type}({0})"),
        numpy: "np.tan({0})",
        samples: [(-1.4, 1.4)],
    }

    /// The inverse sine, in radians.
    ASIN asin(x) {
        types: Inexact,
        lane: Asin,
        partials: Some(|x, _, _| Over((1.0 - x[0].square()).sqrt())),
        onnx: Onnx::Op("Asin", 7),
        wgsl: Wgsl::Expr("asin_{type}({0})"),
        numpy: "np.arcsin({0})",
        samples: [(-0.95, 0.95)],
    }

    /// The inverse cosine, in radians.
    ACOS acos(x) {
        types: Inexact,
        lane: Acos,
        partials: Some(|x, _, _| Over(-(1.0 - x[0].square()).sqrt())),
        onnx: Onnx::Op("Acos", 7),
        wgsl: Wgsl::Expr("acos_{type}({0})"),
        numpy: "np.arccos({0})",
        samples: [(-0.95, 0.95)],
    }

    /// The inverse tangent, in radians.
    ATAN atan(x) {
        types: Inexact,
        lane: Atan,
        partials: Some(|x, _, _| Over(x[0].square() + 1.0)),
        onnx: Onnx::Op("Atan", 7),
        wgsl: Wgsl::Expr("atan_{type}({0})"),
        numpy: "np.arctan({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The hyperbolic sine.
    SINH sinh(x) {
        types: Inexact,
        lane: Sinh,
        partials: Some(|x, _, _| Times(finite(x[0].cosh()))),
        onnx: Onnx::Op("Sinh", 9),
        wgsl: Wgsl::Expr("sinh_{type}({0})"),
        numpy: "np.sinh({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The hyperbolic cosine.
    COSH cosh(x) {
        types: Inexact,
        lane: Cosh,
        partials: Some(|x, _, _| Times(-finite(-finite(x[0].sinh())))),
        onnx: Onnx::Op("Cosh", 9),
        wgsl: Wgsl::Expr("cosh_{type}({0})"),
        numpy: "np.cosh({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The hyperbolic tangent.
    TANH tanh(x) {
        types: Inexact,
        lane: Tanh,
        partials: Some(|_, out, _| Times(1.0 - out.square())),
        onnx: Onnx::Op("Tanh", 6),
        wgsl: Wgsl::Expr("tanh_{type}({0})"),
        numpy: "np.tanh({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The inverse hyperbolic sine.
    ASINH asinh(x) {
        types: Inexact,
        lane: Asinh,
        partials: Some(|x, _, _| Over((x[0].square() + 1.0).sqrt())),
        onnx: Onnx::Op("Asinh", 9),
        wgsl: Wgsl::Expr("asinh_{type}({0})"),
        numpy: "np.arcsinh({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The inverse hyperbolic cosine.
    ACOSH acosh(x) {
        types: Inexact,
        lane: Acosh,
        partials: Some(|x, _, _| Over((x[0] - 1.0).sqrt() * (x[0] + 1.0).sqrt())),
        onnx: Onnx::Op("Acosh", 9),
        wgsl: Wgsl::Expr("acosh_{type}({0})"),
        numpy: "np.arccosh({0})",
        samples: [(1.1, 5.0)],
    }

    /// The inverse hyperbolic tangent.
    ATANH atanh(x) {
        types: Inexact,
        lane: Atanh,
        partials: Some(|x, _, _| Over(1.0 - x[0].square())),
        onnx: Onnx::Op("Atanh", 9),
        wgsl: Wgsl::Expr("atanh_{type}({0})"),
        numpy: "np.arctanh({0})",
        samples: [(-0.95, 0.95)],
    }

    /// The logistic function `1 / (1 + exp(-x))`.
    SIGMOID sigmoid(x) {
        types: Float,
        lane: Sigmoid,
        partials: Some(|x, out, _| Times(out * (-x[0]).sigmoid())),
        onnx: Onnx::Recipe("sigmoid"),
        wgsl: Wgsl::Expr("sigmoid_{type}({0})"),
        numpy: "(1 / (1 + np.exp(-{0})))",
        samples: [(-4.0, 4.0)],
    }

    /// `log(1 + exp(x))`, without overflow.
    SOFTPLUS softplus(x) {
        types: Float,
        lane: Softplus,
        partials: Some(|x, _, _| Times(x[0].sigmoid())),
        onnx: Onnx::Recipe("softplus"),
        wgsl: Wgsl::Expr("softplus_{type}({0})"),
        numpy: "np.logaddexp({0}, 0)",
        samples: [(-4.0, 4.0)],
    }

    /// The error function `2/sqrt(pi) * integral of exp(-t**2) from 0 to x`.
    ERF erf(x) {
        types: Float,
        lane: Erf,
        partials: Some(|x, _, _| Times((-x[0].square()).exp() * FRAC_2_SQRT_PI)),
        onnx: Onnx::Op("Erf", 9),
        wgsl: Wgsl::Expr("erf_{type}({0})"),
        numpy: "scipy.special.erf({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The complementary error function `1 - erf(x)`, accurate for large `x`.
    ERFC erfc(x) {
        types: Float,
        lane: Erfc,
        partials: Some(|x, _, _| Times((-x[0].square()).exp() * -FRAC_2_SQRT_PI)),
        onnx: Onnx::Recipe("erfc"),
        wgsl: Wgsl::Expr("erfc_{type}({0})"),
        numpy: "scipy.special.erfc({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The inverse of the error function: infinite at -1 and 1, NaN beyond.
    ERFINV erfinv(x) {
        types: Float,
        lane: Erfinv,
        partials: Some(|_, out, _| Steep((-out.square()).exp() * FRAC_2_SQRT_PI)),
        onnx: Onnx::None("there is no operator, and no short series of the others"),
        wgsl: Wgsl::None("needs a polynomial"),
        numpy: "scipy.special.erfinv({0})",
        samples: [(-0.95, 0.95)],
    }

    /// The positive part: `x` where it is positive, 0 elsewhere; NaN of NaN. At 0 the derivative is 0.
    RELU relu(x) {
        types: RealNumber,
        lane: Relu,
        partials: Some(|x, _, _| Partial::Where(x[0].combine(GT, x[0].number(0.0)), true)),
        onnx: Onnx::Recipe("relu"),
        wgsl: Wgsl::Expr("relu_{type}({0})"),
        numpy: "np.maximum({0}, 0)",
        samples: [(-4.0, 4.0)],
    }

    /// Whether `x` is zero.
    LOGICAL_NOT logical_not(x) {
        types: Logical,
        lane: Not,
        partials: None,
        onnx: Onnx::Op("Not", 1),
        wgsl: Wgsl::Expr("!{0}"),
        numpy: "np.logical_not({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The bits of `x` inverted; the negation of a bool.
    INVERT invert(x) {
        types: Integer,
        lane: Invert,
        partials: None,
        onnx: Onnx::Op("BitwiseNot", 18),
        wgsl: Wgsl::Expr("~{0}"),
        numpy: "np.invert({0})",
        samples: [(-4.0, 4.0)],
    }

    /// Whether `x` is not a number.
    ISNAN isnan(x) {
        types: Any,
        lane: IsNan,
        partials: None,
        onnx: Onnx::Op("IsNaN", 9),
        wgsl: Wgsl::Expr("isnan_{type}({0})"),
        numpy: "np.isnan({0})",
        samples: [(-4.0, 4.0)],
    }

    /// Whether `x` is infinite.
    ISINF isinf(x) {
        types: Any,
        lane: IsInf,
        partials: None,
        onnx: Onnx::Op("IsInf", 10),
        wgsl: Wgsl::Expr("isinf_{type}({0})"),
        numpy: "np.isinf({0})",
        samples: [(-4.0, 4.0)],
    }

    /// Whether `x` is neither infinite nor NaN.
    ISFINITE isfinite(x) {
        types: Any,
        lane: IsFinite,
        partials: None,
        onnx: Onnx::Recipe("isfinite"),
        wgsl: Wgsl::Expr("isfinite_{type}({0})"),
        numpy: "np.isfinite({0})",
        samples: [(-4.0, 4.0)],
    }

    /// The sum `x + y`.
    ADD add(x, y) {
        types: Any,
        lane: Add,
        partials: Some(|_, _, _| One),
        onnx: Onnx::Op("Add", 14),
        wgsl: Wgsl::Expr("({0} + {1})"),
        numpy: "np.add({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The difference `x - y`.
    SUB sub(x, y) {
        types: Number,
        lane: Sub,
        partials: Some(|_, _, i| if i == 0 { One } else { MinusOne }),
        onnx: Onnx::Op("Sub", 14),
        wgsl: Wgsl::Expr("({0} - {1})"),
        numpy: "np.subtract({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The product `x * y`.
    MUL mul(x, y) {
        types: Any,
        lane: Mul,
        partials: Some(|x, out, i| Times(out.with(x[1 - i].var()))),
        onnx: Onnx::Op("Mul", 14),
        wgsl: Wgsl::Expr("({0} * {1})"),
        numpy: "np.multiply({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The quotient `x / y`; integers give a float.
    DIV div(x, y) {
        types: Quotient,
        lane: Div,
        partials: Some(|x, out, i| {
            let divisor = out.with(x[1].var());
            if i == 0 { Over(divisor) } else { MinusRatio(out, divisor) }
        }),
        onnx: Onnx::Op("Div", 14),
        wgsl: Wgsl::Expr("({0} / {1})"),
        numpy: "np.divide({0}, {1})",
        samples: [(-4.0, 4.0), (0.3, 4.0)],
    }

    /// `x` to the power `y`. The derivative with respect to `y` is 0 where `x` is 0 and `y` is not negative.
    POW pow(x, y) {
        types: Power,
        lane: Pow,
        partials: Some(pow_partial),
        onnx: Onnx::Recipe("pow"),
        wgsl: Wgsl::Expr("pow_{type}({0}, {1})"),
        numpy: "np.power({0}, {1})",
        samples: [(0.1, 4.0), (0.1, 4.0)],
    }

    /// The larger of both; NaN when either is. Where they are equal each gets half of the cotangent, but none of it goes to `x` in `maximum(x, 0)` with a literal 0 at a tie (so `relu(0)` has the derivative 0).
    MAXIMUM maximum(x, y) {
        types: Any,
        lane: Maximum,
        partials: Some(|x, _, i| extremum_partial(x, i, (GT, GE), false)),
        onnx: Onnx::Op("Max", 13),
        wgsl: Wgsl::Expr("maximum_{type}({0}, {1})"),
        numpy: "np.maximum({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The smaller of both; NaN when either is. Where they are equal each gets half of the cotangent, but none of it goes to `x` in `minimum(x, 0)` with a literal 0 at a tie (so `relu(0)` has the derivative 0).
    MINIMUM minimum(x, y) {
        types: Any,
        lane: Minimum,
        partials: Some(|x, _, i| extremum_partial(x, i, (LT, LE), false)),
        onnx: Onnx::Op("Min", 13),
        wgsl: Wgsl::Expr("minimum_{type}({0}, {1})"),
        numpy: "np.minimum({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The larger of both, ignoring NaN. Ties are shared.
    FMAX fmax(x, y) {
        types: Any,
        lane: Fmax,
        partials: Some(|x, _, i| extremum_partial(x, i, (GT, GE), true)),
        onnx: Onnx::Recipe("fmax"),
        wgsl: Wgsl::Expr("fmax_{type}({0}, {1})"),
        numpy: "np.fmax({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The smaller of both, ignoring NaN. Ties are shared.
    FMIN fmin(x, y) {
        types: Any,
        lane: Fmin,
        partials: Some(|x, _, i| extremum_partial(x, i, (LT, LE), true)),
        onnx: Onnx::Recipe("fmin"),
        wgsl: Wgsl::Expr("fmin_{type}({0}, {1})"),
        numpy: "np.fmin({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The angle of the point (`y`, `x`) in radians, in all four quadrants: NumPy's `arctan2(x, y)` with its argument order (ordinate first).
    ATAN2 atan2(x, y) {
        types: Float,
        lane: Atan2,
        partials: Some(|x, _, i| { let r = x[0].square() + x[1].square(); Times(if i == 0 { x[1] / r } else { -x[0] / r }) }),
        onnx: Onnx::Recipe("atan2"),
        wgsl: Wgsl::Expr("atan2_{type}({0}, {1})"),
        numpy: "np.arctan2({0}, {1})",
        samples: [(0.1, 4.0), (0.1, 4.0)],
    }

    /// `sqrt(x*x + y*y)` without overflow; the derivative at (0, 0) is 0.
    HYPOT hypot(x, y) {
        types: Float,
        lane: Hypot,
        partials: Some(hypot_partial),
        onnx: Onnx::Recipe("hypot"),
        wgsl: Wgsl::Expr("hypot_{type}({0}, {1})"),
        numpy: "np.hypot({0}, {1})",
        samples: [(0.1, 4.0), (0.1, 4.0)],
    }

    /// `log(exp(x) + exp(y))` without overflow.
    LOGADDEXP logaddexp(x, y) {
        types: Float,
        lane: Logaddexp,
        partials: Some(|x, out, i| Times((x[i] - out).exp())),
        onnx: Onnx::Recipe("logaddexp"),
        wgsl: Wgsl::Expr("logaddexp_{type}({0}, {1})"),
        numpy: "np.logaddexp({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// `x / y` rounded down. Its derivative is 0.
    FLOOR_DIVIDE floor_divide(x, y) {
        types: RealNumber,
        lane: FloorDivide,
        partials: Some(|_, _, _| Zero),
        onnx: Onnx::Recipe("floor_divide"),
        wgsl: Wgsl::Expr("floor_divide_{type}({0}, {1})"),
        numpy: "np.floor_divide({0}, {1})",
        samples: [(-4.0, 4.0), (0.3, 4.0)],
    }

    /// The remainder of `x / y`, with the sign of `y`.
    REMAINDER remainder(x, y) {
        types: RealNumber,
        lane: Remainder,
        partials: Some(|x, _, i| if i == 0 { One } else { Times(-x[0].combine(FLOOR_DIVIDE, x[1])) }),
        onnx: Onnx::Recipe("remainder"),
        wgsl: Wgsl::Expr("remainder_{type}({0}, {1})"),
        numpy: "np.remainder({0}, {1})",
        samples: [(-4.0, 4.0), (0.3, 4.0)],
    }

    /// The remainder of `x / y`, with the sign of `x`.
    FMOD fmod(x, y) {
        types: RealNumber,
        lane: Fmod,
        partials: Some(|x, _, i| if i == 0 { One } else { Times(-(x[0] / x[1]).map(TRUNC)) }),
        onnx: Onnx::Recipe("fmod"),
        wgsl: Wgsl::Expr("fmod_{type}({0}, {1})"),
        numpy: "np.fmod({0}, {1})",
        samples: [(-4.0, 4.0), (0.3, 4.0)],
    }

    /// `x` with the sign of `y`.
    COPYSIGN copysign(x, y) {
        types: Float,
        lane: Copysign,
        partials: Some(|x, _, i| if i == 0 { Times(x[0].full_like(1.0).combine(COPYSIGN, x[0]) * x[0].full_like(1.0).combine(COPYSIGN, x[1])) } else { Zero }),
        onnx: Onnx::Recipe("copysign"),
        wgsl: Wgsl::Expr("copysign_{type}({0}, {1})"),
        numpy: "np.copysign({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether both are equal.
    EQ eq(x, y) {
        types: Any,
        lane: Eq,
        partials: None,
        onnx: Onnx::Op("Equal", 13),
        wgsl: Wgsl::Expr("({0} == {1})"),
        numpy: "np.equal({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether they differ.
    NE ne(x, y) {
        types: Any,
        lane: Ne,
        partials: None,
        onnx: Onnx::Recipe("ne"),
        wgsl: Wgsl::Expr("({0} != {1})"),
        numpy: "np.not_equal({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether `x` is less than `y`.
    LT lt(x, y) {
        types: Any,
        lane: Lt,
        partials: None,
        onnx: Onnx::Op("Less", 13),
        wgsl: Wgsl::Expr("({0} < {1})"),
        numpy: "np.less({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether `x` is at most `y`.
    LE le(x, y) {
        types: Any,
        lane: Le,
        partials: None,
        onnx: Onnx::Op("LessOrEqual", 16),
        wgsl: Wgsl::Expr("({0} <= {1})"),
        numpy: "np.less_equal({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether `x` is greater than `y`.
    GT gt(x, y) {
        types: Any,
        lane: Gt,
        partials: None,
        onnx: Onnx::Op("Greater", 13),
        wgsl: Wgsl::Expr("({0} > {1})"),
        numpy: "np.greater({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether `x` is at least `y`.
    GE ge(x, y) {
        types: Any,
        lane: Ge,
        partials: None,
        onnx: Onnx::Op("GreaterOrEqual", 16),
        wgsl: Wgsl::Expr("({0} >= {1})"),
        numpy: "np.greater_equal({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether both are non-zero.
    LOGICAL_AND logical_and(x, y) {
        types: Logical,
        lane: And,
        partials: None,
        onnx: Onnx::Op("And", 7),
        wgsl: Wgsl::Expr("({0} && {1})"),
        numpy: "np.logical_and({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether one of them is non-zero.
    LOGICAL_OR logical_or(x, y) {
        types: Logical,
        lane: Or,
        partials: None,
        onnx: Onnx::Op("Or", 7),
        wgsl: Wgsl::Expr("({0} || {1})"),
        numpy: "np.logical_or({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// Whether exactly one of them is non-zero.
    LOGICAL_XOR logical_xor(x, y) {
        types: Logical,
        lane: Xor,
        partials: None,
        onnx: Onnx::Op("Xor", 7),
        wgsl: Wgsl::Expr("({0} != {1})"),
        numpy: "np.logical_xor({0}, {1})",
        samples: [(-4.0, 4.0), (-4.0, 4.0)],
    }

    /// The bits that both have.
    BITWISE_AND bitwise_and(x, y) {
        types: Integer,
        lane: BitAnd,
        partials: None,
        onnx: Onnx::Op("BitwiseAnd", 18),
        wgsl: Wgsl::Expr("({0} & {1})"),
        numpy: "np.bitwise_and({0}, {1})",
        samples: [(0.0, 7.0), (0.0, 7.0)],
    }

    /// The bits that one of them has.
    BITWISE_OR bitwise_or(x, y) {
        types: Integer,
        lane: BitOr,
        partials: None,
        onnx: Onnx::Op("BitwiseOr", 18),
        wgsl: Wgsl::Expr("({0} | {1})"),
        numpy: "np.bitwise_or({0}, {1})",
        samples: [(0.0, 7.0), (0.0, 7.0)],
    }

    /// The bits that exactly one of them has.
    BITWISE_XOR bitwise_xor(x, y) {
        types: Integer,
        lane: BitXor,
        partials: None,
        onnx: Onnx::Op("BitwiseXor", 18),
        wgsl: Wgsl::Expr("({0} ^ {1})"),
        numpy: "np.bitwise_xor({0}, {1})",
        samples: [(0.0, 7.0), (0.0, 7.0)],
    }

    /// The bits of `x` moved up by `y` places.
    LEFT_SHIFT left_shift(x, y) {
        types: IntegerNumber,
        lane: ShiftLeft,
        partials: None,
        onnx: Onnx::Recipe("left_shift"),
        wgsl: Wgsl::None("WGSL shifts by the remainder of the amount"),
        numpy: "np.left_shift({0}, {1})",
        samples: [(0.0, 7.0), (0.0, 7.0)],
    }

    /// The bits of `x` moved down by `y` places.
    RIGHT_SHIFT right_shift(x, y) {
        types: IntegerNumber,
        lane: ShiftRight,
        partials: None,
        onnx: Onnx::Recipe("right_shift"),
        wgsl: Wgsl::None("WGSL shifts by the remainder of the amount"),
        numpy: "np.right_shift({0}, {1})",
        samples: [(0.0, 7.0), (0.0, 7.0)],
    }

    /// `x` where the condition holds, `y` elsewhere. The cotangent of the branch that was not taken is exactly 0, whatever its derivative.
    WHERE r#where(cond, x, y) {
        types: Any,
        lane: Where,
        partials: Some(|x, _, i| Partial::Where(x[0], i == 1)),
        onnx: Onnx::Op("Where", 9),
        wgsl: Wgsl::Expr("select({2}, {1}, {0})"),
        numpy: "np.where({0}, {1}, {2})",
        samples: [(-1.0, 1.0), (-4.0, 4.0), (-4.0, 4.0)],
    }
}

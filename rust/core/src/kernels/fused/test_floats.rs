//! Numbers for tests of groups, ordinary ones and those with rules of their own, and operations on them one by one.

use crate::kernels::Element;
use crate::kernels::lane::LaneOp;
use crate::testing::random::Random;

pub(super) const SPECIAL: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    5e-324,
    -1e-40,
    1e-300,
    1.7e308,
    3.4e38,
];

/// An ordinary number, or one with rules of its own.
pub(super) fn number(random: &mut Random) -> f64 {
    match random.below(4) {
        0 => SPECIAL[random.below(SPECIAL.len())],
        _ => 4.0 * random.unit() - 2.0,
    }
}

/// What the tests need of `f32` and `f64`.
pub(super) trait Float: Element + Copy {
    fn of(x: f64) -> Self;
    fn call(op: LaneOp, x: Self, y: Self) -> Self;
    /// The bits, where all NaN are one.
    fn bits(self) -> u64;
}

macro_rules! float {
    ($t:ty) => {
        impl Float for $t {
            fn of(x: f64) -> $t {
                x as $t
            }
            fn call(op: LaneOp, x: $t, y: $t) -> $t {
                match op {
                    LaneOp::Add => x + y,
                    LaneOp::Sub => x - y,
                    LaneOp::Mul => x * y,
                    LaneOp::Div => x / y,
                    LaneOp::Neg => -x,
                    LaneOp::Abs => x.abs(),
                    LaneOp::Sqrt => x.sqrt(),
                    LaneOp::Square => x * x,
                    LaneOp::Reciprocal => 1.0 / x,
                    LaneOp::Floor => x.floor(),
                    _ => unreachable!(),
                }
            }
            fn bits(self) -> u64 {
                if self.is_nan() {
                    1
                } else {
                    self.to_bits().into()
                }
            }
        }
    };
}
float!(f32);
float!(f64);

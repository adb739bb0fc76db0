//! Two operations in one instruction: additions, subtractions and products whose result is read once, by
//! another such operation. The first result stays in a vector register, so that a tile is neither written
//! nor read again for it. Both are rounded, as if they stood alone: the bits are the same.

use super::{NONE, Node, Request, Work};
use crate::aval::DType;
use crate::kernels::lane::{Lane, LaneOp};
use crate::kernels::level::{Level, leveled};

/// Two operations on elements of a type.
trait Pair {
    type T: Copy;
    fn call(a: Self::T, b: Self::T, c: Self::T) -> Self::T;
}

leveled! {
    fn pair_loop[K: Pair](
        out: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize,
    ) {
        // SAFETY: the contract of `Lane`, and the result lies in a register of its own: what is
        // combined here is no output, and its operands die after it.
        unsafe {
            let out = std::slice::from_raw_parts_mut(out.cast::<std::mem::MaybeUninit<K::T>>(), n);
            let a = std::slice::from_raw_parts(a.cast::<K::T>(), n);
            let b = std::slice::from_raw_parts(b.cast::<K::T>(), n);
            let c = std::slice::from_raw_parts(c.cast::<K::T>(), n);
            for (((out, &a), &b), &c) in out.iter_mut().zip(a).zip(b).zip(c) {
                out.write(K::call(a, b, c));
            }
        }
    }
}

/// `pair!(T, |a, b, c| body)`: the lane of a combination.
macro_rules! pair {
    ($t:ty, |$a:ident, $b:ident, $c:ident| $body:expr) => {{
        struct K;
        impl Pair for K {
            type T = $t;
            #[inline(always)]
            fn call($a: $t, $b: $t, $c: $t) -> $t {
                $body
            }
        }
        pair_loop::<K>(Level::best())
    }};
}

/// The combinations for a type: `first(a, b)`, then with `c`; `left` says that the first result is the left
/// operand of the second operation.
macro_rules! pairs {
    ($t:ty, $first:expr, $second:expr, $left:expr) => {
        match ($first, $second, $left) {
            (LaneOp::Add, LaneOp::Add, _) => pair!($t, |a, b, c| (a + b) + c),
            (LaneOp::Add, LaneOp::Sub, true) => pair!($t, |a, b, c| (a + b) - c),
            (LaneOp::Add, LaneOp::Sub, false) => pair!($t, |a, b, c| c - (a + b)),
            (LaneOp::Add, LaneOp::Mul, _) => pair!($t, |a, b, c| (a + b) * c),
            (LaneOp::Sub, LaneOp::Add, _) => pair!($t, |a, b, c| (a - b) + c),
            (LaneOp::Sub, LaneOp::Sub, true) => pair!($t, |a, b, c| (a - b) - c),
            (LaneOp::Sub, LaneOp::Sub, false) => pair!($t, |a, b, c| c - (a - b)),
            (LaneOp::Sub, LaneOp::Mul, _) => pair!($t, |a, b, c| (a - b) * c),
            (LaneOp::Mul, LaneOp::Add, _) => pair!($t, |a, b, c| a * b + c),
            (LaneOp::Mul, LaneOp::Sub, true) => pair!($t, |a, b, c| a * b - c),
            (LaneOp::Mul, LaneOp::Sub, false) => pair!($t, |a, b, c| c - a * b),
            (LaneOp::Mul, LaneOp::Mul, _) => pair!($t, |a, b, c| (a * b) * c),
            _ => return None,
        }
    };
}

fn lane(first: LaneOp, second: LaneOp, left: bool, dtype: DType) -> Option<Lane> {
    Some(match dtype {
        DType::F32 => pairs!(f32, first, second, left),
        DType::F64 => pairs!(f64, first, second, left),
        _ => return None,
    })
}

/// Replaces operations by combined ones; what went into one is read by nobody afterwards.
pub(super) fn combine(nodes: &mut [Node], requests: &[Request]) {
    // A result that leaves the tile may lie in the place of an operand: it is not combined.
    let mut reads = vec![0u32; nodes.len()];
    for request in requests {
        reads[request.reg as usize] += 2;
    }
    let mut stored = vec![false; nodes.len()];
    for request in requests.iter().filter(|r| r.reduce.is_none()) {
        stored[request.reg as usize] = true;
    }
    for node in nodes.iter() {
        for &a in node.args.iter().filter(|&&a| a != NONE) {
            reads[a as usize] += 1;
        }
    }
    for j in 0..nodes.len() {
        let Some((second, [x, y])) = nodes[j].two() else {
            continue;
        };
        let dtype = nodes[j].dtype;
        if stored[j] {
            continue;
        }
        for (inner, other, left) in [(x, y, true), (y, x, false)] {
            let Some((first, [a, b])) = nodes[inner as usize].two() else {
                continue;
            };
            if reads[inner as usize] != 1 {
                continue;
            }
            if let Some(lane) = lane(first, second, left, dtype) {
                nodes[j].work = Some(Work::Tile(lane));
                nodes[j].code = super::scalar::Code::Lane;
                nodes[j].op = None;
                nodes[j].args = [a, b, other];
                nodes[j].long = true;
                break;
            }
        }
    }
}

//! `f16` and `bf16`: storage types. Blocks are widened to `f32`, run through the lane of `f32` and
//! rounded back, which is what NumPy does with each operation.

use std::mem::MaybeUninit;

use super::loops::Lane;
use super::table::{LaneOp, for_each_lane_op, result_dtype};
use super::{cast, real};
use crate::aval::DType;
use crate::kernels::simd_level::Level;

/// Elements widened at a time.
const BLOCK: usize = 512;

type Wide = [MaybeUninit<f32>; BLOCK];

unsafe fn half_lane<const LEVEL: usize, const OP: usize, const DTYPE: usize>(
    out: *mut u8,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    n: usize,
) {
    let (level, op, dtype) = (Level::ALL[LEVEL], LaneOp::ALL[OP], DType::ALL[DTYPE]);
    if let Some(lane) = real::f32_lane(level, op) {
        let steps = Steps {
            widen: cast::cast_at(level, dtype, DType::F32),
            lane,
            narrow: (result_dtype(op, DType::F32) != DType::Bool)
                .then(|| cast::cast_at(level, DType::F32, dtype)),
        };
        // SAFETY: the contract of `Lane`.
        unsafe { steps.run(out, [a, b, c], n) };
    }
}

/// What a block goes through.
struct Steps {
    widen: Lane,
    lane: Lane,
    /// Nothing where the results are booleans.
    narrow: Option<Lane>,
}

impl Steps {
    /// One copy for all operations.
    ///
    /// # Safety
    /// The contract of `Lane`.
    unsafe fn run(&self, out: *mut u8, operands: [*const u8; 3], n: usize) {
        let null = std::ptr::null();
        let mut wide: [Wide; 3] = [const { [const { MaybeUninit::uninit() }; BLOCK] }; 3];
        let [wa, wb, wc] = wide.each_mut().map(|w| w.as_mut_ptr().cast::<u8>());
        let mut done = 0;
        // SAFETY: the contract of `Lane`; each buffer holds `BLOCK` elements. Operands of a block are
        // read before its results are written.
        unsafe {
            while done < n {
                let m = BLOCK.min(n - done);
                for (w, from) in [wa, wb, wc].into_iter().zip(operands) {
                    if !from.is_null() {
                        (self.widen)(w, from.add(2 * done), null, null, m);
                    }
                }
                if let Some(narrow) = self.narrow {
                    (self.lane)(wa, wa, wb, wc, m);
                    narrow(out.add(2 * done), wa, null, null, m);
                } else {
                    (self.lane)(out.add(done), wa, wb, wc, m);
                }
                done += m;
            }
        }
    }
}

fn half_at<const OP: usize, const DTYPE: usize>(level: Level) -> Lane {
    match level {
        Level::Baseline => half_lane::<0, OP, DTYPE>,
        Level::Avx2 => half_lane::<1, OP, DTYPE>,
        Level::Avx512 => half_lane::<2, OP, DTYPE>,
    }
}

macro_rules! half_lanes {
    ($($(#[$meta:meta])* $op:ident $arity:literal $weight:literal $result:ident $($function:ident)?,)*) => {
        /// Whatever `f32` has, unless the result is complex.
        fn by_dtype<const DTYPE: usize>(level: Level, op: LaneOp) -> Option<Lane> {
            real::f32_lane(level, op).filter(|_| !result_dtype(op, DType::F32).is_complex())?;
            Some(match op {
                $(LaneOp::$op => half_at::<{ LaneOp::$op as usize }, DTYPE>(level),)*
            })
        }
    };
}
for_each_lane_op!(half_lanes);

/// The lanes of `f16`.
pub(super) fn f16_lane(level: Level, op: LaneOp) -> Option<Lane> {
    by_dtype::<{ DType::F16 as usize }>(level, op)
}

/// The lanes of `bf16`.
pub(super) fn bf16_lane(level: Level, op: LaneOp) -> Option<Lane> {
    by_dtype::<{ DType::Bf16 as usize }>(level, op)
}

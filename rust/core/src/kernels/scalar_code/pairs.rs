//! Sines and cosines of one angle, which one call makes together.

use super::{Op, ScalarCode};
use crate::kernels::lane::{LaneOp, pair};
use crate::util::FastMap;

/// For each line that is the sine or the cosine of an angle whose other one is needed too, that one.
pub(super) fn pairs(code: &ScalarCode, needed: &[bool]) -> FastMap<u32, u32> {
    let mut met: FastMap<(u32, LaneOp), u32> = FastMap::default();
    let mut pairs = FastMap::default();
    for (k, &(op, dtype)) in code.lines.iter().enumerate().filter(|&(k, _)| needed[k]) {
        let Op::Lane { op, args } = op else { continue };
        let other = match op {
            LaneOp::Sin => LaneOp::Cos,
            LaneOp::Cos => LaneOp::Sin,
            _ => continue,
        };
        let k = k as u32;
        match met.get(&(args[0], other)) {
            Some(&first) if pair(other, op, dtype).is_some() && !pairs.contains_key(&first) => {
                pairs.insert(first, k);
                pairs.insert(k, first);
            }
            _ => {
                met.insert((args[0], op), k);
            }
        }
    }
    pairs
}

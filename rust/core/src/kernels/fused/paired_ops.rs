//! Two operations on the same elements whose work is mostly the same, in one instruction: a gradient asks for the
//! sine and the cosine of one angle.

use std::collections::HashMap;

use super::node::{NONE, Node, Request, Work};
use crate::kernels::lane::{self, LaneOp};

/// Has the earlier one of two such operations make both results: the second stands behind its operand.
pub(super) fn combine(nodes: &mut [Node], requests: &[Request]) {
    // Most programs have none.
    if !nodes.iter().any(|node| node.op == Some(LaneOp::Cos)) {
        return;
    }
    let mut is_needed = vec![false; nodes.len()];
    for request in requests {
        is_needed[request.reg as usize] = true;
    }
    for (j, node) in nodes.iter().enumerate().rev() {
        if is_needed[j] {
            for &x in node.args.iter().filter(|&&x| x != NONE) {
                is_needed[x as usize] = true;
            }
        }
    }
    // By operand, the operation that is without its pendant.
    let mut alone: HashMap<u32, usize> = HashMap::new();
    for j in 0..nodes.len() {
        let Node {
            op: Some(second @ (LaneOp::Sin | LaneOp::Cos)),
            args: [x, ..],
            dtype,
            row: false,
            ..
        } = nodes[j]
        else {
            continue;
        };
        if !is_needed[j] {
            continue;
        }
        let Some(&i) = alone.get(&x) else {
            alone.insert(x, j);
            continue;
        };
        let both = nodes[i]
            .op
            .and_then(|first| lane::pair(first, second, dtype));
        if let Some(both) = both {
            alone.remove(&x);
            nodes[i].work = Some(Work::Both(both));
            nodes[i].args[1] = j as u32;
            nodes[j].work = Some(Work::Beside);
            nodes[j].args = [NONE; 3];
        }
    }
}

//! Numbers that somebody looks at: a short chain of operations on float64 numbers is computed where it
//! stands. To close it into a program, to plan and to run that would take a hundred times as long.

use smallvec::SmallVec;

use super::Array;
use crate::aval::DType;
use crate::error::Result;
use crate::kernels::{self, LaneOp, Value};
use crate::prim::Prim;
use crate::sched::note;
use crate::tape::node::{Number, Op, Shared};
use crate::util::FastMap;

/// Longer chains are worth a program.
const MANY: usize = 64;

/// An operation that is waiting, in a chain.
struct Pending {
    array: Array,
    prim: Prim,
    lane: LaneOp,
    inputs: SmallVec<[Array; 2]>,
}

/// Computes an array if it is such a number; says whether it was.
pub(super) fn evaluate(array: &Array) -> Result<bool> {
    if !array.shape().is_empty() || !matches!(array.dtype(), DType::F64 | DType::Bool) {
        return Ok(false);
    }
    let Some(chain) = chain(array) else {
        return Ok(false);
    };
    let mut uses: FastMap<u64, usize> = FastMap::default();
    for pending in &chain {
        for input in &pending.inputs {
            // Once in the graph, once in the chain.
            *uses.entry(input.id()).or_default() += 2;
        }
    }
    let mut known: FastMap<u64, u64> = FastMap::default();
    for pending in &chain {
        let mut args = [0u64; 3];
        for (arg, input) in args.iter_mut().zip(&pending.inputs) {
            match known.get(&input.id()).copied().or_else(|| bits(input)) {
                Some(bits) => *arg = bits,
                None => return Ok(false),
            }
        }
        let dtype = pending.inputs[pending.inputs.len() - 1].dtype();
        let Some(out) = kernels::number(pending.lane, dtype, args) else {
            return Ok(false);
        };
        known.insert(pending.array.id(), out);
    }
    note(|counts| {
        counts.runs += 1;
        for pending in &chain {
            counts.add_equations(&[(pending.prim, 1)]);
        }
    });
    for pending in &chain {
        let id = pending.array.id();
        // What nobody else holds nobody else can ask for.
        let is_shared =
            Shared::strong_count(&pending.array.0) > uses.get(&id).copied().unwrap_or(0) + 1;
        if id == array.id() || is_shared {
            let value = match pending.array.dtype() {
                DType::Bool => Value::scalar(known[&id] != 0)?,
                _ => Value::scalar(f64::from_bits(known[&id]))?,
            };
            pending.array.0.set_value(value);
        }
    }
    Ok(true)
}

/// The operations behind a number that are still to be done, in order; none if there is one of another
/// kind among them, or too many.
fn chain(array: &Array) -> Option<Vec<Pending>> {
    let mut chain: Vec<Pending> = Vec::new();
    let mut seen: SmallVec<[u64; MANY]> = SmallVec::new();
    let mut work: SmallVec<[Array; 16]> = SmallVec::new();
    seen.push(array.id());
    work.push(array.clone());
    while let Some(array) = work.pop() {
        let Op::Prim(prim) = array.0.op else {
            return None;
        };
        let lane = prim.lane().filter(|_| prim.is_elementwise())?;
        let inputs = array.0.inputs();
        // Somebody else may have computed it in the meantime; then it has no inputs.
        if inputs.is_empty() || chain.len() == MANY {
            return None;
        }
        for input in &inputs {
            let fits =
                input.shape().is_empty() && matches!(input.dtype(), DType::F64 | DType::Bool);
            if !fits {
                return None;
            }
            let is_new = bits(input).is_none() && !seen.contains(&input.id());
            if is_new {
                seen.push(input.id());
                work.push(input.clone());
            }
        }
        chain.push(Pending {
            array,
            prim,
            lane,
            inputs,
        });
    }
    // Inputs were made before what is made of them.
    chain.sort_unstable_by_key(|p| p.array.id());
    Some(chain)
}

/// The bits of a number that is known.
fn bits(array: &Array) -> Option<u64> {
    if let Some(value) = array.value() {
        let z = value.item()?;
        return Some(match array.dtype() {
            DType::Bool => u64::from(z.re != 0.0),
            _ => z.re.to_bits(),
        });
    }
    let number = match (&array.0.op, array.dtype()) {
        (Op::Number(Number::Int(n)), DType::F64) => *n as f64,
        (Op::Number(number), DType::F64) => number.as_f64()?,
        (Op::Prim(_), DType::F64) => array.literal()?,
        _ => return None,
    };
    Some(number.to_bits())
}

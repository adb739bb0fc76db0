//! Numbers that somebody looks at: a short chain of operations on floats is computed where it stands. To close
//! it into a program, to plan and to run that would take a hundred times as long.

use smallvec::SmallVec;

use super::Array;
use crate::aval::DType;
use crate::error::Result;
use crate::kernels::{self, LaneOp, Value};
use crate::ops;
use crate::prim::{Params, Prim};
use crate::sched::note;
use crate::tape::node::{Number, Op, Shared};

/// Longer chains are worth a program.
const MANY: usize = 64;

/// An operation that is waiting, in a chain.
struct Pending {
    array: Array,
    prim: Prim,
    lane: LaneOp,
    inputs: SmallVec<[Array; 2]>,
    /// References to the array that the chain has: in the graph, and as inputs here.
    uses: usize,
    /// What it gives, as bits.
    out: u64,
}

type Chain = SmallVec<[Pending; 8]>;

/// Computes an array if it is such a number; says whether it was.
pub(super) fn evaluate(array: &Array) -> Result<bool> {
    if !array.shape().is_empty() || !is_number(array.dtype()) {
        return Ok(false);
    }
    let Some(mut chain) = chain(array) else {
        return Ok(false);
    };
    for i in 0..chain.len() {
        let (before, rest) = chain.split_at_mut(i);
        let pending = &mut rest[0];
        let mut args = [0u64; 3];
        for (arg, input) in args.iter_mut().zip(&pending.inputs) {
            *arg = if let Ok(at) = before.binary_search_by_key(&input.id(), |p| p.array.id()) {
                before[at].uses += 2;
                before[at].out
            } else if let Some(bits) = bits(input) {
                bits
            } else {
                return Ok(false);
            };
        }
        let dtype = pending.inputs[pending.inputs.len() - 1].dtype();
        let Some(out) = kernels::number(pending.lane, dtype, args) else {
            return Ok(false);
        };
        pending.out = out;
    }
    note(|counts| {
        counts.runs += 1;
        for pending in &chain {
            counts.add_equations(&[(pending.prim, 1)]);
        }
    });
    for pending in &chain {
        // What nobody else holds nobody else can ask for.
        let is_shared = Shared::strong_count(&pending.array.0) > pending.uses + 1;
        if pending.array.id() == array.id() || is_shared {
            let value = match pending.array.dtype() {
                DType::Bool => Value::scalar(pending.out != 0)?,
                DType::F32 => Value::scalar(f32::from_bits(pending.out as u32))?,
                _ => Value::scalar(f64::from_bits(pending.out))?,
            };
            pending.array.0.set_value(value);
        }
    }
    Ok(true)
}

/// Whether numbers of this dtype are computed here.
fn is_number(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::Bool)
}

/// The operations behind a number that are still to be done, in order; none if there is one of another
/// kind among them, or too many.
fn chain(array: &Array) -> Option<Chain> {
    let mut chain = Chain::new();
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
            if !(input.shape().is_empty() && is_number(input.dtype())) {
                return None;
            }
            let is_new = !seen.contains(&input.id()) && bits(input).is_none();
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
            uses: 0,
            out: 0,
        });
    }
    // Inputs were made before what is made of them.
    chain.sort_unstable_by_key(|p| p.array.id());
    Some(chain)
}

/// The bits of a number that is known, or an element of an array that is.
fn bits(array: &Array) -> Option<u64> {
    if let Some(value) = array.value() {
        return bits_of(value);
    }
    let dtype = array.dtype();
    let number = match &array.0.op {
        Op::Number(Number::Int(n)) => *n as f64,
        Op::Number(number) => number.as_f64()?,
        // The leaf of a recording is a copy of its input.
        Op::Leaf => return bits(array.0.inputs().first()?),
        Op::Prim(prim) if *prim == ops::RESHAPE => {
            return bits_of_element(array.0.inputs().first()?);
        }
        Op::Prim(_) => array.literal()?,
        _ => return None,
    };
    match dtype {
        DType::F64 => Some(number.to_bits()),
        DType::F32 => Some(u64::from((number as f32).to_bits())),
        _ => None,
    }
}

/// The bits of `x[i, j]`: a slice of one element, whose axes are taken away.
fn bits_of_element(slice: &Array) -> Option<u64> {
    if let Some(value) = slice.value() {
        return bits_of(value);
    }
    let (Op::Prim(prim), Some(Params::Slice(dims))) = (&slice.0.op, slice.0.params.as_deref())
    else {
        return None;
    };
    if *prim != ops::SLICE {
        return None;
    }
    let inputs = slice.0.inputs();
    bits_of(&inputs.first()?.value()?.sliced(dims))
}

/// The bits of the only element.
fn bits_of(value: &Value) -> Option<u64> {
    let number = value.item()?.re;
    Some(match value.aval().dtype {
        DType::Bool => u64::from(number != 0.0),
        DType::F32 => u64::from((number as f32).to_bits()),
        DType::F64 => number.to_bits(),
        _ => return None,
    })
}

//! Finds captured arrays that hold the same, so that they are one input of a program.
//!
//! Problem: anybody may write to a captured array, so it is copied wherever it is used. A matrix that a loop reads in
//! each turn would be an input for each turn: memory, and turns that are not alike.

use std::hash::{Hash, Hasher};

use super::Array;
use super::node::Op;
use crate::kernels::Value;
use crate::util::{FastHasher, FastMap};

/// Arrays of more bytes are the same only where they are the same memory.
const COMPARED: usize = 4 << 10;

/// Captured arrays that are inputs already.
#[derive(Default)]
pub(super) struct SameValues(FastMap<u64, Vec<(Value, usize)>>);

impl SameValues {
    /// The number that was given to an array with the same elements, which lie in the same order; else this one is
    /// remembered with its number.
    pub fn number(&mut self, array: &Array, number: usize) -> usize {
        let is_captured = matches!(array.0.op, Op::Known) && array.tag() == 0;
        let Some(value) = array.value().filter(|_| is_captured) else {
            return number;
        };
        let storage = value.storage();
        if value.is_remote() || storage.is_borrowed() || storage.is_placed() {
            return number;
        }
        let alike = self.0.entry(hash(value)).or_default();
        if let Some((_, known)) = alike.iter().find(|(known, _)| are_same(known, value)) {
            return *known;
        }
        alike.push((value.clone(), number));
        number
    }
}

/// The elements of a value that are compared, as they lie in memory.
fn compared(value: &Value) -> Option<&[u8]> {
    let is_small = value.aval().nbytes() <= COMPARED;
    // Somebody else may write to foreign memory.
    value
        .stored()
        .filter(|_| is_small && !value.storage().is_foreign())
}

fn hash(value: &Value) -> u64 {
    let mut state = FastHasher::default();
    value.aval().hash(&mut state);
    match compared(value) {
        Some(bytes) => bytes.hash(&mut state),
        None => value.address().hash(&mut state),
    }
    state.finish()
}

fn are_same(a: &Value, b: &Value) -> bool {
    let are_alike = a.aval() == b.aval() && a.strides() == b.strides();
    are_alike
        && match (compared(a), compared(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a.address() == b.address(),
        }
}

//! Tells which nodes of the tape a walk has come to.

use super::Array;
use crate::util::FastMap;

/// Room for the nodes of the last recording.
const FEW: usize = 16;

/// Which nodes a walk has come to. Most of them were recorded shortly before the newest one: these are bits.
pub struct Seen {
    newest: u64,
    near: Vec<u64>,
    far: FastMap<u64, ()>,
}

impl Seen {
    /// For nodes that are no newer than these.
    pub fn below<'a>(arrays: impl Iterator<Item = &'a Array>) -> Seen {
        Seen {
            newest: arrays.map(Array::id).max().unwrap_or(0),
            near: vec![0; FEW],
            far: FastMap::default(),
        }
    }

    /// Whether a node is met for the first time.
    pub fn is_new(&mut self, array: &Array) -> bool {
        let age = self.newest.wrapping_sub(array.id());
        let (word, bit) = ((age / 64) as usize, 1 << (age % 64));
        // Bits grow with the walk; what lies far behind it does not make room for all between.
        if word >= self.near.len() && word < 2 * self.near.len() {
            self.near.resize(2 * self.near.len(), 0);
        }
        let Some(word) = self.near.get_mut(word) else {
            return self.far.insert(array.id(), ()).is_none();
        };
        let is_new =
            *word & bit == 0 && (self.far.is_empty() || !self.far.contains_key(&array.id()));
        *word |= bit;
        is_new
    }
}
